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
)

// Placement: keys that divide devices fairly among runs, the situation that policies decide
// on, and the queues of devices.

// makeReady lets a task be placed. Its key is the start time of fair queueing over runs (a run
// that got little service goes first), moved forward by priority.
func (e *Engine) makeReady(tid taskID) {
	t := &e.tasks.at[tid]
	t.move(ready)
	t.readyAt = int64(e.now)
	if t.flags&charged != 0 { // placed anew: it has its key already
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

// follow links a run that begins to the other runs of its graph.
func (e *Engine) follow(r *run) {
	if r.ahead = e.latest[r.g]; r.ahead != nil {
		r.ahead.behind = r
	}
	e.latest[r.g] = r
}

// unfollow unlinks a run that ends from the other runs of its graph.
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

// keyAhead returns the key of the same task in the run of the same graph, priority and
// weight that began before. Runs of one graph keep their order: they are items of a
// stream, and a run that fell behind because it was charged by another estimate of the
// same cost would make later items wait for it.
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

// priority returns the priority of a task, its run's included.
func (e *Engine) priority(r *run, gt graph.TaskID) int {
	if r.f.Prioritised {
		return r.g.Task(gt).Priority + r.o.Priority
	}
	return r.priority
}

// shape returns the shape of a task, with costs of the present epoch.
func (e *Engine) shape(r *run, gt graph.TaskID) *shape {
	sh := &r.shapes[r.f.Rows[gt].Shape]
	if sh.epoch != e.epoch {
		e.fillCosts(r, r.g.Task(gt), sh)
	}
	return sh
}

// unfit is the cost on a device class of which a device has found that it cannot run the kernel.
const unfit = -2

// fillCosts asks the cost model for the costs of a shape, once for each device class.
func (e *Engine) fillCosts(r *run, task *graph.Task, sh *shape) {
	sh.epoch = e.epoch
	e.costIDs++
	sh.costID = e.costIDs
	for c := range sh.costs {
		if sh.costs[c] != unfit {
			sh.costs[c] = -1
		}
	}
	least := time.Duration(-1)
	known := math.MaxInt
	for d := range e.m.Devices {
		c := e.situation.Devices[d].Class
		if sh.costs[c] >= 0 || sh.costs[c] == unfit {
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
			takes := sh.costs[c]
			if e.teams {
				takes = e.situation.Devices[d].Takes(int32(sh.widths[c]), takes)
			}
			if least < 0 || takes < least {
				least = takes
			}
		}
	}
	sh.samples = max(sh.samples, known)
	sh.charge = int64(float64(max(least, 0)) * r.invWeight)
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
		e.situation.Tasks, e.inputs, e.onlys = e.situation.Tasks[:0], e.inputs[:0], e.onlys[:0]
		for e.ready.len() > 0 && len(e.situation.Tasks) < e.batch {
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
			if r.o.Probe {
				e.placeProbe(t, r, gt, sh)
				continue
			}
			if sh.gang > 1 {
				if e.placeGang(tid, r, gt); e.tasks.at[tid].where != issued {
					e.passOn(r)
				}
				continue
			}
			e.offer(t, r, gt, sh)
		}
		if len(e.situation.Tasks) == 0 {
			continue
		}
		if e.o.Explain != nil {
			e.explain()
		}
		e.situation.HostUsed = e.mem.spaces[0].used
		e.places = e.policy.Place(&e.situation, e.places[:0])
		for _, d := range e.situation.Dirty {
			e.devs[d].dirty = false
		}
		e.situation.Dirty = e.situation.Dirty[:0]
		for _, p := range e.places {
			e.enqueue(&e.situation.Tasks[p.Task], p.Device, p.Finish)
		}
		if len(e.places) < len(e.situation.Tasks) {
			for i := range e.situation.Tasks {
				v := &e.situation.Tasks[i]
				tid := e.runs[v.Run].task(v.Task)
				if e.tasks.at[tid].where == ready {
					e.unplaceable(tid)
				}
			}
		}
	}
}

// passOn lets another task of the run, and another gang, be issued in place of one that
// had the chance and could not use it.
func (e *Engine) passOn(r *run) {
	e.unpark(r)
	e.nextGang()
}

// offer adds a task to the situation.
func (e *Engine) offer(t *task, r *run, gt graph.TaskID, sh *shape) {
	f := r.f
	at, near := e.now, machine.DeviceID(-1)
	tasks, base := e.tasks.at, r.tbase
	for _, p := range f.Preds(gt) {
		if pt := &tasks[base+taskID(p)]; pt.where == issued && time.Duration(pt.eft) >= at {
			at, near = time.Duration(pt.eft), pt.dev
		}
	}
	n := len(e.situation.Tasks)
	if n == cap(e.situation.Tasks) {
		e.situation.Tasks = slices.Grow(e.situation.Tasks, min(max(n, fewReady), placeBatch))
	}
	e.situation.Tasks = e.situation.Tasks[:n+1]
	v := &e.situation.Tasks[n]
	v.Run, v.Task, v.Kernel, v.Ops, v.Bytes = int32(r.slot), gt, sh.kernel, sh.ops, sh.bytes
	v.Priority, v.InputsAt, v.Cost = e.priority(r, gt), at, sh.costs
	v.CostID = sh.costID
	v.Need, v.HostNeed, v.Inputs, v.Hint, v.Only = 0, 0, nil, -1, nil
	v.Near = near
	if e.teams {
		v.Width = sh.widths
	}
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
	if sh.constrained || t.avoid >= 0 || len(r.o.Rather) > 0 {
		v.Hint, v.Only = e.constrain(t, r, gt)
	}
}

// constrain turns a task's constraint, the devices its run would rather use and the device
// it failed on into a hint and a list of devices. The device it failed on is left out if
// another can take the task.
func (e *Engine) constrain(t *task, r *run, gt graph.TaskID) (hint machine.DeviceID, only []machine.DeviceID) {
	task, costs := r.g.Task(gt), e.shape(r, gt).costs
	hint = -1
	o0 := len(e.onlys)
	others, stays := false, e.stays(t, r, gt)
	for d := range e.m.Devices {
		id := machine.DeviceID(d)
		if task.On.Hint != "" && hint < 0 && Matches(&e.m.Devices[d], task.On.Hint) {
			hint = id
		}
		if !e.allowed(task, id) || stays && !slices.Contains(r.o.Rather, id) {
			continue
		}
		e.onlys = append(e.onlys, id)
		if vd := &e.situation.Devices[d]; machine.DeviceID(d) != t.avoid && vd.Accepts && costs[vd.Class] >= 0 {
			others = true
		}
	}
	only = e.onlys[o0:len(e.onlys):len(e.onlys)]
	if only == nil {
		only = []machine.DeviceID{} // nil would mean any device
	}
	if t.avoid >= 0 && others {
		if i := slices.Index(only, t.avoid); i >= 0 {
			only = slices.Delete(only, i, i+1)
		}
	}
	return hint, only
}

// stays reports whether one of the devices that a task's run would rather use can take it.
func (e *Engine) stays(t *task, r *run, gt graph.TaskID) bool {
	for _, d := range r.o.Rather {
		vd := &e.situation.Devices[d]
		if d != t.avoid && vd.Accepts && e.shape(r, gt).costs[vd.Class] >= 0 &&
			e.need(r, gt, e.devs[d].space) <= vd.CapBytes && e.allowed(r.g.Task(gt), d) && e.reaches(r, gt, e.devs[d].space) {
			return true
		}
	}
	return false
}

// Matches reports whether a selector ("cuda:1", "cuda", "cpu", "discrete") names a
// device.
func Matches(d *machine.Device, selector string) bool {
	return selector == d.Name || selector == d.Backend || selector == d.Kind.String() ||
		strings.HasPrefix(d.Name, selector+":") || strings.HasPrefix(d.Name, selector+"/")
}

// Allows reports whether a task's constraint lets it run on a device.
func Allows(t *graph.Task, d *machine.Device) bool {
	return len(t.On.Only) == 0 || slices.ContainsFunc(t.On.Only, func(s string) bool { return Matches(d, s) })
}

// enqueue puts a task into the queue of the device the policy chose.
func (e *Engine) enqueue(v *sched.Ready, dev machine.DeviceID, finish time.Duration) {
	r := e.runs[v.Run]
	tid := r.task(graph.TaskID(v.Task))
	t := &e.tasks.at[tid]
	vd := &e.situation.Devices[dev]
	t.move(queued)
	t.dev = dev
	t.cost = int64(v.Cost[vd.Class])
	if vd.Slow != 1 {
		t.cost = int64(float64(t.cost) * vd.Slow)
	}
	t.eft = int64(finish)
	d := &e.devs[dev]
	d.load += t.cost
	if v.Width != nil {
		d.load += t.cost * (e.setWidth(t, v.Width, vd.Class) - 1)
	}
	d.queue.push(tid, t.key)
	e.revisit(dev)
}

// unplace moves a task that is off its device's queue to another place and takes it out
// of the device's counts.
func (e *Engine) unplace(tid taskID, to where) {
	t := &e.tasks.at[tid]
	t.move(to)
	if t.dev < 0 {
		return
	}
	vd := &e.situation.Devices[t.dev]
	vd.Queued--
	e.takeLoad(t.dev, t.cost*e.width(tid))
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

// reoffer has all queued tasks placed anew because a device joined, which may take some
// of them sooner.
func (e *Engine) reoffer() {
	e.offerAgain = true
	for i := range e.devs {
		e.requeueAll(machine.DeviceID(i))
	}
}

// leaveOut keeps a task until devices or values change in a way that may let it run.
func (e *Engine) leaveOut(tid taskID) {
	e.unplace(tid, leftOut)
	e.leftOuts = append(e.leftOuts, tid)
}

// unplaceable keeps a task that no device takes at present, or fails its run if none ever
// will.
func (e *Engine) unplaceable(tid taskID) {
	r, gt := e.taskOf(tid)
	task, costs := r.g.Task(gt), e.shape(r, gt).costs
	err := e.noDevice(task)
	for d := range e.devs {
		vd := &e.situation.Devices[d]
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

// allowed reports whether a task's constraint lets it run on a device.
func (e *Engine) allowed(t *graph.Task, dev machine.DeviceID) bool {
	return Allows(t, &e.m.Devices[dev])
}

// need returns the bytes a task takes of a memory. In host memory, data with a home takes
// none: the caller's memory is there.
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

// takeLoad takes the lane-nanoseconds of a task out of a device's load and predicts anew when the
// device is free.
func (e *Engine) takeLoad(dev machine.DeviceID, ns int64) {
	e.devs[dev].load -= ns
	e.freeAt(dev)
	e.dirty(dev)
}

// freeAt predicts when a device, and the devices of its crowd, will have finished their
// work.
func (e *Engine) freeAt(dev machine.DeviceID) {
	vd := &e.situation.Devices[dev]
	vd.FreeAt = e.now + e.devs[dev].left()
	if vd.Crowd == 0 {
		return
	}
	c := &e.situation.Crowds[vd.Crowd-1]
	all := time.Duration(0)
	for _, o := range c.Devices {
		all += time.Duration(float64(e.devs[o].left()) * c.Share(o))
	}
	for _, o := range c.Devices {
		e.situation.Devices[o].FreeAt = e.now + max(e.devs[o].left(), all)
		e.dirty(o)
	}
}

// left returns the predicted time a device needs for its work.
func (d *device) left() time.Duration { return time.Duration(d.perLane(d.load)) }

// updateFreeAt calls freeAt for the devices whose load changed while completions were
// taken in, once for each.
func (e *Engine) updateFreeAt() {
	for _, dev := range e.loadChanged {
		e.devs[dev].loadChanged = false
		e.freeAt(dev)
	}
	e.loadChanged = e.loadChanged[:0]
}

// dirty tells the policy that a device's state changed other than by a placement.
func (e *Engine) dirty(dev machine.DeviceID) {
	if d := &e.devs[dev]; !d.dirty {
		d.dirty = true
		e.situation.Dirty = append(e.situation.Dirty, dev)
	}
}

// explain reports why each offered task is placed where it is.
func (e *Engine) explain() {
	x, ok := e.policy.(sched.Explainer)
	if !ok {
		return
	}
	for i := range e.situation.Tasks {
		ex := x.Explain(&e.situation, i)
		r := e.runs[e.situation.Tasks[i].Run]
		ex.Task = r.g.TaskName(e.situation.Tasks[i].Task)
		e.o.Explain(ex)
	}
}
