package cut

import (
	"cmp"
	"math"
	"slices"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// The tasks of a device's range become smaller towards its end: each takes the part
// taskOfRest of what is left, but no less than a part of the range. Large tasks come
// first because starting a task has a cost, small ones last so that devices end
// together even if one falls behind.
//
// The least part depends on the device. With one core it is leastOneCore. Several cores
// share each task and wait for the last of them at its end, so that they get fewer
// tasks: leastTeamwork. Where data is copied it is leastCopied: computing starts with
// the first copy, and little is left to compute after the last.
const (
	taskOfRest    = 1. / 4
	leastOneCore  = 1. / 64
	leastTeamwork = 1. / 8
	leastCopied   = 1. / 64
)

// Tasks cuts what each device gets into tasks and returns their ranges in the order to
// start them.
func (v *View) Tasks(w Work, part sched.Partition) []sched.Range {
	busy := 0
	for _, r := range part.Ranges {
		if r.Len() > 0 {
			busy++
		}
	}
	var out []sched.Range
	for i, r := range part.Ranges {
		least, d := leastOneCore, &v.Machine.Devices[i]
		switch {
		case w.Streamed && !d.HostMemory:
			least = leastCopied
		case len(part.Ranges) == 1 || busy == 1 && d.HostMemory:
			least = 1 // no other device could help, or would be worth starting
		case d.ComputeUnits > 1:
			least = leastTeamwork
		}
		out = append(out, fit(w.Pieces, shrinking(w.Pieces, r, least, max(w.Grain, 1)), reach(v.Machine))...)
	}
	startOrder(w.Pieces, out)
	return out
}

// startOrder sorts ranges as they are to be started: what ends last should be small.
func startOrder(p sched.Pieces, ranges []sched.Range) {
	slices.SortStableFunc(ranges, func(a, b sched.Range) int {
		return cmp.Compare(cost(p, b.Lo, b.Hi), cost(p, a.Lo, a.Hi))
	})
}

// cost is what a range costs, in units of the pieces' own.
func cost(p sched.Pieces, lo, hi int64) float64 {
	if p.Cost == nil {
		return float64(hi - lo)
	}
	return p.Cost(lo, hi)
}

// shrinking divides a range on aligned boundaries into tasks that become smaller. least
// is the smallest cost of a task, as a part of the range's; grain its fewest items.
func shrinking(p sched.Pieces, r sched.Range, least float64, grain int64) []sched.Range {
	var out []sched.Range
	align := max(p.Align, 1)
	least *= cost(p, r.Lo, r.Hi)
	for lo := r.Lo; lo < r.Hi; {
		want := max(cost(p, lo, r.Hi)*taskOfRest, least)
		a, b := lo+1, r.Hi // the first boundary with enough before it
		for a < b {
			mid := a + (b-a)/2
			if cost(p, lo, mid) < want {
				a = mid + 1
			} else {
				b = mid
			}
		}
		hi := min((max(a, lo+grain)+align-1)/align*align, r.Hi)
		if r.Hi-hi < grain || cost(p, hi, r.Hi) < least/2 {
			hi = r.Hi // the rest would be too small
		}
		out = append(out, sched.Range{Lo: lo, Hi: hi})
		lo = hi
	}
	return out
}

// reach is how much of a buffer every device's kernels can be given.
func reach(m *machine.Machine) int64 {
	most := int64(math.MaxInt64)
	for i := range m.Devices {
		if n := m.Devices[i].ArgBytes; n > 0 {
			most = min(most, n)
		}
	}
	return most
}

// fit halves ranges, on aligned boundaries, whose data may be more than a kernel
// can be given in one buffer. Data that every range has whole stays as it is.
func fit(p sched.Pieces, ranges []sched.Range, most int64) []sched.Range {
	if p.Bytes == nil {
		return ranges
	}
	align := max(p.Align, 1)
	large := func(lo, hi int64) bool {
		in, out := p.Bytes(lo, hi)
		return in > most || out > most
	}
	var out []sched.Range
	for len(ranges) > 0 {
		r := ranges[0]
		mid := (r.Lo + r.Len()/2 + align - 1) / align * align
		if mid >= r.Hi || !large(r.Lo, r.Hi) || large(r.Lo, min(r.Lo+align, r.Hi)) {
			out, ranges = append(out, r), ranges[1:]
			continue
		}
		ranges = append([]sched.Range{{Lo: r.Lo, Hi: mid}, {Lo: mid, Hi: r.Hi}}, ranges[1:]...)
	}
	return out
}
