package engine_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// line is tasks of a millisecond in a row, each with a result of some bytes that the next one reads.
// A run of it holds two of them at a time.
func line(t *testing.T, name string, n int, bytes int64) *graph.Graph {
	return build(t, func(b *graph.Builder) {
		last := graph.DataID(-1)
		for i := range n {
			x := b.Data(graph.Data{Name: fmt.Sprint(name, i), Bytes: bytes})
			uses := []graph.Use{writes(x)}
			if last >= 0 {
				uses = append(uses, reads(last))
			}
			b.Add(job(fmt.Sprint(name, i), 1, uses...))
			last = x
		}
		b.Add(job(name+" end", 1, reads(last), writes(b.Data(graph.Data{Name: "out", Bytes: 8, Output: true}))))
	})
}

// withHost is a machine with a limit of host memory.
func withHost(m *machine.Machine, bytes int64) *machine.Machine {
	m.HostBytes = bytes
	return m
}

// Runs that each fit into host memory all end well, however many are submitted at a time: in
// memory of the host, and where device memory can only be left for it.
func TestRunsThatFitAloneFit(t *testing.T) {
	for name, m := range map[string]*machine.Machine{"cpu": withHost(cpus(2), 100), "gpu": withHost(gpus(2, 100), 100)} {
		for _, tasks := range []int{2, 5} { // 5 need more than the limit by the bound, and less in fact
			r := newRig(t, m, engine.Options{})
			var runs []engine.RunID
			for k := range 16 {
				runs = append(runs, r.submit(line(t, fmt.Sprint(k, " "), tasks, 40), engine.RunOptions{Priority: k % 3}))
			}
			if err := r.finish(runs...); err != nil {
				t.Errorf("%s, %d tasks: %v", name, tasks, err)
			}
			var ended time.Duration
			for k, id := range runs {
				rep := r.ended[id].Report
				if rep.Started < ended {
					t.Errorf("%s, %d tasks: run %d began at %v, before the one in front of it ended at %v", name, tasks, k, rep.Started, ended)
				}
				ended = rep.Ended
			}
			equal(t, name+": bytes used at the end", r.e.Status(0).MemUsed, 0)
		}
	}
}

// Runs begin together as far as their needs fit, in the order of submission: a large one waits for
// those before it, and small ones that came later wait for the large one. Runs that need no room
// pass them.
func TestLargeRunIsNotOvertaken(t *testing.T) {
	r := newRig(t, withHost(cpus(4), 100), engine.Options{})
	submit := func(name string, bytes int64) engine.RunID {
		return r.submit(line(t, name, 1, bytes), engine.RunOptions{})
	}
	first, second := submit("first", 30), submit("second", 30)
	large, small := submit("large", 90), submit("small", 10)
	free := r.submit(build(t, func(b *graph.Builder) { // only what goes into the caller's memory
		b.Add(job("free", 0.5, writes(b.Data(graph.Data{Name: "out", Bytes: 200, Output: true}))))
	}), engine.RunOptions{})
	r.finish(first, second, large, small, free)
	at := func(id engine.RunID) time.Duration { return r.ended[id].Report.Started }
	equal(t, "begin of the first", at(first), 0)
	equal(t, "begin of the second, which fits beside it", at(second), 0)
	equal(t, "begin of the one that needs nothing", at(free), 0)
	if both := max(r.ended[first].Report.Ended, r.ended[second].Report.Ended); at(large) != both {
		t.Errorf("the large run began at %v, and there was room at %v", at(large), both)
	}
	equal(t, "begin of the small run", at(small), at(large)) // 90 and 10
}

// A run that can never fit fails alone, with an error that says what is short, and those that wait
// behind it go on.
func TestRunThatNeverFits(t *testing.T) {
	r := newRig(t, withHost(cpus(1), 100), engine.Options{})
	before := r.submit(line(t, "before", 2, 40), engine.RunOptions{})
	never := r.submit(line(t, "never", 2, 60), engine.RunOptions{})
	after := r.submit(line(t, "after", 2, 40), engine.RunOptions{})
	r.finish(before, never, after)
	is(t, r.ended[before].Err, nil)
	is(t, r.ended[never].Err, engine.ErrOutOfMemory)
	if err := r.ended[never].Err; err == nil || !strings.Contains(err.Error(), "60 more are needed in host memory, of whose 100 40 are free") {
		t.Errorf("the error is %v", err)
	}
	is(t, r.ended[after].Err, nil)
}

// A run whose need is beyond all numbers waits until it is alone, too.
func TestNeedBeyondAllNumbers(t *testing.T) {
	for name, m := range map[string]*machine.Machine{"cpu": withHost(cpus(2), 100), "gpu": withHost(gpus(2, 100), 100)} {
		for _, c := range []struct {
			tasks  int
			beside int64
		}{{8, 0}, {16, 0}, {1, math.MaxInt64}} { // wrapped, the sums are negative or 0
			r := newRig(t, m, engine.Options{})
			hold := r.submit(line(t, "hold", 1, 60), engine.RunOptions{})
			huge := r.submit(line(t, "huge", c.tasks, 1<<60), engine.RunOptions{Beside: c.beside})
			r.finish(hold, huge)
			is(t, r.ended[hold].Err, nil)
			is(t, r.ended[huge].Err, engine.ErrOutOfMemory)
			if began, ended := r.ended[huge].Report.Started, r.ended[hold].Report.Ended; began < ended {
				t.Errorf("%s: the run of %d tasks began at %v, before %v", name, c.tasks, began, ended)
			}
		}
	}
}

// A run that waits for room can be cancelled, says what it waited for, and does not hold up those
// behind it.
func TestCancelWhileItWaitsForRoom(t *testing.T) {
	r := newRig(t, withHost(cpus(2), 100), engine.Options{})
	r.hang["hold0"] = true
	hold := r.submit(line(t, "hold", 1, 60), engine.RunOptions{})
	large, small := r.submit(line(t, "large", 1, 60), engine.RunOptions{}), r.submit(line(t, "small", 1, 20), engine.RunOptions{})
	r.starts("hold0")
	if r.count("large0")+r.count("small0") > 0 || r.ended[small].Report != nil {
		t.Errorf("launched: %v", r.launched)
	}
	r.step(engine.Event{Kind: engine.Cancel, Run: large})
	r.until("the small run", func() bool { return r.ended[small].Report != nil })
	is(t, r.ended[large].Err, engine.ErrCancelled)
	if err := r.ended[large].Err; err == nil || !strings.Contains(err.Error(), "while it waited for host memory: it may need 60, and 60 of 100 are promised to other runs") {
		t.Errorf("the error is %v", err)
	}
	is(t, r.ended[small].Err, nil)
	r.step(engine.Event{Kind: engine.Cancel, Run: hold})
}

// What ended runs leave in host memory, because resident data has it, counts; and a run that waits
// for room keeps its place in the line for resident data.
func TestResidentDataCountsForRoom(t *testing.T) {
	r := newRig(t, withHost(cpus(2), 100), engine.Options{})
	ref := r.e.NewData("x", 50, graph.Versioned)
	update := build(t, func(b *graph.Builder) {
		b.Add(job("update", 1, updates(b.Data(graph.Data{Name: "x", Bytes: 50, Input: true}))))
	})
	r.mustRun(r.submit(update, bound(ref)))
	equal(t, "bytes held for resident data", r.e.Status(0).MemUsed, 50)
	a, b := r.submit(line(t, "a", 1, 30), engine.RunOptions{}), r.submit(line(t, "b", 1, 30), engine.RunOptions{})
	again := r.submit(update, bound(ref))
	r.finish(a, b, again)
	for _, id := range []engine.RunID{a, b, again} {
		is(t, r.ended[id].Err, nil)
	}
	if r.ended[b].Report.Started < r.ended[a].Report.Ended {
		t.Errorf("a run began with 30 of 100 bytes beside another one and 50 bytes of resident data")
	}
	// A run that has no room beside it has it copied into the caller's memory.
	r.mustRun(r.submit(line(t, "c", 1, 90), engine.RunOptions{}))
	equal(t, "bytes held for resident data afterwards", r.e.Status(0).MemUsed, 0)
	r.e.Fetch(ref)
	r.until("fetched", func() bool { return len(r.fetched) == 1 })
	is(t, r.fetchErr, nil)
}

// A run of which another waits for the end begins without room of its own: that is in the need of
// the other, which counts what is besides its own.
func TestRunsWithinARunNeedNoRoom(t *testing.T) {
	r := newRig(t, withHost(cpus(2), 100), engine.Options{})
	r.hang["outer0"] = true
	outer := r.submit(line(t, "outer", 1, 40), engine.RunOptions{Beside: 40})
	r.starts("outer0")
	other := r.submit(line(t, "other", 1, 40), engine.RunOptions{})
	inner := r.submit(line(t, "inner", 1, 40), engine.RunOptions{Of: outer, OfTask: 0})
	r.until("the inner run", func() bool { return r.ended[inner].Report != nil })
	is(t, r.ended[inner].Err, nil)
	if r.ended[other].Report != nil {
		t.Errorf("another run had room that was promised")
	}
	r.step(engine.Event{Kind: engine.Cancel, Run: outer})
	r.step(engine.Event{Kind: engine.Cancel, Run: other})
}
