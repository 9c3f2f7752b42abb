package engine

import (
	"fmt"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// task is a task of a run. It holds no pointers and fills a cache line exactly:
// most of what a task costs is fetching it.
type task struct {
	run      runSlot
	unissued int32 // predecessors neither issued nor done
	lane     Lane
	seq      uint32 // while it is issued, its operation's
	dev      machine.DeviceID
	avoid    machine.DeviceID // a device it failed on, -1
	liveOuts int32            // values it made that are needed and not in host memory
	where    where
	flags    taskFlags
	tries    uint16 // failed executions
	eft      int64  // predicted end; once done, the real one
	cost     int64  // predicted duration
	readyAt  int64
	key      int64
}

type taskFlags uint8

const (
	recipe      taskFlags = 1 << iota // its recipe is kept: some result exists only on a device
	replayed                          // it ran before
	charged                           // its run has paid for its turn
	inputFailed                       // copies made for it failed
)

// taskLists are the lists a task may be in. It is in the one its where names, and in no
// other; that of a parked task is with its run, that of a queued one with its device.
type taskLists struct {
	ready         fifo[taskID]
	leftOuts      []taskID
	delayed       []delay // a heap by time
	gangLine      fifo[taskID]
	behindReaders map[valueID][]taskID
	gangs         map[taskID]*gang // tasks that are issued on several devices
	queuedTasks   int              // tasks in the queues of all devices
	offerAgain    bool             // something changed that may let tasks left out run
	gangWaits     bool             // one of them is a gang that waits for memory
}

// where says where a task is, and so who comes for it next.
type where uint8

const (
	waiting       where = iota // for predecessors to be issued; markIssued comes for it
	ready                      // in taskLists.ready; place offers it to the policy
	leftOut                    // in taskLists.leftOuts; place, once devices or values have changed
	pausing                    // in taskLists.delayed; timers, after its pause
	behindReaders              // in taskLists.behindReaders; wakeAwaiting, once a value was made and read
	gangLined                  // a gang, in taskLists.gangLine; nextGang, once fewer tasks are in flight
	parked                     // in run.parked; unpark, once fewer tasks of its run are in flight
	queued                     // in the queue of its device; issueAll
	issued                     // in flight on a lane, or detached from it; launchDone
	done                       // it ended, or was given up; reopen, if its result is lost
)

var whereNames = [...]string{"waiting", "ready", "left out", "pausing", "behind readers", "in the line of gangs", "parked", "queued", "issued", "done"}

func (w where) String() string { return whereNames[w] }

// mayMove says, by where a task is, where it may go next. A run that fails gives up tasks
// wherever they are, but for those in flight.
var mayMove = [...]whereSet{
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

type whereSet uint16

func to(places ...where) (s whereSet) {
	for _, w := range places {
		s |= 1 << w
	}
	return s
}

// move puts a task somewhere else. The caller keeps the list that belongs to it.
func (t *task) move(w where) {
	if mayMove[t.where]>>w&1 == 0 {
		panic(fmt.Sprintf("engine: a task that is %v is to be %v", t.where, w))
	}
	t.where = w
}

// park sets a task aside until its run may have another in flight.
func (e *Engine) park(tid taskID, r *run) {
	e.tasks.at[tid].move(parked)
	r.parked.push(tid)
}

// unpark lets the next task of a run in that was set aside, if its run may have another
// in flight. Whoever had that chance and does not use it passes it on by calling this,
// since it may wait for the very task that was set aside.
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
		e.unplace(tid, waiting) // a predecessor failed meanwhile
	}
}

// full reports whether a run has as many tasks in flight as it may.
func (r *run) full() bool { return r.o.MaxInFlight > 0 && r.flight >= r.o.MaxInFlight }

// full reports whether as many tasks are in flight as may be.
func (e *Engine) full() bool { return e.o.MaxInFlight > 0 && e.inFlight >= e.o.MaxInFlight }

// withdrawn tells the successors of a task that it is neither issued nor done
// any more. Those already in flight come back by themselves; those ready or
// queued are set aside when they are to be issued.
func (e *Engine) withdrawn(tid taskID, r *run) {
	for _, s := range r.f.Succs(graph.TaskID(tid - r.tbase)) {
		st := &e.tasks.at[r.task(graph.TaskID(s))]
		st.unissued++
	}
}

// unissue takes a task out of flight again after a failure; g is its gang, or nil.
func (e *Engine) unissue(tid taskID, r *run, g *gang) {
	t := &e.tasks.at[tid]
	t.move(waiting)
	t.dev = -1
	if g == nil || !g.withdrawn {
		e.withdrawn(tid, r)
	}
	e.landed(r)
}

// again makes a task ready once its predecessors are issued.
func (e *Engine) again(tid taskID) {
	if t := &e.tasks.at[tid]; t.unissued > 0 {
		t.move(waiting)
	} else {
		e.makeReady(tid)
	}
}
