package plan

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
)

// chain is tasks that each read the result of the one before, beside an input that all read.
func chain(t *testing.T, n int) *graph.Graph {
	b := new(graph.Builder)
	k := graph.GoKernel("k", 1, graph.All)
	in := b.Data(graph.Data{Name: "in", Bytes: 100, Input: true})
	at := b.Data(graph.Data{Name: "first", Bytes: 10, Input: true})
	for i := range n {
		next := b.Data(graph.Data{Bytes: 10, Output: i == n-1})
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: k}}, Work: graph.Work{Ops: 5, Bytes: 7, Unit: graph.FP64}, Workspace: 3,
			Uses: []graph.Use{{Data: in, Access: graph.Read}, {Data: at, Access: graph.Read}, {Data: next, Access: graph.Write}},
		})
		at = next
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// What a chain needs can be counted by hand.
func TestNeedOfChain(t *testing.T) {
	n := NeedOf("x", chain(t, 6), 3)
	want := Need{
		Name: "x", Flops: 90, Bytes: 126, Unit: graph.FP64, Launches: 18, Runs: 3, Upload: 110, Download: 10, HostBytes: 120,
		PeakBytes: 123, LeastBytes: 123, State: 20, Dialects: []graph.Dialect{graph.Go},
	}
	if !reflect.DeepEqual(n, want) {
		t.Errorf("%+v\nwant %+v", n, want)
	}
}

// A job has the code that all of its kernels have, those without any aside.
func TestDialectsOf(t *testing.T) {
	for _, c := range []struct {
		kernels [][]graph.Dialect
		want    []graph.Dialect
	}{
		{[][]graph.Dialect{{graph.Go, graph.PTX, graph.SPIRV}, {graph.SPIRV, graph.Go}}, []graph.Dialect{graph.Go, graph.SPIRV}},
		{[][]graph.Dialect{{graph.Abstract}, {graph.PTX, graph.Go}, {graph.Go}}, []graph.Dialect{graph.Go}},
		{[][]graph.Dialect{{graph.PTX}, {graph.Go}}, nil},
		{[][]graph.Dialect{{graph.Abstract}}, nil},
	} {
		b := new(graph.Builder)
		for i, dialects := range c.kernels {
			k := &graph.Kernel{Name: fmt.Sprint("k", i)}
			for _, d := range dialects {
				k.Impls = append(k.Impls, graph.Impl{Dialect: d, Entry: "k"})
			}
			b.Add(graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: b.Data(graph.Data{Bytes: 1, Output: true}), Access: graph.Write}}})
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if got := dialectsOf(g); !slices.Equal(got, c.want) {
			t.Errorf("kernels in %v: %v, want %v", c.kernels, got, c.want)
		}
	}
}

// The most that is alive is what counting every value at every task says.
func TestAlive(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := new(graph.Builder)
		k := graph.GoKernel("k", 1, graph.All)
		var data []graph.DataID
		var sizes []int64
		written := make(map[graph.DataID]bool)
		for range 2 + r.IntN(5) {
			size, input := int64(1+r.IntN(50)), r.IntN(3) == 0
			id := b.Data(graph.Data{Bytes: size, Input: input})
			written[id] = input
			data, sizes = append(data, id), append(sizes, size)
		}
		type use struct {
			data        int
			read, write bool
		}
		var tasks [][]use
		for range 1 + r.IntN(8) {
			var uses []use
			var g []graph.Use
			for i, d := range data {
				switch {
				case r.IntN(3) > 0:
					continue
				case !written[d] || r.IntN(3) == 0:
					g, uses = append(g, graph.Use{Data: d, Access: graph.Write}), append(uses, use{i, false, true})
				case r.IntN(2) == 0:
					g, uses = append(g, graph.Use{Data: d, Access: graph.Read}), append(uses, use{i, true, false})
				default:
					g, uses = append(g, graph.Use{Data: d, Access: graph.ReadWrite}), append(uses, use{i, true, true})
				}
				written[d] = true
			}
			if len(g) == 0 {
				continue
			}
			b.Add(graph.Task{Steps: []graph.Step{{Kernel: k}}, Uses: g})
			tasks = append(tasks, uses)
		}
		g, err := b.Build()
		if err != nil {
			continue // no tasks
		}
		// A datum takes memory at a task that uses it, and at one between two uses of
		// which the later reads what is there.
		want := int64(0)
		for at := range tasks {
			sum := int64(0)
			for d := range data {
				used, before, later := false, false, false
				for _, u := range tasks[at] {
					used = used || u.data == d
				}
				for i := range at {
					for _, u := range tasks[i] {
						before = before || u.data == d
					}
				}
			ahead:
				for i := at + 1; i < len(tasks); i++ {
					for _, u := range tasks[i] {
						if u.data == d {
							later = u.read
							break ahead
						}
					}
				}
				if used || before && later {
					sum += sizes[d]
				}
			}
			want = max(want, sum)
		}
		if got := NeedOf("x", g, 1).PeakBytes; got != want {
			t.Fatalf("seed %d: %d, want %d: %v of sizes %v", seed, got, want, tasks, sizes)
		}
	}
}
