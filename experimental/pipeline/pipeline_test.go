package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/pipeline"
	"github.com/weft-run/weft/fault"
	"github.com/weft-run/weft/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage adds a digit to a number, after it has waited.
func stage(name string, wait time.Duration, workers int) pipeline.Stage[int] {
	return pipeline.Stage[int]{Name: name, Workers: workers, Do: func(_ context.Context, x *int) error {
		time.Sleep(wait)
		*x = *x*10 + 1
		return nil
	}}
}

// upTo are the numbers below n.
func upTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// run runs a stream and returns its items as they came.
func run[T any](t *testing.T, o pipeline.Options, source iter.Seq[T], stages ...pipeline.Stage[T]) ([]pipeline.Item[T], *pipeline.Report) {
	t.Helper()
	p, err := pipeline.New(o, stages...)
	if err != nil {
		t.Fatal(err)
	}
	var out []pipeline.Item[T]
	rep, err := p.Run(t.Context(), source, func(it pipeline.Item[T]) error { out = append(out, it); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return out, rep
}

// Equal stages with one worker each are idle for the formula's part of the time,
// which in virtual time is exact.
func TestBubble(t *testing.T) {
	for _, c := range []struct{ stages, items int }{{1, 5}, {2, 1}, {4, 64}, {7, 3}} {
		synctest.Test(t, func(t *testing.T) {
			var stages []pipeline.Stage[int]
			for s := range c.stages {
				stages = append(stages, stage(fmt.Sprint(s), time.Second, 1))
			}
			_, rep := run(t, pipeline.Options{}, upTo(c.items), stages...)
			want := float64(c.stages-1) / float64(c.stages-1+c.items)
			if math.Abs(rep.Bubble-want) > 1e-12 || math.Abs(pipeline.Bubble(c.stages, c.items)-want) > 1e-12 {
				t.Errorf("%d stages, %d items: bubble %v, want %v", c.stages, c.items, rep.Bubble, want)
			}
			if took := time.Duration(c.stages-1+c.items) * time.Second; rep.Elapsed != took {
				t.Errorf("%d stages, %d items: took %v, want %v", c.stages, c.items, rep.Elapsed, took)
			}
		})
	}
}

// The slowest stage, by its workers, sets the pace, and its neighbours' waits
// tell on which side of it they are.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rep := run(t, pipeline.Options{}, upTo(100),
			stage("quick", time.Second, 1), stage("shared", 8*time.Second, 4), stage("slow", 3*time.Second, 1), stage("last", time.Second, 1))
		if s := rep.Slowest(); s.Name != "slow" || s.Busy != 300*time.Second {
			t.Errorf("the slowest stage is %s, busy for %v", s.Name, s.Busy)
		}
		if want := (1 + 8 + 100*3 + 1) * time.Second; rep.Elapsed != want {
			t.Errorf("took %v, want %v", rep.Elapsed, want)
		}
		if rep.Stages[0].Blocked < 100*time.Second || rep.Stages[3].Starved < 100*time.Second || rep.Stages[3].Blocked != 0 {
			t.Errorf("stages waited: %+v", rep.Stages)
		}
	})
}

// A stage that stands still stops the source when workers and queues are full.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken atomic.Int32
		source := func(yield func(int) bool) {
			for i := 0; i < 1000 && yield(i); i++ {
				taken.Add(1)
			}
		}
		gate := make(chan struct{})
		stuck := pipeline.Stage[int]{Name: "stuck", Workers: 2, Queue: 3, Do: func(context.Context, *int) error { <-gate; return nil }}
		p, err := pipeline.New(pipeline.Options{}, stage("first", 0, 1), stuck)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if _, err := p.Run(t.Context(), source, func(pipeline.Item[int]) error { return nil }); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		// First has a worker and a queue of one, stuck two and three.
		if n := taken.Load(); n != 7 {
			t.Errorf("the source gave %d items, want 7", n)
		}
		close(gate)
		<-ended
		if n := taken.Load(); n != 1000 {
			t.Errorf("the source gave %d items in the end", n)
		}
	})
}

// Items whose work takes longer the earlier they are come out in reverse, unless
// order is asked for, at the end or at a stage.
func TestOrder(t *testing.T) {
	const n = 16
	for _, ordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var seen []int
			shuffle := pipeline.Stage[int]{Workers: n, Do: func(_ context.Context, x *int) error {
				time.Sleep(time.Duration(n-*x) * time.Second)
				return nil
			}}
			note := pipeline.Stage[int]{Ordered: ordered, Do: func(_ context.Context, x *int) error {
				seen = append(seen, *x)
				if *x == 3 {
					return errors.New("no threes")
				}
				return nil
			}}
			out, rep := run(t, pipeline.Options{Ordered: ordered}, upTo(n), shuffle, note, shuffle)
			if len(out) != n || rep.Items != n || rep.Failed != 1 {
				t.Fatalf("%d items, %+v", len(out), rep)
			}
			if slices.IsSorted(seen) != ordered {
				t.Errorf("ordered %v: the stage saw %v", ordered, seen)
			}
			inOrder := slices.IsSortedFunc(out, func(a, b pipeline.Item[int]) int { return a.Index - b.Index })
			if inOrder != ordered {
				t.Errorf("ordered %v: items came as %v", ordered, out)
			}
		})
	}
}

// An item that fails or panics skips what comes after, says where, and does not
// stop the others.
func TestItemErrors(t *testing.T) {
	bad := errors.New("bad number")
	check := pipeline.Stage[int]{Name: "check", Workers: 3, Do: func(_ context.Context, x *int) error {
		switch *x % 10 {
		case 4:
			return bad
		case 7:
			panic("seven")
		}
		return nil
	}}
	out, rep := run(t, pipeline.Options{Ordered: true}, upTo(100), check, stage("mark", 0, 2))
	if rep.Failed != 20 || rep.Items != 100 || rep.Stages[0].Failed != 20 || rep.Stages[1].Items != 80 {
		t.Errorf("%+v", rep)
	}
	for i, it := range out {
		want := map[int]error{4: bad, 7: weft.ErrPanic}[i%10]
		if want == nil {
			if it.Err != nil || it.Value != i*10+1 {
				t.Errorf("item %d: %+v", i, it)
			}
			continue
		}
		var ie *pipeline.ItemError
		if !errors.Is(it.Err, want) || !errors.As(it.Err, &ie) || ie.Index != i || ie.Stage != "check" || it.Value != i {
			t.Errorf("item %d: %+v", i, it)
		}
		var pe *weft.PanicError
		if errors.As(ie, &pe) != (i%10 == 7) || pe != nil && !strings.Contains(pe.At, "pipeline_test.go:") {
			t.Errorf("item %d: %v", i, ie)
		}
	}
}

// The stream ends early when its context does or when the caller has enough, and
// comes to rest.
func TestStop(t *testing.T) {
	enough := errors.New("enough")
	endless := func(yield func(int) bool) {
		for i := 0; yield(i); i++ {
		}
	}
	p, err := pipeline.New(pipeline.Options{Ordered: true}, stage("a", 0, 2), stage("b", 0, 3))
	if err != nil {
		t.Fatal(err)
	}
	rep, err := p.Run(t.Context(), endless, func(it pipeline.Item[int]) error {
		if it.Index == 10 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || rep.Items != 11 {
		t.Errorf("%v after %d items", err, rep.Items)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = p.Run(ctx, endless, func(it pipeline.Item[int]) error {
		if it.Index == 5 {
			cancel(enough)
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("cancelled: %v", err)
	}
	// Once more, to its end.
	if rep, err := p.Run(t.Context(), upTo(0), func(pipeline.Item[int]) error { return enough }); err != nil || rep.Items != 0 || rep.Bubble != 0 {
		t.Errorf("nothing to do: %v, %+v", err, rep)
	}
}

// A panic of the source is an error of Run, and one of done goes on in the goroutine that
// called Run. TestMain sees whether all goroutines have ended.
func TestPanics(t *testing.T) {
	p, err := pipeline.New(pipeline.Options{}, stage("a", 0, 2), stage("b", 0, 3))
	if err != nil {
		t.Fatal(err)
	}
	bad := func(yield func(int) bool) {
		yield(1)
		panic("no more")
	}
	var panicked *weft.PanicError
	if rep, err := p.Run(t.Context(), bad, func(pipeline.Item[int]) error { return nil }); !errors.As(err, &panicked) || panicked.Value != "no more" || rep == nil {
		t.Errorf("the source panicked: %v, report %v", err, rep)
	}
	defer func() {
		if r := recover(); r != "done" {
			t.Errorf("done panicked: recovered %v", r)
		}
	}()
	p.Run(t.Context(), upTo(1000), func(pipeline.Item[int]) error { panic("done") })
}

// A source or a stage that ends its goroutine ends the run with an error: items are missing.
func TestGoexit(t *testing.T) {
	quit := pipeline.Stage[int]{Name: "quit", Do: func(_ context.Context, x *int) error {
		if *x == 31 { // 3, and the digit of the first stage
			runtime.Goexit()
		}
		return nil
	}}
	part := func(yield func(int) bool) {
		yield(1)
		runtime.Goexit()
	}
	ordered := quit
	ordered.Ordered = true
	for name, c := range map[string]struct {
		source iter.Seq[int]
		stage  pipeline.Stage[int]
	}{"source": {part, stage("a", 0, 2)}, "stage": {upTo(100), quit}, "ordered stage": {upTo(100), ordered}} {
		for _, o := range []pipeline.Options{{}, {Ordered: true}} {
			p, err := pipeline.New(o, stage("first", 0, 2), c.stage, stage("last", 0, 2))
			if err != nil {
				t.Fatal(err)
			}
			if rep, err := p.Run(t.Context(), c.source, func(pipeline.Item[int]) error { return nil }); !errors.Is(err, fault.ErrGoexit) || rep == nil {
				t.Errorf("%s, %+v: %v", name, o, err)
			}
		}
	}
}

func TestRunRefuses(t *testing.T) {
	p, err := pipeline.New(pipeline.Options{}, stage("a", 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(t.Context(), nil, func(pipeline.Item[int]) error { return nil }); !errors.Is(err, pipeline.ErrStages) {
		t.Errorf("no source: %v", err)
	}
	if _, err := p.Run(t.Context(), upTo(1), nil); !errors.Is(err, pipeline.ErrStages) {
		t.Errorf("nothing to hand over to: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	do := func(context.Context, *int) error { return nil }
	for _, stages := range [][]pipeline.Stage[int]{
		nil, {{}}, {{Do: do, Workers: -1}}, {{Do: do, Workers: 257}}, {{Do: do, Queue: -1}}, {{Do: do, Ordered: true, Workers: 2}},
	} {
		if _, err := pipeline.New(pipeline.Options{}, stages...); !errors.Is(err, pipeline.ErrStages) {
			t.Errorf("%+v: %v", stages, err)
		}
	}
	if _, err := pipeline.New(pipeline.Options{InFlight: -1}, pipeline.Stage[int]{Do: do}); !errors.Is(err, pipeline.ErrStages) {
		t.Errorf("items in flight: %v", err)
	}
}

// The trace shows the stages at work at the same time.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rep := run(t, pipeline.Options{Spans: 1000}, upTo(8), stage("one", time.Second, 1), stage("two", 2*time.Second, 2))
		var b bytes.Buffer
		if err := rep.WriteTrace(&b); err != nil {
			t.Fatal(err)
		}
		saved, err := trace.ReadChrome(&b)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, d := range saved.Machine.Devices {
			names = append(names, d.Name)
		}
		if !slices.Equal(names, []string{"one", "two"}) || len(saved.Events) != 16 {
			t.Errorf("devices %v, %d events", names, len(saved.Events))
		}
		both := 0 // spans of the first stage while the second works
		for _, a := range saved.Events {
			if a.Device == 0 && slices.ContainsFunc(saved.Events, func(b trace.Event) bool {
				return b.Device == 1 && b.Start < a.End && a.Start < b.End
			}) {
				both++
			}
		}
		if both != 7 {
			t.Errorf("%d of 8 spans overlap, want all but the first", both)
		}
	})
}
