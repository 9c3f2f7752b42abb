package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/task/internal/gate"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// job is a task of these tests.
type job struct {
	Task
	name  string
	f     func(ctx context.Context) error
	blame func() // called by Blame, if there is one
}

func (j *job) Run(t *Task) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return j.f(t)
}

func (j *job) Blame(dep *Task) error {
	if j.blame != nil {
		j.blame()
	}
	_, err := dep.Result()
	return fmt.Errorf("after %s: %w", dep.Body().(*job).name, err)
}

func (p *Pool) start(ctx context.Context, f func(ctx context.Context) error, specs ...Spec) *job {
	j := &job{f: f}
	var spec *Spec
	if len(specs) > 0 {
		spec = &specs[0]
	}
	p.Go(ctx, &j.Task, j, spec)
	return j
}

var bg = context.Background()

// soon fails a test that hangs, with all stacks.
func soon(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(2 * time.Minute):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s did not end\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// wait waits from outside.
func wait(t *testing.T, j *job) error {
	t.Helper()
	soon(t, "the task", j.Ended())
	_, err := j.Result()
	return err
}

// idle waits until the pool has no goroutine.
func idle(t *testing.T, p *Pool) {
	t.Helper()
	poll.True(t, "no goroutine runs at the end", func() bool { return p.running.Load() == 0 })
	p.mu.Lock()
	defer p.mu.Unlock()
	if u, l := p.gate.Lined(); u+l != 0 || p.urgent.Load() != 0 || p.idle.Load() != 0 {
		t.Errorf("tasks are left in lines: %d, %d", u, l)
	}
}

func fib(ctx context.Context, p *Pool, n int, out *int) error {
	if n < 2 {
		*out = n
		return nil
	}
	var a, b int
	j := p.start(ctx, func(ctx context.Context) error { return fib(ctx, p, n-1, &a) })
	if err := fib(ctx, p, n-2, &b); err != nil {
		return err
	}
	err := j.Wait(ctx)
	*out = a + b
	return err
}

// unguarded makes a pool without a watchdog, which would hide that a goroutine is missing.
func unguarded(slots int) *Pool {
	p := New(slots)
	p.guarded.Store(true)
	return p
}

// TestWakeUp: a task gets a goroutine at whatever moment it comes. The only goroutine ends
// some microseconds after its task has, since it looks at many slots first, and the next
// task is pushed meanwhile.
func TestWakeUp(t *testing.T) {
	p := unguarded(1000)
	p.want.Store(1)
	n := 20_000
	if testing.Short() {
		n /= 5
	}
	for i := range n {
		j := p.start(bg, func(context.Context) error { return nil })
		for spins := 0; !j.over(); spins++ {
			if spins > 1000 { // the other core is not ours
				if err := wait(t, j); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range i % 1000 { // about 1 ns each
			spun++
		}
	}
	idle(t, p)
}

var spun int

// raise makes peak n, and reports whether it was less.
func raise(peak *atomic.Int32, n int32) bool {
	for {
		old := peak.Load()
		if n <= old {
			return false
		}
		if peak.CompareAndSwap(old, n) {
			return true
		}
	}
}

// TestSlots: as many tasks run at a time as there are slots.
func TestSlots(t *testing.T) {
	for _, slots := range []int{1, 2, 5} {
		p := unguarded(slots)
		var now, peak atomic.Int32
		full := make(chan struct{})
		var jobs []*job
		for range 20 * slots {
			jobs = append(jobs, p.start(bg, func(context.Context) error {
				if n := now.Add(1); raise(&peak, n) && n == int32(slots) {
					close(full)
				}
				<-full
				runtime.Gosched()
				now.Add(-1)
				return nil
			}))
		}
		for _, j := range jobs {
			if err := wait(t, j); err != nil {
				t.Error(err)
			}
		}
		if int(peak.Load()) != slots {
			t.Errorf("%d tasks ran at a time in %d slots", peak.Load(), slots)
		}
		idle(t, p)
	}
}

// TestEverySlot: a task gets a slot that is free while another runs.
func TestEverySlot(t *testing.T) {
	p := unguarded(2)
	release := busy(p)
	if err := wait(t, p.start(bg, func(context.Context) error { return nil })); err != nil {
		t.Error(err)
	}
	release()
	idle(t, p)
}

// Every slot looks at each of the others in turn, or old tasks of one could wait without end.
func TestOther(t *testing.T) {
	for n := uint32(2); n < 10; n++ {
		for slot := range n {
			seen := make([]bool, n)
			for turn := range n - 1 {
				seen[other(slot, turn+7*(n-1), n)] = true
			}
			for i, is := range seen {
				if is == (uint32(i) == slot) {
					t.Errorf("slot %d of %d looks at %v", slot, n, seen)
				}
			}
		}
	}
}

// TestDeque compares a deque with a slice.
func TestDeque(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var d deque
	var want []*Task
	for i := range 100_000 {
		switch k := rng.IntN(10); {
		case k < 5+i/10_000%2: // longer, then shorter
			x := new(Task)
			d.push(x)
			want = append(want, x)
		case k < 8:
			got := d.pop()
			if n := len(want); n == 0 && got != nil || n > 0 && got != want[n-1] {
				t.Fatalf("change %d: pop is not the newest", i)
			}
			want = want[:max(len(want)-1, 0)]
		case k < 9:
			out := make([]*Task, rng.IntN(5))
			n := d.take(out)
			if n != min(len(out), (len(want)+1)/2) || !slices.Equal(out[:n], want[:n]) {
				t.Fatalf("change %d: took %d", i, n)
			}
			want = want[n:]
		case len(want) > 1:
			d.drop(want[0]) // is not the newest
			d.drop(want[len(want)-1])
			want = want[:len(want)-1]
		}
		if d.n != len(want) || int(d.size.Load()) != len(want) {
			t.Fatalf("change %d: %d tasks, want %d", i, d.n, len(want))
		}
	}
}

// busy occupies the only slot of a pool until the function it returns is called.
func busy(p *Pool) func() {
	began, end := make(chan struct{}), make(chan struct{})
	p.start(bg, func(context.Context) error {
		close(began)
		<-end
		return nil
	})
	<-began
	return func() { close(end) }
}

// TestOrder: tasks from outside run in order, after those of a higher priority and before
// those of a lower one.
func TestOrder(t *testing.T) {
	p := unguarded(1)
	release := busy(p)
	var mu sync.Mutex
	var got []int
	var jobs []*job
	for i, priority := range []int{0, -1, 2, 0, 1, -3, 2, 0, -1, 3} {
		jobs = append(jobs, p.start(bg, func(context.Context) error {
			mu.Lock()
			got = append(got, i)
			mu.Unlock()
			return nil
		}, Spec{Priority: priority}))
	}
	release()
	for _, j := range jobs {
		if err := wait(t, j); err != nil {
			t.Error(err)
		}
	}
	if want := []int{9, 2, 6, 4, 0, 3, 7, 1, 8, 5}; !slices.Equal(got, want) {
		t.Errorf("ran in the order %v, want %v", got, want)
	}
	idle(t, p)
}

// TestDerivedContext: tasks started with a context that is derived from a task's own are for the slot
// of that task, those after the first too, for which the scope of the context is remembered.
func TestDerivedContext(t *testing.T) {
	p := unguarded(1)
	err := wait(t, p.start(bg, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var jobs []*job
		for range 3 {
			jobs = append(jobs, p.start(ctx, func(context.Context) error { return nil }))
		}
		if own, outside := p.slots[0].own.size.Load(), p.outside.size.Load(); own != 3 || outside != 0 {
			t.Errorf("%d tasks on the slot and %d from outside, want 3 and 0", own, outside)
		}
		for _, j := range jobs {
			if err := j.Wait(ctx); err != nil {
				return err
			}
		}
		return nil
	}))
	if err != nil {
		t.Error(err)
	}
	idle(t, p)
}

// TestOutsideOrder: many tasks from outside run in order on one slot, though they are taken
// some at a time.
func TestOutsideOrder(t *testing.T) {
	p := unguarded(1)
	release := busy(p)
	var got []int
	var last *job
	for i := range 500 {
		last = p.start(bg, func(context.Context) error { got = append(got, i); return nil })
	}
	release()
	if err := wait(t, last); err != nil || len(got) != 500 || !slices.IsSorted(got) {
		t.Errorf("ran in the order %v, %v", got, err)
	}
	idle(t, p)
}

// TestOutsideIsServed: a task that starts others without end does not keep those from outside
// waiting for ever.
func TestOutsideIsServed(t *testing.T) {
	p := New(1)
	var stop atomic.Bool
	var again func(ctx context.Context) error
	again = func(ctx context.Context) error {
		if !stop.Load() {
			p.start(ctx, again)
		}
		return nil
	}
	p.start(bg, again)
	err := wait(t, p.start(bg, func(context.Context) error { return nil }))
	stop.Store(true)
	if err != nil {
		t.Error(err)
	}
	idle(t, p)
}

// TestOldestAreServed: tasks that start their successor keep no older one waiting for ever,
// whether that is of the same slot or from outside, and whether one goroutine runs all of
// them or, since each gives up its slot once, many run one each.
func TestOldestAreServed(t *testing.T) {
	const most = 10_000 // then the successors end, and whoever waits has waited for ever
	for _, sleeps := range []bool{false, true} {
		p := unguarded(1)
		var links, inside, outside atomic.Int32
		var again func(ctx context.Context) error
		again = func(ctx context.Context) error {
			if links.Add(1) == most || inside.Load() > 0 && outside.Load() > 0 {
				return nil
			}
			p.start(ctx, again)
			if sleeps {
				return p.start(ctx, func(context.Context) error { return nil }, Spec{Limit: gate.NewLimit(1)}).Wait(ctx)
			}
			return nil
		}
		release := busy(p)
		var older *job
		jobs := []*job{p.start(bg, func(ctx context.Context) error {
			older = p.start(ctx, func(context.Context) error { inside.Store(links.Load()); return nil })
			return again(ctx)
		})}
		jobs = append(jobs, p.start(bg, func(context.Context) error { outside.Store(links.Load()); return nil }))
		release()
		if err := errors.Join(wait(t, jobs[0]), wait(t, jobs[1]), wait(t, older)); err != nil {
			t.Error(err)
		}
		idle(t, p)
		// Each of the two has its turn once in two or three.
		if in, out := inside.Load(), outside.Load(); in > 8*agedEvery || out > 8*agedEvery {
			t.Errorf("sleeps %v: after %d links the older one ran, and the one from outside after %d", sleeps, in, out)
		}
	}
}

// TestLimit: as many tasks as the limit says run at a time, and no more.
func TestLimit(t *testing.T) {
	p := New(1)
	for _, most := range []int{1, 3, 20} {
		l := gate.NewLimit(most)
		var now, peak atomic.Int32
		full := make(chan struct{})
		var jobs []*job
		for range 5 * most {
			jobs = append(jobs, p.start(bg, func(context.Context) error {
				if n := now.Add(1); raise(&peak, n) && n == int32(most) {
					close(full)
				}
				<-full // until the limit is reached
				runtime.Gosched()
				now.Add(-1)
				return nil
			}, Spec{Limit: l}))
		}
		for _, j := range jobs {
			if err := wait(t, j); err != nil {
				t.Error(err)
			}
		}
		if peak.Load() != int32(most) {
			t.Errorf("%d tasks ran at a time, the limit is %d", peak.Load(), most)
		}
	}
	idle(t, p)
}

// TestDependencies: successors run after their predecessors, and not if one failed.
func TestDependencies(t *testing.T) {
	p := New(2)
	bad := errors.New("bad")
	release := make(chan struct{})
	var ran atomic.Int32
	a := p.start(bg, func(context.Context) error { <-release; ran.Add(1); return nil })
	b := p.start(bg, func(context.Context) error { <-release; return bad })
	b.name = "b"
	ok := p.start(bg, func(context.Context) error {
		if ran.Load() != 1 {
			return errors.New("ran before its predecessor")
		}
		return nil
	}, Spec{After: []*Task{&a.Task, &a.Task}})
	no := p.start(bg, func(context.Context) error { t.Error("ran"); return nil }, Spec{After: []*Task{&ok.Task, &b.Task}})
	no.name = "no"
	last := p.start(bg, func(context.Context) error { t.Error("ran"); return nil }, Spec{After: []*Task{&no.Task}})
	close(release)
	if err := wait(t, ok); err != nil {
		t.Error(err)
	}
	if err := wait(t, last); !errors.Is(err, bad) || err.Error() != "after no: after b: bad" {
		t.Errorf("%v", err)
	}
	// When they are over already.
	if err := wait(t, p.start(bg, func(context.Context) error { return nil }, Spec{After: []*Task{&a.Task, &ok.Task}})); err != nil {
		t.Error(err)
	}
	for _, dep := range []*job{b, no} {
		if err := wait(t, p.start(bg, func(context.Context) error { t.Error("ran"); return nil }, Spec{After: []*Task{&dep.Task}})); !errors.Is(err, bad) {
			t.Errorf("%v", err)
		}
	}
	idle(t, p)
}

// TestAfterAtTheEnd: a task is told that its predecessor has ended, though it comes about
// when that ends.
func TestAfterAtTheEnd(t *testing.T) {
	p := unguarded(2)
	n := 50_000
	if testing.Short() {
		n /= 5
	}
	for i := range n {
		first := p.start(bg, func(context.Context) error { return nil })
		for range i % 500 { // about 1 ns each
			spun++
		}
		if err := wait(t, p.start(bg, func(context.Context) error { return nil }, Spec{After: []*Task{&first.Task}})); err != nil {
			t.Fatal(err)
		}
	}
	idle(t, p)
}

// TestAfterSkipped: a task comes after one that is about to be skipped, and has its error.
func TestAfterSkipped(t *testing.T) {
	p := New(1)
	ch, blames, came := make(chan struct{}), make(chan struct{}), make(chan struct{})
	bad := errors.New("bad")
	root := p.start(bg, func(context.Context) error { <-ch; return bad })
	// Both are skipped by one event: slow first, whose error takes until another task has come,
	// unless that has to wait.
	slow := &job{blame: func() {
		close(blames)
		select {
		case <-came:
		case <-time.After(50 * time.Millisecond):
		}
	}}
	p.Go(bg, &slow.Task, slow, &Spec{After: []*Task{&root.Task}})
	skipped := p.start(bg, nil, Spec{After: []*Task{&root.Task}})
	close(ch)
	<-blames
	last := p.start(bg, nil, Spec{After: []*Task{&skipped.Task}})
	close(came)
	for _, j := range []*job{slow, skipped, last} {
		if err := wait(t, j); !errors.Is(err, bad) {
			t.Errorf("the error is %v", err)
		}
	}
	idle(t, p)
}

// TestCancelHeld: what waits for a predecessor, a limit, a priority or a pause ends when its
// context does, with its cause, and not when the task would have its turn.
func TestCancelHeld(t *testing.T) {
	p := unguarded(1)
	release := busy(p)
	cause := errors.New("enough")
	never := func(context.Context) error { t.Error("ran"); return nil }
	l := gate.NewLimit(1)
	end := make(chan struct{})
	slow := p.start(bg, func(context.Context) error { <-end; return nil }, Spec{Limit: l})
	for _, derived := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(bg)
		g := p.NewGroup(ctx, false)
		within := g.Context()
		if derived {
			within = context.WithValue(within, t, t)
		}
		failed := make(chan struct{})
		jobs := []*job{
			p.start(within, never, Spec{After: []*Task{&slow.Task}}),
			p.start(within, never, Spec{Limit: l}),
			p.start(within, never, Spec{Priority: 1}),
			p.start(within, never, Spec{Priority: -1}),
			p.start(within, func(context.Context) error { close(failed); return errors.New("try again") }, Spec{Limit: gate.NewLimit(1), Retries: 3, Pause: time.Hour}),
			p.start(ctx, never, Spec{After: []*Task{&slow.Task}}), // of no group
		}
		jobs = append(jobs, p.start(within, never, Spec{After: []*Task{&jobs[0].Task}}))
		<-failed
		poll.True(t, "the task that failed waits for its next try", func() bool { return jobs[4].state.Load()&stateMask == held })
		cancel(cause)
		for i, j := range jobs {
			if err := wait(t, j); err != cause && (!derived || !errors.Is(err, cause)) {
				t.Errorf("task %d: %v", i, err)
			}
		}
		if err := wait(t, p.start(within, never, Spec{Priority: 1})); err != cause {
			t.Errorf("started later: %v", err)
		}
		if err := g.Close(bg); err != cause {
			t.Errorf("the group: %v", err)
		}
	}
	close(end)
	release()
	idle(t, p)
}

// TestCancelQueued: a queued task of a cancelled context is not run.
func TestCancelQueued(t *testing.T) {
	p := unguarded(1)
	release := busy(p)
	ctx, cancel := context.WithCancel(bg)
	j := p.start(ctx, func(context.Context) error { t.Error("ran"); return nil })
	cancel()
	release()
	if err := wait(t, j); err != context.Canceled {
		t.Error(err)
	}
	idle(t, p)
}

// TestGroupCancel: a group that is cancelled ends the contexts of its tasks, those that run and those that wait, and of
// no others.
func TestGroupCancel(t *testing.T) {
	p := New(2)
	cause := errors.New("enough")
	g := p.NewGroup(bg, false)
	end := make(chan struct{})
	other := p.start(bg, func(context.Context) error { <-end; return nil })
	runs := p.start(g.Context(), func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
	waits := p.start(g.Context(), func(context.Context) error { t.Error("ran"); return nil }, Spec{After: []*Task{&other.Task}})
	g.Cancel(cause)
	for _, j := range []*job{runs, waits} {
		if err := wait(t, j); err != cause {
			t.Error(err)
		}
	}
	if err := g.Close(bg); err != cause {
		t.Errorf("the group: %v", err)
	}
	close(end)
	if err := wait(t, other); err != nil {
		t.Errorf("a task of no group: %v", err)
	}
	idle(t, p)
}

// TestRetry: a task is tried as often as asked while it fails, and once otherwise.
func TestRetry(t *testing.T) {
	p := New(1)
	bad := errors.New("bad")
	for _, c := range []struct{ retries, failures, calls int }{{0, 1, 1}, {3, 0, 1}, {3, 2, 3}, {3, 9, 4}} {
		calls := 0
		j := p.start(bg, func(context.Context) error {
			if calls++; calls <= c.failures {
				return bad
			}
			return nil
		}, Spec{Retries: c.retries, Pause: time.Microsecond})
		next := p.start(bg, func(context.Context) error { return nil }, Spec{After: []*Task{&j.Task}})
		err := wait(t, next)
		if calls != c.calls || (err == nil) != (c.failures < c.calls) {
			t.Errorf("%+v: %d calls, %v", c, calls, err)
		}
	}
	// A task that waits for one that is tried again gets its last result.
	err := wait(t, p.start(bg, func(ctx context.Context) error {
		calls := 0
		return p.start(ctx, func(context.Context) error {
			if calls++; calls < 3 {
				return bad
			}
			return nil
		}, Spec{Retries: 5}).Wait(ctx)
	}))
	if err != nil {
		t.Error(err)
	}
	idle(t, p)
}

// TestGroup: Close returns after every task, with the first error, which ends the others
// unless they are to go on.
func TestGroup(t *testing.T) {
	p := New(2)
	bad := errors.New("bad")
	for _, keep := range []bool{false, true} {
		g := p.NewGroup(bg, keep)
		g.Account = new(Account)
		began, release := make(chan struct{}), make(chan struct{})
		var ended atomic.Int32
		long := p.start(g.Context(), func(ctx context.Context) error {
			close(began)
			defer ended.Add(1)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-release:
				return nil
			}
		})
		<-began
		if started, ended, dropped := g.Account.Counts(); started != 1 || ended != 0 || dropped != 0 {
			t.Errorf("keep %v: %d of %d tasks have ended, want 0 of 1", keep, ended, started)
		}
		failed := p.start(g.Context(), func(context.Context) error { return bad })
		soon(t, "the task that fails", failed.Ended())
		later := p.start(g.Context(), func(context.Context) error { close(release); ended.Add(1); return nil })
		if err := g.Close(bg); err != bad {
			t.Errorf("%v", err)
		}
		want := int32(1)
		if keep {
			want = 2
		}
		if n := ended.Load(); n != want && !(n == 2 && !keep && later.fault() == nil) || !long.over() {
			t.Errorf("keep %v: %d functions had ended", keep, n)
		}
		if started, ended, dropped := g.Account.Counts(); started != 3 || ended != 3 || dropped != 0 {
			t.Errorf("keep %v: %d of %d tasks have ended, want all of 3", keep, ended, started)
		}
		if _, err := long.Result(); err != nil && (keep || err != bad) {
			t.Errorf("keep %v: the long one ended with %v", keep, err)
		}
		if err := wait(t, p.start(g.Context(), func(context.Context) error { t.Error("ran"); return nil })); err != ErrClosed {
			t.Errorf("started in a closed group: %v", err)
		}
	}
	// The first error ends a task that nothing else would.
	g := p.NewGroup(bg, false)
	p.start(g.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	p.start(g.Context(), func(context.Context) error { return bad })
	closed := make(chan struct{})
	go func() { defer close(closed); g.Close(bg) }()
	soon(t, "the group", closed)
	// One that is held is closed when all holds are released, and holds count for no account.
	g = p.NewGroup(bg, false)
	g.Account = new(Account)
	if GroupOf(g.Context()) != g || GroupOf(bg) != nil || !g.Hold() || !g.Hold() {
		t.Error("the group cannot be held")
	}
	g.Release()
	closed = make(chan struct{})
	go func() { defer close(closed); g.Close(bg) }()
	time.Sleep(time.Millisecond) // a Close that does not wait would return meanwhile
	select {
	case <-closed:
		t.Error("the group was closed while it was held")
	default:
	}
	g.Release()
	soon(t, "the group that was held", closed)
	if started, _, _ := g.Account.Counts(); started != 0 || g.Hold() {
		t.Errorf("%d tasks were started; or a closed group can be held", started)
	}
	idle(t, p)
}

// TestGroupWithin: a task that closes a group gives up its place.
func TestGroupWithin(t *testing.T) {
	p := New(1)
	for _, spec := range []Spec{{}, {Limit: gate.NewLimit(1)}} {
		if err := wait(t, p.start(bg, func(ctx context.Context) error {
			g := p.NewGroup(ctx, false)
			var jobs []*job
			for range 3 {
				jobs = append(jobs, p.start(g.Context(), func(context.Context) error { return nil }, spec))
			}
			err := jobs[1].Wait(g.Context())
			return errors.Join(err, g.Close(ctx))
		}, spec)); err != nil {
			t.Error(err)
		}
	}
	idle(t, p)
}

// TestGoexit: a task that ends its goroutine has an error, and the pool goes on.
func TestGoexit(t *testing.T) {
	p := New(1)
	for range 10 {
		j := p.start(bg, func(ctx context.Context) error {
			p.start(ctx, func(context.Context) error { runtime.Goexit(); return nil }).Wait(ctx)
			return nil
		})
		if err := wait(t, j); err != fault.ErrGoexit {
			t.Error(err)
		}
		if err := wait(t, p.start(bg, func(context.Context) error { runtime.Goexit(); return nil }, Spec{Limit: gate.NewLimit(1)})); err != fault.ErrGoexit {
			t.Error(err)
		}
	}
	if err := wait(t, p.start(bg, func(context.Context) error { return nil })); err != nil {
		t.Error(err)
	}
	idle(t, p)
}

// TestFirstError: the error of a group is that of the task that failed, not of one that
// heard of it.
func TestFirstError(t *testing.T) {
	p := New(4)
	bad := errors.New("bad")
	for range 300 {
		g := p.NewGroup(bg, false)
		var a *job
		begin := make(chan struct{})
		a = p.start(g.Context(), func(context.Context) error {
			<-begin
			for a.event.Load() == nil { // until one waits
				runtime.Gosched()
			}
			return bad
		})
		close(begin)
		for range 3 {
			p.start(g.Context(), func(ctx context.Context) error { return fmt.Errorf("heard of it: %w", a.Wait(ctx)) })
		}
		if err := g.Close(bg); err != bad {
			t.Fatal(err)
		}
	}
	idle(t, p)
}
