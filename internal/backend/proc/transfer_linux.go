package proc

import (
	"fmt"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Copies of a device in a worker: within its memory, from and to host memory, and from the
// memory of its siblings.

// copy sends a copy, unless it would have to wait and is not to, by way of the arena where its host memory is not of it.
func (d *device) copy(l *lane, op *driver.Op, wait bool) bool {
	given := *op
	switch {
	case op.From != nil:
		return d.fromPeer(l, op, wait)
	case op.Src == driver.NoBuffer && op.Dst != driver.NoBuffer && !d.inArena(op.HostSrc):
		if op.Bytes <= inline && d.ready(op.Waits) {
			if mem, err := d.drv.o.Memory.Get(max(op.Bytes, 1)); err == nil {
				given.HostSrc = mem[:copy(mem, op.HostSrc)]
				d.send(l, &given).temp = mem
				return true
			}
		}
		d.staged(l, op, d.in, op.Dst, op.DstOff, op.HostSrc)
	case op.Dst == driver.NoBuffer && op.Src != driver.NoBuffer && !d.inArena(op.HostDst):
		d.staged(l, op, d.out, op.Src, op.SrcOff, op.HostDst)
	default:
		d.send(l, &given)
	}
	return true
}

// staged sends the empty operation that stands for a staged copy.
func (d *device) staged(l *lane, op *driver.Op, s *stager, b driver.Buffer, off int64, host []byte) {
	if op.Bytes <= 0 || op.Bytes > int64(len(host)) {
		d.send(l, &driver.Op{Kind: driver.Launch, Lane: op.Lane, Seq: op.Seq, Waits: op.Waits, Task: refused})
		return
	}
	// Its own lane's order counts for its parts too.
	before := l.behind(s, op.Seq)
	j := &stagedCopy{buf: b, off: off, host: host[:op.Bytes], secret: op.Secret, after: driver.Wait{Lane: l.id, Seq: before}}
	j.waits = append(j.waits, op.Waits...)
	given := driver.Op{Kind: driver.Launch, Lane: op.Lane, Seq: op.Seq, Task: nothing}
	given.Waits = append(append([]driver.Wait(nil), op.Waits...), s.add(j))
	d.send(l, &given).staged = j
	l.stager, l.before = s, before
}

// oversized replaces a launch that does not fit into a record. It fails, because no device
// has an implementation for it.
var oversized = &graph.Task{Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "a launch with too much to tell a worker"}}}}

// nothing is a task that keeps its place in line.
var nothing = &graph.Task{}

// fromPeer copies from another worker: out of its memory where that can be mapped
// here, by way of the arena else.
func (d *device) fromPeer(l *lane, op *driver.Op, wait bool) bool {
	src := op.From.(*device) // as CanCopyFrom promised
	given := *op
	given.From = nil
	if src == d {
		d.send(l, &given)
		return true
	}
	// No lock is held while another device's is taken. Only Submit, which one
	// goroutine calls, and the end of the worker can come between.
	d.mu.Unlock()
	half, mem, ok := src.offer(op, d.heap.slabbed && d.near(src), wait)
	d.mu.Lock()
	if !ok {
		return false
	}
	if d.state != up {
		// The worker was lost in between: the rest of the batch is refused, and
		// this as if it had been given just before.
		if mem != nil {
			d.unreleased = append(d.unreleased, temporary{mem, half.wait, op.Secret})
		}
		l.given = op.Seq
		d.board.Abandon(l.id, op.Seq)
		now := d.board.Now()
		d.done = append(d.done, driver.Completion{Lane: l.id, Seq: op.Seq, Start: now, End: now, Err: driver.ErrDeviceLost})
		d.wake()
		return true
	}
	if half.slab.n != 0 {
		if !wait && !d.foreign[half.slab.n] {
			return false // it has to be mapped
		}
		if name, ok := d.alias(peerBuffer{src, op.Src}, half); ok {
			d.sendFrom(l, &given, name)
			return true
		}
		if src.origin != d.origin && d.w.alive() {
			d.log.Debug("memory of another device cannot be mapped", "other", src.info.Name)
			d.far[src.origin] = true
			return d.fromPeer(l, op, wait)
		}
	}
	if mem == nil { // the source is gone, or memory is
		given.Kind, given.Task = driver.Launch, refused
		d.send(l, &given)
		return true
	}
	given.Src, given.HostSrc = driver.NoBuffer, mem
	given.Waits = append(append([]driver.Wait(nil), op.Waits...), half.wait)
	f := d.send(l, &given)
	f.temp, f.until, f.from, f.epoch = mem, half.wait, src, half.epoch
	return true
}

// near reports whether the worker may map another's memory: if both share a device, or if
// there is a way between their devices that does not lead through the host.
func (d *device) near(src *device) bool {
	if src.drv != d.drv || d.far[src.origin] {
		return false
	}
	link, known := d.origin.found.Peers[src.origin.index]
	return src.origin == d.origin || known && link.Kind != machine.HostLink
}

// offered says how another device can have a buffer: its position, or the operation after
// which it is in the arena.
type offered struct {
	buffer buffer
	slab   slab
	wait   driver.Wait
	epoch  int64 // of the other device when it offered
}

// offer lets another device copy from a buffer of this one; ok is false if it would
// have to wait and is not to.
func (d *device) offer(op *driver.Op, mapped, wait bool) (o offered, mem []byte, ok bool) {
	if wait {
		d.mu.Lock()
	} else if !d.lockSoon() {
		return o, nil, false
	}
	defer d.mu.Unlock()
	if mapped {
		if o.buffer, o.slab, ok = d.heap.find(op.Src); ok {
			return o, nil, true
		}
	}
	if d.state != up || op.Bytes <= 0 {
		return o, nil, true
	}
	mem, err := d.drv.o.Memory.Get(op.Bytes)
	if err != nil {
		return o, nil, true
	}
	o.epoch = d.epoch.Load()
	o.wait = d.out.add(&stagedCopy{buf: op.Src, off: op.SrcOff, host: mem, direct: true, secret: op.Secret, waits: append([]driver.Wait(nil), op.Waits...)})
	return o, mem, true
}

// LinkTo returns the link the keeper found. Workers that share a device and map each
// other's memory have a link within that memory.
func (d *device) LinkTo(other driver.Device) (machine.Link, error) {
	if o, ok := other.(*device); ok && o.drv == d.drv && o != d {
		if l, known := d.origin.found.Peers[o.origin.index]; known && o.origin != d.origin {
			return l, nil
		}
		if o.origin == d.origin && d.heap.slabbed {
			return machine.Link{Kind: machine.NVLink, BPS: withinBPS, LatencyNS: withinNS}, nil
		}
	}
	return machine.Link{}, fmt.Errorf("proc: links of %s: %w", d.info.Name, driver.ErrUnavailable)
}

// CanCopyFrom reports whether the other device is a worker too and shares the
// same memory.
func (d *device) CanCopyFrom(other driver.Device) bool {
	o, ok := other.(*device)
	return ok && o.drv.o.Memory == d.drv.o.Memory
}

func (d *device) inArena(mem []byte) bool {
	_, ok := d.drv.o.Memory.Find(mem)
	return ok || len(mem) == 0
}

// Workers of one device copy within its memory: as fast as that is, after what it
// takes to start a copy.
const (
	withinBPS = 500e9
	withinNS  = 10e3
)
