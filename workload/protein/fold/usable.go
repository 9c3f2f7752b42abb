package fold

import (
	"fmt"
	"math"
)

const (
	// maxRungs is the number of rungs that the heat capacity is computed from: the time it
	// takes grows with them, and those in between add little.
	maxRungs = 128
	// maxEnergy is the largest energy that has any weight at a temperature.
	maxEnergy = 1e9
)

// usable drops energies of beads on top of each other, which may be infinite, and of more than
// maxRungs rungs all but maxRungs, keeping the ends. Energies are by part of the time and rung.
// It returns ErrFew for a rung without energies.
func usable(parts [][][]float64, temperatures []float64) ([][][]float64, []float64, error) {
	n := min(len(temperatures), maxRungs)
	at := make([]float64, n)
	out := make([][][]float64, len(parts))
	for k := range n {
		from, many := k*(len(temperatures)-1)/max(n-1, 1), 0
		at[k] = temperatures[from]
		for p, part := range parts {
			var es []float64
			for _, e := range part[from] {
				if math.Abs(e) <= maxEnergy {
					es = append(es, e)
				}
			}
			out[p] = append(out[p], es)
			many += len(es)
		}
		if many == 0 {
			return nil, nil, fmt.Errorf("fold: no energy at temperature %v is one of a chain: %w", at[k], ErrFew)
		}
	}
	return out, at, nil
}
