package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// Errors a run ends with; Done's Err wraps one or more of them.
var (
	ErrCancelled   = errors.New("run cancelled")
	ErrNoDevice    = errors.New("no device can run it")
	ErrOutOfMemory = errors.New("does not fit in memory")
	ErrTimeout     = errors.New("timed out")
	ErrDeviceLost  = errors.New("device lost")
	ErrDataLost    = errors.New("data lost")
)

// Options configure an Engine; zero fields take the defaults named.
type Options struct {
	Machine *machine.Machine
	Cost    machine.Cost
	Policy  sched.Factory // sched.Policies()["finish"]
	Seed    uint64
	Trace   *trace.Recorder // nil records nothing

	// Depth is how many tasks may be in flight on a lane (64; 256 where all
	// devices use host memory), as long as those in flight are predicted to
	// take less than Ahead (2 ms; 0.5 ms); two may always be, but for long ones
	// on a device that uses host memory, where that or the run is not the only
	// one. Issuing further ahead hides completion latency but binds tasks to
	// devices earlier.
	Depth int
	Ahead time.Duration
	// Retries is how often a task may fail before its run does (3), Backoff
	// the pause before the first retry (1 ms), doubled for each further one.
	Retries int
	Backoff time.Duration
	// TaskTimeout bounds each execution of a task that names no timeout of its
	// own. Negative means that nothing does. With 0 nothing does on devices in the
	// caller's process, and Limits on others.
	TaskTimeout time.Duration
	// DetachAfter is how long a launch on a device that uses host memory may keep other
	// runs from the device (2 s; negative: for ever): see Blocks.
	DetachAfter time.Duration
	// Processes says, by device, which process it runs in; nil means the caller's.
	Processes []Process
	Limits    Limits
	// ReplayBound and ReplayDepth limit what losing a device may cost: a value
	// whose recomputation is predicted to take longer (1 s) or would replay a
	// longer chain of tasks (32) is committed to host memory.
	ReplayBound time.Duration
	ReplayDepth int
	// MaxInFlight limits tasks in flight over all devices; 0 means no limit.
	MaxInFlight int
	// NoRecovery turns fault tolerance off: a lost device fails the runs that had
	// tasks in flight there or need what only its memory held.
	NoRecovery bool
	// Begun says, by lane, how many operations the loop has given it before
	// the engine's first; nil means none.
	Begun []uint32
	// Spares accept no work until a HotSwap puts them in another's place.
	Spares []machine.DeviceID
	// Health and Rebalance hold the thresholds of the ladder and the balancer.
	Health    Health
	Rebalance sched.RebalanceOptions
	// Explain, when set, is called for every placement.
	Explain func(sched.Explanation)
	// Changed, when set, is called for every change of a device's state, once.
	Changed func(StateChange)
}

const (
	defaultDepth       = 64
	defaultAhead       = 2 * time.Millisecond
	hostDepth          = 256
	hostAhead          = 500 * time.Microsecond
	defaultRetries     = 3
	defaultBackoff     = time.Millisecond
	defaultReplayBound = time.Second
	defaultReplayDepth = 32
	// maxCopyFailures is how often the copies made for a task, or to bring a value home, may
	// fail in a row.
	maxCopyFailures = 8
	// agingPerPriority is the service a waiting task is overtaken by for each
	// step of priority between it and a newer, more urgent one. It makes
	// priority a head start instead of a privilege, so nothing starves.
	agingPerPriority = int64(100 * time.Millisecond)
	placeBatch       = 1024
)

// Engine is the state machine. It is not safe for concurrent use.
type Engine struct {
	o       Options
	m       *machine.Machine
	cost    machine.Cost
	learn   machine.Learner
	policy  sched.Policy
	watch   sched.Observer
	steal   sched.Stealer
	planner sched.Planner
	work    sched.Work // scratch of plan
	tr      *trace.Recorder

	now   time.Duration
	out   outbox
	mem   store
	waits []Op  // arena behind Action.Waits
	args  []Arg // arena behind Action.Args

	devs  []device
	lanes []lane
	far   map[[2]machine.DeviceID]bool // which devices a network joins

	runs      []*run // by slot; nil where free
	freeRuns  []runSlot
	spare     []*run // retired runs, kept for their slices
	byID      map[RunID]runSlot
	latest    map[*graph.Graph]*run // the run of each graph that began last and has not ended
	nextRun   RunID
	toAdmit   []ticket  // runs to look at that are not admitted yet, a heap by number
	recuts    []ticket  // those that wait for resident data to be cut anew
	committed uint64    // the step in which all resident data was last committed
	served    []DataRef // resident data something was asked of
	vnow      int64     // virtual service time reached (fair queueing)
	weights   float64   // sum over active runs
	share     float64   // of a run of weight 1: 1/weights

	tasks blocks[taskID, task]

	resident []residentData
	freeRes  []DataRef

	ready         fifo[taskID] // tasks waiting for a placement
	leftOuts      []taskID     // tasks no device takes at present
	delayed       []delay      // retries backing off, a heap by time
	gangs         map[taskID]*gang
	view          sched.View
	places        []sched.Placement
	batch         int // tasks placed in one call
	inputs        []sched.Input
	onlys         []machine.DeviceID
	inFlight      int                    // launches
	queuedTasks   int                    // tasks in device queues
	revisits      []machine.DeviceID     // devices whose queue or credits changed
	loadChanged   []machine.DeviceID     // devices whose load changed while events were taken in
	timedOps      int                    // operations in flight with a timeout
	timed         []machine.DeviceID     // devices whose ladder, hand-over or memory has a timer
	due           []machine.DeviceID     // scratch of timers
	bounds        []bound                // before when no lane is overdue, a heap by time
	limited       fifo[machine.DeviceID] // devices that wait for fewer tasks to be in flight
	flying        int                    // operations in flight
	refused       int64                  // bytes of a copy into host memory there was no room for
	effort        effort                 // how far to go for room
	squeezes      int                    // copies within a memory that failed in a row
	passed        []keyed                // scratch of issueNext
	asked         bool                   // something was asked for outside Step
	ended         bool                   // a run ended in this step
	offerAgain    bool                   // devices changed: offer tasks left out again
	gangWaits     bool                   // a gang waits for memory
	gangLine      fifo[taskID]           // gangs that wait for fewer tasks in flight
	epoch         uint64
	contention    *machine.Contention // who computed beside whom, nil where nobody minds
	checks        checkState
	balance       balanceState
	hostOnly      bool                    // every device uses host memory: no copies, no inputs to list
	isolated      bool                    // some device runs in a process of its own
	detached      []detachedOp            // launches that have left their lanes
	ending        []runSlot               // runs to end at the end of the step
	failed        []runSlot               // runs that failed in this step while something of them ran
	homeward      []valueID               // outputs whose home may have become free
	offered       uint32                  // executions the cost model could have had
	behindReaders map[valueID][]taskID    // tasks that wait for the readers of a value
	plans         []plan                  // scratch of tryIssue
	ops           []Op                    // scratch: waits being collected
	copyFor       taskID                  // task copies are being made for, -1
	copySerial    uint32                  // of the issue they are made for
	taskCopies    map[taskID]copyFailure  // of the tasks that are cut off
	suspects      map[taskID][]Loss       // by task, the devices that were lost while it ran
	valueCopies   map[valueID]copyFailure // by value, how copies that no task waits for failed in a row
}

// device is the engine's own view of a device; what policies see is in view.Devices.
type device struct {
	space       spaceID
	lanes       [2]Lane // compute lanes [first, end)
	in, out     Lane
	queue       queue
	state       DeviceState
	blocked     bool // the head of its queue waits for memory
	waits       waitsOn
	shortfall   shortfall
	stats       machine.Stats
	backlog     int64 // predicted time of tasks in flight
	load        int64 // and of those queued as well
	health      deviceHealth
	swapTo      machine.DeviceID // -1, or where its state moves once idle
	flight      int              // operations in flight that use its lanes
	revisit     bool             // on the list of devices to look at
	limited     bool             // and on that of devices that wait for fewer tasks to be in flight
	dirty       bool             // and on that of the policy
	inUse       []usedPart       // what calls it was dropped with may still use
	cause       error            // why it was lost last
	loadChanged bool             // its load changed and its FreeAt did not yet
	losses      int              // how often it was lost
	util        float64          // as last sampled, its own work included

	process    Process
	sharers    int             // launches that may run at a time on what it computes with
	compiled   map[string]bool // kernels, by name, that have run in its process since that began
	compiledAt time.Duration   // when the last of them did for the first time
}

// lane is an in-order queue of operations in flight.
type lane struct {
	info     LaneInfo
	issued   uint64 // counted without end; numbers of operations are the lower half
	done     uint64
	lost     uint64 // operations up to here were given up on
	ring     []opRec
	head     time.Duration // when its oldest operation became the oldest
	last     time.Duration // when it last completed one
	timed    int           // operations in flight that have a timeout
	watchers []Lane        // whose oldest operations have timeouts and cannot start before this one gets on
	bound    time.Duration // its earliest entry among the engine's bounds, 0 for none
}

func (l *lane) rec(seq uint64) *opRec { return &l.ring[seq&uint64(len(l.ring)-1)] }

// count returns what issued was at an operation in flight, or not long ago: numbers
// wrap, and one is taken for the nearest to what is done.
func (l *lane) count(seq uint32) uint64 {
	return l.done + uint64(int64(int32(seq-uint32(l.done))))
}

// opRec is an operation in flight.
type opRec struct {
	task   taskID // -1 for a copy
	rank   int16
	why    copyWhy
	quick  bool // a launch whose args are slots, pinned one by one
	auto   bool // its timeout is the least it can be: see limit
	src    Inst
	dst    Inst
	p0, p1 pieceID // pieces copied
	issued time.Duration
	// of a launch, when the last copy made for it arrived, if traced
	inputs time.Duration
	// the task a copy is made for, if any
	forRun   int32
	forTask  graph.TaskID
	forIssue uint32 // serial of its issue
	timeout  time.Duration
	bytes    int64
	args     []Inst   // instances of a launch, in use order; workspace last
	slots    []slotID // of a quick launch, the slots it pins
	waits    []Op     // of a launch on a device with memory of its own, or with a timeout
}

// task is a task of a run. It holds no pointers and fills a cache line exactly:
// most of what a task costs is fetching it.
type task struct {
	run      runSlot
	unissued int32 // predecessors neither issued nor done
	lane     Lane
	seq      uint32 // while it is issued, its operation's
	dev      machine.DeviceID
	avoid    machine.DeviceID // a device it failed on, -1
	liveOuts int32            // values it made that are needed and not in host memory
	where    where
	flags    taskFlags
	tries    uint16 // failed executions
	eft      int64  // predicted end; once done, the real one
	cost     int64  // predicted duration
	readyAt  int64
	key      int64
}

type taskFlags uint8

const (
	held        taskFlags = 1 << iota // its recipe is kept: some result exists only on a device
	replayed                          // it ran before
	charged                           // its run has paid for its turn
	inputFailed                       // copies made for it failed
)

// New returns an engine for a machine.
func New(o Options) *Engine {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	defD := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	depth, ahead := hostDepth, hostAhead
	for i := range o.Machine.Devices {
		if !o.Machine.Devices[i].HostMemory {
			depth, ahead = defaultDepth, defaultAhead
		}
	}
	def(&o.Depth, depth)
	defD(&o.Ahead, ahead)
	def(&o.Retries, defaultRetries)
	defD(&o.Backoff, defaultBackoff)
	defD(&o.ReplayBound, defaultReplayBound)
	def(&o.ReplayDepth, defaultReplayDepth)
	if o.Policy == nil {
		o.Policy = sched.Policies()["finish"]
	}
	o.Health.defaults()
	o.Limits.defaults()
	defD(&o.DetachAfter, defaultDetachAfter)
	e := &Engine{
		copyFor: -1,
		o:       o, m: o.Machine, cost: o.Cost, tr: o.Trace,
		byID:          make(map[RunID]runSlot),
		latest:        make(map[*graph.Graph]*run),
		gangs:         make(map[taskID]*gang),
		behindReaders: make(map[valueID][]taskID),
		taskCopies:    make(map[taskID]copyFailure),
		suspects:      make(map[taskID][]Loss),
		valueCopies:   make(map[valueID]copyFailure),
	}
	if e.batch = placeBatch; o.Explain != nil {
		e.batch = 1 // each is explained with those before it in place
	}
	e.learn, _ = o.Cost.(machine.Learner)
	e.contention = machine.NewContention(o.Machine)
	e.view.Crowds = o.Machine.Crowds()
	e.policy = o.Policy(sched.Problem{Machine: o.Machine, Cost: o.Cost, Seed: o.Seed})
	e.watch, _ = e.policy.(sched.Observer)
	e.steal, _ = e.policy.(sched.Stealer)
	e.planner, _ = e.policy.(sched.Planner)
	for _, info := range LanesOf(o.Machine) {
		e.lanes = append(e.lanes, lane{info: info, ring: make([]opRec, 4)})
	}
	for i, n := range o.Begun {
		e.lanes[i].issued, e.lanes[i].done = uint64(n), uint64(n)
	}
	next := Lane(1)
	e.mem.lanes, e.mem.out, e.mem.watcher = e.lanes, &e.out, e
	e.mem.spaces = make([]space, 1+len(e.m.Devices))
	e.mem.spaces[0] = space{dev: machine.Host, cap: e.m.HostBytes, oldest: -1, newest: -1}
	e.hostOnly = true
	classes := e.m.Classes()
	e.devs = make([]device, len(e.m.Devices))
	e.view.Devices = make([]sched.Device, len(e.m.Devices))
	for i := range e.devs {
		d, md := &e.devs[i], &e.m.Devices[i]
		id := machine.DeviceID(i)
		e.mem.spaces[1+i] = space{dev: id, cap: md.MemBytes, free: &e.view.Devices[i].FreeBytes, oldest: -1, newest: -1}
		d.space, d.swapTo, d.queue.all = spaceID(1+i), -1, &e.queuedTasks
		d.shortfall.told = md.MemBytes
		if i < len(o.Processes) && o.Processes[i].Own {
			d.process, d.sharers, d.compiled = o.Processes[i], sharers(e.m, id), make(map[string]bool)
			e.isolated = true
		}
		capBytes := md.MemBytes
		if md.HostMemory {
			d.space = 0
			if capBytes == 0 {
				capBytes = e.m.HostBytes
			}
		} else {
			e.hostOnly = false
		}
		if capBytes == 0 {
			capBytes = NoLimit
		}
		d.lanes = [2]Lane{next, next + Lane(max(md.Lanes, 1))}
		d.in, d.out = d.lanes[1], d.lanes[1]+1
		next = d.out + 1
		e.view.Classes = max(e.view.Classes, classes[i]+1)
		e.view.Devices[i] = sched.Device{
			Class: classes[i], Accepts: true, HostMemory: md.HostMemory,
			FreeBytes: capBytes, CapBytes: capBytes, Slow: 1, Score: machine.Score(md),
		}
	}
	e.far = e.m.Far()
	for k, c := range e.view.Crowds {
		for _, d := range c.Devices {
			e.view.Devices[d].Crowd = int32(k + 1)
		}
	}
	for _, s := range o.Spares {
		e.devs[s].state = Spare
		e.view.Devices[s].Accepts = false
	}
	return e
}

// Lanes describes the engine's lanes; index is the Lane.
func (e *Engine) Lanes() []LaneInfo { return LanesOf(e.m) }

// LanesOf describes the lanes an engine for a machine has: one for copies within
// host memory, then for each device its compute lanes, the one for copies in and
// the one for copies out.
func LanesOf(m *machine.Machine) []LaneInfo {
	out := []LaneInfo{{Device: machine.Host, Kind: CopyIn}}
	for i := range m.Devices {
		d := machine.DeviceID(i)
		for k := range max(m.Devices[i].Lanes, 1) {
			out = append(out, LaneInfo{Device: d, Kind: Compute, Index: k})
		}
		out = append(out, LaneInfo{Device: d, Kind: CopyIn}, LaneInfo{Device: d, Kind: CopyOut})
	}
	return out
}

// Issued returns how many operations a lane has been given.
func (e *Engine) Issued(l Lane) uint32 { return uint32(e.lanes[l].issued) }

// Ended returns the number of the last operation of a lane the engine has heard the
// end of: nothing it issues later waits for those up to there.
func (e *Engine) Ended(l Lane) uint32 { return uint32(e.lanes[l].done) }

// Running is a launch a device has begun and not ended.
type Running struct {
	Op    Op
	Graph *graph.Graph
	Task  graph.TaskID
	Since time.Duration // it has not begun before
}

// Oldest returns what a device has been running for longest; false if it runs
// nothing. Copies a launch waits for are not counted as part of it.
func (e *Engine) Oldest(dev machine.DeviceID) (o Running, ok bool) {
	d := &e.devs[dev]
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		if ln.done == ln.issued {
			continue
		}
		rec := ln.rec(ln.done + 1)
		if rec.task < 0 {
			continue
		}
		r, gt := e.taskOf(rec.task)
		since, begun := max(ln.head, rec.issued), true
		for _, p := range r.f.Preds(gt) {
			t := &e.tasks.at[r.task(graph.TaskID(p))]
			begun = begun && t.where == done
			since = max(since, time.Duration(t.eft))
		}
		if begun && (!ok || since < o.Since) {
			o, ok = Running{Op{l, uint32(ln.done + 1)}, r.g, gt, since}, true
		}
	}
	return o, ok
}

// NoLimit is the capacity of a memory that has no limit.
const NoLimit = 1 << 62

// DeviceStatus is what the engine knows of a device.
type DeviceStatus struct {
	State  DeviceState
	Stats  machine.Stats
	Queued int // tasks placed and not finished
	// Util is the utilisation last sampled, Others the part of it that is not
	// the engine's own work.
	Util     float64
	Others   float64
	Slow     float64
	Losses   int // how often it was lost
	MemUsed  int64
	MemBytes int64
}

// Status returns the state of a device.
func (e *Engine) Status(dev machine.DeviceID) DeviceStatus {
	d, vd := &e.devs[dev], &e.view.Devices[dev]
	st := DeviceStatus{
		State: d.state, Stats: d.stats, Queued: int(vd.Queued), Util: d.util, Others: vd.Util, Slow: vd.Slow, Losses: d.losses,
		MemUsed: e.mem.spaces[d.space].used, MemBytes: vd.CapBytes,
	}
	st.Stats.Load = vd.Load
	return st
}

// Step tells the engine what happened up to now and appends what to do to out.
// Actions must be performed in order. now must not go back.
func (e *Engine) Step(now time.Duration, evs []Event, out []Action) []Action {
	e.now, e.out.list = now, out
	e.waits, e.args = e.waits[:0], e.args[:0]
	e.view.Now = now
	e.asked = false
	e.epoch = e.cost.Epoch() + 1 // 0 stands for costs not computed
	for i := range evs {
		if ev := &evs[i]; ev.Kind == OpDone {
			e.opDone(ev)
		} else {
			e.handle(ev)
		}
	}
	e.updateFreeAt()
	e.timers()
	if len(e.mem.deferred) > 0 {
		e.mem.freeDeferred()
	}
	// Issuing makes successors ready, which places and issues further, and a
	// run that ends may let another start: go on until nothing moves.
	for {
		e.ended = false
		e.admit()
		e.place()
		e.issueAll()
		e.redeliver()
		e.endRuns()
		if len(e.revisits) > 0 || e.ready.len() > 0 || e.ended {
			continue
		}
		if e.flying > 0 || !e.relieve() {
			break
		}
	}
	e.effort = usual
	if len(e.failed) > 0 {
		e.stop()
	}
	e.check()
	out, e.out.list = e.out.list, nil
	return out
}

func (e *Engine) handle(ev *Event) {
	e.updateFreeAt() // it may need to know
	switch ev.Kind {
	case DeviceLost:
		h := &e.devs[ev.Device].health
		blamed := ev.Blamed && h.faulted
		if blamed {
			h.rung = 0
		}
		e.lose(ev.Device, ev.Kept, blamed, ev.Err)
	case DeviceBack:
		e.back(ev.Device, ev.Kept)
	case DeviceQuiet:
		e.quieted(ev.Device)
	case Telemetry:
		e.telemetry(ev.Device, ev.Sample)
	case Capacity:
		e.setCapacity(ev.Device, ev.Bytes)
	case Slowed:
		e.slowed(ev.Device, ev.Factor)
	case Cancel:
		// Once is enough: who closes cancels until everything has ended.
		if s, ok := e.byID[ev.Run]; ok && !slices.Contains(e.runs[s].errs, ErrCancelled) {
			e.fail(e.runs[s], ErrCancelled)
		}
	case Detached:
		e.detach(ev.Op)
	case GiveUp:
		e.giveUp(ev.Run)
	case RecoverFailed:
		if d := &e.devs[ev.Device]; d.state == Lost {
			d.health.rung++
			d.health.never = ev.Never
			e.climb(ev.Device)
		}
	case HotSwap:
		e.hotSwap(ev.Device, ev.Spare)
	case Drain:
		e.drain(ev.Device)
	case Undrain:
		e.undrain(ev.Device)
	}
}

// poke has a device looked at in this step: its queue, credits or memory changed.
func (e *Engine) revisit(dev machine.DeviceID) {
	if d := &e.devs[dev]; !d.revisit {
		d.revisit = true
		e.revisits = append(e.revisits, dev)
	}
}

// outbox collects the actions of a step.
type outbox struct{ list []Action }

// emit adds an action for the caller to fill in.
func (o *outbox) emit(k ActionKind) *Action {
	n := len(o.list)
	if n == cap(o.list) {
		o.list = append(o.list, Action{})
	} else {
		o.list = o.list[:n+1]
		o.list[n] = Action{}
	}
	a := &o.list[n]
	a.Kind = k
	return a
}

// push gives a lane its next operation and returns its record.
func (e *Engine) push(l Lane) (Op, *opRec) {
	ln := &e.lanes[l]
	if int(ln.issued-ln.done) >= len(ln.ring) {
		bigger := make([]opRec, 2*len(ln.ring))
		for s := ln.done + 1; s != ln.issued+1; s++ {
			bigger[s&uint64(len(bigger)-1)] = *ln.rec(s)
		}
		ln.ring = bigger
	}
	if ln.issued == ln.done {
		ln.head = e.now
	}
	ln.issued++
	e.flying++
	r := ln.rec(ln.issued)
	r.task, r.rank, r.quick, r.issued, r.timeout = -1, 0, false, e.now, 0
	r.forRun, r.forTask, r.inputs = 0, graph.NoTask, 0
	r.args, r.slots, r.waits = r.args[:0], r.slots[:0], r.waits[:0]
	return Op{l, uint32(ln.issued)}, r
}

// computes reports whether a lane carries launches. Where all devices use host
// memory, lane 0 is the only one that copies.
func (e *Engine) computes(l Lane) bool {
	return l != 0 && (e.hostOnly || e.lanes[l].info.Kind == Compute)
}
