package sched

import (
	"math"
	"time"

	"github.com/weft-run/weft/machine"
)

// Load is a device as the rebalancer sees it. Devices that accept no work must
// be left out.
type Load struct {
	Device machine.DeviceID
	Util   float64 // 0 to 1
	// Queued are the tasks that wait on the device, in its order. What runs
	// is never moved and not listed.
	Queued []QueuedTask
}

// QueuedTask is a task that could move.
type QueuedTask struct {
	Task int32 // the caller's number for it
	// Weight is the utilisation that goes with it when it moves.
	Weight float64
}

// Move takes a queued task from one device to another.
type Move struct {
	Task     int32
	From, To machine.DeviceID
}

// RebalanceOptions say when to rebalance and how much. Zero fields take the
// defaults named.
type RebalanceOptions struct {
	Hot       float64 // a device above it is overloaded (0.8)
	Cold      float64 // a device below it has room (0.5)
	Threshold float64 // the least difference worth acting on (0.3)
	// MaxMoves bounds the moves of one call (10).
	MaxMoves int
	// Interval is the least time between two rebalances (1 s), so that the
	// effect of one is seen before the next.
	Interval time.Duration
	// Now is the time of the call; Last is when Rebalance last returned moves,
	// 0 if it never did. The caller keeps it.
	Now, Last time.Duration
	// Fits says whether a task may run on a device; nil means anywhere.
	Fits func(task int32, to machine.DeviceID) bool `json:"-"`
}

// The defaults of RebalanceOptions, which says what they are.
const (
	defaultHot         = 0.8
	defaultCold        = 0.5
	defaultSpread      = 0.3
	defaultMaxMoves    = 10
	defaultMinInterval = time.Second
)

func (o RebalanceOptions) withDefaults() RebalanceOptions {
	if o.Hot == 0 {
		o.Hot = defaultHot
	}
	if o.Cold == 0 {
		o.Cold = defaultCold
	}
	if o.Threshold == 0 {
		o.Threshold = defaultSpread
	}
	if o.MaxMoves == 0 {
		o.MaxMoves = defaultMaxMoves
	}
	if o.Interval == 0 {
		o.Interval = defaultMinInterval
	}
	return o
}

// Uneven reports whether the devices' loads differ enough for Rebalance to act. It
// does not look at queued tasks.
func Uneven(loads []Load, o RebalanceOptions) bool {
	o = o.withDefaults()
	if len(loads) < 2 || o.Last > 0 && o.Now-o.Last < o.Interval {
		return false
	}
	hot, cold := loads[0].Util, loads[0].Util
	for _, l := range loads {
		hot, cold = max(hot, l.Util), min(cold, l.Util)
	}
	return hot > o.Hot && cold < o.Cold && hot-cold > o.Threshold
}

// Rebalance says which queued tasks should move. It acts only when some device
// is hot, another is cold and they are far enough apart, and then moves tasks
// from the hottest to the coldest device while that brings the two closer. It
// starts late and stops late: the gap that makes it act is much wider than the
// one it leaves behind, which with MinInterval keeps tasks from going back and
// forth. Loads are not changed.
func Rebalance(loads []Load, o RebalanceOptions) []Move {
	if !Uneven(loads, o) {
		return nil
	}
	o = o.withDefaults()
	util := make([]float64, len(loads))
	queued := make([][]QueuedTask, len(loads))
	for k, l := range loads {
		util[k] = l.Util
		queued[k] = append([]QueuedTask(nil), l.Queued...)
	}
	var moves []Move
	for len(moves) < o.MaxMoves {
		hot, cold := extremes(util)
		k := pick(queued[hot], util[hot]-util[cold], loads[cold].Device, o.Fits)
		if k < 0 {
			break
		}
		t := queued[hot][k]
		queued[hot] = append(queued[hot][:k], queued[hot][k+1:]...)
		util[hot] -= t.Weight
		util[cold] += t.Weight
		// A task that moved stays where it is: it is not offered again.
		moves = append(moves, Move{Task: t.Task, From: loads[hot].Device, To: loads[cold].Device})
	}
	return moves
}

// extremes returns the hottest and the coldest device, the first of equals.
func extremes(util []float64) (hot, cold int) {
	for k, u := range util {
		if u > util[hot] {
			hot = k
		}
		if u < util[cold] {
			cold = k
		}
	}
	return hot, cold
}

// leastGain is the least utilisation by which a move must narrow a gap; less is
// rounding.
const leastGain = 1e-9

// pick returns the task whose move closes a gap best, the last of equals since
// it would wait longest, or -1 when none narrows it.
func pick(queued []QueuedTask, gap float64, to machine.DeviceID, fits func(int32, machine.DeviceID) bool) int {
	best, left := -1, gap-leastGain
	for k, t := range queued {
		after := math.Abs(gap - 2*t.Weight)
		if after <= left && (fits == nil || fits(t.Task, to)) {
			best, left = k, after
		}
	}
	return best
}
