package engine

import "github.com/weft-run/weft/graph"

// value is one version of one piece.
type value struct {
	run    runSlot // run slot of its producer; -1 for resident data put by the caller
	slot   slotID  // first copy
	reads  int32   // uses that still have to read it
	deps   int32   // held recipes that read it
	replay int64   // predicted time of that
	bytes  int64
	data   dataID
	piece  pieceID // within its data
	depth  int16   // tasks to replay in a row if lost
	flags  valueFlags
}

type valueFlags uint8

const (
	produced  valueFlags = 1 << iota
	anchored             // a complete copy is in host memory
	counted              // counted in its producer's liveOuts
	wanted               // an output of a run that has not ended
	delivered            // and it is in its home
	current              // what resident data holds now
	commits              // a copy to host memory is under way
	late                 // a copy to host memory waits for room
)

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
