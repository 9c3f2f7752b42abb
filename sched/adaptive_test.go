package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// bench is a small machine in virtual time on which policies are compared:
// devices with first-in first-out queues, tasks that arrive over time, and
// real durations that differ from the predicted ones.
type bench struct {
	classes []int32   // by device
	truth   []float64 // by device: real over predicted time
	// make returns the tasks of a run in order of arrival.
	make func(r *rand.Rand) []arrival
}

type arrival struct {
	at       time.Duration
	kernel   *graph.Kernel
	cost     []time.Duration // by class
	priority int
}

type job struct {
	arrival
	noise     float64
	start     time.Duration
	predicted time.Duration // by the model
	planned   time.Duration // by the policy: what it adds to its device
	expected  time.Duration // by the policy: from arrival to done
}

// run plays one run and returns its makespan. It is a plain event loop: at
// every arrival or completion it places, steals and starts what it can.
func (b *bench) run(p Policy, seed uint64) (makespan time.Duration) {
	r := rand.New(rand.NewPCG(seed, 9))
	todo := b.make(r)
	n := len(b.classes)
	queues, ends := make([][]job, n), make([]time.Duration, n)
	v := &Situation{Classes: slices.Max(b.classes) + 1, Devices: make([]Device, n)}
	for d := range v.Devices {
		v.Devices[d] = Device{Class: b.classes[d], Accepts: true, Slow: 1, CapBytes: 1 << 40, FreeBytes: 1 << 40, Score: 80 / float64(1+b.classes[d])}
		v.Dirty = append(v.Dirty, machine.DeviceID(d))
	}
	update := func() {
		for d, q := range queues {
			at := v.Now
			for k := range q {
				if k == 0 && ends[d] > 0 {
					at = max(at, q[0].start+q[0].planned)
				} else {
					at += q[k].planned
				}
			}
			v.Devices[d].FreeAt, v.Devices[d].Queued = at, int32(len(q))
		}
	}
	for {
		v.Tasks = v.Tasks[:0]
		for k := 0; k < len(todo) && todo[k].at <= v.Now; k++ {
			a := &todo[k]
			v.Tasks = append(v.Tasks, Ready{Task: graph.TaskID(k), Kernel: a.kernel, Ops: float64(a.cost[0]), Priority: a.priority, Cost: a.cost, Hint: -1, Near: -1})
		}
		update()
		if len(v.Tasks) > 0 {
			last := make([]time.Duration, n)
			for d := range last {
				last[d] = v.Devices[d].FreeAt
			}
			for _, pl := range p.Place(v, nil) {
				d, a := pl.Device, todo[pl.Task]
				queues[d] = append(queues[d], job{arrival: a, noise: 0.9 + 0.2*r.Float64(),
					predicted: a.cost[b.classes[d]], planned: pl.Finish - last[d], expected: pl.Finish - a.at})
				last[d] = pl.Finish
			}
			todo = todo[len(v.Tasks):]
		}
		if s, ok := p.(Stealer); ok { // idle devices take the last task of another
			for d := range queues {
				if len(queues[d]) > 0 {
					continue
				}
				if from := s.Steal(v, machine.DeviceID(d)); from >= 0 {
					last := len(queues[from]) - 1
					t := queues[from][last]
					queues[from] = queues[from][:last]
					t.predicted = t.cost[b.classes[d]]
					t.planned, t.expected = t.predicted, 0
					queues[d] = append(queues[d], t)
					update()
				}
			}
		}
		next := time.Duration(-1)
		for d := range queues {
			if ends[d] == 0 && len(queues[d]) > 0 {
				t := &queues[d][0]
				t.start = v.Now
				ends[d] = v.Now + time.Duration(float64(t.predicted)*b.truth[d]*t.noise)
			}
			if ends[d] > 0 && (next < 0 || ends[d] < next) {
				next = ends[d]
			}
		}
		if len(todo) > 0 && (next < 0 || todo[0].at < next) {
			next = todo[0].at
		}
		if next < 0 {
			return makespan
		}
		v.Now = next
		for d := range queues {
			if ends[d] == 0 || ends[d] > v.Now {
				continue
			}
			t := queues[d][0]
			queues[d], ends[d], makespan = queues[d][1:], 0, v.Now
			if o, ok := p.(Observer); ok {
				o.Observe(Outcome{Kernel: t.kernel, Ops: float64(t.cost[0]), Device: machine.DeviceID(d), Predicted: t.predicted,
					Took: v.Now - t.start, Turnaround: v.Now - t.at, Expected: t.expected})
			}
		}
	}
}

func all(n int, class int32) []int32 { return slices.Repeat([]int32{class}, n) }

// scenarios are those adaptive is held to, two waves of work each so that what
// the first shows can help the second.
func benches() map[string]*bench {
	waves := func(n int, cost func(r *rand.Rand) (*graph.Kernel, []time.Duration, int)) func(r *rand.Rand) []arrival {
		return func(r *rand.Rand) (out []arrival) {
			for k := range n {
				kernel, costs, priority := cost(r)
				out = append(out, arrival{time.Duration(2*k/n) * 20 * time.Millisecond, kernel, costs, priority})
			}
			return out
		}
	}
	ms := time.Millisecond
	equal := func(r *rand.Rand) (*graph.Kernel, []time.Duration, int) {
		return kernels[0], []time.Duration{ms}, 0
	}
	return map[string]*bench{
		"uniform": {all(8, 0), []float64{1, 1, 1, 1, 1, 1, 1, 1}, waves(400, equal)},
		// Two cards and two CPUs; the model is off on one of each.
		"mixed": {[]int32{0, 0, 1, 1}, []float64{1, 1.3, 1, 0.8}, waves(300, func(r *rand.Rand) (*graph.Kernel, []time.Duration, int) {
			k := r.IntN(2)
			return kernels[k], [][]time.Duration{{ms, 8 * ms}, {ms, 2 * ms}}[k], 0
		})},
		"skewed": {all(4, 0), []float64{1, 1, 1, 1}, waves(300, func(r *rand.Rand) (*graph.Kernel, []time.Duration, int) {
			c := ms / 4
			if r.IntN(10) == 0 {
				c = 8 * ms
			}
			return kernels[0], []time.Duration{c}, 0
		})},
		"bursty": {all(4, 0), []float64{1, 1, 1, 1}, func(r *rand.Rand) (out []arrival) {
			for burst := range 10 {
				for k := range 30 {
					out = append(out, arrival{time.Duration(burst) * 5 * ms, kernels[k%2], []time.Duration{ms / 2}, k % 3})
				}
			}
			return out
		}},
		"slow device": {all(4, 0), []float64{1, 1, 1, 3}, waves(400, equal)},
	}
}

// learningRuns is how many runs adaptive gets before it is measured.
const learningRuns = 20

// TestAdaptiveCatchesUp checks that after learningRuns runs adaptive is within
// 5 % of the best fixed policy in every scenario, over the same measured runs.
func TestAdaptiveCatchesUp(t *testing.T) {
	const measured = 5
	for name, b := range benches() {
		t.Run(name, func(t *testing.T) {
			problem := Problem{Machine: bare(len(b.classes)), Cost: uniform(), Seed: 7}
			total := func(p Policy, learn int) (sum time.Duration) {
				for k := range learn {
					b.run(p, uint64(1000+k))
				}
				for k := range measured {
					sum += b.run(p, uint64(k))
				}
				return sum / measured
			}
			best, bestName, report := time.Duration(0), "", ""
			for _, other := range Names() {
				if other == "adaptive" {
					continue
				}
				took := total(Policies()[other](problem), 0)
				report += fmt.Sprintf(" %s %v", other, took)
				if bestName == "" || took < best {
					best, bestName = took, other
				}
			}
			got := total(newAdaptive(problem), learningRuns)
			t.Logf("adaptive %v after %d runs;%s", got, learningRuns, report)
			if float64(got) > 1.05*float64(best) {
				t.Errorf("adaptive takes %v, %s %v: %.1f %% more", got, bestName, best, 100*(float64(got)/float64(best)-1))
			}
		})
	}
}

// learner hides that a policy can steal.
type learner struct {
	Policy
	Observer
}

// TestAdaptiveLearns checks that placing alone gets better with experience.
// One of four devices is three times slower than predicted, and no stealing
// mends mistakes. Work of 400 ms at 3⅓ devices' worth of speed takes 120 ms.
func TestAdaptiveLearns(t *testing.T) {
	const ideal = 120 * time.Millisecond
	b := benches()["slow device"]
	a := newAdaptive(Problem{Machine: bare(len(b.classes)), Cost: uniform(), Seed: 7}).(*adaptive)
	p := learner{a, a}
	if first := b.run(p, 1); float64(first) < 1.3*float64(ideal) {
		t.Errorf("first run %v: there is nothing to learn", first)
	}
	for k := range uint64(learningRuns) {
		b.run(p, 1000+k)
	}
	if last := b.run(p, 1); float64(last) > 1.05*float64(ideal) {
		t.Errorf("%v after %d runs, possible %v", last, learningRuns, ideal)
	}
}

// TestAdaptiveWorth: a span counts double where a device was found at least late times
// later than expected, and late times later than another that is known as well.
func TestAdaptiveWorth(t *testing.T) {
	for _, c := range []struct {
		own, other learned
		chained    bool
		want       float64
	}{
		{own: learned{2, minValue}, other: learned{1, minValue}, want: 2},
		{own: learned{1.99, minValue}, other: learned{0.5, minValue}, want: 1},
		{own: learned{9, minValue}, other: learned{4.5, minValue}, want: 2},
		{own: learned{9, minValue}, other: learned{5, minValue}, want: 1},
		{own: learned{9, minValue}, other: learned{1, minValue - 1}, want: 1},
		{own: learned{9, minValue - 1}, other: learned{1, minValue}, want: 1},
		{own: learned{9, minValue}, other: learned{1, minValue}, chained: true, want: 1},
	} {
		r := &row{chained: c.chained, paces: make([]learned, 2), values: make([]learned, 2*loadBuckets)}
		const span, runs = 3 * time.Millisecond, time.Millisecond
		*r.value(0, span, runs), *r.value(1, span, runs) = c.own, c.other
		if got := r.worth(0, span, runs); got != c.want {
			t.Errorf("%+v: the span counts %v times, want %v", c, got, c.want)
		}
	}
}

// TestAdaptivePlans: graphs are planned until outcomes show that devices differ by more
// than doubt from what plans suppose of them.
func TestAdaptivePlans(t *testing.T) {
	m, _ := machine.Named("8xh100")
	f := chainBeside(t, 50, 400, 67e9, 1<<10)
	for _, c := range []struct {
		slow  float64 // how device 0 was found, and the others as predicted
		times int
		plans bool
	}{{1, 0, true}, {2, minOutcomes - 1, true}, {2, minOutcomes, false}, {1.2, minOutcomes, true}, {0.5, minOutcomes, false}} {
		p := newAdaptive(Problem{Machine: m, Cost: machine.NewRoofline(m)}).(*adaptive)
		for d := range m.Devices {
			took := time.Millisecond
			if d == 0 {
				took = time.Duration(c.slow * float64(took))
			}
			for range c.times {
				p.Observe(Outcome{Kernel: kernels[0], Device: machine.DeviceID(d), Predicted: time.Millisecond, Took: took})
			}
		}
		if got := p.Plan(runOf(m, f)); (got.Turns != nil) != c.plans {
			t.Errorf("device 0 was found %v times slower %d times: planned %v", c.slow, c.times, got.Turns != nil)
		}
	}
}

// TestAdaptiveCurious: the device to explore is the one with the least evidence of those
// that end a task within 1.5 times the best, or 8 times if it was never tried.
func TestAdaptiveCurious(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		free []time.Duration
		seen []int
		want machine.DeviceID
	}{
		{[]time.Duration{0, 0, 0}, []int{9, 5, 3}, 2},
		{[]time.Duration{0, 0, 0}, []int{9, 3, 3}, 1},
		{[]time.Duration{0, 0, 0}, []int{3, 3, 5}, 0},
		{[]time.Duration{0, 0, ms}, []int{9, 5, 3}, 1},
		{[]time.Duration{0, ms / 2, ms}, []int{9, 5, 3}, 1},
		{[]time.Duration{0, ms, ms}, []int{9, 5, 3}, 0},
		{[]time.Duration{0, ms, 7 * ms}, []int{9, 5, 0}, 2},
		{[]time.Duration{0, ms, 7*ms + 1}, []int{9, 5, 0}, 0},
	} {
		p := newAdaptive(Problem{Machine: bare(3), Cost: uniform()}).(*adaptive)
		r := &row{paces: make([]learned, 3), values: make([]learned, 3*loadBuckets)}
		v := &Situation{Classes: 1, Tasks: []Ready{{Cost: []time.Duration{ms}, Hint: -1, Near: -1}}}
		for d := range c.free {
			v.Devices = append(v.Devices, Device{Accepts: true, Slow: 1, FreeAt: c.free[d]})
			r.paces[d] = learned{1, c.seen[d]}
		}
		if got := p.curious(v, &v.Tasks[0], r, p.offer(v, &v.Tasks[0], 0)); got.device != c.want {
			t.Errorf("free at %v with %v outcomes: device %d is explored, want %d", c.free, c.seen, got.device, c.want)
		}
	}
}
