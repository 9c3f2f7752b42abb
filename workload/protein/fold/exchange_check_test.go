package fold

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/protein"
)

// decided is a run whose energies are drawn and whose exchanges are decided by a rule: which random word of
// which round a pair has, and whether it exchanges by that and by the difference of inverse temperatures
// times that of energies.
func decided(t *testing.T, c Config, word func(round, low int) uint32, exchanges func(u, gain float64) bool, odd int) *Run {
	t.Helper()
	r := newSmall(t, c)
	source := rand.New(rand.NewPCG(3, 8))
	n := c.Replicas
	rung := slices.Clone(r.rung)
	for i := range r.Rounds() {
		copy(r.rungs[i*n:], rung)
		for k, on := range rung {
			r.seen[(i*n+k)*seenCount+seenEnergy] = -60 + 50*r.temperatures[on] + 6*source.NormFloat64()
		}
		if i+1 == r.Rounds() {
			break
		}
		scale := slices.Repeat([]float64{1}, n)
		for low := (i + odd) % 2; low+1 < n; low += 2 {
			a, b := slices.Index(rung, int32(low)), slices.Index(rung, int32(low+1))
			ratio := r.temperatures[low+1] / r.temperatures[low]
			gain := (1/r.temperatures[low] - 1/r.temperatures[low+1]) * (r.Frame(i, a).Energy - r.Frame(i, b).Energy)
			r.asked[0]++
			if exchanges(philox.Unit(word(i, low)), gain) {
				r.asked[1]++
				rung[a], rung[b] = rung[b], rung[a]
				scale[a], scale[b] = math.Sqrt(ratio), math.Sqrt(1/ratio)
			}
		}
		copy(r.rung, rung)
		r.climb((i+1)*r.c.Every, scale)
	}
	return r
}

// Exchanges that are decided otherwise than by the definition are found: by other random numbers, by
// other chances, between other pairs.
func TestCheckFindsDecisions(t *testing.T) {
	c := Config{Steps: 400, Every: 10, Replicas: 9, Low: 0.6, High: 1.2, Seed: 11}
	right := func(round, low int) uint32 {
		return philox.Source{Seed: c.Seed, Stream: streamExchange}.Block(uint64(round), uint32(low), 0)[0]
	}
	metropolis := func(u, gain float64) bool { return u < math.Exp(gain) }
	if err := decided(t, c, right, metropolis, 0).checkExchanges(); err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]*Run{
		"half the random number":    decided(t, c, right, func(u, gain float64) bool { return u/2 < math.Exp(gain) }, 0),
		"one number for all rounds": decided(t, c, func(_, low int) uint32 { return right(0, low) }, metropolis, 0),
		"one number for all pairs":  decided(t, c, func(round, _ int) uint32 { return right(round, 0) }, metropolis, 0),
		"another seed":              decided(t, c, func(round, low int) uint32 { return right(round+1000, low) }, metropolis, 0),
		"the opposite sign":         decided(t, c, right, func(u, gain float64) bool { return u < math.Exp(-gain) }, 0),
		"only what is certain":      decided(t, c, right, func(_, gain float64) bool { return gain >= 0 }, 0),
		"all":                       decided(t, c, right, func(_, _ float64) bool { return true }, 0),
		"the rule of Glauber":       decided(t, c, right, func(u, gain float64) bool { return u < 1/(1+math.Exp(-gain)) }, 0),
		"the other pairs":           decided(t, c, right, metropolis, 1),
	} {
		if err := r.checkExchanges(); !errors.Is(err, errWrong) {
			t.Errorf("exchanges by %s: %v", what, err)
		}
	}
	// What is recorded of right decisions is compared too.
	for what, spoil := range map[string]func(r *Run){
		"count asked":           func(r *Run) { r.asked[0]++ },
		"count made":            func(r *Run) { r.asked[1]-- },
		"rung":                  func(r *Run) { r.rungs[5], r.rungs[6] = r.rungs[6], r.rungs[5] },
		"last rung":             func(r *Run) { r.rung[5], r.rung[6] = r.rung[6], r.rung[5] },
		"temperature":           func(r *Run) { r.ladder[1][rungTemperature][0] *= 1.001 },
		"velocity":              func(r *Run) { r.ladder[0][rungScale][3] *= 1.001 },
		"step":                  func(r *Run) { r.ladder[0][rungStep][3]++ },
		"ladder":                func(r *Run) { r.temperatures[4] *= 1.001 },
		"ladder in other order": func(r *Run) { slices.Reverse(r.temperatures) },
	} {
		r := decided(t, c, right, metropolis, 0)
		if spoil(r); !errors.Is(r.checkExchanges(), errWrong) {
			t.Errorf("a wrong %s: %v", what, r.checkExchanges())
		}
	}
}

// What is said of a conformation is found to be wrong: observables, the superposition and GDT-TS. The
// reference agrees with conformations that are near, far, turned and mirrored.
func TestCheckFindsObservables(t *testing.T) {
	r := newSmall(t, small)
	native := r.model.Native
	mirrored := slices.Clone(native)
	for i := 0; i < len(mirrored); i += 3 {
		mirrored[i] *= -1
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for name, by := range map[string]float64{"native": 0, "shaken": 1, "far": 20, "straight": -1, "mirrored": -2} {
		x := slices.Clone(native)
		switch by {
		case -1:
			x = r.Positions(0)
		case -2:
			x = mirrored
		default:
			for i := range x {
				x[i] += by * rng.NormFloat64()
			}
		}
		f := Frame{Energy: r.model.Energy(x), Q: r.model.Q(x), Rg: protein.Rg(x), RMSD: protein.RMSD(x, native)}
		if err := r.checkFrame(f, x); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for what, spoil := range map[string]func(f *Frame){
			"Q": func(f *Frame) { f.Q += 1e-3 }, "Rg": func(f *Frame) { f.Rg *= 1 + 1e-5 }, "RMSD": func(f *Frame) { f.RMSD += 0.05 },
		} {
			wrong := f
			if spoil(&wrong); !errors.Is(r.checkFrame(wrong, x), errWrong) {
				t.Errorf("%s: a wrong %s: %v", name, what, r.checkFrame(wrong, x))
			}
		}
	}
}

// Where the heat capacity is largest is found to be wrong: on the other side of its highest point, at
// that point, and at an end that is none.
func TestCheckFindsMelting(t *testing.T) {
	h := &Heat{Melting: 0.7625}
	for i := range 11 {
		at := 0.5 + 0.05*float64(i)
		h.Temperatures, h.Capacity = append(h.Temperatures, at), append(h.Capacity, 100-1000*(at-0.7625)*(at-0.7625))
	}
	if got, edge := peakAt(h.Temperatures, h.Capacity), false; math.Abs(got-0.7625) > 1e-9 || edge {
		t.Errorf("the top of a parabola is at %v, want 0.7625", got)
	}
	if err := checkMelting(h); err != nil {
		t.Error(err)
	}
	for _, wrong := range []Heat{{Melting: 0.7375}, {Melting: 0.75}, {Melting: math.NaN()}, {Melting: 0.7625, Edge: true}} {
		wrong.Temperatures, wrong.Capacity = h.Temperatures, h.Capacity
		if err := checkMelting(&wrong); !errors.Is(err, errWrong) {
			t.Errorf("largest at %v, at an end: %v: %v", wrong.Melting, wrong.Edge, err)
		}
	}
}

// The check sees the heat capacity that was computed, and the exchanges of a run on devices.
func TestCheckOfHeat(t *testing.T) {
	r := newSmall(t, Config{Steps: 1200, Every: 30, Replicas: 4, Low: 0.6, High: 1.0, Seed: 2})
	do(t, workloadtest.Open(t, 2, Funcs()), r)
	h, err := r.Heat()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	if h.Edge = !h.Edge; !errors.Is(r.Check(), errWrong) {
		t.Errorf("a wrong heat capacity: %v", r.Check())
	}
}
