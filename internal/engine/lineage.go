package engine

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// producer returns the task that makes v, -1 when v was there from the start.
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

// freeIfUnneeded gives up copies of a value that nothing needs any more: all of them
// when nothing can ask for it, those outside host memory when it is only kept
// so that something lost could be computed again, or was delivered.
func (e *Engine) freeIfUnneeded(v valueID) {
	val := &e.mem.vals.at[v]
	switch {
	case val.reads > 0 || val.has(current) || val.owed():
		// in use
	case val.needed():
		e.mem.freeCopies(v, true)
	default:
		e.mem.freeCopies(v, false)
		val.on(commitEnded) // nothing waits for that copy, and a replay may need another
		if len(e.valueCopies) > 0 {
			delete(e.valueCopies, v)
		}
		e.freeRecipe(v)
		if val.run < 0 { // put by the caller: it belongs to no run's block
			e.mem.endValue(v)
		}
	}
}

// anchor notes that a complete copy of v is in host memory: nothing has to be
// kept any more to compute it again.
func (e *Engine) anchor(v valueID) {
	val := &e.mem.vals.at[v]
	val.on(reachedHost)
	val.depth, val.replay = 0, 0
	e.recheckVacating(v)
	e.freeRecipe(v)
	e.freeIfUnneeded(v)
}

// count notes that v exists only on devices, so its recipe must be kept.
func (e *Engine) keepRecipe(v valueID) {
	val := &e.mem.vals.at[v]
	if val.has(counted) {
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
			e.mem.vals.at[in].deps++
			if owner := e.mem.vals.at[in].run; owner >= 0 && owner != r.slot {
				e.runs[owner].needed++
			}
		})
	}
}

// uncount undoes count, and lets go of the recipe with its last result.
func (e *Engine) freeRecipe(v valueID) {
	val := &e.mem.vals.at[v]
	if !val.has(counted) {
		return
	}
	val.on(recipeFreed)
	p := e.producer(v)
	e.tasks.at[p].liveOuts--
	if e.tasks.at[p].liveOuts > 0 {
		return
	}
	e.tasks.at[p].flags &^= recipe
	r, gt := e.taskOf(p)
	r.recipes--
	e.eachRead(r, gt, func(in valueID) {
		owner := e.mem.vals.at[in].run
		e.mem.vals.at[in].deps--
		e.freeIfUnneeded(in)
		if owner >= 0 && owner != r.slot {
			e.release(e.runs[owner])
		}
	})
	if r.state == runEnded && r.recipes == 0 && r.needed == 0 {
		e.endLater(r)
	}
}

func (e *Engine) eachRead(r *run, gt graph.TaskID, fn func(v valueID)) {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Reads(&uses[k]) {
			fn(r.val(gv))
		}
	}
}

// recoverValue sees to it that a value without a copy is made again: its
// producer runs once more, after whatever that needs. The chain ends at values
// in host memory, which the engine keeps as long as anything descends from
// them that is nowhere else.
//
// A value that cannot be made again but sits in the memory of a device that may
// come back is waited for.
func (e *Engine) recoverValue(v valueID) {
	if chain := e.reopen(v); chain > 0 {
		if r := e.mem.vals.at[v].run; r >= 0 {
			rep := &e.runs[r].report
			rep.LongestReplay = max(rep.LongestReplay, chain)
		}
	}
}

// reopen returns the length of the longest chain of tasks it put back.
func (e *Engine) reopen(v valueID) int {
	if e.mem.have(v) {
		return 0
	}
	away := e.mem.vals.at[v].slot >= 0
	if e.mem.vals.at[v].has(anchored) {
		e.mem.vals.at[v].on(leftHost) // it was there before it was given up
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
		return 0 // on its way
	}
	r, gt := e.taskOf(p)
	if r.state == runFailing {
		return 0
	}
	if e.o.NoRecovery && !away {
		e.failReaders(v, fmt.Errorf("%w: %s, and recovery is off", ErrDataLost, e.describe(v)))
		return 0
	}
	if away && (e.o.NoRecovery || e.tasks.at[p].flags&recipe == 0) {
		return 0
	}
	if !away && (r.state == runEnded || r.revived) && t.flags&recipe == 0 {
		// Volatile data, overwritten by a run that reads what this one left there, or
		// data that was in the caller's memory when its run ended.
		e.failReaders(v, e.lostErr(v, "has no copy left, and what it was computed from is not kept"))
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
	e.tr.Record(trace.Event{Kind: trace.Replay, Device: machine.Host, Run: int32(r.id), Task: gt, Start: e.now, End: e.now})
	e.withdrawn(p, r)
	// A run that already ended works again on behalf of the one that reads it.
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
			longest = max(longest, e.reopen(in))
		}
	})
	e.again(p)
	return longest + 1
}

// failReaders fails whoever asks for a value which is gone for good.
func (e *Engine) failReaders(v valueID, err error) {
	e.failAskers(func(x valueID) bool { return x == v }, err)
}

// failAskers fails whoever asks for values that cannot be had: runs with a task that
// is still to read one or that owe one as an output, runs that wait for its data to
// be cut anew, which is done at home, and callers who fetch it.
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

// asksFor reports whether a run is still to read or to deliver one of some values.
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

// recutsAny reports whether a run that waits uses resident data, one of some values, in
// other pieces than it is in.
func (e *Engine) recutsAny(r *run, gone func(v valueID) bool) bool {
	for d, ref := range r.refs {
		if ref >= 0 && !r.samePieces(d, &e.resident[ref]) && slices.ContainsFunc(e.resident[ref].vals, gone) {
			return true
		}
	}
	return false
}

// describe names the data a value belongs to.
func (e *Engine) describe(v valueID) string {
	d := e.mem.vals.at[v].data
	rs := e.mem.data.at[d].run
	if rs < 0 {
		return fmt.Sprintf("data %q", e.resident[-1-rs].name)
	}
	if e.runs[rs] != nil {
		return fmt.Sprintf("data %q", e.runs[rs].g.Data(graph.DataID(d-e.runs[rs].dbase)).Name)
	}
	return "data"
}
