package batch

import "time"

// wait puts an item into a group and decides how long that waits for more.
func (m *Machine) wait(g *group, it *Item) {
	if g.empty() {
		g.since, g.urgent, g.ready = m.now, it.Deadline, false
	}
	if g.model.load.items == 0 {
		g.model.served = max(g.model.served, m.floor)
		g.model.taken = max(g.model.taken, m.batches)
	}
	it.place, it.group = waiting, g
	g.urgent = min(g.urgent, it.Deadline)
	g.add(it)
	g.model.load.add(it)
	g.model.levels[levelOf(it.Priority)].add(it)
	g.model.clients[it.Client]++
	m.waiting++
	g.due = m.due(g)
	m.place(g)
}

// unwait takes an item out of its group.
func (m *Machine) unwait(it *Item) {
	it.group.remove(it)
	m.removed(it)
}

// removed brings what is known of an item's group up to date after it was taken out.
func (m *Machine) removed(it *Item) {
	g := it.group
	g.model.load.remove(it)
	g.model.levels[levelOf(it.Priority)].remove(it)
	if g.model.clients[it.Client]--; g.model.clients[it.Client] == 0 {
		delete(g.model.clients, it.Client)
	}
	m.waiting--
	it.group = nil
	m.place(g)
}

// due returns until when a group waits for more items while a device is free. Waiting for
// the next arrival, 1/λ away, delays the n examples that are there and saves the newcomer
// the fixed cost a of a batch of its own: it is worth it while n < λ·a. The wait is
// therefore a-n/λ, never more than a, and leaves the most urgent item the time to be
// computed and as much again as predictions are off.
func (m *Machine) due(g *group) time.Duration {
	p := g.model.best()
	if p == nil || g.gap == 0 || g.load.examples >= g.model.MaxBatch || g.again.head != nil {
		return m.now
	}
	a := seconds(p.cost.w[0])
	if g.model.MaxWait > 0 {
		a = min(a, g.model.MaxWait)
	}
	wait := a - time.Duration(g.load.examples)*g.gap
	n := float64(g.load.examples)
	latest := g.urgent - 2*seconds(p.cost.of(n, float64(g.load.length))+2*p.cost.err)
	return max(min(m.now+wait, g.since+a, latest), m.now)
}

// best returns where a batch of the model costs the least to begin, nil for nowhere.
func (mod *Model) best() (best *placement) {
	for _, p := range mod.on {
		if p.open() && (best == nil || p.cost.of(1, 1) < best.cost.of(1, 1)) {
			best = p
		}
	}
	return best
}

// place puts a group into the heaps where it belongs.
func (m *Machine) place(g *group) {
	if g.empty() {
		m.byDue.remove(g)
		g.model.top.remove(g)
		g.model.old.remove(g)
		if len(g.model.groups) > maxGroups {
			delete(g.model.groups, g.key)
		}
		return
	}
	if g.ready = g.ready || g.due <= m.now; g.ready {
		m.byDue.remove(g)
		g.model.top.put(g)
		g.model.old.put(g)
		return
	}
	m.byDue.put(g)
}

// dispatch gives batches to free devices until none is free or nothing is ready.
func (m *Machine) dispatch(out []Decision) []Decision {
	for {
		p, g := m.choose()
		if p == nil {
			return out
		}
		out = m.start(p, g, out)
	}
}

// choose returns the next batch's group and where it runs. The model goes first whose ready
// group has the highest priority, of these the one that was served the least; every eighth
// time the one whose latest batch is the longest ago.
func (m *Machine) choose() (*placement, *group) {
	old := (m.batches+1)%turns == 0
	m.deferred = false
	var best *placement
	var from *group
	for _, mod := range m.models {
		m.steps++
		queue := &mod.top
		if old {
			queue = &mod.old
		}
		g, ok := queue.first()
		if !ok {
			continue
		}
		if best != nil && !before(g, from, old) {
			continue
		}
		if p := m.where(g); p != nil {
			best, from = p, g
		}
	}
	return best, from
}

// before says whether group a goes before b of another model.
func before(a, b *group, old bool) bool {
	if old {
		return a.model.taken < b.model.taken
	}
	if a.top() != b.top() {
		return a.top() > b.top()
	}
	if a.model.served != b.model.served {
		return a.model.served < b.model.served
	}
	return a.model.id < b.model.id
}

// slower is how much later a batch must end on a free device than on one that is busy still
// for it to wait for that one. Less than that is noise in what was measured.
const slower = 1.5

// where returns the free device on which a batch of the group ends the earliest, nil if
// there is none, or if all that waits in the group would be done earlier by waiting for one
// that is busy.
func (m *Machine) where(g *group) (best *placement) {
	n, length := float64(min(g.load.examples, g.model.MaxBatch)), float64(g.load.length)
	if g.load.examples > g.model.MaxBatch {
		length *= n / float64(g.load.examples)
	}
	var least float64
	for _, p := range g.model.on {
		m.steps++
		if !p.open() || p.device.free == 0 {
			continue
		}
		if c := p.cost.of(n, length); best == nil || c < least {
			best, least = p, c
		}
	}
	if best == nil {
		return nil
	}
	for _, p := range g.model.on {
		if !p.open() || p.device.free > 0 {
			continue
		}
		// A device whose batch takes longer than predicted is not waited for.
		left := p.device.left(m.now)
		if left <= 0 {
			continue
		}
		batches := float64((g.load.examples + g.model.MaxBatch - 1) / g.model.MaxBatch)
		if least > slower*(left.Seconds()+batches*p.cost.of(n, length)) {
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

// start takes a batch from a group. It has as many items as fit and as can all be computed
// by their deadlines. While there is a full batch or more, an item that a full batch is too
// slow for is answered at once instead of making the batch smaller, which would make all
// others wait longer; so is one that would be too late by itself. The last item there is
// stays in any case, or nothing would be measured any more.
func (m *Machine) start(p *placement, g *group, out []Decision) []Decision {
	mod := g.model
	b := &Batch{Model: mod, Device: p.device, at: p, started: m.now}
	urgent := time.Duration(1<<63 - 1)
	full := g.load.examples >= mod.MaxBatch
	each := g.load.length / g.load.examples
	for it := g.next(&m.steps); it != nil; it = g.next(&m.steps) {
		if len(b.Items) > 0 && (it.alone || b.load.examples+it.Examples > mod.MaxBatch) {
			break
		}
		with := b.load
		with.add(it)
		if full {
			with.examples, with.length = mod.MaxBatch, max(with.length, each*mod.MaxBatch)
		}
		end := m.now + seconds(p.cost.of(float64(with.examples), float64(with.length)))
		if len(b.Items) > 0 && p.cost.n > 0 && !full && end > min(urgent, it.Deadline) {
			break
		}
		if p.cost.n > 0 && (full || len(b.Items) == 0) && end > it.Deadline && len(b.Items)+g.load.items > 1 {
			g.remove(it)
			m.removed(it)
			out = m.answer(Expire, it, nil, out)
			continue
		}
		g.take(it)
		m.removed(it)
		it.place = running
		b.Items = append(b.Items, it)
		b.load.add(it)
		urgent = min(urgent, it.Deadline)
		if it.alone {
			break
		}
	}
	cost := p.cost.of(float64(b.load.examples), float64(b.load.length))
	b.until = m.now + seconds(cost)
	p.device.batches = append(p.device.batches, b)
	p.device.free--
	m.floor = max(m.floor, mod.served)
	mod.served += cost
	m.batches++
	mod.taken, g.taken = m.batches, m.batches
	if !g.empty() {
		m.place(g)
	}
	return append(out, Decision{Kind: Start, Batch: b})
}

// seconds is a duration of at most a year.
func seconds(s float64) time.Duration { return time.Duration(min(s, 365*86400) * float64(time.Second)) }
