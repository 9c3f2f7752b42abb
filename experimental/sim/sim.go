package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// ErrStuck is returned when runs are unfinished and nothing is left that could
// finish them, or when a simulation passes its limits.
var ErrStuck = errors.New("the simulation does not go on")

// ErrStopped is returned when Config.Stop ended a simulation.
var ErrStopped = errors.New("the simulation was stopped")

// Limits used when Config names none.
const (
	DefaultMaxTime  = 1000 * time.Hour
	DefaultMaxSteps = 100_000_000
	// idleWakes is the number of times in a row that the engine may ask to be woken and then do
	// nothing, with nothing else to wait for, before it counts as stuck.
	idleWakes = 10_000
	// stopSteps is the number of steps between two calls of Config.Stop. They take about 1 ms, so that the calls cost
	// nothing that can be measured.
	stopSteps = 1024
)

// Job is a graph to run.
type Job struct {
	Name  string
	At    time.Duration // when it is submitted
	Graph *graph.Graph
	// Bind ties data of the graph to Config.Resident.
	Bind []Binding
	// Weight is the run's share of the devices relative to others (1).
	Weight float64
	// Concurrent limits the run's tasks in flight; 0 means no limit.
	Concurrent int
	// Timeout and Retries replace those of Config for this run if not 0; a negative Timeout
	// removes the limit of its tasks.
	Timeout time.Duration
	Retries int
	// Priority is added to the priority of every task.
	Priority int
	// Rather, when not empty, lists the devices the run was cut for, ascending. A task goes
	// to another one only if none of these can take it at present.
	Rather []machine.DeviceID
}

// Binding ties a graph's data to a position in Config.Resident.
type Binding struct {
	Data     graph.DataID
	Resident int
}

// Config says what to simulate. Machine and Jobs are needed; the rest may be zero.
type Config struct {
	Machine *machine.Machine
	Jobs    []Job
	// Resident is data that outlives runs; when all runs have ended every one is
	// fetched and checked. What volatile data holds after a run that writes it
	// failed is undefined, and so is all that is computed from it.
	Resident []graph.Data
	// Policy names the policy, unless NewPolicy makes it.
	Policy    string
	NewPolicy sched.Factory
	// Cost predicts durations for the engine (a roofline of Machine);
	// Truth gives the real durations (Cost).
	Cost, Truth machine.Cost
	Seed        uint64
	// Noise varies real durations by up to this fraction either way.
	Noise  float64
	Faults Faults
	// Trace records what happens; nil records nothing.
	Trace *trace.Recorder
	// Explain, when set, is called for every placement.
	Explain func(sched.Explanation)
	// Concurrent limits tasks in flight over all devices; 0 means no limit.
	Concurrent int
	// TaskTimeout bounds each execution of a task that names no timeout of its own;
	// 0 bounds none.
	TaskTimeout time.Duration
	// Retries is the number of times that a task may fail before its run does (3).
	Retries int
	// NoFaultTolerance turns fault tolerance off: a lost device fails the runs that had
	// tasks in flight there or need what only its memory held.
	NoFaultTolerance bool
	// Rebalance holds the thresholds of the balancer.
	Rebalance sched.RebalanceOptions
	// Spares accept no work until a fault swaps them in. Those that Faults names
	// need not be listed.
	Spares []machine.DeviceID
	// Verify has one task in this many executed on two devices and compared; 0 has none. Seed
	// says which. Corrupt is, by device, the part of executions there that end well with a
	// wrong result.
	Verify  int
	Corrupt []float64
	// Unchecked turns the oracle off, for speed.
	Unchecked bool
	// Unbounded leaves Result.Bound and Result.Efficiency out, for speed: for a graph of one
	// task the bound takes longer than the simulation.
	Unbounded bool
	// MaxTime and MaxSteps end a simulation that goes on for ever.
	MaxTime  time.Duration
	MaxSteps int
	// Stop, if not nil, is asked now and then whether the result is not wanted any more. Run then
	// returns ErrStopped.
	Stop func() bool

	// engine holds options that only tests set; the others are filled in.
	engine engine.Options
	// late and board are as in hardwareOptions.
	late  bool
	board *driver.Board
}

// options returns the options of the engine.
func (c *Config) options() engine.Options {
	o := c.engine
	o.Machine, o.Cost, o.Seed, o.Policy = c.Machine, c.Cost, c.Seed, c.NewPolicy
	o.Trace, o.Explain, o.Concurrent, o.TaskTimeout, o.Retries = c.Trace, c.Explain, c.Concurrent, c.TaskTimeout, c.Retries
	o.NoFaultTolerance, o.Rebalance, o.Spares = c.NoFaultTolerance, c.Rebalance, c.Spares
	return o
}

// Result is the outcome of a simulation.
type Result struct {
	// Makespan is the time from the first submission to the last end.
	Makespan time.Duration
	Runs     []RunResult // as submitted
	Busy     []time.Duration
	// Losses counts how often devices were lost, and Recoveries how often one came back.
	Losses, Recoveries int
	// Utilisation is the part of Makespan each device was computing.
	Utilisation []float64
	// Bound is a time no schedule can beat on this machine in working order,
	// by Truth without noise; Efficiency is its ratio to Makespan. Both are 0 where
	// Config.Unbounded leaves them out.
	Bound      time.Duration
	Efficiency float64
	Steps      int
	Trace      []trace.Event // when Config.Trace was given
}

// RunResult is the outcome of one run.
type RunResult struct {
	Name      string
	Run       int64 // its number, from 1 in the order of submission; events have the same
	Submitted time.Duration
	Ended     time.Duration
	Err       error
	Report    *trace.Report
	// Verified, Unverified and Wrong are as in trace.Report, Wrong being a count. Spoilt says
	// that the results of the run are wrong.
	Verified, Unverified, Wrong int
	Spoilt                      bool
}

// Run simulates. The error is nil when every run ended, well or not; it wraps
// ErrViolation when the engine did something wrong and ErrStuck when it stopped
// doing anything, or keeps something of what has ended.
func Run(c Config) (*Result, error) {
	l, err := newLoop(c)
	if err != nil {
		return nil, err
	}
	if err := l.run(); err != nil {
		return nil, err
	}
	return l.result(), nil
}

// loop is a simulation in progress.
type loop struct {
	c       Config
	engine  *engine.Engine
	hw      *hardware
	believe *linkCost // the engine's cost model, where links can break
	jobs    []Job     // not submitted yet
	faults  Faults    // not injected yet
	refs    []engine.DataRef
	runs    []RunResult
	byID    map[engine.RunID]int
	open    int // runs submitted and not ended
	fetches int // resident data asked for and not there yet
	fetched bool
	freed   bool // and given back
	stepNow bool // the engine was asked for something: step at once
	steps   int
	idle    int
	verify  *verifier
	tell    []engine.Event  // for the next step
	done    []engine.Action // executions that ended in this one
}

func newLoop(c Config) (*loop, error) {
	if c.Machine == nil || len(c.Machine.Devices) == 0 {
		return nil, fmt.Errorf("sim: the machine has no devices")
	}
	for i := range c.Jobs {
		if c.Jobs[i].Graph == nil {
			return nil, fmt.Errorf("sim: job %d (%q): %w: the graph is nil", i, c.Jobs[i].Name, graph.ErrValue)
		}
	}
	if c.Verify > 0 {
		if c.Cost != nil || c.Truth != nil {
			return nil, fmt.Errorf("sim: verify: cost models of the machine's own devices do not know the one that checks")
		}
		c.Machine = withVerifier(c.Machine)
	}
	if c.Cost == nil {
		c.Cost = machine.NewRoofline(c.Machine)
	}
	if c.Truth == nil {
		c.Truth = c.Cost
	}
	if c.MaxTime == 0 {
		c.MaxTime = DefaultMaxTime
	}
	if c.MaxSteps == 0 {
		c.MaxSteps = DefaultMaxSteps
	}
	l := &loop{c: c, byID: make(map[engine.RunID]int)}
	if c.Verify > 0 {
		l.verify = &verifier{
			device: machine.DeviceID(len(c.Machine.Devices) - 1), every: c.Verify,
			outer: make(map[engine.RunID]*checkedRun), inner: make(map[engine.RunID]*checkedTask),
		}
	}
	l.jobs = slices.Clone(c.Jobs)
	slices.SortStableFunc(l.jobs, func(a, b Job) int { return int(min(max(a.At-b.At, -1), 1)) })
	l.faults = slices.Clone(c.Faults)
	l.faults.sort()
	if err := l.makeEngine(); err != nil {
		return nil, err
	}
	l.hw = newHardware(hardwareOptions{
		Machine: c.Machine, Lanes: l.engine.Lanes(), Begun: c.engine.Begun, Cost: newLinkCost(c.Machine, c.Truth),
		Noise: c.Noise, Seed: c.Seed, Check: !c.Unchecked, Late: c.late, Board: c.board,
	})
	l.hw.corrupt = c.Corrupt
	if l.verify != nil {
		l.hw.patient = l.verify.device
	}
	for _, d := range c.Resident {
		ref := l.engine.NewData(d.Name, d.Bytes, d.Durability)
		l.refs = append(l.refs, ref)
		l.hw.BeginData(ref, d)
	}
	return l, nil
}

// makeEngine is the one place that knows how an engine is made.
func (l *loop) makeEngine() error {
	o := l.c.options()
	if o.Policy == nil {
		f, err := sched.New(l.c.Policy)
		if err != nil {
			return err
		}
		o.Policy = f
	}
	for _, f := range l.faults {
		switch f.Kind {
		case Break, Mend:
			if l.believe == nil {
				l.believe = newLinkCost(l.c.Machine, l.c.Cost)
				o.Cost = l.believe
			}
		case Swap:
			if !slices.Contains(o.Spares, f.Other) {
				o.Spares = append(slices.Clone(o.Spares), f.Other)
			}
		}
	}
	if l.verify != nil {
		o.Patient = []machine.DeviceID{l.verify.device}
	}
	l.engine = engine.New(o)
	return nil
}

func (l *loop) run() error {
	var evs []engine.Event
	var acts []engine.Action
	for {
		if len(l.jobs) == 0 && l.open == 0 {
			l.fetch()
			if l.fetches == 0 && l.emptied() {
				return nil
			}
		}
		now, waking, ok := l.next()
		if !ok {
			return l.stuck("nothing is left to happen")
		}
		if now > l.c.MaxTime {
			return l.stuck(fmt.Sprintf("it passed %v", l.c.MaxTime))
		}
		if l.steps++; l.steps > l.c.MaxSteps {
			return l.stuck(fmt.Sprintf("it took more than %d steps", l.c.MaxSteps))
		}
		if l.steps%stopSteps == 0 && l.c.Stop != nil && l.c.Stop() {
			return ErrStopped
		}
		evs = append(l.inject(now, evs[:0]), l.tell...)
		l.tell = l.tell[:0]
		var err error
		if evs, err = l.hw.Advance(now, evs); err != nil {
			return err
		}
		l.submit(now)
		acts = l.engine.Step(now, evs, acts[:0])
		l.idle++
		if !waking || len(evs) > 0 || len(acts) > 0 {
			l.idle = 0
		} else if l.idle > idleWakes {
			return l.stuck(fmt.Sprintf("the engine was woken %d times and did nothing", l.idle))
		}
		l.note(now, acts)
		if err := l.hw.Apply(now, acts); err != nil {
			return err
		}
		l.checkResults(now)
	}
}

// fetch asks for all resident data, once.
func (l *loop) fetch() {
	if l.fetched {
		return
	}
	l.fetched, l.stepNow = true, true
	for _, ref := range l.refs {
		l.engine.Fetch(ref)
		l.fetches++
	}
}

// emptied gives all resident data back, once, and reports whether the engine keeps
// nothing any more. Without the oracle that is not looked at.
func (l *loop) emptied() bool {
	if l.c.Unchecked {
		return true
	}
	if !l.freed {
		l.freed, l.stepNow = true, len(l.refs) > 0
		for _, ref := range l.refs {
			l.engine.FreeData(ref)
		}
	}
	return l.engine.Left() == ""
}

// next returns the time of the next step, and whether only the engine's own
// timer leads there.
func (l *loop) next() (now time.Duration, waking, ok bool) {
	take := func(t time.Duration) {
		if !ok || t < now {
			now = t
		}
		ok = true
	}
	if t, some := l.hw.Next(); some {
		take(t)
	}
	if len(l.faults) > 0 {
		take(l.faults[0].At)
	}
	if len(l.tell) > 0 {
		take(l.hw.now)
	}
	if len(l.jobs) > 0 {
		take(l.jobs[0].At)
	}
	if l.stepNow {
		take(l.hw.now)
		l.stepNow = false
	}
	nothing := !ok
	if t, some := l.engine.NextWake(); some {
		take(t)
	}
	// A timer of the past means at once.
	now = max(now, l.hw.now)
	return now, nothing, ok
}

// inject makes the faults due happen.
func (l *loop) inject(now time.Duration, evs []engine.Event) []engine.Event {
	for len(l.faults) > 0 && l.faults[0].At <= now {
		f := &l.faults[0]
		l.faults = l.faults[1:]
		if f.Kind == Cancel {
			if f.Times <= len(l.runs) {
				evs = append(evs, engine.Event{Kind: engine.Cancel, Run: engine.RunID(l.runs[f.Times-1].Run)})
			}
			continue
		}
		l.hw.Inject(now, f)
		if l.believe != nil {
			switch f.Kind {
			case Break:
				l.believe.Break(f.Device, f.Other)
			case Mend:
				l.believe.Mend(f.Device, f.Other)
			}
		}
	}
	return evs
}

// submit hands over the graphs due.
func (l *loop) submit(now time.Duration) {
	for len(l.jobs) > 0 && l.jobs[0].At <= now {
		j := &l.jobs[0]
		l.jobs = l.jobs[1:]
		o := engine.RunOptions{Weight: j.Weight, Concurrent: j.Concurrent, Timeout: j.Timeout, Retries: j.Retries, Priority: j.Priority, Rather: j.Rather}
		for _, b := range j.Bind {
			o.Bind = append(o.Bind, engine.Binding{Data: b.Data, Ref: l.refs[b.Resident]})
		}
		g := l.pick(j.Graph, len(l.runs))
		id := l.engine.Submit(now, g, o)
		l.hw.Begin(id, g, o.Bind)
		if l.verify != nil {
			l.verify.outer[id] = &checkedRun{run: id, result: len(l.runs), graph: j.Graph}
		}
		l.byID[id] = len(l.runs)
		l.runs = append(l.runs, RunResult{Name: j.Name, Run: int64(id), Submitted: now})
		l.open++
	}
}

// note takes down which runs ended.
func (l *loop) note(now time.Duration, acts []engine.Action) {
	for i := range acts {
		a := &acts[i]
		if a.Kind != engine.Done {
			continue
		}
		if a.Run == 0 {
			l.fetches--
			if a.Err == nil {
				l.engine.EndFetch(a.Ref)
			}
			continue
		}
		if l.verify != nil && l.verify.inner[a.Run] != nil {
			l.done = append(l.done, *a)
			continue
		}
		if k, ok := l.byID[a.Run]; ok {
			r := &l.runs[k]
			r.Spoilt = r.Spoilt || l.hw.wrong[a.Run]
			r.Ended, r.Err, r.Report = now, a.Err, a.Report
			delete(l.byID, a.Run)
			l.open--
		}
	}
}

func (l *loop) stuck(why string) error {
	const show = 8
	var open []string
	for i := range l.runs {
		if _, ok := l.byID[engine.RunID(l.runs[i].Run)]; ok {
			if len(open) == show {
				open = append(open, "…")
				break
			}
			open = append(open, fmt.Sprintf("%d %s", l.runs[i].Run, l.runs[i].Name))
		}
	}
	msg := fmt.Sprintf("unfinished runs: %s", strings.Join(open, ", "))
	if l.freed {
		msg = "the engine keeps " + l.engine.Left()
	}
	if l.fetches > 0 {
		msg = fmt.Sprintf("%d of resident data not fetched", l.fetches)
	}
	if ops := l.hw.Stuck(show); len(ops) > 0 {
		msg += "; in flight: " + strings.Join(ops, "; ")
	}
	return fmt.Errorf("at %v: %w: %s; %s", l.hw.now, ErrStuck, why, msg)
}

func (l *loop) result() *Result {
	r := &Result{Runs: l.runs, Steps: l.steps}
	if len(l.runs) == 0 {
		return r
	}
	end := time.Duration(0)
	for i := range l.runs {
		end = max(end, l.runs[i].Ended)
	}
	r.Makespan = end - l.runs[0].Submitted
	for i := range l.c.Machine.Devices {
		busy := l.hw.Busy(machine.DeviceID(i))
		r.Busy = append(r.Busy, busy)
		r.Utilisation = append(r.Utilisation, busy.Seconds()/max(r.Makespan.Seconds(), 1e-9))
		d := l.engine.Status(machine.DeviceID(i))
		r.Losses += d.Losses
		r.Recoveries += d.Losses // to be lost again it must have come back
		if d.State == engine.Lost || d.State == engine.Broken {
			r.Recoveries--
		}
	}
	if !l.c.Unbounded {
		r.Bound = LowerBound(l.c.Machine, l.c.Truth, l.c.Jobs)
		r.Efficiency = r.Bound.Seconds() / max(r.Makespan.Seconds(), 1e-9)
	}
	r.Trace = l.c.Trace.Events()
	return r
}
