package enumerative

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// integralKernel adds up chunks of fixed points modulo each of some primes. Its arguments are the
// space, the field tables and the sums, its grid chunks and primes.
var integralKernel = workload.With(graph.GoKernel("enumerative.sums", 1, graph.All),
	workload.PTX(ptx, "enumerative_sums", 256), workload.SPIRV(spirv, "enumerative_sums", 64))

// params are the parameters of Kernel.
type params struct {
	problem, n, k int // problem is an index of problems
	exponent      int // to which Degree takes the sum, or the hypersurface's degree
	classes       int
	primes        int
	first, count  int // points
}

// space returns the kernels' data of a problem in addition to fields: binomials for unrank, and the
// partitions, each with k parts.
func (c Config) space() []uint32 {
	out := binomials(c.N, c.K)
	for _, parts := range c.Classes {
		row := make([]uint32, c.K)
		for i, p := range parts {
			row[i] = uint32(p)
		}
		out = append(out, row...)
	}
	return out
}

// Where the entries of a field's table begin: the prime, −1/p and 1, the n roots x_i, the n
// weights 1 ÷ Π_{j≠i}(x_i − x_j), and the numbers from 0 to exponent.
const rootsAt = 3

// tableLen is the length of a field's table.
func (p *params) tableLen() int { return rootsAt + 2*p.n + p.exponent + 1 }

// table is the table of a field for roots.
func (p *params) table(f *field, roots []int64) []uint32 {
	out := append(make([]uint32, 0, p.tableLen()), f.p, f.neg, f.one)
	for _, x := range roots {
		out = append(out, f.in(x))
	}
	x := out[rootsAt:]
	for i := range p.n {
		all := f.one
		for j := range p.n {
			if j != i {
				all = f.mul(all, f.sub(x[i], x[j]))
			}
		}
		out = append(out, f.inverse(all))
	}
	for i := range p.exponent + 1 {
		out = append(out, f.in(int64(i)))
	}
	return out
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: "enumerative.sums", Does: fmt.Sprintf("sums over %d fixed points of a Grassmannian each, modulo primes", chunk), Grid: "chunks, primes", Per: []uint32{1, graph.All},
		Args: []signature.Arg{signature.In("space", graph.U4), signature.In("fields", graph.U4), signature.Out("sums", graph.U4)},
	}, need, sums),
	curvesKernel,
}

// need refuses what would lead outside of the arguments.
func need(_ *weft.Call, p params) (n signature.Need, err error) {
	if err := signature.Positive([]string{"n", "k", "primes", "count"}, p.n, p.k, p.primes, p.count); err != nil {
		return n, err
	}
	if p.k > maxK || p.n > maxN || p.k >= p.n || p.exponent > maxForms || p.classes > maxClasses || p.problem >= len(problems) {
		return n, fmt.Errorf("problem %d, k %d, n %d, exponent %d and %d classes: at most %d, %d, %d, %d and %d are taken, with k below n",
			p.problem, p.k, p.n, p.exponent, p.classes, len(problems)-1, maxK, maxN, maxForms, maxClasses)
	}
	if problems[p.problem] == Hypersurface && forms(p.exponent, p.k) >= maxForms {
		return n, fmt.Errorf("a hypersurface of degree %d: it must be 1 or more, with less than %d monomials in %d variables", p.exponent, maxForms, p.k)
	}
	if points := (Config{K: p.k, N: p.n}).points(); int64(p.first)+int64(p.count) > points || points > maxPoints {
		return n, fmt.Errorf("points %d to %d of Gr(%d,%d): it has %d, and at most %d are taken", p.first, p.first+p.count, p.k, p.n, points, maxPoints)
	}
	n.Items = chunks(int64(p.count))
	n.Elements[0] = int64(p.n*(p.k+1) + p.classes*p.k)
	n.Elements[1] = signature.Product(p.primes, p.tableLen())
	n.Elements[2] = signature.Product(int(n.Items), p.primes)
	return n, nil
}

func sums(c *weft.Call, p params, lo, hi int) {
	space, tables, out := weft.View[uint32](c.Args[0]), weft.View[uint32](c.Args[1]), weft.View[uint32](c.Args[2])
	// Neither binomials nor parts that lead outside of tables are taken from a caller.
	ranks := binomials(p.n, p.k)
	classes := slices.Clone(space[p.n*(p.k+1):][:p.classes*p.k])
	for i := range classes {
		classes[i] = min(classes[i], uint32(p.n-p.k))
	}
	// Degrees are added up modulo several primes at a time, and the others one after another.
	var together []*laneTables
	alone := 0
	for wide && problems[p.problem] == Degree && p.primes-alone >= leastLanes {
		t := newLaneTables(&p, tables[alone*p.tableLen():p.primes*p.tableLen()])
		together, alone = append(together, t), alone+t.primes
	}
	for i := lo; i < hi && !c.Stopped(); i++ {
		first := i * chunk
		for at, t := range together {
			var subset [maxK]uint32
			unrank(subset[:p.k], uint32(p.first+first), p.n, ranks)
			t.sums(out[i*p.primes+width*at:], &p, subset[:p.k], min(chunk, p.count-first))
		}
		for q := alone; q < p.primes; q++ {
			t := tables[q*p.tableLen():][:p.tableLen()]
			s := summer{p: &p, field: field{p: t[0], neg: t[1], one: t[2]}, table: t, classes: classes}
			unrank(s.c[:p.k], uint32(p.first+first), p.n, ranks)
			out[i*p.primes+q] = s.sum(min(chunk, p.count-first))
		}
	}
}

// summer adds up terms of fixed points modulo a prime.
type summer struct {
	field
	p       *params
	table   []uint32
	classes []uint32
	c       [maxK]uint32 // the subset
	x       [maxK]uint32 // its roots
	// Of the coordinates from the m-th on: the product of their weights and of the squares of
	// their differences, and their sum. Subsets change in their first coordinates most.
	product, total [maxK + 1]uint32
}

// sum is the sum of the terms of points from the subset on.
func (s *summer) sum(points int) (sum uint32) {
	k := s.p.k
	s.product[k], s.total[k] = s.one, 0
	for changed := k - 1; ; changed = next(s.c[:k]) {
		for m := changed; m >= 0; m-- {
			x := s.table[rootsAt+s.c[m]]
			s.x[m] = x
			all := s.one
			for _, y := range s.x[m+1 : k] {
				all = s.mul(all, s.sub(x, y))
			}
			s.product[m] = s.mul(s.product[m+1], s.mul(s.mul(all, all), s.table[rootsAt+uint32(s.p.n)+s.c[m]]))
			s.total[m] = s.add(s.total[m+1], x)
		}
		sum = s.add(sum, s.mul(s.product[0], s.class()))
		if points--; points == 0 {
			return sum
		}
	}
}

// class is the problem's class at the subset.
func (s *summer) class() uint32 {
	switch problems[s.p.problem] {
	case Degree:
		return s.pow(s.total[0], uint32(s.p.exponent))
	case Hypersurface:
		return s.forms()
	}
	out, below := s.one, s.one
	h := s.complete()
	for i := range s.p.classes {
		above, by := s.schur(s.classes[i*s.p.k:(i+1)*s.p.k], &h)
		out, below = s.mul(out, above), s.mul(below, by)
	}
	if below == s.one {
		return out
	}
	return s.mul(out, s.inverse(below))
}

// forms is the product of Σ a_m x_m over all a of k numbers from 0 that add up to the degree. A form
// is the one before it with few roots exchanged, which takes less than k products.
func (s *summer) forms() uint32 {
	k, degree := s.p.k, uint32(s.p.exponent)
	var more [maxK]uint32 // by which a form grows when x_h stands for x_0
	for h := 1; h < k; h++ {
		more[h] = s.sub(s.x[h], s.x[0])
	}
	var a [maxK]uint32
	a[0] = degree
	form := s.mul(s.table[rootsAt+2*uint32(s.p.n)+degree], s.x[0])
	out, other := form, s.one // two products, so that one need not wait for the other
	for {
		h := 0
		for a[h] == 0 {
			h++
		}
		if h == k-1 {
			return s.mul(out, other)
		}
		t := a[h]
		a[h] = 0
		a[0] = t - 1
		a[h+1]++
		if h > 0 { // x_0 stands for x_h, t times
			form = s.sub(form, s.mul(s.table[rootsAt+2*uint32(s.p.n)+t], more[h]))
		}
		form = s.add(form, more[h+1])
		out, other = other, s.mul(out, form)
	}
}

// complete are the complete symmetric polynomials of the roots, by degree.
func (s *summer) complete() (h [maxN]uint32) {
	h[0] = s.one
	for _, x := range s.x[:s.p.k] {
		for d := 1; d < s.p.n; d++ {
			h[d] = s.add(h[d], s.mul(x, h[d-1]))
		}
	}
	return h
}

// schur is the Schur polynomial of a partition, by Jacobi and Trudi: the determinant of
// h_{λ_i − i + j}, as a fraction. An inverse takes as long as some sixty products, so that rows are
// multiplied by the pivot rather than divided by it.
func (s *summer) schur(parts []uint32, h *[maxN]uint32) (above, below uint32) {
	size := 0
	for size < len(parts) && parts[size] > 0 {
		size++
	}
	var m [maxK][maxK]uint32
	for i := range size {
		for j := range size {
			if d := int(parts[i]) - i + j; d >= 0 {
				m[i][j] = h[d]
			}
		}
	}
	above, below = s.one, s.one
	for col := range size {
		row := col
		for row < size && m[row][col] == 0 {
			row++
		}
		if row == size {
			return 0, s.one
		}
		if row != col {
			m[row], m[col] = m[col], m[row]
			above = s.sub(0, above)
		}
		pivot := m[col][col]
		if col == size-1 {
			above = s.mul(above, pivot)
		}
		// The determinant has the pivot once, and once more for each row below it.
		for range size - 2 - col {
			below = s.mul(below, pivot)
		}
		for row = col + 1; row < size; row++ {
			by := m[row][col]
			for j := col + 1; j < size; j++ {
				m[row][j] = s.sub(s.mul(pivot, m[row][j]), s.mul(by, m[col][j]))
			}
		}
	}
	return above, below
}
