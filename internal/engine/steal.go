package engine

import (
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// Moving queued tasks between devices: to a device that has nothing left, to a core that
// can begin a long task sooner, and from hot devices to cold ones.

// stealFor lets a device with nothing left take a queued task from another, if the policy
// names a victim and the thief would finish it sooner. It takes the next task, which is
// mostly the largest: small ones are left for the end, when devices then differ by no
// more than a small task. If that one cannot begin, mostly because it waits for a task of
// the victim, or the thief is slow, it takes the last one.
func (e *Engine) stealFor(thief machine.DeviceID) bool {
	if e.devs[thief].state != Healthy || !e.situation.Devices[thief].Accepts {
		return false
	}
	e.delayOverdue()
	from := e.steal.Steal(&e.situation, thief)
	if from < 0 || from == thief {
		return false
	}
	q := &e.devs[from].queue
	if q.len() == 0 {
		return false
	}
	next := q.pop()
	if e.moveTask(next, from, thief, true) {
		return true
	}
	last, ok := q.popTail()
	q.unpop(next)
	if !ok {
		return false
	}
	if e.moveTask(last, from, thief, false) {
		return true
	}
	q.push(last.task, last.key)
	return false
}

// inTurn lets a device that is about to begin a task take an earlier one from another
// device, if both use host memory: one that is next there, that the other device will not
// reach for half as long as it takes, and would finish later. Large tasks are then begun
// before small ones even if some devices turn out to be slow, and no large one is left
// for the end. The move loses what the other core has in its cache, so it is for long
// tasks.
func (e *Engine) inTurn(dev machine.DeviceID) {
	d := &e.devs[dev]
	first, from, cost := d.queue.next(), dev, time.Duration(0)
	if e.steal == nil || d.space != 0 || e.queuedTasks == d.queue.len() || e.tasks.at[first.task].cost < longTurn {
		return
	}
	if d.state != Healthy || !e.situation.Devices[dev].Accepts {
		return
	}
	begins := e.remains(d)
	for i := range e.devs {
		o := &e.devs[i]
		if o.space != 0 || o.queue.len() == 0 {
			continue
		}
		k := o.queue.next()
		there := time.Duration(e.tasks.at[k.task].cost)
		late := e.remains(o)
		if k.key >= first.key || 2*late < there {
			continue
		}
		if here, ok := e.movable(k.task, dev); ok && begins+here < late+there && e.canBegin(k.task, dev) {
			first, from, cost = k, machine.DeviceID(i), here
		}
	}
	if from == dev {
		return
	}
	r, gt := e.taskOf(first.task)
	e.devs[from].queue.pop()
	e.unplace(first.task, queued)
	e.requeueOn(first.task, r, gt, from, dev, cost)
	e.tellMove("begun in turn", r, gt, from, dev)
	e.tasks.at[first.task].eft = int64(e.now + begins + cost) // tasks queued here follow it
}

// longTurn is the predicted duration, in nanoseconds, from which tasks are begun in turn:
// 1 ms is long enough to hide refilling a core's cache.
const longTurn = int64(time.Millisecond)

// remains predicts the time until a device can begin another task.
func (e *Engine) remains(d *device) time.Duration {
	least := time.Duration(math.MaxInt64)
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		if ln.issued == ln.done {
			return 0
		}
		ahead := d.perLane(d.backlog)
		if d.team > 0 {
			ahead = ln.backlog
		}
		least = min(least, left(ln, ahead, e.now))
	}
	return least
}

// left predicts the time that a lane still needs for its launches in flight, whose predicted
// duration is given in nanoseconds. If they have run longer than that, they are expected to
// take another quarter of the time they have run.
func left(ln *lane, predicted int64, now time.Duration) time.Duration {
	since := now - ln.head
	return max(time.Duration(predicted)-since, since/4)
}

// canBegin reports whether a queued task could begin on a device as soon as it is its
// turn: no predecessor is in flight, its run may have another task in flight, and host
// memory, from which nothing is evicted, has room.
func (e *Engine) canBegin(tid taskID, dev machine.DeviceID) bool {
	r, gt := e.taskOf(tid)
	if _, waits := e.awaited(r, gt); waits || r.full() {
		return false
	}
	s := &e.mem.spaces[0]
	return e.devs[dev].space != 0 || s.cap == 0 || s.used+e.need(r, gt, 0) <= s.cap
}

// awaited predicts when the predecessors of a task will have ended, and reports whether
// any is in flight.
func (e *Engine) awaited(r *run, gt graph.TaskID) (at time.Duration, waits bool) {
	at = e.now
	for _, p := range r.f.Preds(gt) {
		if t := &e.tasks.at[r.task(graph.TaskID(p))]; t.where == issued {
			at, waits = max(at, time.Duration(t.eft)), true
		}
	}
	return at, waits
}

// delayOverdue corrects the prediction for devices whose tasks exceed theirs: queued
// tasks end no earlier than if the running ones ended now.
func (e *Engine) delayOverdue() {
	for i := range e.devs {
		d, vd := &e.devs[i], &e.situation.Devices[i]
		if at := e.now + time.Duration(d.perLane(d.load-e.issuedLoad(d))) + 1; d.queue.len() > 0 && at > vd.FreeAt {
			vd.FreeAt = at
			e.dirty(machine.DeviceID(i))
		}
	}
}

// moveTask moves a task that is off a device's queue to another device, if it can run
// there and would end before the first device is free; with atOnce, only if it can begin.
func (e *Engine) moveTask(k keyed, from, to machine.DeviceID, atOnce bool) bool {
	r, gt := e.taskOf(k.task)
	cost, ok := e.movable(k.task, to)
	at, _ := e.awaited(r, gt)
	if !ok || atOnce && !e.canBegin(k.task, to) || max(e.situation.Devices[to].FreeAt, at)+cost >= e.situation.Devices[from].FreeAt {
		return false
	}
	e.unplace(k.task, queued)
	e.requeueOn(k.task, r, gt, from, to, cost)
	e.tellMove("stolen", r, gt, from, to)
	return true
}

// movable returns the time that a task queued elsewhere would take on a device, and whether it
// can run there. It cannot on a device where it failed.
func (e *Engine) movable(tid taskID, to machine.DeviceID) (cost time.Duration, ok bool) {
	r, gt := e.taskOf(tid)
	vd := &e.situation.Devices[to]
	c := e.shape(r, gt).costs[vd.Class]
	ok = c >= 0 && r.state == runActive && e.tasks.at[tid].avoid != to &&
		e.need(r, gt, e.devs[to].space) <= vd.CapBytes && e.allowed(r.g.Task(gt), to) &&
		(len(r.o.Rather) == 0 || slices.Contains(r.o.Rather, to) || !e.stays(&e.tasks.at[tid], r, gt))
	return time.Duration(float64(c) * vd.Slow), ok
}

// requeueOn puts a task that is off one device's queue into another's.
func (e *Engine) requeueOn(tid taskID, r *run, gt graph.TaskID, from, to machine.DeviceID, cost time.Duration) {
	t := &e.tasks.at[tid]
	vd := &e.situation.Devices[to]
	width := e.setWidth(t, e.shape(r, gt).widths, vd.Class)
	takes := vd.Takes(int32(width), cost)
	vd.FreeAt = max(vd.FreeAt, e.now) + takes
	vd.Queued++
	e.situation.Delay(to, takes)
	e.devs[to].load += int64(cost) * width
	t.dev, t.cost, t.eft = to, int64(cost), int64(vd.FreeAt)
	if e.devs[from].team > 0 { // the next task there may fit another lane
		e.revisit(from)
	}
	e.dirty(to)
	e.devs[to].queue.push(tid, t.key)
	e.revisit(to)
	r.report.Moves++
	e.tr.Record(trace.Event{Kind: trace.Move, Device: to, From: from, Run: int32(r.id), Task: gt, Start: e.now, End: e.now})
}

// balanceState is the memory of the balancer.
type balanceState struct {
	last time.Duration // when it last moved tasks
	log  []Rebalance   // the latest moves, oldest first
	all  int64         // moves ever made, as entries of log
}

// Rebalance is a move of queued tasks from a hot device to a cold one.
type Rebalance struct {
	At       time.Duration
	From, To machine.DeviceID
	Tasks    int
}

// maxRebalances is the number of moves that are remembered: at the default interval of 1 s
// they cover a minute.
const maxRebalances = 64

// Rebalances returns the latest moves of the balancer, oldest first, and the number of moves
// in all.
func (e *Engine) Rebalances() (latest []Rebalance, all int64) {
	return slices.Clone(e.balance.log), e.balance.all
}

// noteMove remembers that the balancer moved a task.
func (e *Engine) noteMove(from, to machine.DeviceID) {
	b := &e.balance
	for i := len(b.log) - 1; i >= 0 && b.log[i].At == e.now; i-- {
		if b.log[i].From == from && b.log[i].To == to {
			b.log[i].Tasks++
			return
		}
	}
	if len(b.log) == maxRebalances {
		b.log = slices.Delete(b.log, 0, 1)
	}
	b.log = append(b.log, Rebalance{At: e.now, From: from, To: to, Tasks: 1})
	b.all++
}

// rebalance moves queued tasks from hot devices to cold ones.
func (e *Engine) rebalance() {
	o := e.o.Rebalance
	o.Now, o.Last = e.now, e.balance.last
	loads := make([]sched.Load, 0, len(e.devs))
	for i := range e.devs {
		if e.devs[i].state == Healthy {
			loads = append(loads, sched.Load{Device: machine.DeviceID(i), Util: e.devs[i].util})
		}
	}
	if e.queuedTasks == 0 || !sched.Uneven(loads, o) {
		return
	}
	for i := range loads {
		l := &loads[i]
		q := &e.devs[l.Device].queue
		w := l.Util / float64(e.situation.Devices[l.Device].Queued) // not used if none is queued
		l.Queued = make([]sched.QueuedTask, 0, q.len())
		q.each(func(tid taskID) { l.Queued = append(l.Queued, sched.QueuedTask{Task: int32(tid), Weight: w}) })
	}
	moves := sched.Rebalance(loads, o)
	if len(moves) > 0 {
		e.balance.last = e.now
	}
	for _, m := range moves {
		e.migrate(m)
	}
}

// migrate moves one queued task as the balancer decided.
func (e *Engine) migrate(m sched.Move) {
	tid := taskID(m.Task)
	r, gt := e.taskOf(tid)
	vd := &e.situation.Devices[m.To]
	if vd.Crowd > 0 && vd.Crowd == e.situation.Devices[m.From].Crowd {
		return // it computes on the same cores: no task would end sooner
	}
	cost, ok := e.movable(tid, m.To)
	if !ok || !e.devs[m.From].queue.remove(tid) {
		return
	}
	e.unplace(tid, queued)
	e.requeueOn(tid, r, gt, m.From, m.To, cost)
	e.tellMove(Rebalanced, r, gt, m.From, m.To)
	e.noteMove(m.From, m.To)
}
