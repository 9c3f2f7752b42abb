//go:build clang || gpu || lavapipe

package fold

import (
	"math"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/workload/protein"
)

// shake sets the replicas of a run near its native structure, or leaves them straight.
func (r *Run) shake(by float64) {
	if by == 0 {
		return
	}
	n := 3 * r.model.Beads()
	for g := range r.groups {
		for k := range n {
			for l := range lanes {
				r.state[2*n*g+k][l] = r.model.Native[k] + by*math.Sin(float64(1+k*(l+1)+g))
			}
		}
	}
}

// testSteps has a kernel for GPUs advance replicas by a round. advance returns the state before and
// after it, and the observables. Both must agree with the reference, from straight chains and from
// native ones, with two chains to a block, with one, and with one that has lists of pairs.
func testSteps(t *testing.T, advance func(t *testing.T, r *Run) (before, after [][lanes]float64, seen [][seenCount][lanes]float64)) {
	for name, m := range map[string]*protein.Structure{"1CRN": open(t, "1CRN"), "BPTI": open(t, "BPTI"), "1UBI": open(t, "1UBI")} {
		for _, by := range []float64{0, 0.2} {
			r, err := NewOf(Config{Steps: 300, Every: 300, Replicas: 11, Low: 0.5, High: 1.2, Seed: 7}, m)
			if err != nil {
				t.Fatal(err)
			}
			r.shake(by)
			for i := range r.ladder {
				for l := range lanes {
					r.ladder[i][rungScale][l], r.ladder[i][rungStep][l] = 1.1, 1<<32-100 // steps need both words
				}
			}
			before, after, seen := advance(t, r)
			worst := 0.0
			n := 3 * r.model.Beads()
			for k := range r.c.Replicas {
				x, v := make([]float64, n), make([]float64, n)
				g, l := k/lanes, k%lanes
				got := make([]float64, n)
				for q := range n {
					x[q], v[q], got[q] = before[2*n*g+q][l], 1.1*before[2*n*g+n+q][l], after[2*n*g+q][l]
				}
				want := r.reference(x, v, motion{r.c.TimeStep, r.c.Friction, r.c.Seed, 1<<32 - 100, 300}, r.temperatures[k], k)
				for q := range n {
					worst = max(worst, math.Abs(got[q]-want[q]), math.Abs(after[2*n*g+n+q][l]-v[q]))
				}
				f := Frame{Replica: k, Energy: seen[g][seenEnergy][l], Q: seen[g][seenQ][l], Rg: seen[g][seenRg][l], RMSD: seen[g][seenRMSD][l]}
				if err := r.checkFrame(f, got); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			t.Logf("%s, shaken by %v: off by %.2g at most", name, by, worst)
			limit := 1e-10
			if by == 0 {
				limit = 1e-5 // straight bends are unstable
			}
			if !(worst <= limit) {
				t.Errorf("%s, shaken by %v: off by %v", name, by, worst)
			}
		}
	}
}

func open(t *testing.T, name string) *protein.Structure {
	t.Helper()
	s, err := protein.Open(name, protein.Select{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// openOn opens the devices of a driver alone.
func openOn(t *testing.T, d driver.Driver) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(t.Context(), weft.Options{
		Drivers: []driver.Driver{d}, NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// testStepsOn is testSteps of a runtime's devices.
func testStepsOn(t *testing.T, rt *weft.Runtime) {
	testSteps(t, func(t *testing.T, r *Run) (before, after [][lanes]float64, seen [][seenCount][lanes]float64) {
		do(t, rt, r)
		return r.last, r.state, r.observed
	})
}

// testMeans compares the mean Q and Rg of replicas of two runtimes, with other random numbers
// each: they may be apart by the given number of standard errors. Replicas are independent of each other.
func testMeans(t *testing.T, c Config, a, b *weft.Runtime, errors float64) {
	t.Helper()
	means := func(rt *weft.Runtime, seed uint32) (mean, variance [2]float64) {
		c.Seed = seed
		r := newSmall(t, c)
		do(t, rt, r)
		n := float64(r.Replicas())
		var square [2]float64
		for k := range r.Replicas() {
			var sum [2]float64
			for i := range r.Rounds() {
				f := r.Frame(i, k)
				sum[0] += f.Q / float64(r.Rounds())
				sum[1] += f.Rg / float64(r.Rounds())
			}
			for q, v := range sum {
				mean[q] += v / n
				square[q] += v * v / n
			}
		}
		for q := range mean {
			variance[q] = (square[q] - mean[q]*mean[q]) / (n - 1)
		}
		return mean, variance
	}
	ma, va := means(a, 202)
	mb, vb := means(b, 101)
	for q, what := range []string{"Q", "Rg"} {
		e := math.Sqrt(va[q] + vb[q])
		t.Logf("T = %v: mean %s %.4f on %s, %.4f on %s: apart by %.2f standard errors of %.4f", c.Low, what,
			ma[q], a.Machine().Devices[0].Name, mb[q], b.Machine().Devices[0].Name, math.Abs(ma[q]-mb[q])/e, e)
		if !(math.Abs(ma[q]-mb[q]) <= errors*e) {
			t.Errorf("T = %v: mean %s differs", c.Low, what)
		}
	}
}
