package workload_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// The graph that follows from a declaration is the one that is built by hand, and so are the items, the task of all of
// them and what they move.
func TestDeclare(t *testing.T) {
	type params struct{ first, n int }
	k := graph.GoKernel("sums", 4)
	step := func(lo, n int64) []graph.Step {
		return []graph.Step{graph.Step{Kernel: k, Launch: graph.Grid(n)}.With(params{int(lo), int(n)})}
	}
	fold := graph.Task{
		Name: "fold", Steps: step(0, 1), Uses: []graph.Use{{Data: 2, Access: graph.Read}, {Data: 4, Access: graph.Write}},
	}
	tables := graph.Task{Name: "table", Steps: step(0, 1), Uses: []graph.Use{{Data: 3, Access: graph.Write}}}
	xs, sum := make([]float32, 10), make([]float64, 1)
	halved := workload.Out("halved", make([]uint16, 10), 0).Within(func(lo, hi int64) (int64, int64) { return 2 * lo, 2 * (hi - lo) })
	d := workload.Declare(workload.Declaration{
		Name: "sums of 10", Class: workload.Exact, Of: "numbers", Extent: 10, Align: 4, Grain: 2,
		Ports: []workload.Port{
			workload.In("xs", xs, 1), halved, workload.Between("parts", 24, 8).Per(4).Elements(graph.F8),
			workload.Made("table", make([]uint32, 3)),
			workload.Out("sum", sum, 0).NoRange(), workload.All("seed", []uint32{7}),
		},
		Kernel: k, Params: func(lo, hi int64) any { return params{int(lo), int(hi - lo)} }, Ops: 3, Unit: graph.FP64,
		Ends:  func(lo int64) int64 { return lo + 4 },
		Task:  func(t *graph.Task, lo, hi int64) { t.Workspace = hi },
		First: func(b *graph.Builder, ranges int) { tables.Priority = ranges; b.Add(tables) },
		Then:  func(b *graph.Builder) { b.Add(fold) },
	})
	got, err := d.Graph([]sched.Range{{Lo: 0, Hi: 8}, {Lo: 8, Hi: 10}})
	if err != nil {
		t.Fatal(err)
	}
	var b graph.Builder
	b.Data(graph.Data{Name: "xs", Bytes: 40, Input: true})
	b.Data(graph.Data{Name: "halved", Bytes: 20, Output: true, Tolerance: graph.SameBytes})
	b.Data(graph.Data{Name: "parts", Bytes: 24, Elem: graph.F8, Tolerance: graph.SameBytes})
	b.Data(graph.Data{Name: "table", Bytes: 12, Output: true, Tolerance: graph.SameBytes})
	b.Data(graph.Data{Name: "sum", Bytes: 8, Output: true, Tolerance: graph.SameBytes})
	b.Data(graph.Data{Name: "seed", Bytes: 4, Input: true})
	b.Add(tables)
	for _, r := range []struct {
		name      string
		lo, n     int64
		in, parts int64
	}{{"numbers 0-4", 0, 4, 16, 8}, {"numbers 4-8", 4, 4, 16, 8}, {"numbers 8-10", 8, 2, 8, 8}} {
		b.Add(graph.Task{
			Name: r.name, Steps: step(r.lo, r.n), Workspace: r.lo + r.n,
			Work: graph.Work{Ops: 3 * float64(r.n), Bytes: float64(r.in + 2*r.n + r.parts + 12 + 4), Unit: graph.FP64},
			Uses: []graph.Use{
				{Data: 0, Offset: 4 * r.lo, Bytes: r.in, Access: graph.Read}, {Data: 1, Offset: 2 * r.lo, Bytes: 2 * r.n, Access: graph.Write},
				{Data: 2, Offset: 2 * r.lo, Bytes: r.parts, Access: graph.Write}, {Data: 3, Access: graph.Read}, {Data: 5, Access: graph.Read},
			},
		})
	}
	b.Add(fold)
	want, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got.NumData() != want.NumData() || got.NumTasks() != want.NumTasks() {
		t.Fatalf("%d data and %d tasks, want %d and %d", got.NumData(), got.NumTasks(), want.NumData(), want.NumTasks())
	}
	for i := range graph.DataID(want.NumData()) {
		if !reflect.DeepEqual(got.Data(i), want.Data(i)) {
			t.Errorf("data %d is %+v, want %+v", i, *got.Data(i), *want.Data(i))
		}
	}
	for i := range graph.TaskID(want.NumTasks()) {
		if !reflect.DeepEqual(got.Task(i), want.Task(i)) {
			t.Errorf("task %d is\n%+v, want\n%+v", i, *got.Task(i), *want.Task(i))
		}
	}
	items, whole := d.Items(), d.Whole()
	if in, out := items.Bytes(4, 10); items.Extent != 10 || items.Align != 4 || items.Grain != 2 || !items.Streamed || in != 24+12+4 || out != 12+16 {
		t.Errorf("items are %+v, of which 4 to 9 read %d and write %d bytes", items, in, out)
	}
	if in, out := items.Bytes(4, 4); in != 0 || out != 0 {
		t.Errorf("no items read %d and write %d bytes", in, out)
	}
	if whole.Work != (graph.Work{Ops: 30, Bytes: 40 + 20 + 24 + 12 + 4, Unit: graph.FP64}) || whole.Uses != nil {
		t.Errorf("all items as one are %+v", whole)
	}
	if n := len(d.Bind()); n != 5 || d.Name() != "sums of 10" || d.Class() != workload.Exact {
		t.Errorf("%s of class %s has %d bindings", d.Name(), d.Class(), n)
	}
	if _, err := d.Graph([]sched.Range{{Lo: 0, Hi: 3}}); err == nil || !strings.Contains(err.Error(), "range 0-3 cuts a block: begin and end at multiples of 4") {
		t.Errorf("a range that cuts a block: %v", err)
	}
}
