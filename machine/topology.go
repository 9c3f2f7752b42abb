package machine

import (
	"cmp"
	"math"
	"slices"
)

// hop is a direct link between two memories. The zero value is none.
type hop struct {
	link      int // index into Machine.Links
	bps       float64
	latencyNS float64
}

// wider reports whether h serves large copies better than o.
func (h hop) wider(o hop) bool {
	return h.bps > o.bps || (h.bps == o.bps && h.latencyNS < o.latencyNS)
}

// routes are the best links of a machine, sorted so that a path is found
// without looking at all of them.
type routes struct {
	memory []DeviceID // of each device, as MemoryOf
	host   []hop      // between each device and the host
	peers  [][]peer   // of each device, ascending
}

type peer struct {
	to DeviceID
	hop
}

func newRoutes(m *Machine) *routes {
	n := len(m.Devices)
	r := &routes{make([]DeviceID, n), make([]hop, n), make([][]peer, n)}
	for i := range r.memory {
		r.memory[i] = m.MemoryOf(DeviceID(i))
	}
	limit := make(map[string]float64, len(m.Resources))
	for _, x := range m.Resources {
		if x.BPS > 0 {
			limit[x.Name] = x.BPS
		}
	}
	for i := range m.Links {
		l := &m.Links[i]
		h := hop{i, l.BPS, l.LatencyNS}
		for _, name := range l.Resources {
			if bps, ok := limit[name]; ok {
				h.bps = math.Min(h.bps, bps)
			}
		}
		switch a, b := m.MemoryOf(l.A), m.MemoryOf(l.B); {
		case a == b:
		case a == Host:
			r.offerHost(b, h)
		case b == Host:
			r.offerHost(a, h)
		default:
			r.peers[a] = append(r.peers[a], peer{b, h})
			r.peers[b] = append(r.peers[b], peer{a, h})
		}
	}
	for i, ps := range r.peers {
		// Of several links to a peer the widest comes first and stays.
		slices.SortStableFunc(ps, func(x, y peer) int {
			return cmp.Or(cmp.Compare(x.to, y.to), cmp.Compare(y.bps, x.bps), cmp.Compare(x.latencyNS, y.latencyNS))
		})
		r.peers[i] = slices.CompactFunc(ps, func(x, y peer) bool { return x.to == y.to })
	}
	return r
}

func (r *routes) offerHost(d DeviceID, h hop) {
	if h.wider(r.host[d]) {
		r.host[d] = h
	}
}

// route is a path of no, one or two hops.
type route struct {
	hops      [2]int
	n         int
	bps       float64 // +Inf within one memory, 0 when there is no path
	latencyNS float64
}

func (r *routes) space(d DeviceID) DeviceID {
	if d == Host {
		return Host
	}
	return r.memory[d]
}

// direct returns the widest link between two memories.
func (r *routes) direct(a, b DeviceID) hop {
	switch {
	case a == Host:
		return r.host[b]
	case b == Host:
		return r.host[a]
	}
	ps := r.peers[a]
	i, ok := slices.BinarySearchFunc(ps, b, func(p peer, to DeviceID) int { return cmp.Compare(p.to, to) })
	if !ok {
		return hop{}
	}
	return ps[i].hop
}

func (r *routes) path(from, to DeviceID) route {
	a, b := r.space(from), r.space(to)
	if a == b {
		return route{bps: math.Inf(1)}
	}
	best := r.direct(a, b)
	if a != Host && b != Host {
		up, down := r.host[a], r.host[b]
		via := hop{latencyNS: up.latencyNS + down.latencyNS}
		if up.bps > 0 && down.bps > 0 {
			via.bps = 1 / (1/up.bps + 1/down.bps)
		}
		if via.bps > 0 && via.wider(best) {
			return route{[2]int{up.link, down.link}, 2, via.bps, via.latencyNS}
		}
	}
	if best.bps == 0 {
		return route{}
	}
	return route{[2]int{best.link}, 1, best.bps, best.latencyNS}
}

// Path returns the links of a large copy, in order: the route with the highest
// rate, of equally fast ones that with the lowest latency. A route is one direct
// link or leads through the host. bps is the rate of the link or its narrowest
// resource, without other copies; through the host a copy is made twice, one after
// the other, so times and latencies add up. Within one memory there are no hops and
// the rate is infinite; without a path the rate is 0.
//
// Path looks at every link of the machine; a Roofline keeps the answers.
func (m *Machine) Path(from, to DeviceID) (hops []int, bps, latencyNS float64) {
	p := newRoutes(m).path(from, to)
	return slices.Clone(p.hops[:p.n]), p.bps, p.latencyNS
}

// LinkBetween returns the index of the best link that joins two memories
// directly.
func (m *Machine) LinkBetween(a, b DeviceID) (link int, ok bool) {
	r := newRoutes(m)
	if a, b = r.space(a), r.space(b); a == b {
		return 0, false
	}
	h := r.direct(a, b)
	return h.link, h.bps > 0
}

// Far returns the pairs of devices whose best direct link is a network, each both
// ways; nil where there are none.
func (m *Machine) Far() map[[2]DeviceID]bool {
	var far map[[2]DeviceID]bool
	for i, ps := range newRoutes(m).peers {
		for _, p := range ps {
			if m.Links[p.link].Kind == Network {
				if far == nil {
					far = make(map[[2]DeviceID]bool)
				}
				far[[2]DeviceID{DeviceID(i), p.to}] = true
			}
		}
	}
	return far
}

// WithoutLink returns a copy of the machine that lacks all links between a and
// b. The copy shares the devices and resources of the original.
func (m *Machine) WithoutLink(a, b DeviceID) *Machine {
	c := *m
	c.Links = nil
	for _, l := range m.Links {
		if !(l.A == a && l.B == b) && !(l.A == b && l.B == a) {
			c.Links = append(c.Links, l)
		}
	}
	return &c
}

// Closeness of devices, from machines apart to one memory.
const (
	byNetwork = iota
	byHost
	byLink
	bySwitch
	byFabric
	byMemory
)

// Groups divides the devices by closeness: devices that share a memory, else a GPU
// fabric, else a PCIe switch, else a direct link, else a host. Every device is in
// the group of the devices closest to it, so the CPU of a machine whose GPUs share
// a fabric is a group of its own. Groups and their devices ascend.
//
// Devices are on one switch when links of kind PCIeSwitch join them, or join
// them to the host and share a resource.
func (m *Machine) Groups() [][]DeviceID {
	sets := m.neighbours()
	best := make([]int, len(m.Devices))
	for _, s := range sets {
		if len(s.devices) > 1 {
			for _, d := range s.devices {
				best[d] = max(best[d], s.closeness)
			}
		}
	}
	// Union by smallest member: a device's group is known by its first.
	first := make([]DeviceID, len(m.Devices))
	for i := range first {
		first[i] = DeviceID(i)
	}
	root := func(d DeviceID) DeviceID {
		for first[d] != d {
			first[d] = first[first[d]]
			d = first[d]
		}
		return d
	}
	for _, s := range sets {
		last := Host
		for _, d := range s.devices {
			if best[d] != s.closeness || s.closeness == byNetwork {
				continue
			}
			if last != Host {
				a, b := root(last), root(d)
				first[max(a, b)] = min(a, b)
			}
			last = d
		}
	}
	groups := make([][]DeviceID, len(m.Devices))
	for i := range groups {
		r := root(DeviceID(i))
		groups[r] = append(groups[r], DeviceID(i))
	}
	return slices.DeleteFunc(groups, func(g []DeviceID) bool { return g == nil })
}

// neighbourhood is a set of devices that are equally close to one another,
// ascending.
type neighbourhood struct {
	closeness int
	devices   []DeviceID
}

// neighbours returns the sets of devices that a link, a resource of switch links,
// host memory or the host joins.
func (m *Machine) neighbours() []neighbourhood {
	var sets []neighbourhood
	var onHost []DeviceID
	shared := make(map[string]int) // resource of switch links to its position in sets
	for i := range m.Links {
		l := &m.Links[i]
		a, b := m.MemoryOf(l.A), m.MemoryOf(l.B)
		if a == b {
			continue
		}
		if a != Host && b != Host {
			closeness := [...]int{PCIe: byLink, PCIeSwitch: bySwitch, NVLink: byFabric, HostLink: byHost, Network: byNetwork}[l.Kind]
			sets = append(sets, neighbourhood{closeness, []DeviceID{a, b}})
			continue
		}
		d := max(a, b)
		if l.Kind != Network {
			onHost = append(onHost, d)
		}
		if l.Kind != PCIeSwitch {
			continue
		}
		for _, name := range l.Resources {
			at, ok := shared[name]
			if !ok {
				at = len(sets)
				shared[name] = at
				sets = append(sets, neighbourhood{closeness: bySwitch})
			}
			sets[at].devices = append(sets[at].devices, d)
		}
	}
	var inHost []DeviceID
	for i := range m.Devices {
		if m.Devices[i].HostMemory {
			inHost = append(inHost, DeviceID(i))
		}
	}
	sets = append(sets, neighbourhood{byMemory, inHost}, neighbourhood{byHost, append(onHost, inHost...)})
	for i := range sets {
		slices.Sort(sets[i].devices)
		sets[i].devices = slices.Compact(sets[i].devices)
	}
	return sets
}

// Classes numbers devices so that equal ones, for which every task costs the
// same and the host is equally far, have equal numbers. Classes are numbered by
// first appearance, from 0.
func (m *Machine) Classes() []int32 {
	type class struct {
		identity   string
		hostMemory bool
		team       int
		rates      Rates
		kind       LinkKind
		bps        float64
		latencyNS  float64
	}
	r := newRoutes(m)
	numbers := make(map[class]int32)
	out := make([]int32, len(m.Devices))
	for i := range m.Devices {
		d := &m.Devices[i]
		c := class{identity: d.Identity(), hostMemory: d.HostMemory, team: d.TeamSize(), rates: d.Rates}
		if h := r.host[i]; h.bps > 0 {
			c.kind, c.bps, c.latencyNS = m.Links[h.link].Kind, h.bps, h.latencyNS
		}
		n, ok := numbers[c]
		if !ok {
			n = int32(len(numbers))
			numbers[c] = n
		}
		out[i] = n
	}
	return out
}
