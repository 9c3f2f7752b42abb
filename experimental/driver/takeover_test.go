package driver_test

import (
	"sync"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

// A lane that is taken over goes on after what it was given, which failed; who had it
// completes nothing any more.
func TestTakeOver(t *testing.T) {
	b := driver.NewBoard(2)
	is := func(seq uint32, done, ok bool) {
		t.Helper()
		if d, o := b.State(driver.Wait{Lane: 1, Seq: seq}); d != done || o != ok {
			t.Errorf("operation %d: complete %t, well %t; want %t, %t", seq, d, o, done, ok)
		}
	}
	if !b.Complete(1, 1, false) || b.TakeOver(1, 1, 5) || b.TakeOver(1, 3, 5) {
		t.Error("what is complete, or has not begun, was taken over")
	}
	is(2, false, false)
	if !b.TakeOver(1, 2, 5) {
		t.Fatal("the lane was not taken over")
	}
	is(1, true, true)
	is(2, true, false)
	is(5, true, false)
	is(6, false, false)
	if b.Complete(1, 2, false) || b.Complete(1, 2, true) {
		t.Error("who lost the lane completed something")
	}
	if !b.Complete(1, 6, false) || !b.Complete(1, 7, true) {
		t.Error("who took the lane cannot go on")
	}
	is(6, true, true)
	is(7, true, false)
}

// Of an operation that completes and a lane that is taken over at the same time one
// comes first, and both know which. What completes is not taken for failed, nor is what
// comes behind it.
func TestTakeOverAtOnce(t *testing.T) {
	for n := range 2000 {
		b := driver.NewBoard(1)
		var wg sync.WaitGroup
		var completed, taken bool
		wg.Go(func() { completed = b.Complete(0, 1, n%2 == 0) })
		wg.Go(func() { taken = b.TakeOver(0, 1, 3) })
		wg.Wait()
		if completed == taken {
			t.Fatalf("round %d: completed %t, taken over %t", n, completed, taken)
		}
		_, well := b.State(driver.Wait{Lane: 0, Seq: 1})
		behind, _ := b.State(driver.Wait{Lane: 0, Seq: 2})
		if fails := n%2 == 0; well != (completed && !fails) || behind != taken {
			t.Fatalf("round %d: completed %t, fails %t: well %t, the one behind complete %t", n, completed, fails, well, behind)
		}
	}
}
