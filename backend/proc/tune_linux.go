package proc

import (
	"context"
	"slices"
	"time"

	"github.com/weft-run/weft/driver"
)

// What a worker's device has decided about kernels outlives the worker: it is asked
// for when somebody wants to keep it, and told to every worker that comes after.

const (
	// tuneAtOnce is how many decisions travel in a message.
	tuneAtOnce = 256
	// tuneWait is how long a worker may take to tell.
	tuneWait = 2 * time.Second
)

// Tuning asks the worker; a lost one is answered for with what was last known.
func (d *device) Tuning() []driver.Tuned {
	w, err := d.child()
	var all []driver.Tuned
	for more := true; more && err == nil; {
		var m *message
		ctx, cancel := context.WithTimeout(context.Background(), tuneWait)
		if m, _, err = w.call(ctx, &message{Kind: askTuning, From: len(all)}, -1); err == nil {
			all = append(all, m.Tuned...)
			more = len(m.Tuned) == tuneAtOnce
		}
		cancel()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.tuned = all
	}
	return slices.Clone(d.tuned)
}

// Tune tells the worker, and those after it.
func (d *device) Tune(ts []driver.Tuned) {
	d.mu.Lock()
	d.tuned = slices.Clone(ts)
	d.mu.Unlock()
	if w, err := d.child(); err == nil {
		if err := d.tellTuned(context.Background(), w); err != nil {
			d.log.Warn("a worker does not know which kernels are fastest", "err", err)
		}
	}
}

// tellTuned tells a worker what is known.
func (d *device) tellTuned(ctx context.Context, w *child) error {
	d.mu.Lock()
	all := d.tuned
	d.mu.Unlock()
	for part := range slices.Chunk(all, tuneAtOnce) {
		if _, _, err := w.call(ctx, &message{Kind: askTune, Tuned: part}, -1); err != nil {
			return err
		}
	}
	return nil
}

// tune does in the worker what the parent asks about decisions.
func (w *worker) tune(m *message) error {
	t, ok := w.dev.(driver.Tuner)
	switch {
	case !ok:
		m.Tuned = nil
	case m.Kind == askTune:
		t.Tune(m.Tuned)
		m.Tuned = nil
	default:
		all := t.Tuning()
		from := min(max(m.From, 0), len(all))
		m.Tuned = all[from:min(from+tuneAtOnce, len(all))]
	}
	return nil
}
