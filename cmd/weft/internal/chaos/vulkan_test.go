//go:build lavapipe && linux

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/workload"
)

// Workers of GPUs are struck as others are, alone and beside cores: every round has the right sum or an
// error that says why there is none, devices come back, and nothing is left.
func TestVulkanTrial(t *testing.T) {
	for _, devices := range []string{"vulkan:0/2", "vulkan,cpu/2"} {
		for limit := 4 * time.Second; ; limit *= 2 { // a busy machine has few rounds in it
			trial := &Trial{Job: sums, Options: weft.Options{Devices: devices, HangTimeout: 2 * time.Second}, For: limit, Seed: 5, Faults: []string{"kill", "hang", "corrupt"}}
			a, err := trial.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if a.Wrong > 0 || a.Left > 0 || a.Right+a.Errors != a.Rounds {
				t.Errorf("%s: %+v", devices, *a)
			}
			if n := len(proc.Pids("")); n > 0 {
				t.Errorf("%s: %d processes are left", devices, n)
			}
			if a.Right > 0 && a.Losses > 0 && a.Recoveries > 0 {
				t.Logf("%s: %+v", devices, *a)
				break
			}
			if limit > time.Minute {
				t.Fatalf("%s: %+v", devices, *a)
			}
		}
	}
}

// With the worker of the only GPU gone, work goes on on cores, and the GPU comes back.
func TestVulkanStruck(t *testing.T) {
	for _, s := range []Strike{Kill, Stop} {
		rig, err := Open(t.Context(), weft.Options{Devices: "vulkan,cpu/1", HangTimeout: 3 * time.Second, Retries: manyRetries}, Workers{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		events := make(chan weft.Event, 64)
		all := rig.Events(ctx, weft.EventDevice)
		go func() {
			for e := range all {
				events <- e
			}
		}()
		if err := s.at(vulkanWorker(t), rand.New(rand.NewPCG(1, 2))); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"lost", "suspect", "healthy"} {
			j, err := sums(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := workload.Run(ctx, rig.Runtime, j); err != nil {
				t.Fatalf("%v: %v", s, err)
			}
			if err := j.Check(); err != nil {
				t.Errorf("%v: %v", s, err)
			}
			select {
			case e := <-events:
				if e.To != want {
					t.Errorf("%v: %v, want %s", s, e, want)
				}
			case <-ctx.Done():
				t.Fatalf("%v: the GPU is not %s", s, want)
			}
		}
		cancel()
		if err := rig.Close(); err != nil {
			t.Error(err)
		}
	}
}

// vulkanWorker returns the only worker that has loaded Vulkan.
func vulkanWorker(t *testing.T) (found int) {
	t.Helper()
	for _, pid := range proc.Pids("worker") {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		if err == nil && bytes.Contains(maps, []byte("libvulkan")) {
			if found != 0 {
				t.Fatalf("workers %d and %d have loaded Vulkan", found, pid)
			}
			found = pid
		}
	}
	if found == 0 {
		t.Fatal("no worker has loaded Vulkan")
	}
	return found
}
