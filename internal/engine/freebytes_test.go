package engine_test

import (
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// watcher is a policy that puts every task on the first device and remembers how much
// of its memory was free.
type watcher struct{ free []int64 }

func (p *watcher) Place(v *sched.Situation, out []sched.Placement) []sched.Placement {
	p.free = append(p.free, v.Devices[0].FreeBytes)
	for i := range v.Tasks {
		out = append(out, sched.Placement{Task: int32(i), Finish: v.Assign(i, 0, 0, v.Tasks[i].Cost[0])})
	}
	return out
}

// TestFreeBytes: policies see how much of a device's memory is free as tasks take it and
// give it back, and when the device gets less.
func TestFreeBytes(t *testing.T) {
	m, _ := machine.Named("2xh100")
	const bytes = 1 << 30
	var b graph.Builder
	x, y := b.Data(graph.Data{Bytes: bytes, Input: true}), b.Data(graph.Data{Bytes: bytes})
	step := []graph.Step{{Kernel: abstract}}
	b.Add(graph.Task{Steps: step, Uses: []graph.Use{{Data: x, Access: graph.Read}, {Data: y, Access: graph.Write}}})
	b.Add(graph.Task{Steps: step, Uses: []graph.Use{{Data: y, Access: graph.Read}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p := &watcher{}
	e := engine.New(engine.Options{Machine: m, Cost: machine.NewRoofline(m), Policy: func(sched.Problem) sched.Policy { return p }})
	var now time.Duration
	var evs []engine.Event
	var acts []engine.Action
	evs, acts = drive(t, e, g, evs, acts, &now)
	now++
	acts = e.Step(now, []engine.Event{{Kind: engine.Capacity, Device: 0, Bytes: 3 * bytes}}, acts[:0])
	drive(t, e, g, evs, acts, &now)
	all := m.Devices[0].MemBytes
	want := []int64{all, all - 2*bytes, 3 * bytes, bytes}
	if len(p.free) != len(want) {
		t.Fatalf("free %v, want %v", p.free, want)
	}
	for i := range want {
		if p.free[i] != want[i] {
			t.Errorf("free %v, want %v", p.free, want)
			break
		}
	}
}
