package vulkan

import (
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// proc is a function of the library; addr 0 stands for one it does not have.
type proc struct {
	name string
	addr uintptr
}

// frame holds the words of one call and the structures they point to, so that
// calls allocate nothing. Frames live on the heap: what C is given the address of
// must not move. One goroutine uses a frame at a time.
type frame struct {
	args [16]uintptr
	mem  [1024]uint64
	used int
	more [][]uint64 // what did not fit
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func getFrame() *frame { return frames.Get().(*frame) }

func (f *frame) free() {
	f.reset()
	frames.Put(f)
}

// reset forgets the structures, for a frame that is kept.
func (f *frame) reset() { f.used, f.more = 0, nil }

// call calls p and returns what it returned.
func (f *frame) call(p *proc, args ...uintptr) uintptr {
	n := copy(f.args[:], args)
	r, _, _ := purego.SyscallN(p.addr, f.args[:n]...)
	return r
}

// room returns zeroed memory for n bytes.
func (f *frame) room(n uintptr) unsafe.Pointer {
	words := max(int(n+7)/8, 1)
	if f.used+words > len(f.mem) {
		b := make([]uint64, words)
		f.more = append(f.more, b)
		return unsafe.Pointer(&b[0])
	}
	b := f.mem[f.used : f.used+words]
	f.used += words
	clear(b)
	return unsafe.Pointer(&b[0])
}

// put copies a structure, which holds no Go pointers, to where C can read it.
func put[T any](f *frame, v T) uintptr {
	p := f.room(unsafe.Sizeof(v))
	*(*T)(p) = v
	return uintptr(p)
}

// list copies structures one after another; no structures are at no address.
func list[T any](f *frame, vs []T) uintptr {
	if len(vs) == 0 {
		return 0
	}
	p := f.room(unsafe.Sizeof(vs[0]) * uintptr(len(vs)))
	copy(unsafe.Slice((*T)(p), len(vs)), vs)
	return uintptr(p)
}

// answer is room for a structure that C fills in.
func answer[T any](f *frame) *T {
	var zero T
	return (*T)(f.room(unsafe.Sizeof(zero)))
}

// address returns the address of a structure in a frame.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// string copies s, as C likes it.
func (f *frame) string(s string) uintptr { return list(f, append([]byte(s), 0)) }

// strings copies a list of names.
func (f *frame) strings(names []string) uintptr {
	at := make([]uintptr, len(names))
	for i, n := range names {
		at[i] = f.string(n)
	}
	return list(f, at)
}

// pointer turns an address from C into a pointer.
func pointer(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// text reads a C string from an array.
func text(b []byte) string {
	for i := range b {
		if b[i] == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
