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
// a step makes the difference of two vectors smaller by at least the factor damping. The last change
// alone then bounds the distance of the ranks from the exact ones, whatever happened before.
func (j *rankingJob) Check() error {
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
		for i, p := range j.place {
			out[i] = given[p] * j.graph.out(i)
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
		row, _ := j.in.Row(int(j.place[i]))
		within := 4 * 0x1p-53 * (8 + float64(len(row))) * want[i]
		if !(math.Abs(got[i]-want[i]) <= within) {
			return fmt.Errorf("%s: the rank of node %d is %v, want %v ± %.2g, both but for a factor: %w", j.Name(), i, got[i], want[i], within, errWrong)
		}
	}
	last, size := change(got, before)
	rounded := 64 * 0x1p-53 * size
	if r := j.Residual(); !(math.Abs(r*size-last) <= rounded) {
		return fmt.Errorf("%s: the residual is %v, want %v: %w", j.Name(), r, last/size, errWrong)
	}
	first, _ := change(step(start), start)
	if most := first*math.Pow(d, float64(j.c.Steps-1)) + 1000*rounded; !(last <= most) {
		return fmt.Errorf("%s: ranks change by %.3g in the last step, and may change by %.3g at most: %w", j.Name(), last, most, errWrong)
	}
	j.misses = []workload.Miss{{What: fmt.Sprintf("ranks that are off together by more than %.2g", 2*last/size/(1-d)), Chance: 0}}
	return nil
}

// Misses says what the last Check may have missed.
func (j *rankingJob) Misses() []workload.Miss { return j.misses }

// checkedTerms is the number of products that a Check looks at, at most: about a second on a
// core.
const checkedTerms = 1 << 29

// Check computes the features of every node behind every layer again, in float64 from those before
// it, or of some nodes that are drawn by the seed where there are many.
func (j *layerJob) Check() error {
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
		for k := range columns {
			degree += weightOf(values, k)
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

func (j *layerJob) checkNode(layer, node int, from []float32, roots []float64) error {
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
		add(int(c), weightOf(values, k))
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
			return fmt.Errorf("%s: feature %d of node %d behind layer %d is %v, want %v ± %.2g: %w", j.Name(), o, node, layer, got, want, within, errWrong)
		}
	}
	return nil
}

// Misses says what the last Check may have missed.
func (j *layerJob) Misses() []workload.Miss { return j.misses }

// Check compares distances with those found another way. Distances of points are computed in float64.
// Lengths of paths must satisfy their definition: a node is one edge farther than the nearest of its
// neighbours, or no neighbour of it is reached. Of many nodes some are checked, drawn by the seed.
// Closeness, labels and medoids are computed again in float64 from the distances.
func (j *distancesJob) Check() error {
	nodes := rand.New(rand.NewPCG(uint64(j.c.Seed), 1)).Perm(j.n)
	nodes = nodes[:max(1, min(j.n, checkedTerms/(j.n+len(j.columns))))]
	j.misses = []workload.Miss{{What: "distances of a node off by more than their rounding", Chance: 1 - float64(len(nodes))/float64(j.n)}}
	err := workload.Sweep(len(nodes), func(lo, hi int) error {
		for _, i := range nodes[lo:hi] {
			row := j.distances[i*j.n : (i+1)*j.n]
			if err := j.checkRow(i, row); err != nil {
				return fmt.Errorf("%s: %w: %w", j.Name(), err, errWrong)
			}
		}
		return nil
	})
	if err != nil || j.c.Problem == Closeness {
		return err
	}
	if err := j.checkMedoids(); err != nil {
		return fmt.Errorf("%s: %w: %w", j.Name(), err, errWrong)
	}
	return nil
}

func (j *distancesJob) checkRow(i int, row []float32) error {
	far := math.Inf(1)
	if j.graph != nil {
		far = float64(j.n)
	}
	sum, reached := 0., 0.
	for k, d := range row {
		if j.graph != nil {
			want := far
			columns, _ := j.graph.Row(k)
			for _, c := range columns {
				want = min(want, float64(row[c])+1)
			}
			if k == i {
				want = 0
			}
			if float64(d) != want {
				return fmt.Errorf("the distance from %d to %d is %v, want %v", i, k, d, want)
			}
		} else {
			want := 0.
			for x := range 3 {
				want = math.Hypot(want, float64(j.points[3*i+x])-float64(j.points[3*k+x]))
			}
			if within := 4 * rounding.Unit * want; !rounding.Same(d, want, within) {
				return fmt.Errorf("the distance from %d to %d is %v, want %v ± %.2g", i, k, d, want, within)
			}
		}
		if k != i && float64(d) < far {
			sum += float64(d)
			reached++
		}
	}
	if j.c.Problem != Closeness {
		return nil
	}
	want := 0.
	if sum > 0 {
		want = reached / sum * reached / float64(j.n-1)
	}
	if within := rounding.Unit * (8 + 8*math.Sqrt(float64(j.n))) * want; !rounding.Same(j.close[i], want, within) {
		return fmt.Errorf("the closeness of %d is %v, want %v ± %.2g", i, j.close[i], want, within)
	}
	return nil
}

// checkMedoids takes every step again from the medoids before it. Of nodes whose sums differ by
// no more than rounding, any may be the medoid. The sums of the last step are compared too, as a sum
// without one of its nodes seldom changes which is the smallest.
func (j *distancesJob) checkMedoids() error {
	if err := j.checkStart(); err != nil {
		return err
	}
	before := j.start
	for s, medoids := range j.medoids {
		members := make([][]int, j.c.K)
		for i := range j.n {
			l := j.nearest(i, before)
			members[l] = append(members[l], i)
		}
		for l, in := range members {
			got := int(medoids[l])
			if len(in) == 0 {
				if medoids[l] != before[l] {
					return fmt.Errorf("medoid %d behind step %d is %d, and no node has it: want %d", l, s, got, before[l])
				}
				continue
			}
			best, own := math.Inf(1), math.NaN()
			for _, i := range in {
				sum := 0.
				for _, k := range in {
					sum += float64(j.distances[i*j.n+k])
				}
				if within := rounding.Unit * (8 + 8*math.Sqrt(float64(len(in)))) * sum; s+1 == len(j.medoids) && !rounding.Same(j.sums[i], sum, within) {
					return fmt.Errorf("the sum of distances from node %d to the nodes of medoid %d is %v, want %v ± %.2g", i, before[l], j.sums[i], sum, within)
				}
				best = min(best, sum)
				if i == got {
					own = sum
				}
			}
			if within := rounding.Unit * (8 + 16*math.Sqrt(float64(len(in)))) * best; !(own <= best+within) {
				return fmt.Errorf("medoid %d behind step %d is %d with a sum of %v, want %v ± %.2g", l, s, got, own, best, within)
			}
		}
		before = medoids
	}
	for i, l := range j.labels {
		if want := j.nearest(i, before); int(l) != want {
			return fmt.Errorf("node %d is of medoid %d, want %d", i, l, want)
		}
	}
	return nil
}

// checkStart sees that the steps begin with points whose numbers are equally far apart, or with nodes
// than which no other has more edges, the first of equal ones.
func (j *distancesJob) checkStart() error {
	if len(j.start) != j.c.K {
		return fmt.Errorf("%d medoids to begin with, want %d", len(j.start), j.c.K)
	}
	for l, m := range j.start {
		if j.graph == nil {
			if want := l * j.n / j.c.K; int(m) != want {
				return fmt.Errorf("medoid %d begins at point %d, want %d", l, m, want)
			}
			continue
		}
		own, _ := j.graph.Row(int(m))
		before := 0
		for i := range j.n {
			if other, _ := j.graph.Row(i); len(other) > len(own) || len(other) == len(own) && i < int(m) {
				before++
			}
		}
		if before != l {
			return fmt.Errorf("medoid %d begins at node %d, and %d nodes come before it", l, m, before)
		}
	}
	return nil
}

// nearest is the medoid nearest to a node, the first of equal ones.
func (j *distancesJob) nearest(node int, medoids []uint32) int {
	best := 0
	row := j.distances[node*j.n : (node+1)*j.n]
	for l, m := range medoids {
		if row[m] < row[medoids[best]] {
			best = l
		}
	}
	return best
}

// Misses says what the last Check may have missed.
func (j *distancesJob) Misses() []workload.Miss { return j.misses }
