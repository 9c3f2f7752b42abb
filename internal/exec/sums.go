package exec

import (
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// ErrChecksum says that data is not what was written there.
var ErrChecksum = driver.ErrChecksum

// sums are checksums of data in host memory: of what the caller brought, and of what
// operations wrote, from when the loop hears that they have ended. They are checked when an
// operation that reads the data has ended, and before a caller reads it. The loop computes
// them, which takes it about 0.1 ms for each MiB.
//
// What an operation in flight writes has no checksum: it may begin, and end, before the loop
// hears that those it waited for have ended.
type sums struct {
	known   map[engine.Inst][]piece // in the order of their offsets, none overlaps another
	flying  map[engine.Op][]span    // what operations in flight read and write
	writing map[engine.Inst][]span  // what of it they write, by instance
	homes   map[engine.DataRef]engine.Inst
	bad     map[engine.RunID]error // runs that used data which had changed
}

// pieceBytes is the greatest number of bytes behind one checksum. What is written in part
// loses the checksum of at most two pieces at its ends.
const pieceBytes = 64 << 10

type piece struct {
	off, n int64
	sum    uint32
}

// span is a part of a host instance that an operation uses.
type span struct {
	inst   engine.Inst
	off, n int64
	access graph.Access
}

func newSums() *sums {
	return &sums{
		known: make(map[engine.Inst][]piece), flying: make(map[engine.Op][]span), writing: make(map[engine.Inst][]span),
		homes: make(map[engine.DataRef]engine.Inst), bad: make(map[engine.RunID]error),
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// overlap returns which pieces of a list overlap a part.
func overlap(all []piece, off, n int64) (lo, hi int) {
	lo, _ = slices.BinarySearchFunc(all, off, func(p piece, off int64) int {
		if p.off+p.n <= off {
			return -1
		}
		return 1
	})
	for hi = lo; hi < len(all) && all[hi].off < off+n; hi++ {
	}
	return lo, hi
}

// forget drops the checksums of pieces that overlap a part.
func (s *sums) forget(i engine.Inst, off, n int64) {
	lo, hi := overlap(s.known[i], off, n)
	if lo < hi {
		s.known[i] = slices.Delete(s.known[i], lo, hi)
	}
}

// note makes the checksums of a part.
func (s *sums) note(i engine.Inst, mem []byte, off, n int64) {
	s.forget(i, off, n)
	var made []piece
	for end := off + n; off < end; off += pieceBytes {
		k := min(pieceBytes, end-off)
		made = append(made, piece{off, k, crc32.Checksum(mem[off:off+k], castagnoli)})
	}
	if len(made) > 0 {
		at, _ := overlap(s.known[i], made[0].off, 0)
		s.known[i] = slices.Insert(s.known[i], at, made...)
	}
}

// changed returns the first piece of a part that is not as it was noted.
func (s *sums) changed(i engine.Inst, mem []byte, off, n int64) (piece, bool) {
	all := s.known[i]
	lo, hi := overlap(all, off, n)
	for _, p := range all[lo:hi] {
		if crc32.Checksum(mem[p.off:p.off+p.n], castagnoli) != p.sum {
			return p, true
		}
	}
	return piece{}, false
}

// issued notes what an operation uses. What it writes has no checksum until it has ended.
func (l *loop) issued(op engine.Op, spans ...span) {
	for _, u := range spans {
		if u.access == graph.Read {
			continue
		}
		if u.access != graph.Write {
			l.verify(u) // it cannot be told from what the operation writes later
		}
		l.sums.forget(u.inst, u.off, u.n)
		l.sums.writing[u.inst] = append(l.sums.writing[u.inst], u)
	}
	l.sums.flying[op] = append(l.sums.flying[op], spans...)
}

// sumEnded checks what an operation read and makes checksums of what it wrote.
func (l *loop) sumEnded(op engine.Op, ok bool) {
	spans, known := l.sums.flying[op]
	if !known {
		return
	}
	l.sums.land(op)
	if !ok {
		return
	}
	for _, u := range spans {
		if u.access == graph.Read {
			l.verify(u)
		} else if b := l.mem[u.inst].b; u.off+u.n <= int64(len(b)) && !l.sums.written(u) {
			l.sums.note(u.inst, b, u.off, u.n)
		}
	}
}

// land takes an operation out of those in flight.
func (s *sums) land(op engine.Op) {
	for _, u := range s.flying[op] {
		if u.access == graph.Read {
			continue
		}
		all := s.writing[u.inst]
		if all = slices.Delete(all, slices.Index(all, u), slices.Index(all, u)+1); len(all) > 0 {
			s.writing[u.inst] = all
		} else {
			delete(s.writing, u.inst)
		}
	}
	delete(s.flying, op)
}

// written reports whether an operation in flight writes to a part.
func (s *sums) written(u span) bool {
	return slices.ContainsFunc(s.writing[u.inst], func(w span) bool { return w.off < u.off+u.n && u.off < w.off+w.n })
}

// verify checks a part. If it changed, the run whose data it is ends with an error, and with
// resident data all runs in progress, since any of them may have used it.
func (l *loop) verify(u span) {
	b := l.mem[u.inst].b
	if u.off+u.n > int64(len(b)) {
		return
	}
	p, bad := l.sums.changed(u.inst, b, u.off, u.n)
	if !bad {
		return
	}
	run, name := l.engine.Owner(u.inst)
	err := fmt.Errorf("%w: %s, bytes %d to %d", ErrChecksum, name, p.off, p.off+p.n-1)
	l.log.Error("checksum", "err", err)
	for id := range l.runs {
		if (run == id || run == 0 && !l.runs[id].probe) && l.sums.bad[id] == nil {
			l.sums.bad[id] = err
			l.evs = append(l.evs, engine.Event{Kind: engine.Cancel, Run: id})
		}
	}
}

// sumCopy notes what a copy reads and writes in host memory.
func (l *loop) sumCopy(a *engine.Action) {
	if a.From == machine.Host {
		l.issued(a.Op, span{a.Src, a.SrcOff, a.Bytes, graph.Read})
	}
	if a.Device == machine.Host {
		l.issued(a.Op, span{a.Dst, a.DstOff, a.Bytes, graph.Write})
	}
}

// sumLaunch does so for a launch on a device that uses host memory. A workspace, which comes
// after the uses of the task, has no checksum.
func (l *loop) sumLaunch(a *engine.Action, t *graph.Task) {
	for i := range t.Uses {
		if i < len(a.Args) {
			g := &a.Args[i]
			l.issued(a.Op, span{g.Inst, g.Offset, g.Bytes, t.Uses[i].Access})
		}
	}
}

// sumHome makes checksums of what the caller brought. What a run only writes has none yet.
func (l *loop) sumHome(a *engine.Action) {
	delete(l.sums.known, a.Inst)
	if a.Run == 0 {
		l.sums.homes[a.Ref] = a.Inst
	} else if !l.runs[a.Run].Graph.Data(a.Data).Input {
		return
	}
	b := l.mem[a.Inst].b
	l.sums.note(a.Inst, b, 0, int64(len(b)))
}

// sumFetched returns the error of resident data that a caller is about to read.
func (l *loop) sumFetched(ref engine.DataRef) error {
	i, ok := l.sums.homes[ref]
	if !ok {
		return nil
	}
	b := l.mem[i].b
	p, bad := l.sums.changed(i, b, 0, int64(len(b)))
	if !bad {
		return nil
	}
	_, name := l.engine.Owner(i)
	return fmt.Errorf("%w: %s, bytes %d to %d", ErrChecksum, name, p.off, p.off+p.n-1)
}

// sumFree forgets an instance.
func (l *loop) sumFree(i engine.Inst) {
	delete(l.sums.known, i)
	maps.DeleteFunc(l.sums.homes, func(_ engine.DataRef, h engine.Inst) bool { return h == i })
}

// sumLost forgets what a lost device had in flight: what it wrote is unknown.
func (l *loop) sumLost(d *dev) {
	for op := range l.sums.flying {
		if slices.Contains(d.lanes, driver.Lane(op.Lane)) {
			l.sums.land(op)
		}
	}
}

// sumDone returns the error of a run: that it used data which had changed, if it did.
func (l *loop) sumDone(id engine.RunID, err error) error {
	if bad := l.sums.bad[id]; bad != nil && (err == nil || errors.Is(err, engine.ErrCancelled)) {
		err = bad
	}
	delete(l.sums.bad, id)
	return err
}
