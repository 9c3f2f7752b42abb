package engine

import "fmt"

// Giving the caller's memory back. A run that has ended may be kept, to recompute what it
// left in resident data if the devices that hold that are lost. Its inputs and outputs
// are in memory that is the caller's from then on, so values that such a replay would
// read are moved out first.

// vacate reports whether a run that ended well can do without the caller's memory. If
// not, it starts to copy aside the values there that a replay would read, or to commit
// the results, whichever is fewer bytes. Values for which there is no room are let go: if
// their device is lost as well, readers of the data get an error.
func (e *Engine) vacate(r *run) bool {
	if r.refs == nil || r.recipes == 0 {
		return true
	}
	for n := len(r.committing); n > 0; n-- {
		e.visit(1)
		if e.mem.vals.at[r.committing[n-1]].has(commits) {
			return false // its end has the run looked at again
		}
		r.committing = r.committing[:n-1]
	}
	var there, made int64
	var slots []slotID
	e.eachHomeSlot(r, func(s slotID) {
		e.visit(1)
		if v := e.mem.slots.at[s].val; v >= 0 && e.mem.vals.at[v].deps > 0 && !e.mem.wholeInHost(v, s) {
			slots = append(slots, s)
			there += e.mem.vals.at[v].bytes
		}
	})
	if len(slots) == 0 {
		return true
	}
	var results []valueID
	for v := r.vbase; v < r.vbase+r.made(); v++ {
		if val := &e.mem.vals.at[v]; val.has(counted) && val.slot >= 0 {
			results = append(results, v)
			made += val.bytes
		}
	}
	r.vacating = true
	if made <= there && e.mem.fits(0, made) {
		for _, v := range results {
			if e.commit(v); e.mem.vals.at[v].has(commits) {
				r.committing = append(r.committing, v)
			}
		}
	}
	if len(r.committing) > 0 {
		return false
	}
	under := 0 // copies on their way
	for _, s := range slots {
		if e.copyAside(s) {
			under++
		} else if err := e.copyGivenUp(e.mem.slots.at[s].val); err != nil {
			r.letGo = fmt.Errorf("because it could not be copied when its run ended: %w", err)
		} else {
			r.letGo = fmt.Errorf("for lack of host memory when its run ended: %w", ErrOutOfMemory)
		}
	}
	return under == 0
}

// lostErr returns the error that a value is lost and why; it adds why vacate let go what
// it would be recomputed from, if that is so.
func (e *Engine) lostErr(v valueID, why string) error {
	err := fmt.Errorf("%w: %s %s", ErrDataLost, e.describe(v), why)
	if run := e.mem.vals.at[v].run; run >= 0 && e.runs[run].letGo != nil {
		err = fmt.Errorf("%w, %w", err, e.runs[run].letGo)
	}
	return err
}

// recheckVacating has endRuns look again at a run that waited for one of its values to be
// committed before it ends.
func (e *Engine) recheckVacating(v valueID) {
	if run := e.mem.vals.at[v].run; run >= 0 {
		if r := e.runs[run]; r.vacating && r.state == runActive && r.quiet() {
			e.endLater(r)
		}
	}
}

// closeHomes ends the homes of a run that is kept after its end.
func (e *Engine) closeHomes(r *run) {
	for d, id := range r.dataOf {
		if e.mem.data.at[id].home >= 0 && (r.refs == nil || r.refs[d] < 0) {
			e.mem.closeHome(id)
		}
	}
}

// eachHomeSlot visits the slots of a run's own homes.
func (e *Engine) eachHomeSlot(r *run, visit func(s slotID)) {
	for d, id := range r.dataOf {
		home := e.mem.data.at[id].home
		if home < 0 || r.refs != nil && r.refs[d] >= 0 {
			continue
		}
		in := e.mem.insts[home]
		for s := in.slot; s < in.end(); s++ {
			visit(s)
		}
	}
}
