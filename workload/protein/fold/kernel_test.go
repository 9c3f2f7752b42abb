package fold

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/simd"
	"github.com/weft-run/weft/workload/protein"
)

// everyKernel runs a test with each kernel this machine has.
func everyKernel(t *testing.T, test func(t *testing.T)) {
	defer func() { use = simd.Best }()
	for _, use = range simd.Sets() {
		t.Run(fmt.Sprintf("kernel=%v", use), test)
	}
}

func modelOf(t testing.TB, name string, ends ...int) *protein.Model {
	t.Helper()
	s, err := protein.Open(name, protein.Select{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := protein.NewModel(s.Coordinates(), ends...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// shaken is a group of replicas of a model, each displaced at random and at a temperature.
func shaken(m *protein.Model, by, temperature float64) *group {
	s, _, _ := tablesOf(m)
	x, v := make([][lanes]float64, 3*s.beads), make([][lanes]float64, 3*s.beads)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		for l := range lanes {
			x[i][l], v[i][l] = m.Native[i]+by*r.NormFloat64(), math.Sqrt(temperature)*r.NormFloat64()
		}
	}
	g := new(group)
	g.bind(s, x, v)
	return g
}

// lane is the coordinates of one replica.
func lane(x [][lanes]float64, l int) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i][l]
	}
	return out
}

// long is a random walk of beads, longer than what all pairs are looked at of.
func long(t testing.TB, n int) *protein.Model {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	xyz := make([]float64, 0, 3*n)
	at := vector{}
	for len(xyz) < 3*n {
		d := vector{r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
		next := plus(at, scaled(d, 3.8/math.Sqrt(dot(d, d))))
		if size := math.Sqrt(dot(next, next)); size > 25 {
			continue
		}
		clash := false
		for i := 0; i < len(xyz); i += 3 {
			e := sub(vector{xyz[i], xyz[i+1], xyz[i+2]}, next)
			clash = clash || dot(e, e) < 9
		}
		if clash {
			if r.IntN(30) == 0 { // it is stuck
				xyz, at = xyz[:0], vector{}
			}
			continue
		}
		at = next
		xyz = append(xyz, at.x, at.y, at.z)
	}
	m, err := protein.NewModel(xyz)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Energies and forces of every kernel are those of the reference.
func TestForces(t *testing.T) {
	everyKernel(t, func(t *testing.T) {
		for name, m := range map[string]*protein.Model{"1CRN": modelOf(t, "1CRN"), "two chains": modelOf(t, "1CRN", 20, 46), "BPTI": modelOf(t, "BPTI"), "long": long(t, few+50)} {
			for _, by := range []float64{0, 0.3} {
				g := shaken(m, by, 1)
				g.list()
				g.args.do(doForce)
				for l := range lanes {
					want := make([]float64, 3*m.Beads())
					e := m.Forces(want, lane(g.x, l))
					largest := 1.0
					for _, f := range want {
						largest = max(largest, math.Abs(f))
					}
					if got := g.args.energy[l]; math.Abs(got-e) > 1e-11*(100+math.Abs(e)) {
						t.Errorf("%s, replica %d: energy %v, want %v", name, l, got, e)
					}
					for i, f := range want {
						if got := g.f[i][l]; math.Abs(got-f) > 1e-11*largest {
							t.Fatalf("%s, replica %d: force %d is %v, want %v", name, l, i, got, f)
						}
					}
				}
			}
		}
	})
}

// All kernels give the same bits, and a replica the same ones wherever it is in a group and
// with whom.
func TestKernelsAgree(t *testing.T) {
	defer func() { use = simd.Best }()
	steps := 300
	if testing.Short() {
		steps = 30
	}
	m := motion{dt: 0.005, gamma: 0.2, seed: 7, first: 1<<32 - uint64(steps/3), steps: steps}
	temperature := [lanes]float64{0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2}
	replica := [lanes]uint64{0, 1, 2, 3, 4, 5, 6, 1000}
	for _, model := range []*protein.Model{modelOf(t, "1CRN"), modelOf(t, "1CRN", 20, 46), long(t, few+50)} {
		run := func(k simd.Set, turn int) *group {
			use = k
			g := shaken(model, 0.2, 1)
			rotated := func(x [][lanes]float64) {
				for i, v := range x {
					for l := range lanes {
						x[i][(l+turn)%lanes] = v[l]
					}
				}
			}
			rotated(g.x)
			rotated(g.v)
			var temp [lanes]float64
			var rep [lanes]uint64
			for l := range lanes {
				temp[(l+turn)%lanes], rep[(l+turn)%lanes] = temperature[l], replica[l]
			}
			if err := g.advance(m, temp, rep, nil); err != nil {
				t.Fatal(err)
			}
			rotate := turn
			turn = lanes - rotate
			rotated(g.x)
			rotated(g.v)
			return g
		}
		want := run(simd.Go, 0)
		for _, k := range simd.Sets() {
			for _, turn := range []int{0, 3} {
				if got := run(k, turn); !slices.Equal(got.x, want.x) || !slices.Equal(got.v, want.v) {
					t.Errorf("%d beads, kernel %v with replicas turned by %d differs", model.Beads(), k, turn)
				}
			}
		}
	}
}

// Steps in parts are the same as in one, although each part begins with a new list of pairs:
// the chain is so hot that beads which were far from each other meet.
func TestParts(t *testing.T) {
	model := modelOf(t, "1CRN")
	temperature := [lanes]float64{4, 4, 4, 4, 5, 5, 5, 5}
	one, parts := shaken(model, 0.1, 4), shaken(model, 0.1, 4)
	const steps, part = 3000, 100
	if err := one.advance(motion{0.005, 0.2, 1, 0, steps}, temperature, [lanes]uint64{}, nil); err != nil {
		t.Fatal(err)
	}
	for first := uint64(0); first < steps; first += part {
		if err := parts.advance(motion{0.005, 0.2, 1, first, part}, temperature, [lanes]uint64{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(one.x, parts.x) {
		t.Error("the positions differ")
	}
}

// Random numbers are made of the blocks that package philox has, and are normally distributed.
func TestNormal(t *testing.T) {
	const key, bead, replica, step = 5<<32 | 9, 3, 11, 7<<32 | 2
	w := philox.Block([4]uint32{bead, replica, 2, 7}, [2]uint32{9, 5})
	u := func(i int) float64 { return philox.Unit(w[i]) }
	want := [3]float64{
		math.Sqrt(-2*math.Log(u(0))) * math.Cos(2*math.Pi*u(1)), math.Sqrt(-2*math.Log(u(0))) * math.Sin(2*math.Pi*u(1)),
		math.Sqrt(-2*math.Log(u(2))) * math.Cos(2*math.Pi*u(3)),
	}
	got := normal(key, bead, replica, step)
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-14 {
			t.Errorf("number %d is %v, want %v", i, got[i], want[i])
		}
	}
	const n = 200_000
	var moments [5]float64
	for i := range n / 3 {
		for _, g := range normal(1, i%50, uint64(i/50%40), uint64(i/2000)) {
			for p := range moments {
				moments[p] += math.Pow(g, float64(p)) / n
			}
		}
	}
	for p, want := range []float64{1, 0, 1, 0, 3} {
		if math.Abs(moments[p]-want) > 0.05 {
			t.Errorf("moment %d is %v", p, moments[p])
		}
	}
}

// The functions of one variable are those of package math.
func TestFunctions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 20_000 {
		u := (float64(r.Uint32()) + 0.5) / (1 << 32)
		if i < 100 {
			u = (float64(i) + 0.5) / (1 << 32)
		}
		if got, want := logarithm(u), math.Log(u); math.Abs(got-want) > 2e-16*math.Abs(want)*2 {
			t.Fatalf("log %v = %v, want %v", u, got, want)
		}
		cos, sin := turnOf(u)
		ws, wc := math.Sincos(2 * math.Pi * u)
		if math.Abs(cos-wc) > 1e-15 || math.Abs(sin-ws) > 1e-15 {
			t.Fatalf("turn %v = %v, %v, want %v, %v", u, cos, sin, wc, ws)
		}
		y, x := math.Abs(r.NormFloat64()), r.NormFloat64()
		if got, want := angleOf(y, x), math.Atan2(y, x); math.Abs(got-want) > 1e-15 {
			t.Fatalf("angle of %v, %v = %v, want %v", y, x, got, want)
		}
	}
}

// Without friction and noise the total energy stays.
func TestEnergyIsConserved(t *testing.T) {
	steps := 20_000
	if testing.Short() || simd.Best == simd.Go {
		steps = 2000
	}
	g := shaken(modelOf(t, "1CRN"), 0, 0.25)
	total := func() (e [lanes]float64) {
		g.list()
		g.args.do(doForce)
		e = g.args.energy
		for _, v := range g.v {
			for l := range lanes {
				e[l] += v[l] * v[l] / 2
			}
		}
		return e
	}
	before := total()
	if err := g.advance(motion{0.005, 0, 1, 0, steps}, [lanes]float64{}, [lanes]uint64{}, nil); err != nil {
		t.Fatal(err)
	}
	for l, e := range total() {
		// It oscillates with the square of the step; what must not be is a drift.
		if math.Abs(e-before[l]) > 0.016 {
			t.Errorf("replica %d: total energy %v, before %v", l, e, before[l])
		}
	}
}

// A chain that is thrown apart is reported by step, replica and bead.
func TestNowhere(t *testing.T) {
	g := shaken(modelOf(t, "1CRN"), 0, 1)
	g.x[3*17+1][5] = math.NaN()
	err := g.advance(motion{0.005, 0.2, 1, 40, 10}, [lanes]float64{}, [lanes]uint64{0, 1, 2, 3, 4, 5}, nil)
	if err == nil || err.Error() != "at step 40 bead 17 of replica 5 is nowhere: its coordinates are no numbers; take a shorter time step or a lower temperature" {
		t.Error(err)
	}
}

// BenchmarkSteps advances eight replicas of crambin on one core, and one by the reference as a
// plain loop would.
func BenchmarkSteps(b *testing.B) {
	defer func() { use = simd.Best }()
	m := modelOf(b, "1CRN")
	for _, use = range simd.Sets() {
		b.Run(fmt.Sprintf("kernel=%v", use), func(b *testing.B) {
			g := shaken(m, 0.1, 0.7)
			if err := g.advance(motion{0.005, 0.2, 1, 0, b.N}, [lanes]float64{.7, .7, .7, .7, .7, .7, .7, .7}, [lanes]uint64{}, nil); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(lanes*float64(b.N)/b.Elapsed().Seconds(), "steps/s")
		})
	}
}

// Velocities have the temperatures that replicas are given: each coordinate has half of it as
// kinetic energy, although replicas begin at another.
func TestTemperature(t *testing.T) {
	g := shaken(modelOf(t, "1CRN"), 0.05, 3)
	temperature := [lanes]float64{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}
	var got [lanes]float64
	const settle, samples, between = 4000, 30, 300
	step := uint64(0)
	for s := range 1 + samples {
		m := motion{0.005, 0.5, 1, step, between}
		if s == 0 {
			m.steps = settle
		}
		if err := g.advance(m, temperature, [lanes]uint64{0, 1, 2, 3, 4, 5, 6, 7}, nil); err != nil {
			t.Fatal(err)
		}
		step += uint64(m.steps)
		for _, v := range g.v {
			for l := range lanes {
				if s > 0 {
					got[l] += v[l] * v[l] / float64(samples*len(g.v))
				}
			}
		}
	}
	for l, want := range temperature {
		if math.Abs(got[l]-want) > 0.12*want {
			t.Errorf("replica %d has temperature %v, want %v", l, got[l], want)
		}
	}
}
