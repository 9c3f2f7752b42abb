package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
)

// value is one version of one piece.
type value struct {
	run    runSlot // run slot of its producer; -1 for resident data put by the caller
	slot   slotID  // first copy
	reads  int32   // uses that still have to read it
	deps   int32   // held recipes that read it
	replay int64   // predicted time to compute it again if lost
	bytes  int64
	data   dataID
	piece  pieceID // within its data
	depth  int16   // tasks to replay in a row if lost
	flags  valueFlags
}

// valueFlags say what is true of a value. Only on changes them.
type valueFlags uint8

const (
	produced   valueFlags = 1 << iota // its task has made it, or it was given
	anchored                          // a complete copy is in host memory, or was when it was given up
	counted                           // counted in its producer's liveOuts
	wanted                            // an output of a run that has not ended
	delivered                         // and it is in its home
	current                           // what resident data holds now
	commits                           // a copy to host memory is under way
	awaitsRoom                        // a copy to host memory waits for room
)

// valueEvent is what happens to a value.
type valueEvent uint8

const (
	madeInHost    valueEvent = iota // its task made it in host memory, or the caller gave it
	madeOnDevice                    // its task made it, in a device's memory alone
	madeGone                        // its task made it after it was given up
	reachedHost                     // a copy in host memory is complete
	leftHost                        // its last complete copy in host memory is gone
	isLost                          // no copy is left: its task runs again
	commitBegun                     // a copy to host memory was issued
	commitEnded                     // that failed, or is of no use
	lacksRoom                       // a copy to host memory waits for room
	getsRoom                        // it may be tried again
	isOutput                        // a run is to deliver it
	cameHome                        // it is in its home; its copy may be heard of before its task
	outputSettled                   // its run ends
	isCurrent                       // resident data holds it
	wasReplaced                     // resident data holds another
	recipeKept                      // its task is kept to compute it again
	recipeFreed                     // and need not be any more
)

// valueMoves says for each event what must be true of the value, what must not be, and
// what becomes true and false.
var valueMoves = [...]struct {
	name                  string
	need, not, set, clear valueFlags
}{
	madeInHost:    {name: "made in host memory", set: produced | anchored, clear: commits},
	madeOnDevice:  {name: "made on a device", set: produced, clear: anchored},
	madeGone:      {name: "made after it was given up", set: produced},
	reachedHost:   {name: "copied to host memory", set: anchored, clear: commits},
	leftHost:      {name: "gone from host memory", need: anchored, clear: anchored},
	isLost:        {name: "lost", clear: produced | anchored},
	commitBegun:   {name: "being committed", not: commits, set: commits},
	commitEnded:   {name: "not committed", clear: commits},
	lacksRoom:     {name: "waiting for room", not: awaitsRoom, set: awaitsRoom},
	getsRoom:      {name: "given room", need: awaitsRoom, clear: awaitsRoom},
	isOutput:      {name: "an output", not: wanted | delivered, set: wanted},
	cameHome:      {name: "delivered", need: wanted, not: delivered, set: delivered},
	outputSettled: {name: "settled", clear: wanted | delivered},
	isCurrent:     {name: "current", set: current},
	wasReplaced:   {name: "replaced", clear: current},
	recipeKept:    {name: "recomputable", not: counted, set: counted},
	recipeFreed:   {name: "safe", need: counted, clear: counted},
}

// on takes in what happened to a value.
func (val *value) on(ev valueEvent) {
	m := &valueMoves[ev]
	if val.flags&m.need != m.need || val.flags&m.not != 0 {
		val.illegal(m.name)
	}
	val.flags = val.flags&^m.clear | m.set
}

func (val *value) illegal(what string) {
	panic(fmt.Sprintf("engine: a value with flags %08b is %s", val.flags, what))
}

// owed reports whether the value is an output that is still to be delivered.
func (val *value) owed() bool { return val.flags&(wanted|delivered) == wanted }

// has reports whether all of some flags are set.
func (val *value) has(f valueFlags) bool { return val.flags&f == f }

// needed reports whether a value can still be asked for.
func (val *value) needed() bool {
	return val.reads > 0 || val.deps > 0 || val.flags&(wanted|current) != 0
}

// newValue makes the record of a value that has no copy.
func (st *store) newValue(run runSlot, data dataID, piece pieceID, bytes int64) valueID {
	v := st.vals.alloc(1)
	st.vals.at[v] = value{run: run, slot: -1, bytes: bytes, data: data, piece: piece}
	return v
}

// endValue gives up the record of a value that newValue made.
func (st *store) endValue(v valueID) { st.vals.release(v, 1) }

// openValue fills in one of the records that vals.alloc gave out. Field by field: a
// literal is written twice, and the second time waits for the first.
func (st *store) openValue(v valueID, run runSlot, d dataID, p pieceID, bytes int64, readers int32) {
	val := &st.vals.at[v]
	*val = value{}
	val.run, val.slot, val.reads, val.bytes, val.data, val.piece = run, -1, readers, bytes, d, p
}

// openData fills in one of the records that data.alloc gave out, likewise.
func (st *store) openData(d dataID, kind graph.Durability, fixed bool, run runSlot, pieces pieceID) {
	x := &st.data.at[d]
	*x = datum{}
	x.insts, x.home, x.kind, x.fixed, x.run = -1, -1, kind, fixed, run
	if pieces > fewPieces {
		st.makeLists(d, pieces)
	}
}

// datum is a data handle of a run, or resident data.
type datum struct {
	// insts is the first of its instances; where levels is not 0, where the heads of
	// its lists begin.
	insts Inst
	home  Inst // instance the caller's memory stands behind, -1
	kind  graph.Durability
	// fixed says the home must not be written to: the caller gave an input
	// and did not ask for it back.
	fixed bool
	// levels is 0 where all instances are in one list. Else they are in a tree of
	// that depth, by pieces.
	levels uint8
	run    runSlot // the run it belongs to; of resident data -1-ref
}
