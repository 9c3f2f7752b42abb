package bench

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
)

// memoryRow is the rate of one kind of transfer.
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
	// OpenBPS is the rate measured when the device was opened: of its link, or of
	// its memory by a copy, with all devices that share that memory at once;
	// reading alone may be faster. It is 0 where nothing was measured and for
	// buffers that caches hold. Copies within a memory count twice, as they read
	// and write it, and triad three times.
	OpenBPS float64 `json:"open_bytes_per_second,omitempty"`
	// PeakBPS is the rate that the link or the memory is built for; 0 where the
	// driver does not state it.
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
repetitions of four in a row. Each is compared with the rate measured at
opening: of the link, or of the memory by a copy, with all devices that share it
at once. Reading alone may be faster.
The peak is what the driver says a link or memory is built for. Devices in
worker processes copy from plain memory by way of shared memory, and from that
directly.
Buffers below 64 MiB, which caches hold, are not compared with the memory.`,
		repeat: 9, measure: o.measure, text: writeMemory,
	}.command(s)
	c.Flags().StringSliceVar(&o.sizes, "sizes", []string{"64KiB", "1MiB", "16MiB", "256MiB"}, "`sizes` of the buffers")
	return c
}

// bytes returns the sizes of --sizes.
func (o *memory) bytes() ([]int64, error) { return byteSizes(o.sizes, itemBytes, "16MiB") }

func (o *memory) measure(m *meter) (rows []memoryRow, err error) {
	sizes, err := o.bytes()
	if err != nil {
		return nil, err
	}
	if err := host.Enough("bench memory", 4*slices.Max(sizes)); err != nil {
		return nil, err
	}
	mach, err := m.machine() // with the rates that opening a runtime measured
	if err != nil {
		return nil, err
	}
	b, err := openBare(m.ctx, m.options.Devices, mach)
	defer func() { err = errors.Join(err, b.close()) }()
	if err != nil {
		return nil, err
	}
	var transfers []transfer
	for i := range b.devs {
		transfers = append(transfers, b.transfers(mach, i)...)
	}
	p := m.progress("case", len(transfers)*len(sizes))
	defer p.Finish()
	for _, t := range transfers {
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

// itemBytes is an item of the benchmark's kernels: a cache line.
const itemBytes = 64

// memoryFuncs are the kernels of the benchmark.
func memoryFuncs() map[string]weft.Func {
	words := func(c *weft.Call, arg, lo, hi int) []float64 { return weft.View[float64](c.Args[arg])[8*lo : 8*hi] }
	return map[string]weft.Func{
		"bench.read": func(c *weft.Call, lo, hi int) {
			var a, b, d, e float64
			for x := words(c, 0, lo, hi); len(x) >= 8; x = x[8:] {
				a, b, d, e = a+x[0]+x[4], b+x[1]+x[5], d+x[2]+x[6], e+x[3]+x[7]
			}
			if a+b+d+e != 0 { // buffers hold zeros; the comparison keeps the sums from being optimised away
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

// inARow is the number of moves of a buffer in one measurement, so that each has a
// quarter of the delay until completion is seen.
const inARow = 4

// transfer is one kind of transfer: between which memories, and by what means.
type transfer struct {
	row    memoryRow
	device int
	peer   int     // the other device, -1 for none
	times  float64 // that the bytes cross the memory
	mapped bool
	shared bool
	cached bool // small buffers stay in a cache
	// op returns the operation for a size, with host memory of that size.
	op   func(bytes int64, host []byte) driver.Op
	lane int
}

// inCaches is the size in bytes below which caches of the largest processors and GPUs
// may hold a buffer.
const inCaches = 64 << 20

// sharedBPS is the rate of a device's memory, summed over the devices that share it:
// each was measured while the others streamed too, and here one has the memory alone.
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

// linkBPS is the rate of the link between two devices, 0 if there is none.
func linkBPS(m *machine.Machine, a, b machine.DeviceID) float64 {
	for _, l := range m.Links {
		if l.A == a && l.B == b || l.A == b && l.B == a {
			return l.BPS
		}
	}
	return 0
}

// transfers lists the kinds of transfer of device i.
func (b *bare) transfers(m *machine.Machine, i int) []transfer {
	info := b.devs[i].Info()
	id, _ := m.Lookup(info.Name)
	memory := sharedBPS(m, id)
	one := func(kind string, opened, times float64, op func(bytes int64, host []byte) driver.Op) transfer {
		return transfer{row: memoryRow{Device: info.Name, Case: kind, OpenBPS: opened}, device: i, peer: -1, times: times, op: op}
	}
	out := []transfer{one("within", memory, 2, func(n int64, _ []byte) driver.Op {
		return driver.Op{Kind: driver.Copy, Bytes: n, Src: bufA, Dst: bufB}
	})}
	if !info.HostMemory && info.CanRun(streamProbe().Kernel) {
		out = append(out, one("stream", memory, 2, func(n int64, _ []byte) driver.Op {
			return driver.Op{Kind: driver.Launch, Task: &graph.Task{Steps: []graph.Step{streamStep(n)}}, Args: []driver.Arg{{Buf: bufA, Bytes: n}, {Buf: bufB, Bytes: n}}}
		}))
	}
	if !info.HostMemory {
		for k := range out {
			out[k].row.PeakBPS = b.devs[i].Traits().MemoryPeak
		}
	}
	var kernels []transfer
	for k, name := range []string{"read", "write", "copy", "triad"} {
		args := max(k, 1) // buffers, each of which crosses the memory once
		kernel := graph.GoKernel("bench." + name)
		if !info.CanRun(kernel) {
			continue
		}
		kernels = append(kernels, one(name, memory, float64(args), func(n int64, _ []byte) driver.Op {
			op := driver.Op{Kind: driver.Launch, Task: &graph.Task{Steps: []graph.Step{{Kernel: kernel, Launch: graph.Grid(n / itemBytes)}}}}
			for a := range args {
				op.Args = append(op.Args, driver.Arg{Buf: driver.Buffer(a), Bytes: n})
			}
			return op
		}))
	}
	for _, ts := range [][]transfer{out, kernels} {
		for k := range ts {
			ts[k].cached = true
		}
	}
	return slices.Concat(out, b.copies(m, i, one), kernels)
}

// copies lists the copies between device i, the host and other devices.
func (b *bare) copies(m *machine.Machine, i int, one func(string, float64, float64, func(int64, []byte) driver.Op) transfer) (out []transfer) {
	dev := b.devs[i]
	id, _ := m.Lookup(dev.Info().Name)
	if !dev.Info().HostMemory {
		in := one("in", linkBPS(m, machine.Host, id), 1, func(n int64, host []byte) driver.Op {
			return driver.Op{Kind: driver.Copy, Bytes: n, Src: driver.NoBuffer, HostSrc: host, Dst: bufA}
		})
		away := one("out", linkBPS(m, machine.Host, id), 1, func(n int64, host []byte) driver.Op {
			return driver.Op{Kind: driver.Copy, Bytes: n, Src: bufA, Dst: driver.NoBuffer, HostDst: host}
		})
		in.lane, away.lane = laneIn, laneOut
		in.row.PeakBPS, away.row.PeakBPS = dev.Traits().HostLink.BPS, dev.Traits().HostLink.BPS
		out = append(out, in, away)
		_, maps := dev.(driver.HostMapper)
		for _, t := range []transfer{in, away} {
			switch {
			case dev.Traits().Shared != nil:
				t.shared, t.row.Case = true, t.row.Case+", shared"
				out = append(out, t)
			case maps:
				t.mapped, t.row.Case = true, t.row.Case+", mapped"
				out = append(out, t)
			}
		}
	}
	p, ok := dev.(driver.PeerCopier)
	for k, other := range b.devs {
		if !ok || k == i || !p.CanCopyFrom(other) {
			continue
		}
		from, _ := m.Lookup(other.Info().Name)
		t := one("peer", linkBPS(m, from, id), 1, func(n int64, _ []byte) driver.Op {
			return driver.Op{Kind: driver.Copy, Bytes: n, From: other, Src: bufB, Dst: bufA}
		})
		t.peer, t.lane, t.row.From = k, laneIn, other.Info().Name
		out = append(out, t)
	}
	return out
}

// measure runs a transfer with buffers of size bytes.
func (b *bare) measure(m *meter, t transfer, size int64) (row memoryRow, err error) {
	users := []int{t.device}
	if t.peer >= 0 {
		users = append(users, t.peer)
	}
	host := make([]byte, size)
	if t.shared {
		mem := b.devs[t.device].Traits().Shared
		if host, err = mem.Get(size); err != nil {
			return row, err
		}
		defer mem.Put(host)
	}
	clear(host) // so that no page is allocated while it is timed
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
