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
