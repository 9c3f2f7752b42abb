package engine

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Lineage: which task makes a value, how long its recipe is kept, and recomputation of
// values that are lost.

// producer returns the task that makes v, -1 if v was given.
func (e *Engine) producer(v valueID) taskID {
	val := &e.mem.vals.at[v]
	if val.run < 0 {
		return -1
	}
	r := e.runs[val.run]
	i := v - r.vbase
	if i < 0 || int(i) >= len(r.f.Values)-int(r.f.NumInitial) {
		return -1
	}
	return r.task(r.f.Values[int32(i)+r.f.NumInitial].Producer)
}

// freeIfUnneeded ends copies of a value that are not needed: all of them if nothing can
// ask for it, those outside host memory if it is kept for recomputation only, or was
// delivered.
func (e *Engine) freeIfUnneeded(v valueID) {
	val := &e.mem.vals.at[v]
	switch {
	case val.reads > 0 || val.has(current) || val.owed():
		// in use
	case val.needed():
		e.mem.freeCopies(v, true)
	default:
		e.mem.freeCopies(v, false)
		val.on(commitEnded) // the copy in flight is not needed, and a replay may start another
		if len(e.valueCopies) > 0 {
			delete(e.valueCopies, v)
		}
		e.freeRecipe(v)
		if val.run < 0 { // put by the caller: its record belongs to no run
			e.mem.endValue(v)
		}
	}
}

// anchor takes in that a complete copy of v is in host memory: no recipe has to be kept
// for it.
func (e *Engine) anchor(v valueID) {
	val := &e.mem.vals.at[v]
	val.on(reachedHost)
	val.depth, val.replay = 0, 0
	e.recheckVacating(v)
	e.freeRecipe(v)
	e.freeIfUnneeded(v)
}

// keepRecipe notes that v exists only on devices, so that its producer's recipe is kept,
// and with that every value the producer read. With recovery off nothing is recomputed,
// so no recipe is kept.
func (e *Engine) keepRecipe(v valueID) {
	val := &e.mem.vals.at[v]
	if val.has(counted) || e.o.NoFaultTolerance {
		return
	}
	val.on(recipeKept)
	p := e.producer(v)
	e.tasks.at[p].liveOuts++
	if e.tasks.at[p].flags&recipe == 0 {
		e.tasks.at[p].flags |= recipe
		r, gt := e.taskOf(p)
		r.recipes++
		e.eachRead(r, gt, func(in valueID) {
			val := &e.mem.vals.at[in]
			val.deps++
			if owner := val.run; owner >= 0 && owner != r.slot {
				e.runs[owner].needed++
			}
			if of := e.mem.data.at[val.data].run; of < 0 {
				e.resident[-1-of].deps++
			}
		})
	}
}

// freeRecipe undoes keepRecipe. The recipe is let go with the last result that needs it.
func (e *Engine) freeRecipe(v valueID) {
	val := &e.mem.vals.at[v]
	if !val.has(counted) {
		return
	}
	val.on(recipeFreed)
	p := e.producer(v)
	e.tasks.at[p].liveOuts--
	e.endRecipe(p)
}

// endRecipe lets the recipe of a task go that no result needs. A task that runs again
// keeps it until its end: it reads values of runs and data that may be kept for it alone.
func (e *Engine) endRecipe(tid taskID) {
	t := &e.tasks.at[tid]
	if t.flags&recipe == 0 || t.liveOuts > 0 || t.where != done {
		return
	}
	t.flags &^= recipe
	r, gt := e.taskOf(tid)
	r.recipes--
	e.eachRead(r, gt, func(in valueID) {
		val := &e.mem.vals.at[in]
		owner := val.run
		val.deps--
		if of := e.mem.data.at[val.data].run; of < 0 {
			e.resident[-1-of].deps--
		}
		e.freeIfUnneeded(in)
		if owner >= 0 && owner != r.slot {
			e.release(e.runs[owner])
		}
	})
	if r.state == runEnded && r.recipes == 0 && r.needed == 0 {
		e.endLater(r)
	}
}

// eachRead visits the values a task reads.
func (e *Engine) eachRead(r *run, gt graph.TaskID, fn func(v valueID)) {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Reads(&uses[k]) {
			fn(r.val(gv))
		}
	}
}

// eachWrite visits the values a task makes.
func (e *Engine) eachWrite(r *run, gt graph.TaskID, fn func(v valueID)) {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Writes(&uses[k]) {
			fn(r.val(gv))
		}
	}
}

// recoverValue has a value without a copy recomputed: the producers of all lost values that
// it depends on run again, then its own. The chain ends at anchors, which are kept as long as
// a value that exists only on devices was computed from them.
//
// A value that cannot be recomputed and is in a memory that is away is waited for.
func (e *Engine) recoverValue(v valueID) {
	if chain := e.reopen(v, 0); chain > 0 {
		if r := e.mem.vals.at[v].run; r >= 0 {
			rep := &e.runs[r].report
			rep.LongestReplay = max(rep.LongestReplay, chain)
		}
	}
}

// reopen puts the producer of a lost value back, and returns the length of the longest
// chain of tasks it put back. before is the length of the chain from the value that is
// asked for.
func (e *Engine) reopen(v valueID, before int) int {
	if e.mem.have(v) {
		return 0
	}
	away := e.mem.vals.at[v].slot >= 0
	if e.mem.vals.at[v].has(anchored) {
		e.mem.vals.at[v].on(leftHost) // the flag is from before it was freed
	}
	p := e.producer(v)
	if p < 0 {
		if !away {
			e.failReaders(v, e.lostErr(v, "has no copy left and no task makes it"))
		}
		return 0
	}
	t := &e.tasks.at[p]
	if t.where != done {
		return 0 // its producer has not run yet
	}
	r, gt := e.taskOf(p)
	if r.state == runFailing {
		return 0
	}
	if e.o.NoFaultTolerance && !away {
		e.failReaders(v, fmt.Errorf("%w: %s, and recovery is off", ErrDataLost, e.describe(v)))
		return 0
	}
	if away && e.tasks.at[p].flags&recipe == 0 {
		return 0
	}
	if !away && (r.state == runEnded || r.revived) && t.flags&recipe == 0 {
		// It is volatile data that a later run has overwritten, or its inputs were in the
		// caller's memory when its run ended.
		e.failReaders(v, e.lostErr(v, "has no copy left, and what it was computed from is not kept"))
		return 0
	}
	if !away && t.flags&recipe == 0 && before >= e.o.ReplayDepth {
		// The chain begins with volatile data that a failed task spoilt. No recipe was kept
		// for it, so that nothing else bounds the chain.
		e.failReaders(v, e.lostErr(v, fmt.Sprintf("has no copy left, and is %d tasks back from volatile data that is lost", before)))
		return 0
	}
	if !away && e.mem.data.at[e.mem.vals.at[v].data].kind == graph.Volatile && int(e.mem.vals.at[v].depth) > e.o.ReplayDepth {
		e.failReaders(v, fmt.Errorf("%w: %s is volatile and %d updates past the last checkpoint", ErrDataLost, e.describe(v), e.mem.vals.at[v].depth))
		return 0
	}
	t.move(waiting)
	t.dev, t.avoid, t.tries = -1, -1, 0
	t.flags |= replayed
	r.left++
	r.report.Replays++
	e.mem.vals.at[v].on(isLost)
	e.eachWrite(r, gt, func(out valueID) { // results that were freed are made anew as well
		if val := &e.mem.vals.at[out]; val.slot < 0 {
			val.on(isLost)
		}
	})
	e.tr.Record(trace.Event{Kind: trace.Replay, Device: machine.Host, Run: int32(r.id), Task: gt, Start: e.now, End: e.now})
	if r.work.unit != nil {
		r.work.left += r.work.unit[r.f.Rows[gt].Shape]
	}
	e.tell(TaskReplayed, r, gt, machine.Host, nil)
	e.withdrawn(p, r)
	// A run that has ended is revived for the one that reads its result.
	if r.state == runEnded {
		r.state = runActive
		r.revived = true
	}
	longest := 0
	e.eachRead(r, gt, func(in valueID) {
		e.mem.vals.at[in].reads++
	})
	e.eachRead(r, gt, func(in valueID) {
		if !e.mem.have(in) {
			longest = max(longest, e.reopen(in, before+1))
		}
	})
	e.again(p)
	return longest + 1
}

// failReaders fails every run and fetch that asks for a value that cannot be recomputed.
func (e *Engine) failReaders(v valueID, err error) {
	e.failAskers(func(x valueID) bool { return x == v }, err)
}

// failAskers fails whatever asks for values that cannot be recomputed: runs with a task
// that has not read one, or that owe one as an output, runs that wait for its data to be
// cut anew, and fetches of it.
func (e *Engine) failAskers(gone func(v valueID) bool, err error) {
	for _, r := range e.runs {
		if r == nil {
			continue
		}
		if r.state == runActive && e.asksFor(r, gone) || r.state == runWaiting && e.recutsAny(r, gone) {
			e.fail(r, err)
		}
	}
	e.refuseFetches(gone, err)
}

// asksFor reports whether a run has to read or deliver one of some values.
func (e *Engine) asksFor(r *run, gone func(v valueID) bool) bool {
	asks := false
	for t := range r.g.NumTasks() {
		if e.tasks.at[r.task(graph.TaskID(t))].where != done {
			e.eachRead(r, graph.TaskID(t), func(v valueID) { asks = asks || gone(v) })
		}
	}
	for _, p := range r.f.Finals {
		v := r.val(r.f.Last[p])
		asks = asks || e.mem.vals.at[v].owed() && gone(v)
	}
	return asks
}

// recutsAny reports whether a waiting run uses resident data with one of some values in
// other pieces than it is cut into.
func (e *Engine) recutsAny(r *run, gone func(v valueID) bool) bool {
	for d, ref := range r.refs {
		if ref >= 0 && !r.samePieces(d, &e.resident[ref]) && slices.ContainsFunc(e.resident[ref].vals, gone) {
			return true
		}
	}
	return false
}

// describe names the data a value belongs to.
func (e *Engine) describe(v valueID) string { return e.describeData(e.mem.vals.at[v].data) }

// Owner returns the run whose data an instance holds, or 0 if the data is resident or no
// run's, and describes the data.
func (e *Engine) Owner(i Inst) (RunID, string) {
	d := e.mem.insts[i].data
	if d < 0 {
		return 0, "data"
	}
	if rs := e.mem.data.at[d].run; rs >= 0 && e.runs[rs] != nil {
		return e.runs[rs].id, e.describeData(d)
	}
	return 0, e.describeData(d)
}

func (e *Engine) describeData(d dataID) string {
	rs := e.mem.data.at[d].run
	if rs < 0 {
		return fmt.Sprintf("data %q", e.resident[-1-rs].name)
	}
	if e.runs[rs] != nil {
		return fmt.Sprintf("data %q", e.runs[rs].g.Data(graph.DataID(d-e.runs[rs].dbase)).Name)
	}
	return "data"
}
