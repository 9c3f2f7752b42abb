package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

func newMachines() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "machines [NAME|FILE]",
		Short: "Show described machines",
		Long: `List the machines that come with weft, or show one of them, or a machine file.
With --json a machine is printed in the format of machine files: begin your own
from one that is close.`,
		Example: `  weft machines
  weft machines mixed
  weft machines 8xh100 --json > mine.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("machines takes one name or file at most")
			}
			return nil
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, to string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeInputs(c, args, to)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return print(c, func(b *bytes.Buffer) error { return writeMachines(b, asJSON) })
			}
			m, err := loadMachine(args[0])
			if err != nil {
				return err
			}
			return print(c, func(b *bytes.Buffer) error {
				if asJSON {
					b.Write(machine.Encode(m))
					return nil
				}
				writeMachine(b, m)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of text")
	return c
}

func writeMachines(b *bytes.Buffer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(b).Encode(machine.Names())
	}
	for _, name := range machine.Names() {
		m, _ := machine.Named(name)
		fmt.Fprintf(b, "%-12s %s\n", name, devices(m))
	}
	return nil
}

// devices says what a machine has, equal models together.
func devices(m *machine.Machine) string {
	var models []string
	have := make(map[string]int)
	for i := range m.Devices {
		model := m.Devices[i].Model
		if model == "" {
			model = m.Devices[i].Kind.String()
		}
		if have[model]++; have[model] == 1 {
			models = append(models, model)
		}
	}
	for i, model := range models {
		if n := have[model]; n > 1 {
			models[i] = fmt.Sprintf("%d× %s", n, model)
		}
	}
	return strings.Join(models, ", ")
}

func writeMachine(b *bytes.Buffer, m *machine.Machine) {
	head := m.Name + ": " + devices(m)
	if m.HostBytes > 0 {
		head += ", host memory " + si(float64(m.HostBytes), "B")
	}
	fmt.Fprintf(b, "%s\n\n", wrap(head, defaultWidth))
	rows := [][]any{{"device", "kind", "cores", "memory", "fp32", "bandwidth", "launch", "score"}}
	for i := range m.Devices {
		d := &m.Devices[i]
		memory := si(float64(d.MemBytes), "B")
		if d.HostMemory && d.MemBytes == 0 {
			memory = "host"
		}
		launch := "-"
		if d.Rates.LaunchNS > 0 {
			launch = short(time.Duration(d.Rates.LaunchNS))
		}
		rows = append(rows, []any{d.Name, d.Kind, d.ComputeUnits, memory,
			si(d.Rates.Ops[graph.FP32], "FLOP/s"), si(d.Rates.MemoryBPS, "B/s"),
			launch, fmt.Sprintf("%.0f", machine.Score(d))})
	}
	writeTable(b, rows)
	if len(m.Links) == 0 {
		return
	}
	fmt.Fprintln(b)
	rows = [][]any{{"link", "kind", "rate", "latency"}}
	for i := range m.Links {
		l := &m.Links[i]
		rows = append(rows, []any{m.DeviceName(l.A) + " - " + m.DeviceName(l.B), l.Kind,
			si(l.BPS, "B/s"), short(time.Duration(l.LatencyNS))})
	}
	writeTable(b, rows)
}

// si writes a quantity in the largest unit it fills, "-" when it is not known.
func si(x float64, unit string) string {
	if x <= 0 {
		return "-"
	}
	prefix := ""
	for _, p := range []string{"k", "M", "G", "T", "P"} {
		if x < 1000 {
			break
		}
		x, prefix = x/1000, p
	}
	return fmt.Sprintf("%.4g %s%s", x, prefix, unit)
}
