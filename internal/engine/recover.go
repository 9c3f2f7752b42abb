package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// TaskError says which task failed where. It unwraps to the cause.
type TaskError struct {
	Task   string
	Device string // "" when it was on none
	Err    error
}

func (t *TaskError) Error() string {
	if t.Device == "" {
		return fmt.Sprintf("task %q: %v", t.Task, t.Err)
	}
	return fmt.Sprintf("task %q on %s: %v", t.Task, t.Device, t.Err)
}

func (t *TaskError) Unwrap() error { return t.Err }

func (e *Engine) taskErr(r *run, gt graph.TaskID, dev machine.DeviceID, err error) error {
	te := &TaskError{Task: r.g.TaskName(gt), Err: err}
	if dev >= 0 {
		te.Device = e.m.Devices[dev].Name
	}
	return te
}

// delay is a retry that backs off.
type delay struct {
	at   time.Duration
	task taskID
}

func (e *Engine) after(at time.Duration, tid taskID) {
	e.delayed = append(e.delayed, delay{at, tid})
	for i := len(e.delayed) - 1; i > 0; {
		p := (i - 1) / 2
		if e.delayed[p].at <= e.delayed[i].at {
			break
		}
		e.delayed[p], e.delayed[i] = e.delayed[i], e.delayed[p]
		i = p
	}
}

func heapify(h []delay) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		sink(h, i)
	}
}

func sink(h []delay, i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].at < h[c].at {
			c++
		}
		if h[i].at <= h[c].at {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

func (e *Engine) popDelayed() taskID {
	t := e.delayed[0].task
	n := len(e.delayed) - 1
	e.delayed[0] = e.delayed[n]
	e.delayed = e.delayed[:n]
	sink(e.delayed, 0)
	return t
}

// taskFailed decides what happens to a task whose execution failed: nothing was
// wrong with it if what it waited for failed; otherwise it is tried again,
// elsewhere if possible, until its retries are used up.
func (e *Engine) taskFailed(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, st Status, err error) {
	t := &e.tasks.at[tid]
	if r.state != runActive {
		if r.quiet() {
			e.endLater(r)
		}
		return
	}
	if st == DepFailed {
		if err := e.failedCopies(tid); err != nil {
			e.fail(r, e.taskErr(r, gt, dev, fmt.Errorf("copying what it reads: %w", err)))
			return
		}
		e.again(tid)
		return
	}
	if err == nil {
		err = errNoReason
	}
	if st == OutOfMemory {
		err = fmt.Errorf("%w: %w", ErrOutOfMemory, err)
		e.shrink(dev, e.largest(r, gt))
		if r.state != runActive {
			return
		}
	}
	if !e.mayRetry(t, r, gt) {
		e.fail(r, e.taskErr(r, gt, dev, err))
		return
	}
	t.avoid = dev
	r.report.Retries++
	e.tr.Record(trace.Event{Kind: trace.Retry, Device: dev, Run: int32(r.id), Task: gt, Start: e.now, End: e.now})
	pause := e.o.Backoff << min(t.tries-1, 10)
	t.move(pausing)
	e.after(e.now+pause, tid)
	if st != Refused {
		e.countFailure(dev)
	}
}

// mayRetry counts a failed execution of a task and reports whether it may be tried again.
func (e *Engine) mayRetry(t *task, r *run, gt graph.TaskID) bool {
	if t.tries < math.MaxUint16 {
		t.tries++
	}
	return int(t.tries) <= min(e.retries(r, gt), math.MaxUint16-1)
}

// errNoReason stands for an error a driver did not give.
var errNoReason = errors.New("failed without saying why")

// copyFailure is how copies for a task failed: those of one issue after another.
type copyFailure struct {
	err   error
	times int
	issue uint32 // serial of the last issue of which copies failed
	open  bool   // the launch has not come back since
}

// failedCopies takes in that the launch of a task came back without having run. It returns
// what the copies for it failed of if they did so too often in a row. Where it was not
// for copies that it came back, they begin a new row.
func (e *Engine) failedCopies(tid taskID) error {
	t := &e.tasks.at[tid]
	if t.flags&inputFailed == 0 {
		return nil
	}
	switch c := e.taskCopies[tid]; {
	case c.times > maxCopyFailures:
		return c.err
	case c.open:
		c.open = false
		e.taskCopies[tid] = c
	default:
		t.flags &^= inputFailed
		delete(e.taskCopies, tid)
	}
	return nil
}

// copyBroke takes in that a copy failed by itself. The launch behind it comes
// back in its turn and is issued anew, at once, since the copy's source may
// merely have gone; but not for ever. It returns what the copy failed of, nil where
// that is nothing to count.
func (e *Engine) copyBroke(rec *opRec, st Status, err error) error {
	if err == nil {
		err = errNoReason
	}
	dst := &e.mem.insts[rec.dst]
	if st == OutOfMemory && dst.space != 0 {
		err = fmt.Errorf("%w: %w", ErrOutOfMemory, err)
		e.shrink(e.mem.spaces[dst.space].dev, dst.bytes)
	}
	if from := &e.mem.spaces[e.mem.insts[rec.src].space]; from.dev >= 0 && !e.working(&e.devs[from.dev]) {
		return nil // what it copied from went under it
	}
	s, live := e.byID[RunID(rec.forRun)]
	if !live || rec.forTask < 0 {
		return err
	}
	tid := e.runs[s].task(rec.forTask)
	t, c := &e.tasks.at[tid], e.taskCopies[tid]
	if t.where == done {
		return err
	}
	// One failure, however many copies it took with it, and also where the launch
	// behind them was heard of first.
	if t.flags&inputFailed == 0 || int32(rec.forIssue-c.issue) > 0 {
		c = copyFailure{err: err, times: c.times + 1, issue: rec.forIssue}
	}
	t.flags |= inputFailed
	c.open = true
	e.taskCopies[tid] = c
	return err
}

// largest returns the size of the largest use of a task.
func (e *Engine) largest(r *run, gt graph.TaskID) int64 {
	n := r.shapes[r.f.Rows[gt].Shape].workspace
	uses := r.f.TaskUses(gt)
	for k := range uses {
		n = max(n, r.f.UseBytes(&uses[k]))
	}
	return n
}

// again makes a task ready once its predecessors are issued.
func (e *Engine) again(tid taskID) {
	if t := &e.tasks.at[tid]; t.unissued > 0 {
		t.move(waiting)
	} else {
		e.makeReady(tid)
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
			e.failReaders(v, e.gone(v, "has no copy left and no task makes it"))
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
	if away && (e.o.NoRecovery || e.tasks.at[p].flags&held == 0) {
		return 0
	}
	if !away && (r.state == runEnded || r.revived) && t.flags&held == 0 {
		// Volatile data, overwritten by a run that reads what this one left there, or
		// data that was in the caller's memory when its run ended.
		e.failReaders(v, e.gone(v, "has no copy left, and what it was computed from is not kept"))
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

// lose takes a device away: what was in flight there goes elsewhere at once,
// what only its memory held is made again when it is next needed. blamed says that
// the cause is known: nothing that was still in flight.
func (e *Engine) lose(dev machine.DeviceID, kept, blamed bool, cause error) {
	d := &e.devs[dev]
	if d.state == Lost || d.state == Broken {
		return
	}
	e.tr.Record(trace.Event{Kind: trace.Lost, Device: dev, Task: -1, Start: e.now, End: e.now})
	lost := fmt.Errorf("%w: %s", ErrDeviceLost, e.m.Devices[dev].Name)
	if cause != nil {
		lost = fmt.Errorf("%w: %w", lost, cause)
	}
	wasSpare := d.state == Spare
	d.cause = lost
	e.setState(dev, Lost)
	d.losses++
	e.view.Devices[dev].Accepts = false
	e.dirty(dev)
	d.swapTo = -1
	if !blamed && e.suspect(dev, lost) {
		d.health.rung = 0 // the cause is known, and no fault of the device
	}
	// End its operations: each lane's in order, as the loop would have.
	for l := d.lanes[0]; l <= d.out; l++ {
		ln := &e.lanes[l]
		ln.lost = ln.issued
		for ln.done < ln.issued {
			rec := ln.rec(ln.done + 1)
			if rec.task >= 0 && e.o.NoRecovery {
				e.fail(e.runs[e.tasks.at[rec.task].run], fmt.Errorf("%w; recovery is off", lost))
			}
			e.finish(Op{l, uint32(ln.done + 1)}, DepFailed, lost, e.now, e.now)
		}
	}
	d.health.faulted = false
	if d.process.Own {
		e.uncompiled(dev)
	}
	if d.space != 0 {
		if kept {
			e.mem.leave(d.space)
		} else {
			e.loseMemory(d.space)
		}
	}
	e.requeueAll(dev)
	e.view.Devices[dev].FreeAt = e.now
	e.offerAgain = true
	if !wasSpare {
		e.callSpare(dev)
	}
	if h := &d.health; e.now-h.upSince > e.o.Health.Trust {
		h.rung, h.breaks = 0, 0
	}
	e.climb(dev)
}

// Loss is a device lost while a task ran on it.
type Loss struct {
	Device string
	At     time.Duration // by the clock of reports
	Err    error
}

// Quarantine is why a task is not tried again: several devices, or one several times,
// were lost while it ran.
type Quarantine struct {
	Losses []Loss
}

// Error names every loss.
func (q *Quarantine) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "quarantined, since %d devices were lost while it ran", len(q.Losses))
	for i, l := range q.Losses {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s at %v (%v)", sep, l.Device, l.At.Round(time.Millisecond), l.Err)
	}
	return b.String()
}

// Unwrap returns the last loss.
func (q *Quarantine) Unwrap() error { return q.Losses[len(q.Losses)-1].Err }

// suspect holds the loss of a device against the tasks that were running there: the
// oldest of each lane that waited for nothing. One with too many losses fails its run;
// it reports whether there was one.
func (e *Engine) suspect(dev machine.DeviceID, lost error) bool {
	d := &e.devs[dev]
	found := false
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		if ln.done == ln.issued {
			continue
		}
		rec := ln.rec(ln.done + 1)
		if rec.task < 0 || !e.begun(rec, dev) {
			continue
		}
		losses := append(e.suspects[rec.task], Loss{e.m.Devices[dev].Name, e.now, lost})
		e.suspects[rec.task] = losses
		if r, gt := e.taskOf(rec.task); len(losses) >= e.o.Health.MaxLosses && r.state == runActive {
			e.fail(r, e.taskErr(r, gt, dev, &Quarantine{slices.Clone(losses)}))
			found = true
		}
	}
	return found
}

// loseMemory forgets every copy in a memory.
func (e *Engine) loseMemory(space spaceID) {
	for i := range e.mem.insts {
		in := &e.mem.insts[i]
		if in.data == -2 || in.space != space {
			continue
		}
		for s := in.slot; s < in.end(); s++ {
			v := e.mem.slots.at[s].val
			if v < 0 {
				continue
			}
			e.mem.unhold(s)
			if p := e.producer(v); p >= 0 {
				if g := e.gang(p); g != nil {
					g.lost = true
				}
			}
			val := &e.mem.vals.at[v]
			if !e.mem.have(v) && val.owed() && val.has(produced) {
				e.homeward = append(e.homeward, v)
			}
		}
		e.mem.freeIfIdle(Inst(i))
		// One that an operation elsewhere still touches stays until that has ended,
		// but its buffer is gone with the memory, whatever the device comes back with.
		e.mem.unlist(Inst(i))
	}
}
