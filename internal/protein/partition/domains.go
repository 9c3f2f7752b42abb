package partition

import (
	"fmt"
	"math"
	"slices"

	"github.com/weft-run/weft/internal/protein/network"
)

// StructuralDomains divides a protein into domains, which move as one: it clusters residues by
// k-means in the space of its slowest modes, each divided by the square root of its eigenvalue.
// There must be at least as many modes as domains; no more are used. modes are those of a
// Gaussian network, as network.Matrix.Slowest or package elastic find them. Domains may be of
// any size, and their residues need not be next to each other in the chain. The order of domains
// is that of their first residues. A network in several pieces, which has a mode without cost,
// has no domains. The result depends only on the arguments.
func StructuralDomains(modes *network.Modes, domains int) (*Parts, error) {
	if len(modes.Vectors) == 0 || domains < 1 || domains > len(modes.Vectors[0]) {
		return nil, fmt.Errorf("partition: %d domains: %w: there must be one to the number of residues", domains, ErrPartition)
	}
	if len(modes.Vectors) < domains {
		return nil, fmt.Errorf("partition: %d modes for %d domains: %w: as many modes as domains are needed", len(modes.Vectors), domains, ErrPartition)
	}
	points := make([][]float64, len(modes.Vectors[0]))
	for k, v := range modes.Values[:domains] {
		// The eigenvalues of a connected graph are above 4 ÷ residues².
		if n := float64(len(points)); !(v > 1/(n*n)) || math.IsInf(v, 1) {
			return nil, fmt.Errorf("partition: mode %d has eigenvalue %.3g, so the network is in pieces: %w: raise the cutoff or take one chain", k, v, ErrPartition)
		}
	}
	for i := range points {
		for k := range domains {
			points[i] = append(points[i], modes.Vectors[k][i]/math.Sqrt(modes.Values[k]))
		}
	}
	var best []int
	least := math.Inf(1)
	// Every first centre there can be up to trials, the others as far away as possible.
	n := len(points)
	for t := range min(trials, n) {
		of, spread := cluster(points, farthest(points, t*n/min(trials, n), domains))
		if spread < least*(1-1e-9) {
			best, least = of, spread
		}
	}
	return numbered(best, domains), nil
}

// trials is the most first centres that are tried: each takes about a millisecond for 200
// residues.
const trials = 256

// farthest returns centres beginning with a point, each the point farthest from those before.
func farthest(points [][]float64, first, count int) [][]float64 {
	centres := [][]float64{slices.Clone(points[first])}
	for len(centres) < count {
		far, at := -1.0, 0
		for i, p := range points {
			near := math.Inf(1)
			for _, c := range centres {
				near = min(near, apart(p, c))
			}
			if near > far {
				far, at = near, i
			}
		}
		centres = append(centres, slices.Clone(points[at]))
	}
	return centres
}

// apart is the square of the distance of two points.
func apart(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		d := v - b[i]
		sum += float64(d * d)
	}
	return sum
}

// cluster is Lloyd's algorithm: it returns to which centre each point belongs in the end, and
// the sum of squared distances from the centres. A centre without points stays where it is.
func cluster(points, centres [][]float64) (of []int, spread float64) {
	of = slices.Repeat([]int{-1}, len(points))
	for range 1000 {
		moved := false
		spread = 0
		for i, p := range points {
			best, least := 0, math.Inf(1)
			for k, c := range centres {
				if d := apart(p, c); d < least {
					best, least = k, d
				}
			}
			moved = moved || of[i] != best
			of[i] = best
			spread += least
		}
		if !moved {
			break
		}
		counts := make([]float64, len(centres))
		for i := range points {
			counts[of[i]]++
		}
		for k, c := range centres {
			if counts[k] > 0 {
				clear(c)
			}
		}
		for i, p := range points {
			for d, v := range p {
				centres[of[i]][d] += v / counts[of[i]]
			}
		}
	}
	return of, spread
}

// numbered returns parts in the order of their first residues. Parts without residues come last.
func numbered(of []int, count int) *Parts {
	number := make(map[int]int)
	out := &Parts{Count: count}
	for _, part := range of {
		if _, ok := number[part]; !ok {
			number[part] = len(number)
		}
		out.Of = append(out.Of, number[part])
	}
	return out
}
