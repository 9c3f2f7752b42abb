package weft

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/memcopy"
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
// binding fails. So does one that writes memory that is bound a second time, in the same
// run or in one in progress; any number of runs may read the same.
func Bind[T any](name string, xs []T) Binding {
	if err := plain[T](); err != nil {
		return Binding{Name: name, err: err}
	}
	return Binding{Name: name, mem: bytesOf(xs)}
}

// Spoil overwrites the memory bound to outputs of a graph that are not inputs too, so that
// results found there after a run are of that run and not of an earlier one: for programs
// that check results. Resident data stays as it is.
func Spoil(g *graph.Graph, b ...Binding) {
	if g == nil {
		return
	}
	for _, b := range b {
		id, ok := g.Lookup(b.Name)
		if !ok || !g.Data(id).Output || g.Data(id).Input || len(b.mem) == 0 {
			continue
		}
		b.mem[0] = 0xff // no number, where these are numbers
		for n := 1; n < len(b.mem); n *= 2 {
			copy(b.mem[n:], b.mem[:n])
		}
	}
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

// resident is the record of resident data that runs use.
type resident struct {
	r        *Runtime
	name     string
	ref      engine.DataRef
	home     []byte
	bytes    int64
	released atomic.Bool
	writer   int32        // port of the call that begins which writes it, -1 for none; the loop's
	port     int32        // the last port of that call it is bound to, -1 before the first; the loop's
	writes   atomic.Int64 // runs that gave it another value
	by       atomic.Int64 // the last of them
	secret   atomic.Bool  // it was bound to secret data of a graph
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
type Data[T any] struct{ *resident }

// Put makes a copy of xs resident, which devices copy from and to without a
// detour. Runs use it through As. The name is for
// messages; T must not hold pointers.
func Put[T any](r *Runtime, name string, xs []T) (*Data[T], error) {
	if err := plain[T](); err != nil {
		return nil, fmt.Errorf("put %q: %w: %w", name, ErrBinding, err)
	}
	d, err := reside(r, name, len(xs), func(home []T) { memcopy.Copy(bytesOf(home), bytesOf(xs), memcopy.Cores) })
	if err != nil {
		return nil, fmt.Errorf("put %q: %w", name, err)
	}
	return d, nil
}

// Alloc makes n zero elements resident.
func Alloc[T any](r *Runtime, name string, n int) (*Data[T], error) {
	if err := plain[T](); err != nil {
		return nil, fmt.Errorf("alloc %q: %w: %w", name, ErrBinding, err)
	}
	if n < 0 {
		return nil, fmt.Errorf("alloc %q: %w: %d elements", name, ErrBinding, n)
	}
	d, err := reside(r, name, n, func(home []T) { clear(home) })
	if err != nil {
		return nil, fmt.Errorf("alloc %q: %w", name, err)
	}
	return d, nil
}

// reside makes n elements resident, once fill has made them what they are.
func reside[T any](r *Runtime, name string, n int, fill func(home []T)) (*Data[T], error) {
	if r == nil {
		return nil, errNoRuntime
	}
	var t T
	bytes := int64(n) * int64(unsafe.Sizeof(t))
	if n == 0 || unsafe.Sizeof(t) == 0 {
		return nil, fmt.Errorf("%w: there is nothing in it; resident data needs at least one byte", ErrBinding)
	}
	if err := r.room(n, unsafe.Sizeof(t)); err != nil {
		return nil, err
	}
	if !r.hold() {
		return nil, ErrClosed
	}
	defer r.forget()
	// Where memory is shared with workers, the home is there as long as there is
	// room: copies to and from it take no detour.
	home, shared := hostSlice[T](r, n)
	fill(home)
	ref, err := r.x.Put(name, bytesOf(home), graph.Versioned)
	if err != nil {
		if shared {
			r.x.Shared().Put(bytesOf(home))
		}
		return nil, err
	}
	return &Data[T]{&resident{r: r, name: name, ref: ref, home: bytesOf(home), bytes: bytes}}, nil
}

// room errs when n elements of a size are more than there is memory for: making
// them would end the program.
func (r *Runtime) room(n int, size uintptr) error {
	most := r.most
	if most == 0 {
		most = 1 << 46 // what can be addressed
	}
	if size > 0 && int64(n) > most/int64(size) {
		return fmt.Errorf("%w: %d elements of %d bytes, and there are %.4g GB", ErrOutOfMemory, n, size, float64(most)/1e9)
	}
	return nil
}

// hostSlice makes n elements of any content in memory shared with workers, or
// where there is none, elsewhere; shared says which.
func hostSlice[T any](r *Runtime, n int) (xs []T, shared bool) {
	var t T
	if mem := r.x.Shared(); mem != nil && n > 0 && unsafe.Sizeof(t) > 0 {
		if b, err := mem.Get(int64(n) * int64(unsafe.Sizeof(t))); err == nil {
			return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n), true
		}
	}
	return make([]T, n), false
}

// Buffer is host memory that devices copy from and to without a detour: where
// they run in worker processes, it is shared with those. A run is given it by
// Bind, like any slice; ordinary slices are copied once more on their way.
type Buffer[T any] struct {
	r      *Runtime
	xs     []T
	shared bool
	once   sync.Once
}

// NewBuffer makes a buffer of n zero elements. Where no memory is shared, or none
// is left, it is an ordinary slice. T must not hold pointers.
func NewBuffer[T any](r *Runtime, n int) (*Buffer[T], error) {
	if err := plain[T](); err != nil {
		return nil, fmt.Errorf("buffer: %w: %w", ErrBinding, err)
	}
	if n < 0 {
		return nil, fmt.Errorf("buffer: %w: %d elements", ErrBinding, n)
	}
	if r == nil {
		return nil, fmt.Errorf("buffer: %w", errNoRuntime)
	}
	var t T
	if err := r.room(n, unsafe.Sizeof(t)); err != nil {
		return nil, fmt.Errorf("buffer: %w", err)
	}
	if !r.hold() {
		return nil, fmt.Errorf("buffer: %w", ErrClosed)
	}
	b := &Buffer[T]{r: r}
	if b.xs, b.shared = hostSlice[T](r, n); b.shared {
		clear(b.xs)
	}
	return b, nil
}

// Slice is the memory, until it is released.
func (b *Buffer[T]) Slice() []T {
	if b == nil {
		return nil
	}
	return b.xs
}

// Release gives the memory back. No run may be using it, and the program must not use it
// afterwards. Releasing it again does nothing.
func (b *Buffer[T]) Release() {
	if b == nil {
		return
	}
	b.once.Do(func() {
		if b.shared {
			b.r.x.Shared().Put(bytesOf(b.xs))
		}
		b.xs = nil
		b.r.forget()
	})
}

// As binds the data to a graph's data of a name. It may be bound to several, which all
// have its value at the beginning; at most one of them may be written, whose value at
// the end it has after. Tasks must use all of these in the same slices.
func (d *Data[T]) As(name string) Binding {
	if d == nil {
		return Binding{Name: name, err: errNoData}
	}
	return Binding{Name: name, res: d.resident}
}

// Get copies the data's current value out. It waits for the runs that write it,
// at most for Options.SyncTimeout, and must not be called by a kernel; see [Runtime.Run].
func (d *Data[T]) Get(ctx context.Context) ([]T, error) {
	need("Get", ctx, true)
	if d == nil {
		return nil, errNoData
	}
	ctx, cancel := d.r.bound(ctx)
	defer cancel()
	var out []T
	if err := d.read(ctx, func(home []byte) {
		out = make([]T, len(View[T](home)))
		memcopy.Copy(bytesOf(out), home, memcopy.Cores)
	}); err != nil {
		return nil, fmt.Errorf("get %q: %w", d.name, err)
	}
	return out, nil
}

// read brings the data's current value to its home and calls fn with it.
func (r *resident) read(ctx context.Context, fn func(home []byte)) error {
	if err := r.r.inKernel(ctx); err != nil {
		return err
	}
	if !r.r.hold() { // or the home could go while it is read
		return ErrClosed
	}
	defer r.r.forget()
	return block(ctx, func() error {
		return r.r.x.Fetch(ctx, r.ref, r.check, func() { fn(r.home) })
	})
}

// replace gives the data another value, in a home of its own that fill fills. No run may be using it.
func (r *resident) replace(fill func(home []byte)) error {
	if err := r.check(); err != nil {
		return err
	}
	next, err := reside(r.r, r.name, int(r.bytes), fill)
	if err != nil {
		return err
	}
	r.r.x.Release(r.ref)
	r.ref, r.home = next.ref, next.home
	return nil
}

// Release gives the data up once no run uses it. Releasing it again does nothing.
func (d *Data[T]) Release() {
	if d != nil && !d.released.Swap(true) {
		d.r.x.Release(d.ref)
	}
}
