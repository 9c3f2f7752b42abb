package engine

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Failures and losses: retries of tasks, the loss of a device with its operations, queue
// and memory, and quarantine of tasks that devices are lost with.

// taskErr returns a TaskError; dev is -1 for none.
func (e *Engine) taskErr(r *run, gt graph.TaskID, dev machine.DeviceID, err error) error {
	te := &TaskError{Task: r.g.TaskName(gt), Err: err, Attempts: slices.Clone(e.attempts[r.task(gt)])}
	if dev >= 0 {
		te.Device = e.m.Devices[dev].Name
	}
	return te
}

// delay is a task that pauses before its retry.
type delay struct {
	at   time.Duration
	task taskID
}

// retryAt puts a task on the heap of retries.
func (e *Engine) retryAt(at time.Duration, tid taskID) {
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

// heapify makes a heap of entries in any order.
func heapify(h []delay) {
	for i := range slices.Backward(h) {
		sink(h, i)
	}
}

// sink moves an entry of the heap down until no child is earlier.
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

// popDelayed takes the task with the earliest retry off the heap.
func (e *Engine) popDelayed() taskID {
	t := e.delayed[0].task
	n := len(e.delayed) - 1
	e.delayed[0] = e.delayed[n]
	e.delayed = e.delayed[:n]
	sink(e.delayed, 0)
	return t
}

// failures are the failures that further attempts are judged by.
type failures struct {
	taskCopies  map[taskID]copyFailure  // by task, failures in a row of copies made for it
	valueCopies map[valueID]copyFailure // by value, those of copies that no task waits for
	attempts    map[taskID][]Attempt    // by task, executions that came to nothing; those with tried
}

// maxAttempts is the number of attempts kept per task. Beyond it the oldest that did not
// lose its device is forgotten. A report with 32 says enough, and they take little memory.
const maxAttempts = 32

// attempted notes an execution of a task that came to nothing.
func (e *Engine) attempted(tid taskID, dev machine.DeviceID, err error, lost bool) {
	e.tasks.at[tid].flags |= tried
	list := e.attempts[tid]
	if len(list) >= maxAttempts {
		if i := slices.IndexFunc(list, func(a Attempt) bool { return !a.Lost }); i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
	}
	e.attempts[tid] = append(list, Attempt{Device: e.m.Devices[dev].Name, At: e.now, Err: err, Lost: lost})
}

// taskFailed decides what happens to a task whose execution failed. With DepFailed the
// task is not at fault and is ready again; otherwise it is tried again after a pause, on
// another device if possible, until its retries are used up.
func (e *Engine) taskFailed(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, st Status, err error) {
	t := &e.tasks.at[tid]
	if r.o.Probe && r.state == runActive {
		if st != DepFailed {
			e.fail(r, e.taskErr(r, gt, dev, err))
			return
		}
	}
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
	e.devs[dev].failed++
	e.devs[dev].lastErr = err
	r.report.Devices[dev].Failed++
	if st == OutOfMemory {
		err = fmt.Errorf("%w: %w", ErrOutOfMemory, err)
		e.shrink(dev, e.largest(r, gt))
		if r.state != runActive {
			return
		}
	}
	e.attempted(tid, dev, err, false)
	if !e.mayRetry(t, r, gt) {
		e.fail(r, e.taskErr(r, gt, dev, err))
		return
	}
	if st == Unfit && !e.fitsElsewhere(r, gt, dev) {
		e.fail(r, e.taskErr(r, gt, dev, err))
		return
	}
	if st == Spoilt {
		e.fail(r, e.taskErr(r, gt, dev, spoilt(err)))
		return
	}
	t.avoid = dev
	r.report.Retries++
	e.tr.Record(trace.Event{Kind: trace.Retry, Device: dev, Run: int32(r.id), Task: gt, Start: e.now, End: e.now})
	e.tell(TaskRetried, r, gt, dev, err)
	pause := e.o.Backoff << min(t.tries-1, 10)
	t.move(pausing)
	e.retryAt(e.now+pause, tid)
	if st != Refused && st != Unfit {
		e.countFailure(dev, err)
	}
}

// fitsElsewhere notes that the kernel of a task cannot run on devices of a class, and reports whether
// there are others that take the task.
func (e *Engine) fitsElsewhere(r *run, gt graph.TaskID, dev machine.DeviceID) bool {
	task, sh := r.g.Task(gt), e.shape(r, gt)
	costs := sh.costs
	costs[e.situation.Devices[dev].Class] = unfit
	e.costIDs++
	sh.costID = e.costIDs // costs of one number do not change
	for d := range e.devs {
		if costs[e.situation.Devices[d].Class] >= 0 && e.devs[d].state != Broken && e.allowed(task, machine.DeviceID(d)) {
			return true
		}
	}
	return false
}

// mayRetry counts a failed execution of a task and reports whether it may be tried again.
func (e *Engine) mayRetry(t *task, r *run, gt graph.TaskID) bool {
	if t.tries < math.MaxUint16 {
		t.tries++
	}
	return int(t.tries) <= min(e.retries(r, gt), math.MaxUint16-1)
}

// errNoReason stands for an error that a driver did not give.
var errNoReason = errors.New("failed without saying why")

// largest returns the bytes of the largest use of a task, its workspace included.
func (e *Engine) largest(r *run, gt graph.TaskID) int64 {
	n := r.shapes[r.f.Rows[gt].Shape].workspace
	uses := r.f.TaskUses(gt)
	for k := range uses {
		n = max(n, r.f.UseBytes(&uses[k]))
	}
	return n
}

// lose takes a device away: its operations in flight fail, its queue is placed anew, and
// values that only its memory held are recomputed when they are next needed. kept says
// that the memory survived, blamed that the cause is known and not a task in flight.
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
	d.cause, d.lastErr = lost, lost
	e.setState(dev, Lost)
	d.losses++
	e.situation.Devices[dev].Accepts = false
	e.dirty(dev)
	e.stopHandOver(dev, lost)
	if !blamed && e.implicate(dev, lost) {
		d.health.rung = 0 // a task is the cause, and not the device
	}
	if d.space == hostSpace && d.process.Left {
		e.leaveBehind(dev, blamed, lost)
	}
	// End its operations in the order of each lane, as the loop would report them.
	for l := d.lanes[0]; l <= d.out; l++ {
		ln := &e.lanes[l]
		ln.lost = ln.issued
		for ln.done < ln.issued {
			rec := ln.rec(ln.done + 1)
			if rec.task >= 0 && e.o.NoFaultTolerance {
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
			e.mem.goAway(d.space)
		} else {
			e.loseMemory(d.space)
		}
	}
	e.requeueAll(dev)
	e.situation.Devices[dev].FreeAt = e.now
	e.offerAgain = true
	h := &d.health
	h.probe = probing{out: h.probe.out, stale: h.probe.out}
	if d.role == Healthy && !h.unproven { // one that was drained, stood by or was gone before is not missed
		e.callSpare(dev)
	}
	if !h.unproven && e.now-h.upSince > e.o.Health.Trust {
		h.rung, h.breaks = 0, 0
	}
	h.unproven = false
	e.climb(dev)
}

// implicate counts the loss of a device against the tasks that were running there: the
// oldest of each lane, if it waited for nothing. A task with more than
// Health.MaxLosses of them fails its run. It reports whether there was one.
func (e *Engine) implicate(dev machine.DeviceID, lost error) bool {
	found := false
	for tid := range e.begunOn(dev) {
		e.attempted(tid, dev, lost, true)
		var losses []Attempt
		for _, a := range e.attempts[tid] {
			if a.Lost {
				losses = append(losses, a)
			}
		}
		if r, gt := e.taskOf(tid); len(losses) > e.o.Health.MaxLosses && r.state == runActive {
			e.fail(r, e.taskErr(r, gt, dev, &Quarantine{Losses: losses}))
			e.tellRule(dev, fmt.Sprintf("task %q is not tried again: a device was lost %d times while it ran", r.g.TaskName(gt), len(losses)))
			found = true
		}
	}
	return found
}

// leaveBehind fails the runs of launches that go on although their device is lost: what their tasks only read is
// the caller's memory, or what other tasks read, and they still may write it.
func (e *Engine) leaveBehind(dev machine.DeviceID, blamed bool, lost error) {
	for tid := range e.begunOn(dev) {
		r, gt := e.taskOf(tid)
		onlyRead := func(u graph.Use) bool { return u.Access == graph.Read }
		if r.state != runActive || !slices.ContainsFunc(r.g.Task(gt).Uses, onlyRead) {
			continue
		}
		if blamed { // if it is not, the loss counts among the task's attempts already
			e.attempted(tid, dev, lost, false)
		}
		e.fail(r, e.taskErr(r, gt, dev, spoilt(lost)))
	}
}

// begunOn yields the tasks whose launches a device may have begun: the oldest operation of each lane, if
// it is a launch that waits for nothing.
func (e *Engine) begunOn(dev machine.DeviceID) iter.Seq[taskID] {
	return func(yield func(taskID) bool) {
		d := &e.devs[dev]
		for l := d.lanes[0]; l < d.lanes[1]; l++ {
			ln := &e.lanes[l]
			if ln.done == ln.issued {
				continue
			}
			if rec := ln.rec(ln.done + 1); rec.task >= 0 && e.begun(rec, dev) && !yield(rec.task) {
				return
			}
		}
	}
}

// spoilt is the error of a task that is not tried again.
func spoilt(err error) error {
	return fmt.Errorf("%w; not tried again, since what the task reads may have changed", err)
}

// loseMemory ends every copy in a memory.
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
		// An instance that an operation of another device touches stays until that has
		// ended, but its buffer is gone with the memory, so that no search may find it.
		e.mem.unlist(Inst(i))
	}
}
