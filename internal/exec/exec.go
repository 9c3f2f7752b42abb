package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// ErrNoDevices is returned by Open when nothing opened.
var ErrNoDevices = errors.New("no device could be opened")

var errNotChosen = errors.New("none of those found was chosen")

// ErrClosed is returned for work given to an executor that is closing.
var ErrClosed = errors.New("the runtime is closed")

// Config says what to run on.
type Config struct {
	Drivers []driver.Driver
	// Copier copies within host memory: a device of internal/backend/cpu with one core.
	Copier driver.Device
	// Choose says which of the devices found are used; nil keeps all. It is told
	// what earlier measurements of all of them are in the cache. An error fails
	// Open.
	Choose func(found *machine.Machine) ([]bool, error)
	Log    *slog.Logger
	// Engine holds the engine's options; Machine and Cost are filled in.
	Engine engine.Options
	// Calibrate has devices measured; without it they are what Info says.
	Calibrate bool
	// CacheDir is the folder that keeps what was learned about devices; "" keeps nothing.
	CacheDir string
	// HealthInterval is the time between samples of the condition of devices: 0 means
	// 100 ms, less than 0 never. Go kernels that do not return are looked after all
	// the same. HangAfter is how long a device that is a driver.Hanger may have work
	// and show no life; 0 means 3 s, and 2 s for any device while it is measured.
	HealthInterval, HangAfter time.Duration
	longAfter                 time.Duration // for tests; 0 means a minute
	// CancelWait is the longest time a cancelled run takes to end (2 s). Then it ends
	// without the calls that still run, with ErrHeld if those use the caller's memory.
	// KillWait is the time after which workers that run tasks of it are killed (half of
	// CancelWait). CloseWait is the longest time Close takes (5 s). A negative duration
	// means no time.
	CancelWait, KillWait, CloseWait time.Duration
	// HostBytes limits the host memory used for data; 0 means no limit.
	HostBytes int64
	// PoolBytes is the size of the host memory that is kept for reuse: 0 means 256 MiB,
	// less than 0 none.
	PoolBytes int64
	// Checksums has data in host memory checked when it is read.
	Checksums bool
	// Streams is the number of kernels that a device runs at a time; 0 leaves it to the
	// device.
	Streams int
	// Rungs are the caller's functions for rungs of Engine.Health.Ladder; see weft.Rung.
	Rungs map[string]func(ctx context.Context, device string) error
	// Spares are the names of devices that stand by: see engine.Options.
	Spares []string
	// Patient, when set, is added as the last device, after those of Drivers. Its tasks wait for
	// other runs: see engine.Options. Open closes it if it fails.
	Patient driver.Device
	// Enter, when set, is called by the loop's goroutine, locked to its thread, before all else.
	Enter func()
	// Exact keeps devices from using a vendor's library routines.
	Exact bool
}

// Executor runs graphs on open devices. Its methods are safe for concurrent use.
type Executor struct {
	Machine *machine.Machine
	LeftOut []error // of backends that are there and failed, or devices of theirs
	shared  driver.SharedMemory
	board   *driver.Board
	spins   int         // how often Wait looks before it sleeps
	awake   atomic.Bool // a caller is looking
	devs    []driver.Device
	joined  atomic.Uint64    // communicators made
	cost    *machine.History // the loop's
	cache   *cache
	loaded  uint64 // what the history had observed when it was loaded
	calls   chan func(*loop)
	ended   chan struct{}
	// shutting is closed when the loop takes no more requests about devices.
	shutting chan struct{}
	mu       sync.RWMutex // held to read while a call is handed over
	closed   bool
	last     []engine.DeviceStatus // when the loop ended
	counts   Counts                // likewise
	patience
}

// Open opens devices and starts the loop. A driver that fails is logged and
// left out; with no device at all Open errs.
func Open(ctx context.Context, c Config) (*Executor, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	x := &Executor{calls: make(chan func(*loop), 256), ended: make(chan struct{}), shutting: make(chan struct{}), patience: newPatience(&c)}
	var devs []driver.Device
	var causes, broken []error // why devices are missing; those of backends that are there and failed
	fail := func(err error) (*Executor, error) {
		for _, d := range append(devs, c.Copier) {
			_ = d.Close() // nothing waits for it
		}
		if c.Patient != nil && !slices.Contains(devs, c.Patient) {
			_ = c.Patient.Close()
		}
		return nil, err
	}
	for _, d := range c.Drivers {
		found, err := d.Open(ctx, c.Log)
		devs = append(devs, found...)
		if ctx.Err() != nil {
			return fail(fmt.Errorf("open: %w", context.Cause(ctx)))
		}
		if err != nil {
			causes = append(causes, err) // which begins with the backend's name
			if !errors.Is(err, driver.ErrUnavailable) {
				broken = append(broken, err)
				x.LeftOut = append(x.LeftOut, err)
				what := "backend left out"
				if len(found) > 0 {
					what = "some devices of a backend left out"
				}
				c.Log.Warn(what, "backend", d.Name(), "err", err)
			}
		}
	}
	if len(devs) == 0 {
		if len(causes) == 0 {
			causes = append(causes, errNotChosen)
		}
		return fail(fmt.Errorf("%w: %w", ErrNoDevices, errors.Join(causes...)))
	}
	kept, err := choose(devs, &c)
	if err != nil {
		switch {
		case len(broken) > 0: // the device asked for is missing because its backend failed
			err = fmt.Errorf("%w: %w", ErrNoDevices, errors.Join(broken...))
		case len(causes) > 0: // why something may be missing
			err = fmt.Errorf("%w: %w", err, errors.Join(causes...))
		}
		return fail(err)
	}
	if devs = kept; len(devs) == 0 {
		return fail(fmt.Errorf("%w: %w", ErrNoDevices, errNotChosen))
	}
	if c.Patient != nil {
		c.Engine.Patient = []machine.DeviceID{machine.DeviceID(len(devs))}
		devs = append(devs, c.Patient)
	}
	for _, d := range devs {
		if e, ok := d.(driver.Exacter); ok && c.Exact {
			e.SetExact()
		}
	}
	x.Machine, x.devs = describe(devs, c), devs
	l, err := newLoop(x, devs, c)
	if err != nil {
		return fail(err)
	}
	x.learn(ctx, l, &c)
	if ctx.Err() != nil {
		return fail(fmt.Errorf("open: %w", context.Cause(ctx)))
	}
	l.start(&c)
	return x, nil
}

// start makes the engine and lets the loop run.
func (l *loop) start(c *Config) {
	devs := l.x.Machine.Devices
	c.Engine.Processes = processes(l.x.devs)
	c.Engine.Compare = c.Engine.Compare || c.Checksums
	for i := range devs {
		if slices.Contains(c.Spares, devs[i].Name) {
			c.Engine.Spares = append(c.Engine.Spares, machine.DeviceID(i))
		}
	}
	c.Engine.Health.Again = cmp.Or(c.Engine.Health.Again, ladderAgain)
	c.Engine.Changed, c.Engine.Ruled = l.changed, l.ruled
	l.ladder, l.rungs = c.Engine.Health.Ladder, c.Rungs
	l.engine = engine.New(c.Engine)
	l.watch(c)
	go func() {
		if c.Enter != nil {
			runtime.LockOSThread() // for good: the thread ends with the loop
			c.Enter()
		}
		l.run()
	}()
}

// choose closes the devices that are not wanted and returns the others; after an
// error none was closed.
func choose(devs []driver.Device, c *Config) ([]driver.Device, error) {
	if c.Choose == nil {
		return devs, nil
	}
	found := describe(devs, *c)
	if c.Calibrate {
		newCache(c.CacheDir, found, c.Log).recall(found, calibrations, estimates)
	}
	keeps, err := c.Choose(found)
	if err != nil {
		return nil, err
	}
	var kept []driver.Device
	for i, keep := range keeps {
		if keep {
			kept = append(kept, devs[i])
		} else {
			_ = devs[i].Close() // it did nothing yet
		}
	}
	return kept, nil
}

// unmeasuredBPS is the rate in bytes per second assumed of host memory that was not
// measured: more than any device asks for. A resource without a rate would make users
// run in turns, which cores rarely do, and all work would go to one of them.
const unmeasuredBPS = 1e15

// describe makes a machine of open devices.
func describe(devs []driver.Device, c Config) *machine.Machine {
	m := &machine.Machine{Name: "this machine", HostBytes: c.HostBytes}
	shared := map[string]bool{}
	for i, d := range devs {
		info := d.Info()
		if c.Streams > 0 {
			info.Lanes, info.Team = c.Streams, false
		}
		info.Exact = c.Exact
		m.Devices = append(m.Devices, info)
		for _, r := range info.Resources {
			if !shared[r] {
				shared[r] = true
				shares := machine.Resource{Name: r}
				switch {
				case r == machine.HostCores:
					shares.Cores = runtime.NumCPU()
				case r == machine.HostMemory && !c.Calibrate:
					shares.BPS = unmeasuredBPS
				}
				m.Resources = append(m.Resources, shares)
			}
		}
		if !info.HostMemory {
			link := machine.Link{A: machine.Host, Kind: machine.PCIe, BPS: 10e9, LatencyNS: 10e3}
			if known := d.Traits().HostLink; known.BPS > 0 {
				link = known
			}
			link.B = machine.DeviceID(i)
			m.Links = append(m.Links, link)
		}
		for k, other := range devs[:i] {
			p, copies := d.(driver.PeerCopier)
			if !copies || !p.CanCopyFrom(other) {
				continue
			}
			if link, err := p.LinkTo(other); err == nil {
				link.A, link.B = machine.DeviceID(k), machine.DeviceID(i)
				m.Links = append(m.Links, link)
			}
		}
	}
	return m
}

// Launched reports whether ctx belongs to a Go kernel that runs on a device of the executor. A
// kernel must not wait for a run, which may need resources that its own run holds.
func (x *Executor) Launched(ctx context.Context) bool { return x.board.Launched(ctx) }

// do runs fn on the loop's goroutine. It returns false when the loop has ended,
// and fn will not run then.
func (x *Executor) do(fn func(*loop)) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return false
	}
	x.calls <- fn
	return true
}

// Counts are the totals of an executor since it was opened.
type Counts struct {
	Uptime                                  time.Duration
	Submitted, Completed, Failed, Cancelled int64              // runs
	Retries                                 int64              // of tasks, in runs that ended
	Copies, CopyBytes                       int64              // begun
	Rebalanced                              int64              // moves of queued tasks between two devices
	Rebalances                              []engine.Rebalance // the latest of them, oldest first
}

// Status returns the state of every device and what was done so far; after
// Close, as it was then.
func (x *Executor) Status() (st []engine.DeviceStatus, c Counts) {
	ran := make(chan struct{})
	if x.do(func(l *loop) {
		st, c = l.status()
		close(ran)
	}) {
		<-ran
		return st, c
	}
	<-x.ended
	return x.last, x.counts
}

// Look runs fn between two steps, with the cost model and the state of every
// device. It returns false, without running it, after Close.
func (x *Executor) Look(fn func(cost machine.Cost, st []engine.DeviceStatus)) bool {
	ran := make(chan struct{})
	ok := x.do(func(l *loop) {
		st, _ := l.status()
		fn(x.cost, st)
		close(ran)
	})
	if ok {
		<-ran
	}
	return ok
}

// Expect tells how a graph is to be run and what it was simulated to take, so that its next
// run uses the devices it was cut for and teaches how far off the simulation is.
func (x *Executor) Expect(g *graph.Graph, e Expected) {
	x.do(func(l *loop) {
		if len(l.expected) == maxExpected {
			clear(l.expected) // the caller predicts graphs that it does not run
		}
		l.expected[g] = e
	})
}

// Expected holds the decisions for the next run of a graph and the predictions that the run
// is compared with.
type Expected struct {
	// Made names the kernels and devices of the graph, Size is its operations and bytes, and
	// Simulated its simulated duration. With an empty Made nothing is learned from the run.
	Made      string
	Size      float64
	Simulated time.Duration
	// Rather lists the devices it was cut for, ascending; nil means any.
	Rather []machine.DeviceID
	// Trial names its work, of the size Work, on these devices, and Others the same work on
	// the other sets of devices it was cut for. It is empty if there was no choice.
	Trial  string
	Others []string
	Work   float64
}

// failedTrial is the duration that a failed run counts with, so that its set of devices is not
// tried again and again.
const failedTrial = time.Hour

// maxExpected is the most graphs that are remembered as predicted and not run.
const maxExpected = 64

// compare teaches the history how far off a prediction was, and what work takes on the
// devices it was run on. Runs that shared the devices with others teach nothing.
func (l *loop) compare(j *Job, rep *engine.Report, err error) {
	e, ok := l.expected[j.Graph]
	delete(l.expected, j.Graph)
	if !ok || !j.alone || l.counts.Submitted != j.nth || errors.Is(err, engine.ErrCancelled) {
		return
	}
	took := rep.Ended - rep.Started
	if err != nil {
		e.Made, took = "", failedTrial // another set of devices is better
	}
	if e.Made != "" {
		l.x.cost.ObserveGraph(e.Made, e.Size, e.Simulated, took)
	}
	if e.Trial != "" {
		l.x.cost.ObserveTrial(e.Trial, e.Work, took, e.Others...)
	}
}

// Snapshot returns a copy of the measured costs and the state of the devices; nil after Close.
func (x *Executor) Snapshot() (cost *machine.History, st []engine.DeviceStatus) {
	x.Look(func(_ machine.Cost, now []engine.DeviceStatus) { cost, st = x.cost.Clone(), now })
	return cost, st
}

// Events returns what a recorder of the engine holds, between two steps.
func (x *Executor) Events(r *trace.Recorder) []trace.Event {
	ch := make(chan []trace.Event, 1)
	if !x.do(func(*loop) { ch <- r.Events() }) {
		return r.Events() // the loop, which records, has ended
	}
	return <-ch
}

// Shared is the memory devices in other processes copy from and to directly; nil
// where there are none.
func (x *Executor) Shared() driver.SharedMemory { return x.shared }

// Put makes data resident, with mem as its home. Memory of Shared is given back to
// it when the data has ended.
func (x *Executor) Put(name string, mem []byte, kind graph.Durability) (engine.DataRef, error) {
	ch := make(chan engine.DataRef, 1)
	ok := x.do(func(l *loop) {
		ref := l.engine.NewData(name, int64(len(mem)), kind)
		l.homes[ref] = mem
		ch <- ref
	})
	if !ok {
		return 0, ErrClosed
	}
	return <-ch, nil
}

// Fetch brings resident data to its home and calls read when it is there: no run
// writes to it until read returns. check is asked on the loop's goroutine before;
// an error ends it.
func (x *Executor) Fetch(ctx context.Context, ref engine.DataRef, check func() error, read func()) error {
	f := &fetch{answer: make(chan error, 1)}
	ok := x.do(func(l *loop) {
		if l.closing {
			f.answer <- ErrClosed
			return
		}
		if err := check(); err != nil {
			f.answer <- err
			return
		}
		l.fetches[ref] = append(l.fetches[ref], f)
		l.engine.Fetch(ref)
	})
	if !ok {
		return ErrClosed
	}
	select {
	case err := <-f.answer:
		if err == nil {
			read()
			x.do(func(l *loop) { l.engine.EndFetch(ref) })
		}
		return err
	case <-ctx.Done():
		x.do(func(l *loop) {
			select {
			case err := <-f.answer: // it came meanwhile
				if err == nil {
					l.engine.EndFetch(ref)
				}
			default:
				f.left = true
			}
		})
		return context.Cause(ctx)
	}
}

// fetch is a caller that waits for resident data.
type fetch struct {
	answer chan error
	left   bool // it does not wait any more
}

// Release ends resident data.
func (x *Executor) Release(ref engine.DataRef) {
	x.do(func(l *loop) { l.engine.FreeData(ref) })
}

// now is the executor's clock, which times in reports and traces count by.
func (l *loop) now() time.Duration { return l.board.Now() }
