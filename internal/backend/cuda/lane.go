package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
)

const (
	// spins is how often the owner looks for something to do, without anything
	// having happened, before it begins to nap: some hundred microseconds, longer
	// than a round trip and much shorter than a person notices on a bill.
	spins = 2000
	// farSpins is that where one core of many is to be spared: about a millisecond,
	// as an executor and a caller look that long for the end of what it runs.
	farSpins = 1 << 14
	// napFor is how long it naps; what it misses is at most that late.
	napFor = 20 * time.Microsecond
	// groupMax is how many short operations share one ticket on a busy stream: a
	// ticket for each would cost the GPU as much as a short kernel.
	groupMax = bundleMax
	// short is below what an operation may share a ticket with its successors.
	shortNS = 20_000
	// shortBytes is below what a copy counts as short.
	shortBytes = 64 << 10
	// checkEvery is how many naps pass between looks for errors on streams that
	// do not move; looking costs a call into the driver.
	checkEvery = 50
)

// way is where a copy goes.
type way uint8

const (
	into way = iota + 1 // host to device
	out
	inside
	peer
)

// state is how far an operation is.
type state uint8

const (
	queued  state = iota // on its lane
	running              // on a stream
	ended                // complete, waiting for its predecessors on the lane
)

// op is an operation as the owner knows it.
type op struct {
	lane     driver.Lane
	seq      uint32
	waits    []driver.Wait
	bytes    int64
	src, dst uintptr
	from     *device // for way peer: whose buffer is copied
	srcBuf   driver.Buffer
	srcOff   int64
	host     []byte
	way      way // 0 for a launch
	pageable bool
	cuts     []int64 // where in host one mapping ends and the next begins
	task     *graph.Task
	ptrs     []uintptr // arguments
	picked   []uintptr // those of steps that have their own, one after the other
	err      error

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

// stream is a queue on the GPU. Every operation on it has a ticket; the GPU
// writes tickets into a word of pinned memory as it gets there.
type stream struct {
	handle  uintptr
	word    *uint32 // in pinned memory, written by the GPU
	addr    uintptr // the same, as the GPU knows it
	index   int
	sent    uint32 // the last ticket given
	written uint32 // the last one the GPU has been told to write
	seen    uint32 // the last one read from the word
	ops     fifo[*op]
	waited  [maxLanes + 2]uint32 // per other stream: tickets this one waited for
	ends    [256]time.Duration   // when recent tickets were seen, by ticket
	lastEnd time.Duration
	bundle  bundle
}

// endOf is when a ticket was seen; 0 when that is long ago.
func (s *stream) endOf(ticket uint32) time.Duration {
	if behind := s.seen - ticket; int32(behind) < 0 || behind >= uint32(len(s.ends)) {
		return 0
	}
	return s.ends[ticket%uint32(len(s.ends))]
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

// argBytes is how much of the pinned block the words take; the rest holds the
// arguments of a launch.
const wordStride, wordBytes, blockBytes = 64, (maxLanes + 2) * 64, 16 << 10

// openStreams makes the streams and the block of pinned memory.
func (d *device) openStreams(f *frame) error {
	a := d.api
	if err := a.do(f, &a.memHostAlloc, f.at(0), blockBytes, hostPortable|hostMapped); err != nil {
		return err
	}
	d.block = uintptr(f.out[0])
	if err := a.do(f, &a.hostPointer, f.at(1), d.block, 0); err != nil {
		return err
	}
	onGPU := uintptr(f.out[1])
	for i := range d.info.Lanes + 2 {
		if err := a.do(f, &a.streamCreate, f.at(0), nonBlocking); err != nil {
			return err
		}
		s := &stream{handle: uintptr(f.out[0]), index: i, addr: onGPU + uintptr(i*wordStride)}
		s.word = (*uint32)(pointer(d.block + uintptr(i*wordStride)))
		*s.word = 0
		d.streams = append(d.streams, s)
	}
	d.layOut()
	return nil
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

// tellLoss tells the caller, once and after all operations, that the device is
// lost.
func (d *device) tellLoss() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.told || len(d.pending) > 0 {
		return
	}
	loss := d.errLost()
	if d.blamed {
		loss = fmt.Errorf("cuda: %s: %w by a kernel: %w: %w", d.info.Name, driver.ErrDeviceLost, driver.ErrKernel, *d.dead.Load())
	}
	d.out = append(d.out, driver.Completion{Lane: driver.NoLane, Err: loss})
	d.publish() // before Submit refuses
	d.told = true
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
	for _, o := range d.batch {
		l := d.lane(o.lane)
		l.ops.push(o)
		d.held++
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

// await adds what an operation waits for and is on a stream. It reports whether
// all the rest is complete, and whether some of that failed.
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

// send starts an operation on its stream and reports whether it is there.
func (d *device) send(o *op) bool {
	s := o.stream
	// What is not known may be what breaks the device: nothing else shall be
	// under suspicion then.
	if o.est == 0 && s.sent != s.written {
		d.writeTicket(s)
	}
	d.starting = o
	began, err := d.start(o, s)
	if errors.Is(err, driver.ErrDeviceLost) { // by a call that does not look itself
		d.lose(err)
	}
	d.starting = nil
	gone := d.dead.Load() != nil
	switch {
	case !gone && err != nil:
		o.err = err
	case gone && o.err == nil: // it is under no suspicion
		o.err = d.errLost()
	}
	if gone || !began {
		return false
	}
	s.sent++
	o.state, o.ticket = running, s.sent
	s.ops.push(o)
	d.flying++
	if o.est == 0 || o.est > shortNS || s.sent-s.written >= groupMax || o.probed {
		d.writeTicket(s)
	}
	return true
}

// choose returns the stream for an operation: its lane's, or, when it is short,
// its lane is empty and it follows the last operation of one other stream, that
// one. A short chain over several lanes then needs no waiting between streams,
// which is most of what a round trip takes.
func (d *device) choose(l *lane, o *op, a *ahead) *stream {
	if a.streams != 1 || l.next != 0 || o.est == 0 || o.est > shortNS {
		return l.stream
	}
	for i, s := range d.streams {
		if a.on[i] && a.need[i] == s.sent && s.ops.at(s.ops.len()-1).est > 0 {
			return s
		}
	}
	return l.stream
}

// writeTicket makes the GPU say when it is through with what was sent.
func (d *device) writeTicket(s *stream) {
	if s.ops.len() == 0 {
		return
	}
	if d.flush(s); d.dead.Load() != nil {
		return
	}
	if code := d.api.code(d.f, &d.api.streamWrite, s.handle, s.addr, uintptr(s.sent), 0); code != 0 {
		d.lose(d.api.err(&d.api.streamWrite, code))
		return
	}
	s.written = s.sent
	s.ops.at(s.ops.len() - 1).last = true
}

// flushTickets writes the tickets still owed.
func (d *device) flushTickets() {
	for _, s := range d.streams {
		if s.sent != s.written && d.dead.Load() == nil {
			d.writeTicket(s)
		}
	}
}

// collect finds what has completed.
func (d *device) collect() (moved bool) {
	if d.flying > 0 && d.dead.Load() == nil {
		for _, s := range d.streams {
			if s.ops.len() == 0 {
				continue
			}
			if v := atomic.LoadUint32(s.word); v != s.seen {
				d.complete(s, v)
				moved = true
			}
		}
	}
	for _, l := range d.lanes {
		for l.ops.len() > 0 && l.ops.at(0).state == ended {
			d.report(l, l.ops.pop())
			l.next--
			moved = true
		}
	}
	return moved
}

// complete ends the operations of a stream up to a ticket. Their times follow
// from when tickets were seen; what came in one look is divided by what each
// operation was expected to take.
func (d *device) complete(s *stream, upTo uint32) {
	now := d.board.Now()
	n, sum := 0, 0.0
	for n < s.ops.len() && int32(upTo-s.ops.at(n).ticket) >= 0 {
		sum += max(s.ops.at(n).est, 1000)
		n++
	}
	s.seen = upTo
	if n == 0 {
		return
	}
	first := s.ops.at(0)
	from := max(s.lastEnd, first.begun)
	for _, w := range first.deps {
		if w.on != nil {
			from = max(from, w.on.endOf(w.ticket))
		}
	}
	from = min(from, now)
	span := float64(now - from)
	alone := n == 1
	for range n {
		o := s.ops.pop()
		d.flying--
		part := time.Duration(span * max(o.est, 1000) / sum)
		o.start, o.end = from, from+part
		from = o.end
		s.ends[o.ticket%uint32(len(s.ends))] = o.end
		// Its part of what came together tells as much when it is less: a kernel
		// that was slow once would else never be seen to be short again.
		if ns := float64(o.end - o.start); o.times != nil && o.err == nil && (alone || o.times.ns == 0 || ns < o.times.ns) {
			o.times.saw(ns)
		}
		if o.probed {
			d.probe.read(d, o)
		}
		if o.comm != nil && o.comm.left.Load() && o.err == nil {
			o.err = fmt.Errorf("cuda: %s on %s: %w", kernelNames(o.task), d.info.Name, errLeft)
		}
		o.state = ended
	}
	s.lastEnd = now
	s.ends[upTo%uint32(len(s.ends))] = now
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

// refuse ends what has not begun, because the device closes or is lost.
func (d *device) refuse(err error) {
	for _, l := range d.lanes {
		for ; l.next < l.ops.len(); l.next++ {
			o := l.ops.at(l.next)
			o.err = err
			d.end(o)
			d.held--
		}
	}
}

// check asks the driver whether streams that do not move are broken.
func (d *device) check() {
	for _, s := range d.streams {
		if s.ops.len() == 0 || d.dead.Load() != nil {
			continue
		}
		if code := d.api.code(d.f, &d.api.streamQuery, s.handle); code != 0 && code != errNotReady {
			d.lose(d.api.err(&d.api.streamQuery, code))
			continue
		}
		if c := s.ops.at(0).comm; c != nil {
			d.broken(c)
		}
	}
}

// fail makes an operation's error of a code, and a lost device where it says so.
func (d *device) fail(o *op, p *proc, code int32) {
	err := d.api.err(p, code)
	if lost(code) {
		d.lose(err)
		o.err = d.errLost()
		return
	}
	o.err = fmt.Errorf("cuda: %s: %w", d.info.Name, err)
}

// lose ends everything in flight: the device is gone for this process. A kernel
// broke it, and only kernels at the front of their streams can be the one: when
// there is a single one, it is to blame.
func (d *device) lose(err error) {
	if d.dead.Load() != nil {
		return
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		err = e // what it was called for has nothing to do with it
	}
	d.dead.Store(&err)
	d.log.Warn("gpu lost", "device", d.info.Name, "err", err)
	for _, s := range d.streams { // what the GPU managed to finish counts
		if v := atomic.LoadUint32(s.word); v != s.seen {
			d.complete(s, v)
		}
	}
	var suspects []*op
	for _, s := range d.streams {
		front := true
		for i := 0; i < s.ops.len() && front; i++ {
			o := s.ops.at(i)
			if o.way == 0 {
				suspects = append(suspects, o)
			}
			front = !o.last
		}
		if o := d.starting; o != nil && o.stream == s && o.launched && front {
			suspects = append(suspects, o)
		}
	}
	for _, s := range d.streams {
		for s.ops.len() > 0 {
			o := s.ops.pop()
			d.flying--
			o.err = d.errLost()
			d.end(o)
		}
		s.written = s.sent
		s.bundle.waiting = s.bundle.waiting[:0]
	}
	d.blamed = len(suspects) == 1
	for _, o := range suspects {
		o.err = fmt.Errorf("cuda: %s on %s: %w", kernelNames(o.task), d.info.Name, &Fault{Alone: len(suspects) == 1, Err: err})
	}
}

// Fault is how a launch ends that was running when the device broke. It is
// driver.ErrKernel when no other kernel can have been the cause, and else
// driver.ErrDeviceLost like everything that was in flight.
type Fault struct {
	// Alone says that nothing else was running.
	Alone bool
	Err   error // what the driver said
}

func (f *Fault) Error() string {
	if f.Alone {
		return f.Err.Error()
	}
	return f.Err.Error() + " (other kernels were running too)"
}

// Is reports whether target is the error the fault stands for.
func (f *Fault) Is(target error) bool {
	if f.Alone {
		return target == driver.ErrKernel
	}
	return target == driver.ErrDeviceLost
}

// As finds the driver's own error. There is no Unwrap: what lost the device does
// not make its culprit's launch one that was lost.
func (f *Fault) As(target any) bool { return errors.As(f.Err, target) }
