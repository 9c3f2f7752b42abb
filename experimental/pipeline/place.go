package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-run/weft/internal/text"
)

// Mode is the way to spread the steps of a program over devices.
type Mode string

const (
	// DataParallel gives every device all steps and some of the items.
	DataParallel Mode = "data"
	// PipelineParallel gives every device some of the steps and all items.
	PipelineParallel Mode = "pipeline"
	// Hybrid makes several pipelines, each of some devices with some of the
	// items.
	Hybrid Mode = "hybrid"
)

// ParseMode returns the mode of a name.
func ParseMode(s string) (Mode, error) {
	modes := []Mode{DataParallel, PipelineParallel, Hybrid}
	if m := Mode(s); slices.Contains(modes, m) {
		return m, nil
	}
	return "", fmt.Errorf("%w: no mode %q; use %s, %s or %s", ErrStages, s, modes[0], modes[1], modes[2])
}

// Placement says which devices do what: the items are dealt out to its copies of
// the program, and Step s of copy c runs on any of Copies[c][s].
type Placement struct {
	Copies [][][]string
}

// Place spreads a program's steps over devices. costs are what the steps take,
// in any unit; devices are taken as equally fast. copies is the number of
// pipelines of mode Hybrid, or 0 for the number that is predicted to have the
// highest rate, of equals the fewest.
func Place(mode Mode, devices []string, costs []float64, copies int) (Placement, error) {
	if len(devices) == 0 || len(costs) == 0 {
		return Placement{}, fmt.Errorf("%w: %s on %s: there must be one at least of each", ErrStages, text.Count(len(costs), "step"), text.Count(len(devices), "device"))
	}
	for s, c := range costs {
		if !(c >= 0) {
			return Placement{}, fmt.Errorf("%w: step %d costs %v: use 0 or more", ErrStages, s, c)
		}
	}
	if _, err := ParseMode(string(mode)); err != nil {
		return Placement{}, err
	}
	if copies != 0 && mode != Hybrid {
		return Placement{}, fmt.Errorf("%w: %s in mode %s: only mode %s has copies", ErrStages, text.Count(copies, "copy"), mode, Hybrid)
	}
	if copies < 0 || copies > len(devices) {
		return Placement{}, fmt.Errorf("%w: %s on %s: there must be 1 to %d, or 0 for a good choice", ErrStages, text.Count(copies, "copy"), text.Count(len(devices), "device"), len(devices))
	}
	switch {
	case mode == DataParallel:
		copies = len(devices)
	case mode == PipelineParallel:
		copies = 1
	case copies == 0:
		copies = bestCopies(devices, costs)
	}
	return place(devices, costs, copies), nil
}

// place makes copies of the program, each on devices that follow one another.
func place(devices []string, costs []float64, copies int) Placement {
	var p Placement
	for c := range copies {
		own := devices[c*len(devices)/copies : (c+1)*len(devices)/copies]
		p.Copies = append(p.Copies, spread(own, costs))
	}
	return p
}

// bestCopies is the number of copies with the highest predicted rate.
func bestCopies(devices []string, costs []float64) int {
	best, rate := 1, 0.
	for n := 1; n <= len(devices); n++ {
		p := place(devices, costs, n)
		if r := p.Rate(costs); r > rate*(1+1e-9) {
			best, rate = n, r
		}
	}
	return best
}

// spread gives steps to devices in a row. With no more devices than steps, each
// device gets some steps in a row so that the most any has is least; with more,
// those left go one by one to the step that has most to do for each device.
func spread(devices []string, costs []float64) [][]string {
	out := make([][]string, len(costs))
	if len(devices) <= len(costs) {
		for d, g := range groups(costs, len(devices)) {
			for s := g[0]; s < g[1]; s++ {
				out[s] = devices[d : d+1]
			}
		}
		return out
	}
	count := make([]int, len(costs))
	for s := range count {
		count[s] = 1
	}
	for range len(devices) - len(costs) {
		most := 0
		for s := range costs {
			if costs[s]*float64(count[most]) > costs[most]*float64(count[s]) {
				most = s
			}
		}
		count[most]++
	}
	at := 0
	for s, n := range count {
		out[s] = devices[at : at+n]
		at += n
	}
	return out
}

// groups cuts costs into n runs, none empty, so that the sum of the largest is
// least. best[k][i] is that sum for the first i steps in k runs.
func groups(costs []float64, n int) [][2]int {
	sums := make([]float64, len(costs)+1)
	for i, c := range costs {
		sums[i+1] = sums[i] + c
	}
	type cell struct {
		sum  float64
		from int
	}
	best := make([][]cell, n+1)
	for k := 1; k <= n; k++ {
		best[k] = make([]cell, len(costs)+1)
		for i := k; i <= len(costs); i++ {
			if k == 1 {
				best[k][i] = cell{sums[i], 0}
				continue
			}
			for from := k - 1; from < i; from++ {
				sum := max(best[k-1][from].sum, sums[i]-sums[from])
				if from == k-1 || sum < best[k][i].sum {
					best[k][i] = cell{sum, from}
				}
			}
		}
	}
	out := make([][2]int, n)
	hi := len(costs)
	for k := n; k >= 1; k-- {
		lo := best[k][hi].from
		out[k-1] = [2]int{lo, hi}
		hi = lo
	}
	return out
}

// Rate returns the number of items that the placement finishes in the time of one
// unit of cost when no device waits: the sum over its copies of 1 ÷ the cost of an
// item on the busiest device.
func (p *Placement) Rate(costs []float64) float64 {
	total := 0.
	for _, steps := range p.Copies {
		load := make(map[string]float64)
		most := 0.
		for s, devices := range steps {
			for _, d := range devices {
				load[d] += costs[s] / float64(len(devices))
				most = max(most, load[d])
			}
		}
		if most > 0 {
			total += 1 / most
		}
	}
	return total
}

// Bubble is the part of their time that S equal steps are idle at least when m
// items go through them: (S-1)/(S-1+m), since the last must wait for the first
// item and the first for the last.
func Bubble(steps, items int) float64 {
	if steps < 1 || items < 0 || steps+items == 1 {
		return 0
	}
	return float64(steps-1) / float64(steps-1+items)
}

// String says which devices do what, a copy a line.
func (p Placement) String() string {
	var b strings.Builder
	for c, steps := range p.Copies {
		names := make([]string, len(steps))
		for s, devices := range steps {
			names[s] = strings.Join(devices, "+")
		}
		fmt.Fprintf(&b, "copy %d: %s\n", c, strings.Join(names, " → "))
	}
	return b.String()
}
