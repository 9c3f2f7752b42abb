package sim

import (
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
)

// The life of an operation on virtual hardware: issued to a lane, waiting, begun, complete.

// issue puts an operation at the end of its lane.
func (h *hardware) issue(a *engine.Action) {
	if a.Op.Lane < 0 || int(a.Op.Lane) >= len(h.lanes) {
		h.violation("operation on lane %d of %d", a.Op.Lane, len(h.lanes))
		return
	}
	ln := &h.lanes[a.Op.Lane]
	slot := h.newOp()
	o := &h.ops[slot]
	o.id, o.launch = a.Op, a.Kind == engine.Launch
	o.device, o.from, o.rank = a.Device, a.From, a.Rank
	o.task, o.run, o.graph = a.Task, a.Run, a.Graph
	o.src, o.dst, o.srcOff, o.dstOff, o.bytes = a.Src, a.Dst, a.SrcOff, a.DstOff, a.Bytes
	switch on := ln.info.Device; {
	case a.Op.Seq != uint32(ln.last+1):
		h.violation("%s: number %d on its lane, after %d", h.describe(o), a.Op.Seq, ln.last)
	case on >= 0 && h.devices[on].down && !h.devices[on].hearing:
		h.violation("%s: %s is down", h.describe(o), h.name(on))
	case o.launch && (ln.info.Kind != engine.Compute || on != a.Device):
		h.violation("%s: not a compute lane of %s", h.describe(o), h.name(a.Device))
	case !o.launch && (ln.info.Kind == engine.Compute && on >= 0 || on >= 0 && on != a.Device && on != a.From):
		h.violation("%s: on a lane of %s that does not carry it", h.describe(o), h.name(on))
	}
	if h.err != nil {
		return
	}
	for _, w := range a.Waits {
		h.wait(slot, w)
	}
	if h.board != nil {
		o.waits = append(o.waits[:0], a.Waits...)
	}
	ln.push(slot)
	h.inFlight++
	if on := ln.info.Device; on >= 0 && h.devices[on].down {
		// Decided before the engine came to the event of the loss.
		o.released = true
		h.abandon(a.Op.Lane)
		h.retire(slot, true)
		return
	}
	if h.check {
		o.args = append(o.args[:0], a.Args...)
		if o.released = h.severed(o); o.released {
			o.doomed = true
		} else {
			h.use(o, 1)
		}
	}
	if o.launch && o.graph.Task(o.task).Gang > 1 {
		h.join(slot)
	}
	h.consider(slot)
}

// wait makes the operation in slot wait for w.
func (h *hardware) wait(slot int32, w engine.Op) {
	o := &h.ops[slot]
	if w.Lane < 0 || int(w.Lane) >= len(h.lanes) || h.lanes[w.Lane].count(w.Seq) == 0 || h.lanes[w.Lane].count(w.Seq) > h.lanes[w.Lane].last {
		h.violation("%s: waits for number %d of lane %d, which was not given yet", h.describe(o), w.Seq, w.Lane)
		return
	}
	ln := &h.lanes[w.Lane]
	seq := ln.count(w.Seq)
	if seq <= ln.done {
		o.depFailed = o.depFailed || ln.hasFailed(seq)
		return
	}
	e := h.freeEdges
	if e < 0 {
		h.edges = append(h.edges, edge{})
		e = int32(len(h.edges) - 1)
	} else {
		h.freeEdges = h.edges[e].next
	}
	p := &h.ops[ln.at(seq)]
	h.edges[e] = edge{op: slot, next: p.waiters, serial: o.serial}
	p.waiters = e
	o.pending++
}

// join adds a launch to its gang, or begins a new attempt at it.
func (h *hardware) join(slot int32) {
	o := &h.ops[slot]
	key := gangKey{o.run, o.task}
	size := o.graph.Task(o.task).Gang
	g := h.gangs[key]
	if g == nil || g.aborted || g.issued == size {
		g = &gang{}
		h.gangs[key] = g
	}
	for _, m := range g.members {
		if m >= 0 && h.ops[m].rank == o.rank {
			h.violation("%s: its rank is there twice", h.describe(o))
			return
		}
	}
	g.members = append(g.members, slot)
	g.issued++
	o.gang = g
}

// consider has an operation looked at once the current changes are made.
func (h *hardware) consider(slot int32) {
	h.ready = append(h.ready, ticket{slot, h.ops[slot].serial})
}

// settle starts, or ends at once, whatever can be.
func (h *hardware) settle() {
	for i := 0; i < len(h.ready) && h.err == nil; i++ {
		t := h.ready[i]
		o := &h.ops[t.slot]
		ln := &h.lanes[o.id.Lane]
		if o.serial != t.serial || o.running || o.pending > 0 || o.id.Seq != uint32(ln.done+1) {
			continue
		}
		if h.board != nil {
			h.consult(o)
		}
		switch {
		case o.depFailed:
			h.complete(t.slot, engine.DepFailed, nil)
		case o.gang != nil:
			h.assemble(t.slot)
		default:
			h.begin(t.slot)
		}
	}
	h.ready = h.ready[:0]
}

// assemble starts a gang when its last member is ready.
func (h *hardware) assemble(slot int32) {
	g := h.ops[slot].gang
	if g.aborted {
		h.complete(slot, engine.DepFailed, nil)
		return
	}
	ready := 0
	for _, m := range g.members {
		if o := &h.ops[m]; o.pending == 0 && !o.depFailed && o.id.Seq == uint32(h.lanes[o.id.Lane].done+1) {
			ready++
		}
	}
	o := &h.ops[slot]
	if ready < o.graph.Task(o.task).Gang {
		return
	}
	delete(h.gangs, gangKey{o.run, o.task})
	h.begin(g.members[0])
}

// begin starts an operation, or a whole gang given its first member.
func (h *hardware) begin(slot int32) {
	o := &h.ops[slot]
	if o.doomed {
		h.complete(slot, engine.Failed, ErrCut)
		return
	}
	var work time.Duration
	var uses []int32
	var own, cores float64       // bytes per second when alone, and processor cores
	lanes, width := int32(-1), 1 // what it shares with others on its device, and how much of it
	if o.launch {
		work, uses, own, cores = h.launch(slot)
		if o.gang == nil && h.err == nil {
			lanes, width = h.devices[o.device].together, h.machine.Devices[o.device].Width(o.graph.Task(o.task))
		}
	} else {
		est := h.cost.Copy(o.bytes, o.from, o.device)
		if est.Median < 0 {
			h.complete(slot, engine.Failed, ErrCut)
			return
		}
		if on := h.lanes[o.id.Lane].info.Device; on >= 0 && h.devices[on].failCopy > 0 {
			h.devices[on].failCopy--
			o.fate = engine.Failed
		}
		work = h.vary(est.Median, mix(uint64(o.id.Lane), uint64(o.id.Seq)))
		uses = h.route(o.from, o.device)
		own = float64(o.bytes) / max(est.Median.Seconds(), 1e-9)
		o.running, o.start = true, h.now
		if h.check {
			h.checkCopy(o)
		}
	}
	if h.err != nil {
		return
	}
	h.flows.start(h, slot, work, uses, own, cores, lanes, width)
}

// launch marks the launch in slot, or its whole gang, as started.
func (h *hardware) launch(slot int32) (work time.Duration, uses []int32, own, cores float64) {
	one := [1]int32{slot}
	members := one[:]
	if g := h.ops[slot].gang; g != nil {
		members = g.members
	}
	fate, hung := engine.OK, false
	for _, m := range members {
		o := &h.ops[m]
		d := &h.devices[o.device]
		t := o.graph.Task(o.task)
		est := h.cost.Task(t, o.device)
		if est.Median < 0 {
			h.violation("%s: it cannot run there", h.describe(o))
			return
		}
		w := h.vary(est.Median, mix(mix(uint64(o.run), uint64(o.task)), uint64(o.device)))
		if w > work {
			work = w
		}
		cores += d.cores
		if t.Work.Bytes > 0 {
			own = max(own, t.Work.Bytes/max(est.Median.Seconds(), 1e-9))
		}
		if len(members) == 1 {
			uses = d.uses
		} else {
			for _, r := range d.uses {
				if !slices.Contains(uses, r) {
					uses = append(uses, r)
				}
			}
		}
		if len(d.fates) > 0 {
			fate, d.fates = d.fates[0], d.fates[1:]
		}
		if d.hangNext > 0 {
			d.hangNext--
			hung = true
		}
		o.running, o.start = true, h.now
		if d.running++; d.running == 1 {
			d.since = h.now
		}
		if h.check {
			h.checkLaunch(o)
		}
	}
	o := &h.ops[slot]
	if len(h.failTask) > 0 {
		if name := o.graph.TaskName(o.task); h.failTask[name] > 0 {
			h.failTask[name]--
			fate = engine.Failed
		}
	}
	if o.device == h.patient {
		hung = true
		h.asked = append(h.asked, ticket{slot, o.serial})
	}
	o.fate, o.flow.hung = fate, hung
	return work, uses, own, cores
}

// vary applies the noise that belongs to a key.
func (h *hardware) vary(d time.Duration, key uint64) time.Duration {
	if h.noise == 0 {
		return d
	}
	u := float64(mix(h.seed, key)>>11) / (1 << 52) // 0 to 2
	// The conversion keeps the compiler from fusing multiply and add, which
	// would give other results on other architectures.
	return time.Duration(float64(d) * (1 + float64(h.noise*(u-1))))
}

// end ends the operation, or the gang, whose flow ran out.
func (h *hardware) end(slot int32) {
	status, err := h.ops[slot].fate, error(nil)
	if status != engine.OK {
		err = ErrInjected
	}
	if g := h.ops[slot].gang; g != nil {
		if h.late != nil {
			h.partGang(g, status)
		} else {
			h.endGang(g, status, err)
		}
		return
	}
	h.complete(slot, status, err)
}

func (h *hardware) endGang(g *gang, status engine.Status, err error) {
	for i, m := range g.members {
		if m >= 0 {
			g.members[i] = -1
			h.ops[m].gang = nil
			h.complete(m, status, err)
		}
	}
}

// complete ends the operation at the head of its lane and tells the engine.
func (h *hardware) complete(slot int32, status engine.Status, err error) {
	o := &h.ops[slot]
	if o.launch && status == engine.OK {
		h.corrupts(o)
	}
	if h.check && status == engine.OK {
		h.commit(o)
		if h.err != nil {
			return
		}
	}
	start := h.now
	if o.running {
		start = o.start
	}
	ln := &h.lanes[o.id.Lane]
	if on := ln.info.Device; on < 0 || !h.devices[on].down {
		ev := engine.Event{
			Kind: engine.OpDone, Status: status, Op: o.id, Device: on,
			Run: o.run, Start: start, End: h.now, Err: err,
		}
		if h.late != nil {
			ln.held = append(ln.held, ev)
		} else {
			h.out = append(h.out, ev)
		}
	}
	if h.board != nil {
		h.board.Done(driver.Lane(o.id.Lane), o.id.Seq, status != engine.OK)
	}
	h.retire(slot, status != engine.OK)
}

// retire takes the operation at the head of its lane out of everything. What it
// was writing stays torn.
func (h *hardware) retire(slot int32, failed bool) {
	o := &h.ops[slot]
	ln := &h.lanes[o.id.Lane]
	ln.done++
	if failed {
		ln.fail(ln.done)
	}
	if o.running {
		h.flows.stop(h, slot)
		if o.launch {
			d := &h.devices[o.device]
			if d.running--; d.running == 0 {
				d.busy += h.now - d.since
			}
		}
	}
	if h.check && !o.released {
		h.use(o, -1)
	}
	for e := o.waiters; e >= 0; {
		if w := &h.ops[h.edges[e].op]; w.serial == h.edges[e].serial {
			w.pending--
			w.depFailed = w.depFailed || failed
			if w.pending == 0 {
				h.consider(h.edges[e].op)
			}
		}
		next := h.edges[e].next
		h.edges[e].next, h.freeEdges = h.freeEdges, e
		e = next
	}
	g := o.gang
	if ln.done < ln.last {
		h.consider(ln.at(ln.done + 1))
	}
	h.inFlight--
	o.serial, o.graph, o.gang = 0, nil, nil
	h.freeOps = append(h.freeOps, slot)
	if g != nil {
		h.abort(g, slot)
	}
}

// abort ends a gang one of whose members cannot take part.
func (h *hardware) abort(g *gang, slot int32) {
	g.members[slices.Index(g.members, slot)] = -1
	if g.aborted {
		return
	}
	g.aborted = true
	for i, m := range g.members {
		switch {
		case m < 0:
		case h.ops[m].running:
			g.members[i] = -1
			h.ops[m].gang = nil
			h.complete(m, engine.DepFailed, nil) // it was told that the others will not come
		default:
			h.consider(m)
		}
	}
}

func (h *hardware) newOp() int32 {
	var slot int32
	if n := len(h.freeOps); n > 0 {
		slot = h.freeOps[n-1]
		h.freeOps = h.freeOps[:n-1]
	} else {
		slot = int32(len(h.ops))
		h.ops = append(h.ops, op{})
	}
	o := &h.ops[slot]
	h.serial++
	*o = op{serial: h.serial, waiters: -1, args: o.args[:0], waits: o.waits[:0], flow: flow{version: o.flow.version + 1}}
	return slot
}

// count returns what last was when an operation was given that is in flight, or was
// not long ago.
func (ln *lane) count(seq uint32) uint64 {
	return ln.done + uint64(int64(int32(seq-uint32(ln.done))))
}

func (ln *lane) at(seq uint64) int32 { return ln.ring[int(seq)&(len(ln.ring)-1)] }

func (ln *lane) push(slot int32) {
	if int(ln.last-ln.done) == len(ln.ring) {
		ring := make([]int32, 2*len(ln.ring))
		for s := ln.done + 1; s <= ln.last; s++ {
			ring[int(s)&(len(ring)-1)] = ln.at(s)
		}
		ln.ring = ring
	}
	ln.last++
	ln.ring[int(ln.last)&(len(ln.ring)-1)] = slot
}

func (ln *lane) fail(seq uint64) {
	if n := len(ln.failed); n > 0 && ln.failed[n-1].hi+1 == seq {
		ln.failed[n-1].hi = seq
		return
	}
	ln.failed = append(ln.failed, seqs{seq, seq})
}

func (ln *lane) hasFailed(seq uint64) bool {
	i, _ := slices.BinarySearchFunc(ln.failed, seq, func(r seqs, seq uint64) int { return cmpLess(r.hi < seq) })
	return i < len(ln.failed) && ln.failed[i].lo <= seq
}
