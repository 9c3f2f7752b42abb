package vulkan

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

const (
	// slots is the number of operations of a lane that the GPU has at a time.
	slots = 8
	// stageBytes is the number of bytes staged at once; larger copies go in parts.
	stageBytes = 4 << 20
	// spins is the number of times a lane looks again before it goes to sleep.
	spins = 100
	// patience is the time in nanoseconds that reap waits before it checks whether the
	// device was given up.
	patience = 20_000_000
)

// direction is the pair of memories of a copy.
type direction uint8

const (
	into direction = iota + 1 // host to device
	out
	inside
	peer
	zeros // nothing is copied: the destination was secret and is freed
)

// op is an operation as its lane knows it.
type op struct {
	seq       uint32
	waits     []driver.Wait
	task      *graph.Task // nil for a copy
	args      []place
	direction direction // 0 for a launch
	bytes     int64
	src, dst  place
	host      []byte
	from      *device // for direction peer: whose buffer is copied
	srcBuf    driver.Buffer
	srcOff    int64
	secret    bool   // staging and scratch of it are overwritten
	freed     buffer // direction zeros: what is given back then
	err       error
}

// flight is an operation, or a part of one, on its way to completion.
type flight struct {
	op       *op    // nil for all parts but the last
	value    uint64 // of the lane's semaphore when it is done; 0 for what the GPU has no part in
	err      error
	start    time.Duration
	slot     *slot
	scratch  []buffer
	staged   int64        // bytes in the slot's staging buffer
	to       []byte       // where to copy what the slot staged
	secret   bool         // scratch and staging are overwritten when it is done
	measures *measurement // what its time decides, nil for nothing
	steps    int
}

// slot holds the objects of one submission.
type slot struct {
	index       uint32
	commands    uintptr
	descriptors uint64 // pool, with room for the numbers of sets and buffers below
	sets        int
	buffers     int
	stage       *chunk // made when first needed
}

// lane is a queue of operations that start and complete in order.
type lane struct {
	dev     *device
	id      driver.Lane
	queue   *queue
	running sync.WaitGroup

	semaphore uint64
	pool      uint64
	queries   uint64 // two timestamps for each slot; 0 without
	all       []*slot
	free      chan *slot
	flights   chan flight

	mu      sync.Mutex
	cond    sync.Cond
	pending []*op
	values  map[uint32]uint64 // of launches the GPU has, by number

	// Those of issue.
	f     *frame
	value uint64        // last one promised
	onGPU uint32        // last operation the GPU was given
	waits []awaited     // for the submission being made
	ready []driver.Wait // scratch
	// That of reap.
	last time.Duration // when the last operation ended
}

// awaited is a value of another lane's semaphore that the GPU waits for.
type awaited struct {
	semaphore, value uint64
}

// newLane makes a lane on a queue.
func newLane(d *device, id driver.Lane, q *queue) (*lane, error) {
	l := &lane{dev: d, id: id, queue: q, free: make(chan *slot, slots), flights: make(chan flight, 4*slots), values: make(map[uint32]uint64), f: new(frame)}
	l.cond.L = &l.mu
	f := getFrame()
	defer f.free()
	var err error
	timeline := put(f, semaphoreType{head: head{typ: tSemaphoreType}, kind: 1})
	if l.semaphore, err = create(f, &d.c.createSemaphore, d.handle, semaphoreInfo{head: head{typ: tSemaphore, next: timeline}}); err != nil {
		return l, err
	}
	const resettable = 2
	if l.pool, err = create(f, &d.c.createPool, d.handle, commandPoolInfo{head: head{typ: tCommandPool}, flags: resettable, family: q.family}); err != nil {
		return l, err
	}
	if d.period > 0 && q == d.compute {
		if l.queries, err = create(f, &d.c.createQueries, d.handle, queryPoolInfo{head: head{typ: tQueryPool}, kind: timestampQuery, count: 2 * slots}); err != nil {
			return l, err
		}
	}
	at := answer[[slots]uintptr](f)
	if err := f.do(&d.c.allocCommands, d.handle, put(f, commandBufferInfo{head: head{typ: tCommandBuffer}, pool: l.pool, count: slots}), address(at)); err != nil {
		return l, err
	}
	for i, commands := range at {
		s := &slot{index: uint32(i), commands: commands}
		l.all = append(l.all, s)
		l.free <- s
	}
	return l, nil
}

// close gives back what the lane has. Nothing of it is in use any more.
func (l *lane) close(f *frame) {
	c, dev := &l.dev.c, l.dev.handle
	for _, s := range l.all {
		f.call(&(*c).destroyDescriptors, dev, uintptr(s.descriptors), 0)
		if s.stage != nil {
			l.dev.dropChunk(s.stage)
		}
	}
	f.call(&(*c).destroyQueries, dev, uintptr(l.queries), 0)
	f.call(&(*c).destroyPool, dev, uintptr(l.pool), 0)
	f.call(&(*c).destroySemaphore, dev, uintptr(l.semaphore), 0)
}

// push gives the lane an operation.
func (l *lane) push(o *op) {
	l.mu.Lock()
	l.pending = append(l.pending, o)
	l.mu.Unlock()
	l.cond.Signal()
}

// issue serves the lane until the device closes.
func (l *lane) issue() {
	defer l.running.Done()
	defer close(l.flights)
	for {
		l.mu.Lock()
		for len(l.pending) == 0 && !l.dev.closed.Load() {
			l.cond.Wait()
		}
		batch := l.pending
		l.pending = nil
		l.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, o := range batch {
			l.f.reset()
			l.serve(o)
		}
	}
}

// stopped says why nothing begins any more.
func (l *lane) stopped() error {
	switch {
	case l.dev.dead.Load() != nil:
		return l.dev.errLost()
	case l.dev.closed.Load():
		return driver.ErrClosed
	}
	return nil
}

// serve begins one operation, or ends it.
func (l *lane) serve(o *op) {
	d := l.dev
	launch := o.direction == 0 && len(o.task.Steps) > 0
	start := d.board.Now()
	err := l.await(o, launch || o.direction == zeros || o.direction == out && !d.memory.direct)
	if err == nil {
		err = l.stopped()
	}
	if err == nil {
		err = o.err
	}
	switch {
	case err != nil:
	case launch:
		err = l.launch(o)
		if err == nil {
			return
		}
	case o.direction == 0 || o.bytes == 0:
	case d.memory.direct:
		start = d.board.Now()
		err = d.copyDirect(o)
	default:
		err = l.copyStaged(o)
		if err == nil {
			return
		}
	}
	l.flights <- flight{op: o, err: err, start: start}
}

// copyDirect copies with the CPU.
func (d *device) copyDirect(o *op) (err error) {
	switch o.direction {
	case into:
		copy(o.dst.mem(), o.host)
	case out:
		copy(o.host, o.src.mem())
	case peer:
		if o.src, err = o.from.memory.at(o.srcBuf, o.srcOff, o.bytes); err != nil {
			return fmt.Errorf("vulkan: copy %d bytes from %s to %s: %w", o.bytes, o.from.info.Name, d.info.Name, err)
		}
		copy(o.dst.mem(), o.src.mem())
	default:
		copy(o.dst.mem(), o.src.mem())
	}
	return nil
}

// await blocks until every operation that o waits for is complete. With ahead it does not
// wait for launches that the GPU already has: they are put into l.waits, and the GPU waits
// for them. Work of the CPU must not overtake work of the GPU on this lane.
func (l *lane) await(o *op, ahead bool) error {
	d := l.dev
	b := d.board
	l.waits, l.ready = l.waits[:0], append(l.ready[:0], o.waits...)
	if !ahead && l.onGPU != 0 {
		l.ready = append(l.ready, driver.Wait{Lane: l.id, Seq: l.onGPU})
	}
	failed := false
	for i, w := range l.ready {
		settled := func() (ok, on bool, value awaited) {
			if done, ok := b.State(w); done {
				failed = failed || !ok && i < len(o.waits)
				return true, false, awaited{}
			}
			if other := d.lane(w.Lane); ahead && other != nil {
				if v := other.valueOf(w.Seq); v != 0 {
					return true, true, awaited{other.semaphore, v}
				}
			}
			return false, false, awaited{}
		}
		for n := 0; ; n++ {
			ok, on, value := settled()
			if on {
				l.waits = append(l.waits, value)
			}
			if ok {
				break
			}
			if err := l.stopped(); err != nil {
				return err
			}
			if n < spins {
				runtime.Gosched()
				continue
			}
			d.hopeful.Add(1)
			b.Sleep(func() bool {
				ok, _, _ := settled()
				return ok || l.stopped() != nil
			})
			d.hopeful.Add(-1)
		}
	}
	if failed {
		return driver.ErrDependency
	}
	return nil
}

// valueOf is the semaphore's value at the end of a launch the GPU has; 0 else.
func (l *lane) valueOf(seq uint32) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.values[seq]
}

// take waits for a free slot and begins to record.
func (l *lane) take() (*slot, error) {
	var s *slot
	select {
	case s = <-l.free:
	case <-l.dev.lost:
		return nil, l.dev.errLost()
	}
	c := l.dev.c
	const once = 1
	if err := l.f.do(&c.begin, s.commands, put(l.f, beginInfo{head: head{typ: tBegin}, flags: once})); err != nil {
		l.free <- s
		return nil, l.failed(err)
	}
	if l.queries != 0 {
		l.f.call(&c.resetQueries, s.commands, uintptr(l.queries), uintptr(2*s.index), 2)
		l.f.call(&c.timestamp, s.commands, pipeTop, uintptr(l.queries), uintptr(2*s.index))
	}
	l.barrier(s, false)
	return s, nil
}

// failed turns an error of the driver into the operation's, and loses the device
// where it must.
func (l *lane) failed(err error) error {
	if isLost(err) {
		l.dev.lose(err)
		return l.dev.errLost()
	}
	return err
}

// barrier keeps what follows behind what came before; at the end it also shows
// the CPU what was written.
func (l *lane) barrier(s *slot, end bool) {
	stages, shader := uintptr(pipeTransfer), uint32(0)
	if l.queue == l.dev.compute {
		stages |= pipeCompute
		shader = accessShaderRead | accessShaderWrite
	}
	m := memoryBarrier{head: head{typ: tMemoryBarrier}, src: accessTransferWr | shader&accessShaderWrite, dst: accessTransferRead | accessTransferWr | shader}
	to := stages
	if end {
		to, m.dst = pipeHost, accessHostRead
	}
	l.f.call(&l.dev.c.barrier, s.commands, stages, to, 0, 1, put(l.f, m), 0, 0, 0, 0)
}

// submit gives what was recorded to the GPU and returns the value that the
// lane's semaphore has when it is done.
func (l *lane) submit(s *slot) (uint64, error) {
	d, f := l.dev, l.f
	l.barrier(s, true)
	if l.queries != 0 {
		f.call(&d.c.timestamp, s.commands, pipeBottom, uintptr(l.queries), uintptr(2*s.index+1))
	}
	if err := f.do(&d.c.end, s.commands); err != nil {
		return 0, l.failed(err)
	}
	var sems, values []uint64
	var stages []uint32
	for _, w := range l.waits {
		sems, values, stages = append(sems, w.semaphore), append(values, w.value), append(stages, pipeCompute|pipeTransfer)
	}
	if l.queue != d.compute {
		for i := range stages {
			stages[i] = pipeTransfer
		}
	}
	l.waits = l.waits[:0]
	value := l.value + 1
	info := put(f, submitInfo{
		head: head{typ: tSubmit, next: put(f, timelineSubmit{
			head: head{typ: tTimelineSubmit}, waits: uint32(len(values)), waitValues: list(f, values), signals: 1, signalValues: put(f, value),
		})},
		waits: uint32(len(sems)), waitSems: list(f, sems), waitStages: list(f, stages),
		commands: 1, commandAt: put(f, s.commands), signals: 1, signalledAt: put(f, l.semaphore),
	})
	l.queue.mu.Lock()
	err := f.do(&d.c.queueSubmit, l.queue.handle, 1, info, 0)
	l.queue.mu.Unlock()
	if err != nil {
		return 0, l.failed(err)
	}
	l.value = value
	return value, nil
}

// issued tells other lanes that the GPU has a launch.
func (l *lane) issued(o *op, value uint64) {
	l.mu.Lock()
	l.values[o.seq] = value
	l.mu.Unlock()
	if l.dev.hopeful.Load() > 0 {
		l.dev.board.Stir()
	}
}

// copyStaged copies with the GPU, through staging buffers where the other end is
// host memory the GPU does not see.
func (l *lane) copyStaged(o *op) (err error) {
	d := l.dev
	start := d.board.Now()
	// What was copied in may be read by the CPU no later than now.
	far, seen := place{}, false
	if o.direction == into || o.direction == out {
		far, seen = d.imported(o.host)
	}
	for at := int64(0); at < o.bytes; {
		n := o.bytes - at
		s, err := l.take()
		if err != nil {
			return err
		}
		fl := flight{slot: s, start: start, secret: o.secret}
		from, to := o.src, o.dst
		switch {
		case o.direction == into && seen:
			from = far
		case o.direction == out && seen:
			to = far
		case o.direction == into || o.direction == out:
			if n = min(n, stageBytes); s.stage == nil {
				if s.stage, err = d.makeChunk(stageBytes, d.memory.staging, true); err != nil {
					s.stage = nil
					l.free <- s
					return fmt.Errorf("vulkan: staging buffer on %s: %w", d.info.Name, err)
				}
			}
			fl.staged = n
			stage := place{s.stage, -at, n} // its start stands for where the part does
			if o.direction == into {
				copy(place{s.stage, 0, n}.mem(), o.host[at:at+n])
				from = stage
			} else {
				fl.to, to = o.host[at:at+n], stage
			}
		}
		if o.direction == zeros {
			l.f.call(&d.c.fillBuffer, s.commands, uintptr(to.buffer), uintptr(to.off), uintptr(n), 0)
		} else {
			l.f.call(&d.c.copyBuffer, s.commands, uintptr(from.buffer), uintptr(to.buffer), 1,
				put(l.f, bufferCopy{uint64(from.off + at), uint64(to.off + at), uint64(n)}))
		}
		if fl.value, err = l.submit(s); err != nil {
			l.free <- s
			return err
		}
		if at += n; at == o.bytes {
			fl.op = o
			if o.direction != zeros {
				l.onGPU = o.seq
			}
		}
		l.flights <- fl
		l.f.reset()
	}
	return nil
}

// reap completes operations in order until there are no more.
func (l *lane) reap() {
	defer l.running.Done()
	d := l.dev
	f := new(frame)
	for fl := range l.flights {
		err := fl.err
		f.reset()
		if fl.value != 0 && !l.arrived(f, fl.value) {
			// What it used stays as it is: the GPU may still use it.
			if fl.op != nil {
				l.end(fl.op, fl.start, d.errLost())
			}
			continue
		}
		if fl.to != nil {
			copy(fl.to, place{fl.slot.stage, 0, int64(len(fl.to))}.mem())
		}
		start := max(fl.start, l.last)
		if fl.slot != nil {
			if ns := l.took(f, fl.slot); ns > 0 {
				start = max(start, d.board.Now()-ns)
			}
			if fl.measures != nil && err == nil {
				d.measured(fl.measures, (d.board.Now()-start)/time.Duration(fl.steps))
			}
			d.memory.unscratch(d, fl.scratch, fl.secret)
			if fl.secret && fl.staged > 0 {
				clear(place{fl.slot.stage, 0, fl.staged}.mem())
			}
			l.free <- fl.slot
		}
		if fl.op != nil {
			l.end(fl.op, start, err)
		}
	}
}

// end completes an operation.
func (l *lane) end(o *op, start time.Duration, err error) {
	if o.direction == zeros {
		if err != nil && l.stopped() == nil {
			l.dev.lose(err) // a device that leaves secrets behind must not go on
		}
		l.dev.memory.putWiped(l.dev, o.freed, err)
		l.dev.landed()
		return
	}
	l.mu.Lock()
	delete(l.values, o.seq)
	l.mu.Unlock()
	now := l.dev.board.Now()
	l.last = now
	l.dev.complete(driver.Completion{Lane: l.id, Seq: o.seq, Start: min(start, now), End: now, Err: err})
}

// arrived waits for the lane's semaphore; it returns false when the device is
// lost first.
func (l *lane) arrived(f *frame, value uint64) bool {
	d := l.dev
	info := put(f, semaphoreWait{head: head{typ: tSemaphoreWait}, count: 1, sems: put(f, l.semaphore), values: put(f, value)})
	for {
		code := int32(f.call(&d.c.waitSemaphores, d.handle, info, patience))
		switch {
		case d.dead.Load() != nil:
			return false
		case code == timedOut:
			continue
		case code < 0:
			d.lose(&Error{d.c.waitSemaphores.name, code})
			return false
		}
		return true
	}
}

// took returns the time the GPU worked on a submission, 0 if unknown.
func (l *lane) took(f *frame, s *slot) time.Duration {
	if l.queries == 0 {
		return 0
	}
	const as64 = 1
	at := answer[[2]uint64](f)
	if int32(f.call(&l.dev.c.queryResults, l.dev.handle, uintptr(l.queries), uintptr(2*s.index), 2, 16, address(at), 8, as64)) != 0 || at[1] <= at[0] {
		return 0
	}
	return time.Duration(float64(at[1]-at[0]) * l.dev.period)
}
