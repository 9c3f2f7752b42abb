package machine

import (
	"math"
	"time"
)

// loadWeight is the weight of one sample in Stats.Load: samples come every
// 100 ms, so the load remembers about a second.
const loadWeight = 0.1

// Stats counts what a device has done. The zero value is ready.
type Stats struct {
	Tasks  int64         // finished
	Active int64         // started and not finished
	Total  time.Duration // spent in finished tasks
	Load   float64       // moving average of sampled utilisation, 0 to 1
}

// Start notes that a task began.
func (s *Stats) Start() { s.Active++ }

// Observe notes that a task ended after took.
func (s *Stats) Observe(took time.Duration) {
	s.Tasks++
	s.Total += took
	if s.Active > 0 { // a task from before the counting began
		s.Active--
	}
}

// Sample notes a utilisation from 0 to 1; values outside count as the nearer end.
func (s *Stats) Sample(util float64) {
	s.Load += loadWeight * (math.Min(math.Max(util, 0), 1) - s.Load)
}

// Avg returns the mean time of finished tasks, 0 when there are none.
func (s *Stats) Avg() time.Duration {
	if s.Tasks == 0 {
		return 0
	}
	return s.Total / time.Duration(s.Tasks)
}

// Imbalance returns the distance from the mean of the value furthest from it, as a
// fraction of the mean: 0 for equal values, and 0 when the mean is 0.
func Imbalance(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	if sum == 0 {
		return 0
	}
	mean := sum / float64(len(xs))
	worst := 0.0
	for _, x := range xs {
		worst = math.Max(worst, math.Abs(x-mean))
	}
	return worst / mean
}
