package exec_test

import (
	"context"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/trace"
)

var empty = &graph.Kernel{Name: "empty", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "empty"}}}

func layered(tb testing.TB, n, width, deps int) *graph.Graph {
	var b graph.Builder
	data := make([]graph.DataID, n)
	steps := []graph.Step{{Kernel: empty, Launch: graph.Grid(1)}}
	for i := range n {
		data[i] = b.Data(graph.Data{Bytes: 64})
		uses := []graph.Use{{Data: data[i], Access: graph.Write}}
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

func open(tb testing.TB, parts int, o engine.Options) *exec.Executor {
	opts := cpu.Options{Parts: parts, Funcs: map[string]driver.Func{"empty": func(*driver.Call, int, int) {}}}
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	x, err := exec.Open(context.Background(), exec.Config{Drivers: []driver.Driver{cpu.New(opts)}, Copier: copier[0], Engine: o})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { x.Close(context.Background()) })
	return x
}

func BenchmarkLive(b *testing.B) {
	const n = 100_000
	for _, c := range []struct {
		name        string
		width, deps int
		traced      bool
	}{{"independent", n, 0, false}, {"chain", 1, 1, false}, {"dag", 64, 3, false}, {"dag-traced", 64, 3, true}} {
		b.Run(c.name, func(b *testing.B) {
			o := engine.Options{}
			if c.traced {
				o.Trace = trace.NewRecorder(1 << 17)
			}
			x := open(b, 2, o)
			g := layered(b, n, c.width, c.deps)
			b.ResetTimer()
			for range b.N {
				if _, err := x.Run(context.Background(), g, engine.RunOptions{}, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/task")
		})
	}
}
