package tropical_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/tropical"
)

func newJob(t *testing.T, c tropical.Config) *tropical.Job {
	t.Helper()
	return workloadtest.New[*tropical.Job](t)(tropical.New(c))
}

// The product is bitwise the same on any number of devices (class X), and right;
// also with more rows than one item of a launch has, and where the inner dimension is cut.
func TestJobOnDevices(t *testing.T) {
	for _, c := range []tropical.Config{{M: 301, K: 97, N: 203, Seed: 1}, {M: 2200, K: 31, N: 45, Seed: 2}, {M: 45, K: 530, N: 40, Seed: 3}, {M: 8, K: 1, N: 1}} {
		workloadtest.Invariant(t, tropical.Funcs(),
			func() (*tropical.Job, error) { return tropical.New(c) },
			func(j *tropical.Job) []byte { return workloadtest.Bytes(j.Result()) })
	}
}

// Squaring the negated lengths of a graph's edges until all paths are in, each
// square a run on several devices, gives what Floyd and Warshall's algorithm
// gives.
func TestJobShortestPaths(t *testing.T) {
	const n, far = 60, 1 << 40
	none := float32(math.Inf(-1))
	r := rand.New(rand.NewPCG(3, 4))
	d, want := make([]float32, n*n), make([]int, n*n)
	for i := range d {
		d[i], want[i] = none, far
		if i/n == i%n {
			d[i], want[i] = 0, 0
		} else if r.IntN(20) == 0 {
			want[i] = 1 + r.IntN(1000)
			d[i] = -float32(want[i])
		}
	}
	for via := range n {
		for i := range n {
			for j := range n {
				want[i*n+j] = min(want[i*n+j], want[i*n+via]+want[via*n+j])
			}
		}
	}
	rt := workloadtest.Open(t, 3, tropical.Funcs())
	j := newJob(t, tropical.Config{M: n, K: n, N: n})
	a, b := j.Operands()
	for hops := 1; hops < n; hops *= 2 {
		copy(a, d)
		copy(b, d)
		workloadtest.Run(t, rt, j)
		d = slices.Clone(j.Result())
	}
	reached := 0
	for i, w := range want {
		if w < far {
			reached++
		}
		if (w >= far && d[i] != none) || (w < far && d[i] != -float32(w)) {
			t.Fatalf("from %d to %d: %v, want %d", i/n, i%n, -d[i], w)
		}
	}
	if reached == n || reached == n*n {
		t.Errorf("%d of %d pairs are connected, which tests little", reached, n*n)
	}
}

// The longest ways in two steps through a graph of three places.
func TestJobKnownProduct(t *testing.T) {
	none := float32(math.Inf(-1))
	step := []float32{
		none, 2, 7,
		none, none, 4,
		1, none, none,
	}
	want := []float32{
		8, none, 6,
		5, none, none,
		none, 3, 8,
	}
	j := newJob(t, tropical.Config{M: 3, K: 3, N: 3})
	a, b := j.Operands()
	copy(a, step)
	copy(b, step)
	workloadtest.Run(t, workloadtest.Open(t, 2, tropical.Funcs()), j)
	if !slices.Equal(j.Result(), want) {
		t.Errorf("got %v, want %v", j.Result(), want)
	}
}

// Check sees one wrong element, a wrong row, column or tile, of a small product and of one
// too large to be compared term by term.
func TestJobCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 2, tropical.Funcs())
	for _, c := range []tropical.Config{{M: 20, K: 30, N: 40}, {M: 1100, K: 500, N: 600}} {
		j := newJob(t, c)
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		if m := j.Misses(); m[0].Chance != 0 {
			t.Errorf("%v may be missed", m)
		}
		z, good := j.Result(), slices.Clone(j.Result())
		r := rand.New(rand.NewPCG(5, 6))
		for i := range 20 {
			row, col := r.IntN(c.M), r.IntN(c.N)
			at := &z[row*c.N+col]
			switch i % 5 {
			case 0:
				*at = math.Nextafter32(*at, 9)
			case 1:
				*at = float32(math.NaN())
			case 2:
				clear(z[row*c.N:][:c.N])
			case 3:
				for y := range c.M {
					z[y*c.N+col] = 0
				}
			case 4:
				for y := row; y < min(row+8, c.M); y++ {
					copy(z[y*c.N+col:(y+1)*c.N], good[:8])
				}
			}
			if err := j.Check(); !errors.Is(err, tropical.ErrWrong) {
				t.Errorf("%s, fault %d at (%d, %d): the check says %v", j.Name(), i%5, row, col, err)
			}
			copy(z, good)
		}
	}
}

func TestJobRejects(t *testing.T) {
	for _, c := range []tropical.Config{{}, {M: 1, K: -1, N: 1}, {M: 1 << 20, K: 1, N: 1}, {M: 1, K: 1}} {
		if _, err := tropical.New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
