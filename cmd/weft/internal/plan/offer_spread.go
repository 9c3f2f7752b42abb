package plan

import "math"

// z90 is the standard normal quantile of 0.95: 90 % lie within ±z90.
const z90 = 1.6448536269514722

// spread is a positive quantity known by its median, with a log-normal tail on each side:
// an interval need not be as far below its median as above.
type spread struct {
	median, below, above float64 // the last two are standard deviations of the logarithm
}

// spread returns the distribution whose median and 90 % interval an estimate states.
func (e Estimate) spread() spread {
	return spread{e.Median, math.Log(e.Median/e.Low) / z90, math.Log(e.High/e.Median) / z90}
}

// valid reports whether an estimate has an interval around its median.
func (e Estimate) valid() bool {
	return e.Low > 0 && e.Low <= e.Median && e.Median <= e.High && e.High <= math.MaxFloat64/1e9
}

// usable reports whether a job fits and the time that it takes is known.
func (e Estimate) usable() bool { return e.Fits && e.valid() }

// share is a part of the quantity.
func (x spread) share(part float64) spread { return spread{x.median * part, x.below, x.above} }

// times scales the quantity by a factor that is uncertain itself, by a fraction of it.
func (x spread) times(factor, uncertain float64) spread {
	v := math.Log1p(uncertain * uncertain)
	return spread{x.median * factor, math.Sqrt(x.below*x.below + v), math.Sqrt(x.above*x.above + v)}
}

// quantile returns the value that the quantity stays below with probability p.
func (x spread) quantile(p float64) float64 {
	z := math.Sqrt2 * math.Erfinv(2*p-1)
	if z < 0 {
		return x.median * math.Exp(z*x.below)
	}
	return x.median * math.Exp(z*x.above)
}

// within returns the probability that the quantity is at most v.
func (x spread) within(v float64) float64 {
	switch {
	case v <= 0:
		return 0
	case v < x.median && x.below == 0:
		return 0
	case v < x.median:
		return normal(math.Log(v/x.median) / x.below)
	case x.above == 0:
		return 1
	}
	return normal(math.Log(v/x.median) / x.above)
}

// mean returns the expectation: half of each tail's.
func (x spread) mean() float64 {
	return x.median * (math.Exp(x.below*x.below/2)*normal(-x.below) + math.Exp(x.above*x.above/2)*normal(x.above))
}

// normal is the standard normal distribution function.
func normal(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }
