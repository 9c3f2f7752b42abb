package fold

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrFew says that there are too few samples for what is asked of them.
var ErrFew = errors.New("too few samples")

// whamBins is into how many bins energies are counted.
const whamBins = 200

// Heat is the heat capacity of the model by temperature: that of the potential energy, to
// which the motion adds 3/2 for each bead.
type Heat struct {
	Temperatures []float64 `json:"temperatures"`
	Capacity     []float64 `json:"capacity"`
	// Melting is the temperature where it is largest, and Error the standard error of that, by
	// leaving out a fifth of the time after the other.
	Melting float64 `json:"melting"`
	Error   float64 `json:"error"`
	// Edge says that it is largest at an end of the ladder, beyond which it may be larger.
	Edge bool `json:"edge,omitempty"`
}

// heatParts is into how many parts of the time samples are cut to estimate an error.
const heatParts = 5

// Heat is the heat capacity between the ends of the ladder, from the second half of the
// rounds, by the weighted histogram analysis method (Kumar and others, J. Comput. Chem. 13,
// 1011, 1992). It returns ErrFew for fewer than three temperatures or some ten rounds.
func (r *Run) Heat() (*Heat, error) {
	if !r.c.exchanges() || r.c.Replicas < 3 {
		return nil, fmt.Errorf("fold: the heat capacity needs three or more temperatures that replicas exchange: %w", ErrFew)
	}
	from := r.Rounds() / 2
	if r.Rounds()-from < 2*heatParts {
		return nil, fmt.Errorf("fold: the heat capacity needs %d rounds or more: %w", 4*heatParts, ErrFew)
	}
	// The energies of each rung by part of the time.
	parts := make([][][]float64, heatParts)
	for p := range parts {
		parts[p] = make([][]float64, r.c.Replicas)
		lo, hi := from+p*(r.Rounds()-from)/heatParts, from+(p+1)*(r.Rounds()-from)/heatParts
		for i := lo; i < hi; i++ {
			for k := range r.c.Replicas {
				at := i*r.c.Replicas + k
				rung := r.rungs[at]
				parts[p][rung] = append(parts[p][rung], r.seen[at*seenCount+seenEnergy])
			}
		}
	}
	return heat(parts, r.temperatures), nil
}

// heat is the heat capacity from energies by part of the time and rung.
func heat(parts [][][]float64, temperatures []float64) *Heat {
	without := func(out int) [][]float64 {
		all := make([][]float64, len(temperatures))
		for p, part := range parts {
			for k := range all {
				if p != out {
					all[k] = append(all[k], part[k]...)
				}
			}
		}
		return all
	}
	h := &Heat{}
	const points = 400
	low, high := temperatures[0], temperatures[len(temperatures)-1]
	for i := range points + 1 {
		h.Temperatures = append(h.Temperatures, low+(high-low)*float64(i)/points)
	}
	h.Capacity = capacity(without(-1), temperatures, h.Temperatures)
	peak := top(h.Capacity)
	h.Melting, h.Edge = h.Temperatures[peak], peak == 0 || peak == points
	mean, square := 0.0, 0.0
	for p := range parts {
		t := h.Temperatures[top(capacity(without(p), temperatures, h.Temperatures))]
		mean += t / float64(len(parts))
		square += t * t / float64(len(parts))
	}
	h.Error = math.Sqrt(max(square-mean*mean, 0) * float64(len(parts)-1))
	return h
}

// top is the place of the largest value.
func top(v []float64) int { return slices.Index(v, slices.Max(v)) }

// capacity is the heat capacity at some temperatures, from energies at others.
func capacity(energies [][]float64, temperatures, at []float64) []float64 {
	bins, logs := density(energies, temperatures)
	out := make([]float64, len(at))
	for i, t := range at {
		most := math.Inf(-1)
		for b, e := range bins {
			most = max(most, logs[b]-e/t)
		}
		var sum, first, second float64
		for b, e := range bins {
			w := math.Exp(logs[b] - e/t - most)
			sum += w
			first += w * e
			second += w * e * e
		}
		first /= sum
		out[i] = (second/sum - first*first) / (t * t)
	}
	return out
}

// density is the logarithm of the density of states, but for a constant, in bins of energy
// that have samples, by their middle.
func density(energies [][]float64, temperatures []float64) (bins, logs []float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, es := range energies {
		for _, e := range es {
			low, high = min(low, e), max(high, e)
		}
	}
	width := (high - low) / whamBins
	if width == 0 {
		width = 1
	}
	counts := make([]float64, whamBins)
	free := make([]float64, len(energies)) // of each rung, over its temperature
	last := 0.0
	for k, es := range energies {
		mean := 0.0
		for _, e := range es {
			counts[min(int((e-low)/width), whamBins-1)]++
			mean += e / float64(len(es))
		}
		if k > 0 { // integrated along the ladder, where the iteration begins
			free[k] = free[k-1] + (mean+last)/2*(1/temperatures[k]-1/temperatures[k-1])
		}
		last = mean
	}
	var many []float64
	for b, n := range counts {
		if n > 0 {
			bins, many = append(bins, low+(float64(b)+0.5)*width), append(many, n)
		}
	}
	logs = make([]float64, len(bins))
	for range 2000 {
		for b, e := range bins {
			most := math.Inf(-1)
			for k := range free {
				most = max(most, free[k]-e/temperatures[k])
			}
			sum := 0.0
			for k, es := range energies {
				sum += float64(len(es)) * math.Exp(free[k]-e/temperatures[k]-most)
			}
			logs[b] = math.Log(many[b]) - math.Log(sum) - most
		}
		moved, base := 0.0, 0.0
		for k, t := range temperatures {
			most, sum := math.Inf(-1), 0.0
			for b, e := range bins {
				most = max(most, logs[b]-e/t)
			}
			for b, e := range bins {
				sum += math.Exp(logs[b] - e/t - most)
			}
			next := -math.Log(sum) - most
			if k == 0 {
				base = next
			}
			moved = max(moved, math.Abs(next-base-free[k]))
			free[k] = next - base
		}
		if moved < 1e-7 {
			break
		}
	}
	return bins, logs
}
