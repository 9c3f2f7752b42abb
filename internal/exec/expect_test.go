package exec_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/machine"
)

// The next run of a graph of which something is expected uses the devices it was cut for and
// is remembered; the one after it is as any other.
func TestExpect(t *testing.T) {
	x := start(t, 2, engine.Options{}, map[string]driver.Func{"inc": inc})
	in, out := make([]byte, 10_000), make([]byte, 10_000)
	g := add(t, int64(len(in)), 16)
	for i := range 4 {
		dev := machine.DeviceID(i % 2)
		name := []string{"inc on the first", "inc on the second"}
		x.Expect(g, exec.Expected{
			Made: "inc", Size: 1, Simulated: time.Second,
			Rather: []machine.DeviceID{dev}, Trial: name[dev], Others: []string{name[1-dev]}, Work: 7,
		})
		rep, err := x.Run(context.Background(), g, engine.RunOptions{}, memory(in, out))
		if err != nil {
			t.Fatal(err)
		}
		if rep.Devices[dev].Tasks != 16 || rep.Devices[1-dev].Tasks != 0 {
			t.Errorf("%d tasks on the device it was cut for, %d on the other", rep.Devices[dev].Tasks, rep.Devices[1-dev].Tasks)
		}
		if _, err = x.Run(context.Background(), g, engine.RunOptions{}, memory(in, out)); err != nil {
			t.Fatal(err)
		}
	}
	h, _ := x.Snapshot()
	first, second := h.Trials("inc on the first", 7), h.Trials("inc on the second", 7)
	if first.Runs != 1 || first.Since != 1 || second.Runs != 1 || second.Since != 0 || first.Mean <= 0 {
		t.Errorf("remembered %+v and %+v", first, second)
	}
	if f, n := h.Graph("inc", 1); n == 0 || f >= 1 {
		t.Errorf("a second was simulated, and it takes %v of it by %d runs", f, n)
	}
}

// A run among others goes anywhere and teaches nothing; one that fails counts against the
// devices it was tried on.
func TestExpectAmongOthers(t *testing.T) {
	began, hold := make(chan struct{}, 1), make(chan struct{})
	x := start(t, 2, engine.Options{}, map[string]driver.Func{
		"inc": inc, "hold": func(*driver.Call, int, int) { began <- struct{}{}; <-hold },
		"fail": func(c *driver.Call, _, _ int) { c.Fail(errors.New("as it must")) },
	})
	single := func(name string) *graph.Graph {
		var b graph.Builder
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel(name), Launch: graph.Grid(1)}}, Retries: -1})
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	trials := func(name string) machine.Trials {
		h, _ := x.Snapshot()
		return h.Trials(name, 1)
	}
	done := make(chan error, 1)
	x.Start(&exec.Job{Graph: single("hold"), Done: func(_ *engine.Report, err error) { done <- err }})
	<-began
	in, out := make([]byte, 10_000), make([]byte, 10_000)
	g := add(t, int64(len(in)), 16)
	x.Expect(g, exec.Expected{Rather: []machine.DeviceID{0}, Trial: "among others", Work: 1})
	if _, err := x.Run(context.Background(), g, engine.RunOptions{}, memory(in, out)); err != nil {
		t.Fatal(err)
	}
	close(hold)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := trials("among others"); got.Runs != 0 {
		t.Errorf("a run among others is remembered: %+v", got)
	}
	bad := single("fail")
	x.Expect(bad, exec.Expected{Rather: []machine.DeviceID{0}, Trial: "fails", Work: 1})
	if _, err := x.Run(context.Background(), bad, engine.RunOptions{}, nil); err == nil {
		t.Fatal("it did not fail")
	}
	if got := trials("fails"); got.Runs != 1 || got.Mean < time.Minute {
		t.Errorf("a run that failed is remembered as %+v", got)
	}
}
