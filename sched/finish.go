package sched

import (
	"fmt"
	"math"
	"time"

	"github.com/weft-run/weft/machine"
)

// finish sends every task to the device predicted to finish it first, with
// the copies of its inputs counted (HEFT's processor selection, Topcuoglu 2002
// section 4; StarPU calls it dmda). It is the default: use another policy only
// when predictions are poor or something else than time matters.
//
// A task is not tried on every device. Devices of a class cost the same, so of
// those that hold none of its inputs only the one that is free first can win:
// a tournament tree per class keeps it at hand. Beside these winners the
// devices that hold or make an input, the hint and slowed devices are tried, so a
// task costs O(classes + holders + log devices), and where classes are many O(√classes)
// instead of classes (index.go).
//
// Deciding task by task is short-sighted: a long chain waits behind work that could
// wait, and copies compete for links that no prediction included. So a graph that has
// the devices to itself, and tasks long enough to pay for it, is rehearsed as a whole
// before it begins (planMaker), and tasks go where the best of those schedules has them.
type finish struct {
	estimator
	trees []tree
	seats []seat
	apart []machine.DeviceID // slowed devices, in no tree, ascending
	index index              // of the classes, where they are many
	plans planMaker          // what is decided for whole graphs
}

// seat is the position of a device in the trees.
type seat struct {
	class int32
	leaf  int32         // in its class's tree, 0 when it is kept apart
	key   time.Duration // FreeAt, or never when it does not accept work
}

const never = time.Duration(math.MaxInt64)

// tree is a tournament over the devices of a class: node[1] is the one with
// the smallest key, node[k] the winner of node[2k] and node[2k+1], and the
// upper half are the devices themselves.
type tree struct{ node []machine.DeviceID }

// hintMargin is the gain over the hinted device, as a fraction of the task's duration
// there, above which another device is chosen in spite of the hint.
const hintMargin = 0.1

// handOver is the extra cost of waiting for the result of another device rather than
// the same one: about a wake-up between two threads, and no less on a GPU.
const handOver = 2 * time.Microsecond

func newFinish(p Problem) Policy { return &finish{estimator: newEstimator(p)} }

func (p *finish) Place(v *Situation, out []Placement) []Placement {
	p.update(v)
	alike := len(p.trees) == 1 && len(p.apart) == 0 && p.plans.active == 0
	for i := range v.Tasks {
		t := &v.Tasks[i]
		if alike && len(t.Inputs) == 0 && t.Only == nil && t.Hint < 0 {
			if d, finish := p.first(v, t); d >= 0 {
				out = append(out, Placement{Task: int32(i), Device: d, Finish: finish})
				continue
			}
		}
		if o, _ := p.choose(v, t); o.device >= 0 {
			out = p.take(v, i, o, out)
		}
	}
	return out
}

// first does what choose and take do for a task without copies, hint and
// constraint where all devices are alike, the commonest case by far: it goes to
// the device that is free first, or behind its last input. It returns -1,
// having done nothing, when that one cannot take it.
func (p *finish) first(v *Situation, t *Ready) (machine.DeviceID, time.Duration) {
	d := p.trees[0].node[1]
	dev, cost := &v.Devices[d], t.Cost[0]
	if cost < 0 || !dev.Accepts || t.need(dev) > min(dev.CapBytes, dev.FreeBytes) {
		return -1, 0
	}
	base := max(v.Now, t.InputsAt)
	finish := max(base, dev.FreeAt) + cost
	if t.Near >= 0 && t.Near != d {
		near := &v.Devices[t.Near]
		if at := max(base, near.FreeAt) + cost; at <= finish+handOver && near.Accepts && t.need(near) <= near.CapBytes {
			d, dev, finish = t.Near, near, at
		}
	}
	if dev.Team > 0 {
		return p.firstTeam(v, t, d)
	}
	dev.FreeAt = finish
	dev.Queued++
	if dev.Crowd > 0 {
		v.Delay(d, cost)
		p.replay(v, d)
	} else {
		p.replayOne(v, d)
	}
	return d, finish
}

// firstTeam gives a task to a team that first has chosen.
func (p *finish) firstTeam(v *Situation, t *Ready, d machine.DeviceID) (machine.DeviceID, time.Duration) {
	finish := v.assign(t, d, 0, t.Cost[0])
	p.replay(v, d)
	return d, finish
}

// take accepts an offer for v.Tasks[i] and records it.
func (p *finish) take(v *Situation, i int, o offer, out []Placement) []Placement {
	finish := v.Assign(i, o.device, o.transfer, o.runs)
	p.replay(v, o.device)
	return append(out, Placement{Task: int32(i), Device: o.device, Finish: finish})
}

// choose returns the offer taken, and the best one if the hint was left out.
func (p *finish) choose(v *Situation, t *Ready) (taken, first offer) {
	best := noOffer
	if d := p.plans.told(t); d >= 0 && judge(v, t, d) == fits {
		o := p.offer(v, t, d)
		return o, o
	}
	if t.Only != nil {
		for _, d := range t.Only {
			best = p.try(v, t, d, best)
		}
	} else {
		// The order in which devices are tried does not matter; where few are tried of the
		// classes, the others come first, so that there is an offer to beat.
		var k *costs
		if len(p.trees) >= indexFrom {
			k = p.costs(v, t)
		}
		if k == nil {
			p.index.steps += uint64(len(p.trees))
			for c := range p.trees {
				best = p.tryClass(v, t, c, best)
			}
		}
		for _, d := range p.apart {
			best = p.try(v, t, d, best)
		}
		for i := range min(len(t.Inputs), maxCopies) {
			best = p.try(v, t, t.Inputs[i].At, best)
		}
		if k != nil {
			best = p.search(v, t, k, 1, best)
		}
	}
	if t.Near >= 0 && t.Near != best.device {
		// Most are clearly later and need no closer look.
		near := &v.Devices[t.Near]
		if v.begins(t, t.Near)+t.Cost[near.Class]-handOver <= best.finish && judge(v, t, t.Near) == fits {
			if o := p.offer(v, t, t.Near); o.finish-handOver <= best.finish {
				best = o
			}
		}
	}
	if t.Hint >= 0 && t.Hint != best.device && judge(v, t, t.Hint) == fits {
		if o := p.offer(v, t, t.Hint); hinted(o, best) {
			return o, best
		}
	}
	return best, best
}

// hinted reports whether the offer of the hinted device is near enough.
func hinted(hint, best offer) bool {
	return best.device < 0 || float64(hint.finish-best.finish) <= hintMargin*float64(hint.runs)
}

// tryClass tries the device of a class that is free first.
func (p *finish) tryClass(v *Situation, t *Ready, c int, best offer) offer {
	nodes := p.trees[c].node
	if len(nodes) == 0 || c >= len(t.Cost) || t.Cost[c] < 0 {
		return best
	}
	first := nodes[1]
	if p.seats[first].key == never {
		return best
	}
	dev := &v.Devices[first]
	if t.need(dev) <= dev.CapBytes {
		best = p.weigh(v, t, first, t.Cost[c], best)
		if t.Need <= dev.FreeBytes || dev.HostMemory {
			return best
		}
		// Others may have the room that this one would have to make: of many, those
		// that are free first of each part of the class.
		others := nodes[len(nodes)/2:]
		if len(others) > 2*maxCopies {
			others = nodes[2 : 2*maxCopies]
		}
		for _, d := range others {
			best = p.try(v, t, d, best)
		}
		return best
	}
	// The memory of single devices can shrink: another may be large enough.
	for _, d := range nodes[len(nodes)/2:] {
		best = p.try(v, t, d, best)
	}
	return best
}

// try returns the better of best and what d offers, if it fits.
func (p *finish) try(v *Situation, t *Ready, d machine.DeviceID, best offer) offer {
	if d == best.device || judge(v, t, d) != fits {
		return best
	}
	return p.weigh(v, t, d, runs(v, t, d), best)
}

// weigh returns the better of best and d, which would run t for runs.
func (p *finish) weigh(v *Situation, t *Ready, d machine.DeviceID, runs time.Duration, best offer) offer {
	finish := v.begins(t, d) + runs
	if finish > best.finish {
		return best // it would lose even without copies
	}
	transfer := p.transfer(v, t, d)
	if o := (offer{d, finish + transfer, transfer, runs}); o.before(best) {
		return o
	}
	return best
}

// update brings the trees up to the situation.
func (p *finish) update(v *Situation) {
	p.begin()
	for _, d := range v.Dirty {
		if p.plans.active == 0 {
			break
		}
		p.plans.look(d, &v.Devices[d])
	}
	if len(p.seats) != len(v.Devices) || len(p.trees) != int(v.Classes) {
		p.build(v)
		return
	}
	for _, d := range v.Dirty {
		dev, s := &v.Devices[d], &p.seats[d]
		if dev.Class != s.class || isSlowed(dev) != (s.leaf == 0) {
			p.build(v)
			return
		}
		p.replay(v, d)
	}
}

func isSlowed(d *Device) bool { return d.Slow != 1 && d.Slow > 0 }

// build makes the trees anew.
func (p *finish) build(v *Situation) {
	p.seats = make([]seat, len(v.Devices))
	p.trees = make([]tree, v.Classes)
	p.apart = nil
	p.index.clear()
	members := make([][]machine.DeviceID, v.Classes)
	for i := range v.Devices {
		d, dev := machine.DeviceID(i), &v.Devices[i]
		p.seats[d] = seat{class: dev.Class, key: key(dev)}
		if isSlowed(dev) {
			p.apart = append(p.apart, d)
		} else {
			members[dev.Class] = append(members[dev.Class], d)
		}
	}
	for c, devs := range members {
		n := len(devs)
		if n == 0 {
			continue
		}
		node := make([]machine.DeviceID, 2*n)
		copy(node[n:], devs)
		for k, d := range devs {
			p.seats[d].leaf = int32(n + k)
		}
		for k := n - 1; k >= 1; k-- {
			node[k] = p.winner(node[2*k], node[2*k+1])
		}
		p.trees[c].node = node
	}
}

func key(d *Device) time.Duration {
	if !d.Accepts {
		return never
	}
	return d.FreeAt
}

// replay plays the matches of d, and of those that compute on the same cores,
// again after their keys changed.
func (p *finish) replay(v *Situation, d machine.DeviceID) {
	p.replayOne(v, d)
	if k := v.Devices[d].Crowd; k > 0 {
		for _, o := range v.Crowds[k-1].Devices {
			p.replayOne(v, o)
		}
	}
}

func (p *finish) replayOne(v *Situation, d machine.DeviceID) {
	s := &p.seats[d]
	s.key = key(&v.Devices[d])
	node := p.trees[s.class].node
	for k := s.leaf / 2; k >= 1; k /= 2 {
		w := p.winner(node[2*k], node[2*k+1])
		if w == node[k] && w != d {
			return // d neither won here before nor does now
		}
		node[k] = w
	}
	if s.leaf > 0 && len(p.index.orders) > 0 {
		p.refresh(v, s.class)
	}
}

// winner is the device with the smaller key, the lower one of two equal.
func (p *finish) winner(a, b machine.DeviceID) machine.DeviceID {
	ka, kb := p.seats[a].key, p.seats[b].key
	if kb < ka || kb == ka && b < a {
		return b
	}
	return a
}

func (p *finish) Explain(v *Situation, i int) Explanation {
	p.update(v)
	t := &v.Tasks[i]
	taken, first := p.choose(v, t)
	e := p.explain(v, i, "finish", taken.device, nil)
	switch {
	case e.Chosen < 0:
	case e.Chosen == p.plans.told(t):
		e.Why = fmt.Sprintf("the plan for the whole graph has it on %s, which finishes it at %v", p.name(e.Chosen), Round(taken.finish-v.Now))
	default:
		e.Why = p.why(v, t, &e, taken, first)
	}
	return e
}

// why puts a choice by finish time into words.
func (p *estimator) why(v *Situation, t *Ready, e *Explanation, taken, first offer) string {
	in := taken.finish - v.Now
	at := Round(in)
	switch {
	case taken.device == t.Hint && first.device != t.Hint && first.device >= 0:
		return fmt.Sprintf("%s is the hint and finishes at %v, within 10 %% of its run time %v of %s at %v",
			p.name(taken.device), at, Round(taken.runs), p.name(first.device), Round(first.finish-v.Now))
	case len(t.Only) == 1:
		return fmt.Sprintf("%s is the only device allowed and finishes at %v", p.name(taken.device), at)
	}
	next := -1
	for k, r := range e.Rows {
		if !r.Out && r.Device != taken.device && (next < 0 || r.Finishes < e.Rows[next].Finishes) {
			next = k
		}
	}
	if next < 0 {
		return fmt.Sprintf("%s finishes at %v and nothing else can take it", p.name(taken.device), at)
	}
	if e.Rows[next].Finishes == in {
		return fmt.Sprintf("%s finishes at %v, and so would %s", p.name(taken.device), at, p.name(e.Rows[next].Device))
	}
	return fmt.Sprintf("%s finishes at %v; the next best, %s, at %v", p.name(taken.device), at,
		p.name(e.Rows[next].Device), Round(e.Rows[next].Finishes))
}

// Steal lets a device with nothing left take from the one that is predicted to be done
// last, which corrects errors of the predictions that placed its tasks.
func (p *finish) Steal(v *Situation, thief machine.DeviceID) machine.DeviceID {
	victim := machine.DeviceID(-1)
	for i := range v.Devices {
		d := machine.DeviceID(i)
		if d != thief && v.Devices[i].Queued > 1 && (victim < 0 || v.Devices[i].FreeAt > v.Devices[victim].FreeAt) {
			victim = d
		}
	}
	if victim >= 0 && p.plans.onTime(&v.Devices[victim]) {
		return -1
	}
	return victim
}
