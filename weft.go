package weft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unsafe"

	"github.com/weft-run/weft/backend/all"
	"github.com/weft-run/weft/backend/cpu"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

// Func is a kernel in Go: it computes items lo to hi of a launch's grid.
type Func = cpu.Func

// Call is what a Func works on.
type Call = cpu.Call

// Errors a run ends with, for errors.Is.
var (
	ErrNoDevices   = exec.ErrNoDevices
	ErrClosed      = exec.ErrClosed
	ErrCancelled   = engine.ErrCancelled
	ErrNoDevice    = engine.ErrNoDevice
	ErrOutOfMemory = engine.ErrOutOfMemory
	ErrTimeout     = engine.ErrTimeout
	ErrDataLost    = engine.ErrDataLost
	// ErrBinding is returned when a graph's inputs and outputs and what is
	// bound to them do not match.
	ErrBinding = errors.New("bad binding")
)

// TaskError says which task failed on which device; it unwraps to the cause.
type TaskError = engine.TaskError

// RunError is how a failed run ends: the cause, and every unfinished task.
type RunError = engine.RunError

// Runtime runs graphs on the devices it opened. It is safe for concurrent use.
type Runtime struct {
	x     *exec.Executor
	o     Options
	trace *trace.Recorder
}

// Open finds devices and opens them. A backend that fails is logged and left
// out; when nothing opens, Open errs.
func Open(ctx context.Context, o Options) (*Runtime, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	sel, _ := selectors(o.Devices)
	drivers := o.Drivers
	if drivers == nil {
		parts := make(map[string]int)
		for _, s := range sel {
			parts[s.backend] = max(parts[s.backend], s.parts)
		}
		drivers = all.Drivers(all.Options{Parts: parts, Pin: o.Pin, Funcs: o.Funcs})
	}
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(ctx, nil)
	if err != nil {
		return nil, err
	}
	policy, _ := sched.New(o.Policy)
	rt := &Runtime{o: o}
	if o.Trace > 0 {
		rt.trace = trace.NewRecorder(o.Trace)
	}
	rt.x, err = exec.Open(ctx, exec.Config{
		Drivers: drivers, Copier: copier[0], Log: o.Log, Choose: o.choose,
		Calibrate: !o.NoCalibrate, CacheDir: o.cacheDir(), HealthInterval: o.HealthInterval,
		HostBytes: o.HostBytes, PoolBytes: o.PoolBytes, Streams: o.Streams, Exact: o.Exact,
		Engine: engine.Options{
			Policy: policy, Trace: rt.trace, MaxInFlight: o.Concurrent, TaskTimeout: o.TaskTimeout, Retries: o.Retries,
			NoRecovery: o.NoFaultTolerance, Explain: o.Explain,
			Rebalance: sched.RebalanceOptions{Spread: o.RebalanceThreshold, MinInterval: o.RebalanceInterval},
		},
	})
	if err != nil {
		if o.Devices != "" {
			err = fmt.Errorf("%w (asked for %q)", err, o.Devices)
		}
		return nil, err
	}
	return rt, nil
}

// cacheDir is the folder measurements are kept in, "" for none.
func (o *Options) cacheDir() string {
	switch o.CacheDir {
	case "off":
		return ""
	case "":
		dir, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		return filepath.Join(dir, "weft")
	}
	return o.CacheDir
}

// choose says which of the devices found to keep: those selected; of these, when
// bits must not change, those of one backend; and of these the best.
func (o *Options) choose(found []machine.Device) []bool {
	sel, _ := selectors(o.Devices)
	keep := make([]bool, len(found))
	total := make(map[string]float64) // score by backend
	for i := range found {
		d := &found[i]
		keep[i] = len(sel) == 0 || slices.ContainsFunc(sel, func(s selector) bool {
			return s.backend == d.Backend && (s.index < 0 || d.Name == fmt.Sprintf("%s:%d", s.backend, s.index))
		})
		if keep[i] {
			total[d.Backend] += machine.Score(d)
		}
	}
	if o.Exact && len(total) > 1 {
		one := slices.MaxFunc(slices.Sorted(maps.Keys(total)), func(a, b string) int { return cmp.Compare(total[a], total[b]) })
		o.Log.Warn("exact results need one backend: the others are left out", "backend", one)
		for i := range found {
			keep[i] = keep[i] && found[i].Backend == one
		}
	}
	if o.MaxDevices > 0 {
		left := o.MaxDevices
		for _, i := range byScore(found) {
			if keep[i] {
				keep[i] = left > 0
				left--
			}
		}
	}
	return keep
}

// byScore returns the devices best first; equals stay in their order.
func byScore(devs []machine.Device) []machine.DeviceID {
	ids := make([]machine.DeviceID, len(devs))
	for i := range ids {
		ids[i] = machine.DeviceID(i)
	}
	slices.SortStableFunc(ids, func(a, b machine.DeviceID) int {
		return cmp.Compare(machine.Score(&devs[b]), machine.Score(&devs[a]))
	})
	return ids
}

// Close cancels what runs, waits for what is in flight and closes the devices.
// When that takes longer than Options.SyncTimeout it returns ErrTimeout and goes
// on in the background. It may be called more than once.
func (r *Runtime) Close() error {
	ctx, cancel := r.bound(context.Background())
	defer cancel()
	if err := r.x.Close(ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// bound limits a wait to Options.SyncTimeout.
func (r *Runtime) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.o.SyncTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, r.o.SyncTimeout, fmt.Errorf("%w after %v (sync_timeout)", ErrTimeout, r.o.SyncTimeout))
}

// Machine describes the devices and links found.
func (r *Runtime) Machine() *machine.Machine { return r.x.Machine }

// Device is an open device and what it is doing.
type Device struct {
	machine.Device
	Score  float64
	State  string
	Tasks  int64
	Busy   time.Duration
	Queued int
}

// Devices returns the open devices in the order of their IDs.
func (r *Runtime) Devices() []Device {
	var out []Device
	r.x.Look(func(_ machine.Cost, st []engine.DeviceStatus) {
		for i, s := range st {
			d := r.x.Machine.Devices[i]
			out = append(out, Device{Device: d, Score: machine.Score(&d), State: s.State.String(), Tasks: s.Stats.Tasks, Busy: s.Stats.Total, Queued: s.Queued})
		}
	})
	return out
}

// Split cuts work for the devices by the partitioner of the options. whole is
// the task that would do all of it: its kernel and work estimate tell what each
// device makes of it. A device that is not worth its latency gets nothing.
func (r *Runtime) Split(p sched.Pieces, whole graph.Task) (sched.Partition, error) {
	name := r.o.Partitioner
	if name == "" {
		name = "latency"
	}
	cut, err := sched.NewPartitioner(name)
	if err != nil {
		return sched.Partition{}, err
	}
	total := float64(p.Extent)
	if p.Cost != nil {
		total = p.Cost(0, p.Extent)
	}
	var shares []sched.Share
	r.x.Look(func(cost machine.Cost, st []engine.DeviceStatus) {
		part, none := whole, whole
		part.Work.Ops /= float64(len(st))
		part.Work.Bytes /= float64(len(st))
		none.Work = graph.Work{Unit: whole.Work.Unit}
		for i, s := range st {
			d := machine.DeviceID(i)
			if s.State != engine.Healthy || !r.x.Machine.Devices[i].CanRun(whole.Steps[0].Kernel) {
				shares = append(shares, sched.Share{Device: d})
				continue
			}
			takes := cost.Task(&part, d).Median.Seconds() * max(s.Slow, 1)
			shares = append(shares, sched.Share{
				Device: d, Rate: total / float64(len(st)) / max(takes, 1e-9), Latency: cost.Task(&none, d).Median,
				FreeBytes: s.MemBytes - s.MemUsed, Util: s.Util,
			})
		}
	})
	return cut(p, shares)
}

// Best returns the n best devices by score, best first.
func (r *Runtime) Best(n int) []machine.DeviceID {
	ids := byScore(r.x.Machine.Devices)
	return ids[:min(n, len(ids))]
}

// Trace returns the events recorded so far, when Options.Trace asked for them.
func (r *Runtime) Trace() []trace.Event { return r.x.Events(r.trace) }

// Binding ties data of a graph, by name, to memory or to resident data.
type Binding struct {
	Name string
	mem  []byte
	ref  engine.DataRef
	res  bool
}

// Bind ties a graph's input or output to a slice. The slice must not be touched
// until the run has ended; its length must match the data's size.
func Bind[T any](name string, xs []T) Binding { return Binding{Name: name, mem: bytesOf(xs)} }

// bytesOf views a slice as bytes.
func bytesOf[T any](xs []T) []byte {
	if len(xs) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&xs[0])), len(xs)*int(unsafe.Sizeof(xs[0])))
}

// View views bytes as a slice of T, for kernels. The bytes must be aligned for
// T, as buffers of weft are.
func View[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(t)))
}

// Report is the account of a run.
type Report struct {
	engine.Report
	Names []string // of the devices
}

// Elapsed is how long the run took.
func (r *Report) Elapsed() time.Duration { return r.Ended - r.Started }

// Run runs a graph and waits for it. Cancelling ctx stops launching, waits for
// what is in flight and returns.
func (r *Runtime) Run(ctx context.Context, g *graph.Graph, b ...Binding) (*Report, error) {
	o, mem, err := r.bind(g, b)
	if err != nil {
		return nil, err
	}
	rep, err := r.x.Run(ctx, g, o, mem)
	return r.report(rep), err
}

// Handle is a run in progress.
type Handle struct {
	h    *exec.Handle
	done chan struct{}
	rep  *Report
	err  error
}

// Submit starts a graph and returns at once. then, when not nil, is called
// exactly once when the run has ended; it must not block.
func (r *Runtime) Submit(g *graph.Graph, then func(*Report, error), b ...Binding) (*Handle, error) {
	o, mem, err := r.bind(g, b)
	if err != nil {
		return nil, err
	}
	h := &Handle{done: make(chan struct{})}
	h.h = r.x.Submit(g, o, mem, func(rep *engine.Report, err error) {
		h.rep, h.err = r.report(rep), err
		close(h.done)
		if then != nil {
			then(h.rep, err)
		}
	})
	return h, nil
}

// Wait waits for the run's end.
func (h *Handle) Wait() (*Report, error) {
	<-h.done
	return h.rep, h.err
}

// Cancel ends the run early; Wait still returns.
func (h *Handle) Cancel() { h.h.Cancel() }

func (r *Runtime) report(rep *engine.Report) *Report {
	if rep == nil {
		return nil
	}
	out := &Report{Report: *rep}
	for _, d := range r.x.Machine.Devices {
		out.Names = append(out.Names, d.Name)
	}
	return out
}

// bind checks bindings against a graph's inputs and outputs.
func (r *Runtime) bind(g *graph.Graph, bs []Binding) (engine.RunOptions, exec.Memory, error) {
	var o engine.RunOptions
	mem := make(map[graph.DataID][]byte, len(bs))
	for _, b := range bs {
		d, ok := g.Lookup(b.Name)
		if !ok {
			return o, nil, fmt.Errorf("%w: the graph has no data %q", ErrBinding, b.Name)
		}
		gd := g.Data(d)
		if b.res {
			o.Bind = append(o.Bind, engine.Binding{Data: d, Ref: b.ref})
			mem[d] = nil
			continue
		}
		if !gd.Input && !gd.Output {
			return o, nil, fmt.Errorf("%w: data %q is neither input nor output", ErrBinding, b.Name)
		}
		if int64(len(b.mem)) != gd.Bytes {
			return o, nil, fmt.Errorf("%w: data %q has %d bytes and is bound to %d", ErrBinding, b.Name, gd.Bytes, len(b.mem))
		}
		mem[d] = b.mem
	}
	for i := range g.NumData() {
		if d := g.Data(graph.DataID(i)); d.Input || d.Output {
			if _, ok := mem[graph.DataID(i)]; !ok {
				return o, nil, fmt.Errorf("%w: nothing is bound to data %q", ErrBinding, d.Name)
			}
		}
	}
	return o, func(d graph.DataID) []byte { return mem[d] }, nil
}

// Data is resident data: it stays where runs leave it until it is released.
type Data[T any] struct {
	r    *Runtime
	ref  engine.DataRef
	home []T
}

// Put makes a copy of xs resident. Runs use it through As.
func Put[T any](r *Runtime, name string, xs []T) (*Data[T], error) {
	home := slices.Clone(xs)
	if len(home) == 0 {
		return nil, fmt.Errorf("put %q: %w: no elements", name, ErrBinding)
	}
	ref, err := r.x.Put(name, bytesOf(home), graph.Versioned)
	if err != nil {
		return nil, fmt.Errorf("put %q: %w", name, err)
	}
	return &Data[T]{r: r, ref: ref, home: home}, nil
}

// Alloc makes n zero elements resident.
func Alloc[T any](r *Runtime, name string, n int) (*Data[T], error) {
	return Put(r, name, make([]T, n))
}

// As binds the data to a graph's data of a name.
func (d *Data[T]) As(name string) Binding { return Binding{Name: name, ref: d.ref, res: true} }

// Get copies the data's current value out. It waits for the runs that write it,
// at most for Options.SyncTimeout.
func (d *Data[T]) Get(ctx context.Context) ([]T, error) {
	ctx, cancel := d.r.bound(ctx)
	defer cancel()
	if err := d.r.x.Fetch(ctx, d.ref); err != nil {
		return nil, err
	}
	return slices.Clone(d.home), nil
}

// Release gives the data up once no run uses it.
func (d *Data[T]) Release() { d.r.x.Release(d.ref) }
