package cuda

import (
	"fmt"
	"runtime"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

const (
	// spins is the number of times the owner looks for work in vain before it begins to
	// nap: some hundred microseconds, longer than a round trip and too short to matter
	// for the use of a core.
	spins = 2000
	// farSpins is the same on machines with cores to spare: about a millisecond, as
	// long as an executor and a caller look for the end of their work.
	farSpins = 1 << 14
	// napFor is the length of a nap, which is the longest delay before the owner sees
	// an event.
	napFor = 20 * time.Microsecond
	// groupMax is the number of short operations that share one ticket on a busy
	// stream: a ticket for each would cost the GPU as much as a short kernel.
	groupMax = bundleMax
	// shortNS is the time below which an operation may share a ticket with its
	// successors.
	shortNS = 20_000
	// shortBytes is the size below which a copy counts as short.
	shortBytes = 64 << 10
	// checkEvery is the number of naps between checks for errors on streams that do not
	// move; a check costs a call into the driver.
	checkEvery = 50
)

// direction is the pair of memories of a copy.
type direction uint8

const (
	into direction = iota + 1 // host to device
	out
	inside
	peer
)

// state is the progress of an operation.
type state uint8

const (
	queued  state = iota // on its lane
	running              // on a stream
	ended                // complete, waiting for its predecessors on the lane
)

// op is an operation as the owner knows it.
type op struct {
	lane      driver.Lane
	seq       uint32
	waits     []driver.Wait
	bytes     int64
	src, dst  uintptr
	from      *device // for direction peer: whose buffer is copied
	srcBuf    driver.Buffer
	srcOff    int64
	host      []byte
	direction direction // 0 for a launch
	pageable  bool
	cuts      []int64 // where in host one mapping ends and the next begins
	task      *graph.Task
	ptrs      []uintptr // arguments
	picked    []uintptr // those of steps that have their own, one after the other
	err       error

	state  state
	stream *stream
	ticket uint32
	last   bool    // its ticket is written when it is complete
	est    float64 // ns it is expected to take, 0 unknown
	times  *timing // where its time is learned
	begun  time.Duration
	deps   [2]dep // on other streams, the latest ones
	start  time.Duration
	end    time.Duration
	probed bool
	comm   *communicator // whose ranks it works with

	launched bool // a kernel of it may run already, while it is being started
	wipe     bool // dst is overwritten, on no lane
}

// dep is a ticket of another stream an operation waits for.
type dep struct {
	on     *stream
	ticket uint32
}

// lane is a queue of operations that start and complete in order.
type lane struct {
	id     driver.Lane
	dev    *device
	stream *stream
	ops    fifo[*op]
	next   int           // operations from here on are not begun
	last   time.Duration // when the last that completed ended
}

// find returns the operation with a sequence number that is not complete yet.
func (l *lane) find(seq uint32) *op {
	if l.ops.len() == 0 {
		return nil
	}
	i := int(seq - l.ops.at(0).seq)
	if i < 0 || i >= l.ops.len() {
		return nil
	}
	return l.ops.at(i)
}

// fifo is a queue in a ring that grows.
type fifo[T any] struct {
	ring []T
	head int
	n    int
}

func (q *fifo[T]) len() int   { return q.n }
func (q *fifo[T]) at(i int) T { return q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *fifo[T]) push(v T) {
	if q.n == len(q.ring) {
		ring := make([]T, max(64, 2*len(q.ring)))
		for i := range q.n {
			ring[i] = q.at(i)
		}
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = v
	q.n++
}

func (q *fifo[T]) pop() T {
	v := q.ring[q.head]
	var zero T
	q.ring[q.head] = zero
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return v
}

// run is the owner.
func (d *device) run() {
	defer close(d.ended)
	runtime.LockOSThread() // never unlocked: the thread and its context end together
	sharpen()
	if err := d.api.do(d.f, &d.api.ctxSetCurrent, d.ctx); err != nil {
		d.lose(err)
	}
	d.openCopier()
	quiet := 0
	// Yielding costs a thread that owns its goroutine several microseconds, so
	// where there are cores to spare it naps without having yielded.
	spins, yield := spins, false
	switch {
	case driver.Spare():
		spins = farSpins
	case runtime.GOMAXPROCS(0) < 4:
		yield = true
	}
	for {
		moved := d.intake()
		switch {
		case d.dead.Load() != nil:
			d.refuse(d.errLost())
		case d.closed.Load():
			d.refuse(fmt.Errorf("cuda: %s: %w", d.info.Name, driver.ErrClosed))
		}
		for d.advance() {
			moved = true
		}
		d.flushTickets()
		if d.collect() {
			moved = true
		}
		if d.dead.Load() != nil && d.held == 0 {
			d.tellLoss()
		}
		d.handOver()
		d.seen.Store(time.Now().UnixNano())
		switch {
		case moved:
			quiet = 0
			continue
		case d.flying == 0 && d.held == 0:
			if d.closed.Load() {
				return
			}
			if quiet++; quiet < spins {
				if yield {
					runtime.Gosched()
				}
				continue
			}
			d.sleep()
			quiet = 0
		default:
			if quiet++; quiet < spins {
				if yield {
					runtime.Gosched()
				}
				continue
			}
			if quiet%checkEvery == 0 {
				d.check()
			}
			nap(napFor)
		}
	}
}

// sleep blocks until something is submitted or the device closes.
func (d *device) sleep() {
	d.mu.Lock()
	d.seen.Store(0)
	for len(d.pending) == 0 && !d.closed.Load() {
		d.idle = true
		d.cond.Wait()
		d.idle = false
	}
	d.mu.Unlock()
}

// intake moves what was submitted onto lanes.
func (d *device) intake() bool {
	if d.waiting.Load() == 0 {
		return false
	}
	d.mu.Lock()
	d.batch, d.pending = d.pending, d.batch[:0]
	d.waiting.Store(0)
	d.mu.Unlock()
	wiped := false
	for _, o := range d.batch {
		if o.wipe {
			d.fill(o)
			wiped = true
			continue
		}
		l := d.lane(o.lane)
		l.ops.push(o)
		d.held++
	}
	if wiped {
		d.fenceWipes()
	}
	clear(d.batch)
	return true
}

// lane finds the device's lane with a number; nil for one of another device.
func (d *device) lane(id driver.Lane) *lane {
	if i := int(id - d.lanes[0].id); i >= 0 && i < len(d.lanes) && d.lanes[i].id == id {
		return d.lanes[i]
	}
	for _, l := range d.lanes {
		if l.id == id {
			return l
		}
	}
	return nil
}

// advance begins what can begin and reports whether anything did.
func (d *device) advance() (moved bool) {
	for _, l := range d.lanes {
		for l.next < l.ops.len() {
			o := l.ops.at(l.next)
			if !d.begin(l, o) {
				break
			}
			l.next++
			d.held--
			moved = true
		}
	}
	return moved
}

// begin puts an operation on a stream, or ends it when it must not run. It
// returns false when something it waits for is neither complete nor ahead of it.
func (d *device) begin(l *lane, o *op) bool {
	var a ahead
	ready, failed := d.await(l, o, &a)
	if !ready {
		return false
	}
	o.begun = d.board.Now()
	switch {
	case d.dead.Load() != nil:
		o.err = d.errLost()
	case failed:
		o.err = fmt.Errorf("cuda: %s: %w", d.info.Name, driver.ErrDependency)
	case o.err == nil:
		d.estimate(o)
		o.stream = d.choose(l, o, &a)
		if d.follow(o, &a) && d.send(o) {
			return true
		}
	}
	d.end(o)
	return true
}

// ahead lists the streams that an operation waits for, and how far each must have come.
type ahead struct {
	on      [maxLanes + 2]bool
	need    [maxLanes + 2]uint32 // up to which ticket of each of these
	streams int                  // how many of them
}

// add makes the operation wait for another, which is on a stream.
func (a *ahead) add(o *op) {
	i := o.stream.index
	if !a.on[i] {
		a.on[i], a.need[i] = true, o.ticket
		a.streams++
	} else if int32(o.ticket-a.need[i]) > 0 {
		a.need[i] = o.ticket
	}
}

// await adds to a the operations that o waits for and that are on a stream. It reports
// whether all others that o waits for are complete, and whether one of those failed.
func (d *device) await(l *lane, o *op, a *ahead) (ready, failed bool) {
	for _, w := range o.waits {
		var x *op
		if own := d.lane(w.Lane); own != nil {
			x = own.find(w.Seq)
		}
		if x == nil { // another device's, complete, or not here yet
			done, ok := d.board.State(w)
			if !done {
				return false, false
			}
			failed = failed || !ok
			continue
		}
		switch {
		case x.state == queued, x.state == running && x.err != nil: // will fail when its first steps have run
			return false, false
		case x.err != nil:
			failed = true
		case x.state == ended:
		case o.pageable: // such a copy blocks the owner, so it waits without
			return false, false
		default:
			a.add(x)
		}
	}
	// The lane keeps its order even where its last operation is on another stream.
	if l.next > 0 {
		if x := l.ops.at(l.next - 1); x.state == running && x.stream != l.stream {
			if o.pageable {
				return false, false
			}
			a.add(x)
		}
	}
	return true, failed
}

// follow makes an operation's stream wait for the others. It reports whether the
// driver took that; if not, the operation has its error.
func (d *device) follow(o *op, a *ahead) bool {
	s, n := o.stream, 0
	for i, other := range d.streams {
		if !a.on[i] || i == s.index {
			continue
		}
		o.deps[n&1] = dep{other, a.need[i]}
		n++
		if int32(s.waited[i]-a.need[i]) >= 0 && s.waited[i] != 0 {
			continue
		}
		if int32(other.written-a.need[i]) < 0 {
			d.writeTicket(other)
		}
		d.flush(s)
		if err := d.api.code(d.f, &d.api.streamWait, s.handle, other.addr, uintptr(a.need[i]), waitGEQ); err != 0 {
			d.fail(o, &d.api.streamWait, err)
			return false
		}
		s.waited[i] = a.need[i]
	}
	return true
}

// end ends an operation that is on no stream.
func (d *device) end(o *op) {
	now := d.board.Now()
	o.state, o.start, o.end = ended, now, now
}

// report hands a completed operation over.
func (d *device) report(l *lane, o *op) {
	o.start = max(o.start, l.last)
	o.end = max(o.end, o.start)
	l.last = o.end
	d.board.Done(l.id, o.seq, o.err != nil)
	d.out = append(d.out, driver.Completion{Lane: l.id, Seq: o.seq, Start: o.start, End: o.end, Err: o.err})
	o.task, o.host, o.from, o.stream, o.times, o.deps, o.comm = nil, nil, nil, nil, nil, [2]dep{}, nil
	d.recycle = append(d.recycle, o)
}

// handOver gives completions to the caller.
func (d *device) handOver() {
	if !d.publish() {
		return
	}
	d.mu.Lock()
	d.spare = append(d.spare, d.recycle...)
	d.mu.Unlock()
	d.recycle = d.recycle[:0]
}

// publish shows completions to the caller, if there are any.
func (d *device) publish() bool {
	if len(d.out) == 0 {
		return false
	}
	d.tell.Lock()
	d.done = append(d.done, d.out...)
	d.news.Store(true)
	d.tell.Unlock()
	clear(d.out)
	d.out = d.out[:0]
	d.wake()
	return true
}
