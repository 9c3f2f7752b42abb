package cpu

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/memcopy"
)

const (
	// flushAt is the number of completions after which a lane hands them over and wakes
	// the loop: doing so for each would cost more than a short task. The lane also does
	// so at the end of a batch, after a failure, before it waits, and after an operation
	// that took flushAfter or longer, since the next one may take as long.
	flushAt    = 64
	flushAfter = 20 * time.Microsecond
	// spins is the number of times a lane looks again before it goes to sleep: some tens
	// of microseconds, in which the next batch of short tasks comes. Waking up for each
	// would take as much of the cores, and the time of the goroutine that wakes it.
	spins = 400
)

// lane is an in-order queue and the goroutine that serves it.
type lane struct {
	dev *device
	id  driver.Lane
	end chan struct{}

	mu      sync.Mutex
	cond    sync.Cond
	pending batch         // submitted, not taken
	waiting atomic.Int32  // len(pending.ops), readable without the lock
	idle    bool          // the goroutine sleeps
	gone    atomic.Bool   // given up on
	stopped []uint32      // numbers of operations to end early, see Stop
	stops   atomic.Int32  // len(stopped), readable without the lock
	settled chan struct{} // closed once nothing given before runs any more
	context launchContext
	// replaced says that another lane has its number: the call it runs is detached.
	replaced atomic.Bool

	out completed

	// used only by the lane's goroutine: what it took, which of it is next, and whether
	// the lane was taken from it
	taken batch
	next  int
	lost  bool

	// the kernel run last and what it was found to be: mostly the next one too
	kernel *graph.Kernel
	is     *found
	known  map[*graph.Kernel]*found
	call   *driver.Call
	seq    uint32   // of the launch that call is for
	picked [][]byte // arguments of a step that has its own
	core   *team    // the team that counts a core for the lane's launch, nil for none
	began  bool     // a kernel of the launch was called, and did not refuse at once
	before []sum    // checksums of what the launch only reads, if they are wanted
}

// found is the implementation found for a kernel.
type found struct {
	impl *graph.Impl
	fn   driver.Func
	// short says that it took less than flushAfter the last time. Completions that
	// were gathered are handed over before one that may not.
	short bool
}

// maxKnown bounds what a lane remembers of kernels: those made anew for every graph must
// not pile up.
const maxKnown = 256

func newLane(d *device, id driver.Lane) *lane {
	l := &lane{dev: d, id: id, end: make(chan struct{}), known: make(map[*graph.Kernel]*found)}
	l.call = driver.NewCall(func() bool { return l.gone.Load() || l.unwanted(l.seq) }, l.launchContext)
	l.cond.L = &l.mu
	return l
}

// look finds a kernel.
func (l *lane) look(k *graph.Kernel) error {
	f := l.known[k]
	if f == nil {
		impl, fn, err := l.dev.find(k)
		if err != nil {
			return err
		}
		if len(l.known) == maxKnown {
			clear(l.known)
		}
		f = &found{impl: impl, fn: fn}
		l.known[k] = f
	}
	l.kernel, l.is = k, f
	return nil
}

// batch holds operations with what they need, packed so that handing them to
// another core moves few cache lines. Buffers are made and freed in the order of
// submission, so operations refer to memory already.
type batch struct {
	ops   []queued
	waits []driver.Wait
	args  [][]byte // of a copy: source, destination
	errs  []error  // why an operation cannot begin
}

// queued is an operation; its waits and args end where those of the next operation
// begin.
type queued struct {
	seq         uint32
	waits, args int32       // where they begin
	err         int32       // 0, or one more than an index of errs
	task        *graph.Task // nil for a copy
	compare     bool
}

func (b *batch) reset() {
	clear(b.args) // or they would keep alive what they refer to
	clear(b.errs)
	b.ops, b.waits, b.args, b.errs = b.ops[:0], b.waits[:0], b.args[:0], b.errs[:0]
}

// uses returns what operation i waits for and works on.
func (b *batch) uses(i int) ([]driver.Wait, [][]byte) {
	q := &b.ops[i]
	if i+1 < len(b.ops) {
		next := &b.ops[i+1]
		return b.waits[q.waits:next.waits], b.args[q.args:next.args:next.args]
	}
	return b.waits[q.waits:], b.args[q.args:]
}

func (l *lane) push(ops []driver.Op) {
	l.mu.Lock()
	b := &l.pending
	n := len(b.ops)
	b.ops = slices.Grow(b.ops, len(ops))[:n+len(ops)]
	into, waits, args := b.ops[n:], b.waits, b.args
	for i := range ops {
		// Field by field, here and in complete: a literal is written twice, and
		// the second time waits for the first.
		op, q := &ops[i], &into[i]
		q.seq, q.waits, q.args, q.err, q.task, q.compare = op.Seq, int32(len(waits)), int32(len(args)), 0, op.Task, op.Compare
		waits = append(waits, op.Waits...)
		if op.Kind == driver.Launch {
			for k := range op.Args {
				a := &op.Args[k]
				args = append(args, a.Host)
				if a.Buf != driver.NoBuffer {
					args[len(args)-1] = l.memory(q, a.Buf, a.Off, a.Bytes)
				}
			}
			continue
		}
		args = append(args, op.HostSrc, op.HostDst)
		if op.Src != driver.NoBuffer {
			args[len(args)-2] = l.memory(q, op.Src, op.SrcOff, op.Bytes)
		}
		if op.Dst != driver.NoBuffer {
			args[len(args)-1] = l.memory(q, op.Dst, op.DstOff, op.Bytes)
		}
	}
	b.waits, b.args = waits, args
	wake := l.idle
	l.waiting.Store(int32(len(b.ops)))
	l.mu.Unlock()
	if wake {
		l.cond.Signal()
	}
}

// memory returns the part of a buffer an operation works on. Where there is no
// such buffer the operation fails.
func (l *lane) memory(q *queued, buf driver.Buffer, off, n int64) []byte {
	mem, err := l.dev.bytes(buf, off, n)
	if err != nil {
		l.pending.errs = append(l.pending.errs, err)
		q.err = int32(len(l.pending.errs))
	}
	return mem
}

// run serves the lane until the device closes.
func (l *lane) run() {
	over := false
	defer func() {
		if over {
			close(l.end)
		} else {
			go l.run() // a kernel has ended the goroutine; another goes on after it
		}
	}()
	l.dev.tie()
	for {
		at := l.dev.now()
		for l.next < len(l.taken.ops) && !l.lost {
			at = l.serve(at)
		}
		if l.lost { // another goroutine serves the lane
			over = true
			return
		}
		l.flush()
		l.taken.reset()
		l.next = 0
		for n := 0; n < spins && l.waiting.Load() == 0; n++ {
			runtime.Gosched()
		}
		l.mu.Lock()
		for len(l.pending.ops) == 0 && !l.dev.closed.Load() {
			l.settle()
			l.idle = true
			l.cond.Wait()
			l.idle = false
		}
		if len(l.pending.ops) == 0 {
			l.settle()
			l.mu.Unlock()
			over = true
			return
		}
		l.taken, l.pending = l.pending, l.taken
		l.waiting.Store(0)
		l.mu.Unlock()
	}
}

// settle tells, with the lock held, that nothing of a lane given up on runs.
func (l *lane) settle() {
	if !l.gone.Load() {
		return
	}
	select {
	case <-l.settled:
	default:
		close(l.settled)
	}
}

// serve runs the operations taken from the next on, one after another, up to one
// that panicked or to the end. at is when the lane became free for the first, free
// when it did for the one after the last.
func (l *lane) serve(at time.Duration) (free time.Duration) {
	b, next, ended := &l.taken, l.next, false
	free = at
	defer func() {
		p := recover()
		if p == nil && !ended {
			p = exited
		}
		if p != nil {
			err := panicked(p)
			if q := &b.ops[next]; q.task != nil {
				_, args := b.uses(next)
				err = l.compared(q.task, args, err)
			}
			l.leaveCore()
			l.endContext()
			l.complete(b.ops[next].seq, free, err)
			next, free = next+1, l.dev.now()
		}
		l.next = next
	}()
	for ; next < len(b.ops); next++ {
		q := &b.ops[next]
		waits, args := b.uses(next)
		err := l.await(waits, &free)
		switch {
		case err != nil:
		case l.gone.Load():
			err = driver.ErrDeviceLost
		case l.dev.closed.Load():
			err = driver.ErrClosed
		case l.unwanted(q.seq):
			err = driver.ErrStopped
		case q.err > 0:
			err = b.errs[q.err-1]
		case q.task != nil:
			l.seq = q.seq
			l.begin(q, args)
			err = l.compared(q.task, args, l.launch(q.task, args))
			l.leaveCore()
			l.endContext()
			switch { // what its kernel left may be half done
			case l.gone.Load():
				err = driver.ErrDeviceLost
			case l.unwanted(q.seq):
				err = driver.ErrStopped
			}
		case len(args[0]) != len(args[1]):
			err = fmt.Errorf("cpu: copy of %d bytes into %d", len(args[0]), len(args[1]))
		default:
			memcopy.Copy(args[1], args[0], l.dev.copiers())
		}
		free = l.complete(q.seq, free, err)
		if l.lost {
			break
		}
	}
	ended = true
	return free
}

// complete notes that an operation which began at start has ended, and returns
// when that is.
func (l *lane) complete(seq uint32, start time.Duration, err error) time.Duration {
	end := l.dev.now()
	if l.stops.Load() > 0 {
		l.forget(seq)
	}
	c := driver.Completion{Lane: l.id, Seq: seq, Start: start, End: end, Err: err}
	// The board alone would take a number for one to come after 2³¹ others on the lane.
	if l.replaced.Load() || !l.dev.board.Complete(l.id, seq, err != nil) {
		l.lost = true
		l.dev.detached.ended(l, c)
		return end
	}
	full := l.out.gather(c)
	if l.is != nil {
		l.is.short = end-start < flushAfter
	}
	if full || err != nil || end-start >= flushAfter {
		l.flush()
	}
	return end
}

// stop has an operation end early that is not complete.
func (l *lane) stop(seq uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if done, _ := l.dev.board.State(driver.Wait{Lane: l.id, Seq: seq}); !done {
		l.addStop(seq)
	}
}

// addStop notes, with the lock held, that an operation is to end early.
func (l *lane) addStop(seq uint32) {
	l.stopped = append(l.stopped, seq)
	l.stops.Store(int32(len(l.stopped)))
	if c := &l.context; c.ctx != nil && c.seq == seq {
		c.cancel(driver.ErrStopped)
	}
}

// unwanted reports whether an operation is to end early.
func (l *lane) unwanted(seq uint32) bool {
	if l.stops.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.stopped, seq)
}

// forget forgets what was to end early, up to an operation that has ended.
func (l *lane) forget(seq uint32) {
	l.mu.Lock()
	l.stopped = slices.DeleteFunc(l.stopped, func(s uint32) bool { return int32(seq-s) >= 0 })
	l.stops.Store(int32(len(l.stopped)))
	l.mu.Unlock()
}

// await blocks until everything an operation waits for is complete.
func (l *lane) await(waits []driver.Wait, start *time.Duration) error {
	b := l.dev.board
	waited := false
	failed := false
	for _, w := range waits {
		for n := 0; ; n++ {
			done, ok := b.State(w)
			if done {
				failed = failed || !ok
				break
			}
			if !waited {
				waited = true
				l.flush()
			}
			if l.gone.Load() {
				return driver.ErrDeviceLost
			}
			if l.dev.closed.Load() {
				return driver.ErrClosed
			}
			if n < spins {
				runtime.Gosched()
				continue
			}
			b.Sleep(func() bool {
				done, _ := b.State(w)
				return done || l.dev.closed.Load() || l.gone.Load()
			})
		}
	}
	if waited {
		*start = b.Now()
	}
	if failed {
		return driver.ErrDependency
	}
	return nil
}

// launch runs the steps of a task.
func (l *lane) launch(task *graph.Task, args [][]byte) error {
	d, c := l.dev, l.call
	team := d.team.Load() // for all steps: a call that is detached keeps it
	for i := range task.Steps {
		if i > 0 && c.Stopped() {
			return driver.ErrStopped
		}
		s := &task.Steps[i]
		c.Args = args
		if s.Args != nil {
			var err error
			if l.picked, err = driver.StepArgs(s, args, l.picked[:0]); err != nil {
				return fmt.Errorf("kernel %q: %w", s.Kernel.Name, err)
			}
			c.Args = l.picked
		}
		if s.Kernel != l.kernel {
			if err := l.look(s.Kernel); err != nil {
				return err
			}
		}
		if l.is.fn == nil {
			continue
		}
		if !l.is.short {
			l.flush()
		}
		before := l.began
		l.began = true
		c.Params, c.Launch = s.Params, s.Launch
		c.Reset()
		items := 1
		if g := &s.Launch.Grid; g[0] > 1 || g[1] > 1 || g[2] > 1 {
			g := l.is.impl.Shape(s.Launch).Grid
			items = int(g[0]) * int(g[1]) * int(g[2])
		}
		if d.info.ComputeUnits == 1 || items == 1 {
			if l.core == nil && !l.is.short && d.info.ComputeUnits > 1 {
				team.enter()
				l.core = team
			}
			l.is.fn(c, 0, items)
		} else {
			l.leaveCore()
			if err := team.run(l.is.fn, c, items); err != nil {
				return err
			}
		}
		if err := c.Err(); err != nil {
			if errors.Is(err, driver.ErrUnfit) { // the kernel has done nothing
				l.began = before
			}
			return fmt.Errorf("kernel %q: %w", s.Kernel.Name, err)
		}
	}
	return nil
}

// leaveCore ends the count of a core for the lane's launch.
func (l *lane) leaveCore() {
	if t := l.core; t != nil {
		l.core = nil
		t.leave()
	}
}

// flush hands over what was gathered and wakes the loop for it.
func (l *lane) flush() {
	if l.out.handOver() {
		l.dev.wake()
	}
}
