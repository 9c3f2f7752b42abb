package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
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
	// Lanes is the engine's numbering of lanes.
	Lanes []engine.LaneInfo
	// Begun is the number of operations that each lane is taken to have had before; nil for
	// none.
	Begun []uint32
	// Cost gives the real durations.
	Cost machine.Cost
	// Noise varies every duration by up to this fraction either way. The variation depends
	// on Seed, the operation and its device, not on the order of operations.
	Noise float64
	Seed  uint64
	// Check turns the oracle on: contents, uses in flight, results.
	Check bool
	// Late delays the reports of completions, in order within a lane and in any order
	// between lanes, and makes members of a gang end one after another.
	Late bool
	// Board, when not nil, is kept as live devices keep theirs. Before an operation starts,
	// it must show everything the operation waited for in the state that the simulation
	// knows.
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

	corrupt []float64             // by device, the part of launches with a wrong result
	wrong   map[engine.RunID]bool // runs that have such a result
	patient machine.DeviceID      // its launches end when complete is called; Host for none
	asked   []ticket              // those that began
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
		wrong:     make(map[engine.RunID]bool),
		patient:   machine.Host,
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
			// measured with one alone. On a team each takes its own cores.
			h.devices[i].together = h.flows.add(0)
			h.flows.resources[h.devices[i].together].team = d.TeamSize()
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
	case o.running && (!o.flow.hung || o.device == h.patient):
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

// Busy returns the time that a device has been computing.
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
