package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

func newDevices() *cobra.Command {
	var o weft.Options
	var asJSON bool
	c := &cobra.Command{
		Use:   "devices",
		Short: "Show the devices of this machine",
		Long: `Show the devices of this machine and how they score. With --json the answer is a
machine file that weft sim takes. Rates are measured when the devices are opened,
or known from the last time.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			rt, err := openRuntime(c.Context(), o, c.ErrOrStderr())
			if err != nil {
				return err
			}
			defer rt.Close()
			return print(c, func(b *bytes.Buffer) error {
				if asJSON {
					_, err := b.Write(machine.Encode(rt.Machine()))
					return err
				}
				rows := [][]any{{"device", "kind", "cores", "lanes", "score", "fp32", "memory", "launch", "model"}}
				for _, d := range rt.Devices() {
					r := d.Rates
					rows = append(rows, []any{
						d.Name, d.Kind, d.ComputeUnits, d.SIMDLanes, fmt.Sprintf("%.1f", d.Score),
						perSecond(r.Ops[graph.FP32], "FLOP"), perSecond(r.MemoryBPS, "B"), short(time.Duration(r.LaunchNS)), d.Model,
					})
				}
				writeTable(b, rows)
				return nil
			})
		},
	}
	runtimeFlags(c.Flags(), &o)
	c.Flags().BoolVar(&asJSON, "json", false, "write a machine file")
	return c
}

// perSecond writes a measured rate.
func perSecond(x float64, unit string) string {
	switch {
	case x == 0:
		return "not measured"
	case x >= 1e12:
		return fmt.Sprintf("%.1f T%s/s", x/1e12, unit)
	}
	return fmt.Sprintf("%.1f G%s/s", x/1e9, unit)
}

// finding is what doctor found out about one thing.
type finding struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Says string `json:"says"`
	Fix  string `json:"fix,omitempty"`
}

func newDoctor() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say which backends work here, what is missing and how to fix it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			found := diagnose(c)
			return print(c, func(b *bytes.Buffer) error {
				if asJSON {
					enc := json.NewEncoder(b)
					enc.SetIndent("", "  ")
					return enc.Encode(found)
				}
				for _, f := range found {
					mark := "ok  "
					if !f.OK {
						mark = "none"
					}
					fmt.Fprintf(b, "%s  %-8s %s\n", mark, f.What, f.Says)
					if f.Fix != "" {
						fmt.Fprintf(b, "                %s\n", f.Fix)
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write the findings as JSON")
	return c
}

func diagnose(c *cobra.Command) []finding {
	out := []finding{{What: "go", OK: true, Says: runtime.Version() + " on " + runtime.GOOS + "/" + runtime.GOARCH}}
	rt, err := openRuntime(c.Context(), weft.Options{}, c.ErrOrStderr())
	if err != nil {
		return append(out, finding{What: "cpu", Says: err.Error(), Fix: "this should not happen: please report it"})
	}
	defer rt.Close()
	for _, d := range rt.Devices() {
		says := fmt.Sprintf("%s: %s, %s, %d float32 in a vector register", d.Name, d.Model, count(d.ComputeUnits, "core"), d.SIMDLanes)
		out = append(out, finding{What: d.Backend, OK: true, Says: says})
	}
	for _, b := range []string{"cuda", "vulkan"} {
		out = append(out, finding{What: b, Says: "this version of weft has no such backend yet", Fix: "work runs on the CPU; weft sim shows what it would do on GPUs"})
	}
	return out
}
