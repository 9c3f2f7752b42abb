package trace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Verdict names what kept a run from being faster.
type Verdict string

const (
	// ComputeBound: the devices computed nearly all the time; only more or
	// faster devices help.
	ComputeBound Verdict = "compute-bound"
	// TransferBound: work waited for copies.
	TransferBound Verdict = "transfer-bound"
	// Imbalance: one device had more to do than the others.
	Imbalance Verdict = "imbalance"
	// DependencyBound: the longest chain of tasks left devices without work.
	DependencyBound Verdict = "dependency-bound"
	// OverheadBound: starting tasks took the time, not running them.
	OverheadBound Verdict = "overhead-bound"
	// Queueing: tasks queued at busy devices while others were free.
	Queueing Verdict = "queueing"
	// Faults: failures and losses cost the time.
	Faults Verdict = "faults"
	// Underused: the machine had nothing to do for most of the time.
	Underused Verdict = "underused"
)

// worthwhile is the gain or loss, as a share of the makespan, from which a fix is
// called the bottleneck; less is within what runs differ by.
const worthwhile = 0.05

// DeviceUse is the activity of one device during a trace. Compute, Transfer, Dispatch,
// Sync and Idle add up to Available.
type DeviceUse struct {
	Device machine.DeviceID
	Name   string
	// Available is the trace's length less the time the device was lost.
	Available time.Duration
	Compute   time.Duration // at least one lane ran a task
	Transfer  time.Duration // no lane did, but a copy into or out of it ran
	Dispatch  time.Duration // nothing ran though a task given to it could have
	Sync      time.Duration // nothing ran, a task given to it waited for inputs
	Idle      time.Duration // the rest
	// CopyTime is the time that copies into and out of it took, one after the
	// other: more than Transfer where copies were hidden behind computing.
	CopyTime time.Duration
	// LaneTime is the sum of the times that its lanes computed; more than Compute where
	// lanes overlapped or an execution took several. Launch and Wasted are parts of it: starting tasks, and
	// running those that failed or had to be repeated.
	LaneTime, Launch, Wasted time.Duration
	Lanes                    int
	Tasks, Failed            int
	BytesIn, BytesOut        int64
}

// Utilisation is the share of its available time the device computed.
func (d *DeviceUse) Utilisation() float64 { return ratio(d.Compute, d.Available) }

// Occupancy is the share of its lanes' available time they computed.
func (d *DeviceUse) Occupancy() float64 {
	return ratio(d.LaneTime, d.Available) / float64(max(1, d.Lanes))
}

// Shares divides the available time of all devices; the fields add up to 1
// when anything ran. Launch and Wasted are taken out of Compute.
type Shares struct {
	Compute, Launch, Wasted, Transfer, Dispatch, Sync, Idle float64
}

// Fix is a change and the time that it would have saved. Computed from a trace it is an
// estimate: placements and order stay as they were, and tasks are taken to
// run on any device at its measured relative speed. Where the work can be simulated,
// with the change, that says more (see Analysis.Revise).
type Fix struct {
	What     string
	For      Verdict       // the bottleneck it removes
	Makespan time.Duration // predicted
	Gain     float64       // share of the makespan saved, 0 to 1
	// Bounded is set when the critical path, not the fix, limits the gain.
	Bounded bool
	// Simulated is set when the work was simulated with the change.
	Simulated bool
}

// Analysis says where the time of a trace went.
type Analysis struct {
	Machine  *machine.Machine `json:"-"`
	Begin    time.Duration
	Makespan time.Duration
	// Missing is the number of older events that the recorder had dropped; the analysis
	// covers the time after them.
	Missing               int64
	Tasks, Copies, Failed int // successful executions, copies, failed executions
	Repeated              int // executions that did again what a loss had undone
	LostDevices           int
	Bytes                 int64 // copied
	Devices               []DeviceUse
	Shares                Shares
	// Queueing is the share of tasks' time from ready to end that they spent
	// behind others on their lane. It is not part of Shares: a device with a
	// queue is busy.
	Queueing float64
	// Mean and StdDev are over the devices' utilisations; Imbalance is the
	// largest deviation from the mean, divided by the mean.
	Mean, StdDev, Imbalance float64
	// Path is the critical path: the executions and copies of the longest
	// chain of causes. PathLength is their time added up.
	Path       []Event
	PathLength time.Duration
	// Balanced is the time the same computing takes when it is spread over
	// the devices by their speed.
	Balanced time.Duration
	// Bottleneck is the verdict and Sentence says it with its numbers.
	Bottleneck Verdict
	Sentence   string
	Fixes      []Fix // the largest gain first
	// Names, when set by the caller, names tasks in WriteAnalysis.
	Names Names `json:"-"`

	revised bool // Fixes were simulated
}

// Names tells how tasks and kernels are called. Nil functions, and those that
// return "", leave the task's number.
type Names struct {
	Task   func(run int32, t graph.TaskID) string
	Kernel func(run int32, t graph.TaskID) string
}

func (n Names) task(run int32, t graph.TaskID) string {
	if n.Task != nil {
		if s := n.Task(run, t); s != "" {
			return s
		}
	}
	return fmt.Sprintf("task %d", t)
}

func (n Names) kernel(run int32, t graph.TaskID) string {
	if n.Kernel != nil {
		return n.Kernel(run, t)
	}
	return ""
}

// Analyze says where the time went and what would help. With deps the critical
// path follows the graph; without, an event's causes are the events that ended
// exactly when its inputs were there. Events may come in any order.
func Analyze(m *machine.Machine, evs []Event, deps Deps) Analysis {
	mo := newCauseGraph(m, evs, deps)
	a := Analysis{Machine: m, Begin: mo.begin, Makespan: mo.makespan(), Missing: mo.missing}
	queues := mo.account(&a)
	a.spread()
	var path []int32
	path, a.PathLength = mo.criticalPath(true)
	for _, i := range path {
		a.Path = append(a.Path, mo.evs[i])
	}
	a.Balanced = mo.balanced(a.Devices)
	a.fixes(mo, queues)
	a.judge()
	return a
}

// account fills the counts, the devices' times and the shares, and returns how
// long, on average over the devices' capacity, a device was free while tasks
// queued at others.
func (mo *causeGraph) account(a *Analysis) time.Duration {
	mo.count(a)
	missed := mo.queues(a)
	weights, total := mo.weights()
	var buf []edge
	for d, list := range mo.byDevice() {
		var took [numStates]time.Duration
		buf = mo.segments(d, list, buf, func(s state, from, to time.Duration) {
			took[s] += to - from
			if s == idle || s == waiting {
				missed = append(missed, missedEdge{at: from, free: 1, weight: weights[d]},
					missedEdge{at: to, free: -1, weight: -weights[d]})
			}
		})
		u := DeviceUse{
			Device: machine.DeviceID(d), Name: deviceName(mo.mach, machine.DeviceID(d)), Lanes: max(1, mo.mach.Devices[d].Lanes),
			Available: mo.available(d, mo.makespan()), LaneTime: mo.unionLanes(d, list),
			Compute: took[computing], Transfer: took[copying], Dispatch: took[dispatch], Sync: took[waiting], Idle: took[idle],
		}
		mo.addUp(&u, list)
		a.Devices = append(a.Devices, u)
		if len(mo.lost[d]) > 0 {
			a.LostDevices++
		}
	}
	a.divide()
	return missedTime(missed, total)
}

// count fills the numbers of executions and copies.
func (mo *causeGraph) count(a *Analysis) {
	for i := range mo.evs {
		switch e := &mo.evs[i]; {
		case e.Kind == Copy:
			a.Copies++
			a.Bytes += e.Bytes
		case e.Failed:
			a.Failed++
		default:
			a.Tasks++
			if mo.wasted[i] {
				a.Repeated++
			}
		}
	}
}

// queues fills the share of queueing and returns when each task queued.
func (mo *causeGraph) queues(a *Analysis) (edges []missedEdge) {
	var queued, turnaround time.Duration
	for i := range mo.evs {
		if mo.evs[i].Kind != Exec {
			continue
		}
		ready, free := mo.ready(i), mo.laneFree(i)
		turnaround += mo.evs[i].End - ready
		if ready < free {
			queued += free - ready
			edges = append(edges, missedEdge{at: ready, queued: 1}, missedEdge{at: free, queued: -1})
		}
	}
	a.Queueing = ratio(queued, turnaround)
	return edges
}

// addUp adds up the executions and copies of a device, which are list.
func (mo *causeGraph) addUp(u *DeviceUse, list []int32) {
	for _, i := range list {
		e := &mo.evs[i]
		took := max(0, e.End-max(e.Start, mo.begin))
		switch {
		case e.Kind == Copy:
			u.CopyTime += took
			if e.Device == u.Device {
				u.BytesIn += e.Bytes
			}
			if e.From == u.Device {
				u.BytesOut += e.Bytes
			}
		case mo.wasted[i]:
			u.Wasted += took * time.Duration(e.lanes())
		default:
			u.Launch += min(took, mo.launch(int(i)))
		}
		if e.Kind == Exec && e.Failed {
			u.Failed++
		} else if e.Kind == Exec {
			u.Tasks++
		}
	}
}

// divide fills the shares by the devices' times.
func (a *Analysis) divide() {
	var sum DeviceUse
	var launch, wasted float64
	for i := range a.Devices {
		u := &a.Devices[i]
		sum.Available += u.Available
		sum.Compute += u.Compute
		sum.Transfer += u.Transfer
		sum.Dispatch += u.Dispatch
		sum.Sync += u.Sync
		sum.Idle += u.Idle
		// Lanes overlap and Compute does not: launches get the part of it
		// that they are of the lanes' time.
		launch += float64(u.Compute) * min(1, ratio(u.Launch, u.LaneTime))
		wasted += float64(u.Compute) * min(1, ratio(u.Wasted, u.LaneTime))
	}
	if avail := float64(sum.Available); avail > 0 {
		a.Shares = Shares{
			Compute:  max(0, float64(sum.Compute)-launch-wasted) / avail,
			Launch:   launch / avail,
			Wasted:   wasted / avail,
			Transfer: float64(sum.Transfer) / avail,
			Dispatch: float64(sum.Dispatch) / avail,
			Sync:     float64(sum.Sync) / avail,
			Idle:     float64(sum.Idle) / avail,
		}
	}
}

// missedEdge is a change in how many tasks queue behind others and how many
// devices, of what weight, are free.
type missedEdge struct {
	at           time.Duration
	queued, free int32
	weight       int64
}

// missedTime integrates the capacity that was free while tasks queued
// elsewhere, as a time on the whole machine.
func missedTime(edges []missedEdge, total int64) time.Duration {
	slices.SortFunc(edges, func(a, b missedEdge) int { return cmp.Compare(a.at, b.at) })
	var queued, free int32
	var weight int64
	var at time.Duration
	var sum float64
	for _, e := range edges {
		if queued > 0 && free > 0 {
			used := float64(weight) * min(1, float64(queued)/float64(free))
			sum += used / float64(total) * float64(e.at-at)
		}
		at = e.at
		queued, free, weight = queued+e.queued, free+e.free, weight+e.weight
	}
	return time.Duration(sum)
}

// weights returns the devices' speeds relative to one another as integers, and
// their sum: by measured arithmetic where every device has a measurement, equal
// otherwise.
func (mo *causeGraph) weights() ([]int64, int64) {
	devs := mo.mach.Devices
	w := make([]int64, len(devs))
	fastest, slowest := 0.0, math.Inf(1)
	for d := range devs {
		rate := devs[d].Rates.Ops[graph.FP32]
		fastest, slowest = max(fastest, rate), min(slowest, rate)
	}
	var sum int64
	for d := range devs {
		w[d] = 1 << 20
		if slowest > 0 && !math.IsInf(fastest, 0) {
			w[d] = max(1, int64(devs[d].Rates.Ops[graph.FP32]/fastest*(1<<20)))
		}
		sum += w[d]
	}
	return w, sum
}

// spread fills the statistics over devices.
func (a *Analysis) spread() {
	var utils []float64
	for i := range a.Devices {
		if a.Devices[i].Available > 0 {
			utils = append(utils, a.Devices[i].Utilisation())
		}
	}
	if len(utils) == 0 {
		return
	}
	for _, u := range utils {
		a.Mean += u
	}
	a.Mean /= float64(len(utils))
	worst := 0.0
	for _, u := range utils {
		a.StdDev += (u - a.Mean) * (u - a.Mean)
		worst = max(worst, math.Abs(u-a.Mean))
	}
	a.StdDev = math.Sqrt(a.StdDev / float64(len(utils)))
	if a.Mean > 0 {
		a.Imbalance = worst / a.Mean
	}
}

// balanced returns the shortest span in which the devices, as they were
// available, could have done all the computing.
func (mo *causeGraph) balanced(uses []DeviceUse) time.Duration {
	weights, _ := mo.weights()
	work := 0.0
	for d := range uses {
		work += float64(weights[d]) * float64(uses[d].Compute)
	}
	lo, hi := time.Duration(-1), mo.makespan() // hi is always enough, lo never
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		can := 0.0
		for d := range uses {
			can += float64(weights[d]) * float64(mo.available(d, mid))
		}
		if can >= work {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// fixes predicts what each change would have saved.
func (a *Analysis) fixes(mo *causeGraph, missed time.Duration) {
	if a.Makespan <= 0 || len(mo.evs) == 0 {
		return
	}
	add := func(v Verdict, what string, makespan time.Duration, bounded bool) {
		if bounded && makespan < a.PathLength {
			makespan = a.PathLength
		} else {
			bounded = false
		}
		if gain := ratio(a.Makespan-makespan, a.Makespan); gain >= 0.001 {
			a.Fixes = append(a.Fixes, Fix{What: what, For: v, Makespan: makespan, Gain: gain, Bounded: bounded})
		}
	}
	weights, total := mo.weights()
	longest := time.Duration(0)
	had := 0.0 // capacity that was available
	for d := range a.Devices {
		longest = max(longest, a.Devices[d].Compute)
		had += float64(weights[d]) * float64(a.Devices[d].Available)
	}

	if a.Failed+a.Repeated+a.LostDevices > 0 {
		// The devices that were lost would have taken their share of the rest.
		span := float64(mo.replay(without{faults: true}))
		add(Faults, "no faults", time.Duration(span*had/(float64(total)*float64(a.Makespan))), true)
	}
	add(TransferBound, "copies fully overlapped", mo.replay(without{copies: true}), false)
	add(OverheadBound, "no launch overhead", mo.replay(without{launches: true}), false)
	add(OverheadBound, "no dispatch delay", mo.replay(without{delays: true}), false)
	add(Imbalance, "perfect balance", a.Makespan-max(0, longest-a.Balanced), true)
	add(Queueing, "running queued tasks on free devices", a.Makespan-missed, true)
	// Copies are left out of this chain: they have a fix of their own.
	_, chain := mo.criticalPath(false)
	add(DependencyBound, "a critical path split until all devices are busy",
		a.Makespan-max(0, chain-a.Balanced), false)
	n := time.Duration(len(a.Devices))
	add(ComputeBound, "one more equal device", a.Makespan-a.Balanced/(n+1), true)

	slices.SortStableFunc(a.Fixes, func(x, y Fix) int { return cmp.Compare(y.Gain, x.Gain) })
}

// judge picks the bottleneck: what the most valuable fix removes. One more
// device always helps a little, so it counts only when nothing else does.
func (a *Analysis) judge() {
	if len(a.Devices) == 0 || a.Makespan <= 0 || a.Tasks+a.Copies+a.Failed == 0 {
		a.Bottleneck, a.Sentence = Underused, "underused: nothing ran"
		return
	}
	var best Fix
	for _, f := range a.Fixes {
		if f.For != ComputeBound && f.Gain >= worthwhile {
			best = f
			break
		}
	}
	a.Bottleneck = best.For
	if best.For == "" {
		a.Bottleneck = ComputeBound
		if a.Mean < 0.5 {
			a.Bottleneck = Underused
		}
	}
	save := fmt.Sprintf("; %s would save %s", best.What, percent(best.Gain))
	s := &a.Shares
	switch a.Bottleneck {
	case ComputeBound:
		a.Sentence = fmt.Sprintf("devices computed %s of their time", percent(a.Mean))
		more, other := a.gains()
		switch {
		case more.Gain > 0 && other > 0:
			a.Sentence += fmt.Sprintf("; %s would save %s, any other change%s %s at most", more.What, percent(more.Gain), a.proviso(), percent(other))
		case more.Gain > 0:
			a.Sentence += fmt.Sprintf("; %s would save %s, and nothing else%s would help", more.What, percent(more.Gain), a.proviso())
		case other > 0:
			a.Sentence += fmt.Sprintf("; no change%s would save more than %s", a.proviso(), percent(other))
		}
	case Underused:
		a.Sentence = fmt.Sprintf("devices computed %s of their time and were idle %s; there was not more to do",
			percent(a.Mean), percent(s.Idle))
	case TransferBound:
		a.Sentence = fmt.Sprintf("devices did nothing but copy %s of their time and waited for inputs %s",
			percent(s.Transfer), percent(s.Sync)) + save
	case Imbalance:
		most := a.Devices[0]
		for _, d := range a.Devices {
			if d.Compute > most.Compute {
				most = d
			}
		}
		a.Sentence = fmt.Sprintf("%s computed %s where %s would do", printable(most.Name), short(most.Compute), short(a.Balanced)) + save
	case DependencyBound:
		a.Sentence = fmt.Sprintf("the critical path is %s of %s and devices computed %s of their time",
			short(a.PathLength), short(a.Makespan), percent(a.Mean)) + save
	case OverheadBound:
		a.Sentence = fmt.Sprintf("launches took %s and dispatch delays %s of the devices' time",
			percent(s.Launch), percent(s.Dispatch)) + save
	case Queueing:
		a.Sentence = fmt.Sprintf("tasks spent %s of their time behind others while devices were free %s of theirs",
			percent(a.Queueing), percent(s.Idle+s.Sync)) + save
	case Faults:
		var what []string
		if a.Failed > 0 {
			what = append(what, count(a.Failed, "failed execution"))
		}
		if a.Repeated > 0 {
			what = append(what, count(a.Repeated, "repeated execution"))
		}
		if a.LostDevices > 0 {
			what = append(what, count(a.LostDevices, "lost device"))
		}
		a.Sentence = fmt.Sprintf("%s wasted %s of the devices' time", strings.Join(what, ", "), percent(s.Wasted)) + save
	}
	a.Sentence = string(a.Bottleneck) + ": " + a.Sentence
}

// Revise puts fixes that were simulated in place of the estimates for the same
// bottlenecks that keep placements as they were, and judges anew.
func (a *Analysis) Revise(simulated []Fix) {
	a.revised = true
	a.Fixes = slices.DeleteFunc(a.Fixes, func(f Fix) bool {
		return f.For == ComputeBound || f.For == TransferBound || f.For == OverheadBound || f.For == Faults
	})
	for _, f := range simulated {
		f.Simulated = true
		a.Fixes = append(a.Fixes, f)
	}
	slices.SortStableFunc(a.Fixes, func(x, y Fix) int { return cmp.Compare(y.Gain, x.Gain) })
	a.judge()
}

// proviso says what holds for estimates and not for what was simulated.
func (a *Analysis) proviso() string {
	if a.revised {
		return ""
	}
	return " with tasks placed as they were"
}

// gains returns the fix that one more device is, and the most that anything else saves.
func (a *Analysis) gains() (more Fix, other float64) {
	for _, f := range a.Fixes {
		if f.For == ComputeBound {
			if f.Gain > more.Gain {
				more = f
			}
		} else {
			other = max(other, f.Gain)
		}
	}
	return more, other
}

// Efficiency returns how near a trace came to the shortest possible run: the
// lower bound divided by the makespan, 0 for an empty trace. A lowerBound of 0
// or less means the trace's own: its critical path by times, or its computing
// spread over the devices, whichever is longer.
func Efficiency(m *machine.Machine, evs []Event, lowerBound time.Duration) float64 {
	if lowerBound <= 0 {
		a := Analyze(m, evs, nil)
		return ratio(max(a.PathLength, a.Balanced), a.Makespan)
	}
	return ratio(lowerBound, collect(m, evs).makespan())
}

// ScalingVerdict puts a scaling efficiency into words.
func ScalingVerdict(efficiency float64) string {
	switch {
	case efficiency > 0.8:
		return "excellent scaling efficiency"
	case efficiency > 0.6:
		return "good scaling efficiency with room for improvement"
	}
	return "poor scaling efficiency - investigate bottlenecks"
}

func ratio(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
