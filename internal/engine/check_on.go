//go:build invariants

package engine

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// recountAlways is up to how many tasks and values every step is recounted.
const recountAlways = 2000

// recount computes everything the engine keeps count of anew, from what the
// counts are about, and panics where the two differ. The order matters: what
// comes later relies on what was found sound before. It maxTried at everything
// there is, so with much of that it does so at every few steps only.
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
	c.readers()
	c.recipes()
	c.recoverable()
	c.tasksOfRuns()
	c.waitingTasks()
	c.lines()
	c.devices()
	c.versions()
}

// visit counts what is looked at one by one, for tests of how cost grows.
func (st *store) visit(n int) { st.visits += uint64(n) }

func (e *Engine) visit(n int) { e.mem.visit(n) }

// recounter holds what one recount has found out so far.
type recounter struct {
	*Engine
	alive  []bool    // values something refers to, by number
	values []valueID // the same as a list
}

// must panics with what is wrong, and with which, unless ok.
func (c *recounter) must(ok bool, what string, which ...int32) {
	if !ok {
		panic(fmt.Sprintf("engine: step %d: %s %v", c.checks.steps, what, slices.Clone(which)))
	}
}

// same panics unless a count is what was counted.
func (c *recounter) same(kept, counted int, what string, which ...int32) {
	if kept != counted {
		panic(fmt.Sprintf("engine: step %d: %s %v: %d, counted %d", c.checks.steps, what, slices.Clone(which), kept, counted))
	}
}

// mustOf is must about a value, which is described.
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

// eachInLane visits every operation of the lanes.
func (c *recounter) eachInLane(fn func(ln *lane, rec *opRec)) {
	for l := range c.lanes {
		ln := &c.lanes[l]
		for seq := ln.done + 1; seq <= ln.issued; seq++ {
			fn(ln, ln.rec(seq))
		}
	}
}

// eachOp visits every operation in flight, those that are adrift too.
func (c *recounter) eachOp(fn func(ln *lane, rec *opRec)) {
	c.eachInLane(fn)
	for i := range c.detached {
		fn(&c.lanes[c.detached[i].op.Lane], &c.detached[i].rec)
	}
}

// liveValues lists the values of runs and of resident data. A run that ended
// keeps only what its held recipes read of the values it started from.
func (c *recounter) liveValues() {
	add := func(v valueID) {
		if !c.alive[v] {
			c.alive[v] = true
			c.values = append(c.values, v)
		}
	}
	c.eachRun(func(r *run) {
		for _, v := range r.init {
			if r.state != runEnded && !r.revived || c.mem.vals.at[v].run == r.slot {
				add(v)
			}
		}
		for v := range r.made() {
			add(r.vbase + v)
		}
	})
	c.eachTask(func(r *run, gt graph.TaskID, tid taskID, t *task) {
		if t.flags&held != 0 || t.where != done {
			c.eachRead(r, gt, add)
		}
	})
	for i := range c.resident {
		for _, v := range c.resident[i].vals {
			add(v)
		}
	}
	for _, v := range c.values {
		owner := c.mem.vals.at[v].run
		c.must(owner < 0 || int(owner) < len(c.runs) && started(c.runs[owner]), "a value in use is of a retired run", int32(v), int32(owner))
	}
}

// instances checks that a slot belongs to one instance, and an instance to the
// list of its data and, on a device, to the order its memory is used in.
func (c *recounter) instances() {
	listed := make([]bool, len(c.mem.insts))
	for _, d := range c.liveData() {
		c.mem.eachInst(d, func(i Inst) {
			c.must(c.mem.insts[i].data == d && !listed[i], "an instance is in a list it does not belong to", int32(i), int32(d))
			listed[i] = true
		})
	}
	ordered := make([]bool, len(c.mem.insts))
	for s := range c.mem.spaces {
		prev := Inst(-1)
		for i := c.mem.spaces[s].oldest; i >= 0; i = c.mem.insts[i].newer {
			c.must(c.mem.insts[i].older == prev && int(c.mem.insts[i].space) == s, "an instance is out of its memory's order", int32(i))
			ordered[i], prev = true, i
		}
		c.must(c.mem.spaces[s].newest == prev, "a memory's order does not end at its newest instance", int32(s))
	}
	slots := 0
	for k := range c.mem.insts {
		i, in := Inst(k), &c.mem.insts[k]
		c.must(listed[i] == (in.data >= 0), "an instance is in no list, or free and in one", int32(i))
		c.must(ordered[i] == (in.data != -2 && in.space != 0), "an instance is in no order, or free and in one", int32(i))
		if in.data == -2 {
			continue
		}
		slots += int(in.n)
		holds := 0
		for s := in.slot; s < in.end(); s++ {
			sl := &c.mem.slots.at[s]
			c.must(sl.inst == i, "a slot belongs to another instance", int32(s), int32(i))
			if sl.val < 0 {
				continue
			}
			holds++
			c.must(c.alive[sl.val], "an instance holds a value nothing refers to", int32(i), int32(sl.val))
			val := &c.mem.vals.at[sl.val]
			c.mustOf(sl.val, val.data == in.data && val.piece == in.piece(s), "is in a slot of another piece")
		}
		c.same(int(in.held), holds, "values held by an instance", int32(i))
		c.must(holds > 0 || in.pins > 0 || in.home || in.deferred, "an instance holds nothing and is not freed", int32(i))
		// Copies out of a lost memory may be in flight a while longer.
		c.must(holds == 0 || !c.gone(in.space), "an instance in a lost memory holds a value", int32(i))
	}
	for _, list := range c.mem.idle.insts {
		slots += len(list)
		for _, i := range list {
			in := &c.mem.insts[i]
			c.must(in.data == -2 && in.space == 0 && in.n == 1 && in.held == 0 && in.pins == 0 && !in.lent, "an idle buffer is in use", int32(i))
		}
	}
	c.same(c.mem.slots.live, slots, "slots in use")
}

// gone reports whether what a memory held is lost.
func (c *recounter) gone(space spaceID) bool {
	if space == 0 {
		return false
	}
	state := c.devs[c.mem.spaces[space].dev].state
	return (state == Lost || state == Broken) && !c.mem.spaces[space].away
}

// liveData lists data handles of runs and of callers.
func (c *recounter) liveData() []dataID {
	var out []dataID
	total := 0
	c.eachRun(func(r *run) {
		total += r.g.NumData()
		for d, id := range r.dataOf {
			if r.refs == nil || r.refs[d] < 0 {
				out = append(out, id)
			}
		}
	})
	for i := range c.resident {
		if c.resident[i].live {
			total++
			out = append(out, c.resident[i].data)
		}
	}
	c.same(c.mem.data.live, total, "data handles in use")
	return out
}

// copies checks that the list of each value's copies is exactly the slots that
// hold it, and that what is anchored is whole in host memory.
func (c *recounter) copies() {
	listed := make([]bool, len(c.mem.slots.at))
	for _, v := range c.values {
		for s := c.mem.vals.at[v].slot; s >= 0; s = c.mem.slots.at[s].next {
			c.mustOf(v, c.mem.slots.at[s].val == v && !listed[s], "lists a slot that does not hold it")
			listed[s] = true
		}
		if val := &c.mem.vals.at[v]; val.needed() {
			c.mustOf(v, val.flags&anchored == 0 || c.mem.wholeInHost(v, -1), "is anchored and not in host memory")
			c.mustOf(v, val.flags&commits == 0 || c.mem.elsewhereInHost(v, -1), "is being committed by no copy")
		}
	}
	for i := range c.mem.insts {
		in := &c.mem.insts[i]
		for s := in.slot; in.data != -2 && s < in.end(); s++ {
			c.must(c.mem.slots.at[s].val < 0 || listed[s], "a slot holds a value that does not list it", int32(s), int32(c.mem.slots.at[s].val))
		}
	}
}

// operations checks what is in flight against every count of it.
func (c *recounter) operations() {
	instPins := make([]int, len(c.mem.insts))
	slotPins := make([]int, len(c.mem.slots.at))
	slotCopies := make([]int, len(c.mem.slots.at))
	homeOps := make([]int, len(c.runs))
	flight := make([]int, len(c.devs))
	pin := func(i Inst, p0, n pieceID, copying int) {
		in := &c.mem.insts[i]
		instPins[i]++
		for s := in.at(p0); n > 0; n-- {
			slotPins[s]++
			slotCopies[s] += copying
			s++
		}
		if in.home && in.data >= 0 && c.mem.data.at[in.data].run >= 0 {
			homeOps[c.mem.data.at[in.data].run] += copying
		}
	}
	timed := 0
	c.eachOp(func(ln *lane, rec *opRec) {
		if dev := ln.info.Device; dev >= 0 {
			flight[dev]++
			c.must(c.working(&c.devs[dev]), "an operation is in flight on a device that does not work", int32(dev))
		}
		if rec.timeout > 0 {
			timed++
		}
		switch {
		case rec.task < 0:
			pin(rec.src, rec.p0, rec.p1-rec.p0, 1)
			pin(rec.dst, rec.p0, rec.p1-rec.p0, 1)
		case rec.quick:
			for _, s := range rec.slots {
				i := c.mem.slots.at[s].inst
				pin(i, c.mem.insts[i].piece(s), 1, 0)
			}
		default:
			r, gt := c.taskOf(rec.task)
			a := 0
			for _, u := range r.f.TaskUses(gt) {
				if u.Rank == rec.rank {
					p0, n := pieces(&u)
					pin(rec.args[a], p0, n, 0)
					a++
				}
			}
			for ; a < len(rec.args); a++ {
				instPins[rec.args[a]]++ // the workspace
			}
		}
		c.must(rec.task < 0 || c.tasks.at[rec.task].where == issued, "a task in flight is not issued", int32(rec.task))
	})
	for i := range c.devs {
		for _, g := range c.devs[i].inUse {
			pin(g.inst, g.p0, g.n, 1)
		}
	}
	c.same(c.timedOps, timed, "operations with a timeout")
	for l := range c.lanes {
		ln := &c.lanes[l]
		c.must(ln.done <= ln.issued && ln.lost <= ln.issued, "a lane has done or lost more than was issued", int32(l))
		timed -= ln.timed
	}
	c.same(0, timed, "operations with a timeout, less those of the lanes")
	spacePins := make([]int, len(c.mem.spaces))
	for k := range c.mem.insts {
		i, in := Inst(k), &c.mem.insts[k]
		c.must(in.data != -2 || instPins[i] == 0, "an operation in flight uses a freed instance", int32(i))
		if in.data == -2 {
			continue
		}
		spacePins[in.space] += int(in.pins)
		c.same(int(in.pins), instPins[i], "pins of an instance", int32(i))
		for s := in.slot; s < in.end(); s++ {
			c.same(int(c.mem.slots.at[s].pins), slotPins[s], "pins of a slot", int32(s), int32(i))
			c.same(int(c.mem.slots.at[s].copying), slotCopies[s], "copies from or to a slot", int32(s), int32(i))
		}
	}
	for s := range c.mem.spaces {
		c.same(c.mem.spaces[s].pins, spacePins[s], "pins of a memory", int32(s))
	}
	for i := range c.detached { // which the device does not count
		flight[c.lanes[c.detached[i].op.Lane].info.Device]--
	}
	for d := range c.devs {
		c.same(c.devs[d].flight, flight[d], "operations in flight on a device", int32(d))
	}
	c.eachRun(func(r *run) { c.same(r.homeOps, homeOps[r.slot], "copies of a run's homes", int32(r.id)) })
}

// memories checks how much of each is used.
func (c *recounter) memories() {
	used := make([]int64, len(c.mem.spaces))
	for i := range c.mem.insts {
		if c.mem.insts[i].data != -2 && !c.mem.insts[i].lent {
			used[c.mem.insts[i].space] += c.mem.insts[i].bytes
		}
	}
	away := 0
	for s := range c.mem.spaces {
		sp := &c.mem.spaces[s]
		c.same(int(sp.used), int(used[s]), "bytes used of a memory", int32(s))
		if s > 0 {
			vd := &c.view.Devices[s-1]
			c.same(int(vd.FreeBytes), int(vd.CapBytes-used[s]), "free bytes as policies see them", int32(s))
		}
		if s > 0 && sp.cap > 0 {
			// A memory that shrank may hold more until that has moved out.
			c.must(sp.used <= max(sp.cap, c.m.Devices[s-1].MemBytes), "a memory holds more than it can", int32(s))
		}
		if sp.away {
			away++
			c.must(c.devs[sp.dev].state == Lost, "a memory is away and its device is not lost", int32(s))
		}
	}
	c.same(c.mem.away, away, "memories away")
}

// readers checks who still has to read each value.
func (c *recounter) readers() {
	reads := make([]int, len(c.mem.vals.at))
	c.eachTask(func(r *run, gt graph.TaskID, tid taskID, t *task) {
		if t.where != done {
			c.eachRead(r, gt, func(v valueID) { reads[v]++ })
		}
	})
	for _, v := range c.values {
		c.mustOf(v, int(c.mem.vals.at[v].reads) == reads[v], "has another number of readers")
	}
}

// recipes checks which tasks are kept to compute lost values again, what that
// keeps alive, and which runs.
func (c *recounter) recipes() {
	liveOuts := make([]int, len(c.tasks.at))
	for _, v := range c.values {
		if c.mem.vals.at[v].flags&counted != 0 {
			liveOuts[c.producer(v)]++
		}
	}
	deps := make([]int, len(c.mem.vals.at))
	heldOf := make([]int, len(c.runs))
	needed := make([]int, len(c.runs))
	c.eachTask(func(r *run, gt graph.TaskID, tid taskID, t *task) {
		c.same(int(t.liveOuts), liveOuts[tid], "results of a task on devices only", int32(tid))
		c.must(t.flags&held != 0 == (t.liveOuts > 0), "a task is held for nothing, or not held for something", int32(tid))
		if t.flags&held == 0 {
			return
		}
		heldOf[r.slot]++
		c.eachRead(r, gt, func(v valueID) {
			deps[v]++
			if owner := c.mem.vals.at[v].run; owner >= 0 && owner != r.slot {
				needed[owner]++
			}
		})
	})
	for i := range c.resident {
		for _, v := range c.resident[i].vals {
			c.mustOf(v, c.mem.vals.at[v].flags&current != 0, "is resident and not current")
			if owner := c.mem.vals.at[v].run; owner >= 0 {
				needed[owner]++
			}
		}
	}
	for _, v := range c.values {
		c.mustOf(v, int(c.mem.vals.at[v].deps) == deps[v], "is read by another number of held recipes")
	}
	c.eachRun(func(r *run) {
		c.same(r.heldN, heldOf[r.slot], "recipes held of a run", int32(r.id))
		c.same(r.needed, needed[r.slot], "values of a run that others need", int32(r.id))
		c.must(r.state != runEnded || r.heldN+r.needed > 0, "a run ended and nothing needs it, but it is kept", int32(r.id))
	})
}

// recoverable checks the promise that losing any device loses nothing: what is
// needed is whole in host memory, or its producer is held or still to run.
// Since what held recipes read is needed too, this covers whole chains.
func (c *recounter) recoverable() {
	for _, v := range c.values {
		val := &c.mem.vals.at[v]
		if !val.needed() || val.flags&anchored != 0 || c.failed(val.run) {
			continue
		}
		if c.mem.data.at[val.data].kind == graph.Volatile {
			continue // updated in place it may be gone, which is what its owner chose
		}
		p := c.producer(v)
		switch {
		case p < 0:
			c.mustOf(v, !c.readByActive(v), "is not in host memory and no task makes it")
		case val.flags&produced == 0:
			c.mustOf(v, c.tasks.at[p].where != done, "was never made and its task is done")
		default:
			c.mustOf(v, c.tasks.at[p].flags&held != 0 || c.tasks.at[p].where != done, "is only on devices and its recipe is not held")
		}
	}
}

// failed reports whether a run has failed, so that its values need no care.
func (c *recounter) failed(slot runSlot) bool { return slot >= 0 && len(c.runs[slot].errs) > 0 }

// readByActive reports whether a run that goes on uses a value's data.
func (c *recounter) readByActive(v valueID) bool {
	read := false
	c.eachRun(func(r *run) { read = read || r.state == runActive && c.usesData(r, c.mem.vals.at[v].data) })
	return read
}

func (c *recounter) usesData(r *run, d dataID) bool { return slices.Contains(r.dataOf, d) }

// tasksOfRuns checks what runs count of their tasks.
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
				strays := slices.ContainsFunc(c.detached, func(s detachedOp) bool { return s.rec.task == r.task(graph.TaskID(p)) })
				if s != issued && s != done || strays || g != nil && g.withdrawn {
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

// waitingTasks checks that every task of a run that goes on is in the list that belongs to
// where it is and in no other, and that a run with nothing to wait for has ended.
func (c *recounter) waitingTasks() {
	c.same(c.ready.len(), 0, "tasks the policy was not asked about")
	listed := make([]where, len(c.tasks.at)) // waiting stands for no list
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
	c.must(c.gangLine.len() == 0 || c.inFlight >= c.o.MaxInFlight, "a gang waits for a limit that is not reached")
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
	goesOn := make(map[runSlot]bool) // runs of which a task will be issued
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

// lines checks in how many lines for resident data each run that waits is not first,
// and that what left a line is not before one that waits.
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

// devices checks what each device counts of its work.
func (c *recounter) devices() {
	placed := make([]int, len(c.devs))
	load := make([]int64, len(c.devs))
	backlog := make([]int64, len(c.devs))
	c.eachTask(func(r *run, gt graph.TaskID, tid taskID, t *task) {
		if t.where == queued || t.where == parked && t.dev >= 0 {
			placed[t.dev]++
			load[t.dev] += t.cost
		}
	})
	c.eachInLane(func(ln *lane, rec *opRec) {
		if rec.task >= 0 {
			placed[ln.info.Device]++
			load[ln.info.Device] += c.tasks.at[rec.task].cost
			backlog[ln.info.Device] += c.tasks.at[rec.task].cost
		}
	})
	absent := 0
	for k := range c.devs {
		i, d := int32(k), &c.devs[k]
		c.same(int(c.view.Devices[i].Queued), placed[i], "tasks on a device", int32(i))
		c.same(int(d.load), int(load[i]), "nanoseconds of work on a device", int32(i))
		c.same(int(d.backlog), int(backlog[i]), "nanoseconds in flight on a device", int32(i))
		c.must(c.view.Devices[i].Accepts == (d.state == Healthy), "a device accepts work and is not healthy, or the other way round", int32(i))
		c.must(d.state == Healthy || d.queue.len() == 0, "a device that takes no work has tasks queued", int32(i))
		c.must(!d.blocked || c.flying > 0 || len(c.delayed) > 0 || len(c.timed) > 0, "a device waits for memory that nothing will free", int32(i))
		waits := (!d.blocked || d.space == 0 || d.waits&onOwn != 0) && (!d.blocked || c.mem.spaces[0].cap == 0 || d.waits&onHost != 0)
		c.must(waits, "a device waits for memory and stands on no list of it", int32(i))
		if d.queue.len() > 0 && !d.blocked && !c.full() {
			l, ok := c.credit(d)
			c.must(!ok, "a device has tasks queued and a lane with credit", int32(i), int32(l))
		}
		if d.state == Lost || d.state == Broken && d.health.deadline > 0 || d.swapTo >= 0 || d.shortfall.until > 0 {
			absent++
		}
	}
	c.same(len(c.timed), absent, "devices with a timer")
	short, flying := 0, 0
	for s := range c.mem.spaces {
		short += len(c.mem.spaces[s].line)
	}
	for l := range c.lanes {
		flying += int(c.lanes[l].issued - c.lanes[l].done)
	}
	c.same(c.mem.waiters, short, "entries on the lists of those who wait for memory")
	c.same(c.flying, flying, "operations in flight")
}

// versions checks that at most two versions of a piece that is not updated in
// place are on devices. What resident data held before a run that writes it
// stays beside them, because the run may fail; a run that replays may have more.
func (c *recounter) versions() {
	c.eachRun(func(r *run) {
		for gt := range graph.TaskID(r.g.NumTasks()) {
			if c.tasks.at[r.task(gt)].flags&replayed != 0 {
				return
			}
		}
		versions := make([]int, len(r.f.Pieces))
		for gv := range int32(len(r.f.Values)) {
			v, p := r.val(gv), r.f.Values[gv].Piece
			if c.mem.data.at[r.dataOf[r.f.Pieces[p].Data]].kind == graph.Volatile || gv < r.f.NumInitial && c.mem.vals.at[v].run != r.slot {
				continue
			}
			// A version nobody reads is on its device only while it is made.
			if c.mem.vals.at[v].needed() && c.onDevice(v) {
				versions[p]++
				c.mustOf(v, versions[p] <= 2, "is the third version on devices")
			}
		}
	})
}

func (c *recounter) onDevice(v valueID) bool {
	for s := c.mem.vals.at[v].slot; s >= 0; s = c.mem.slots.at[s].next {
		if c.mem.spaces[c.mem.insts[c.mem.slots.at[s].inst].space].dev != machine.Host {
			return true
		}
	}
	return false
}
