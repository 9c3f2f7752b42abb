package relativity

import (
	"context"
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

// rayOut is the number of results of a ray: its angle, its closest radius, the drift of its invariant,
// whether it escaped, whether it was captured, and its steps.
const rayOut = 6

// Critical is the impact parameter below which light is captured, 3√3: at it light circles at
// radius 3, the photon sphere.
const Critical = 5.196152422706632

// Ray is the result for one ray of light that came from far away.
type Ray struct {
	// Deflection is the change of direction in radians, above 2π if the ray circled. For a captured
	// ray it is the angle to the last point outside of the horizon, less π.
	Deflection float64
	Closest    float64 // least radius; for a captured ray, the radius of its last point outside
	Drift      float64 // the largest change of the invariant of all steps, relative to it
	Escaped    bool
	Captured   bool // a ray that did neither used all steps
	Steps      int
}

// Bend follows light from far away past a black hole, by impact parameters, on the devices of a
// runtime that was opened with [Funcs] among its kernels. steps is the number of steps of half a
// turn, and more are taken where the impact parameter is below 1; 0 means 1,024. An impact
// parameter that is not above zero and finite is an error that wraps [workload.ErrConfig].
func Bend(ctx context.Context, rt *weft.Runtime, impacts []float64, steps int) ([]Ray, error) {
	c := Config{Problem: Light, Count: len(impacts), Steps: steps}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	for i, b := range impacts {
		if !(b > 0) || math.IsInf(b, 1) {
			return nil, fmt.Errorf("relativity: impact parameter %d, %v: %w: it must be above 0 and finite", i, b, workload.ErrConfig)
		}
	}
	j := (&lightJob{c: c.withDefaults(), in: impacts, out: make([]float64, rayOut*len(impacts))}).declare()
	if _, err := workload.Call(ctx, rt, j, "relativity"); err != nil {
		return nil, err
	}
	return j.Rays(), nil
}

// Deflection returns the deflection in radians of light with an impact parameter above [Critical], by
// elliptic integrals or a series: exact to some 14 digits, fewer close to Critical. For a large impact parameter
// b it is about 4/b. One that is not above Critical is an error that wraps [workload.ErrConfig].
func Deflection(impact float64) (float64, error) {
	if !(impact > Critical) || math.IsInf(impact, 1) {
		return 0, fmt.Errorf("relativity: impact parameter %v: %w: it must be finite and above 3√3 = %.4f, or light is captured", impact, workload.ErrConfig, Critical)
	}
	if impact >= farImpact {
		return weak(impact), nil
	}
	deflection, _ := passing(impact)
	return deflection, nil
}

// farImpact is the impact parameter from which on weak is taken: it is exact from 10 on with 40 terms, and with 26
// from 20 on. The difference of integrals and π in passing is off by some 10⁻¹⁵ whatever its size.
const farImpact = 20

// weak is the deflection by the series of 2∫ du ÷ √(1/b² − u² + 2u³) − π in 2/b, with terms
// √π Γ((3n+1)/2) ÷ (Γ(n/2+1) n!) (2/b)ⁿ. All are positive, and each is 3(3n+1)(3n+5) ÷ ((n+2)²b²) times the last but one.
func weak(b float64) float64 {
	terms := [2]float64{4 / b, 15 * math.Pi / 4 / b / b} // of odd and even n
	sum := 0.
	for n := 1.; terms[0] > 0x1p-60*sum; n += 2 {
		sum += terms[0] + terms[1]
		terms[0] *= 3 * (3*n + 1) * (3*n + 5) / ((n + 2) * (n + 2)) / b / b
		terms[1] *= 3 * (3*n + 4) * (3*n + 8) / ((n + 3) * (n + 3)) / b / b
	}
	return sum
}

// lightJob is one set of rays.
type lightJob struct {
	workload.Declared
	c       Config
	in, out []float64
	untaken float64 // the share of rays whose steps the last Check did not take
}

// newLight draws impact parameters from a thousandth above [Critical] to 10⁴ times it; one of 16
// is below it.
func newLight(c Config) *lightJob {
	j := &lightJob{c: c, in: make([]float64, c.Count), out: make([]float64, rayOut*c.Count)}
	draw := philox.Source{Seed: c.Seed, Stream: streamLight}
	for i := range j.in {
		words := draw.Block(uint64(i), 0, 0)
		j.in[i] = Critical * (1 + math.Pow(10, 7*philox.Unit(words[0])-3))
		if words[1]%16 == 0 {
			j.in[i] = Critical * (0.999 - 0.9*philox.Unit(words[0]))
		}
	}
	return j.declare()
}

// lightOnDevices follows rays. Its arguments are the impact parameters and the rays.
var lightOnDevices = workload.With(graph.GoKernel("relativity.light", 4),
	workload.PTX(ptx, "relativity_light", 64, 64), workload.SPIRV(spirv, "relativity_light", 64, 64))

// lightParams are the parameters of lightOnDevices.
type lightParams struct {
	n, rounds int     // rounds are the steps a ray has at most
	step      float64 // of the angle
}

var lightKernel = signature.Of(signature.Kernel{
	Name: "relativity.light", Does: "n rays of light past a black hole", Grid: "n", Per: []uint32{4},
	Args: []signature.Arg{signature.In("impact parameters", graph.F8), signature.Out("rays", graph.F8)},
}, func(_ *weft.Call, p lightParams) (n signature.Need, err error) {
	n.Items = signature.Parts(p.n, 4)
	n.Elements[0], n.Elements[1] = int64(p.n), signature.Product(p.n, rayOut)
	if p.rounds > maxSteps {
		return n, fmt.Errorf("rounds is %d: it may be %d at most", p.rounds, maxSteps)
	}
	return n, signature.Positive([]string{"n", "rounds"}, p.n, p.rounds)
}, func(c *weft.Call, p lightParams, lo, hi int) {
	in, out := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1])
	for i := 4 * lo; i < min(4*hi, p.n) && !c.Stopped(); i++ {
		bend(out[rayOut*i:rayOut*(i+1)], in[i], &p)
	}
})

// ray is a point of a ray: u is the impact parameter divided by the radius, and w the derivative of u
// by the angle.
type ray struct{ u, w float64 }

// turnRay is one step of Runge and Kutta of u″ = k u² − u.
func turnRay(s ray, k, h float64) ray {
	half := h / 2
	w1, a1 := s.w, s.u*(float64(k*s.u)-1)
	u2 := s.u + float64(half*w1)
	w2, a2 := s.w+float64(half*a1), u2*(float64(k*u2)-1)
	u3 := s.u + float64(half*w2)
	w3, a3 := s.w+float64(half*a2), u3*(float64(k*u3)-1)
	u4 := s.u + float64(h*w3)
	w4, a4 := s.w+float64(h*a3), u4*(float64(k*u4)-1)
	sixth := h / 6
	return ray{
		s.u + float64(sixth*(w1+float64(2*w2)+float64(2*w3)+w4)),
		s.w + float64(sixth*(a1+float64(2*a2)+float64(2*a3)+a4)),
	}
}

// leastImpact is the impact parameter that smaller ones are taken for, whose inverse is finite: both fall
// straight in.
const leastImpact = 0x1p-1000

// bend follows a ray from far away, where u is 0, until that is so again or it is captured. The
// invariant is u′² + u² − 2u³/b = 1. A ray with an impact parameter below 1 reaches the horizon within about half
// of that angle, and takes smaller steps in proportion.
func bend(out []float64, b float64, p *lightParams) {
	s := ray{0, 1}
	b = max(b, leastImpact)
	k, most, cube := 3/b, b/2, 2/b
	h, closest, drift, beyond := p.step*min(b, 1), 0., 0., 0.
	escaped, captured, round := 0., 0., 0
	for ; round < p.rounds; round++ {
		to := turnRay(s, k, h)
		if !(to.u < most) {
			captured, closest = 1, b/s.u
			break
		}
		if s.w > 0 && to.w <= 0 { // closest where u′ is zero, by Newton's method
			used := h * s.w / (s.w - to.w)
			for range 4 {
				at := turnRay(s, k, used)
				used -= at.w / (at.u * (float64(k*at.u) - 1))
			}
			closest = b / turnRay(s, k, used).u
		}
		if to.u < 0 { // away where u is zero, likewise
			beyond = h * s.u / (s.u - to.u)
			for range 4 {
				at := turnRay(s, k, beyond)
				beyond -= at.u / at.w
			}
			escaped = 1
			break
		}
		s = to
		drift = max(drift, math.Abs(float64(s.w*s.w)+float64(s.u*s.u)*(1-float64(cube*s.u))-1))
	}
	copy(out, []float64{float64(float64(round)*h) + beyond, closest, drift, escaped, captured, float64(round)})
}

// declare says what the job is. A ray does not depend on others, and so rows are exact.
func (j *lightJob) declare() *lightJob {
	const stepOps = 50
	j.Declared = workload.Declare(workload.Declaration{
		Name:  fmt.Sprintf("relativity %s of light, %d steps for half a turn", text.Count(j.c.Count, "ray"), j.c.Steps),
		Class: workload.RowExact, Of: "rays", Extent: int64(j.c.Count),
		Ports:  []workload.Port{workload.In("impacts", j.in, 1), workload.Out("rays", j.out, rayOut)},
		Kernel: lightOnDevices, Params: func(lo, hi int64) any { return lightParams{int(hi - lo), j.c.rounds(), math.Pi / float64(j.c.Steps)} },
		Ops: stepOps * float64(j.c.Steps), Unit: graph.FP64,
	})
	return j
}

// Result returns six numbers for each ray after a run, in the job's own memory: the fields of [Ray]
// in their order, with π added to its deflection.
func (j *lightJob) Result() []float64 { return j.out }

// Rays are the rays after a run.
func (j *lightJob) Rays() []Ray {
	out := make([]Ray, j.c.Count)
	for i := range out {
		o := j.out[rayOut*i:]
		out[i] = Ray{o[0] - math.Pi, o[1], o[2], o[3] != 0, o[4] != 0, int(o[5])}
	}
	return out
}

// Summary says how many rays were captured, and how far others were deflected.
func (j *lightJob) Summary() string {
	captured, most, drift := 0, 0., 0.
	for _, r := range j.Rays() {
		if r.Captured {
			captured++
			continue
		}
		most, drift = max(most, r.Deflection), max(drift, r.Drift)
	}
	return fmt.Sprintf("%s captured, others deflected by %.9g at most; their invariant drifts by %.2g at most", text.Count(captured, "ray"), most, drift)
}

// Rate is rays a second.
func (j *lightJob) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f rays/ms", float64(j.c.Count)/d.Seconds()/1e3)
}
