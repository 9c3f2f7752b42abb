package workload

import (
	"fmt"
	"reflect"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/ports"
	"github.com/weft-run/weft/sched"
)

// Declaration says once what a job is whose ranges need nothing of one another: its items, the data that belongs to
// them, and the kernel that computes a range. The rest follows from it, by [Declare].
type Declaration struct {
	Name  string // with its sizes, for reports
	Class Class  // Exact has all devices compute the same bytes, which runs that verify compare
	Of    string // what items are, as "events"
	// Extent is the number of items, and Align that of which every boundary but the last must be a multiple.
	Extent, Align int64
	// Grain is the number of items below which a task wastes time on what every task does anew; 0 means 1.
	Grain int64
	Ports []Port
	// Kernel computes a range of items, each one of its grid, with parameters that Params returns.
	Kernel *graph.Kernel
	Params func(lo, hi int64) any
	// Ops is the number of operations of an item, with numbers of Unit.
	Ops  float64
	Unit graph.Unit
	// Task changes the task of a range where the fields above do not say all of it.
	Task func(t *graph.Task, lo, hi int64)
	// Ends returns where a task that begins at an item ends at the latest; nil means at the end of its range.
	Ends func(lo int64) int64
	// Cost is the work in a range, nil where every item costs the same. Bytes is what a range reads and writes, nil
	// where ports say so. They are as those of sched.Items.
	Cost  func(lo, hi int64) float64
	Bytes func(lo, hi int64) (in, out int64)
	// First and Then add tasks before and after those of ranges, of which First is told the number. Data are
	// numbered as Ports are.
	First func(b *graph.Builder, ranges int)
	Then  func(b *graph.Builder)
}

// Port is data of a job, with the memory that it is bound to.
type Port struct {
	port ports.Port
	bind *weft.Binding // nil for what is on devices alone
}

// In is a slice that ranges read, so many elements for each item.
func In[T any](name string, xs []T, each int) Port { return port(name, xs, each, graph.Read) }

// Out is a slice that ranges write, so many elements for each item.
func Out[T any](name string, xs []T, each int) Port { return port(name, xs, each, graph.Write) }

// All is a slice that every range reads all of.
func All[T any](name string, xs []T) Port { return port(name, xs, 0, graph.Read) }

// Made is a slice that every range reads all of after tasks of First have written it, the same bytes on all devices.
func Made[T any](name string, xs []T) Port {
	p := All(name, xs)
	p.port.Input, p.port.Output, p.port.Tolerance = false, true, graph.SameBytes
	return p
}

// Between is data that ranges write for other tasks of the graph: so many bytes for each item.
func Between(name string, bytes, each int64) Port {
	return Port{port: ports.Port{Data: graph.Data{Name: name, Bytes: bytes}, Access: graph.Write, Each: each}}
}

func port[T any](name string, xs []T, each int, access graph.Access) Port {
	bind := weft.Bind(name, xs)
	size := int64(reflect.TypeFor[T]().Size())
	return Port{bind: &bind, port: ports.Port{
		Data:   graph.Data{Name: name, Bytes: size * int64(len(xs)), Input: access == graph.Read, Output: access == graph.Write},
		Access: access, Each: size * int64(each),
	}}
}

// Per has what belongs to an item belong to so many items together.
func (p Port) Per(items int64) Port {
	p.port.Per = items
	return p
}

// Elements says what type elements have, which others than kernels look at.
func (p Port) Elements(e graph.Elem) Port {
	p.port.Elem = e
	return p
}

// Within says which slice belongs to a range, where no item has the same number of elements.
func (p Port) Within(part func(lo, hi int64) (offset, bytes int64)) Port {
	p.port.Part = part
	return p
}

// NoRange has no range use the data, but other tasks.
func (p Port) NoRange() Port {
	p.port.Aside = true
	return p
}

// Declared is embedded in jobs and has what follows from their declaration.
type Declared struct {
	d     *Declaration
	ports ports.Ports
}

// Declare returns what follows from a declaration.
func Declare(d Declaration) Declared {
	out := Declared{d: &d}
	for _, p := range d.Ports {
		if d.Class == Exact && !p.port.Input {
			p.port.Tolerance = graph.SameBytes
		}
		out.ports = append(out.ports, p.port)
	}
	return out
}

// Name is the declared name.
func (j *Declared) Name() string { return j.d.Name }

// Class is the declared class.
func (j *Declared) Class() Class { return j.d.Class }

// Items are the declared items.
func (j *Declared) Items() sched.Items {
	items := sched.Items{Extent: j.d.Extent, Align: j.d.Align, Cost: j.d.Cost, Bytes: j.d.Bytes, Grain: j.d.Grain, Streamed: true}
	if items.Bytes == nil {
		items.Bytes = j.ports.Bytes
	}
	return items
}

// Whole is all items as one task.
func (j *Declared) Whole() graph.Task {
	t := j.Task(0, j.d.Extent)
	t.Uses = nil
	return t
}

// Task computes a range of items.
func (j *Declared) Task(lo, hi int64) graph.Task {
	in, out := j.ports.Bytes(lo, hi)
	t := graph.Task{
		Name: fmt.Sprintf("%s %d-%d", j.d.Of, lo, hi), Uses: j.ports.Uses(lo, hi),
		Work: graph.Work{Ops: j.d.Ops * float64(hi-lo), Bytes: float64(in + out), Unit: j.d.Unit},
	}
	if j.d.Params != nil {
		t.Steps = []graph.Step{graph.Step{Kernel: j.d.Kernel, Launch: graph.Grid(hi - lo)}.With(j.d.Params(lo, hi))}
	}
	if j.d.Task != nil {
		j.d.Task(&t, lo, hi)
	}
	return t
}

// Graph has a task for each range, or several where one would be too long.
func (j *Declared) Graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	j.ports.AddTo(&b)
	if j.d.First != nil {
		j.d.First(&b, len(ranges))
	}
	for _, r := range ranges {
		if err := j.ports.Check(r, j.d.Extent); err != nil {
			return nil, err
		}
		if j.d.Ends == nil {
			b.Add(j.Task(r.Lo, r.Hi))
			continue
		}
		for lo := r.Lo; lo < r.Hi; {
			hi := min(j.d.Ends(lo), r.Hi)
			b.Add(j.Task(lo, hi))
			lo = hi
		}
	}
	if j.d.Then != nil {
		j.d.Then(&b)
	}
	return b.Build()
}

// Bind ties ports to their memory.
func (j *Declared) Bind() []weft.Binding {
	var all []weft.Binding
	for _, p := range j.d.Ports {
		if p.bind != nil {
			all = append(all, *p.bind)
		}
	}
	return all
}
