package exec

import (
	"context"
	"fmt"
	"slices"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// Requests of callers about one device. The engine answers a request in the step that gets
// it, or in the step in which it is complete.

// Drain takes a device out of service and waits until it holds no work and no data that is
// nowhere else. When ctx ends first, the drain goes on.
func (x *Executor) Drain(ctx context.Context, dev machine.DeviceID) error {
	return x.ask(ctx, engine.Event{Kind: engine.Drain, Device: dev})
}

// Accuse drains a device for an error and does not wait. answer is called on the loop's
// goroutine, as Event.Answer is, unless the executor closes.
func (x *Executor) Accuse(dev machine.DeviceID, err error, answer func(error)) {
	x.do(func(l *loop) {
		if !l.closing {
			l.evs = append(l.evs, engine.Event{Kind: engine.Drain, Device: dev, Err: err, Answer: answer})
		}
	})
}

// Undrain puts a drained device, or a spare, into service.
func (x *Executor) Undrain(ctx context.Context, dev machine.DeviceID) error {
	return x.ask(ctx, engine.Event{Kind: engine.Undrain, Device: dev})
}

// Swap puts one device in another's place, and waits as Drain does.
func (x *Executor) Swap(ctx context.Context, from, to machine.DeviceID) error {
	return x.ask(ctx, engine.Event{Kind: engine.HotSwap, Device: from, Spare: to})
}

// Recover has a lost or broken device brought back, and waits for that.
func (x *Executor) Recover(ctx context.Context, dev machine.DeviceID) error {
	return x.ask(ctx, engine.Event{Kind: engine.Revive, Device: dev})
}

// ask hands an event to the engine and waits for the answer.
func (x *Executor) ask(ctx context.Context, ev engine.Event) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answer := make(chan error, 1)
	ev.Answer = func(err error) { answer <- err }
	ok := x.do(func(l *loop) {
		if l.closing {
			answer <- ErrClosed
			return
		}
		l.evs = append(l.evs, ev)
	})
	if !ok {
		return ErrClosed
	}
	select {
	case err := <-answer:
		return err
	case <-x.shutting:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Probe samples the condition of a device at once. A device that does not answer keeps it
// waiting until ctx ends; the request is made by the device's own sampler, of which there
// is one however often it is asked.
func (x *Executor) Probe(ctx context.Context, dev machine.DeviceID) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	taken := make(chan struct{})
	ok := x.do(func(l *loop) {
		d := l.devs[dev]
		if l.closing || d.lost {
			close(taken)
			return
		}
		d.probes = append(d.probes, taken)
		if d.nudge == nil {
			s := unknown
			s.Asked = true
			l.sample(d, &s)
			return
		}
		select {
		case d.nudge <- struct{}{}:
		default: // it is to be sampled already
		}
	})
	if !ok {
		return ErrClosed
	}
	select {
	case <-taken:
		return nil
	case <-x.shutting:
		return ErrClosed
	case <-ctx.Done():
		x.do(func(l *loop) {
			d := l.devs[dev]
			d.probes = slices.DeleteFunc(d.probes, func(c chan struct{}) bool { return c == taken })
		})
		return fmt.Errorf("it does not answer: %w", context.Cause(ctx))
	}
}
