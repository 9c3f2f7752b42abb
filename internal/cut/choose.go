package cut

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// The rule that chooses the devices of some work, among sets of them.
//
// Measured durations of runs on a set count over its prediction, because no prediction knows
// how much tasks of the CPU and copies to a GPU disturb one another. A larger set is used
// where it gains more than the uncertainty of the comparison. A set with few runs is tried
// while it may be the best; one that was measured to be slower is tried again so rarely that
// it costs about 1 % of the time (retryCost).
const (
	// fewTrials is the number of runs on a set from which their mean counts, and
	// manyTrials the number up to which a set that may still be the best is tried.
	fewTrials, manyTrials = 3, 5
	// hopeless is the ratio of predicted to best measured duration from which a set is never
	// tried. Predictions are off by less than this factor.
	hopeless = 1.5
	// maybeAfter and retryAfter are the least numbers of runs on other sets after which a set
	// is tried again; maybeCost and retryCost are the parts of all time that such trials may
	// cost. The first of each holds for a set that may still be the best, the second for one
	// that is surely not, which is tried in case the machine has changed.
	maybeAfter, retryAfter = 8, 64
	maybeCost, retryCost   = 0.02, 0.01
	// surely is the number of standard errors by which the true mean of a set may lie below
	// the measured one.
	surely = 2
)

// setPlan is the plan of some work for one set of devices.
type setPlan struct {
	on        []machine.DeviceID
	name      string // of the work and the devices
	plan      *Plan
	predicted time.Duration
	overhead  time.Duration // of starting and awaiting all devices but one
	trials    machine.Trials
}

// known reports whether enough runs were measured on the set for their mean to count.
func (w *setPlan) known() bool { return w.trials.Runs >= fewTrials }

// takes returns the duration of the work on the set: measured if it is known, else predicted.
func (w *setPlan) takes() time.Duration {
	if w.known() {
		return w.trials.Mean
	}
	return w.predicted
}

// doubt returns by how much the set must be faster than one with fewer devices, beyond its
// overhead. It is 0 for the set used last, which stays until it is measured to be slower.
func (w *setPlan) doubt() time.Duration {
	if w.known() && w.trials.Since > 0 {
		return w.trials.Doubt
	}
	return 0
}

// costs returns the duration by which a set is compared with sets of fewer devices.
func (w *setPlan) costs() time.Duration {
	if w.known() {
		return w.takes() + w.doubt()
	}
	return w.takes() + w.overhead
}

// choose returns the best of some plans, which are ordered by their number of devices, and
// the one to use now: the best, or one whose duration is to be measured.
func choose(plans []setPlan) (best, pick int) {
	for i := range plans {
		if i > 0 && plans[i].costs() < plans[best].takes() {
			best = i
		}
	}
	if !plans[best].known() {
		return best, best
	}
	least := plans[best].takes()
	for i := range plans {
		if w := &plans[i]; !w.known() && float64(w.predicted) < hopeless*float64(least) {
			return best, i
		}
	}
	for i := range plans {
		w := &plans[i]
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

// setPlans cuts work for sets of devices: the single fastest device, then more and more kinds
// of devices in the order of their speed alone, and last the devices that p is cut for.
func (v *Knowledge) setPlans(w Divisible, p *Plan) ([]setPlan, error) {
	all, _ := v.lineUp(w.Items, &w.Whole)
	var plans []setPlan
	add := func(set []machine.DeviceID, p *Plan) {
		x := setPlan{on: set, plan: p, predicted: p.Prediction.Median, name: workName(w, p) + v.on(set)}
		x.trials = v.Cost.Trials(x.name, workSize(w))
		for _, d := range set {
			x.overhead += all[d].reply
		}
		x.overhead -= all[fastest(p.Prediction.Alone, all, set)].reply
		plans = append(plans, x)
	}
	widest := devicesOf(p.Partition)
	for _, set := range v.sets(p.Prediction.Alone, widest) {
		part, err := v.divide(w.Items, all, set)
		if err != nil {
			return nil, err
		}
		one, err := v.build(w, part, set)
		if errors.Is(err, engine.ErrOutOfMemory) {
			continue // its devices alone cannot do it
		}
		if err != nil {
			return nil, err
		}
		one.Prediction.Alone, one.Prediction.Why = p.Prediction.Alone, p.Prediction.Why
		add(set, one)
	}
	add(widest, p)
	return plans, nil
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
func (v *Knowledge) sets(alone []time.Duration, widest []machine.DeviceID) (sets [][]machine.DeviceID) {
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

// workName names work in the history of its durations: by its kernels, and by the number of
// its data that are on devices already.
func workName(w Divisible, p *Plan) string {
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

// workSize returns the size of work, operations plus bytes, which does not depend on the cut.
func workSize(w Divisible) float64 { return w.Whole.Work.Ops + w.Whole.Work.Bytes }

// settle returns the plan for the set that is used. Its partition states the durations of the
// best set and of the best device alone, and which set is used if that is another.
func (v *Knowledge) settle(plans []setPlan, best, pick int, size float64) *Plan {
	p := plans[pick].plan
	widest := plans[len(plans)-1].plan
	c := *widest.Partition.Choice
	was, gain, classes := c.One(), c.Gain(), v.Machine.Classes()
	c.Alone, c.Copies = slices.Clone(widest.Prediction.Alone), make([]time.Duration, len(widest.Prediction.Alone))
	if c.Best() < 0 {
		return p
	}
	switch several := -1; {
	case len(plans) > 1:
		for i := range plans {
			switch w := &plans[i]; {
			case len(w.on) > 1:
				if several < 0 || w.costs() < plans[several].takes() {
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
		c.Together, c.Overhead, c.Doubt = plans[several].takes(), plans[several].overhead, plans[several].doubt()
		if plans[several].known() {
			c.Overhead = 0
		}
	case was: // only Split knows the gain of several devices
		c.Together = c.Alone[c.Best()] - gain
	default:
		c.Together = widest.Prediction.Median
	}
	p.Partition.Choice, p.Partition.Why = &c, c.String()
	if pick != best {
		var names []string
		for _, d := range plans[pick].on {
			names = append(names, v.Machine.Devices[d].Name)
		}
		p.Partition.Why += "; now on " + strings.Join(names, " and ") + ", to learn what that takes"
	}
	if len(plans) > 1 {
		p.Expected.Trial, p.Expected.Work = plans[pick].name, size
		for i := range plans {
			if i != pick {
				p.Expected.Others = append(p.Expected.Others, plans[i].name)
			}
		}
	}
	return p
}
