package batch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world is the loop around a machine in virtual time, with devices that take a stated
// time. It keeps every item in one list and checks each decision against it.
type world struct {
	t    testing.TB
	m    *Machine
	now  time.Duration
	rand *rand.Rand

	list    []*entry
	live    int  // of these, how many have no answer
	full    bool // when the latest came, so that another may have to give up its place
	batches []*flight
	maxWait time.Duration // an item waits no longer while a device is free; 0 is not checked

	// cost says how long a batch takes; negative for one that hangs. fails says whether
	// it fails then.
	cost  func(b *Batch) time.Duration
	fails func(b *Batch) bool
	// onStart and onAnswer are told of decisions, after they were checked.
	onStart  func(b *Batch)
	onAnswer func(e *entry, k Kind)

	down map[*Device]bool
}

// entry is an item as the list knows it.
type entry struct {
	it       *Item
	mod      *Model
	added    time.Duration
	batch    *Batch // that it is in
	answered bool
	kind     Kind
	bad      bool // fails every batch it is in
	failures int  // batches of it that failed or were lost
}

// flight is a batch under way.
type flight struct {
	b      *Batch
	began  time.Duration
	ends   time.Duration
	hangs  bool
	failed bool
	lost   bool
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{t: t, m: New(), rand: rand.New(rand.NewPCG(seed, 1)), down: map[*Device]bool{},
		fails: func(b *Batch) bool {
			return slices.ContainsFunc(b.Items, func(it *Item) bool { return it.Owner.(*entry).bad })
		}}
}

func (w *world) fatal(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("at %v: %s", w.now, fmt.Sprintf(format, args...))
}

// add brings an item; a bad one fails every batch it is in.
func (w *world) add(mod *Model, it *Item, bad bool) *entry {
	e := &entry{it: it, mod: mod, added: w.now, bad: bad}
	it.Owner = e
	w.list = append(w.list, e)
	w.live++
	w.full = mod.MaxWaiting > 0 && mod.Waiting() >= mod.MaxWaiting || w.m.MaxWaiting > 0 && w.m.waiting >= w.m.MaxWaiting
	w.obey(w.m.Add(w.now, mod, it, nil))
	return e
}

func (w *world) cancel(e *entry) {
	if !e.answered {
		e.answered = true
		w.live--
	}
	w.obey(w.m.Cancel(w.now, e.it, nil))
}

// obey performs decisions, and looks at what is left undone.
func (w *world) obey(ds []Decision) {
	for _, d := range ds {
		if d.Kind == Start {
			w.start(d.Batch)
			continue
		}
		e := d.Item.Owner.(*entry)
		switch {
		case e.answered:
			w.fatal("an item is answered %v after %v", d.Kind, e.kind)
		case d.Kind == Done && (e.batch == nil || e.batch != d.Batch):
			w.fatal("an item is done by a batch it is not in")
		case d.Kind == Fail && e.failures == 0 && !e.mod.removed:
			w.fatal("an item fails that never did")
		case d.Kind == Fail && !e.bad && e.failures <= maxTries && !e.mod.removed:
			w.fatal("a good item fails after %d tries", e.failures)
		case d.Kind == Refuse && d.After <= 0:
			w.fatal("an item is refused without a hint")
		case d.Kind == Refuse && e.added != w.now && !w.full:
			w.fatal("an item is refused %v after it was taken, and there is room", w.now-e.added)
		}
		e.answered, e.kind = true, d.Kind
		w.live--
		if w.onAnswer != nil {
			w.onAnswer(e, d.Kind)
		}
	}
	if w.maxWait > 0 {
		w.check()
	}
}

func (w *world) start(b *Batch) {
	examples := 0
	for _, it := range b.Items {
		e := it.Owner.(*entry)
		switch {
		case e.answered:
			w.fatal("an item is computed that was answered %v", e.kind)
		case e.batch != nil:
			w.fatal("an item is in two batches")
		case e.mod != b.Model:
			w.fatal("an item is in a batch of another model")
		case e.failures > 0 && e.it.alone && len(b.Items) > 1:
			w.fatal("an item that failed is computed with others")
		}
		e.batch = b
		examples += it.Examples
	}
	if len(b.Items) == 0 || len(b.Items) > 1 && examples > b.Model.MaxBatch || examples != b.Examples() {
		w.fatal("a batch of %d examples, of which it knows %d; %d are allowed", examples, b.Examples(), b.Model.MaxBatch)
	}
	if w.down[b.Device] {
		w.fatal("a batch begins on a device that is down")
	}
	busy, hang := 0, 0
	for _, f := range w.batches {
		if f.b.Device == b.Device && !f.b.stuck && !f.lost {
			busy++
		}
		if f.b.Device == b.Device && f.b.stuck && !f.lost && f.b.Model == b.Model {
			hang++
		}
	}
	if hang >= b.Device.Devices {
		w.fatal("a batch begins where %d of its model hang, for %d devices", hang, b.Device.Devices)
	}
	if busy >= b.Device.Slots {
		w.fatal("%d batches on a device for %d", busy+1, b.Device.Slots)
	}
	f := &flight{b: b, began: w.now, failed: w.fails(b)}
	if c := w.cost(b); c < 0 {
		f.hangs = true
	} else {
		f.ends = w.now + c
	}
	w.batches = append(w.batches, f)
	if w.onStart != nil {
		w.onStart(b)
	}
}

// check looks at every item: none may be past its deadline, and none may have waited for
// longer than the chosen wait while a device was free for it.
func (w *world) check() {
	w.t.Helper()
	waiting := 0
	for _, e := range w.list {
		if e.answered {
			continue
		}
		if e.it.Deadline <= w.now {
			w.fatal("an item is kept past its deadline of %v", e.it.Deadline)
		}
		if e.batch != nil {
			continue
		}
		waiting++
		if w.now-e.added <= w.maxWait {
			continue
		}
		for _, p := range e.mod.on {
			if p.open() && p.device.free > 0 && !w.faster(e.mod) {
				w.fatal("an item has waited for %v and a device is free", w.now-e.added)
			}
		}
	}
	if waiting != w.m.waiting {
		w.fatal("%d items wait, the machine says %d", waiting, w.m.waiting)
	}
}

// faster says whether a model may wait for a busy device.
func (w *world) faster(mod *Model) bool {
	for _, p := range mod.on {
		if p.open() && p.device.free == 0 && p.device.left(w.now) > 0 {
			return true
		}
	}
	return false
}

// finish ends a batch.
func (w *world) finish(f *flight) {
	w.batches = slices.DeleteFunc(w.batches, func(o *flight) bool { return o == f })
	if !f.lost {
		for _, it := range f.b.Items {
			e := it.Owner.(*entry)
			if f.failed {
				e.failures++
			}
			if f.failed && len(f.b.Items) > 1 {
				e.batch = nil
			}
		}
	}
	w.obey(w.m.Ended(w.now, f.b, f.failed, nil))
}

// drop takes a device down.
func (w *world) drop(d *Device, lost bool) {
	w.down[d] = true
	if !lost {
		w.obey(w.m.Down(w.now, d, false, nil))
		return
	}
	for _, f := range w.batches {
		if f.b.Device == d && !f.lost {
			f.lost = true
			for _, it := range f.b.Items {
				it.Owner.(*entry).failures++
				it.Owner.(*entry).batch = nil
			}
		}
	}
	w.obey(w.m.Down(w.now, d, true, nil))
}

// lift brings it back.
func (w *world) lift(d *Device) {
	w.down[d] = false
	w.obey(w.m.Up(w.now, d, nil))
}

// until lets time pass.
func (w *world) until(t time.Duration) {
	for {
		at, ok := w.m.Next()
		if ok && at < w.now {
			at = w.now
		}
		if !ok || at > t {
			at = t
		}
		var first *flight
		for _, f := range w.batches {
			if !f.hangs && f.ends <= at && (first == nil || f.ends < first.ends) {
				first = f
			}
		}
		switch {
		case first != nil:
			w.now = max(w.now, first.ends)
			w.finish(first)
		case ok && at < t:
			before, _ := w.m.Next()
			w.now = at
			w.obey(w.m.Tick(w.now, nil))
			if after, again := w.m.Next(); again && after <= w.now && after == before {
				w.fatal("Tick at %v leaves Next at %v", w.now, after)
			}
		default:
			w.now = t
			w.obey(w.m.Tick(w.now, nil))
			return
		}
	}
}
