package terminal

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// MaxRows is the most rows that reports put into one table; --json has the others.
const MaxRows = 32

// Table aligns rows of equal length, the first column to the left and the others
// to the right.
func Table(w io.Writer, rows [][]any) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(fmt.Sprint(cell)))
		}
	}
	for _, row := range rows {
		line := fmt.Sprintf("%-*v", widths[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*v", widths[i+1], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// Models names the devices of a machine by model, with a number where several are
// equal.
func Models(m *machine.Machine) string {
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

// ranked returns the positions of merits, the highest first; equals stay in their order.
func ranked(merits []float64) []int {
	order := make([]int, len(merits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(merits[b], merits[a]) })
	return order
}

// Machine writes the tables of a machine's devices, the best first, and links. Devices
// are compared by their measured speed, as a share of the fastest, or by their score as
// long as not all are measured.
func Machine(w io.Writer, m *machine.Machine) {
	head := m.Name + ": " + Models(m)
	if m.HostBytes > 0 {
		head += ", host memory " + SI(float64(m.HostBytes), "B")
	}
	fmt.Fprintf(w, "%s\n\n", Wrap(head, Width))
	merits, measured := machine.Merits(m.Devices)
	last := "score"
	if measured {
		last = "speed"
	}
	rows := [][]any{{"device", "kind", "cores", "memory", "fp32", "bandwidth", "launch", last}}
	order := ranked(merits)
	for _, i := range order {
		d := &m.Devices[i]
		merit := fmt.Sprintf("%.0f", merits[i])
		if measured { // of the fastest
			merit = fmt.Sprintf("%.3g %%", 100*merits[i]/merits[order[0]])
		}
		memory := SI(float64(d.MemBytes), "B")
		if d.HostMemory && d.MemBytes == 0 {
			memory = "host"
		}
		launch := "-"
		if d.Rates.LaunchNS > 0 {
			launch = Short(time.Duration(d.Rates.LaunchNS))
		}
		rows = append(rows, []any{d.Name, d.Kind, d.ComputeUnits, memory,
			SI(d.Rates.Ops[graph.FP32], "FLOP/s"), SI(d.Rates.MemoryBPS, "B/s"),
			launch, merit})
	}
	Table(w, rows)
	if len(m.Links) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows = [][]any{{"link", "kind", "rate", "latency"}}
	for i := range m.Links {
		l := &m.Links[i]
		rows = append(rows, []any{m.DeviceName(l.A) + " - " + m.DeviceName(l.B), l.Kind,
			SI(l.BPS, "B/s"), Short(time.Duration(l.LatencyNS))})
	}
	Table(w, rows)
}
