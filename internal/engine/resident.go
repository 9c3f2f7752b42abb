package engine

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
)

// Resident data: data that outlives runs, and the requests of callers for it (NewData,
// Fetch, FreeData). Which run may use it when is in admit.go.

// residentTable holds the resident data.
type residentTable struct {
	resident  []residentData // by DataRef
	freeRes   []DataRef      // entries of resident to reuse
	served    []DataRef      // data with requests to serve: those with asked set
	committed uint64         // number of the step in which all of it was last committed
}

// residentData is data that outlives runs.
type residentData struct {
	live    bool // the entry is in use
	closing bool // FreeData was called
	name    string
	bytes   int64
	data    dataID
	bounds  []int64      // offsets at which pieces begin, and the end of the last
	vals    []valueID    // by piece, the current value; none once it is closing and nothing asks for it
	deps    int          // invariant: reads of its values, older ones included, by kept recipes
	awaited int          // uses by runs that wait to start
	readers int          // active runs that read it, and fetches not ended by EndFetch
	writer  bool         // an active run writes it
	fetches int          // fetches not answered
	asked   bool         // it is on residentTable.served
	line    fifo[ticket] // runs that wait for it; invariant: the first has not started or ended
}

// NewData adds resident data whose first value is in the caller's memory. The next Step
// emits its Home.
func (e *Engine) NewData(name string, bytes int64, kind graph.Durability) DataRef {
	var ref DataRef
	if n := len(e.freeRes); n > 0 {
		ref = e.freeRes[n-1]
		e.freeRes = e.freeRes[:n-1]
	} else {
		ref = DataRef(len(e.resident))
		e.resident = append(e.resident, residentData{})
	}
	d := e.mem.allocData(1)
	e.mem.openData(d, kind, false, false, -1-runSlot(ref))
	v := e.mem.newValue(-1, d, 0, bytes)
	e.mem.vals.at[v].on(madeOnDevice) // its home comes with the next step
	e.mem.vals.at[v].on(isCurrent)
	e.asked = true
	e.resident[ref] = residentData{live: true, name: name, bytes: bytes, data: d, bounds: []int64{0, bytes}, vals: []valueID{v}}
	e.ask(ref)
	return ref
}

// FreeData ends resident data once no run uses it.
func (e *Engine) FreeData(ref DataRef) {
	e.retryCopies()
	e.resident[ref].closing = true
	e.ask(ref)
	e.asked = true
}

// EndFetch ends the reading of a home that a Fetch was answered for.
func (e *Engine) EndFetch(ref DataRef) {
	e.resident[ref].readers--
	e.released(ref)
	e.asked = true
}

// Fetch asks for the current value of resident data in its home. The answer is a Done
// action with Run 0 and Ref set, one for each Fetch. If Err is nil the value is there,
// and runs that write the data wait for EndFetch.
func (e *Engine) Fetch(ref DataRef) {
	e.retryCopies()
	e.resident[ref].fetches++
	e.ask(ref)
	e.asked = true
}

// serveResident serves the requests for resident data that do not come from runs: it
// introduces the home, answers fetches and ends the data.
func (e *Engine) serveResident(ref DataRef) {
	res := &e.resident[ref]
	if !res.live {
		return
	}
	if e.mem.data.at[res.data].home < 0 {
		e.mem.makeHome(res.data, pieceID(len(res.vals)), res.bytes, Action{Ref: ref})
		home := e.mem.insts[e.mem.data.at[res.data].home]
		for i, v := range res.vals {
			e.mem.vals.at[v].on(reachedHost)
			e.mem.hold(home.slot+slotID(i), v, 0, 0)
		}
	}
	if res.fetches > 0 && !res.writer {
		switch {
		case e.atHome(res):
			for ; res.fetches > 0; res.fetches-- {
				res.readers++
				e.out.emit(Done).Ref = ref
			}
		case e.refused > 0 && e.lastResort():
			e.effort = usual
			e.refuse(ref, fmt.Errorf("data %q: %w", res.name, e.outOfMemory(0, e.refused)))
		}
	}
	if !res.closing || res.writer || res.readers+res.awaited+res.fetches > 0 {
		return
	}
	// First its recipes end: data that is closing as well may wait for them.
	for _, v := range res.vals {
		e.unneed(v)
	}
	res.vals = res.vals[:0]
	if !e.dependedOn(res) && e.mem.insts[e.mem.data.at[res.data].home].pins == 0 {
		e.mem.closeData(res.data)
		e.mem.releaseData(res.data, 1)
		*res = residentData{}
		e.freeRes = append(e.freeRes, ref)
		e.ended = true // other data that is closing may have waited for its recipes
	}
}

// refuseFetches answers fetches of resident data with an error if one of its values is
// gone.
func (e *Engine) refuseFetches(gone func(v valueID) bool, err error) {
	for ref := range e.resident {
		res := &e.resident[ref]
		if res.fetches == 0 || !slices.ContainsFunc(res.vals, gone) {
			continue
		}
		e.refuse(DataRef(ref), err)
	}
}

// refuse answers the fetches of resident data with an error.
func (e *Engine) refuse(ref DataRef, err error) {
	for res := &e.resident[ref]; res.fetches > 0; res.fetches-- {
		a := e.out.emit(Done)
		a.Ref, a.Err = ref, err
	}
}

// atHome reports whether the current value of resident data is in its home, and starts to
// bring there the pieces that are not.
func (e *Engine) atHome(res *residentData) bool {
	all := true
	e.refused = 0
	for _, v := range res.vals {
		all = e.bringHome(v) && all
	}
	return all
}

// dependedOn reports whether a value that exists only on a device would be recomputed
// from the data, or from an older version of it, and if so starts to commit resident data
// to end that.
func (e *Engine) dependedOn(res *residentData) bool {
	if res.deps > 0 {
		e.commitResident()
	}
	return res.deps > 0
}

// commitResident starts to commit all resident data, at most once in a step.
func (e *Engine) commitResident() {
	if e.committed == e.checks.steps+1 {
		return
	}
	e.committed = e.checks.steps + 1
	for i := range e.resident {
		e.visit(1)
		if e.resident[i].live {
			for _, v := range e.resident[i].vals {
				if !e.mem.have(v) {
					e.recoverValue(v) // it was lost, and nothing may ever ask for it
					continue
				}
				e.commit(v)
			}
		}
	}
}

// recut cuts resident data as a graph does and reports whether it did. It needs all of
// the data in its home and no kept recipe that reads it; it starts to bring that about if
// not.
func (e *Engine) recut(r *run, d int, res *residentData) bool {
	if !e.atHome(res) || e.mem.insts[e.mem.data.at[res.data].home].pins > 0 {
		return false
	}
	if e.dependedOn(res) {
		return false
	}
	for _, v := range res.vals {
		e.unneed(v)
	}
	pieces := r.f.Pieces[r.f.PieceOff[d]:r.f.PieceOff[d+1]]
	n := pieceID(len(pieces))
	e.mem.recut(res.data, n)
	home := &e.mem.insts[e.mem.data.at[res.data].home]
	res.bounds, res.vals = append(res.bounds[:0], 0), res.vals[:0]
	for i := range n {
		v := e.mem.newValue(-1, res.data, i, pieces[i].Hi-pieces[i].Lo)
		e.mem.vals.at[v].on(madeInHost)
		e.mem.vals.at[v].on(isCurrent)
		e.mem.hold(home.at(i), v, 0, 0)
		res.bounds = append(res.bounds, pieces[i].Hi)
		res.vals = append(res.vals, v)
	}
	return true
}
