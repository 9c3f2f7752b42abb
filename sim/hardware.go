package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// ErrViolation is returned when the engine did what no loop could carry out or
// what gives a wrong result: the simulation stops there and the error says when
// and by which operation.
var ErrViolation = errors.New("the engine broke its contract")

// ErrInjected is the error of an operation that a fault script made fail.
var ErrInjected = errors.New("failed by the fault script")

// ErrCut is the error of a copy whose memory or link went away.
var ErrCut = errors.New("an end or link of the copy went away")

// hardwareOptions says what to simulate.
type hardwareOptions struct {
	Machine *machine.Machine
	// Lanes is what the engine numbers its lanes by.
	Lanes []engine.LaneInfo
	// Begun is how many operations each lane is taken to have had before; nil for
	// none.
	Begun []uint32
	// Cost is how long things really take.
	Cost machine.Cost
	// Noise varies every duration by up to this fraction either way, as a
	// function of Seed and of what is run where, not of the order of things.
	Noise float64
	Seed  uint64
	// Check turns the oracle on: contents, uses in flight, results.
	Check bool
	// Late has completions told late, those of a lane in order and lanes in any,
	// and members of a gang end one after another.
	Late bool
	// Board, when not nil, is kept as live devices keep theirs, and must say of
	// everything an operation waited for what the simulation knows.
	Board *driver.Board
}

// hardware is a virtual machine. It takes the engine's actions and gives back
// events in virtual time. It is not safe for concurrent use.
type hardware struct {
	machine *machine.Machine
	cost    *linkCost
	seed    uint64
	noise   float64
	check   bool
	late    *rand.Rand // decides what is told when; nil tells at once
	board   *driver.Board

	now      time.Duration
	err      error
	lanes    []lane
	devices  []device
	heard    []machine.DeviceID // devices whose loss the engine is told of since Apply was last called
	hostUsed int64
	insts    []instance
	runs     map[engine.RunID]*run
	resident map[engine.DataRef]*resident
	out      []engine.Event                  // happened, not yet handed over
	timers   []timer                         // ascending
	routes   map[[2]machine.DeviceID][]int32 // resources of copies
	failTask map[string]int                  // launches still to fail, by task name

	// Operations in flight live in slots that are used again; edges link an
	// operation to those that wait for it.
	ops       []op
	freeOps   []int32
	edges     []edge
	freeEdges int32
	gangs     map[gangKey]*gang
	ready     []ticket // may be able to start
	serial    uint64
	inFlight  int

	flows flows
}

type lane struct {
	info       engine.LaneInfo
	done, last uint64         // completed and given so far; numbers are the lower half
	ring       []int32        // slots of done+1 … last, by sequence number; a power of two
	failed     []seqs         // those completed without success, ascending
	held       []engine.Event // completions not told yet
}

// seqs is a closed range of sequence numbers.
type seqs struct{ lo, hi uint64 }

type device struct {
	lanes    []engine.Lane
	down     bool // lost or dropped
	broken   bool // by the script: it comes back by the script only
	kept     bool // its memory survived
	cut      bool // lost because no link leads to the host
	slow     float64
	used     int64
	capacity int64
	fates    []engine.Status // how the next launches end
	failCopy int             // copies on its lanes still to fail
	hangNext int
	hearing  bool // the engine is told in this step that it is lost
	lostAt   time.Duration
	running  int // compute operations
	since    time.Duration
	busy     time.Duration
	uses     []int32 // resources of a launch
	together int32   // the one its lanes share, -1 when it has one lane
	cores    float64 // it takes of those it shares
}

type instance struct {
	status  instStatus
	home    bool
	device  machine.DeviceID // whose memory; Host for the host's
	bytes   int64
	inUse   int32 // operations in flight that name it
	content content
}

type instStatus uint8

const (
	noInst instStatus = iota
	live
	lost
)

// op is an operation in flight.
type op struct {
	id        engine.Op
	serial    uint64
	launch    bool
	running   bool
	depFailed bool
	doomed    bool          // a memory it needs is gone: fails instead of starting
	released  bool          // no longer counts as a user of its instances
	fate      engine.Status // how it ends, by script
	rank      int16
	pending   int32 // operations it still waits for
	waiters   int32 // first edge to an operation that waits for it, or -1
	device    machine.DeviceID
	from      machine.DeviceID
	task      graph.TaskID
	run       engine.RunID
	graph     *graph.Graph
	gang      *gang
	start     time.Duration
	src, dst  engine.Inst
	srcOff    int64
	dstOff    int64
	bytes     int64
	sum       uint64 // Copy: what the source held at the start
	args      []engine.Arg
	waits     []engine.Op // kept where there is a board
	flow      flow
}

type edge struct {
	op     int32 // waits
	next   int32
	serial uint64 // of that operation: its slot may be another's by then
}

// ticket names an operation by slot, with its serial number because slots are
// used again.
type ticket struct {
	slot   int32
	serial uint64
}

type gangKey struct {
	run  engine.RunID
	task graph.TaskID
}

// gang holds the members of one attempt at a gang task.
type gang struct {
	members []int32 // slots, in the order given; -1 once ended
	issued  int
	aborted bool
}

// timer answers a Recover.
type timer struct {
	at     time.Duration
	device machine.DeviceID
}

// newHardware makes a virtual machine in working order.
func newHardware(o hardwareOptions) *hardware {
	links, ok := o.Cost.(*linkCost)
	if !ok {
		links = newLinkCost(o.Machine, o.Cost)
	}
	h := &hardware{
		machine:   o.Machine,
		cost:      links,
		seed:      o.Seed,
		noise:     o.Noise,
		check:     o.Check,
		runs:      make(map[engine.RunID]*run),
		resident:  make(map[engine.DataRef]*resident),
		failTask:  make(map[string]int),
		gangs:     make(map[gangKey]*gang),
		freeEdges: -1,
		board:     o.Board,
	}
	if o.Late {
		h.late = rand.New(rand.NewPCG(o.Seed, 0x1a7e))
	}
	h.flows.init(o.Machine)
	h.devices = make([]device, len(o.Machine.Devices))
	for i := range h.devices {
		d := &o.Machine.Devices[i]
		h.devices[i] = device{slow: 1, capacity: d.MemBytes, uses: h.flows.named(d.Resources), together: -1}
		if slices.ContainsFunc(h.devices[i].uses, func(r int32) bool { return h.flows.resources[r].cores > 0 }) {
			h.devices[i].cores = float64(max(d.ComputeUnits, 1))
		}
		if d.Lanes > 1 {
			// Kernels that run at once on a device share it: its rates were
			// measured with one alone.
			h.devices[i].together = h.flows.add(0)
			h.devices[i].uses = append(h.devices[i].uses, h.devices[i].together)
		}
	}
	h.lanes = make([]lane, len(o.Lanes))
	for i, info := range o.Lanes {
		h.lanes[i] = lane{info: info, ring: make([]int32, 4)}
		if i < len(o.Begun) {
			h.lanes[i].done, h.lanes[i].last = uint64(o.Begun[i]), uint64(o.Begun[i])
		}
		if info.Device >= 0 {
			d := &h.devices[info.Device]
			d.lanes = append(d.lanes, engine.Lane(i))
		}
	}
	return h
}

// Apply carries out actions at a time not before any given so far.
func (h *hardware) Apply(now time.Duration, acts []engine.Action) error {
	h.now = now
	for _, id := range h.heard {
		d := &h.devices[id]
		d.hearing = d.hearing && d.lostAt == now
	}
	for i := range acts {
		a := &acts[i]
		switch a.Kind {
		case engine.Home, engine.Alloc:
			h.alloc(a)
		case engine.Free:
			h.free(a)
		case engine.Copy, engine.Launch:
			h.issue(a)
		case engine.Drop:
			h.takeDown(a.Device, false)
			h.out = append(h.out, engine.Event{Kind: engine.DeviceQuiet, Device: a.Device})
		case engine.Recover:
			h.recover(a)
		case engine.Done:
			h.finish(a)
		case engine.Stop:
			h.stop(a.Op)
		default:
			h.violation("action of unknown kind %d", a.Kind)
		}
		if h.err != nil {
			return h.err
		}
	}
	for _, id := range h.heard {
		h.devices[id].hearing = false
	}
	h.heard = h.heard[:0]
	h.settle()
	return h.err
}

// hear notes that the engine is told now that a device is lost.
func (h *hardware) hear(id machine.DeviceID) {
	d := &h.devices[id]
	d.hearing, d.lostAt = true, h.now
	h.heard = append(h.heard, id)
}

// stop ends a launch on a CPU early: at once if it runs, else in its turn. What it
// was writing stays torn. On other devices it ends when it ends.
func (h *hardware) stop(op engine.Op) {
	ln := &h.lanes[op.Lane]
	seq := ln.count(op.Seq)
	if seq <= ln.done || seq > ln.last || h.machine.Devices[ln.info.Device].Kind != machine.CPU {
		return
	}
	slot := ln.at(seq)
	switch o := &h.ops[slot]; {
	case o.gang != nil:
		h.violation("%s: a member of a gang is to stop", h.describe(o))
	case o.running && !o.flow.hung:
		h.complete(slot, engine.DepFailed, nil)
	case !o.running:
		o.depFailed = true
	}
}

// Next returns when something happens next by itself.
func (h *hardware) Next() (time.Duration, bool) {
	if len(h.out) > 0 {
		return h.now, true
	}
	at, ok := h.flows.next(h)
	if len(h.timers) > 0 && (!ok || h.timers[0].at < at) {
		at, ok = h.timers[0].at, true
	}
	if h.holds() {
		if t := h.now + time.Duration(1+h.late.Int64N(int64(maxDelay))); !ok || t < at {
			at, ok = t, true
		}
	}
	return at, ok
}

// Advance lets time pass up to now and appends what happened to evs.
func (h *hardware) Advance(now time.Duration, evs []engine.Event) ([]engine.Event, error) {
	for h.err == nil {
		at, ok := h.flows.next(h)
		if len(h.timers) > 0 && (!ok || h.timers[0].at < at) {
			if h.timers[0].at > now {
				break
			}
			t := h.timers[0]
			h.timers = slices.Delete(h.timers, 0, 1)
			h.now = max(h.now, t.at)
			h.answer(t.device)
			continue
		}
		if !ok || at > now {
			break
		}
		h.now = at
		h.end(h.flows.pop())
		h.settle()
	}
	h.now = now
	h.release()
	evs = append(evs, h.out...)
	h.out = h.out[:0]
	return evs, h.err
}

// InFlight returns the number of operations given and not ended.
func (h *hardware) InFlight() int { return h.inFlight }

// Busy returns how long a device has been computing.
func (h *hardware) Busy(d machine.DeviceID) time.Duration {
	dev := &h.devices[d]
	if dev.running > 0 {
		return dev.busy + h.now - dev.since
	}
	return dev.busy
}

func (h *hardware) alloc(a *engine.Action) {
	if a.Inst < 0 || a.Bytes <= 0 {
		h.violation("alloc of instance %d with %d bytes", a.Inst, a.Bytes)
		return
	}
	for int(a.Inst) >= len(h.insts) {
		h.insts = append(h.insts, instance{})
	}
	in := &h.insts[a.Inst]
	if in.status == live {
		h.violation("alloc of instance %d, which is live", a.Inst)
		return
	}
	*in = instance{status: live, home: a.Kind == engine.Home, device: h.machine.MemoryOf(a.Device), bytes: a.Bytes, content: in.content[:0]}
	if a.Kind == engine.Home {
		h.home(a, in)
		return // the caller's memory, not counted
	}
	if in.device == machine.Host {
		h.hostUsed += a.Bytes
		if limit := h.machine.HostBytes; limit > 0 && h.hostUsed > limit {
			h.violation("instance %d of %d bytes overfills host memory: %d of %d bytes", a.Inst, a.Bytes, h.hostUsed, limit)
		}
		return
	}
	d := &h.devices[in.device]
	d.used += a.Bytes
	switch {
	case d.down && !d.hearing:
		h.violation("instance %d in the memory of %s, which is down", a.Inst, h.name(a.Device))
	case d.capacity > 0 && d.used > d.capacity:
		h.violation("instance %d of %d bytes overfills the memory of %s: %d of %d bytes", a.Inst, a.Bytes, h.name(a.Device), d.used, d.capacity)
	}
}

func (h *hardware) free(a *engine.Action) {
	in := h.inst(a.Inst)
	switch {
	case in == nil || in.status == noInst:
		h.violation("free of instance %d, which is not live", a.Inst)
		return
	case in.inUse > 0:
		h.violation("free of instance %d, which %d operations in flight use", a.Inst, in.inUse)
		return
	}
	if in.status == live && !in.home {
		if in.device == machine.Host {
			h.hostUsed -= in.bytes
		} else {
			h.devices[in.device].used -= in.bytes
		}
	}
	in.status = noInst
}

func (h *hardware) inst(i engine.Inst) *instance {
	if i < 0 || int(i) >= len(h.insts) {
		return nil
	}
	return &h.insts[i]
}

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
	var own, cores float64 // bytes per second when alone, and processor cores
	lanes := int32(-1)     // what it shares with others on its device
	if o.launch {
		work, uses, own, cores = h.launch(slot)
		if o.gang == nil {
			lanes = h.devices[o.device].together
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
	h.flows.start(h, slot, work, uses, own, cores, lanes)
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

func (h *hardware) violation(format string, args ...any) {
	if h.err == nil {
		h.err = fmt.Errorf("at %v: %w: %s", h.now, ErrViolation, fmt.Sprintf(format, args...))
	}
}

func (h *hardware) name(d machine.DeviceID) string {
	if int(d) >= len(h.devices) {
		return fmt.Sprintf("device %d", d)
	}
	return h.machine.DeviceName(d)
}

func (h *hardware) describe(o *op) string {
	if !o.launch {
		return fmt.Sprintf("copy %d.%d of %d bytes from %s to %s", o.id.Lane, o.id.Seq, o.bytes, h.name(o.from), h.name(o.device))
	}
	rank := ""
	if o.graph.Task(o.task).Gang > 1 {
		rank = fmt.Sprintf(" rank %d", o.rank)
	}
	return fmt.Sprintf("launch %d.%d of %q%s of run %d on %s", o.id.Lane, o.id.Seq, o.graph.TaskName(o.task), rank, o.run, h.name(o.device))
}

// Stuck describes up to max operations in flight, for the error of a
// simulation that does not go on.
func (h *hardware) Stuck(max int) []string {
	var out []string
	for i := range h.lanes {
		ln := &h.lanes[i]
		if ln.done == ln.last {
			continue
		}
		if len(out) == max {
			return append(out, "…")
		}
		o := &h.ops[ln.at(ln.done+1)]
		why := fmt.Sprintf("waits for %d operations", o.pending)
		switch {
		case o.flow.hung:
			why = "hangs"
		case o.running:
			why = "runs"
		case o.gang != nil && o.pending == 0:
			why = "waits for its gang"
		}
		out = append(out, fmt.Sprintf("%s %s, %d behind it", h.describe(o), why, ln.last-ln.done-1))
	}
	return out
}
