package weft

import (
	"strings"
	"time"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Device is an open device and its activity.
type Device struct {
	machine.Device
	Score  float64
	Speed  float64 // as measured (machine.Speed); 0 where it was not
	State  string
	Tasks  int64
	Busy   time.Duration
	Queued int
}

// Devices returns the open devices in the order of their IDs; after Close, as
// they were then.
func (r *Runtime) Devices() []Device {
	st, _ := r.must("Devices").status()
	out := make([]Device, len(st))
	for i, s := range st {
		d := r.machine.Devices[i]
		out[i] = Device{Device: d, Score: machine.Score(&d), Speed: machine.Speed(&d), State: stateOf(&s), Tasks: s.Stats.Tasks, Busy: s.Busy, Queued: s.Queued}
	}
	return out
}

// status returns what the engine knows of the caller's devices, and counts.
func (r *Runtime) status() ([]engine.DeviceStatus, exec.Counts) {
	st, c := r.x.Status()
	return st[:len(r.names)], c
}

// stateOf is the state of a device in a word.
func stateOf(s *engine.DeviceStatus) string {
	switch {
	case s.Drained:
		return "drained"
	case s.Silent:
		return "unresponsive"
	}
	return s.State.String()
}

// Metrics has the totals of a runtime since it was opened, and its activity.
// All counts only grow.
type Metrics struct {
	Uptime  time.Duration
	Devices []DeviceMetrics // in the order of their IDs
	Runs    RunMetrics
	// Retries counts executions of tasks that failed and were tried again, in
	// runs that have ended.
	Retries int64
	// Losses counts how often a device was lost.
	Losses int64
	// Copies and CopyBytes count what was moved between memories.
	Copies    int64
	CopyBytes int64
	// Rebalanced counts how often queued tasks were moved from a hot device to a cold one;
	// Rebalances are the latest of these moves, oldest first.
	Rebalanced int64
	Rebalances []Rebalance
	// Verified counts tasks whose results two devices agreed on, Unverified those picked that
	// no second device executed, and Wrong results that were replaced (Options.Verify).
	Verified, Unverified, Wrong int64
}

// Rebalance is a move of queued tasks from a hot device to a cold one.
type Rebalance struct {
	At       time.Duration // since the runtime was opened
	From, To string        // devices
	Tasks    int
}

// RunMetrics counts runs. Those submitted and not counted under another name are
// waiting or running.
type RunMetrics struct {
	Submitted, Completed, Failed, Cancelled int64
}

// DeviceMetrics is one device in Metrics.
type DeviceMetrics struct {
	Name   string
	State  string        // "healthy", "suspect", "draining", "drained", "lost", "unresponsive", "broken" or "spare"
	Tasks  int64         // executions of tasks that ended, well or not
	Busy   time.Duration // spent in them; of the whole device, where it runs several at a time
	Util   float64       // at the last sample, 0 to 1
	Queued int           // tasks placed on it and not finished
	Losses int64
	// MemUsed and MemBytes are the memory data takes and may take; without a
	// limit MemBytes is 0. Devices that use host memory share its numbers.
	MemUsed, MemBytes int64
	// Failed counts executions of tasks that failed, Failures those in a row up to now.
	Failed   int64
	Failures int
	// LastSuccess is when a task last ended well, since the runtime was opened; 0 for never.
	LastSuccess time.Duration
	LastError   string // why a task last failed there, or the device was lost, in a line; "" for never
	// Health is the device's condition when it was last sampled, of which devices report a
	// part or nothing.
	Health Health
}

// Health is the condition of a device when it was last sampled. Negative numbers are not known.
type Health = trace.Health

// Metrics returns the current metrics; after Close, those at its end.
func (r *Runtime) Metrics() Metrics {
	st, c := r.must("Metrics").status()
	m := Metrics{
		Uptime: c.Uptime, Devices: make([]DeviceMetrics, len(st)),
		Runs:    RunMetrics{Submitted: c.Submitted, Completed: c.Completed, Failed: c.Failed, Cancelled: c.Cancelled},
		Retries: c.Retries, Copies: c.Copies, CopyBytes: c.CopyBytes, Rebalanced: c.Rebalanced,
	}
	if v := r.verify; v != nil {
		m.Verified, m.Unverified, m.Wrong = v.verified.Load(), v.unverified.Load(), v.wrong.Load()
	}
	for _, b := range c.Rebalances {
		m.Rebalances = append(m.Rebalances, Rebalance{At: b.At, From: r.names[b.From], To: r.names[b.To], Tasks: b.Tasks})
	}
	for i, s := range st {
		m.Losses += int64(s.Losses)
		m.Devices[i] = DeviceMetrics{
			Name: r.names[i], State: stateOf(&s), Tasks: s.Stats.Tasks, Busy: s.Busy, Util: s.Util,
			Queued: s.Queued, Losses: int64(s.Losses), MemUsed: s.MemUsed, MemBytes: s.MemBytes,
			Failed: s.Failed, Failures: s.Failures, LastSuccess: s.LastOK,
			Health: Health{Util: -1, TempC: -1, PowerW: -1, ClockMHz: -1, MemUsed: -1, MemBytes: -1, MemErrors: -1},
		}
		if s.LastErr != nil {
			m.Devices[i].LastError = strings.ReplaceAll(s.LastErr.Error(), "\n", "; ") // as runs report it
		}
		if s.Sampled != nil {
			m.Devices[i].Health = *s.Sampled
		}
		if s.MemBytes == engine.NoLimit {
			m.Devices[i].MemBytes = 0
		}
	}
	return m
}
