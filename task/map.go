package task

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weft-run/weft/fault"
)

// ElementError is the error of [Map], [Each], [Filter], [Reduce] and [Stream]: Index is the
// element for which the function failed, and Err what it returned, a *[PanicError] if it
// panicked, or [ErrGoexit]. For Reduce it is the first element behind b.
type ElementError struct {
	Index int
	Err   error
}

func (e *ElementError) Error() string { return fmt.Sprintf("element %d: %v", e.Index, e.Err) }

func (e *ElementError) Unwrap() error { return e.Err }

// Map calls f for every element, on all processors, and returns the results in the order
// of the elements. [Each], [Filter], [Reduce] and [Stream] are called
// in the same way, and what follows holds for all of them.
//
// Elements are divided into parts while they are computed, by the time they take, so that f
// may take nanoseconds or seconds. The elements of a part are computed one after another;
// f must not wait for the call of another element. With options every call of f is a task
// of its own that has them: [Within] a limit suits calls that wait for a disk or a network.
//
// The call returns when no f runs any more. The first error cancels the context that f is
// called with, and the result is nil with an *[ElementError]. No element after one that failed
// is begun, but those before it are: a function that does not look at its context makes the
// error that of the first element, in order, which fails, on any number of processors. With
// options tasks that have not begun are not run at all; of several errors that of the first
// element is returned. If ctx ends before all is done, the error is its cause.
//
// With a context of [WithProgress] its callback is told how many elements are done.
func Map[T, U any](ctx context.Context, xs []T, f func(context.Context, T) (U, error), options ...Option) ([]U, error) {
	need("Map", ctx, f != nil)
	if err := holds[U](len(xs)); err != nil {
		return nil, err
	}
	out := make([]U, len(xs))
	m := new(member).join(ctx)
	defer m.leave()
	m.add(len(xs))
	p := &pass{n: len(xs), pc: entry(f), member: m, do: func(ctx context.Context, i int, _ *place) (err error) {
		out[i], err = f(ctx, xs[i])
		return err
	}}
	if err := p.run(ctx, options); err != nil {
		return nil, err
	}
	return out, nil
}

// Each calls f for every element, as [Map] does, for functions without a result.
func Each[T any](ctx context.Context, xs []T, f func(context.Context, T) error, options ...Option) error {
	need("Each", ctx, f != nil)
	m := new(member).join(ctx)
	defer m.leave()
	m.add(len(xs))
	p := &pass{n: len(xs), pc: entry(f), member: m, do: func(ctx context.Context, i int, _ *place) error { return f(ctx, xs[i]) }}
	return p.run(ctx, options)
}

// Filter returns the elements for which keep is true, in their order. It calls keep as [Map]
// calls its function.
func Filter[T any](ctx context.Context, xs []T, keep func(context.Context, T) (bool, error), options ...Option) ([]T, error) {
	need("Filter", ctx, keep != nil)
	if err := holds[bool](len(xs)); err != nil {
		return nil, err
	}
	kept := make([]bool, len(xs))
	m := new(member).join(ctx)
	defer m.leave()
	m.add(len(xs))
	p := &pass{n: len(xs), pc: entry(keep), member: m, do: func(ctx context.Context, i int, _ *place) (err error) {
		kept[i], err = keep(ctx, xs[i])
		return err
	}}
	if err := p.run(ctx, options); err != nil {
		return nil, err
	}
	out := make([]T, 0, len(xs))
	for i, x := range xs {
		if kept[i] {
			out = append(out, x)
		}
	}
	return out, nil
}

// holds errs for more elements than there are addresses for, of which make would panic. A
// slice can have them if they have no size.
func holds[T any](n int) error {
	const most = 1 << 46
	if size := unsafe.Sizeof(*new(T)); size > 0 && n > most/int(size) {
		return fmt.Errorf("%w: %d elements of %d bytes", ErrOutOfMemory, n, size)
	}
	return nil
}

// fan is the number of values that a call of Reduce without options combines in sequence.
const fan = 8

// Reduce combines all elements into one by f, which must be associative: neighbours are
// combined first, then neighbouring results, so that xs of length 5 gives
// f(f(f(x0, x1), f(x2, x3)), x4). This tree depends on the length alone. A sum of floats has
// therefore the same bits on any number of processors, and rounds less than one after
// another. One element is returned as it is, and none is the zero T. Errors and options are
// those of [Map].
func Reduce[T any](ctx context.Context, xs []T, f func(ctx context.Context, a, b T) (T, error), options ...Option) (result T, err error) {
	need("Reduce", ctx, f != nil)
	most := fan
	if len(options) > 0 {
		most = 2 // every call of f is a task
	}
	m := new(member).join(ctx)
	defer m.leave()
	m.add(max(len(xs)-1, 0)) // calls of f
	level, width := xs, 1    // each value of a level stands for as many elements
	for len(level) > 1 {
		from, behind := level, width
		next := make([]T, (len(level)-1)/most+1)
		until := func(i, element int) (calls int) {
			lo := i * most
			n := min(most, len(from)-lo)
			for step := 1; step < n; step *= 2 {
				for k := 0; k+step < n; k += 2 * step {
					if calls++; (lo+k+step)*behind == element {
						return calls
					}
				}
			}
			return calls
		}
		p := &pass{n: len(next), pc: entry(f), member: m, until: until, do: func(ctx context.Context, i int, at *place) (err error) {
			lo := i * most
			var few [fan]T
			n := copy(few[:most], from[lo:])
			for step := 1; step < n; step *= 2 {
				for k := 0; k+step < n; k += 2 * step {
					at.element = (lo + k + step) * behind
					if few[k], err = f(ctx, few[k], few[k+step]); err != nil {
						at.calls += until(i, at.element)
						return err
					}
				}
			}
			next[i] = few[0]
			at.calls += n - 1
			return nil
		}}
		if err := p.run(ctx, options); err != nil {
			return result, err
		}
		level, width = next, width*most
	}
	if err := context.Cause(ctx); err != nil || len(level) == 0 {
		return result, err
	}
	return level[0], nil
}

// pass is one call of a function for each of n items, by tasks that have a part of them.
type pass struct {
	n  int
	pc uintptr // of the caller's function
	// do computes an item. It sets the element of the place, which is i before, where that which an
	// error is about is another, and counts its calls where until is set.
	do func(ctx context.Context, i int, at *place) error
	// until returns how many calls do makes for an item up to that which is about an element. It is nil
	// where there is one call for each item.
	until  func(i, element int) int
	member *member

	done atomic.Int64 // items computed
	// failed is the first item that failed, n while none has.
	failed atomic.Int64
	mu     sync.Mutex
	err    *ElementError                   // of that item
	own    bool                            // it was returned before its context ended
	parts  map[int]context.CancelCauseFunc // those that run, by their first item
}

// place says how far the computation of items is.
type place struct {
	element int // that an error is about
	calls   int // of the caller's function
}

// ran returns how many elements items computed so far stand for.
func (p *pass) ran(at *place, items int) int {
	if p.until != nil {
		return at.calls
	}
	return items
}

const (
	// partTime is the duration after which a part is divided: 200 times the cost of a task
	// (below 1 µs), and too short to be noticed where one part takes longer than the others.
	partTime = 200 * time.Microsecond
	// partsEach is the number of parts per processor at the beginning, so that few have to
	// be divided.
	partsEach = 4
	// maxStride is the largest number of items between two readings of the clock. A reading
	// takes about as long as a few of the shortest items.
	maxStride = 64
)

// run computes all items.
func (p *pass) run(ctx context.Context, options []Option) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.member.ended {
		return ErrScopeEnded
	}
	if len(options) > 0 {
		return p.apart(ctx, options)
	}
	p.failed.Store(int64(p.n))
	p.parts = make(map[int]context.CancelCauseFunc)
	g := tasks().NewGroup(ctx, true)
	parts := min(p.n, partsEach*runtime.GOMAXPROCS(0))
	for k := range parts {
		p.start(g.Context(), share(p.n, parts, k), share(p.n, parts, k+1))
	}
	err := g.Close(ctx)
	switch cause := context.Cause(ctx); {
	case p.err != nil && (p.own || !(cause != nil && (errors.Is(p.err, cause) || errors.Is(p.err, ctx.Err())))):
		return p.err
	case p.done.Load() == int64(p.n):
		return nil
	case cause != nil:
		return cause
	default: // the scope that ctx is of has ended
		return err
	}
}

// share returns where part k of n items begins. The product of both may be too large.
func share(n, parts, k int) int { return k*(n/parts) + min(k, n%parts) }

// start starts a task for items lo to hi.
func (p *pass) start(ctx context.Context, lo, hi int) {
	start(ctx, func(ctx context.Context) (none struct{}, _ error) {
		p.part(ctx, lo, hi)
		return none, nil
	}, p.pc, nil)
}

// part computes items lo to hi. What is left of them after some time is divided, and the
// second half is for another task.
func (p *pass) part(task context.Context, lo, hi int) {
	ctx := p.begin(task, lo)
	at, failed, returned := lo, false, false
	var here place
	told := 0 // elements that were counted for who watches
	tell := func(items int) {
		n := p.ran(&here, items)
		p.member.ran(n - told)
		told = n
	}
	defer func() {
		if v := recover(); v != nil {
			p.fail(here.element, at, fault.Recovered("", v), true)
		} else if !returned {
			p.fail(here.element, at, ErrGoexit, true)
		}
		if !returned && p.until != nil {
			here.calls += p.until(at, here.element)
		}
		p.done.Add(int64(at - lo))
		if failed || !returned {
			at++ // its function was called too
		}
		tell(at - lo)
		p.end(lo)
	}()
	began := time.Now()
	for stride := 1; at < hi; stride = min(2*stride, maxStride) {
		for end := min(at+stride, hi); at < end; at++ {
			if int64(at) >= p.failed.Load() {
				returned = true
				return
			}
			here.element = at
			if err := p.do(ctx, at, &here); err != nil && p.fail(here.element, at, err, ctx.Err() == nil) {
				failed, returned = true, true
				return
			}
		}
		if task.Err() != nil {
			break
		}
		now := time.Now()
		if now.Sub(began) <= partTime {
			continue
		}
		tell(at - lo)
		began = now
		if hi-at > 1 {
			mid := at + (hi-at+1)/2
			p.start(task, mid, hi)
			hi, stride = mid, 1
		}
	}
	returned = true
}

// begin notes a part that runs and returns the context of its calls, which the first error
// cancels. The context of its task goes on, and with it tasks for items before that.
func (p *pass) begin(task context.Context, lo int) context.Context {
	ctx, cancel := context.WithCancelCause(task)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[lo] = cancel
	if p.err != nil {
		cancel(p.err)
	}
	return ctx
}

func (p *pass) end(lo int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts[lo](nil)
	delete(p.parts, lo)
}

// fail notes the error of an item, unless it is an effect of another error, and reports
// whether it did. own says that the context of the call had not ended when it returned: it is
// an effect of nothing, whatever it is.
func (p *pass) fail(element, item int, err error, own bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil && (int64(item) >= p.failed.Load() || !own && effect(err, p.err)) {
		return false
	}
	p.failed.Store(int64(item))
	p.err, p.own = &ElementError{element, err}, own
	for _, cancel := range p.parts {
		cancel(p.err)
	}
	return true
}

// effect reports whether err is that of a call whose context another error had cancelled.
func effect(err, cause error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, ErrScopeEnded) || errors.Is(err, cause)
}

// lastCall is the result of the last call for an item.
type lastCall struct {
	err   error // what it returned, ErrGoexit if it did not return
	at    place
	cause error // why its context had ended when it returned; nil if it had not
}

// own reports whether the call failed by itself.
func (c *lastCall) own() bool { return c.err != nil && (c.cause == nil || !effect(c.err, c.cause)) }

// apart computes each item in a task that has the options.
func (p *pass) apart(ctx context.Context, options []Option) error {
	if err := holds[lastCall](p.n); err != nil {
		return err
	}
	g := tasks().NewGroup(ctx, false)
	calls, futures := make([]lastCall, p.n), make([]Future[struct{}], p.n)
	for i := range futures {
		futures[i] = start(g.Context(), func(ctx context.Context) (none struct{}, _ error) {
			c := &calls[i]
			c.err, c.at, c.cause = ErrGoexit, place{element: i}, nil
			if c.err = p.do(ctx, i, &c.at); c.err == nil {
				p.member.ran(p.ran(&c.at, 1))
			}
			c.cause = context.Cause(ctx)
			return none, c.err
		}, p.pc, options)
	}
	first := g.Close(ctx)
	if first == nil {
		return nil
	}
	for i := range calls {
		if calls[i].err != nil { // it is not tried again, and made one call
			p.member.ran(1)
		}
	}
	failed := slices.IndexFunc(calls, func(c lastCall) bool { return c.own() })
	if failed < 0 && ctx.Err() != nil && (errors.Is(first, ctx.Err()) || errors.Is(first, context.Cause(ctx))) {
		return context.Cause(ctx)
	}
	if failed < 0 { // none by itself
		failed = slices.IndexFunc(calls, func(c lastCall) bool { return c.err != nil })
	}
	if failed < 0 {
		return first // no element was begun
	}
	_, err := futures[failed].c.rec.Result() // with what a timeout or a panic adds
	if c := &calls[failed]; c.err != ErrGoexit && !errors.Is(err, c.err) {
		err = c.err // it was to be tried again
	}
	return &ElementError{calls[failed].at.element, err}
}
