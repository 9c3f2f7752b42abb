package engine

import (
	"cmp"
	"errors"
	"time"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// The engine's options, its state and Step, which takes events in and goes through
// admission, placement, issue, delivery and the end of runs until nothing changes.

// Errors a run ends with; Done's Err wraps one or more of them.
var (
	ErrCancelled   = errors.New("run cancelled")
	ErrNoDevice    = errors.New("no device can run it")
	ErrOutOfMemory = fault.ErrOutOfMemory
	ErrTimeout     = fault.ErrTimeout
	ErrDeviceLost  = errors.New("device lost")
	ErrDataLost    = errors.New("data lost")
)

// Options configure an Engine; zero fields take the defaults named.
type Options struct {
	Machine *machine.Machine
	Cost    machine.Cost
	Policy  sched.Factory // sched.Policies()[sched.Default]
	Seed    uint64
	Trace   *trace.Recorder // nil records nothing

	// Depth is the greatest number of tasks in flight on a lane (64; 256 where all
	// devices use host memory) while those in flight are predicted to take less than
	// Ahead (2 ms; 0.5 ms). Two may always be in flight, except long tasks on a
	// device that uses host memory, if there is another device or another run (see
	// longHaul). Issuing further ahead hides completion latency but binds tasks to
	// devices earlier.
	Depth int
	Ahead time.Duration
	// Retries is the number of times a failed task is tried again before its run fails (3),
	// Backoff the pause before the first retry (1 ms), doubled for each further one.
	Retries int
	Backoff time.Duration
	// Compare makes the engine compare the data that tasks only read, so that kernels that
	// fail may be tried again (Action.Compare). Retries in the options of a run or a task
	// imply it.
	Compare bool
	// TaskTimeout bounds each execution of a task that names no timeout of its
	// own. Negative means no bound; 0 means no bound on devices in the caller's
	// process and Limits on others.
	TaskTimeout time.Duration
	// DetachAfter is how long a launch on a device that uses host memory may keep other
	// runs from the device (2 s; negative: without limit). See Blocks.
	DetachAfter time.Duration
	// Processes holds the process of each device; nil means all run in the caller's.
	Processes []Process
	Limits    Limits
	// ReplayBound and ReplayDepth limit the cost of losing a device: a value whose
	// recomputation is predicted to take longer (1 s), or would replay a longer chain
	// of tasks (32), is committed to host memory.
	ReplayBound time.Duration
	ReplayDepth int
	// Concurrent limits tasks in flight over all devices; 0 means no limit.
	Concurrent int
	// NoFaultTolerance turns fault tolerance off: a lost device fails the runs that had
	// tasks in flight there or need what only its memory held.
	NoFaultTolerance bool
	// Begun says, by lane, how many operations the loop has given it before
	// the engine's first; nil means none.
	Begun []uint32
	// Spares accept no work until a device is lost or a HotSwap puts them in its place.
	Spares []machine.DeviceID
	// Patient are devices whose tasks wait for other runs (see patient.go).
	Patient []machine.DeviceID
	// Health and Rebalance hold the thresholds of the health rules and the balancer.
	Health    HealthRules
	Rebalance sched.RebalanceOptions
	// Explain, when set, is called for every placement.
	Explain func(sched.Explanation)
	// Changed, when set, is called for every change of a device's state, once.
	Changed func(StateChange)
	// Ruled, when set, is called when a health rule begins to act on a device, and when it
	// ceases to.
	Ruled func(Ruling)
}

const (
	// defaultDepth (tasks) and defaultAhead bound the work in flight on a lane where some
	// device has memory of its own. Work for 2 ms covers the round trip of a completion, some
	// tens of microseconds, and the copies for the next tasks.
	defaultDepth = 64
	defaultAhead = 2 * time.Millisecond
	// hostDepth and hostAhead are the bounds where all devices use host memory. Nothing
	// is copied in advance there, so less time is enough; tasks may be under a
	// microsecond long, so more of them fit into it.
	hostDepth = 256
	hostAhead = 500 * time.Microsecond
	// defaultRetries is the number of failed executions a task may have before its run
	// fails. A retry avoids the device it failed on where there is another.
	defaultRetries = 3
	// defaultBackoff is the pause before the first retry; each further one is twice as
	// long, so that a fault that passes has time to.
	defaultBackoff = time.Millisecond
	// defaultReplayBound is the predicted time of recomputation above which a value is
	// committed: of the order of a restart of a worker process (0.3 to 0.8 s), so that
	// neither dominates the cost of a loss.
	defaultReplayBound = time.Second
	// defaultReplayDepth is the number of tasks in a chain above which a value is
	// committed: it spreads one copy over 32 tasks.
	defaultReplayDepth = 32
	// maxCopyFailures is the number of times in a row that the copies made for a task,
	// or to bring a value home, may fail before they are given up: a fault that passes
	// is survived, and a copy that always fails ends in bounded time.
	maxCopyFailures = 8
	// agingPerPriority is the service, in nanoseconds of fair-queueing time, by which a
	// waiting task is overtaken for each step of priority between it and a newer, more
	// urgent one. It makes priority a head start and not a privilege: nothing starves.
	agingPerPriority = int64(100 * time.Millisecond)
	// placeBatch is the number of tasks a policy is asked about in one call. It spreads
	// the cost of a call and bounds the size of a sched.Situation.
	placeBatch = 1024
	// fewReady is the first capacity for ready tasks, which doubles up to placeBatch: every prediction
	// makes an engine, and most have few tasks.
	fewReady = 16
)

// Engine is the state machine. It is not safe for concurrent use. Its state is divided
// into parts; each is declared in the file with the code that changes it.
type Engine struct {
	o    Options
	m    *machine.Machine
	cost machine.Cost
	tr   *trace.Recorder // nil records nothing
	// watch gets all notices; nil without a watcher. records says that watch or tr is set.
	watch   func(*Notice)
	records bool

	policy   sched.Policy
	learn    machine.Learner // the cost model, if it learns; else nil
	observer sched.Observer  // the policy, if it learns from outcomes; else nil
	steal    sched.Stealer   // the policy, if it lets queued tasks be taken; else nil
	planner  sched.Planner   // the policy, if it plans whole graphs; else nil

	now      time.Duration // the time of this step
	epoch    uint64        // of the cost model in this step, plus 1: 0 means costs not computed
	costIDs  uint64        // the last sched.Ready.CostID given out
	asked    bool          // a call outside Step needs a step
	hostOnly bool          // every device uses host memory: there are no copies and no inputs to list
	someHost bool          // some device uses host memory
	isolated bool          // some device runs in a process of its own
	teams    bool          // some device is a team
	checks   checkState

	mem store // values and the memories they are in; only its methods change it (TestWalls)
	out outbox
	flights
	devices
	runTable
	residentTable
	hostRoom
	tasks blocks[taskID, task]
	taskLists
	timers
	shortage
	failures
	scratch
}

// scratch holds slices that are reused from step to step. Their content has no meaning
// between calls.
type scratch struct {
	waits   []Op  // the arrays behind Action.Waits, valid until the next step
	args    []Arg // the arrays behind Action.Args, likewise
	ops     []Op  // operations that the launch being put together waits for
	buffers []useBuffer
	places  []sched.Placement
	inputs  []sched.Input
	onlys   []machine.DeviceID
	passed  []keyed
	due     []machine.DeviceID
	begins  sched.Run
}

// defaults fills in the fields that are zero.
func (o *Options) defaults() {
	depth, ahead := hostDepth, hostAhead
	for i := range o.Machine.Devices {
		if !o.Machine.Devices[i].HostMemory {
			depth, ahead = defaultDepth, defaultAhead
		}
	}
	o.Depth, o.Ahead = cmp.Or(o.Depth, depth), cmp.Or(o.Ahead, ahead)
	o.Retries, o.Backoff = cmp.Or(o.Retries, defaultRetries), cmp.Or(o.Backoff, defaultBackoff)
	o.ReplayBound, o.ReplayDepth = cmp.Or(o.ReplayBound, defaultReplayBound), cmp.Or(o.ReplayDepth, defaultReplayDepth)
	o.DetachAfter = cmp.Or(o.DetachAfter, defaultDetachAfter)
	if o.Policy == nil {
		o.Policy = sched.Policies()[sched.Default]
	}
	o.Health.defaults()
	o.Limits.defaults()
}

// New returns an engine for a machine.
func New(o Options) *Engine {
	o.defaults()
	e := &Engine{o: o, m: o.Machine, cost: o.Cost, tr: o.Trace, records: o.Trace != nil}
	e.copyFor = -1
	e.byID, e.latest = make(map[RunID]runSlot), make(map[*graph.Graph]*run)
	e.gangs, e.behindReaders = make(map[taskID]*gang), make(map[valueID][]taskID)
	e.taskCopies, e.valueCopies = make(map[taskID]copyFailure), make(map[valueID]copyFailure)
	e.attempts = make(map[taskID][]Attempt)
	if e.batch = placeBatch; o.Explain != nil {
		e.batch = 1 // an explanation shows the tasks before it as placed
	}
	e.learn, _ = o.Cost.(machine.Learner)
	e.policy = o.Policy(sched.Problem{Machine: o.Machine, Cost: o.Cost, Seed: o.Seed})
	e.observer, _ = e.policy.(sched.Observer)
	e.steal, _ = e.policy.(sched.Stealer)
	e.planner, _ = e.policy.(sched.Planner)
	for _, info := range LanesOf(o.Machine) {
		e.lanes = append(e.lanes, lane{info: info, ring: make([]opRec, 4)})
	}
	for i, n := range o.Begun {
		e.lanes[i].issued, e.lanes[i].done = uint64(n), uint64(n)
	}
	e.openDevices()
	free := make([]*int64, len(e.devs))
	for i := range free {
		if !e.m.Devices[i].HostMemory {
			free[i] = &e.situation.Devices[i].FreeBytes
		}
	}
	e.mem.open(e.m, e.lanes, &e.out, e, free)
	return e
}

// openDevices makes the records of the machine's devices.
func (e *Engine) openDevices() {
	n := len(e.m.Devices)
	e.devs, e.situation.Devices = make([]device, n), make([]sched.Device, n)
	e.contention = machine.NewContention(e.m)
	e.far = e.m.Far()
	e.hostOnly = true
	classes := e.m.Classes()
	next := Lane(1)
	for i := range e.devs {
		d, md := &e.devs[i], &e.m.Devices[i]
		d.space, d.swapTo, d.queue.all = deviceSpace(machine.DeviceID(i)), machine.Host, &e.queuedTasks
		d.shortfall.told = md.MemBytes
		if i < len(e.o.Processes) {
			d.process.Left = e.o.Processes[i].Left
		}
		if i < len(e.o.Processes) && e.o.Processes[i].Own {
			d.process, d.sharers, d.compiled = e.o.Processes[i], sharers(e.m, machine.DeviceID(i)), make(map[string]bool)
			d.least = e.o.Limits.Least
			e.isolated = true
		}
		capBytes := md.MemBytes
		if md.HostMemory {
			d.space, capBytes = hostSpace, cmp.Or(capBytes, e.m.HostBytes)
		}
		e.hostOnly, e.someHost = e.hostOnly && md.HostMemory, e.someHost || md.HostMemory
		capBytes = cmp.Or(capBytes, NoLimit)
		d.lanes, d.recent, d.team = [2]Lane{next, next + Lane(max(md.Lanes, 1))}, next, md.TeamSize()
		e.teams = e.teams || d.team > 0
		d.in, d.out = d.lanes[1], d.lanes[1]+1
		next = d.out + 1
		e.situation.Classes = max(e.situation.Classes, classes[i]+1)
		e.situation.Devices[i] = sched.Device{
			Class: classes[i], Accepts: true, HostMemory: md.HostMemory, Team: int32(d.team),
			FreeBytes: capBytes, CapBytes: capBytes, Slow: 1, Score: machine.Score(md),
		}
	}
	e.situation.Crowds = e.m.Crowds()
	for k, c := range e.situation.Crowds {
		for _, d := range c.Devices {
			e.situation.Devices[d].Crowd = int32(k + 1)
		}
	}
	for _, p := range e.o.Patient {
		e.devs[p].patient = true
	}
	for _, s := range e.o.Spares {
		e.devs[s].state, e.devs[s].role = Spare, Spare
		e.situation.Devices[s].Accepts = false
	}
	for i := range e.devs {
		e.probeAgain(machine.DeviceID(i))
	}
}

// Step tells the engine what happened up to now and appends the actions to out. The loop
// must perform them in order. now must not go back.
func (e *Engine) Step(now time.Duration, evs []Event, out []Action) []Action {
	e.now, e.out.list = now, out
	e.waits, e.args = e.waits[:0], e.args[:0]
	e.situation.Now = now
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
	e.runTimers()
	if len(e.mem.deferred) > 0 {
		e.mem.freeDeferred()
	}
	// Issuing makes successors ready, and the end of a run may let another start:
	// repeat until nothing changes.
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

// handle takes in one event other than OpDone.
func (e *Engine) handle(ev *Event) {
	e.updateFreeAt() // placement in reaction to the event reads it
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
	case Probed:
		e.probed(ev.Device, ev.Err)
	case Telemetry:
		e.telemetry(ev.Device, ev.Sample)
		ev.answer(nil)
	case Capacity:
		e.setCapacity(ev.Device, ev.Bytes)
	case Slowed:
		e.slowed(ev.Device, ev.Factor)
	case Cancel:
		if s, ok := e.byID[ev.Run]; ok {
			e.cancel(e.runs[s])
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
		e.hotSwap(ev)
	case Drain:
		e.drainAsked(ev)
	case Undrain:
		e.undrainAsked(ev)
	case Revive:
		e.reviveAsked(ev)
	}
}

// revisit has issueAll look at a device in this step, because its queue, credits or
// memory changed.
func (e *Engine) revisit(dev machine.DeviceID) {
	if d := &e.devs[dev]; !d.revisit {
		d.revisit = true
		e.revisits = append(e.revisits, dev)
	}
}
