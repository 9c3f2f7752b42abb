package relativity

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-run/weft/workload"
)

// Check compares the angle and the closest radius of every ray that escapes with elliptic integrals
// and a root of a cubic, and the angle of one that is captured with an integral up to its last
// radius. [Critical] alone decides which rays escape. Of rays drawn by the seed, or of all where
// there are few, every step is taken again, to check their drift and their steps.
func (j *lightJob) Check() error {
	taken := make([]bool, j.c.Count)
	rays := rand.New(rand.NewPCG(uint64(j.c.Seed), 2)).Perm(j.c.Count)
	rays = rays[:min(len(rays), max(64, checkedSteps/j.c.Steps))]
	for _, i := range rays {
		taken[i] = true
	}
	j.untaken = 1 - float64(len(rays))/float64(j.c.Count)
	return workload.Sweep(j.c.Count, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			in, o := j.in[i], j.out[rayOut*i:rayOut*(i+1)]
			err := j.checkRay(in, o)
			if err == nil && taken[i] {
				err = j.checkSteps(in, o)
			}
			if err != nil {
				return fmt.Errorf("%s: ray %d with impact parameter %v: %w: %w", j.Name(), i, j.in[i], err, errWrong)
			}
		}
		return nil
	})
}

// checkedSteps is the number of steps of rays that Check takes again, at most: about a second of a core.
const checkedSteps = 1 << 25

// checkSteps follows a ray step by step, and compares the largest change of its invariant and the number
// of steps. The changes may differ by rounding.
func (j *lightJob) checkSteps(b float64, o []float64) error {
	slope := func(y [2]float64) [2]float64 { return [2]float64{y[1], 3*y[0]*y[0]/b - y[0]} }
	after := func(y [2]float64, by float64, k [2]float64) [2]float64 {
		return [2]float64{y[0] + by*k[0], y[1] + by*k[1]}
	}
	h := math.Pi / float64(j.c.Steps) * min(b, 1)
	at, drift, size, steps := [2]float64{0, 1}, 0., 1., 0
	for ; steps < j.c.rounds(); steps++ {
		k1 := slope(at)
		k2 := slope(after(at, h/2, k1))
		k3 := slope(after(at, h/2, k2))
		k4 := slope(after(at, h, k3))
		next := after(at, h/6, [2]float64{k1[0] + 2*(k2[0]+k3[0]) + k4[0], k1[1] + 2*(k2[1]+k3[1]) + k4[1]})
		if r := b / next[0]; r <= 2 || r < 0 || !(next[0] < b/2) {
			break
		}
		at = next
		size = max(size, at[0]*at[0], at[1]*at[1])
		drift = max(drift, math.Abs(at[1]*at[1]+at[0]*at[0]-2*at[0]*at[0]*at[0]/b-1))
	}
	rounded := 2e-16 * math.Sqrt(1+float64(steps)) * size
	if !(math.Abs(o[2]-drift) <= 1e-3*drift+rounded) {
		return fmt.Errorf("its drift is %v, want %v ± %.2g", o[2], drift, 1e-3*drift+rounded)
	}
	// A step that ends at the limit may be taken or not.
	if math.Abs(o[5]-float64(steps)) > 1 {
		return fmt.Errorf("it took %v steps, want %d", o[5], steps)
	}
	return nil
}

// within returns the allowed relative error of the numbers of a ray: the error of a method of order
// four, which grows as a ray comes closer to the one that circles for ever.
func (j *lightJob) within(b float64) float64 {
	h := math.Pi / float64(j.c.Steps)
	return (1e-13 + h*h*h*h/2) / math.Abs(1-Critical/b)
}

func (j *lightJob) checkRay(b float64, o []float64) error {
	within := j.within(b)
	near := func(what string, got, want, size float64) error {
		if !(math.Abs(got-want) <= within*size) {
			return fmt.Errorf("%s is %v, want %v ± %.2g", what, got, want, within*size)
		}
		return nil
	}
	escapes := b > Critical
	if (o[3] != 0) != escapes || (o[4] != 0) == escapes {
		return fmt.Errorf("it escapes: %v, and is captured: %v", o[3] != 0, o[4] != 0)
	}
	if err := near("its drift", o[2], 0, 1); err != nil {
		return err
	}
	if !escapes {
		h := math.Pi / float64(j.c.Steps) * min(b, 1)
		if end := captured(b, 1./horizon); !(o[1] > horizon) || !(o[0]+h >= end-4*within) {
			return fmt.Errorf("it is captured at radius %v and angle %v, and the horizon is at %v", o[1], o[0], end)
		}
		return near("its angle", o[0], captured(b, 1/o[1]), 4)
	}
	deflection, closest := passing(b)
	return cmp.Or(near("its angle", o[0], math.Pi+deflection, 4), near("its closest radius", o[1], closest, closest))
}

// passing is the deflection of a ray that escapes, and its closest radius. The angle to the
// closest point is ∫ du ÷ √(1/b² − u² + 2u³) from 0 to the middle root of the cubic; with
// u = u₀ + (u₁ − u₀) sin²θ that is a difference of Legendre's integrals.
func passing(b float64) (deflection, closest float64) {
	t := 2. / 3 * math.Asin(Critical/b)
	sin, half := math.Sin(t), math.Sin(t/2)
	low, middle := half*half/3-math.Sqrt(3)/6*sin, half*half/3+math.Sqrt(3)/6*sin
	wide := math.Cos(math.Pi/6-t) / math.Sqrt(3)                  // from the lowest root to the highest
	rest := math.Sin(math.Pi/3-t) / math.Sqrt(3) / wide           // one minus the modulus
	sin2 := -low / (middle - low)                                 // of the angle that stands for u = 0
	full := carlson(0, rest, 1)                                   // K
	part := math.Sqrt(sin2) * carlson(1-sin2, 1-sin2*(1-rest), 1) // F
	return 4/math.Sqrt(2*wide)*(full-part) - math.Pi, 1 / middle
}

// carlson is Carlson's integral R_F by doubling, for numbers of which at most one is zero.
func carlson(x, y, z float64) float64 {
	for range 100 {
		mean := (x + y + z) / 3
		dx, dy, dz := 1-x/mean, 1-y/mean, 1-z/mean
		if max(math.Abs(dx), math.Abs(dy), math.Abs(dz)) < 1e-3 {
			e2, e3 := dx*dy-dz*dz, dx*dy*dz
			return (1 - e2/10 + e3/14 + e2*e2/24 - 3*e2*e3/44) / math.Sqrt(mean)
		}
		rx, ry, rz := math.Sqrt(x), math.Sqrt(y), math.Sqrt(z)
		l := rx*ry + ry*rz + rz*rx
		x, y, z = (x+l)/4, (y+l)/4, (z+l)/4
	}
	return math.NaN()
}

// captured returns the angle at which a ray with an impact parameter below Critical reaches a given
// reciprocal radius.
func captured(b, end float64) (angle float64) {
	const parts = 2048
	half := end / parts / 2
	for i := range parts {
		for _, g := range gauss {
			u := half * (float64(2*i+1) + g.x)
			angle += half * g.w * b / math.Sqrt(1-b*u*b*u*(1-2*u))
		}
	}
	return angle
}

// Misses says above which error Check finds every wrong number. The error of the method hides smaller
// ones.
func (j *lightJob) Misses() []workload.Miss {
	return []workload.Miss{
		{What: fmt.Sprintf("one number of a ray far away off by more than %.2g", 4*j.within(math.Inf(1))), Chance: 0},
		{What: "one drift or number of steps that is wrong within that", Chance: j.untaken},
	}
}
