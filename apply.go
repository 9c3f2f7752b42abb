package weft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"sync"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/ports"
	"github.com/weft-run/weft/sched"
)

// Kernel is a program's own computation over slices, for [Apply]. It has the forms that the
// program brings, one at least; each device takes the one it can run.
//
// An item is what one thread computes. Every form gets the arguments of Apply in their order,
// as pointers in CUDA C and PTX and as storage buffers of set 0 in a shader; then, as one
// structure by value or as push constants, the number of items as an unsigned n and the
// fields of P (see [graph.Pack]). The form looks whether its item is below n. P is struct{} for
// a kernel without parameters of its own.
//
// A Kernel must not be copied or changed once it was used. It is meant to be a variable of a
// package, since runtimes keep what they were given.
type Kernel[P any] struct {
	// Name is the function in CUDA and PTX, and what errors and traces call the kernel.
	Name string
	// Go computes items lo to hi-1 on CPU cores. It sees the arguments by [View].
	Go func(c *Call, p P, lo, hi int)
	// CUDA is CUDA C, compiled at run time by NVRTC. It need not declare the structure of
	// parameters, which is Params there: struct Params { unsigned n; float k; }.
	CUDA string
	// PTX is NVIDIA assembly. Both have an item for each thread along x.
	PTX string
	// SPIRV is a Vulkan compute shader with the entry main. Group is how many invocations
	// its groups have, 0 if it leaves that to the specialization constants 0, 1 and 2.
	SPIRV []byte
	Group uint32
	// Elementwise says that item i uses element i of every argument that is not [Whole], and
	// no other. The work is then divided among devices.
	Elementwise bool
	// Ops is about how many operations an item takes, for predictions; 0 means one. It may be
	// less than one, where an item does nothing more often than not.
	Ops float64

	once   sync.Once
	kernel *graph.Kernel
	fn     Func // Go, or nil
	err    error
}

// Arg is an argument of [Apply]: what [In], [Out], [InOut] and [Whole] return.
type Arg struct {
	bind   func(name string) Binding
	access graph.Access
	whole  bool
	n      int   // elements
	size   int64 // bytes of an element
	err    error // why it is no argument
}

func arg[T any](xs []T, access graph.Access, whole bool) Arg {
	return Arg{
		bind: func(name string) Binding { return Bind(name, xs) }, access: access, whole: whole,
		n: len(xs), size: int64(reflect.TypeFor[T]().Size()),
	}
}

// In is a slice that the kernel reads. It must not write it; see [Func].
func In[T any](xs []T) Arg { return arg(xs, graph.Read, false) }

// Out is a slice that the kernel writes. What it held is not seen, and every element must be
// written.
func Out[T any](xs []T) Arg { return arg(xs, graph.Write, false) }

// InOut is a slice that the kernel reads and writes.
func InOut[T any](xs []T) Arg { return arg(xs, graph.ReadWrite, false) }

// Whole is a slice of any length that every item of an elementwise kernel may read all of, as
// a table.
func Whole[T any](xs []T) Arg { return arg(xs, graph.Read, true) }

// In is resident data that the kernel reads. It stays on its device from call to call.
func (d *Data[T]) In() Arg { return d.arg(graph.Read, false) }

// Out is resident data that the kernel writes, all of it.
func (d *Data[T]) Out() Arg { return d.arg(graph.Write, false) }

// InOut is resident data that the kernel reads and writes.
func (d *Data[T]) InOut() Arg { return d.arg(graph.ReadWrite, false) }

// Whole is resident data that every item may read all of, as the function of that name says.
func (d *Data[T]) Whole() Arg { return d.arg(graph.Read, true) }

func (d *Data[T]) arg(access graph.Access, whole bool) Arg {
	if d == nil {
		return Arg{err: errNoData}
	}
	a := arg(View[T](d.home), access, whole) // for its length; the memory is not looked at
	a.bind = d.As
	return a
}

// Apply runs a kernel over slices of the caller's and returns when the results are in them.
// There are as many items as the arguments have elements: of an elementwise kernel all must
// have as many, and work that is worth it is divided among the devices by what each can do; of
// another it is the length of the first argument that the kernel writes. If there are none,
// nothing is run. Errors are those of [Runtime.Run]; one about the arguments wraps [ErrBinding],
// and one about the kernel [graph.ErrKernel] or [graph.ErrValue]. For several
// kernels that depend on one another see package graph.
func Apply[P any](ctx context.Context, rt *Runtime, k *Kernel[P], params P, args ...Arg) (*Report, error) {
	need("Apply", ctx, true)
	if rt == nil || k == nil {
		panic(errors.New("weft: Apply: the runtime or the kernel is nil"))
	}
	k.once.Do(k.prepare)
	a := &application{kernel: k.kernel, elementwise: k.Elementwise, args: args, ops: cmp.Or(k.Ops, 1)}
	a.with = func(s graph.Step, n int64) graph.Step { return s.With(counted[P]{int(n), params}) }
	err := k.err
	if err == nil {
		err = a.count()
	}
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", k.Name, err)
	}
	if a.n == 0 {
		return new(Report), nil
	}
	if k.fn != nil {
		name := k.kernel.Impls[0].Entry
		if err := rt.mustKnow(name); err != nil {
			return nil, fmt.Errorf("apply %s: %w", k.Name, err)
		}
		rt.applied.LoadOrStore(name, k.fn)
	}
	rep, err := a.run(ctx, rt)
	if err != nil {
		err = fmt.Errorf("apply %s: %w", k.Name, err)
	}
	return rep, err
}

// counted are the parameters of a kernel behind the number of items.
type counted[P any] struct {
	N int
	P P
}

// goForms are Go functions of kernels by their entries.
type goForms struct{ sync.Map }

func (g *goForms) find(entry string) Func {
	if fn, ok := g.Load(entry); ok {
		return fn.(Func)
	}
	return nil
}

// entries names the Go functions of kernels: the first of a name by that, others with a
// number, so that a worker process, which is the same program, comes to the same names.
var entries struct {
	sync.Mutex
	used map[string]int // by name of a kernel, how many there were
}

// goEntry returns the next entry for a kernel of a name.
func goEntry(name string) string {
	entries.Lock()
	defer entries.Unlock()
	if entries.used == nil {
		entries.used = make(map[string]int)
	}
	entries.used[name]++
	if n := entries.used[name]; n > 1 {
		return fmt.Sprintf("weft.apply %d %s", n, name)
	}
	return "weft.apply " + name
}

// Funcs returns the Go function of the kernel under the name by which weft knows it, for
// [Worker]; nothing if it has none.
func (k *Kernel[P]) Funcs() map[string]Func {
	k.once.Do(k.prepare)
	if k.fn == nil {
		return nil
	}
	return map[string]Func{k.kernel.Impls[0].Entry: k.fn}
}

// target finds the architecture that PTX is for.
var target = regexp.MustCompile(`(?m)^\s*\.target\s+(sm_\w+)`)

// prepare makes a kernel of a graph of the forms. A Go function is the first.
func (k *Kernel[P]) prepare() {
	k.kernel = &graph.Kernel{Name: k.Name}
	declared, err := graph.Declare("Params", counted[P]{})
	if err != nil {
		k.err = err
		return
	}
	add := func(i graph.Impl) { k.kernel.Impls = append(k.kernel.Impls, i) }
	if k.Go != nil {
		k.fn = WithParams(func(c *Call, p counted[P], lo, hi int) { k.Go(c, p.P, lo, hi) })
		add(graph.Impl{Dialect: graph.Go, Entry: goEntry(k.Name)})
	}
	if k.CUDA != "" {
		add(graph.Impl{Dialect: graph.CUDAC, Entry: k.Name, Source: []byte(declared + "\n#line 1\n" + k.CUDA)})
	}
	if k.PTX != "" {
		i := graph.Impl{Dialect: graph.PTX, Entry: k.Name, Source: []byte(k.PTX)}
		if m := target.FindStringSubmatch(k.PTX); m != nil {
			i.Arch = m[1]
		}
		add(i)
	}
	if k.SPIRV != nil {
		add(graph.Impl{Dialect: graph.SPIRV, Entry: "main", Source: k.SPIRV, Per: [3]uint32{k.Group}, Block: [3]uint32{k.Group}})
	}
	switch {
	case len(k.kernel.Impls) == 0:
		k.err = fmt.Errorf("%w: the kernel has no form: give it Go, CUDA, PTX or SPIRV", graph.ErrKernel)
	case k.Name == "" && (k.CUDA != "" || k.PTX != ""):
		k.err = fmt.Errorf("%w: the kernel has no name: CUDA C and PTX are found by it", graph.ErrKernel)
	case k.Ops < 0 || math.IsNaN(k.Ops) || math.IsInf(k.Ops, 0):
		k.err = fmt.Errorf("%w: an item of the kernel takes %v operations", graph.ErrValue, k.Ops)
	}
}

// application is a call of Apply.
type application struct {
	kernel      *graph.Kernel
	with        func(s graph.Step, n int64) graph.Step // adds parameters for n items
	args        []Arg
	elementwise bool
	ops         float64
	n           int64
	ports       ports.Ports
}

// count finds the number of items.
func (a *application) count() error {
	first := -1
	for i, x := range a.args {
		switch {
		case x.err != nil:
			return fmt.Errorf("%w: argument %d: %w", ErrBinding, i, x.err)
		case x.bind == nil:
			return fmt.Errorf("%w: argument %d is nothing: use In, Out, InOut or Whole", ErrBinding, i)
		case x.size == 0:
			return fmt.Errorf("%w: argument %d has elements without a size", ErrBinding, i)
		case x.whole, !a.elementwise && x.access == graph.Read:
			continue
		case first < 0:
			first, a.n = i, int64(x.n)
		case a.elementwise && int64(x.n) != a.n:
			return fmt.Errorf("%w: argument %d has %d elements and argument %d has %d: an elementwise kernel needs arguments of equal length; pass others by Whole", ErrBinding, first, a.n, i, x.n)
		}
	}
	if first < 0 {
		return fmt.Errorf("%w: no argument says how many items there are: give it one by Out or InOut", ErrBinding)
	}
	for i, x := range a.args {
		if x.n == 0 && a.n > 0 {
			return fmt.Errorf("%w: argument %d has no elements", ErrBinding, i)
		}
	}
	return nil
}

// smallBytes is the size of arguments up to which the work is not predicted: a core does it
// in about the 0.5 ms that a prediction takes.
const smallBytes = 1 << 20

// run cuts the work, builds its graph and runs it.
func (a *application) run(ctx context.Context, rt *Runtime) (*Report, error) {
	if why := rt.machine.Unable(a.kernel); why != "" {
		return nil, fmt.Errorf("%w: %s", ErrNoDevice, why)
	}
	var bind []Binding
	for i, x := range a.args {
		name := fmt.Sprintf("argument %d", i)
		bind = append(bind, x.bind(name))
		p := ports.Port{
			Data:   graph.Data{Name: name, Bytes: int64(x.n) * x.size, Input: x.access.Reads(), Output: x.access.Writes()},
			Access: x.access,
		}
		if a.elementwise && !x.whole {
			p.Each = x.size
		}
		a.ports = append(a.ports, p)
	}
	ranges := []sched.Range{{Lo: 0, Hi: a.n}}
	var g *graph.Graph
	if a.elementwise {
		w := Divisible{
			Items: sched.Items{Extent: a.n, Align: 256, Bytes: a.ports.Bytes, Streamed: true},
			Whole: a.task(ranges[0]), Bind: bind,
		}
		if in, out := a.ports.Bytes(0, a.n); in+out > smallBytes {
			w.Graph = a.graph
		}
		p, err := rt.Plan(ctx, w)
		if errors.Is(err, sched.ErrNoShare) { // all that could run it are out of service
			err = fmt.Errorf("%w: %w", ErrNoDevice, err)
		}
		if err != nil {
			return nil, err
		}
		ranges, g = p.Ranges, p.Graph
	}
	if g == nil {
		var err error
		if g, err = a.graph(ranges); err != nil {
			return nil, err
		}
	}
	return rt.Run(ctx, g, bind...)
}

// task computes a range of items.
func (a *application) task(r sched.Range) graph.Task {
	n := r.Len()
	in, out := a.ports.Bytes(r.Lo, r.Hi)
	return graph.Task{
		Name:  fmt.Sprintf("%s, items %d to %d", a.kernel.Name, r.Lo, r.Hi-1),
		Steps: []graph.Step{a.with(graph.Step{Kernel: a.kernel, Launch: graph.Grid(n)}, n)},
		Work:  graph.Work{Ops: a.ops * float64(n), Bytes: float64(in + out)},
		Uses:  a.ports.Uses(r.Lo, r.Hi),
	}
}

// graph has a task for each range.
func (a *application) graph(ranges []sched.Range) (*graph.Graph, error) {
	var b graph.Builder
	a.ports.AddTo(&b)
	for _, r := range ranges {
		b.Add(a.task(r))
	}
	return b.Build()
}
