package proc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/machine"
)

// spins is how often to look before going to sleep, which costs more than that.
const spins = 200

// A worker that is silent for defaultHang is killed, and so is a child that has not
// answered a request after defaultAnswer. A device opens in a second, and in several on
// a crowded machine.
// maxHost is the memory of a device that uses the host's and names no limit.
const (
	defaultHang   = 10 * time.Second
	defaultAnswer = 15 * time.Second
	defaultEnd    = 2 * time.Second
	maxHost       = 1 << 30
)

// opened is a driver that was opened: what its devices have in common.
type opened struct {
	o      Options
	log    *slog.Logger
	keeper *keeper
	all    []*device // that were found
	mu     sync.Mutex
	users  int // devices that are not closed
}

// origin is a device as the keeper found it, which several workers may serve.
type origin struct {
	index  int
	found  found
	keeper *keeper
}

// Open starts the keeper, and a worker for every device it finds.
func (d *procDriver) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if d.o.Memory == nil {
		return nil, fmt.Errorf("proc: open %s: no memory to share was given", d.o.Driver)
	}
	v := &opened{o: d.o, log: log}
	if v.o.Hang <= 0 {
		v.o.Hang = defaultHang
	}
	if v.o.Answer <= 0 {
		v.o.Answer = defaultAnswer
	}
	if v.o.End <= 0 {
		v.o.End = defaultEnd
	}
	v.keeper = &keeper{o: &v.o, log: log}
	var all []found
	err := retry(ctx, log, func() (err error) {
		all, err = v.keeper.devices(ctx)
		return err
	})
	if err != nil {
		v.keeper.renew()
		if own := (*remoteError)(nil); errors.As(err, &own) && errors.Is(own, driver.ErrUnavailable) {
			return nil, own // the same error as without a process between
		}
		return nil, fmt.Errorf("proc: open %s: %w", d.o.Driver, err)
	}
	var devs []*device
	for i, f := range all {
		n := 1
		if v.o.Split != nil {
			n = v.o.Split(f.Info)
		}
		g := &origin{index: i, found: f, keeper: v.keeper}
		for part := range n {
			devs = append(devs, newDevice(v, g, f, part, n))
		}
	}
	v.all = devs
	// Devices open side by side: each takes most of a second.
	v.users = len(devs)
	errs := make([]error, len(devs))
	var wg sync.WaitGroup
	for i, dev := range devs {
		wg.Go(func() {
			errs[i] = retry(ctx, dev.log, func() (err error) {
				dev.w, err = dev.start(ctx)
				return err
			})
		})
	}
	wg.Wait()
	var out []driver.Device
	for i, dev := range devs {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", dev.info.Name, errs[i])
			log.Warn("device left out", "device", dev.info.Name, "err", errs[i])
			v.release()
			continue
		}
		out = append(out, dev)
	}
	if len(devs) == 0 {
		v.keeper.renew()
		var names []string
		for _, f := range all {
			names = append(names, f.Info.Name)
		}
		return nil, fmt.Errorf("%s: %w: what is there, %s, was not asked for", d.o.Driver, driver.ErrUnavailable, strings.Join(names, ", "))
	}
	return out, errors.Join(errs...)
}

// release ends the keeper after the last device.
func (v *opened) release() {
	v.mu.Lock()
	v.users--
	last := v.users == 0
	v.mu.Unlock()
	if last {
		v.keeper.renew()
	}
}

// state is what a device is up to.
type state uint8

const (
	up         state = iota
	down             // lost
	closing          // its worker was asked to end
	closedDown       // nothing runs any more
)

// device is a worker as the executor sees it.
//
// Locks: device.mu before child.mu and the keeper's, never two devices' at a time.
type device struct {
	drv    *opened
	origin *origin
	log    *slog.Logger
	info   machine.Device
	tele   bool
	exact  bool

	board    *driver.Board
	boardOff int64 // where it lies in the arena
	boardFD  int   // and what the worker only reads of it
	wake     func()
	lanes    []*lane // all but the parent's own
	byLane   []*lane // by number, nil for those of others
	inner    []driver.Lane
	homeLane driver.Lane // the parent's own: staged copies out that came home
	in, out  *stager

	serving atomic.Pointer[child] // what w is, for those who must not wait for the lock
	again   atomic.Bool           // the executor will be told to look again
	flying  atomic.Int64          // operations given and not completed
	epoch   atomic.Int64          // counts workers lost; changed under mu

	mu         sync.Mutex
	state      state
	w          *child
	standby    *child
	preparing  bool // there is a standby, or will be
	member     map[*child]int
	done       []driver.Completion // ended by the parent
	heard      time.Duration       // the board's clock when it was last read for a completion
	homes      uint32              // numbers used on homeLane
	heap       heap
	aliases    map[peerBuffer]alias // siblings' buffers the worker knows
	unnamed    []uint32             // names for aliases that are free again
	foreign    map[int32]bool       // others' slabs the worker has mapped
	far        map[*origin]bool     // devices whose slabs it cannot map
	unreleased []temporary          // memory to give back to the arena when its operation is complete
	rec        writer
	steps      writer
	backlog    []byte // records the ring had no room for, each after its length
	kernels    registry
	segs       int            // segments of the arena the worker was told of
	tuned      []driver.Tuned // what is known of kernels, for workers to come
	fault      error
	suspects   map[*graph.Task]bool
	alone      driver.Wait // a suspect that runs by itself, or lane NoLane

	life       context.Context // ends when Close is called
	endLife    context.CancelCauseFunc
	background sync.WaitGroup
}

func newDevice(v *opened, g *origin, f found, part, parts int) *device {
	d := &device{drv: v, origin: g, info: f.Info, tele: f.Tele,
		member: make(map[*child]int), aliases: make(map[peerBuffer]alias), foreign: make(map[int32]bool), far: make(map[*origin]bool),
		suspects: make(map[*graph.Task]bool), alone: driver.Wait{Lane: driver.NoLane}, kernels: newRegistry()}
	d.life, d.endLife = context.WithCancelCause(context.Background())
	// The worker has memory of its own, whatever its device computes in.
	if d.info.HostMemory {
		d.info.HostMemory = false
		if d.info.MemBytes == 0 {
			d.info.MemBytes = maxHost
		}
	}
	if v.o.MemBytes > 0 {
		d.info.MemBytes = min(d.info.MemBytes, v.o.MemBytes)
	}
	if parts > 1 {
		d.info.Name, d.info.PartOf = fmt.Sprintf("%s.%d", f.Info.Name, part), f.Info.Name
		d.info.UUID = fmt.Sprintf("%s/%d.%d", f.Info.UUID, parts, part)
		d.info.MemBytes /= int64(parts)
		d.info.Joins = "" // two ranks cannot share a device
		d.info.Resources = append(append([]string(nil), f.Info.Resources...), f.Info.Name)
	}
	d.log = v.log.With("device", d.info.Name)
	d.heap = newHeap(f.Slabs, d.info.MemBytes)
	return d
}

func (d *device) Info() machine.Device { return d.info }

// ownLanes are those of staged copies: in, out, and out as seen by the parent.
const ownLanes = 3

// Traits are what the keeper found, for all workers of a device together. Buffers may
// be in memory that outlives a worker.
func (d *device) Traits() driver.Traits {
	t := driver.Traits{MemoryPeak: d.origin.found.Peak, Keeps: d.heap.slabbed, Shared: d.drv.o.Memory, OwnLanes: ownLanes}
	if l := d.origin.found.Host; l != nil {
		t.HostLink = *l
	}
	return t
}

// start starts a worker and has it open the device.
func (d *device) start(ctx context.Context) (*child, error) {
	w, err := spawn(&d.drv.o, asWorker, d.drv.o.Memory.FD(), d.log)
	if err != nil {
		return nil, err
	}
	m, err := w.call(ctx, &message{
		Kind: askOpen, Driver: d.drv.o.Driver, Config: d.drv.o.Config, Device: d.origin.index,
		NUMA: d.info.NUMA, Arena: d.drv.o.Memory.Size(),
	}, -1)
	if err == nil && len(m.Found) != 1 {
		err = fmt.Errorf("%w: %d devices for one worker", errGarbage, len(m.Found))
	}
	if err == nil && d.exact {
		_, err = w.call(ctx, &message{Kind: askExact}, -1)
	}
	if err == nil {
		err = d.tellTuned(ctx, w)
	}
	if err != nil {
		w.dispose()
		return nil, err
	}
	return w, nil
}

// SetExact has the worker's device use no library routines.
func (d *device) SetExact() {
	d.exact = true
	if _, err := d.w.call(context.Background(), &message{Kind: askExact}, -1); err != nil {
		d.log.Warn("exactness was not promised", "err", err)
	}
}

// attach joins a worker to the board; warm says that it only stands by.
func (d *device) attach(ctx context.Context, w *child, warm bool) error {
	n, err := d.drv.o.Memory.Enter()
	if err != nil {
		return err
	}
	if _, err := w.call(ctx, &message{Kind: askAttach, Lanes: d.inner, Board: d.boardOff, Member: n, Warm: warm}, d.boardFD); err != nil {
		d.drv.o.Memory.Leave(n)
		return err
	}
	d.mu.Lock()
	d.member[w] = n
	d.mu.Unlock()
	return nil
}

// Attach gives lanes to the worker and starts the goroutines that mind it.
func (d *device) Attach(b *driver.Board, lanes []driver.Lane, wake func()) {
	d.board, d.wake = b, wake
	var shared bool
	if d.boardOff, d.boardFD, shared = d.drv.o.Memory.BoardAt(b); !shared {
		d.boardFD = -1
	}
	d.byLane = make([]*lane, b.Lanes())
	n := len(lanes) - ownLanes
	kinds := make([]laneKind, n, n+2)
	kinds[n-2], kinds[n-1] = copiesIn, copiesOut
	for i, k := range append(kinds, stagesIn, stagesOut) {
		l := &lane{id: lanes[i], kind: k, given: b.Count(lanes[i])}
		d.lanes = append(d.lanes, l)
		d.byLane[l.id] = l
		if shared {
			b.Away(l.id)
		}
	}
	d.homeLane = lanes[n+2]
	// To the inner device our own lanes are two more that compute.
	d.inner = append(d.inner, lanes[:n-2]...)
	d.inner = append(d.inner, lanes[n], lanes[n+1], lanes[n-2], lanes[n-1])
	d.in, d.out = newStager(d, d.lanes[n], false), newStager(d, d.lanes[n+1], true)
	go d.in.run()
	go d.out.run()
	err := d.attach(context.Background(), d.w, false)
	if !shared {
		err = errors.New("the board is not in the memory shared with workers; take it from Shared")
	}
	w := d.w
	d.serving.Store(w)
	if err != nil {
		w.kill(err)
	}
	d.mind(w)
	d.prepareStandby()
}

// lockSoon tries the lock lockTries times, which takes some tens of microseconds. The
// lock is mostly held for less than one; a holder that has it longer waits for another
// process. Completions are then read again after lockAgain.
const (
	lockTries = 200
	lockAgain = time.Millisecond
)

// lockSoon takes the lock unless its holder waits for another process.
func (d *device) lockSoon() bool {
	for n := 0; !d.mu.TryLock(); n++ {
		if n == lockTries || d.again.Load() {
			return false
		}
		runtime.Gosched()
	}
	return true
}

// maxReads is how many records of a worker are read in one go: as many as a ring can
// hold. One that writes on and on must not keep the reader, who has the lock.
const maxReads = ringBytes / headBytes

// Completions reads the worker's ring. Where another goroutine has the lock and waits
// for a child it returns none, and the caller is told to look again.
func (d *device) Completions(dst []driver.Completion) int {
	if !d.lockSoon() {
		if !d.again.Swap(true) {
			time.AfterFunc(lockAgain, func() {
				d.again.Store(false)
				d.wake()
			})
		}
		return 0
	}
	defer d.mu.Unlock()
	n := copy(dst, d.done)
	d.done = d.done[:copy(d.done, d.done[n:])]
	for reads := 0; n < len(dst) && d.w != nil; reads++ {
		if reads == maxReads {
			d.wake() // for the rest
			break
		}
		c, report, ok, err := d.read()
		if err != nil {
			d.w.kill(err)
		}
		if !ok {
			break
		}
		if report {
			dst[n] = c
			n++
		}
	}
	if d.w != nil && len(d.backlog) > 0 {
		d.flush()
	}
	return n
}

// Submit hands operations to the worker. While there is none it takes none, but
// still makes and frees buffers.
func (d *device) Submit(batch []driver.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.submit(batch, true)
	return err
}

// SubmitSome is Submit up to where it would have to wait for a child.
func (d *device) SubmitSome(batch []driver.Op) (int, error) {
	if !d.lockSoon() {
		return 0, nil
	}
	defer d.mu.Unlock()
	return d.submit(batch, false)
}

// submit hands operations to the worker, and returns how many unless wait says that
// it may wait.
func (d *device) submit(batch []driver.Op, wait bool) (n int, lost error) {
	if d.state >= closing {
		return 0, fmt.Errorf("proc: submit to %s: %w", d.info.Name, driver.ErrClosed)
	}
	for ; n < len(batch); n++ {
		op := &batch[n]
		ok := true
		switch op.Kind {
		case driver.Alloc:
			ok = d.alloc(op.Buf, op.Bytes, wait)
		case driver.Free:
			d.free(op.Buf)
		default:
			if d.state == down {
				lost = fmt.Errorf("proc: submit to %s: %w", d.info.Name, driver.ErrDeviceLost)
				continue
			}
			l := d.byLane[op.Lane]
			if op.Kind == driver.Launch {
				d.launch(l, op)
			} else {
				ok = d.copy(l, op, wait)
			}
		}
		if !ok {
			break
		}
	}
	if d.w != nil {
		d.flush()
	}
	return n, lost
}

// launch sends a launch. A suspect runs alone: after everything before it on all
// lanes, and everything after it after it.
func (d *device) launch(l *lane, op *driver.Op) {
	waits, late := op.Waits, false
	if len(d.suspects) > 0 || d.alone.Lane != driver.NoLane {
		waits = append([]driver.Wait(nil), waits...)
		switch done, ok := d.stateOf(d.alone); {
		case !done:
			waits = append(waits, d.alone)
		case ok:
			d.alone.Lane = driver.NoLane
		default:
			late = true
		}
		if d.suspects[op.Task] {
			for _, o := range d.lanes {
				if o != l && o.kind == computes && o.oldest() != nil {
					waits = append(waits, driver.Wait{Lane: o.id, Seq: o.given})
				}
			}
			d.alone = driver.Wait{Lane: l.id, Seq: op.Seq}
		}
	}
	given := *op
	given.Waits = waits
	d.send(l, &given).late = late
}

func (d *device) stateOf(w driver.Wait) (done, ok bool) {
	if w.Lane == driver.NoLane {
		return true, true
	}
	return d.board.State(w)
}

// Workers of one device copy within its memory: as fast as that is, after what it
// takes to start a copy.
const (
	withinBPS = 500e9
	withinNS  = 10e3
)

// ready reports whether all is complete that an operation waits for.
func (d *device) ready(waits []driver.Wait) bool {
	for _, w := range waits {
		if done, _ := d.board.State(w); !done {
			return false
		}
	}
	return true
}

// send writes an operation and notes it as given.
func (d *device) send(l *lane, op *driver.Op) *flight { return d.sendFrom(l, op, own(op.Src)) }

// sendFrom is send with the name the worker knows a copy's source by.
func (d *device) sendFrom(l *lane, op *driver.Op, from uint32) *flight {
	f := l.push(op.Seq)
	f.kind, f.task = op.Kind, op.Task
	f.waits = append(f.waits, op.Waits...)
	d.flying.Add(1)
	d.board.Given(l.id, op.Seq)
	if op.Kind == driver.Copy {
		src, dst := d.offset(op.HostSrc, op.Src), d.offset(op.HostDst, op.Dst)
		f.host = op.HostDst
		d.rec.begin(doCopy)
		d.rec.u32(uint32(op.Lane))
		d.rec.u32(op.Seq)
		d.rec.waits(op.Waits)
		d.rec.i64(op.Bytes)
		d.rec.u32(from)
		d.rec.u32(own(op.Dst))
		d.rec.i64(op.SrcOff)
		d.rec.i64(op.DstOff)
		d.rec.i64(src)
		d.rec.i64(int64(len(op.HostSrc)))
		d.rec.i64(dst)
		d.rec.i64(int64(len(op.HostDst)))
	} else {
		d.steps.b = d.steps.b[:0]
		d.steps.steps(op.Task.Steps, d.kernel)
		waits, args := op.Waits, op.Args
		if len(d.steps.b) > maxRecord/2 || len(d.steps.b)+8*len(waits)+20*len(args) > maxRecord-64 {
			d.steps.b, waits, args = d.steps.b[:0], nil, nil // it fails at once, in its turn
			d.steps.steps(oversized.Steps, d.kernel)
		}
		d.rec.begin(doLaunch)
		d.rec.u32(uint32(op.Lane))
		d.rec.u32(op.Seq)
		d.rec.waits(waits)
		d.rec.u32(uint32(len(args)))
		for i := range args {
			a := &args[i]
			d.rec.u32(own(a.Buf))
			d.rec.i64(a.Off)
			d.rec.i64(a.Bytes)
		}
		d.rec.bytes(d.steps.b)
	}
	d.tell()
	return f
}

// offset is where memory lies in the arena. The worker is told of the segment
// first.
func (d *device) offset(mem []byte, b driver.Buffer) int64 {
	if b != driver.NoBuffer {
		return 0
	}
	off, ok := d.drv.o.Memory.Find(mem)
	if !ok {
		return 0 // nothing is copied
	}
	segs := d.drv.o.Memory.Segments()
	for k := arena.SegmentOf(segs, off); d.segs <= k; d.segs++ {
		d.rec.segment(segs[d.segs])
		d.tell()
		d.tellStandby()
		if d.standby != nil {
			d.standby.segs = d.segs + 1
		}
	}
	return off
}

func (w *writer) segment(s arena.Segment) {
	w.begin(doSegment)
	w.i64(s.Off)
	w.i64(s.Len)
}

// kernel returns a kernel's number, having defined it to the worker.
func (d *device) kernel(k *graph.Kernel) uint32 {
	n, def := d.kernels.number(k)
	for at := 0; at < len(def); {
		part := def[at:min(at+maxRecord/2, len(def))]
		d.rec.begin(doKernel)
		d.rec.u32(n)
		d.rec.u32(uint32(len(def) - at - len(part))) // bytes still to come
		d.rec.bytes(part)
		d.tell()
		at += len(part)
	}
	return n
}

// tell puts the record into the ring, or behind those that wait for room.
func (d *device) tell() {
	if len(d.backlog) == 0 {
		ok, err := d.w.commands.put(d.rec.b)
		if err != nil {
			d.w.kill(err)
		}
		if ok || err != nil {
			return
		}
	}
	var w writer
	w.b = d.backlog
	w.bytes(d.rec.b)
	d.backlog = w.b
}

// flush moves what waited into the ring and rings.
func (d *device) flush() {
	r := reader{b: d.backlog}
	for len(r.b) > 0 {
		rest := r.b
		ok, err := d.w.commands.put(r.bytes())
		if err != nil {
			d.w.kill(err)
			rest = nil
		}
		if !ok {
			d.backlog = d.backlog[:copy(d.backlog, rest)]
			d.w.commands.ring()
			return
		}
	}
	d.backlog = d.backlog[:0]
	d.w.commands.ring()
}

// Telemetry asks the worker; a lost device knows nothing.
func (d *device) Telemetry() (driver.Telemetry, error) {
	d.mu.Lock()
	w := d.w
	d.mu.Unlock()
	if !d.tele || w == nil {
		return driver.Telemetry{Util: -1, MemUsed: -1, TempC: -1, PowerW: -1, ClockMHz: -1, MemErrors: -1, Faults: -1}, nil
	}
	m, err := w.call(d.life, &message{Kind: askTele}, -1)
	if err != nil {
		// Not as an error that says the device is lost: if it is, its completions
		// say so, and who did it.
		return driver.Telemetry{}, fmt.Errorf("proc: telemetry of %s: %v", d.info.Name, err)
	}
	if m.Tele == nil {
		return driver.Telemetry{}, fmt.Errorf("proc: telemetry of %s: %w", d.info.Name, errGarbage)
	}
	return *m.Tele, nil
}

// Close ends the worker once what it runs has ended, and waits for it. Whoever waits
// for a child on the device's behalf, the lock held perhaps, waits no longer.
func (d *device) Close() error {
	d.endLife(driver.ErrClosed)
	d.mu.Lock()
	if d.state >= closing {
		d.mu.Unlock()
		return nil
	}
	d.state = closing
	w := d.w
	if w != nil && d.board != nil {
		d.rec.begin(doClose)
		d.tell()
		d.flush()
	}
	d.mu.Unlock()
	if d.board == nil { // never attached: no goroutine follows the worker
		w.dispose()
	}
	if w != nil {
		select {
		case <-w.exited:
		case <-time.After(d.drv.o.End):
			w.kill(errHung)
		}
	}
	d.mu.Lock()
	d.state = closedDown
	s := d.standby
	d.standby = nil
	d.epoch.Add(1)
	d.mu.Unlock()
	if d.board != nil {
		d.board.Stir()
		for _, s := range []*stager{d.in, d.out} {
			s.cond.Broadcast()
			<-s.ended
		}
	}
	if s != nil {
		s.kill(errStopped)
	}
	d.background.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), d.drv.o.End/2)
	defer cancel()
	d.mu.Lock()
	d.surrender(ctx)
	d.mu.Unlock()
	d.drv.release()
	return nil
}
