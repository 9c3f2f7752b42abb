package catalog

import (
	"maps"
	"math"
	"math/bits"
)

// Growth says how to make a workload's job larger.
type Growth struct {
	Flags []string // that grow together, in proportion
	Power float64  // the work grows with the first flag to this power
	Most  int      // the largest value of the first flag
}

// By grows sizes so that the work becomes more times as much, with the first flag at
// most at most. It reports whether the first flag grew.
func (g Growth) By(sizes map[string]int, more float64, most int) bool {
	first := sizes[g.Flags[0]]
	for name, n := range g.At(sizes, min(float64(first)*math.Pow(more, 1/g.Power), float64(most))) {
		sizes[name] = max(n, sizes[name])
	}
	return sizes[g.Flags[0]] > first
}

// Times returns the sizes for more times the work.
func (g Growth) Times(sizes map[string]int, more float64) map[string]int {
	return g.At(sizes, float64(sizes[g.Flags[0]])*math.Pow(more, 1/g.Power))
}

// At returns sizes with the first flag at first and the others in proportion. Sizes that
// are multiples of 64 stay so, as automata needs them. Counts, with which the work grows in
// proportion, are below 512 multiples of a sixteenth to an eighth of them alone.
func (g Growth) At(sizes map[string]int, first float64) map[string]int {
	out := maps.Clone(sizes)
	for _, name := range g.Flags {
		n := int(math.Ceil(float64(sizes[name]) * first / float64(sizes[g.Flags[0]])))
		if sizes[name]%64 == 0 {
			round := 64
			if g.Power == 1 {
				round = 1 << min(max(bits.Len(uint(n))-4, 0), 6)
			}
			n = (n + round - 1) / round * round
		}
		out[name] = n
	}
	return out
}
