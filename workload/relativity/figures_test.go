package relativity

import (
	"errors"
	"math"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
)

// Speeds are compared with one, however they are made of components.
func TestSpeeds(t *testing.T) {
	rt := workloadtest.Open(t, 1, Funcs())
	event := []float64{1, 0, 0, 0}
	for _, c := range []struct {
		v    []float64
		good bool
	}{
		{[]float64{0.999999, 0, 0}, true},
		{[]float64{0.7, 0.7, 0.1}, true},
		{[]float64{1, 0, 0}, false},
		{[]float64{0, -1, 0}, false},
		{[]float64{0.9, 0.9, 0}, false},
		{[]float64{0.6, 0.6, 0.6}, false},
		{[]float64{0, 0, 1.4}, false},
		{[]float64{math.NaN(), 0, 0}, false},
	} {
		if _, err := Boost(t.Context(), rt, event, c.v); (err == nil) != c.good || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("velocity %v: %v", c.v, err)
		}
	}
}

// The operations that orbits are said to take grow with their turns and steps, by which work is predicted.
func TestOrbitWork(t *testing.T) {
	ops := func(c Config) float64 {
		c.Problem, c.Count = Orbits, 10
		return (&OrbitJob{c: c.withDefaults()}).Whole().Work.Ops
	}
	fixed, bounded := Config{Turns: 2, Steps: 2048}, Config{Turns: 2, Steps: 30_000, Tolerance: 1e-9}
	for _, c := range []struct {
		name     string
		than, of Config
		times    float64
	}{
		{"turns", fixed, Config{Turns: 4, Steps: 2048}, 2},
		{"steps", fixed, Config{Turns: 2, Steps: 8192}, 4},
		{"turns with a tolerance", bounded, Config{Turns: 4, Steps: 30_000, Tolerance: 1e-9}, 2},
		{"fewer steps with a tolerance", Config{Turns: 2, Steps: 1000, Tolerance: 1e-9}, Config{Turns: 2, Steps: 500, Tolerance: 1e-9}, 0.5},
		{"three tries of a step", Config{Turns: 1, Steps: 1000}, Config{Turns: 1, Steps: 1000, Tolerance: 1e-9}, 3},
	} {
		if got := ops(c.of) / ops(c.than); got != c.times {
			t.Errorf("%s: %v times as many operations, want %v", c.name, got, c.times)
		}
	}
}

// What the check allows is the error of a method of order four, which grows with turns, or of each step.
func TestOrbitsWithin(t *testing.T) {
	within := func(c Config) float64 { return (&OrbitJob{c: c}).within() - 1e-12 }
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-3*want }
	one := within(Config{Turns: 1, Steps: 4096})
	for _, c := range []struct {
		c    Config
		want float64
	}{
		{Config{Turns: 1, Steps: 2048}, 16 * one},
		{Config{Turns: 3, Steps: 4096}, 3 * one},
		{Config{Turns: 1, Steps: 8192}, one / 16},
	} {
		if got := within(c.c); !near(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.c, got, c.want)
		}
	}
	loose := within(Config{Turns: 1, Steps: 4096, Tolerance: 1e-8})
	if got := within(Config{Turns: 2, Steps: 4096, Tolerance: 1e-9}); !near(got, loose/5) {
		t.Errorf("a tenth of the tolerance for twice the turns allows %v, want %v", got, loose/5)
	}
	if one > 1e-8 || loose > 1e-3 {
		t.Errorf("allowed are %v and %v", one, loose)
	}
}

// The check of many bodies draws as many as have about checkedPairs pairs, and says so.
func TestBodiesDrawn(t *testing.T) {
	for _, c := range []Config{{Count: 1 << 15, Steps: 16}, {Count: 1 << 12, Steps: 16}, {Count: 100, Steps: 3}, {Count: 1 << 15, Steps: 64}} {
		c.Problem = Bodies
		j := newBodies(c)
		if err := j.Check(); !errors.Is(err, ErrWrong) {
			t.Errorf("%+v: bodies that never moved pass: %v", c, err)
		}
		drawn := min(checkedPairs/(c.Count*c.Steps), c.Count)
		if got, want := j.Misses()[0].Chance, 1-float64(drawn)/float64(c.Count); got != want {
			t.Errorf("%+v: a wrong number is missed with chance %v, want %v", c, got, want)
		}
	}
}

// What is said of ranges of bodies is what their tasks read and write in all steps together: all places
// and masses in each, and their own places and velocities.
func TestBodyBytes(t *testing.T) {
	j := newBodies(Config{Problem: Bodies, Count: 96, Steps: 5})
	ranges := []sched.Range{{Hi: 24}, {Lo: 24, Hi: 48}, {Lo: 48, Hi: 96}}
	g, err := j.Graph(ranges)
	if err != nil {
		t.Fatal(err)
	}
	for r, of := range ranges {
		var reads, writes int64
		for s := range 5 {
			for _, u := range g.Task(graph.TaskID(s*len(ranges) + r)).Uses {
				size := u.Bytes
				if size == 0 {
					size = g.Data(u.Data).Bytes
				}
				if u.Access == graph.Write {
					writes += size
				} else {
					reads += size
				}
			}
		}
		in, out := j.Items().Bytes(of.Lo, of.Hi)
		if own := 5 * 12 * of.Len(); in != reads-own || out != writes {
			t.Errorf("bodies %v: %d bytes in and %d out, and tasks read %d, of which velocities are %d, and write %d", of, in, out, reads, own, writes)
		}
	}
}

// The check of light finds a number that is off by a little more than it says.
func TestLightAbove(t *testing.T) {
	j := newLight(Config{Problem: Light, Count: 64, Steps: 256, Seed: 5})
	workloadtest.Run(t, workloadtest.Open(t, 1, Funcs()), j)
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	far := 0
	for i, b := range j.in {
		if b > j.in[far] {
			far = i
		}
	}
	above := workloadtest.Above(t, j)
	deflection, _ := passing(j.in[far])
	want := math.Pi + deflection
	for _, by := range []float64{1.1, -1.1} {
		j.out[rayOut*far] = want + by*above
		if err := j.Check(); !errors.Is(err, ErrWrong) {
			t.Errorf("off by %v times what shows: %v", by, err)
		}
	}
	for _, by := range []float64{0.9, -0.9} { // or what is said to show would be found long before
		j.out[rayOut*far] = want + by*above
		if err := j.Check(); err != nil {
			t.Errorf("off by %v times what shows: %v", by, err)
		}
	}
}
