package relativity

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
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
		if _, err := Boost(t.Context(), rt, event, c.v); (err == nil) != c.good || err != nil && !errors.Is(err, workload.ErrConfig) {
			t.Errorf("velocity %v: %v", c.v, err)
		}
	}
}

// The operations that orbits are said to take grow with their turns and steps, by which work is predicted.
func TestOrbitWork(t *testing.T) {
	ops := func(c Config) float64 {
		c.Problem, c.Count = Orbits, 10
		return (&orbitJob{c: c.withDefaults()}).declare().Whole().Work.Ops
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
	within := func(c Config) float64 { return (&orbitJob{c: c}).within() - 1e-12 }
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
		if err := j.Check(); !errors.Is(err, errWrong) {
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
		if err := j.Check(); !errors.Is(err, errWrong) {
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

// The memory that a job is said to take is that of the data of its graph.
func TestConfigBytes(t *testing.T) {
	for _, c := range []Config{
		{Problem: Orbits, Count: 24}, {Problem: Light, Count: 24}, {Problem: Boosts, Count: 24}, {Problem: Bodies, Count: 24}, {Problem: Bodies, Count: 24, Steps: 3},
	} {
		j := workloadtest.New[workload.Job](t)(New(c))
		g, err := j.Graph([]sched.Range{{Hi: 24}})
		if err != nil {
			t.Fatal(err)
		}
		var bytes int64
		for d := range graph.DataID(g.NumData()) {
			bytes += g.Data(d).Bytes
		}
		if got := c.Bytes(); got != float64(bytes) {
			t.Errorf("%s: %v bytes, and its graph has %d", j.Name(), got, bytes)
		}
	}
}

// Bodies are drawn evenly from a cube, with a mass of one and no momentum together.
func TestBodiesEven(t *testing.T) {
	const n = 1 << 14
	j := newBodies(Config{Problem: Bodies, Count: n, Steps: 1, Seed: 4})
	// The mean square of numbers drawn evenly from -1 to 1 is 1/3, and that of many has a spread of √(4/45) ÷ √n.
	for name, c := range map[string]struct {
		of   []float32
		size float64
	}{"places": {j.startAt, 1}, "velocities": {j.startV, 0.25}} {
		square := 0.
		for _, x := range c.of {
			square += float64(x) * float64(x) / (c.size * c.size) / (3 * n)
		}
		if spread := math.Sqrt(4./45) / math.Sqrt(3*n); math.Abs(square-1./3) > 5*spread {
			t.Errorf("%s: the mean square is %v", name, square)
		}
	}
	mass := 0.
	for _, m := range j.mass {
		mass += float64(m)
	}
	sum, size := j.momentum(j.startV)
	if math.Abs(mass-1) > 5*math.Sqrt(1./12)/math.Sqrt(n) || math.Abs(sum[0])+math.Abs(sum[1])+math.Abs(sum[2]) > 1e-6*size {
		t.Errorf("mass %v, momentum %v of %v", mass, sum, size)
	}
}

// The check of a ray allows each of its numbers the error that it says, and no more.
func TestRayWithin(t *testing.T) {
	j := newLight(Config{Problem: Light, Count: 1, Steps: 256})
	h := math.Pi / 256
	for _, b := range []float64{1.5, 4, 6, 40} {
		within := j.within(b)
		ray := func(angle float64) []float64 { // of a captured one, the last point at an angle
			near, far := 2., 100.
			for range 60 {
				if r := (near + far) / 2; captured(b, 1/r) > angle {
					near = r
				} else {
					far = r
				}
			}
			return []float64{angle, near, 0, 0, 1, 99}
		}
		end := captured(b, 0.5)
		good := ray(end - h/2)
		if b > Critical {
			deflection, closest := passing(b)
			good = []float64{math.Pi + deflection, closest, 0, 1, 0, 99}
		}
		if err := j.checkRay(b, good); err != nil {
			t.Fatal(err)
		}
		see := func(what string, bad []float64, wrong bool) {
			if err := j.checkRay(b, bad); (err != nil) != wrong {
				t.Errorf("impact parameter %v, %s: the check says %v", b, what, err)
			}
		}
		for _, by := range []float64{0.9, 1.1, -0.9, -1.1} {
			off := func(number int, size float64) []float64 {
				bad := slices.Clone(good)
				bad[number] += by * within * size
				return bad
			}
			see("its drift", off(2, 1), math.Abs(by) > 1)
			see("its angle", off(0, 4), math.Abs(by) > 1)
			if b > Critical {
				see("its closest radius", off(1, good[1]), math.Abs(by) > 1)
			} else if by > 0 {
				see("a step and some before the horizon", ray(end-h-by*4*within), by > 1)
			}
		}
		other := slices.Clone(good)
		other[3], other[4] = good[4], good[3]
		says := fmt.Sprintf("it escapes: %v, and is captured: %v", b < Critical, b > Critical)
		if err := j.checkRay(b, other); err == nil || err.Error() != says {
			t.Errorf("impact parameter %v: the check says %v, want %s", b, err, says)
		}
	}
}
