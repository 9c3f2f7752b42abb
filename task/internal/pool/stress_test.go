package pool

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/task/internal/gate"
)

var (
	stressSeeds = flag.Int("stress.seeds", 60, "how many trials TestStress makes")
	stressSeed  = flag.Uint64("stress.seed", 0, "the first seed of TestStress")
)

// stress is a trial: a tree of tasks that is drawn from a seed, with everything that a task
// can ask for and do wrong.
type stress struct {
	t      *testing.T
	p      *Pool
	seed   uint64
	left   atomic.Int64 // tasks that may still be started
	limits []stressLimit
	mu     sync.Mutex
	all    []*stressTask
}

type stressLimit struct {
	gate *gate.Limit
	most int32
	now  atomic.Int32
}

type stressTask struct {
	job
	id       uint64
	limit    int // -1 for none
	retries  int32
	after    []*stressTask
	calls    atomic.Int32
	running  atomic.Int32
	finished atomic.Int32 // calls that returned
}

var errStress = errors.New("drawn error")

// child starts a task; older are its siblings, which it may follow or wait for.
func (s *stress) child(ctx context.Context, rng *rand.Rand, older []*stressTask) *stressTask {
	x := &stressTask{id: rng.Uint64(), limit: -1}
	var spec *Spec
	if rng.IntN(2) == 0 {
		spec = &Spec{Priority: rng.IntN(5) - 2, Pause: time.Duration(rng.IntN(100)) * time.Microsecond}
		if rng.IntN(3) == 0 {
			x.limit = rng.IntN(len(s.limits))
			spec.Limit = s.limits[x.limit].gate
		}
		if rng.IntN(3) == 0 {
			x.retries = int32(rng.IntN(3))
			spec.Retries = int(x.retries)
		}
		for range rng.IntN(3) {
			if len(older) > 0 {
				o := older[rng.IntN(len(older))]
				x.after = append(x.after, o)
				spec.After = append(spec.After, &o.Task)
			}
		}
	}
	x.f = func(ctx context.Context) error { return s.body(ctx, x, older) }
	s.mu.Lock()
	s.all = append(s.all, x)
	s.mu.Unlock()
	if rng.IntN(10) == 0 { // another context
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(2000))*time.Microsecond)
		context.AfterFunc(ctx, cancel)
	}
	s.p.Go(ctx, &x.Task, &x.job, spec)
	return x
}

// enter and leave count tasks within a limit that do not wait. One that waits is not
// counted for a little longer than it gives its place up, so that the count is never too
// high.
func (s *stress) enter(x *stressTask) {
	if x.limit >= 0 {
		if l := &s.limits[x.limit]; l.now.Add(1) > l.most {
			s.t.Errorf("seed %d: more than %d tasks within a limit", s.seed, l.most)
		}
	}
}

func (s *stress) leave(x *stressTask) {
	if x.limit >= 0 {
		s.limits[x.limit].now.Add(-1)
	}
}

func (s *stress) body(ctx context.Context, x *stressTask, older []*stressTask) error {
	try := x.calls.Add(1)
	if x.running.Add(1) != 1 {
		s.t.Errorf("seed %d: a task runs twice at a time", s.seed)
	}
	s.enter(x)
	waits := false
	defer func() {
		if !waits { // else a task that it ran ended the goroutine
			s.leave(x)
		}
		x.running.Add(-1)
		x.finished.Add(1)
	}()
	for _, o := range x.after {
		if ended, err := o.Result(); !ended || err != nil {
			s.t.Errorf("seed %d: a task runs after one that has ended %v with %v", s.seed, ended, err)
		}
	}
	rng := rand.New(rand.NewPCG(x.id, uint64(try)))
	var children []*stressTask
	for range rng.IntN(5) {
		if s.left.Add(-1) < 0 {
			break
		}
		children = append(children, s.child(ctx, rng, children))
	}
	known := append(children, older...)
	for range rng.IntN(4) {
		if len(known) == 0 {
			break
		}
		o := known[rng.IntN(len(known))]
		s.leave(x)
		waits = true
		err := o.Wait(ctx)
		waits = false
		s.enter(x)
		if errors.Is(err, fault.ErrDeadlock) {
			s.t.Errorf("seed %d: a deadlock where there is none", s.seed)
		}
		if err != nil && rng.IntN(2) == 0 {
			return err
		}
	}
	switch rng.IntN(30) {
	case 0:
		return errStress
	case 1:
		panic("drawn panic")
	case 2:
		runtime.Goexit()
	case 3:
		time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
	case 4:
		runtime.Gosched()
	}
	return nil
}

func (s *stress) run() {
	rng := rand.New(rand.NewPCG(s.seed, 7))
	s.p = unguarded(1 + rng.IntN(4))
	if rng.IntN(2) == 0 {
		s.p.guarded.Store(false)
	}
	s.limits = make([]stressLimit, 3)
	for i := range s.limits {
		s.limits[i].most = int32(1 + rng.IntN(3))
		s.limits[i].gate = gate.NewLimit(int(s.limits[i].most))
	}
	s.left.Store(int64(rng.IntN(2000)))
	ctx, cancel := context.WithCancelCause(bg)
	defer cancel(nil)
	g := s.p.NewGroup(ctx, rng.IntN(2) == 0)
	if rng.IntN(2) == 0 { // cancelled under way
		after := time.Duration(rng.IntN(3000)) * time.Microsecond
		timer := time.AfterFunc(after, func() { cancel(errors.New("drawn cancellation")) })
		defer timer.Stop()
	}
	var roots []*stressTask
	for range 1 + rng.IntN(20) {
		roots = append(roots, s.child(g.Context(), rng, roots))
	}
	// Tasks that come while the group is being closed.
	var late sync.WaitGroup
	seed := rng.Uint64()
	late.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 8))
		for range 50 {
			s.child(g.Context(), rng, nil)
			runtime.Gosched()
		}
	})
	closed := make(chan struct{})
	go func() {
		g.Close(bg)
		close(closed)
	}()
	soon(s.t, fmt.Sprintf("seed %d: the group", s.seed), closed)
	late.Wait()
	for _, x := range s.all {
		s.check(x)
	}
	for i := range s.limits {
		if n := s.limits[i].now.Load(); n != 0 {
			s.t.Errorf("seed %d: limit %d ends at %d", s.seed, i, n)
		}
	}
	idle(s.t, s.p)
}

// check looks at a task after the end.
func (s *stress) check(x *stressTask) {
	ended, err := x.Result()
	calls := x.calls.Load()
	switch {
	case !ended:
		s.t.Errorf("seed %d: a task did not end", s.seed)
	case calls > 1+x.retries || calls != x.finished.Load():
		s.t.Errorf("seed %d: %d calls of a task with %d retries, %d returned", s.seed, calls, x.retries, x.finished.Load())
	case err == nil && calls == 0:
		s.t.Errorf("seed %d: a task succeeded without a call", s.seed)
	}
	select {
	case <-x.Ended():
	default:
		s.t.Errorf("seed %d: a task has ended and its event was not sent", s.seed)
	}
}

// TestStress draws trees of tasks that are started by tasks, wait for one another, fail,
// panic and end their goroutines, within limits, with priorities, retries and predecessors,
// under contexts that are cancelled.
func TestStress(t *testing.T) {
	n := *stressSeeds
	if testing.Short() {
		n /= 4
	}
	for i := range uint64(n) {
		s := &stress{t: t, seed: *stressSeed + i}
		s.run()
		if t.Failed() {
			t.Fatalf("again: go test ./task/internal/pool -run '^TestStress$' -stress.seeds 1 -stress.seed %d", s.seed)
		}
	}
}

// TestHelpersStress: tasks, some within limits and some tried again, start goroutines that wait
// for other tasks with their context, and wait for some of these goroutines. Nothing hangs.
func TestHelpersStress(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		p := New(2)
		limits := []*gate.Limit{nil, nil, gate.NewLimit(1), gate.NewLimit(2)}
		var left atomic.Int32
		left.Store(300) // tasks
		var helpers sync.WaitGroup
		var body func(ctx context.Context, seed uint64) error
		body = func(ctx context.Context, seed uint64) error {
			rng := rand.New(rand.NewPCG(seed, 0))
			var wg sync.WaitGroup
			for range rng.IntN(4) {
				if left.Add(-1) < 0 {
					break
				}
				next := rng.Uint64()
				j := p.start(ctx, func(ctx context.Context) error { return body(ctx, next) },
					Spec{Limit: limits[rng.IntN(len(limits))], Priority: rng.IntN(3) - 1, Retries: rng.IntN(2)})
				switch rng.IntN(4) {
				case 0:
					j.Wait(ctx)
				case 1:
					helpers.Go(func() { j.Wait(ctx) })
				default:
					helpers.Add(1)
					wg.Go(func() { defer helpers.Done(); j.Wait(ctx) })
				}
			}
			if rng.IntN(3) > 0 {
				wg.Wait()
			}
			if rng.IntN(5) == 0 {
				return errors.New("again")
			}
			return nil
		}
		g := p.NewGroup(bg, true)
		for i := range uint64(4) {
			p.start(g.Context(), func(ctx context.Context) error { return body(ctx, 4*seed+i) })
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.Close(bg) // whose error is that of a task
			helpers.Wait()
		}()
		soon(t, fmt.Sprintf("seed %d", seed), ended)
		idle(t, p)
	}
}
