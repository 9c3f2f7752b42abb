package exec

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// Callers that wait for the same data at the same time are all answered, and nothing of
// them is kept.
func TestFetchTogether(t *testing.T) {
	x := open(t, Config{Drivers: []driver.Driver{faked(t, "devices 1", incs)}})
	ref, err := x.Put("x", make([]byte, 8), graph.Versioned)
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	x.do(func(*loop) { <-gate })
	const callers = 3
	read, answers := make(chan struct{}, callers), make(chan error, callers)
	for range callers {
		go func() {
			answers <- x.Fetch(context.Background(), ref, func() error { return nil }, func() { read <- struct{}{} })
		}()
	}
	for end := time.Now().Add(time.Minute); len(x.calls) < callers; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the callers do not ask")
		}
	}
	close(gate)
	for range callers {
		select {
		case err := <-answers:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a caller is not answered")
		}
	}
	if len(read) != callers {
		t.Errorf("%d of %d read", len(read), callers)
	}
	left := make(chan int, 1)
	x.do(func(l *loop) { left <- len(l.fetches) })
	if n := <-left; n != 0 {
		t.Errorf("%d lists of callers are kept", n)
	}
	x.Release(ref)
}

// A caller that stops waiting for data leaves nothing behind that would keep runs from
// writing it.
func TestFetchLeft(t *testing.T) {
	hold := make(chan struct{})
	x := start(t, 1, engine.Options{}, map[string]driver.Func{"bump": func(c *driver.Call, _, _ int) {
		<-hold
		c.Args[0][0]++
	}})
	var b graph.Builder
	d := b.Data(graph.Data{Name: "x", Bytes: 8, Input: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel("bump"), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: d, Access: graph.ReadWrite}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	home := make([]byte, 8)
	ref, err := x.Put("x", home, graph.Versioned)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	run := func() {
		x.Start(&Job{Graph: g, Options: engine.RunOptions{Bind: []engine.Binding{{Data: d, Ref: ref}}}, Done: func(_ *engine.Report, err error) { done <- err }})
	}
	run()
	ctx, cancel := context.WithCancel(context.Background())
	asked, left := make(chan struct{}), make(chan error, 1)
	go func() {
		left <- x.Fetch(ctx, ref, func() error { close(asked); return nil }, func() { t.Error("it read") })
	}()
	<-asked
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left got %v", err)
	}
	run()
	close(hold)
	for range 2 {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a run waits for a reader that has left")
		}
	}
	if err := x.Fetch(context.Background(), ref, func() error { return nil }, func() {}); err != nil || home[0] != 2 {
		t.Errorf("after two runs: %d, %v", home[0], err)
	}
	x.Release(ref)
}
