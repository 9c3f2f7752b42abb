package machine

import (
	"time"

	"github.com/weft-run/weft/graph"
)

// Bound says what limits a task or copy.
type Bound uint8

const (
	ByLaunch  Bound = iota // starting kernels
	ByCompute              // arithmetic
	ByMemory               // device memory bandwidth
	ByLink                 // a copy's path
	ByHistory              // measured, not modelled
)

var boundNames = []string{"launch", "compute", "memory", "link", "history"}

// String returns the name of the bound.
func (b Bound) String() string { return nameOf(boundNames, int(b)) }

// Estimate is a predicted duration. A negative Median means it cannot be done
// at all, as a copy without a path.
type Estimate struct {
	Median time.Duration
	// Low and High hold the interval the real duration falls in nine times of ten.
	Low, High time.Duration
	Bound     Bound
	// Samples is the number of measurements behind it; 0 means roofline only.
	Samples int
	// Own is the number of those that were of just this work.
	Own int
	// Via says of a copy that it goes through host memory: it is two copies,
	// one after the other.
	Via bool
}

// Cost predicts durations. Implementations are pure functions of what they
// were told; Epoch changes whenever an answer may have, so callers may cache.
type Cost interface {
	// Task predicts one execution of t on a device, inputs at hand.
	Task(t *graph.Task, on DeviceID) Estimate
	// Copy predicts moving bytes from one device's memory to another's; Host
	// stands for host memory.
	Copy(bytes int64, from, to DeviceID) Estimate
	// Epoch returns a number that grows when answers change.
	Epoch() uint64
}

// Learner is the optional ability of a Cost to take in what work that succeeded
// really took.
type Learner interface {
	Observe(t *graph.Task, on DeviceID, took time.Duration)
	ObserveCopy(bytes int64, from, to DeviceID, took time.Duration)
}
