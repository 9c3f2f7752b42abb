package signature

import (
	"fmt"
	"math"
	"reflect"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// Kernel is a Go kernel with what it takes.
type Kernel struct {
	Name string // by which graphs name it
	Does string // what it computes, in a line
	Args []Arg  // in the order of a task's uses
	// Grid describes the grid of a step, for people.
	Grid string
	// Per is the number of items of a step's grid in one item of the function, as
	// graph.Impl.Per.
	Per    []uint32
	Params []Param
	Func   driver.Func
}

// Arg is memory that a kernel gets.
type Arg struct {
	Name   string
	Elem   graph.Elem
	Access graph.Access
	// Workspace says that it is the task's workspace, which comes after the uses.
	Workspace bool
	// More says that there may be several in this place.
	More bool
}

// In is an argument that is read.
func In(name string, e graph.Elem) Arg { return Arg{Name: name, Elem: e, Access: graph.Read} }

// Out is an argument that is written.
func Out(name string, e graph.Elem) Arg { return Arg{Name: name, Elem: e, Access: graph.Write} }

// InOut is an argument that is read and written.
func InOut(name string, e graph.Elem) Arg { return Arg{Name: name, Elem: e, Access: graph.ReadWrite} }

// Work is a workspace.
func Work(name string, e graph.Elem) Arg {
	return Arg{Name: name, Elem: e, Access: graph.Write, Workspace: true}
}

// Param is a field of a kernel's parameters.
type Param struct {
	Name string
	Type string // as graph files name it
}

// maxArgs is the most arguments that a signature has.
const maxArgs = 12

// Need holds what a call with certain parameters needs.
type Need struct {
	// Items is the number of items of the function. A call for more computes only these.
	Items int64
	// Elements is the number of elements each argument must have, by its position.
	Elements [maxArgs]int64
}

// Of completes the signature of a function with parameters P and adds it to All. need returns
// the needs of a call, or an error about its parameters; it may use only the lengths of the
// arguments.
func Of[P any](k Kernel, need func(c *driver.Call, p P) (Need, error), fn func(c *driver.Call, p P, lo, hi int)) Kernel {
	if len(k.Args) > maxArgs {
		panic(fmt.Errorf("signature: kernel %q has %d arguments; %d are the most", k.Name, len(k.Args), maxArgs))
	}
	k.Params = params("", reflect.TypeFor[P](), nil)
	args := k.Args // and not k, which would be copied for every call
	k.Func = driver.WithParams(func(c *driver.Call, p P, lo, hi int) {
		n, err := Need{}, enough(c, args)
		if err == nil {
			n, err = need(c, p)
		}
		if err == nil {
			err = n.check(c, args)
		}
		if err != nil {
			c.Fail(driver.OfLaunch(fmt.Errorf("%w: %w", driver.ErrUnfit, err), driver.ErrUnfit, driver.ErrKernel))
			return
		}
		if hi = int(min(int64(hi), n.Items)); lo < hi {
			fn(c, p, lo, hi)
		}
	})
	add(k)
	return k
}

// enough errs if there are fewer arguments than a kernel takes, or memory is not where its
// elements may be.
func enough(c *driver.Call, args []Arg) error {
	if len(c.Args) < len(args) {
		missing := args[len(c.Args)]
		if missing.Workspace {
			return fmt.Errorf("the task has no workspace, which is for %s: say \"workspace\"", missing.Name)
		}
		return fmt.Errorf("it takes %d arguments, given are %d: the next is %s, %s", len(args), len(c.Args), missing.Name, missing.Elem)
	}
	for i, a := range c.Args {
		size := args[min(i, len(args)-1)].Elem.Size()
		if len(a) > 0 && uintptr(unsafe.Pointer(&a[0]))%uintptr(size) != 0 {
			return fmt.Errorf("argument %d begins at a byte where no %s can: let its offset be a multiple of %d", i, args[min(i, len(args)-1)].Elem, size)
		}
	}
	return nil
}

// check errs if arguments are too short for the parameters, or the grid is.
func (n *Need) check(c *driver.Call, args []Arg) error {
	for i, a := range args {
		if have := int64(len(c.Args[i])) / a.Elem.Size(); have < n.Elements[i] {
			return fmt.Errorf("the parameters need %s of %s in %s, argument %d, which has %d", count(n.Elements[i]), a.Elem, a.Name, i, have)
		}
	}
	// How an implementation cuts the grid is not known here, but it makes no more of it.
	items := int64(1)
	for _, g := range c.Launch.Grid {
		items = product(items, int64(max(g, 1)))
	}
	if c.Launch.Grid[0] > 0 && items < n.Items {
		return fmt.Errorf("the parameters make %s items, and the grid has %d: make it as large as the result, or larger", count(n.Items), items)
	}
	return nil
}

// count writes a number that may be too large to be one.
func count(n int64) string {
	if n == math.MaxInt64 {
		return "2⁶³ or more"
	}
	return fmt.Sprint(n)
}

// Product multiplies numbers that are not negative, and returns the largest int64 where the
// product is larger.
func Product(factors ...int) int64 {
	out := int64(1)
	for _, f := range factors {
		out = product(out, int64(f))
	}
	return out
}

func product(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// Parts returns in how many parts of a size n falls, the last of which may be smaller.
func Parts(n, size int) int64 { return (int64(n) + int64(size) - 1) / int64(size) }

// Positive errs unless all numbers are, which are named in their order.
func Positive(names []string, values ...int) error {
	for i, v := range values {
		if v < 1 {
			return fmt.Errorf("%s is %d: it must be 1 or more", names[i], v)
		}
	}
	return nil
}

// params returns the fields of a structure as graph.Pack has them, one after another.
func params(name string, t reflect.Type, out []Param) []Param {
	if t.Kind() != reflect.Struct {
		return append(out, Param{name, t.Kind().String()})
	}
	for f := range t.Fields() {
		out = params(f.Name, f.Type, out)
	}
	return out
}
