package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// makeReady lets a task be placed. Its key in device queues is start-time fair
// queueing over runs (a run that got little service goes first), moved forward
// by priority.
func (e *Engine) makeReady(tid taskID) {
	t := &e.tasks.at[tid]
	t.move(ready)
	t.readyAt = int64(e.now)
	if t.flags&charged != 0 { // placed anew: it has its turn already
		e.ready.push(tid)
		return
	}
	t.flags |= charged
	r := e.runs[t.run]
	gt := graph.TaskID(tid - r.tbase)
	start := max(r.vtime, e.vnow)
	r.vtime = start + e.shape(r, gt).charge
	if len(r.keys) > 0 {
		start = r.keys[gt]
	}
	t.key = start - int64(e.priority(r, gt))*agingPerPriority
	if r.ahead != nil {
		t.key = max(t.key, e.keyAhead(r, gt))
	}
	e.ready.push(tid)
}

// follow puts a run that begins behind those of its graph that have not ended.
func (e *Engine) follow(r *run) {
	if r.ahead = e.latest[r.g]; r.ahead != nil {
		r.ahead.behind = r
	}
	e.latest[r.g] = r
}

// unfollow takes a run that ends out from between those of its graph.
func (e *Engine) unfollow(r *run) {
	switch {
	case r.behind != nil:
		r.behind.ahead = r.ahead
	case r.ahead != nil:
		e.latest[r.g] = r.ahead
	default:
		delete(e.latest, r.g)
	}
	if r.ahead != nil {
		r.ahead.behind = r.behind
	}
	r.ahead, r.behind = nil, nil
}

// keyAhead returns the key of a task in the run of the same graph and standing that
// began before. Runs of one graph keep their order: they are items of a stream,
// whose later steps would wait for one another out of turn if a run fell behind for
// having been charged by another estimate of the same cost.
func (e *Engine) keyAhead(r *run, gt graph.TaskID) int64 {
	b := r.ahead
	for b != nil && (b.state != runActive || b.o.Priority != r.o.Priority || b.o.Weight != r.o.Weight) {
		b = b.ahead
	}
	if b != nil {
		if t := &e.tasks.at[b.task(gt)]; t.flags&charged != 0 {
			return t.key
		}
	}
	return math.MinInt64
}

// priority of a task, its run's included.
func (e *Engine) priority(r *run, gt graph.TaskID) int {
	if r.f.Prioritised {
		return r.g.Task(gt).Priority + r.o.Priority
	}
	return r.priority
}

// shape returns what a task has in common with others like it, with costs of
// the present epoch.
func (e *Engine) shape(r *run, gt graph.TaskID) *shape {
	sh := &r.shapes[r.f.Rows[gt].Shape]
	if sh.epoch != e.epoch {
		e.fillCosts(r, r.g.Task(gt), sh)
	}
	return sh
}

func (e *Engine) fillCosts(r *run, task *graph.Task, sh *shape) {
	sh.epoch = e.epoch
	for c := range sh.costs {
		sh.costs[c] = -1
	}
	least := time.Duration(-1)
	known := math.MaxInt
	for d := range e.m.Devices {
		c := e.view.Devices[d].Class
		if sh.costs[c] >= 0 {
			continue
		}
		can := true
		for i := range task.Steps {
			can = can && e.m.Devices[d].CanRun(task.Steps[i].Kernel)
		}
		if can {
			est := e.cost.Task(task, machine.DeviceID(d))
			sh.costs[c] = max(est.Median, 0)
			known = min(known, est.Own)
			if least < 0 || sh.costs[c] < least {
				least = sh.costs[c]
			}
		}
	}
	sh.samples = max(sh.samples, known)
	sh.charge = int64(float64(max(least, 0)) * r.unweight)
}

// place asks the policy where ready tasks go, a batch at a time.
func (e *Engine) place() {
	if e.offerAgain {
		e.offerAgain = false
		for _, tid := range e.leftOuts {
			e.tasks.at[tid].move(ready)
			e.ready.push(tid)
		}
		e.leftOuts = e.leftOuts[:0]
	}
	for e.ready.len() > 0 {
		e.view.Tasks, e.inputs, e.onlys = e.view.Tasks[:0], e.inputs[:0], e.onlys[:0]
		for e.ready.len() > 0 && len(e.view.Tasks) < e.batch {
			tid := e.ready.pop()
			t := &e.tasks.at[tid]
			r, gt := e.taskOf(tid)
			if t.where != ready || r.state != runActive {
				e.nextGang()
				continue
			}
			if t.unissued > 0 {
				t.move(waiting)
				e.passOn(r)
				continue
			}
			sh := e.shape(r, gt)
			if sh.gang > 1 {
				if e.placeGang(tid, r, gt); e.tasks.at[tid].where != issued {
					e.passOn(r)
				}
				continue
			}
			e.offer(t, r, gt, sh)
		}
		if len(e.view.Tasks) == 0 {
			continue
		}
		if e.o.Explain != nil {
			e.explain()
		}
		e.view.HostUsed = e.mem.spaces[0].used
		e.places = e.policy.Place(&e.view, e.places[:0])
		for _, d := range e.view.Dirty {
			e.devs[d].dirty = false
		}
		e.view.Dirty = e.view.Dirty[:0]
		for _, p := range e.places {
			e.enqueue(&e.view.Tasks[p.Task], p.Device, p.Finish)
		}
		if len(e.places) < len(e.view.Tasks) {
			for i := range e.view.Tasks {
				v := &e.view.Tasks[i]
				tid := e.runs[v.Run].task(v.Task)
				if e.tasks.at[tid].where == ready {
					e.unplaceable(tid)
				}
			}
		}
	}
}

// passOn lets another task in where one was to have its turn and could not use it.
func (e *Engine) passOn(r *run) {
	e.unpark(r)
	e.nextGang()
}

// offer adds a task to the view.
func (e *Engine) offer(t *task, r *run, gt graph.TaskID, sh *shape) {
	f := r.f
	at, near := e.now, machine.DeviceID(-1)
	tasks, base := e.tasks.at, r.tbase
	for _, p := range f.Preds(gt) {
		if pt := &tasks[base+taskID(p)]; pt.where == issued && time.Duration(pt.eft) >= at {
			at, near = time.Duration(pt.eft), pt.dev
		}
	}
	n := len(e.view.Tasks)
	if n == cap(e.view.Tasks) {
		e.view.Tasks = slices.Grow(e.view.Tasks, placeBatch)
	}
	e.view.Tasks = e.view.Tasks[:n+1]
	v := &e.view.Tasks[n]
	v.Run, v.Task, v.Kernel, v.Ops, v.Bytes = int32(r.slot), gt, sh.kernel, sh.ops, sh.bytes
	v.Priority, v.InputsAt, v.Cost = e.priority(r, gt), at, sh.costs
	v.Need, v.HostNeed, v.Inputs, v.Hint, v.Only = 0, 0, nil, -1, nil
	v.Near = near
	if !e.hostOnly {
		v.Need, v.HostNeed = sh.workspace, sh.workspace
		i0 := len(e.inputs)
		uses := f.TaskUses(gt)
		for k := range uses {
			bytes := f.UseBytes(&uses[k])
			v.Need += bytes
			if e.mem.data.at[r.dataOf[uses[k].Data]].home < 0 {
				v.HostNeed += bytes
			}
			for _, gv := range f.Reads(&uses[k]) {
				ev := r.val(gv)
				bytes := e.mem.vals.at[ev].bytes
				for s := e.mem.vals.at[ev].slot; s >= 0; s = e.mem.slots.at[s].next {
					e.inputs = append(e.inputs, sched.Input{Value: int32(ev), Bytes: bytes, At: e.mem.spaces[e.mem.insts[e.mem.slots.at[s].inst].space].dev})
				}
			}
		}
		v.Inputs = e.inputs[i0:len(e.inputs):len(e.inputs)]
	}
	if sh.constrained || t.avoid >= 0 {
		v.Hint, v.Only = e.constrain(t, r.g.Task(gt), v.Cost)
	}
}

// constrain turns a task's constraint, and the device it failed on, into device lists.
func (e *Engine) constrain(t *task, task *graph.Task, costs []time.Duration) (hint machine.DeviceID, only []machine.DeviceID) {
	hint = -1
	o0 := len(e.onlys)
	others := false
	for d := range e.m.Devices {
		id := machine.DeviceID(d)
		if task.On.Hint != "" && hint < 0 && Matches(&e.m.Devices[d], task.On.Hint) {
			hint = id
		}
		if !e.allowed(task, id) {
			continue
		}
		e.onlys = append(e.onlys, id)
		if vd := &e.view.Devices[d]; machine.DeviceID(d) != t.avoid && vd.Accepts && costs[vd.Class] >= 0 {
			others = true
		}
	}
	only = e.onlys[o0:len(e.onlys):len(e.onlys)]
	if only == nil {
		only = []machine.DeviceID{} // nowhere, which is not the same as anywhere
	}
	if t.avoid >= 0 && others {
		if i := slices.Index(only, t.avoid); i >= 0 {
			only = slices.Delete(only, i, i+1)
		}
	}
	return hint, only
}

// Matches reports whether a selector ("cuda:1", "cuda", "cpu", "discrete")
// means a device.
func Matches(d *machine.Device, selector string) bool {
	return selector == d.Name || selector == d.Backend || selector == d.Kind.String() ||
		strings.HasPrefix(d.Name, selector+":") || strings.HasPrefix(d.Name, selector+"/")
}

// Allows reports whether a task's constraint lets it run on a device.
func Allows(t *graph.Task, d *machine.Device) bool {
	return len(t.On.Only) == 0 || slices.ContainsFunc(t.On.Only, func(s string) bool { return Matches(d, s) })
}

// enqueue puts a placed task on its device.
func (e *Engine) enqueue(v *sched.Ready, dev machine.DeviceID, finish time.Duration) {
	r := e.runs[v.Run]
	tid := r.task(graph.TaskID(v.Task))
	t := &e.tasks.at[tid]
	vd := &e.view.Devices[dev]
	t.move(queued)
	t.dev = dev
	t.cost = int64(v.Cost[vd.Class])
	if vd.Slow != 1 {
		t.cost = int64(float64(t.cost) * vd.Slow)
	}
	t.eft = int64(finish)
	d := &e.devs[dev]
	d.load += t.cost
	d.queue.push(tid, t.key)
	e.revisit(dev)
}

// unplace moves a task that is off its device's queue already, and takes it off the
// device's account.
func (e *Engine) unplace(tid taskID, to where) {
	t := &e.tasks.at[tid]
	t.move(to)
	if t.dev < 0 {
		return
	}
	vd := &e.view.Devices[t.dev]
	vd.Queued--
	e.takeLoad(t.dev, t.cost)
	t.dev = -1
}

// replace sends a placed task back to be placed anew.
func (e *Engine) replace(tid taskID) {
	e.unplace(tid, waiting)
	e.makeReady(tid)
}

// requeueAll sends every task queued on a device back to be placed anew.
func (e *Engine) requeueAll(dev machine.DeviceID) {
	d := &e.devs[dev]
	for n := d.queue.len(); n > 0; n-- {
		e.replace(d.queue.pop().task)
	}
	d.blocked = false
}

// reoffer has queued tasks placed anew because a device joined: what waits on
// others may be better off there.
func (e *Engine) reoffer() {
	e.offerAgain = true
	for i := range e.devs {
		e.requeueAll(machine.DeviceID(i))
	}
}

// leaveOut keeps a task until something changes that may let it run.
func (e *Engine) leaveOut(tid taskID) {
	e.unplace(tid, leftOut)
	e.leftOuts = append(e.leftOuts, tid)
}

// unplaceable keeps a task no device takes at present, or fails its run when none
// ever will.
func (e *Engine) unplaceable(tid taskID) {
	r, gt := e.taskOf(tid)
	task, costs := r.g.Task(gt), e.shape(r, gt).costs
	err := ErrNoDevice
	for d := range e.devs {
		vd := &e.view.Devices[d]
		if costs[vd.Class] < 0 || !e.allowed(task, machine.DeviceID(d)) {
			continue
		}
		if e.devs[d].state == Broken {
			if e.devs[d].cause != nil && !errors.Is(err, ErrOutOfMemory) {
				err = fmt.Errorf("%w: %w", err, e.devs[d].cause)
			}
			continue
		}
		if e.mayHold(machine.DeviceID(d), e.need(r, gt, e.devs[d].space)) {
			e.leaveOut(tid)
			e.unpark(r)
			return
		}
		err = fmt.Errorf("%w: it needs %s, and %s may use %s", ErrOutOfMemory,
			text.FormatSize(e.need(r, gt, e.devs[d].space)), e.m.Devices[d].Name, text.FormatSize(vd.CapBytes))
	}
	e.fail(r, e.taskErr(r, gt, -1, err))
}

func (e *Engine) allowed(t *graph.Task, dev machine.DeviceID) bool {
	return Allows(t, &e.m.Devices[dev])
}

// need is the memory a task takes of a device's. In host memory, what has a home
// takes none: the caller's memory is there.
func (e *Engine) need(r *run, gt graph.TaskID, space spaceID) int64 {
	n := r.shapes[r.f.Rows[gt].Shape].workspace
	uses := r.f.TaskUses(gt)
	for k := range uses {
		if space != 0 || e.mem.data.at[r.dataOf[uses[k].Data]].home < 0 {
			n += r.f.UseBytes(&uses[k])
		}
	}
	return n
}

// drift corrects what is predicted of a device by what is left on it.
func (e *Engine) takeLoad(dev machine.DeviceID, cost int64) {
	e.devs[dev].load -= cost
	e.freeAt(dev)
	e.dirty(dev)
}

// freeAt predicts when a device, and those that compute on the same cores, will
// have done what they have.
func (e *Engine) freeAt(dev machine.DeviceID) {
	vd := &e.view.Devices[dev]
	vd.FreeAt = e.now + e.devs[dev].left()
	if vd.Crowd == 0 {
		return
	}
	c := &e.view.Crowds[vd.Crowd-1]
	all := time.Duration(0)
	for _, o := range c.Devices {
		all += time.Duration(float64(e.devs[o].left()) * c.Share(o))
	}
	for _, o := range c.Devices {
		e.view.Devices[o].FreeAt = e.now + max(e.devs[o].left(), all)
		e.dirty(o)
	}
}

// left is how long a device is predicted to need for what it has.
func (d *device) left() time.Duration { return time.Duration(d.perLane(d.load)) }

// updateFreeAt does what drift does for devices whose load changed while events were
// taken in, once for all of them.
func (e *Engine) updateFreeAt() {
	for _, dev := range e.loadChanged {
		e.devs[dev].loadChanged = false
		e.freeAt(dev)
	}
	e.loadChanged = e.loadChanged[:0]
}

// dirty tells the policy that a device's state changed behind its back.
func (e *Engine) dirty(dev machine.DeviceID) {
	if d := &e.devs[dev]; !d.dirty {
		d.dirty = true
		e.view.Dirty = append(e.view.Dirty, dev)
	}
}

// stealFor lets a device with nothing left take a queued task from another, when
// the policy names a victim and the thief would be done sooner. It takes the one
// that is next, mostly the largest: what is small is left for the end, when devices
// differ by no more than that. Where that one cannot begin, as it waits for the victim's
// own task mostly, or the thief is slow, it may manage the last one at least.
func (e *Engine) stealFor(thief machine.DeviceID) bool {
	if e.devs[thief].state != Healthy || !e.view.Devices[thief].Accepts {
		return false
	}
	e.lag()
	from := e.steal.Steal(&e.view, thief)
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

// inTurn lets a device about to begin a task take another one that was to begin
// before it, where both use host memory: one that is next on a device which will not
// get to it for half as long as it takes, and would end it later. So large tasks are
// begun before small ones also when some devices turn out to be slow, and no large
// one is left for the end. What a core has of a task in its cache is lost, so this
// is for long ones.
func (e *Engine) inTurn(dev machine.DeviceID) {
	d := &e.devs[dev]
	first, from, cost := d.queue.next(), dev, time.Duration(0)
	if e.steal == nil || d.space != 0 || e.queuedTasks == d.queue.len() || e.tasks.at[first.task].cost < longTurn {
		return
	}
	if d.state != Healthy || !e.view.Devices[dev].Accepts {
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
	e.settle(first.task, r, gt, from, dev, cost)
	e.tasks.at[first.task].eft = int64(e.now + begins + cost) // what was queued here comes after it
}

// longTurn is from how long tasks are begun in turn.
const longTurn = int64(time.Millisecond)

// remains predicts how long it will be before a device can begin another task. What
// takes longer than it was to may end at any time, or be far from it: the more so the
// longer it has taken.
func (e *Engine) remains(d *device) time.Duration {
	least := time.Duration(math.MaxInt64)
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		if ln.issued == ln.done {
			return 0
		}
		since := e.now - ln.head
		least = min(least, max(time.Duration(d.perLane(d.backlog))-since, since/4))
	}
	return least
}

// canBegin reports whether a queued task would not have to wait for more than its turn
// on a device: nothing before it is in flight, its run may have another in flight, and
// in host memory, of which nothing is evicted, there is room as things are.
func (e *Engine) canBegin(tid taskID, dev machine.DeviceID) bool {
	r, gt := e.taskOf(tid)
	if _, waits := e.awaited(r, gt); waits || r.full() {
		return false
	}
	s := &e.mem.spaces[0]
	return e.devs[dev].space != 0 || s.cap == 0 || s.used+e.need(r, gt, 0) <= s.cap
}

// awaited predicts when what a task waits for will have ended, and reports whether
// any of it is in flight.
func (e *Engine) awaited(r *run, gt graph.TaskID) (at time.Duration, waits bool) {
	at = e.now
	for _, p := range r.f.Preds(gt) {
		if t := &e.tasks.at[r.task(graph.TaskID(p))]; t.where == issued {
			at, waits = max(at, time.Duration(t.eft)), true
		}
	}
	return at, waits
}

// lag corrects what is predicted of devices whose tasks take longer than they
// were to: those behind them are still to be done, and not before what runs.
func (e *Engine) lag() {
	for i := range e.devs {
		d, vd := &e.devs[i], &e.view.Devices[i]
		if at := e.now + time.Duration(d.perLane(d.load-d.backlog)) + 1; d.queue.len() > 0 && at > vd.FreeAt {
			vd.FreeAt = at
			e.dirty(machine.DeviceID(i))
		}
	}
}

// moveTask moves a task taken off a device's queue to another device if it can run
// and would end there before the first is through; atOnce, only if it can begin.
func (e *Engine) moveTask(k keyed, from, to machine.DeviceID, atOnce bool) bool {
	r, gt := e.taskOf(k.task)
	cost, ok := e.movable(k.task, to)
	at, _ := e.awaited(r, gt)
	if !ok || atOnce && !e.canBegin(k.task, to) || max(e.view.Devices[to].FreeAt, at)+cost >= e.view.Devices[from].FreeAt {
		return false
	}
	e.unplace(k.task, queued)
	e.settle(k.task, r, gt, from, to, cost)
	return true
}

// movable returns how long a task that is queued elsewhere would take on a device, and
// whether it can run there. Where it failed before it cannot.
func (e *Engine) movable(tid taskID, to machine.DeviceID) (cost time.Duration, ok bool) {
	r, gt := e.taskOf(tid)
	vd := &e.view.Devices[to]
	c := e.shape(r, gt).costs[vd.Class]
	ok = c >= 0 && r.state == runActive && e.tasks.at[tid].avoid != to &&
		e.need(r, gt, e.devs[to].space) <= vd.CapBytes && e.allowed(r.g.Task(gt), to)
	return time.Duration(float64(c) * vd.Slow), ok
}

// settle puts a task taken off one device's queue on another's.
func (e *Engine) settle(tid taskID, r *run, gt graph.TaskID, from, to machine.DeviceID, cost time.Duration) {
	t := &e.tasks.at[tid]
	vd := &e.view.Devices[to]
	vd.FreeAt = max(vd.FreeAt, e.now) + cost
	vd.Queued++
	e.view.Delay(to, cost)
	e.devs[to].load += int64(cost)
	t.dev, t.cost, t.eft = to, int64(cost), int64(vd.FreeAt)
	e.dirty(to)
	e.devs[to].queue.push(tid, t.key)
	e.revisit(to)
	r.report.Moves++
	e.tr.Record(trace.Event{Kind: trace.Move, Device: to, From: from, Run: int32(r.id), Task: gt, Start: e.now, End: e.now})
}

// placeGang issues a gang on the devices that are free soonest, all or none. A gang goes
// past the lanes' credits: since all its launches are issued at once and lanes keep
// order, two gangs can never wait for each other.
func (e *Engine) placeGang(tid taskID, r *run, gt graph.TaskID) {
	switch {
	case r.full():
		e.park(tid, r)
		return
	case e.full():
		e.tasks.at[tid].move(gangLined)
		e.gangLine.push(tid)
		return
	}
	size, costs := r.g.Task(gt).Gang, e.shape(r, gt).costs
	devs, possible, err := e.gangDevices(r, gt)
	if possible < size {
		e.fail(r, e.taskErr(r, gt, -1, err))
		return
	}
	if len(devs) < size {
		e.leaveOut(tid)
		return
	}
	slices.SortStableFunc(devs, func(a, b machine.DeviceID) int {
		return int(min(max(e.view.Devices[a].FreeAt-e.view.Devices[b].FreeAt, -1), 1))
	})
	devs = devs[:size]
	slices.Sort(devs)
	var cost time.Duration
	e.mem.beginIssue()
	e.plans = e.plans[:0]
	taken := make(map[spaceID]int64)
	for rank, dev := range devs {
		vd := &e.view.Devices[dev]
		cost = max(cost, time.Duration(float64(costs[vd.Class])*vd.Slow))
		space := e.devs[dev].space
		v, need := e.prepare(tid, r, gt, dev, int16(rank), room{taken[space], taken[0]})
		if v == noMemory {
			e.leaveOut(tid)
			e.gangWaits = true
		}
		if v != issuedOK {
			return
		}
		taken[space] += need.here
		taken[0] += need.host
	}
	plans := slices.Clone(e.plans)
	e.tasks.at[tid].cost = int64(cost)
	g := &gang{devs: devs, left: len(devs)}
	at := e.now
	n := len(r.f.TaskUses(gt))
	for rank, dev := range devs {
		l := e.devs[dev].lanes[0]
		op := e.launch(tid, r, gt, dev, l, int16(rank), plans[rank*n:rank*n+n])
		g.ops = append(g.ops, op)
		e.tasks.at[tid].lane, e.tasks.at[tid].seq = l, op.Seq
		vd := &e.view.Devices[dev]
		vd.FreeAt = max(vd.FreeAt, e.now) + cost
		vd.Queued++
		e.view.Delay(dev, cost)
		e.devs[dev].load += int64(cost)
		at = max(at, vd.FreeAt)
		e.dirty(dev)
	}
	e.tasks.at[tid].eft = int64(at)
	e.gangs[tid] = g
	e.markIssued(tid, r, devs[len(devs)-1])
}

// gangDevices returns the devices that a member of a gang can run on now and all the gang
// reads can be brought to, how many there may be in time, and why there are no more.
func (e *Engine) gangDevices(r *run, gt graph.TaskID) (devs []machine.DeviceID, possible int, why error) {
	task, costs := r.g.Task(gt), e.shape(r, gt).costs
	why = ErrNoDevice
	for d := range e.devs {
		vd := &e.view.Devices[d]
		switch {
		case costs[vd.Class] < 0 || !e.allowed(task, machine.DeviceID(d)):
		case e.devs[d].state == Broken:
			if e.devs[d].cause != nil {
				why = fmt.Errorf("%w: %w", why, e.devs[d].cause)
			}
		case !e.hostOnly && !e.reaches(r, gt, e.devs[d].space):
			why = fmt.Errorf("%w: no link leads from where its data is", ErrNoDevice)
		default:
			possible++
			if vd.Accepts {
				devs = append(devs, machine.DeviceID(d))
			}
		}
	}
	return devs, possible, why
}

// explain reports why each offered task goes where it goes.
func (e *Engine) explain() {
	x, ok := e.policy.(sched.Explainer)
	if !ok {
		return
	}
	for i := range e.view.Tasks {
		ex := x.Explain(&e.view, i)
		r := e.runs[e.view.Tasks[i].Run]
		ex.Task = r.g.TaskName(e.view.Tasks[i].Task)
		e.o.Explain(ex)
	}
}

// purge takes the tasks of a failed run out of every queue, and with them those
// of the failed runs that are about to end: to look through the queues for each
// would take the square of how many there are.
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
