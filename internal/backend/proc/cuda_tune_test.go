//go:build linux && !race && (gpu || stub || cgo)

package proc_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/test/poll"
)

// Workers of different GPUs that reach each other read each other's memory where it
// lies; others by way of the arena.
func TestCUDAPeers(t *testing.T) {
	r := start(t, onGPU(t, proc.Options{}, cuda.Options{MemBytes: 64 << 20}), engine.Options{})
	if len(r.Machine.Devices) < 3 { // the stub, which CI runs, has three
		t.Log("too few GPUs")
		return
	}
	const n, rounds = 50_000, 12
	for mapped, on := range map[bool][]string{false: {"cuda:1", "cuda:2"}, true: {"cuda:0", "cuda:1"}} {
		before := strings.Count(r.log.String(), "mapped memory of another worker")
		x := make([]byte, 4*n)
		if _, err := r.Run(t.Context(), added(t, n, rounds, on...), engine.RunOptions{}, func(graph.DataID) []byte { return x }); err != nil {
			t.Fatal(err)
		}
		for i, v := range numbersOf(x) {
			if v != rounds {
				t.Fatalf("word %d is %d, want %d", i, v, rounds)
			}
		}
		if now := strings.Count(r.log.String(), "mapped memory of another worker"); (now > before) != mapped {
			t.Errorf("between %v memory was mapped %d times", on, now-before)
		}
	}
}

// What a worker found about a kernel can be asked for, and the worker that takes
// its place is told.
func TestCUDATuning(t *testing.T) {
	r := start(t, onGPU(t, proc.Options{}, cuda.Options{Devices: []int{0}, MemBytes: 64 << 20}), engine.Options{})
	k := cudaKernel(t, "add_one")
	k.Impls[0].Per, k.Impls[0].Block = [3]uint32{}, [3]uint32{} // the device's choice
	const n = 5000
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 4 * n, Input: true, Output: true})
	for range 20 {
		b.Add(graph.Task{
			Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{n}}}.With(counted{n})},
			Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	runs := uint32(0)
	run := func() {
		t.Helper()
		mem := make([]byte, 4*n)
		if _, err := r.Run(t.Context(), g, engine.RunOptions{}, func(graph.DataID) []byte { return mem }); err != nil {
			t.Fatal(err)
		}
		runs++
		for i := range n {
			if got := binary.LittleEndian.Uint32(mem[4*i:]); got != 20 {
				t.Fatalf("run %d: word %d is %d, want 20", runs, i, got)
			}
		}
	}
	var found []driver.Tuned
	poll.True(t, "a decision", func() bool {
		run()
		found = r.Tuning()[0]
		return len(found) > 0
	})
	if found[0].Kernel != "add_one" || found[0].Block == 0 || found[0].Class != 13 {
		t.Errorf("found is %+v", found)
	}
	if err := syscall.Kill(proc.Pids("worker")[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	run() // by another
	poll.True(t, "another worker", func() bool { return r.state(0) == engine.Healthy && len(proc.Pids("worker")) == 1 })
	if again := r.Tuning()[0]; !slices.Equal(again, found) {
		t.Errorf("the next worker knows %+v, want %+v", again, found)
	}
}
