package engine

import "github.com/weft-run/weft/graph"

// Names of records. A record is named by its index in the array that holds it. Each kind
// of record has an index type of its own, so that the compiler rejects a mix-up. -1
// stands for none in all of them.

type (
	taskID  int32 // a task of a run
	runSlot int32 // a run; slots are reused, RunIDs are not
	dataID  int32 // data of a run, or resident data
	valueID int32 // one version of one piece of data
	slotID  int32 // the storage of one piece in an instance
	spaceID int32 // a memory: 0 is the host's, 1+d that of device d
	pieceID int32 // a piece, counted within its data; also a number of pieces
)

// hostSpace names host memory.
const hostSpace spaceID = 0

// task returns the engine's number of a task of the run's graph.
func (r *run) task(gt graph.TaskID) taskID { return r.tbase + taskID(gt) }

// taskOf returns the run of a task and its number in the graph.
func (e *Engine) taskOf(tid taskID) (*run, graph.TaskID) {
	r := e.runs[e.tasks.at[tid].run]
	return r, graph.TaskID(tid - r.tbase)
}

// at returns the slot of a piece of the instance's data.
func (in *inst) at(p pieceID) slotID { return in.slot + slotID(p-in.p0) }

// end returns the slot after the instance's last.
func (in *inst) end() slotID { return in.slot + slotID(in.n) }

// piece returns the piece that a slot of the instance is for.
func (in *inst) piece(s slotID) pieceID { return in.p0 + pieceID(s-in.slot) }

// shift returns the difference between the engine's and the graph's number of a value
// that a task makes.
func (r *run) shift() valueID { return r.vbase - valueID(r.f.NumInitial) }

// made returns the number of values that the run's tasks make.
func (r *run) made() valueID { return valueID(len(r.f.Values)) - valueID(r.f.NumInitial) }

// pieces returns the range of pieces that a use touches, counted within its data.
func pieces(u *graph.FlowUse) (p0, n pieceID) {
	return pieceID(u.P0 - u.Base), pieceID(u.P1 - u.P0)
}
