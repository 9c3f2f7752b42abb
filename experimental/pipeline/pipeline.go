package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/internal/text"
)

// ErrStages is wrapped by every error about how a pipeline is put together.
var ErrStages = errors.New("bad pipeline")

// MaxWorkers is the largest number of workers of a stage.
const MaxWorkers = 256

// Stage is one step of a stream.
type Stage[T any] struct {
	Name string
	// Do processes an item in place. An error is the item's own: the item
	// skips the stages after and the stream goes on. So does a panic, as an
	// *weft.PanicError. It must return when ctx ends.
	Do func(ctx context.Context, item *T) error
	// Workers is the number of items the stage works on at a time; 0 means one.
	Workers int
	// Queue is the number of further items that may wait for it; 0 means as many as
	// Workers.
	Queue int
	// Ordered makes the stage take items in the order of the source, one at a time.
	// Items that arrive early wait outside its queue.
	Ordered bool

	use *use // of devices, where there are any
}

// Options say how a pipeline runs.
type Options struct {
	// Ordered hands items over in the order of the source. Otherwise they come
	// as they are done.
	Ordered bool
	// InFlight limits the items between source and hand-over, those that wait
	// for their turn included; 0 means twice as many as workers and queues
	// hold, so that an item that is late does not stop the stages at once.
	InFlight int
	// Spans is the number of spans of work that a Report keeps for a trace; 0 keeps
	// none.
	Spans int
}

// Item is the result of one item of the source.
type Item[T any] struct {
	Index int // in the source
	Value T
	Err   error // an *ItemError if a stage failed, else nil
}

// ItemError says at which stage an item failed; it unwraps to the cause.
type ItemError struct {
	Index int
	Stage string
	Err   error // a *weft.PanicError if it panicked
}

func (e *ItemError) Error() string {
	return fmt.Sprintf("item %d, stage %s: %v", e.Index, e.Stage, e.Err)
}

func (e *ItemError) Unwrap() error { return e.Err }

// Pipeline is a list of stages. It can be run any number of times, one after
// another.
type Pipeline[T any] struct {
	stages []Stage[T]
	o      Options
}

// New puts stages together.
func New[T any](o Options, stages ...Stage[T]) (*Pipeline[T], error) {
	if len(stages) == 0 {
		return nil, fmt.Errorf("%w: there are no stages", ErrStages)
	}
	if o.InFlight < 0 || o.Spans < 0 {
		return nil, fmt.Errorf("%w: %d items in flight, %d spans: use 0 or more", ErrStages, o.InFlight, o.Spans)
	}
	p := &Pipeline[T]{stages: append([]Stage[T](nil), stages...), o: o}
	room := 0
	for i := range p.stages {
		s := &p.stages[i]
		if s.Name == "" {
			s.Name = fmt.Sprintf("stage %d", i+1)
		}
		switch {
		case s.Do == nil:
			return nil, fmt.Errorf("%w: %s does nothing: give it a function", ErrStages, s.Name)
		case s.Workers < 0 || s.Workers > MaxWorkers || s.Queue < 0:
			return nil, fmt.Errorf("%w: %s has %s and a queue of %d: use 0 to %d and 0 or more", ErrStages, s.Name, text.Count(s.Workers, "worker"), s.Queue, MaxWorkers)
		case s.Ordered && s.Workers > 1:
			return nil, fmt.Errorf("%w: %s has %d workers and is ordered: one after another is the work of one", ErrStages, s.Name, s.Workers)
		}
		s.Workers = max(s.Workers, 1)
		if s.Queue == 0 {
			s.Queue = s.Workers
		}
		room += s.Workers + s.Queue
	}
	if p.o.InFlight == 0 {
		p.o.InFlight = 2 * room
	}
	return p, nil
}

// pipelineRun is a run in progress.
type pipelineRun[T any] struct {
	*Pipeline[T]
	begin  time.Time
	queues []chan *Item[T] // before each stage, and before the hand-over
	tokens chan struct{}   // one for each item in flight

	mu    sync.Mutex // guards taken
	taken Report
}

// Run takes items from the source through all stages and hands each over to
// done, failed ones too, from one goroutine at a time. The source is asked for
// the next item only when there is room for it, and is asked no more once ctx
// has ended; it must not wait for longer than ctx lasts.
//
// When ctx ends, or done returns an error, items on their way are dropped, the
// stages come to rest, and Run returns that error with the report. So does it
// when the source panics, with a *weft.PanicError, and when the source or a stage ends
// its goroutine, with fault.ErrGoexit. A panic of done goes on after the stages have come
// to rest. Items that fail are no error of Run.
func (p *Pipeline[T]) Run(ctx context.Context, source iter.Seq[T], done func(Item[T]) error) (*Report, error) {
	if source == nil || done == nil {
		return nil, fmt.Errorf("%w: Run needs a source of items and a function to hand them over to", ErrStages)
	}
	ctx, stop := context.WithCancelCause(ctx)
	f := &pipelineRun[T]{Pipeline: p, begin: time.Now(), tokens: make(chan struct{}, p.o.InFlight)}
	var uses []*use
	for i := range p.stages {
		s := &p.stages[i]
		f.queues = append(f.queues, make(chan *Item[T], s.Queue))
		f.taken.Stages = append(f.taken.Stages, StageReport{Name: s.Name, Workers: s.Workers})
		if s.use != nil {
			s.use.begin()
		}
		uses = append(uses, s.use)
	}
	f.queues = append(f.queues, make(chan *Item[T], 1))
	go f.feed(ctx, source, stop)
	for i := range p.stages {
		f.start(ctx, i, stop)
	}
	defer func() { // done may have panicked while workers hold items
		stop(nil)
		for range f.queues[len(p.stages)] {
		}
	}()
	f.handOver(ctx, done, stop)
	rep := f.taken.finish(time.Since(f.begin), uses)
	if ctx.Err() != nil {
		return rep, fmt.Errorf("pipeline: stopped after %s: %w", text.Count(rep.Items, "item"), context.Cause(ctx))
	}
	return rep, nil
}

// feed puts the source's items into the first queue.
func (f *pipelineRun[T]) feed(ctx context.Context, source iter.Seq[T], stop context.CancelCauseFunc) {
	defer close(f.queues[0])
	returned := false
	defer func() {
		if p := recover(); p != nil {
			stop(fault.Recovered("source", p))
		} else if !returned {
			stop(fmt.Errorf("source: %w", fault.ErrGoexit))
		}
	}()
	f.pull(ctx, source)
	returned = true
}

// pull takes items from the source until it or the context has ended.
func (f *pipelineRun[T]) pull(ctx context.Context, source iter.Seq[T]) {
	index := 0
	for v := range source {
		select {
		case f.tokens <- struct{}{}:
		case <-ctx.Done():
			return
		}
		f.queues[0] <- &Item[T]{Index: index, Value: v}
		index++
		if ctx.Err() != nil {
			return
		}
	}
}

// start starts a stage's workers. When the queue before it has been closed and
// they are done, the one after it is closed. A worker whose goroutine the stage ended
// stops the run, and another takes its place: it empties the queue.
func (f *pipelineRun[T]) start(ctx context.Context, stage int, stop context.CancelCauseFunc) {
	var workers sync.WaitGroup
	var work func(worker int)
	work = func(worker int) {
		returned := false
		defer func() {
			if !returned {
				stop(fmt.Errorf("stage %s: %w", f.stages[stage].Name, fault.ErrGoexit))
				workers.Go(func() { work(worker) })
			}
		}()
		f.work(ctx, stage, worker)
		returned = true
	}
	for w := range f.stages[stage].Workers {
		workers.Go(func() { work(w) })
	}
	go func() {
		workers.Wait()
		close(f.queues[stage+1])
	}()
}

// work is one worker of a stage. Items that failed pass through, so that those
// who wait for their turn learn of them.
func (f *pipelineRun[T]) work(ctx context.Context, stage, worker int) {
	s, out := &f.stages[stage], f.queues[stage+1]
	take := StageReport{}
	free := time.Now() // when it had nothing to do
	do := func(it *Item[T]) {
		began := time.Now()
		take.Starved += began.Sub(free)
		ended := began
		if it.Err == nil && ctx.Err() == nil {
			it.Err = attempt(ctx, s, it)
			ended = time.Now()
			take.Items++
			take.Busy += ended.Sub(began)
			if it.Err != nil {
				take.Failed++
			}
			f.span(Span{Stage: stage, Worker: worker, Item: it.Index, Start: began.Sub(f.begin), End: ended.Sub(f.begin)})
		}
		out <- it
		free = time.Now()
		take.Blocked += free.Sub(ended)
	}
	if s.Ordered {
		inOrder(f.queues[stage], do)
	} else {
		for it := range f.queues[stage] {
			do(it)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken.Stages[stage].add(&take)
}

// inOrder calls do for the items of a queue in the order of their indices, of
// which none is missing but the last.
func inOrder[T any](queue <-chan *Item[T], do func(*Item[T])) {
	next, early := 0, make(map[int]*Item[T])
	for it := range queue {
		early[it.Index] = it
		for it := early[next]; it != nil; it = early[next] {
			delete(early, next)
			next++
			do(it)
		}
	}
}

// attempt does a stage's work on an item.
func attempt[T any](ctx context.Context, s *Stage[T], it *Item[T]) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.Recovered("", p)
		}
		if err != nil {
			err = &ItemError{Index: it.Index, Stage: s.Name, Err: err}
		}
	}()
	return s.Do(ctx, &it.Value)
}

// span keeps a span of work and what it says about the whole.
func (f *pipelineRun[T]) span(s Span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken.seen(s)
	if len(f.taken.Spans) < f.o.Spans {
		f.taken.Spans = append(f.taken.Spans, s)
	}
}

// handOver gives items to the caller until the last queue is closed.
func (f *pipelineRun[T]) handOver(ctx context.Context, done func(Item[T]) error, stop context.CancelCauseFunc) {
	give := func(it *Item[T]) {
		if ctx.Err() == nil {
			f.count(it.Err != nil)
			if err := done(*it); err != nil {
				stop(err)
			}
		}
		<-f.tokens
	}
	last := f.queues[len(f.stages)]
	if f.o.Ordered {
		inOrder(last, give)
		return
	}
	for it := range last {
		give(it)
	}
}

// count counts an item handed over.
func (f *pipelineRun[T]) count(failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken.Items++
	if failed {
		f.taken.Failed++
	}
}
