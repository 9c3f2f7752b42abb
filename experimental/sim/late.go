package sim

import (
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
)

// What tells live devices from simulated ones without taking longer: completions are
// heard late, members of a gang end one after another, a loss is heard in one breath
// with what had completed before it, and operations wait by a board.

// maxDelay is the longest time for which completions are held back.
const maxDelay = 50 * time.Microsecond

// holds reports whether completions wait to be told.
func (h *hardware) holds() bool {
	if h.late == nil {
		return false
	}
	for l := range h.lanes {
		if len(h.lanes[l].held) > 0 {
			return true
		}
	}
	return false
}

// release tells some of the completions held back, the first ones of each lane.
func (h *hardware) release() {
	if !h.holds() {
		return
	}
	for _, l := range h.late.Perm(len(h.lanes)) {
		h.releaseLane(&h.lanes[l])
	}
}

func (h *hardware) releaseLane(ln *lane) {
	n := 0
	if len(ln.held) > 0 {
		n = h.late.IntN(len(ln.held) + 1)
	}
	h.out = append(h.out, ln.held[:n]...)
	ln.held = slices.Delete(ln.held, 0, n)
}

// partGang has the members of a gang end each for itself, a little later; one of
// them as the gang was to end, the others well.
func (h *hardware) partGang(g *gang, status engine.Status) {
	h.flows.stop(h, g.members[0])
	for i, m := range g.members {
		h.ops[m].gang, h.ops[m].fate = nil, engine.OK
		g.members[i] = -1
		if i == 0 {
			h.ops[m].fate = status
		}
		h.flows.start(h, m, time.Duration(h.late.Int64N(int64(4*maxDelay))), nil, 0, 0, -1, 1)
	}
}

// severed reports whether a copy was decided before the engine came to the event by
// which one of its memories is lost.
func (h *hardware) severed(o *op) bool {
	gone := func(i engine.Inst) bool {
		in := h.inst(i)
		return in != nil && in.status == lost && in.device >= 0 && h.devices[in.device].hearing
	}
	return !o.launch && (gone(o.src) || gone(o.dst))
}

// consult checks that the board says the same of what an operation waited for.
func (h *hardware) consult(o *op) {
	for _, w := range o.waits {
		done, ok := h.board.State(driver.Wait{Lane: driver.Lane(w.Lane), Seq: w.Seq})
		if failed := h.lanes[w.Lane].hasFailed(h.lanes[w.Lane].count(w.Seq)); !done || ok == failed {
			h.violation("%s: it waited for number %d of lane %d, failed %v; the board says done %v, ok %v", h.describe(o), w.Seq, w.Lane, failed, done, ok)
		}
	}
}

// abandon lets the board's readers go on who wait for what a lane was given.
func (h *hardware) abandon(l engine.Lane) {
	if h.board != nil {
		h.board.Abandon(driver.Lane(l), uint32(h.lanes[l].last))
	}
}
