package sched

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/machine"
)

func drawLoads(t *rapid.T) []Load {
	loads := make([]Load, rapid.IntRange(0, 6).Draw(t, "devices"))
	task := int32(0)
	for k := range loads {
		loads[k] = Load{Device: machine.DeviceID(k), Util: rapid.Float64Range(0, 1).Draw(t, "util")}
		for range rapid.IntRange(0, 12).Draw(t, "queued") {
			loads[k].Queued = append(loads[k].Queued, QueuedTask{task, rapid.Float64Range(0, 0.3).Draw(t, "weight")})
			task++
		}
	}
	return loads
}

// TestRebalanceNarrows replays the moves and checks that each takes a task
// that is there from the hottest device to the coldest and narrows their gap,
// that there are never too many, and that nothing moves without cause.
func TestRebalanceNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads := drawLoads(t)
		o := RebalanceOptions{MaxMoves: rapid.IntRange(1, 12).Draw(t, "max")}
		barred := machine.DeviceID(rapid.IntRange(-1, 5).Draw(t, "barred"))
		o.Fits = func(_ int32, to machine.DeviceID) bool { return to != barred }
		moves := Rebalance(loads, o)
		if len(moves) > o.MaxMoves {
			t.Fatalf("%d moves, at most %d", len(moves), o.MaxMoves)
		}
		lo, hi := 1.0, 0.0
		at := make(map[int32]machine.DeviceID)
		weight := make(map[int32]float64)
		util := make([]float64, len(loads))
		for k, l := range loads {
			lo, hi, util[k] = min(lo, l.Util), max(hi, l.Util), l.Util
			for _, q := range l.Queued {
				at[q.Task], weight[q.Task] = l.Device, q.Weight
			}
		}
		if len(moves) > 0 && !(hi > 0.8 && lo < 0.5 && hi-lo > 0.3) {
			t.Fatalf("moved with utilisation between %v and %v", lo, hi)
		}
		for _, m := range moves {
			if at[m.Task] != m.From || m.To == barred {
				t.Fatalf("%+v, but the task is on %d", m, at[m.Task])
			}
			for k := range util {
				if util[k] > util[m.From] || util[k] < util[m.To] {
					t.Fatalf("%+v with utilisation %v", m, util)
				}
			}
			gap := util[m.From] - util[m.To]
			for task, on := range at {
				if on == m.From && math.Abs(gap-2*weight[task]) < math.Abs(gap-2*weight[m.Task])-1e-9 {
					t.Fatalf("%+v with weight %v closes a gap of %v less than task %d with %v", m, weight[m.Task], gap, task, weight[task])
				}
			}
			at[m.Task] = -1 // moved once
			util[m.From] -= weight[m.Task]
			util[m.To] += weight[m.Task]
			after := util[m.From] - util[m.To]
			if max(after, -after) >= gap {
				t.Fatalf("%+v makes a gap of %v from one of %v", m, after, gap)
			}
		}
	})
}

func TestRebalanceInterval(t *testing.T) {
	loads := []Load{{Device: 0, Util: 1, Queued: []QueuedTask{{1, 0.2}}}, {Device: 1}}
	for _, c := range []struct {
		now, last time.Duration
		moves     int
	}{
		{0, 0, 1}, {500 * time.Millisecond, 0, 1},
		{1500 * time.Millisecond, time.Second, 0},
		{2 * time.Second, time.Second, 1},
	} {
		if got := Rebalance(loads, RebalanceOptions{Now: c.now, Last: c.last}); len(got) != c.moves {
			t.Errorf("at %v after %v: %d moves, want %d", c.now, c.last, len(got), c.moves)
		}
	}
}

func TestRebalanceThresholds(t *testing.T) {
	queued := []QueuedTask{{1, 0.05}, {2, 0.05}}
	for _, c := range []struct {
		hot, cold float64
		acts      bool
	}{
		{0.81, 0.49, true}, {0.80, 0.30, false}, {0.95, 0.50, false}, {0.81, 0.1, true},
	} {
		loads := []Load{{Device: 0, Util: c.hot, Queued: queued}, {Device: 1, Util: c.cold}}
		if got := Rebalance(loads, RebalanceOptions{}); (len(got) > 0) != c.acts {
			t.Errorf("%v and %v: %v", c.hot, c.cold, got)
		}
	}
}
