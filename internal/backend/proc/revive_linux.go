package proc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
)

var (
	errNoStandby = errors.New("no worker stands by")
	errGivenUp   = errors.New("given up on")
)

// Revive puts a worker in the place of the one that was lost. kept says that it
// found the buffers as they were.
func (d *device) Revive(ctx context.Context, r driver.Rung) (kept bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("proc: revive %s: %w", d.info.Name, err)
		}
	}()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(d.life, func() { cancel(context.Cause(d.life)) })()
	d.mu.Lock()
	if w := d.w; w != nil { // given up on by others, and on its way out at most
		d.mu.Unlock()
		w.kill(errGivenUp)
		select {
		case <-w.lost:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		d.mu.Lock()
	}
	if d.state != down {
		d.mu.Unlock()
		return false, driver.ErrClosed
	}
	d.background.Add(1) // Close, which begins after this, waits until it has ended, and for what it leaves behind
	defer d.background.Done()
	w := d.standby
	if w != nil {
		d.standby, d.preparing, w.taken = nil, false, true
	}
	d.mu.Unlock()
	if r == driver.Standby {
		if w == nil {
			return false, errNoStandby
		}
		kept, err := d.adopt(ctx, w, true, true)
		if err == nil {
			d.prepareStandby()
		}
		return kept, err
	}
	if w != nil {
		d.unused(w) // it did not help, or another was asked for
	}
	if r == driver.Reopen {
		d.mu.Lock()
		d.surrender(ctx)
		d.mu.Unlock()
		d.origin.keeper.renew()
	}
	if w, err = d.start(ctx); err != nil {
		return false, err
	}
	if err := d.attach(ctx, w, false); err != nil {
		d.discard(w)
		return false, err
	}
	if kept, err = d.adopt(ctx, w, false, r != driver.Reopen); err != nil {
		return false, err
	}
	d.prepareStandby()
	return kept, nil
}

// adopt makes an attached worker the device's own. mapped says that it has the
// slabs, as a standby does; keep, that their contents are kept.
func (d *device) adopt(ctx context.Context, w *child, mapped, keep bool) (kept bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != down {
		d.unused(w)
		return false, driver.ErrClosed
	}
	kept = keep && d.heap.slabbed
	for i := 0; kept && !mapped && i < len(d.heap.slabs); i++ {
		if err := d.tellSlab(ctx, w, d.heap.slabs[i]); err != nil {
			if own := (*remoteError)(nil); !errors.As(err, &own) { // it did not answer
				d.unused(w)
				return false, err
			}
			d.log.Warn("device memory did not survive", "err", err)
			kept = false
		}
	}
	if !kept {
		d.surrender(d.life)
	}
	d.w, d.state = w, up
	d.serving.Store(w)
	if mapped {
		d.segs = w.segs
	}
	d.wipe()
	for b, x := range d.heap.buffers {
		d.place(own(b), x)
	}
	d.flush()
	d.mind(w)
	return kept, nil
}

// unused ends a worker that is not to serve.
func (d *device) unused(w *child) {
	w.kill(errStopped)
	d.background.Go(func() { d.discard(w) })
}

// discard cleans up after a worker that never served.
func (d *device) discard(w *child) {
	forget := func() {
		d.mu.Lock()
		d.quit(w)
		d.mu.Unlock()
		w.unmap()
	}
	if w.finish() {
		forget()
		return
	}
	d.background.Go(func() {
		<-w.exited
		forget()
	})
}

// quit takes back a dead worker's place on the board; the lock is held.
func (d *device) quit(w *child) {
	if n, ok := d.member[w]; ok {
		d.drv.o.Memory.Leave(n)
		delete(d.member, w)
	}
}

// Drop kills the worker, for a cause that is logged.
func (d *device) Drop(cause error) {
	if w := d.serving.Load(); w != nil {
		w.kill(cause)
	}
}

// prepareStandby starts a second worker in the background, if one is wanted and
// there is none.
func (d *device) prepareStandby() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.drv.o.Standby && !d.preparing {
		d.preparing = true
		d.background.Go(d.standBy)
	}
}

// standBy keeps a standby until one is taken or the device closes: one that ends is
// replaced. That there is none any more is logged once, however often the next one
// fails to start.
func (d *device) standBy() {
	var b backoff
	for first := true; ; first = false {
		began := time.Now()
		stood, err := d.oneStandby()
		if err == nil {
			return // it serves
		}
		d.mu.Lock()
		over := d.state >= closing
		d.mu.Unlock()
		if over {
			return
		}
		if stood || first {
			d.log.Warn("no standby; another is started", "err", err)
		}
		select {
		case <-time.After(b.next(time.Since(began))):
		case <-d.life.Done():
			return
		}
	}
}

// oneStandby is the life of a standby: it opens the device, maps what the worker has
// mapped, and waits to be taken. stood says that it got so far; the error is nil if it
// was taken.
func (d *device) oneStandby() (stood bool, err error) {
	w, err := d.start(d.life)
	if err != nil {
		return false, err
	}
	err = d.attach(d.life, w, true)
	for over := false; err == nil && !over; {
		if err = d.follow(w); err != nil {
			break
		}
		if !stood {
			d.log.Debug("a worker stands by", "pid", w.pid())
		}
		stood = true
		select {
		case <-w.stale:
		case <-w.exited:
			over = true
		}
	}
	if err != nil {
		d.discard(w)
		return stood, err
	}
	d.mu.Lock()
	if w.taken { // who took it cleans up
		d.mu.Unlock()
		return true, nil
	}
	d.standby = nil
	d.quit(w)
	d.mu.Unlock()
	err = w.why()
	w.unmap()
	return true, err
}

// updateStandby has the standby map the slabs that it has not; until then the device has no standby. It does
// not wait for that: a standby that is stopped must not keep the worker from its work. The lock is held.
func (d *device) updateStandby() {
	if w := d.standby; w != nil {
		d.standby = nil
		w.stale <- struct{}{} // does not block: follow, which sets d.standby, begins after the last one was taken
	}
}

// follow tells a standby what there is until it knows everything, and makes it
// known.
func (d *device) follow(w *child) error {
	for {
		d.mu.Lock()
		gone := maps.Clone(w.slabs)
		var next *slab
		for i := range d.heap.slabs {
			s := d.heap.slabs[i]
			delete(gone, s.n)
			if !w.slabs[s.n] && next == nil {
				next = &s
			}
		}
		if d.state >= closing {
			d.mu.Unlock()
			return driver.ErrClosed
		}
		if next == nil {
			for w.segs < d.segs {
				d.rec.segment(d.drv.o.Memory.Segments()[w.segs])
				if ok, err := w.commands.put(d.rec.b); !ok {
					d.mu.Unlock()
					return errors.Join(errGarbage, err)
				}
				w.segs++
			}
			d.standby = w
			for n := range gone {
				delete(w.slabs, n)
				d.rec.begin(doUnslab)
				d.rec.u32(uint32(n))
				d.tellStandby()
			}
			w.commands.ring()
			d.mu.Unlock()
			return nil
		}
		// The slab may be given back while it is mapped here: hold on to it.
		fd, err := unix.FcntlInt(uintptr(next.fd), unix.F_DUPFD_CLOEXEC, 0)
		d.mu.Unlock()
		if err != nil {
			return err
		}
		err = d.tellSlab(d.life, w, slab{next.n, fd, next.size})
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
		d.mu.Lock()
		w.slabs[next.n] = true
		d.mu.Unlock()
	}
}

// tellStandby passes the record last written on to the standby; the lock is held.
func (d *device) tellStandby() {
	w := d.standby
	if w == nil {
		return
	}
	if ok, err := w.commands.put(d.rec.b); !ok {
		w.kill(errors.Join(errHung, err))
		return
	}
	w.commands.ring()
}
