package weft

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// Binding ties data of a graph, by name, to memory or to resident data.
type Binding struct {
	Name string
	mem  []byte
	res  *resident // in place of mem
	err  error     // why it cannot be bound
}

// Bind ties a graph's input or output to a slice. The slice must not be touched
// until the run has ended; its length must match the data's size. T must not
// hold pointers, since other devices see nothing but bytes: a run with such a
// binding fails.
func Bind[T any](name string, xs []T) Binding {
	if err := plain[T](); err != nil {
		return Binding{Name: name, err: err}
	}
	return Binding{Name: name, mem: bytesOf(xs)}
}

// plain errs when values of T are more than their bytes.
func plain[T any]() error {
	if t := reflect.TypeFor[T](); !pointerFree(t) {
		return fmt.Errorf("values of type %v hold pointers, which mean nothing on a device; use numbers, and structs and arrays of them", t)
	}
	return nil
}

// pointerFree reports whether values of a type are all bytes.
func pointerFree(t reflect.Type) bool {
	switch k := t.Kind(); {
	case k >= reflect.Bool && k <= reflect.Complex128:
		return true
	case k == reflect.Array:
		return t.Len() == 0 || pointerFree(t.Elem())
	case k == reflect.Struct:
		known, ok := pointerFrees.Load(t)
		if !ok {
			known = true
			for f := range t.Fields() {
				known = known.(bool) && pointerFree(f.Type)
			}
			pointerFrees.Store(t, known)
		}
		return known.(bool)
	}
	return false
}

// pointerFrees remembers the answer for structs, as bindings are made for every
// run: a bool by reflect.Type.
var pointerFrees sync.Map

// bytesOf views a slice as bytes.
func bytesOf[T any](xs []T) []byte {
	if len(xs) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&xs[0])), len(xs)*int(unsafe.Sizeof(xs[0])))
}

// View views bytes as a slice of T, for kernels. The bytes must be aligned for
// T, as buffers of weft are, and T must not hold pointers. A T without size has
// no elements in any bytes.
func View[T any](b []byte) []T {
	var t T
	if len(b) == 0 || unsafe.Sizeof(t) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(t)))
}

// resident is what runs need to know of resident data.
type resident struct {
	r        *Runtime
	name     string
	ref      engine.DataRef
	bytes    int64
	released atomic.Bool
}

// check errs when the data was released. It holds only on the loop of the
// executor, where data is also given up.
func (r *resident) check() error {
	if r.released.Load() {
		return fmt.Errorf("%w: it was released", ErrBinding)
	}
	return nil
}

// Data is resident data: it stays where runs leave it, on a device or in host
// memory, until it is released. It is safe for concurrent use; runs that write it
// take turns.
type Data[T any] struct {
	*resident
	home []T
}

// Put makes a copy of xs resident. Runs use it through As. The name is for
// messages; T must not hold pointers.
func Put[T any](r *Runtime, name string, xs []T) (*Data[T], error) {
	if err := plain[T](); err != nil {
		return nil, fmt.Errorf("put %q: %w: %w", name, ErrBinding, err)
	}
	home := slices.Clone(xs)
	mem := bytesOf(home)
	if len(mem) == 0 {
		return nil, fmt.Errorf("put %q: %w: there is nothing in it; resident data needs at least one byte", name, ErrBinding)
	}
	ref, err := r.x.Put(name, mem, graph.Versioned)
	if err != nil {
		return nil, fmt.Errorf("put %q: %w", name, err)
	}
	return &Data[T]{&resident{r: r, name: name, ref: ref, bytes: int64(len(mem))}, home}, nil
}

// Alloc makes n zero elements resident.
func Alloc[T any](r *Runtime, name string, n int) (*Data[T], error) {
	if n < 0 {
		return nil, fmt.Errorf("alloc %q: %w: %d elements", name, ErrBinding, n)
	}
	return Put(r, name, make([]T, n))
}

// As binds the data to a graph's data of a name.
func (d *Data[T]) As(name string) Binding { return Binding{Name: name, res: d.resident} }

// Get copies the data's current value out. It waits for the runs that write it,
// at most for Options.SyncTimeout.
func (d *Data[T]) Get(ctx context.Context) ([]T, error) {
	ctx, cancel := d.r.bound(ctx)
	defer cancel()
	var out []T
	if err := d.r.x.Fetch(ctx, d.ref, d.check, func() { out = slices.Clone(d.home) }); err != nil {
		return nil, fmt.Errorf("get %q: %w", d.name, err)
	}
	return out, nil
}

// Release gives the data up once no run uses it. Releasing it again does nothing.
func (d *Data[T]) Release() {
	if !d.released.Swap(true) {
		d.r.x.Release(d.ref)
	}
}
