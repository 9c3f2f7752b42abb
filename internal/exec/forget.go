package exec

import (
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
)

// The board remembers failures for operations that wait for those that failed. An
// operation waits for what had not ended, as far as the engine knew, when it was
// issued. So a failure the engine has heard of can be forgotten once everything has
// ended that was issued by then.

// forgetting is the state of the next removal of failures from the board.
type forgetting struct {
	due    bool     // something failed since the failures to forget were taken down
	open   bool     // there is something to forget
	past   int      // lanes before this one have ended all that was issued
	issued []uint32 // by lane, when failures were taken down
	ended  []uint32 // and up to where they were
}

// lanes are the methods of the engine that a forgetting needs.
type lanes interface {
	Issued(engine.Lane) uint32
	Ended(engine.Lane) uint32
}

// forget forgets failures that no operation waits for. Of the board's lanes the engine has the
// first n; others belong to devices, and what waits for them was issued before.
func (f *forgetting) forget(b *driver.Board, e lanes, n int) {
	if !f.open {
		f.take(b, e, n)
	}
	for ; f.past < n; f.past++ {
		if int32(e.Ended(engine.Lane(f.past))-f.issued[f.past]) < 0 {
			return
		}
	}
	f.open = false
	for l, seq := range f.ended {
		b.Forget(driver.Lane(l), seq)
	}
}

// take takes down what has failed so far.
func (f *forgetting) take(b *driver.Board, e lanes, n int) {
	f.due, f.open, f.past = false, true, 0
	f.issued, f.ended = f.issued[:0], f.ended[:0]
	for l := range driver.Lane(b.Lanes()) {
		if int(l) >= n {
			f.ended = append(f.ended, b.Count(l))
			continue
		}
		f.issued = append(f.issued, e.Issued(engine.Lane(l)))
		f.ended = append(f.ended, e.Ended(engine.Lane(l)))
	}
}
