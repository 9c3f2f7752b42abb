package proc

import (
	"context"
	"fmt"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// Native collectives: the worker's device is the rank, and the parent carries the
// name by which workers find one another. A worker that takes another's place is
// no rank of anything.

// joinWait is the time that a worker waits for the other ranks unless the caller
// says.
const joinWait = 15 * time.Second

// child returns the worker that serves.
func (d *device) child() (*child, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.w == nil || d.state != up {
		return nil, driver.ErrDeviceLost
	}
	return d.w, nil
}

// CollectiveID has the worker make a name for Join.
func (d *device) CollectiveID() ([]byte, error) {
	w, err := d.child()
	if err == nil {
		var m *message
		if m, err = w.call(context.Background(), &message{Kind: askName}, -1); err == nil {
			return m.Name, nil
		}
	}
	return nil, fmt.Errorf("proc: collective on %s: %w", d.info.Name, err)
}

// Join has the worker's device join.
func (d *device) Join(ctx context.Context, number uint64, id []byte, ranks, rank int) error {
	w, err := d.child()
	if err == nil {
		wait := joinWait
		if end, ok := ctx.Deadline(); ok {
			wait = min(wait, time.Until(end))
		}
		// The answer is waited for in any case: to end early is to leave.
		stop := context.AfterFunc(ctx, func() { d.Leave(number) })
		_, err = w.call(context.Background(), &message{Kind: askJoin, Number: number, Name: id, Ranks: ranks, Rank: rank, Wait: wait}, -1)
		stop()
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("proc: join on %s: %w", d.info.Name, err)
	}
	return nil
}

// Leave tells the worker's device to leave.
func (d *device) Leave(number uint64) {
	w, err := d.child()
	if err != nil {
		return // it left with its worker
	}
	if err := w.conn.send(&message{Kind: tellLeave, Number: number}, -1); err != nil {
		w.kill(err) // it hangs, or is gone
	}
}

// rank does in the worker what the parent asks about communicators. It is called
// by the goroutine that serves; waiting for other ranks has one of its own.
func (w *worker) rank(m *message) {
	j, ok := w.dev.(driver.Joiner)
	if !ok {
		if m.Kind != tellLeave {
			w.answer(m, fmt.Errorf("%w: the device cannot join a native collective", errGarbage))
		}
		return
	}
	switch m.Kind {
	case askName:
		go func() {
			var err error
			m.Name, err = j.CollectiveID()
			w.answer(m, err)
		}()
	case askJoin:
		ctx, cancel := context.WithTimeout(context.Background(), m.Wait)
		if w.joins == nil {
			w.joins = make(map[uint64]context.CancelFunc)
		}
		w.joins[m.Number] = cancel
		go func() {
			w.answer(m, j.Join(ctx, m.Number, m.Name, m.Ranks, m.Rank))
		}()
	case tellLeave:
		if cancel := w.joins[m.Number]; cancel != nil {
			cancel()
			delete(w.joins, m.Number)
		}
		j.Leave(m.Number)
	}
}
