package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/safefile"
)

// finding is the state of one thing.
type finding struct {
	What string `json:"what"` // a backend, or something the machine has
	OK   bool   `json:"ok"`
	Says string `json:"says"`
	Fix  string `json:"fix,omitempty"`
}

func newDoctor() *cobra.Command {
	var s settings
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say which backends work here, what is missing and how to fix it",
		Long: `Try every backend and look at what the machine allows: processors, memory, the
limits set for this process, the cache. Each line says how a thing stands, and
where something is missing the next one how to mend it. The exit status is 0
when at least one device works.`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := s.options()
			if err != nil {
				return err
			}
			found, works := tryBackends(c)
			found = append(found, examineHost(host.Read(), runtime.NumCPU())...)
			found = append(found, examineCache(o.CacheDir))
			err = terminal.Print(c, asJSON, found, func(b *bytes.Buffer) error {
				writeFindings(b, found)
				return nil
			})
			if err == nil && !works {
				err = errors.New("no device works here")
			}
			return err
		},
	}
	s.bind(c.Flags(), "cache_dir")
	c.Flags().BoolVar(&asJSON, "json", false, "write the findings as JSON")
	return c
}

// tryBackends opens every backend, and reports whether a device works.
func tryBackends(c *cobra.Command) (found []finding, works bool) {
	for _, d := range all.Drivers(all.Options{}) {
		name := d.Name()
		devs, err := d.Open(c.Context(), slog.New(slog.DiscardHandler))
		for _, dev := range devs {
			works = true
			found = append(found, finding{What: name, OK: true, Says: describeDevice(dev)})
			_ = dev.Close() // it did no work
		}
		var notes []driver.Finding
		if e, ok := d.(driver.Examiner); ok {
			notes = e.Examine()
		}
		explained := slices.ContainsFunc(notes, func(n driver.Finding) bool { return !n.OK })
		if len(devs) == 0 && !explained {
			f := finding{What: name, Says: "found no device", Fix: "nothing to do: work runs on the other devices"}
			if err != nil {
				f.Says = strings.TrimPrefix(terminal.OneLine(err.Error()), name+": ")
			}
			found = append(found, f)
		}
		for _, n := range notes {
			found = append(found, finding{What: name, OK: n.OK, Says: n.What + ": " + strings.TrimPrefix(n.Says, name+": "), Fix: n.Fix})
		}
	}
	return found, works
}

func describeDevice(d driver.Device) string {
	info := d.Info()
	text := fmt.Sprintf("%s: %s, %s", info.Name, info.Model, terminal.Count(info.ComputeUnits, "core"))
	if info.SIMDLanes > 0 {
		text += fmt.Sprintf(", %d float32 in a vector register", info.SIMDLanes)
	}
	if info.MemBytes > 0 {
		text += ", " + terminal.SI(float64(info.MemBytes), "B")
	}
	return text
}

// lockedWanted is the number of bytes of locked memory with which GPU backends copy at
// full speed: they lock the memory that they copy from in segments of about 1 GiB.
const lockedWanted = 1 << 30

// examineHost says which limits are too low for weft.
func examineHost(l host.Limits, cores int) []finding {
	out := []finding{{What: "go", OK: true, Says: host.Platform()}}
	cpu := finding{What: "cores", OK: true, Says: fmt.Sprintf("%s, no quota", terminal.Count(cores, "core"))}
	if l.Cores > 0 && l.Cores < float64(cores) {
		cpu.OK = false
		cpu.Says = fmt.Sprintf("%s, of which a quota leaves %.3g", terminal.Count(cores, "core"), l.Cores)
		cpu.Fix = "raise the CPU limit of the container or control group, or expect less speed than the cores promise"
	}
	out = append(out, cpu)
	if l.Memory > 0 {
		f := finding{What: "memory", OK: true, Says: fmt.Sprintf("%s, %s of it available", terminal.SI(float64(l.Memory), "B"), terminal.SI(float64(l.Available), "B"))}
		if l.Available < 1<<30 {
			f.OK, f.Fix = false, "end other programs, or raise the memory limit of the container: data lives in host memory first"
		}
		out = append(out, f)
	}
	switch l.HugePages {
	case "":
	case "never":
		out = append(out, finding{What: "pages", Says: "transparent huge pages are off", Fix: "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"})
	default:
		out = append(out, finding{What: "pages", OK: true, Says: "transparent huge pages: " + l.HugePages})
	}
	switch {
	case l.Locked == 0:
	case l.Locked < 0:
		out = append(out, finding{What: "memlock", OK: true, Says: "memory may be locked without limit"})
	case l.Locked < lockedWanted:
		out = append(out, finding{What: "memlock", Says: fmt.Sprintf("at most %s may be locked: copies to GPUs may be slower", terminal.SI(float64(l.Locked), "B")),
			Fix: "ulimit -l unlimited, or memlock in /etc/security/limits.conf; the CPU needs none"})
	default:
		out = append(out, finding{What: "memlock", OK: true, Says: terminal.SI(float64(l.Locked), "B") + " may be locked"})
	}
	return out
}

// examineCache tries to write a file to dir, where measurements are kept; "" is the
// user's cache.
func examineCache(dir string) finding {
	f := finding{What: "cache"}
	switch dir {
	case "off":
		f.OK, f.Says = true, "off: measurements are made anew each time"
		return f
	case "":
		var err error
		if dir, err = safefile.CacheFolder("weft"); err != nil {
			f.Says, f.Fix = err.Error(), "set HOME or XDG_CACHE_HOME, or name a folder with --cache-dir; measurements are made anew each time"
			return f
		}
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		var t *os.File
		if t, err = os.CreateTemp(dir, "doctor-*"); err == nil {
			t.Close()
			err = os.Remove(t.Name())
		}
	}
	if err != nil {
		f.Says, f.Fix = terminal.FileError(dir, err).Error(), "make it writable, or name another with --cache-dir; measurements are made anew each time"
		return f
	}
	f.OK, f.Says = true, dir
	return f
}

func writeFindings(b *bytes.Buffer, found []finding) {
	const indent = "               "
	put := func(head, text string) {
		lines := strings.Split(terminal.Wrap(text, terminal.Width-len(indent)), "\n")
		fmt.Fprintf(b, "%s%s\n", head, lines[0])
		for _, l := range lines[1:] {
			fmt.Fprintf(b, "%s%s\n", indent, l)
		}
	}
	for _, f := range found {
		mark := "ok"
		if !f.OK {
			mark = "--"
		}
		put(fmt.Sprintf("%s  %-10s ", mark, f.What), f.Says)
		if f.Fix != "" {
			put(indent, "fix: "+f.Fix)
		}
	}
}
