package fold

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrFew is returned where there are too few samples for a result.
var ErrFew = errors.New("too few samples")

// whamBins is into how many bins energies are counted.
const whamBins = 200

// Heat is the heat capacity of the model by temperature: that of the potential energy, to
// which the motion adds 3/2 for each bead.
type Heat struct {
	Temperatures []float64 `json:"temperatures"`
	Capacity     []float64 `json:"capacity"`
	// Melting is the temperature where it is largest, and Error the standard error of that: the
	// larger of those by leaving out one block of the time after the other, and one replica after
	// the other.
	Melting float64 `json:"melting"`
	Error   float64 `json:"error"`
	// Discarded is the number of steps at the beginning that are left out, and Correlated that
	// over which the rest is correlated: samples so far apart are as good as independent. A block has
	// at least three times as many, unless Short.
	Discarded  int `json:"discarded_steps"`
	Correlated int `json:"correlated_steps"`
	Blocks     int `json:"blocks"`
	// Walks is the number of steps over which a replica by itself is correlated, on its way
	// through temperatures: it folds and unfolds no more often.
	Walks int `json:"walk_steps"`
	// Short says that the steps that are kept are not twice as many as Walks, or have no room for as
	// many blocks as an error needs: it may be larger.
	Short bool `json:"short,omitempty"`
	// Edge says that it is largest at an end of the ladder, beyond which it may be larger.
	Edge bool `json:"edge,omitempty"`
}

const (
	heatBlocks  = 20 // most blocks of the time that samples are cut into to estimate an error
	fewBlocks   = 5  // fewest
	blockLength = 3  // least length of a block, in lengths over which samples are correlated
)

// Heat is the heat capacity between the ends of the ladder, from the rounds of equilibrium, by
// the weighted histogram analysis method (Kumar and others, J. Comput. Chem. 13, 1011, 1992).
// These rounds are those from the one on that leaves the most independent samples of the
// native contacts, by their autocorrelation. It returns ErrFew for fewer than three temperatures
// or twenty rounds.
func (r *Run) Heat() (*Heat, error) {
	if !r.c.exchanges() || r.c.Replicas < 3 {
		return nil, fmt.Errorf("fold: the heat capacity needs three or more temperatures that replicas exchange: %w", ErrFew)
	}
	if r.Rounds() < 4*fewBlocks {
		return nil, fmt.Errorf("fold: the heat capacity needs %d rounds or more: %w", 4*fewBlocks, ErrFew)
	}
	k, ladder := r.equilibrium(), r.at(r.Rounds()-1)
	n, all := k.blocks(r.Rounds()), r.Rounds()-k.from
	blocks, temperatures, err := usable(r.energies(k.from, n, func(i, _ int) int { return (n*(i-k.from+1) - 1) / all }), ladder)
	if err != nil {
		return nil, err
	}
	walks, _, err := usable(r.energies(k.from, min(r.c.Replicas, heatBlocks), func(_, replica int) int { return replica % heatBlocks }), ladder)
	if err != nil {
		return nil, err
	}
	h := heat(temperatures, blocks, walks)
	steps := func(rounds float64) int { return int(math.Ceil(rounds * float64(r.c.Every))) }
	h.Discarded, h.Correlated, h.Walks, h.Short = k.from*r.c.Every, steps(k.over), steps(k.walk), k.short(r.Rounds())
	r.heat = h
	return h, nil
}

// fit returns the number of blocks of the least length that fit into the rounds that are kept.
func (k kept) fit(rounds int) float64 { return float64(rounds-k.from) / (blockLength * k.over) }

// blocks returns the number of blocks that these rounds are cut into.
func (k kept) blocks(rounds int) int { return int(min(max(k.fit(rounds), fewBlocks), heatBlocks)) }

// short reports whether blocks are shorter than they should be, replicas walk too slowly, or
// the last beginning that was tried is the best, so that later ones may be better.
func (k kept) short(rounds int) bool {
	return k.fit(rounds) < fewBlocks || float64(rounds-k.from) < 2*k.walk || k.from == k.latest
}

// energies returns the energies of the rounds from one on, divided into parts by round and
// replica, and by rung.
func (r *Run) energies(from, parts int, part func(round, replica int) int) [][][]float64 {
	out := make([][][]float64, parts)
	for p := range out {
		out[p] = make([][]float64, r.c.Replicas)
	}
	for at := from * r.c.Replicas; at < r.Rounds()*r.c.Replicas; at++ {
		rungs := out[part(at/r.c.Replicas, at%r.c.Replicas)]
		rungs[r.rungs[at]] = append(rungs[r.rungs[at]], r.seen[at*seenCount+seenEnergy])
	}
	return out
}

// heat is the heat capacity from energies, cut into parts by time, and again in other ways.
func heat(temperatures []float64, blocks [][][]float64, cuts ...[][][]float64) *Heat {
	without := func(parts [][][]float64, out int) [][]float64 {
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
	h := &Heat{Blocks: len(blocks)}
	const points = 400
	low, high := temperatures[0], temperatures[len(temperatures)-1]
	for i := range points + 1 {
		h.Temperatures = append(h.Temperatures, low+(high-low)*float64(i)/points)
	}
	all := density(without(blocks, -1), temperatures, nil)
	h.Capacity = all.capacity(h.Temperatures)
	peak := top(h.Capacity)
	h.Melting, h.Edge = peakAt(h.Temperatures, h.Capacity), peak == 0 || peak == points
	for _, parts := range append(cuts, blocks) {
		mean, square, n := 0.0, 0.0, float64(len(parts))
		for p := range parts {
			t := peakAt(h.Temperatures, density(without(parts, p), temperatures, all.free).capacity(h.Temperatures)) - h.Melting
			mean += t / n
			square += t * t / n
		}
		h.Error = max(h.Error, math.Sqrt(max(square-mean*mean, 0)*(n-1)))
	}
	return h
}

// peakAt returns the position of a curve's maximum, with points at even distances: the top of the
// parabola through its highest point and its two neighbours.
func peakAt(at, curve []float64) float64 {
	k := top(curve)
	if k == 0 || k == len(curve)-1 {
		return at[k]
	}
	bend := curve[k-1] - 2*curve[k] + curve[k+1]
	if bend >= 0 {
		return at[k]
	}
	return at[k] + (at[k+1]-at[k])*(curve[k-1]-curve[k+1])/(2*bend)
}

// top is the place of the largest value.
func top(v []float64) int { return slices.Index(v, slices.Max(v)) }

// states is the logarithm of the density of states, but for a constant, in bins of energy that
// have samples.
type states struct {
	low, width         float64
	bins, logs, counts []float64 // the middle of each, and the number of samples
	free               []float64 // of each rung, over its temperature
}

// weight is the logarithm of the weight at a temperature of a sample by its energy.
func (s states) weight(t float64) func(energy float64) float64 {
	at := make(map[int]int, len(s.bins))
	for b, e := range s.bins {
		at[s.bin(e)] = b
	}
	return func(energy float64) float64 {
		b := at[s.bin(energy)]
		return s.logs[b] - math.Log(s.counts[b]) - s.bins[b]/t
	}
}

// bin returns the index of the bin of an energy.
func (s states) bin(energy float64) int { return min(int((energy-s.low)/s.width), whamBins-1) }

// capacity is the heat capacity at some temperatures.
func (s states) capacity(at []float64) []float64 {
	out := make([]float64, len(at))
	for i, t := range at {
		most := math.Inf(-1)
		for b, e := range s.bins {
			most = max(most, s.logs[b]-e/t)
		}
		var sum, first, second float64
		for b, e := range s.bins {
			w := math.Exp(s.logs[b] - e/t - most)
			sum += w
			first += w * e
			second += w * e * e
		}
		first /= sum
		out[i] = (second/sum - first*first) / (t * t)
	}
	return out
}

// density is the density of states by energies of each rung, from free energies of about the
// same samples or nil.
func density(energies [][]float64, temperatures, free []float64) states {
	low, high := math.Inf(1), math.Inf(-1)
	for _, es := range energies {
		for _, e := range es {
			low, high = min(low, e), max(high, e)
		}
	}
	s := states{low: low, width: (high - low) / whamBins}
	if s.width == 0 {
		s.width = 1
	}
	counts := make([]float64, whamBins)
	s.free = make([]float64, len(energies))
	last := 0.0
	for k, es := range energies {
		mean := 0.0
		for _, e := range es {
			counts[s.bin(e)]++
			mean += e / float64(len(es))
		}
		if len(es) == 0 { // none of the replicas was on it
			mean = last
		}
		if k > 0 { // integrated along the ladder, where the iteration begins
			s.free[k] = s.free[k-1] + (mean+last)/2*(1/temperatures[k]-1/temperatures[k-1])
		}
		last = mean
	}
	for b, n := range counts {
		if n > 0 {
			s.bins, s.counts = append(s.bins, low+(float64(b)+0.5)*s.width), append(s.counts, n)
		}
	}
	if free != nil {
		copy(s.free, free)
	}
	s.solve(energies, temperatures)
	return s
}

// solve finds the density and the free energies of the rungs, which depend on each other, by
// turns.
func (s *states) solve(energies [][]float64, temperatures []float64) {
	bins, many, free := s.bins, s.counts, s.free
	logs := make([]float64, len(bins))
	s.logs = logs
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
			return
		}
	}
}
