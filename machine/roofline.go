package machine

import (
	"math"
	"time"

	"github.com/weft-run/weft/graph"
)

// The rates assumed of a device or host that was not measured. They are low, so that
// it gets little work until its speed is known.
const (
	unmeasuredOps = 1e9 // operations per second
	unmeasuredBPS = 1e9 // bytes per second
)

// rooflineLow and rooflineHigh are the interval of an estimate, as factors of its
// median. The roofline knows rates, not kernels: real times are rarely below half of
// its answer and mostly below three times.
const (
	rooflineLow  = 0.5
	rooflineHigh = 3
)

// Roofline predicts from a machine's rates alone: a task takes its launches
// plus the longer of its arithmetic and its memory traffic, a copy the latency
// of its path plus its bytes at the path's rate. On a team, a task with few items has as
// many of the cores and as much of the memory's rate. It answers for kernels that
// have never run.
type Roofline struct {
	m *Machine
	r *routes
}

// NewRoofline returns the model of a machine, which must not change afterwards.
func NewRoofline(m *Machine) *Roofline { return &Roofline{m, newRoutes(m)} }

// Epoch is always 0: the answers never change.
func (c *Roofline) Epoch() uint64 { return 0 }

// Task implements Cost.
func (c *Roofline) Task(t *graph.Task, on DeviceID) Estimate {
	rates := &c.m.Devices[on].Rates
	part := c.m.Devices[on].Part(t)
	compute, memory := 0.0, 0.0
	if t.Work.Ops > 0 {
		compute = t.Work.Ops / (rates.For(t.Work.Unit) * part) * 1e9
	}
	if t.Work.Bytes > 0 {
		memory = t.Work.Bytes / (orElse(rates.MemoryBPS, unmeasuredBPS) * part) * 1e9
	}
	// The conversion keeps the product from being fused into the sum, so that
	// every architecture gives the same nanosecond.
	launch := float64(rates.LaunchNS * float64(max(len(t.Steps), 1)))
	work, bound := compute, ByCompute
	if memory > compute {
		work, bound = memory, ByMemory
	}
	if launch >= work {
		bound = ByLaunch
	}
	return modelled(launch+work, bound)
}

// Copy implements Cost. Between equal memories there is nothing to copy, except
// that from Host to Host is a copy within host memory.
func (c *Roofline) Copy(bytes int64, from, to DeviceID) Estimate {
	if from == Host && to == Host {
		return modelled(float64(bytes)/orElse(c.m.HostBPS, unmeasuredBPS)*1e9, ByMemory)
	}
	switch p := c.r.path(from, to); {
	case p.bps == 0:
		return Estimate{Median: -1, Low: -1, High: -1, Bound: ByLink}
	case p.n == 0:
		return Estimate{Bound: ByLink}
	default:
		est := modelled(p.latencyNS+float64(float64(bytes)/p.bps*1e9), ByLink)
		est.Via = p.n == 2
		return est
	}
}

// For returns the operations per second of a unit, from a related one where it was not
// measured.
func (r *Rates) For(u graph.Unit) float64 {
	if r.Ops[u] > 0 {
		return r.Ops[u]
	}
	fp32 := orElse(r.Ops[graph.FP32], unmeasuredOps)
	if u == graph.FP64 {
		return fp32 / 2
	}
	return fp32
}

func orElse(measured, otherwise float64) float64 {
	if measured > 0 {
		return measured
	}
	return otherwise
}

func modelled(ns float64, b Bound) Estimate {
	return Estimate{Median: nanoseconds(ns), Low: nanoseconds(ns * rooflineLow), High: nanoseconds(ns * rooflineHigh), Bound: b}
}

// nanoseconds rounds a time of 0 or more to a duration, the longest one when it
// does not fit.
func nanoseconds(ns float64) time.Duration {
	if !(ns < math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(ns + 0.5)
}
