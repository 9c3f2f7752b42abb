//go:build invariants

package engine

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// The recount: tasks, runs, lines and devices. Values and operations are in
// check_values_on.go, the store's own audit in store_check.go.

// recountAlways is the number of tasks and values up to which every step is recounted. A
// recount takes time in proportion to them, so that with more of them it is made every
// few steps: the time of a test stays linear.
const recountAlways = 2000

// recount computes every count and list of the engine anew from the records it is about
// and panics where they differ. The order matters: later checks rely on what earlier ones
// found sound.
func (e *Engine) recount() {
	if e.checks.steps%uint64(1+(e.tasks.live+e.mem.vals.live)/recountAlways) != 0 {
		return
	}
	c := recounter{Engine: e, alive: make([]bool, len(e.mem.vals.at))}
	c.liveValues()
	c.instances()
	c.copies()
	c.operations()
	c.memories()
	c.waitLists()
	c.readers()
	c.recipes()
	c.recoverable()
	c.tasksOfRuns()
	c.waitingTasks()
	c.lines()
	c.rooms()
	c.devices()
	c.versions()
}

// visit counts records looked at one by one, for tests of how cost grows.
func (st *store) visit(n int) { st.visits += uint64(n) }

func (e *Engine) visit(n int) { e.mem.visit(n) }

// recounter holds the results of one recount so far.
type recounter struct {
	*Engine
	alive  []bool    // by number, whether a run or resident data refers to the value
	values []valueID // the same values as a list
}

// must panics unless ok. The message names the broken invariant and the records.
func (c *recounter) must(ok bool, what string, which ...int32) {
	if !ok {
		panic(fmt.Sprintf("engine: step %d: %s %v", c.checks.steps, what, slices.Clone(which)))
	}
}

// same panics unless a kept count equals the counted one.
func (c *recounter) same(kept, counted int, what string, which ...int32) {
	if kept != counted {
		panic(fmt.Sprintf("engine: step %d: %s %v: %d, counted %d", c.checks.steps, what, slices.Clone(which), kept, counted))
	}
}

// mustOf panics unless ok. The message describes the value and the broken invariant.
func (c *recounter) mustOf(v valueID, ok bool, what string) {
	if ok {
		return
	}
	val := &c.mem.vals.at[v]
	made := "given"
	if p := c.producer(v); p >= 0 {
		r, gt := c.taskOf(p)
		made = fmt.Sprintf("made by %q of run %d", r.g.TaskName(gt), r.id)
	}
	panic(fmt.Sprintf("engine: step %d: value %d (piece %d of %s, %s, flags %07b, reads %d, deps %d) %s",
		c.checks.steps, v, val.piece, c.describe(v), made, val.flags, val.reads, val.deps, what))
}

// started reports whether a run has tasks and values.
func started(r *run) bool { return r != nil && r.begun }

// eachRun visits the runs that have tasks and values.
func (c *recounter) eachRun(fn func(r *run)) {
	for _, r := range c.runs {
		if started(r) {
			fn(r)
		}
	}
}

// eachTask visits every task.
func (c *recounter) eachTask(fn func(r *run, gt graph.TaskID, tid taskID, t *task)) {
	c.eachRun(func(r *run) {
		for gt := range graph.TaskID(r.g.NumTasks()) {
			tid := r.task(gt)
			fn(r, gt, tid, &c.tasks.at[tid])
		}
	})
}

// eachInLane visits every operation on the lanes.
func (c *recounter) eachInLane(fn func(ln *lane, rec *opRec)) {
	for l := range c.lanes {
		ln := &c.lanes[l]
		for seq := ln.done + 1; seq <= ln.issued; seq++ {
			fn(ln, ln.rec(seq))
		}
	}
}

// eachOp visits every operation in flight, detached ones included.
func (c *recounter) eachOp(fn func(ln *lane, rec *opRec)) {
	c.eachInLane(fn)
	for i := range c.detached {
		fn(&c.lanes[c.detached[i].op.Lane], &c.detached[i].rec)
	}
}

// tasksOfRuns checks the counts that runs keep of their tasks and outputs.
func (c *recounter) tasksOfRuns() {
	inFlight, tasks := 0, 0
	c.eachRun(func(r *run) {
		left, flight, owed := 0, 0, 0
		for gt := range graph.TaskID(r.g.NumTasks()) {
			tid := r.task(gt)
			t := &c.tasks.at[tid]
			c.must(t.run == r.slot, "a task is of another run", int32(tid), int32(r.slot))
			unissued := 0
			for _, p := range r.f.Preds(gt) {
				s, g := c.tasks.at[r.task(graph.TaskID(p))].where, c.gang(r.task(graph.TaskID(p)))
				detached := slices.ContainsFunc(c.detached, func(s detachedOp) bool { return s.rec.task == r.task(graph.TaskID(p)) })
				if s != issued && s != done || detached || g != nil && g.withdrawn {
					unissued++
				}
			}
			if len(r.errs) == 0 { // a run that failed gave up on its tasks
				c.same(int(t.unissued), unissued, "predecessors a task waits for", int32(tid))
			}
			if t.where != done {
				left++
			}
			if t.where == issued {
				flight++
			}
		}
		for v := range r.made() {
			if c.mem.vals.at[r.vbase+v].flags&(wanted|delivered) == wanted {
				owed++
			}
		}
		c.same(r.left, left, "tasks left of a run", int32(r.id))
		c.same(r.flight, flight, "tasks in flight of a run", int32(r.id))
		c.same(r.owed, owed, "outputs owed by a run", int32(r.id))
		inFlight += flight
		tasks += r.g.NumTasks()
	})
	c.same(c.inFlight, inFlight, "tasks in flight")
	c.same(c.tasks.live, tasks, "tasks in use")
}

// waitingTasks checks that every task of a run that goes on is on the list that belongs
// to where it is and on no other, and that a run with nothing to wait for has ended.
func (c *recounter) waitingTasks() {
	c.same(c.ready.len(), 0, "tasks the policy was not asked about")
	listed := make([]where, len(c.tasks.at)) // by task, the list it is on; waiting: none
	in := func(w where, tid taskID) {
		t := &c.tasks.at[tid]
		if c.runs[t.run].state != runActive {
			return // its tasks are about to be given up
		}
		c.must(t.where == w, "a task is in a list and not where that says", int32(tid), int32(w), int32(t.where))
		c.must(listed[tid] == waiting, "a task is in two lists", int32(tid), int32(listed[tid]), int32(w))
		listed[tid] = w
	}
	for _, tid := range c.leftOuts {
		in(leftOut, tid)
	}
	for _, d := range c.delayed {
		in(pausing, d.task)
	}
	for _, tid := range c.gangLine.buf[c.gangLine.head:] {
		in(gangLined, tid)
	}
	c.must(c.gangLine.len() == 0 || c.full(), "a gang waits for a limit that is not reached")
	for v, ts := range c.behindReaders {
		c.mustOf(v, c.mem.vals.at[v].reads > 0 || !c.mem.vals.at[v].has(produced), "was made and read, and tasks still await that")
		for _, tid := range ts {
			in(behindReaders, tid)
		}
	}
	lined := 0
	for d := range c.devs {
		lined += c.devs[d].queue.len()
		c.devs[d].queue.each(func(tid taskID) {
			c.must(int(c.tasks.at[tid].dev) == d, "a task is in the queue of another device", int32(tid), int32(d))
			in(queued, tid)
		})
	}
	c.same(c.queuedTasks, lined, "tasks in device queues")
	goesOn := make(map[runSlot]bool) // runs with a task on a list
	for tid, w := range listed {
		if w != waiting {
			goesOn[c.tasks.at[tid].run] = true
		}
	}
	c.eachTask(func(r *run, gt graph.TaskID, tid taskID, t *task) {
		if r.state != runActive {
			return
		}
		switch t.where {
		case waiting:
			c.must(t.unissued > 0, "a task waits for nothing", int32(tid))
		case issued, done:
		case parked:
			c.must(slices.Contains(r.parked.buf[r.parked.head:], tid), "a task is parked and nothing will come for it", int32(tid))
			c.must(r.flight > 0 || goesOn[t.run], "a task is parked and nothing else of its run is on its way", int32(tid))
		default:
			c.must(listed[tid] == t.where, "a task is not in the list that belongs to where it is", int32(tid), int32(t.where))
		}
	})
	c.eachRun(func(r *run) {
		over := r.state == runFailing || r.state == runActive && r.left == 0 && r.owed == 0
		c.must(!over || !r.quiet() || r.vacating && c.flying > 0, "a run is over and was not reported", int32(r.id))
	})
}

// lines checks the number of lines for resident data in which each waiting run is not
// first, and that the first of a line waits.
func (c *recounter) lines() {
	after := make(map[RunID]int)
	for i := range c.resident {
		first := true
		line := &c.resident[i].line
		for _, k := range line.buf[line.head:] {
			r := c.inLine(k)
			c.must(r != nil || !first, "who left is first in a line for resident data", int32(i))
			if r != nil && !first {
				after[r.id]++
			}
			first = false
		}
	}
	for _, r := range c.runs {
		if r != nil && r.state == runWaiting {
			c.same(r.after, after[r.id], "lines a run is not first in", int32(r.id))
		}
	}
}

// backlogs checks what lanes keep of the launches in flight there.
func (c *recounter) backlogs() {
	backlog, extra, wide := make([]int64, len(c.lanes)), make([]int64, len(c.lanes)), make([]int, len(c.lanes))
	c.eachInLane(func(ln *lane, rec *opRec) {
		if rec.task < 0 || c.devs[ln.info.Device].team == 0 {
			return
		}
		l := slices.IndexFunc(c.lanes, func(o lane) bool { return o.info == ln.info })
		cost, width := c.tasks.at[rec.task].cost, c.width(rec.task)
		backlog[l] += cost
		extra[l] += cost * (width - 1)
		if width > 1 {
			wide[l]++
		}
	})
	for l := range c.lanes {
		ln := &c.lanes[l]
		c.same(int(ln.backlog), int(backlog[l]), "nanoseconds in flight on a lane", int32(l))
		c.same(int(ln.extra), int(extra[l]), "lane-nanoseconds in flight on a lane beyond its own", int32(l))
		c.same(ln.wide, wide[l], "launches in flight on a lane that take several", int32(l))
	}
}

// devices checks the counts that devices keep of their work, and that a device with tasks
// queued has no credit or waits for memory that will come.
func (c *recounter) devices() {
	placed := make([]int, len(c.devs))
	load := make([]int64, len(c.devs))
	backlog := make([]int64, len(c.devs))
	c.eachTask(func(r *run, gt graph.TaskID, tid taskID, t *task) {
		if t.where == queued || t.where == parked && t.dev >= 0 {
			placed[t.dev]++
			load[t.dev] += t.cost * c.width(tid)
		}
	})
	c.eachInLane(func(ln *lane, rec *opRec) {
		if rec.task >= 0 {
			placed[ln.info.Device]++
			load[ln.info.Device] += c.tasks.at[rec.task].cost * c.width(rec.task)
			backlog[ln.info.Device] += c.tasks.at[rec.task].cost
		}
	})
	c.backlogs()
	var timed []machine.DeviceID
	for k := range c.devs {
		i, d := int32(k), &c.devs[k]
		c.same(int(c.situation.Devices[i].Queued), placed[i], "tasks on a device", int32(i))
		c.same(int(d.load), int(load[i]), "nanoseconds of work on a device", int32(i))
		c.same(int(d.backlog), int(backlog[i]), "nanoseconds in flight on a device", int32(i))
		c.must(c.situation.Devices[i].Accepts == (d.state == Healthy), "a device accepts work and is not healthy, or the other way round", int32(i))
		c.must(!d.handsOver || d.state == Draining, "a device hands over what it has and is not draining", int32(i))
		c.must(len(d.leavers) == 0 || d.handsOver, "a caller waits for a device that hands nothing over", int32(i))
		c.must(len(d.wakers) == 0 || d.state == Lost || d.state == Suspect, "a caller waits for a device that is not on its way back", int32(i))
		c.must(d.state == Healthy || d.state == Suspect || d.queue.len() == 0, "a device that takes no work has tasks queued", int32(i))
		c.must(!d.blocked || c.flying > 0 || len(c.delayed) > 0 || len(c.timed) > 0 || c.patientWorks() || d.patient && c.countDetached(machine.DeviceID(k)) > 0, "a device waits for memory that nothing will free", int32(i))
		waits := (!d.blocked || d.space == 0 || d.waits&onOwn != 0) && (!d.blocked || c.mem.spaces[0].cap == 0 || d.waits&onHost != 0)
		c.must(waits, "a device waits for memory and stands on no list of it", int32(i))
		if d.queue.len() > 0 && !d.blocked && !c.full() {
			l, ok := c.credit(d)
			c.must(!ok, "a device has tasks queued and a lane with credit", int32(i), int32(l))
		}
		c.must(d.state != Suspect || d.health.probe.out || d.health.probe.next > 0, "a suspect device is not probed", int32(i))
		if d.timed() {
			timed = append(timed, machine.DeviceID(k))
		}
	}
	c.must(slices.Equal(c.timed, timed), "the list of devices with a timer is not theirs, ascending")
	flying := 0
	for l := range c.lanes {
		flying += int(c.lanes[l].issued - c.lanes[l].done)
	}
	c.same(c.flying, flying, "operations in flight")
}
