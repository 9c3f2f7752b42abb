package plan

import (
	"cmp"
	"math"
	"slices"

	"github.com/weft-run/weft/machine"
)

// between is the rate of the way between two devices in bytes per second; one device has
// no end of it.
func between(m *machine.Machine, a, b machine.DeviceID) float64 {
	if a == b {
		return math.MaxFloat64 / 1e6
	}
	_, bps, _ := m.Path(a, b)
	return bps
}

// byLinks orders devices such that neighbours have fast links: it begins with the pair that
// has the fastest one, and goes on from the last device to the one nearest to it.
func byLinks(m *machine.Machine, devices []machine.DeviceID) []machine.DeviceID {
	left := slices.Clone(devices)
	slices.Sort(left)
	left = slices.Compact(left)
	if len(left) < 3 {
		return left
	}
	first, best := 0, -1.0
	for i, a := range left {
		for _, b := range left[i+1:] {
			if bps := between(m, a, b); bps > best {
				first, best = i, bps
			}
		}
	}
	out := []machine.DeviceID{left[first]}
	left = slices.Delete(left, first, first+1)
	for len(left) > 0 {
		last, next := out[len(out)-1], 0
		for i := range left {
			if between(m, last, left[i]) > between(m, last, left[next]) {
				next = i
			}
		}
		out = append(out, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return out
}

// layout writes down the placement that was found.
func (s *placing) layout() *Layout {
	l := &Layout{Order: s.order, Used: make([]int64, len(s.m.Devices))}
	add := func(i int, on machine.DeviceID, offset, bytes, taken int64, window bool) {
		a := &s.arrays[i]
		l.Allocations = append(l.Allocations, Allocation{a.Name, on, offset, bytes, window, a.Role, a.Access, a.Spread, a.Priority})
		if on == machine.Host {
			l.Host += taken
		} else {
			l.Used[on] += taken
		}
	}
	for i := range s.arrays {
		a := &s.arrays[i]
		if a.home() || s.hosted[i] {
			add(i, machine.Host, 0, a.Bytes, a.Bytes, false)
		}
		switch {
		case a.Spread == Whole:
			add(i, s.order[s.on[i]], 0, s.need(i), s.need(i), s.hosted[i])
		case s.hosted[i]:
			for _, d := range s.order {
				add(i, d, 0, a.Window, a.Window, true)
			}
		case a.Spread == Replicated:
			for _, d := range s.order {
				add(i, d, 0, a.Bytes, a.Bytes, false)
			}
		}
	}
	for _, i := range s.splits() {
		a := &s.arrays[i]
		offset := int64(0)
		for d, grains := range s.divide(a.taken()/a.Grain, a.Grain) {
			bytes := min(grains*a.Grain, a.Bytes-offset)
			if bytes <= 0 {
				continue
			}
			s.free[d] -= grains * a.Grain
			add(i, s.order[d], offset, bytes, grains*a.Grain, false)
			offset += bytes
		}
	}
	s.spills(l)
	s.schedule(l)
	return l
}

// divide gives each device equally many grains, or as many as it has room for.
func (s *placing) divide(grains, grain int64) []int64 {
	out := make([]int64, len(s.free))
	for grains > 0 {
		open := 0
		for d := range out {
			if out[d] < s.free[d]/grain {
				open++
			}
		}
		each := max(grains/int64(open), 1) // splitsFit has found room
		for d := range out {
			n := min(each, s.free[d]/grain-out[d], grains)
			out[d], grains = out[d]+n, grains-n
		}
	}
	return out
}

// spills says what arrays in host memory cost.
func (s *placing) spills(l *Layout) {
	for i := range s.arrays {
		a := &s.arrays[i]
		if !s.hosted[i] {
			continue
		}
		bps := 0.0
		for d, id := range s.order {
			rate := between(s.m, machine.Host, id)
			switch {
			case a.Spread == Whole && d == s.on[i]:
				bps = rate
			case a.Spread == Split: // each device its part
				bps += rate
			case a.Spread == Replicated && (bps == 0 || rate < bps): // the slowest is last
				bps = rate
			}
		}
		l.Spills = append(l.Spills, Spill{a.Name, (a.Bytes + a.Window - 1) / a.Window, float64(a.Bytes) / max(bps, 1), a.Access == InOrder})
	}
}

// ports holds the times at which memories and shared resources of links are free again.
type ports struct {
	m     *machine.Machine
	busy  map[string]float64
	lanes []float64 // of the host, which sends as many copies at a time as its memory is fast
}

func newPorts(m *machine.Machine) *ports {
	p := &ports{m: m, busy: make(map[string]float64)}
	least := math.Inf(1)
	for i := range m.Devices {
		if _, bps, _ := m.Path(machine.Host, machine.DeviceID(i)); bps > 0 {
			least = min(least, bps)
		}
	}
	n := float64(len(m.Devices))
	if m.HostBPS > 0 && least < math.Inf(1) {
		n = min(max(math.Floor(m.HostBPS/least), 1), n)
	}
	p.lanes = make([]float64, int(n))
	return p
}

// names lists the ports that a copy occupies, without the lane of the host.
func (p *ports) names(from, to machine.DeviceID) (out []string) {
	hops, _, _ := p.m.Path(from, to)
	for _, h := range hops {
		out = append(out, p.m.Links[h].Resources...)
	}
	if from != machine.Host {
		out = append(out, "from "+p.m.DeviceName(from))
	}
	if to != machine.Host {
		out = append(out, "to "+p.m.DeviceName(to))
	}
	return out
}

// when says when a copy that may start at since would start and end.
func (p *ports) when(from, to machine.DeviceID, bytes int64, since float64) (start, end float64) {
	hops, bps, latency := p.m.Path(from, to)
	if bps == 0 || from != machine.Host && to != machine.Host && len(hops) > 1 {
		return 0, math.Inf(1) // no way, or one through the host
	}
	for _, name := range p.names(from, to) {
		since = max(since, p.busy[name])
	}
	if from == machine.Host || to == machine.Host {
		since = max(since, slices.Min(p.lanes))
	}
	return since, since + latency/1e9 + float64(bytes)/bps
}

// take occupies what a copy needs until its end.
func (p *ports) take(from, to machine.DeviceID, end float64) {
	for _, name := range p.names(from, to) {
		p.busy[name] = end
	}
	if from == machine.Host || to == machine.Host {
		p.lanes[slices.Index(p.lanes, slices.Min(p.lanes))] = end
	}
}

// schedule plans copies from the host to devices and back. A device sends one copy at a
// time and takes one, copies by links that share something follow one another, and the host
// has as many at a time as its memory is fast. A replica comes from the memory from which it
// is there first, so that few copies cross the host's links and others NVLink where there is
// one. Arrays of high priority go first.
func (s *placing) schedule(l *Layout) {
	p := newPorts(s.m)
	has := make(map[string]map[machine.DeviceID]float64) // since when a replica is where
	order := make([]int, len(l.Allocations))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(l.Allocations[b].Priority, l.Allocations[a].Priority)
	})
	for _, i := range order {
		a := &l.Allocations[i]
		if a.On == machine.Host || a.Window || a.Role != Input && a.Role != Weights {
			continue
		}
		from := machine.Host
		start, end := p.when(from, a.On, a.Bytes, 0)
		for _, d := range s.order {
			if since, ok := has[a.Array][d]; ok && a.Spread == Replicated {
				if at, e := p.when(d, a.On, a.Bytes, since); e < end {
					from, start, end = d, at, e
				}
			}
		}
		if math.IsInf(end, 1) { // no path to the host is known
			continue
		}
		if has[a.Array] == nil {
			has[a.Array] = make(map[machine.DeviceID]float64)
		}
		has[a.Array][a.On] = end
		p.take(from, a.On, end)
		l.Transfers = append(l.Transfers, Transfer{a.Array, from, a.On, a.Offset, a.Bytes, start, end, false})
	}
	p = newPorts(s.m)
	sent := make(map[string]bool)
	for _, i := range order {
		a := &l.Allocations[i]
		if a.On == machine.Host || a.Window || a.Role != Result || a.Spread == Replicated && sent[a.Array] {
			continue
		}
		sent[a.Array] = true // replicas are equal
		start, end := p.when(a.On, machine.Host, a.Bytes, 0)
		if math.IsInf(end, 1) {
			continue
		}
		p.take(a.On, machine.Host, end)
		l.Transfers = append(l.Transfers, Transfer{a.Array, a.On, machine.Host, a.Offset, a.Bytes, start, end, true})
	}
}
