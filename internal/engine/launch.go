package engine

import (
	"cmp"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Launching: buffers, copies and the launch of a prepared task, and a fast path for plain
// tasks, which most tasks are.

// launchQuick issues a plain task in one pass, if its inputs are in its device's memory
// or on the way there. It returns false and changes nothing for any other task; prepare
// and launch then issue it step by step.
func (e *Engine) launchQuick(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, l Lane) (Op, bool) {
	f := r.f
	row := &f.Rows[gt]
	if !row.Plain || e.mem.away > 0 || len(e.detached) > 0 {
		return Op{}, false
	}
	uses := f.Plain[row.Use:f.Rows[gt+1].Use]
	space := e.devs[dev].space
	w, arg0 := len(e.waits), len(e.args)
	if cap(e.args)-arg0 < len(uses) {
		e.args = slices.Grow(e.args, len(uses))
	}
	args := e.args[arg0 : arg0+len(uses) : arg0+len(uses)]
	vals, slots := e.mem.vals.at, e.mem.slots.at
	initial, shift := f.NumInitial, r.shift()
	var need int64
	for k := range uses {
		u := &uses[k]
		if u.Data >= 0 {
			need += vals[valueID(u.V)+shift].bytes
			continue
		}
		v := valueID(u.V) + shift
		if u.V < initial {
			v = r.init[u.V]
		}
		val := &vals[v]
		s := val.slot
		if !e.hostOnly {
			for s >= 0 && e.mem.insts[slots[s].inst].space != space {
				s = slots[s].next
			}
		}
		if s < 0 {
			e.waits = e.waits[:w]
			return Op{}, false
		}
		sl := &slots[s]
		arg := &args[k]
		arg.Inst, arg.Offset, arg.Bytes = Inst(sl.inst), 0, val.bytes
		if val.piece != 0 {
			arg.Offset = e.offset(sl.inst, val.piece)
		}
		// A value that a task of this run makes is waited for as a predecessor.
		if (val.run != r.slot || !e.computes(sl.lane)) && e.mem.pending(sl.lane, sl.seq) {
			e.waits = append(e.waits, Op{sl.lane, uint32(sl.seq)})
		}
	}
	// Most of the time there is room even if idle buffers counted.
	if sp := &e.mem.spaces[space]; sp.used+e.mem.idle.bytes+need > sp.cap && !e.mem.fits(space, need) {
		e.waits = e.waits[:w]
		return Op{}, false
	}
	e.args = e.args[:arg0+len(uses)]
	op, rec := e.push(l)
	rec.task = tid
	for k := range uses {
		u := &uses[k]
		if u.Data < 0 {
			continue
		}
		v := valueID(u.V) + shift
		bytes := vals[v].bytes
		i := e.mem.alloc(r.dataOf[u.Data], space, 0, 1, 0, bytes)
		arg := &args[k]
		arg.Inst, arg.Offset, arg.Bytes = Inst(i), 0, bytes
		e.mem.hold(e.mem.insts[i].slot, v, l, e.lanes[l].issued)
	}
	// Nothing is evicted from host memory while a launch is in flight, and values with
	// readers are kept there: only device memory, and data that others may update in place,
	// needs pins.
	if space != 0 || r.volatile {
		e.pinPlain(rec, f.TaskUses(gt), args)
	}
	e.emitLaunch(tid, r, gt, dev, op, rec, w, arg0)
	return op, true
}

// pinPlain pins what a plain launch uses, a piece each.
func (e *Engine) pinPlain(rec *opRec, uses []graph.FlowUse, args []Arg) {
	for k := range args {
		i := args[k].Inst
		p0, n := pieces(&uses[k])
		e.mem.touch(i)
		e.mem.pin(i, p0, n, 0)
		rec.args = append(rec.args, i)
	}
}

// emitLaunch adds the predecessors in flight to the operations a launch waits for, gives
// it its timeout and emits the action.
func (e *Engine) emitLaunch(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, op Op, rec *opRec, w, arg0 int) *Action {
	gangs := len(e.gangs) > 0
	for _, p := range r.f.Preds(gt) {
		if t := &e.tasks.at[r.tbase+taskID(p)]; t.where == issued {
			if gangs {
				if g := e.gangs[r.task(graph.TaskID(p))]; g != nil {
					e.waitGang(g)
					continue
				}
			}
			e.waits = append(e.waits, Op{t.lane, t.seq})
		}
	}
	waits := e.waits[w:len(e.waits):len(e.waits)]
	d := &e.devs[dev]
	timeout := r.timeout
	if r.f.Timed {
		timeout = cmp.Or(r.g.Task(gt).Timeout, timeout)
	}
	if rec.auto = timeout == 0; rec.auto {
		timeout = d.least
	}
	if len(waits) > 0 && (d.space != hostSpace || timeout > 0) {
		rec.waits = append(rec.waits, waits...)
	}
	if timeout > 0 {
		e.setTimeout(op, rec, timeout)
	}
	d.flight++
	d.stats.Start()
	d.backlog += e.tasks.at[tid].cost
	if d.team > 0 {
		d.recent = op.Lane
		e.onTeam(op.Lane, tid, 1)
	}
	if e.contention != nil {
		e.contention.Began(dev, e.now)
	}
	a := e.out.emit(Launch)
	a.Op, a.Device, a.Run, a.Task, a.Rank, a.Graph = op, dev, r.id, gt, rec.rank, r.g
	a.Waits, a.Args = waits, e.args[arg0:len(e.args):len(e.args)]
	a.Secret, a.Compare = r.secret, r.compare || r.f.Retried && r.g.Task(gt).Retries > 0
	return a
}

// launch emits the actions for one rank of a prepared task: buffers and copies, then the
// launch with every operation it waits for.
func (e *Engine) launch(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, l Lane, rank int16, plans []useBuffer) Op {
	f := r.f
	uses := f.TaskUses(gt)
	op, rec := e.push(l) // copies go to other lanes, so rec stays where it is
	rec.task, rec.rank = tid, rank
	e.copyFor, e.copySerial = tid, e.mem.serial
	e.ops = e.ops[:0]
	arg0 := len(e.args)
	for k := range uses {
		u := &uses[k]
		if u.Rank != rank {
			continue
		}
		p := plans[k]
		p0, n := pieces(u)
		i := p.inst
		if i < 0 {
			i = e.mem.alloc(r.dataOf[u.Data], p.space, p0, n, f.Pieces[u.P0].Lo, p.bytes)
		}
		in := &e.mem.insts[i]
		first := in.at(p0)
		e.args = append(e.args, Arg{Inst(i), f.Pieces[u.P0].Lo - in.lo, p.bytes})
		e.mem.touch(i)
		switch {
		case u.R < 0:
		case p.there:
			e.waitFilled(r, first, n)
		default:
			reads := f.Reads(u)
			e.fill(i, p0, n, func(k pieceID) valueID { return r.val(reads[k]) }, forTask)
		}
		rec.args = append(rec.args, i)
		e.mem.pin(i, p0, n, 0)
		if u.W >= 0 {
			e.claim(r, f.Writes(u), first, op)
		}
	}
	e.copyFor = -1
	if work := r.shapes[f.Rows[gt].Shape].workspace; work > 0 {
		i := e.mem.alloc(-1, e.devs[dev].space, 0, 0, 0, work)
		e.mem.setSecret(i, r.secret)
		e.args = append(e.args, Arg{Inst(i), 0, work})
		rec.args = append(rec.args, i)
		e.mem.pin(i, 0, 0, 0)
	}
	w := len(e.waits)
	e.waits = append(e.waits, e.ops...)
	e.emitLaunch(tid, r, gt, dev, op, rec, w, arg0).Gang = r.shapes[f.Rows[gt].Shape].gang > 1
	return op
}

// waitFilled adds the operations that fill slots to those the launch waits for, except
// its predecessors, which emitLaunch adds.
func (e *Engine) waitFilled(r *run, first slotID, n pieceID) {
	for s := first; s < first+slotID(n); s++ {
		sl := &e.mem.slots.at[s]
		if e.mem.pending(sl.lane, sl.seq) && (!e.computes(sl.lane) || e.mem.vals.at[sl.val].run != r.slot) {
			e.ops = append(e.ops, Op{sl.lane, uint32(sl.seq)})
		}
	}
}

// claim promises slots to the values an operation will make. If a slot holds the value
// that a read-write use updates, that copy becomes the new value.
func (e *Engine) claim(r *run, writes []int32, first slotID, op Op) {
	for q, gv := range writes {
		s := first + slotID(q)
		e.mem.loseCopy(s)
		e.mem.hold(s, r.val(gv), op.Lane, e.lanes[op.Lane].count(op.Seq))
	}
}

// markIssued notes that a task is in flight and readies successors that waited for that.
func (e *Engine) markIssued(tid taskID, r *run, dev machine.DeviceID) {
	t := &e.tasks.at[tid]
	t.move(issued)
	t.dev = dev
	r.flight++
	e.inFlight++
	// Fair-queueing time advances by the service given, divided by the sum of weights.
	e.vnow += int64(float64(t.cost) * e.share)
	tasks, base := e.tasks.at, r.tbase
	for _, s := range r.f.Succs(graph.TaskID(tid - base)) {
		st := &tasks[base+taskID(s)]
		st.unissued--
		if st.unissued == 0 && st.where == waiting {
			e.makeReady(base + taskID(s))
		}
	}
}
