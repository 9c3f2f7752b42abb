package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/weft-run/weft/internal/host"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/backend/all"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
)

// memoryRow is how fast bytes move one way.
type memoryRow struct {
	Device string `json:"device"`
	// Case is how: "in" and "out" between host and device ("mapped" where the
	// host memory was prepared for it, "shared" where a worker process has it
	// too), "peer" from another device, "within" the device by its copy engine
	// and "stream" by a kernel, and the Go kernels read, write, copy, triad.
	Case  string  `json:"case"`
	From  string  `json:"from,omitempty"` // the other device of "peer"
	Bytes int64   `json:"bytes"`          // of the buffer
	BPS   float64 `json:"bytes_per_second"`
	// OpenBPS is what was measured when the device was opened: of its link, or
	// of its memory by a copy, with all devices that share that memory at
	// once; reading alone may be faster. 0 is not measured, or buffers that
	// caches hold, of which the memory says nothing. Copies within a memory
	// count twice, as they read and write it, and triad three times.
	OpenBPS float64 `json:"open_bytes_per_second,omitempty"`
	// PeakBPS is what the link or the memory is built for, where its driver
	// says so.
	PeakBPS float64 `json:"peak_bytes_per_second,omitempty"`
}

// memory is the benchmark of that name.
type memory struct{ sizes []string }

func newMemory(s Setup) *cobra.Command {
	var o memory
	c := benchmark[memoryRow]{
		use:   "memory",
		short: "How fast data moves to, from, between and within devices",
		long: `Copy between host and device, between devices and within each, and, on devices
that run Go kernels, read, write, copy and add vectors (triad) with all cores of
the device. Rates are bytes that cross the memory or the link, the best of the
repetitions of four in a row, beside what was measured at opening: of the link,
or of the memory by a copy, with all devices that share it at once. Reading
alone may be faster.
The peak is what the driver says a link or memory is built for. Devices in
worker processes copy from plain memory by way of shared memory, and from that
directly.
Buffers below 64 MiB, which caches hold, are not compared with the memory.`,
		repeat: 9, measure: o.measure, text: writeMemory,
	}.command(s)
	c.Flags().StringSliceVar(&o.sizes, "sizes", []string{"64KiB", "1MiB", "16MiB", "256MiB"}, "`sizes` of the buffers")
	return c
}

// bytes are the sizes that were asked for.
func (o *memory) bytes() ([]int64, error) { return byteSizes(o.sizes, 64, "16MiB") }

func (o *memory) measure(m *meter) (rows []memoryRow, err error) {
	sizes, err := o.bytes()
	if err != nil {
		return nil, err
	}
	if err := host.Enough("bench memory", 4*slices.Max(sizes)); err != nil {
		return nil, err
	}
	// What opening a runtime measured is the yardstick.
	rt, err := m.open(nil)
	if err != nil {
		return nil, err
	}
	mach := rt.Machine()
	rt.Close()
	devs, mem, err := openBare(m.ctx, m.options.Devices, mach)
	defer func() {
		for _, d := range devs {
			err = errors.Join(err, d.Close())
		}
		if mem != nil {
			err = errors.Join(err, mem.Close())
		}
	}()
	if err != nil {
		return nil, err
	}
	b, err := newBare(devs)
	if err != nil {
		return nil, err
	}
	var trials []trial
	for i := range devs {
		trials = append(trials, b.trials(mach, i)...)
	}
	p := m.progress("case", len(trials)*len(sizes))
	defer p.Finish()
	for _, t := range trials {
		for _, n := range sizes {
			p.At("%s %s, %s", t.row.Device, t.row.Case, terminal.SI(float64(n), "B"))
			row, err := b.measure(m, t, n)
			if err != nil {
				return rows, fmt.Errorf("%s on %s: %w", t.row.Case, t.row.Device, err)
			}
			rows = append(rows, row)
			p.Add()
		}
	}
	return rows, nil
}

func writeMemory(w io.Writer, rows []memoryRow) {
	table := [][]any{{"device", "case", "buffer", "rate", "at opening", "of it", "peak", "of it"}}
	for _, r := range rows {
		kind, of, ofPeak := r.Case, "-", "-"
		if r.From != "" {
			kind += " from " + r.From
		}
		if r.OpenBPS > 0 {
			of = terminal.Percent(r.BPS / r.OpenBPS)
		}
		if r.PeakBPS > 0 {
			ofPeak = terminal.Percent(r.BPS / r.PeakBPS)
		}
		table = append(table, []any{r.Device, kind, text.FormatSize(r.Bytes), terminal.SI(r.BPS, "B/s"), terminal.SI(r.OpenBPS, "B/s"), of, terminal.SI(r.PeakBPS, "B/s"), ofPeak})
	}
	terminal.Table(w, table)
}

// memoryFuncs are the kernels of the benchmark; an item is 64 bytes.
func memoryFuncs() map[string]weft.Func {
	words := func(c *weft.Call, arg, lo, hi int) []float64 { return weft.View[float64](c.Args[arg])[8*lo : 8*hi] }
	return map[string]weft.Func{
		"bench.read": func(c *weft.Call, lo, hi int) {
			var a, b, d, e float64
			for x := words(c, 0, lo, hi); len(x) >= 8; x = x[8:] {
				a, b, d, e = a+x[0]+x[4], b+x[1]+x[5], d+x[2]+x[6], e+x[3]+x[7]
			}
			if a+b+d+e != 0 { // buffers hold zeros: this keeps the sums
				c.Fail(errors.New("memory that was cleared is not zero"))
			}
		},
		"bench.write": func(c *weft.Call, lo, hi int) { clear(words(c, 0, lo, hi)) },
		"bench.copy":  func(c *weft.Call, lo, hi int) { copy(words(c, 0, lo, hi), words(c, 1, lo, hi)) },
		"bench.triad": func(c *weft.Call, lo, hi int) {
			x, y, z := words(c, 0, lo, hi), words(c, 1, lo, hi), words(c, 2, lo, hi)
			y, z = y[:len(x)], z[:len(x)]
			for i := range x {
				x[i] = y[i] + 3*z[i]
			}
		},
	}
}

// openBare opens the devices of a machine, which Options.Devices selected, without a
// runtime around them, in workers where a runtime would. What it returns is closed by the caller, devices
// first, also after an error.
func openBare(ctx context.Context, devices string, m *machine.Machine) (out []driver.Device, mem *arena.Arena, err error) {
	sel, err := machine.ParseSelection(devices)
	if err != nil {
		return nil, nil, err
	}
	o := all.Options{Select: sel, Funcs: memoryFuncs()}
	if o.Workers() {
		if mem, err = arena.Open(0); err != nil {
			return nil, nil, err
		}
		o.Memory = mem
	}
	log := slog.New(slog.DiscardHandler) // opening the runtime has said it
	for _, d := range all.Drivers(o) {
		found, err := d.Open(ctx, log)
		for _, dev := range found {
			if _, ok := m.Lookup(dev.Info().Name); ok {
				out = append(out, dev)
			} else if err := dev.Close(); err != nil {
				return out, mem, err
			}
		}
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			return out, mem, err
		}
	}
	return out, mem, nil
}

// inARow is how many times in a row a buffer is moved for each repetition: how fast
// memory is shall not depend on how fast one hears that it is done.
const inARow = 4

// bare drives devices by their contract, one lane at a time.
type bare struct {
	devs  []driver.Device
	board *driver.Board
	wake  chan struct{}
	lanes [][]driver.Lane // of each device: compute, in, out
	seq   []uint32        // of each lane
}

func newBare(devs []driver.Device) (*bare, error) {
	b := &bare{devs: devs, wake: make(chan struct{}, 1), lanes: make([][]driver.Lane, len(devs))}
	own := make([][]driver.Lane, len(devs)) // what devices in workers have besides
	var shared driver.SharedMemory
	give := func(n int) (lanes []driver.Lane) {
		for range n {
			lanes = append(lanes, driver.Lane(len(b.seq)))
			b.seq = append(b.seq, 0)
		}
		return lanes
	}
	for i, d := range devs {
		b.lanes[i] = give(max(d.Info().Lanes, 1) + 2)
		if s, ok := d.(driver.Sharer); ok {
			own[i], shared = give(s.OwnLanes()), s.Shared()
		}
	}
	b.board = driver.NewBoard(len(b.seq))
	if shared != nil {
		var err error
		if b.board, err = shared.Board(len(b.seq)); err != nil {
			return nil, err
		}
	}
	for i, d := range devs {
		d.Attach(b.board, slices.Concat(b.lanes[i], own[i]), func() {
			select {
			case b.wake <- struct{}{}:
			default:
			}
		})
	}
	return b, nil
}

// do has a device perform operations one after another and returns how long that
// took until it was known here.
func (b *bare) do(ctx context.Context, device, lane int, ops ...driver.Op) (time.Duration, error) {
	if lane < 0 {
		lane += len(b.lanes[device])
	}
	for i := range ops {
		op := &ops[i]
		op.Lane = b.lanes[device][lane]
		b.seq[op.Lane]++
		op.Seq = b.seq[op.Lane]
	}
	began := time.Now()
	if err := b.devs[device].Submit(ops); err != nil {
		return 0, err
	}
	var failed error
	done := make([]driver.Completion, len(ops))
	for left := len(ops); left > 0; {
		n := b.devs[device].Completions(done)
		for _, c := range done[:n] {
			if failed == nil {
				failed = c.Err
			}
		}
		if left -= n; n > 0 {
			continue
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return time.Since(began), failed
}

// Lanes counted from a device's last: copies out of it and into it.
const laneOut, laneIn = -1, -2

// Buffers of a trial.
const bufA, bufB, bufC driver.Buffer = 0, 1, 2

// trial is one way to move bytes.
type trial struct {
	row    memoryRow
	device int
	peer   int     // the other device, -1 for none
	times  float64 // how often the bytes cross the memory
	mapped bool
	shared bool
	cached bool // small buffers stay in a cache
	// op is the operation for a size, and host memory of that size.
	op   func(bytes int64, host []byte) driver.Op
	lane int
}

// inCaches is how large buffers are that caches may hold.
const inCaches = 64 << 20

// sharedBPS is the rate of a device's memory for all devices that share it: each
// was measured while the others streamed, too, and here it has the memory alone.
func sharedBPS(m *machine.Machine, id machine.DeviceID) float64 {
	sum := 0.0
	for i := range m.Devices {
		shares := slices.ContainsFunc(m.Devices[i].Resources, func(r string) bool { return slices.Contains(m.Devices[id].Resources, r) })
		if machine.DeviceID(i) == id || shares && m.Devices[i].HostMemory == m.Devices[id].HostMemory {
			sum += m.Devices[i].Rates.MemoryBPS
		}
	}
	return sum
}

// trials lists what device i can do.
func (b *bare) trials(m *machine.Machine, i int) []trial {
	dev := b.devs[i]
	info := dev.Info()
	id, _ := m.Lookup(info.Name)
	memory := sharedBPS(m, id)
	link := func(other machine.DeviceID) float64 {
		for _, l := range m.Links {
			if l.A == other && l.B == id || l.A == id && l.B == other {
				return l.BPS
			}
		}
		return 0
	}
	row := func(kind string, opened float64) memoryRow {
		return memoryRow{Device: info.Name, Case: kind, OpenBPS: opened}
	}
	out := []trial{{row: row("within", memory), cached: true, device: i, peer: -1, times: 2, op: func(n int64, _ []byte) driver.Op {
		return driver.Op{Kind: driver.Copy, Bytes: n, Src: bufA, Dst: bufB}
	}}}
	if !info.HostMemory {
		if info.CanRun(streamKernel()) {
			out = append(out, trial{row: row("stream", memory), cached: true, device: i, peer: -1, times: 2, op: func(n int64, _ []byte) driver.Op {
				return driver.Op{Kind: driver.Launch, Task: &graph.Task{Steps: []graph.Step{streamStep(n)}}, Args: []driver.Arg{{Buf: bufA, Bytes: n}, {Buf: bufB, Bytes: n}}}
			}})
		}
		if p, ok := dev.(driver.Peaker); ok {
			for k := range out {
				out[k].row.PeakBPS = p.MemoryPeak()
			}
		}
		in := trial{row: row("in", link(machine.Host)), device: i, peer: -1, times: 1, lane: laneIn, op: func(n int64, host []byte) driver.Op {
			return driver.Op{Kind: driver.Copy, Bytes: n, Src: driver.NoBuffer, HostSrc: host, Dst: bufA}
		}}
		away := trial{row: row("out", link(machine.Host)), device: i, peer: -1, times: 1, lane: laneOut, op: func(n int64, host []byte) driver.Op {
			return driver.Op{Kind: driver.Copy, Bytes: n, Src: bufA, Dst: driver.NoBuffer, HostDst: host}
		}}
		if l, ok := dev.(driver.Linker); ok {
			if host, err := l.LinkToHost(); err == nil {
				in.row.PeakBPS, away.row.PeakBPS = host.BPS, host.BPS
			}
		}
		out = append(out, in, away)
		_, maps := dev.(driver.HostMapper)
		_, shares := dev.(driver.Sharer)
		for _, t := range []trial{in, away} {
			kind := t.row.Case
			if t.shared = shares; shares {
				t.row.Case = kind + ", shared"
				out = append(out, t)
			} else if t.mapped = maps; maps {
				t.row.Case = kind + ", mapped"
				out = append(out, t)
			}
		}
	}
	if p, ok := dev.(driver.PeerCopier); ok {
		for k, other := range b.devs {
			if k == i || !p.CanCopyFrom(other) {
				continue
			}
			oid, _ := m.Lookup(other.Info().Name)
			t := trial{row: row("peer", link(oid)), device: i, peer: k, times: 1, lane: laneIn, op: func(n int64, _ []byte) driver.Op {
				return driver.Op{Kind: driver.Copy, Bytes: n, From: other, Src: bufB, Dst: bufA}
			}}
			t.row.From = other.Info().Name
			out = append(out, t)
		}
	}
	for _, k := range []struct {
		name string
		args int
	}{{"read", 1}, {"write", 1}, {"copy", 2}, {"triad", 3}} {
		kernel := workload.GoKernel("bench." + k.name)
		if !info.CanRun(kernel) {
			continue
		}
		out = append(out, trial{row: row(k.name, memory), cached: true, device: i, peer: -1, times: float64(k.args), op: func(n int64, _ []byte) driver.Op {
			op := driver.Op{Kind: driver.Launch, Task: &graph.Task{Steps: []graph.Step{{Kernel: kernel, Launch: workload.Grid(n / 64)}}}}
			for a := range k.args {
				op.Args = append(op.Args, driver.Arg{Buf: driver.Buffer(a), Bytes: n})
			}
			return op
		}})
	}
	return out
}

// buffers makes the buffers of trials on a device, as large as some host memory.
func (b *bare) buffers(ctx context.Context, device int, host []byte) (free func() error, err error) {
	var alloc, end []driver.Op
	for _, buf := range []driver.Buffer{bufA, bufB, bufC} {
		alloc = append(alloc, driver.Op{Kind: driver.Alloc, Buf: buf, Bytes: int64(len(host))})
		end = append(end, driver.Op{Kind: driver.Free, Buf: buf})
	}
	if err := b.devs[device].Submit(alloc); err != nil {
		return nil, err
	}
	free = func() error { return b.devs[device].Submit(end) }
	// Touch all of it, so that nothing is paged in while it is timed.
	for _, buf := range []driver.Buffer{bufA, bufB, bufC} {
		if _, err := b.do(ctx, device, laneIn, driver.Op{Kind: driver.Copy, Bytes: int64(len(host)), Src: driver.NoBuffer, HostSrc: host, Dst: buf}); err != nil {
			return nil, errors.Join(err, free())
		}
	}
	return free, nil
}

// measure runs a trial with buffers of a size.
func (b *bare) measure(m *meter, t trial, size int64) (row memoryRow, err error) {
	users := []int{t.device}
	if t.peer >= 0 {
		users = append(users, t.peer)
	}
	host := make([]byte, size)
	if t.shared {
		mem := b.devs[t.device].(driver.Sharer).Shared()
		if host, err = mem.Get(size); err != nil {
			return row, err
		}
		defer mem.Put(host)
	}
	clear(host) // so that no page is made while it is timed
	for _, d := range users {
		free, failed := b.buffers(m.ctx, d, host)
		if failed != nil {
			return row, failed
		}
		defer func() { err = errors.Join(err, free()) }()
	}
	if t.mapped {
		mapper := b.devs[t.device].(driver.HostMapper)
		if err := mapper.MapHost(host); err != nil {
			return row, err
		}
		defer func() { err = errors.Join(err, mapper.UnmapHost(host)) }()
	}
	ops := slices.Repeat([]driver.Op{t.op(size, host)}, inARow)
	var seconds []float64
	for range m.repeat + 1 {
		took, err := b.do(m.ctx, t.device, t.lane, ops...)
		if err != nil {
			return row, err
		}
		seconds = append(seconds, took.Seconds()/inARow)
	}
	row = t.row
	if t.cached && size < inCaches {
		row.OpenBPS = 0
	}
	row.Bytes, row.BPS = size, t.times*float64(size)/best(seconds[1:]) // the first warms up
	return row, nil
}
