//go:build invariants

package engine

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// recount computes everything the engine keeps count of anew, from what the
// counts are about, and panics where the two differ. The order matters: what
// comes later relies on what was found sound before.
func (e *Engine) recount() {
	c := recounter{Engine: e}
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
	c.devices()
	c.versions()
}

// recounter holds what one recount has found out so far.
type recounter struct {
	*Engine
	alive  map[int32]bool // values something refers to
	values []int32        // the same, in a fixed order
}

// must panics with what is wrong unless ok.
func (c *recounter) must(ok bool, format string, args ...any) {
	if !ok {
		panic(fmt.Sprintf("engine: step %d: "+format, append([]any{c.checks.steps}, args...)...))
	}
}

// same panics unless a count is what was counted.
func (c *recounter) same(kept, counted int, format string, args ...any) {
	c.must(kept == counted, format+" is %d, counted %d", append(args, kept, counted)...)
}

// started reports whether a run has tasks and values.
func started(r *run) bool { return r != nil && len(r.dataOf) > 0 }

// eachRun visits the runs that have tasks and values.
func (c *recounter) eachRun(fn func(r *run)) {
	for _, r := range c.runs {
		if started(r) {
			fn(r)
		}
	}
}

// eachTask visits every task.
func (c *recounter) eachTask(fn func(r *run, gt graph.TaskID, tid int32, t *task)) {
	c.eachRun(func(r *run) {
		for gt := range r.g.NumTasks() {
			tid := r.tbase + int32(gt)
			fn(r, graph.TaskID(gt), tid, &c.tasks.at[tid])
		}
	})
}

// liveValues lists the values of runs and of resident data. A run that ended
// keeps only what its held recipes read of the values it started from.
func (c *recounter) liveValues() {
	c.alive = make(map[int32]bool)
	add := func(v int32) {
		if !c.alive[v] {
			c.alive[v] = true
			c.values = append(c.values, v)
		}
	}
	c.eachRun(func(r *run) {
		for _, v := range r.init {
			if r.state != runEnded && !r.revived || c.vals.at[v].run == r.slot {
				add(v)
			}
		}
		for v := range int32(len(r.f.Values)) - r.f.NumInitial {
			add(r.vbase + v)
		}
	})
	c.eachTask(func(r *run, gt graph.TaskID, tid int32, t *task) {
		if t.flags&held != 0 || t.state != done {
			c.eachRead(r, gt, add)
		}
	})
	for i := range c.resident {
		if c.resident[i].live {
			for _, v := range c.resident[i].vals {
				add(v)
			}
		}
	}
	for _, v := range c.values {
		if owner := c.vals.at[v].run; owner >= 0 {
			c.must(int(owner) < len(c.runs) && started(c.runs[owner]), "value %d is in use but its run is retired", v)
		}
	}
}

// instances checks that a slot belongs to one instance, and an instance to the
// list of its data and, on a device, to the order its memory is used in.
func (c *recounter) instances() {
	listed := make(map[int32]bool)
	for _, d := range c.liveData() {
		for i := c.data.at[d].insts; i >= 0; i = c.insts[i].next {
			c.must(c.insts[i].data == d, "instance %d is listed under data %d but belongs to %d", i, d, c.insts[i].data)
			c.must(!listed[i], "instance %d is listed twice", i)
			listed[i] = true
		}
	}
	ordered := make(map[int32]bool)
	for s := range c.spaces {
		prev := int32(-1)
		for i := c.spaces[s].oldest; i >= 0; i = c.insts[i].newer {
			c.must(c.insts[i].older == prev && int(c.insts[i].space) == s, "instance %d is out of order in memory %d", i, s)
			ordered[i], prev = true, i
		}
		c.must(c.spaces[s].newest == prev, "memory %d ends its order at %d, not %d", s, c.spaces[s].newest, prev)
	}
	slots := 0
	for i := range c.insts {
		in := &c.insts[i]
		if in.data == -2 {
			c.must(!ordered[int32(i)] && !listed[int32(i)], "instance %d is free and listed", i)
			continue
		}
		c.must(listed[int32(i)] == (in.data >= 0), "instance %d of data %d is not in its list", i, in.data)
		c.must(ordered[int32(i)] == (in.space != 0), "instance %d in memory %d is not in its order", i, in.space)
		// Copies from a lost memory to elsewhere may be in flight a while longer.
		c.must(in.held == 0 || !c.gone(in.space), "instance %d holds a value in memory %d, which is lost", i, in.space)
		slots += int(in.n)
		holds := 0
		for s := in.slot; s < in.slot+in.n; s++ {
			sl := &c.slots.at[s]
			c.must(int(sl.inst) == i, "slot %d of instance %d says %d", s, i, sl.inst)
			if sl.val < 0 {
				continue
			}
			holds++
			c.must(c.alive[sl.val], "instance %d holds value %d, which nothing refers to", i, sl.val)
			val := &c.vals.at[sl.val]
			c.must(val.data == in.data && val.piece == in.p0+s-in.slot, "slot %d of instance %d holds piece %d of data %d", s, i, val.piece, val.data)
		}
		c.same(int(in.held), holds, "values held by instance %d", i)
		c.must(holds > 0 || in.pins > 0 || in.home, "instance %d holds nothing and is not freed", i)
	}
	c.same(c.slots.live, slots, "slots in use")
}

// gone reports whether what a memory held is lost.
func (c *recounter) gone(space int32) bool {
	if space == 0 {
		return false
	}
	state := c.devs[c.spaces[space].dev].state
	return (state == Lost || state == Broken) && !c.spaces[space].away
}

// liveData lists data handles of runs and of callers.
func (c *recounter) liveData() []int32 {
	var out []int32
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
	c.same(c.data.live, total, "data handles in use")
	return out
}

// copies checks that the list of each value's copies is exactly the slots that
// hold it, and that what is anchored is whole in host memory.
func (c *recounter) copies() {
	listed := make(map[int32]bool)
	for _, v := range c.values {
		for s := c.vals.at[v].slot; s >= 0; s = c.slots.at[s].next {
			c.must(c.slots.at[s].val == v, "slot %d in the list of value %d holds %d", s, v, c.slots.at[s].val)
			c.must(!listed[s], "slot %d is listed twice", s)
			listed[s] = true
		}
		val := &c.vals.at[v]
		if val.needed() && val.flags&anchored != 0 {
			c.must(c.inHost(v), "%s is anchored and not in host memory", c.name(v))
		}
		if val.needed() && val.flags&commits != 0 {
			c.must(c.elsewhereInHost(v, -1), "%s is being committed by no copy", c.name(v))
		}
	}
	for i := range c.insts {
		in := &c.insts[i]
		for s := in.slot; in.data != -2 && s < in.slot+in.n; s++ {
			c.must(c.slots.at[s].val < 0 || listed[s], "slot %d holds value %d and is not in its list", s, c.slots.at[s].val)
		}
	}
}

// name describes a value for a panic.
func (c *recounter) name(v int32) string {
	val := &c.vals.at[v]
	made := "given"
	if p := c.producer(v); p >= 0 {
		r, gt := c.taskOf(p)
		made = fmt.Sprintf("made by %q of run %d", r.g.TaskName(gt), r.id)
	}
	return fmt.Sprintf("value %d (piece %d of %s, %s, flags %07b, reads %d, deps %d)", v, val.piece, c.describe(v), made, val.flags, val.reads, val.deps)
}

// operations checks what is in flight against every count of it.
func (c *recounter) operations() {
	instPins := make(map[int32]int)
	slotPins := make(map[int32]int)
	slotCopies := make(map[int32]int)
	homeOps := make(map[int32]int)
	flight := make([]int, len(c.devs))
	spills := make([]int, len(c.spaces))
	timed := 0
	pin := func(i, p0, n int32, copying int) {
		in := &c.insts[i]
		c.must(in.data != -2, "an operation in flight uses freed instance %d", i)
		instPins[i]++
		for s := in.slot + p0 - in.p0; n > 0; n-- {
			slotPins[s]++
			slotCopies[s] += copying
			s++
		}
		if in.home && in.data >= 0 && c.data.at[in.data].run >= 0 {
			homeOps[c.data.at[in.data].run] += copying
		}
	}
	for l := range c.lanes {
		ln := &c.lanes[l]
		c.must(ln.done <= ln.issued && ln.lost <= ln.issued, "lane %d has done %d and lost %d of %d", l, ln.done, ln.lost, ln.issued)
		withTimeout := 0
		for seq := ln.done + 1; seq <= ln.issued; seq++ {
			rec := ln.rec(seq)
			if dev := ln.info.Device; dev >= 0 {
				flight[dev]++
				c.must(c.working(&c.devs[dev]), "operation %d of lane %d is in flight on a device that is %v", seq, l, c.devs[dev].state)
			}
			if rec.timeout > 0 {
				withTimeout++
			}
			if rec.task < 0 {
				if rec.why == forSpill {
					spills[c.insts[rec.src].space]++
				}
				pin(rec.src, rec.p0, rec.p1-rec.p0, 1)
				pin(rec.dst, rec.p0, rec.p1-rec.p0, 1)
				continue
			}
			c.must(c.tasks.at[rec.task].state == issued, "task %d is in flight in state %d", rec.task, c.tasks.at[rec.task].state)
			if rec.quick {
				for _, s := range rec.args {
					i := c.slots.at[s].inst
					pin(i, c.insts[i].p0+s-c.insts[i].slot, 1, 0)
				}
				continue
			}
			r, gt := c.taskOf(rec.task)
			a := 0
			for _, u := range r.f.TaskUses(gt) {
				if u.Rank == rec.rank {
					pin(rec.args[a], u.P0-r.f.PieceOff[u.Data], u.P1-u.P0, 0)
					a++
				}
			}
			for ; a < len(rec.args); a++ {
				instPins[rec.args[a]]++ // the workspace
			}
		}
		c.same(ln.timed, withTimeout, "operations of lane %d with a timeout", l)
		timed += withTimeout
	}
	c.same(c.timedOps, timed, "operations with a timeout")
	spacePins := make([]int, len(c.spaces))
	for i := range c.insts {
		in := &c.insts[i]
		if in.data == -2 {
			continue
		}
		spacePins[in.space] += int(in.pins)
		c.same(int(in.pins), instPins[int32(i)], "pins of instance %d", i)
		for s := in.slot; s < in.slot+in.n; s++ {
			c.same(int(c.slots.at[s].pins), slotPins[s], "pins of slot %d of instance %d", s, i)
			c.same(int(c.slots.at[s].copying), slotCopies[s], "copies from or to slot %d of instance %d", s, i)
		}
	}
	for s := range c.spaces {
		c.same(c.spaces[s].pins, spacePins[s], "pins of memory %d", s)
		c.same(c.spaces[s].spills, spills[s], "spills of memory %d", s)
	}
	for d := range c.devs {
		c.same(c.devs[d].flight, flight[d], "operations in flight on device %d", d)
	}
	c.eachRun(func(r *run) { c.same(r.homeOps, homeOps[r.slot], "copies of run %d's homes", r.id) })
}

// memories checks how much of each is used.
func (c *recounter) memories() {
	used := make([]int64, len(c.spaces))
	for i := range c.insts {
		if c.insts[i].data != -2 {
			used[c.insts[i].space] += c.insts[i].bytes
		}
	}
	away := 0
	for s := range c.spaces {
		sp := &c.spaces[s]
		c.must(sp.used == used[s], "memory %d has %d bytes used, counted %d", s, sp.used, used[s])
		if s > 0 && sp.cap > 0 {
			// What was shrunk may hold more until that has moved out.
			c.must(sp.used <= max(sp.cap, c.m.Devices[s-1].MemBytes), "memory %d has %d bytes used of %d", s, sp.used, sp.cap)
		}
		if sp.away {
			away++
			c.must(c.devs[sp.dev].state == Lost, "memory %d is away and its device %v", s, c.devs[sp.dev].state)
		}
	}
	c.same(c.away, away, "memories away")
}

// readers checks who still has to read each value.
func (c *recounter) readers() {
	reads := make(map[int32]int)
	c.eachTask(func(r *run, gt graph.TaskID, tid int32, t *task) {
		if t.state != done {
			c.eachRead(r, gt, func(v int32) { reads[v]++ })
		}
	})
	for _, v := range c.values {
		c.same(int(c.vals.at[v].reads), reads[v], "readers of %s", c.name(v))
	}
}

// recipes checks which tasks are kept to compute lost values again, what that
// keeps alive, and which runs.
func (c *recounter) recipes() {
	liveOuts := make(map[int32]int)
	for _, v := range c.values {
		if c.vals.at[v].flags&counted != 0 {
			liveOuts[c.producer(v)]++
		}
	}
	deps := make(map[int32]int)
	heldOf := make(map[*run]int)
	needed := make(map[int32]int)
	c.eachTask(func(r *run, gt graph.TaskID, tid int32, t *task) {
		c.same(int(t.liveOuts), liveOuts[tid], "results of task %q on devices only", r.g.TaskName(gt))
		c.must(t.flags&held != 0 == (t.liveOuts > 0), "task %q has %d results on devices only, held: %t", r.g.TaskName(gt), t.liveOuts, t.flags&held != 0)
		if t.flags&held == 0 {
			return
		}
		heldOf[r]++
		c.eachRead(r, gt, func(v int32) {
			deps[v]++
			if owner := c.vals.at[v].run; owner >= 0 && owner != r.slot {
				needed[owner]++
			}
		})
	})
	for i := range c.resident {
		for _, v := range c.resident[i].vals {
			c.must(c.vals.at[v].flags&current != 0, "%s is resident and not current", c.name(v))
			if owner := c.vals.at[v].run; owner >= 0 {
				needed[owner]++
			}
		}
	}
	for _, v := range c.values {
		c.same(int(c.vals.at[v].deps), deps[v], "recipes that read %s", c.name(v))
	}
	c.eachRun(func(r *run) {
		c.same(r.heldN, heldOf[r], "recipes held of run %d", r.id)
		c.same(r.needed, needed[r.slot], "values of run %d others need", r.id)
		c.must(r.state != runEnded || r.heldN+r.needed > 0, "run %d ended, nothing needs it, and it is still there", r.id)
	})
}

// recoverable checks the promise that losing any device loses nothing: what is
// needed is whole in host memory, or its producer is held or still to run.
// Since what held recipes read is needed too, this covers whole chains.
func (c *recounter) recoverable() {
	for _, v := range c.values {
		val := &c.vals.at[v]
		if !val.needed() || val.flags&anchored != 0 || c.ending(val.run) {
			continue
		}
		p := c.producer(v)
		if p < 0 {
			// Only data updated in place on purpose may lose what it was given.
			c.must(c.data.at[val.data].kind == graph.Volatile || c.dataClosed(v), "%s is not in host memory and no task makes it", c.name(v))
			continue
		}
		if val.flags&produced == 0 {
			c.must(c.tasks.at[p].state != done, "%s was never made and its task is done", c.name(v))
			continue
		}
		if c.data.at[val.data].kind == graph.Volatile && val.slot < 0 {
			continue // being updated in place, which nothing survives
		}
		c.must(c.tasks.at[p].flags&held != 0 || c.tasks.at[p].state != done, "%s is only on devices and its recipe is not held", c.name(v))
	}
}

// ending reports whether a run has failed, so that its values need no care.
func (c *recounter) ending(slot int32) bool {
	return slot >= 0 && (c.runs[slot].state == runFailing || len(c.runs[slot].errs) > 0)
}

// dataClosed reports whether the runs that read a lost value are failing.
func (c *recounter) dataClosed(v int32) bool {
	closed := true
	c.eachRun(func(r *run) {
		if r.state == runActive && c.usesData(r, c.vals.at[v].data) {
			closed = false
		}
	})
	return closed
}

// tasksOfRuns checks what runs count of their tasks.
func (c *recounter) tasksOfRuns() {
	inFlight, tasks := 0, 0
	c.eachRun(func(r *run) {
		left, flight, owed := 0, 0, 0
		for gt := range r.g.NumTasks() {
			t := &c.tasks.at[r.tbase+int32(gt)]
			c.must(t.run == r.slot, "task %q says run %d", r.g.TaskName(graph.TaskID(gt)), t.run)
			unissued := 0
			for _, p := range r.f.Preds(graph.TaskID(gt)) {
				if s := c.tasks.at[r.tbase+p].state; s != issued && s != done {
					unissued++
				}
			}
			if len(r.errs) == 0 { // a run that failed gave up on its tasks
				c.same(int(t.unissued), unissued, "predecessors task %q waits for", r.g.TaskName(graph.TaskID(gt)))
			}
			if t.state != done {
				left++
			}
			if t.state == issued {
				flight++
			}
		}
		for v := r.vbase; v < r.vbase+int32(len(r.f.Values))-r.f.NumInitial; v++ {
			if c.vals.at[v].flags&(wanted|delivered) == wanted {
				owed++
			}
		}
		c.same(r.left, left, "tasks left of run %d", r.id)
		c.same(r.flight, flight, "tasks in flight of run %d", r.id)
		c.same(r.owed, owed, "outputs owed by run %d", r.id)
		inFlight += flight
		tasks += r.g.NumTasks()
	})
	c.same(c.inFlight, inFlight, "tasks in flight")
	c.same(c.tasks.live, tasks, "tasks in use")
}

// waitingTasks checks that every task of a run that goes on is where something
// will come for it, and that a run with nothing to wait for has ended.
func (c *recounter) waitingTasks() {
	c.same(c.ready.len(), 0, "tasks the policy was not asked about")
	someone := make(map[int32]bool)
	for _, tid := range c.stuck {
		someone[tid] = true
	}
	for _, d := range c.delayed {
		someone[d.task] = true
	}
	for v, ts := range c.awaiting {
		c.must(c.vals.at[v].reads > 0, "%d tasks await the readers of value %d, which has none", len(ts), v)
		for _, tid := range ts {
			someone[tid] = true
		}
	}
	for d := range c.devs {
		c.devs[d].queue.each(func(tid int32) {
			t := &c.tasks.at[tid]
			c.must(t.state == queued && int(t.dev) == d, "task %d is in the queue of device %d in state %d on device %d", tid, d, t.state, t.dev)
			c.must(!someone[tid], "task %d is in the queue of device %d and waits elsewhere too", tid, d)
			someone[tid] = true
		})
	}
	c.eachTask(func(r *run, gt graph.TaskID, tid int32, t *task) {
		if r.state != runActive {
			return
		}
		switch t.state {
		case waiting:
			c.must(t.unissued > 0, "task %q waits for nothing", r.g.TaskName(gt))
		case ready:
			c.must(someone[tid], "task %q is ready and nobody will come for it", r.g.TaskName(gt))
		case queued:
			isParked := t.flags&parked != 0 && slices.Contains(r.parked, tid)
			c.must(someone[tid] || isParked, "task %q is queued in no queue", r.g.TaskName(gt))
			c.must(!isParked || r.flight > 0, "task %q is set aside and nothing of its run is in flight", r.g.TaskName(gt))
		}
	})
	c.eachRun(func(r *run) {
		over := r.state == runFailing || r.state == runActive && r.left == 0 && r.owed == 0
		c.must(!over || !r.quiet(), "run %d is over and was not reported", r.id)
	})
}

// devices checks what each device counts of its work.
func (c *recounter) devices() {
	placed := make([]int, len(c.devs))
	load := make([]int64, len(c.devs))
	backlog := make([]int64, len(c.devs))
	c.eachTask(func(r *run, gt graph.TaskID, tid int32, t *task) {
		if t.state == queued {
			placed[t.dev]++
			load[t.dev] += t.cost
		}
	})
	for l := range c.lanes {
		ln := &c.lanes[l]
		for seq := ln.done + 1; seq <= ln.issued; seq++ {
			if tid := ln.rec(seq).task; tid >= 0 {
				placed[ln.info.Device]++
				load[ln.info.Device] += c.tasks.at[tid].cost
				backlog[ln.info.Device] += c.tasks.at[tid].cost
			}
		}
	}
	absent := 0
	for i := range c.devs {
		d := &c.devs[i]
		c.same(int(c.view.Devices[i].Queued), placed[i], "tasks on device %d", i)
		c.same(int(d.load), int(load[i]), "nanoseconds of work on device %d", i)
		c.same(int(d.backlog), int(backlog[i]), "nanoseconds in flight on device %d", i)
		c.must(c.view.Devices[i].Accepts == (d.state == Healthy), "device %d accepts work: %t, and is %v", i, c.view.Devices[i].Accepts, d.state)
		c.must(d.state == Healthy || d.queue.len() == 0, "device %d is %v with %d tasks queued", i, d.state, d.queue.len())
		c.must(!d.blocked || c.spaces[d.space].pins > 0, "device %d waits for memory that nothing will free", i)
		if d.state == Lost || d.swapTo >= 0 {
			absent++
		}
		if d.queue.len() > 0 && !d.blocked {
			l, ok := c.credit(d)
			c.must(!ok, "device %d has tasks queued and lane %d has credit", i, l)
		}
	}
	c.same(c.absent, absent, "devices with a timer")
}

// versions checks that at most two versions of a piece that is not updated in
// place are on devices, outside host memory. What resident data held before a
// run that writes it stays beside them, because the run may fail; a run that
// replays may have more.
func (c *recounter) versions() {
	c.eachRun(func(r *run) {
		for gt := range r.g.NumTasks() {
			if c.tasks.at[r.tbase+int32(gt)].flags&replayed != 0 {
				return
			}
		}
		versions := make([]int, len(r.f.Pieces))
		for gv := range int32(len(r.f.Values)) {
			v, p := r.val(gv), r.f.Values[gv].Piece
			if c.data.at[r.dataOf[r.f.Pieces[p].Data]].kind == graph.Volatile || gv < r.f.NumInitial && c.vals.at[v].run != r.slot {
				continue
			}
			// A version nobody reads is on its device only while it is made.
			if c.vals.at[v].needed() && c.onDevice(v) {
				versions[p]++
				c.must(versions[p] <= 2, "%d versions of piece %d of run %d are on devices", versions[p], p, r.id)
			}
		}
	})
}

func (c *recounter) onDevice(v int32) bool {
	for s := c.vals.at[v].slot; s >= 0; s = c.slots.at[s].next {
		if c.spaces[c.insts[c.slots.at[s].inst].space].dev != machine.Host {
			return true
		}
	}
	return false
}
