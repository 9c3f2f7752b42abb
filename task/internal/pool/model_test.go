package pool

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
)

// lockstep runs a pool without goroutines of its own beside a model of it, one step after
// another: which task each step runs, how many goroutines were started and how often a slot
// took tasks of another are compared after each. So a wake-up or a steal that is lost shows
// as a number, at once, and not as a test that hangs.
type lockstep struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	p     *Pool
	tasks []*modelTask // all that were started
	loops []modelLoop  // goroutines that were started and have not ended
	next  *modelTask   // that the step under way must run
	depth int          // steps under way
	left  int          // tasks that may still be started

	own, inbox             [][]*modelTask // by slot
	outside, urgent, idle  []*modelTask
	running, want          int
	starts, steals, spawns int
	stepping               []bool // goroutines, by their number, that run a task now
}

type modelLoop struct {
	number int // from 1
	slot   int
	tick   int
}

type modelTask struct {
	job
	id      int
	claimed bool
	ended   bool
}

func newLockstep(t *testing.T, seed uint64) *lockstep {
	rng := rand.New(rand.NewPCG(seed, 5))
	slots := 1 + rng.IntN(4)
	l := &lockstep{t: t, seed: seed, rng: rng, p: unguarded(slots), left: 50 + rng.IntN(1200), want: slots,
		own: make([][]*modelTask, slots), inbox: make([][]*modelTask, slots)}
	l.p.spawn = func(slot uint16, tick uint32) {
		l.spawns++
		if int(slot) != l.spawns%slots || int(tick) != l.spawns/slots {
			t.Errorf("seed %d: goroutine %d of %d slots begins at slot %d and tick %d", seed, l.spawns, slots, slot, tick)
		}
		l.loops = append(l.loops, modelLoop{l.spawns, int(slot), int(tick)})
		l.stepping = append(l.stepping, false)
	}
	return l
}

// The model: what each step of a pool does.

func (l *lockstep) wake() {
	if l.running < l.want {
		l.running++
		l.starts++
	}
}

func (l *lockstep) work() bool {
	n := len(l.outside) + len(l.urgent) + len(l.idle)
	for i := range l.own {
		n += len(l.own[i]) + len(l.inbox[i])
	}
	return n > 0
}

// push is a task of no priority that slot has started, -1 for outside.
func (l *lockstep) push(x *modelTask, slot int) {
	if slot < 0 {
		l.outside = append(l.outside, x)
	} else {
		l.own[slot] = append(l.own[slot], x)
	}
	l.wake()
}

func claim(x *modelTask) bool {
	was := x.claimed
	x.claimed = true
	return !was
}

func oldest(d *[]*modelTask) *modelTask {
	for len(*d) > 0 {
		x := (*d)[0]
		if *d = (*d)[1:]; claim(x) {
			return x
		}
	}
	return nil
}

func (l *lockstep) grab(from *[]*modelTask, slot int) *modelTask {
	for len(*from) > 0 {
		n := min((len(*from)+1)/2, 32)
		some := (*from)[:n]
		*from = (*from)[n:]
		for i, x := range some {
			if !claim(x) {
				continue
			}
			l.inbox[slot] = append(l.inbox[slot], some[i+1:]...)
			if n > 1 {
				l.wake()
			}
			return x
		}
	}
	return nil
}

func (l *lockstep) older(slot int) *modelTask {
	if x := oldest(&l.inbox[slot]); x != nil {
		return x
	}
	return l.grab(&l.outside, slot)
}

func (l *lockstep) steal(victim, slot int) *modelTask {
	x := l.grab(&l.own[victim], slot)
	if x == nil {
		x = l.grab(&l.inbox[victim], slot)
	}
	if x != nil {
		l.steals++
	}
	return x
}

// choose is the task that a goroutine takes.
func (l *lockstep) choose(slot, tick int) *modelTask {
	if x := oldest(&l.urgent); x != nil {
		return x
	}
	slots := len(l.own)
	if tick%61 == 0 {
		for kind := range 3 {
			var x *modelTask
			switch turn := tick / 61; (turn + kind) % 3 {
			case 0:
				x = l.older(slot)
			case 1:
				x = oldest(&l.own[slot])
			case 2:
				if slots > 1 {
					x = l.steal((slot+1+turn/3%(slots-1))%slots, slot)
				}
			}
			if x != nil {
				return x
			}
		}
	}
	for len(l.own[slot]) > 0 {
		last := len(l.own[slot]) - 1
		x := l.own[slot][last]
		if l.own[slot] = l.own[slot][:last]; claim(x) {
			return x
		}
	}
	if x := l.older(slot); x != nil {
		return x
	}
	for i := 1; i < slots; i++ {
		if x := l.steal((slot+i)%slots, slot); x != nil {
			return x
		}
	}
	return oldest(&l.idle)
}

// The steps, each done by the pool and by the model.

// compare ends the test where the pool and the model differ.
func (l *lockstep) compare(what string) {
	l.t.Helper()
	p := l.p
	got := []int{l.spawns, int(p.starts.Load()), int(p.steals.Load()), int(p.running.Load()), p.outside.n, int(p.urgent.Load()), int(p.idle.Load())}
	want := []int{l.starts, l.starts, l.steals, l.running, len(l.outside), len(l.urgent), len(l.idle)}
	for i := range p.slots {
		got = append(got, p.slots[i].own.n, p.slots[i].inbox.n)
		want = append(want, len(l.own[i]), len(l.inbox[i]))
	}
	if !slices.Equal(got, want) {
		l.t.Fatalf("seed %d: after %s goroutines, starts, steals, running, outside, urgent, idle and deques by slot are\n%v, want\n%v", l.seed, what, got, want)
	}
}

// start starts a task, by the one whose context ctx is and which runs in slot.
func (l *lockstep) start(ctx context.Context, slot int) *modelTask {
	if l.left--; l.left < 0 {
		return nil
	}
	x := &modelTask{id: len(l.tasks)}
	x.f = func(ctx context.Context) error { l.body(ctx, x); return nil }
	l.tasks = append(l.tasks, x)
	var spec *Spec
	switch l.rng.IntN(12) {
	case 0:
		spec = &Spec{Priority: 1}
		l.urgent = append(l.urgent, x)
		l.wake()
	case 1:
		spec = &Spec{Priority: -1}
		l.idle = append(l.idle, x)
		l.wake()
	default:
		l.push(x, slot)
	}
	l.p.Go(ctx, &x.Task, &x.job, spec)
	l.compare("a start")
	if spec != nil {
		return nil
	}
	return x
}

// body is the function of every task.
func (l *lockstep) body(ctx context.Context, x *modelTask) {
	if x != l.next {
		next := -1
		if l.next != nil {
			next = l.next.id
		}
		l.t.Fatalf("seed %d: task %d runs, want %d", l.seed, x.id, next)
	}
	slot := int(x.slot())
	var children []*modelTask
	for range l.rng.IntN(4) {
		if c := l.start(ctx, slot); c != nil {
			children = append(children, c)
		}
	}
	if l.depth < 6 && l.rng.IntN(8) == 0 { // it waits for something else
		x.sleep()
		l.running--
		if l.work() {
			l.wake()
		}
		l.compare("a task that waits")
		l.some(l.rng.IntN(20))
		x.resume()
		l.running++
		l.compare("a task that goes on")
	}
	if len(children) > 0 && l.rng.IntN(3) == 0 {
		if c := children[l.rng.IntN(len(children))]; !c.claimed { // the task runs it itself
			c.claimed = true
			if d := &l.own[slot]; len(*d) > 0 && (*d)[len(*d)-1] == c {
				*d = (*d)[:len(*d)-1]
			}
			l.next = c
			c.Wait(ctx)
		}
	}
	x.ended = true
}

// step lets a goroutine do what it does between two tasks, with one.
func (l *lockstep) step(i int) {
	g := &l.loops[i]
	number, slot, tick := g.number, g.slot, g.tick
	g.tick++
	l.next = l.choose(slot, tick)
	if l.next == nil {
		l.leave(slot, tick, number)
		return
	}
	l.stepping[number-1] = true
	l.depth++
	more := l.p.step(uint16(slot), uint32(tick))
	l.depth--
	l.stepping[number-1] = false
	want := l.running <= l.want
	if !want {
		l.running--
	}
	l.after(number, more, want)
}

// leave lets a goroutine end that found no task, while tasks may come.
func (l *lockstep) leave(slot, tick, number int) {
	var more bool
	if l.rng.IntN(2) == 0 {
		l.running--
		more = l.p.step(uint16(slot), uint32(tick))
	} else {
		if l.p.next(uint16(slot), uint32(tick)) != nil {
			l.t.Fatalf("seed %d: a task where there is none", l.seed)
		}
		if l.rng.IntN(2) == 0 {
			l.start(bg, -1)
		}
		l.p.running.Add(-1)
		l.running--
		if l.rng.IntN(2) == 0 {
			l.start(bg, -1)
		}
		more = l.p.again()
	}
	want := l.work() && l.running < l.want
	if want {
		l.running++
	}
	l.after(number, more, want)
}

// after notes whether a goroutine goes on.
func (l *lockstep) after(number int, more, want bool) {
	if more != want {
		l.t.Fatalf("seed %d: a goroutine goes on: %v, want %v", l.seed, more, want)
	}
	if !more {
		l.loops = slices.DeleteFunc(l.loops, func(g modelLoop) bool { return g.number == number })
	}
	l.compare("a step")
}

// some does n steps that are drawn.
func (l *lockstep) some(n int) {
	for range n {
		switch l.rng.IntN(6) {
		case 0:
			l.start(bg, -1)
		case 1: // as watchdog does
			l.want = 1 + l.rng.IntN(2*len(l.own))
			l.p.want.Store(int32(l.want))
			if l.work() {
				l.p.wake()
				l.wake()
			}
			l.compare("another number of goroutines")
		default:
			l.any()
		}
	}
}

// any is a step of any goroutine that does not run a task, and reports whether there is one.
func (l *lockstep) any() bool {
	var free []int
	for i, g := range l.loops {
		if !l.stepping[g.number-1] {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return false
	}
	l.step(free[l.rng.IntN(len(free))])
	return true
}

// TestModel compares every step of a pool with a model of it: the task that is run, the
// goroutines that are started and the tasks that one slot takes of another.
func TestModel(t *testing.T) {
	steals, tasks := 0, 0
	for seed := range uint64(50) {
		l := newLockstep(t, seed)
		l.some(200 + l.rng.IntN(400))
		for l.any() {
		}
		for _, x := range l.tasks {
			if !x.ended || !x.over() {
				t.Fatalf("seed %d: task %d has not run, and no goroutine is left", seed, x.id)
			}
		}
		if l.running != 0 {
			t.Fatalf("seed %d: %d goroutines at the end", seed, l.running)
		}
		steals, tasks = steals+l.steals, tasks+len(l.tasks)
	}
	if steals < 150 || tasks < 7_000 { // or the draws reach too little
		t.Errorf("%d tasks and %d steals", tasks, steals)
	}
}
