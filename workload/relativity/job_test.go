package relativity_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/relativity"
)

// numbers are what a job computed.
func numbers(j workload.Job) []byte {
	switch j := j.(type) {
	case *relativity.OrbitJob:
		return workloadtest.Bytes(j.Result())
	case *relativity.LightJob:
		return workloadtest.Bytes(j.Result())
	case *relativity.BoostJob:
		boosted, products := j.Result()
		return slices.Concat(workloadtest.Bytes(boosted), workloadtest.Bytes(products))
	case *relativity.BodyJob:
		places, velocities := j.Result()
		return slices.Concat(workloadtest.Bytes(places), workloadtest.Bytes(velocities))
	}
	panic(j.Name())
}

var configs = []relativity.Config{
	{Problem: relativity.Orbits, Count: 101, Steps: 2048, Turns: 2},
	{Problem: relativity.Orbits, Count: 101, Tolerance: 1e-11, Steps: 1 << 15, Seed: 1},
	{Problem: relativity.Light, Count: 301, Steps: 512, Seed: 1},
	{Problem: relativity.Boosts, Count: 3001, Seed: 2},
	{Problem: relativity.Bodies, Count: 203, Steps: 9, Seed: 3},
}

func TestJobOnDevices(t *testing.T) {
	for _, c := range configs {
		workloadtest.Invariant(t, relativity.Funcs(), func() (workload.Job, error) { return relativity.New(c) }, numbers)
	}
}

// Periapses move on by what the integral says, to eight digits, with fixed steps and with a
// tolerance.
func TestPrecession(t *testing.T) {
	rt := workloadtest.Open(t, 2, relativity.Funcs())
	for _, v := range []struct{ p, e, want float64 }{{20, 0.2, 1.22780751}, {50, 0.5, 0.41536160}} {
		exact, err := relativity.Precession(v.p, v.e)
		if err != nil || math.Abs(exact-v.want) > 5e-9 {
			t.Errorf("p %v, e %v: precession %.10f by the integral, want %.8f: %v", v.p, v.e, exact, v.want, err)
		}
		start, err := relativity.Periapsis(v.p, v.e, 4096)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []relativity.Config{{}, {Turns: 3}, {Tolerance: 1e-12, Steps: 1 << 15}} {
			o, err := relativity.Follow(t.Context(), rt, []relativity.Particle{start}, c)
			if err != nil {
				t.Fatal(err)
			}
			turns := float64(max(c.Turns, 1))
			if got := o[0].Angle/turns - 2*math.Pi; math.Abs(got-v.want) > 1e-8 || o[0].Drift > 1e-9 || o[0].FellIn {
				t.Errorf("p %v, e %v, %+v: precession %.10f, want %.8f: %+v", v.p, v.e, c, got, v.want, o[0])
			}
		}
	}
}

// The precession is that of the complete elliptic integral K, by the arithmetic-geometric mean: from circles to orbits
// that nearly have no periapsis.
func TestPrecessionElliptic(t *testing.T) {
	for _, v := range []struct{ p, e float64 }{{7, 0}, {6.5, 0.2}, {7.9, 0.9}, {30, 0.5}, {1e4, 0.01}} {
		a, b := 1., math.Sqrt(1-4*v.e/(v.p-6+2*v.e))
		for a-b > 1e-15 {
			a, b = (a+b)/2, math.Sqrt(a*b)
		}
		want := 2*math.Pi*math.Sqrt(v.p/(v.p-6+2*v.e))/a - 2*math.Pi
		if got, err := relativity.Precession(v.p, v.e); err != nil || math.Abs(got-want) > 1e-13*(1+want) {
			t.Errorf("p %v, e %v: %v, want %v: %v", v.p, v.e, got, want, err)
		}
	}
}

// The perihelion of Mercury moves on by 42.98″ in a century.
func TestMercury(t *testing.T) {
	const (
		mass   = 1.476625 // of the sun, in km
		a, e   = 57.90905e6 / mass, 0.2056
		orbits = 36525 / 87.9691
	)
	p, err := relativity.Precession(a*(1-e*e), e)
	if got := p * orbits * 180 / math.Pi * 3600; err != nil || math.Abs(got-42.98) > 0.005 {
		t.Errorf("%.4f″, want 42.98″: %v", got, err)
	}
}

// A particle without enough angular momentum falls in, from rest too, and one that is too fast
// does not return.
func TestFall(t *testing.T) {
	rt := workloadtest.Open(t, 1, relativity.Funcs())
	for _, tolerance := range []float64{0, 1e-10} {
		o, err := relativity.Follow(t.Context(), rt, []relativity.Particle{
			{R: 10, Step: 0.01}, {R: 20, AngularMomentum: 3, Step: 0.02}, {R: 10, Velocity: 2, AngularMomentum: 5, Step: 0.1},
		}, relativity.Config{Tolerance: tolerance, Steps: 8192})
		if err != nil {
			t.Fatal(err)
		}
		// From rest at r, a particle reaches radius 2 after a known time, and is there soon before.
		r := 10.
		fall := func(to float64) float64 {
			x := to / r
			return math.Sqrt(r*r*r/2) * (math.Sqrt(x*(1-x)) + math.Acos(math.Sqrt(x)))
		}
		if !o[0].FellIn || o[0].Angle != 0 || !(o[0].Time <= fall(2)) || math.Abs(o[0].Time-fall(o[0].R)) > 1e-6 {
			t.Errorf("from rest: %+v, want time %v", o[0], fall(2))
		}
		if !o[1].FellIn || o[2].FellIn || o[2].Turns != 0 || !(o[2].R > 1000) {
			t.Errorf("%+v", o[1:])
		}
	}
}

// Products stay as they are when events are boosted, and the opposite boost brings them back.
func TestBoost(t *testing.T) {
	rt := workloadtest.Open(t, 2, relativity.Funcs())
	r := rand.New(rand.NewPCG(1, 2))
	const n = 1000
	x, y, v, back := make([]float64, 4*n), make([]float64, 4*n), make([]float64, 3*n), make([]float64, 3*n)
	for i := range x {
		x[i], y[i] = r.NormFloat64(), r.NormFloat64()
	}
	for i := range v {
		v[i] = 1.1*r.Float64() - 0.55
		back[i] = -v[i]
	}
	boost := func(x, v []float64) []float64 {
		out, err := relativity.Boost(t.Context(), rt, x, v)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	product := func(x, y []float64) []float64 {
		out, err := relativity.Minkowski(t.Context(), rt, x, y)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	bx, by := boost(x, v), boost(y, v)
	near := func(what string, got, want []float64) {
		for i := range want {
			if !(math.Abs(got[i]-want[i]) <= 1e-11) {
				t.Fatalf("%s %d is %v, want %v", what, i, got[i], want[i])
			}
		}
	}
	near("product", product(bx, by), product(x, y))
	near("coordinate", boost(bx, back), x)
	// A clock that moves with 0.6 shows 0.8 of the time.
	near("clock", boost([]float64{1, 0.6, 0, 0}, []float64{0.6, 0, 0}), []float64{0.8, 0, 0, 0})
}

// Every number that is off by more than its error is found.
func TestCheckFinds(t *testing.T) {
	rt := workloadtest.Open(t, 2, relativity.Funcs())
	for _, c := range configs {
		j := workloadtest.New[workload.Job](t)(relativity.New(c))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Fatal(err)
		}
		spoil := func(what string, do func(), undo func()) {
			do()
			if err := j.Check(); !errors.Is(err, relativity.ErrWrong) {
				t.Errorf("%s, %s: the check says %v", j.Name(), what, err)
			}
			undo()
		}
		switch j := j.(type) {
		case *relativity.OrbitJob:
			for i := range 7 { // steps are only counted
				x := &j.Result()[8*50+i]
				was := *x
				spoil("an orbit", func() { *x += 1e-3 }, func() { *x = was })
				spoil("NaN", func() { *x = math.NaN() }, func() { *x = was })
			}
		case *relativity.BoostJob:
			boosted, products := j.Result()
			for _, x := range []*float64{&boosted[0], &boosted[999], &products[77]} {
				was := *x
				spoil("an event", func() { *x += 1e-12 }, func() { *x = was })
				spoil("NaN", func() { *x = math.NaN() }, func() { *x = was })
			}
		case *relativity.BodyJob:
			places, velocities := j.Result()
			for _, x := range []*float32{&places[0], &places[len(places)-1], &velocities[500], &velocities[len(velocities)-2]} {
				was := *x
				spoil("a body", func() { *x += 1e-5 }, func() { *x = was })
				spoil("NaN", func() { *x = float32(math.NaN()) }, func() { *x = was })
			}
		}
		if m := j.(workload.Inspected).Misses(); len(m) == 0 || m[0].Chance != 0 {
			t.Errorf("%s may miss %v", j.Name(), m)
		}
	}
}

// Check knows orbits with more digits than any tolerance has.
func TestExact(t *testing.T) {
	rt := workloadtest.Open(t, 2, relativity.Funcs())
	for _, c := range []relativity.Config{
		{Problem: relativity.Orbits, Count: 64, Steps: 16384},
		{Problem: relativity.Orbits, Count: 64, Tolerance: 1e-15, Steps: 1 << 15},
	} {
		j := workloadtest.New[workload.Job](t)(relativity.New(c))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Errorf("%s: %v", j.Name(), err)
		}
	}
}

// Orbits without an end are right, and Misses says that little is known of them. Steps that are
// too coarse show nothing.
func TestUnfinished(t *testing.T) {
	rt := workloadtest.Open(t, 2, relativity.Funcs())
	for _, c := range []struct {
		relativity.Config
		least, most float64 // of what Check misses
	}{
		{relativity.Config{Tolerance: 1e-12, Steps: 16}, 1, 1},
		{relativity.Config{Tolerance: 1e-12, Steps: 900}, 0.01, 0.99},
		{relativity.Config{Steps: 16}, 1, 1},
		{relativity.Config{Steps: 256}, 0, 0},
	} {
		c.Problem, c.Count = relativity.Orbits, 256
		j := workloadtest.New[workload.Job](t)(relativity.New(c.Config))
		workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Errorf("%s: %v", j.Name(), err)
		}
		if m := j.(workload.Inspected).Misses(); !(m[0].Chance >= c.least && m[0].Chance <= c.most) {
			t.Errorf("%s may miss %v, want %v to %v", j.Name(), m, c.least, c.most)
		}
	}
}

func TestRejects(t *testing.T) {
	for want, c := range map[string]relativity.Config{
		"no problem":          {Problem: "x", Count: 1},
		"0 orbits":            {Problem: relativity.Orbits},
		"-1 bodies":           {Problem: relativity.Bodies, Count: -1},
		"to 524288":           {Problem: relativity.Bodies, Count: 1 << 20},
		"only orbits":         {Problem: relativity.Boosts, Count: 1, Turns: 1},
		"only orbits have on": {Problem: relativity.Bodies, Count: 1, Tolerance: 1},
		"they have none":      {Problem: relativity.Boosts, Count: 1, Steps: 1},
		"all are kept":        {Problem: relativity.Bodies, Count: 1 << 19, Steps: 100},
		"1 to 4096":           {Problem: relativity.Bodies, Count: 1, Steps: 4_000_000},
		"1e-15":               {Problem: relativity.Orbits, Count: 1, Tolerance: math.NaN()},
		"1e-15 ":              {Problem: relativity.Orbits, Count: 1, Tolerance: -1},
		"16 to":               {Problem: relativity.Orbits, Count: 1, Steps: 3},
		"1 turn":              {Problem: relativity.Orbits, Count: 1, Turns: -1},
		"steps in all":        {Problem: relativity.Orbits, Count: 1, Turns: 100},
	} {
		if _, err := relativity.New(c); !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	rt := workloadtest.Open(t, 1, relativity.Funcs())
	follow := func(p ...relativity.Particle) error {
		_, err := relativity.Follow(t.Context(), rt, p, relativity.Config{})
		return err
	}
	boost := func(x, v []float64) error { _, err := relativity.Boost(t.Context(), rt, x, v); return err }
	_, orbit := relativity.Periapsis(6, 0.1, 100)
	_, circle := relativity.Periapsis(20, 0, 100)
	_, steps := relativity.Periapsis(20, 0.1, 0)
	_, product := relativity.Minkowski(t.Context(), rt, make([]float64, 4), make([]float64, 8))
	for name, err := range map[string]error{
		"no particle":     follow(),
		"inside":          follow(relativity.Particle{R: 2, Step: 1}),
		"no step":         follow(relativity.Particle{R: 3}),
		"infinite":        follow(relativity.Particle{R: math.Inf(1), Step: 1}),
		"NaN":             follow(relativity.Particle{R: 9, Velocity: math.NaN(), Step: 1}),
		"light":           boost(make([]float64, 4), []float64{1, 0, 0}),
		"no number":       boost(make([]float64, 4), []float64{math.NaN(), 0, 0}),
		"half an event":   boost(make([]float64, 3), nil),
		"no event":        boost(nil, nil),
		"no orbit":        orbit,
		"a circle":        circle,
		"no steps":        steps,
		"different pairs": product,
	} {
		if !errors.Is(err, workload.ErrConfig) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := boost(make([]float64, 12), []float64{0, 0, 0, 0, 0, 0, 0, 0, 2}); err == nil || !strings.Contains(err.Error(), "velocity 2,") {
		t.Errorf("the last of three velocities: %v", err)
	}
}
