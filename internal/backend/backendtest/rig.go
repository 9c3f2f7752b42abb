package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// deadline limits the time of an operation: long enough for a driver that compiles
// a kernel on a busy machine.
var deadline = 2 * time.Minute

// rig is a few devices on one board. Whatever else a test looks at, the rig
// checks of every operation that it completes once, in the order of its lane,
// with times that make sense, and that the board says the same.
type rig struct {
	testing.TB
	c     *Config
	board *driver.Board
	devs  []*dev
}

// dev is a device of a rig, with the batch being put together for it.
type dev struct {
	driver.Device
	r      *rig
	direct bool          // launches get host memory
	lanes  []driver.Lane // compute, then in, then out
	seq    map[driver.Lane]uint32
	batch  []driver.Op
	woke   chan struct{}
	buf    driver.Buffer // the last number used
	given  map[driver.Wait]bool
	ended  map[driver.Wait]driver.Completion
	done   map[driver.Lane]driver.Completion // the newest of each lane
	got    []driver.Completion
}

// op is an operation that was put into a batch.
type op struct {
	d *dev
	driver.Wait
}

// newRig opens n devices, which are closed when the test ends.
func newRig(tb testing.TB, c *Config, n int, direct bool) *rig {
	tb.Helper()
	r := &rig{TB: tb, c: c}
	for len(r.devs) < n {
		for _, d := range open(tb, c) {
			if len(r.devs) == n {
				if err := d.Close(); err != nil {
					tb.Errorf("close %s, which was never used: %v", d.Info().Name, err)
				}
				continue
			}
			r.devs = append(r.devs, &dev{
				Device: d, r: r, direct: direct, seq: make(map[driver.Lane]uint32), woke: make(chan struct{}, 1),
				given: make(map[driver.Wait]bool), ended: make(map[driver.Wait]driver.Completion),
				done: make(map[driver.Lane]driver.Completion),
				got:  make([]driver.Completion, 5), // few, so that many have to be fetched in parts
			})
		}
	}
	next := 1 // lane 0 belongs to another device, as it does in exec
	give := func(n int) (lanes []driver.Lane) {
		for range n {
			lanes = append(lanes, driver.Lane(next))
			next++
		}
		return lanes
	}
	own := make([][]driver.Lane, n) // what devices in other processes ask for themselves
	var shared driver.SharedMemory
	for i, d := range r.devs {
		d.lanes = give(max(d.Info().Lanes, 1) + 2)
		if t := d.Traits(); t.Shared != nil {
			own[i], shared = give(t.OwnLanes), t.Shared
		}
	}
	r.board = driver.NewBoard(next)
	if shared != nil {
		var err error
		if r.board, err = shared.Board(next); err != nil {
			tb.Fatalf("make a board in shared memory: %v", err)
		}
	}
	for i, d := range r.devs {
		d.Attach(r.board, slices.Concat(d.lanes, own[i]), func() {
			select {
			case d.woke <- struct{}{}:
			default:
			}
		})
	}
	tb.Cleanup(func() {
		for _, d := range r.devs {
			d.end()
		}
	})
	return r
}

// end closes a device and checks that nothing is missing.
func (d *dev) end() {
	d.r.Helper()
	if err := d.Close(); err != nil {
		d.r.Errorf("close %s: %v", d.Info().Name, err)
	}
	d.collect()
	for w := range d.given {
		if _, ok := d.ended[w]; !ok {
			d.r.Errorf("%s: operation %d of lane %d never completed, and the device is closed", d.Info().Name, w.Seq, w.Lane)
		}
	}
}

func (d *dev) compute() driver.Lane { return d.lanes[0] }
func (d *dev) in() driver.Lane      { return d.lanes[len(d.lanes)-2] }
func (d *dev) out() driver.Lane     { return d.lanes[len(d.lanes)-1] }

// add puts a copy or launch into the batch.
func (d *dev) add(o driver.Op, waits ...op) op {
	d.seq[o.Lane]++
	o.Seq = d.seq[o.Lane]
	for _, w := range waits {
		o.Waits = append(o.Waits, w.Wait)
	}
	d.batch = append(d.batch, o)
	return op{d, driver.Wait{Lane: o.Lane, Seq: o.Seq}}
}

// next names the operation that add will put on a lane after n others.
func (d *dev) next(l driver.Lane, n int) op {
	return op{d, driver.Wait{Lane: l, Seq: d.seq[l] + uint32(n) + 1}}
}

// alloc puts the making of a buffer into the batch.
func (d *dev) alloc(n int64) driver.Buffer {
	d.buf++
	d.batch = append(d.batch, driver.Op{Kind: driver.Alloc, Buf: d.buf, Bytes: n})
	return d.buf
}

func (d *dev) free(b driver.Buffer) {
	d.batch = append(d.batch, driver.Op{Kind: driver.Free, Buf: b})
}

// wipe puts the end of a buffer with a secret into the batch.
func (d *dev) wipe(b driver.Buffer) {
	d.batch = append(d.batch, driver.Op{Kind: driver.Free, Buf: b, Secret: true})
}

// write copies host memory into a buffer. The operation has an offset for its
// source too, which must be ignored for host memory.
func (d *dev) write(b driver.Buffer, off int64, data []byte, waits ...op) op {
	return d.add(driver.Op{
		Kind: driver.Copy, Lane: d.in(), Bytes: int64(len(data)), Src: driver.NoBuffer, HostSrc: data, SrcOff: 1 << 40, Dst: b, DstOff: off,
	}, waits...)
}

// read copies from a buffer into host memory.
func (d *dev) read(data []byte, b driver.Buffer, off int64, waits ...op) op {
	return d.add(driver.Op{
		Kind: driver.Copy, Lane: d.out(), Bytes: int64(len(data)), Src: b, SrcOff: off, Dst: driver.NoBuffer, HostDst: data, DstOff: 1 << 40,
	}, waits...)
}

// move copies between buffers of the device.
func (d *dev) move(dst driver.Buffer, dstOff int64, src driver.Buffer, srcOff, n int64, waits ...op) op {
	return d.add(driver.Op{Kind: driver.Copy, Lane: d.in(), Bytes: n, Src: src, SrcOff: srcOff, Dst: dst, DstOff: dstOff}, waits...)
}

// send submits the batch.
func (d *dev) send() {
	d.r.Helper()
	if err := d.trySend(); err != nil {
		d.r.Fatalf("submit to %s: %v", d.Info().Name, err)
	}
}

// trySend submits the batch; one that is refused leaves no trace.
func (d *dev) trySend() error {
	for i := range d.batch {
		if o := &d.batch[i]; o.Kind >= driver.Copy {
			d.given[driver.Wait{Lane: o.Lane, Seq: o.Seq}] = true
		}
	}
	err := d.Submit(d.batch)
	for i := range d.batch {
		o := &d.batch[i]
		if o.Kind >= driver.Copy && err != nil {
			delete(d.given, driver.Wait{Lane: o.Lane, Seq: o.Seq})
			d.seq[o.Lane]--
		}
	}
	// The slices of the batch are ours again: a device that still looks at
	// them must be found out.
	for i := range d.batch {
		o := &d.batch[i]
		for k := range o.Waits {
			o.Waits[k] = driver.Wait{Lane: 0, Seq: 1 << 30}
		}
		for k := range o.Args {
			o.Args[k] = driver.Arg{Buf: 1 << 30}
		}
		*o = driver.Op{Kind: driver.Launch, Lane: 1 << 30}
	}
	d.batch = nil
	return err
}

// flush sends the batch if there is one.
func (d *dev) flush() {
	d.r.Helper()
	if len(d.batch) > 0 {
		d.send()
	}
}

// collect fetches what completed and checks it.
func (d *dev) collect() {
	d.r.Helper()
	name := d.Info().Name
	for {
		n := d.Completions(d.got)
		for _, c := range d.got[:n] {
			if c.Lane == driver.NoLane {
				if !errors.Is(c.Err, driver.ErrDeviceLost) {
					d.r.Errorf("%s completed what was no operation, with %v; want %q", name, c.Err, driver.ErrDeviceLost)
				}
				continue
			}
			w := driver.Wait{Lane: c.Lane, Seq: c.Seq}
			last := d.done[c.Lane]
			switch _, again := d.ended[w]; {
			case !d.given[w]:
				d.r.Errorf("%s: operation %d of lane %d completed and was never given", name, c.Seq, c.Lane)
			case again:
				d.r.Errorf("%s: operation %d of lane %d completed twice", name, c.Seq, c.Lane)
			case c.Seq != last.Seq+1:
				d.r.Errorf("%s: lane %d completed %d after %d", name, c.Lane, c.Seq, last.Seq)
			case c.Start < 0 || c.End < c.Start || c.End < last.End:
				d.r.Errorf("%s: operation %d of lane %d ran from %v to %v, after one that ended at %v", name, c.Seq, c.Lane, c.Start, c.End, last.End)
			}
			if done, ok := d.r.board.State(w); !done || ok != (c.Err == nil) {
				d.r.Errorf("%s: operation %d of lane %d ended with %v; the board says done %v, ok %v", name, c.Seq, c.Lane, c.Err, done, ok)
			}
			d.ended[w], d.done[c.Lane] = c, c
		}
		if n < len(d.got) {
			return
		}
	}
}

// wait blocks until the operation completed and returns how.
func (o op) wait() driver.Completion {
	o.d.r.Helper()
	late := time.NewTimer(deadline)
	defer late.Stop()
	for {
		o.d.collect()
		if c, ok := o.d.ended[o.Wait]; ok {
			return c
		}
		select {
		case <-o.d.woke:
		case <-late.C:
			o.d.r.Fatalf("%s: operation %d of lane %d did not complete within %v", o.d.Info().Name, o.Seq, o.Lane, deadline)
		}
	}
}

// ok waits for operations that must succeed.
func (r *rig) ok(ops ...op) {
	r.Helper()
	for _, o := range ops {
		if c := o.wait(); c.Err != nil {
			r.Fatalf("%s: operation %d of lane %d: %v", o.d.Info().Name, o.Seq, o.Lane, c.Err)
		}
	}
}

// sent sends a device's batch and waits for operations that must succeed.
func (r *rig) sent(d *dev, ops ...op) {
	r.Helper()
	d.send()
	r.ok(ops...)
}

// fails waits for an operation that must fail, with the error named if any.
func (r *rig) fails(what string, o op, want error) {
	r.Helper()
	c := o.wait()
	switch {
	case c.Err == nil:
		r.Errorf("%s succeeded", what)
	case want != nil && !errors.Is(c.Err, want):
		r.Errorf("%s: %v; want %q", what, c.Err, want)
	case errors.Is(c.Err, driver.ErrDependency) && want != driver.ErrDependency:
		r.Errorf("%s: %v; it depends on nothing", what, c.Err)
	}
}

// block is memory launches work on: a buffer, or host memory where the device
// uses that.
type block struct {
	d    *dev
	buf  driver.Buffer
	host []byte
	n    int64
	made op // what filled it; no device for host memory
}

// put makes a block that holds data.
func (d *dev) put(data []byte) block {
	n := int64(len(data))
	if d.direct {
		return block{d: d, buf: driver.NoBuffer, host: slices.Clone(data), n: n}
	}
	b := d.alloc(n)
	return block{d: d, buf: b, n: n, made: d.write(b, 0, slices.Clone(data))}
}

// filled returns what filled the blocks, for launches to wait for.
func filled(blocks ...block) (ops []op) {
	for _, b := range blocks {
		if b.made.d != nil {
			ops = append(ops, b.made)
		}
	}
	return ops
}

// part is an argument: n bytes of the block from off on.
func (b block) part(off, n int64) driver.Arg {
	if b.buf == driver.NoBuffer {
		return driver.Arg{Buf: driver.NoBuffer, Bytes: n, Host: b.host[off : off+n]}
	}
	return driver.Arg{Buf: b.buf, Off: off, Bytes: n}
}

func (b block) all() driver.Arg { return b.part(0, b.n) }

// get sends the batch, waits for operations and for what filled the block, and
// returns what the block holds.
func (b block) get(after ...op) []byte {
	b.d.r.Helper()
	if b.buf == driver.NoBuffer {
		b.d.flush()
		b.d.r.ok(after...)
		return slices.Clone(b.host)
	}
	out := make([]byte, b.n)
	o := b.d.read(out, b.buf, 0, append(filled(b), after...)...)
	b.d.send()
	b.d.r.ok(o)
	return out
}

// kernel returns one of Kernels.
func (r *rig) kernel(name string) *graph.Kernel {
	return &graph.Kernel{Name: name, Impls: r.c.Impls(name)}
}

// step runs a kernel of Kernels on n items.
func (r *rig) step(kernel string, n int, k uint32) graph.Step {
	s := graph.Step{Kernel: r.kernel(kernel), Launch: graph.Launch{Grid: [3]uint32{uint32(n), 1, 1}}}
	switch kernel {
	case "noop":
		return s
	case "saxpy":
		return s.With(SaxpyParams{n, math.Float32frombits(k)})
	}
	return s.With(Params{n, k})
}

// launch puts a launch into the batch.
func (d *dev) launch(lane driver.Lane, steps []graph.Step, args []driver.Arg, waits ...op) op {
	t := &graph.Task{Name: "test", Steps: steps}
	for i, a := range args {
		t.Uses = append(t.Uses, graph.Use{Data: graph.DataID(i), Bytes: a.Bytes, Access: graph.ReadWrite})
	}
	return d.add(driver.Op{Kind: driver.Launch, Lane: lane, Task: t, Args: slices.Clone(args)}, waits...)
}

// on is launch of one kernel on whole blocks, on the first compute lane and
// after what filled them.
func (d *dev) on(kernel string, n int, k uint32, waits []op, blocks ...block) op {
	var args []driver.Arg
	for _, b := range blocks {
		args = append(args, b.all())
	}
	return d.launch(d.compute(), []graph.Step{d.r.step(kernel, n, k)}, args, slices.Concat(waits, filled(blocks...))...)
}

// alive checks that the device still computes, after what was done to it.
func (d *dev) alive(after string) {
	d.r.Helper()
	b := d.put(words(ramp(5, 7)...))
	want := ramp(5, 17)
	if got := numbers(b.get(d.on("add", 5, 10, nil, b))); !slices.Equal(got, want) {
		d.r.Errorf("%s after %s: got %d, want %d", d.Info().Name, after, got, want)
	}
	if b.buf != driver.NoBuffer {
		d.free(b.buf)
		d.send()
	}
}

// memory returns the device's memory in bytes, 0 if it does not say.
func (d *dev) memory() int64 { return d.Info().MemBytes }

// revive tries the rungs from the lowest on.
func (d *dev) revive() (kept bool, err error) {
	v := d.Device.(driver.Reviver)
	for _, rung := range []driver.Rung{driver.Standby, driver.Restart, driver.Reopen} {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		var e error
		kept, e = v.Revive(ctx, rung)
		cancel()
		if e == nil {
			return kept, nil
		}
		err = errors.Join(err, fmt.Errorf("rung %d: %w", rung, e))
	}
	return false, err
}
