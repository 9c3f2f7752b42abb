package machine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func TestPath(t *testing.T) {
	for _, c := range []struct {
		machine  string
		from, to DeviceID
		hops     int
		bps, ns  float64
	}{
		{"3x5070", 0, 1, 1, 25e9, 8000},                  // over the switch, not up to the host
		{"3x5070", Host, 2, 1, 25e9, 10000},              //
		{"3x5070", 1, 1, 0, math.Inf(1), 0},              // nothing to copy
		{"4x5070-ring", 0, 3, 1, 25e9, 8000},             // neighbours
		{"4x5070-ring", 0, 2, 2, 6e9, 20000},             // opposite corners, through the host
		{"8x5070-hier", 1, 6, 2, 12.5e9, 20000},          // between switches
		{"8xh100", 7, 0, 1, 450e9, 3000},                 //
		{"16xh100", 0, 15, 1, 50e9, 15000},               // direct, although as wide as through the host
		{"16xh100", 15, Host, 1, 50e9, 20000},            //
		{"mixed", 0, 1, 2, 1 / (1/25e9 + 1/13e9), 20000}, // one card after the other
		{"mixed", 2, 0, 1, 25e9, 10000},                  // the CPU's memory is the host's
		{"mixed", 2, Host, 0, math.Inf(1), 0},            //
		{"2xcpu", 0, 1, 0, math.Inf(1), 0},               // one memory
		{"2xcpu", Host, Host, 0, math.Inf(1), 0},         //
	} {
		m := named(t, c.machine)
		hops, bps, ns := m.Path(c.from, c.to)
		if len(hops) != c.hops || bps != c.bps || ns != c.ns {
			t.Errorf("%s %d→%d: hops %v at %g B/s after %g ns; want %d at %g after %g", c.machine, c.from, c.to, hops, bps, ns, c.hops, c.bps, c.ns)
			continue
		}
		// The hops must lead from one end to the other.
		at := m.MemoryOf(c.from)
		for _, h := range hops {
			l := m.Links[h]
			switch at {
			case l.A:
				at = l.B
			case l.B:
				at = l.A
			default:
				t.Errorf("%s %d→%d: hop %d does not begin at %d", c.machine, c.from, c.to, h, at)
			}
		}
		if at != m.MemoryOf(c.to) {
			t.Errorf("%s %d→%d: hops %v end at %d", c.machine, c.from, c.to, hops, at)
		}
	}
}

func TestPathPrefersWidthThenLatency(t *testing.T) {
	m := pair()
	m.Resources = append(m.Resources, Resource{Name: "narrow", BPS: 3e9})
	m.Links = []Link{
		{A: 0, B: Host, BPS: 10e9, LatencyNS: 9},
		{A: Host, B: 0, BPS: 20e9, LatencyNS: 8, Resources: []string{"narrow"}},
		{A: 0, B: Host, BPS: 10e9, LatencyNS: 5},
		{A: 1, B: 0, BPS: 10e9, LatencyNS: 7}, // the CPU's memory is the host's
	}
	if hops, bps, ns := m.Path(Host, 0); !slices.Equal(hops, []int{2}) || bps != 10e9 || ns != 5 {
		t.Errorf("took link %v at %g after %g, want link 2", hops, bps, ns)
	}
	if l, ok := m.LinkBetween(0, 1); !ok || l != 2 {
		t.Errorf("LinkBetween = %d, %v, want 2", l, ok)
	}
	m.Links[1].Resources = nil
	if hops, _, _ := m.Path(0, Host); !slices.Equal(hops, []int{1}) {
		t.Errorf("took link %v, want the widest, 1", hops)
	}
	if _, ok := m.LinkBetween(1, Host); ok {
		t.Error("found a link within one memory")
	}
}

func TestPathGoesThroughTheHostWhenThatIsWider(t *testing.T) {
	m := named(t, "4x5070-ring")
	direct, _ := m.LinkBetween(0, 1)
	m.Links[direct].BPS = 1e9
	if hops, bps, _ := m.Path(0, 1); len(hops) != 2 || bps != 6e9 {
		t.Errorf("hops %v at %g, want the two to and from the host", hops, bps)
	}
}

func TestWithoutLink(t *testing.T) {
	m := named(t, "4x5070-ring")
	before := len(m.Links)
	c := m.WithoutLink(1, 0)
	if _, ok := c.LinkBetween(0, 1); ok || len(c.Links) != before-1 {
		t.Errorf("the link is still there, or more than it went: %d of %d links", len(c.Links), before)
	}
	if _, ok := m.LinkBetween(0, 1); !ok || len(m.Links) != before {
		t.Error("the original changed")
	}
	if hops, bps, _ := c.Path(0, 1); len(hops) != 2 || bps != 6e9 {
		t.Errorf("without the link the path is %v at %g, want through the host", hops, bps)
	}
	c = c.WithoutLink(0, Host)
	if hops, bps, ns := c.Path(0, 1); len(hops) != 0 || bps != 0 || ns != 0 {
		t.Errorf("a path %v at %g is left", hops, bps)
	}
	if _, bps, _ := c.Path(0, 3); bps != 25e9 {
		t.Errorf("the other neighbour is at %g", bps)
	}
}

func TestFar(t *testing.T) {
	if far := named(t, "8xh100").Far(); far != nil {
		t.Errorf("one machine has a network: %v", far)
	}
	far := named(t, "16xh100").Far()
	for a := range DeviceID(16) {
		for b := range DeviceID(16) {
			if want := a/8 != b/8; far[[2]DeviceID{a, b}] != want {
				t.Errorf("%d and %d are far: %v", a, b, !want)
			}
		}
	}
}

func TestGroups(t *testing.T) {
	to := func(lo, hi DeviceID) (out []DeviceID) {
		for ; lo <= hi; lo++ {
			out = append(out, lo)
		}
		return out
	}
	alone := pair() // a GPU and a CPU meet at the host
	fabric := named(t, "2xh100")
	fabric.Devices = append(fabric.Devices, Device{Name: "cpu", Kind: CPU, HostMemory: true})
	noPeers := named(t, "8x5070-hier")
	noPeers.Links = slices.DeleteFunc(noPeers.Links, func(l Link) bool { return l.A != Host && l.B != Host })
	apart := &Machine{Devices: make([]Device, 3), Links: []Link{{A: 0, B: 1, Kind: Network, BPS: 1}, {A: 2, B: Host, BPS: 1}}}
	for _, c := range []struct {
		name string
		m    *Machine
		want [][]DeviceID
	}{
		{"one switch", named(t, "3x5070"), [][]DeviceID{to(0, 2)}},
		{"ring beside a CPU", named(t, "4x5070-ring"), [][]DeviceID{to(0, 3), to(4, 4)}},
		{"two switches", named(t, "8x5070-hier"), [][]DeviceID{to(0, 3), to(4, 7)}},
		{"two switches without peer links", noPeers, [][]DeviceID{to(0, 3), to(4, 7)}},
		{"full mesh", named(t, "8xh100"), [][]DeviceID{to(0, 7)}},
		{"two nodes", named(t, "16xh100"), [][]DeviceID{to(0, 7), to(8, 15)}},
		{"one host", named(t, "mixed"), [][]DeviceID{to(0, 2)}},
		{"one memory", named(t, "2xcpu"), [][]DeviceID{to(0, 1)}},
		{"pair", alone, [][]DeviceID{to(0, 1)}},
		{"CPU beside a fabric", fabric, [][]DeviceID{to(0, 1), to(2, 2)}},
		{"machines apart", apart, [][]DeviceID{to(0, 0), to(1, 1), to(2, 2)}},
	} {
		if got := c.m.Groups(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestClasses(t *testing.T) {
	renamed := named(t, "3x5070")
	renamed.Devices[1].UUID, renamed.Devices[1].NUMA = "other", 1 // who it is, not what
	slower := named(t, "3x5070")
	slower.Devices[1].Rates.MemoryBPS /= 2
	farther := named(t, "3x5070")
	l, _ := farther.LinkBetween(2, Host)
	farther.Links[l].BPS /= 2
	for _, c := range []struct {
		name string
		m    *Machine
		want []int32
	}{
		{"equal", named(t, "3x5070"), []int32{0, 0, 0}},
		{"equal but for names", renamed, []int32{0, 0, 0}},
		{"one slower", slower, []int32{0, 1, 0}},
		{"one farther", farther, []int32{0, 0, 1}},
		{"mixed", named(t, "mixed"), []int32{0, 1, 2}},
		{"two nodes", named(t, "16xh100"), []int32{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}},
	} {
		if got := c.m.Classes(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// narrowest returns the width of a ring's narrowest hop.
func narrowest(m *Machine, ring []DeviceID) float64 {
	min := math.Inf(1)
	for i, d := range ring {
		_, bps, _ := m.Path(d, ring[(i+1)%len(ring)])
		min = math.Min(min, bps)
	}
	return min
}

// randomLinks joins n devices and the host by links of random width, some of
// them missing.
func randomLinks(n int, r *rand.Rand) *Machine {
	m := &Machine{}
	for i := range n {
		m.Devices = append(m.Devices, Device{Name: fmt.Sprint("d:", i)})
		m.Links = append(m.Links, Link{A: DeviceID(i), B: Host, BPS: 1 + float64(r.IntN(3)), LatencyNS: 10})
		for j := range i {
			if r.IntN(3) > 0 {
				m.Links = append(m.Links, Link{A: DeviceID(i), B: DeviceID(j), BPS: float64(1 + r.IntN(20)), LatencyNS: float64(r.IntN(9))})
			}
		}
	}
	return m
}

// widest returns the best narrowest hop of any ring, by another method than
// Ring's: it removes hops from the narrowest up until no ring is left, deciding
// that by dynamic programming over subsets (Held and Karp).
func widest(m *Machine) float64 {
	n := len(m.Devices)
	width := make([][]float64, n)
	var values []float64
	for i := range n {
		width[i] = make([]float64, n)
		for j := range n {
			if i != j {
				_, width[i][j], _ = m.Path(DeviceID(i), DeviceID(j))
				values = append(values, width[i][j])
			}
		}
	}
	slices.Sort(values)
	best := 0.0
	for _, v := range slices.Compact(values) {
		ends := make([]uint, 1<<n) // for a set with 0: where a path from 0 over all of it may end
		ends[1] = 1
		for set := range ends {
			for i := range n {
				for j := range n {
					if ends[set]>>i&1 == 1 && set>>j&1 == 0 && width[i][j] >= v {
						ends[set|1<<j] |= 1 << j
					}
				}
			}
		}
		for i := 1; i < n; i++ {
			if ends[1<<n-1]>>i&1 == 1 && width[i][0] >= v {
				best = v
			}
		}
	}
	return best
}

func TestRingIsExactWhenSmall(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 4 + r.IntN(5)
		m := randomLinks(n, r)
		devs := all(m)
		ring := m.Ring(devs)
		if !samePermutation(ring, devs) || ring[0] != devs[0] {
			t.Fatalf("seed %d: %v is no order of %v", seed, ring, devs)
		}
		if got, want := narrowest(m, ring), widest(m); got != want {
			t.Errorf("seed %d: ring %v has a hop of %v, the best possible is %v", seed, ring, got, want)
		}
	}
}

func TestRingBeyondExact(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := randomLinks(9+r.IntN(3), r)
		devs := all(m)
		ring := m.Ring(devs)
		if !samePermutation(ring, devs) {
			t.Fatalf("seed %d: %v is no order of %v", seed, ring, devs)
		}
		if got, plain := narrowest(m, ring), narrowest(m, devs); got < plain {
			t.Errorf("seed %d: ring %v has a hop of %v, worse than the devices in order, %v", seed, ring, got, plain)
		}
		if got, best := narrowest(m, ring), widest(m); got < best/2 {
			t.Errorf("seed %d: ring %v has a hop of %v, the best possible is %v", seed, ring, got, best)
		}
	}
}

func TestRingOnShippedMachines(t *testing.T) {
	ring := named(t, "4x5070-ring")
	if got := ring.Ring([]DeviceID{0, 2, 1, 3}); narrowest(ring, got) != 25e9 {
		t.Errorf("the ring of peer links was not found: %v", got)
	}
	for _, c := range []struct {
		machine string
		group   DeviceID // devices in each group
	}{{"8x5070-hier", 4}, {"16xh100", 8}} {
		m := named(t, c.machine)
		var devs []DeviceID // the groups' devices in turn: the worst order
		for i := range c.group {
			devs = append(devs, i, i+c.group)
		}
		order := m.Ring(devs)
		crossings := 0
		for i, d := range order {
			if d/c.group != order[(i+1)%len(order)]/c.group {
				crossings++
			}
		}
		if crossings != 2 {
			t.Errorf("%s: %v goes between the groups %d times, want 2", c.machine, order, crossings)
		}
	}
	if got := ring.Ring(nil); len(got) != 0 {
		t.Errorf("ring of nothing: %v", got)
	}
}

func all(m *Machine) []DeviceID {
	out := make([]DeviceID, len(m.Devices))
	for i := range out {
		out[i] = DeviceID(i)
	}
	return out
}

func samePermutation(a, b []DeviceID) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
