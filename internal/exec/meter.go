package exec

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/probe"
	"github.com/weft-run/weft/machine"
)

// errHung is the error of a measurement whose device no longer answers.
var errHung = errors.New("does not answer")

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
	until   time.Duration // end of the time for the present measurement
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
	if t.made[n] != 0 && !t.info.HostMemory && t.err == nil {
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
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}

// compute measures what starting a kernel costs and every kind of arithmetic.
func (t *meter) compute() {
	for _, p := range probe.List(t.Traits().Probes) {
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

// warmUp calls once, which returns the seconds it took, until it becomes no faster.
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
	for _, p := range probe.List(t.Traits().Probes) {
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
