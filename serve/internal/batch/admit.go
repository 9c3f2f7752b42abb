package batch

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// leastAfter is the least time after which a client is told to ask again.
	leastAfter = time.Millisecond
	// downAfter is the time after which a client is told to ask again while no device takes
	// the model's batches.
	downAfter = time.Second
)

// admit returns 0 if an item is taken, and else after how long it may be.
//
// A deadline that will not be met refuses, and so does a full queue: one client alone may
// have all places, and where others come too, whoever has the most gives up what came last,
// until all have as many; see yields. An item is taken whatever is predicted if a device of
// its model is free and nothing waits, or a prediction that is too high would never be put
// right.
func (m *Machine) admit(mod *Model, it *Item, out []Decision) ([]Decision, time.Duration) {
	if it.Deadline <= m.now {
		return out, leastAfter
	}
	open, free := 0, false
	for _, p := range mod.on {
		if p.open() {
			open++
			free = free || p.device.free > 0
		}
	}
	switch {
	case open == 0 && !mod.expected:
		return out, downAfter
	case free && mod.empty():
		return out, 0
	}
	end := m.finish(mod, it)
	if end > it.Deadline {
		return out, max(end-it.Deadline, leastAfter)
	}
	var victim *Item
	switch {
	case mod.MaxWaiting > 0 && mod.load.items >= mod.MaxWaiting:
		victim = mod.clients.yields(it, mod)
	case m.MaxWaiting > 0 && m.waiting >= m.MaxWaiting:
		victim = m.clients.yields(it, m.models...)
	default:
		return out, 0
	}
	if victim == nil {
		return out, max(end-m.now, leastAfter)
	}
	return m.evict(victim, out), 0
}

// yields returns the item that gives up its place to a newcomer, nil for none: one of the
// client that has the most, if that has more than the newcomer's would have with it, or one
// of the same client that has a lower priority.
func (t *tally) yields(it *Item, models ...*Model) (victim *Item) {
	client := it.Client
	if most, ok := t.most.first(); ok && most.items > t.held(client)+1 {
		client = most.client
	}
	held := 0
	for _, mod := range models {
		if n := mod.clients.held(client); n > held {
			if last := mod.newest(client); last != nil && (client != it.Client || levelOf(last.Priority) < levelOf(it.Priority)) {
				victim, held = last, n
			}
		}
	}
	return victim
}

// evict refuses an item that waits.
func (m *Machine) evict(it *Item, out []Decision) []Decision {
	m.unwait(it)
	after := max(m.finish(it.model, it)-m.now, leastAfter)
	m.byTime.remove(it)
	it.place = over
	return append(out, Decision{Kind: Refuse, Item: it, After: after})
}

// held returns how many items the client of an item has waiting in its priority.
func (mod *Model) held(it *Item) int {
	if ln := mod.levels[levelOf(it.Priority)].lines[it.Client]; ln != nil {
		return ln.load.items
	}
	return 0
}

// finish predicts when an item would be computed if it were added now: after what runs, what
// has a higher priority and, of its own, what the other clients get in the turns that its
// client needs to come to it. Each device takes a share by its speed. Where no device takes
// the model's batches yet, it is now.
func (m *Machine) finish(mod *Model, it *Item) time.Duration {
	n := levelOf(it.Priority)
	ahead := mod.above(n)
	l := &mod.levels[n]
	clients, held := len(l.lines), mod.held(it)
	if held == 0 {
		clients++
	}
	if turns := (held+1)*clients - 1; turns < l.load.items {
		// Of those in the line, as many as it has to wait for, taken to be alike.
		part := float64(turns) / float64(l.load.items)
		ahead.items -= l.load.items - turns
		ahead.examples -= l.load.examples - int(part*float64(l.load.examples))
	}
	ahead.add(it)
	var room [8]share
	shares := room[:0]
	slack := 0.0
	for _, p := range mod.on {
		m.steps++
		if !p.open() {
			continue
		}
		before := p.device.left(m.now).Seconds()
		for _, o := range p.device.on {
			m.steps++
			if o.model != mod && !o.model.empty() && o.open() {
				before += o.takes(o.model.above(n)) / float64(len(o.model.on))
			}
		}
		shares = append(shares, share{before, p.takes(mod.own(ahead, before*mod.rate(n, m.now)))})
		slack = max(slack, 2*p.cost.err)
	}
	if len(shares) == 0 {
		return m.now
	}
	batches := (ahead.examples + mod.MaxBatch - 1) / mod.MaxBatch
	return m.now + seconds(last(shares, batches)+slack)
}

// rate returns how many items arrive in a second at a level and above. Those of lower levels
// make no batch late.
func (mod *Model) rate(n int, now time.Duration) (rate float64) {
	for i := n; i < Levels; i++ {
		if a := &mod.levels[i].arrivals; a.gap > 0 {
			rate += 1 / max(a.gap, now-a.last).Seconds()
		}
	}
	return rate
}

// own returns the load of the batch that the last item of a load is in, once more have
// arrived: items like those before it fill up what is not full.
func (mod *Model) own(ahead load, more float64) load {
	return load{examples: int(min(float64(ahead.examples)+more, float64(mod.MaxBatch)))}
}

// share is a device that has other work before, and takes so long for each batch.
type share struct{ before, batch float64 }

// last returns when the last of some batches ends, if each goes to the device that is done
// with it first. If batches could be divided, all n would end at time end. By then each device
// has finished whole batches, and at most one for each device is left; those are dealt out one
// by one.
func last(shares []share, n int) (end float64) {
	var speed, work float64
	slices.SortFunc(shares, func(a, b share) int { return cmp.Compare(a.before, b.before) })
	for i, s := range shares {
		if s.batch <= 0 {
			return s.before
		}
		if i > 0 && s.before >= end {
			break
		}
		speed += 1 / s.batch
		work += s.before / s.batch
		end = (float64(n) + work) / speed
	}
	for i, s := range shares {
		done := max(math.Floor((end-s.before)/s.batch*(1-1e-9)), 0)
		n -= int(done)
		shares[i].before += done * s.batch
	}
	for ; n > 0; n-- {
		first := 0
		for i, s := range shares {
			if s.before+s.batch < shares[first].before+shares[first].batch {
				first = i
			}
		}
		shares[first].before += shares[first].batch
		end = shares[first].before
	}
	return end
}

// above returns what waits for the model at a level and above.
func (mod *Model) above(n int) (l load) {
	for i := n; i < Levels; i++ {
		l.items += mod.levels[i].load.items
		l.examples += mod.levels[i].load.examples
	}
	return l
}

// takes returns the seconds that a device alone needs for a load, in full batches.
func (p *placement) takes(l load) float64 {
	batches := (l.examples + p.model.MaxBatch - 1) / p.model.MaxBatch
	return float64(batches)*p.cost.w[0] + p.cost.w[1]*float64(l.examples)
}
