package network

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-run/weft/internal/rounding"
	"github.com/weft-run/weft/workload"
)

// Check takes the last step again, along the edges as they were given and not as the kernels
// have them, and compares every rank. It sees that the changes of the steps shrink as they must:
// no step can make the difference of two vectors larger than damping times what it is. Ranks are
// then known to be near the exact ones by the last change alone, whatever happened before.
func (j *RankJob) Check() error {
	d := j.c.Damping
	step := func(from []float64) []float64 {
		next := make([]float64, len(from))
		for i := range next {
			next[i] = 1
		}
		for i := range from {
			columns, values := j.graph.Row(i)
			give := d * (from[i] / j.graph.out(i))
			for k, c := range columns {
				next[c] += give * weightOf(values, k)
			}
		}
		return next
	}
	ranks := func(given []float64) []float64 {
		out := make([]float64, len(given))
		for i, g := range given {
			out[i] = g * j.graph.out(i)
		}
		return out
	}
	change := func(a, b []float64) (sum, size float64) {
		for i := range a {
			sum += math.Abs(a[i] - b[i])
			size += a[i]
		}
		return sum, size
	}
	start := ranks(j.start)
	before, got := start, ranks(j.given)
	if j.c.Steps > 1 {
		before = ranks(j.before)
	}
	want := step(before)
	for i := range want {
		within := 4 * 0x1p-53 * (8 + float64(j.in.Starts[i+1]-j.in.Starts[i])) * want[i]
		if !(math.Abs(got[i]-want[i]) <= within) {
			return fmt.Errorf("%s: the rank of node %d is %v, want %v ± %.2g, both but for a factor: %w", j.Name(), i, got[i], want[i], within, ErrWrong)
		}
	}
	last, size := change(got, before)
	rounded := 64 * 0x1p-53 * size
	if r := j.Residual(); !(math.Abs(r*size-last) <= rounded) {
		return fmt.Errorf("%s: the residual is %v, want %v: %w", j.Name(), r, last/size, ErrWrong)
	}
	first, _ := change(step(start), start)
	if most := first*math.Pow(d, float64(j.c.Steps-1)) + 1000*rounded; !(last <= most) {
		return fmt.Errorf("%s: ranks change by %.3g in the last step, and %.3g is the most after so many: %w", j.Name(), last, most, ErrWrong)
	}
	j.misses = []workload.Miss{{What: fmt.Sprintf("ranks that are off together by more than %.2g", 2*last/size/(1-d)), Chance: 0}}
	return nil
}

// Misses says what the last Check may have missed.
func (j *RankJob) Misses() []workload.Miss { return j.misses }

// checkedTerms is the number of products that Check of layers looks at, at most: about a second
// on a core.
const checkedTerms = 1 << 29

// Check computes the features of every node behind every layer again, in float64 from those before
// it, or of some nodes that are drawn by the seed where there are many.
func (j *LayersJob) Check() error {
	n := j.graph.Rows()
	ops := 0.
	for l := range j.weights {
		ops += j.work(l, 0, int64(len(j.bounds)-1)).Ops / 2
	}
	nodes := rand.New(rand.NewPCG(uint64(j.seed), 1)).Perm(n)
	nodes = nodes[:max(1, min(n, int(float64(n)*checkedTerms/ops)))]
	j.misses = []workload.Miss{{What: "features of a node off by more than their rounding", Chance: 1 - float64(len(nodes))/float64(n)}}
	roots := make([]float64, n)
	for i := range roots {
		degree := 1.
		columns, values := j.graph.Row(i)
		for k, c := range columns {
			if int(c) != i {
				degree += weightOf(values, k)
			}
		}
		roots[i] = math.Sqrt(degree)
	}
	return workload.Sweep(len(nodes), func(lo, hi int) error {
		for _, node := range nodes[lo:hi] {
			from := j.features
			for l := range j.weights {
				if err := j.checkNode(l, node, from, roots); err != nil {
					return err
				}
				from = j.results[l]
			}
		}
		return nil
	})
}

func (j *LayersJob) checkNode(layer, node int, from []float32, roots []float64) error {
	in, out := j.widths[layer], j.widths[layer+1]
	sums, sizes := make([]float64, in), make([]float64, in)
	terms := 1.
	add := func(of int, weight float64) {
		by := weight / roots[node] / roots[of]
		for i, h := range from[of*in : (of+1)*in] {
			sums[i] += by * float64(h)
			sizes[i] += math.Abs(by * float64(h))
		}
		terms++
	}
	add(node, 1)
	columns, values := j.graph.Row(node)
	for k, c := range columns {
		if int(c) != node {
			add(int(c), weightOf(values, k))
		}
	}
	for o := range out {
		want, size := 0., 0.
		for i, s := range sums {
			w := float64(j.weights[layer][i*out+o])
			want += s * w
			size += sizes[i] * math.Abs(w)
		}
		// Rounding errors of a sum are like random numbers: eight deviations.
		within := rounding.Unit*(8+8*math.Sqrt(terms)+8*math.Sqrt(float64(in)))*size + rounding.Tiny
		if want < 0 {
			want = 0
		}
		if got := j.results[layer][node*out+o]; !rounding.Same(got, want, within) {
			return fmt.Errorf("%s: feature %d of node %d behind layer %d is %v, want %v ± %.2g: %w", j.Name(), o, node, layer, got, want, within, ErrWrong)
		}
	}
	return nil
}

// Misses says what the last Check may have missed.
func (j *LayersJob) Misses() []workload.Miss { return j.misses }
