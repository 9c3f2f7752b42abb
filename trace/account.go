package trace

import (
	"cmp"
	"slices"
	"time"

	"github.com/weft-run/weft/machine"
)

// state is the activity of a device at one time. Of several, the largest counts.
type state uint8

const (
	idle     state = iota
	waiting        // a task given to it had not all its inputs
	dispatch       // a task given to it had its inputs and did not run yet
	copying
	computing
	lost
	numStates = iota
)

// edge is a change in the number of reasons for which a device is in a state.
type edge struct {
	at    time.Duration
	state state
	delta int8
}

// byDevice returns the indices of the events that concern each device.
func (mo *causeGraph) byDevice() [][]int32 {
	lists := make([][]int32, len(mo.mach.Devices))
	for i := range mo.evs {
		e := &mo.evs[i]
		if e.Device != machine.Host {
			lists[e.Device] = append(lists[e.Device], int32(i))
		}
		if e.Kind == Copy && e.From != machine.Host && e.From != e.Device {
			lists[e.From] = append(lists[e.From], int32(i))
		}
	}
	return lists
}

// segments cuts the window into stretches of one state of device d, whose
// events are list, and calls yield for each in order. It returns buf for reuse.
func (mo *causeGraph) segments(d int, list []int32, buf []edge, yield func(s state, from, to time.Duration)) []edge {
	edges := buf[:0]
	span := func(s state, from, to time.Duration) {
		from, to = max(from, mo.begin), min(to, mo.end)
		if from < to {
			edges = append(edges, edge{from, s, 1}, edge{to, s, -1})
		}
	}
	for _, i := range list {
		e := &mo.evs[i]
		if e.Kind == Copy {
			span(copying, e.Start, e.End)
			continue
		}
		span(computing, e.Start, e.End)
		ready := mo.ready(int(i))
		span(waiting, e.Issued, ready)
		span(dispatch, max(e.Issued, ready), e.Start)
	}
	for _, l := range mo.lost[d] {
		span(lost, l.from, l.to)
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })

	var count [numStates]int32
	at := mo.begin
	emit := func(to time.Duration) {
		if to == at {
			return
		}
		s := lost
		for s > idle && count[s] == 0 {
			s--
		}
		yield(s, at, to)
		at = to
	}
	for _, e := range edges {
		emit(e.at)
		count[e.state] += int32(e.delta)
	}
	emit(mo.end)
	return edges
}

// unionLanes returns the computing time summed over the lanes of a device. Executions that
// overlap on one lane count once. One that takes several lanes counts for each, up to the
// number of lanes of the device: a wide task of a team shares lanes with others.
func (mo *causeGraph) unionLanes(d int, list []int32) time.Duration {
	var until [256]time.Duration
	for k := range until {
		until[k] = mo.begin
	}
	// In order of start an execution adds what lies beyond its lane's latest end.
	execs := make([]int32, 0, len(list))
	for _, i := range list {
		if mo.evs[i].Kind == Exec {
			execs = append(execs, i)
		}
	}
	slices.SortStableFunc(execs, func(a, b int32) int { return cmp.Compare(mo.evs[a].Start, mo.evs[b].Start) })
	type change struct {
		at    time.Duration
		lanes int
	}
	changes := make([]change, 0, 2*len(execs))
	for _, i := range execs {
		e := &mo.evs[i]
		if from := max(e.Start, until[e.Lane]); e.End > from {
			changes = append(changes, change{from, e.lanes()}, change{e.End, -e.lanes()})
			until[e.Lane] = e.End
		}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var sum, at time.Duration
	taken, all := 0, max(mo.mach.Devices[d].Lanes, 1)
	for _, c := range changes {
		sum += time.Duration(min(taken, all)) * (c.at - at)
		at, taken = c.at, taken+c.lanes
	}
	return sum
}
