package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/machine"
)

// healthRow is the condition of a device. Fields that are nil are not known.
type healthRow struct {
	Name  string `json:"name"`
	Model string `json:"model"`
	Arch  string `json:"arch"`
	State string `json:"state"`
	condition
	Tasks       int64    `json:"tasks"`
	Failed      int64    `json:"failed"`
	Failures    int      `json:"failures_in_a_row"`
	LastSuccess *float64 `json:"last_success_seconds"` // since the devices were opened, as the next
	LastSample  *float64 `json:"last_sample_seconds"`
	LastError   string   `json:"last_error"`
}

// condition holds the figures that a device reports: temperature, power, memory.
type condition struct {
	Util      *float64 `json:"utilisation"`
	TempC     *float64 `json:"temperature_celsius"`
	PowerW    *float64 `json:"power_watts"`
	ClockMHz  *float64 `json:"clock_mhz"`
	MemUsed   *int64   `json:"memory_used_bytes"` // by all programs
	MemBytes  *int64   `json:"memory_bytes"`
	MemErrors *int64   `json:"memory_errors"`
}

// known returns a number that is known, nil otherwise.
func known[T int64 | float64](x T) *T {
	if x < 0 {
		return nil
	}
	return &x
}

// conditionOf returns the measured condition of a device.
func conditionOf(h *weft.Health) condition {
	return condition{
		Util: known(h.Util), TempC: known(h.TempC), PowerW: known(h.PowerW), ClockMHz: known(h.ClockMHz),
		MemUsed: known(h.MemUsed), MemBytes: known(h.MemBytes), MemErrors: known(h.MemErrors),
	}
}

// probeWait limits the wait for a sample of one device. The vendor's library may hang, and the
// other devices are shown all the same.
const probeWait = 2 * time.Second

// healthOf samples the devices of a runtime and returns their condition.
func healthOf(ctx context.Context, rt *weft.Runtime) []healthRow {
	out := make([]healthRow, len(rt.Machine().Devices))
	for i, d := range rt.Machine().Devices {
		within, cancel := context.WithTimeout(ctx, probeWait)
		m, err := rt.Probe(within, d.Name)
		cancel()
		if err != nil {
			m = rt.Metrics().Devices[i]
			m.LastError = err.Error()
		}
		out[i] = healthRow{
			Name: d.Name, Model: d.Model, Arch: d.Arch, State: m.State, condition: conditionOf(&m.Health),
			Tasks: m.Tasks, Failed: m.Failed, Failures: m.Failures, LastError: m.LastError,
		}
		if m.LastSuccess > 0 {
			out[i].LastSuccess = known(m.LastSuccess.Seconds())
		}
		if m.Health.Sampled > 0 {
			out[i].LastSample = known(m.Health.Sampled.Seconds())
		}
	}
	return out
}

// encodeHealth writes rows as JSON.
func encodeHealth(rows []healthRow) ([]byte, error) { return json.MarshalIndent(rows, "", "  ") }

// writeHealth shows rows in the order of the devices' merit, with the columns that are known
// of one at least.
func writeHealth(b *bytes.Buffer, rows []healthRow) {
	columns := []struct {
		head string
		cell func(r *healthRow) string
	}{
		{"arch", func(r *healthRow) string { return r.Arch }},
		{"model", func(r *healthRow) string { return r.Model }},
		{"state", func(r *healthRow) string { return r.State }},
		{"temp", func(r *healthRow) string { return cell(r.TempC, "%.0f °C") }},
		{"power", func(r *healthRow) string { return cell(r.PowerW, "%.0f W") }},
		{"clock", func(r *healthRow) string { return cell(r.ClockMHz, "%.0f MHz") }},
		{"used", func(r *healthRow) string {
			if r.MemUsed == nil {
				return ""
			}
			return terminal.SI(float64(*r.MemUsed), "B")
		}},
		{"busy", func(r *healthRow) string {
			if r.Util == nil || r.TempC == nil && r.PowerW == nil && r.ClockMHz == nil { // it is our own measure
				return ""
			}
			return terminal.Percent(*r.Util)
		}},
		{"errors", func(r *healthRow) string { return cell(r.MemErrors, "%d") }},
	}
	head, table := []any{"device"}, make([][]any, len(rows))
	for i := range rows {
		table[i] = []any{rows[i].Name}
	}
	for _, c := range columns {
		cells, any := make([]string, len(rows)), false
		for i := range rows {
			cells[i] = c.cell(&rows[i])
			any = any || cells[i] != ""
		}
		if !any {
			continue
		}
		head = append(head, c.head)
		for i, s := range cells {
			if s == "" {
				s = "-"
			}
			table[i] = append(table[i], s)
		}
	}
	fmt.Fprintln(b)
	terminal.Table(b, append([][]any{head}, table...))
}

// cell writes a number that is known, "" otherwise.
func cell[T int64 | float64](x *T, format string) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf(format, *x)
}

// byMerit orders rows as devices are shown, by their merit.
func byMerit(rows []healthRow, m *machine.Machine) []healthRow {
	merits, _ := machine.Merits(m.Devices)
	out := make([]healthRow, 0, len(rows))
	for _, i := range terminal.Ranked(merits) {
		out = append(out, rows[i])
	}
	return out
}

// writeCondition says how devices were at the end, where they report it, and what the last
// run took of energy.
func (r *liveReport) writeCondition(w io.Writer) {
	joules, tasks := 0.0, 0
	for _, d := range r.Devices {
		if d.EnergyJ > 0 {
			joules, tasks = joules+d.EnergyJ, tasks+d.Tasks
		}
		if d.Condition == nil {
			continue
		}
		var parts []string
		for _, s := range []string{cell(d.Condition.TempC, "%.0f °C"), cell(d.Condition.PowerW, "%.0f W"), cell(d.Condition.ClockMHz, "%.0f MHz")} {
			if s != "" {
				parts = append(parts, s)
			}
		}
		if len(parts) > 0 {
			fmt.Fprintf(w, "%s was at %s.\n", d.Name, strings.Join(parts, ", "))
		}
	}
	if joules > 0 {
		fmt.Fprintf(w, "It took about %s, %s for each task: an estimate from sampled power.\n", joule(joules), joule(joules/float64(max(tasks, 1))))
	}
}

// joule writes an amount of energy.
func joule(x float64) string {
	if x < 1 {
		return fmt.Sprintf("%.3g mJ", 1000*x)
	}
	return terminal.SI(x, "J")
}
