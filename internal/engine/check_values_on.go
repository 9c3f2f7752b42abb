//go:build invariants

package engine

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// The recount: values, copies, operations in flight, recipes and versions.

// liveValues lists the values of runs and of resident data. A run that ended keeps, of
// the values it started from, those that its kept recipes read.
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
		if t.flags&recipe != 0 || t.where != done {
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

// instances runs the store's audit, and checks that instances hold no value of an ended
// run and none in a lost memory.
func (c *recounter) instances() {
	if err := c.mem.audit(); err != nil {
		panic(fmt.Sprintf("engine: step %d: %v", c.checks.steps, err))
	}
	for k := range c.mem.insts {
		i, in := Inst(k), &c.mem.insts[k]
		for s := in.slot; in.data != -2 && s < in.end(); s++ {
			if v := c.mem.slots.at[s].val; v >= 0 {
				c.must(c.alive[v], "an instance holds a value nothing refers to", int32(i), int32(v))
				// An instance may outlive its memory while a copy out of it is in flight,
				// but it holds no value.
				c.must(!c.gone(in.space), "an instance in a lost memory holds a value", int32(i))
			}
		}
	}
}

// gone reports whether the content of a memory is lost.
func (c *recounter) gone(space spaceID) bool {
	if space == 0 {
		return false
	}
	state := c.devs[c.mem.spaces[space].dev].state
	return (state == Lost || state == Broken) && !c.mem.spaces[space].away
}

// copies checks that a value that is anchored is complete in host memory, so that nothing
// has to be computed to have it, and that one that is being committed has a slot claimed there.
func (c *recounter) copies() {
	for _, v := range c.values {
		val := &c.mem.vals.at[v]
		c.mustOf(v, !val.has(anchored) || val.depth == 0 && val.replay == 0, "is anchored, and is to take time to recompute")
		if val.needed() {
			c.mustOf(v, !val.has(anchored) || c.mem.wholeInHost(v, -1), "is anchored and not in host memory")
			c.mustOf(v, !val.has(commits) || c.mem.elsewhereInHost(v, -1), "is being committed by no copy")
		}
	}
}

// touched counts the records that operations in flight touch.
type touched struct {
	c                            *recounter
	insts, slots, copies, homeOf []int // by instance; by slot; copies by slot; copies of homes by run
}

// pin counts an operation that touches pieces [p0, p0+n) of an instance.
func (t *touched) pin(i Inst, p0, n pieceID, copying int) {
	in := &t.c.mem.insts[i]
	t.insts[i]++
	for s := in.at(p0); n > 0; n-- {
		t.slots[s]++
		t.copies[s] += copying
		s++
	}
	if in.home && in.data >= 0 && t.c.mem.data.at[in.data].run >= 0 {
		t.homeOf[t.c.mem.data.at[in.data].run] += copying
	}
}

// op counts all that an operation touches.
func (t *touched) op(rec *opRec) {
	switch {
	case rec.task < 0:
		t.pin(rec.src, rec.p0, rec.p1-rec.p0, 1)
		t.pin(rec.dst, rec.p0, rec.p1-rec.p0, 1)
	case len(rec.args) > 0:
		r, gt := t.c.taskOf(rec.task)
		a := 0
		for _, u := range r.f.TaskUses(gt) {
			if u.Rank == rec.rank {
				p0, n := pieces(&u)
				t.pin(rec.args[a], p0, n, 0)
				a++
			}
		}
		for ; a < len(rec.args); a++ {
			t.insts[rec.args[a]]++ // the workspace
		}
	}
}

// operations checks the operations in flight against every count of them.
func (c *recounter) operations() {
	t := touched{c, make([]int, len(c.mem.insts)), make([]int, len(c.mem.slots.at)), make([]int, len(c.mem.slots.at)), make([]int, len(c.runs))}
	flight := make([]int, len(c.devs))
	timed := 0
	c.eachOp(func(ln *lane, rec *opRec) {
		if dev := ln.info.Device; dev >= 0 {
			flight[dev]++
			// A detached launch is a Go kernel that runs on, whatever becomes of its device.
			detached := rec.task >= 0 && c.tasks.at[rec.task].flags&isDetached != 0
			c.must(c.working(&c.devs[dev]) || detached, "an operation is in flight on a device that does not work", int32(dev))
		}
		if rec.timeout > 0 {
			timed++
		}
		t.op(rec)
		c.must(rec.task < 0 || c.tasks.at[rec.task].where == issued, "a task in flight is not issued", int32(rec.task))
	})
	for i := range c.devs {
		for _, g := range c.devs[i].inUse {
			t.pin(g.inst, g.p0, g.n, 1)
		}
	}
	c.same(c.timedOps, timed, "operations with a timeout")
	for l := range c.lanes {
		ln := &c.lanes[l]
		c.must(ln.done <= ln.issued && ln.lost <= ln.issued, "a lane has done or lost more than was issued", int32(l))
		timed -= ln.timed
	}
	c.same(0, timed, "operations with a timeout, less those of the lanes")
	for k := range c.mem.insts {
		i, in := Inst(k), &c.mem.insts[k]
		c.must(in.data != -2 || t.insts[i] == 0, "an operation in flight uses a freed instance", int32(i))
		if in.data == -2 {
			continue
		}
		c.same(int(in.pins), t.insts[i], "pins of an instance", int32(i))
		for s := in.slot; s < in.end(); s++ {
			c.same(int(c.mem.slots.at[s].pins), t.slots[s], "pins of a slot", int32(s), int32(i))
			c.same(int(c.mem.slots.at[s].copying), t.copies[s], "copies from or to a slot", int32(s), int32(i))
		}
	}
	for i := range c.detached { // the device does not count them
		flight[c.lanes[c.detached[i].op.Lane].info.Device]--
	}
	for d := range c.devs {
		c.same(c.devs[d].flight, flight[d], "operations in flight on a device", int32(d))
	}
	c.eachRun(func(r *run) { c.same(r.homeOps, t.homeOf[r.slot], "copies of a run's homes", int32(r.id)) })
}

// memories checks that no memory holds more than its capacity, and that only the memory
// of a lost device is away.
func (c *recounter) memories() {
	for s := range c.mem.spaces {
		sp := &c.mem.spaces[s]
		if s > 0 && sp.cap > 0 {
			// A memory that shrank holds more than its capacity until values are evicted.
			c.must(sp.used <= max(sp.cap, c.m.Devices[s-1].MemBytes), "a memory holds more than it can", int32(s))
		}
		c.must(!sp.away || c.devs[sp.dev].state == Lost, "a memory is away and its device is not lost", int32(s))
	}
}

// waitLists checks that whatever is marked as waiting for room in a memory is on the wait list
// of that memory, once, and that nothing else is.
func (c *recounter) waitLists() {
	onOwnList, onHostList := make([]int, len(c.devs)), make([]int, len(c.devs))
	values := make([]int, len(c.mem.vals.at))
	for s := range c.mem.spaces {
		for _, w := range c.mem.spaces[s].line {
			switch {
			case w.dev < 0:
				c.must(spaceID(s) == hostSpace, "a value waits for room in the memory of a device", int32(w.val), int32(s))
				if c.runOf(w.run) != nil {
					values[w.val]++
				}
			case spaceID(s) == hostSpace:
				onHostList[w.dev]++
			default:
				c.must(c.devs[w.dev].space == spaceID(s), "a device waits for room in the memory of another", int32(w.dev), int32(s))
				onOwnList[w.dev]++
			}
		}
	}
	count := func(marked bool) int {
		if marked {
			return 1
		}
		return 0
	}
	for i := range c.devs {
		c.same(count(c.devs[i].waits&onOwn != 0), onOwnList[i], "entries of a device on the wait list of its memory", int32(i))
		c.same(count(c.devs[i].waits&onHost != 0), onHostList[i], "entries of a device on the wait list of host memory", int32(i))
	}
	for _, v := range c.values {
		c.same(count(c.mem.vals.at[v].has(awaitsRoom)), values[v], "entries of a value on the wait list of host memory", int32(v))
	}
}

// readers checks the number of reads that each value still has.
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

// recipes checks which tasks' recipes are kept, which values they read, and which runs
// are kept for them.
func (c *recounter) recipes() {
	liveOuts := make([]int, len(c.tasks.at))
	for _, v := range c.values {
		if c.mem.vals.at[v].flags&counted != 0 {
			liveOuts[c.producer(v)]++
		}
	}
	deps := make([]int, len(c.mem.vals.at))
	ofData := make([]int, len(c.resident))
	heldOf := make([]int, len(c.runs))
	needed := make([]int, len(c.runs))
	c.eachTask(func(r *run, gt graph.TaskID, tid taskID, t *task) {
		c.same(int(t.liveOuts), liveOuts[tid], "results of a task on devices only", int32(tid))
		held := t.flags&recipe != 0
		c.must(held || t.liveOuts == 0, "a task is not held for its results", int32(tid))
		c.must(!held || t.liveOuts > 0 || t.where != done, "a task is held for nothing", int32(tid))
		if t.flags&recipe == 0 {
			return
		}
		heldOf[r.slot]++
		c.eachRead(r, gt, func(v valueID) {
			deps[v]++
			if of := c.mem.data.at[c.mem.vals.at[v].data].run; of < 0 {
				ofData[-1-of]++
			}
			if owner := c.mem.vals.at[v].run; owner >= 0 && owner != r.slot {
				needed[owner]++
			}
		})
	})
	for i := range c.resident {
		c.same(c.resident[i].deps, ofData[i], "reads of resident data by held recipes", int32(i))
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
		c.same(r.recipes, heldOf[r.slot], "recipes held of a run", int32(r.id))
		c.same(r.needed, needed[r.slot], "values of a run that others need", int32(r.id))
		c.must(r.state != runEnded || r.recipes+r.needed > 0, "a run ended and nothing needs it, but it is kept", int32(r.id))
	})
}

// recoverable checks that losing any device loses nothing: a needed value is complete in
// host memory, or its producer is not done, or its recipe is kept. Because values that
// kept recipes read are needed too, this covers whole chains.
func (c *recounter) recoverable() {
	for _, v := range c.values {
		val := &c.mem.vals.at[v]
		c.mustOf(v, !val.has(produced|anchored|counted), "is in host memory, and the recipe of its task is kept for it")
		if !val.needed() || val.flags&anchored != 0 || c.failed(val.run) || c.letGo(v) {
			continue
		}
		if c.mem.data.at[val.data].kind == graph.Volatile {
			continue // it is updated in place and may be lost by definition
		}
		p := c.producer(v)
		switch {
		case p < 0:
			c.mustOf(v, !c.readByActive(v), "is not in host memory and no task makes it")
		case val.flags&produced == 0:
			c.mustOf(v, c.tasks.at[p].where != done, "was never made and its task is done")
		case !c.o.NoFaultTolerance: // else a value that is lost fails its readers
			c.mustOf(v, c.tasks.at[p].flags&recipe != 0 || c.tasks.at[p].where != done, "is only on devices and its recipe is not held")
		}
	}
}

// failed reports whether a run has failed, so that its values need not be recoverable.
func (c *recounter) failed(slot runSlot) bool { return slot >= 0 && len(c.runs[slot].errs) > 0 }

// letGo reports whether a value was in the caller's memory when its run ended and vacate
// could not keep it: readers of what would be recomputed from it get an error.
func (c *recounter) letGo(v valueID) bool {
	val := &c.mem.vals.at[v]
	d := &c.mem.data.at[val.data]
	return val.run >= 0 && d.run == val.run && d.home < 0 && c.runs[val.run].letGo != nil
}

// readByActive reports whether an active run uses the value's data.
func (c *recounter) readByActive(v valueID) bool {
	read := false
	c.eachRun(func(r *run) { read = read || r.state == runActive && c.usesData(r, c.mem.vals.at[v].data) })
	return read
}

// usesData reports whether a run uses a data handle.
func (c *recounter) usesData(r *run, d dataID) bool { return slices.Contains(r.dataOf, d) }

// versions checks that at most two versions of a piece that is not volatile are on
// devices. Excepted are the value that resident data held before the run, which is kept
// in case the run fails, and runs that replay.
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
			// A version that is not needed is on its device only while it is made.
			if c.mem.vals.at[v].needed() && c.onDevice(v) {
				versions[p]++
				c.mustOf(v, versions[p] <= 2, "is the third version on devices")
			}
		}
	})
}

// onDevice reports whether a value has a copy in a device's memory.
func (c *recounter) onDevice(v valueID) bool {
	for s := c.mem.vals.at[v].slot; s >= 0; s = c.mem.slots.at[s].next {
		if c.mem.spaces[c.mem.insts[c.mem.slots.at[s].inst].space].dev != machine.Host {
			return true
		}
	}
	return false
}
