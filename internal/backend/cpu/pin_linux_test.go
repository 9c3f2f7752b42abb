package cpu_test

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/test/poll"
)

// Pinned devices run on cores of their own, and leave no thread pinned behind:
// it would serve other goroutines.
func TestPin(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	var got unix.CPUSet
	rs := start(t, cpu.Options{Threads: cpu.Threads{Pin: true}, Parts: 2, Funcs: map[string]driver.Func{"where": func(c *driver.Call, lo, hi int) {
		if err := unix.SchedGetaffinity(0, &got); err != nil {
			c.Fail(err)
		}
	}},
	})
	var seen unix.CPUSet
	total := 0
	for i, r := range rs {
		if err := r.launch(driver.Lane(i), nil, step("where", [3]uint32{1}, [3]uint32{})); err != nil {
			t.Fatal(err)
		}
		if want := r.dev.Info().ComputeUnits; got.Count() != want {
			t.Errorf("device %d has %d cores and runs on %d", i, want, got.Count())
		}
		for c := range 1024 {
			if got.IsSet(c) {
				seen.Set(c)
				total++
			}
		}
	}
	if all.Count() >= 2 && (seen != all || total != all.Count()) {
		t.Errorf("two devices run on %d cores, %d different; there are %d", total, seen.Count(), all.Count())
	}
	for _, r := range rs {
		if err := r.dev.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// Threads end in their own time, a little after what ran on them.
	poll.True(t, "after Close no thread is pinned", func() bool { return pinned(t, all) == 0 })
}

// pinned counts threads with fewer cores than the process has. The first
// thread does not count: Go parks it for good when what was locked to it ends.
func pinned(t *testing.T, all unix.CPUSet) (n int) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range tasks {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		var set unix.CPUSet
		if id != os.Getpid() && unix.SchedGetaffinity(id, &set) == nil && set != all {
			n++
		}
	}
	return n
}
