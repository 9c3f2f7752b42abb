package batch

import "time"

// Cost is what a batch takes: Fixed, and so much for each example.
type Cost struct {
	Fixed, Example time.Duration
}

// of returns what a batch takes by the model, in seconds.
func (c *estimate) of(examples float64) float64 { return c.w[0] + c.w[1]*examples }

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
	w      [2]float64    // fixed and of an example, in seconds
	xx     [2][2]float64 // decayed sums of products of (1, examples), divided by the seconds
	xy     [2]float64    // and of these
	weight float64       // decayed number of batches
	err    float64       // mean of what batches took more or less than predicted, in seconds
	n      int           // batches measured
}

func newEstimate(c Cost) (e estimate) {
	e.w = [2]float64{c.Fixed.Seconds(), c.Example.Seconds()}
	return e
}

// measured takes a batch into account.
func (e *estimate) measured(examples, seconds float64) {
	miss := seconds - e.of(examples)
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
	x := [2]float64{rate, examples * rate}
	e.weight = decay*e.weight + 1
	for i := range x {
		for j := range x {
			e.xx[i][j] = decay*e.xx[i][j] + x[i]*x[j]
		}
		e.xy[i] = decay*e.xy[i] + x[i]*seconds*rate
	}
	e.fit()
}

// fit solves the normal equations. What was believed is a measurement of each coefficient
// by itself, on the scale on which the batches are. A coefficient that comes out negative,
// which noise can make it, is zero, and the other one fitted alone.
func (e *estimate) fit() {
	var a, b [2]float64 // the diagonal and the right side
	for i := range a {
		weight := inertia * e.xx[i][i] / e.weight
		a[i], b[i] = e.xx[i][i]+weight, e.xy[i]+weight*e.w[i]
	}
	det := a[0]*a[1] - e.xx[0][1]*e.xx[0][1]
	w := [2]float64{(b[0]*a[1] - b[1]*e.xx[0][1]) / det, (b[1]*a[0] - b[0]*e.xx[0][1]) / det}
	switch {
	case w[0] < 0:
		w = [2]float64{0, b[1] / a[1]}
	case w[1] < 0:
		w = [2]float64{b[0] / a[0], 0}
	}
	e.w = w
}
