package weft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/monitor"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// Func is a kernel in Go, a func(c *Call, lo, hi int): it computes items lo to hi of a
// launch's grid. It must not write what its task only reads (graph.Read, [In], [Whole]), which is
// the caller's memory or a copy that other tasks read too. Nothing keeps it from doing so, and
// results are wrong then. Options.Checksums finds it and fails the run with [ErrChecksum], and so does
// Options.Verify for the tasks that it picks.
type Func = driver.Func

// Call is what a Func works on: Args has the buffers in the order of the task's uses,
// Params what the step brought, Launch the grid. Those of Args that the task only reads are not to
// be written. Context, Stopped, Fail and Err are its methods.
type Call = driver.Call

// WithParams returns a Func that reads the parameters of its step as a P: the structure
// that [graph.Step.With] was given. A step whose Params are not as long fails.
func WithParams[P any](fn func(c *Call, p P, lo, hi int)) Func { return driver.WithParams(fn) }

// Errors a run ends with, for errors.Is.
var (
	ErrNoDevices   = exec.ErrNoDevices
	ErrClosed      = exec.ErrClosed
	ErrCancelled   = engine.ErrCancelled
	ErrNoDevice    = engine.ErrNoDevice
	ErrOutOfMemory = engine.ErrOutOfMemory
	ErrTimeout     = engine.ErrTimeout
	ErrDataLost    = engine.ErrDataLost
	// ErrPanic is wrapped by the error of a Go kernel that panicked.
	ErrPanic = fault.ErrPanic
	// ErrDeadlock is wrapped by the error of a call in a Go kernel that would wait for the run of
	// the kernel.
	ErrDeadlock = fault.ErrDeadlock
	// ErrChecksum is wrapped by the error of a run if data that it read had changed by itself, or if a
	// Go kernel wrote data that its task only reads, and by that of Get if data had changed by itself
	// (Options.Checksums, Verify and Retries).
	ErrChecksum = exec.ErrChecksum
	// ErrNoFunc is wrapped by the error of a run, or of Prepare, that needs a Go kernel
	// which Options.Funcs does not have.
	ErrNoFunc = driver.ErrNoFunc
	// ErrHeld is wrapped by the error of a run that was cancelled, and of Close, where
	// a Go kernel that does not return still uses memory it was given.
	ErrHeld = exec.ErrHeld
	// ErrBinding is returned when a graph's inputs and outputs and what is
	// bound to them do not match, or when memory that one of them writes is
	// also bound to another, of the same run or of one in progress.
	ErrBinding = errors.New("bad binding")
)

// TaskError says which Task failed on which Device; it unwraps to the cause, Err. Attempts is
// its history: each execution that failed, with where, when and why.
type TaskError = trace.TaskError

// Attempt is an execution of a task that came to nothing; see [TaskError] and [Quarantine].
type Attempt = trace.Attempt

// Quarantine is the error of a task that is not tried again because worker processes were
// lost repeatedly while it ran: Losses tells when, where and how. A TaskError unwraps to it.
type Quarantine = trace.Quarantine

// PanicError is the error of a Go kernel that panicked: with what (Value), where (At) and with
// which Stack. It unwraps to [ErrPanic], and to Value if that is an error. A TaskError around it
// unwraps to it.
type PanicError = fault.PanicError

// RunError is the error of a failed run: the cause, Err, and the Names of all tasks that
// did not finish.
type RunError = trace.RunError

// Runtime runs graphs on the devices it opened. It is safe for concurrent use.
type Runtime struct {
	x     *exec.Executor
	o     Options
	trace *trace.Recorder
	// policy places tasks; partitioner cuts work, and is nil where weft also chooses
	// between one device and several.
	policy      sched.Factory
	partitioner sched.Partitioner
	machine     *machine.Machine // the devices, without the one that checks results
	names       []string         // of these
	verify      *verifier        // nil if no results are checked
	lanes       []int            // by device
	leftOut     []string         // see Report.LeftOut
	registered  map[string]Func  // Go kernels; nil if Options.Drivers bring their own
	applied     goForms          // those of kernels given to Apply
	calls       callbacks
	claims      claims // what runs in progress have bound; the loop's
	most        int64  // host memory there is, in bytes; 0 if that is not known
	// memory is shared with worker processes, nil without any. It is given up by
	// the last of its users: the runtime, until it is closed, and buffers.
	memory *arena.Arena
	users  atomic.Int64
	closed sync.Once
	socket *monitor.Server // nil without one
	keeps  *keeps          // nil without a folder for checkpoints
}

// Open finds devices and opens them. Each that opened is logged. A backend that fails is
// logged, named by Report.LeftOut and left out, unless Options.Devices names it or a device
// of it: Open errs when a device asked for is not there, and when nothing opens.
func Open(ctx context.Context, o Options) (*Runtime, error) {
	need("Open", ctx, true)
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("open: %w", context.Cause(ctx))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	sel, err := o.selection()
	if err != nil {
		return nil, fmt.Errorf("%w: devices: %w", ErrOptions, err)
	}
	keeps, err := openKeeps(o.Checkpoint)
	if err != nil {
		return nil, err
	}
	var rt *Runtime
	if err := block(ctx, func() (err error) {
		rt, err = openRuntime(ctx, o, sel, keeps)
		return err
	}); err != nil {
		_ = keeps.close(ctx) // nothing is kept yet
		return nil, err
	}
	return rt, nil
}

// openRuntime is Open once options have been looked at.
func openRuntime(ctx context.Context, o Options, sel machine.Selection, keeps *keeps) (*Runtime, error) {
	policy, partitioner, err := o.rules()
	if err != nil {
		return nil, err
	}
	enter, err := o.realtime()
	if err != nil {
		return nil, err
	}
	cache, err := o.cacheDir()
	if err != nil { // said once, not of every file
		o.Log.Warn("nothing that is measured or learned will be kept", "err", err)
	}
	rt := &Runtime{o: o, policy: policy, partitioner: partitioner, most: arena.Memory(), keeps: keeps}
	rt.users.Store(1)
	drivers := o.Drivers
	if drivers == nil {
		if drivers, err = rt.drivers(sel, cache); err != nil {
			return nil, err
		}
	}
	own := []driver.Driver{cpu.New(cpu.Options{Cores: 1})} // copies within host memory
	if o.Verify > 0 {
		rt.verify = &verifier{r: rt, every: o.Verify, of: make(map[uint64]*checks), tasks: make(map[int64]graph.TaskID)}
		own = append(own, rt.verify.driver())
	}
	beside, err := openEach(ctx, own)
	if err != nil {
		rt.forget()
		return nil, err
	}
	var patient driver.Device
	if rt.verify != nil {
		patient = beside[1]
	}
	if o.Trace > 0 {
		rt.trace = trace.NewRecorder(o.Trace)
	}
	var explain func(sched.Explanation)
	if o.Explain != nil {
		explain = func(e sched.Explanation) { rt.calls.inOrder(func() { o.Explain(e) }) }
	}
	rt.x, err = exec.Open(ctx, exec.Config{
		Drivers: drivers, Copier: beside[0], Log: o.Log, Choose: func(m *machine.Machine) ([]bool, error) { return o.choose(m, sel) },
		Calibrate: !o.NoCalibrate, CacheDir: cache, HealthInterval: o.HealthInterval,
		CancelWait: o.CancelWait, CloseWait: o.CloseWait, HostBytes: o.HostBytes, PoolBytes: o.PoolBytes, Streams: o.Streams, Exact: o.Exact, Checksums: o.Checksums, Spares: listed(o.Spares), Rungs: o.ownRungs(), Patient: patient, Enter: enter,
		Engine: engine.Options{
			Policy: policy, Trace: rt.trace, Concurrent: o.Concurrent, TaskTimeout: o.TaskTimeout, Retries: o.Retries,
			NoFaultTolerance: o.NoFaultTolerance, Explain: explain, Health: o.health(),
			Rebalance: sched.RebalanceOptions{Threshold: o.RebalanceThreshold, Interval: o.RebalanceInterval},
		},
	})
	if err != nil {
		rt.forget()
		if errors.Is(err, ErrNoDevices) && o.Devices != "" {
			err = fmt.Errorf("%w (asked for %q)", err, o.Devices)
		}
		return nil, err
	}
	rt.opened()
	err = rt.verify.enough()
	if err == nil {
		err = rt.listen()
	}
	if err != nil {
		_ = rt.Close() // the first error says more
		return nil, err
	}
	return rt, nil
}

// openEach opens the one device of each driver, or none.
func openEach(ctx context.Context, drivers []driver.Driver) (devs []driver.Device, err error) {
	for _, d := range drivers {
		found, err := d.Open(ctx, nil)
		devs = append(devs, found...)
		if err != nil {
			for _, d := range devs {
				_ = d.Close() // it did nothing yet
			}
			return nil, err
		}
	}
	return devs, nil
}

// opened notes which devices there are, and logs each.
func (r *Runtime) opened() {
	for _, err := range r.x.LeftOut {
		r.leftOut = append(r.leftOut, err.Error())
	}
	r.machine = r.x.Machine
	if r.verify != nil { // the last device is no concern of the caller's
		m := *r.x.Machine
		m.Devices = m.Devices[: len(m.Devices)-1 : len(m.Devices)-1]
		r.machine = &m
	}
	merits, measured := machine.Merits(r.machine.Devices)
	for i := range r.machine.Devices {
		d := &r.machine.Devices[i]
		lanes := d.Lanes
		if d.TeamSize() > 0 {
			lanes = 1 // what is reported of a team is time of the whole device
		}
		r.names, r.lanes = append(r.names, d.Name), append(r.lanes, lanes)
		r.o.Log.Info("device opened", "device", d.Name, "model", d.Model, "kind", d.Kind, "memory", text.FormatSize(d.MemBytes), "merit", merits[i], "measured", measured)
	}
}

// drivers returns those of the backends, after it opened the memory that worker
// processes share where there are any.
func (r *Runtime) drivers(sel machine.Selection, cache string) ([]driver.Driver, error) {
	r.registered = maps.Clone(r.o.Funcs)
	if r.registered == nil {
		r.registered = make(map[string]Func)
	}
	o := all.Options{
		Select: sel, Streams: r.o.Streams, Funcs: r.registered, Late: r.applied.find, CacheDir: cache, Validation: r.o.Validation,
		Threads: cpu.Threads{Pin: r.o.Pin, Realtime: r.o.Realtime},
		Workers: proc.Workers{Standby: r.o.Standby, HangTimeout: r.o.HangTimeout, WorkerCommand: strings.Fields(r.o.WorkerCommand)},
	}
	if r.o.Isolate {
		if r.most > 0 && r.o.MemoryReserve >= r.most {
			return nil, fmt.Errorf("%w: memory_reserve: %.1f GiB cannot stay free of the %.1f GiB that there are; give less", ErrOptions, float64(r.o.MemoryReserve)/(1<<30), float64(r.most)/(1<<30))
		}
		o.Isolate, o.Confine, o.WorkerBytes, o.MemoryReserve = true, r.o.Confine, r.o.WorkerBytes, max(r.o.MemoryReserve, 0)
		if o.WorkerBytes <= 0 {
			o.WorkerBytes = max(r.most, 1<<30) / 2
		}
		if r.o.MemoryReserve == 0 {
			o.MemoryReserve = r.most / 20
		}
		if runtime.GOOS != "linux" {
			return nil, fmt.Errorf("%w: isolate: worker processes need Linux", ErrOptions)
		}
	}
	if o.Apart() {
		// HostBytes limits what the engine allocates in it, which is not all that
		// lies there: what is put, and parts of copies on their way, need room too.
		var err error
		if r.memory, err = arena.Open(0); err != nil {
			if !sel.All() || r.o.Isolate {
				return nil, err
			}
			r.o.Log.Warn("devices in worker processes are left out", "err", err)
			r.leftOut = append(r.leftOut, fmt.Sprintf("devices in worker processes: %v", err))
		}
		o.Memory, o.NoWorkers = r.memory, r.memory == nil
	}
	return all.Drivers(o), nil
}

// mustKnow errs if workers of an isolated runtime do not have a Go kernel. Those of another
// program may have any.
func (r *Runtime) mustKnow(name string) error {
	if !r.o.Isolate || r.registered == nil || r.o.WorkerCommand != "" {
		return nil
	}
	if known := workerFuncs.Load(); known != nil && (*known)[name] != nil {
		return nil
	}
	return fmt.Errorf("%w in worker processes; give weft.Worker the kernel too, as in weft.Worker(kernel.Funcs())", ErrNoFunc)
}

// cacheDir makes the folder measurements are kept in. It returns "" where none are kept.
func (o *Options) cacheDir() (dir string, err error) {
	switch o.CacheDir {
	case "off":
		return "", nil
	case "":
		dir, err = safefile.CacheFolder("weft")
	default:
		dir, err = o.CacheDir, os.MkdirAll(o.CacheDir, 0o700)
	}
	if err != nil {
		return "", err
	}
	return dir, nil
}

// choose selects devices: those o.Devices names; with Exact only one backend; then the MaxDevices
// best. Spares do not count. A selector that names no device is an error.
func (o *Options) choose(m *machine.Machine, sel machine.Selection) ([]bool, error) {
	found := m.Devices
	if missing := sel.Missing(found); missing != "" {
		var names []string
		for i := range found {
			names = append(names, found[i].Name)
		}
		return nil, fmt.Errorf("%w: devices: no device %q here; there is %s", ErrOptions, missing, strings.Join(names, ", "))
	}
	keep := make([]bool, len(found))
	of := make(map[string][]machine.DeviceID) // backend
	for i := range found {
		d := &found[i]
		if keep[i] = sel.Takes(d); keep[i] {
			of[d.Backend] = append(of[d.Backend], machine.DeviceID(i))
		}
	}
	merits, measured := machine.Merits(found)
	by := "score"
	if measured {
		by = "measured speed"
	}
	if o.Exact && len(of) > 1 {
		one := slices.MaxFunc(slices.Sorted(maps.Keys(of)), func(a, b string) int {
			return cmp.Compare(together(m, of[a], merits), together(m, of[b], merits))
		})
		o.Log.Warn("exact results need one backend: the others are left out", "backend", one, "by", by)
		for i := range found {
			keep[i] = keep[i] && found[i].Backend == one
		}
	}
	spare, err := o.stands(found, keep)
	if err != nil {
		return nil, err
	}
	if o.MaxDevices > 0 {
		left := o.MaxDevices
		for _, i := range best(merits) {
			if keep[i] && !spare[i] {
				if keep[i] = left > 0; !keep[i] {
					o.Log.Info("device left out: others are better", "device", found[i].Name, "by", by)
				}
				left--
			}
		}
	}
	return keep, nil
}

// together is the merit of several devices: those that compute on the same cores
// divide them.
func together(m *machine.Machine, ids []machine.DeviceID, merits []float64) (sum float64) {
	crowds := m.Crowds()
	for _, id := range ids {
		merit := merits[id]
		for _, c := range crowds {
			if slices.Contains(c.Devices, id) {
				beside := slices.DeleteFunc(slices.Clone(ids), func(d machine.DeviceID) bool { return !slices.Contains(c.Devices, d) })
				merit *= c.Speed(beside...)
			}
		}
		sum += merit
	}
	return sum
}

// best returns the devices with the highest merits first; equals stay in their
// order.
func best(merits []float64) []machine.DeviceID {
	ids := make([]machine.DeviceID, len(merits))
	for i := range ids {
		ids[i] = machine.DeviceID(i)
	}
	slices.SortStableFunc(ids, func(a, b machine.DeviceID) int { return cmp.Compare(merits[b], merits[a]) })
	return ids
}

// Close cancels what runs, waits for what is in flight, for callbacks under way and for the last
// checkpoints of computations that have ended, and closes the devices. When the devices take longer than Options.CloseWait,
// or all of it longer than Options.SyncTimeout, it returns an error that wraps
// ErrTimeout, or ErrHeld where a Go kernel does not return, and goes on in the
// background. It may be called more than once, but not by a callback, which it would
// wait for. A task that is a Go function calls it by [task.Block], since it has no context.
func (r *Runtime) Close() error {
	if r == nil {
		return fmt.Errorf("close: %w", errNoRuntime)
	}
	ctx, cancel := r.bound(context.Background())
	defer cancel()
	if r.socket != nil {
		r.socket.Close()
	}
	err := r.x.Close(ctx)
	if err != nil {
		go func() { // memory goes when nothing uses it any more
			<-r.x.Ended()
			r.closed.Do(r.forget)
		}()
	} else {
		r.closed.Do(r.forget)
		if err = r.calls.wait(ctx); err != nil {
			err = fmt.Errorf("callbacks: %w", err)
		}
	}
	if err = cmp.Or(err, r.keeps.close(ctx)); err != nil { // both end, whatever becomes of the first
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// Done is closed when all that Close ends has ended.
func (r *Runtime) Done() <-chan struct{} { return r.must("Done").x.Ended() }

// hold counts a user of shared memory, unless there is none left.
func (r *Runtime) hold() bool {
	for {
		n := r.users.Load()
		if n == 0 || r.users.CompareAndSwap(n, n+1) {
			return n > 0
		}
	}
}

// forget gives up the memory shared with workers, after the last who used it.
func (r *Runtime) forget() {
	if r.users.Add(-1) > 0 || r.memory == nil {
		return
	}
	if err := r.memory.Close(); err != nil {
		r.o.Log.Warn("shared memory was not given back", "err", err)
	}
}

// bound limits a wait to Options.SyncTimeout.
func (r *Runtime) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.o.SyncTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, r.o.SyncTimeout, fmt.Errorf("%w after %v (sync_timeout)", ErrTimeout, r.o.SyncTimeout))
}

// Machine describes the devices and links found.
func (r *Runtime) Machine() *machine.Machine { return r.must("Machine").machine }

// Best returns the n best devices, best first: by their speed where they were
// measured, by score otherwise (machine.Merits), times the part of them that is free,
// as last sampled (DeviceMetrics.Util); devices that take no work come last. It returns
// all where there are no more, none for less than one.
func (r *Runtime) Best(n int) []machine.DeviceID {
	merits, _ := machine.Merits(r.must("Best").machine.Devices)
	status, _ := r.status()
	for i := range status {
		switch load := min(max(status[i].Util, 0), 1); {
		case status[i].State != engine.Healthy:
			merits[i] = -1
		default:
			merits[i] *= 1 - load
		}
	}
	ids := best(merits)
	return ids[:max(0, min(n, len(ids)))]
}

// Tuned is the implementation and launch shape of a kernel that a device measured to be the
// fastest for steps of a size.
type Tuned struct {
	Device string `json:"device"`
	driver.Tuned
}

// Tuning returns the decisions of devices about kernels with several implementations or
// launch shapes, measured in this run or, with a CacheDir, in earlier ones.
func (r *Runtime) Tuning() []Tuned {
	var out []Tuned
	for i, ts := range r.must("Tuning").x.Tuning()[:len(r.names)] {
		for _, t := range ts {
			out = append(out, Tuned{r.machine.Devices[i].Name, t})
		}
	}
	return out
}

// Join makes devices the ranks, in their order, of a new communicator, by which
// tasks with a Gang take part in collective operations of a vendor's library: all
// must have machine.Device.Joins, and each may be there once. It returns the number
// by which tasks name the communicator; package collective does all of this.
func (r *Runtime) Join(ctx context.Context, devices []machine.DeviceID) (uint64, error) {
	need("Join", ctx, true)
	if r == nil {
		return 0, errNoRuntime
	}
	var number uint64
	err := block(ctx, func() (err error) {
		number, err = r.x.Join(ctx, devices)
		return err
	})
	return number, err
}

// Leave ends a communicator. What runs on it fails.
func (r *Runtime) Leave(number uint64) { r.must("Leave").x.Leave(number) }

// Trace returns the events recorded so far, when Options.Trace asked for them.
func (r *Runtime) Trace() []trace.Event { return r.verify.traced(r.must("Trace").x.Events(r.trace)) }
