package cut

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// The tasks of a device's range become smaller towards its end: each takes the fraction
// taskOfRest of the rest, but at least a fixed fraction of the range. Large tasks come first
// because starting a task has a cost, small ones last so that devices end together even if one
// falls behind.
//
// The least fraction depends on the device: leastOneCore for one core. Several cores share each
// task and wait for the last of them at its end, so they get fewer tasks: leastTeamwork. Where
// data is copied, overlapped decides.
const (
	taskOfRest    = 1. / 4
	leastOneCore  = 1. / 64
	leastTeamwork = 1. / 8
	leastCopied   = 1. / 64
)

// Tasks cuts what each device gets into tasks and returns their ranges in the order to
// start them.
func (v *Knowledge) Tasks(w Divisible, part sched.Partition) []sched.Range {
	busy := 0
	for _, r := range part.Ranges {
		if r.Len() > 0 {
			busy++
		}
	}
	var out []sched.Range
	copied := false
	for i, r := range part.Ranges {
		d := &v.Machine.Devices[i]
		if w.Items.Streamed && !d.HostMemory && w.Items.Bytes != nil && r.Len() > 0 {
			out = append(out, fit(w.Items, v.overlapped(w, machine.DeviceID(i), r, busy > 1), reach(v.Machine))...)
			copied = true
			continue
		}
		least := leastOneCore
		switch {
		case busy == 1:
			least = 1 // no other device could help, or would be worth starting
		case d.ComputeUnits > 1:
			least = leastTeamwork
		}
		out = append(out, fit(w.Items, shrinking(w.Items, r, least, max(w.Items.Grain, 1)), reach(v.Machine))...)
	}
	if !copied || busy > 1 {
		startOrder(w.Items, out)
	}
	return out
}

// enoughGain is the least saving of time, as a fraction, for which a range is cut into more
// tasks.
const enoughGain = 0.01

// overlapped divides a range of a device to which data is copied so that copies overlap
// computing: the data of a task is copied while another is computed, and its results while
// the next one is. Of several forms it takes the one predicted to be done first, and of those
// that are about equal the one with the fewest tasks. Where several devices take part it is
// one whose last tasks are small.
func (v *Knowledge) overlapped(w Divisible, d machine.DeviceID, r sched.Range, several bool) []sched.Range {
	grain := max(w.Items.Grain, 1)
	forms := [][]sched.Range{
		shrinking(w.Items, r, leastTeamwork, grain), shrinking(w.Items, r, leastCopied, grain),
	}
	if !several {
		forms = append(forms, []sched.Range{r})
		for _, n := range []float64{2, 4, 8, 16, 32} {
			// Equal tasks, and equal ones between two of half the size: little is copied
			// before the first is computed, and little after the last.
			forms = append(forms, parted(w.Items, r, 1/n, 1/n, grain), parted(w.Items, r, 1/n, 1/n/2, grain))
		}
	}
	slices.SortStableFunc(forms, func(a, b []sched.Range) int { return cmp.Compare(len(a), len(b)) })
	for len(forms) > 1 && !v.roomy(w.Items, d, forms[0]) {
		forms = forms[1:]
	}
	best, least := 0, v.pipelined(w, d, forms[0])
	for i, f := range forms[1:] {
		if takes := v.pipelined(w, d, f); float64(takes) < (1-enoughGain)*float64(least) {
			best, least = i+1, takes
		}
	}
	return forms[best]
}

// roomy reports whether a device's memory has room for the data of two of some tasks at a
// time, so that one can be copied while the other is computed, or for the data of all.
func (v *Knowledge) roomy(p sched.Items, d machine.DeviceID, tasks []sched.Range) bool {
	most := v.Machine.Devices[d].MemBytes
	if most == 0 {
		return true
	}
	in, out := p.Bytes(tasks[0].Lo, tasks[len(tasks)-1].Hi)
	if in+out <= most {
		return true
	}
	return !slices.ContainsFunc(tasks, func(t sched.Range) bool {
		in, out := p.Bytes(t.Lo, t.Hi)
		return 2*(in+out) > most
	})
}

// pipelined predicts what consecutive tasks take on a device with memory of its own, to
// which one lane copies data while another computes and a third copies results back. Data
// that several tasks use is copied for the first of them.
func (v *Knowledge) pipelined(w Divisible, d machine.DeviceID, tasks []sched.Range) time.Duration {
	p := w.Items
	all := cost(p, 0, p.Extent)
	var in, computed, out time.Duration
	there := int64(0) // bytes on the device
	copies := func(bytes int64, from, to machine.DeviceID) time.Duration {
		if bytes <= 0 {
			return 0
		}
		return max(v.Cost.Copy(bytes, from, to).Median, 0)
	}
	for _, t := range tasks {
		needs, _ := p.Bytes(tasks[0].Lo, t.Hi)
		_, makes := p.Bytes(t.Lo, t.Hi)
		in += copies(needs-there, machine.Host, d)
		there = max(there, needs)
		task, share := w.Whole, cost(p, t.Lo, t.Hi)/all
		task.Work.Ops *= share
		task.Work.Bytes *= share
		computed = max(computed, in) + v.task(&task, d).Median
		out = max(out, computed) + copies(makes, d, machine.Host)
	}
	return out
}

// startOrder sorts ranges as they are to be started: what ends last should be small.
func startOrder(p sched.Items, ranges []sched.Range) {
	slices.SortStableFunc(ranges, func(a, b sched.Range) int {
		return cmp.Compare(cost(p, b.Lo, b.Hi), cost(p, a.Lo, a.Hi))
	})
}

// cost returns the cost of a range in the unit of Items.Cost.
func cost(p sched.Items, lo, hi int64) float64 {
	if p.Cost == nil {
		return float64(hi - lo)
	}
	return p.Cost(lo, hi)
}

// shrinking divides a range on aligned boundaries into tasks that become smaller. least
// is the smallest cost of a task, as a part of the range's; grain its fewest items.
func shrinking(p sched.Items, r sched.Range, least float64, grain int64) []sched.Range {
	least *= cost(p, r.Lo, r.Hi)
	return divided(p, r, least/2, grain, func(rest float64) float64 { return max(rest*taskOfRest, least) })
}

// parted divides a range on aligned boundaries into tasks whose cost is a part each of the
// range's, but for the first and last, which have another.
func parted(p sched.Items, r sched.Range, each, ends float64, grain int64) []sched.Range {
	all := cost(p, r.Lo, r.Hi)
	return divided(p, r, ends*all/2, grain, func(rest float64) float64 {
		if rest >= all || rest < (each+ends/2)*all { // the first, and what is left before the last
			return min(ends*all, rest)
		}
		return min(each*all, rest-ends*all)
	})
}

// divided divides a range on aligned boundaries into tasks. want returns the cost that the next
// task should have, given the cost of the rest; a last task that costs less than least becomes
// part of the one before. grain is the fewest items of a task.
func divided(p sched.Items, r sched.Range, least float64, grain int64, want func(rest float64) float64) []sched.Range {
	var out []sched.Range
	align := max(p.Align, 1)
	for lo := r.Lo; lo < r.Hi; {
		want := want(cost(p, lo, r.Hi))
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
		if r.Hi-hi < grain || cost(p, hi, r.Hi) < least {
			hi = r.Hi // the rest would be too small
		}
		out = append(out, sched.Range{Lo: lo, Hi: hi})
		lo = hi
	}
	return out
}

// reach returns the largest number of bytes of a buffer that kernels of every device can take.
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
func fit(p sched.Items, ranges []sched.Range, most int64) []sched.Range {
	if p.Bytes == nil {
		return ranges
	}
	large := func(lo, hi int64) bool {
		in, out := p.Bytes(lo, hi)
		return in > most || out > most
	}
	var out []sched.Range
	for len(ranges) > 0 {
		r := ranges[0]
		halves := halved(p, r)
		if len(halves) == 1 || !large(r.Lo, r.Hi) || large(r.Lo, min(r.Lo+max(p.Align, 1), r.Hi)) {
			out, ranges = append(out, r), ranges[1:]
			continue
		}
		ranges = append(halves, ranges[1:]...)
	}
	return out
}

// halved returns the halves of a range, cut on an aligned boundary, or the range itself if it has
// none.
func halved(p sched.Items, r sched.Range) []sched.Range {
	align := max(p.Align, 1)
	mid := (r.Lo + r.Len()/2 + align - 1) / align * align
	if mid <= r.Lo || mid >= r.Hi {
		return []sched.Range{r}
	}
	return []sched.Range{{Lo: r.Lo, Hi: mid}, {Lo: mid, Hi: r.Hi}}
}
