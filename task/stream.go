package task

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"sync/atomic"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/task/internal/pool"
)

// Stream calls f for every element of a sequence, on all processors, and yields the results
// in the order of the elements, as soon as they are there:
//
//	for result, err := range task.Stream(ctx, lines, parse) {
//
// Every call of f is a task, with the options if there are any. Functions that take less than
// a microsecond should have a slice of elements each. Memory is bounded: the sequence is
// asked for the next element only while less than twice as many are on their way, results
// that wait for the loop included, as there are processors, or as its [Limit] admits if
// that is more.
//
// The results before the first element that fails are yielded, then its error, an
// *[ElementError], and nothing more. If the sequence panics, the last error is a
// *[PanicError], and the cause of ctx if that ends. When the loop ends, by itself or by break,
// the tasks under way are cancelled, and the statement after it runs when they and the
// sequence have ended. The sequence runs on a goroutine of its own; one that waits, as for a
// channel, must not wait for longer than the loop goes on.
//
// With a context of [WithProgress] its callback is told how many elements are done of those that the
// sequence has given so far; how many will come is not known.
func Stream[T, U any](ctx context.Context, xs iter.Seq[T], f func(context.Context, T) (U, error), options ...Option) iter.Seq2[U, error] {
	need("Stream", ctx, f != nil)
	if xs == nil {
		panic(errors.New("task: Stream: the sequence is nil"))
	}
	most := runtime.GOMAXPROCS(0)
	if l := requested(options).spec.Limit; l != nil {
		most = max(most, l.Most())
	}
	most *= 2
	return func(yield func(U, error) bool) {
		m := new(member).join(ctx)
		defer m.leave()
		s := &stream[U]{
			group:  m.newGroup(ctx, true),
			member: m,
			queue:  make(chan Future[U], most),
			room:   make(chan struct{}, most),
		}
		defer s.end(ctx)
		pc := entry(f)
		go feed(s, xs, func(x T) Future[U] {
			call := func(ctx context.Context) (U, error) {
				value, err := f(ctx, x)
				if err != nil && ctx.Err() == nil {
					err = &ownError{err}
				}
				return value, err
			}
			if m.account != nil {
				call = s.counted(call)
			}
			return start(s.group.Context(), call, pc, options)
		})
		s.results(ctx, yield)
	}
}

// ownError is what the function of a stream returned while its context had not ended: it is
// not an effect of that end, even if it is [context.Canceled].
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }

func (e *ownError) Unwrap() error { return e.err }

// stream is a loop over a Stream in progress.
type stream[U any] struct {
	group  *pool.Group
	member *member
	begun  atomic.Int64   // elements that f was called for
	queue  chan Future[U] // in the order of the elements; closed by the feeder at its end
	room   chan struct{}  // has one for each element on its way
	err    error          // why there are no more elements; set before queue is closed
}

// counted counts an element for who watches: when its call succeeds, or else at the end of the stream,
// since it may be tried again.
func (s *stream[U]) counted(call func(context.Context) (U, error)) func(context.Context) (U, error) {
	again := false
	return func(ctx context.Context) (U, error) {
		if !again {
			again = true
			s.begun.Add(1)
		}
		value, err := call(ctx)
		if err == nil {
			s.member.ran(1)
		}
		return value, err
	}
}

// feed starts a task for every element while there is room.
func feed[T, U any](s *stream[U], xs iter.Seq[T], begin func(T) Future[U]) {
	defer close(s.queue)
	returned := false
	defer func() {
		if p := recover(); p != nil {
			s.err = fault.Recovered("sequence", p)
		} else if !returned {
			s.err = fmt.Errorf("sequence: %w", ErrGoexit)
		}
	}()
	done := s.group.Context().Done()
	s.room <- struct{}{}
	for x := range xs {
		s.member.add(1)
		select {
		case <-done:
			returned = true
			return
		default:
		}
		s.queue <- begin(x) // there is room
		select {
		case s.room <- struct{}{}:
		case <-done:
			returned = true
			return
		}
	}
	returned = true
}

// results yields the results, and then the error if there is one.
func (s *stream[U]) results(ctx context.Context, yield func(U, error) bool) {
	var none U
	for i := 0; ; i++ {
		var f Future[U]
		var more bool
		select {
		case f, more = <-s.queue:
		default:
			s.group.Await(ctx, func() { f, more = <-s.queue })
		}
		if !more {
			break
		}
		value, err := f.Wait(ctx)
		own := (*ownError)(nil)
		switch {
		case errors.As(err, &own):
			if err == error(own) { // nothing was added
				err = own.err
			}
			yield(none, &ElementError{i, err})
			return
		case err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
			yield(none, context.Cause(ctx))
			return
		case err != nil:
			yield(none, &ElementError{i, err})
			return
		case !yield(value, nil):
			return
		}
		<-s.room
	}
	if s.err == nil {
		s.err = context.Cause(ctx)
	}
	if s.err != nil {
		yield(none, s.err)
	}
}

// errLoopEnded is the cause with which tasks of a stream end whose loop has.
var errLoopEnded = errors.New("the loop over the stream has ended")

// end cancels what is under way and waits for it.
func (s *stream[U]) end(ctx context.Context) {
	s.group.Cancel(errLoopEnded)
	s.group.Await(ctx, func() {
		for range s.queue {
		}
	})
	s.group.Close(ctx)
	s.member.ran(int(s.begun.Load() - s.member.done.Load())) // those that failed
}
