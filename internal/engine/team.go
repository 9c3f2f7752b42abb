package engine

import (
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Teams: devices whose lanes are cores that work on a launch together. A task takes as
// many lanes as it has items (machine.Device.Width): its load counts for all of them, and
// the lane it is given to is chosen so that cores are busy and wide tasks run in turn.

// measure notes how many lanes the tasks of a run take, by shape and device class, if some
// device is a team. A member of a gang counts as one.
func (e *Engine) measure(r *run) {
	if !e.teams {
		return
	}
	classes := int(e.situation.Classes)
	r.widths = slices.Grow(r.widths[:0], len(r.shapes)*classes)[:len(r.shapes)*classes]
	clear(r.widths)
	for s := range r.shapes {
		sh, t := &r.shapes[s], r.g.Task(r.f.ShapeTask[s])
		sh.widths = r.widths[s*classes : (s+1)*classes]
		for d := range e.m.Devices {
			w := &sh.widths[e.situation.Devices[d].Class]
			switch {
			case *w > 0: // another device of the class
			case sh.gang > 1:
				*w = 1
			default:
				*w = uint8(min(e.m.Devices[d].Width(t), maxWidth))
			}
		}
	}
}

// maxWidth is the greatest number of lanes that a task is counted for. A team of more is
// not made (internal/backend/cpu).
const maxWidth = 255

// setWidth notes whether a task takes several lanes of a device of a class that it is
// placed on, and returns the number of lanes that it takes.
func (e *Engine) setWidth(t *task, widths []uint8, class int32) int64 {
	t.flags &^= isWide
	if widths == nil || widths[class] <= 1 {
		return 1
	}
	t.flags |= isWide
	return int64(widths[class])
}

// width returns the number of lanes of its device that a placed task takes.
func (e *Engine) width(tid taskID) int64 {
	t := &e.tasks.at[tid]
	if t.flags&isWide == 0 {
		return 1
	}
	r, gt := e.taskOf(tid)
	return int64(r.shapes[r.f.Rows[gt].Shape].widths[e.situation.Devices[t.dev].Class])
}

// onTeam adds n launches of a task to a lane of a team, and returns the lane-nanoseconds
// that they take on other lanes of the team.
func (e *Engine) onTeam(l Lane, tid taskID, n int64) int64 {
	ln, cost, w := &e.lanes[l], e.tasks.at[tid].cost, e.width(tid)
	ln.backlog += n * cost
	if w == 1 {
		return 0
	}
	more := cost * (w - 1)
	ln.wide += int(n)
	ln.extra += n * more
	return more
}

// offTeam takes a launch that has ended out of the counts of a lane of a team, and out of
// its device's counts of work on several lanes.
func (e *Engine) offTeam(l Lane, tid taskID, took time.Duration) {
	d := &e.devs[e.lanes[l].info.Device]
	d.load -= e.onTeam(l, tid, -1)
	d.wideBusy += took * time.Duration(e.width(tid)-1)
}

// reportWide adds to a run's report of a device what a task took of lanes beyond its own.
func (e *Engine) reportWide(tid taskID, r *run, dev machine.DeviceID, took time.Duration) {
	more := time.Duration(e.width(tid) - 1)
	r.report.Devices[dev].Busy += took * more
	r.report.Devices[dev].Predicted += time.Duration(e.tasks.at[tid].cost) * more
}

// issuedLoad returns the predicted lane-nanoseconds of a device's launches in flight.
func (e *Engine) issuedLoad(d *device) (sum int64) {
	sum = d.backlog
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		sum += e.lanes[l].extra
	}
	return sum
}

const (
	// quick is the predicted duration, in nanoseconds, up to which tasks of a team stay on
	// one lane. 500 ns is about the time that the engine and the loop need for a task: a
	// second core would wait for them, and would have to be woken.
	quick = int64(500 * time.Nanosecond)
	// heldUp is the time since the oldest launch of a lane became the oldest above which the
	// lane gets no further quick tasks. 1 ms is longer than the predicted duration of all
	// that may be in flight on it.
	heldUp = time.Millisecond
)

// teamLane returns the lane of a team for a task, and whether it may be issued.
//
// Quick tasks go to the lane used last, if all it has in flight is quick. A task that waits
// for the launch a lane was given last goes behind it: elsewhere it would keep a lane
// waiting. Other tasks go to the lane with the least work, which is an idle one while there
// is any. Tasks that take several lanes run in turn: they go to an idle lane only while
// launches leave cores unused, and else behind others of their kind.
func (e *Engine) teamLane(d *device, tid taskID) (Lane, bool) {
	r, gt := e.taskOf(tid)
	t := &e.tasks.at[tid]
	if t.cost < quick && t.flags&isWide == 0 && r.shapes[r.f.Rows[gt].Shape].samples > 0 {
		ln := &e.lanes[d.recent]
		n := ln.issued - ln.done
		if n == 0 || d.visited-ln.head < heldUp && ln.extra == 0 && ln.backlog <= int64(n)*quick && e.mayTake(d, n, ln.backlog) {
			return d.recent, true
		}
	}
	for _, p := range r.f.Preds(gt) {
		t := &e.tasks.at[r.task(graph.TaskID(p))]
		if t.where != issued || t.flags&isDetached != 0 || t.lane < d.lanes[0] || t.lane >= d.lanes[1] {
			continue
		}
		if ln := &e.lanes[t.lane]; uint32(ln.issued) == t.seq && ln.done < ln.issued && ln.issued-ln.done < uint64(e.o.Depth) {
			return t.lane, true
		}
	}
	if w := e.width(tid); w > 1 {
		return e.wideLane(d, int(w))
	}
	return e.leastLane(d, false)
}

// leastLane returns the lane of a team that will be free first, of all or only of those
// with wide launches in flight, and whether one may take a task. It is an idle one if there
// is any. Where the oldest launch takes longer than all were predicted to, those behind it
// are expected to take as long as it has: nothing may be known of any.
func (e *Engine) leastLane(d *device, onlyWide bool) (best Lane, ok bool) {
	least, fewest := time.Duration(math.MaxInt64), uint64(0)
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		if onlyWide && ln.wide == 0 {
			continue
		}
		if ln.issued == ln.done {
			return l, true
		}
		// A launch that is overdue counts as long: it may never end.
		if !e.mayTake(d, ln.issued-ln.done, max(ln.backlog, int64(d.visited-ln.head)/4)) {
			continue
		}
		n, left := ln.issued-ln.done, left(ln, ln.backlog, d.visited)
		if since := d.visited - ln.head; since >= time.Duration(ln.backlog) {
			left += since * time.Duration(n-1)
		}
		if left < least || left == least && n < fewest {
			best, least, fewest, ok = l, left, n, true
		}
	}
	return best, ok
}

// wideLane returns the lane of a team for a task that takes several lanes, and whether it
// may be issued.
func (e *Engine) wideLane(d *device, width int) (Lane, bool) {
	taken, lanes, idle := 0, 0, Lane(-1)
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		switch {
		case ln.issued > ln.done:
			taken += int(e.width(ln.rec(ln.done + 1).task))
		case idle < 0:
			idle = l
		}
		if ln.wide > 0 {
			lanes++
		}
	}
	switch {
	case taken < d.team && idle >= 0:
		return idle, true
	case lanes*width >= d.team:
		return e.leastLane(d, true)
	}
	return e.leastLane(d, false)
}

// hadTeam reports whether a launch that began at start had its team to itself: no launch of
// another lane overlapped it. A wide task that shares the team leaves cores to others, so
// its time says little about its time with all cores.
func (e *Engine) hadTeam(lane Lane, start time.Duration) bool {
	d := &e.devs[e.lanes[lane].info.Device]
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		if ln := &e.lanes[l]; l != lane && (ln.issued > ln.done || ln.last > start) {
			return false
		}
	}
	return true
}

// taken returns the part of a device's lanes that the launches at their heads take.
func (e *Engine) taken(d *device) float64 {
	n := int64(0)
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		if ln := &e.lanes[l]; ln.issued > ln.done {
			n += e.width(ln.rec(ln.done + 1).task)
		}
	}
	return min(float64(n)/float64(d.lanes[1]-d.lanes[0]), 1)
}

// perTeam turns the lane-time in the reports of teams into time of the device.
func (e *Engine) perTeam(reports []trace.DeviceReport) {
	for i := range reports {
		if team := time.Duration(e.devs[i].team); team > 0 {
			reports[i].Busy /= team
			reports[i].Predicted /= team
		}
	}
}
