package verify

import (
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Dialect is the one dialect of the device that checks, whose name and backend it is too.
const Dialect graph.Dialect = "verify"

// Kernel is the kernel that a picked task runs on a device of Dialect.
var Kernel = &graph.Kernel{Name: string(Dialect), Impls: []graph.Impl{{Dialect: Dialect, Entry: string(Dialect)}}}

// Pick reports whether a task of a run is among the one in every that are checked. It is a
// hash: which tasks are picked cannot be told from their places, and the same seed, run and
// task give the same answer.
func Pick(seed uint64, run int64, task graph.TaskID, every int) bool {
	if every <= 1 {
		return every == 1
	}
	h := mix(mix(mix(0, seed), uint64(run)), uint64(task))
	// The remainder is as good as even: every is far below 2⁶⁴.
	return h%uint64(every) == 0
}

// mix combines two words (the finalizer of splitmix64 over their sum with odd constants).
func mix(h, x uint64) uint64 {
	z := h*0x9e3779b97f4a7c15 + x + 0x632be59bd9b4e019
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Checkable reports whether a task can be executed on its own: it runs on one device, does
// something, and writes a result that none of its other uses has a part of.
func Checkable(t *graph.Task) bool {
	if t.Gang > 1 || len(t.Steps) == 0 {
		return false
	}
	writes := false
	for i, u := range t.Uses {
		writes = writes || u.Access.Writes()
		for _, w := range t.Uses[:i] {
			if (u.Access.Writes() || w.Access.Writes()) && u.Data == w.Data && u.Offset < w.Offset+w.Bytes && w.Offset < u.Offset+u.Bytes {
				return false
			}
		}
	}
	return writes
}

// Rewrite returns a graph in which some tasks, in ascending order, run Kernel with the parameters given instead of
// their own steps, on what they use. Tasks and data keep their numbers and names.
func Rewrite(g *graph.Graph, picked []graph.TaskID, params func(graph.TaskID) []byte) *graph.Graph {
	var b graph.Builder
	for d := range g.NumData() {
		b.Data(*g.Data(graph.DataID(d)))
	}
	for i := range g.NumTasks() {
		id := graph.TaskID(i)
		t := *g.Task(id)
		if len(picked) > 0 && picked[0] == id {
			picked = picked[1:]
			t.Name = g.TaskName(id)
			t.Steps = []graph.Step{{Kernel: Kernel, Launch: graph.Grid(1), Params: params(id)}}
			t.Work, t.Workspace, t.On = graph.Work{}, 0, graph.Constraint{}
			t.Timeout, t.Retries = graph.NoTimeout, -1 // its executions have those of the task
		}
		b.Add(t)
	}
	out, err := b.Build()
	if err != nil {
		panic("verify: tasks that are checked make no graph: " + err.Error())
	}
	return out
}

// Alone returns a graph of one task of another, with data of its own for each use: "0", "1" …
// in their order. Data that is written is an output, and data that is read an input. Only, when
// not empty, names the devices it may run on in place of the task's own constraint.
func Alone(g *graph.Graph, id graph.TaskID, only []string) (*graph.Graph, error) {
	t := *g.Task(id)
	t.Name, t.After, t.Uses = g.TaskName(id), nil, slices.Clone(t.Uses)
	if len(only) > 0 {
		t.On = graph.Constraint{Only: only}
	}
	var b graph.Builder
	for k, u := range t.Uses {
		d := b.Data(graph.Data{Name: Port(k), Bytes: u.Bytes, Input: u.Access.Reads(), Output: u.Access.Writes(), Secret: g.Data(u.Data).Secret})
		t.Uses[k] = graph.Use{Data: d, Access: u.Access}
	}
	b.Add(t)
	return b.Build()
}

// Port is the name that Alone gives the data of a use.
func Port(use int) string {
	const digits = "0123456789"
	if use < 10 {
		return digits[use : use+1]
	}
	return Port(use/10) + digits[use%10:use%10+1]
}

// Alike reports whether two devices give the same bytes for a task: they round alike, are of one
// architecture, and neither may use a vendor's routine, which can round differently from call to call.
func Alike(t *graph.Task, a, b *machine.Device) bool {
	if !machine.RoundAlike(a, b) || a.Arch != b.Arch {
		return false
	}
	for i := range t.Steps {
		for _, impl := range t.Steps[i].Kernel.Impls {
			if impl.Dialect == graph.Library && (a.Runs(impl.Dialect) || b.Runs(impl.Dialect)) {
				return false
			}
		}
	}
	return true
}

// Comparable reports whether the results of two devices can be compared: they give the same
// bytes, or the graph says of all data that the task writes how results of others compare.
func Comparable(g *graph.Graph, id graph.TaskID, a, b *machine.Device) bool {
	t := g.Task(id)
	if Alike(t, a, b) {
		return true
	}
	return !slices.ContainsFunc(t.Uses, func(u graph.Use) bool { return u.Access.Writes() && g.Data(u.Data).Tolerance == 0 })
}
