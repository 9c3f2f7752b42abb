package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

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

// endOf returns the time at which a ticket was seen, 0 if it is older than the tickets kept.
func (s *stream) endOf(ticket uint32) time.Duration {
	if behind := s.seen - ticket; int32(behind) < 0 || behind >= uint32(len(s.ends)) {
		return 0
	}
	return s.ends[ticket%uint32(len(s.ends))]
}

// The block of pinned memory has blockBytes bytes. Its first wordBytes are the words of the
// streams and, after them, of the wiper, wordStride bytes apart; the rest holds the arguments of a
// launch.
const (
	wordStride = 64
	wiperWord  = maxLanes + 2
	wordBytes  = (wiperWord + 1) * wordStride
	blockBytes = 16 << 10
)

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
	return d.wiper.open(d, f, onGPU)
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
			o.err = fmt.Errorf("%s: %w", kernelNames(o.task), errLeft)
		}
		o.state = ended
	}
	s.lastEnd = now
	s.ends[upTo%uint32(len(s.ends))] = now
}
