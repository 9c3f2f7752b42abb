package batch

import "time"

// wait puts an item into the queue of its model and decides how long that waits for more.
func (m *Machine) wait(it *Item) {
	mod := it.model
	if mod.empty() {
		mod.since, mod.urgent, mod.ready = m.now, it.Deadline, false
		mod.served = max(mod.served, m.floor)
		mod.taken = max(mod.taken, m.batches)
	}
	it.place = waiting
	mod.urgent = min(mod.urgent, it.Deadline)
	mod.add(it)
	mod.clients.add(it.Client, 1)
	m.clients.add(it.Client, 1)
	m.waiting++
	mod.due = m.dueOf(mod)
	m.mark(mod)
}

// unwait takes an item out of the queue of its model.
func (m *Machine) unwait(it *Item) {
	it.model.remove(it)
	m.removed(it)
}

// removed brings what is known of an item's model up to date after it was taken out.
func (m *Machine) removed(it *Item) {
	it.model.clients.add(it.Client, -1)
	m.clients.add(it.Client, -1)
	m.waiting--
	m.mark(it.model)
}

// dueOf returns until when a model waits for more items while a device is free. Waiting for
// the next arrival, 1/λ away, delays the n examples that are there and saves the newcomer
// what would be left by then of their batch, whose fixed cost is a: it is worth it while
// n/λ < a-1/λ. The wait is therefore a-(n+1)/λ, never more than a, and leaves the most urgent
// item the time to be computed and as much again as predictions are off. Where the device would
// compute a batch of the newcomer beside theirs, nothing waits.
func (m *Machine) dueOf(mod *Model) time.Duration {
	p := mod.best()
	if p == nil || p.device.idle() > 1 || mod.arrivals.gap == 0 || mod.load.examples >= mod.MaxBatch || mod.agains > 0 {
		return m.now
	}
	a := seconds(p.cost.w[0])
	if mod.MaxWait > 0 {
		a = min(a, mod.MaxWait)
	}
	wait := a - time.Duration(mod.load.examples+1)*mod.arrivals.gap
	latest := mod.urgent - 2*seconds(p.cost.of(float64(mod.load.examples))+2*p.cost.err)
	return max(min(m.now+wait, mod.since+a, latest), m.now)
}

// best returns where a batch of the model costs the least to begin, nil for nowhere.
func (mod *Model) best() (best *placement) {
	for _, p := range mod.on {
		if p.open() && (best == nil || p.cost.of(1) < best.cost.of(1)) {
			best = p
		}
	}
	return best
}

// mark notes whether a model is ready or waits for more items.
func (m *Machine) mark(mod *Model) {
	mod.ready = !mod.empty() && (mod.ready || mod.due <= m.now)
	if mod.empty() || mod.ready {
		m.byDue.remove(mod)
		return
	}
	m.byDue.put(mod)
}

// dispatch gives batches to free devices until none is free or nothing is ready.
func (m *Machine) dispatch(out []Decision) []Decision {
	for {
		p := m.choose()
		if p == nil {
			return out
		}
		out = m.start(p, out)
	}
}

// choose returns the next batch's model and where it runs. The ready model goes first whose
// items have the highest priority, of these the one that was served the least; every eighth
// time the one whose latest batch is the longest ago.
func (m *Machine) choose() (best *placement) {
	old := (m.batches+1)%turns == 0
	m.deferred = false
	for _, mod := range m.models {
		m.steps++
		if !mod.ready || best != nil && !before(mod, best.model, old) {
			continue
		}
		if p := m.where(mod); p != nil {
			best = p
		}
	}
	return best
}

// before says whether model a goes before b.
func before(a, b *Model, old bool) bool {
	if old {
		return a.taken < b.taken
	}
	if a.top() != b.top() {
		return a.top() > b.top()
	}
	if a.served != b.served {
		return a.served < b.served
	}
	return a.id < b.id
}

// waitRatio makes a batch wait for a busy device if a free one would finish it 1.5 times later: a
// smaller difference is measurement noise.
const waitRatio = 1.5

// where returns the free device on which a batch of the model ends the earliest, nil if
// there is none, or if all that waits for the model would be done earlier by waiting for one
// that is busy.
func (m *Machine) where(mod *Model) (best *placement) {
	n := float64(min(mod.load.examples, mod.MaxBatch))
	var least float64
	for _, p := range mod.on {
		m.steps++
		if !p.open() || p.device.free <= 0 {
			continue
		}
		if c := p.cost.of(n); best == nil || c < least {
			best, least = p, c
		}
	}
	if best == nil {
		return nil
	}
	for _, p := range mod.on {
		if !p.open() || p.device.free > 0 {
			continue
		}
		// A device whose batch takes longer than predicted is not waited for.
		left := p.device.left(m.now)
		if left <= 0 {
			continue
		}
		batches := float64((mod.load.examples + mod.MaxBatch - 1) / mod.MaxBatch)
		if least > waitRatio*(left.Seconds()+batches*p.cost.of(n)) {
			m.deferred = true
			return nil
		}
	}
	return best
}

// left returns until when all places of a device are predicted to be taken, from now;
// 0 if one is free or should be.
func (d *Device) left(now time.Duration) (left time.Duration) {
	if d.free > 0 {
		return 0
	}
	left = -1
	for _, b := range d.batches {
		if b.stuck {
			continue
		}
		if l := max(b.until-now, 0); left < 0 || l < left {
			left = l
		}
	}
	return max(left, 0)
}

// start takes a batch from the queue of a model. Priority decides which items it has: as
// many as fit and as can all be computed by their deadlines, so that those of a lower
// priority fill up a batch as far as it makes none late that goes before them. While items
// of its own priority and above fill a batch, an item that a full batch is too slow for is
// answered at once instead of making the batch smaller, which would make all others wait
// longer; so is one that would be too late by itself. The last item there is stays in any
// case, or nothing would be measured any more.
func (m *Machine) start(p *placement, out []Decision) []Decision {
	mod := p.model
	b := &Batch{Model: mod, Device: p.device, Items: make([]*Item, 0, min(mod.load.items, mod.MaxBatch)), at: p, started: m.now}
	urgent := time.Duration(1<<63 - 1)
	fills := mod.fills()
	for it := mod.next(&m.steps); it != nil; it = mod.next(&m.steps) {
		n := b.load.examples + it.Examples
		if len(b.Items) > 0 && (it.alone || n > mod.MaxBatch) {
			break
		}
		if p.cost.n > 0 {
			end := m.now + seconds(p.cost.of(float64(n)))
			if len(b.Items) > 0 && end > urgent {
				break
			}
			full := levelOf(it.Priority) <= fills
			if full {
				end = m.now + seconds(p.cost.of(float64(max(n, mod.MaxBatch))))
			}
			late := end > it.Deadline
			if late && !full && len(b.Items) > 0 {
				break // it may be the first of another batch
			}
			if late && len(b.Items)+mod.load.items > 1 {
				m.unwait(it)
				out = m.answer(Expire, it, nil, out)
				continue
			}
		}
		mod.take(it)
		m.removed(it)
		it.place = running
		b.Items = append(b.Items, it)
		b.load.add(it)
		urgent = min(urgent, it.Deadline)
		if it.alone {
			break
		}
	}
	cost := p.cost.of(float64(b.load.examples))
	b.until = m.now + seconds(cost)
	p.device.batches = append(p.device.batches, b)
	p.device.free--
	m.floor = max(m.floor, mod.served)
	mod.served += cost
	m.batches++
	mod.taken = m.batches
	return append(out, Decision{Kind: Start, Batch: b})
}

// fills returns the highest level that fills a batch together with those above it, -1 if
// all that waits does not.
func (mod *Model) fills() int {
	n := 0
	for i := Levels - 1; i >= 0; i-- {
		if n += mod.levels[i].load.examples; n >= mod.MaxBatch {
			return i
		}
	}
	return -1
}

// seconds is a duration of at most a year.
func seconds(s float64) time.Duration { return time.Duration(min(s, 365*86400) * float64(time.Second)) }
