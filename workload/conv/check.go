package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/weft-run/weft/internal/rounding"
	"github.com/weft-run/weft/workload"
)

const (
	// rounds is the number of times Check mixes a group of filters with other random
	// signs. Errors that cancel by chance do so with probability one half at most each
	// time.
	rounds = 8
	// checkTerms is the number of terms that Check adds up, about a second of one core.
	// Check divides filters into as many groups as that allows: the fewer filters a
	// group has, the smaller are the errors that show among their rounding.
	checkTerms = 1 << 30
	// leastGroup is the fewest filters of a group, by which the check stays cheaper than
	// the convolution.
	leastGroup = 16
)

// groupOf returns the number of filters of a layer that are mixed into one.
func groupOf(s Shape) int {
	groups := int(checkTerms / (rounds * ops(s) / 2 / float64(s.K)))
	return min(max((s.K+max(groups, 1)-1)/max(groups, 1), leastGroup), s.K)
}

// group is some filters, mixed with random signs in every round.
type group struct {
	first, filters int
	signs          []float64 // by filter and round
	mixed          []float64 // by term and round
	norm           float64   // of all its filters
}

// mixes mixes the filters of a job, group by group.
func (j *job) mixes() (out []group) {
	s := j.c.Shape
	terms, width := s.C*s.R*s.S, groupOf(s)
	random := rand.New(rand.NewPCG(j.c.Seed, 0))
	for first := 0; first < s.K; first += width {
		g := group{first: first, filters: min(width, s.K-first)}
		g.signs, g.mixed = make([]float64, rounds*g.filters), make([]float64, rounds*terms)
		for i := range g.signs {
			g.signs[i] = float64(random.IntN(2)*2 - 1)
		}
		for k := range g.filters {
			for t, v := range j.w[(first+k)*terms:][:terms] {
				g.norm += float64(v) * float64(v)
				for r, sign := range g.signs[k*rounds:][:rounds] {
					g.mixed[t*rounds+r] += sign * float64(v)
				}
			}
		}
		g.norm = math.Sqrt(g.norm)
		out = append(out, g)
	}
	return out
}

// Check tests whether the output is the convolution but for rounding, at the cost of
// some filters instead of all. A convolution is linear in its filters, so a sum of the
// outputs of a group of filters with random signs is the convolution with the sum of
// those filters with the same signs (Freivalds' idea). That one is computed from the
// definition in float64. One wrong element always shows if it is off by more than
// rounding is in a group, several at one place and group cancel with probability 2⁻⁸ at
// most, and faults are hardly ever at one place only.
//
// A sum of float32 terms of random signs is off by about Unit |patch| |w| ÷ √6 in the
// standard deviation, with Euclidean norms. Four times Unit |patch| |w|, with all
// filters of the group for w, is ten deviations. A place that differs by more is
// computed again, filter by filter, with what [rounding.Dot] allows each; see
// package gemm. The error is [errWrong] and names the
// place.
func (j *job) Check() error {
	p, _ := j.c.Out()
	groups := j.mixes()
	var mu sync.Mutex
	j.above = 0
	return workload.Sweep(j.c.N*p, func(lo, hi int) error {
		c := checker{job: j, scale: 1}
		for i := lo; i < hi; i++ {
			if err := c.row(groups, i/p, i%p); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		j.above = max(j.above, c.above)
		return nil
	})
}

// Misses lists errors that Check may not see.
func (j *job) Misses() []workload.Miss {
	return []workload.Miss{
		{What: fmt.Sprintf("one element off by more than %.2g", j.above), Chance: 0},
		{What: "a tile with several such elements at one place only", Chance: math.Ldexp(1, -rounds)},
	}
}

// checker compares rows of the output.
type checker struct {
	*job
	scale float64 // how much more rows were off by so far than expected
	above float64 // errors of one element show above this

	line, squares, sums []float64 // of a row; sums by round
}

// row compares a row of the output of an image, for all filters.
func (c *checker) row(groups []group, n, p int) error {
	s := c.c.Shape
	_, q := s.Out()
	if c.line == nil {
		c.line, c.squares, c.sums = make([]float64, s.W), make([]float64, q), make([]float64, rounds*q)
	}
	for i := range groups {
		g := &groups[i]
		clear(c.sums)
		clear(c.squares)
		c.add(g, n, p)
		for k := range g.filters {
			signs := g.signs[k*rounds:][:rounds]
			for at, v := range c.y[c.to.at(n, g.first+k, p):][:q] {
				for r, sign := range signs {
					c.sums[r*q+at] -= sign * float64(v)
				}
			}
		}
		floor := float64(2*s.C*s.R*s.S*g.filters) * rounding.Tiny
		for at := range q {
			off := 0.0
			for r := range rounds {
				off = max(off, math.Abs(c.sums[r*q+at])) // NaN if one is
			}
			limit := 4*rounding.Unit*g.norm*math.Sqrt(c.squares[at]) + floor
			if !(off <= c.scale*limit) { // written so that a NaN is looked at
				if err := c.again(g, n, p, at); err != nil {
					return err
				}
				if ratio := off / limit; ratio > c.scale && !math.IsInf(ratio, 0) {
					c.scale = 2 * ratio
				}
			}
			c.above = max(c.above, 2*c.scale*limit) // an error, and as much rounding the other way
		}
	}
	return nil
}

// add adds a row of the convolution with the mixed filters to the sums, and the
// squares of each patch.
func (c *checker) add(g *group, n, p int) {
	s := c.c.Shape
	_, qs := s.Out()
	for tap := range s.C * s.R {
		ch, h := tap/s.R, p*s.Stride+tap%s.R-s.Pad
		if h < 0 || h >= s.H {
			continue
		}
		for i, v := range c.x[c.from.at(n, ch, h):][:s.W] {
			c.line[i] = float64(v)
		}
		for t := range s.S {
			// Outputs lo to hi-1 read the line at this tap.
			first := t - s.Pad
			lo := max(0, (-first+s.Stride-1)/s.Stride)
			hi := min(qs, (s.W-1-first)/s.Stride+1)
			if s.W-1-first < 0 || lo >= hi {
				continue
			}
			for q := lo; q < hi; q++ {
				v := c.line[q*s.Stride+first]
				c.squares[q] += v * v
			}
			for r, by := range g.mixed[(tap*s.S+t)*rounds:][:rounds] {
				to := c.sums[r*qs : (r+1)*qs]
				if s.Stride == 1 {
					from := c.line[lo+first:][:hi-lo]
					for i, v := range from {
						to[lo+i] += by * v
					}
					continue
				}
				for q := lo; q < hi; q++ {
					to[q] += by * c.line[q*s.Stride+first]
				}
			}
		}
	}
}

// again computes a place of the output for all filters of a group.
func (c *checker) again(g *group, n, p, q int) error {
	s := c.c.Shape
	terms := s.C * s.R * s.S
	patch := make([]float32, terms)
	for i := range patch {
		h, v := p*s.Stride+i/s.S%s.R-s.Pad, q*s.Stride+i%s.S-s.Pad
		if h >= 0 && h < s.H && v >= 0 && v < s.W {
			patch[i] = c.x[c.from.at(n, i/(s.R*s.S), h)+v]
		}
	}
	for k := g.first; k < g.first+g.filters; k++ {
		sum := rounding.Dot(patch, c.w[k*terms:][:terms])
		if got := c.y[c.to.at(n, k, p)+q]; !sum.Is(got) {
			return fmt.Errorf("conv: image %d, filter %d, row %d, column %d is %v, want %v ± %.2g: %w", n, k, p, q, got, sum.Want, sum.Within, errWrong)
		}
	}
	return nil
}
