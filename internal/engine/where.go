package engine

import "fmt"

// where says where a task is, and so who comes for it next.
type where uint8

const (
	waiting       where = iota // for predecessors to be issued; markIssued comes for it
	ready                      // in Engine.ready; place offers it to the policy
	leftOut                    // in Engine.leftOuts; place, once devices or values have changed
	pausing                    // in Engine.delayed; timers, after its pause
	behindReaders              // in Engine.awaiting; wakeAwaiting, once a value was made and read
	gangLined                  // a gang, in Engine.gangLine; nextGang, once fewer tasks are in flight
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
