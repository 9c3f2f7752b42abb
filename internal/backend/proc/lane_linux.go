package proc

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// laneKind is the purpose of a lane.
type laneKind uint8

const (
	computes  laneKind = iota
	copiesIn           // as the executor gave it
	copiesOut          // likewise
	stagesIn           // our own: parts of copies through the arena
	stagesOut
)

// lane is the parent's record of an in-order queue of the worker.
type lane struct {
	id     driver.Lane
	kind   laneKind
	given  uint32 // the last number used
	fly    []flight
	first  int // of fly: what is before has completed
	last   class
	broken bool // its operations ended with the device
	passed int  // of fly from first on, how many said so since
	// stager has staged all operations after number before; nil if the last one was given
	// otherwise.
	stager *stager
	before uint32
}

// behind returns which operation of the lane the parts of a copy that comes as number seq
// must follow. Parts of copies by one stager are in order by themselves: one copy is staged
// while the one before it is on its way. A board tells numbers apart up to 2³¹ back.
func (l *lane) behind(s *stager, seq uint32) uint32 {
	if l.stager == s && seq-l.before < 1<<30 {
		return l.before
	}
	return seq - 1
}

// flight is an operation given to the worker and not completed.
type flight struct {
	seq    uint32
	n      uint64 // of all operations given to workers; 0 for one without work, which waits for no wipe
	kind   driver.Kind
	task   *graph.Task
	waits  []driver.Wait
	temp   []byte      // of the arena, given back at the end
	until  driver.Wait // but not before this, which writes to it; Seq 0 for none
	from   *device     // whose worker that is
	epoch  int64       // and which of its workers
	host   []byte      // of the arena, written by the worker
	staged *stagedCopy // it is a staged copy, or a part of one
	secret bool        // temp is overwritten before it is given back
	late   bool        // given when a suspect that ran alone had failed: if that cost the device, this never ran
}

// temporary is memory of the arena that is free once an operation is complete.
type temporary struct {
	mem    []byte
	until  driver.Wait
	secret bool
}

// push notes an operation as given.
func (l *lane) push(seq uint32) *flight {
	l.given, l.stager = seq, nil
	if l.first > 0 && l.first == len(l.fly) {
		l.fly, l.first = l.fly[:0], 0
	} else if l.first > 1024 && l.first > len(l.fly)/2 {
		// Swap, so that the waits of either keep their memory.
		n := len(l.fly) - l.first
		for i := range n {
			l.fly[i], l.fly[l.first+i] = l.fly[l.first+i], l.fly[i]
		}
		l.fly, l.first = l.fly[:n], 0
	}
	if n := len(l.fly); n < cap(l.fly) {
		l.fly = l.fly[:n+1]
	} else {
		l.fly = append(l.fly, flight{})
	}
	f := &l.fly[len(l.fly)-1]
	*f = flight{seq: seq, waits: f.waits[:0]}
	return f
}

// oldest is the operation that completes next, or nil.
func (l *lane) oldest() *flight {
	if l.first == len(l.fly) {
		return nil
	}
	return &l.fly[l.first]
}

// settle takes the oldest operation off its lane as it ended, and reports whether
// the executor is to hear of it.
func (d *device) settle(l *lane, start, end time.Duration, err error) (driver.Completion, bool) {
	f := l.oldest()
	l.first++
	d.flying.Add(-1)
	if f.temp != nil {
		d.unreleased = append(d.unreleased, temporary{f.temp, f.until, f.secret})
		f.temp = nil
	}
	d.unreleased = slices.DeleteFunc(d.unreleased, func(t temporary) bool {
		done, _ := d.board.State(t.until)
		done = done || t.until.Seq == 0
		if done && t.secret {
			clear(t.mem)
		}
		if done {
			d.drv.o.Memory.Put(t.mem)
		}
		return done
	})
	if err == nil {
		d.heap.wiped(f.n)
	}
	if f.kind == driver.Launch && err == nil && len(d.suspects) > 0 {
		delete(d.suspects, f.task)
	}
	if d.alone == (driver.Wait{Lane: l.id, Seq: f.seq}) {
		d.alone.Lane = driver.NoLane
	}
	c := driver.Completion{Lane: l.id, Seq: f.seq, Start: start, End: end, Err: err}
	if j := f.staged; j != nil {
		if j.start == 0 {
			j.start = start
		}
		if l.kind == stagesIn || l.kind == stagesOut {
			if err != nil && j.err == nil && classOf(err) != dependency {
				j.err = err
			}
			return c, false
		}
		// A part that never ran may have been ended after what waits for it.
		c.Start = min(c.Start, j.start)
	}
	if classOf(err) == dependency {
		c.Err = d.own(f, err)
	}
	f.task, f.host, f.staged, f.from = nil, nil, nil, nil
	return c, true
}

var (
	errStaging = errors.New("proc: a part of the copy failed")
	errPeer    = errors.New("proc: reading the other device's buffer failed")
)

// own returns the cause of a failure. The executor does not know of the parts of a staged
// copy, or of the half of a copy on the other device: if the operation failed because one
// of those did, own returns the error of that instead.
func (d *device) own(f *flight, err error) error {
	if f.staged == nil && f.from == nil {
		return err
	}
	// The last wait is ours.
	for _, w := range f.waits[:len(f.waits)-1] {
		if done, ok := d.board.State(w); !done || !ok {
			return err
		}
	}
	switch {
	case f.from != nil && f.from.epoch.Load() == f.epoch:
		return errPeer
	case f.from != nil:
		return err // the other device was lost: no fault of this one
	case f.staged.err != nil:
		return f.staged.err
	}
	return errStaging
}

// read takes a completion off the ring. It returns false when there is none, and
// an error when what came cannot be one.
func (d *device) read() (c driver.Completion, report, ok bool, err error) {
	rec, err := d.w.completions.get()
	if rec == nil || err != nil {
		return c, false, false, err
	}
	e, err := readCompletion(rec)
	d.w.completions.next(uint32(len(rec)))
	if err != nil {
		return c, false, false, err
	}
	if e.lane == driver.NoLane && e.err != nil {
		d.failed(e.err)
		d.w.kill(d.fault)
		return c, false, true, nil
	}
	if e.lane < 0 || int(e.lane) >= len(d.byLane) || d.byLane[e.lane] == nil {
		return c, false, false, fmt.Errorf("%w: lane %d completed", errGarbage, e.lane)
	}
	l := d.byLane[e.lane]
	if at := l.first + l.passed; at >= len(l.fly) || l.fly[at].seq != e.seq {
		return c, false, false, fmt.Errorf("%w: operation %d of lane %d completed", errGarbage, e.seq, e.lane)
	}
	if done, ok := d.board.State(driver.Wait{Lane: e.lane, Seq: e.seq}); e.err == nil && !done || e.err != nil && ok {
		return c, false, false, fmt.Errorf("%w: operation %d of lane %d: the board says otherwise", errGarbage, e.seq, e.lane)
	}
	if e.class == lost || e.class == lostByKernel {
		l.broken = true
		d.failed(e.err)
	}
	if l.broken {
		l.passed++
		return c, false, true, nil
	}
	// Times are the worker's claim: the engine learns from them, so they are within
	// what can be. The clock is read once for completions that came together.
	if max(e.start, e.end) > d.heard {
		d.heard = d.board.Now()
	}
	e.start = min(max(e.start, 0), d.heard)
	e.end = min(max(e.end, e.start), d.heard)
	l.last = e.class
	c, report = d.settle(l, e.start, e.end, e.err)
	return c, report, true, nil
}

// failed notes that a worker's device is lost, as it says itself. The worker lives
// on until it has said what became of its operations: one of them may be to blame.
func (d *device) failed(err error) {
	if d.fault == nil {
		d.fault = err
	}
}
