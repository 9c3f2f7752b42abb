package sched

import (
	"cmp"
	"slices"
	"time"

	"github.com/weft-run/weft/machine"
)

// index finds the class of devices that is done first with a task where many classes differ,
// without a look at each. Classes whose devices are nearly alike for a task stand next to each
// other, and over them a tree has the least of each part: when its first device is free, and
// index finds the class of devices that finishes a task first where many classes differ, without
// looking at each. Classes with nearly equal costs for a task stand next to each other in an
// order, and a tree over the order holds for each part the earliest time at which a device is
// free and the lowest cost of the task. No device of a part finishes before the sum of both, so
// parts whose sum is later than the best offer so far are skipped: of n devices that are about
// equally busy, the search looks at about √n. The result equals that of trying every class.
//
// Neighbours for a task bound by memory differ for a task bound by computing. So there are
// several orders, and the costs met last are kept.
type index struct {
	orders []*order
	known  []costs // by Ready.CostID
	steps  uint64  // parts and classes looked at, for tests
}

// order is the classes in an order, with the state of devices. Node 1 is all of them, node k the
// nodes 2k and 2k+1; the upper half are classes.
type order struct {
	class []int32         // by place
	place []int32         // by class
	free  []time.Duration // when the first device of a node is free, never for none
	least []machine.DeviceID
}

// costs holds for each node of an order the lowest cost of a task below it, or never.
type costs struct {
	id    uint64
	cost  []time.Duration // what it was made from
	order *order
	least []time.Duration
}

const (
	// indexFrom is the number of classes from which on the index is used. With fewer, trying
	// each takes less than 2 µs.
	indexFrom = 64
	// maxOrders and maxKnown bound the memory of an index: with 10,000 classes an order takes 0.4
	// MB, and the costs of a shape 0.16 MB.
	maxOrders = 4
	maxKnown  = 32
	// alikeBlock is the number of neighbours whose costs are compared to judge an order, and
	// alikeWithin the relative difference within which they are, on average, in a good one.
	alikeBlock  = 64
	alikeWithin = 0.2
)

// clear forgets everything, since classes or their members changed.
func (x *index) clear() { *x = index{steps: x.steps} }

// costs returns what a task costs by nodes, nil if the task has no CostID. It is called where there are
// indexFrom classes or more.
func (p *finish) costs(v *Situation, t *Ready) *costs {
	if t.CostID == 0 || len(t.Cost) != len(p.trees) {
		return nil
	}
	if p.index.known == nil {
		p.index.known = make([]costs, maxKnown)
	}
	k := &p.index.known[t.CostID%maxKnown]
	if k.id == t.CostID && &k.cost[0] == &t.Cost[0] {
		return k
	}
	best, least := (*order)(nil), 2.0
	for _, o := range p.index.orders {
		if apart := o.apart(t.Cost); apart < least {
			best, least = o, apart
		}
	}
	if least > alikeWithin && len(p.index.orders) < maxOrders {
		best = p.newOrder(v, t.Cost)
		p.index.orders = append(p.index.orders, best)
	}
	n := len(t.Cost)
	*k = costs{id: t.CostID, cost: t.Cost, order: best, least: slices.Grow(k.least[:0], 2*n)[:2*n]}
	for i, c := range best.class {
		if k.least[n+i] = t.Cost[c]; t.Cost[c] < 0 {
			k.least[n+i] = never
		}
	}
	for i := n - 1; i >= 1; i-- {
		k.least[i] = min(k.least[2*i], k.least[2*i+1])
	}
	return k
}

// apart returns by how much neighbours differ for a task, from 0 for not at all to 1.
func (o *order) apart(cost []time.Duration) float64 {
	sum, blocks := 0.0, 0
	for part := range slices.Chunk(o.class, alikeBlock) {
		least, most := never, time.Duration(0)
		for _, c := range part {
			if cost[c] >= 0 {
				least, most = min(least, cost[c]), max(most, cost[c])
			}
		}
		if most > 0 {
			sum += 1 - float64(least)/float64(most)
		}
		blocks++
	}
	return sum / float64(blocks)
}

// newOrder puts the classes in the order of what a task costs.
func (p *finish) newOrder(v *Situation, cost []time.Duration) *order {
	n := len(p.trees)
	o := &order{class: make([]int32, n), place: make([]int32, n), free: make([]time.Duration, 2*n), least: make([]machine.DeviceID, 2*n)}
	for c := range o.class {
		o.class[c] = int32(c)
	}
	slices.SortStableFunc(o.class, func(a, b int32) int { return cmp.Compare(cost[a], cost[b]) })
	for i, c := range o.class {
		o.place[c] = int32(i)
		o.free[n+i] = p.freeAt(v, c)
		if nodes := p.trees[c].node; len(nodes) > 0 {
			o.least[n+i] = slices.Min(nodes[len(nodes)/2:])
		}
	}
	for i := n - 1; i >= 1; i-- {
		o.free[i] = min(o.free[2*i], o.free[2*i+1])
		o.least[i] = min(o.least[2*i], o.least[2*i+1])
	}
	return o
}

// freeAt returns the earliest time at which a device of a class could begin a task: on a team
// that may be before it is free.
func (p *finish) freeAt(v *Situation, class int32) time.Duration {
	nodes := p.trees[class].node
	if len(nodes) == 0 {
		return never
	}
	at := p.seats[nodes[1]].key
	if at != never && v.Devices[nodes[1]].Team > 0 {
		return 0
	}
	return at
}

// refresh takes in that the first device of a class is another, or free at another time.
func (p *finish) refresh(v *Situation, class int32) {
	for _, o := range p.index.orders {
		k := int32(len(p.trees)) + o.place[class]
		o.free[k] = p.freeAt(v, class)
		for k /= 2; k >= 1; k /= 2 {
			at := min(o.free[2*k], o.free[2*k+1])
			if at == o.free[k] {
				break
			}
			o.free[k] = at
		}
	}
}

// search returns the better of best and the offers of the classes of a node.
func (p *finish) search(v *Situation, t *Ready, k *costs, node int, best offer) offer {
	p.index.steps++
	o, n := k.order, len(k.cost)
	if node >= n {
		return p.tryClass(v, t, int(o.class[node-n]), best)
	}
	base := max(v.Now, t.InputsAt)
	first, second := 2*node, 2*node+1
	at, later := k.bound(first, base), k.bound(second, base)
	if later < at {
		first, second, at, later = second, first, later, at
	}
	if k.mayBeat(first, at, best) {
		best = p.search(v, t, k, first, best)
	}
	if k.mayBeat(second, later, best) {
		best = p.search(v, t, k, second, best)
	}
	return best
}

// bound returns a time before which no device of a node ends the task, never if none can run it.
func (k *costs) bound(node int, base time.Duration) time.Duration {
	free, cost := k.order.free[node], k.least[node]
	if free == never || cost == never {
		return never
	}
	return max(base, free) + cost
}

// mayBeat reports whether a device of a node, none of which ends before at, may make a better
// offer than the best.
func (k *costs) mayBeat(node int, at time.Duration, best offer) bool {
	if at != best.finish {
		return at < best.finish
	}
	return at != never && (best.transfer > 0 || k.order.least[node] < best.device)
}
