package engine_test

import (
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// Left names what there is while a run goes on and while resident data is not given
// back, and nothing afterwards.
func TestLeft(t *testing.T) {
	r := newRig(t, gpus(1, 10*mb), engine.Options{})
	equal(t, "left of nothing", r.e.Left(), "")
	ref := r.e.NewData("w", mb, graph.Versioned)
	id := r.submit(over(t, "update", 1, updates), bound(ref))
	r.starts("update")
	for _, want := range []string{"1 runs", "1 tasks in flight", "1 resident data", "2 values", "2 instances"} {
		if left := r.e.Left(); !strings.Contains(left, want) {
			t.Errorf("%q does not name %s", left, want)
		}
	}
	r.mustRun(id)
	if left := r.e.Left(); !strings.Contains(left, "1 resident data") {
		t.Errorf("%q does not name the resident data", left)
	}
	r.e.FreeData(ref)
	r.until("the end of the data", func() bool { return r.e.Left() == "" })
}

// A device that waited for room, and waits no more because the run was cancelled, leaves
// nothing behind.
func TestLeftAfterAWait(t *testing.T) {
	m := gpus(2, 10*mb)
	m.HostBytes = 100
	r := newRig(t, m, engine.Options{})
	on := func(dev, name string, millis float64, uses ...graph.Use) graph.Task {
		j := job(name, millis, uses...)
		j.On.Only = []string{dev}
		return j
	}
	long := r.submit(single(t, on("gpu:0", "long", 100)), engine.RunOptions{})
	id := r.submit(build(t, func(b *graph.Builder) {
		x := b.Data(graph.Data{Name: "x", Bytes: 1000})
		b.Add(on("gpu:0", "make", 1, writes(x)))
		b.Add(on("gpu:1", "use", 1, reads(x))) // its copy goes through host memory
	}), engine.RunOptions{})
	r.starts("make")
	if left := r.e.Left(); !strings.Contains(left, "2 those that wait for room") {
		t.Errorf("%q does not name the device on the lists of its own memory and the host's", left)
	}
	r.step(engine.Event{Kind: engine.Cancel, Run: id})
	is(t, r.finish(id, long), engine.ErrCancelled)
	equal(t, "left", r.e.Left(), "")
}
