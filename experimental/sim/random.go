package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/weft-run/weft/graph"
)

// Random tasks for scenarios and property tests: small, and made to meet one another in
// awkward ways. The same source gives the same tasks.

// randomNeed bounds the bytes that a random task uses of a device's memory, old
// versions of what it updates included; every random device has at least four
// times as much.
const randomNeed = 16 << 10

// randomUses is the largest number of uses of a random task. The sizes of random data
// and their slices are multiples of randomUnit bytes.
const randomUses, randomUnit = 4, 64

// randomOptions says what a random graph may hold besides slices, updates,
// reductions, order without data, workspaces and priorities.
type randomOptions struct {
	Tasks int // 0 means a random number up to 60
	Data  int // 0 means a random number up to 9
	// Gangs allows tasks that need two devices, Constraints tasks that only
	// run on "cpu" or "cuda", Volatile data that faults may lose for good.
	Gangs, Constraints, Volatile bool
}

// randomTasks adds data and tasks to b.
func randomTasks(r *rand.Rand, b *graph.Builder, o randomOptions) {
	var data []graph.Data
	handles := 2 + r.IntN(8)
	if o.Data > 0 {
		handles = o.Data
	}
	for i := range handles {
		d := randomData(r, i, o)
		id := b.Data(d)
		data = append(data, d)
		if !d.Input {
			// Written whole once, so that anything may read any of it.
			b.Add(graph.Task{
				Name: fmt.Sprintf("make %s", d.Name), Steps: []graph.Step{{Kernel: kernel, Launch: oneBlock}},
				Uses: []graph.Use{{Data: id, Access: graph.Write}}, Work: graph.Work{Bytes: float64(d.Bytes)},
			})
		}
	}
	for i := range o.Tasks {
		b.Add(randomTask(r, i, data, o))
	}
}

// randomData makes data number i.
func randomData(r *rand.Rand, i int, o randomOptions) graph.Data {
	d := graph.Data{
		Name:  fmt.Sprintf("d%d", i),
		Bytes: randomUnit * int64(1+r.IntN(randomNeed/randomUnit/2/randomUses)),
		Input: r.IntN(2) == 0, Output: r.IntN(2) == 0,
		Durability: graph.Durability(r.IntN(2)),
	}
	if o.Volatile && r.IntN(4) == 0 {
		d.Durability = graph.Volatile
	}
	if r.IntN(3) == 0 {
		d.Combine = combine
	}
	return d
}

// randomTask makes task number i, which uses some of the data.
func randomTask(r *rand.Rand, i int, data []graph.Data, o randomOptions) graph.Task {
	t := graph.Task{
		Name: fmt.Sprintf("t%d", i),
		Work: graph.Work{Ops: float64(r.IntN(1e6)), Bytes: float64(r.IntN(1e5))},
	}
	for range 1 + r.IntN(2) {
		n := r.IntN(4)
		launch := oneBlock
		launch.Grid[0] += uint32(n)
		t.Steps = append(t.Steps, graph.Step{Kernel: kernel, Launch: launch, Params: []byte{byte(n)}})
	}
	if o.Gangs && r.IntN(10) == 0 {
		t.Gang = 2
	}
	for _, d := range r.Perm(len(data))[:min(1+r.IntN(randomUses), len(data))] {
		u := graph.Use{Data: graph.DataID(d), Access: graph.Access(r.IntN(3)), Bytes: data[d].Bytes}
		if data[d].Combine != nil && r.IntN(3) == 0 {
			u.Access = graph.Reduce
		}
		if r.IntN(2) == 0 { // a slice
			n := data[d].Bytes / randomUnit
			lo := r.Int64N(n)
			u.Offset, u.Bytes = lo*randomUnit, (1+r.Int64N(n-lo))*randomUnit
		}
		if t.Gang > 1 {
			u.Rank = int16(r.IntN(t.Gang))
		}
		t.Uses = append(t.Uses, u)
	}
	if r.IntN(8) == 0 {
		t.Workspace = int64(1 + r.IntN(randomNeed/4))
	}
	if r.IntN(4) == 0 {
		t.Priority = r.IntN(5) - 2
	}
	if i > 0 && r.IntN(8) == 0 {
		t.After = append(t.After, graph.TaskID(r.IntN(i)))
	}
	if o.Constraints {
		switch r.IntN(10) {
		case 0:
			t.On.Only = []string{"cpu"}
		case 1:
			t.On.Only = []string{"cuda"}
		case 2:
			t.On.Hint = "cuda:0"
		}
	}
	if t.Gang > 1 {
		t.On.Only = nil // one of each kind survives any random faults
	}
	return t
}
