package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
)

// Room for whole runs in host memory that has a limit. A run that has begun keeps its results until
// the tasks that read them have run, so two runs could each hold memory that the other lacks. A run
// therefore begins when its need, an upper bound of the memory it may hold there at a time, fits
// together with the needs of the runs that have begun. A run that does not fit waits in line, in
// the order of submission, and no run that needs room overtakes it: small runs do not keep a large
// one waiting for ever. A run whose need is above the limit begins when no other run needs room,
// since it may take less than the bound; only then can it fail for lack of memory.
//
// The need of a run that another run waits for (RunOptions.Of) is part of the other's need. Probes
// need nothing.

// hostRoom accounts for host memory that has a limit. It is zero without a limit.
type hostRoom struct {
	promised int64        // bytes: the needs of runs that have begun, and what ended runs hold that are kept
	users    int          // runs that have begun, have not ended and need room
	roomLine fifo[ticket] // runs that wait for room; those with lined set
}

// hasRoom reports whether a run that has all else may begin, and notes that it does. If not, the run
// is in line.
func (e *Engine) hasRoom(r *run) bool {
	if r.hostNeed == 0 {
		return true
	}
	first := e.firstForRoom()
	if (first == nil || first == r) && (e.users == 0 || r.hostNeed <= e.mem.spaces[hostSpace].cap-e.promised) {
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
// is no limit. It is the limit at most: a run that needs more begins as one that needs all of it.
func (e *Engine) needRoom(r *run) int64 {
	limit := e.mem.spaces[hostSpace].cap
	if limit == 0 || r.o.Probe || r.o.Of != 0 {
		return 0
	}
	n := r.f.HostNeed.Plus(graph.Need{Shared: r.o.Beside, Apart: r.o.Beside})
	if r.refs != nil {
		for i := range r.f.Outputs {
			if o := &r.f.Outputs[i]; r.refs[o.Data] >= 0 {
				n = n.Plus(o.Need)
			}
		}
	}
	if e.someHost {
		n = n.Plus(graph.Need{Shared: r.f.Workspace, Apart: r.f.Workspace})
	}
	if e.hostOnly {
		return min(n.Shared, limit)
	}
	return min(n.Apart, limit)
}

// noRoom says for what a run waits that is in line for room.
func (e *Engine) noRoom(r *run) error {
	return fmt.Errorf("%w while it waited for host memory: it may need %s, and %s of %s are promised to other runs", ErrCancelled,
		text.FormatSize(r.hostNeed), text.FormatSize(e.promised), text.FormatSize(e.mem.spaces[hostSpace].cap))
}
