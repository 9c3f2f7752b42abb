package plan

import "math"

// Spot describes how a job runs on an instance that may be taken away: it is cut into
// segments, each of which ends with a checkpoint and is repeated if it is interrupted.
type Spot struct {
	// Every is the time between checkpoints in seconds of computing; 0 if there are none
	// and the job begins anew.
	Every         float64 `json:"checkpoint_every_s"`
	Checkpoints   float64 `json:"checkpoints"`
	Interruptions float64 `json:"interruptions"` // expected
	// Factor is the expected time with checkpoints and interruptions over that without,
	// Spread the standard deviation of it, as a fraction of Factor.
	Factor float64 `json:"factor"`
	Spread float64 `json:"spread"`
}

// checkpointEvery returns the time between checkpoints that is best when writing one
// takes cost seconds and the mean time between interruptions is mean seconds: Daly's
// formula of higher order (2006), which is Young's sqrt(2·cost·mean) for small costs.
func checkpointEvery(cost, mean float64) float64 {
	if cost >= 2*mean {
		return mean
	}
	x := cost / (2 * mean)
	return math.Sqrt(2*cost*mean)*(1+math.Sqrt(x)/3+x/9) - cost
}

// onSpot predicts a computation of some seconds with rate interruptions per second.
// After each, restart seconds pass until the job goes on. save is the time of a
// checkpoint; 0 means that the job cannot be continued.
//
// Interruptions are a Poisson process. A segment of length s that is repeated until it
// is not interrupted takes (e^{rate·s}−1)·(1/rate+restart) on average. Its variance is
// that of a geometric number of failed tries, each of a truncated exponential length.
func onSpot(seconds, rate, restart, save float64) Spot {
	if rate == 0 || seconds == 0 {
		return Spot{Factor: 1}
	}
	every, n, s := 0.0, 1.0, seconds
	if save > 0 {
		every = max(checkpointEvery(save, 1/rate), save)
		n = math.Ceil(seconds / every)
		// The last segment ends with the job and not with a checkpoint.
		s = (seconds + (n-1)*save) / n
		if n == 1 {
			every = 0
		}
	}
	fails := math.Expm1(rate * s) // expected failed tries of a segment
	mean := fails * (1/rate + restart)
	// A failed try: its mean, and the variance of an exponential cut off at s.
	try := 1/rate - s/fails
	variance := max(1/(rate*rate)-s*s*(fails+1)/(fails*fails), 0)
	total := fails*variance + fails*(fails+1)*(try+restart)*(try+restart)
	return Spot{
		Every: every, Checkpoints: n - 1, Interruptions: n * fails,
		Factor: n * mean / seconds,
		Spread: math.Sqrt(n*total) / (n * mean),
	}
}
