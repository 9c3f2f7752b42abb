package sim_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// soak drives an engine on devices that complete everything at once.
type soak struct {
	t    *testing.T
	e    *engine.Engine
	now  time.Duration
	evs  []engine.Event
	acts []engine.Action
}

// settle steps until the engine has nothing more to do and returns how many
// runs and fetches ended.
func (s *soak) settle() (ended int) {
	s.evs = s.evs[:0]
	for {
		s.now += time.Microsecond
		s.acts = s.e.Step(s.now, s.evs, s.acts[:0])
		s.evs = s.evs[:0]
		for i := range s.acts {
			switch a := &s.acts[i]; a.Kind {
			case engine.Launch, engine.Copy:
				s.evs = append(s.evs, engine.Event{Kind: engine.OpDone, Op: a.Op, Start: s.now, End: s.now})
			case engine.Done:
				if a.Err != nil {
					s.t.Fatalf("run %d: %v", a.Run, a.Err)
				}
				if a.Run == 0 {
					s.e.EndFetch(a.Ref)
				}
				ended++
			}
		}
		if len(s.evs) == 0 {
			return ended
		}
	}
}

// smallGraph has a task that reads and updates weights, two that work on what
// it leaves and one that joins their results.
func smallGraph(t *testing.T) (g *graph.Graph, weights graph.DataID) {
	k := &graph.Kernel{Name: "soak", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	var b graph.Builder
	weights = b.Data(graph.Data{Name: "weights", Bytes: 4096, Input: true, Output: true})
	out := b.Data(graph.Data{Name: "out", Bytes: 64, Output: true})
	left, right := b.Data(graph.Data{Name: "left", Bytes: 1024}), b.Data(graph.Data{Name: "right", Bytes: 1024})
	for _, uses := range [][]graph.Use{
		{{Data: weights, Access: graph.ReadWrite}},
		{{Data: weights, Access: graph.Read}, {Data: left, Access: graph.Write}},
		{{Data: weights, Access: graph.Read}, {Data: right, Access: graph.Write}},
		{{Data: left, Access: graph.Read}, {Data: right, Access: graph.Read}, {Data: out, Access: graph.Write}},
	} {
		b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, Uses: uses, Work: graph.Work{Ops: 1e6}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g, weights
}

// bareGraph has two tasks without data.
func bareGraph(t *testing.T) *graph.Graph {
	k := &graph.Kernel{Name: "bare", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	var b graph.Builder
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, After: []graph.TaskID{0}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestSoak runs 100,000 small graphs, twenty at a time, some on resident data
// that lasts, some on data that comes and goes and some on none at all, and
// expects the engine's memory to be where it was after the first few.
func TestSoak(t *testing.T) {
	const graphs, batch = 100_000, 20
	m, _ := machine.Named("3x5070")
	s := &soak{t: t, e: engine.New(engine.Options{Machine: m, Cost: machine.NewRoofline(m)})}
	g, weights := smallGraph(t)
	bare := bareGraph(t)
	lasting := s.e.NewData("lasting", 4096, graph.Versioned)
	run := func(n int) {
		for range n / batch {
			passing := s.e.NewData("passing", 4096, graph.Mirrored)
			for k := range batch {
				switch k % 4 {
				case 0:
					s.e.Submit(s.now, g, engine.RunOptions{Bind: []engine.Binding{{Data: weights, Ref: lasting}}})
				case 1:
					s.e.Submit(s.now, g, engine.RunOptions{Bind: []engine.Binding{{Data: weights, Ref: passing}}})
				case 2:
					s.e.Submit(s.now, g, engine.RunOptions{})
				case 3:
					s.e.Submit(s.now, bare, engine.RunOptions{})
				}
			}
			s.e.Fetch(passing)
			if ended := s.settle(); ended != batch+1 {
				t.Fatalf("%d of %d runs and a fetch ended", ended, batch)
			}
			s.e.FreeData(passing)
		}
		s.settle()
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // the first may leave what finalizers hold
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return int64(ms.HeapAlloc)
	}
	run(graphs / 50)
	base := heap()
	run(graphs)
	// A leak of a single byte for each graph would be 100 KB.
	if grown := heap() - base; grown > 64<<10 {
		t.Errorf("memory grew by %d bytes over %d graphs", grown, graphs)
	}
	runtime.KeepAlive(s)
}
