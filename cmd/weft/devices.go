package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/machine"
)

// deviceKeys are the settings that choose devices.
var deviceKeys = []string{"devices", "max_devices", "streams", "cache_dir"}

func newDevices() *cobra.Command {
	var s settings
	var r remote
	var asJSON, health bool
	c := &cobra.Command{
		Use:   "devices",
		Short: "Show the devices of this machine and the links between them",
		Long: `Show the devices of this machine, the best first: kind, measured rates, speed
relative to the fastest (or the score, unless all were measured), architecture,
model and condition as far as they report it, the links data travels by, and
which way they run kernels fastest, as far as earlier runs found out. With
--json the answer is a machine file, which weft sim takes; with --health --json
it has all that is known of their condition.

With --server it shows the devices of a running weft serve, which the commands
below take out of service, put back and swap while it answers.`,
		Example: `  weft devices
  weft devices --health --json
  weft devices --devices cpu/4
  weft devices --json > here.json && weft sim here.json skewed
  weft devices --server http://127.0.0.1:8000
  weft devices swap cuda:0 cuda:1 --server http://127.0.0.1:8000`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if r.server != "" {
				if err := r.alone(c); err != nil {
					return err
				}
				r.asJSON = asJSON
				return r.list(c)
			}
			if r.tokenFile != "" || r.trustedBy != "" {
				return terminal.Usagef("--token-file and --ca-file are for a service; name it by --server")
			}
			o, err := s.options()
			if err != nil {
				return err
			}
			rt, err := open(c.Context(), o, c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer rt.Close()
			rows := healthOf(c.Context(), rt)
			out := machine.Encode(rt.Machine())
			if health {
				if out, err = encodeHealth(rows); err != nil {
					return err
				}
			}
			return terminal.Print(c, asJSON, out, func(b *bytes.Buffer) error {
				if !health {
					writeHere(b, rt.Machine())
				}
				writeHealth(b, byMerit(rows, rt.Machine()))
				if health {
					return nil
				}
				writeTuning(b, rt.Tuning())
				return nil
			})
		},
	}
	s.bind(c.Flags(), deviceKeys...)
	s.complete(c)
	r.bind(c.Flags(), "")
	c.AddCommand(newRemoteActions()...)
	c.Flags().BoolVar(&health, "health", false, "show nothing but the condition of the devices")
	c.Flags().BoolVar(&asJSON, "json", false, "write a machine file, or with --health the condition")
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
		fmt.Fprintln(b, terminal.Wrap(fmt.Sprintf("%s compute on the same %s: each is faster alone than while others compute", strings.Join(users, ", "), terminal.Count(c.Cores, "core")), terminal.Width))
	}
	for i := range m.Devices {
		if r := &m.Devices[i].Rates; r.MemoryBPS == 0 || r.LaunchNS == 0 {
			fmt.Fprintln(b, "\n- was not measured")
			return
		}
	}
}
