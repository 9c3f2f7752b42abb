package cuda

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// device is an open GPU. Its fields are in three groups: constant after open, guarded by mu,
// and used only by the owner, the thread of run. Lock order: mu, then memory.mu of any device;
// tell is never held with another.
type device struct {
	*platform
	api   *api
	num   int32 // CUDA's number of it
	ctx   uintptr
	info  machine.Device
	facts driver.Traits
	pci   string
	gpu   *gpu // NVML's view; nil without NVML
	arch  int  // as 90
	exact bool // no library routines
	log   *slog.Logger

	board   *driver.Board
	wake    func()
	lanes   []*lane
	streams []*stream
	block   uintptr // pinned memory: progress words, then arguments of launches
	ended   chan struct{}

	mu      sync.Mutex
	memory  memory
	mapped  []span // host memory that is page-locked, by address
	pending []*op  // submitted, not taken by the owner
	spare   []*op
	idle    bool // the owner sleeps
	cond    sync.Cond
	tuning  driver.Decisions
	told    bool // the caller knows that the device is lost

	comms communicators // with a lock of its own

	waiting atomic.Int32 // how many are pending, readable without the lock
	closed  atomic.Bool
	dead    atomic.Pointer[error] // why the device is lost
	seen    atomic.Int64          // when the owner last came round, Unix ns; 0 while it sleeps
	loading atomic.Int64          // when it began to compile a kernel, Unix ns; 0 when it does not

	tell sync.Mutex
	done []driver.Completion // handed over, not collected
	news atomic.Bool         // there are such

	// The owner's.
	f         *frame
	kernels   map[*graph.Kernel]*kernel
	modules   map[[32]byte]module
	plain     bool    // the driver has no bundles
	paramSlot int     // where among the arguments parameters were last
	copier    uintptr // kernel for short copies, 0 when there is none
	replays   replays
	blas      cublas
	dnn       cudnn
	probe     probe
	batch     []*op
	starting  *op // that is being put on a stream
	out       []driver.Completion
	recycle   []*op
	flying    int  // operations on streams
	held      int  // operations on lanes, not on streams
	blamed    bool // a single kernel lost the device
	wiper     wiper
}

// cores returns the number of shader cores of a multiprocessor of an architecture.
func cores(arch int) int {
	switch arch {
	case 60, 70, 72, 75, 80:
		return 64
	}
	return 128
}

// cluster returns the most blocks of a cluster on a GPU of an architecture with some
// multiprocessors. CUDA promises 8 from Hopper on. A GPU with 64 multiprocessors or more has 16
// that form a cluster; a part of a GPU may have none.
func cluster(arch, units int) int {
	switch {
	case arch < 90:
		return 0
	case units < 64:
		return 8
	}
	return 16
}

// margin is device memory left to the driver, to libraries and to other processes, in addition
// to a fraction of all memory: every process on a GPU takes some for itself.
const margin = 768 << 20

// open opens GPU number i.
func (p *platform) open(i int) (_ *device, err error) {
	d := &device{platform: p, api: p.api, log: p.log, ended: make(chan struct{}), f: new(frame), exact: p.o.Exact}
	d.cond.L = &d.mu
	f := getFrame()
	defer f.free()
	a := p.api
	name := fmt.Sprintf("cuda:%d", i)
	defer func() {
		if err != nil {
			err = fmt.Errorf("cuda: open %s: %w", name, err)
		}
	}()
	if err := a.do(f, &a.deviceGet, f.at(0), uintptr(i)); err != nil {
		return nil, err
	}
	d.num = f.i32(0)
	d.arch = a.attribute(f, d.num, attrMajor)*10 + a.attribute(f, d.num, attrMinor)
	units := a.attribute(f, d.num, attrSMs)
	d.info = machine.Device{
		Name: name, Backend: "cuda", Kind: machine.Discrete, Dialects: []graph.Dialect{graph.PTX, graph.CUDAC, graph.Library},
		Arch: fmt.Sprintf("sm_%d", d.arch), Cluster: cluster(d.arch, units), ComputeUnits: units * cores(d.arch), Lanes: max(p.o.Streams, 1),
	}
	if a.attribute(f, d.num, attrIntegrated) != 0 {
		d.info.Kind = machine.Integrated
	}
	if err := a.do(f, &a.deviceName, f.at(0), 256, uintptr(d.num)); err != nil {
		return nil, err
	}
	d.info.Model = f.text(0)
	if err := a.do(f, &a.devicePCI, f.at(0), 64, uintptr(d.num)); err == nil {
		d.pci = f.text(0)
		// sysfs writes four digits for what CUDA may write with eight.
		d.info.NUMA = numaNode(d.pci)
	}
	if a.do(f, &a.deviceUUID, f.at(0), uintptr(d.num)) == nil {
		u := (*[16]byte)(unsafe.Pointer(&f.out[0]))
		d.info.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	}
	if p.nvml != nil {
		if d.gpu, err = p.nvml.gpu(d.pci); err != nil {
			p.log.Warn("no telemetry", "device", name, "err", err)
		} else {
			d.info.PowerWatts = d.gpu.powerLimit()
			d.facts.HostLink = d.gpu.hostLink()
		}
	}
	// Two words of the memory's width go over in each cycle of its clock.
	d.facts.MemoryPeak = 2 * 1e3 * float64(a.attribute(f, d.num, attrMemoryKHz)) * float64(a.attribute(f, d.num, attrMemoryBits)) / 8
	if p.gpus > 1 && p.nccl.open(p.o.LibraryPath) == nil { // one GPU has none to join
		d.info.Joins = "nccl"
	}
	if err := a.do(f, &a.ctxRetain, f.at(0), uintptr(d.num)); err != nil {
		return nil, err
	}
	d.ctx = uintptr(f.out[0])
	err = d.within(func(f *frame) error {
		if err := d.memory.open(d, f); err != nil {
			return err
		}
		return d.openStreams(f)
	})
	if err != nil {
		_ = a.do(f, &a.ctxRelease, uintptr(d.num)) // the first error says more
		return nil, err
	}
	d.info.MemBytes = d.memory.limit
	return d, nil
}

// within runs fn on a thread that has the device's context.
func (d *device) within(fn func(*frame) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := getFrame()
	defer f.free()
	if err := d.api.do(f, &d.api.ctxPush, d.ctx); err != nil {
		return err
	}
	err := fn(f)
	_ = d.api.do(f, &d.api.ctxPop, f.at(63)) // what was pushed comes off
	return err
}

func (d *device) Info() machine.Device { return d.info }

// Traits are what the driver and NVML say of memory and link.
func (d *device) Traits() driver.Traits { return d.facts }

// SetExact forbids library routines, as Options.Exact does.
func (d *device) SetExact() { d.exact = true }

// Attach starts the owner.
func (d *device) Attach(b *driver.Board, lanes []driver.Lane, wake func()) {
	d.board, d.wake = b, wake
	for i, id := range lanes {
		d.lanes = append(d.lanes, &lane{id: id, dev: d, stream: d.streams[d.streamOf(i, len(lanes))]})
	}
	go d.run()
}

// streamOf returns the number of the stream for the i-th of some lanes. Lanes after the compute
// lanes copy in and out in turns: a worker has two for copies in parts before the last two.
// Copies have streams of their own, so that they overlap kernels.
func (d *device) streamOf(i, lanes int) int {
	n, compute := len(d.streams), min(d.info.Lanes, lanes-2)
	if i < compute {
		return min(i, n-3)
	}
	return n - 2 + (i-compute)%2
}

// errLost returns the error of all operations of a lost device except the culprit.
func (d *device) errLost() error {
	return fmt.Errorf("cuda: %s: %w: %w", d.info.Name, driver.ErrDeviceLost, *d.dead.Load())
}

func (d *device) Submit(batch []driver.Op) error {
	if d.closed.Load() {
		return fmt.Errorf("cuda: submit to %s: %w", d.info.Name, driver.ErrClosed)
	}
	d.mu.Lock()
	// What comes between the loss and the word of it is taken and ends as lost, so
	// that whoever is refused can have heard why.
	if d.told {
		d.mu.Unlock()
		return fmt.Errorf("cuda: submit to %s: %w", d.info.Name, d.errLost())
	}
	for i := range batch {
		o := &batch[i]
		switch o.Kind {
		case driver.Alloc:
			d.memory.alloc(d, o)
		case driver.Free:
			if at, bytes := d.memory.find(o.Buf); o.Secret && bytes > 0 {
				d.wiper.asked.Add(1)
				d.pending = append(d.pending, &op{wipe: true, dst: at, bytes: bytes})
			}
			d.memory.free(o.Buf)
		default:
			d.pending = append(d.pending, d.take(o))
		}
	}
	d.waiting.Store(int32(len(d.pending)))
	idle := d.idle
	d.mu.Unlock()
	if idle {
		d.cond.Signal()
	}
	return nil
}

// take makes the owner's form of an operation: buffers become addresses here,
// since a buffer's number may be given to another before the operation begins.
func (d *device) take(in *driver.Op) *op {
	var o *op
	if n := len(d.spare); n > 0 {
		o, d.spare = d.spare[n-1], d.spare[:n-1]
	} else {
		o = new(op)
	}
	*o = op{lane: in.Lane, seq: in.Seq, bytes: in.Bytes, waits: append(o.waits[:0], in.Waits...), ptrs: o.ptrs[:0], picked: o.picked[:0], cuts: o.cuts[:0]}
	if in.Kind == driver.Launch {
		o.task = in.Task
		for i := range in.Args {
			a := &in.Args[i]
			at, err := d.memory.at(a.Buf, a.Off, a.Bytes)
			if err != nil {
				o.err = fmt.Errorf("cuda: argument %d on %s: %w", i, d.info.Name, err)
				return o
			}
			o.ptrs = append(o.ptrs, at)
		}
		return o
	}
	if o.err = d.takeCopy(o, in); o.err != nil {
		o.err = fmt.Errorf("cuda: copy %d bytes on %s: %w", in.Bytes, d.info.Name, o.err)
	}
	return o
}

func (d *device) takeCopy(o *op, in *driver.Op) (err error) {
	if in.Bytes < 0 {
		return errors.New("a size must not be negative")
	}
	if in.Dst == driver.NoBuffer {
		o.host, o.direction = in.HostDst, out
	} else if o.dst, err = d.memory.at(in.Dst, in.DstOff, in.Bytes); err != nil {
		return err
	}
	switch {
	case in.Src == driver.NoBuffer:
		if in.Dst == driver.NoBuffer {
			return errors.New("both ends are host memory")
		}
		o.host, o.direction = in.HostSrc, into
	case in.From != nil && in.From != driver.Device(d):
		other, ok := in.From.(*device)
		if !ok {
			return errors.New("the other device is not one of this backend")
		}
		// What it waits for may be what makes the buffer: it is looked up then.
		o.from, o.srcBuf, o.srcOff, o.direction = other, in.Src, in.SrcOff, peer
		if in.Dst == driver.NoBuffer {
			return errors.New("from another device to host memory: that is the other's to do")
		}
	default:
		o.src, err = d.memory.at(in.Src, in.SrcOff, in.Bytes)
		if in.Dst != driver.NoBuffer {
			o.direction = inside
		}
	}
	if err != nil {
		return err
	}
	if o.direction == into || o.direction == out {
		if int64(len(o.host)) < in.Bytes {
			return fmt.Errorf("host memory has %d bytes", len(o.host))
		}
		if in.Bytes > 0 {
			var locked bool
			o.cuts, locked = d.locked(o.host[:in.Bytes], o.cuts)
			o.pageable = !locked
		}
	}
	return nil
}

func (d *device) Completions(dst []driver.Completion) int {
	if !d.news.Load() { // looked at all the time, and not to keep the owner from its lock
		return 0
	}
	d.tell.Lock()
	n := copy(dst, d.done)
	d.done = d.done[:copy(d.done, d.done[n:])]
	d.news.Store(len(d.done) > 0)
	d.tell.Unlock()
	return n
}

// Close waits for operations that are on the GPU and fails the rest.
func (d *device) Close() error {
	if d.closed.Swap(true) {
		<-d.ended
		return nil
	}
	if d.board == nil { // never attached
		close(d.ended)
		return d.shut()
	}
	d.leaveAll() // what waits for other ranks may wait for ever
	d.mu.Lock()
	d.cond.Broadcast()
	d.mu.Unlock()
	<-d.ended
	return d.shut()
}

// shut gives everything back. On a lost device nothing can be given back; the
// process that ends does it.
func (d *device) shut() error {
	if d.dead.Load() != nil {
		return nil
	}
	err := d.within(func(f *frame) error {
		d.closeComms(f)
		d.dnn.close()
		d.blas.close()
		d.replays.close(d, f)
		for _, m := range d.modules {
			_ = d.api.do(f, &d.api.moduleUnload, m.handle) // the context takes what is left with it
		}
		for _, s := range d.streams {
			s.bundle.close(d, f)
			_ = d.api.do(f, &d.api.streamDestroy, s.handle)
		}
		d.wiper.asked.Store(d.wiper.written) // what came as the owner ended is not given to the GPU
		d.awaitWipes()
		_ = d.api.do(f, &d.api.streamDestroy, d.wiper.handle)
		d.probe.close(d, f)
		_ = d.api.do(f, &d.api.memFreeHost, d.block)
		return d.memory.close(d, f)
	})
	f := getFrame()
	defer f.free()
	return errors.Join(err, d.api.do(f, &d.api.ctxRelease, uintptr(d.num)))
}

// loadLimit is the time after which a driver that compiles is taken to hang. Compiling is work of the
// processor, and the largest of weft's kernels take 5 s on an H200's machine: 2 minutes are for
// processors that are busy or slower.
const loadLimit = 2 * time.Minute

// LastSeen tells when the owner last came round: one that does not is held up
// inside the driver, unless that compiles.
func (d *device) LastSeen() time.Time {
	if ns := d.loading.Load(); ns != 0 && time.Since(time.Unix(0, ns)) < loadLimit {
		return time.Now()
	}
	if ns := d.seen.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Now()
}
