package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Deps returns the tasks a task of a run waits for, as graph.Flow.Preds does.
// A nil Deps means they are not known; causes are then found by time alone.
type Deps func(run int32, t graph.TaskID) []int32

// causeGraph is a trace as a graph of causes: every execution and copy with what had
// to end before it could start. Replaying it with some durations set to zero
// answers what a fix would have gained; replayed unchanged it gives the times
// that were recorded.
type causeGraph struct {
	mach       *machine.Machine
	begin, end time.Duration
	missing    int64
	// evs are the executions and copies, ordered so that causes come first.
	evs []Event
	// lane[i] is the event that occupied i's lane before it, or -1.
	lane []int32
	// causes[causeOff[i]:causeOff[i+1]] are the events that brought i's inputs or
	// whose failure made it necessary.
	causeOff, causes []int32
	// release is the earliest start of an event without causes.
	release []time.Duration
	// wasted events failed or did again what a loss had undone.
	wasted []bool
	// retried events follow a failed attempt at the same task.
	retried []bool
	// lost holds, for every device, when it was not available.
	lost [][]interval
}

type interval struct{ from, to time.Duration }

type taskKey struct {
	run  int32
	task graph.TaskID
}

// newCauseGraph builds the cause graph of a trace. Events about devices the machine does
// not have are left out.
func newCauseGraph(m *machine.Machine, evs []Event, deps Deps) *causeGraph {
	mo := collect(m, evs)
	// A cause ends no later than its effect starts, so this order has causes
	// first; link checks it for events without duration.
	slices.SortStableFunc(mo.evs, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.End, b.End), cmp.Compare(a.Start, b.Start))
	})
	mo.outages(evs)
	replayed := make(map[taskKey]time.Duration)
	for _, e := range evs {
		if e.Kind == Replay {
			k := taskKey{e.Run, e.Task}
			if at, ok := replayed[k]; !ok || e.Start < at {
				replayed[k] = e.Start
			}
		}
	}
	mo.link(deps, replayed)
	return mo
}

// collect picks the executions and copies and finds the time they cover.
func collect(m *machine.Machine, evs []Event) *causeGraph {
	mo := &causeGraph{mach: m, evs: make([]Event, 0, len(evs))}
	known := func(d machine.DeviceID) bool { return d >= 0 && int(d) < len(m.Devices) }
	for _, e := range evs {
		if e.Kind == Exec && known(e.Device) ||
			e.Kind == Copy && (e.Device == machine.Host || known(e.Device)) && (e.From == machine.Host || known(e.From)) {
			e.End = max(e.Start, e.End)
			mo.evs = append(mo.evs, e)
		}
	}
	mo.window(evs)
	return mo
}

// window finds the time the trace covers.
func (mo *causeGraph) window(evs []Event) {
	first := true
	cover := func(from, to time.Duration) {
		if first || from < mo.begin {
			mo.begin = from
		}
		if first || to > mo.end {
			mo.end = to
		}
		first = false
	}
	for i := range mo.evs {
		cover(mo.evs[i].Start, mo.evs[i].End)
	}
	for i := range evs {
		if k := evs[i].Kind; k == RunBegin || k == RunEnd {
			cover(evs[i].Start, evs[i].Start)
		}
	}
	for i := range evs {
		if evs[i].Kind == Missing {
			mo.missing += evs[i].Bytes
			mo.begin = min(mo.end, max(mo.begin, evs[i].Start))
		}
	}
}

// outages finds when devices were not available: from Lost or Fail to Back. A
// draining device still finishes its work and counts as available.
func (mo *causeGraph) outages(evs []Event) {
	n := len(mo.mach.Devices)
	mo.lost = make([][]interval, n)
	var changes []Event
	for _, e := range evs {
		if (e.Kind == Lost || e.Kind == Fail || e.Kind == Back) && e.Device >= 0 && int(e.Device) < n {
			changes = append(changes, e)
		}
	}
	slices.SortStableFunc(changes, func(a, b Event) int { return cmp.Compare(a.Start, b.Start) })
	out := make([]bool, n)
	since := make([]time.Duration, n)
	for _, e := range changes {
		d := e.Device
		at := min(max(e.Start, mo.begin), mo.end)
		switch {
		case e.Kind != Back && !out[d]:
			out[d], since[d] = true, at
		case e.Kind == Back && out[d]:
			out[d] = false
			mo.lost[d] = append(mo.lost[d], interval{since[d], at})
		}
	}
	for d := range n {
		if out[d] {
			mo.lost[d] = append(mo.lost[d], interval{since[d], mo.end})
		}
	}
}

// available returns the time that a device was available in the first span of the
// window.
func (mo *causeGraph) available(d int, span time.Duration) time.Duration {
	until := mo.begin + span
	for _, l := range mo.lost[d] {
		span -= min(l.to, until) - min(l.from, until)
	}
	return span
}

// laneKey identifies the queue an event went through. Copies into a device and
// out of it have queues of their own; one between two devices goes through the
// destination's.
type laneKey struct {
	device machine.DeviceID
	kind   laneKind
	lane   uint8
}

type laneKind uint8

const (
	laneCompute laneKind = iota
	laneIn
	laneOut
)

func (e *Event) laneKey() laneKey {
	switch {
	case e.Kind == Exec:
		return laneKey{e.Device, laneCompute, e.Lane}
	case e.Device == machine.Host && e.From != machine.Host:
		return laneKey{e.From, laneOut, e.Lane}
	}
	return laneKey{e.Device, laneIn, e.Lane}
}

// link finds what every event waited for.
func (mo *causeGraph) link(deps Deps, replayed map[taskKey]time.Duration) {
	n := len(mo.evs)
	mo.lane = make([]int32, n)
	mo.causeOff = make([]int32, 1, n+1)
	mo.release = make([]time.Duration, n)
	mo.wasted = make([]bool, n)
	mo.retried = make([]bool, n)
	l := &linker{causeGraph: mo, deps: deps, ends: newEndIndex(mo.evs), execs: make(map[taskKey]int32), copies: make(map[taskKey]int32),
		same: make([]int32, n), added: make([]int32, n)}
	lanes := make(map[laneKey][]int32)
	for i := range mo.evs {
		e := &mo.evs[i]
		lk := e.laneKey()
		mo.lane[i] = lastEnded(mo.evs, lanes[lk], e.Start)
		lanes[lk] = append(lanes[lk], int32(i))

		mo.release[i] = min(e.Start, mo.begin)
		mo.wasted[i] = e.Failed
		first := len(mo.causes)
		if e.Kind == Exec {
			l.exec(i)
			if at, ok := replayed[taskKey{e.Run, e.Task}]; ok && e.Start >= at {
				mo.wasted[i] = true
			}
		} else {
			l.copy(i)
		}
		if len(mo.causes) == first {
			mo.release[i] = min(e.Start, max(mo.begin, e.Ready, e.InputsAt))
		}
		mo.causeOff = append(mo.causeOff, int32(len(mo.causes)))
	}
}

// linker adds the causes of one event after another to a cause graph.
type linker struct {
	*causeGraph
	deps Deps
	ends *endIndex
	// execs and copies have the newest execution of a task and the newest copy for
	// it; same[i] is the one before i, or -1.
	execs, copies map[taskKey]int32
	same          []int32
	added         []int32 // added[c] == i+1: c is already a cause of i
}

// newest returns the head of a task's list, or -1.
func newest(heads map[taskKey]int32, k taskKey) int32 {
	if i, ok := heads[k]; ok {
		return i
	}
	return -1
}

// enlist puts event i at the head of its task's list.
func (l *linker) enlist(heads map[taskKey]int32, i int) {
	if e := &l.evs[i]; e.Task >= 0 {
		k := taskKey{e.Run, e.Task}
		l.same[i] = newest(heads, k)
		heads[k] = int32(i)
	}
}

// preds returns the tasks that the task of event e waited for.
func (l *linker) preds(e *Event) []int32 {
	if l.deps == nil || e.Task < 0 {
		return nil
	}
	return l.deps(e.Run, e.Task)
}

// producer returns the execution of a task that succeeded last before a time, or -1.
func (l *linker) producer(run, task int32, by time.Duration) int32 {
	i := newest(l.execs, taskKey{run, graph.TaskID(task)})
	for i >= 0 && (l.evs[i].Failed || l.evs[i].End > by) {
		i = l.same[i]
	}
	return i
}

// add makes c a cause of i, unless it is -1 or ended too late to be one.
func (l *linker) add(i int, c int32) {
	if c >= 0 && int(c) < i && l.evs[c].End <= l.evs[i].Start && l.added[c] != int32(i)+1 {
		l.added[c] = int32(i) + 1
		l.causes = append(l.causes, c)
	}
}

// exec adds the causes of an execution: what produced and copied its inputs, and
// the failed attempt it follows.
func (l *linker) exec(i int) {
	e := &l.evs[i]
	first := len(l.causes)
	for _, p := range l.preds(e) {
		l.add(i, l.producer(e.Run, p, e.Start))
	}
	l.add(i, l.ends.copyInto(e.Device, e.InputsAt))
	if l.deps == nil && len(l.causes) == first {
		l.add(i, l.ends.exec(e.Run, e.InputsAt))
	}
	k := taskKey{e.Run, e.Task}
	for c := newest(l.copies, k); c >= 0; c = l.same[c] {
		if l.evs[c].Device == e.Device && !l.evs[c].Failed {
			l.add(i, c)
		}
	}
	before := newest(l.execs, k)
	for before >= 0 && l.evs[before].End > e.Start {
		before = l.same[before]
	}
	if before >= 0 && l.evs[before].Failed {
		l.add(i, before)
		l.retried[i] = true
	}
	l.enlist(l.execs, i)
}

// copy adds the cause of a copy. Which of the task's inputs it brings is not
// recorded: it is the one finished when the copy's source was, failing that what
// another copy left there, failing that the one finished last.
func (l *linker) copy(i int) {
	e := &l.evs[i]
	var exact, latest int32 = -1, -1
	for _, p := range l.preds(e) {
		c := l.producer(e.Run, p, e.Start)
		latest = max(latest, c)
		if c >= 0 && l.evs[c].End == e.InputsAt {
			exact = c
		}
	}
	if exact < 0 {
		exact = l.ends.copyInto(e.From, e.InputsAt)
	}
	if exact < 0 {
		exact = l.ends.exec(e.Run, e.InputsAt)
	}
	if exact < 0 {
		exact = latest
	}
	l.add(i, exact)
	l.enlist(l.copies, i)
}

// lastEnded returns the last of a lane's events that ended by a time, or -1.
func lastEnded(evs []Event, lane []int32, by time.Duration) int32 {
	k, _ := slices.BinarySearchFunc(lane, by, func(i int32, by time.Duration) int {
		if evs[i].End <= by {
			return -1
		}
		return 1
	})
	if k == 0 {
		return -1
	}
	return lane[k-1]
}

// endIndex finds events by the exact time they ended.
type endIndex struct {
	evs           []Event
	execs, copies []int32 // by (end, run) and by (end, device)
}

func newEndIndex(evs []Event) *endIndex {
	x := &endIndex{evs: evs}
	for i := range evs {
		switch {
		case evs[i].Failed:
		case evs[i].Kind == Exec:
			x.execs = append(x.execs, int32(i))
		default:
			x.copies = append(x.copies, int32(i))
		}
	}
	slices.SortStableFunc(x.execs, func(a, b int32) int {
		return cmp.Or(cmp.Compare(evs[a].End, evs[b].End), cmp.Compare(evs[a].Run, evs[b].Run))
	})
	slices.SortStableFunc(x.copies, func(a, b int32) int {
		return cmp.Or(cmp.Compare(evs[a].End, evs[b].End), cmp.Compare(evs[a].Device, evs[b].Device))
	})
	return x
}

// exec returns an execution of a run that ended at a time, or -1.
func (x *endIndex) exec(run int32, end time.Duration) int32 {
	return x.find(x.execs, end, func(e *Event) int { return cmp.Compare(e.Run, run) })
}

// copyInto returns a copy into a device's memory that ended at a time, or -1.
func (x *endIndex) copyInto(d machine.DeviceID, end time.Duration) int32 {
	return x.find(x.copies, end, func(e *Event) int { return cmp.Compare(e.Device, d) })
}

// find returns an event of a list that ended at a time, of those for which order is 0,
// or -1. A time of 0 finds none: it stands for a time that was not recorded.
func (x *endIndex) find(list []int32, end time.Duration, order func(*Event) int) int32 {
	if end <= 0 {
		return -1
	}
	k, ok := slices.BinarySearchFunc(list, end, func(i int32, end time.Duration) int {
		if x.evs[i].End != end {
			return cmp.Compare(x.evs[i].End, end)
		}
		return order(&x.evs[i])
	})
	if !ok {
		return -1
	}
	return list[k]
}

func (mo *causeGraph) causesOf(i int) []int32 { return mo.causes[mo.causeOff[i]:mo.causeOff[i+1]] }

func (mo *causeGraph) makespan() time.Duration { return mo.end - mo.begin }

// ready returns when everything i waited for but its lane was there.
func (mo *causeGraph) ready(i int) time.Duration {
	e := &mo.evs[i]
	at := max(mo.release[i], e.Ready, e.InputsAt)
	for _, c := range mo.causesOf(i) {
		at = max(at, mo.evs[c].End)
	}
	return min(at, e.Start)
}

// laneFree returns when i's lane was free for it.
func (mo *causeGraph) laneFree(i int) time.Duration {
	if l := mo.lane[i]; l >= 0 {
		return mo.evs[l].End
	}
	return mo.begin
}

// launch is the part of an execution that starting it took, by the device's
// measured launch cost.
func (mo *causeGraph) launch(i int) time.Duration {
	e := &mo.evs[i]
	if e.Kind != Exec {
		return 0
	}
	cost := mo.mach.Devices[e.Device].Rates.LaunchNS
	if !(cost > 0) {
		return 0
	}
	if took := e.End - e.Start; cost > float64(took) {
		return took
	}
	return time.Duration(cost)
}

// without says what a replay leaves out.
type without struct{ copies, launches, delays, faults bool }

// replay computes the makespan with every event in its place and its order, but
// without what w names. The delay between an event's last cause and its start
// is kept unless w says otherwise.
func (mo *causeGraph) replay(w without) time.Duration {
	ends := make([]time.Duration, len(mo.evs))
	last, lastWas := mo.begin, mo.begin
	for i := range mo.evs {
		e := &mo.evs[i]
		was, now := mo.release[i], mo.release[i]
		if l := mo.lane[i]; l >= 0 {
			was, now = max(was, mo.evs[l].End), max(now, ends[l])
		}
		for _, c := range mo.causesOf(i) {
			was, now = max(was, mo.evs[c].End), max(now, ends[c])
		}
		if !w.delays && !(w.faults && mo.retried[i]) {
			now += e.Start - was
		}
		took := e.End - e.Start
		switch {
		case w.faults && mo.wasted[i], w.copies && e.Kind == Copy:
			took = 0
		case w.launches:
			took -= mo.launch(i)
		}
		ends[i] = now + took
		last, lastWas = max(last, ends[i]), max(lastWas, e.End)
	}
	return last - mo.begin + (mo.end - lastWas)
}

// criticalPath returns the longest chain of causes, with or without the time of
// copies, and its length: no number of devices finishes sooner. Wasted events
// weigh nothing.
func (mo *causeGraph) criticalPath(copies bool) ([]int32, time.Duration) {
	length := make([]time.Duration, len(mo.evs))
	via := make([]int32, len(mo.evs))
	last := int32(-1)
	for i := range mo.evs {
		via[i] = -1
		for _, c := range mo.causesOf(i) {
			if via[i] < 0 || length[c] > length[via[i]] {
				via[i] = c
			}
		}
		if via[i] >= 0 {
			length[i] = length[via[i]]
		}
		length[i] += mo.weight(i, copies)
		if last < 0 || length[i] > length[last] {
			last = int32(i)
		}
	}
	if last < 0 {
		return nil, 0
	}
	var path []int32
	for i := last; i >= 0; i = via[i] {
		if mo.weight(int(i), copies) > 0 {
			path = append(path, i)
		}
	}
	slices.Reverse(path)
	return path, length[last]
}

func (mo *causeGraph) weight(i int, copies bool) time.Duration {
	e := &mo.evs[i]
	if mo.wasted[i] || e.Kind == Copy && !copies {
		return 0
	}
	return max(0, e.End-max(e.Start, mo.begin))
}

// deviceName names a device or the host.
func deviceName(m *machine.Machine, d machine.DeviceID) string {
	switch {
	case d == machine.Host:
		return "host"
	case d < 0 || int(d) >= len(m.Devices):
		return fmt.Sprintf("device %d", d)
	case m.Devices[d].Name == "":
		return fmt.Sprintf("device %d", d)
	}
	return m.Devices[d].Name
}
