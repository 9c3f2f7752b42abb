package batch

import "time"

// Cost is what a batch takes: Fixed, and so much for each example and each unit of length.
type Cost struct {
	Fixed, Example, Unit time.Duration
}

// of returns what a batch takes by the model, in seconds.
func (c *estimate) of(examples, length float64) float64 {
	return c.w[0] + c.w[1]*examples + c.w[2]*length
}

const (
	// decay is what a measurement counts for after another one: after 50 batches it
	// counts for a third, so that a device that was throttled is known within a second
	// or so of batches of 10 ms.
	decay = 0.98
	// inertia is how many measurements what was believed before counts for in each fit. It
	// leaves coefficients as they are that measurements say nothing of, as the cost of an
	// example where all batches are alike.
	inertia = 0.05
	// jump is how much of the mean error of predictions is made anew by each batch.
	jump = 0.1
)

// estimate is the cost of a model's batches on a device, fitted to those measured by least
// squares with weights that decay. It begins with a guess.
type estimate struct {
	w      [3]float64    // fixed, example, unit, in seconds
	xx     [3][3]float64 // decayed sums of products of (1, examples, length), divided by the seconds
	xy     [3]float64    // and of these
	weight float64       // decayed number of batches
	err    float64       // mean of what batches took more or less than predicted, in seconds
	n      int           // batches measured
}

func newEstimate(c Cost) (e estimate) {
	e.w = [3]float64{c.Fixed.Seconds(), c.Example.Seconds(), c.Unit.Seconds()}
	return e
}

// measured takes a batch into account.
func (e *estimate) measured(examples, length, seconds float64) {
	miss := seconds - e.of(examples, length)
	if miss < 0 {
		miss = -miss
	}
	if e.n++; e.n == 1 {
		// The first compares a guess with a fact, which says nothing of the next.
		miss = 0
	}
	e.err += jump * (miss - e.err)
	// Errors count by their part of the whole: a long batch is off by more than a short one.
	rate := 1 / max(seconds, 1e-6)
	x := [3]float64{rate, examples * rate, length * rate}
	e.weight = decay*e.weight + 1
	for i := range x {
		for j := range x {
			e.xx[i][j] = decay*e.xx[i][j] + x[i]*x[j]
		}
		e.xy[i] = decay*e.xy[i] + x[i]*seconds*rate
	}
	e.fit()
}

// fit solves the normal equations. A coefficient that comes out negative, which noise can
// make it, is left out of a second fit.
func (e *estimate) fit() {
	var fixed [3]bool
	for {
		w, ok := e.solve(fixed)
		if !ok {
			return
		}
		worst := -1
		for i := range w {
			if w[i] < 0 && (worst < 0 || w[i] < w[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			e.w = w
			return
		}
		fixed[worst] = true
	}
}

// solve returns the least squares fit in which some coefficients are zero.
func (e *estimate) solve(zero [3]bool) (w [3]float64, ok bool) {
	var a [3][4]float64
	for i := range a {
		if zero[i] {
			a[i][i] = 1
			continue
		}
		// What was believed is a measurement of each coefficient by itself, on the scale on
		// which the batches are.
		weight := inertia * e.xx[i][i] / e.weight
		if weight == 0 {
			weight = 1
		}
		for j := range e.xx {
			if !zero[j] {
				a[i][j] = e.xx[i][j]
			}
		}
		a[i][i] += weight
		a[i][3] = e.xy[i] + weight*e.w[i]
	}
	for c := range 3 {
		p := c
		for r := c + 1; r < 3; r++ {
			if abs(a[r][c]) > abs(a[p][c]) {
				p = r
			}
		}
		if a[p][c] == 0 {
			return w, false
		}
		a[c], a[p] = a[p], a[c]
		for r := range 3 {
			if r == c {
				continue
			}
			f := a[r][c] / a[c][c]
			for k := c; k < 4; k++ {
				a[r][k] -= f * a[c][k]
			}
		}
	}
	for i := range w {
		w[i] = a[i][3] / a[i][i]
	}
	return w, true
}

func abs(x float64) float64 {
	if x < 0 {
		return -x
	}
	return x
}
