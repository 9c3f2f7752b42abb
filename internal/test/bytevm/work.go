package bytevm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Work is a graph that is given, with Go kernels that compute, in place of a random one.
type Work struct {
	Graph  *graph.Graph
	Inputs [][]byte // by handle: what it holds at first, nil for what is no input
	Funcs  map[string]driver.Func
}

// WorkTraits are those of a trial of given work in which every run has to end well.
const WorkTraits = All &^ (Gangs | Constraints | Volatile | Wide | HostScarce | Cancels | Residents | VolatileHeld | FewRetries | NoFaultTolerance | Poison)

var errReduces = errors.New("work with reductions is not tried on bytes")

// program makes a program of the work.
func (w *Work) program() (*program, error) {
	p := &program{graph: w.Graph, work: w}
	for i := range w.Graph.NumData() {
		d := w.Graph.Data(graph.DataID(i))
		if d.Input != (w.Inputs[i] != nil) || d.Input && int64(len(w.Inputs[i])) != d.Bytes {
			return nil, fmt.Errorf("data %q has %d bytes of input, of %d", d.Name, len(w.Inputs[i]), d.Bytes)
		}
		p.data, p.bound = append(p.data, *d), append(p.bound, -1)
		p.total += 2 * d.Bytes
	}
	for i := range w.Graph.NumTasks() {
		t := w.Graph.Task(graph.TaskID(i))
		if slices.ContainsFunc(t.Uses, func(u graph.Use) bool { return u.Access == graph.Reduce }) || t.Gang > 1 {
			return nil, errReduces
		}
		p.tasks = append(p.tasks, *t)
		p.need = max(p.need, taskNeed(t))
	}
	return p, nil
}

// compute runs the kernels of a task on copies of what it writes. The result has nil where a use
// only reads.
func (w *Work) compute(t *graph.Task, args [][]byte) [][]byte {
	all, out := slices.Clone(args), make([][]byte, len(t.Uses))
	for i, u := range t.Uses {
		if u.Access == graph.Read {
			all[i] = slices.Clone(args[i]) // or a kernel that writes there would not be found out
			continue
		}
		out[i] = slices.Clone(args[i])
		if u.Access == graph.Write {
			paint(out[i], patternNew)
		}
		all[i] = out[i]
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		mine, err := driver.StepArgs(s, all, nil)
		if err != nil {
			panic(err)
		}
		k := slices.IndexFunc(s.Kernel.Impls, func(i graph.Impl) bool { return i.Dialect == graph.Go })
		grid := s.Kernel.Impls[k].Shape(s.Launch).Grid
		c := &driver.Call{Args: mine, Params: s.Params, Launch: s.Launch}
		w.Funcs[s.Kernel.Impls[k].Entry](c, 0, int(grid[0])*int(grid[1])*int(grid[2]))
		if err := c.Err(); err != nil {
			panic(err)
		}
	}
	return out
}

// reference runs all tasks one after another.
func (w *Work) reference(mem [][]byte) {
	for i := range w.Graph.NumTasks() {
		t := w.Graph.Task(graph.TaskID(i))
		args := make([][]byte, len(t.Uses))
		for k, u := range t.Uses {
			args[k] = mem[u.Data][u.Offset : u.Offset+u.Bytes]
		}
		if t.Workspace > 0 {
			args = append(args, make([]byte, t.Workspace))
		}
		for k, b := range w.compute(t, args) {
			copy(args[k], b)
		}
	}
}

// rates gives every device a rate for every unit, which kernels that compute have.
func rates(m *machine.Machine) {
	for i := range m.Devices {
		r := &m.Devices[i].Rates
		for u := range r.Ops {
			r.Ops[u] = r.Ops[graph.FP32]
		}
	}
}
