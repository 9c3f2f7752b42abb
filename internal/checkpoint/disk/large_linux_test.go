package disk

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Memory for checkpoints asks for large pages where the system has any, and tells who asked: as it does
// of memory that the test asks them for itself.
func TestLargePages(t *testing.T) {
	b := Aligned(5 * largePage)
	for _, n := range []int64{1, 4096, largePage - 1, largePage, largePage + 1} { // none fails
		if got := Aligned(n); int64(len(got)) != n || int64(cap(got)) != n {
			t.Errorf("%d bytes have a length of %d and room for %d", n, len(got), cap(got))
		}
	}
	own, err := unix.Mmap(-1, 0, 5*largePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(own); err != nil {
			t.Error(err)
		}
	}()
	asked := unix.Madvise(own, unix.MADV_HUGEPAGE)
	if has, want := asksForLarge(b), asksForLarge(own); has != want {
		t.Errorf("large pages are asked for: %v, and for memory of the test: %v, %v", has, want, asked)
	}
	b[0] = 1 // it is in use until here
}

// asksForLarge reports whether the system says that the page amid b is to be part of a large one. It says
// nothing where it has none, or hides what it knows of memory.
func asksForLarge(b []byte) bool {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return false
	}
	middle := uint64(uintptr(unsafe.Pointer(&b[len(b)/2])))
	inside := false
	for line := range strings.Lines(string(maps)) {
		var lo, hi uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &lo, &hi); n == 2 {
			inside = lo <= middle && middle < hi
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			return strings.Contains(flags+" ", " hg ")
		}
	}
	return false
}
