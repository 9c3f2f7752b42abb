package arena

import (
	"errors"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/internal/numa"
)

// policy returns the memory policy of the page at the beginning of mem.
func policy(t *testing.T, mem []byte) int32 {
	t.Helper()
	const ofAddress = 2 // MPOL_F_ADDR
	var mode int32
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), 0, 0, uintptr(unsafe.Pointer(&mem[0])), ofAddress, 0)
	if errno != 0 {
		t.Skipf("memory policies cannot be read here: %v", errno)
	}
	return mode
}

// Memory comes from several nodes in turn where there are several with memory, and is as
// always where there is one.
func TestInterleave(t *testing.T) {
	for _, c := range []struct {
		nodes []numa.Node
		want  []int
	}{
		{nil, nil},
		{[]numa.Node{{ID: 0, Memory: true}, {ID: 1, Cores: []int{1}}}, []int{0}},
		{[]numa.Node{{ID: 0, Memory: true}, {ID: 2, Memory: true}}, []int{0, 2}},
	} {
		if got := memoryNodes(c.nodes); !slices.Equal(got, c.want) {
			t.Errorf("nodes with memory of %+v: %v", c.nodes, got)
		}
	}
	fd, err := Memfd("test", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	mem, err := Map(fd, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	before := policy(t, mem)
	interleave(mem, nil)
	interleave(mem, []int{0})
	if got := policy(t, mem); got != before {
		t.Errorf("one node: policy %d, want %d as before", got, before)
	}
	if err := bind(mem, []int{0}); errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skipf("memory policies cannot be set here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if got := policy(t, mem); got != 3 {
		t.Errorf("policy %d, want 3: pages of nodes in turn", got)
	}
	mem[1<<19] = 7 // pages can still be made
	if err := bind(mem, []int{1 << 20}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a node that cannot be: %v", err)
	}
}
