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

// refuse returns 0 if an item is taken, and else after how long it may be.
//
// A full queue refuses: a client may have as many items waiting as there are places left,
// so that one alone gets half of them and always leaves some to others. So does a deadline
// that will not be met. An item is taken whatever is predicted if a device of its model is
// free and nothing waits, or a prediction that is too high would never be put right.
func (m *Machine) refuse(mod *Model, it *Item) time.Duration {
	if it.Deadline <= m.now {
		return leastAfter
	}
	open, free := 0, false
	for _, p := range mod.on {
		if p.open() {
			open++
			free = free || p.device.free > 0
		}
	}
	if open == 0 {
		return downAfter
	}
	if free && mod.load.items == 0 {
		return 0
	}
	end := m.finish(mod, it)
	left := 1 << 62
	if mod.MaxWaiting > 0 {
		left = mod.MaxWaiting - mod.load.items
	}
	if m.MaxWaiting > 0 {
		left = min(left, m.MaxWaiting-m.waiting)
	}
	if left <= mod.clients[it.Client] {
		return max(end-m.now, leastAfter)
	}
	if end > it.Deadline {
		return max(end-it.Deadline, leastAfter)
	}
	return 0
}

// held returns how many items the client of an item has waiting in its group and priority.
func (mod *Model) held(it *Item) int {
	if g := mod.groups[it.Key]; g != nil {
		if ln := g.levels[levelOf(it.Priority)].lines[it.Client]; ln != nil {
			return ln.load.items
		}
	}
	return 0
}

// finish predicts when an item would be computed if it were added now: after what runs, what
// has a higher priority and, of its own, what the other clients get in the turns that its
// client needs to come to it. Each device takes a share by its speed.
func (m *Machine) finish(mod *Model, it *Item) time.Duration {
	n := levelOf(it.Priority)
	ahead, gap := mod.above(n), math.Inf(1)
	if g := mod.groups[it.Key]; g != nil {
		if g.gap > 0 {
			gap = g.gap.Seconds()
		}
		l := &g.levels[n]
		clients, held := len(l.lines), mod.held(it)
		if held == 0 {
			clients++
		}
		if turns := (held+1)*clients - 1; turns < l.load.items {
			// Of those in the line, as many as it has to wait for, taken to be alike.
			part := float64(turns) / float64(l.load.items)
			ahead.items -= l.load.items - turns
			ahead.examples -= l.load.examples - int(part*float64(l.load.examples))
			ahead.length -= l.load.length - int(part*float64(l.load.length))
		}
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
			if o.model != mod && o.model.load.items > 0 && o.open() {
				before += o.takes(o.model.above(n)) / float64(len(o.model.on))
			}
		}
		shares = append(shares, share{before, p.takes(mod.own(ahead, before/gap))})
		slack = max(slack, 2*p.cost.err)
	}
	batches := (ahead.examples + mod.MaxBatch - 1) / mod.MaxBatch
	return m.now + seconds(last(shares, batches)+slack)
}

// own returns the load of the batch that the last item of a load is in, once more have
// arrived: items like those before it fill up what is not full.
func (mod *Model) own(ahead load, more float64) load {
	each := float64(ahead.length) / float64(ahead.examples)
	n := min(float64(ahead.examples)+more, float64(mod.MaxBatch))
	return load{examples: int(n), length: int(n * each)}
}

// share is a device that has other work before, and takes so long for each batch.
type share struct{ before, batch float64 }

// last returns when the last of some batches ends, if each goes to the device that is done
// with it first. All devices have done what they can of n-len(shares) batches at the time
// at which they would be done with n together if batches could be divided; the rest is
// dealt out one by one.
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
		l.items += mod.levels[i].items
		l.examples += mod.levels[i].examples
		l.length += mod.levels[i].length
	}
	return l
}

// takes returns the seconds that a device alone needs for a load, in full batches.
func (p *placement) takes(l load) float64 {
	batches := (l.examples + p.model.MaxBatch - 1) / p.model.MaxBatch
	return float64(batches)*p.cost.w[0] + p.cost.w[1]*float64(l.examples) + p.cost.w[2]*float64(l.length)
}
