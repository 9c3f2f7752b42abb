package disk

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// Memory for checkpoints asks for large pages where the system has any.
func TestLargePages(t *testing.T) {
	b := Aligned(5 * largePage)
	middle := uint64(uintptr(unsafe.Pointer(&b[len(b)/2])))
	for _, n := range []int64{1, 4096, largePage - 1, largePage, largePage + 1} { // none fails
		if got := Aligned(n); int64(len(got)) != n || int64(cap(got)) != n {
			t.Errorf("%d bytes have a length of %d and room for %d", n, len(got), cap(got))
		}
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside, flags := false, ""
	for line := range strings.Lines(string(maps)) {
		var lo, hi uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &lo, &hi); n == 2 {
			inside = lo <= middle && middle < hi
		}
		if rest, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			flags = rest
		}
	}
	_, err = os.Stat("/sys/kernel/mm/transparent_hugepage")
	if has := strings.Contains(flags+" ", " hg "); flags == "" || has != (err == nil) {
		t.Errorf("large pages are asked for: %v, with the flags %q and %v", has, flags, err)
	}
	b[0] = 1 // it is in use until here
}
