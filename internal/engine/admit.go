package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
)

// Runs that use resident data wait in line for it: data is written by one run at a
// time, and nobody overtakes a writer. A run is looked at when it is first in all
// its lines and something changed about the data, so that many that wait cost
// nothing.

// ticket is a run in a line. Slots are used again; the number tells whether it is
// still the same run.
type ticket struct {
	id   RunID
	slot runSlot
}

// runOf returns the run of a ticket, nil if there is no such run any more.
func (e *Engine) runOf(k ticket) *run {
	if r := e.runs[k.slot]; r != nil && r.id == k.id {
		return r
	}
	return nil
}

// inLine returns the run of a ticket if it has not been admitted and goes on.
func (e *Engine) inLine(k ticket) *run {
	if r := e.runOf(k); r != nil && r.state == runWaiting {
		return r
	}
	return nil
}

// join puts a run that was submitted into line for the resident data it uses.
func (e *Engine) join(r *run) {
	for _, ref := range r.refs {
		if ref < 0 {
			continue
		}
		res := &e.resident[ref]
		res.awaited++
		if res.line.len() > 0 && res.line.last().id == r.id {
			continue // it uses the same twice
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

// leave takes a run that is admitted, or will not be, out of its lines.
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

// first returns the run that is first in line for resident data, nil for none. It takes
// those before it out that were admitted or will not be, and has the run looked at that
// is first in its last line by that. Whoever sees a change first calls it: a run that
// was cancelled, or one before it that ends in the same step.
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

// released has those looked at who wait for resident data that fewer use now.
func (e *Engine) released(ref DataRef) {
	res := &e.resident[ref]
	if r := e.first(res); r != nil && r.after == 0 {
		e.consider(r)
	}
	if res.fetches > 0 || res.closing {
		e.ask(ref)
	}
}

// look has a run looked at by admit: a heap, so that runs start in submit order.
func (e *Engine) consider(r *run) {
	h := append(e.toAdmit, ticket{r.id, r.slot})
	for i := len(h) - 1; i > 0 && h[i].id < h[(i-1)/2].id; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
	e.toAdmit = h
}

// looked takes the run to look at next.
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

// ask has resident data served at the next step.
func (e *Engine) ask(ref DataRef) {
	if res := &e.resident[ref]; !res.asked {
		res.asked = true
		e.served = append(e.served, ref)
	}
}

// serve does what was asked of resident data. What waits for runs to end is asked
// again when they do; what is on its way home is looked at in every step.
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
		case r.state != runWaiting: // what was to be brought home is lost
		case fits:
			e.start(r)
			e.leave(r)
		default:
			e.recuts = append(e.recuts, k)
		}
	}
}

// free reports whether no run uses resident data in a way that keeps a run, first
// in line for it, from starting.
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

// fit reports whether the resident data of a run is cut as its graph has it, and
// has it cut so where it is not.
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
