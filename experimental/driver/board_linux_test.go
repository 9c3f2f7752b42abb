package driver_test

import (
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

// split returns a board in memory that two share, as each of them sees it. Lane 1 is
// the other's.
func split(t testing.TB) (own, far []byte, maker, other *driver.Board) {
	mine, all := driver.BoardBytes(2)
	own, far = make([]byte, mine), make([]byte, all)
	maker = driver.ShareBoard(own, far, 2)
	other, err := driver.JoinBoard(own, far, 1)
	if err != nil {
		t.Fatal(err)
	}
	maker.Away(1)
	return own, far, maker, other
}

// Another process is believed as far as it was given operations, and no further.
func TestBoardBelievesWhatWasGiven(t *testing.T) {
	_, _, b, other := split(t)
	b.Given(1, 3)
	other.Done(1, 2, true)
	other.Done(1, 3, false)
	for seq, ok := range map[uint32]bool{1: true, 2: false, 3: true} {
		if done, good := b.State(driver.Wait{Lane: 1, Seq: seq}); !done || good != ok {
			t.Errorf("operation %d: done %v, ok %v; want ok %v", seq, done, good, ok)
		}
	}
	other.Done(1, 9, false)
	if n := b.Count(1); n != 0 {
		t.Errorf("what was never given counts: %d", n)
	}
	b.Abandon(1, 3)
	b.Reclaim(1)
	b.Given(1, 4)
	other.Done(1, 4, false)
	for seq, ok := range map[uint32]bool{1: false, 3: false, 4: true} {
		if done, good := b.State(driver.Wait{Lane: 1, Seq: seq}); !done || good != ok {
			t.Errorf("after the lane was taken back, operation %d: done %v, ok %v; want ok %v", seq, done, good, ok)
		}
	}
}

// FuzzBoardScribbled has another process write anything anywhere it can. Lanes of
// this process stay as they are, a lane of the other never counts more than it was
// given, and the next process goes on with it.
func FuzzBoardScribbled(f *testing.F) {
	f.Add(uint64(144), uint64(1)<<40, []byte{1, 2, 3})
	f.Add(uint64(144+130*64), uint64(1)<<32-1, []byte{0xff, 0, 0xff})
	f.Fuzz(func(t *testing.T, at, word uint64, bytes []byte) {
		own, far, b, other := split(t)
		b.Done(0, 1, true)
		b.Done(0, 2, false)
		b.Given(1, 5)
		other.Done(1, 4, true)
		for i := range uint64(8) {
			far[(at+i)%uint64(len(far))] ^= byte(word >> (8 * i))
		}
		at = (at ^ word) % uint64(len(far))
		copy(far[at:], bytes)
		for seq, ok := range map[uint32]bool{1: false, 2: true} {
			if done, good := b.State(driver.Wait{Seq: seq}); !done || good != ok {
				t.Fatalf("operation %d of this process: done %v, ok %v", seq, done, good)
			}
		}
		if n := b.Count(1); n > 5 {
			t.Fatalf("%d of 5 operations are done", n)
		}
		for seq := range uint32(20) {
			b.State(driver.Wait{Lane: 1, Seq: seq})
		}
		b.Abandon(1, 5)
		b.Reclaim(1)
		if n := b.Count(1); n != 5 {
			t.Fatalf("%d of 5 operations are over once they were given up on", n)
		}
		b.Given(1, 7)
		next, err := driver.JoinBoard(own, far, 2)
		if err != nil {
			t.Fatal(err)
		}
		next.Done(1, 6, true)
		next.Done(1, 7, false)
		for seq, ok := range map[uint32]bool{6: false, 7: true} {
			if done, good := b.State(driver.Wait{Lane: 1, Seq: seq}); !done || good != ok {
				t.Fatalf("operation %d of the next process: done %v, ok %v", seq, done, good)
			}
		}
	})
}
