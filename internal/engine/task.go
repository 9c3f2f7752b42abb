package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Where a task is. One field says it, move changes it by a table of legal moves, and
// every place names the code that takes the task on from there.

// task is a task of a run. It holds no pointers and fills a cache line of 64 bytes
// exactly, because fetching the record is most of the cost of a task (TestRecordSizes).
type task struct {
	run runSlot
	// unissued is the number of predecessors that are neither issued nor done. Invariant:
	// a detached predecessor, and a gang of which a member failed, count as not issued; a
	// failed run does not keep the count.
	unissued int32
	lane     Lane
	seq      uint32           // with lane, its operation while it is issued
	dev      machine.DeviceID // where it is placed, -1 for nowhere
	avoid    machine.DeviceID // a device it failed on, -1 for none
	// liveOuts is the number of values it made that are needed and not in host memory.
	// Invariant: the number of its values with the flag counted.
	liveOuts int32
	where    where
	flags    taskFlags
	tries    uint16 // failed executions
	eft      int64  // predicted end in nanoseconds; once done, the real end
	cost     int64  // predicted duration in nanoseconds on dev
	readyAt  int64  // when it last became ready, in nanoseconds
	key      int64  // its place in a device's queue, in nanoseconds of fair-queueing time
}

// taskFlags are properties of a task.
type taskFlags uint8

const (
	recipe      taskFlags = 1 << iota // its recipe is kept; invariant: if liveOuts > 0, and else only until it has run again
	replayed                          // it was done before, and runs or ran again
	charged                           // it has a key, and its run was charged for it
	inputFailed                       // copies made for it failed; it has an entry in taskCopies
	tried                             // an execution of it came to nothing: it is among failures.attempts
	isDetached                        // its launch is among flights.detached
	isWide                            // it takes several lanes of the team it is placed on
)

// taskLists are the lists a task may be on. Invariant, for a run that goes on: a task is
// on the list that its where names and on no other. The list of a parked task belongs to
// its run, that of a queued one to its device.
type taskLists struct {
	ready    fifo[taskID] // invariant: empty at the end of a step
	leftOuts []taskID
	delayed  []delay      // a heap by time
	gangLine fifo[taskID] // invariant: empty unless Concurrent tasks are in flight
	// behindReaders holds, by the value that must have been made and read first, the tasks
	// that would make a third version of its piece. Invariants: such a value has readers or
	// is not produced; at most two needed versions of a piece that is not volatile are on
	// devices, replays and the older value of resident data apart.
	behindReaders map[valueID][]taskID
	gangs         map[taskID]*gang // gangs in flight
	queuedTasks   int              // invariant: the sum over the queues of all devices
	offerAgain    bool             // a change may let tasks that were left out run
	gangWaits     bool             // one of those is a gang that waits for memory
}

// where says where a task is, and so which code takes it on.
type where uint8

const (
	waiting       where = iota // for predecessors to be issued; markIssued takes it on
	ready                      // on taskLists.ready; place offers it to the policy
	leftOut                    // on taskLists.leftOuts; place, once devices or values have changed
	pausing                    // on taskLists.delayed; runTimers, after its pause
	behindReaders              // on taskLists.behindReaders; wakeAwaiting, once a value was made and read
	gangLined                  // a gang, on taskLists.gangLine; nextGang, once fewer tasks are in flight
	parked                     // on run.parked; unpark, once fewer tasks of its run are in flight
	queued                     // in the queue of its device; issueAll
	issued                     // in flight on a lane, or detached from it; launchDone
	done                       // it ended, or its run gave it up; reopen, if its result is lost
)

var whereNames = [...]string{"waiting", "ready", "left out", "pausing", "behind readers", "in the line of gangs", "parked", "queued", "issued", "done"}

func (w where) String() string { return whereNames[w] }

// mayMove says, by where a task is, where it may go next. A run that fails gives up its
// tasks wherever they are, except those in flight.
var mayMove = [places]whereSet{
	waiting:       to(waiting, ready, pausing, done),
	ready:         to(ready, waiting, leftOut, behindReaders, gangLined, parked, queued, issued, done),
	leftOut:       to(ready, done),
	pausing:       to(waiting, ready, done),
	behindReaders: to(waiting, ready, done),
	gangLined:     to(ready, done),
	parked:        to(waiting, ready, done),
	queued:        to(waiting, ready, leftOut, behindReaders, parked, queued, issued, done),
	issued:        to(waiting, done),
	done:          to(waiting),
}

// places is the length of mayMove: a power of two, so that no index needs a check.
const places = 16

// whereSet is a set of places, a bit each.
type whereSet uint16

// to returns the set of some places.
func to(places ...where) (s whereSet) {
	for _, w := range places {
		s |= 1 << w
	}
	return s
}

// move changes where a task is, and panics on a move that mayMove does not allow. The
// caller keeps the list that belongs to the place.
func (t *task) move(w where) {
	if mayMove[t.where%places]>>w&1 == 0 {
		panic(badMove{t.where, w})
	}
	t.where = w
}

// badMove is the panic about a move that mayMove does not allow.
type badMove struct{ from, to where }

func (b badMove) Error() string {
	return fmt.Sprintf("engine: a task that is %v is to be %v", b.from, b.to)
}

// park sets a task aside until its run may have another task in flight.
func (e *Engine) park(tid taskID, r *run) {
	e.tasks.at[tid].move(parked)
	r.parked.push(tid)
}

// unpark readies the next parked task of a run, if the run may have another task in
// flight. A task that had this chance and cannot use it passes it on by calling unpark,
// because it may wait for the very task that is parked.
func (e *Engine) unpark(r *run) {
	for r.parked.len() > 0 && !r.full() {
		tid := r.parked.pop()
		t := &e.tasks.at[tid]
		if t.where != parked {
			continue
		}
		if t.unissued == 0 {
			e.replace(tid)
			return
		}
		e.unplace(tid, waiting) // a predecessor failed after it was parked
	}
}

// full reports whether a run has its greatest number of tasks in flight.
func (r *run) full() bool { return r.o.Concurrent > 0 && r.flight >= r.o.Concurrent }

// full reports whether the greatest number of tasks over all devices is in flight.
func (e *Engine) full() bool {
	return e.o.Concurrent > 0 && e.inFlight-e.waitingLaunches() >= e.o.Concurrent
}

// withdrawn tells the successors of a task that it has ceased to be issued. Successors in
// flight fail with DepFailed and return; those ready or queued go back to waiting when
// they are about to be issued.
func (e *Engine) withdrawn(tid taskID, r *run) {
	for _, s := range r.f.Succs(graph.TaskID(tid - r.tbase)) {
		st := &e.tasks.at[r.task(graph.TaskID(s))]
		st.unissued++
	}
}

// unissue takes a task out of flight after a failure. g is its gang, or nil.
func (e *Engine) unissue(tid taskID, r *run, g *gang) {
	t := &e.tasks.at[tid]
	t.move(waiting)
	t.dev = -1
	if g == nil || !g.withdrawn {
		e.withdrawn(tid, r)
	}
	e.landed(r)
}

// again makes a task ready, or leaves it waiting for predecessors to be issued.
func (e *Engine) again(tid taskID) {
	if t := &e.tasks.at[tid]; t.unissued > 0 {
		t.move(waiting)
	} else {
		e.makeReady(tid)
	}
}
