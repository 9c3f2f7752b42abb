package plan

import (
	"math"
	"math/bits"
	"slices"
)

// series is the measured durations of one workload on one machine, by size. It is what
// predictions for sizes in between and a little beyond are made from.
type series struct {
	x     []float64    // logarithm of the size (see sizeOf), ascending
	y     []float64    // logarithm of the seconds
	terms [][4]float64 // what the time may be made of: 1, operations, bytes, launches
	cost  [4]float64   // what each term costs, by solve, once the series is complete
	off   []float64    // how far the sum of these is off at each point, on logarithms
}

// sizeOf is by which points of one workload are ordered: operations and bytes together.
func sizeOf(n *Need) float64 { return math.Log(n.Flops + n.Bytes + 1) }

func termsOf(n *Need) [4]float64 { return [4]float64{1, n.Flops, n.Bytes, n.Launches} }

// add inserts a point. Points of one size are taken together as their mean.
func (s *series) add(n *Need, seconds float64) {
	x, y := sizeOf(n), math.Log(seconds)
	at, same := slices.BinarySearch(s.x, x)
	if same {
		s.y[at] = (s.y[at] + y) / 2
		return
	}
	s.x, s.y = slices.Insert(s.x, at, x), slices.Insert(s.y, at, y)
	s.terms = slices.Insert(s.terms, at, termsOf(n))
}

// without returns the series with one point left out, complete.
func (s *series) without(i int) *series {
	drop := func(xs []float64) []float64 { return slices.Delete(slices.Clone(xs), i, i+1) }
	rest := &series{x: drop(s.x), y: drop(s.y), terms: slices.Delete(slices.Clone(s.terms), i, i+1)}
	rest.complete()
	return rest
}

// complete is called when all points are there, before curves are drawn.
func (s *series) complete() {
	s.cost, s.off = s.solve(), make([]float64, len(s.x))
	for i := range s.x {
		s.off[i] = s.y[i] - math.Log(dot(s.cost, s.terms[i]))
	}
}

// shape is a way to draw a curve through a series: it returns the logarithm of the seconds
// at a size.
type shape func(s *series, x float64, terms [4]float64) float64

// shapes are those that compete for each series, and first their middle. Which of the others is best for a
// series can rarely be told from its few points: one that is chosen because it predicts points that are left out
// somewhat better is off more often than the middle.
var shapes = []shape{middles, sums, chords, corrected, bends}

// middles is the middle of the other shapes.
func middles(s *series, x float64, terms [4]float64) float64 {
	return middle([]float64{sums(s, x, terms), chords(s, x, terms), corrected(s, x, terms), bends(s, x, terms)})
}

// sums is the sum of what each term costs: seconds = a + b·operations + c·bytes +
// d·launches, none of them negative, with the least sum of squares of relative errors.
func sums(s *series, _ float64, terms [4]float64) float64 {
	return math.Log(dot(s.cost, terms))
}

// chords is a power law between neighbours: a straight line on logarithms. Beyond the
// ends the last line goes on.
func chords(s *series, x float64, _ [4]float64) float64 {
	return chord(s.x, s.y, x, true)
}

// corrected is sums times how far these are off at the neighbours.
func corrected(s *series, x float64, terms [4]float64) float64 {
	return math.Log(dot(s.cost, terms)) + chord(s.x, s.off, x, false)
}

// bends is a line on logarithms through the five nearest points, near ones counting more,
// which follows slow bends and averages noise.
func bends(s *series, x float64, _ [4]float64) float64 {
	near := make([]int, len(s.x))
	for i := range near {
		near[i] = i
	}
	slices.SortStableFunc(near, func(a, b int) int {
		if math.Abs(s.x[a]-x) < math.Abs(s.x[b]-x) {
			return -1
		}
		return 1
	})
	near = near[:min(5, len(near))]
	reach := math.Abs(s.x[near[len(near)-1]]-x) * 1.01
	var w, mx, my, xx, xy float64
	for _, i := range near {
		k := 1 - math.Pow(math.Abs(s.x[i]-x)/reach, 2) + 0.05
		w, mx, my = w+k, mx+k*s.x[i], my+k*s.y[i]
	}
	mx, my = mx/w, my/w
	for _, i := range near {
		k := 1 - math.Pow(math.Abs(s.x[i]-x)/reach, 2) + 0.05
		xx += k * (s.x[i] - mx) * (s.x[i] - mx)
		xy += k * (s.x[i] - mx) * (s.y[i] - my)
	}
	if xx == 0 {
		return my + x - mx // one size only: twice the work takes twice the time
	}
	return my + min(max(xy/xx, 0), mostSlope)*(x-mx)
}

// mostSlope is the largest power of the work that time grows with.
const mostSlope = 1.5

// chord interpolates between the neighbours of x. Beyond the ends it goes on in a straight
// line, or with the last value.
func chord(xs, ys []float64, x float64, on bool) float64 {
	n := len(xs)
	at, _ := slices.BinarySearch(xs, x)
	switch {
	case n == 1:
		if on {
			return ys[0] + x - xs[0]
		}
		return ys[0]
	case (at == 0 || at == n) && !on:
		return ys[max(at-1, 0)]
	}
	if at == 0 || at == n { // of two near points the slope is mostly noise
		end := max(at-1, 0)
		next := max(min(end, n-2), 1)
		slope := (ys[next] - ys[end]) / (xs[next] - xs[end])
		return ys[end] + min(max(slope, 0), mostSlope)*(x-xs[end])
	}
	return ys[at-1] + (ys[at]-ys[at-1])*(x-xs[at-1])/(xs[at]-xs[at-1])
}

func dot(c, terms [4]float64) float64 {
	sum := 0.0
	for i := range c {
		sum += c[i] * terms[i]
	}
	return max(sum, 1e-12)
}

// solve returns the coefficients of sums. Non-negative least squares of four terms is small
// enough to try every set of terms: the best one whose coefficients are all positive is the
// optimum.
func (s *series) solve() (best [4]float64) {
	// Normal equations. Rows are divided by the measured time, since errors are relative,
	// and columns by their norm, since operations are 1e12 times as many as launches.
	var gram [4][4]float64
	var right, norm [4]float64
	for i := range s.x {
		for k := range 4 {
			norm[k] += math.Pow(s.terms[i][k]*math.Exp(-s.y[i]), 2)
		}
	}
	for k := range norm {
		norm[k] = math.Sqrt(norm[k])
	}
	for i := range s.x {
		var row [4]float64
		for k := range row {
			if norm[k] > 0 {
				row[k] = s.terms[i][k] * math.Exp(-s.y[i]) / norm[k]
			}
			right[k] += row[k]
		}
		for k := range row {
			for l := range row {
				gram[k][l] += row[k] * row[l]
			}
		}
	}
	least := math.Inf(1)
	for set := 1; set < 16; set++ {
		c, ok := solveFor(set, &gram, &right)
		if !ok || bits.OnesCount(uint(set)) > len(s.x) {
			continue
		}
		// This is the sum of squares, without that of the right side. A further term must
		// improve it by more than rounding.
		sum := float64(len(s.x))
		for k := range c {
			sum -= c[k] * right[k]
		}
		if sum < least-1e-9 {
			least, best = sum, c
		}
	}
	for k := range best {
		if norm[k] > 0 {
			best[k] /= norm[k]
		}
	}
	return best
}

// solveFor is the solution of normal equations with the terms of a set, if it is positive.
func solveFor(set int, gram *[4][4]float64, right *[4]float64) (c [4]float64, ok bool) {
	var in []int
	for t := range 4 {
		if set>>t&1 == 1 {
			in = append(in, t)
			if gram[t][t] == 0 {
				return c, false
			}
		}
	}
	a := make([][]float64, len(in)) // with the right side as last column
	for k := range in {
		a[k] = make([]float64, len(in)+1)
		for l := range in {
			a[k][l] = gram[in[k]][in[l]]
		}
		a[k][len(in)] = right[in[k]]
	}
	if !eliminate(a) {
		return c, false
	}
	for k, t := range in {
		if c[t] = a[k][len(in)]; !(c[t] > 0) {
			return c, false
		}
	}
	return c, true
}

// eliminate solves linear equations in place by Gauss and Jordan with pivoting. It reports
// false for columns that are nearly dependent.
func eliminate(a [][]float64) bool {
	for k := range a {
		p := k
		for r := k + 1; r < len(a); r++ {
			if math.Abs(a[r][k]) > math.Abs(a[p][k]) {
				p = r
			}
		}
		if math.Abs(a[p][k]) < 1e-9 {
			return false
		}
		a[k], a[p] = a[p], a[k]
		for r := range a {
			if r == k {
				continue
			}
			f := a[r][k] / a[k][k]
			for c := k; c < len(a[r]); c++ {
				a[r][c] -= f * a[k][c]
			}
		}
	}
	for k := range a {
		a[k][len(a)] /= a[k][k]
	}
	return true
}

// leftOut returns for each shape how far its curve through the other points is off at each
// point, on logarithms.
func (s *series) leftOut() [][]float64 {
	out := make([][]float64, len(shapes))
	for i := range s.x {
		rest := s.without(i)
		for k, f := range shapes {
			out[k] = append(out[k], s.y[i]-f(rest, s.x[i], s.terms[i]))
		}
	}
	return out
}

// curve is a series with the shape that suits it.
type curve struct {
	s     *series
	shape shape
	off   []float64 // how far the shape is off at each point if that is left out
	seen  []score   // those errors as multiples of what was expected
}

// leastPoints is the least number of sizes of a curve: with fewer nothing can be left out.
const leastPoints = 3

// muchBetter is the part of the error of the middle that a shape must not exceed to be used in its place: times
// that follow its law exactly are predicted exactly.
const muchBetter = 0.5

// fit chooses the shape of a series with leastPoints points at least: their middle, unless one has a much smaller
// mean of errors at points left out. Errors beyond 30 % count as that, so that one cliff does not decide alone.
func (s *series) fit() *curve {
	s.complete()
	var best *curve
	least := math.Inf(1)
	for k, off := range s.leftOut() {
		mean := 0.0
		for _, e := range off {
			mean += min(math.Abs(e), 0.3) / float64(len(off))
		}
		if mean < least {
			best = &curve{s: s, shape: shapes[k], off: off}
			if least = mean; k == 0 {
				least = muchBetter * mean
			}
		}
	}
	best.score()
	return best
}

// at returns the logarithm of the seconds at a size.
func (c *curve) at(x float64, terms [4]float64) float64 { return c.shape(c.s, x, terms) }

// reach is by which factor of size, as a logarithm, x lies beyond the points; 0 between
// them.
func (c *curve) reach(x float64) float64 {
	return max(c.s.x[0]-x, x-c.s.x[len(c.s.x)-1], 0)
}

// errorFloor is the least error that is expected of a curve, on logarithms: points are
// medians that are themselves off by about a percent.
const errorFloor = 0.005

// scale returns the error expected of the curve at x: the mean error at points left out,
// weighted towards those near x. skip is a point to ignore, -1 for none.
func (c *curve) scale(x float64, skip int) float64 {
	w, sum := 0.0, 0.0
	for i, e := range c.off {
		if i == skip {
			continue
		}
		d := (c.s.x[i] - x) / math.Ln2
		k := 0.1 + math.Exp(-d*d/2)
		w, sum = w+k, sum+k*math.Abs(e)
	}
	// Beyond the ends another limit may take over: the error grows with the distance.
	return errorFloor + sum/w + 0.05*c.reach(x)
}

// score is an error at a point left out, as a multiple of the error that was expected.
type score struct {
	value float64
	end   bool // the point was the first or last of its series
}

// score fills in the errors at points left out, each divided by the one expected there. With n points they count
// for 1 + 1/n times as much, since the expected error is itself a mean of few.
func (c *curve) score() {
	few := 1 + 1/float64(len(c.off))
	for i, e := range c.off {
		end := i == 0 || i == len(c.off)-1
		scale := c.scale(c.s.x[i], i)
		if end { // as it is seen from the others
			scale += 0.05 * math.Abs(c.s.x[i]-c.s.x[max(min(i, len(c.off)-2), 1)])
		}
		c.seen = append(c.seen, score{few * math.Abs(e) / scale, end})
	}
}

// width returns the multiple of the expected error that covers nine of ten errors, by what
// was seen at points left out (split conformal prediction: the ⌈0.9(n+1)⌉-th smallest).
// Points at the ends are judged by points at ends where there are enough of them.
func width(seen []score, end bool) float64 {
	var all, like []float64
	for _, s := range seen {
		all = append(all, s.value)
		if s.end == end {
			like = append(like, s.value)
		}
	}
	if len(like) < 20 {
		like = all
	}
	slices.Sort(like)
	k := int(math.Ceil(0.9*float64(len(like)+1))) - 1
	return like[min(k, len(like)-1)]
}
