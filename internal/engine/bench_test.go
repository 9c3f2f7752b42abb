package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// abstract is a kernel that costs and does nothing.
var abstract = &graph.Kernel{Name: "empty", Impls: []graph.Impl{{Dialect: graph.Abstract}}}

// layered builds a DAG of n tasks, width wide: each writes data of its own and
// reads what deps neighbours of the layer before wrote.
func layered(tb testing.TB, n, width, deps int) *graph.Graph {
	var b graph.Builder
	data := make([]graph.DataID, n)
	steps := []graph.Step{{Kernel: abstract}}
	for i := range n {
		data[i] = b.Data(graph.Data{Bytes: 64})
		uses := make([]graph.Use, 0, deps+1)
		uses = append(uses, graph.Use{Data: data[i], Access: graph.Write})
		if layer := i / width; layer > 0 {
			for k := range deps {
				uses = append(uses, graph.Use{Data: data[(layer-1)*width+(i+k)%width], Access: graph.Read})
			}
		}
		b.Add(graph.Task{Steps: steps, Uses: uses})
	}
	g, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// drive runs a graph to its end on devices that complete everything at once, in
// the order it was issued, a batch a step: what is left is the engine.
func drive(tb testing.TB, e *engine.Engine, g *graph.Graph, evs []engine.Event, acts []engine.Action, now *time.Duration) ([]engine.Event, []engine.Action) {
	e.Submit(*now, g, engine.RunOptions{})
	evs = evs[:0]
	for {
		*now += 1000
		acts = e.Step(*now, evs, acts[:0])
		evs = evs[:0]
		for i := range acts {
			switch a := &acts[i]; a.Kind {
			case engine.Launch, engine.Copy:
				evs = append(evs, engine.Event{Kind: engine.OpDone, Op: a.Op, Start: *now, End: *now})
			case engine.Done:
				if a.Err != nil {
					tb.Fatal(a.Err)
				}
				return evs, acts
			}
		}
		if len(evs) == 0 {
			tb.Fatal("the engine stopped")
		}
	}
}

func benchDAG(b *testing.B, machineName string, width, deps int, rec *trace.Recorder) {
	m, _ := machine.Named(machineName)
	const n = 100_000
	g := layered(b, n, width, deps)
	e := engine.New(engine.Options{Machine: m, Cost: machine.NewRoofline(m), Trace: rec})
	var evs []engine.Event
	var acts []engine.Action
	var now time.Duration
	evs, acts = drive(b, e, g, evs, acts, &now)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		evs, acts = drive(b, e, g, evs, acts, &now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/task")
}

// BenchmarkDAG is a task through the engine: 100,000 of them, 64 wide, three
// dependencies each, policy finish, lineage on, on two devices that share host
// memory; then on two GPUs, where every task has copies too.
func BenchmarkDAG(b *testing.B) {
	b.Run("finish", func(b *testing.B) { benchDAG(b, "2xcpu", 64, 3, nil) })
	b.Run("traced", func(b *testing.B) { benchDAG(b, "2xcpu", 64, 3, trace.NewRecorder(1<<20)) })
	b.Run("copies", func(b *testing.B) { benchDAG(b, "2xh100", 64, 3, nil) })
}

// BenchmarkChain is the same for a chain, where every task waits for the last.
func BenchmarkChain(b *testing.B) { benchDAG(b, "2xcpu", 1, 1, nil) }

// BenchmarkIndependent is the same for tasks that wait for nothing.
func BenchmarkIndependent(b *testing.B) { benchDAG(b, "2xcpu", 100_000, 0, nil) }

// BenchmarkOpen is an engine made for 10,000 devices: alike, alike and probed at an
// interval, and no two alike.
func BenchmarkOpen(b *testing.B) {
	const n = 10_000
	alike, differ := &machine.Machine{}, &machine.Machine{}
	for i := range n {
		d := machine.Device{Name: fmt.Sprint("cpu:", i), Backend: "cpu", Kind: machine.CPU, HostMemory: true, Rates: machine.Rates{MemoryBPS: 1e11}}
		d.Rates.Ops[graph.FP32] = 1e12
		alike.Devices = append(alike.Devices, d)
		d.Rates.Ops[graph.FP32] += float64(i)
		differ.Devices = append(differ.Devices, d)
	}
	probed := engine.HealthRules{Probe: true, ProbeEvery: time.Hour}
	for _, c := range []struct {
		name string
		o    engine.Options
	}{{"alike", engine.Options{Machine: alike}}, {"probed", engine.Options{Machine: alike, Health: probed}}, {"differ", engine.Options{Machine: differ}}} {
		c.o.Cost = machine.NewRoofline(c.o.Machine)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				engine.New(c.o)
			}
		})
	}
}
