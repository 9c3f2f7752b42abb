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
