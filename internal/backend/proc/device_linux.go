package proc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// spins is the number of looks before going to sleep, which costs more than they do.
const spins = 200

// state is the state of a device.
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

	serving atomic.Pointer[child] // w, for goroutines that must not wait for the lock
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
	sent       uint64               // operations given to workers
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
		d.info.UUID += "-worker" // it is not as fast as in this process
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

// ownLanes is the number of lanes for staged copies: in, out, and out as the parent
// sees it.
const ownLanes = 3

// Traits are what the keeper found, for all workers of a device together. Buffers may
// be in memory that outlives a worker.
func (d *device) Traits() driver.Traits {
	t := driver.Traits{MemoryPeak: d.origin.found.Peak, Keeps: d.heap.slabbed, Shared: d.drv.o.Memory, Probes: d.origin.found.Probes, OwnLanes: ownLanes}
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
	config := d.drv.o.Config
	if d.board != nil && d.drv.o.Again != nil {
		config = d.drv.o.Again
	}
	w.unwatched = make(chan struct{})
	go d.watchBeats(w)
	m, err := w.call(ctx, &message{
		Kind: askOpen, Driver: d.drv.o.Driver, Config: config, Device: d.origin.index,
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

// attach joins a worker to the board, at which it gives up its rights; warm says that it only stands by.
func (d *device) attach(ctx context.Context, w *child, warm bool) error {
	n, err := d.drv.o.Memory.Enter()
	if err != nil {
		return err
	}
	m := &message{
		Kind: askAttach, Lanes: d.inner, Board: d.boardOff, Member: n, Warm: warm, Confine: d.drv.o.Confine, WorkerBytes: d.drv.o.WorkerBytes,
	}
	if _, err := w.call(ctx, m, d.boardFD); err != nil {
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
	// To the inner device our own lanes are two more that copy, in and out.
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

// maxReads is the number of records of a worker that are read in one go: as many as a
// ring can hold. A worker that writes without end must not keep the reader, who has
// the lock.
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

// Telemetry asks the worker; a lost device knows nothing.
func (d *device) Telemetry() (driver.Telemetry, error) {
	d.mu.Lock()
	w := d.w
	d.mu.Unlock()
	if !d.tele || w == nil {
		return driver.Telemetry{Util: -1, MemUsed: -1, MemBytes: -1, TempC: -1, PowerW: -1, ClockMHz: -1, MemErrors: -1, Faults: -1}, nil
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
