package exec

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/engine"
)

// share returns the board for a number of lanes and those that devices in other
// processes need besides, and the memory they share with this one if there are
// any. own holds each device's further lanes.
func share(devs []driver.Device, lanes int) (b *driver.Board, mem driver.SharedMemory, own [][]driver.Lane, err error) {
	own = make([][]driver.Lane, len(devs))
	for i, d := range devs {
		t := d.Traits()
		if t.Shared == nil {
			continue
		}
		if mem != nil && t.Shared != mem {
			return nil, nil, nil, errors.New("devices in worker processes must share one memory: give their drivers the same")
		}
		mem = t.Shared
		for range t.OwnLanes {
			own[i] = append(own[i], driver.Lane(lanes))
			lanes++
		}
	}
	if mem == nil {
		return driver.NewBoard(lanes), nil, own, nil
	}
	b, err = mem.Board(lanes)
	return b, mem, own, err
}

// processes says which devices run in processes of their own, which can be killed.
func processes(devs []driver.Device) []engine.Process {
	out := make([]engine.Process, len(devs))
	for i, d := range devs {
		t := d.Traits()
		out[i].Own, out[i].Keeps, out[i].Left = t.Shared != nil, t.Keeps, t.Shared == nil && t.InProcess
	}
	return out
}

// lose tells the engine that a device is lost, once for each loss. What it had in
// flight need not be told: the engine ends that itself.
func (l *loop) lose(d *dev, err error) {
	if d.lost {
		return
	}
	d.lost = true
	d.away.Store(true)
	l.abandon(d)
	l.memberLost(d)
	l.evs = append(l.evs, engine.Event{
		Kind: engine.DeviceLost, Device: d.id, Kept: d.Traits().Keeps, Blamed: errors.Is(err, driver.ErrKernel), Err: err,
	})
}

// ladderAgain is the pause before the ladder of a broken device starts over. 10 s let a fault
// pass that is temporary, such as a restart of the driver.
const ladderAgain = 10 * time.Second

// changed logs a change of a device's state.
func (l *loop) changed(c engine.StateChange) {
	level, attrs := slog.LevelInfo, []any{"device", l.x.Machine.Devices[c.Device].Name, "from", c.From.String(), "to", c.To.String()}
	if c.To == engine.Lost || c.To == engine.Broken || c.Cause != nil {
		level, attrs = slog.LevelWarn, append(attrs, "cause", c.Cause)
	}
	l.log.Log(context.Background(), level, "device state changed", attrs...)
}

// ruled logs that a health rule begins or ceases to act on a device, with its condition.
func (l *loop) ruled(r engine.Ruling) {
	level, what := slog.LevelInfo, "a health rule ceases to act: the device gets all its work"
	if r.Acts {
		level, what = slog.LevelWarn, "a health rule acts: the device gets less work, and none if this lasts"
	}
	attrs := []any{"device", l.x.Machine.Devices[r.Device].Name, "rule", r.Rule}
	for _, a := range []struct {
		name  string
		value float64
	}{{"celsius", r.Health.TempC}, {"watts", r.Health.PowerW}, {"memory_used", float64(r.Health.MemUsed)}, {"utilisation", r.Health.Util}} {
		if a.value >= 0 {
			attrs = append(attrs, a.name, a.value)
		}
	}
	l.log.Log(context.Background(), level, what, attrs...)
}

// drop gives up on a device that hangs or keeps failing.
func (l *loop) drop(d *dev) {
	l.abandon(d)
	l.memberLost(d)
	l.discard(d, errGivenUp)
}

// abandon lets those go on who wait for what a device was given.
func (l *loop) abandon(d *dev) {
	if l.sums != nil {
		l.sumLost(d)
	}
	l.forgets.due = true
	for _, n := range d.lanes {
		l.board.Abandon(n, l.engine.Issued(engine.Lane(n)))
	}
}

// discard ends what a device runs. One that cannot do so at once is closed in the
// background, since that may never end.
func (l *loop) discard(d *dev, cause error) {
	d.lost = true
	d.away.Store(true)
	if p, ok := d.Device.(driver.Dropper); ok {
		p.Drop(cause)
		return
	}
	d.closed = true
	go func() {
		_ = d.Close()
		l.x.do(func(l *loop) { l.evs = append(l.evs, engine.Event{Kind: engine.DeviceQuiet, Device: d.id}) })
	}()
}

var (
	errGivenUp   = errors.New("given up on: it hangs or keeps failing")
	errNoRevival = errors.New("it cannot be brought back")
)

// revive tries to bring a device back and tells the engine how that ended. An
// attempt that is still under way is called off first.
func (l *loop) revive(d *dev, a *engine.Action) {
	rung, how := driver.Rung(a.Rung), a.Rung.String()
	prepare := func(context.Context) error { return nil }
	if a.Rung == engine.OwnRung {
		how = l.ladder[a.Rank].Name
		own, name := l.rungs[how], d.Info().Name
		rung, prepare = driver.Reopen, func(ctx context.Context) error { return own(ctx, name) }
	}
	r, ok := d.Device.(driver.Reviver)
	if !ok || d.closed {
		l.evs = append(l.evs, engine.Event{Kind: engine.RecoverFailed, Device: d.id, Never: true, Err: errNoRevival})
		return
	}
	l.log.Debug("bringing a device back", "device", d.Info().Name, "rung", how)
	if d.calloff != nil {
		d.calloff()
	}
	before, done := d.revived, make(chan struct{})
	d.revived = done
	ctx, cancel := context.WithCancel(context.Background())
	d.calloff = cancel
	go func() {
		defer close(done)
		defer cancel()
		if before != nil {
			<-before
		}
		d.courier.settle() // parcels for the lost device are refused
		// The device's operations in flight end before it is revived, and the loop gets
		// their completions in that order.
		kept, err := false, context.Cause(ctx)
		if err == nil {
			err = prepare(ctx)
		}
		if err == nil {
			kept, err = r.Revive(ctx, rung)
		}
		superseded := ctx.Err() != nil
		l.x.do(func(l *loop) {
			if err != nil {
				l.log.Debug("device not back", "device", d.Info().Name, "rung", how, "err", err)
				if !superseded {
					l.evs = append(l.evs, engine.Event{Kind: engine.RecoverFailed, Device: d.id, Err: err})
				}
				return
			}
			l.collectFrom(d) // what ended with the old one
			d.lost = false
			d.away.Store(false)
			l.evs = append(l.evs, engine.Event{Kind: engine.DeviceBack, Device: d.id, Kept: kept})
			l.log.Debug("device brought back", "device", d.Info().Name, "rung", how, "kept", kept)
		})
	}()
}
