package sched

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// adaptive learns where tasks do well. Use it when the same kernels come back
// many times and predictions miss something: a device that is slower than it
// says, a link others use, work that disturbs its neighbours.
//
// What it learns has two parts. For every (kernel, size) and device, how long
// an execution takes relative to its prediction. And for every (kernel, size,
// load) state and device a value: how the time from ready to done compares
// with what was expected when the task was placed. The penalty of a placement
// is to be done much later than expected. The choice is the earliest finish
// with both applied, so with no evidence, or with perfect predictions, it is
// what finish would choose. As learning makes mistakes, idle devices may steal.
//
// A value blames the device for all of the delay. That is wrong for tasks that
// wait for others, since theirs depends on where those went, so such kernels
// are placed by their paces alone; and small delays are put down to the queue.
//
// Now and then a task is sent to the device known least, so that a device
// written off once can come back; the chance is seeded and falls with the
// number of outcomes seen.
type adaptive struct {
	finish
	seen   seen
	rng    *rand.Rand
	rows   map[rowKey]*row
	clock  uint64    // counts uses of rows, to forget the oldest
	device []learned // by device, over all kernels: the guess for a new row
}

// rowKey is a kernel and the size of its work, in powers of two. Kernels count
// by name, since each graph may bring its own value of the same kernel.
type rowKey struct {
	kernel string
	size   int16
}

// row is the knowledge about a kernel at a size.
type row struct {
	used     uint64
	outcomes int
	chained  bool      // some of its tasks waited for others
	paces    []learned // by device: execution time
	values   []learned // by device × loadBuckets: time from ready to done
}

// learned is a ratio of real to predicted time, averaged over n outcomes.
type learned struct {
	ratio float64
	n     int
}

const (
	// minOutcomes is the number of outcomes from which a row is used, minValue the number
	// from which a value is.
	minOutcomes = 8
	minValue    = 16
	// forget is the weight of a new measurement in a moving average.
	forget = 0.2
	// maxRatio is the largest ratio of one measurement, so that one stall does not
	// rule a device out.
	maxRatio = 16
	// late is the value from which on a state counts as worse than expected,
	// maxValue the bound on its influence: values are averages over tasks in
	// like but not equal states.
	late     = 2.0
	maxValue = 2
	// loadBuckets are the loads told apart: waits of less than one run time
	// of the task, less than two, four, … and from 64 on.
	loadBuckets = 8
	// explore is the chance to explore with no outcomes; it halves when there
	// are exploreHalf of them.
	explore     = 0.05
	exploreHalf = 64
	// exploreWithin is the largest ratio of a device's predicted finish to the best one at
	// which it is explored; exploreOnce is the same for a device never tried in this row.
	exploreWithin = 1.5
	exploreOnce   = 8
	// maxRows is the most rows that are kept.
	maxRows = 1024
)

func newAdaptive(p Problem) Policy {
	return &adaptive{
		finish: finish{estimator: newEstimator(p)},
		rng:    rand.New(rand.NewPCG(p.Seed, 0x77656674)),
		rows:   make(map[rowKey]*row),
		device: make([]learned, len(p.Machine.Devices)),
	}
}

func (l *learned) add(x float64) {
	l.n++
	// A plain mean at first, a moving average once there are enough. The
	// conversion keeps the product from being fused with the sum, which would
	// give other bits on other architectures.
	l.ratio += float64((x - l.ratio) * max(forget, 1/float64(l.n)))
}

// keyOf returns the row a task with this much work belongs to.
func keyOf(kernel string, ops, bytes float64) rowKey {
	_, exp := math.Frexp(ops + bytes)
	return rowKey{kernel, int16(exp)}
}

// loadBucket returns the load a task meets that is expected to be done after
// span and to run for runs of it.
func loadBucket(span, runs time.Duration) int {
	waits := max(span-runs, 0) / max(runs, 1)
	return min(bits.Len64(uint64(waits)), loadBuckets-1)
}

// learn returns the row of a key, a new one if there is none.
func (p *adaptive) learn(k rowKey) *row {
	r := p.rows[k]
	if r == nil {
		if len(p.rows) >= maxRows {
			p.forgetOldest()
		}
		n := len(p.device)
		r = &row{paces: make([]learned, n), values: make([]learned, n*loadBuckets)}
		p.rows[k] = r
	}
	p.touch(r)
	return r
}

func (p *adaptive) touch(r *row) {
	p.clock++
	r.used = p.clock
}

// forgetOldest drops the row that was not used for longest. Uses are counted
// one by one, so there is exactly one.
func (p *adaptive) forgetOldest() {
	var oldest rowKey
	least := uint64(math.MaxUint64)
	for k, r := range p.rows {
		if r.used < least {
			oldest, least = k, r.used
		}
	}
	delete(p.rows, oldest)
}

// Observe learns from an outcome.
func (p *adaptive) Observe(o Outcome) {
	if o.Predicted <= 0 || o.Kernel == nil || o.Device < 0 {
		return
	}
	r := p.learn(keyOf(o.Kernel.Name, o.Ops, o.Bytes))
	ratio := ratioOf(o.Took, o.Predicted)
	if o.Failed {
		// The time was lost, and the task must run again.
		ratio = min(2*max(ratio, 1), maxRatio)
	}
	r.outcomes++
	r.paces[o.Device].add(ratio)
	p.device[o.Device].add(ratio)
	if o.Expected > 0 && !o.Failed {
		r.value(o.Device, o.Expected, o.Predicted).add(ratioOf(o.Turnaround, o.Expected))
	}
}

func ratioOf(took, predicted time.Duration) float64 {
	return min(max(float64(took)/float64(predicted), 1.0/maxRatio), maxRatio)
}

// pace returns the learned ratio for a device, from its own row if possible.
func (p *adaptive) pace(r *row, d machine.DeviceID) float64 {
	switch {
	case r.paces[d].n > 0:
		return r.paces[d].ratio
	case p.device[d].n > 0:
		return p.device[d].ratio
	}
	return 1
}

// value returns the value of a state on a device.
func (r *row) value(d machine.DeviceID, span, runs time.Duration) *learned {
	return &r.values[int(d)*loadBuckets+loadBucket(span, runs)]
}

// worth returns the factor the learned value puts on a span.
func (r *row) worth(d machine.DeviceID, span, runs time.Duration) float64 {
	w := r.value(d, span, runs)
	if r.chained || w.n < minValue || w.ratio < late {
		return 1
	}
	// Where every device is as late, other work is the reason and not the
	// device: only what sets it apart counts.
	base := w.ratio
	for k := range r.paces {
		if o := r.value(machine.DeviceID(k), span, runs); o.n >= minValue {
			base = min(base, o.ratio)
		}
	}
	ratio := w.ratio / max(base, 1)
	if ratio < late {
		return 1
	}
	return min(ratio, maxValue)
}

// foresee predicts t on d with what was learned. o.finish is the cost model's prediction
// at the learned pace; felt is that duration times the learned worth, which decides.
func (p *adaptive) foresee(v *Situation, t *Ready, r *row, d machine.DeviceID) (o offer, felt time.Duration) {
	o = offer{device: d, transfer: p.transfer(v, t, d)}
	plain := runs(v, t, d)
	o.runs = time.Duration(float64(plain) * p.pace(r, d))
	o.finish = v.begins(t, d) + o.transfer + o.runs
	return o, time.Duration(float64(o.finish-v.Now) * r.worth(d, o.finish-v.Now, plain))
}

// choose returns the offer taken, what it feels like, and the row it was
// judged by, nil where there is too little evidence and finish decides.
func (p *adaptive) choose(v *Situation, t *Ready) (offer, time.Duration, *row) {
	var r *row
	if t.Kernel != nil {
		r = p.rows[keyOf(t.Kernel.Name, t.Ops, t.Bytes)]
	}
	if r == nil || r.outcomes < minOutcomes || p.trusts(t, r) {
		o, _ := p.finish.choose(v, t)
		return o, o.finish - v.Now, nil
	}
	best, bestFelt := noOffer, time.Duration(0)
	for k := range v.Devices {
		d := machine.DeviceID(k)
		if judge(v, t, d) != fits {
			continue
		}
		o, felt := p.foresee(v, t, r, d)
		if d == t.Hint {
			felt -= time.Duration(hintMargin * float64(o.runs))
		}
		if best.device < 0 || felt < bestFelt || felt == bestFelt && o.before(best) {
			best, bestFelt = o, felt
		}
	}
	// What was learned must say so clearly for finish to be wrong: small
	// differences are noise, and following noise costs more than it brings.
	if o, _ := p.finish.choose(v, t); o.device >= 0 && o.device != best.device {
		sure, felt := p.foresee(v, t, r, o.device)
		if float64(felt-bestFelt) <= doubt*float64(sure.runs) {
			return sure, felt, r
		}
	}
	return best, bestFelt, r
}

// trusts reports whether a plan has a device for t that is no slower, by what was
// learned, than the plan supposes.
func (p *adaptive) trusts(t *Ready, r *row) bool {
	d := p.plans.told(t)
	if d < 0 {
		return false
	}
	least := p.pace(r, d)
	for k := range p.device {
		least = min(least, p.pace(r, machine.DeviceID(k)))
	}
	return p.pace(r, d) <= (1+doubt)*least
}

// Plan plans as finish does, unless devices were found to differ from what plans are
// made by.
func (p *adaptive) Plan(run *Run) Plan {
	least, most := math.Inf(1), 0.0
	for _, l := range p.device {
		if l.n >= minOutcomes {
			least, most = min(least, l.ratio), max(most, l.ratio)
		}
	}
	if most > (1+doubt)*least {
		return Plan{}
	}
	return p.finish.Plan(run)
}

// doubt is the gain over the choice of finish, as a fraction of the task's duration there,
// from which a learned choice is followed.
const doubt = 0.25

// curious returns another device to try instead of best: among those not much
// later the one with the least evidence.
func (p *adaptive) curious(v *Situation, t *Ready, r *row, best offer) offer {
	span := float64(best.finish - v.Now)
	least, taken := r.paces[best.device].n, best
	for k := range v.Devices {
		d := machine.DeviceID(k)
		if d == best.device || r.paces[d].n >= least || judge(v, t, d) != fits {
			continue
		}
		within := exploreWithin
		if r.paces[d].n == 0 {
			within = exploreOnce
		}
		if o, _ := p.foresee(v, t, r, d); float64(o.finish-v.Now) <= within*span {
			least, taken = r.paces[d].n, o
		}
	}
	return taken
}

func (p *adaptive) Place(v *Situation, out []Placement) []Placement {
	p.update(v)
	p.seen.add(v)
	for i := range v.Tasks {
		t := &v.Tasks[i]
		o, _, r := p.choose(v, t)
		if o.device < 0 {
			continue
		}
		// A detour of a task in a chain would delay all that follow.
		if r != nil && t.Hint < 0 && t.Near < 0 && p.rng.Float64() < explore*exploreHalf/(exploreHalf+float64(r.outcomes)) {
			o = p.curious(v, t, r, o)
		}
		if r != nil {
			p.touch(r)
			r.chained = r.chained || t.InputsAt > v.Now
		}
		out = p.take(v, i, o, out)
	}
	return out
}

// Steal is as in the policy steal, with the learned pace of the thief.
func (p *adaptive) Steal(v *Situation, thief machine.DeviceID) machine.DeviceID {
	pace := 1.0
	if p.device[thief].n > 0 {
		pace = p.device[thief].ratio
	}
	victim := p.seen.victim(v, thief, pace)
	if victim >= 0 && p.plans.onTime(&v.Devices[victim]) {
		return -1
	}
	return victim
}

func (p *adaptive) Explain(v *Situation, i int) Explanation {
	p.update(v)
	t := &v.Tasks[i]
	o, felt, r := p.choose(v, t)
	if r == nil {
		e := p.finish.Explain(v, i)
		e.Policy = "adaptive"
		if e.Chosen >= 0 {
			e.Why += fmt.Sprintf(" (fewer than %d outcomes of this kernel and size: as finish)", minOutcomes)
		}
		return e
	}
	e := p.explain(v, i, "adaptive", o.device, func(d machine.DeviceID) string {
		l, _ := p.foresee(v, t, r, d)
		return fmt.Sprintf("pace %.2f from %s, value %.2f", p.pace(r, d), text.Count(r.paces[d].n, "outcome"), r.worth(d, l.finish-v.Now, runs(v, t, d)))
	})
	for k := range e.Rows { // show what it went by, not the plain prediction
		if w := &e.Rows[k]; !w.Out {
			l, _ := p.foresee(v, t, r, w.Device)
			w.Runs, w.Finishes = l.runs, l.finish-v.Now
		}
	}
	if e.Chosen >= 0 {
		e.Why = fmt.Sprintf("%s does it soonest by what %s taught, in %v", p.name(o.device), text.Count(r.outcomes, "outcome"), Round(felt))
	}
	return e
}
