package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// large is a task that needs most of a memory of 10 MB.
func large(t *testing.T) *graph.Graph {
	k := job("large", 1)
	k.Workspace = 8 * mb
	return single(t, k)
}

// A device that could not provide memory once is asked again after a pause, and what
// only fits then waits for that.
func TestCapacityIsAskedAgain(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	failed := false
	r.outcome = func(string, string) engine.Status {
		if !failed {
			failed = true
			return engine.OutOfMemory
		}
		return engine.OK
	}
	id := r.submit(large(t), engine.RunOptions{})
	r.until("less memory", func() bool { return r.e.Status(0).MemBytes < 10*mb })
	rep := r.mustRun(id)
	equal(t, "retries", rep.Retries, 1)
	equal(t, "launches", len(r.launched), 2)
	equal(t, "memory that may be used", r.e.Status(0).MemBytes, 10*mb)
}

// The pauses grow while it fails again and again, which uses up the task's retries;
// later they start over.
func TestCapacityPauses(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{Retries: 4, Health: engine.HealthRules{MaxFailures: 100}})
	r.outcome = func(string, string) engine.Status { return engine.OutOfMemory }
	pauses := func() []time.Duration {
		var out []time.Duration
		id, n, last := r.submit(large(t), engine.RunOptions{}), len(r.launched), r.now
		r.until("the end", func() bool {
			if len(r.launched) > n {
				n = len(r.launched)
				out = append(out, (r.now - last).Truncate(100*ms))
				last = r.now
			}
			_, over := r.ended[id]
			return over
		})
		is(t, r.ended[id].Err, engine.ErrOutOfMemory)
		return out
	}
	if got, want := pauses(), []time.Duration{0, 100 * ms, 200 * ms, 400 * ms, 800 * ms}; !slices.Equal(got, want) {
		t.Errorf("launched after %v, want %v", got, want)
	}
	later := func() {
		r.until("as much memory as before", func() bool { return r.e.Status(0).MemBytes == 10*mb })
		r.now += time.Hour
		r.step()
	}
	later()
	if got, want := pauses(), []time.Duration{0, 100 * ms, 200 * ms, 400 * ms, 800 * ms}; !slices.Equal(got, want) {
		t.Errorf("an hour later: launched after %v, want %v", got, want)
	}
	r.outcome = nil
	later()
	r.mustRun(r.submit(large(t), engine.RunOptions{}))
}

// What never fits is an error at once that names both sizes.
func TestNeverFits(t *testing.T) {
	r := newRig(t, gpus(1, 2*mb), engine.Options{})
	err := r.finish(r.submit(large(t), engine.RunOptions{}))
	is(t, err, engine.ErrOutOfMemory)
	if err == nil || !strings.Contains(err.Error(), "gpu:0 may use 2MB") {
		t.Errorf("the error is %v", err)
	}
}

// A task that waits for room on a device runs there once its capacity has grown, and is placed
// on another device at once if it fits there alone after the capacity has shrunk.
func TestCapacityPlacesAnew(t *testing.T) {
	with := func(name string, dev string, millis float64, workspace int64) *graph.Graph {
		k := job(name, millis)
		k.Workspace = workspace
		if dev != "" {
			k.On.Only = []string{dev}
		}
		return single(t, k)
	}
	for _, devices := range []int{1, 2} {
		r := newRig(t, gpus(devices, 10*mb), engine.Options{})
		r.hang["hold"] = true
		r.submit(with("hold", "gpu:0", 1, 4*mb), engine.RunOptions{})
		if devices == 2 {
			r.submit(with("long", "gpu:1", 100, mb), engine.RunOptions{})
		}
		r.starts("hold")
		waits := r.submit(with("waits", "", 1, 8*mb), engine.RunOptions{})
		r.step()
		equal(t, "launches for which there is no room", r.count("waits"), 0)
		if devices == 1 {
			r.step(engine.Event{Kind: engine.Capacity, Device: 0, Bytes: 13 * mb})
			equal(t, "launches once there is room", r.count("waits"), 1)
		} else {
			equal(t, "tasks on the device with less to do", r.e.Status(0).Queued, 2)
			r.step(engine.Event{Kind: engine.Capacity, Device: 0, Bytes: 7 * mb})
			equal(t, "tasks on the device with room", r.e.Status(1).Queued, 2)
		}
		delete(r.hang, "hold")
		r.mustRun(waits)
	}
}
