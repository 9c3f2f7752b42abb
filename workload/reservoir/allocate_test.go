//go:build !race

package reservoir

import "testing"

// The race detector has a sync.Pool lose some of what it keeps, so memory is counted without it.
func TestUpdateDoesNotAllocate(t *testing.T) {
	w := small(t)
	s, u := w.NewState(70, 0), inputs(w, 70, 2)
	if n := testing.AllocsPerRun(5, func() { w.Run(s, u, 2) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
