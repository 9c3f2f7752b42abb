package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/safefile"
)

// library is a shared library opened at run time.
type library struct {
	path   string
	handle uintptr
}

// wheels are where Python packages put NVIDIA's libraries, below a folder of Python:
// PyTorch brings all of them, so a machine that runs it needs no toolkit.
const wheels = "/nvidia/*/lib"

// places are patterns of folders that libraries are looked for in, toolkits of NVIDIA's
// own before Python's packages. home is the caller's, "" for none; homes of others are
// not looked into.
func places(home string) []string {
	out := []string{
		"/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/local/nvidia/lib64",
		"/opt/*/.venv/lib/python3*/site-packages" + wheels,
		"/opt/*/lib/python3*/site-packages" + wheels,
		"/usr/local/lib/python3*/*-packages" + wheels,
		"/usr/lib/python3*/*-packages" + wheels,
	}
	if filepath.IsAbs(home) {
		literal := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(filepath.Clean(home))
		out = append(out, filepath.Join(literal, ".local/lib/python3*/site-packages"+wheels))
	}
	return out
}

// errBroken says that a library was found, and why it is of no use.
var errBroken = errors.New("it is there and cannot be opened")

// elsewhere returns patterns of folders to look into beyond those given and the
// system's. Where it is nil nothing but the folders given is, for tests.
var elsewhere = func() []string {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	return places(home)
}

// open opens the first of names that is found: in the folders given, by the system's own
// search, and elsewhere. What is opened runs with the caller's rights, so a library
// found elsewhere must be one that root and the caller alone can have put there.
func open(folders []string, names ...string) (*library, error) {
	var broken error // the first that is there and cannot be used
	try := func(path string) *library {
		h, err := dlopen(path)
		if err == nil {
			return &library{path, h}
		}
		if broken == nil && !absent(path, err) {
			broken = err
		}
		return nil
	}
	if elsewhere != nil {
		folders = append(slices.Clone(folders), "")
	}
	for _, f := range folders {
		for _, n := range names {
			if l := try(filepath.Join(f, n)); l != nil {
				return l, nil
			}
		}
	}
	if elsewhere != nil {
		for _, path := range candidates(elsewhere(), names) {
			if err := safefile.Trusted(path); err != nil {
				if broken == nil && !errors.Is(err, fs.ErrNotExist) {
					broken = err
				}
			} else if l := try(path); l != nil {
				return l, nil
			}
		}
	}
	if broken != nil {
		return nil, fmt.Errorf("%s: %w: %w: %w", names[0], driver.ErrUnavailable, errBroken, broken)
	}
	return nil, fmt.Errorf("%s: %w: not found in the system's folders, under /usr/local/cuda or among Python's packages", names[0], driver.ErrUnavailable)
}

// candidates are the paths of libraries that are in folders of some patterns, in the
// order of the patterns and the names.
func candidates(patterns, names []string) (out []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // the patterns are well formed
		for _, f := range found {
			for _, n := range names {
				path := filepath.Join(f, n)
				if _, err := os.Lstat(path); err == nil {
					out = append(out, path)
				}
			}
		}
	}
	return out
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

// bytes returns the address of b. The frame keeps b, which also makes sure that it lies
// on the heap and does not move.
func (f *frame) bytes(b []byte) uintptr {
	f.keep = append(f.keep, b)
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

// string returns the address of s as a C string.
func (f *frame) string(s string) uintptr { return f.bytes(append([]byte(s), 0)) }
