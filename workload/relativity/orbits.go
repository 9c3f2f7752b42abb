package relativity

import (
	"fmt"
	"math"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/workload"
)

// Numbers of an orbit: r, r′, L and the first step before it; behind it r, r′, φ and τ, the
// largest drift of E² relative to it, turns, whether it fell in, and steps.
const (
	orbitIn  = 4
	orbitOut = 8
)

// horizon is the radius of the black hole.
const horizon = 2

// Orbit is the final state of a test particle.
type Orbit struct {
	R, Velocity, Angle, Time float64 // r, r′, φ and proper time τ
	Drift                    float64 // the largest |E² − E₀²| ÷ E₀² of all steps
	Turns                    int     // periapses reached
	FellIn                   bool    // the state is the last outside of the horizon
	Steps                    int
}

// Precession returns by how much the periapsis of a bound orbit moves on in each turn, as an
// integral that is exact to some 14 digits. r is p ÷ (1 + e cos χ) along the orbit. An orbit
// without a periapsis, p ≤ 6 + 2e, or not an ellipse, is an error that wraps [workload.ErrConfig].
func Precession(p, e float64) (float64, error) {
	if !(e >= 0 && e < 1 && p > 6+2*e && p <= 1e12) {
		return 0, fmt.Errorf("relativity: p = %v and e = %v: %w: e must be 0 to less than 1, and p above 6 + 2e", p, e, workload.ErrConfig)
	}
	angle, _ := turn(p, e)
	return angle, nil
}

// turn is the angle beyond 2π and the proper time of a turn. Sums over points that are equally
// far apart have hardly an error for periodic functions.
func turn(p, e float64) (beyond, time float64) {
	const points = 4096
	l := math.Sqrt(p / (1 - (3+e*e)/p))
	for i := range points {
		x := 2 * math.Pi * (float64(i) + 0.5) / points
		q := (6 + 2*e*math.Cos(x)) / p
		rate := 1 / math.Sqrt(1-q)
		r := p / (1 + e*math.Cos(x))
		// rate − 1, without the cancellation
		beyond += q / (1 - q + math.Sqrt(1-q))
		time += rate * r * r / l
	}
	return beyond * 2 * math.Pi / points, time * 2 * math.Pi / points
}

// particle returns the numbers of a particle at the periapsis of an orbit, with a step that is a
// part of Newton's period.
func particle(p, e float64, steps int) [orbitIn]float64 {
	a := p / (1 - e*e)
	return [orbitIn]float64{p / (1 + e), 0, math.Sqrt(p / (1 - (3+e*e)/p)), 2 * math.Pi * math.Sqrt(a*a*a) / float64(steps)}
}

// orbitJob is one set of orbits.
type orbitJob struct {
	workload.Declared
	c       Config
	in, out []float64
	unseen  float64 // share of orbits that the last Check knew only the energy of
}

// newOrbits draws orbits with p of 10 to 60 and e of 0.01 to 0.7; one of 16 has too little angular
// momentum and falls in.
func newOrbits(c Config) *orbitJob {
	j := &orbitJob{c: c, in: make([]float64, orbitIn*c.Count), out: make([]float64, orbitOut*c.Count)}
	draw := philox.Source{Seed: c.Seed, Stream: streamOrbits}
	for i := range c.Count {
		words := draw.Block(uint64(i), 0, 0)
		o := particle(10+50*philox.Unit(words[0]), 0.01+0.69*philox.Unit(words[1]), c.Steps)
		if words[2]%16 == 0 { // steps are for what happens near the horizon
			r := 8 + 8*philox.Unit(words[0])
			o = [orbitIn]float64{r, 0, 3 * philox.Unit(words[3]), math.Sqrt(r*r*r) / float64(c.Steps)}
		}
		copy(j.in[orbitIn*i:], o[:])
	}
	return j.declare()
}

// orbitsAbreast is the number of orbits of an item of the Go function, as many as take their steps
// together: a launch is cut between items.
const orbitsAbreast = 8

// orbitsOnDevices follows orbits. Its arguments are the particles before and behind.
var orbitsOnDevices = workload.With(graph.GoKernel("relativity.orbits", orbitsAbreast),
	workload.PTX(ptx, "relativity_orbits", 64, 64), workload.SPIRV(spirv, "relativity_orbits", 64, 64))

// orbitParams are the parameters of orbitsOnDevices.
type orbitParams struct {
	n, turns, rounds int     // rounds are the steps an orbit has at most
	tolerance        float64 // 0 for a fixed step
}

var orbitsKernel = signature.Of(signature.Kernel{
	Name: "relativity.orbits", Does: "n orbits of test particles around a black hole, up to a periapsis", Grid: "n", Per: []uint32{orbitsAbreast},
	Args: []signature.Arg{signature.In("particles", graph.F8), signature.Out("orbits", graph.F8)},
}, func(_ *weft.Call, p orbitParams) (n signature.Need, err error) {
	n.Items = (int64(p.n) + orbitsAbreast - 1) / orbitsAbreast
	n.Elements[0], n.Elements[1] = signature.Product(p.n, orbitIn), signature.Product(p.n, orbitOut)
	if p.rounds > maxSteps {
		return n, fmt.Errorf("rounds is %d: it may be %d at most", p.rounds, maxSteps)
	}
	return n, signature.Positive([]string{"n", "turns", "rounds"}, p.n, p.turns, p.rounds)
}, func(c *weft.Call, p orbitParams, lo, hi int) {
	in, out := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1])
	lo, hi = lo*orbitsAbreast, min(hi*orbitsAbreast, p.n)
	if abreast && p.tolerance == 0 {
		followAbreast(c, out[orbitOut*lo:orbitOut*hi], in[orbitIn*lo:orbitIn*hi], &p)
		return
	}
	for i := lo; i < hi && !c.Stopped(); i++ {
		follow(out[orbitOut*i:orbitOut*(i+1)], in[orbitIn*i:orbitIn*(i+1)], &p)
	}
})

// state is a point of an orbit.
type state struct{ r, v, phi float64 }

// pull is r″.
func pull(r, l2 float64) float64 {
	i := 1 / r
	return i * i * (float64(float64(l2*i)*(1-float64(3*i))) - 1)
}

// energy2 is E².
func energy2(s state, l2 float64) float64 {
	i := 1 / s.r
	return float64(s.v*s.v) + float64((1-float64(2*i))*(1+float64(float64(l2*i)*i)))
}

// step is one step of Runge and Kutta.
func step(s state, l, h float64) state {
	l2, half := l*l, h/2
	v1, a1, w1 := s.v, pull(s.r, l2), l/(s.r*s.r)
	r2 := s.r + float64(half*v1)
	v2, a2, w2 := s.v+float64(half*a1), pull(r2, l2), l/(r2*r2)
	r3 := s.r + float64(half*v2)
	v3, a3, w3 := s.v+float64(half*a2), pull(r3, l2), l/(r3*r3)
	r4 := s.r + float64(h*v3)
	v4, a4, w4 := s.v+float64(h*a3), pull(r4, l2), l/(r4*r4)
	sixth := h / 6
	return state{
		s.r + float64(sixth*(v1+float64(2*v2)+float64(2*v3)+v4)),
		s.v + float64(sixth*(a1+float64(2*a2)+float64(2*a3)+a4)),
		s.phi + float64(sixth*(w1+float64(2*w2)+float64(2*w3)+w4)),
	}
}

// path is an orbit on its way.
type path struct {
	state
	l, h, first  float64 // angular momentum, step, and E² in the beginning
	tau, drift   float64
	turns, round int
	fell         float64
}

// newPath returns the path of a particle before its first step.
func newPath(in []float64) path {
	p := path{state: state{in[0], in[1], 0}, l: in[2], h: in[3]}
	p.first = energy2(p.state, p.l*p.l)
	return p
}

// ended says whether there are no more steps to take.
func (o *path) ended(p *orbitParams) bool {
	return o.round >= p.rounds || o.turns >= p.turns || o.fell != 0
}

// next takes a step, or halves the next one.
func (o *path) next(p *orbitParams) {
	s, l, h := o.state, o.l, o.h
	to, used := step(s, l, h), h
	if p.tolerance > 0 {
		twice := step(step(s, l, h/2), l, h/2)
		off := max(math.Abs(twice.r-to.r)/twice.r, math.Abs(twice.v-to.v), math.Abs(twice.phi-to.phi))
		if !(off <= p.tolerance) {
			o.h /= 2
			o.round++
			return
		}
		// A circle has no error at any step, but the next may turn by half a radian at most.
		if to = twice; off < p.tolerance/64 && math.Abs(to.phi-s.phi) < 0.25 {
			o.h *= 2
		}
	}
	if !(to.r > horizon) {
		o.fell = 1
		return
	}
	if s.v < 0 && to.v >= 0 {
		if o.turns++; o.turns == p.turns {
			// Newton's method for the part of the step after which r′ is zero.
			used = used * s.v / (s.v - to.v)
			for range 4 {
				at := step(s, l, used)
				used -= at.v / pull(at.r, l*l)
			}
			to = step(s, l, used)
		}
	}
	o.state = to
	o.tau += used
	o.drift = max(o.drift, math.Abs(energy2(to, l*l)-o.first)/o.first)
	o.round++
}

// write writes the numbers of an orbit that ended.
func (o *path) write(out []float64) {
	copy(out, []float64{o.r, o.v, o.phi, o.tau, o.drift, float64(o.turns), o.fell, float64(o.round)})
}

// follow follows an orbit to the last of its turns.
func follow(out, in []float64, p *orbitParams) {
	o := newPath(in)
	for !o.ended(p) {
		o.next(p)
	}
	o.write(out)
}

// declare says what the job is. An orbit does not depend on others, and so rows are exact.
func (j *orbitJob) declare() *orbitJob {
	const stepOps = 70
	how, ops := fmt.Sprintf("%d steps each", j.c.Steps), stepOps*float64(j.c.Turns*j.c.Steps)
	if j.c.Tolerance != 0 {
		how, ops = fmt.Sprintf("tolerance %.2g", j.c.Tolerance), 3*stepOps*float64(min(j.c.Steps, 2000*j.c.Turns))
	}
	j.Declared = workload.Declare(workload.Declaration{
		Name:  fmt.Sprintf("relativity %s, %s, %s", text.Count(j.c.Count, "orbit"), text.Count(j.c.Turns, "turn"), how),
		Class: workload.RowExact, Of: "orbits", Extent: int64(j.c.Count),
		Ports:  []workload.Port{workload.In("particles", j.in, orbitIn), workload.Out("orbits", j.out, orbitOut)},
		Kernel: orbitsOnDevices, Params: func(lo, hi int64) any { return orbitParams{int(hi - lo), j.c.Turns, j.c.rounds(), j.c.Tolerance} },
		Ops: ops, Unit: graph.FP64,
	})
	return j
}

// Result returns eight numbers for each orbit after a run, in the job's own memory: the fields of
// [Orbit] in their order.
func (j *orbitJob) Result() []float64 { return j.out }

// Orbits are the orbits after a run.
func (j *orbitJob) Orbits() []Orbit {
	out := make([]Orbit, j.c.Count)
	for i := range out {
		o := j.out[orbitOut*i:]
		out[i] = Orbit{o[0], o[1], o[2], o[3], o[4], int(o[5]), o[6] != 0, int(o[7])}
	}
	return out
}

// Summary says how many orbits fell in or have turns to do, and how well energy is conserved.
func (j *orbitJob) Summary() string {
	fell, open, drift := 0, 0, 0.
	for _, o := range j.Orbits() {
		switch {
		case o.FellIn:
			fell++
		case o.Turns < j.c.Turns:
			open++
		default:
			drift = max(drift, o.Drift)
		}
	}
	return fmt.Sprintf("%s fell in, %d with turns to do; energy of others drifts by %.2g at most, angular momentum not", text.Count(fell, "orbit"), open, drift)
}

// Rate is orbits a second.
func (j *orbitJob) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f turns/ms", float64(j.c.Count)*float64(j.c.Turns)/d.Seconds()/1e3)
}
