package proc

import (
	"fmt"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/arena"
)

// Submit hands operations to the worker. While there is none it takes none, but
// still makes and frees buffers.
func (d *device) Submit(batch []driver.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.submit(batch, true)
	return err
}

// SubmitSome is Submit up to where it would have to wait for a child.
func (d *device) SubmitSome(batch []driver.Op) (int, error) {
	if !d.lockSoon() {
		return 0, nil
	}
	defer d.mu.Unlock()
	return d.submit(batch, false)
}

// submit hands operations to the worker, and returns how many unless wait says that
// it may wait.
func (d *device) submit(batch []driver.Op, wait bool) (n int, lost error) {
	if d.state >= closing {
		return 0, fmt.Errorf("proc: submit to %s: %w", d.info.Name, driver.ErrClosed)
	}
	for ; n < len(batch); n++ {
		op := &batch[n]
		ok := true
		switch op.Kind {
		case driver.Alloc:
			ok = d.alloc(op.Buf, op.Bytes, wait)
		case driver.Free:
			d.free(op.Buf, op.Secret)
		default:
			if d.state == down {
				lost = fmt.Errorf("proc: submit to %s: %w", d.info.Name, driver.ErrDeviceLost)
				continue
			}
			l := d.byLane[op.Lane]
			if op.Kind == driver.Launch {
				d.launch(l, op)
			} else {
				ok = d.copy(l, op, wait)
			}
		}
		if !ok {
			break
		}
	}
	if d.w != nil {
		d.flush()
	}
	return n, lost
}

// launch sends a launch. A suspect runs alone: after everything before it on all
// lanes, and everything after it after it.
func (d *device) launch(l *lane, op *driver.Op) {
	waits, late := op.Waits, false
	if len(d.suspects) > 0 || d.alone.Lane != driver.NoLane {
		waits = append([]driver.Wait(nil), waits...)
		switch done, ok := d.stateOf(d.alone); {
		case !done:
			waits = append(waits, d.alone)
		case ok:
			d.alone.Lane = driver.NoLane
		default:
			late = true
		}
		if d.suspects[op.Task] {
			for _, o := range d.lanes {
				if o != l && o.kind == computes && o.oldest() != nil {
					waits = append(waits, driver.Wait{Lane: o.id, Seq: o.given})
				}
			}
			d.alone = driver.Wait{Lane: l.id, Seq: op.Seq}
		}
	}
	given := *op
	given.Waits = waits
	d.send(l, &given).late = late
}

func (d *device) stateOf(w driver.Wait) (done, ok bool) {
	if w.Lane == driver.NoLane {
		return true, true
	}
	return d.board.State(w)
}

// ready reports whether all is complete that an operation waits for.
func (d *device) ready(waits []driver.Wait) bool {
	for _, w := range waits {
		if done, _ := d.board.State(w); !done {
			return false
		}
	}
	return true
}

// send writes an operation and notes it as given.
func (d *device) send(l *lane, op *driver.Op) *flight { return d.sendFrom(l, op, own(op.Src)) }

// sendFrom is send with the name the worker knows a copy's source by.
func (d *device) sendFrom(l *lane, op *driver.Op, from uint32) *flight {
	f := l.push(op.Seq)
	d.sent++
	f.kind, f.task, f.secret = op.Kind, op.Task, op.Secret
	if op.Kind == driver.Copy || len(op.Task.Steps) > 0 {
		f.n = d.sent
	}
	f.waits = append(f.waits, op.Waits...)
	d.flying.Add(1)
	d.board.Given(l.id, op.Seq)
	if op.Kind == driver.Copy {
		src, dst := d.offset(op.HostSrc, op.Src), d.offset(op.HostDst, op.Dst)
		f.host = op.HostDst
		d.rec.begin(doCopy)
		d.rec.u32(uint32(op.Lane))
		d.rec.u32(op.Seq)
		d.rec.waits(op.Waits)
		d.rec.i64(op.Bytes)
		d.rec.u32(from)
		d.rec.u32(own(op.Dst))
		d.rec.i64(op.SrcOff)
		d.rec.i64(op.DstOff)
		d.rec.i64(src)
		d.rec.i64(int64(len(op.HostSrc)))
		d.rec.i64(dst)
		d.rec.i64(int64(len(op.HostDst)))
		d.rec.flag(op.Secret)
	} else {
		d.steps.b = d.steps.b[:0]
		d.steps.steps(op.Task, d.kernel)
		waits, args := op.Waits, op.Args
		if len(d.steps.b) > maxRecord/2 || len(d.steps.b)+8*len(waits)+20*len(args) > maxRecord-64 {
			d.steps.b, waits, args = d.steps.b[:0], nil, nil // it fails at once, in its turn
			d.steps.steps(oversized, d.kernel)
		}
		d.rec.begin(doLaunch)
		d.rec.u32(uint32(op.Lane))
		d.rec.u32(op.Seq)
		d.rec.waits(waits)
		d.rec.u32(uint32(len(args)))
		for i := range args {
			a := &args[i]
			d.rec.u32(own(a.Buf))
			d.rec.i64(a.Off)
			d.rec.i64(a.Bytes)
		}
		d.rec.flag(op.Secret)
		d.rec.flag(op.Compare)
		d.rec.bytes(d.steps.b)
	}
	d.tell()
	return f
}

// Stop tells the worker to end an operation early, if its device can. One that cannot be
// told, because another goroutine waits for the worker with the lock held, is ended with the
// worker later where it does not end by itself.
func (d *device) Stop(op driver.Wait) {
	if !d.origin.found.Stops || !d.lockSoon() {
		return
	}
	defer d.mu.Unlock()
	if d.w == nil || d.state != up {
		return
	}
	d.rec.begin(doStop)
	d.rec.u32(uint32(op.Lane))
	d.rec.u32(op.Seq)
	d.tell()
	d.flush()
}

// offset returns the offset of memory in the arena, after it has told the worker of the
// segment.
func (d *device) offset(mem []byte, b driver.Buffer) int64 {
	if b != driver.NoBuffer {
		return 0
	}
	off, ok := d.drv.o.Memory.Find(mem)
	if !ok {
		return 0 // nothing is copied
	}
	segs := d.drv.o.Memory.Segments()
	for k := arena.SegmentOf(segs, off); d.segs <= k; d.segs++ {
		d.rec.segment(segs[d.segs])
		d.tell()
		if s := d.standby; s != nil && s.segs == d.segs { // it may know more than a worker that was restarted
			d.tellStandby()
			s.segs++
		}
	}
	return off
}

func (w *writer) segment(s arena.Segment) {
	w.begin(doSegment)
	w.i64(s.Off)
	w.i64(s.Len)
}

// kernel returns a kernel's number, having defined it to the worker.
func (d *device) kernel(k *graph.Kernel) uint32 {
	n, def := d.kernels.number(k)
	for at := 0; at < len(def); {
		part := def[at:min(at+maxRecord/2, len(def))]
		d.rec.begin(doKernel)
		d.rec.u32(n)
		d.rec.u32(uint32(len(def) - at - len(part))) // bytes still to come
		d.rec.bytes(part)
		d.tell()
		at += len(part)
	}
	return n
}

// tell puts the record into the ring, or behind those that wait for room.
func (d *device) tell() {
	if len(d.backlog) == 0 {
		ok, err := d.w.commands.put(d.rec.b)
		if err != nil {
			d.w.kill(err)
		}
		if ok || err != nil {
			return
		}
	}
	var w writer
	w.b = d.backlog
	w.bytes(d.rec.b)
	d.backlog = w.b
}

// flush moves what waited into the ring and rings.
func (d *device) flush() {
	r := reader{b: d.backlog}
	for len(r.b) > 0 {
		rest := r.b
		ok, err := d.w.commands.put(r.bytes())
		if err != nil {
			d.w.kill(err)
			rest = nil
		}
		if !ok {
			d.backlog = d.backlog[:copy(d.backlog, rest)]
			d.w.commands.ring()
			return
		}
	}
	d.backlog = d.backlog[:0]
	d.w.commands.ring()
}
