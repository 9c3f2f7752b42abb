package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
)

const (
	// flushAt is how many completions a lane gathers before it hands them over;
	// it also does at the end of a batch, after a failure and before it waits.
	flushAt = 64
	// spins is how often a lane looks again before it goes to sleep: about as
	// long as falling asleep and being woken costs.
	spins = 200
)

// lane is an in-order queue and the goroutine that serves it.
type lane struct {
	dev *device
	id  driver.Lane
	end chan struct{}

	mu      sync.Mutex
	cond    sync.Cond
	pending []queued            // submitted, not taken
	waiting atomic.Int32        // how many that are, readable without the lock
	idle    bool                // the goroutine sleeps
	done    []driver.Completion // handed over, not collected

	out []driver.Completion // gathered by the goroutine

	// the kernel run last and what it was found to be: mostly the next one too
	kernel *graph.Kernel
	impl   *graph.Impl
	fn     Func
}

// queued is an operation with memory of its own for what Op borrows. Buffers
// are made and freed in the order of submission, so it refers to memory already.
type queued struct {
	kind     driver.Kind
	seq      uint32
	waits    []driver.Wait
	task     *graph.Task // Launch
	call     Call
	src, dst []byte // Copy
	err      error  // why it cannot begin, if so
}

func (l *lane) push(batch []driver.Op) {
	l.mu.Lock()
	for i := range batch {
		op := &batch[i]
		n := len(l.pending)
		if n < cap(l.pending) {
			l.pending = l.pending[:n+1]
		} else {
			l.pending = append(l.pending, queued{})
		}
		q := &l.pending[n]
		q.kind, q.seq, q.task, q.err = op.Kind, op.Seq, op.Task, nil
		q.waits = append(q.waits[:0], op.Waits...)
		if op.Kind == driver.Launch {
			q.call.Args = q.call.Args[:0]
			for k := range op.Args {
				a := &op.Args[k]
				mem := a.Host
				if a.Buf != driver.NoBuffer {
					mem = l.memory(q, a.Buf, a.Off, a.Bytes)
				}
				q.call.Args = append(q.call.Args, mem)
			}
			continue
		}
		q.src, q.dst = op.HostSrc, op.HostDst
		if op.Src != driver.NoBuffer {
			q.src = l.memory(q, op.Src, op.SrcOff, op.Bytes)
		}
		if op.Dst != driver.NoBuffer {
			q.dst = l.memory(q, op.Dst, op.DstOff, op.Bytes)
		}
		if q.err == nil && (int64(len(q.src)) != op.Bytes || int64(len(q.dst)) != op.Bytes) {
			q.err = fmt.Errorf("cpu: copy of %d bytes from %d to %d", op.Bytes, len(q.src), len(q.dst))
		}
	}
	wake := l.idle
	l.waiting.Store(int32(len(l.pending)))
	l.mu.Unlock()
	if wake {
		l.cond.Signal()
	}
}

// memory is part of a device buffer; where there is none, the operation fails.
func (l *lane) memory(q *queued, b driver.Buffer, off, n int64) []byte {
	mem, err := l.dev.bytes(b, off, n)
	if err != nil {
		q.err = err
	}
	return mem
}

func (l *lane) completions(dst []driver.Completion) int {
	l.mu.Lock()
	n := copy(dst, l.done)
	l.done = l.done[:copy(l.done, l.done[n:])]
	l.mu.Unlock()
	return n
}

// run serves the lane until the device closes.
func (l *lane) run() {
	defer close(l.end)
	if l.dev.o.Pin {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		pin(l.dev.lo, l.dev.hi)
	}
	var batch []queued
	for {
		for n := 0; n < spins && l.waiting.Load() == 0; n++ {
			runtime.Gosched()
		}
		l.mu.Lock()
		for len(l.pending) == 0 && !l.dev.closed.Load() {
			l.idle = true
			l.cond.Wait()
			l.idle = false
		}
		if len(l.pending) == 0 {
			l.mu.Unlock()
			return
		}
		batch, l.pending = l.pending, batch[:0]
		l.waiting.Store(0)
		l.mu.Unlock()
		at := l.dev.now()
		for i := 0; i < len(batch); {
			i, at = l.serve(batch, i, at)
		}
		l.flush()
	}
}

// serve runs operations from batch[i] on, one after another, and returns where
// to go on: after one that panicked, or at the end. at is when the lane became
// free for the first.
func (l *lane) serve(batch []queued, i int, at time.Duration) (next int, free time.Duration) {
	next, free = i, at
	defer func() {
		if p := recover(); p != nil {
			l.complete(&batch[next], free, fmt.Errorf("cpu: %s: %w: %v", l.dev.info.Name, errPanic, p))
			next, free = next+1, l.dev.now()
		}
	}()
	for ; next < len(batch); next++ {
		q := &batch[next]
		err := l.await(q, &free)
		if err == nil && l.dev.closed.Load() {
			err = driver.ErrClosed
		}
		if err == nil {
			err = q.err
		}
		if err == nil {
			if q.kind == driver.Launch {
				err = l.launch(q)
			} else {
				copy(q.dst, q.src)
			}
		}
		free = l.complete(q, free, err)
	}
	return next, free
}

// complete notes that an operation which began at start has ended, and returns
// when that is.
func (l *lane) complete(q *queued, start time.Duration, err error) time.Duration {
	end := l.dev.now()
	l.out = append(l.out, driver.Completion{Lane: l.id, Seq: q.seq, Start: start, End: end, Err: err})
	l.dev.board.Done(l.id, q.seq, err != nil)
	if len(l.out) >= flushAt || err != nil {
		l.flush()
	}
	return end
}

// await blocks until everything the operation waits for is complete.
func (l *lane) await(q *queued, start *time.Duration) error {
	b := l.dev.board
	waited := false
	failed := false
	for _, w := range q.waits {
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
			if l.dev.closed.Load() {
				return driver.ErrClosed
			}
			if n < spins {
				runtime.Gosched()
				continue
			}
			b.Sleep(func() bool {
				done, _ := b.State(w)
				return done || l.dev.closed.Load()
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
func (l *lane) launch(q *queued) error {
	d, c := l.dev, &q.call
	for i := range q.task.Steps {
		s := &q.task.Steps[i]
		if s.Kernel != l.kernel {
			impl, fn, err := d.find(s.Kernel)
			if err != nil {
				return err
			}
			l.kernel, l.impl, l.fn = s.Kernel, impl, fn
		}
		if l.fn == nil {
			continue
		}
		c.Params, c.Launch = s.Params, s.Launch
		if c.err.Load() != nil {
			c.err.Store(nil)
		}
		items := 1
		if g := &s.Launch.Grid; g[0] > 1 || g[1] > 1 || g[2] > 1 {
			g := l.impl.Shape(s.Launch).Grid
			items = int(g[0]) * int(g[1]) * int(g[2])
		}
		if d.hi-d.lo == 1 || items == 1 {
			l.fn(c, 0, items)
		} else if err := d.team.run(l.fn, c, items); err != nil {
			return err
		}
		if err := c.Err(); err != nil {
			return fmt.Errorf("cpu: kernel %q on %s: %w", s.Kernel.Name, d.info.Name, err)
		}
	}
	return nil
}

// flush hands completions over.
func (l *lane) flush() {
	if len(l.out) == 0 {
		return
	}
	l.mu.Lock()
	l.done = append(l.done, l.out...)
	l.mu.Unlock()
	l.out = l.out[:0]
	l.dev.wake()
}
