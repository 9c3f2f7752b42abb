//go:build !gpu && (stub || cgo)

package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/test/poll"
)

// A device whose driver compiles code is not silent, however long that takes.
func TestLoadingIsSeen(t *testing.T) {
	r := openRig(t, Options{Devices: []int{0}})
	dir := t.TempDir()
	k := testKernel("add_one")
	k.Impls[0].Source = append([]byte("// held by "+dir+"\n"), testPTX...)
	b := r.alloc(1024)
	w := r.launch(0, &graph.Task{Steps: []graph.Step{step(k, 256)}}, args(1024, b))
	poll.True(t, "the code is being loaded", func() bool {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil
	})
	from := time.Now()
	if seen := r.dev.(driver.Hanger).LastSeen(); seen.Before(from) {
		t.Errorf("last seen %v before it was asked, while it loads code", from.Sub(seen))
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.must(w)
}

// Code that is not loaded for want of memory, or for an unknown reason, may be the next time.
func TestLoadingFailsOnce(t *testing.T) {
	r := openRig(t, Options{Devices: []int{0}})
	b := r.alloc(1024)
	for code, is := range map[int]error{2: driver.ErrOutOfMemory, 101: driver.ErrKernel} {
		k := testKernel("add_one")
		k.Impls[0].Source = append(fmt.Appendf(nil, "// fails once with %d\n", code), testPTX...)
		task := &graph.Task{Steps: []graph.Step{step(k, 256), step(k, 256)}} // of one step, the duration is asked for before
		c := r.wait(r.launch(0, task, args(1024, b)))
		if !errors.Is(c.Err, is) || !errors.Is(c.Err, driver.ErrKernel) || errors.Is(c.Err, driver.ErrUnfit) {
			t.Errorf("%d: %v", code, c.Err)
		}
		r.must(r.launch(0, task, args(1024, b)))
	}
}
