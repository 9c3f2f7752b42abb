//go:build (gpu || stub || cgo) && !race

package cuda

import (
	"runtime"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// Launching allocates nothing. (The race detector empties the pools that calls
// take their blocks from.)
func TestNoAllocation(t *testing.T) {
	r := openRig(t, Options{})
	b := r.alloc(4096)
	one := &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), 1024)}}
	r.must(r.copyIn(b, make([]byte, 4096)))
	g := args(4096, b)
	batch := make([]driver.Op, 64)
	done := make([]driver.Completion, 64)
	round := func() {
		for i := range batch {
			r.seq[0]++
			batch[i] = driver.Op{Kind: driver.Launch, Lane: r.first, Seq: r.seq[0], Task: one, Args: g}
		}
		r.submit(batch...)
		for n := 0; n < len(batch); {
			k := r.dev.Completions(done)
			if n += k; k == 0 {
				runtime.Gosched()
			}
		}
	}
	for range 50 {
		round()
	}
	// The owner's allocations count too: they are all of the process's.
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		round()
	}
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > 640 {
		t.Errorf("%d allocations in 6400 launches", n)
	}
}
