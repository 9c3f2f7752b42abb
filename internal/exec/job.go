package exec

import (
	"context"
	"errors"
	"fmt"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// CallerMemory returns the caller's bytes that data of a graph is bound to.
type CallerMemory func(graph.DataID) []byte

// Job is one run of a graph. Its fields are the caller's to set before Start; a
// job whose Done was called may be changed and started again, which then
// allocates nothing here.
type Job struct {
	Graph   *graph.Graph
	Options engine.RunOptions
	Memory  CallerMemory
	// Check, when set, is asked on the loop's goroutine before the job begins;
	// an error ends it.
	Check func() error
	// Done is called exactly once for every Start: on the loop's goroutine, so
	// that it must not block, or by Start itself after Close.
	Done func(*engine.Report, error)
	// Free, when set, is called on the loop's goroutine once nothing uses the memory of a
	// job that passed Check: before Done, or after a Done that got ErrHeld.
	Free func()
	// For, when set, is the job in progress of which a task, Options.OfTask, waits for this
	// one on the patient device.
	For *Job

	id    engine.RunID // 0 unless it runs; the loop's
	begin func(*loop)
	feed  *Feed // of the next run; see Follow
	probe bool  // see probe
	alone bool  // no other ran when it began
	nth   int64 // its number among the jobs submitted
}

// Start hands a job over.
func (x *Executor) Start(j *Job) {
	if j.begin == nil {
		j.begin = j.submit
	}
	if !x.do(j.begin) {
		j.feed = nil
		j.Done(nil, ErrClosed)
	}
}

// submit gives the job to the engine.
func (j *Job) submit(l *loop) {
	l.counts.Submitted++
	feed := j.feed
	j.feed = nil
	if l.closing {
		l.counts.Failed++
		j.Done(nil, ErrClosed)
		return
	}
	if j.Check != nil {
		if err := j.Check(); err != nil {
			l.counts.Failed++
			j.Done(nil, err)
			return
		}
	}
	o := j.Options
	if j.For != nil {
		o.Of = j.For.id // 0 if it is not waited for
	}
	// Among others a run goes wherever there is room: what it was cut for may be busy.
	j.alone, j.nth = len(l.runs) == l.probing, l.counts.Submitted
	if e, ok := l.expected[j.Graph]; ok && len(o.Rather) == 0 && j.alone {
		o.Rather = e.Rather
	}
	j.id = l.engine.Submit(l.now(), j.Graph, o)
	l.runs[j.id] = j
	if feed != nil {
		feed.run = j.id
		l.feed(feed)
	}
}

// Cancel ends a job early; its Done is still called. A job that is cancelled
// must not be started again, since it may have ended before the loop reads the request.
func (x *Executor) Cancel(j *Job) {
	x.do(func(l *loop) {
		if j.id != 0 {
			l.cancel(j, x.cancelWait)
		}
	})
}

// End has the report of a run that has ended, and its error.
type End struct {
	Report *engine.Report
	Err    error
}

// Wait waits for a started job whose Done sends to end. When ctx is cancelled, no more
// tasks are launched, and Wait waits for those in flight, for Config.CancelWait at most;
// devices that can end tasks early do.
func (x *Executor) Wait(ctx context.Context, j *Job, end <-chan End) (e End, cancelled bool) {
	// One caller at a time stays awake for a while: to be woken takes about as long
	// as a small run.
	if x.spins > 0 && x.awake.CompareAndSwap(false, true) {
		for range x.spins {
			select {
			case e = <-end:
				x.awake.Store(false)
				return e, false
			default:
			}
		}
		x.awake.Store(false)
	}
	select {
	case e = <-end:
		return e, false
	case <-ctx.Done():
		x.Cancel(j)
		e = <-end
		if errors.Is(e.Err, engine.ErrCancelled) {
			e.Err = fmt.Errorf("%w: %w", context.Cause(ctx), e.Err)
		}
		return e, true
	}
}

// Run runs a graph and waits.
func (x *Executor) Run(ctx context.Context, g *graph.Graph, o engine.RunOptions, mem CallerMemory) (*engine.Report, error) {
	end := make(chan End, 1)
	j := &Job{Graph: g, Options: o, Memory: mem, Done: func(r *engine.Report, err error) { end <- End{r, err} }}
	x.Start(j)
	e, _ := x.Wait(ctx, j, end)
	return e.Report, e.Err
}
