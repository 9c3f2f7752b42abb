package cut

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/machine"
)

// The rule that chooses the devices of some work, among sets of them.
//
// What runs on a set took counts over what is predicted of it: that tasks of the CPU and
// copies to a GPU disturb one another, and by how much that varies, no prediction knows. A
// larger set is used where it gains more than is uncertain about it. A set that was hardly
// ever used is tried while it may be the best; one that was found to be worse is tried again
// so rarely that it costs next to nothing.
const (
	// fewTrials is the number of runs on a set from which their mean counts, and
	// manyTrials the number up to which a set that may still be the best is tried.
	fewTrials, manyTrials = 3, 5
	// hopeless is how many times longer than on the best set work is predicted to take on a
	// set that is not even tried. Predictions are off by less.
	hopeless = 1.5
	// retryAfter is the least number of runs on other sets after which one is tried again,
	// and retryCost what that may cost, as a part of all time: a set that may still be the
	// best (maybe), and one that is surely not, in case something has changed.
	maybeAfter, retryAfter = 8, 64
	maybeCost, retryCost   = 0.02, 0.01
	// surely is how many standard errors below its mean a set may be in truth.
	surely = 2
)

// way is some work cut for a set of devices.
type way struct {
	on        []machine.DeviceID
	name      string // of the work and the devices
	plan      *Plan
	predicted time.Duration
	overhead  time.Duration // what starting and awaiting all devices but one costs
	trials    machine.Trials
}

// known reports whether the way's runs say what it takes.
func (w *way) known() bool { return w.trials.Runs >= fewTrials }

// takes is what work takes this way: measured if it is known, predicted if not.
func (w *way) takes() time.Duration {
	if w.known() {
		return w.trials.Mean
	}
	return w.predicted
}

// doubt is by how much the way must be better than one with fewer devices beyond overhead.
// The way that was used last stays until it is measured to be worse.
func (w *way) doubt() time.Duration {
	if w.known() && w.trials.Since > 0 {
		return w.trials.Doubt
	}
	return 0
}

// costs is what a way counts with against one with fewer devices.
func (w *way) costs() time.Duration {
	if w.known() {
		return w.takes() + w.doubt()
	}
	return w.takes() + w.overhead
}

// choose returns the best of some ways, of which those with fewer devices come first, and
// the one to use now: that one, or one to learn about.
func choose(ways []way) (best, pick int) {
	for i := range ways {
		if i > 0 && ways[i].costs() < ways[best].takes() {
			best = i
		}
	}
	if !ways[best].known() {
		return best, best
	}
	least := ways[best].takes()
	for i := range ways {
		if w := &ways[i]; !w.known() && float64(w.predicted) < hopeless*float64(least) {
			return best, i
		}
	}
	for i := range ways {
		w := &ways[i]
		if i == best || !w.known() {
			continue
		}
		excess, since := float64(w.takes()-least)/float64(max(least, 1)), float64(w.trials.Since)
		maybe := w.takes()-surely*w.trials.Doubt < least
		switch {
		case maybe && w.trials.Runs < manyTrials,
			maybe && since >= max(maybeAfter, excess/maybeCost),
			since >= max(retryAfter, excess/retryCost):
			return best, i
		}
	}
	return best, best
}

// ways cuts work for sets of devices: the one that is done first alone, more and more kinds
// of devices in the order of how fast they are alone, and those that p is cut for.
func (v *View) ways(w Work, p *Plan) ([]way, error) {
	all, _ := v.lineUp(w.Pieces, &w.Whole)
	var ways []way
	add := func(set []machine.DeviceID, p *Plan) {
		x := way{on: set, plan: p, predicted: p.Prediction.Median, name: workName(w, p) + v.on(set)}
		x.trials = v.Cost.Trials(x.name, workSize(w))
		for _, d := range set {
			x.overhead += all[d].reply
		}
		x.overhead -= all[fastest(p.Prediction.Alone, all, set)].reply
		ways = append(ways, x)
	}
	widest := devicesOf(p.Partition)
	for _, set := range v.sets(p.Prediction.Alone, widest) {
		part, err := v.divide(w.Pieces, all, set)
		if err != nil {
			return nil, err
		}
		one, err := v.build(w, part, set)
		if err != nil {
			return nil, err
		}
		one.Prediction.Alone, one.Prediction.Why = p.Prediction.Alone, p.Prediction.Why
		add(set, one)
	}
	add(widest, p)
	return ways, nil
}

// fastest returns the device of a set that is done first alone.
func fastest(alone []time.Duration, all []candidate, set []machine.DeviceID) machine.DeviceID {
	takes := func(d machine.DeviceID) time.Duration {
		if d := int(d); d < len(alone) && alone[d] > 0 {
			return alone[d]
		}
		return all[d].alone
	}
	return slices.MinFunc(set, func(a, b machine.DeviceID) int { return cmp.Compare(takes(a), takes(b)) })
}

// sets returns the sets of devices smaller than the widest that work is cut for, smaller
// ones first: of each kind that is not hopeless one device alone, then all devices of the
// fastest kind, of the two fastest kinds and so on.
func (v *View) sets(alone []time.Duration, widest []machine.DeviceID) (sets [][]machine.DeviceID) {
	classes := v.Machine.Classes()
	order := slices.DeleteFunc(slices.Clone(widest), func(d machine.DeviceID) bool { return alone[d] == 0 })
	slices.SortStableFunc(order, func(a, b machine.DeviceID) int {
		return cmp.Or(cmp.Compare(alone[a], alone[b]), cmp.Compare(classes[a], classes[b]))
	})
	if len(widest) < 2 {
		return nil
	}
	for i, d := range order {
		if i == 0 || classes[d] != classes[order[i-1]] && float64(alone[d]) < hopeless*float64(alone[order[0]]) {
			sets = append(sets, []machine.DeviceID{d})
		}
	}
	for i := 1; i+1 < len(order); i++ {
		if classes[order[i]] != classes[order[i+1]] { // devices of a kind are used together
			set := slices.Clone(order[:i+1])
			slices.Sort(set)
			sets = append(sets, set)
		}
	}
	return sets
}

// workName names work in what is remembered of it: its kernels, and how much of its data is
// on devices already.
func workName(w Work, p *Plan) string {
	var names []string
	for _, s := range w.Whole.Steps {
		if !slices.Contains(names, s.Kernel.Name) {
			names = append(names, s.Kernel.Name)
		}
	}
	name := strings.Join(names, ", ")
	if n := len(p.resident); n > 0 {
		name += fmt.Sprintf(", %d resident", n)
	}
	return name
}

// workSize is how large work is, however it is cut.
func workSize(w Work) float64 { return w.Whole.Work.Ops + w.Whole.Work.Bytes }

// settle returns the plan of the way that is used. Its partition states what is known of the
// best way and of the best device alone, and which way is used if it is another.
func (v *View) settle(ways []way, best, pick int, size float64) *Plan {
	p := ways[pick].plan
	widest := ways[len(ways)-1].plan
	c := *widest.Partition.Choice
	was, gain, classes := c.One(), c.Gain(), v.Machine.Classes()
	c.Alone, c.Copies = slices.Clone(widest.Prediction.Alone), make([]time.Duration, len(widest.Prediction.Alone))
	if c.Best() < 0 {
		return p
	}
	switch several := -1; {
	case len(ways) > 1:
		for i := range ways {
			switch w := &ways[i]; {
			case len(w.on) > 1:
				if several < 0 || w.costs() < ways[several].takes() {
					several = i
				}
			default: // devices of a kind take the same
				for d, class := range classes {
					if class == classes[w.on[0]] && c.Alone[d] > 0 {
						c.Alone[d] = w.takes()
					}
				}
			}
		}
		c.Together, c.Overhead, c.Doubt = ways[several].takes(), ways[several].overhead, ways[several].doubt()
		if ways[several].known() {
			c.Overhead = 0
		}
	case was: // what splitting would gain only Split can tell
		c.Together = c.Alone[c.Best()] - gain
	default:
		c.Together = widest.Prediction.Median
	}
	p.Partition.Choice, p.Partition.Why = &c, c.String()
	if pick != best {
		var names []string
		for _, d := range ways[pick].on {
			names = append(names, v.Machine.Devices[d].Name)
		}
		p.Partition.Why += "; now on " + strings.Join(names, " and ") + ", to learn what that takes"
	}
	if len(ways) > 1 {
		p.Expected.Trial, p.Expected.Work = ways[pick].name, size
		for i := range ways {
			if i != pick {
				p.Expected.Others = append(p.Expected.Others, ways[i].name)
			}
		}
	}
	return p
}
