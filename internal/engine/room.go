package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
)

// Room for whole runs in host memory that has a limit. A run that has begun keeps what it has made
// until the tasks that read it have run, so that two runs could each hold what the other lacks. A
// run therefore begins when its need, an upper bound of what it may hold there at a time, fits
// beside the needs of those that have begun. One that does not fit waits in line, in the order of
// submission, and no run that needs room overtakes it: small runs do not keep a large one waiting
// for ever. A run whose need is above the limit begins when no other run needs room, since it may
// take less than the bound; only then can it fail for lack of memory.
//
// Runs of which another one waits for the end (RunOptions.Of) have their need in that of the other.
// Probes need nothing.

// hostRoom is who has room in host memory. All of it is zero if that has no limit.
type hostRoom struct {
	promised int64        // bytes: the needs of runs that have begun, and what ended runs hold that are kept
	users    int          // runs that have begun, have not ended and need room
	roomLine fifo[ticket] // runs that wait for room; those with lined set
	counts   needScratch
}

// needScratch is reused from run to run.
type needScratch struct {
	made      []int32 // by piece: its versions that tasks make
	in, out   []int64 // by data: bytes of uses of several pieces that read it, and of all that write it
	scattered []bool  // by data: some use has several pieces
}

// hasRoom reports whether a run that has all else may begin, and notes that it does. If not, the run
// is in line.
func (e *Engine) hasRoom(r *run) bool {
	if r.hostNeed == 0 {
		return true
	}
	first := e.firstForRoom()
	if (first == nil || first == r) && (e.users == 0 || e.promised+r.hostNeed <= e.mem.spaces[hostSpace].cap) {
		e.users++
		e.promised += r.hostNeed
		return true
	}
	if !r.lined {
		r.lined = true
		e.roomLine.push(ticket{r.id, r.slot})
	}
	return false
}

// firstForRoom returns the run that is first in line for room, nil for none. It removes runs before
// it that have begun or ended.
func (e *Engine) firstForRoom() *run {
	for e.roomLine.len() > 0 {
		e.visit(1)
		if r := e.inLine(e.roomLine.next()); r != nil {
			return r
		}
		e.roomLine.pop()
	}
	return nil
}

// roomChanged has admit look at the run that is first in line for room.
func (e *Engine) roomChanged() {
	if r := e.firstForRoom(); r != nil && r.after == 0 {
		e.consider(r)
	}
}

// endNeed takes in that a run has ended. While it is kept it holds what a replay would read.
func (e *Engine) endNeed(r *run) {
	if r.hostNeed == 0 {
		return
	}
	if r.begun {
		e.users--
		e.promised -= r.hostNeed
	}
	r.hostNeed = 0
	if r.begun && (r.needed > 0 || r.recipes > 0) {
		r.hostNeed = e.hostHeld(r)
		e.promised += r.hostNeed
	}
	e.roomChanged()
}

// endKept takes in that nothing keeps an ended run any more.
func (e *Engine) endKept(r *run) {
	if r.hostNeed > 0 {
		e.promised -= r.hostNeed
		r.hostNeed = 0
		e.roomChanged()
	}
}

// hostHeld returns the bytes that a run holds in host memory, without the caller's memory and its
// workspaces.
func (e *Engine) hostHeld(r *run) (bytes int64) {
	for d, id := range r.dataOf {
		if r.refs != nil && r.refs[d] >= 0 && !r.writes(graph.DataID(d)) {
			continue
		}
		e.mem.eachInst(id, func(i Inst) {
			e.visit(1)
			if in := &e.mem.insts[i]; in.space == hostSpace && !in.lent {
				bytes += in.bytes
			}
		})
	}
	return bytes
}

// needRoom returns an upper bound of the bytes that a run holds in host memory at a time, 0 if there
// is no limit.
func (e *Engine) needRoom(r *run) int64 {
	if e.mem.spaces[hostSpace].cap == 0 || r.o.Probe || r.o.Of != 0 {
		return 0
	}
	e.countUses(r)
	n := r.o.Beside
	for d := range graph.DataID(r.g.NumData()) {
		n += e.dataNeed(r, d)
	}
	host, work := false, int64(0)
	for i := range e.m.Devices {
		host = host || e.m.Devices[i].HostMemory
	}
	for _, gt := range r.f.ShapeTask {
		t := r.g.Task(gt)
		work = max(work, t.Workspace*int64(max(t.Gang, 1)))
	}
	if host {
		n += work
	}
	return n
}

// countUses counts how the graph of a run uses its data.
func (e *Engine) countUses(r *run) {
	f, c := r.f, &e.counts
	c.made = zeros(c.made, len(f.Pieces))
	c.in, c.out, c.scattered = zeros(c.in, r.g.NumData()), zeros(c.out, r.g.NumData()), zeros(c.scattered, r.g.NumData())
	for i := range f.Values[f.NumInitial:] {
		c.made[f.Values[int(f.NumInitial)+i].Piece]++
	}
	for i := range f.Uses {
		u := &f.Uses[i]
		several := u.P1-u.P0 > 1
		c.scattered[u.Data] = c.scattered[u.Data] || several
		if u.W >= 0 {
			c.out[u.Data] += f.UseBytes(u)
		} else if several {
			c.in[u.Data] += f.UseBytes(u)
		}
	}
}

// zeros returns n zero elements in the memory of a slice, if it has as many.
func zeros[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// dataNeed returns an upper bound of the bytes that a run holds of one data at a time.
//
// Where all devices use host memory, there is a buffer for each version of a piece, and two versions
// of a piece at a time (tooManyVersions). Buffers of several pieces last as long as one of these, so
// that each use may have its own. Where there is device memory, every version may be spilled or
// committed, and be an anchor for as long as the run goes on; and a first version may be copied out
// of the caller's memory. An output that is written once goes into the caller's memory.
func (e *Engine) dataNeed(r *run, d graph.DataID) int64 {
	f, c := r.f, &e.counts
	var all, once, most, initial int64 // bytes of pieces: made in every version, at least once, at most twice; given
	home := r.g.Data(d).Output && !r.g.Data(d).Input && (r.refs == nil || r.refs[d] < 0)
	for p := f.PieceOff[d]; p < f.PieceOff[d+1]; p++ {
		bytes, made := f.Pieces[p].Hi-f.Pieces[p].Lo, int64(c.made[p])
		all += made * bytes
		most += min(made, 2) * bytes
		once += min(made, 1) * bytes
		initial += bytes
	}
	switch {
	case all == 0 || home && all == once:
		return 0
	case !e.hostOnly:
		return all + initial + c.in[d]
	case c.scattered[d]:
		return c.out[d] + c.in[d]
	}
	return most
}

// noRoom says for what a run waits that is in line for room.
func (e *Engine) noRoom(r *run) error {
	return fmt.Errorf("%w while it waited for host memory: it may need %s, and %s of %s are promised to other runs", ErrCancelled,
		text.FormatSize(r.hostNeed), text.FormatSize(e.promised), text.FormatSize(e.mem.spaces[hostSpace].cap))
}
