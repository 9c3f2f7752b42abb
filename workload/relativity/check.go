package relativity

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-run/weft/internal/rounding"
	"github.com/weft-run/weft/workload"
)

// Check compares every orbit with properties known without steps: an orbit from its periapsis is
// back at its initial radius, at the angle and the proper time that are integrals over the
// turns. One with too little angular momentum, L² < 12, falls in. Of an orbit that ran out of
// steps before its end only the energy is known, and [orbitJob.Misses] returns their share; with
// a fixed step that would have been enough such an orbit is wrong.
func (j *orbitJob) Check() error {
	within := j.within()
	unfinished := 0
	for o := j.out; len(o) > 0; o = o[orbitOut:] {
		if j.unfinished(o) {
			unfinished++
		}
	}
	j.unseen = float64(unfinished) / float64(j.c.Count)
	if within > loose {
		j.unseen = 1
	}
	return workload.Sweep(j.c.Count, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			in, o := j.in[orbitIn*i:orbitIn*(i+1)], j.out[orbitOut*i:orbitOut*(i+1)]
			if err := j.checkOrbit(in, o, within); err != nil {
				return fmt.Errorf("%s: orbit %d: %w: %w", j.Name(), i, err, errWrong)
			}
		}
		return nil
	})
}

// loose is the relative error from which on an orbit that is wrong looks like one that is right.
const loose = 0.1

// unfinished says that an orbit used all of its steps and neither fell in nor did its turns.
func (j *orbitJob) unfinished(o []float64) bool {
	return o[6] == 0 && o[5] < float64(j.c.Turns) && int(o[7]) == j.c.rounds()
}

// within is by how much an orbit may be off, relative to its numbers: the error of a method of
// order four at the closest orbits that are drawn, or of the tolerance at each step.
func (j *orbitJob) within() float64 {
	if j.c.Tolerance != 0 {
		return 1e-12 + 1e4*float64(j.c.Turns)*j.c.Tolerance
	}
	h := 4096 / float64(j.c.Steps)
	return 1e-12 + 1e-9*float64(j.c.Turns)*h*h*h*h
}

func (j *orbitJob) checkOrbit(in, o []float64, within float64) error {
	near := func(what string, got, want, size float64) error {
		if !(math.Abs(got-want) <= within*size) {
			return fmt.Errorf("%s is %v, want %v ± %.2g", what, got, want, within*size)
		}
		return nil
	}
	l2 := in[2] * in[2]
	first := in[1]*in[1] + (1-2/in[0])*(1+l2/(in[0]*in[0]))
	e2 := o[1]*o[1] + (1-2/o[0])*(1+l2/(o[0]*o[0]))
	falls := l2 < 12
	unfinished := j.unfinished(o)
	if falls != (o[6] != 0) && !unfinished {
		return fmt.Errorf("it has L² = %v, and falls in: %v", l2, !falls)
	}
	limit := within
	if falls {
		limit *= 100 // at the horizon
	}
	if drift := math.Abs(e2-first) / first; !(drift <= o[4]+1e-15) || !(o[4] <= limit) {
		return fmt.Errorf("its energy drifts by %v, and %v is stated; %.2g may be", drift, o[4], limit)
	}
	if unfinished {
		return j.checkUnfinished(in, o, within)
	}
	if falls {
		if !(o[0] > horizon && o[0] <= in[0]) || o[5] != 0 {
			return fmt.Errorf("it falls from radius %v and ends at %v after %v turns", in[0], o[0], o[5])
		}
		time, angle, speed := fall(in[0], o[0], l2)
		return cmp.Or(near("its velocity", o[1], -speed, 100), near("its angle", o[2], angle, 100), near("its time", o[3], time, 100+time))
	}
	turns := float64(j.c.Turns)
	if o[5] != turns {
		return fmt.Errorf("it ends after %v turns and %v steps", o[5], o[7])
	}
	p, e := shape(in[0], l2)
	beyond, time := turn(p, e)
	return cmp.Or(
		near("its radius", o[0], in[0], in[0]),
		near("its velocity", o[1], 0, 1),
		near("its angle", o[2], turns*(2*math.Pi+beyond), turns*10),
		near("its time", o[3], turns*time, turns*time))
}

// checkUnfinished sees that an orbit with a fixed step took the time of its steps, and that this
// is not enough for its end.
func (j *orbitJob) checkUnfinished(in, o []float64, within float64) error {
	if j.c.Tolerance != 0 {
		return nil
	}
	have := in[3] * float64(j.c.rounds())
	if !(math.Abs(o[3]-have) <= 1e-9*have) {
		return fmt.Errorf("it is at time %v after %v steps of %v", o[3], o[7], in[3])
	}
	l2 := in[2] * in[2]
	var need float64
	if l2 < 12 {
		need, _, _ = fall(in[0], horizon, l2)
	} else {
		_, need = turn(shape(in[0], l2))
		need *= float64(j.c.Turns)
	}
	if within <= loose && need < have*(1-loose) {
		return fmt.Errorf("it has turns to do at time %v, and ends at %v", o[3], need)
	}
	return nil
}

// gauss are the points and weights of Gauss's rule of five points, from −1 to 1.
var gauss = func() (rule [5]struct{ x, w float64 }) {
	rule[2].w = 128. / 225
	for i, sign := range []float64{-1, 1} {
		x := math.Sqrt(5+sign*2*math.Sqrt(10./7)) / 3
		w := (322 - sign*13*math.Sqrt(70)) / 900
		rule[i].x, rule[i].w, rule[4-i].x, rule[4-i].w = x, w, -x, w
	}
	return rule
}()

// fall is the time and the angle of a fall from rest at a radius to another, and the speed
// there: integrals over x with r = from − x², for which dr ÷ r′ is smooth, exact to some 14
// digits.
func fall(from, to, l2 float64) (time, angle, speed float64) {
	const parts = 128
	u, end := 1/from, math.Sqrt(from-to)
	rate := func(v float64) float64 { // of r′ to x
		return math.Sqrt((2*l2*(v*v+u*v+u*u) - l2*(u+v) + 2) * u * v)
	}
	half := end / parts / 2
	for i := range parts {
		for _, g := range gauss {
			x := half * (float64(2*i+1) + g.x)
			v := 1 / (from - x*x)
			dt := half * g.w * 2 / rate(v)
			time += dt
			angle += dt * math.Sqrt(l2) * v * v
		}
	}
	return time, angle, end * rate(1/to)
}

// shape returns p and e of an orbit with a periapsis. With u = 1/r, both periapsis and apoapsis
// are roots of E² = (1 − 2u)(1 + L²u²); the third root is the smaller radius.
func shape(r, l2 float64) (p, e float64) {
	u := 1 / r
	// The others are the roots of 2 L² x² + (2 u − 1) L² x + 2 + (2 u − 1) L² u.
	a, b, c := 2*l2, (2*u-1)*l2, 2+(2*u-1)*l2*u
	other := 2 * c / (-b + math.Sqrt(b*b-4*a*c)) // the smaller root
	return 2 / (u + other), (u - other) / (u + other)
}

// Misses says what the last Check did not see: of orbits without an end only the energy, and
// nothing that counts where steps are too coarse.
func (j *orbitJob) Misses() []workload.Miss {
	return []workload.Miss{{What: fmt.Sprintf("one number of an orbit off by more than %.2g of it", j.within()), Chance: j.unseen}}
}

// Check compares every event with a boost by a matrix, and with the event that the opposite
// boost makes of the result. It compares every product with that of the sum and difference of
// both events.
func (j *boostJob) Check() error {
	return workload.Sweep(j.c.Count, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			x, y, v, got := j.x[4*i:4*i+4], j.y[4*i:4*i+4], j.v[3*i:3*i+3], j.out[4*i:4*i+4]
			m := lorentz(v)
			size := math.Abs(x[0]) + math.Abs(x[1]) + math.Abs(x[2]) + math.Abs(x[3])
			within := 64 * 0x1p-53 * m[0][0] * m[0][0] * m[0][0] * size
			for row := range m {
				want := 0.
				for k, f := range m[row] {
					want += f * x[k]
				}
				if !(math.Abs(got[row]-want) <= within) && want == want {
					return fmt.Errorf("%s: event %d: coordinate %d is %v, want %v ± %.2g: %w", j.Name(), i, row, got[row], want, within, errWrong)
				}
			}
			// Four times the product is the square of the sum minus the square of the
			// difference.
			want, sum := 0., 0.
			for k, sign := range []float64{1, -1, -1, -1} {
				plus, minus := x[k]+y[k], x[k]-y[k]
				want += sign * (plus*plus - minus*minus) / 4
				sum += plus*plus + minus*minus
			}
			if !(math.Abs(j.products[i]-want) <= 8*0x1p-53*sum) && want == want {
				return fmt.Errorf("%s: product %d is %v, want %v: %w", j.Name(), i, j.products[i], want, errWrong)
			}
		}
		return nil
	})
}

// lorentz is the matrix of a boost: the exponential of the rapidity in a direction.
func lorentz(v []float64) (m [4][4]float64) {
	speed := math.Sqrt(v[0]*v[0] + v[1]*v[1] + v[2]*v[2])
	rapidity := math.Atanh(speed)
	cosh, sinh := math.Cosh(rapidity), math.Sinh(rapidity)
	m[0][0] = cosh
	for i := range 3 {
		m[i+1][i+1] = 1
		if speed == 0 {
			continue
		}
		a := v[i] / speed
		m[0][i+1], m[i+1][0] = -sinh*a, -sinh*a
		for k := range 3 {
			m[i+1][k+1] += (cosh - 1) * a * v[k] / speed
		}
	}
	return m
}

// Misses is nothing: every number is compared.
func (j *boostJob) Misses() []workload.Miss {
	return []workload.Miss{{What: "one number off by more than its rounding", Chance: 0}}
}

// checkedPairs is the number of pairs that Check of bodies looks at, at most: some seconds.
const checkedPairs = 1 << 28

// Check computes every step of every body again, in float64 from where it was before, or of
// some of them, drawn by the seed, where there are many. It sees that momentum is conserved but
// for rounding.
func (j *bodyJob) Check() error {
	n, steps := j.c.Count, j.c.Steps
	bodies := rand.New(rand.NewPCG(uint64(j.c.Seed), 1)).Perm(n)
	bodies = bodies[:max(1, min(n, checkedPairs/(n*steps)))]
	j.misses = []workload.Miss{{What: "one number off by more than its rounding", Chance: 1 - float64(len(bodies))/float64(n)}}
	err := workload.Sweep(steps*len(bodies), func(lo, hi int) error {
		for at := lo; at < hi; at++ {
			if err := j.checkBody(at/len(bodies), bodies[at%len(bodies)]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if drift, most := j.drift(), float64(steps)*rounding.Unit*(16+math.Sqrt(float64(n))); !(drift <= most) {
		return fmt.Errorf("%s: momentum drifts by %.2g, and %.2g is rounding: %w", j.Name(), drift, most, errWrong)
	}
	return nil
}

func (j *bodyJob) checkBody(step, body int) error {
	n := j.c.Count
	at, v := j.startAt, j.startV
	if step > 0 {
		at, v = j.at[3*n*(step-1):], j.v[3*n*(step-1):]
	}
	var pulls, sizes [3]float64
	for i, m := range j.mass {
		var d [3]float64
		r2 := soft2
		for k := range d {
			d[k] = float64(at[3*i+k]) - float64(at[3*body+k])
			r2 += d[k] * d[k]
		}
		by := float64(m) / (r2 * math.Sqrt(r2))
		for k := range d {
			pull := by * d[k]
			pulls[k] += pull
			sizes[k] += math.Abs(pull)
		}
	}
	for k := range pulls {
		e := 3*n*step + 3*body + k
		off := bodyStep * rounding.Unit * (16 + 8*math.Sqrt(float64(n))) * sizes[k]
		want := float64(v[3*body+k]) + bodyStep*pulls[k]
		within := off + 2*rounding.Unit*math.Abs(want) + rounding.Tiny
		if !rounding.Same(j.v[e], want, within) {
			return fmt.Errorf("%s: velocity %d of body %d behind step %d is %v, want %v ± %.2g: %w", j.Name(), k, body, step, j.v[e], want, within, errWrong)
		}
		want = float64(at[3*body+k]) + bodyStep*float64(j.v[e])
		within = 2*rounding.Unit*(math.Abs(want)+math.Abs(bodyStep*float64(j.v[e]))) + rounding.Tiny
		if !rounding.Same(j.at[e], want, within) {
			return fmt.Errorf("%s: place %d of body %d behind step %d is %v, want %v ± %.2g: %w", j.Name(), k, body, step, j.at[e], want, within, errWrong)
		}
	}
	return nil
}

// Misses says what the last Check may have missed.
func (j *bodyJob) Misses() []workload.Miss { return j.misses }
