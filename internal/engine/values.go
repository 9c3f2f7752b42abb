package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
)

// Values and what happens to them. The flags of a value change by events alone, and one
// table says for each event what must hold before it and what holds after it.

// value is one version of one piece.
type value struct {
	// run is the run that makes it or was given it; -1 for resident data put by the
	// caller. Invariant: a run with records.
	run  runSlot
	slot slotID // first copy, -1 for none; the others follow by slot.next
	// reads is the number of uses that have not read it. Invariant: the number of its uses
	// by tasks that are not done.
	reads int32
	// deps is the number of reads by tasks whose recipes are kept. Invariant: counted
	// anew from the tasks with the flag recipe.
	deps   int32
	replay int64 // predicted nanoseconds to recompute it if lost
	bytes  int64
	data   dataID
	piece  pieceID // within its data
	depth  int16   // tasks in a row to replay if lost
	flags  valueFlags
}

// valueFlags are properties of a value. Only on changes them (TestWalls).
type valueFlags uint8

const (
	// produced: its task has made it, or the caller gave it.
	produced valueFlags = 1 << iota
	// anchored: a complete copy is in host memory, or was when the value was freed.
	// Invariant: a needed value that is anchored has such a copy; one that is not
	// anchored has a producer that is not done or whose recipe is kept, unless it is
	// volatile, its run has failed, vacate let it go or recovery is off.
	anchored
	// counted: it is one of its producer's liveOuts.
	counted
	// wanted: it is an output of a run that has not ended.
	wanted
	// delivered: it is wanted and in its home.
	delivered
	// current: resident data holds it. Invariant: set for all of residentData.vals.
	current
	// commits: a copy to host memory is in flight. Invariant: if the value is needed, a
	// slot in host memory is claimed for it.
	commits
	// awaitsRoom: it is on the wait list of host memory.
	awaitsRoom
)

// valueEvent is something that happens to a value: the flags that must be set before it,
// those that must not be, those it sets and those it clears, a byte each. An event that is
// a constant costs no lookup. commitBegun, for instance, is 0x00_40_40_00: commits (0x40)
// must not be set, and is set.
type valueEvent uint32

// What a flag is to an event. Flags are multiplied by these.
const (
	needs valueEvent = 1 << (8 * iota)
	bars
	sets
	clears
)

// The table of events.
const (
	// madeInHost: its task made it in host memory, or the caller gave it.
	madeInHost = valueEvent(produced|anchored)*sets | valueEvent(commits)*clears
	// madeOnDevice: its task made it in a device's memory alone.
	madeOnDevice = valueEvent(produced)*sets | valueEvent(anchored)*clears
	// madeGone: its task made it, and where it is follows, or it was freed before.
	madeGone = valueEvent(produced) * sets
	// reachedHost: a copy in host memory is complete.
	reachedHost = valueEvent(anchored)*sets | valueEvent(commits)*clears
	// leftHost: its last complete copy in host memory is gone.
	leftHost = valueEvent(anchored)*needs | valueEvent(anchored)*clears
	// isLost: no copy is left: its task runs again.
	isLost = valueEvent(produced|anchored) * clears
	// commitBegun: a copy to host memory was issued.
	commitBegun = valueEvent(commits)*bars | valueEvent(commits)*sets
	// commitEnded: that copy failed, or nothing needs it.
	commitEnded = valueEvent(commits) * clears
	// lacksRoom: a copy to host memory waits for room.
	lacksRoom = valueEvent(awaitsRoom)*bars | valueEvent(awaitsRoom)*sets
	// getsRoom: that copy may be tried again.
	getsRoom = valueEvent(awaitsRoom)*needs | valueEvent(awaitsRoom)*clears
	// isOutput: a run is to deliver it.
	isOutput = valueEvent(wanted|delivered)*bars | valueEvent(wanted)*sets
	// cameHome: it is in its home; the copy may be reported before the task.
	cameHome = valueEvent(wanted)*needs | valueEvent(delivered)*bars | valueEvent(delivered)*sets
	// outputSettled: its run ends.
	outputSettled = valueEvent(wanted|delivered) * clears
	// isCurrent: resident data holds it.
	isCurrent = valueEvent(current) * sets
	// wasReplaced: resident data holds another value, or none.
	wasReplaced = valueEvent(current) * clears
	// recipeKept: its task's recipe is kept.
	recipeKept = valueEvent(counted)*bars | valueEvent(counted)*sets
	// recipeFreed: its task's recipe is not needed for it.
	recipeFreed = valueEvent(counted)*needs | valueEvent(counted)*clears
)

// eventNames are the words in which badEvent speaks of events.
var eventNames = map[valueEvent]string{
	madeInHost:    "made in host memory",
	madeOnDevice:  "made on a device",
	madeGone:      "made after it was given up",
	reachedHost:   "copied to host memory",
	leftHost:      "gone from host memory",
	isLost:        "lost",
	commitBegun:   "being committed",
	commitEnded:   "not committed",
	lacksRoom:     "waiting for room",
	getsRoom:      "given room",
	isOutput:      "an output",
	cameHome:      "delivered",
	outputSettled: "settled",
	isCurrent:     "current",
	wasReplaced:   "replaced",
	recipeKept:    "recomputable",
	recipeFreed:   "safe",
}

// on applies an event to a value. It panics on one that the table does not allow.
func (val *value) on(ev valueEvent) {
	if need := valueFlags(ev); val.flags&(need|valueFlags(ev/bars)) != need {
		panic(badEvent{val.flags, ev})
	}
	val.flags = val.flags&^valueFlags(ev/clears) | valueFlags(ev/sets)
}

// badEvent is the panic about an event that the table does not allow.
type badEvent struct {
	flags valueFlags
	event valueEvent
}

func (b badEvent) Error() string {
	return fmt.Sprintf("engine: a value with flags %08b is %s", b.flags, eventNames[b.event])
}

// owed reports whether the value is an output that has not been delivered.
func (val *value) owed() bool { return val.flags&(wanted|delivered) == wanted }

// has reports whether all of some flags are set.
func (val *value) has(f valueFlags) bool { return val.flags&f == f }

// needed reports whether the value can still be asked for.
func (val *value) needed() bool {
	return val.reads > 0 || val.deps > 0 || val.flags&(wanted|current) != 0
}

// newValue makes the record of a value without a copy.
func (st *store) newValue(run runSlot, data dataID, piece pieceID, bytes int64) valueID {
	v := st.vals.alloc(1)
	st.vals.at[v] = value{run: run, slot: -1, bytes: bytes, data: data, piece: piece}
	return v
}

// endValue frees the record of a value that newValue made.
func (st *store) endValue(v valueID) { st.vals.release(v, 1) }

// allocValues and allocData make consecutive records, for openValue and openData to fill in,
// and return the first; releaseValues and releaseData give them up.
func (st *store) allocValues(n int) valueID          { return st.vals.alloc(n) }
func (st *store) releaseValues(first valueID, n int) { st.vals.release(first, n) }
func (st *store) allocData(n int) dataID             { return st.data.alloc(n) }
func (st *store) releaseData(first dataID, n int)    { st.data.release(first, n) }

// openValue fills in one of the records that vals.alloc returned. It assigns field by
// field because a composite literal is built apart and then copied.
func (st *store) openValue(v valueID, run runSlot, d dataID, p pieceID, bytes int64, readers int32) {
	val := &st.vals.at[v]
	*val = value{}
	val.run, val.slot, val.reads, val.bytes, val.data, val.piece = run, -1, readers, bytes, d, p
}

// openData fills in one of the records that data.alloc returned, field by field likewise.
// Data of more than fewPieces pieces gets lists by makeLists besides.
func (st *store) openData(d dataID, kind graph.Durability, fixed, secret bool, run runSlot) {
	x := &st.data.at[d]
	x.insts, x.home, x.kind, x.fixed, x.levels, x.run, x.secret = -1, -1, kind, fixed, 0, run, secret
}

// datum is a data handle: of a run, or resident data.
type datum struct {
	// insts is the first of its instances if levels is 0, and else the index in
	// store.heads at which the heads of its lists begin; -1 for none.
	insts Inst
	home  Inst // the instance that is the caller's memory, -1 for none
	kind  graph.Durability
	// fixed says that the home must not be written to: the caller gave an input
	// and did not ask for it back.
	fixed  bool
	secret bool // its instances are cleared when they are freed (graph.Data.Secret)
	// levels is the depth of the tree of instance lists, 0 for one list (lists.go).
	levels uint8
	run    runSlot // the run it belongs to; -1-ref for resident data
}
