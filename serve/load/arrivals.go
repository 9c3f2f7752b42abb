package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals says how requests are spread over time.
type Arrivals string

const (
	Constant Arrivals = "constant" // equal times between them
	Poisson  Arrivals = "poisson"  // each at a time of its own, as those of many users are
)

// Pace is the rate at which requests arrive, and the time for which they do.
type Pace struct {
	Rate     float64       // requests a second
	Arrivals Arrivals      // "" for Constant
	WarmUp   time.Duration // before Duration, at the same rate; not measured
	Duration time.Duration
	Seed     uint64 // of Poisson arrivals
}

// Bounds of a pace.
const (
	maxRate     = 1e6
	maxDuration = 24 * time.Hour
)

// Check returns an error unless requests can arrive at that pace.
func (p Pace) Check() error {
	switch {
	case !(p.Rate > 0 && p.Rate <= maxRate):
		return fmt.Errorf("%w: a rate of %v; it must be more than 0 and at most %.0f requests a second", ErrOption, p.Rate, maxRate)
	case p.Arrivals != "" && p.Arrivals != Constant && p.Arrivals != Poisson:
		return fmt.Errorf("%w: arrivals %q; they are %s or %s", ErrOption, p.Arrivals, Constant, Poisson)
	case p.Duration <= 0 || p.Duration > maxDuration:
		return fmt.Errorf("%w: a duration of %v; it must be more than 0 and at most %v", ErrOption, p.Duration, maxDuration)
	case p.WarmUp < 0 || p.WarmUp > maxDuration:
		return fmt.Errorf("%w: a warm-up of %v; it must be from 0 to %v", ErrOption, p.WarmUp, maxDuration)
	}
	return nil
}

// schedule is the times of arrival of one load, from its beginning.
type schedule struct {
	pace   Pace
	random *rand.Rand // nil for constant arrivals
	n      uint64     // of those that next has returned
	last   float64    // seconds; of Poisson arrivals
}

func newSchedule(p Pace) *schedule {
	s := &schedule{pace: p}
	if p.Arrivals == Poisson {
		s.random = rand.New(rand.NewPCG(p.Seed, 1))
	}
	return s
}

// next returns the time of the next arrival and its number, or false after the last one.
func (s *schedule) next() (at time.Duration, n uint64, ok bool) {
	seconds := float64(s.n) / s.pace.Rate // no sum, which would drift
	if s.random != nil {
		s.last += s.random.ExpFloat64() / s.pace.Rate
		seconds = s.last
	}
	end := s.pace.WarmUp + s.pace.Duration
	if seconds*1e9 >= float64(end) {
		return 0, 0, false
	}
	n = s.n
	s.n++
	return time.Duration(math.Round(seconds * 1e9)), n, true
}
