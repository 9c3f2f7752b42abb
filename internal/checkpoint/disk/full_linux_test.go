package disk

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/internal/checkpoint"
)

// Where the number, and the lower halves of arguments, lie in what a filter of system calls sees.
const (
	callNumber = 0
	thirdArg   = 16 + 2*8
)

// full has all calls of this thread that are among some fail for lack of room, if an argument of
// theirs (its place, or 0 for none) has a bit of some. Nothing takes that back: the caller is
// locked to the thread for good, which then ends with the goroutine.
func full(calls []uint32, arg, bits uint32) error {
	step := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k}
	}
	p := []unix.SockFilter{step(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, callNumber, 0, 0)}
	for i, c := range calls {
		p = append(p, step(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, c, uint8(len(calls)-i), 0))
	}
	p = append(p, step(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0))
	if arg > 0 {
		p = append(p, step(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, arg, 0, 0), step(unix.BPF_JMP|unix.BPF_JSET|unix.BPF_K, bits, 1, 0),
			step(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0))
	}
	p = append(p, step(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(syscall.ENOSPC), 0, 0))
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// inThread runs f in a thread that ends with it.
func inThread(f func() error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread()
		ended <- f()
	}()
	return <-ended
}

// A disk that is full when room for a file is reserved, when a file is made, written, made durable
// or gets its name: the error says so, the checkpoint before stays, nothing else is left, and when
// there is room again the next one is written. Where the system refuses even a filter that lets all calls
// pass, the disk is never full, and only what is written with room is seen.
func TestFull(t *testing.T) {
	times := 2
	if err := inThread(func() error { return full(nil, 0, 0) }); err != nil {
		t.Logf("calls cannot be made to fail here: %v", err)
		times = 0
	}
	for name, c := range map[string]struct {
		calls     []uint32
		arg, bits uint32
	}{
		"reserve": {calls: []uint32{unix.SYS_FALLOCATE}},
		"make":    {calls: []uint32{unix.SYS_OPENAT}, arg: thirdArg, bits: syscall.O_CREAT},
		"write":   {calls: []uint32{unix.SYS_WRITE, unix.SYS_PWRITE64}, arg: thirdArg, bits: 1<<32 - 8192}, // more than the runtime of Go and the log of package testing write
		"sync":    {calls: []uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC}},
		"rename":  {calls: []uint32{unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Open(filepath.Join(t.TempDir(), "a"), "b", true)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			st, err := checkpoint.Open(f, "folder")
			if err != nil {
				t.Fatal(err)
			}
			const size = 2*checkpoint.BlockBytes + 5
			mem, n := Aligned(size), checkpoint.NumBlocks(size)
			write := func(value byte) error {
				for i := range mem {
					mem[i] = value
				}
				_, err := st.Write(checkpoint.Meta{Name: "n"}, []checkpoint.Source{{
					Name: "x", Mem: mem, Live: slices.Repeat([]bool{true}, n), Dirty: slices.Repeat([]bool{true}, n)}})
				return err
			}
			holds := func(value byte) {
				t.Helper()
				got := make([]byte, size)
				again, err := checkpoint.Open(f, "folder")
				if err != nil {
					t.Fatal(err)
				}
				if _, refused, err := again.Restore(func(*checkpoint.Manifest) (func(*checkpoint.Data) []byte, error) {
					return func(*checkpoint.Data) []byte { return got }, nil
				}); err != nil || len(refused) > 0 || !bytes.Equal(got, bytes.Repeat([]byte{value}, size)) {
					t.Errorf("checkpoint %d cannot be read back, %d is, %v, %v", value, got[0], refused, err)
				}
			}
			if err := write(1); err != nil {
				t.Fatal(err)
			}
			before, err := f.List()
			if err != nil {
				t.Fatal(err)
			}
			for range times {
				err := inThread(func() error {
					if err := full(c.calls, c.arg, c.bits); err != nil {
						return err
					}
					return write(2)
				})
				if !errors.Is(err, checkpoint.ErrFull) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left") {
					t.Errorf("the error is %v", err)
				}
				holds(1)
				if left, err := f.List(); err != nil || len(left) != len(before) {
					t.Errorf("%q is left of %q, %v", left, before, err)
				}
			}
			if err := write(3); err != nil {
				t.Errorf("with room again: %v", err)
			}
			holds(3)
		})
	}
}
