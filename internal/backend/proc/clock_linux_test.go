package proc

import (
	"math"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// Times that a worker claims and that cannot be, as those of the future, are brought into
// the time that was: the engine learns from them how long operations take.
func TestClaimedTimes(t *testing.T) {
	mem := make([]byte, ringMemory)
	worker := ringOn(mem)
	d := &device{board: driver.NewBoard(1), w: &child{completions: ringOn(mem)}, alone: driver.Wait{Lane: driver.NoLane}}
	l := &lane{id: 0}
	d.byLane = []*lane{l}
	for i, claim := range []struct{ start, end time.Duration }{
		{time.Hour, 2 * time.Hour},             // both in the future
		{0, time.Hour},                         // it ends there
		{-time.Hour, 1},                        // before the beginning
		{time.Microsecond, 0},                  // it ends before it starts
		{math.MinInt64, math.MaxInt64}, {1, 1}, // the ends of what can be written
		{math.MaxInt64, math.MinInt64}, {0, time.Hour}, // and after those
	} {
		seq := uint32(i + 1)
		l.push(seq)
		d.flying.Add(1)
		d.board.Done(0, seq, false)
		var w writer
		w.completion(&driver.Completion{Lane: 0, Seq: seq, Start: claim.start, End: claim.end})
		if ok, err := worker.put(w.b); !ok || err != nil {
			t.Fatal(ok, err)
		}
		worker.ring()
		before := d.board.Now()
		c, report, ok, err := d.read()
		if after := d.board.Now(); err != nil || !ok || !report || c.Start < 0 || c.Start > c.End || c.End > after {
			t.Errorf("%v to %v, claimed at %v, is taken for %v to %v; %v, %v, %v", claim.start, claim.end, before, c.Start, c.End, report, ok, err)
		}
	}
}
