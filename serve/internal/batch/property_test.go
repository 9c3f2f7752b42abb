package batch

import (
	"fmt"
	"testing"
	"time"
)

const ms = time.Millisecond

// Whatever happens in whatever order, every item has exactly one answer, by its deadline;
// batches hold what fits together and no more than they may; and no device is free for
// longer than was chosen while something waits. The world checks it all.
func TestProperties(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 40
	}
	var kinds [5]int
	starts, shared := 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.onAnswer = func(_ *entry, k Kind) { kinds[k]++ }
			w.onStart = func(b *Batch) {
				starts++
				if len(b.Items) > 1 {
					shared++
				}
			}
			w.random()
		})
	}
	for k, n := range kinds {
		if Kind(k) != Start && n < 100 {
			t.Errorf("%d items were answered %v: the test does not try it", n, Kind(k))
		}
	}
	if shared*5 < starts {
		t.Errorf("%d of %d batches had more than one item", shared, starts)
	}
}

// random runs a history of arrivals, cancellations, failures, losses and hangs.
func (w *world) random() {
	r := w.rand
	devices := make([]*Device, 1+r.IntN(4))
	for i := range devices {
		devices[i] = &Device{Slots: 1 + r.IntN(2), Parallel: r.IntN(3)}
		w.m.AddDevice(devices[i])
	}
	w.m.hang = 5 * ms
	w.maxWait = time.Duration(1+r.IntN(4)) * ms
	models := make([]*Model, 1+r.IntN(4))
	for i := range models {
		models[i] = &Model{MaxBatch: 1 + r.IntN(16), MaxWaiting: r.IntN(80), MaxWait: w.maxWait}
		on := devices[r.IntN(len(devices)):]
		w.m.AddModel(models[i], Cost{Fixed: time.Duration(r.IntN(5)) * ms, Example: 100 * time.Microsecond}, on...)
	}
	if r.IntN(2) == 0 {
		w.m.MaxWaiting = 1 + r.IntN(200)
	}
	hangs := r.IntN(2) == 0
	w.cost = func(b *Batch) time.Duration {
		if hangs && r.IntN(30) == 0 {
			return -1
		}
		return time.Duration(float64(ms) * (0.5 + r.Float64()) * (1 + 0.1*float64(b.Examples())))
	}
	gap := float64(time.Duration(50+r.IntN(400)) * time.Microsecond)
	for range 1000 {
		w.until(w.now + time.Duration(r.ExpFloat64()*gap))
		switch n := r.IntN(100); {
		case n < 80:
			mod := models[r.IntN(len(models))]
			e := &Item{Client: fmt.Sprint(r.IntN(4)), Priority: r.IntN(30) - 15, Examples: 1 + r.IntN(mod.MaxBatch),
				Deadline: w.now + time.Duration(1+r.IntN(60))*ms}
			if r.IntN(3) > 0 {
				e.Examples = 1
			}
			bad := r.IntN(40) == 0
			it := w.add(mod, e, bad)
			if r.IntN(20) == 0 {
				w.cancel(it)
			}
		case n < 90:
			if len(w.list) > 0 {
				w.cancel(w.list[r.IntN(len(w.list))])
			}
		case n < 91: // a model goes to another set of devices
			mod, d := models[r.IntN(len(models))], devices[r.IntN(len(devices))]
			w.m.Unplace(mod, d)
			if r.IntN(3) > 0 {
				w.m.Place(mod, d, Cost{Fixed: ms})
			}
			w.m.Expect(mod, r.IntN(2) == 0)
			w.obey(w.m.SetSlots(w.now, d, 1+r.IntN(3), r.IntN(4), r.IntN(4), nil))
		case n < 92:
			w.drop(devices[r.IntN(len(devices))], r.IntN(2) == 0)
		case n < 97:
			w.lift(devices[r.IntN(len(devices))])
		default: // one that hangs comes back
			for _, f := range w.batches {
				if f.hangs {
					w.finish(f)
					break
				}
			}
		}
	}
	if r.IntN(2) == 0 {
		mod := models[r.IntN(len(models))]
		w.obey(w.m.RemoveModel(w.now, mod, nil))
		w.drop(devices[0], true)
		if mod.Waiting() != 0 {
			w.fatal("%d items wait for a model that was removed", mod.Waiting())
		}
	}
	w.until(w.now + time.Second)
	if w.live != 0 || w.m.waiting != 0 || len(w.m.byTime.xs) != 0 || len(w.m.byDue.xs) != 0 {
		w.fatal("%d items have no answer, the machine has %d", w.live, w.m.waiting)
	}
}
