package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/probe"
	"github.com/weft-run/weft/machine"
)

const (
	// probeBudget is the longest that all devices are measured. A device without
	// progress for probeHang, unless the configuration says otherwise, counts
	// as hung, the last one left only after probePatience.
	probeBudget   = time.Second
	probeHang     = 2 * time.Second
	probePatience = 30 * time.Second
	// probeSamples is how often a probe is repeated at a size that takes probeTakes
	// or more: so long that starting it hardly counts, so short that the probes of a
	// device stay within the budget.
	probeSamples = 4
	probeTakes   = 3 * time.Millisecond
	// idleBefore is how long a device is idle before its reply is timed. Its threads
	// sleep by then, as they do between runs.
	idleBefore = time.Millisecond
	// warmLeast is how long a device with a memory of its own computes before it is
	// measured, because such devices lower their clocks when they are idle. While it
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

// errHung is what a measurement ends with when the device no longer answers.
var errHung = errors.New("does not answer")

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
	// Arithmetic on all devices at once, which is how they will be used, but for
	// those that would get only a part of their cores then: what each makes of all
	// of them is what the model starts from.
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
			if a >= b || !ok || !p.CanCopyFrom(from.Device) || from.info.HostMemory {
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

// agree gives devices that are alike the same figures, the median of theirs:
// measurements are never equal, and devices that cost the same are what makes
// placement cheap. One that really is slower is found by how it performs.
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

// meter measures one device. One goroutine at a time uses it.
type meter struct {
	*dev
	ctx     context.Context
	info    machine.Device
	board   *driver.Board
	begun   []uint32
	hang    time.Duration // without progress
	left    *atomic.Int32 // devices not given up, of all that are measured
	got     []driver.Completion
	until   time.Duration // when its time for what it measures now is over
	spread  float64       // the largest of its measurements
	err     error         // what ended its measurements
	rates   machine.Rates
	linkBPS float64 // to the host
	linkNS  float64
	warm    bool  // it has computed for long enough to be as fast as it gets
	size    int64 // of what it streams
	made    [2]int64
	mem     [2][]byte // what stands for the buffers on a device that uses host memory
}

func newMeter(ctx context.Context, d *dev, info machine.Device, board *driver.Board, begun []uint32, hang time.Duration, left *atomic.Int32) *meter {
	return &meter{
		dev: d, ctx: ctx, info: info, board: board, begun: begun, hang: hang, left: left,
		got: make([]driver.Completion, probeLaunches), until: board.Now() + probeBudget/10, size: leastStream,
	}
}

// ended reports that nothing more is to be measured.
func (t *meter) ended() bool { return t.err != nil || t.ctx.Err() != nil }

// do gives the device operations for one lane, all of them Copy or Launch, and
// waits for their end.
func (t *meter) do(lane driver.Lane, ops ...driver.Op) ([]driver.Completion, error) {
	for i := range ops {
		t.begun[lane]++
		ops[i].Lane, ops[i].Seq = lane, t.begun[lane]
	}
	last := driver.Wait{Lane: lane, Seq: t.begun[lane]}
	if err := t.Submit(ops); err != nil {
		return nil, t.fail(err)
	}
	var late atomic.Bool
	timer := time.AfterFunc(t.hang, func() {
		late.Store(true)
		t.board.Stir()
	})
	defer timer.Stop()
	since := t.board.Now()
	for n := 0; n < len(ops); {
		if k := t.Completions(t.got[n:len(ops)]); k > 0 {
			n += k
			since = t.board.Now()
			continue
		}
		if late.Swap(false) {
			quiet := t.board.Now() - since
			if quiet >= t.hang && t.giveUp(quiet) {
				return nil, t.fail(fmt.Errorf("%w within %v", errHung, quiet.Round(time.Millisecond)))
			}
			timer.Reset(t.hang)
		}
		runtime.Gosched()
		t.board.Sleep(func() bool {
			done, _ := t.board.State(last)
			return done || late.Load()
		})
	}
	for i := range t.got[:len(ops)] {
		if err := t.got[i].Err; err != nil {
			if errors.Is(err, driver.ErrDeviceLost) {
				return nil, t.fail(err)
			}
			return nil, err
		}
	}
	return t.got[:len(ops)], nil
}

// giveUp reports whether a device without progress for a time counts as hung. On a busy
// machine slow looks like hung: devices that compute on the host's cores never do, and
// the last device left, without which nothing runs, gets more time.
func (t *meter) giveUp(quiet time.Duration) bool {
	if t.info.HostMemory {
		return false
	}
	for {
		n := t.left.Load()
		if n <= 1 {
			return quiet >= max(probePatience, t.hang)
		}
		if t.left.CompareAndSwap(n, n-1) {
			return true
		}
	}
}

// fail notes an error after which the device cannot be measured any more.
func (t *meter) fail(err error) error {
	if t.err == nil && !errors.Is(err, errHung) { // which giveUp counted
		t.left.Add(-1)
	}
	t.err = fmt.Errorf("measure: %w", err)
	return t.err
}

// buffer makes buffer n of at least a number of bytes and returns it as an argument.
func (t *meter) buffer(n int, bytes int64) driver.Arg {
	if t.info.HostMemory {
		if t.made[n] < bytes {
			t.mem[n], t.made[n] = make([]byte, bytes), bytes
		}
		return driver.Arg{Buf: driver.NoBuffer, Bytes: bytes, Host: t.mem[n][:bytes]}
	}
	if t.made[n] < bytes {
		t.free(n)
		if err := t.Submit([]driver.Op{{Kind: driver.Alloc, Buf: driver.Buffer(n), Bytes: bytes}}); err != nil {
			t.fail(err)
		}
		t.made[n] = bytes
	}
	return driver.Arg{Buf: driver.Buffer(n), Bytes: bytes}
}

func (t *meter) free(n int) {
	if t.made[n] > 0 && !t.info.HostMemory && t.err == nil {
		if err := t.Submit([]driver.Op{{Kind: driver.Free, Buf: driver.Buffer(n)}}); err != nil {
			t.fail(err)
		}
	}
	t.made[n] = 0
}

// release frees what measuring took.
func (t *meter) release() {
	t.free(0)
	t.free(1)
	t.mem = [2][]byte{}
}

// sample repeats a measurement that returns its seconds and returns the median,
// 0 when it failed. The first run, in which memory and code are touched for the
// first time, does not count.
func (t *meter) sample(steadily bool, once func() (float64, error)) float64 {
	var xs []float64
	for i := range probeSamples + 1 {
		// However late it is, everything is measured once.
		if t.ended() || t.board.Now() > t.until && len(xs) > 0 {
			break
		}
		x, err := once()
		if err != nil {
			return 0
		}
		if i > 0 {
			xs = append(xs, x)
		}
	}
	mid := median(xs)
	if steadily && len(xs) >= 4 {
		t.spread = max(t.spread, (xs[len(xs)-2]-xs[1])/mid)
	}
	return mid
}

// median returns the middle of values, which it sorts; 0 when there are none.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	slices.Sort(xs)
	return xs[len(xs)/2]
}

// compute measures what starting a kernel costs and every kind of arithmetic.
func (t *meter) compute() {
	for _, p := range probe.List() {
		if t.ended() || !t.info.CanRun(p.Kernel) {
			continue
		}
		switch p.Kind {
		case probe.Empty:
			t.rates.LaunchNS = t.launches(&p) * 1e9
			// A reply holds a launch; what else the machine did meanwhile may
			// have made those look longer.
			t.rates.ReplyNS = max(t.reply(&p)*1e9, t.rates.LaunchNS)
		case probe.Compute:
			t.rates.Ops[p.Unit] = t.arithmetic(&p)
		}
	}
}

func launchOf(p *probe.Probe, items int64, args ...driver.Arg) driver.Op {
	task := &graph.Task{Name: p.Kernel.Name, Steps: []graph.Step{p.Step(items)}}
	return driver.Op{Kind: driver.Launch, Task: task, Args: args}
}

// launches returns the seconds an empty kernel takes among others.
func (t *meter) launches(p *probe.Probe) float64 {
	arg := t.buffer(0, probe.ItemBytes)
	return t.sample(false, func() (float64, error) {
		ops := make([]driver.Op, probeLaunches)
		for i := range ops {
			ops[i] = launchOf(p, 1, arg)
		}
		got, err := t.do(t.lanes[0], ops...)
		if err != nil {
			return 0, err
		}
		return (got[len(got)-1].End - got[0].Start).Seconds() / probeLaunches, nil
	})
}

// reply returns the seconds from giving the device an empty kernel until its end
// is known, when it had nothing to do before and its threads had gone to sleep.
func (t *meter) reply(p *probe.Probe) float64 {
	arg := t.buffer(0, probe.ItemBytes)
	return t.sample(false, func() (float64, error) {
		time.Sleep(idleBefore)
		begin := t.board.Now()
		_, err := t.do(t.lanes[0], launchOf(p, 1, arg))
		return (t.board.Now() - begin).Seconds(), err
	})
}

// arithmetic returns operations per second, at a size that takes long enough.
func (t *meter) arithmetic(p *probe.Probe) float64 {
	items := int64(max(64*t.info.ComputeUnits, 64))
	for {
		items = min(items, maxProbeItems)
		took, err := t.launch(p, items, t.buffer(0, items*probe.ItemBytes))
		if err != nil {
			return 0
		}
		if took >= probeTakes.Seconds() || items == maxProbeItems {
			break
		}
		items *= 4
	}
	once := func() (float64, error) { return t.launch(p, items, t.buffer(0, items*probe.ItemBytes)) }
	if !t.info.HostMemory && !t.warm {
		t.warm = true
		t.warmUp(once)
	}
	return rate(p.Ops*float64(items), t.sample(true, once))
}

// warmUp repeats what returns its seconds until that is as fast as it gets.
func (t *meter) warmUp(once func() (float64, error)) {
	const faster = 0.99 // of the last time: by less it varies anyway
	begin, last := t.board.Now(), 0.0
	for !t.ended() {
		took, err := once()
		if err != nil {
			return
		}
		since := t.board.Now() - begin
		if since >= warmMost || since >= warmLeast && took >= faster*last {
			return
		}
		last = took
	}
}

// stream returns the bandwidth of the device's memory in bytes per second.
func (t *meter) stream() float64 {
	for _, p := range probe.List() {
		if p.Kind != probe.Stream || t.ended() || !t.info.CanRun(p.Kernel) {
			continue
		}
		size := t.size
		if !t.info.HostMemory { // far more than a GPU's cache, where there is that much
			size = max(size, min(t.info.MemBytes/128, 512<<20))
		}
		src, dst := t.buffer(0, size), t.buffer(1, size)
		items := size / probe.ItemBytes
		return rate(p.Bytes*float64(items), t.sample(true, func() (float64, error) { return t.launch(&p, items, src, dst) }))
	}
	return 0
}

// launch runs a probe once and returns its seconds.
func (t *meter) launch(p *probe.Probe, items int64, args ...driver.Arg) (float64, error) {
	got, err := t.do(t.lanes[0], launchOf(p, items, args...))
	if err != nil {
		return 0, err
	}
	return (got[0].End - got[0].Start).Seconds(), nil
}

// hostLink measures copies between a device's own memory and the host's.
func (t *meter) hostLink() {
	if t.info.HostMemory || t.ended() {
		return
	}
	in, out := t.lanes[len(t.lanes)-2], t.lanes[len(t.lanes)-1]
	mem := make([]byte, t.size)
	if h, ok := t.Device.(driver.HostMapper); ok && h.MapHost(mem) == nil {
		defer func() {
			if err := h.UnmapHost(mem); err != nil {
				t.fail(err)
			}
		}()
	}
	t.buffer(0, t.size)
	to := func(n int64) driver.Op {
		return driver.Op{Kind: driver.Copy, Bytes: n, Src: driver.NoBuffer, HostSrc: mem[:n]}
	}
	back := driver.Op{Kind: driver.Copy, Bytes: t.size, Dst: driver.NoBuffer, HostDst: mem}
	// One figure has to serve both directions: the slower one.
	t.linkBPS = min(rate(float64(t.size), t.copies(true, in, to(t.size))), rate(float64(t.size), t.copies(true, out, back)))
	t.linkNS = t.copies(false, in, to(smallCopy)) * 1e9
}

// peer measures copies from another device's memory.
func (t *meter) peer(from *meter) (bps, latencyNS float64) {
	if t.ended() || from.err != nil {
		return 0, 0
	}
	t.buffer(0, t.size)
	from.buffer(0, t.size)
	in := t.lanes[len(t.lanes)-2]
	op := driver.Op{Kind: driver.Copy, From: from.Device, Bytes: t.size}
	bps = rate(float64(t.size), t.copies(true, in, op))
	op.Bytes = smallCopy
	return bps, t.copies(false, in, op) * 1e9
}

// withinHost returns the bandwidth of copies within host memory.
func (t *meter) withinHost() float64 {
	src, dst := t.buffer(0, t.size), t.buffer(1, t.size)
	op := driver.Op{Kind: driver.Copy, Bytes: t.size, Src: driver.NoBuffer, Dst: driver.NoBuffer, HostSrc: src.Host, HostDst: dst.Host}
	return rate(float64(t.size), t.copies(true, t.lanes[0], op))
}

// copies returns the seconds a copy takes.
func (t *meter) copies(steadily bool, lane driver.Lane, op driver.Op) float64 {
	return t.sample(steadily, func() (float64, error) {
		got, err := t.do(lane, op)
		if err != nil {
			return 0, err
		}
		return (got[0].End - got[0].Start).Seconds(), nil
	})
}

// rate is an amount over the seconds it took, 0 when that is not known.
func rate(amount, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return amount / seconds
}
