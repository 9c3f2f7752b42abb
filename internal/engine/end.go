package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// The end of a run: failure, stopping its launches, the report, its values, and retiring
// its records once nothing refers to them.

// fail ends a run early: operations in flight complete, and nothing else starts.
func (e *Engine) fail(r *run, err error) {
	if r.state == runEnded {
		return
	}
	if len(r.errs) < 8 && !r.revived {
		r.errs = append(r.errs, err)
	}
	was := r.state
	r.state = runFailing
	switch {
	case was == runFailing:
		return
	case r.revived:
		r.reviveErr = err
	case r.flight > 0 && !r.updates():
		// A task that updates resident data in place must not end halfway.
		r.stopping = true
		e.failed = append(e.failed, r.slot)
	}
	if r.quiet() {
		e.endLater(r)
	}
}

// cancel fails a run that its caller has given up. Once is enough: the loop cancels until
// everything has ended. A run that has not begun says which data it waited for: another
// run may hold that for longer than the caller thinks, where a kernel of it does not end.
func (e *Engine) cancel(r *run) {
	if slices.ContainsFunc(r.errs, func(err error) bool { return errors.Is(err, ErrCancelled) }) {
		return
	}
	err := ErrCancelled
	if r.state == runWaiting {
		for d, ref := range r.refs {
			if ref >= 0 && (e.first(&e.resident[ref]) != r || e.usedElsewhere(r, d)) {
				err = fmt.Errorf("%w while it waited for data %q, which is in use", err, e.resident[ref].name)
				break
			}
		}
		if r.lined && e.dataFree(r) {
			err = e.noRoom(r)
		}
	}
	e.fail(r, err)
}

// stop emits Stop for launches in flight of runs that failed since the last call. Members
// of a gang run on: other members may wait for what they send.
func (e *Engine) stop() {
	for l := range e.lanes {
		ln := &e.lanes[l]
		if !e.computes(Lane(l)) {
			continue
		}
		for seq := max(ln.done, ln.lost) + 1; seq <= ln.issued; seq++ {
			e.visit(1)
			rec := ln.rec(seq)
			if rec.task < 0 || e.gang(rec.task) != nil || !e.runs[e.tasks.at[rec.task].run].stopping {
				continue
			}
			a := e.out.emit(Stop)
			a.Op, a.Device = Op{Lane(l), uint32(seq)}, ln.info.Device
		}
	}
	for _, s := range e.failed {
		if r := e.runs[s]; r != nil {
			if r.stopping {
				e.eachDetached(s, func(op Op, dev machine.DeviceID, _ graph.TaskID) {
					a := e.out.emit(Stop)
					a.Op, a.Device = op, dev
				})
			}
			r.stopped = r.stopped || r.stopping
			r.stopping = false
		}
	}
	e.failed = e.failed[:0]
}

// quiet reports whether no operation in flight belongs to the run or touches its homes.
func (r *run) quiet() bool { return r.flight == 0 && r.homeOps == 0 }

// endLater has endRuns look at a run at the end of the step.
func (e *Engine) endLater(r *run) {
	if !r.toEnd {
		r.toEnd = true
		e.ending = append(e.ending, r.slot)
	}
}

// endRuns ends runs that are finished, and retires those that were kept.
func (e *Engine) endRuns() {
	for len(e.ending) > 0 {
		s := e.ending[len(e.ending)-1]
		e.ending = e.ending[:len(e.ending)-1]
		r := e.runs[s]
		if r == nil {
			continue
		}
		r.toEnd = false
		switch {
		case r.state == runEnded:
			e.retire(r)
		case r.revived && r.quiet() && (r.left == 0 || r.state == runFailing):
			e.endRevival(r)
		case r.state == runFailing && r.quiet():
			e.end(r)
		case r.state == runActive && r.left == 0 && r.owed == 0 && r.quiet() && e.vacate(r):
			e.end(r)
		}
	}
}

// endRevival ends a run that was revived. If it failed, runs that ask for its lost values
// fail too: its operations have ended, so that a value without a copy was not made.
func (e *Engine) endRevival(r *run) {
	err := r.reviveErr
	r.reviveErr = nil
	if r.left > 0 {
		e.purge(r)
		e.abandon(r)
	}
	r.state, r.revived = runEnded, false
	if err != nil {
		e.failAskers(func(v valueID) bool { return e.mem.vals.at[v].run == r.slot && !e.mem.have(v) }, err)
	}
	// Tasks left out for want of its other values are offered again.
	e.offerAgain, e.ended = true, true
	e.retire(r)
}

// end reports a run and frees what only it needed.
func (e *Engine) end(r *run) {
	err := r.err(e)
	r.report.Ended = e.now
	rep := r.report
	e.traceRun(r, trace.Event{Kind: trace.RunEnd, Failed: err != nil, Device: machine.Host, Run: int32(r.id), Task: -1, Start: e.now, End: e.now})
	e.tell(RunEnded, r, graph.NoTask, machine.Host, err)
	delete(e.byID, r.id)
	if len(e.devs) == 1 && len(e.byID) == 1 {
		e.revisit(0) // the run left may have credit, which longHaul kept from it
	}
	if !r.begun {
		e.leave(r)
	}
	if r.begun {
		e.unfollow(r)
		e.unplan(r)
		e.weigh(-r.o.Weight)
		if err != nil {
			e.purge(r)
		}
		e.endValues(r, err == nil)
	}
	if len(e.byID) == 0 {
		e.mem.freeIdle()
	}
	rep.Devices = slices.Clone(rep.Devices) // a revived run counts on in its own
	if e.teams {
		e.perTeam(rep.Devices)
	}
	for i := range rep.Devices {
		if c := e.devs[i].sampled; c != nil && (c.TempC >= 0 || c.PowerW >= 0 || c.MemUsed >= 0) {
			rep.Devices[i].Health = c
		}
	}
	a := e.out.emit(Done)
	a.Run, a.Err, a.Report = r.id, err, &rep
	r.state = runEnded
	e.ended = true
	if r.begun && (r.needed > 0 || r.recipes > 0) {
		e.closeHomes(r)
	}
	e.endNeed(r)
	e.retire(r)
}

// err returns the error of a failed run, with every task that did not finish.
func (r *run) err(e *Engine) error {
	if len(r.errs) == 0 {
		return nil
	}
	var names []string
	for t := range r.g.NumTasks() {
		if !r.begun || e.tasks.at[r.task(graph.TaskID(t))].where != done {
			names = append(names, r.g.TaskName(graph.TaskID(t)))
		}
	}
	err := errors.Join(r.errs...)
	if len(r.errs) == 1 {
		err = r.errs[0]
	}
	return &RunError{Err: err, Names: names}
}

// endValues gives resident data its new values and frees the run's others. After a
// failure resident data keeps the values it had before the run, so that a failed run
// changes nothing; volatile data, which was updated in place, has its newest value
// instead.
func (e *Engine) endValues(r *run, ok bool) {
	f := r.f
	if r.refs != nil {
		for d, ref := range r.refs {
			if ref < 0 {
				continue
			}
			res := &e.resident[ref]
			wrote := r.writes(graph.DataID(d))
			if !wrote {
				res.readers--
				e.released(ref)
				continue
			}
			res.writer = false
			e.released(ref)
			for i := range res.vals {
				p := f.PieceOff[d] + int32(i)
				if last := f.Last[p]; !ok && last >= f.NumInitial {
					e.mem.vals.at[r.val(last)].on(wasReplaced)
				}
				next := e.newest(r, p, ok)
				if next < 0 || next == res.vals[i] {
					continue
				}
				old := res.vals[i]
				e.mem.vals.at[next].on(isCurrent)
				e.runs[e.mem.vals.at[next].run].needed++
				res.vals[i] = next
				e.unneed(old)
			}
		}
	}
	if r.left > 0 {
		e.abandon(r)
	}
	for _, p := range f.Finals {
		v := r.val(f.Last[p])
		e.mem.vals.at[v].on(outputSettled)
		e.freeIfUnneeded(v)
	}
	if !ok { // values that were made and not read still have copies or recipes
		for _, gv := range f.Last {
			if gv >= f.NumInitial {
				e.freeIfUnneeded(r.val(gv))
			}
		}
	}
	r.owed = 0
}

// abandon gives up the tasks of a run that will not run, and their reads.
func (e *Engine) abandon(r *run) {
	f := r.f
	for t := range r.g.NumTasks() {
		tid := r.task(graph.TaskID(t))
		tk := &e.tasks.at[tid]
		if tk.where == done {
			continue
		}
		e.unplace(tid, done)
		if r.revived {
			e.relinquish(r, graph.TaskID(t))
		}
		uses := f.TaskUses(graph.TaskID(t))
		for k := range uses {
			for _, gv := range f.Reads(&uses[k]) {
				v := r.val(gv)
				e.mem.vals.at[v].reads--
				e.freeIfUnneeded(v)
			}
		}
		e.endRecipe(tid)
	}
	r.left = 0
}

// relinquish leaves a task of a revived run that was to run again as it was before: done,
// with its values lost, so that they are recomputed for the next run that asks.
func (e *Engine) relinquish(r *run, gt graph.TaskID) {
	tid := r.task(gt)
	e.tasks.at[tid].flags &^= inputFailed
	delete(e.taskCopies, tid)
	for _, s := range r.f.Succs(gt) {
		e.tasks.at[r.task(graph.TaskID(s))].unissued--
	}
	e.eachWrite(r, gt, func(v valueID) { e.mem.vals.at[v].on(madeGone) })
}

// newest returns the value that a resident piece holds after the run, -1 for the same as
// before.
func (e *Engine) newest(r *run, p int32, ok bool) valueID {
	last := r.f.Last[p]
	if ok {
		return r.val(last)
	}
	if e.mem.data.at[r.dataOf[r.f.Pieces[p].Data]].kind != graph.Volatile {
		return -1
	}
	for v := last; v >= r.f.NumInitial; v = r.f.Values[v].Prev {
		if ev := r.val(v); e.mem.vals.at[ev].flags&produced != 0 && e.mem.vals.at[ev].slot >= 0 {
			return ev
		}
	}
	return -1
}

// unneed takes the mark current off a value of resident data.
func (e *Engine) unneed(v valueID) {
	val := &e.mem.vals.at[v]
	val.on(wasReplaced)
	if val.run >= 0 {
		e.release(e.runs[val.run])
	}
	e.freeIfUnneeded(v)
}

// release counts down the uses that keep an ended run.
func (e *Engine) release(r *run) {
	r.needed--
	if r.state == runEnded && r.needed == 0 && r.recipes == 0 {
		e.endLater(r)
	}
}

// retire recycles the records of a run that nothing refers to.
func (e *Engine) retire(r *run) {
	if r.needed > 0 || r.recipes > 0 {
		return
	}
	e.endKept(r)
	e.runs[r.slot] = nil
	e.freeRuns = append(e.freeRuns, r.slot)
	if r.begun {
		for _, v := range r.init {
			if e.mem.vals.at[v].run == r.slot {
				e.mem.endValue(v)
			}
		}
		for d, id := range r.dataOf {
			if e.mem.data.at[id].insts >= 0 && (r.refs == nil || r.refs[d] < 0) {
				e.mem.closeData(id)
			}
		}
		if len(e.taskCopies)+len(e.attempts)+len(e.valueCopies) > 0 {
			mine := func(tid taskID) bool { return tid >= r.tbase && tid < r.tbase+taskID(r.g.NumTasks()) }
			maps.DeleteFunc(e.taskCopies, func(tid taskID, _ copyFailure) bool { return mine(tid) })
			maps.DeleteFunc(e.attempts, func(tid taskID, _ []Attempt) bool { return mine(tid) })
			maps.DeleteFunc(e.valueCopies, func(v valueID, _ copyFailure) bool { return e.mem.vals.at[v].run == r.slot })
		}
		n := len(r.f.Values) - int(r.f.NumInitial)
		e.mem.releaseValues(r.vbase, n)
		e.tasks.release(r.tbase, r.g.NumTasks())
		e.mem.releaseData(r.dbase, r.g.NumData())
	}
	r.g, r.f = nil, nil
	e.spare = append(e.spare, r)
}

// purge takes the tasks of a failed run off every list, together with the tasks of other
// failed runs that are about to end: searching the lists for each run alone would take
// time with the square of their number.
func (e *Engine) purge(r *run) {
	r.parked = fifo[taskID]{buf: r.parked.buf[:0]}
	if r.purged {
		r.purged = false
		return
	}
	for _, s := range e.ending {
		if o := e.runs[s]; o != nil && o.state == runFailing && o.begun && !o.revived && o.quiet() {
			o.purged = true
		}
	}
	r.purged = true
	mine := func(tid taskID) bool {
		e.visit(1)
		o := e.runs[e.tasks.at[tid].run]
		return o != nil && o.purged && tid >= o.tbase && tid < o.tbase+taskID(o.g.NumTasks())
	}
	for i := range e.devs {
		e.devs[i].queue.filter(mine)
		e.unblock(machine.DeviceID(i))
		if e.devs[i].team > 0 { // the next task may fit another lane
			e.revisit(machine.DeviceID(i))
		}
	}
	live := fifo[taskID]{}
	for e.ready.len() > 0 {
		if tid := e.ready.pop(); !mine(tid) {
			live.push(tid)
		}
	}
	e.ready = live
	e.leftOuts = slices.DeleteFunc(e.leftOuts, mine)
	e.delayed = slices.DeleteFunc(e.delayed, func(d delay) bool { return mine(d.task) })
	heapify(e.delayed)
	for v, ts := range e.behindReaders {
		if ts = slices.DeleteFunc(ts, mine); len(ts) == 0 {
			delete(e.behindReaders, v)
		} else {
			e.behindReaders[v] = ts
		}
	}
	rest := fifo[taskID]{}
	for e.gangLine.len() > 0 {
		if tid := e.gangLine.pop(); !mine(tid) {
			rest.push(tid)
		}
	}
	e.gangLine = rest
	r.purged = false
}
