package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// Issuing gives a task to a device: memory for what it makes, copies of what it
// reads, then the launch with everything it has to wait for. It happens all at
// once or not at all, so a task that waits for memory holds none.

// plan is what issuing will do for one use.
type plan struct {
	inst  Inst // existing instance, or -1: a new one
	there bool // and it holds all that is read
	bytes int64
	space spaceID
}

// gang is a task in flight on several devices.
type gang struct {
	ops    []Op
	devs   []machine.DeviceID
	left   int
	status Status
	err    error
	failed machine.DeviceID // where, unless status is OK
	start  time.Duration
	// withdrawn says that a member failed, failedAt when: what follows waits for
	// another attempt.
	withdrawn bool
	failedAt  time.Duration
	// lost says that a memory was lost that held what a member made or was to make.
	lost bool
}

// gang returns the gang a task is in flight as, nil for an ordinary task.
func (e *Engine) gang(tid taskID) *gang {
	if len(e.gangs) == 0 {
		return nil
	}
	return e.gangs[tid]
}

// maxDepth keeps the count of a chain of volatile updates, which nothing
// commits, from running over.
const maxDepth = 1<<15 - 2

// Which executions the cost model learns from: the first few of a shape, every
// one that takes long enough to pay for it, and a sample of the rest.
const (
	learnAll    = 32
	learnEvery  = 127 // a prime, lest it falls in step with a graph
	learnAlways = 20 * time.Microsecond
)

type verdict uint8

const (
	issuedOK verdict = iota
	setAside         // it waits for something else now and is off the queue
	noMemory         // keep it at the head of the queue until memory frees up
)

// issueAll issues from the queues of devices that changed, as far as credits
// and memory go; one that has nothing left may take a task from another.
func (e *Engine) issueAll() {
	for n := 0; n < len(e.revisits) || e.resume(); n++ {
		dev := e.revisits[n]
		d := &e.devs[dev]
		d.revisit = false
		if d.blocked || !e.working(d) {
			continue
		}
		for {
			none := d.queue.len() == 0
			if none && (e.steal == nil || e.queuedTasks == 0 || d.flight > 0) {
				break
			}
			if e.full() {
				if !none && !d.limited {
					d.limited = true
					e.limited.push(dev)
				}
				break
			}
			l, ok := e.credit(d)
			if !ok || none && !e.stealFor(dev) {
				break
			}
			if !none {
				e.inTurn(dev)
			}
			if !e.issueNext(dev, l) {
				e.block(dev)
				break
			}
		}
	}
	e.revisits = e.revisits[:0]
}

// full reports whether as many tasks are in flight as may be.
func (e *Engine) full() bool { return e.o.MaxInFlight > 0 && e.inFlight >= e.o.MaxInFlight }

// resume has the device looked at that has waited longest for fewer tasks to be in
// flight, once they are, and reports whether there is one.
func (e *Engine) resume() bool {
	for e.limited.len() > 0 && !e.full() {
		e.visit(1)
		dev := e.limited.pop()
		e.devs[dev].limited = false
		if e.devs[dev].queue.len() > 0 && !e.devs[dev].revisit {
			e.revisit(dev)
			return true
		}
	}
	return false
}

// working reports whether a device takes operations at all.
func (e *Engine) working(d *device) bool { return d.state == Healthy || d.state == Draining }

// credit returns a lane that may take another task.
func (e *Engine) credit(d *device) (Lane, bool) {
	best, least := Lane(-1), uint64(1<<31)
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		if n := e.lanes[l].issued - e.lanes[l].done; n < least {
			best, least = l, n
		}
	}
	backlog := d.perLane(d.backlog)
	switch {
	case least == 0, int(least) < e.o.Depth && backlog < int64(e.o.Ahead):
		return best, true
	case d.space == 0 && backlog >= longHaul && (len(e.devs) > 1 || len(e.byID) > 1):
		return 0, false
	}
	return best, least == 1
}

// longHaul is from how long a task in flight on a device that uses host memory is
// alone there: nothing is copied meanwhile for the next one, which can still go to
// another device if this one turns out to be slow, and of another run end at once
// when that is cancelled. To hear of the one and give the other takes some tens of
// microseconds.
const longHaul = int64(2 * time.Millisecond)

// perLane divides predicted work among a device's lanes.
func (d *device) perLane(ns int64) int64 {
	if n := int64(d.lanes[1] - d.lanes[0]); n > 1 {
		return ns / n
	}
	return ns
}

// tryIssue issues a placed task on a lane of its device.
func (e *Engine) tryIssue(tid taskID, dev machine.DeviceID, l Lane) verdict {
	r, gt := e.taskOf(tid)
	if r.state != runActive {
		e.unplace(tid, waiting)
		return setAside
	}
	if e.tasks.at[tid].unissued > 0 { // a predecessor failed meanwhile
		e.unplace(tid, waiting)
		e.unpark(r)
		return setAside
	}
	if r.full() {
		e.park(tid, r)
		return setAside
	}
	op, quick := e.launchQuick(tid, r, gt, dev, l)
	if !quick {
		e.mem.beginIssue()
		e.plans = e.plans[:0]
		if v, _ := e.prepare(tid, r, gt, dev, 0, room{}); v != issuedOK {
			e.unpark(r)
			return v
		}
		op = e.launch(tid, r, gt, dev, l, 0, e.plans)
	}
	t := &e.tasks.at[tid]
	t.lane, t.seq = op.Lane, op.Seq
	e.markIssued(tid, r, dev)
	if d := &e.devs[dev]; d.space != 0 && r.owed > 0 && d.perLane(d.backlog) <= shortHaul {
		e.followHome(r, gt)
	}
	return issuedOK
}

// launchQuick issues a plain task in one pass, when what it reads is already in
// its device's memory or on the way there. It returns false, having done
// nothing, when the task is not like that; prepare and launch then do it step
// by step.
func (e *Engine) launchQuick(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, l Lane) (Op, bool) {
	f := r.f
	row := &f.Rows[gt]
	if !row.Plain || e.mem.away > 0 {
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
		// What a task of this run makes is waited for as a predecessor.
		if (val.run != r.slot || !e.computes(sl.lane)) && e.mem.pending(sl.lane, sl.seq) {
			e.waits = append(e.waits, Op{sl.lane, uint32(sl.seq)})
		}
	}
	// Mostly there is room without a closer look.
	if sp := &e.mem.spaces[space]; sp.used+e.mem.idle.bytes+need > sp.cap && !e.mem.fits(space, need) {
		e.waits = e.waits[:w]
		return Op{}, false
	}
	e.args = e.args[:arg0+len(uses)]
	op, rec := e.push(l)
	rec.task, rec.quick = tid, true
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
	// Nothing is evicted from host memory, and what a plain task uses there is
	// kept by its readers: only device memory, and what others may update in
	// place, needs pins.
	if space != 0 || r.volatile {
		e.pinQuick(rec, uses, args, r)
	}
	e.emitLaunch(tid, r, gt, dev, op, rec, w, arg0)
	return op, true
}

// pinQuick pins the slots a plain launch uses.
func (e *Engine) pinQuick(rec *opRec, uses []graph.PlainUse, args []Arg, r *run) {
	for k := range args {
		s := e.mem.insts[args[k].Inst].at(e.mem.vals.at[r.val(uses[k].V)].piece)
		e.mem.pinSlot(s)
		rec.slots = append(rec.slots, s)
	}
}

// emitLaunch completes a launch with what it waits for and hands it over.
func (e *Engine) emitLaunch(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, op Op, rec *opRec, w, arg0 int) *Action {
	tasks := e.tasks.at[r.tbase:]
	gangs := len(e.gangs) > 0
	for _, p := range r.f.Preds(gt) {
		if t := &tasks[p]; t.where == issued {
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
	if d.space != 0 {
		rec.waits = append(rec.waits, waits...)
	}
	if r.timed {
		if rec.timeout, rec.auto = e.timeout(r, gt, dev); rec.timeout > 0 {
			if d.space == 0 {
				rec.waits = append(rec.waits, waits...)
			}
			e.timedOps++
			ln := &e.lanes[op.Lane]
			if ln.timed++; op.Seq == uint32(ln.done+1) {
				e.watchLane(op.Lane)
			}
		}
	}
	d.flight++
	d.stats.Start()
	d.backlog += e.tasks.at[tid].cost
	if e.contention != nil {
		e.contention.Began(dev, e.now)
	}
	a := e.out.emit(Launch)
	a.Op, a.Device, a.Run, a.Task, a.Rank, a.Graph = op, dev, r.id, gt, rec.rank, r.g
	a.Waits, a.Args = waits, e.args[arg0:len(e.args):len(e.args)]
	return a
}

// waitGang adds the members of a gang to what a launch waits for: those in flight,
// since the board may forget how one ended that the engine has heard of.
func (e *Engine) waitGang(g *gang) {
	for _, op := range g.ops {
		if e.mem.pending(op.Lane, e.lanes[op.Lane].count(op.Seq)) {
			e.waits = append(e.waits, op)
		}
	}
}

// room is how many bytes of a device's memory and of host memory are wanted.
type room struct{ here, host int64 }

// prepare checks inputs and makes room for one rank of a task beside what is taken
// already, appending its plans to e.plans. It returns the room made; what comes
// through host memory on its way takes room there.
func (e *Engine) prepare(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, rank int16, taken room) (verdict, room) {
	f := r.f
	uses := f.TaskUses(gt)
	space := e.devs[dev].space
	missing := false
	need := room{}
	for k := range uses {
		u := &uses[k]
		staging := int64(0)
		for _, gv := range f.Reads(u) {
			v := r.val(gv)
			if e.mem.vals.at[v].slot < 0 || e.mem.away > 0 && !e.mem.have(v) {
				missing = true
				e.recoverValue(v)
			} else if !e.hostOnly && u.Rank == rank {
				s := e.source(v, space)
				if s < 0 {
					e.goElsewhere(tid, r, gt, dev)
					return setAside, room{}
				}
				if e.staged(v, e.mem.insts[e.mem.slots.at[s].inst].space, space) {
					staging += e.mem.vals.at[v].bytes
				}
			}
			if r.state != runActive {
				return setAside, room{}
			}
		}
		if p0, n := pieces(u); staging > 0 && e.mem.findVacant(r.dataOf[u.Data], hostSpace, p0, n) < 0 {
			need.host += staging
		}
		for _, gv := range f.Writes(u) {
			// At most two versions: the one before last must have been made and read.
			// But not where this was made before: who reads that version again may
			// need what this makes again.
			if prev := f.Values[gv].Prev; prev >= 0 && f.Values[prev].Prev >= 0 && e.mem.data.at[r.dataOf[u.Data]].kind != graph.Volatile &&
				e.tasks.at[tid].flags&replayed == 0 {
				if pp := r.val(f.Values[prev].Prev); e.mem.vals.at[pp].reads > 0 || e.mem.vals.at[pp].flags&produced == 0 {
					e.behindReaders[pp] = append(e.behindReaders[pp], tid)
					e.unplace(tid, behindReaders)
					return setAside, room{}
				}
			}
		}
	}
	if missing {
		if e.tasks.at[tid].unissued > 0 {
			e.unplace(tid, waiting)
		} else { // for another run to make the value, or a device to bring it back
			e.leaveOut(tid)
		}
		return setAside, room{}
	}
	base := len(e.plans)
	need.here = e.planUses(r, gt, rank, space, false)
	if e.makeRoom(space, need, taken) {
		return issuedOK, need
	}
	if e.effort >= compact && e.flying == 0 {
		if space != 0 { // nothing is evicted from host memory, so it stays in what there is
			for _, p := range e.plans[base:] {
				if p.inst >= 0 {
					e.mem.unreserve(p.inst)
				}
			}
			e.plans = e.plans[:base]
			need.here = e.planUses(r, gt, rank, space, true)
			if e.makeRoom(space, need, taken) {
				return issuedOK, need
			}
		}
		short, bytes := space, taken.here+need.here
		if need.host > 0 && !e.mem.fits(0, taken.host+need.host) {
			short, bytes = 0, taken.host+need.host
		}
		if e.flying == 0 && !e.squeeze(short) && e.lastResort() {
			e.effort = usual
			e.fail(r, e.taskErr(r, gt, dev, e.outOfMemory(short, bytes)))
			e.unplace(tid, waiting)
			return setAside, room{}
		}
	}
	return noMemory, room{}
}

// planUses plans one rank of a task and returns how many bytes it takes. With exact
// it uses no buffer larger than the use, so that all else can be given up for it: the
// task then has room wherever the sum of its uses has.
func (e *Engine) planUses(r *run, gt graph.TaskID, rank int16, space spaceID, exact bool) int64 {
	need := r.shapes[r.f.Rows[gt].Shape].workspace
	uses := r.f.TaskUses(gt)
	for k := range uses {
		u := &uses[k]
		if u.Rank != rank {
			e.plans = append(e.plans, plan{inst: -1})
			continue
		}
		p := e.planUse(r, u, space, exact)
		if p.inst >= 0 {
			e.mem.reserve(p.inst)
		} else {
			need += p.bytes
		}
		e.plans = append(e.plans, p)
	}
	return need
}

// makeRoom reports whether a task has room, beside what is taken, and starts to make
// some where it has not.
func (e *Engine) makeRoom(space spaceID, need, taken room) bool {
	return (need.here == 0 || e.room(space, taken.here+need.here)) && (need.host == 0 || e.mem.fits(0, taken.host+need.host))
}

// goElsewhere has a task placed anew, one of whose values is beyond reach from its
// device: where all it reads is within reach, once there is such a device.
func (e *Engine) goElsewhere(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID) {
	task, costs := r.g.Task(gt), e.shape(r, gt).costs
	ever := false
	for d := range e.devs {
		vd := &e.view.Devices[d]
		if costs[vd.Class] < 0 || e.devs[d].state == Broken || !e.allowed(task, machine.DeviceID(d)) || !e.reaches(r, gt, e.devs[d].space) {
			continue
		}
		if ever = true; vd.Accepts {
			e.tasks.at[tid].avoid = dev
			e.replace(tid)
			return
		}
	}
	if !ever {
		e.unplace(tid, waiting)
		e.fail(r, e.taskErr(r, gt, dev, fmt.Errorf("%w: no link leads from where its data is", ErrNoDevice)))
		return
	}
	e.leaveOut(tid)
}

// reaches reports whether a way leads to a memory from all a task reads that is
// anywhere.
func (e *Engine) reaches(r *run, gt graph.TaskID, space spaceID) bool {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Reads(&uses[k]) {
			if v := r.val(gv); e.mem.have(v) && e.source(v, space) < 0 {
				return false
			}
		}
	}
	return true
}

// planUse decides which buffer a use gets.
func (e *Engine) planUse(r *run, u *graph.FlowUse, space spaceID, exact bool) plan {
	f := r.f
	d := r.dataOf[u.Data]
	p0, n := pieces(u)
	bytes := f.UseBytes(u)
	if u.R >= 0 {
		// An instance here that holds, or may be given, all it reads.
		reads := f.Reads(u)
		fillable := Inst(-1)
		for c := e.mem.covering(d, p0, n); c.inst >= 0; e.mem.nextCover(&c) {
			i := c.inst
			in := &e.mem.insts[i]
			if !in.covers(space, p0, n) || exact && in.n > n {
				continue
			}
			has, can, sole := true, true, true
			for k := range n {
				s := in.at(p0 + k)
				sl := &e.mem.slots.at[s]
				v := r.val(reads[k])
				if sl.val == v {
					if u.W >= 0 && (sl.copying > 0 || in.home && e.mem.data.at[d].fixed || !e.mayOverwrite(v, s, d)) {
						sole = false
					}
					continue
				}
				has = false
				if sl.val >= 0 || sl.pins > 0 {
					can = false
				}
			}
			if has && (u.W < 0 || sole) {
				return plan{inst: i, there: true, bytes: bytes, space: space}
			}
			if u.W < 0 && can && fillable < 0 && !(in.home && e.mem.data.at[d].fixed) {
				fillable = i
			}
		}
		if u.W < 0 {
			return plan{inst: fillable, bytes: bytes, space: space}
		}
	}
	if exact {
		return plan{inst: -1, bytes: bytes, space: space}
	}
	return plan{inst: e.mem.findVacant(d, space, p0, n), bytes: bytes, space: space}
}

// mayOverwrite reports whether updating a value in place keeps the promise of
// its durability: volatile data promises nothing, but other data may be computed
// again from what of it is in host memory alone; versioned data must have another
// copy in host memory to go back to, and no other reader.
func (e *Engine) mayOverwrite(v valueID, s slotID, d dataID) bool {
	val := &e.mem.vals.at[v]
	if e.mem.data.at[d].kind == graph.Volatile {
		if !e.hostOnly && val.flags&anchored != 0 && (val.deps > 0 || val.reads > 1) && !e.mem.wholeInHost(v, s) {
			return false
		}
		return val.flags&current == 0 || val.reads <= 1
	}
	return val.reads == 1 && val.flags&current == 0 && e.mem.slots.at[s].pins == 0 && e.mem.wholeInHost(v, s)
}

// launch emits the actions for one rank of a task prepared before: buffers and
// copies, then the launch itself with all it has to wait for.
func (e *Engine) launch(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, l Lane, rank int16, plans []plan) Op {
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
		e.args = append(e.args, Arg{Inst(i), 0, work})
		rec.args = append(rec.args, i)
		e.mem.pin(i, 0, 0, 0)
	}
	w := len(e.waits)
	e.waits = append(e.waits, e.ops...)
	e.emitLaunch(tid, r, gt, dev, op, rec, w, arg0).Gang = r.shapes[f.Rows[gt].Shape].gang > 1
	return op
}

// waitFilled adds what fills slots to what the launch waits for, apart from its
// own predecessors, which it waits for anyway.
func (e *Engine) waitFilled(r *run, first slotID, n pieceID) {
	for s := first; s < first+slotID(n); s++ {
		sl := &e.mem.slots.at[s]
		if e.mem.pending(sl.lane, sl.seq) && (!e.computes(sl.lane) || e.mem.vals.at[sl.val].run != r.slot) {
			e.ops = append(e.ops, Op{sl.lane, uint32(sl.seq)})
		}
	}
}

// claim promises slots to the values an operation will make. Where a slot holds
// the value a read-write use updates, that copy becomes the new value.
func (e *Engine) claim(r *run, writes []int32, first slotID, op Op) {
	for q, gv := range writes {
		s := first + slotID(q)
		e.mem.loseCopy(s)
		e.mem.hold(s, r.val(gv), op.Lane, e.lanes[op.Lane].count(op.Seq))
	}
}

// markIssued moves a task into flight and tells its successors.
func (e *Engine) markIssued(tid taskID, r *run, dev machine.DeviceID) {
	t := &e.tasks.at[tid]
	t.move(issued)
	t.dev = dev
	r.flight++
	e.inFlight++
	// Virtual time goes on by the service given, shared among those who want it.
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

// unissue takes a task out of flight again after a failure; g is its gang, or nil.
func (e *Engine) unissue(tid taskID, r *run, g *gang) {
	t := &e.tasks.at[tid]
	t.move(waiting)
	t.dev = -1
	if g == nil || !g.withdrawn {
		e.withdrawn(tid, r)
	}
	e.landed(r)
}

// withdrawn tells the successors of a task that it is neither issued nor done
// any more. Those already in flight come back by themselves; those ready or
// queued are set aside when they are to be issued.
func (e *Engine) withdrawn(tid taskID, r *run) {
	for _, s := range r.f.Succs(graph.TaskID(tid - r.tbase)) {
		st := &e.tasks.at[r.task(graph.TaskID(s))]
		st.unissued++
	}
}

// opDone takes the completion of an operation.
func (e *Engine) opDone(ev *Event) {
	ln := &e.lanes[ev.Op.Lane]
	seq := ln.count(ev.Op.Seq)
	if seq <= ln.lost || seq <= ln.done {
		if len(e.detached) > 0 {
			e.endDetached(ev)
		}
		return // else of a device that was given up on
	}
	if seq != ln.done+1 {
		panic("engine: completions out of order")
	}
	e.finish(ev.Op, ev.Status, ev.Err, ev.Start, ev.End)
}

// finish ends the oldest operation of a lane.
func (e *Engine) finish(op Op, st Status, err error, start, end time.Duration) {
	ln := &e.lanes[op.Lane]
	rec := ln.rec(ln.done + 1)
	ln.done++
	e.flying--
	ln.head, ln.last = e.now, e.now
	if rec.timeout > 0 {
		ln.timed--
		e.timedOps--
	}
	if ln.timed > 0 {
		e.watchLane(op.Lane)
	}
	if len(ln.watchers) > 0 {
		for _, l := range ln.watchers {
			e.watchLane(l)
		}
		ln.watchers = ln.watchers[:0]
	}
	if dev := ln.info.Device; dev >= 0 {
		e.revisit(dev)
	}
	if rec.task < 0 {
		if st == OK || st == DepFailed {
			err = nil
		} else {
			err = e.copyBroke(rec, st, err)
		}
		e.copyDone(op, rec, st == OK, err, start, end)
		return
	}
	e.launchDone(op, rec, st, err, start, end)
}

func (e *Engine) launchDone(op Op, rec *opRec, st Status, err error, start, end time.Duration) {
	tid := rec.task
	t := &e.tasks.at[tid]
	r := e.runs[t.run]
	gt := graph.TaskID(tid - r.tbase)
	dev := e.lanes[op.Lane].info.Device
	d := &e.devs[dev]
	d.flight--
	d.backlog -= t.cost
	d.load -= t.cost
	if !d.loadChanged {
		d.loadChanged = true
		e.loadChanged = append(e.loadChanged, dev)
		e.dirty(dev)
	}
	e.view.Devices[dev].Queued--
	ok := st == OK
	if st == Failed || st == Refused {
		d.health.faulted = true
	}
	if !rec.quick || len(rec.slots) > 0 {
		e.unpinLaunch(rec, r.f, gt)
	}
	if st != DepFailed {
		if e.contention != nil {
			e.contention.Ran(dev, start, end, e.computing(dev))
		}
		d.stats.Observe(end - start)
	} else {
		if e.contention != nil {
			e.contention.Ran(dev, e.now, e.now, e.computing(dev))
		}
		d.stats.Active--
	}
	// A gang counts as a whole, when its last member ends.
	g := e.gang(tid)
	if g != nil {
		if !ok && (g.status == OK || g.status == DepFailed) { // the first that failed by itself
			g.status, g.err, g.failed = st, err, dev
		}
		if g.left == len(g.ops) || start > g.start {
			g.start = start
		}
		g.left--
		if g.left > 0 {
			if !ok { // its part will never be there
				e.voidOutputs(r, gt, []Op{op}, false)
				if !g.withdrawn {
					g.withdrawn, g.failedAt = true, e.now
					e.withdrawn(tid, r)
				}
			}
			return
		}
		st, err, ok, start = g.status, g.err, g.status == OK, g.start
		delete(e.gangs, tid)
		if ok && g.lost && e.lostResult(r, gt) {
			st, ok, g.failed = DepFailed, false, dev
		}
	}
	if e.tr != nil {
		e.recordExec(op, rec, r, t, ok, start, end)
	}
	if !ok {
		// The first time round every copy of a result stems from this execution;
		// of a replay, other results may have copies that are still good.
		ops, failed := []Op{op}, dev
		if g != nil {
			ops, failed = g.ops, g.failed
		}
		e.voidOutputs(r, gt, ops, e.tasks.at[tid].flags&replayed == 0)
		e.unissue(tid, r, g)
		e.taskFailed(tid, r, gt, failed, st, err)
		return
	}
	e.succeeded(tid, r, gt, dev, start, end)
}

// lostResult reports whether something a gang made is needed and nowhere, after a
// member's device was lost when that member had ended and others had not. Without a loss
// a task behind the gang may be updating it in place.
func (e *Engine) lostResult(r *run, gt graph.TaskID) bool {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Writes(&uses[k]) {
			val := &e.mem.vals.at[r.val(gv)]
			if val.slot < 0 && (val.reads > 0 || val.has(current) || val.owed()) {
				return true
			}
		}
	}
	return false
}

// recordExec keeps the execution of a task in the trace.
func (e *Engine) recordExec(op Op, rec *opRec, r *run, t *task, ok bool, start, end time.Duration) {
	info, gt := &e.lanes[op.Lane].info, graph.TaskID(rec.task-r.tbase)
	e.tr.Record(trace.Event{
		Kind: trace.Exec, Failed: !ok, Lane: uint8(info.Index), Device: info.Device, From: info.Device,
		Run: int32(r.id), Task: gt, Ready: time.Duration(t.readyAt), Issued: rec.issued,
		Start: start, End: end, InputsAt: min(e.inputsAt(rec, r, gt), start), Predicted: time.Duration(t.cost),
	})
}

// computing reports whether a device has launches in flight.
func (e *Engine) computing(dev machine.DeviceID) bool {
	for l := e.devs[dev].lanes[0]; l < e.devs[dev].lanes[1]; l++ {
		if e.lanes[l].issued > e.lanes[l].done {
			return true
		}
	}
	return false
}

// inputsAt returns when the last of a task's inputs was there.
func (e *Engine) inputsAt(rec *opRec, r *run, gt graph.TaskID) time.Duration {
	at := int64(rec.inputs)
	for _, p := range r.f.Preds(gt) {
		if pt := &e.tasks.at[r.task(graph.TaskID(p))]; pt.where == done {
			at = max(at, pt.eft)
		}
	}
	return time.Duration(at)
}

// unpinLaunch undoes a launch's pins and frees its workspace.
func (e *Engine) unpinLaunch(rec *opRec, f *graph.Flow, gt graph.TaskID) {
	if rec.quick {
		for _, s := range rec.slots {
			e.mem.unpinSlot(s)
		}
		return
	}
	a, uses := 0, f.TaskUses(gt)
	for k := range uses {
		u := &uses[k]
		if u.Rank != rec.rank {
			continue
		}
		p0, n := pieces(u)
		e.mem.unpin(rec.args[a], p0, n, 0)
		a++
	}
	if a < len(rec.args) {
		e.mem.unpin(rec.args[a], 0, 0, 0)
	}
}

// succeeded takes in what a task made and lets go of what it read.
func (e *Engine) succeeded(tid taskID, r *run, gt graph.TaskID, dev machine.DeviceID, start, end time.Duration) {
	took := end - start
	t := &e.tasks.at[tid]
	t.move(done)
	if t.flags&inputFailed != 0 {
		t.flags &^= inputFailed
		delete(e.taskCopies, tid)
	}
	expected := t.eft - t.readyAt
	t.eft = int64(end)
	r.left--
	r.report.Executed++
	dr := &r.report.Devices[dev]
	dr.Tasks++
	dr.Busy += took
	dr.Predicted += time.Duration(t.cost)
	e.devs[dev].health.failures = 0
	row := &r.f.Rows[gt]
	sh := &r.shapes[row.Shape]
	if e.isolated && sh.ran>>(uint(dev)%64)&1 == 0 && e.devs[dev].process.Own {
		e.compiledOn(dev, r.g.Task(gt), sh)
	}
	if e.learn != nil {
		// Of many short executions that are all alike a sample teaches as much.
		e.offered++
		if took > learnAlways || sh.samples < learnAll || e.offered%learnEvery == 0 {
			sh.samples++
			e.learn.Observe(r.g.Task(gt), dev, e.contention.Alone(dev, start, end))
		}
	}
	if e.watch != nil {
		e.watch.Observe(sched.Outcome{
			Kernel: sh.kernel, Ops: sh.ops, Bytes: sh.bytes, Device: dev,
			Predicted: time.Duration(t.cost), Took: took, Turnaround: e.now - time.Duration(t.readyAt),
			Expected: time.Duration(expected),
		})
	}
	if row.Plain && e.hostOnly {
		e.settlePlain(r, r.f.Plain[row.Use:r.f.Rows[gt+1].Use])
	} else {
		e.settleUses(r, gt, took)
	}
	e.landed(r)
	if r.left == 0 && r.owed == 0 || r.state == runFailing {
		e.endLater(r)
	}
}

// settleUses takes in what a task made, and lets go of what it read.
func (e *Engine) settleUses(r *run, gt graph.TaskID, took time.Duration) {
	f, uses := r.f, r.f.TaskUses(gt)
	// How long a chain it would take to make its results again.
	var depth int16
	var replay int64
	if !e.hostOnly {
		e.eachRead(r, gt, func(v valueID) {
			if val := &e.mem.vals.at[v]; val.flags&(anchored|commits) == 0 {
				depth = max(depth, val.depth)
				replay = max(replay, val.replay)
			}
		})
	}
	for k := range uses {
		u := &uses[k]
		for q := u.W; q >= 0 && q < u.W+u.P1-u.P0; q++ {
			e.produced(r.val(f.WriteVals[q]), min(depth, maxDepth)+1, replay+int64(took))
		}
	}
	for k := range uses {
		for _, gv := range f.Reads(&uses[k]) {
			v := r.val(gv)
			e.mem.vals.at[v].reads--
			e.wasRead(v)
		}
	}
}

// settlePlain does that for a plain task whose results are in host memory,
// where nothing has to be kept to make them again.
func (e *Engine) settlePlain(r *run, uses []graph.PlainUse) {
	initial, shift := r.f.NumInitial, r.shift()
	quick := len(e.leftOuts)+len(e.behindReaders) == 0
	vals := e.mem.vals.at // nothing here makes values
	for k := range uses {
		u := &uses[k]
		v := valueID(u.V) + shift
		if u.Data >= 0 {
			if val := &vals[v]; quick && val.reads > 0 && val.slot >= 0 {
				val.on(madeInHost)
			} else {
				e.produced(v, 0, 0)
			}
			continue
		}
		if u.V < initial {
			v = r.init[u.V]
		}
		val := &vals[v]
		if val.reads--; val.reads == 0 {
			e.wasRead(v)
		}
	}
}

// wasRead gives a value up, after a read of it ended, if that was the last thing
// that needed it.
func (e *Engine) wasRead(v valueID) {
	val := &e.mem.vals.at[v]
	if val.reads > 0 {
		return
	}
	if !e.mem.dropQuick(val) {
		e.maybeDrop(v)
	}
	if len(e.behindReaders) > 0 {
		e.wakeAwaiting(v)
	}
}

// landed takes a task out of flight, which may let another start.
func (e *Engine) landed(r *run) {
	r.flight--
	e.inFlight--
	e.unpark(r)
	e.nextGang()
}

// produced takes in one value a task made.
func (e *Engine) produced(v valueID, depth int16, replay int64) {
	val := &e.mem.vals.at[v]
	val.on(madeGone)
	if len(e.leftOuts) > 0 {
		e.offerAgain = true // one of them may wait for it on behalf of another run
	}
	if len(e.behindReaders) > 0 && val.reads == 0 {
		e.wakeAwaiting(v)
		val = &e.mem.vals.at[v]
	}
	if val.slot < 0 {
		// Given up on while it was being made again, or because its readers were
		// heard of before its maker, or updated in place already: what its readers
		// make may depend on it still.
		if (val.deps > 0 || val.reads > 0) && val.flags&anchored == 0 && !e.hostOnly {
			val.depth, val.replay = depth, replay
			e.count(v)
		}
		return
	}
	if e.hostOnly || e.mem.wholeInHost(v, -1) {
		val.on(madeInHost)
		val.depth, val.replay = 0, 0
	} else {
		val.on(madeOnDevice)
		val.depth, val.replay = depth, replay
	}
	if !val.needed() {
		e.maybeDrop(v)
		return
	}
	if val.flags&anchored == 0 {
		e.count(v)
		val = &e.mem.vals.at[v]
		kind := e.mem.data.at[val.data].kind
		if kind == graph.Mirrored || kind == graph.Versioned && (int(depth) >= e.o.ReplayDepth || replay > int64(e.o.ReplayBound)) {
			e.commit(v)
		}
	}
	switch val := &e.mem.vals.at[v]; {
	case val.owed():
		e.deliver(v)
	case !e.hostOnly && val.flags&anchored != 0:
		// Made again beside its home, it need not be kept there for recovery: an
		// output may be waiting for the place.
		if e.mem.data.at[val.data].home >= 0 {
			e.homeVacated(val.data, val.piece)
		}
	}
}

// voidOutputs gives up what operations that failed were going to make, with
// all every copy of it.
func (e *Engine) voidOutputs(r *run, gt graph.TaskID, ops []Op, all bool) {
	uses := r.f.TaskUses(gt)
	for k := range uses {
		for _, gv := range r.f.Writes(&uses[k]) {
			v := r.val(gv)
			for s := e.mem.vals.at[v].slot; s >= 0; {
				next := e.mem.slots.at[s].next
				sl := &e.mem.slots.at[s]
				if all || slices.ContainsFunc(ops, func(o Op) bool { return o.Lane == sl.lane && e.lanes[o.Lane].count(o.Seq) == sl.seq }) {
					i := sl.inst
					e.mem.loseCopy(s)
					e.mem.deferFree(i)
				}
				s = next
			}
		}
	}
}

func (e *Engine) wakeAwaiting(v valueID) {
	ts, ok := e.behindReaders[v]
	if !ok {
		return
	}
	delete(e.behindReaders, v)
	for _, tid := range ts {
		if e.tasks.at[tid].where == behindReaders {
			e.again(tid)
		}
	}
}

// full reports whether a run has as many tasks in flight as it may.
func (r *run) full() bool { return r.o.MaxInFlight > 0 && r.flight >= r.o.MaxInFlight }

// park sets a task aside until its run may have another in flight.
func (e *Engine) park(tid taskID, r *run) {
	e.tasks.at[tid].move(parked)
	r.parked.push(tid)
}

// unpark lets the next task of a run in that was set aside, if its run may have another
// in flight. Whoever had that chance and does not use it passes it on by calling this,
// since it may wait for the very task that was set aside.
func (e *Engine) unpark(r *run) {
	for r.parked.len() > 0 && !r.full() {
		tid := r.parked.pop()
		t := &e.tasks.at[tid]
		if t.where != parked {
			continue
		}
		if t.unissued == 0 {
			e.replace(tid)
			return
		}
		e.unplace(tid, waiting) // a predecessor failed meanwhile
	}
}

// nextGang lets the next gang in that waits for the limit of tasks in flight.
func (e *Engine) nextGang() {
	if e.gangLine.len() > 0 && !e.full() {
		tid := e.gangLine.pop()
		e.tasks.at[tid].move(ready)
		e.ready.push(tid)
	}
}
