package sched

import (
	"time"

	"github.com/weft-run/weft/graph"
)

// The operations of a rehearsal: lanes, shared links, and what happens when one ends.

func (r *rehearsal) newOp(task, lane int32, work float64) int32 {
	i := int32(len(r.ops))
	r.ops = append(r.ops, rehearsed{task: task, lane: lane, next: -1, waiters: -1, left: work})
	l := &r.lanes[lane]
	if l.head < 0 {
		l.head = i
	} else {
		r.ops[l.tail].next = i
	}
	l.tail = i
	return i
}

// await has op wait for another, if that is not done.
func (r *rehearsal) await(op, other int32) {
	if other < 0 || r.ops[other].done {
		return
	}
	r.edges = append(r.edges, waitEdge{op, r.ops[other].waiters})
	r.ops[other].waiters = int32(len(r.edges) - 1)
	r.ops[op].pending++
}

// start begins an operation if it is first on its lane and waits for nothing.
func (r *rehearsal) start(op int32) {
	o := &r.ops[op]
	if o.running || o.done || o.pending > 0 || r.lanes[o.lane].head != op {
		return
	}
	o.running, o.since = true, r.now
	for _, u := range o.uses {
		r.shares[u].users = append(r.shares[u].users, op)
	}
	r.pace(op)
	r.paceOthers(o.uses, op)
}

// pace gives an operation the speed it has now.
func (r *rehearsal) pace(op int32) {
	o := &r.ops[op]
	speed := 1.0
	for _, u := range o.uses {
		s := &r.shares[u]
		if n := float64(len(s.users)); s.bps > 0 {
			speed = min(speed, s.bps/(n*o.own))
		} else {
			speed = min(speed, 1/n)
		}
	}
	if speed == o.speed {
		return
	}
	o.left = max(o.left-float64(float64(r.now-o.since)*o.speed), 0)
	o.since, o.speed = r.now, speed
	o.version++
	r.serial++
	r.pushEnd(ending{r.now + time.Duration(o.left/speed+0.5), r.serial, op, o.version})
}

func (r *rehearsal) paceOthers(uses []int32, not int32) {
	for _, u := range uses {
		for _, x := range r.shares[u].users {
			if x != not {
				r.pace(x)
			}
		}
	}
}

// complete ends an operation.
func (r *rehearsal) complete(op int32) {
	o := &r.ops[op]
	o.done, o.running = true, false
	for _, u := range o.uses {
		users := r.shares[u].users
		for i := range users {
			if users[i] == op {
				users[i] = users[len(users)-1]
				r.shares[u].users = users[:len(users)-1]
				break
			}
		}
	}
	r.paceOthers(o.uses, op)
	l := &r.lanes[o.lane]
	l.head = o.next
	for e := o.waiters; e >= 0; e = r.edges[e].next {
		w := r.edges[e].op
		r.ops[w].pending--
		r.start(w)
	}
	if l.head >= 0 {
		r.start(l.head)
	}
	if o.task >= 0 {
		r.ended(o.task)
	}
}

// ended takes in the end of a task.
func (r *rehearsal) ended(t int32) {
	f := r.of.Flow
	r.left--
	d := r.tasks[t].on
	s := &r.state[d]
	cost := r.runs(t, d)
	s.flight--
	s.queued--
	s.backlog -= cost
	s.load -= cost
	s.freeAt = r.now + s.load
	uses := f.TaskUses(graph.TaskID(t))
	for k := range uses {
		for _, v := range f.Writes(&uses[k]) {
			if r.values[v].made = true; r.values[v].reads == 0 {
				r.drop(v)
			}
			r.wake(v)
		}
	}
	for k := range uses {
		for _, v := range f.Reads(&uses[k]) {
			if r.values[v].reads--; r.values[v].reads == 0 {
				r.drop(v)
			}
			r.wake(v)
		}
	}
}

// drop gives up the copies of a value that was read for the last time.
func (r *rehearsal) drop(v int32) {
	for h := r.values[v].holder; h >= 0; h = r.holders[h].next {
		if m := r.holders[h].mem; m != hostMemory {
			r.state[m-1].room += r.copies.sizes[r.size[v]]
		}
	}
}

// wake places tasks again that waited for the readers of a value.
func (r *rehearsal) wake(v int32) {
	x := &r.values[v]
	if x.reads > 0 || !x.made || x.waiting < 0 {
		return
	}
	for e := x.waiting; e >= 0; e = r.waiting[e].next {
		t := r.waiting[e].op
		d := r.tasks[t].on
		r.state[d].load -= r.runs(t, d)
		r.state[d].queued--
		r.ready = append(r.ready, t)
	}
	x.waiting = -1
}

// The tasks of a device, the least key first.

func (r *rehearsal) pushTask(d, t int32) {
	q := append(r.queues[d], t)
	for i := len(q) - 1; i > 0; {
		p := (i - 1) / 2
		if r.tasks[q[p]].key <= r.tasks[q[i]].key {
			break
		}
		q[i], q[p] = q[p], q[i]
		i = p
	}
	r.queues[d] = q
}

func (r *rehearsal) popTask(d int32) int32 {
	q := r.queues[d]
	top, n := q[0], len(q)-1
	q[0] = q[n]
	q = q[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c+1 < n && r.tasks[q[c+1]].key < r.tasks[q[c]].key {
			c++
		}
		if c >= n || r.tasks[q[i]].key <= r.tasks[q[c]].key {
			break
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
	r.queues[d] = q
	return top
}

// The operations that run, the first to end first.

func (a ending) before(b ending) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (r *rehearsal) pushEnd(e ending) {
	h := append(r.events, e)
	for i := len(h) - 1; i > 0; {
		p := (i - 1) / 2
		if !h[i].before(h[p]) {
			break
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
	r.events = h
}

// nextEnd takes the next end that still holds.
func (r *rehearsal) nextEnd() (ending, bool) {
	for len(r.events) > 0 {
		h := r.events
		top, n := h[0], len(h)-1
		h[0] = h[n]
		h = h[:n]
		for i := 0; ; {
			c := 2*i + 1
			if c+1 < n && h[c+1].before(h[c]) {
				c++
			}
			if c >= n || !h[c].before(h[i]) {
				break
			}
			h[i], h[c] = h[c], h[i]
			i = c
		}
		r.events = h
		if o := &r.ops[top.op]; !o.done && o.version == top.ver {
			return top, true
		}
	}
	return ending{}, false
}
