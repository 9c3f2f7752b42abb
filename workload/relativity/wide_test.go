package relativity

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft"
)

// Bodies that are pulled eight at a time are where the Go code has them, to the bit.
func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 100} {
		at, mass := make([]float32, 3*n), make([]float32, n)
		for i := range at {
			at[i] = r.Float32()
		}
		for i := range mass {
			mass[i] = r.Float32()
		}
		g := group{soft2: soft2}
		for k := range g.at {
			for i := range g.at[k] {
				g.at[k][i] = r.Float32()
			}
		}
		want := g
		want.pull(at, mass)
		if g.pullWide(at, mass) != wide || wide && g != want {
			t.Errorf("%d bodies: %v, want %v", n, g, want)
		}
	}
}

// Two bodies of equal mass circle one another at the distance they have.
func TestCircle(t *testing.T) {
	j := newBodies(Config{Problem: Bodies, Count: 2, Steps: 4000})
	copy(j.mass, []float32{0.5, 0.5})
	copy(j.startAt, []float32{-0.5, 0, 0, 0.5, 0, 0})
	copy(j.startV, []float32{0, -0.5, 0, 0, 0.5, 0})
	at, v := j.startAt, j.startV
	for range j.c.Steps {
		to, w := make([]float32, 6), make([]float32, 6)
		for i := range 2 {
			g := group{soft2: soft2}
			for k := range 3 {
				g.at[k][0] = at[3*i+k]
			}
			g.pull(at, j.mass)
			for k := range 3 {
				w[3*i+k] = v[3*i+k] + bodyStep*g.pulls[k][0]
				to[3*i+k] = at[3*i+k] + bodyStep*w[3*i+k]
			}
		}
		at, v = to, w
		if d2 := (at[0]-at[3])*(at[0]-at[3]) + (at[1]-at[4])*(at[1]-at[4]); d2 < 0.98 || d2 > 1.02 {
			t.Fatalf("the bodies are at %v", at)
		}
	}
}

// Orbits that used all steps and are where they began are wrong where those steps are enough.
func TestStanding(t *testing.T) {
	j := newOrbits(Config{Problem: Orbits, Count: 64, Steps: 256, Turns: 1})
	for _, later := range []float64{0, 1} {
		for i := range j.c.Count {
			in := j.in[orbitIn*i:]
			copy(j.out[orbitOut*i:], []float64{in[0], in[1], 0, later * 512 * in[3], 0, 0, 0, 512})
		}
		if err := j.Check(); !errors.Is(err, errWrong) {
			t.Errorf("after %v of their time: %v", later, err)
		}
	}
}

// Orbits that are followed eight at a time are those that are followed one after the other, to the
// bit: some fall in, some use all steps, and some are not numbers.
func TestAbreast(t *testing.T) {
	for _, c := range []Config{{Count: 1, Steps: 64, Turns: 1}, {Count: 61, Steps: 256, Turns: 3}, {Count: 100, Steps: 4, Turns: 1}} {
		j := newOrbits(c)
		if c.Count > 50 {
			j.in[orbitIn*20+3] = 1e200
			j.in[orbitIn*21+1] = 1e200
			j.in[orbitIn*22+2] = 1e200
		}
		p := orbitParams{c.Count, c.Turns, c.rounds(), 0}
		followAbreast(new(weft.Call), j.out, j.in, &p)
		want := make([]float64, orbitOut)
		fell := 0
		for i := range c.Count {
			follow(want, j.in[orbitIn*i:], &p)
			if fell += int(want[6]); want[6] != 0 && want[6] != 1 {
				t.Errorf("%+v: orbit %d fell in: %v, want 0 or 1", c, i, want[6])
			}
			for k, got := range j.out[orbitOut*i : orbitOut*(i+1)] {
				if math.Float64bits(got) != math.Float64bits(want[k]) && (got == got || want[k] == want[k]) {
					t.Fatalf("%+v: number %d of orbit %d is %v, want %v", c, k, i, got, want[k])
				}
			}
		}
		if c.Steps == 256 && fell == 0 {
			t.Error("no orbit fell in")
		}
	}
}

// BenchmarkOrbits times steps of orbits that are followed eight at a time on a core, beside those of
// orbits followed one after the other, in turns.
func BenchmarkOrbits(b *testing.B) {
	j := newOrbits(Config{Count: 64, Steps: 1024, Turns: 1})
	p := orbitParams{j.c.Count, 1, j.c.rounds(), 0}
	var plain, fast int64
	steps := 0.
	for b.Loop() {
		start := b.Elapsed()
		for i := range j.c.Count {
			follow(j.out[orbitOut*i:], j.in[orbitIn*i:], &p)
			steps += j.out[orbitOut*i+7]
		}
		between := b.Elapsed()
		followAbreast(new(weft.Call), j.out, j.in, &p)
		plain, fast = plain+int64(between-start), fast+int64(b.Elapsed()-between)
	}
	b.ReportMetric(float64(fast)/steps, "ns/step")
	b.ReportMetric(float64(plain)/float64(fast), "times-plain")
}
