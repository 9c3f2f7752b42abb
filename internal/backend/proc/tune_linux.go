package proc

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/weft-run/weft/experimental/driver"
)

// What a worker's device has decided about kernels outlives the worker: Tuning asks for
// it, and every later worker is told.

const (
	// tuneBytes is the most bytes of decisions in a message, as tunedBytes counts them:
	// half of maxMessage, which leaves room for everything else.
	tuneBytes = maxMessage / 2
	// tuneShare is the part of Options.Answer, 3 s by default, that a worker may take
	// to tell all: it is asked when the program ends, which must not take long.
	tuneShare = 5
	// maxTuned is the most decisions taken from a worker: it makes some for each
	// kernel.
	maxTuned = 1 << 16
)

// tunedBytes is about what a decision takes in a message.
func tunedBytes(t *driver.Tuned) int {
	const numbers = 128 // names of fields, and numbers
	b, err := json.Marshal([]string{t.Kernel, t.Hash, t.Entry})
	if err != nil {
		return maxMessage // strings always can be
	}
	return len(b) + numbers
}

// tunePart returns as many decisions from an index on as fit into a message, and
// where the next part begins. One that does not fit by itself is left out.
func tunePart(all []driver.Tuned, from int) (part []driver.Tuned, end int) {
	bytes := 0
	for end = from; end < len(all); end++ {
		n := tunedBytes(&all[end])
		if n > tuneBytes {
			continue
		}
		if bytes += n; bytes > tuneBytes {
			break
		}
		part = append(part, all[end])
	}
	return part, end
}

// Tuning asks the worker; a lost one is answered for with what was last known.
func (d *device) Tuning() []driver.Tuned {
	w, err := d.child()
	var all []driver.Tuned
	ctx, cancel := context.WithTimeout(context.Background(), d.drv.o.Answer/tuneShare)
	defer cancel()
	for at, more := 0, true; more && err == nil; {
		var m *message
		if m, err = w.call(ctx, &message{Kind: askTuning, From: at}, -1); err == nil {
			all = append(all, m.Tuned...)
			more = m.From > at && len(all) < maxTuned
			at = m.From
		}
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

// tellTuned sends a worker all known decisions.
func (d *device) tellTuned(ctx context.Context, w *child) error {
	d.mu.Lock()
	all := d.tuned
	d.mu.Unlock()
	for at := 0; at < len(all); {
		var part []driver.Tuned
		if part, at = tunePart(all, at); len(part) == 0 {
			continue
		}
		if _, err := w.call(ctx, &message{Kind: askTune, Tuned: part}, -1); err != nil {
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
		m.Tuned, m.From = nil, 0
	case m.Kind == askTune:
		t.Tune(m.Tuned)
		m.Tuned, m.From = nil, 0
	default:
		all := t.Tuning()
		if m.Tuned, m.From = tunePart(all, min(m.From, len(all))); m.From == len(all) {
			m.From = 0
		}
	}
	return nil
}
