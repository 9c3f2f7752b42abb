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
// to the right. Each cell is made one line, so that text of others looks like no other row.
func Table(w io.Writer, rows [][]any) {
	widths := make([]int, len(rows[0]))
	table := make([][]string, len(rows))
	for at, row := range rows {
		for i, cell := range row {
			text := OneLine(fmt.Sprint(cell))
			table[at] = append(table[at], text)
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	for _, row := range table {
		line := fmt.Sprintf("%-*s", widths[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*s", widths[i+1], cell)
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

// Ranked returns the positions of merits, the highest first; equals stay in their order.
func Ranked(merits []float64) []int {
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
	fmt.Fprintf(w, "%s\n", Wrap(head, Width))
	equipment(w, m)
	fmt.Fprintln(w)
	merits, measured := machine.Merits(m.Devices)
	last := "score"
	if measured {
		last = "speed"
	}
	rows := [][]any{{"device", "kind", "cores", "memory", "fp32", "bandwidth", "launch", last}}
	order := Ranked(merits)
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

// equipment writes what is in a machine beside devices: storage, network and power.
func equipment(w io.Writer, m *machine.Machine) {
	list := func(title string, n int, entry func(i int) (name, model string, figures []string)) {
		for i := range n {
			name, model, figures := entry(i)
			if model != "" {
				figures = append([]string{model}, figures...)
			}
			line := title + " " + name
			if figures = slices.DeleteFunc(figures, func(s string) bool { return s == "-" }); len(figures) > 0 {
				line += ": " + strings.Join(figures, ", ")
			}
			fmt.Fprintln(w, Wrap(line, Width))
		}
	}
	list("storage", len(m.Storage), func(i int) (string, string, []string) {
		s := &m.Storage[i]
		return s.Name, s.Model, []string{SI(float64(s.Bytes), "B"), SI(s.BPS, "B/s")}
	})
	list("network", len(m.Network), func(i int) (string, string, []string) {
		n := &m.Network[i]
		return n.Name, n.Model, []string{SI(n.BPS, "B/s")}
	})
	if s := Power(m); s != "" {
		fmt.Fprintln(w, Wrap("power: "+s, Width))
	}
}

// Power says what a machine draws at full load, of what that is the sum, and whether its
// supply allows it; "" if no figure is known.
func Power(m *machine.Machine) string {
	all, whole := m.Watts()
	if all == 0 {
		return ""
	}
	most := ""
	if !whole {
		most = "at least "
	}
	out := fmt.Sprintf("%s%s at full load", most, SI(all, "W"))
	if devices := all - m.HostWatts; devices > 0 && m.HostWatts > 0 {
		out += fmt.Sprintf(" (devices %s, the rest %s)", SI(devices, "W"), SI(m.HostWatts, "W"))
	}
	switch {
	case m.BudgetWatts == 0:
	case all > m.BudgetWatts:
		out += fmt.Sprintf("; that is %s more than the budget of %s", SI(all-m.BudgetWatts, "W"), SI(m.BudgetWatts, "W"))
	default:
		out += fmt.Sprintf("; the budget is %s", SI(m.BudgetWatts, "W"))
	}
	return out
}
