package cuda

import (
	"sync/atomic"
	"time"
)

// wiper overwrites secret buffers that were freed, on a stream of its own, because a lane may wait for
// long. Every other stream waits for it before the next operation, which may use the same memory. All
// fields but asked belong to the goroutine that owns the device.
type wiper struct {
	handle  uintptr
	word    *uint32       // in pinned memory, written by the GPU: the last wipe that is done
	addr    uintptr       // the same, as the GPU knows it
	written uint32        // the last wipe that the GPU was told of
	asked   atomic.Uint32 // the last wipe submitted
}

// open makes the stream.
func (w *wiper) open(d *device, f *frame, onGPU uintptr) error {
	if err := d.api.do(f, &d.api.streamCreate, f.at(0), nonBlocking); err != nil {
		return err
	}
	const at = wiperWord * wordStride
	w.handle, w.addr = uintptr(f.out[0]), onGPU+at
	w.word = (*uint32)(pointer(d.block + at))
	*w.word = 0
	return nil
}

// fill gives the GPU a wipe.
func (d *device) fill(o *op) {
	w := &d.wiper
	w.written++
	if d.dead.Load() != nil {
		return
	}
	if code := d.api.code(d.f, &d.api.fillAsync, o.dst, 0, uintptr(o.bytes), w.handle); code != 0 {
		d.lose(d.api.err(&d.api.fillAsync, code)) // a device that leaves secrets behind must not go on
	}
}

// fenceWipes has all streams wait for the wipes given so far.
func (d *device) fenceWipes() {
	w := &d.wiper
	if d.dead.Load() != nil {
		return
	}
	if code := d.api.code(d.f, &d.api.streamWrite, w.handle, w.addr, uintptr(w.written), 0); code != 0 {
		d.lose(d.api.err(&d.api.streamWrite, code))
		return
	}
	for _, s := range d.streams {
		if code := d.api.code(d.f, &d.api.streamWait, s.handle, w.addr, uintptr(w.written), waitGEQ); code != 0 {
			d.lose(d.api.err(&d.api.streamWait, code))
			return
		}
	}
}

// awaitWipes returns when no wipe is under way, or the device is lost. Memory is unmapped after that: a wipe
// may still write to it.
func (d *device) awaitWipes() {
	w := &d.wiper
	if w.word == nil {
		return
	}
	for d.dead.Load() == nil && int32(atomic.LoadUint32(w.word)-w.asked.Load()) < 0 {
		time.Sleep(napFor)
	}
}
