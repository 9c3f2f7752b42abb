package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
)

// Admission: which run starts when. Runs that use resident data wait in line for it: one
// run at a time writes data, and no run overtakes a waiting writer. A run is looked at
// when it is first in all its lines and something about the data changed, so that runs
// that wait cost nothing. It begins when there is room for it, too (room.go).

// ticket names a run in a line. Slots are reused; the number tells whether the slot still
// has the same run.
type ticket struct {
	id   RunID
	slot runSlot
}

// runOf returns the run of a ticket, nil if it is retired.
func (e *Engine) runOf(k ticket) *run {
	if r := e.runs[k.slot]; r != nil && r.id == k.id {
		return r
	}
	return nil
}

// inLine returns the run of a ticket if it still waits to be admitted, else nil.
func (e *Engine) inLine(k ticket) *run {
	if r := e.runOf(k); r != nil && r.state == runWaiting {
		return r
	}
	return nil
}

// join puts a submitted run into the lines for the resident data it uses.
func (e *Engine) join(r *run) {
	for _, ref := range r.refs {
		if ref < 0 {
			continue
		}
		res := &e.resident[ref]
		res.awaited++
		if res.line.len() > 0 && res.line.last().id == r.id {
			continue // two handles of its graph are bound to the same data
		}
		if e.first(res) != nil {
			r.after++
		}
		res.line.push(ticket{r.id, r.slot})
	}
	if r.after == 0 {
		e.consider(r)
	}
}

// leave takes a run that starts, or that ends without having started, out of its lines.
func (e *Engine) leave(r *run) {
	for _, ref := range r.refs {
		if ref < 0 {
			continue
		}
		res := &e.resident[ref]
		res.awaited--
		e.first(res)
		if res.closing {
			e.ask(ref)
		}
	}
}

// first returns the run that is first in line for resident data, nil for none. It removes
// runs before it that have started or ended, and has admit look at the run that becomes
// first in its last line by that. Any code that may have changed the line calls it.
func (e *Engine) first(res *residentData) *run {
	for moved := false; res.line.len() > 0; moved = true {
		e.visit(1)
		if r := e.inLine(res.line.next()); r != nil {
			if moved {
				if r.after--; r.after == 0 {
					e.consider(r)
				}
			}
			return r
		}
		res.line.pop()
	}
	return nil
}

// released has the runs and requests looked at that wait for resident data, because fewer
// runs use it.
func (e *Engine) released(ref DataRef) {
	res := &e.resident[ref]
	if r := e.first(res); r != nil && r.after == 0 {
		e.consider(r)
	}
	if res.fetches > 0 || res.closing {
		e.ask(ref)
	}
}

// consider has admit look at a run. The list is a heap by number: runs start in submit
// order.
func (e *Engine) consider(r *run) {
	h := append(e.toAdmit, ticket{r.id, r.slot})
	for i := len(h) - 1; i > 0 && h[i].id < h[(i-1)/2].id; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	e.toAdmit = h
}

// nextToAdmit takes the run that was submitted first off the heap.
func (e *Engine) nextToAdmit() ticket {
	h := e.toAdmit
	top, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c+1 < n && h[c+1].id < h[c].id {
			c++
		}
		if c >= n || h[i].id <= h[c].id {
			break
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
	e.toAdmit = h
	return top
}

// ask has the requests for resident data served at the next step.
func (e *Engine) ask(ref DataRef) {
	if res := &e.resident[ref]; !res.asked {
		res.asked = true
		e.served = append(e.served, ref)
	}
}

// serve serves requests for resident data. A request that waits for runs to end is put on
// the list again when they do; one that waits for a copy home stays on the list.
func (e *Engine) serve() {
	kept := e.served[:0]
	for _, ref := range e.served {
		e.visit(1)
		e.serveResident(ref)
		res := &e.resident[ref]
		if res.asked = res.live && !res.writer && (res.fetches > 0 || res.closing && res.readers+res.awaited == 0); res.asked {
			kept = append(kept, ref)
		}
	}
	e.served = kept
}

// admit starts runs whose resident data is free, in submit order.
func (e *Engine) admit() {
	if len(e.served) > 0 {
		e.serve()
	}
	for _, k := range e.recuts {
		if r := e.inLine(k); r != nil {
			e.consider(r)
		}
	}
	e.recuts = e.recuts[:0]
	for len(e.toAdmit) > 0 {
		e.visit(1)
		k := e.nextToAdmit()
		r := e.inLine(k)
		if r == nil || !e.dataFree(r) {
			continue
		}
		switch fits := e.recutAll(r); {
		case r.state != runWaiting: // it failed: data to be cut anew is lost
		case !fits:
			e.recuts = append(e.recuts, k)
		case e.hasRoom(r):
			e.start(r)
			e.leave(r)
			if r.lined {
				e.roomChanged()
			}
		}
	}
}

// dataFree reports whether no active run uses resident data in a way that keeps a run,
// which is first in line for it, from starting.
func (e *Engine) dataFree(r *run) bool {
	for d, ref := range r.refs {
		if ref >= 0 && e.usedElsewhere(r, d) {
			return false
		}
	}
	return true
}

// usedElsewhere reports whether a run that goes on uses the resident data bound to d in a
// way that keeps r from starting.
func (e *Engine) usedElsewhere(r *run, d int) bool {
	res := &e.resident[r.refs[d]]
	return res.writer || res.readers > 0 && (r.writes(graph.DataID(d)) || !r.samePieces(d, res))
}

// recutAll reports whether the resident data of a run is cut as its graph cuts it, and
// starts to cut it so if not.
func (e *Engine) recutAll(r *run) bool {
	all := true
	for d, ref := range r.refs {
		if ref < 0 || r.samePieces(d, &e.resident[ref]) || e.recut(r, d, &e.resident[ref]) {
			continue
		}
		all = false
		if e.refused > 0 && e.lastResort() {
			e.effort = usual
			e.fail(r, fmt.Errorf("data %q: %w", e.resident[ref].name, e.outOfMemory(0, e.refused)))
			break
		}
	}
	return all
}
