package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/bench"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload/protein/fold"
)

// settings are the runtime's options as flags: every key of weft.Options is one,
// and --config names a file with the same keys, which flags override.
type settings struct {
	config string
	given  []setting // in the order of the keys
}

// setting is a key and the value of its flag, "" if it was not given.
type setting struct {
	key   string
	value *string
}

// ownFlags are keys that have no flag: commands set them, as --trace FILE does.
var ownFlags = []string{"trace_events"}

// bind adds the flags of the keys in only to f, or all.
func (s *settings) bind(f *pflag.FlagSet, only ...string) {
	for _, k := range weft.Keys() {
		if slices.Contains(ownFlags, k.Name) || len(only) > 0 && !slices.Contains(only, k.Name) {
			continue
		}
		v := &keyFlag{key: k.Name}
		s.given = append(s.given, setting{k.Name, &v.value})
		short := ""
		if k.Name == "devices" {
			short = "d"
		}
		flag := f.VarPF(v, strings.ReplaceAll(k.Name, "_", "-"), short, k.Doc)
		switch k.Default {
		case "on", "off":
			v.toggle = true
			flag.DefValue = k.Default
		case "none": // help shows no default
		default:
			flag.DefValue = k.Default
		}
	}
	f.StringVar(&s.config, "config", "", "read these settings from a `file`, lines of key = value or JSON")
}

// keyFlag is the value of a flag for a key. Set checks the value, which is applied
// after the configuration file has been read.
type keyFlag struct {
	key, value string
	toggle     bool
}

func (v *keyFlag) String() string { return v.value }

// Type is the word that help shows for the value.
func (v *keyFlag) Type() string {
	if v.toggle {
		return terminal.SwitchType
	}
	return "value"
}

func (v *keyFlag) Set(text string) error {
	var scratch weft.Options
	if err := scratch.Set(v.key, text); err != nil {
		// The error begins with the flag and its value already.
		why := strings.TrimPrefix(err.Error(), weft.ErrOptions.Error()+": "+v.key+": ")
		return errors.New(strings.TrimPrefix(why, fmt.Sprintf("%s %q: ", v.key, text)))
	}
	v.value = text
	return nil
}

// options returns the options by the configuration file and the flags.
func (s *settings) options() (o weft.Options, err error) {
	if s.config != "" {
		if o, err = weft.LoadOptions(s.config); err != nil {
			return o, terminal.Usage(err)
		}
	}
	for _, g := range s.given {
		if *g.value == "" {
			continue
		}
		if err := o.Set(g.key, *g.value); err != nil {
			return o, terminal.Usage(err)
		}
	}
	return o, nil
}

// complete makes the values of the flags complete, on the command that has them.
func (s *settings) complete(c *cobra.Command) {
	values := map[string]func() []string{
		"devices": deviceNames, "policy": sched.Names, "partitioner": sched.PartitionerNames,
	}
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == terminal.SwitchType {
			values[f.Name] = func() []string { return []string{"off", "on"} }
		}
	})
	for name, values := range values {
		if c.Flag(name) == nil {
			continue
		}
		terminal.Complete(c, name, values)
	}
}

// deviceNames are ways to name devices, for completion. No device is opened, since
// completion must answer at once.
func deviceNames() []string {
	var out []string
	for _, name := range all.Names() {
		out = append(out, name, name+":0", name+"/2", name+"/4")
	}
	return out
}

// kernels returns all Go kernels.
func kernels() map[string]weft.Func {
	out := workloads.Funcs()
	maps.Copy(out, bench.Funcs())
	maps.Copy(out, fold.Funcs())
	return out
}

// open opens devices with all Go kernels. Warnings go to stderr. Options that cannot
// be followed are a usage error.
func open(ctx context.Context, o weft.Options, stderr io.Writer) (*weft.Runtime, error) {
	o.Funcs = kernels()
	o.Log = cmp.Or(o.Log, slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	rt, err := weft.Open(ctx, o)
	// Devices that are not here were a mistake to ask for; those that are and did not open were not.
	if errors.Is(err, weft.ErrOptions) || errors.Is(err, weft.ErrNoDevices) && o.Devices != "" && errors.Is(err, driver.ErrUnavailable) {
		return nil, terminal.Usage(err)
	}
	return rt, err
}
