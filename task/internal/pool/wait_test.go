package pool

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/task/internal/gate"
)

// TestForkJoin starts a task at every node of a recursion, and looks how many goroutines
// that takes.
func TestForkJoin(t *testing.T) {
	for _, slots := range []int{1, 2, 7} {
		p := New(slots)
		before, most := runtime.NumGoroutine(), 0
		var got int
		j := p.start(bg, func(ctx context.Context) error { return fib(ctx, p, 21, &got) })
		for done := false; !done; {
			select {
			case <-j.Ended():
				done = true
			default:
				most = max(most, runtime.NumGoroutine()-before)
				time.Sleep(100 * time.Microsecond)
			}
		}
		if err := wait(t, j); err != nil || got != 10946 {
			t.Errorf("fib(21) is %d, %v", got, err)
		}
		if most > 500 {
			t.Errorf("%d slots took %d goroutines for a recursion of 21", slots, most)
		}
		idle(t, p)
	}
}

// TestDeep has tasks that each start one and wait for it, a hundred thousand deep: on one
// stack that would be too many.
func TestDeep(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(16 << 20)) // past that the program ends
	p := New(2)
	const deep = 100_000
	var level func(ctx context.Context, n int) error
	most := 0
	level = func(ctx context.Context, n int) error {
		if n == 0 {
			most = runtime.NumGoroutine()
			return nil
		}
		return p.start(ctx, func(ctx context.Context) error { return level(ctx, n-1) }).Wait(ctx)
	}
	if err := wait(t, p.start(bg, func(ctx context.Context) error { return level(ctx, deep) })); err != nil {
		t.Fatal(err)
	}
	if most > deep/20 {
		t.Errorf("%d goroutines", most)
	}
	idle(t, p)
}

// TestWork: a task is seen in every deque.
func TestWork(t *testing.T) {
	p := New(2)
	deques := []*deque{&p.outside}
	for i := range p.slots {
		deques = append(deques, &p.slots[i].own, &p.slots[i].inbox)
	}
	for i, d := range deques {
		if p.work() {
			t.Errorf("work where there is none")
		}
		if d.push(new(Task)); !p.work() {
			t.Errorf("a task in deque %d is not seen", i)
		}
		d.pop()
	}
}

// TestSlotOfWaiting: a task that waits leaves its slot to those that are queued.
func TestSlotOfWaiting(t *testing.T) {
	p := unguarded(1)
	err := wait(t, p.start(bg, func(ctx context.Context) error {
		ch := make(chan struct{})
		p.start(ctx, func(context.Context) error { close(ch); return nil })
		return p.start(ctx, func(context.Context) error { <-ch; return nil }, Spec{Limit: gate.NewLimit(1)}).Wait(ctx)
	}))
	if err != nil {
		t.Error(err)
	}
	idle(t, p)
}

// TestWaitWithinLimit: tasks within a limit of one wait for tasks within it, with their context
// or one that is derived from it.
func TestWaitWithinLimit(t *testing.T) {
	for name, with := range map[string]func(p *Pool, own context.Context) context.Context{
		"own":       func(p *Pool, own context.Context) context.Context { return own },
		"a value":   func(p *Pool, own context.Context) context.Context { return context.WithValue(own, t, t) },
		"a group's": func(p *Pool, own context.Context) context.Context { return p.NewGroup(own, true).Context() },
	} {
		p := New(1)
		l := Spec{Limit: gate.NewLimit(1)}
		var inside atomic.Int32
		var level func(own context.Context, n int) error
		level = func(own context.Context, n int) error {
			if inside.Add(1) != 1 {
				return errors.New("two tasks are within the limit of one")
			}
			defer inside.Add(-1)
			if n == 0 {
				return nil
			}
			a := p.start(own, func(ctx context.Context) error { return level(ctx, n-1) }, l)
			b := p.start(own, func(ctx context.Context) error { return level(ctx, 0) }, l)
			inside.Add(-1)
			ctx := with(p, own)
			err := errors.Join(a.Wait(ctx), b.Wait(ctx))
			if inside.Add(1) != 1 {
				err = errors.Join(err, errors.New("a task came back into a limit of one that had no room"))
			}
			return err
		}
		err := wait(t, p.start(bg, func(ctx context.Context) error {
			return p.start(ctx, func(own context.Context) error { return level(own, 20) }, l).Wait(ctx)
		}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		idle(t, p)
	}
}

// TestPassedContext: who waits with the context of a task within a limit waits as that task,
// which gives its place up. Who waits with that of no task gives up nothing.
func TestPassedContext(t *testing.T) {
	for _, passed := range []bool{true, false} {
		p := unguarded(2)
		l := Spec{Limit: gate.NewLimit(1)}
		end, began := make(chan struct{}), make(chan struct{})
		err := wait(t, p.start(bg, func(ctx context.Context) error {
			with := bg
			if passed {
				with = ctx
			}
			long := p.start(bg, func(context.Context) error { <-end; return nil })
			p.start(bg, func(context.Context) error { close(began); return nil }, l)
			waits := p.start(bg, func(context.Context) error { return long.Wait(with) })
			until(t, "the wait", func() bool { return long.event.Load() != nil })
			if passed {
				soon(t, "the other task within the limit", began)
			}
			close(end)
			err := errors.Join(waits.Wait(bg), long.Wait(bg))
			select {
			case <-began:
				if !passed {
					err = errors.Join(err, errors.New("two tasks are within the limit of one"))
				}
			default:
			}
			return err
		}, l))
		if err != nil {
			t.Error(err)
		}
		soon(t, "the other task at the end", began)
		idle(t, p)
	}
}

// TestDeepPassed is TestDeep with one context for all.
func TestDeepPassed(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(4 << 20)) // past that the program ends
	p := unguarded(2)
	err := wait(t, p.start(bg, func(ctx context.Context) error {
		var level func(n int) error
		level = func(n int) error {
			if n == 0 {
				return nil
			}
			return p.start(ctx, func(context.Context) error { return level(n - 1) }).Wait(ctx)
		}
		return level(20_000)
	}))
	if err != nil {
		t.Error(err)
	}
	idle(t, p)
}

// TestHelpersWait: goroutines that a task within a limit starts wait too, one of them for
// something that needs another.
func TestHelpersWait(t *testing.T) {
	p := New(1)
	l := Spec{Limit: gate.NewLimit(1)}
	ch := make(chan struct{})
	err := wait(t, p.start(bg, func(ctx context.Context) error {
		me := ctx.(*Task)
		quick := p.start(ctx, func(context.Context) error {
			for both := false; !both; runtime.Gosched() {
				p.mu.Lock()
				both = me.rules.waiters == 2
				p.mu.Unlock()
			}
			return nil
		})
		slow := p.start(ctx, func(context.Context) error { <-ch; return nil }, Spec{Limit: gate.NewLimit(1)})
		var wg sync.WaitGroup
		wg.Go(func() {
			quick.Wait(ctx)
			close(ch)
		})
		wg.Go(func() { slow.Wait(ctx) })
		wg.Wait()
		return nil
	}, l))
	if err != nil {
		t.Error(err)
	}
	// One that is left behind by a task that ended.
	ch = make(chan struct{})
	slow := p.start(bg, func(context.Context) error { <-ch; return nil })
	left := make(chan struct{})
	err = wait(t, p.start(bg, func(ctx context.Context) error {
		waits := make(chan struct{})
		go func() {
			close(waits)
			slow.Wait(ctx)
			close(left)
		}()
		<-waits
		return nil
	}, l))
	close(ch)
	soon(t, "the goroutine left behind", left)
	if err != nil || wait(t, p.start(bg, func(context.Context) error { return nil }, l)) != nil {
		t.Error("the limit is not free again")
	}
	idle(t, p)
}

// TestHelperWaitsMeanwhile: a task within a limit wants its place back, and before it gets it
// a goroutine that it started waits for another task of the limit. That one needs the place,
// so that the task goes on without.
func TestHelperWaitsMeanwhile(t *testing.T) {
	p := New(2)
	l := Spec{Limit: gate.NewLimit(1)}
	first, begun, user, helper, went := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var me *Task
	j := p.start(bg, func(ctx context.Context) error {
		me = ctx.(*Task)
		one := p.start(ctx, func(context.Context) error { <-first; return nil })
		var wg sync.WaitGroup
		wg.Go(func() {
			<-helper
			p.start(ctx, func(context.Context) error { return nil }, l).Wait(ctx)
		})
		close(begun)
		one.Wait(ctx)
		close(went)
		wg.Wait()
		return nil
	}, l)
	<-begun
	entered := make(chan struct{})
	u := p.start(bg, func(context.Context) error { close(entered); <-user; return nil }, l)
	soon(t, "the wait of the task", entered)
	close(first)
	until(t, "the task that wants its place", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return me.rules.waiters == 0 && me.rules.back != nil
	})
	close(helper)
	soon(t, "the wait for the place", went)
	close(user)
	if wait(t, u) != nil || wait(t, j) != nil {
		t.Error("a task failed")
	}
	idle(t, p)
}

// TestLeftByATry: a goroutine that a try left behind starts tasks and waits for them while
// the next try begins elsewhere. The race detector sees whether they get in each other's way.
func TestLeftByATry(t *testing.T) {
	p := New(4)
	for range 50 {
		tries := 0
		left := make(chan struct{})
		j := p.start(bg, func(ctx context.Context) error {
			if tries++; tries > 1 {
				return nil
			}
			go func() {
				defer close(left)
				for range 50 {
					p.start(ctx, func(context.Context) error { return nil }).Wait(ctx)
				}
			}()
			return errors.New("again")
		}, Spec{Retries: 1})
		if err := wait(t, j); err != nil {
			t.Error(err)
		}
		soon(t, "the goroutine left behind", left)
	}
	idle(t, p)
}

// TestCycles: waits that could not end are errors.
func TestCycles(t *testing.T) {
	p := New(2)
	self := make(chan *job, 1)
	j := p.start(bg, func(ctx context.Context) error { return (<-self).Wait(ctx) })
	self <- j
	if err := wait(t, j); !errors.Is(err, fault.ErrDeadlock) {
		t.Errorf("a task waited for itself: %v", err)
	}
	// Two, or three, that wait for one another.
	for n := 2; n <= 3; n++ {
		jobs := make([]*job, n)
		ready := make(chan struct{})
		for i := range jobs {
			jobs[i] = p.start(bg, func(ctx context.Context) error {
				<-ready
				return jobs[(i+1)%n].Wait(ctx)
			})
		}
		close(ready)
		deadlocks := 0
		for _, j := range jobs {
			if errors.Is(wait(t, j), fault.ErrDeadlock) {
				deadlocks++
			}
		}
		if deadlocks == 0 {
			t.Errorf("%d tasks waited for one another", n)
		}
	}
	// One that waits for another that starts after it.
	j = p.start(bg, func(ctx context.Context) error {
		me := <-self
		later := p.start(ctx, func(context.Context) error { return nil }, Spec{After: []*Task{&me.Task}})
		last := p.start(ctx, func(context.Context) error { return nil }, Spec{After: []*Task{&later.Task}})
		return last.Wait(ctx)
	})
	self <- j
	if err := wait(t, j); !errors.Is(err, fault.ErrDeadlock) {
		t.Errorf("a task waited for its successor: %v", err)
	}
	idle(t, p)
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%s never came", what)
		}
	}
}

// TestNoCycle: a goroutine that a task left behind waits for another task, and that one
// for a third, which has not yet noticed that the first is over. That is no cycle.
func TestNoCycle(t *testing.T) {
	p := New(4)
	l := Spec{Limit: gate.NewLimit(1)}
	begin, end, full, empty, left := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var third *job
	first := p.start(bg, func(ctx context.Context) error { <-begin; return third.Wait(ctx) })
	second := p.start(bg, func(ctx context.Context) error {
		go func() { first.Wait(ctx); close(left) }()
		<-end
		return nil
	})
	third = p.start(bg, func(ctx context.Context) error { return second.Wait(ctx) }, l)
	until(t, "the wait of the second", func() bool { return second.waits.Load() == &first.Task })
	until(t, "the wait of the third", func() bool { return third.waits.Load() == &second.Task })
	p.start(bg, func(context.Context) error { close(full); <-empty; return nil }, l)
	soon(t, "the start of another within the limit", full)
	close(end)
	if err := wait(t, second); err != nil {
		t.Error(err)
	}
	close(begin)
	until(t, "the wait of the first", func() bool { return first.over() || first.waits.Load() == &third.Task })
	close(empty)
	if err := wait(t, first); err != nil {
		t.Error(err)
	}
	soon(t, "the goroutine left behind", left)
	idle(t, p)
}

// TestWaitEnds: a wait ends with its context, of a task and from outside.
func TestWaitEnds(t *testing.T) {
	p := New(1)
	end := make(chan struct{})
	slow := p.start(bg, func(context.Context) error { <-end; return nil }, Spec{Limit: gate.NewLimit(1)})
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(bg)
	time.AfterFunc(time.Millisecond, func() { cancel(cause) })
	if err := slow.Wait(ctx); err != cause {
		t.Error(err)
	}
	err := wait(t, p.start(bg, func(ctx context.Context) error {
		queued := p.start(ctx, func(context.Context) error { <-end; return nil })
		ctx, cancel := context.WithTimeoutCause(ctx, time.Millisecond, cause)
		defer cancel()
		return errors.Join(slow.Wait(ctx), queued.Wait(ctx))
	}))
	if err == nil || err.Error() != "enough\nenough" {
		t.Error(err)
	}
	close(end)
	if err := wait(t, slow); err != nil || slow.Wait(ctx) != nil {
		t.Error("a task that has ended is waited for in vain")
	}
	idle(t, p)
}

// TestBlocked: tasks that wait for one another by channels get goroutines enough.
func TestBlocked(t *testing.T) {
	p := New(1)
	ch := make(chan int)
	var jobs []*job
	for range 5 {
		jobs = append(jobs, p.start(bg, func(context.Context) error { <-ch; return nil }))
	}
	jobs = append(jobs, p.start(bg, func(context.Context) error {
		for range 5 {
			ch <- 1
		}
		return nil
	}))
	for _, j := range jobs {
		if err := wait(t, j); err != nil {
			t.Error(err)
		}
	}
	idle(t, p)
}

// TestLook: goroutines are added when tasks were queued and processors idle twice in a row, twice as many
// each time, and become fewer while processors are busy.
func TestLook(t *testing.T) {
	p := unguarded(3)
	spawned := 0
	p.spawn = func(uint16, uint32) { spawned++ }
	p.running.Store(3) // all of which block
	queued := new(Task)
	idle := 0
	for i, c := range []struct {
		queued, busy        bool
		idle, want, spawned int
	}{
		{true, false, 1, 3, 0}, {false, false, 0, 3, 0}, // the first time, and then there is nothing to do
		{true, false, 1, 3, 0}, {true, true, 0, 3, 0}, // likewise, and then they are busy
		{true, false, 1, 3, 0}, {true, false, 2, 6, 3}, {true, false, 3, 12, 9}, // again and again
		{true, true, 0, 6, 9}, {true, true, 0, 3, 9}, {true, true, 0, 3, 9},
		{true, false, 1, 3, 9}, {true, false, 2, 6, 9}, // those that were added run still
	} {
		if p.outside.drop(queued); c.queued {
			p.outside.push(queued)
		}
		idle = p.look(idle, func() bool { return c.busy })
		if idle != c.idle || int(p.want.Load()) != c.want || spawned != c.spawned {
			t.Errorf("look %d: idle %d times, %d may run and %d were added, want %d, %d and %d", i, idle, p.want.Load(), spawned, c.idle, c.want, c.spawned)
		}
	}
	p.running.Store(1 << 20)
	p.want.Store(1<<20 - 5)
	if p.look(1, func() bool { return false }); p.want.Load() != 1<<20 {
		t.Errorf("%d goroutines may run", p.want.Load())
	}
}

// TestOtherContext: tasks that wait with a context that is none of theirs, and with that of a
// group of no task, keep their slots. Others are added.
func TestOtherContext(t *testing.T) {
	p := New(2)
	g := p.NewGroup(bg, false)
	var naive func(n int, out *int) error
	naive = func(n int, out *int) error {
		if *out = n; n < 2 {
			return nil
		}
		var a, b int
		x := p.start(bg, func(context.Context) error { return naive(n-1, &a) })
		y := p.start(bg, func(context.Context) error { return naive(n-2, &b) })
		err := errors.Join(x.Wait(bg), y.Wait(g.Context()))
		*out = a + b
		return err
	}
	var got int
	if err := wait(t, p.start(bg, func(context.Context) error { return naive(9, &got) })); err != nil || got != 34 {
		t.Errorf("%d, %v", got, err)
	}
	if err := g.Close(bg); err != nil {
		t.Error(err)
	}
	idle(t, p)
}

// TestBlock: tasks that block until all of them have begun need no watchdog, with the context of a task
// or one that is derived from it. A goroutine is started for each, and few that find no task.
func TestBlock(t *testing.T) {
	const n = 100
	for name, with := range map[string]func(p *Pool, own context.Context) context.Context{
		"own":       func(_ *Pool, own context.Context) context.Context { return own },
		"a value":   func(_ *Pool, own context.Context) context.Context { return context.WithValue(own, t, t) },
		"a group's": func(p *Pool, own context.Context) context.Context { return p.NewGroup(own, true).Context() },
	} {
		for _, slots := range []int{1, 2} {
			p := unguarded(slots)
			var began atomic.Int32
			all := make(chan struct{})
			release := busy(p)
			before := p.starts.Load()
			var jobs []*job
			for range n {
				jobs = append(jobs, p.start(bg, func(ctx context.Context) error {
					if began.Add(1) == n {
						close(all)
					}
					Block(with(p, ctx), func() { <-all })
					return nil
				}))
			}
			release()
			for _, j := range jobs {
				if err := wait(t, j); err != nil {
					t.Error(err)
				}
			}
			if starts := p.starts.Load() - before; starts < n-uint32(slots) || starts > 2*n {
				t.Errorf("%s, %d slots: %d goroutines were started for %d tasks that block", name, slots, starts, n)
			}
			idle(t, p)
		}
	}
}

// TestBlockEnds: however the function that blocks ends, the task has its slot again, and a task within
// a limit does not give up its place.
func TestBlockEnds(t *testing.T) {
	p := unguarded(1)
	for name, how := range map[string]func(){
		"returns": func() {}, "panics": func() { panic("wait") }, "ends its goroutine": runtime.Goexit,
	} {
		for _, limit := range []*gate.Limit{nil, gate.NewLimit(1)} {
			running := int32(-1)
			j := p.start(bg, func(ctx context.Context) error {
				me := ctx.(*Task)
				before := p.running.Load()
				defer func() { running = p.running.Load() - before }()
				defer func() { _ = recover() }()
				Block(ctx, func() {
					defer how()
					p.mu.Lock()
					defer p.mu.Unlock()
					if limit != nil && (me.rules.waiters != 0 || p.running.Load() != before) {
						t.Errorf("%s: a task within a limit gives up its place", name)
					}
					if limit == nil && p.running.Load() != before-1 {
						t.Errorf("%s: a task that blocks keeps its slot", name)
					}
				})
				return nil
			}, Spec{Limit: limit})
			if err := wait(t, j); (err != nil) != (name == "ends its goroutine") {
				t.Errorf("%s: %v", name, err)
			}
			if running != 0 {
				t.Errorf("%s: %d goroutines more are counted after it", name, running)
			}
			idle(t, p)
		}
	}
	called := false
	if Block(bg, func() { called = true }); !called || p.running.Load() != 0 {
		t.Error("with a context of no task")
	}
}
