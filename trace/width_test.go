package trace

import (
	"testing"
	"time"
)

// An execution that takes several lanes of a team counts for each in what its lanes
// computed, and never for more lanes than the device has.
func TestWidth(t *testing.T) {
	m := devices(1)
	m.Devices[0].Lanes, m.Devices[0].Team = 8, true
	on := func(e Event, lane, width uint8) Event {
		e.Lane, e.Width = lane, width
		return e
	}
	for _, c := range []struct {
		name     string
		evs      []Event
		laneTime time.Duration
		occupied float64
	}{
		{"a grid", []Event{on(exec(0, 0, 0, 10*ms, 0), 0, 8)}, 80 * ms, 1},
		{"half of the lanes", []Event{on(exec(0, 0, 0, 10*ms, 0), 0, 4)}, 40 * ms, 0.5},
		{"not said", []Event{on(exec(0, 0, 0, 10*ms, 0), 0, 0)}, 10 * ms, 1. / 8},
		{"one beside a grid", []Event{on(exec(0, 0, 0, 10*ms, 0), 0, 8), on(exec(1, 0, 2*ms, 4*ms, 0), 1, 1)}, 80 * ms, 1},
		{"beside and after", []Event{on(exec(0, 0, 0, 4*ms, 0), 0, 4), on(exec(1, 0, 0, 10*ms, 0), 1, 1)}, 26 * ms, 26. / 80},
	} {
		d := Analyze(m, c.evs, nil).Devices[0]
		if d.LaneTime != c.laneTime || !near(d.Occupancy(), c.occupied) {
			t.Errorf("%s: its lanes computed %v, %.3f of the time; want %v, %.3f", c.name, d.LaneTime, d.Occupancy(), c.laneTime, c.occupied)
		}
	}
}
