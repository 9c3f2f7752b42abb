package gate

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

var seeds = flag.Int("seeds", 300, "how many lists of events TestGate tries")

// The model says the same as the gate in the plainest way there is: it keeps every task in
// one list and looks through all of it after each event until nothing changes.
type model struct {
	tasks []*modelTask
	most  []int // of limits
	stamp int
}

type modelTask struct {
	t        *Task
	after    []*modelTask
	limit    int // -1 for none
	scope    int
	priority int
	retries  int
	place    place
	failed   bool
	stamp    int // when it asked for its place back
}

func (m *model) find(t *Task) *modelTask {
	i := slices.IndexFunc(m.tasks, func(x *modelTask) bool { return x.t == t })
	return m.tasks[i]
}

func (m *model) used(limit int) (n int) {
	for _, x := range m.tasks {
		if x.limit == limit && x.place == out {
			n++
		}
	}
	return n
}

// settle goes on until nothing changes, and returns what the gate should have asked for.
func (m *model) settle() (want []string) {
	for again := true; again; {
		again = false
		for i, x := range m.tasks {
			if x.place != waiting {
				continue
			}
			ready := true
			for _, p := range x.after {
				ready = ready && p.place == over
				if p.place == over && p.failed {
					x.place, x.failed, again = over, true, true
					want = append(want, fmt.Sprint("skip for a predecessor ", i))
					break
				}
			}
			switch {
			case x.place == over || !ready:
			case x.limit < 0 && x.priority == 0:
				x.place, again = out, true
				want = append(want, fmt.Sprint("queue ", i))
			default:
				x.place, again = lined, true
				if x.limit < 0 {
					want = append(want, fmt.Sprint("offer ", i))
				}
			}
		}
	}
	for l, most := range m.most {
		for m.used(l) < most {
			i := m.first(func(x *modelTask) bool { return x.limit == l && x.place == returning }, func(x *modelTask) int { return x.stamp })
			if i >= 0 {
				m.tasks[i].place = out
				want = append(want, fmt.Sprint("continue ", i))
				continue
			}
			i = m.first(func(x *modelTask) bool { return x.limit == l && x.place == lined }, func(x *modelTask) int { return -x.priority })
			if i < 0 {
				break
			}
			m.tasks[i].place = out
			want = append(want, fmt.Sprint("start ", i))
		}
	}
	slices.Sort(want)
	return want
}

// first is the index of the first task with the smallest key, -1 if there is none.
func (m *model) first(of func(*modelTask) bool, key func(*modelTask) int) int {
	found := -1
	for i, x := range m.tasks {
		if of(x) && (found < 0 || key(x) < key(m.tasks[found])) {
			found = i
		}
	}
	return found
}

// trial drives a gate and the model with events of a seed.
type trial struct {
	t      *testing.T
	rng    *rand.Rand
	g      Gate
	m      model
	limits []*Limit
	scopes []*Scope
	over   []bool        // scopes that are cancelled
	watch  map[int]bool  // scopes that are watched
	runs   map[*Task]int // how often a task was handed out
	ends   map[*Task]int // how often it was skipped or ended for good
	log    []string
}

func (tr *trial) fatal(format string, args ...any) {
	tr.t.Helper()
	for _, l := range tr.log {
		tr.t.Log(l)
	}
	tr.t.Fatalf(format, args...)
}

// check compares what the gate asks for with what the model says.
func (tr *trial) check(acts []Action, want []string) {
	tr.t.Helper()
	var got []string
	for _, a := range acts {
		if a.Scope != nil {
			i := slices.Index(tr.scopes, a.Scope)
			if tr.watch[i] == (a.Kind == Watch) {
				tr.fatal("scope %d is watched twice, or not", i)
			}
			tr.watch[i] = a.Kind == Watch
			continue
		}
		x := tr.m.find(a.Task)
		name := map[Kind]string{Queue: "queue", Offer: "offer", Start: "start", Continue: "continue", Pause: "pause", Skip: "skip"}[a.Kind]
		switch {
		case a.Kind == Queue || a.Kind == Start:
			tr.runs[a.Task]++
		case a.Kind == Skip:
			tr.ends[a.Task]++
			if a.Cause != nil {
				name = "skip for a predecessor"
				if p := tr.m.find(a.Cause); !slices.Contains(x.after, p) || !p.failed {
					tr.fatal("%v is no reason to skip a task", p)
				}
			}
		}
		got = append(got, fmt.Sprint(name, " ", slices.Index(tr.m.tasks, x)))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		tr.fatal("the gate asks for %q, the model for %q", got, want)
	}
	for i, x := range tr.m.tasks {
		if x.t.place != x.place {
			tr.fatal("task %d is %v, in the model %v", i, x.t.place, x.place)
		}
	}
	for i, l := range tr.limits {
		if l.used != tr.m.used(i) || l.used > l.most {
			tr.fatal("limit %d of %d has %d", i, l.most, l.used)
		}
	}
	for i, s := range tr.scopes {
		held := 0
		for _, x := range tr.m.tasks {
			if x.scope == i && x.place.held() {
				held++
			}
		}
		if s.count != held || tr.watch[i] != (held > 0) {
			tr.fatal("scope %d holds %d tasks, should %d; watched %v", i, s.count, held, tr.watch[i])
		}
	}
}

func (tr *trial) add() {
	m := &tr.m
	x := &modelTask{limit: tr.rng.IntN(len(m.most)+2) - 2, scope: tr.rng.IntN(len(tr.scopes)), place: waiting}
	x.limit = max(x.limit, -1)
	if tr.rng.IntN(2) == 0 {
		x.priority = tr.rng.IntN(5) - 2
	}
	if tr.rng.IntN(3) == 0 {
		x.retries = tr.rng.IntN(3)
	}
	x.t = &Task{Priority: int32(x.priority), Retries: int32(x.retries)}
	if x.limit >= 0 {
		x.t.Limit = tr.limits[x.limit]
	}
	var after []*Task
	for range tr.rng.IntN(4) {
		if len(m.tasks) > 0 {
			p := m.tasks[len(m.tasks)-1-tr.rng.IntN(min(len(m.tasks), 8))]
			x.after = append(x.after, p)
			after = append(after, p.t)
		}
	}
	m.tasks = append(m.tasks, x)
	i := len(m.tasks) - 1
	tr.log = append(tr.log, fmt.Sprintf("add %d: after %d tasks, limit %d, priority %d, retries %d, scope %d", i, len(after), x.limit, x.priority, x.retries, x.scope))
	var want []string
	if tr.over[x.scope] {
		x.place, x.failed = over, true
		want = append(want, fmt.Sprint("skip ", i))
	}
	tr.check(tr.g.Add(x.t, tr.scopes[x.scope], after, nil), append(want, m.settle()...))
}

// some draws a task that is at one of the places, -1 if there is none.
func (tr *trial) some(places ...place) int {
	var at []int
	for i, x := range tr.m.tasks {
		if slices.Contains(places, x.place) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return -1
	}
	return at[tr.rng.IntN(len(at))]
}

func (tr *trial) end(failed bool) {
	i := tr.some(out, out, blocked, returning)
	if i < 0 {
		return
	}
	x := tr.m.tasks[i]
	tr.log = append(tr.log, fmt.Sprintf("end %d, which is %v: failed %v", i, x.place, failed))
	var want []string
	if x.place == returning {
		want = append(want, fmt.Sprint("continue ", i))
	}
	if failed && x.retries > 0 && !tr.over[x.scope] {
		x.retries--
		x.place = pausing
		want = append(want, fmt.Sprint("pause ", i))
	} else {
		x.place, x.failed = over, failed
		tr.ends[x.t]++
	}
	want = append(want, tr.m.settle()...)
	slices.Sort(want)
	tr.check(tr.g.Ended(x.t, failed, nil), want)
}

func (tr *trial) cancel() {
	s := tr.rng.IntN(len(tr.scopes))
	tr.log = append(tr.log, fmt.Sprint("cancel scope ", s))
	tr.over[s] = true
	acts := tr.g.Cancel(tr.scopes[s], nil)
	var want []string
	for i, x := range tr.m.tasks {
		if x.scope == s && x.place.held() {
			x.place, x.failed = over, true
			want = append(want, fmt.Sprint("skip ", i))
		}
	}
	want = append(want, tr.m.settle()...)
	slices.Sort(want)
	tr.check(acts, want)
}

func (tr *trial) next(idle bool) {
	sign := 1
	if idle {
		sign = -1
	}
	i := tr.m.first(func(x *modelTask) bool { return x.limit < 0 && x.place == lined && x.priority*sign > 0 }, func(x *modelTask) int { return -x.priority })
	got, acts := tr.g.Next(idle, nil)
	tr.log = append(tr.log, fmt.Sprintf("next, idle %v: %d", idle, i))
	if i < 0 {
		if got != nil {
			tr.fatal("Next has a task, the model none")
		}
		return
	}
	if got != tr.m.tasks[i].t {
		tr.fatal("Next has a task that is not the first")
	}
	tr.runs[got]++
	tr.m.tasks[i].place = out
	tr.check(acts, nil)
}

func (tr *trial) event() {
	switch tr.rng.IntN(12) {
	case 0, 1, 2:
		tr.add()
	case 3, 4, 5:
		tr.end(tr.rng.IntN(4) == 0)
	case 6:
		tr.next(tr.rng.IntN(2) == 0)
	case 7, 8:
		if i := tr.some(out); i >= 0 && tr.m.tasks[i].limit >= 0 {
			tr.log = append(tr.log, fmt.Sprint("block ", i))
			tr.m.tasks[i].place = blocked
			tr.check(tr.g.Block(tr.m.tasks[i].t, nil), tr.m.settle())
		}
		if i := tr.some(returning); i >= 0 { // another goroutine of the task waits
			tr.log = append(tr.log, fmt.Sprint("block ", i, ", which is returning"))
			tr.m.tasks[i].place = blocked
			tr.check(tr.g.Block(tr.m.tasks[i].t, nil), append([]string{fmt.Sprint("continue ", i)}, tr.m.settle()...))
		}
	case 9:
		if i := tr.some(blocked); i >= 0 {
			tr.log = append(tr.log, fmt.Sprint("unblock ", i))
			tr.m.stamp++
			tr.m.tasks[i].place, tr.m.tasks[i].stamp = returning, tr.m.stamp
			tr.check(tr.g.Unblock(tr.m.tasks[i].t, nil), tr.m.settle())
		}
	case 10:
		if i := tr.some(pausing); i >= 0 {
			tr.log = append(tr.log, fmt.Sprint("again ", i))
			tr.m.tasks[i].place = waiting // for none that has not ended
			tr.check(tr.g.Again(tr.m.tasks[i].t, nil), tr.m.settle())
		}
	case 11:
		if tr.rng.IntN(20) == 0 {
			tr.cancel()
		}
	}
}

// finish lets everything end and sees that nothing is left.
func (tr *trial) finish() {
	for range 100_000 {
		tr.next(false)
		tr.next(true)
		if i := tr.some(blocked); i >= 0 {
			tr.m.stamp++
			tr.m.tasks[i].place, tr.m.tasks[i].stamp = returning, tr.m.stamp
			tr.check(tr.g.Unblock(tr.m.tasks[i].t, nil), tr.m.settle())
		}
		if i := tr.some(pausing); i >= 0 {
			tr.m.tasks[i].place = waiting
			tr.check(tr.g.Again(tr.m.tasks[i].t, nil), tr.m.settle())
		}
		if tr.some(out, blocked, returning, pausing, lined) < 0 {
			break
		}
		tr.end(false)
	}
	for i, x := range tr.m.tasks {
		if x.t.place != over || tr.ends[x.t] != 1 {
			tr.fatal("task %d is %v and ended %d times", i, x.t.place, tr.ends[x.t])
		}
		if !x.failed && tr.runs[x.t] == 0 {
			tr.fatal("task %d succeeded and did not run", i)
		}
	}
	if u, l := tr.g.Lined(); u+l != 0 {
		tr.fatal("%d tasks are left in lines", u+l)
	}
}

// TestGate compares the gate with the model after every event. It finds a limit that is off
// by one, a priority that is not kept, a task started twice or never, a cancelled one that
// starts, a retry too many, and lists that do not agree with places.
func TestGate(t *testing.T) {
	for seed := range uint64(*seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			tr := &trial{t: t, rng: rand.New(rand.NewPCG(seed, 1)), watch: make(map[int]bool), runs: make(map[*Task]int), ends: make(map[*Task]int)}
			for range 1 + tr.rng.IntN(3) {
				most := 1 + tr.rng.IntN(3)
				tr.m.most = append(tr.m.most, most)
				tr.limits = append(tr.limits, NewLimit(most))
			}
			for range 1 + tr.rng.IntN(3) {
				tr.scopes = append(tr.scopes, &Scope{})
				tr.over = append(tr.over, false)
			}
			for range 300 {
				tr.event()
			}
			tr.finish()
		})
	}
}

// TestLine compares the heap with a sorted list.
func TestLine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var l line
	var want []*Task
	for i := range 5000 {
		if rng.IntN(5) < 3 {
			x := &Task{Priority: int32(rng.IntN(5)), seq: uint64(i)}
			l.push(x)
			want = append(want, x)
		} else if len(want) > 0 {
			x := want[rng.IntN(len(want))]
			l.remove(int(x.index))
			want = slices.DeleteFunc(want, func(y *Task) bool { return y == x })
		}
		slices.SortFunc(want, func(a, b *Task) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.seq, b.seq))
		})
		if len(l) != len(want) || len(l) > 0 && l[0] != want[0] {
			t.Fatalf("after %d changes the first is not the first", i+1)
		}
	}
}

// A chain of a million successors is skipped without recursion.
func TestLongChain(t *testing.T) {
	var g Gate
	s := &Scope{}
	first := Outside(nil)
	p := first
	for range 1_000_000 {
		x := &Task{}
		g.Add(x, s, []*Task{p}, nil)
		p = x
	}
	acts := g.Ended(first, true, nil)
	if n := len(acts); n != 1_000_001 || acts[n-1].Kind != Unwatch && acts[n-2].Kind != Unwatch {
		t.Errorf("%d actions", n)
	}
	if !p.Over() {
		t.Error("the last is not over")
	}
}
