package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// The default policy balances memory pressure between devices: where one GPU of three is
// nearly full with data that is read again, values that all of them together have room for
// are placed so that none is spilled. A policy that does not look at memory spills.
func TestMemoryPressure(t *testing.T) {
	const gb = 1_000_000_000
	m, _ := machine.Named("3x5070") // 8 GB each
	resident := []graph.Data{{Name: "full", Bytes: 7 * gb}}
	kernel := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	build := func(add func(b *graph.Builder)) *graph.Graph {
		t.Helper()
		var b graph.Builder
		add(&b)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	onFirst := func(a graph.Access) *graph.Graph {
		return build(func(b *graph.Builder) {
			x := b.Data(graph.Data{Name: "full", Bytes: 7 * gb, Input: a == graph.Read})
			b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel}}, Uses: []graph.Use{{Data: x, Access: a}}, On: graph.Constraint{Only: []string{"cuda:0"}}})
		})
	}
	// Eight values of 1.5 GB, all of them alive until the last is there.
	values := build(func(b *graph.Builder) {
		var ids []graph.DataID
		var made []graph.TaskID
		for i := range 8 {
			y := b.Data(graph.Data{Name: fmt.Sprint("y", i), Bytes: 3 * gb / 2})
			ids = append(ids, y)
			made = append(made, b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel}}, Uses: []graph.Use{{Data: y, Access: graph.Write}}, Work: graph.Work{Ops: 25e9}}))
		}
		for _, y := range ids {
			b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel}}, Uses: []graph.Use{{Data: y, Access: graph.Read}}, Work: graph.Work{Ops: 25e9}, After: made})
		}
	})
	bind := []Binding{{Data: 0, Resident: 0}}
	copied := func(policy string) (bytes int64) {
		t.Helper()
		res, err := Run(Config{Machine: m, Resident: resident, Policy: policy, Jobs: []Job{
			{Name: "fill", Graph: onFirst(graph.Write), Bind: bind},
			{Name: "values", At: time.Second, Graph: values},
			{Name: "read", At: 2 * time.Minute, Graph: onFirst(graph.Read), Bind: bind},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.Runs {
			if r.Err != nil {
				t.Fatalf("%s: %v", policy, r.Err)
			}
			bytes += r.Report.CopyBytes
		}
		return bytes
	}
	if got := copied(sched.Default); got != 0 {
		t.Errorf("%s: %.1f GB were copied, want none", sched.Default, float64(got)/gb)
	}
	if got := copied("roundrobin"); got == 0 {
		t.Error("a policy that does not look at memory copied nothing: the case shows nothing")
	}
}
