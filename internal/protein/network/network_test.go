package network_test

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/workload/protein"
)

func open(t testing.TB, name string) *protein.Structure {
	t.Helper()
	s, err := protein.Open(name, protein.Select{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// matrices returns the Kirchhoff matrix and the Hessian of a structure at the usual cutoffs.
func matrices(t testing.TB, name string) (kirchhoff, hessian *network.Matrix) {
	t.Helper()
	xyz := open(t, name).Coordinates()
	k, err := network.Kirchhoff(xyz, network.GaussianCutoff)
	if err != nil {
		t.Fatal(err)
	}
	h, err := network.Hessian(xyz, network.AnisotropicCutoff)
	if err != nil {
		t.Fatal(err)
	}
	return k, h
}

// lines reads the numbers of a file line by line.
func lines(t testing.TB, path string, line func(numbers []float64)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var a [3]float64
		n, _ := fmt.Sscan(s.Text(), &a[0], &a[1], &a[2])
		if n > 1 {
			line(a[:n])
		}
	}
}

// dense returns a matrix with all its entries.
func dense(m *network.Matrix) [][]float64 {
	out := make([][]float64, m.Rows())
	for i := range out {
		out[i] = make([]float64, m.Rows())
		columns, values := m.Row(i)
		for k, c := range columns {
			out[i][c] = values[k]
		}
	}
	return out
}

// The matrices of ubiquitin are ProDy's.
func TestProDyMatrices(t *testing.T) {
	k, h := matrices(t, "1UBI")
	got, entries := dense(k), 0
	lines(t, "testdata/1ubi_kirchhoff.coo", func(a []float64) {
		if len(a) < 3 {
			return
		}
		entries++
		if v := got[int(a[0])-1][int(a[1])-1]; v != a[2] {
			t.Errorf("Kirchhoff entry %v: %v", a, v)
		}
	})
	if want := 2*entries - 76; k.Nonzeros() != want || entries != 627 {
		t.Errorf("%d entries, ProDy has %d in a triangle", k.Nonzeros(), entries)
	}
	got = dense(h)
	lines(t, "testdata/1ubi_hessian_rows.coo", func(a []float64) {
		if v := got[int(a[0])-1][int(a[1])-1]; math.Abs(v-a[2]) > 6e-6 {
			t.Errorf("Hessian entry %v: %v", a, v)
		}
	})
	trace, squares := 0.0, 0.0
	for i, row := range got {
		trace += row[i]
		for _, v := range row {
			squares += v * v
		}
	}
	// Of the whole of ProDy's file.
	if math.Abs(trace-2856) > 1e-9 || math.Abs(squares-43368.2591856) > 1e-2 {
		t.Errorf("trace %v, sum of squares %v; ProDy has 2856.00002 and 43368.2592", trace, squares)
	}
}

// The eigenvalues of ubiquitin are ProDy's, and its B-factors follow the fluctuations.
func TestProDyModes(t *testing.T) {
	s := open(t, "1UBI")
	k, h := matrices(t, "1UBI")
	rigid, err := network.Rigid(s.Coordinates())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		m    *network.Matrix
		null [][]float64
		path string
	}{{k, network.Uniform(76), "testdata/1ubi_kirchhoff_values.dat"}, {h, rigid, "testdata/1ubi_hessian_values.dat"}} {
		modes, err := c.m.Slowest(c.null, 20)
		if err != nil {
			t.Fatal(err)
		}
		compared := 0
		lines(t, c.path, func(a []float64) {
			if i := int(a[0]) - 1 - len(c.null); i >= 0 && i < 20 {
				compared++
				if math.Abs(modes.Values[i]-a[1]) > 3e-5*a[1] {
					t.Errorf("%s: eigenvalue %v is %v", c.path, a, modes.Values[i])
				}
			}
		})
		if compared < 19 {
			t.Errorf("%s: %d eigenvalues compared", c.path, compared)
		}
	}
	var b []float64
	for _, r := range s.Residues {
		b = append(b, r.B)
	}
	all, err := k.Slowest(network.Uniform(76), 75)
	if err != nil {
		t.Fatal(err)
	}
	got := network.Correlation(all.Fluctuations(76), b)
	t.Logf("correlation with B-factors %.4f", got)
	if math.Abs(got-0.69) > 0.005 {
		t.Errorf("B-factors correlate by %.4f, want 0.69", got)
	}
}

// The networks of crambin are ProDy's, as bench/protein.py prints them.
func TestProDyCrambin(t *testing.T) {
	k, h := matrices(t, "1CRN")
	rigid, err := network.Rigid(open(t, "1CRN").Coordinates())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		m              *network.Matrix
		null           [][]float64
		trace, squares float64
		values         []float64
	}{
		{k, network.Uniform(46), 668, 11310, []float64{2.31461, 3.9874, 5.84961}},
		{h, rigid, 1376, 18791.0164999, []float64{0.494757, 0.659951, 0.868181}},
	} {
		trace, squares := 0.0, 0.0
		for i, row := range dense(c.m) {
			trace += row[i]
			for _, v := range row {
				squares += v * v
			}
		}
		if math.Abs(trace-c.trace) > 1e-9 || math.Abs(squares-c.squares) > 1e-7*c.squares {
			t.Errorf("trace %v, sum of squares %v; ProDy has %v and %v", trace, squares, c.trace, c.squares)
		}
		modes, err := c.m.Slowest(c.null, 3)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.values {
			if math.Abs(modes.Values[i]-want) > 2e-6*want {
				t.Errorf("eigenvalue %d is %v, ProDy's %v", i, modes.Values[i], want)
			}
		}
	}
}

// jacobi returns the eigenvalues of a symmetric matrix and its eigenvectors as columns, by
// rotations (Jacobi 1846). It shares nothing with the code under test.
func jacobi(a [][]float64) (values []float64, v [][]float64) {
	n := len(a)
	v = make([][]float64, n)
	for i := range v {
		v[i] = make([]float64, n)
		v[i][i] = 1
	}
	for range 60 {
		off := 0.0
		for p := range n {
			for q := p + 1; q < n; q++ {
				off += a[p][q] * a[p][q]
				if a[p][q] == 0 {
					continue
				}
				theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
				t := 1 / (math.Abs(theta) + math.Hypot(theta, 1))
				if theta < 0 {
					t = -t
				}
				c := 1 / math.Hypot(t, 1)
				s := t * c
				for k := range n {
					x, y := a[k][p], a[k][q]
					a[k][p], a[k][q] = c*x-s*y, s*x+c*y
				}
				for k := range n {
					x, y := a[p][k], a[q][k]
					a[p][k], a[q][k] = c*x-s*y, s*x+c*y
				}
				for k := range n {
					x, y := v[k][p], v[k][q]
					v[k][p], v[k][q] = c*x-s*y, s*x+c*y
				}
			}
		}
		if off < 1e-24 {
			break
		}
	}
	for i := range n {
		values = append(values, a[i][i])
	}
	return values, v
}

// Modes of crambin are the eigenvectors that a dense solver finds, all of them, of length one and with their
// largest entry positive.
func TestModesDense(t *testing.T) {
	xyz := open(t, "1CRN").Coordinates()
	k, h := matrices(t, "1CRN")
	rigid, err := network.Rigid(xyz)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		m    *network.Matrix
		null [][]float64
	}{{k, network.Uniform(46)}, {h, rigid}} {
		for _, v := range c.null {
			y := make([]float64, c.m.Rows())
			c.m.Mul(y, v)
			for _, x := range y {
				if math.Abs(x) > 1e-12 {
					t.Fatalf("a rigid motion costs %v", x)
				}
			}
		}
		values, vectors := jacobi(dense(c.m))
		order := make([]int, len(values))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, values[a]-values[b])) })
		for _, count := range []int{1, 5, c.m.Rows()} {
			modes, err := c.m.Slowest(c.null, count)
			if err != nil {
				t.Fatal(err)
			}
			if want := min(count, c.m.Rows()-len(c.null)); len(modes.Values) != want {
				t.Errorf("%d modes, want %d", len(modes.Values), want)
			}
			for i, got := range modes.Values {
				at := order[i+len(c.null)]
				along, largest := 0.0, 0.0
				for r, x := range modes.Vectors[i] {
					along += x * vectors[r][at]
					if math.Abs(x) > math.Abs(largest) {
						largest = x
					}
				}
				if largest < 0 {
					t.Errorf("mode %d of %d: the largest entry is %v", i, count, largest)
				}
				if math.Abs(got-values[at]) > 1e-10*values[at]+1e-11 || math.Abs(math.Abs(along)-1) > 1e-8 {
					t.Errorf("mode %d of %d: eigenvalue %v, by Jacobi %v; cosine of the vectors %v", i, count, got, values[at], along)
				}
			}
		}
	}
}

// Equal eigenvalues do not confuse the eigenvectors of a tridiagonal matrix.
func TestTridiagonal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 21, 60} {
		for _, small := range []float64{1, 1e-8, 0} { // Wilkinson's: pairs that are almost equal, and equal but for rounding
			d, e := make([]float64, n), make([]float64, n-1)
			for i := range d {
				d[i] = math.Abs(float64(i) - float64(n-1)/2)
			}
			for i := range e {
				e[i] = 1 - small + small*r.Float64()
			}
			full := make([][]float64, n)
			for i := range full {
				full[i] = make([]float64, n)
				full[i][i] = d[i]
			}
			for i, v := range e {
				full[i][i+1], full[i+1][i] = v, v
			}
			values, vectors, ok := network.Tridiagonal(d, e, n)
			if !ok || len(vectors) != n {
				t.Fatalf("n %d: ok %v, %d vectors", n, ok, len(vectors))
			}
			want, _ := jacobi(full)
			slices.Sort(want)
			for i, v := range values {
				if math.Abs(v-want[i]) > 1e-12*float64(n) {
					t.Errorf("n %d: eigenvalue %d is %v, want %v", n, i, v, want[i])
				}
				for k := range i + 1 {
					along := 0.0
					for j, x := range vectors[i] {
						along += x * vectors[k][j]
					}
					if k == i {
						along--
					}
					if math.Abs(along) > 1e-7 {
						t.Errorf("n %d: vectors %d and %d: %v", n, i, k, along)
					}
				}
				for j, x := range vectors[i] {
					y := d[j]*x - v*x
					if j > 0 {
						y += e[j-1] * vectors[i][j-1]
					}
					if j < n-1 {
						y += e[j] * vectors[i][j+1]
					}
					if math.Abs(y) > 1e-10 {
						t.Errorf("n %d: residual %v of vector %d", n, y, i)
					}
				}
			}
		}
	}
	if _, _, ok := network.Tridiagonal([]float64{1, 2, 3}, []float64{1, math.NaN()}, 1); ok {
		t.Error("a NaN has eigenvalues")
	}
}

// A matrix in another order has the same entries, and is symmetric.
func TestPermuted(t *testing.T) {
	_, h := matrices(t, "1CRN")
	order := rand.New(rand.NewPCG(3, 4)).Perm(h.Rows())
	a, b := dense(h), dense(h.Permuted(order))
	for i := range b {
		for j := range b {
			if b[i][j] != a[order[i]][order[j]] || b[i][j] != b[j][i] {
				t.Fatalf("entry %d, %d is %v", i, j, b[i][j])
			}
		}
	}
	if got := h.Permuted(order).Parts(); got != 1 {
		t.Errorf("%d parts", got)
	}
}

func TestRejects(t *testing.T) {
	good := []float64{0, 0, 0, 3.8, 0, 0, 7, 1, 0}
	for _, c := range []struct {
		xyz    []float64
		cutoff float64
	}{
		{nil, 10}, {good[:3], 10}, {good[:8], 10}, {good, 0}, {good, -1}, {good, math.NaN()}, {good, math.Inf(1)},
		{[]float64{0, 0, 0, math.NaN(), 0, 0}, 10}, {[]float64{1, 2, 3, 1, 2, 3}, 10}, {make([]float64, 3*network.MaxBeads+3), 10},
	} {
		for name, f := range map[string]func([]float64, float64) (*network.Matrix, error){"Kirchhoff": network.Kirchhoff, "Hessian": network.Hessian, "Contacts": network.Contacts} {
			if _, err := f(c.xyz, c.cutoff); !errors.Is(err, network.ErrNetwork) {
				t.Errorf("%s of %d coordinates at %v: error %v", name, len(c.xyz), c.cutoff, err)
			}
		}
	}
	if _, err := network.Rigid([]float64{0, 0, 0, 3.8, 0, 0, 7.6, 0, 0}); !errors.Is(err, network.ErrNetwork) {
		t.Errorf("beads on a line: error %v", err)
	}
	m, err := network.Kirchhoff([]float64{0, 0, 0, 1, 0, 0, 100, 0, 0, 101, 0, 0}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Parts(); got != 2 {
		t.Errorf("%d parts, want 2", got)
	}
}
