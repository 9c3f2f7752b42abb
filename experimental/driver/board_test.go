package driver_test

import (
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

// Which operations failed is remembered until it is forgotten, over jumps of the
// count, over many more operations, and where numbers begin again.
func TestBoardRemembersFailures(t *testing.T) {
	for _, first := range []uint32{0, 1<<31 - 50_000, 1<<32 - 50_000} {
		b := driver.NewBoard(2)
		for at := uint32(0); at < first; { // numbers are taken for the nearest there is
			at += min(first-at, 1<<30)
			b.Done(1, at, false)
		}
		r := rand.New(rand.NewPCG(1, 2))
		bad := map[uint32]bool{}
		const last, back = 100_000, 3_000
		for n := uint32(0); n < last; {
			n += 1 + uint32(r.IntN(3)) // what is jumped over succeeded
			bad[n] = r.IntN(10) == 0
			b.Done(1, first+n, bad[n])
			if n > back {
				b.Forget(1, first+n-back)
			}
			for range 3 {
				old := n - min(n-1, uint32(r.IntN(back)))
				if done, ok := b.State(driver.Wait{Lane: 1, Seq: first + old}); !done || ok == bad[old] {
					t.Fatalf("from %d on, at %d operation %d is done %v, ok %v; it failed %v", first, n, old, done, ok, bad[old])
				}
			}
			if done, _ := b.State(driver.Wait{Lane: 1, Seq: first + n + 1}); done {
				t.Fatalf("operation %d is done before its time", n+1)
			}
		}
		if done, _ := b.State(driver.Wait{Lane: 0, Seq: 1}); done {
			t.Error("the other lane moved")
		}
	}
}

// A failure is remembered however many operations come after it.
func TestBoardHasNoWindow(t *testing.T) {
	b := driver.NewBoard(1)
	b.Done(0, 1, false)
	b.Done(0, 2, true)
	for seq := uint32(3); seq < 200_000; seq++ {
		b.Done(0, seq, false)
	}
	for seq, ok := range map[uint32]bool{1: true, 2: false, 3: true, 2 + 1<<14: true} {
		if done, good := b.State(driver.Wait{Seq: seq}); !done || good != ok {
			t.Errorf("operation %d: done %v, ok %v; want ok %v", seq, done, good, ok)
		}
	}
}

// More separate failures than a lane has room for are never taken for successes.
func TestBoardFull(t *testing.T) {
	b := driver.NewBoard(1)
	for seq := uint32(1); seq <= 5_000; seq++ {
		b.Done(0, seq, seq%2 == 0)
	}
	for seq := uint32(2); seq <= 5_000; seq += 2 {
		if _, ok := b.State(driver.Wait{Seq: seq}); ok {
			t.Fatalf("operation %d counts as a success", seq)
		}
	}
	b.Forget(0, 5_000)
	b.Done(0, 5_001, true)
	b.Done(0, 5_002, false)
	for seq, ok := range map[uint32]bool{5_001: false, 5_002: true} {
		if _, good := b.State(driver.Wait{Seq: seq}); good != ok {
			t.Errorf("after the others were forgotten operation %d is ok %v", seq, good)
		}
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

// FuzzBoard compares a lane with a list of what became of its operations.
func FuzzBoard(f *testing.F) {
	f.Add(uint32(0), []byte{0, 1, 0x41, 0, 0x83, 7, 0xc5, 0x40})
	f.Add(uint32(1<<32-6), []byte{1, 0x42, 3, 0x81, 0xc2, 0x43, 0, 0x9f, 0xff})
	f.Fuzz(func(t *testing.T, first uint32, does []byte) {
		const lane = 1
		b := driver.NewBoard(3)
		for at := uint32(0); at < first; {
			at += min(first-at, 1<<30)
			b.Done(lane, at, false)
		}
		var failed []bool // of every operation that is over
		done, forgot := 0, 0
		for _, x := range does {
			n := int(x&0x3f) + 1
			switch x >> 6 {
			case 0, 1: // n operations complete, of which the last may fail
				done = len(failed) + n
				for len(failed) < done {
					failed = append(failed, false)
				}
				failed[done-1] = x>>6 == 1
				b.Done(lane, first+uint32(done), x>>6 == 1)
			case 2: // n operations are given up on
				for range n {
					failed = append(failed, true)
				}
				b.Abandon(lane, first+uint32(len(failed)))
			case 3: // of those that are over all but n are forgotten
				forgot = max(forgot, len(failed)-n)
				b.Forget(lane, first+uint32(max(len(failed)-n, 0)))
			}
			if got := b.Count(lane); got != first+uint32(len(failed)) {
				t.Fatalf("the lane has completed %d, want %d", got, first+uint32(len(failed)))
			}
		}
		separate := 0
		for i, bad := range failed {
			if bad && (i == 0 || !failed[i-1]) {
				separate++
			}
		}
		for i := forgot; i < len(failed); i++ {
			over, ok := b.State(driver.Wait{Lane: lane, Seq: first + uint32(i+1)})
			if !over || ok && failed[i] || !ok && !failed[i] && separate <= 512 {
				t.Fatalf("operation %d of %d: over %v, ok %v; it failed %v", i+1, len(failed), over, ok, failed[i])
			}
		}
		if over, _ := b.State(driver.Wait{Lane: lane, Seq: first + uint32(len(failed)+1)}); over {
			t.Fatal("an operation is over that was not given")
		}
		for _, l := range []driver.Lane{0, 2} {
			if n := b.Count(l); n != 0 {
				t.Fatalf("lane %d has completed %d", l, n)
			}
		}
	})
}
