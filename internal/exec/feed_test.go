package exec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weft-run/weft/internal/engine"
)

// byHand returns a loop to which notices are given by hand.
func byHand(t *testing.T) (*Executor, *loop) {
	t.Helper()
	x := &Executor{}
	l := &loop{x: x, engine: &engine.Engine{}}
	return x, l
}

// add has the loop take a reader.
func add(x *Executor, l *loop, kinds uint32, run engine.RunID) *Feed {
	f := x.newFeed(kinds)
	f.run = run
	l.feed(f)
	return f
}

// Feeds are told what they want, in order, whatever others want and however late they read,
// as a model says that keeps a list for each.
func TestFeedsModel(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 0))
		x, l := byHand(t)
		type reader struct {
			f      *Feed
			want   []int // numbers of the notices
			missed uint64
		}
		var readers []*reader
		number := 0
		for range 100 {
			switch k := r.IntN(10); {
			case k == 0 && len(readers) < 12:
				kinds := []uint32{AllKinds, Kinds(engine.TaskDone), Kinds(engine.RunEnded, engine.RunBegan)}[r.IntN(3)]
				run := engine.RunID(r.IntN(4))
				if run != 0 {
					kinds = AllKinds
					for _, o := range readers { // a run is followed once
						if o.f.run == run {
							run = 0
						}
					}
				}
				readers = append(readers, &reader{f: add(x, l, kinds, run)})
			case k == 1 && len(readers) > 0:
				i := r.IntN(len(readers))
				l.unfeed(readers[i].f)
				readers = append(readers[:i], readers[i+1:]...)
			case k < 5 && len(readers) > 0:
				o := readers[r.IntN(len(readers))]
				got, missed, _ := o.f.Take(nil)
				same := slices.EqualFunc(got, o.want, func(n engine.Notice, number int) bool { return n.Run.Done == number })
				if !same || missed != o.missed {
					t.Fatalf("seed %d: a feed of kinds %b, run %d got %d and missed %d, want %d and %d", seed, o.f.kinds, o.f.run, len(got), missed, len(o.want), o.missed)
				}
				o.want, o.missed = nil, 0
			default:
				for range r.IntN(1500) {
					number++
					n := engine.Notice{Kind: engine.NoticeKind(r.IntN(engine.NoticeKinds)), Task: -1, Took: 1}
					n.Run.ID, n.Run.Done = engine.RunID(r.IntN(4)), number
					l.notice(&n)
					for _, o := range readers {
						if o.f.kinds>>n.Kind&1 == 0 || o.f.run != 0 && o.f.run != n.Run.ID {
							continue
						}
						if o.want = append(o.want, number); len(o.want) > feedLength {
							o.want, o.missed = o.want[1:], o.missed+1
						}
					}
				}
				l.publish()
			}
		}
	}
}

// What readers cost the loop does not grow with their number: not with that of readers of the
// same kinds, and for runs that are followed only as their tasks do.
func TestFeedCost(t *testing.T) {
	cost := func(readers, followed int) uint64 {
		x, l := byHand(t)
		for range readers {
			add(x, l, AllKinds, 0)
		}
		for run := range followed {
			add(x, l, AllKinds, engine.RunID(run+1))
		}
		for i := range 100 * max(followed, 1) {
			n := engine.Notice{Kind: engine.TaskDone}
			n.Run.ID = engine.RunID(i%max(followed, 1) + 1)
			l.notice(&n)
		}
		l.publish()
		return l.feeds.looked
	}
	for n := 1; n < 500; n *= 2 {
		if few, many := cost(n, 0), cost(2*n, 0); float64(many) > 2.5*float64(few) || many != cost(1, 0) {
			t.Errorf("%d readers look at %d notices, %d at %d", n, few, 2*n, many)
		}
		if few, many := cost(0, n), cost(0, 2*n); float64(many) > 2.5*float64(few) {
			t.Errorf("%d followed runs look at %d notices, %d at %d", n, few, 2*n, many)
		}
	}
}

// Graphs and errors are not kept alive by a notice that every reader has taken, or left.
func TestFeedLetsGo(t *testing.T) {
	x, l := byHand(t)
	a, b := add(x, l, AllKinds, 0), add(x, l, AllKinds, 0)
	l.notice(&engine.Notice{Kind: engine.TaskFailed, Err: fmt.Errorf("something large")})
	l.publish()
	k := l.feeds.all[0]
	a.Take(nil)
	if k.ring[0].Err == nil {
		t.Fatal("it is gone before all have taken it")
	}
	k.leave(b)
	if k.ring[0].Err != nil {
		t.Error("it is kept though all have taken it")
	}
	l.unfeed(a)
	if l.unfeed(b); len(l.feeds.all) != 0 || l.feeds.count != 0 {
		t.Error("what is kept outlives its readers")
	}
}

// A reader that leaves takes nothing of what comes after it from the others, whether it is
// taken out of the loop's list before its last look or after.
func TestFeedLeavesTheRest(t *testing.T) {
	x, l := byHand(t)
	a, b := add(x, l, AllKinds, 0), add(x, l, AllKinds, 0)
	l.unfeed(b)
	l.notice(&engine.Notice{Kind: engine.TaskFailed, Err: errors.New("told to one")})
	l.publish()
	b.Take(nil)
	l.feeds.all[0].leave(b)
	if ns, _, _ := a.Take(nil); len(ns) != 1 || ns[0].Err == nil {
		t.Errorf("the other reader takes %+v", ns)
	}
	l.unfeed(a)
}

// Readers and the loop at the same time: every reader hears of every notice or of its loss, and
// is woken for it.
func TestFeedsAtOnce(t *testing.T) {
	const notices = 20_000
	x, l := byHand(t)
	var all sync.WaitGroup
	for range 4 {
		f := add(x, l, AllKinds, 0)
		all.Go(func() {
			heard := uint64(0)
			for heard < notices {
				<-f.Ready()
				ns, missed, _ := f.Take(nil)
				heard += uint64(len(ns)) + missed
			}
			if heard != notices {
				t.Errorf("heard of %d notices of %d", heard, notices)
			}
		})
	}
	for range notices {
		l.notice(&engine.Notice{Kind: engine.TaskDone})
	}
	l.publish()
	all.Wait()
}
