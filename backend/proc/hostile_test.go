//go:build linux

package proc_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/weft-run/weft/backend/proc"
	"github.com/weft-run/weft/internal/engine"
)

// A worker cannot take memory away that the program has mapped: touching what is
// beyond the end of a file would end the program.
func TestTruncate(t *testing.T) {
	r := start(t, proc.Options{}, engine.Options{})
	for fd, what := range map[int]string{4: "the rings", 5: "the arena"} {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", pids("worker")[0], fd), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{0, st.Size() + 4096} {
			if err := f.Truncate(size); !errors.Is(err, syscall.EPERM) {
				t.Errorf("%s can be given a size of %d: %v", what, size, err)
			}
		}
		f.Close()
	}
	g, in, want := chain(t, 10_000, 4, 3)
	r.mustRun(t, g, in, want)
}
