package sched

import (
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
)

// rehearsal goes through a graph as the engine and the devices would, on the cost
// model: tasks are issued ahead, copies go over lanes in their order, and those under
// way at the same time divide the resources of their links. It ignores noise, other
// runs, commits and evictions. On the graphs of TestSchedules it is within
// 1 % of the simulator. Its memory is used again for the next pass.
type rehearsal struct {
	of      *Run
	copies  *copyTable
	devices int32
	mem     []int32         // by device: the number of its memory in copies
	cost    []time.Duration // by shape and device, negative where it cannot run
	size    []int32         // by value: the row of its size in copies
	rank    []time.Duration // by task: the mean time from its beginning to the end
	order   []int32         // tasks by falling rank
	place   []int32         // and the place of each in it
	spread  time.Duration   // a lower bound: all tasks divided over all devices without waiting
	chain   time.Duration   // another: the longest chain with each task on its best device
	rule    rule

	now     time.Duration
	ops     []rehearsed
	edges   []waitEdge
	lanes   []rehearsedLane // of device d: computing 3d, copies in 3d+1, copies out 3d+2; then one within host memory
	events  []ending        // a heap
	serial  int32
	shares  []sharedResource // by resource
	tasks   []rehearsedTask
	values  []rehearsedValue
	holders []holder
	waiting []waitEdge // tasks that wait for readers of values
	queues  [][]int32  // by device: tasks, a heap by key
	state   []rehearsedDevice
	ready   []int32
	issued  int32
	left    int
	failed  bool // a memory is too small, or no device can run a task
}

type rehearsedTask struct {
	unissued int32
	op       int32 // -1 until it is issued
	on       int32
	key      int32
	turn     int32 // when it was issued
	ends     time.Duration
}

type rehearsedValue struct {
	holder  int32 // the newest copy, -1
	reads   int32
	waiting int32 // tasks that wait for its readers
	made    bool
}

// holder is a copy of a value in a memory, there once its operation is done.
type holder struct{ mem, op, next int32 }

type rehearsedDevice struct {
	backlog time.Duration // of tasks in flight
	load    time.Duration // and of those queued
	freeAt  time.Duration
	flight  int32
	queued  int32 // tasks placed and not done
	room    int64 // bytes of its memory that are free
}

// rehearsed is an operation: a task, or a copy (task -1).
type rehearsed struct {
	task, lane int32
	next       int32 // on its lane
	pending    int32 // operations it waits for
	waiters    int32 // those that wait for it
	version    int32
	running    bool
	done       bool
	uses       []int32 // resources
	left       float64 // nanoseconds at full speed, as of since
	speed      float64 // share of full speed, at most 1
	own        float64 // bytes per second when alone
	since      time.Duration
}

// rehearsedLane is the operations of a lane: head is -1 and tail means nothing where
// there are none.
type rehearsedLane struct{ head, tail int32 }

type waitEdge struct{ op, next int32 }

type ending struct {
	at             time.Duration
	order, op, ver int32
}

// sharedResource is a resource with the operations that divide its rate.
type sharedResource struct {
	bps   float64
	users []int32
}

// run rehearses the graph under a rule and returns the time it takes; false where that
// is limit or more, or it cannot be done so.
func (r *rehearsal) run(x rule, limit time.Duration) (time.Duration, bool) {
	r.rule = x
	r.reset()
	for {
		r.issue()
		e, ok := r.nextEnd()
		if !ok || r.failed {
			break
		}
		if r.now = e.at; r.now >= limit {
			return 0, false
		}
		r.complete(e.op)
		for len(r.events) > 0 && r.events[0].at == r.now {
			if e, ok := r.nextEnd(); ok && e.at == r.now {
				r.complete(e.op)
			} else if ok {
				r.pushEnd(e)
			}
		}
	}
	return r.now, r.left == 0 && !r.failed
}

// reset puts everything back to the beginning of the graph.
func (r *rehearsal) reset() {
	f := r.of.Flow
	n := len(f.Rows) - 1
	r.now, r.serial, r.issued, r.left, r.failed = 0, 0, 0, n, false
	r.ops, r.edges, r.events = r.ops[:0], r.edges[:0], r.events[:0]
	r.holders, r.waiting, r.ready = r.holders[:0], r.waiting[:0], r.ready[:0]
	r.lanes = r.lanes[:0]
	for range 3*r.devices + 1 {
		r.lanes = append(r.lanes, rehearsedLane{head: -1})
	}
	for i, bps := range r.copies.bps {
		if i == len(r.shares) {
			r.shares = append(r.shares, sharedResource{})
		}
		r.shares[i] = sharedResource{bps, r.shares[i].users[:0]}
	}
	r.state = r.state[:0]
	for d := range r.of.Devices {
		if d == len(r.queues) {
			r.queues = append(r.queues, nil)
		}
		r.queues[d] = r.queues[d][:0]
		r.state = append(r.state, rehearsedDevice{room: r.of.Devices[d].FreeBytes - 2*r.of.Workspace})
	}
	r.values = r.values[:0]
	for v := range f.Values {
		r.values = append(r.values, rehearsedValue{holder: -1, reads: f.Values[v].Readers, waiting: -1})
		if v < int(f.NumInitial) {
			r.values[v].made = true
			r.holders = append(r.holders, holder{r.initial(int32(v)), -1, -1})
			r.values[v].holder = int32(len(r.holders) - 1)
		}
	}
	r.tasks = r.tasks[:0]
	for t := range n {
		r.tasks = append(r.tasks, rehearsedTask{unissued: f.Rows[t+1].Pred - f.Rows[t].Pred, op: -1, on: -1})
		if r.tasks[t].unissued == 0 {
			r.ready = append(r.ready, int32(t))
		}
	}
}

// issue places ready tasks and issues queued tasks to devices with room.
func (r *rehearsal) issue() {
	for more := true; more && !r.failed; {
		for len(r.ready) > 0 && !r.failed {
			if r.rule.ranked && len(r.ready) > 1 {
				slices.SortFunc(r.ready, func(a, b int32) int { return int(r.place[a] - r.place[b]) })
			}
			for _, t := range r.ready {
				r.put(t)
			}
			r.ready = r.ready[:0]
		}
		more = false
		for d := range r.devices {
			for !r.failed && r.credit(d) && (len(r.queues[d]) > 0 || r.steal(d)) {
				more = r.launch(r.popTask(d), d) || more
			}
		}
		more = more || len(r.ready) > 0
	}
}

// longAlone is the predicted time in flight from which a device that uses host memory
// is given no second task, as the engine has it.
const longAlone = 2 * time.Millisecond

// credit reports whether a device may be given another task.
func (r *rehearsal) credit(d int32) bool {
	s := &r.state[d]
	switch {
	case s.flight == 0, s.flight < int32(r.of.Depth) && s.backlog < r.of.Ahead:
		return true
	case r.mem[d] == hostMemory && s.backlog >= longAlone:
		return false
	}
	return s.flight == 1
}

// put places a task that is ready.
func (r *rehearsal) put(t int32) {
	d := r.choose(t)
	if d < 0 {
		r.failed = true
		return
	}
	task, s := &r.tasks[t], &r.state[d]
	runs, transfer := r.runs(t, d), r.transfer(t, r.mem[d])
	task.on = d
	task.ends = max(s.freeAt, r.inputsAt(t)+transfer) + runs
	s.freeAt = max(task.ends, s.freeAt+transfer)
	s.load += runs
	s.queued++
	if task.key = r.place[t]; !r.rule.ranked {
		r.serial++
		task.key = r.serial
	}
	r.pushTask(d, t)
}

// runs returns the time that t takes on a device, a negative one where it cannot run.
func (r *rehearsal) runs(t, d int32) time.Duration {
	return r.cost[r.of.Flow.Rows[t].Shape*r.devices+d]
}

// inputsAt returns the predicted end of the last predecessor of t.
func (r *rehearsal) inputsAt(t int32) time.Duration {
	at := r.now
	for _, p := range r.of.Flow.Preds(graph.TaskID(t)) {
		if pt := &r.tasks[p]; pt.op >= 0 && !r.ops[pt.op].done {
			at = max(at, pt.ends)
		}
	}
	return at
}

// transfer returns the sum of the durations of copying what t reads to a memory.
func (r *rehearsal) transfer(t, mem int32) time.Duration {
	var total time.Duration
	f := r.of.Flow
	uses := f.TaskUses(graph.TaskID(t))
	for k := range uses {
		for _, v := range f.Reads(&uses[k]) {
			least := time.Duration(-1)
			for h := r.values[v].holder; h >= 0 && least != 0; h = r.holders[h].next {
				if m := r.holders[h].mem; m == mem {
					least = 0
				} else if c := r.copies.at(r.size[v], m, mem).took; c >= 0 && (least < 0 || c < least) {
					least = c
				}
			}
			if least < 0 {
				least = unreachable
			}
			total += least
		}
	}
	return total
}

// held returns the number of bytes read by t that are in a memory, or being copied there.
func (r *rehearsal) held(t, mem int32) int64 {
	var total int64
	f := r.of.Flow
	uses := f.TaskUses(graph.TaskID(t))
	for k := range uses {
		for _, v := range f.Reads(&uses[k]) {
			for h := r.values[v].holder; h >= 0; h = r.holders[h].next {
				if r.holders[h].mem == mem {
					total += r.copies.sizes[r.size[v]]
					break
				}
			}
		}
	}
	return total
}

// steal lets a device with nothing left take a task from another, under rules that do.
func (r *rehearsal) steal(d int32) bool {
	if !r.rule.holding || r.state[d].flight > 0 {
		return false
	}
	from := int32(-1)
	for o := range r.state {
		if len(r.queues[o]) == 0 || r.state[o].queued < 2 || int32(o) == d {
			continue
		}
		if from < 0 || r.state[o].queued > r.state[from].queued || r.state[o].queued == r.state[from].queued && r.state[o].freeAt > r.state[from].freeAt {
			from = int32(o)
		}
	}
	if from < 0 {
		return false
	}
	t := r.queues[from][0]
	cost := r.runs(t, d)
	if cost < 0 || max(r.now, r.inputsAt(t))+cost >= r.state[from].freeAt || r.inputsAt(t) > r.now {
		return false
	}
	r.popTask(from)
	r.state[from].load -= r.runs(t, from)
	r.state[from].queued--
	r.state[from].freeAt = r.now + r.state[from].load
	s := &r.state[d]
	s.load += cost
	s.queued++
	s.freeAt = max(s.freeAt, r.now) + cost
	r.tasks[t].on, r.tasks[t].ends = d, s.freeAt
	r.pushTask(d, t)
	return true
}

// launch issues a task with the copies it needs; false if it waits for the readers of
// an older version of what it writes.
func (r *rehearsal) launch(t, d int32) bool {
	f := r.of.Flow
	uses := f.TaskUses(graph.TaskID(t))
	for k := range uses {
		for _, v := range f.Writes(&uses[k]) {
			if p := f.Values[v].Prev; p >= 0 && f.Values[p].Prev >= 0 {
				if pp := f.Values[p].Prev; r.values[pp].reads > 0 || !r.values[pp].made {
					r.waiting = append(r.waiting, waitEdge{t, r.values[pp].waiting})
					r.values[pp].waiting = int32(len(r.waiting) - 1)
					return false
				}
			}
		}
	}
	cost := r.runs(t, d)
	op := r.newOp(t, 3*d, float64(cost))
	mem := r.mem[d]
	for k := range uses {
		u := &uses[k]
		for _, v := range f.Reads(u) {
			r.fetch(v, mem, op, u.W >= 0)
		}
	}
	for k := range uses {
		for _, v := range f.Writes(&uses[k]) {
			r.hold(v, mem, op)
		}
	}
	for _, p := range f.Preds(graph.TaskID(t)) {
		r.await(op, r.tasks[p].op)
	}
	s := &r.state[d]
	s.backlog += cost
	s.flight++
	r.tasks[t].op, r.tasks[t].turn = op, r.issued
	r.issued++
	for _, n := range f.Succs(graph.TaskID(t)) {
		if nt := &r.tasks[n]; nt.unissued > 0 {
			if nt.unissued--; nt.unissued == 0 {
				r.ready = append(r.ready, n)
			}
		}
	}
	r.start(op)
	return true
}

// fetch brings a value to a memory for an operation. One that updates it gets a copy
// of its own, unless the host has another.
func (r *rehearsal) fetch(v, mem, op int32, updates bool) {
	here := int32(-1)
	inHost := false
	for h := r.values[v].holder; h >= 0; h = r.holders[h].next {
		x := &r.holders[h]
		if x.mem == mem {
			here = h
		} else if x.mem == hostMemory && (x.op < 0 || r.ops[x.op].done) {
			inHost = true
		}
	}
	if here >= 0 && (!updates || r.values[v].reads == 1 && inHost || mem == hostMemory) {
		r.await(op, r.holders[here].op)
		return
	}
	from := here
	if here < 0 {
		from = r.source(v, mem)
	}
	if from < 0 {
		return
	}
	h := r.holders[from]
	size := r.size[v]
	c := r.copies.at(size, h.mem, mem)
	if c.via {
		h.op = r.copy(size, h, hostMemory)
		h.mem = hostMemory
		r.hold(v, hostMemory, h.op)
	}
	by := r.copy(size, h, mem)
	if !updates {
		r.hold(v, mem, by)
	}
	r.await(op, by)
}

// source picks the copy that reaches a memory soonest, as the engine does.
func (r *rehearsal) source(v, mem int32) int32 {
	best, least := int32(-1), time.Duration(0)
	for h := r.values[v].holder; h >= 0; h = r.holders[h].next {
		x := &r.holders[h]
		c := r.copies.at(r.size[v], x.mem, mem).took
		if c < 0 {
			continue
		}
		if x.op >= 0 && !r.ops[x.op].done {
			c += c/4 + 1
			if r.ops[x.op].task < 0 {
				c++
			}
		}
		if best < 0 || c < least {
			best, least = h, c
		}
	}
	return best
}

// copy issues a copy of a size from a holder to a memory.
func (r *rehearsal) copy(size int32, from holder, to int32) int32 {
	lane := 3 * r.devices
	switch {
	case to != hostMemory && !r.copies.far[from.mem*r.copies.n+to]:
		lane = 3*(to-1) + 1
	case from.mem != hostMemory:
		lane = 3*(from.mem-1) + 2
	}
	c := r.copies.at(size, from.mem, to)
	op := r.newOp(-1, lane, float64(c.took))
	o := &r.ops[op]
	o.uses = r.copies.route(from.mem, to)
	o.own = float64(r.copies.sizes[size]) / max(c.took.Seconds(), 1e-9)
	r.await(op, from.op)
	r.start(op)
	return op
}

func (r *rehearsal) hold(v, mem, op int32) {
	if mem != hostMemory {
		s := &r.state[mem-1]
		s.room -= r.copies.sizes[r.size[v]]
		r.failed = r.failed || s.room < 0
	}
	r.holders = append(r.holders, holder{mem, op, r.values[v].holder})
	r.values[v].holder = int32(len(r.holders) - 1)
}
