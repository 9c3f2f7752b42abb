package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/machine"
)

// deviceKeys are the settings that choose devices.
var deviceKeys = []string{"devices", "max_devices", "streams", "cache_dir"}

func newDevices() *cobra.Command {
	var s settings
	var asJSON bool
	c := &cobra.Command{
		Use:   "devices",
		Short: "Show the devices of this machine and the links between them",
		Long: `Show the devices of this machine, the best first: what they are, what they were
measured at, how fast that makes them beside the fastest (or how they score,
unless all were measured), the links data travels by, and which way they run
kernels fastest, as far as earlier runs found out. With --json the answer is a
machine file, which weft sim takes.`,
		Example: `  weft devices
  weft devices --devices cpu/4
  weft devices --json > here.json && weft sim here.json skewed`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := s.options()
			if err != nil {
				return err
			}
			rt, err := open(c.Context(), o, c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer rt.Close()
			return terminal.Print(c, asJSON, machine.Encode(rt.Machine()), func(b *bytes.Buffer) error {
				writeHere(b, rt.Machine())
				writeTuning(b, rt.Tuning())
				return nil
			})
		},
	}
	s.bind(c.Flags(), deviceKeys...)
	s.complete(c)
	c.Flags().BoolVar(&asJSON, "json", false, "write a machine file")
	return c
}

// writeHere shows this machine.
func writeHere(b *bytes.Buffer, m *machine.Machine) {
	terminal.Machine(b, m)
	if len(m.Links) == 0 {
		fmt.Fprintln(b, "\nno links: every device works in host memory")
	}
	for _, r := range m.Resources {
		if r.Cores > 0 {
			continue
		}
		var users []string
		for i := range m.Devices {
			for _, name := range m.Devices[i].Resources {
				if name == r.Name {
					users = append(users, m.Devices[i].Name)
				}
			}
		}
		if len(users) > 1 {
			fmt.Fprintln(b, terminal.Wrap(fmt.Sprintf("%s share the %s", strings.Join(users, ", "), r.Name), terminal.Width))
		}
	}
	for _, c := range m.Crowds() {
		var users []string
		for _, d := range c.Devices {
			users = append(users, m.DeviceName(d))
		}
		fmt.Fprintln(b, terminal.Wrap(fmt.Sprintf("%s compute on the same %s: each alone is faster than beside others", strings.Join(users, ", "), terminal.Count(c.Cores, "core")), terminal.Width))
	}
	for i := range m.Devices {
		if r := &m.Devices[i].Rates; r.MemoryBPS == 0 || r.LaunchNS == 0 {
			fmt.Fprintln(b, "\n- was not measured")
			return
		}
	}
}
