package task_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/task"
)

// watch records the calls of a progress callback, and counts elements itself to compare.
type watch struct {
	tasks, done atomic.Int64
	mu          sync.Mutex
	told        []task.Progress
	over        bool
	late        int
}

func (w *watch) context(ctx context.Context) context.Context {
	return task.WithProgress(ctx, func(p task.Progress) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.told = append(w.told, p); w.over {
			w.late++
		}
	})
}

// check errs if what was told went back, was more than there is, or ended at something else than was run.
func (w *watch) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if len(w.told) == 0 {
		return errors.New("nothing was told")
	}
	var before task.Progress
	for _, p := range w.told {
		if p.Tasks < before.Tasks || p.Done < before.Done || p.Elapsed < before.Elapsed || p.Running < 0 || p.Done+p.Running > p.Tasks || p.Part < 0 || p.Part > 1 {
			return fmt.Errorf("%+v after %+v", p, before)
		}
		before = p
	}
	if tasks, done := w.tasks.Load(), w.done.Load(); int64(before.Tasks) != tasks || int64(before.Done) != done || before.Running != 0 {
		return fmt.Errorf("%d of %d were done; %+v was told last", done, tasks, before)
	}
	return nil
}

// The kinds of deeds.
const (
	aMap = iota
	anEach
	aFilter
	aReduce
	aStream
	aScope
	kinds
)

// deed is a call of Scope, Map and the like, with others in it.
type deed struct {
	kind         int
	n            int // elements
	fail, cancel int // elements that do so, -1 for none
	how          int // it fails
	break_       int // after how many results the loop over a Stream ends, -1 for none
	options      int
	own, keep    bool
	within       []*deed // by the body of a scope, or by the elements of others in turn
	ways         []int   // of these in a scope: by the body, by a task, by a goroutine
}

func drawDeed(r *rand.Rand, depth int) *deed {
	one := func(n int) bool { return r.IntN(n) == 0 }
	d := &deed{kind: r.IntN(kinds), n: r.IntN(40), fail: -1, cancel: -1, break_: -1, how: r.IntN(3), options: r.IntN(8), own: one(6), keep: one(2)}
	if one(6) {
		d.n = r.IntN(3000)
	}
	if d.n > 0 && one(4) {
		d.fail = r.IntN(d.n)
	}
	if d.n > 0 && one(8) {
		d.cancel = r.IntN(d.n)
	}
	if one(8) {
		d.break_ = r.IntN(d.n + 1)
	}
	if depth > 0 && (d.kind == aScope || one(2)) {
		for range r.IntN(4) {
			d.within = append(d.within, drawDeed(r, depth-1))
			d.ways = append(d.ways, r.IntN(3))
		}
	}
	return d
}

// drawn returns the options of a call.
func (d *deed) drawn() []task.Option {
	switch {
	case d.n > 200:
		return nil // a task each takes long
	case d.options == 1:
		return []task.Option{task.Within(task.NewLimit(2))}
	case d.options == 2:
		return []task.Option{task.Priority(1)}
	case d.options == 3 && d.kind != aReduce: // whose calls have no element to be told apart by
		return []task.Option{task.Retry(2, time.Microsecond)}
	default:
		return nil
	}
}

// do performs the deed. w records its progress, nil if nobody watches; wrong is called with each mistake.
func (d *deed) do(ctx context.Context, w *watch, wrong func(error)) error {
	if d.own {
		w = new(watch)
		ctx = w.context(ctx)
		defer func() {
			if err := w.check(); err != nil {
				wrong(err)
			}
		}()
	}
	if w == nil {
		w = new(watch) // nobody looks at it
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if d.kind == aScope {
		return d.scope(ctx, w, wrong)
	}
	var calls atomic.Int64
	met := make([]atomic.Bool, d.n)
	element := func(ctx context.Context, x int) error {
		if d.kind == aReduce || !met[x].Swap(true) {
			w.done.Add(1)
		}
		k := int(calls.Add(1)) - 1
		if k < len(d.within) { // an element is done with all that it does
			d.within[k].do(ctx, nil, wrong)
		}
		if x == d.cancel {
			cancel()
		}
		switch {
		case x != d.fail:
			return nil
		case d.how == 1:
			panic("an element")
		case d.how == 2:
			runtime.Goexit()
		}
		return io.EOF
	}
	xs, o := indices(d.n), d.drawn()
	switch d.kind {
	case aMap:
		w.tasks.Add(int64(d.n))
		_, err := task.Map(ctx, xs, func(ctx context.Context, x int) (int, error) { return x, element(ctx, x) }, o...)
		return err
	case anEach:
		w.tasks.Add(int64(d.n))
		return task.Each(ctx, xs, element, o...)
	case aFilter:
		w.tasks.Add(int64(d.n))
		_, err := task.Filter(ctx, xs, func(ctx context.Context, x int) (bool, error) { return x%2 == 0, element(ctx, x) }, o...)
		return err
	case aReduce:
		w.tasks.Add(int64(max(d.n-1, 0)))
		_, err := task.Reduce(ctx, xs, func(ctx context.Context, a, b int) (int, error) { return max(a, b), element(ctx, max(a, b)) }, o...)
		return err
	}
	seq := func(yield func(int) bool) {
		for _, x := range xs {
			w.tasks.Add(1)
			if !yield(x) {
				return
			}
		}
	}
	results := 0
	for _, err := range task.Stream(ctx, seq, func(ctx context.Context, x int) (int, error) { return x, element(ctx, x) }, o...) {
		if results++; err != nil || results == d.break_ {
			return err
		}
	}
	return nil
}

// scope does what is within it.
func (d *deed) scope(ctx context.Context, w *watch, wrong func(error)) error {
	var o []task.ScopeOption
	if d.keep {
		o = []task.ScopeOption{task.KeepGoing()}
	}
	return task.Scope(ctx, func(ctx context.Context) error {
		var wg sync.WaitGroup
		defer wg.Wait()
		for i, in := range d.within {
			switch d.ways[i] {
			case 0:
				if err := in.do(ctx, w, wrong); err != nil && d.how == 0 {
					return err
				}
			case 1:
				w.tasks.Add(1)
				w.done.Add(1) // by the end of the scope
				task.Do(ctx, func(ctx context.Context) error { return in.do(ctx, w, wrong) })
			case 2:
				wg.Go(func() { in.do(ctx, w, wrong) })
			}
		}
		return nil
	}, o...)
}

// Whatever is drawn: what callbacks are told never goes back, is never more than there is, and ends at
// what was run: elements whose function was called, and tasks of scopes.
func TestProgressDrawn(t *testing.T) {
	for seed := range uint64(400) {
		d := drawDeed(rand.New(rand.NewPCG(seed, 35)), 3)
		d.own = true
		var mu sync.Mutex
		d.do(t.Context(), nil, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			t.Errorf("seed %d: %v", seed, err)
		})
	}
}

// Every call tells what is done while others of its elements still run.
func TestProgressMeanwhile(t *testing.T) {
	n := 40 * runtime.GOMAXPROCS(0)
	slow := func(told <-chan struct{}) func(ctx context.Context, x int) error {
		var calls atomic.Int64
		return func(ctx context.Context, x int) error {
			first := calls.Add(1) == 1
			time.Sleep(time.Millisecond) // longer than a part computes before it is counted
			if first {
				return nil
			}
			select {
			case <-told:
				return nil
			case <-time.After(time.Minute):
				return errors.New("nothing was told for a minute")
			}
		}
	}
	for name, call := range map[string]func(ctx context.Context, f func(ctx context.Context, x int) error) error{
		"Map": func(ctx context.Context, f func(ctx context.Context, x int) error) error {
			_, err := task.Map(ctx, indices(n), func(ctx context.Context, x int) (int, error) { return x, f(ctx, x) })
			return err
		},
		"Each": func(ctx context.Context, f func(ctx context.Context, x int) error) error {
			return task.Each(ctx, indices(n), f)
		},
		"Each, options": func(ctx context.Context, f func(ctx context.Context, x int) error) error {
			return task.Each(ctx, indices(n), f, task.Priority(1))
		},
		"Filter": func(ctx context.Context, f func(ctx context.Context, x int) error) error {
			_, err := task.Filter(ctx, indices(n), func(ctx context.Context, x int) (bool, error) { return true, f(ctx, x) })
			return err
		},
		"Stream": func(ctx context.Context, f func(ctx context.Context, x int) error) error {
			for _, err := range task.Stream(ctx, slices.Values(indices(n)), func(ctx context.Context, x int) (int, error) { return x, f(ctx, x) }) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Map in a task of a scope": func(ctx context.Context, f func(ctx context.Context, x int) error) error {
			return task.Scope(ctx, func(ctx context.Context) error {
				task.Do(ctx, func(ctx context.Context) error { return task.Each(ctx, indices(n), f) })
				return nil
			})
		},
	} {
		told := make(chan struct{})
		var once sync.Once
		ctx := task.WithProgress(t.Context(), func(p task.Progress) {
			if p.Done > 0 {
				once.Do(func() { close(told) })
			}
		})
		if err := call(ctx, slow(told)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A scope waits for the calls made with its context, wherever they are made, and cancels them with its
// first error; after its end none begins.
func TestScopeHoldsCalls(t *testing.T) {
	odd := errors.New("odd")
	calls := map[string]func(ctx context.Context, f func(ctx context.Context) error) error{
		"Each": func(ctx context.Context, f func(ctx context.Context) error) error {
			return task.Each(ctx, indices(3), func(ctx context.Context, _ int) error { return f(ctx) })
		},
		"Each, options": func(ctx context.Context, f func(ctx context.Context) error) error {
			return task.Each(ctx, indices(3), func(ctx context.Context, _ int) error { return f(ctx) }, task.Priority(1))
		},
		"Reduce": func(ctx context.Context, f func(ctx context.Context) error) error {
			_, err := task.Reduce(ctx, indices(4), func(ctx context.Context, a, _ int) (int, error) { return a, f(ctx) })
			return err
		},
		"Stream": func(ctx context.Context, f func(ctx context.Context) error) error {
			for _, err := range task.Stream(ctx, slices.Values(indices(3)), func(ctx context.Context, _ int) (int, error) { return 0, f(ctx) }) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"Scope": func(ctx context.Context, f func(ctx context.Context) error) error {
			return task.Scope(ctx, func(ctx context.Context) error {
				for range 3 {
					task.Do(ctx, f)
				}
				return nil
			})
		},
	}
	for name, call := range calls {
		var begun, ended atomic.Int64
		some := make(chan struct{})
		var leaked context.Context
		task.Scope(t.Context(), func(ctx context.Context) error {
			leaked = ctx
			go call(ctx, func(ctx context.Context) error {
				if begun.Add(1) == 1 {
					close(some)
				}
				time.Sleep(5 * time.Millisecond) // a Scope that does not wait would return meanwhile
				ended.Add(1)
				return nil
			})
			<-some
			return nil
		})
		if ended.Load() != 3 {
			t.Errorf("%s: the scope returned after %d of 3", name, ended.Load())
		}
		err := call(leaked, func(context.Context) error { t.Errorf("%s: begun after the end of the scope", name); return nil })
		if !errors.Is(err, task.ErrScopeEnded) {
			t.Errorf("%s: after the end of the scope: %v", name, err)
		}

		// A task beside it fails.
		within, err := make(chan error, 1), error(nil)
		err = task.Scope(t.Context(), func(ctx context.Context) error {
			began, once := make(chan struct{}), sync.Once{}
			go func() {
				within <- call(ctx, func(ctx context.Context) error {
					once.Do(func() { close(began) })
					<-ctx.Done()
					return context.Cause(ctx)
				})
			}()
			<-began
			task.Do(ctx, func(context.Context) error { return odd })
			return nil
		})
		if err != odd {
			t.Errorf("%s: the scope returned %v", name, err)
		}
		select {
		case err := <-within:
			if !errors.Is(err, odd) {
				t.Errorf("%s: after the error of another it returned %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it did not end with the scope", name)
		}
	}
}

// A scope tells how many of its tasks have ended, and of the elements of calls that they make.
func TestScopeProgress(t *testing.T) {
	var all []task.Progress
	hold := make(chan struct{})
	told := make(chan struct{}, 1)
	ctx := task.WithProgress(t.Context(), func(p task.Progress) {
		if all = append(all, p); p.Done == 18 && p.Tasks == 19 {
			told <- struct{}{}
		}
	})
	err := task.Scope(ctx, func(ctx context.Context) error {
		for range 3 {
			task.Do(ctx, func(ctx context.Context) error {
				_, err := task.Map(ctx, []int{1, 2, 3, 4, 5}, func(context.Context, int) (int, error) { return 0, nil })
				return err
			})
		}
		task.Do(ctx, func(context.Context) error { <-hold; return nil })
		<-told // that the others have ended
		close(hold)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if last := all[len(all)-1]; last.Done != 19 || last.Tasks != 19 || last.Part != 1 || last.Left != 0 {
		t.Errorf("at the end %+v", last)
	}
	for _, p := range all {
		if p.Tasks > 19 || p.Done > p.Tasks {
			t.Errorf("%+v", p)
		}
	}
}
