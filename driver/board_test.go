package driver_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/driver"
)

// Which operations failed is remembered for as long as anyone can ask, over
// jumps of the count and after the window came round.
func TestBoardRemembersFailures(t *testing.T) {
	b := driver.NewBoard(2)
	r := rand.New(rand.NewPCG(1, 2))
	bad := map[uint32]bool{}
	const last = 100_000
	for seq := uint32(0); seq < last; {
		seq += 1 + uint32(r.IntN(3)) // what is jumped over succeeded
		bad[seq] = r.IntN(10) == 0
		b.Done(1, seq, bad[seq])
		for range 3 {
			old := seq - min(seq-1, uint32(r.IntN(10_000)))
			if done, ok := b.State(driver.Wait{Lane: 1, Seq: old}); !done || ok == bad[old] {
				t.Fatalf("at %d operation %d is done %v, ok %v; it failed %v", seq, old, done, ok, bad[old])
			}
		}
		if done, _ := b.State(driver.Wait{Lane: 1, Seq: seq + 1}); done {
			t.Fatalf("operation %d is done before its time", seq+1)
		}
	}
	if done, _ := b.State(driver.Wait{Lane: 0, Seq: 1}); done {
		t.Error("the other lane moved")
	}
}

// What was abandoned stays failed, also when the lane counts on past it or it
// completes after all; what was complete stays as it was.
func TestBoardAbandons(t *testing.T) {
	b := driver.NewBoard(1)
	b.Done(0, 3, false)
	b.Abandon(0, 6)
	state := func(seq uint32, done, ok bool) {
		t.Helper()
		if d, o := b.State(driver.Wait{Seq: seq}); d != done || o != ok {
			t.Errorf("operation %d: done %v, ok %v; want %v, %v", seq, d, o, done, ok)
		}
	}
	state(3, true, true)
	state(5, true, false)
	state(7, false, false)
	b.Done(0, 4, false) // late
	b.Done(0, 8, false)
	for seq, ok := range map[uint32]bool{2: true, 3: true, 4: false, 5: false, 6: false, 7: true, 8: true} {
		state(seq, true, ok)
	}
}
