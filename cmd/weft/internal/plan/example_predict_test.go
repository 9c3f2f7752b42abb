package plan_test

import (
	"errors"
	"fmt"

	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// What a graph needs follows from what its tasks declare, and how long it takes on a GPU of
// the catalogue from recorded runs, or as here without any from the data sheet.
func ExampleNeedOf() {
	b := new(graph.Builder)
	in := b.Data(graph.Data{Name: "in", Bytes: 4e9, Input: true})
	out := b.Data(graph.Data{Name: "out", Bytes: 1e9, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.PTX, Entry: "k"}}}}},
		Uses:  []graph.Use{{Data: in, Access: graph.Read}, {Data: out, Access: graph.Write}},
		Work:  graph.Work{Ops: 1e14, Bytes: 5e9},
	})
	g, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	need := plan.NeedOf("job", g, 1)
	fmt.Printf("%.3g operations, %.3g bytes there, %.3g back, %.3g on the device\n", need.Flops, need.Upload, need.Download, float64(need.PeakBytes))
	gpu, err := plan.Shipped().GPU("RTX-4060")
	if err != nil {
		fmt.Println(err)
		return
	}
	e := plan.Learn(nil, nil).Predict(need, gpu, 1)
	fmt.Printf("%.1f s (%.1f to %.1f), bound by %s\n", e.Median, e.Low, e.High, e.Bottleneck)
	fmt.Println(e.Why)
	// Output:
	// 1e+14 operations, 4e+09 bytes there, 1e+09 back, 5e+09 on the device
	// 8.9 s (4.8 to 68.2), bound by compute
	// nothing was measured: 1.3 times what the rates of the machine say, which is usual; 10 times is not rare; assumed of RTX-4060: 7 µs a launch
}

// Weights are on both GPUs, a table that is too large for them is split, and what does not
// fit beside them stays in host memory.
func ExampleDistribute() {
	m, _ := machine.Named("2xh100")
	arrays := []plan.Array{
		{Name: "weights", Bytes: 20e9, Role: plan.Weights, Spread: plan.Replicated, Priority: 2},
		{Name: "table", Bytes: 100e9, Role: plan.State, Spread: plan.Split, Priority: 1},
		{Name: "log", Bytes: 60e9, Role: plan.Result, Access: plan.InOrder, Window: 1e9},
	}
	l, err := plan.Distribute(arrays, m, plan.Room{Margin: 0.05})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range l.Allocations {
		fmt.Printf("%-8s on %-7s %3.0f GB from %2.0f", a.Array, m.DeviceName(a.On), float64(a.Bytes)/1e9, float64(a.Offset)/1e9)
		if a.Window {
			fmt.Print(", a window")
		}
		fmt.Println()
	}
	_, err = plan.Distribute(append(arrays, plan.Array{Name: "more", Bytes: 70e9}), m, plan.Room{})
	fmt.Println(errors.Is(err, plan.ErrNoRoom))
	// Output:
	// weights  on host     20 GB from  0
	// weights  on cuda:0   20 GB from  0
	// weights  on cuda:1   20 GB from  0
	// log      on host     60 GB from  0
	// log      on cuda:0    1 GB from  0, a window
	// table    on cuda:0   50 GB from  0
	// table    on cuda:1   50 GB from 50
	// true
}

// A chain of each class of proteins, with 64 replicas of a million steps. The jobs, which are empty
// here, come from the graphs of workloads, as weft plan fold --classes takes them.
func ExamplePlanProtein() {
	m, _ := machine.Named("rtx4060")
	for _, p := range plan.ProteinExamples() {
		x, err := plan.PlanProtein(p, m, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-6s %4d residues  %6.3g GB  %d in host memory  %s\n", x.Class, p.Residues, float64(x.Bytes)/1e9, len(x.Layout.Spills), x.Accuracy.Why)
	}
	// Output:
	// small    58 residues  0.0347 GB  0 in host memory  2 of 4 runs of BPTI (58 residues) came below 1.5 Å within 1.5e+06 steps
	// medium  214 residues   0.171 GB  0 in host memory  not known: the longest chain whose folding was measured has 58 residues
	// large   951 residues    1.66 GB  0 in host memory  not known: the longest chain whose folding was measured has 58 residues
	// mega   2750 residues    9.38 GB  1 in host memory  not known: the longest chain whose folding was measured has 58 residues
}
