package bytevm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// Patterns memory is filled with.
const (
	patternNew    = 0xCD // allocated and not written
	patternFreed  = 0xDD
	patternTorn   = 0xEE // being written, or its write failed
	patternZombie = 0xA5 // written by a call of a device that was dropped
	patternReused = 0xBB // the caller's again, after its run ended
)

func paint(b []byte, pattern byte) {
	for i := range b {
		b[i] = pattern
	}
}

// buffer is what an instance of the engine stands for.
type buffer struct {
	mem   []byte
	at    machine.DeviceID // whose memory it is in, machine.Host for the host's
	home  bool
	run   engine.RunID // of a home, 0 for resident data
	users int          // operations that were given it and have not ended
	// secret says that secret data has been in it.
	secret bool
}

// job is one run of a program.
type job struct {
	program *program
	options engine.RunOptions
	submit  time.Duration
	id      engine.RunID // 0 until submitted
	mem     [][]byte     // the caller's memory, by handle
	first   [][]byte     // what it held at first
	last    [][]byte     // and when the run ended
	done    bool
	err     error
	cancels bool
	flight  int         // tasks the engine has in flight
	faults  map[int]int // failed executions by task
	losses  map[int]int // devices lost under a task
	touched map[machine.DeviceID]bool
}

// resident is data that outlives runs.
type resident struct {
	ref     engine.DataRef
	kind    graph.Durability
	mem     []byte // its home
	want    []byte // what the runs that ended well left
	tainted bool   // it is volatile and a run that writes it failed: it may hold anything
	fetches int    // asked for and not answered
	err     error  // of the last fetch
}

// timed is something that happens at a time.
type timed struct {
	at time.Duration
	do func()
}

// executor carries out one trial. One goroutine uses it.
type executor struct {
	r      *rand.Rand
	traits Trait
	log    func(string)
	given  *program // that all runs are of; nil for random ones
	sum    Summary

	machine   *machine.Machine
	options   engine.Options
	engine    *engine.Engine
	board     *driver.Board
	now       time.Duration
	steps     int
	lanes     []lane
	devices   []device
	buffers   []*buffer // by instance, nil where there is none
	hostUsed  int64
	forming   *gang
	queue     []*job // not submitted, by time
	jobs      map[engine.RunID]*job
	all       []*job
	residents []*resident
	script    []timed        // by time
	news      []engine.Event // happened, not told
	detached  []*operation   // launches that left their lanes
	flight    int            // tasks the engine has in flight
	cuts      int            // copies that failed by themselves
}

// device is the executor's side of a device.
type device struct {
	safe     bool // nothing bad happens to it
	spare    bool
	down     bool // what it was given is gone
	told     bool // and the engine knows, or will as soon as it has taken in the events given
	known    bool // and has: nothing more may be issued there
	kept     bool // its memory survived
	used     int64
	capacity int64
	failures int // launches failed there
	zombies  []*operation
}

// apply carries out what the engine decided.
func (x *executor) apply(acts []engine.Action) {
	for i := range acts {
		a := acts[i]
		a.Waits, a.Args = slices.Clone(a.Waits), slices.Clone(a.Args)
		x.note(&a)
		switch a.Kind {
		case engine.Home:
			x.home(&a)
		case engine.Alloc:
			x.alloc(&a)
		case engine.Free:
			x.free(&a)
		case engine.Copy, engine.Launch:
			x.issue(a)
		case engine.Drop:
			x.drop(a.Device)
		case engine.Recover:
			x.recover(a.Device)
		case engine.Stop:
			x.stop(a.Op)
		case engine.Done:
			if a.Run == 0 {
				x.fetched(&a)
			} else {
				x.ended(&a)
			}
		default:
			x.bad("action of unknown kind %d", a.Kind)
		}
	}
}

// memory returns whose memory a device computes in.
func (x *executor) memory(d machine.DeviceID) machine.DeviceID {
	if d >= 0 && x.machine.Devices[d].HostMemory {
		return machine.Host
	}
	return d
}

// buffer returns the buffer behind an instance.
func (x *executor) buffer(i engine.Inst) *buffer {
	if i < 0 || int(i) >= len(x.buffers) || x.buffers[i] == nil {
		x.bad("instance %d is not there", i)
	}
	return x.buffers[i]
}

func (x *executor) newBuffer(i engine.Inst, b *buffer) {
	for int(i) >= len(x.buffers) {
		x.buffers = append(x.buffers, nil)
	}
	if x.buffers[i] != nil {
		x.bad("instance %d is made and there already", i)
	}
	x.buffers[i] = b
}

// home puts the caller's memory behind an instance.
func (x *executor) home(a *engine.Action) {
	b := &buffer{at: machine.Host, home: true, run: a.Run}
	if a.Run == 0 {
		b.mem = x.resident(a.Ref).mem
	} else {
		j := x.jobs[a.Run]
		if j.done {
			x.bad("home of run %d, which has ended", a.Run)
		}
		b.mem = j.mem[a.Data]
		b.secret = j.program.graph.Data(a.Data).Secret
	}
	if int64(len(b.mem)) != a.Bytes {
		x.bad("home of %d bytes, of %d", a.Bytes, len(b.mem))
	}
	x.newBuffer(a.Inst, b)
}

func (x *executor) alloc(a *engine.Action) {
	at := x.memory(a.Device)
	b := &buffer{at: at, mem: make([]byte, a.Bytes)}
	paint(b.mem, patternNew)
	x.newBuffer(a.Inst, b)
	used, capacity := &x.hostUsed, x.machine.HostBytes
	if at >= 0 {
		d := &x.devices[at]
		if d.known {
			x.bad("instance %d of device %d, which is down", a.Inst, at)
		}
		used, capacity = &d.used, d.capacity
	}
	if *used += a.Bytes; capacity > 0 && *used > capacity {
		x.bad("instance %d overfills memory %d: %d of %d bytes", a.Inst, at, *used, capacity)
	}
}

func (x *executor) free(a *engine.Action) {
	b := x.buffer(a.Inst)
	if b.users > 0 {
		x.bad("instance %d is freed and used by %d operations", a.Inst, b.users)
	}
	x.buffers[a.Inst] = nil
	if b.secret && !a.Secret {
		x.bad("instance %d has held secret data and is freed as if not", a.Inst)
	}
	if b.home {
		return
	}
	paint(b.mem, patternFreed)
	if b.at >= 0 {
		x.devices[b.at].used -= int64(len(b.mem))
	} else {
		x.hostUsed -= int64(len(b.mem))
	}
}

func (x *executor) resident(ref engine.DataRef) *resident {
	k := slices.IndexFunc(x.residents, func(d *resident) bool { return d.ref == ref })
	if k < 0 {
		x.bad("resident data %d is unknown", ref)
	}
	return x.residents[k]
}

// after has something happen later.
func (x *executor) after(d time.Duration, do func()) {
	at := x.now + d
	k := slices.IndexFunc(x.script, func(t timed) bool { return t.at > at })
	if k < 0 {
		k = len(x.script)
	}
	x.script = slices.Insert(x.script, k, timed{at, do})
}

// next returns when something happens next.
func (x *executor) next() (time.Duration, bool) {
	at, ok := time.Duration(0), false
	sooner := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	for l := range x.lanes {
		ln := &x.lanes[l]
		if len(ln.queue) > 0 && ln.queue[0].started && !ln.queue[0].hangs {
			sooner(ln.queue[0].end)
		}
		if len(ln.reports) > 0 {
			sooner(x.now + time.Duration(1+x.r.IntN(200_000)))
		}
	}
	for _, o := range x.detached {
		sooner(o.end)
	}
	if len(x.script) > 0 {
		sooner(x.script[0].at)
	}
	if len(x.news) > 0 {
		sooner(x.now)
	}
	if len(x.queue) > 0 {
		sooner(x.queue[0].submit)
	}
	if t, has := x.engine.NextWake(); has {
		sooner(t)
	}
	return max(at, x.now), ok
}

// step lets happen what is due and tells the engine.
func (x *executor) step() {
	x.steps++
	for len(x.script) > 0 && x.script[0].at <= x.now {
		do := x.script[0].do
		x.script = x.script[1:]
		do()
	}
	x.pump()
	x.endDetached()
	if x.traits.has(Detaches) {
		x.detach(machine.DeviceID(x.r.IntN(len(x.devices))))
	}
	evs := x.tell()
	for len(x.queue) > 0 && x.queue[0].submit <= x.now {
		j := x.queue[0]
		x.queue = x.queue[1:]
		j.id = x.engine.Submit(x.now, j.program.graph, j.options)
		x.jobs[j.id] = j
	}
	x.apply(x.engine.Step(x.now, evs, nil))
	for i := range x.devices {
		x.devices[i].known = x.devices[i].told
	}
	x.withinLimits()
	x.pump()
	if x.steps%forgetEvery == 0 {
		x.forget()
	}
}

// forgetEvery is after how many steps the board forgets failures: far fewer than the
// 512 it has room for come in that time.
const forgetEvery = 16

// tell returns what the engine hears now: of every lane's completions some, and
// lanes in any order.
func (x *executor) tell() []engine.Event {
	evs := x.news
	x.news = nil
	for _, l := range x.r.Perm(len(x.lanes)) {
		n := len(x.lanes[l].reports)
		if x.traits.has(Late) && n > 0 {
			n = x.r.IntN(n + 1)
		}
		evs = append(evs, x.report(l, n)...)
	}
	for i := range evs {
		x.noteEvent(&evs[i])
	}
	return evs
}

// until steps until over.
func (x *executor) until(what string, over func() bool) {
	for !over() {
		at, ok := x.next()
		switch {
		case !ok:
			x.bad("stuck: nothing is left to happen, and %s", what)
		case x.steps > maxSteps || at > maxTime:
			x.bad("endless: %d steps, %v, and %s", x.steps, at, what)
		}
		x.now = at
		x.step()
	}
}

func (x *executor) note(a *engine.Action) {
	if x.log == nil {
		return
	}
	name := ""
	if a.Graph != nil {
		name = a.Graph.TaskName(a.Task)
	}
	kinds := [...]string{"home", "alloc", "free", "copy", "launch", "drop", "recover", "probe", "done", "stop"}
	x.log(fmt.Sprintf("%10v %-7s %v dev %d from %d run %d %s rank %d inst %d bytes %d src %d+%d dst %d+%d waits %v args %v err %v",
		x.now, kinds[a.Kind], a.Op, a.Device, a.From, a.Run, name, a.Rank, a.Inst, a.Bytes, a.Src, a.SrcOff, a.Dst, a.DstOff, a.Waits, a.Args, a.Err))
}

func (x *executor) noteEvent(e *engine.Event) {
	if x.log == nil {
		return
	}
	kinds := [...]string{"op-done", "lost", "back", "quiet", "recover-failed", "probed", "telemetry", "capacity", "slowed", "cancel", "hot-swap", "drain", "undrain", "revive", "give-up", "detached"}
	x.log(fmt.Sprintf("%10v   %-14s %v status %d dev %d spare %d run %d kept %v bytes %d err %v",
		x.now, kinds[e.Kind], e.Op, e.Status, e.Device, e.Spare, e.Run, e.Kept, e.Bytes, e.Err))
}
