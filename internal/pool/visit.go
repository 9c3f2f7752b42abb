package pool

import "runtime"

// visit runs a task within a limit. Its goroutine is noted, since a wait of this task gives
// up its place whatever context it is given: within a limit of one nothing else could
// run, and unlike a slot, a place in a limit cannot be added to.
func (p *Pool) visit(t *Task) {
	id := goroutine()
	p.mu.Lock()
	p.visits[id] = t
	p.mu.Unlock()
	p.visited.Add(1)
	defer func() {
		p.mu.Lock()
		delete(p.visits, id)
		p.mu.Unlock()
		p.visited.Add(-1)
	}()
	p.run(t, p.anySlot(), 0)
}

// waiter is the task that the caller's goroutine is about to wait in: the one within a limit
// whose goroutine it is, or else w, to which its context belongs. It is nil if that is not
// known, as for a task without a limit that waits with the context of another. inside
// reports whether the goroutine holds a place or a slot.
func (p *Pool) waiter(w *Task) (who *Task, inside bool) {
	if p.visited.Load() > 0 {
		id := goroutine()
		p.mu.Lock()
		t := p.visits[id]
		p.mu.Unlock()
		if t != nil && !t.over() {
			return t, true
		}
	}
	if w == nil || w.limited() && onLoop() {
		return nil, w != nil || onLoop()
	}
	return w, true // or a goroutine that it started
}

// loopName is how stacks call Pool.loop.
const loopName = "github.com/weft-run/weft/internal/pool.(*Pool).loop"

// onLoop reports whether the caller's goroutine runs Pool.loop. It takes about 0.1 µs for
// each function on the stack, and is for waits that are about to sleep.
func onLoop() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		if n == 0 {
			return false
		}
		for frames := runtime.CallersFrames(pcs[:n]); ; {
			f, more := frames.Next()
			if f.Function == loopName {
				return true
			}
			if !more {
				break
			}
		}
	}
}

// goroutine is the number of the caller's goroutine, as stacks begin with it. It takes some
// microseconds, more on a deep stack, and is for waits that are about to sleep.
func goroutine() (id uint64) {
	const head = len("goroutine ")
	var buf [head + 20]byte
	n := runtime.Stack(buf[:], false)
	for _, c := range buf[head:n] {
		if c < '0' || c > '9' {
			break
		}
		id = 10*id + uint64(c-'0')
	}
	return id
}
