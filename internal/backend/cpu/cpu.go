package cpu

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/numa"
	"github.com/weft-run/weft/machine"
)

// Threads are the settings of the threads of devices, by the names that they have in weft.Options.
type Threads struct {
	// Pin ties each device's threads to its cores.
	Pin bool
	// Realtime runs them by Realtime, where that is permitted.
	Realtime bool
}

// Options say how to cut the cores into devices.
type Options struct {
	// Parts is the number of devices (1). With fewer cores than parts, parts
	// share cores, and Open logs it.
	Parts int
	// Cores limits how many cores are used; 0 means all.
	Cores int
	// MemBytes is the host memory that weft may use; 0 means no limit.
	MemBytes int64
	Threads
	// Funcs are the kernels by name.
	Funcs map[string]driver.Func
	// Late, if it is not nil, has kernels that were brought after the devices were opened.
	Late func(name string) driver.Func
	// Apart, if it is not empty, makes one device of this name that runs kernels of this
	// dialect alone, as many at a time as Lanes says.
	Apart   graph.Dialect
	Streams int
}

// New returns the driver.
func New(o Options) driver.Driver { return &cpuDriver{o} }

type cpuDriver struct{ o Options }

func (d *cpuDriver) Name() string { return backend }

const backend = "cpu"

// Whole names the cores before they are divided into devices, for a Selection.
func Whole() *machine.Device { return &machine.Device{Name: deviceName(0), Backend: backend} }

// maxLanes is the greatest number of launches a device runs at a time: traces have 8 bits
// for the number of a lane. A launch with a grid still uses all cores of a larger device.
const maxLanes = 255

func deviceName(i int) string { return fmt.Sprintf("%s:%d", backend, i) }

// Open returns the devices.
func (d *cpuDriver) Open(_ context.Context, log *slog.Logger) ([]driver.Device, error) {
	cores := runtime.NumCPU()
	if d.o.Cores > 0 {
		cores = min(cores, d.o.Cores)
	}
	parts := max(d.o.Parts, 1)
	if parts > cores && log != nil {
		log.Warn("more cpu devices than cores: they share them", "devices", parts, "cores", cores)
	}
	nodes := memoryNodes()
	all := numa.Arrange(allowed(), nodes)
	var out []driver.Device
	for i := range parts {
		lo, hi := i*cores/parts, (i+1)*cores/parts
		if parts > cores {
			lo = i % cores
			hi = lo + 1
		}
		dev := newDevice(i, parts, hi-lo, d.o)
		if hi <= len(all) {
			dev.settle(all[lo:hi], nodes)
		}
		out = append(out, dev)
	}
	return out, nil
}

// memoryNodes are the memory nodes of the machine; tests have their own.
var memoryNodes = numa.Nodes

// device is some cores.
type device struct {
	info     machine.Device
	o        Options
	cores    []int // that its threads are tied to; none leaves them free
	board    *driver.Board
	lanes    []*lane
	byLane   map[driver.Lane]*lane
	wake     func()
	team     atomic.Pointer[team]
	mu       sync.Mutex
	buffers  map[driver.Buffer][]byte
	used     int64
	closed   atomic.Bool
	detached detached
}

func newDevice(i, parts, cores int, o Options) *device {
	d := &device{o: o, buffers: make(map[driver.Buffer][]byte)}
	d.info = machine.Device{
		Name: deviceName(i), Model: modelName(), Kind: machine.CPU, Backend: backend, Dialects: []graph.Dialect{graph.Go},
		Arch: runtime.GOARCH, UUID: fmt.Sprintf("cpu-%d-of-%d", i, parts), MemBytes: o.MemBytes, HostMemory: true,
		ComputeUnits: cores, SIMDLanes: simdLanes(), Lanes: min(cores, maxLanes), Team: true,
		Driver:    fmt.Sprintf("%s, %d threads%s", runtime.Version(), runtime.GOMAXPROCS(0), quota()),
		Resources: []string{machine.HostMemory, machine.HostCores},
	}
	if o.Apart != "" {
		d.info.Name, d.info.Backend, d.info.UUID = string(o.Apart), string(o.Apart), string(o.Apart)
		d.info.Dialects, d.info.Apart = []graph.Dialect{o.Apart}, true
		d.info.Lanes, d.info.Team, d.info.Resources = o.Streams, false, nil
	}
	if parts > 1 {
		d.info.PartOf = deviceName(0)
	}
	return d
}

// settle says which cores a device has. Where the machine has several memory nodes and
// all the cores are of one, threads stay in that node: what they allocate and touch first
// is then in its memory. Threads that are pinned have the device's own cores alone.
func (d *device) settle(cores []int, nodes []numa.Node) {
	if d.o.Pin {
		d.cores = cores
	}
	if len(nodes) < 2 {
		return
	}
	home := numa.Homes(nodes)
	d.info.NUMA = -1
	for i, c := range cores {
		id, ok := home[c]
		if !ok || i > 0 && id != d.info.NUMA {
			d.info.NUMA = -1
			return
		}
		d.info.NUMA = id
	}
	if d.info.NUMA >= 0 && !d.o.Pin {
		for _, c := range allowed() {
			if id, ok := home[c]; ok && id == d.info.NUMA {
				d.cores = append(d.cores, c)
			}
		}
	}
}

// tie ties the calling goroutine's thread to the device's cores and has it go before
// others, if it is to. The thread is the goroutine's for good: such a thread must not serve
// others.
func (d *device) tie() {
	if len(d.cores) == 0 && !d.o.Realtime {
		return
	}
	runtime.LockOSThread()
	if len(d.cores) > 0 {
		pin(d.cores)
	}
	if d.o.Realtime {
		_ = Realtime() // who asked for it has tried that it is permitted
	}
}

// copiers is the number of goroutines that copy at a time: as many as the device has cores. Where its threads
// are tied to cores or go before others, as no other goroutine is, the lane copies alone.
func (d *device) copiers() int {
	if d.o.Pin || d.o.Realtime {
		return 1
	}
	return d.info.ComputeUnits
}

func (d *device) Info() machine.Device { return d.info }

func (d *device) Attach(b *driver.Board, lanes []driver.Lane, wake func()) {
	d.board, d.wake = b, wake
	d.byLane = make(map[driver.Lane]*lane)
	d.gather()
	for _, n := range lanes {
		l := newLane(d, n)
		d.lanes = append(d.lanes, l)
		d.byLane[n] = l
		go l.run()
	}
}

// gather makes the team that works on launches from now on.
func (d *device) gather() {
	d.team.Store(newTeam(d))
}

func (d *device) Submit(batch []driver.Op) error {
	if d.closed.Load() {
		return fmt.Errorf("cpu: submit to %s: %w", d.info.Name, driver.ErrClosed)
	}
	if len(d.lanes) > 0 && d.lanes[0].gone.Load() {
		return fmt.Errorf("cpu: submit to %s: %w", d.info.Name, driver.ErrDeviceLost)
	}
	for len(batch) > 0 {
		op := &batch[0]
		switch op.Kind {
		case driver.Alloc:
			d.alloc(op)
			batch = batch[1:]
			continue
		case driver.Free:
			d.free(op.Buf, op.Secret)
			batch = batch[1:]
			continue
		}
		n := 1
		for n < len(batch) && batch[n].Lane == op.Lane && batch[n].Kind >= driver.Copy {
			n++
		}
		d.byLane[op.Lane].push(batch[:n])
		batch = batch[n:]
	}
	return nil
}

// alloc makes a buffer; one that cannot be made stays absent, which fails what
// uses it.
func (d *device) alloc(op *driver.Op) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if op.Bytes <= 0 || d.o.MemBytes > 0 && op.Bytes > d.o.MemBytes-d.used {
		return
	}
	// Where no limit is set, a size beyond all addresses is still no reason to
	// take the program down.
	defer func() { _ = recover() }()
	d.buffers[op.Buf] = make([]byte, op.Bytes)
	d.used += op.Bytes
}

func (d *device) free(b driver.Buffer, secret bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if secret {
		clear(d.buffers[b])
	}
	d.used -= int64(len(d.buffers[b]))
	delete(d.buffers, b)
}

// bytes returns part of a buffer.
func (d *device) bytes(b driver.Buffer, off, n int64) ([]byte, error) {
	d.mu.Lock()
	mem, ok := d.buffers[b]
	d.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("cpu: buffer %d on %s: %w", b, d.info.Name, driver.ErrOutOfMemory)
	}
	if off < 0 || n < 0 || off > int64(len(mem)) || n > int64(len(mem))-off {
		return nil, fmt.Errorf("cpu: %d bytes from %d on of a buffer of %d on %s", n, off, len(mem), d.info.Name)
	}
	return mem[off : off+n], nil
}

func (d *device) Completions(dst []driver.Completion) int {
	n := d.detached.completions(dst)
	for _, l := range d.lanes {
		n += l.out.take(dst[n:], d.now)
	}
	return n
}

// Close lets running operations end and fails the others.
func (d *device) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	for _, l := range d.lanes {
		l.mu.Lock()
		l.cond.Broadcast()
		l.mu.Unlock()
	}
	if d.board != nil {
		d.board.Stir()
	}
	for _, l := range d.lanes {
		<-l.end
	}
	d.detached.wait()
	if t := d.team.Load(); t != nil {
		t.close()
	}
	d.mu.Lock()
	clear(d.buffers)
	d.mu.Unlock()
	return nil
}

// Stop ends an operation early: when its kernel asks, or in its turn without having
// begun.
func (d *device) Stop(op driver.Wait) {
	if d.detached.stop(op) {
		return
	}
	if l := d.byLane[op.Lane]; l != nil {
		l.stop(op.Seq)
	}
}

// Drop abandons the device's operations. A running kernel may notice by Stopped or its
// context; operations queued after it never begin.
func (d *device) Drop(error) {
	for _, l := range d.lanes {
		l.mu.Lock()
		if !l.gone.Swap(true) {
			l.settled = make(chan struct{})
			if l.context.ctx != nil {
				l.context.cancel(driver.ErrDeviceLost)
			}
		}
		l.cond.Signal()
		l.mu.Unlock()
	}
	d.board.Stir()
}

// Revive waits for calls under way when the device was dropped, after which
// nothing touches their memory any more, and takes operations again.
func (d *device) Revive(ctx context.Context, _ driver.Rung) (kept bool, err error) {
	for _, l := range d.lanes {
		if !l.gone.Load() {
			continue
		}
		select {
		case <-l.settled:
		case <-ctx.Done():
			return false, fmt.Errorf("cpu: %s: a call has not returned: %w", d.info.Name, context.Cause(ctx))
		}
	}
	for _, l := range d.lanes {
		l.gone.Store(false)
	}
	return true, nil
}

// Traits say that a dropped device's memory outlives that.
func (d *device) Traits() driver.Traits { return driver.Traits{Keeps: true, InProcess: true} }

// find returns the function of a kernel and the implementation that names it;
// no function means nothing to do.
func (d *device) find(k *graph.Kernel) (*graph.Impl, driver.Func, error) {
	for i := range k.Impls {
		impl := &k.Impls[i]
		if impl.Dialect != cmp.Or(d.o.Apart, graph.Go) {
			continue
		}
		fn := d.o.Funcs[impl.Entry]
		if fn == nil {
			fn = probeFuncs[impl.Entry]
		}
		if fn == nil && d.o.Late != nil {
			fn = d.o.Late(impl.Entry)
		}
		if fn != nil || impl.Entry == "" {
			return impl, fn, nil
		}
	}
	return nil, nil, fmt.Errorf("kernel %q: %w: %w", k.Name, driver.ErrUnfit, driver.ErrNoFunc)
}

// now is the board's clock.
func (d *device) now() time.Duration { return d.board.Now() }
