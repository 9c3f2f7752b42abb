package cuda

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/weft-run/weft/driver"
)

// library is a shared library opened at run time.
type library struct {
	path   string
	handle uintptr
}

// wheels are where Python packages put NVIDIA's libraries: PyTorch brings all of
// them, so a machine that runs it needs no toolkit.
var wheels = []string{
	"/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
	"/opt/*/lib/python3*/site-packages/nvidia/*/lib",
	"/usr/local/lib/python3*/*-packages/nvidia/*/lib",
	"/usr/lib/python3*/*-packages/nvidia/*/lib",
	"/root/.local/lib/python3*/site-packages/nvidia/*/lib",
	"/home/*/.local/lib/python3*/site-packages/nvidia/*/lib",
}

// toolkits are where NVIDIA's own packages put them.
var toolkits = []string{"/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/local/nvidia/lib64"}

// errBroken says that a library was found, and why it is of no use.
var errBroken = errors.New("it is there and cannot be opened")

// elsewhere has libraries looked for beyond the folders given. Tests of what
// happens without one turn it off.
var elsewhere = true

// open opens the first of names that is found: in the folders given, by the
// system's own search, in toolkits, in Python's packages.
func open(folders []string, names ...string) (*library, error) {
	var broken error // the first that is there and cannot be used
	try := func(folder string) *library {
		for _, n := range names {
			path := filepath.Join(folder, n)
			h, err := dlopen(path)
			if err == nil {
				return &library{path, h}
			}
			if broken == nil && !absent(path, err) {
				broken = err
			}
		}
		return nil
	}
	for _, f := range folders {
		if l := try(f); l != nil {
			return l, nil
		}
	}
	patterns := append(slices.Clone(toolkits), wheels...)
	if !elsewhere {
		patterns = nil
	} else if l := try(""); l != nil {
		return l, nil
	}
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, f := range found {
			if l := try(f); l != nil {
				return l, nil
			}
		}
	}
	if broken != nil {
		return nil, fmt.Errorf("%s: %w: %w: %v", names[0], driver.ErrUnavailable, errBroken, broken)
	}
	return nil, fmt.Errorf("%s: %w: not found in the system's folders, under /usr/local/cuda or among Python's packages", names[0], driver.ErrUnavailable)
}

// proc is a function of a library; addr 0 stands for one it does not have.
type proc struct {
	name string
	addr uintptr
}

// bind finds the first of names the library has.
func (l *library) bind(names ...string) proc {
	for _, n := range names {
		if addr := dlsym(l.handle, n); addr != 0 {
			return proc{n, addr}
		}
	}
	return proc{name: names[0]}
}

// frame holds the words of one call, so that calls allocate nothing, and room
// for what calls answer through pointers. Frames live on the heap: what C is
// given the address of must not move. One goroutine uses a frame at a time.
type frame struct {
	args [32]uintptr
	out  [64]uint64
	keep [][]byte // what C reads during the call
}

var frames = sync.Pool{New: func() any { return new(frame) }}

func getFrame() *frame {
	f := frames.Get().(*frame)
	clear(f.out[:])
	return f
}

func (f *frame) free() {
	f.keep = nil
	frames.Put(f)
}

// call calls p and returns what it returned.
func (f *frame) call(p *proc, args ...uintptr) uintptr {
	n := copy(f.args[:], args)
	r, _, _ := purego.SyscallN(p.addr, f.args[:n]...)
	return r
}

// at is the address of the i-th word of out.
func (f *frame) at(i int) uintptr { return uintptr(unsafe.Pointer(&f.out[i])) }

// i32 reads a C int from the i-th word of out.
func (f *frame) i32(i int) int32 { return *(*int32)(unsafe.Pointer(&f.out[i])) }

// text reads the C string that out holds from its i-th word on.
func (f *frame) text(i int) string { return cString(f.at(i), 8*(len(f.out)-i)) }

// pointer turns an address from C into a pointer.
func pointer(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// cString copies a C string of at most limit bytes.
func cString(addr uintptr, limit int) string {
	if addr == 0 {
		return ""
	}
	b := unsafe.Slice((*byte)(pointer(addr)), limit)
	for i := range b {
		if b[i] == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// bytes is where b begins. The frame keeps b, which also makes sure that it lies
// on the heap and does not move.
func (f *frame) bytes(b []byte) uintptr {
	f.keep = append(f.keep, b)
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

// string is where s begins, as C likes it.
func (f *frame) string(s string) uintptr { return f.bytes(append([]byte(s), 0)) }
