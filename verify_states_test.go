package weft

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/engine"
)

// A device that is lost and comes back again and again is, at every moment, able to decide about a result or coming back.
// Otherwise a result would pass that nothing was compared with.
func TestVerifyStatesOfOneMoment(t *testing.T) {
	looks, losses := 0, 0
	for range 30 {
		l, n := statesOfOneMoment(t)
		looks, losses = looks+l, losses+n
	}
	if looks < 30 || losses < 30 {
		t.Errorf("%d looks at a device that was lost %d times", looks, losses)
	}
}

// statesOfOneMoment looks at two devices until the second, which every launch loses, cannot be brought back any more.
func statesOfOneMoment(t *testing.T) (looks, losses int) {
	t.Helper()
	o, err := fake.Parse("devices 2; on 1 lose launches")
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = map[string]driver.Func{"none": func(*Call, int, int) {}}
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	// A device that is lost again before it did anything is brought back by the next rung.
	rungs, ladder := make(map[string]Rung), make([]string, 15)
	for i := range ladder {
		name := fmt.Sprintf("rung%d", i)
		rungs[name] = func(context.Context, string) error { return nil }
		ladder[i] = name + ":1m"
	}
	rt, err := Open(t.Context(), Options{
		Drivers: []driver.Driver{drv}, NoCalibrate: true, CacheDir: "off", Verify: 1, MaxLosses: 1000, MaxFailures: 1000, Retries: 1000,
		Ladder: strings.Join(ladder, ", ") + ", fail", Rungs: rungs,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8, Input: true, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: graph.GoKernel("none"), Launch: graph.Grid(1)}},
		Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}}, On: graph.Constraint{Only: []string{"fake:1"}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.resolve(g, []Binding{Bind("x", make([]int64, 1))})
	if err != nil {
		t.Fatal(err)
	}
	run := p.Submit(nil) // which is never done
	defer func() {
		run.Cancel()
		_, _ = run.Wait()
	}()
	k := &checked{v: rt.verify, of: &checks{g: g}}
	for {
		w := k.world()
		st, _ := rt.status()
		if st[1].State == engine.Broken {
			return looks, int(st[1].Losses)
		}
		if looks++; len(w.Able)+len(w.Coming) != 1 {
			t.Fatalf("look %d after %d losses: able are %v, coming %v", looks, st[1].Losses, w.Able, w.Coming)
		}
	}
}
