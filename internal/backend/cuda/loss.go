package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weft-run/weft/experimental/driver"
)

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
			if o.direction == 0 {
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
		o.err = fmt.Errorf("%s: %w", kernelNames(o.task), &Fault{Alone: len(suspects) == 1, Err: err})
	}
}

// Fault is the error of a launch that was running when the device broke. It is
// driver.ErrFaulted when no other kernel can have been the cause, and else
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
		return target == driver.ErrKernel || target == driver.ErrFaulted
	}
	return target == driver.ErrDeviceLost
}

// As finds the driver's own error. There is no Unwrap: what lost the device does
// not make its culprit's launch one that was lost.
func (f *Fault) As(target any) bool { return errors.As(f.Err, target) }
