package exec

import (
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
)

// told is an engine with given numbers of operations issued and completed.
type told struct{ issued, ended [2]uint32 }

func (t *told) Issued(l engine.Lane) uint32 { return t.issued[l] }
func (t *told) Ended(l engine.Lane) uint32  { return t.ended[l] }

// A failure is forgotten when all has ended that was issued when the engine heard of
// it, and not before.
func TestForget(t *testing.T) {
	for _, first := range []uint32{0, 1<<32 - 3} {
		b := driver.NewBoard(3) // the last lane is a device's own
		for l := range driver.Lane(3) {
			for at := uint32(0); at < first; {
				at += min(first-at, 1<<30)
				b.Done(l, at, false)
			}
		}
		e := &told{issued: [2]uint32{first + 2, first + 5}, ended: [2]uint32{first, first}}
		var f forgetting
		known := func(l driver.Lane, seq uint32) bool {
			_, ok := b.State(driver.Wait{Lane: l, Seq: seq})
			return !ok
		}
		b.Done(0, first+1, true)
		b.Done(2, first+1, true)
		b.Done(0, first+2, true) // of which the engine has not heard when it takes failures down
		e.ended[0] = first + 1
		f.due = true
		f.forget(b, e, 2)
		e.ended[1] = first + 5
		f.forget(b, e, 2)
		b.Done(0, first+3, true) // older failures are let go of at the next
		if !known(0, first+1) || !known(2, first+1) {
			t.Error("a failure was forgotten while lane 0 had an operation in flight")
		}
		e.ended[0], e.issued[0] = first+2, first+3
		f.forget(b, e, 2)
		b.Done(0, first+5, true)
		b.Done(2, first+5, true)
		if known(2, first+1) {
			t.Error("a failure that no operation waits for is still remembered")
		}
		if !known(0, first+2) || !known(0, first+3) {
			t.Error("a failure was forgotten the engine had not heard of in time")
		}
		if f.due || f.open {
			t.Error("there is still something to forget")
		}
	}
}
