package exec

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

const (
	// probeBudget is the longest time that measuring all devices may take. A device
	// without progress for probeHang (or Config.HangAfter) counts as hung; the last one
	// left only after probePatience.
	probeBudget   = time.Second
	probeHang     = 2 * time.Second
	probePatience = 30 * time.Second
	// probeSamples is the number of repetitions of a probe, at a size that takes
	// probeTakes or more: starting it is a small part of 3 ms, and all probes of a device
	// stay within probeBudget.
	probeSamples = 4
	probeTakes   = 3 * time.Millisecond
	// idleBefore is the idle time before the reply of a device is timed. After 1 ms its
	// threads sleep, as they do between runs.
	idleBefore = time.Millisecond
	// warmLeast is the time for which a device with a memory of its own computes before it
	// is measured, because such devices lower their clocks when they are idle. While it
	// still becomes faster it goes on, up to warmMost.
	warmLeast = 80 * time.Millisecond
	warmMost  = 250 * time.Millisecond
	// probeLaunches is the number of empty kernels that are timed in a row.
	probeLaunches = 64
	// maxProbeItems is the most items of a compute probe. streamBytes is how much
	// devices that share a memory stream together, more than caches hold; each
	// streams leastStream or more.
	maxProbeItems = 1 << 20
	streamBytes   = 32 << 20
	leastStream   = 8 << 20
	// smallCopy is the size in bytes of a copy whose time is nearly all latency.
	smallCopy = 4 << 10
	// maxSpread is the largest distance between the middle samples, relative to their
	// median, of a measurement that is kept. Beyond it the device did other work too.
	maxSpread = 0.2
	// fabricBPS is the rate in bytes per second above which a link between GPUs is no
	// PCIe: version 5 ends at 64 GB/s.
	fabricBPS = 100e9
)

// calibrate measures devices and writes what it finds into the machine. It
// reports whether the figures are steady enough to be kept. A device that hangs
// for longer than hang or gets lost is marked as lost. begun counts the
// operations given, by lane.
func calibrate(ctx context.Context, m *machine.Machine, devs []*dev, host *dev, board *driver.Board, begun []uint32, hang time.Duration, log *slog.Logger) (steady bool) {
	begin := board.Now()
	left := &atomic.Int32{}
	left.Store(int32(len(devs)))
	meters := make([]*meter, len(devs))
	// phase gives every device until a part of the budget has passed.
	phase := func(part float64) {
		for _, t := range meters {
			t.until = begin + time.Duration(part*float64(probeBudget))
		}
	}
	for i, d := range devs {
		meters[i] = newMeter(ctx, d, m.Devices[i], board, begun, hang, left)
	}
	// Arithmetic is measured on all devices at once, because they will be used that way.
	// Devices that share cores are measured in turns: the cost model starts from the rate
	// of each with all of its cores.
	turns, like := turnsOf(m)
	for n, turn := range turns {
		phase(0.5 * float64(n+1) / float64(len(turns)))
		inParallel(turn, func(i int) { meters[i].compute() })
	}
	for i, first := range like {
		meters[i].rates = meters[first].rates
	}
	phase(0.7)
	measureMemory(m, meters)
	phase(0.85)
	for _, turn := range turns {
		inParallel(turn, func(i int) { meters[i].hostLink() })
	}
	for i, first := range like {
		meters[i].linkBPS, meters[i].linkNS = meters[first].linkBPS, meters[first].linkNS
	}
	phase(1)
	measurePeers(m, meters)
	copier := newMeter(ctx, host, host.Info(), board, begun, hang, left)
	m.HostBPS = copier.withinHost()

	steady = true
	for i, t := range append(slices.Clone(meters), copier) {
		t.release()
		if t.err != nil {
			log.Warn("device left out: it failed while being measured", "device", t.info.Name, "err", t.err)
			t.lost = true
			continue
		}
		steady = steady && t.spread <= maxSpread
		if i < len(devs) {
			m.Devices[i].Rates = t.rates
		}
	}
	for i := range m.Links {
		if l := &m.Links[i]; l.A == machine.Host && meters[l.B].linkBPS > 0 {
			l.BPS, l.LatencyNS = meters[l.B].linkBPS, meters[l.B].linkNS
		}
	}
	agree(m)
	return steady
}

// turnsOf returns which devices are measured at the same time, in turns: all of
// them at once where there are cores enough. One that would need a turn of its own
// and is like another is not measured but taken for the other, by like.
func turnsOf(m *machine.Machine) (turns [][]int, like map[int]int) {
	turns, like = [][]int{nil}, make(map[int]int)
	crowds := m.Crowds()
	for i := range m.Devices {
		if !slices.ContainsFunc(crowds, func(c machine.Crowd) bool { return slices.Contains(c.Devices, machine.DeviceID(i)) }) {
			turns[0] = append(turns[0], i)
		}
	}
	for _, c := range crowds {
		first := make(map[string]int)
		taken := make(map[int]int) // cores, by turn
		for k, d := range c.Devices {
			i, id := int(d), m.Devices[d].Identity()
			turn := 0
			for taken[turn] > 0 && taken[turn]+c.Takes[k] > c.Cores {
				turn++
			}
			if f, ok := first[id]; ok && taken[turn] == 0 {
				like[i] = f
				continue
			} else if !ok {
				first[id] = i
			}
			if turn == len(turns) {
				turns = append(turns, nil)
			}
			turns[turn] = append(turns[turn], i)
			taken[turn] += c.Takes[k]
		}
	}
	return turns, like
}

// measureMemory measures the memory of all devices: of those that share one each
// kind alone, then all together.
func measureMemory(m *machine.Machine, meters []*meter) {
	groups := sharing(m)
	inParallel(groups, func(g []int) {
		known := make(map[string]float64)
		for _, i := range g {
			t, id := meters[i], m.Devices[i].Identity()
			t.size = max(streamBytes/int64(len(g)), leastStream)
			if known[id] == 0 {
				known[id] = t.stream()
			}
			t.rates.MemoryBPS = known[id]
		}
	})
	for _, g := range groups {
		if len(g) > 1 {
			shareMemory(m, g, meters)
		}
	}
}

// sharing returns the devices in groups that have resources in common.
func sharing(m *machine.Machine) [][]int {
	of := make(map[string]int) // resource to its group
	var groups [][]int
	for i := range m.Devices {
		at := -1
		for _, r := range m.Devices[i].Resources {
			if g, ok := of[r]; ok {
				at = g
			}
		}
		if at < 0 {
			at = len(groups)
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], i)
		for _, r := range m.Devices[i].Resources {
			of[r] = at
		}
	}
	return groups
}

// shareMemory measures what devices get of the memory they share when all of
// them use it.
func shareMemory(m *machine.Machine, group []int, meters []*meter) {
	var mu sync.Mutex
	total := 0.0
	inParallel(group, func(i int) {
		bps := meters[i].stream()
		mu.Lock()
		total += bps
		mu.Unlock()
	})
	for i := range m.Resources {
		r := &m.Resources[i]
		if r.Cores == 0 && !slices.ContainsFunc(group, func(d int) bool { return !slices.Contains(m.Devices[d].Resources, r.Name) }) {
			r.BPS = total
		}
	}
}

// measurePeers measures the link of every pair of devices that copy directly, and adds
// those that the machine lacks.
func measurePeers(m *machine.Machine, meters []*meter) {
	for b, to := range meters {
		for a, from := range meters {
			p, ok := to.Device.(driver.PeerCopier)
			if a >= b || !ok || to.ended() || from.ended() || !p.CanCopyFrom(from.Device) || from.info.HostMemory {
				continue
			}
			bps, ns := to.peer(from)
			if bps == 0 {
				continue
			}
			link := machine.Link{A: machine.DeviceID(a), B: machine.DeviceID(b), Kind: machine.PCIe, BPS: bps, LatencyNS: ns}
			if bps > fabricBPS {
				link.Kind = machine.NVLink
			}
			if i := slices.IndexFunc(m.Links, func(l machine.Link) bool { return l.A == link.A && l.B == link.B }); i >= 0 {
				link.Kind = m.Links[i].Kind // as the device knows it
				m.Links[i] = link
			} else {
				m.Links = append(m.Links, link)
			}
		}
	}
}

// agree gives devices that are alike the same figures, the median of theirs. Measurements
// are never equal, and placement is cheaper the fewer classes of devices there are. A device
// that really is slower is found by the durations of its tasks.
func agree(m *machine.Machine) {
	alike := make(map[string][]int)
	for i := range m.Devices {
		id := m.Devices[i].Identity()
		alike[id] = append(alike[id], i)
	}
	links := make(map[int]*machine.Link)
	for i := range m.Links {
		if l := &m.Links[i]; l.A == machine.Host {
			links[int(l.B)] = l
		}
	}
	for _, g := range alike {
		level := func(figure func(i int) *float64) {
			var xs []float64
			for _, i := range g {
				if x := figure(i); x != nil && *x > 0 {
					xs = append(xs, *x)
				}
			}
			if len(xs) == 0 {
				return
			}
			mid := median(xs)
			for _, i := range g {
				if x := figure(i); x != nil {
					*x = mid
				}
			}
		}
		level(func(i int) *float64 { return &m.Devices[i].Rates.LaunchNS })
		level(func(i int) *float64 { return &m.Devices[i].Rates.ReplyNS })
		level(func(i int) *float64 { return &m.Devices[i].Rates.MemoryBPS })
		for u := range graph.NumUnits {
			level(func(i int) *float64 { return &m.Devices[i].Rates.Ops[u] })
		}
		for _, pick := range []func(l *machine.Link) *float64{
			func(l *machine.Link) *float64 { return &l.BPS },
			func(l *machine.Link) *float64 { return &l.LatencyNS },
		} {
			level(func(i int) *float64 {
				if links[i] == nil {
					return nil
				}
				return pick(links[i])
			})
		}
	}
}

// inParallel calls fn for every x and waits.
func inParallel[T any](xs []T, fn func(T)) {
	var wg sync.WaitGroup
	for _, x := range xs {
		wg.Go(func() { fn(x) })
	}
	wg.Wait()
}
