package machine

import (
	"fmt"
	"math"
)

const (
	// fitDecay is the factor by which the weight of a sample shrinks when the next
	// arrives: the weights add up to 50 samples.
	fitDecay = 0.98
	// fitSlope is the standard deviation of real slopes about the prior one.
	// fitSlopeMost is the furthest a slope may be from it: noisy samples of
	// nearly equal sizes can suggest slopes that no kernel has.
	fitSlope     = 0.25
	fitSlopeMost = 1
	// fitSpread is the relative error assumed before there is evidence; it
	// counts as one sample.
	fitSpread = 0.1
	// fitReach sets how the error grows outside the sizes seen, by a standard
	// deviation of 1/fitReach for each factor e: kernels leave their power law
	// when another limit takes over.
	fitReach = 4
	// fitOutlier is the distance from the line, in standard deviations, beyond
	// which a sample is suspect.
	fitOutlier = 4
)

// fit is a line through (log size, log time) by least squares in which older
// samples count exponentially less, updated in constant time (recursive least
// squares, Haykin, Adaptive Filter Theory, ch. 9, in its centred two-parameter
// form). It knows its error and is not moved by one wild sample: that is held
// until the next tells whether things have changed for good.
type fit struct {
	Seen int64   `json:"seen"` // samples accepted, ever
	W    float64 `json:"w"`    // sum of weights
	W2   float64 `json:"w2"`   // sum of their squares
	MX   float64 `json:"mx"`   // weighted means
	MY   float64 `json:"my"`
	CXX  float64 `json:"cxx"` // weighted sums of products about the means
	CXY  float64 `json:"cxy"`
	CYY  float64 `json:"cyy"`
	Lo   float64 `json:"lo"` // range of x seen
	Hi   float64 `json:"hi"`
	Held bool    `json:"held,omitempty"` // a suspect waits
	HX   float64 `json:"hx,omitempty"`
	HY   float64 `json:"hy,omitempty"`
}

// fittedLine is a fit made ready for predictions, which are asked for far more often
// than the fit changes.
type fittedLine struct {
	mx, my, slope float64
	evidence      float64 // the samples' part in the slope, beside the prior's: 0 to 1
	variance      float64 // of one sample about the line
	fixed, lever  float64 // what the line's own error adds at mx, and for distance from it
	lo, hi        float64
	quantile      float64 // standard deviations that hold nine of ten samples
	samples       int
}

// line computes the least-squares line, its slope shrunk towards a prior, which
// decides alone while all samples have one size. What the samples say of the
// slope counts by how precisely they say it (the posterior mean for a normal
// prior): the noisier they are, the further apart sizes must be.
func (f *fit) line(prior float64) fittedLine {
	n := f.W * f.W / f.W2 // samples of equal weight that would say as much
	cxx, cxy, cyy := f.CXX*n/f.W, f.CXY*n/f.W, f.CYY*n/f.W
	df := math.Max(n-2, 0) + 1
	residual := cyy
	if cxx > 0 {
		residual = math.Max(0, cyy-cxy*cxy/cxx)
	}
	weight := (residual + fitSpread*fitSpread) / df / (fitSlope * fitSlope)
	b := (cxy + weight*prior) / (cxx + weight)
	b = min(max(b, prior-fitSlopeMost), prior+fitSlopeMost)
	sse := math.Max(0, cyy-2*b*cxy+b*b*cxx)
	return fittedLine{
		mx: f.MX, my: f.MY, slope: b, evidence: cxx / (cxx + weight),
		variance: (sse + fitSpread*fitSpread) / df,
		fixed:    1 + 1/n, lever: 1 / (cxx + weight),
		lo: f.Lo, hi: f.Hi, quantile: student90(df), samples: int(f.Seen),
	}
}

// at returns the line's value at x.
func (l *fittedLine) at(x float64) float64 { return l.my + l.slope*(x-l.mx) }

// spread returns the standard deviation of a new sample at x.
func (l *fittedLine) spread(x float64) float64 {
	dx := x - l.mx
	variance := l.variance * (l.fixed + dx*dx*l.lever)
	if out := max(l.lo-x, x-l.hi); out > 0 {
		variance += out * out / (fitReach * fitReach)
	}
	return math.Sqrt(variance)
}

// estimate turns the prediction at x, plus an offset in log time, into
// durations.
func (l *fittedLine) estimate(x, offset float64) Estimate {
	median, factor := math.Exp(l.at(x)+offset), math.Exp(l.quantile*l.spread(x))
	return Estimate{
		Median: nanoseconds(median), Low: nanoseconds(median / factor), High: nanoseconds(median * factor),
		Bound: ByHistory, Samples: l.samples,
	}
}

// add takes a sample in as it is.
func (f *fit) add(x, y float64) {
	if f.W == 0 {
		f.Lo, f.Hi = x, x
	}
	f.Lo, f.Hi = math.Min(f.Lo, x), math.Max(f.Hi, x)
	f.Seen++
	f.W = f.W*fitDecay + 1
	f.W2 = f.W2*fitDecay*fitDecay + 1
	dx, dy := x-f.MX, y-f.MY
	f.MX += dx / f.W
	f.MY += dy / f.W
	f.CXX = f.CXX*fitDecay + dx*(x-f.MX)
	f.CXY = f.CXY*fitDecay + dx*(y-f.MY)
	f.CYY = f.CYY*fitDecay + dy*(y-f.MY)
}

// sampleOutcome is the result of observing a sample.
type sampleOutcome uint8

const (
	accepted sampleOutcome = iota
	held                   // suspect; not counted until the next agrees
	shifted                // the second of two suspects: the fit began anew from both
)

// observe takes a sample in unless it is far off. Two in a row that are far off
// on the same side mean that the device changed, and the fit starts over.
func (f *fit) observe(x, y, prior float64) sampleOutcome {
	if f.W == 0 {
		f.add(x, y)
		return accepted
	}
	l := f.line(prior)
	off := y - l.at(x)
	if math.Abs(off) <= fitOutlier*l.spread(x) {
		f.Held = false
		f.add(x, y)
		return accepted
	}
	if f.Held && (f.HY > l.at(f.HX)) == (off > 0) {
		hx, hy := f.HX, f.HY
		*f = fit{Seen: f.Seen}
		f.add(hx, hy)
		f.add(x, y)
		return shifted
	}
	f.Held, f.HX, f.HY = true, x, y
	return held
}

// check reports a state no sequence of samples leads to.
func (f *fit) check() error {
	for _, v := range []float64{f.W, f.W2, f.MX, f.MY, f.CXX, f.CXY, f.CYY, f.Lo, f.Hi, f.HX, f.HY} {
		if math.IsNaN(v) || math.Abs(v) > 1e12 {
			return fmt.Errorf("number %v is out of range", v)
		}
	}
	const full = 1 / (1 - fitDecay)
	switch {
	case f.Seen < 1:
		return fmt.Errorf("%d samples", f.Seen)
	case f.W < 1 || f.W > full+1e-6 || f.W2 < 1 || f.W2 > f.W+1e-6:
		return fmt.Errorf("weights %v and %v do not belong together", f.W, f.W2)
	case f.CXX < 0 || f.CYY < 0 || f.CXY*f.CXY > f.CXX*f.CYY*(1+1e-6)+1e-9:
		return fmt.Errorf("spreads %v, %v and %v do not belong together", f.CXX, f.CXY, f.CYY)
	case f.Lo > f.Hi || math.Abs(f.MX) > 1e3 || math.Abs(f.MY) > 1e3:
		return fmt.Errorf("range %v to %v about %v, %v makes no sense", f.Lo, f.Hi, f.MX, f.MY)
	}
	return nil
}

// normal90 is the 95th percentile of the normal distribution, in standard
// deviations: nine of ten samples lie within it on either side of the mean.
const normal90 = 1.6448536269514722

// student90 is the same for Student's t, by Fisher's expansion in 1/df
// (Abramowitz and Stegun 26.7.5).
func student90(df float64) float64 {
	const z = normal90
	const g1 = (z*z*z + z) / 4
	const g2 = (5*z*z*z*z*z + 16*z*z*z + 3*z) / 96
	return z + g1/df + g2/(df*df)
}
