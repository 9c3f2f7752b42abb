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
}

// queued is an operation with memory of its own for what Op borrows.
type queued struct {
	kind     driver.Kind
	seq      uint32
	waits    []driver.Wait
	src, dst driver.Buffer
	so, do   int64
	bytes    int64
	hostSrc  []byte
	hostDst  []byte
	task     *graph.Task
	args     []driver.Arg
	call     Call
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
		q.kind, q.seq, q.bytes, q.task = op.Kind, op.Seq, op.Bytes, op.Task
		q.src, q.dst, q.so, q.do = op.Src, op.Dst, op.SrcOff, op.DstOff
		q.hostSrc, q.hostDst = op.HostSrc, op.HostDst
		q.waits = append(q.waits[:0], op.Waits...)
		q.args = append(q.args[:0], op.Args...)
	}
	wake := l.idle
	l.waiting.Store(int32(len(l.pending)))
	l.mu.Unlock()
	if wake {
		l.cond.Signal()
	}
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
		for i := range batch {
			at = l.serve(&batch[i], at)
		}
		l.flush()
	}
}

// serve runs one operation; start is when the lane became free for it.
func (l *lane) serve(q *queued, start time.Duration) time.Duration {
	err := l.await(q, &start)
	if err == nil && l.dev.closed.Load() {
		err = driver.ErrClosed
	}
	if err == nil {
		if q.kind == driver.Launch {
			err = l.resolve(q)
			if err == nil {
				err = l.dev.launch(q)
			}
		} else {
			err = l.copy(q)
		}
	}
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

// resolve turns a launch's arguments into memory.
func (l *lane) resolve(q *queued) error {
	q.call.Args = q.call.Args[:0]
	for i := range q.args {
		a := &q.args[i]
		mem, err := l.dev.bytes(a.Buf, a.Host, a.Off, a.Bytes)
		if err != nil {
			return err
		}
		q.call.Args = append(q.call.Args, mem)
	}
	return nil
}

func (l *lane) copy(q *queued) error {
	dst, err := l.dev.bytes(q.dst, q.hostDst, q.do, q.bytes)
	if err != nil {
		return err
	}
	src, err := l.dev.bytes(q.src, q.hostSrc, q.so, q.bytes)
	if err != nil {
		return err
	}
	if int64(len(dst)) < q.bytes || int64(len(src)) < q.bytes {
		return fmt.Errorf("cpu: copy of %d bytes from %d to %d", q.bytes, len(src), len(dst))
	}
	copy(dst[:q.bytes], src[:q.bytes])
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
