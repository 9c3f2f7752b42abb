package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// testLaneOrder fills all lanes in batches of all sizes. That everything
// completes once and in order is for the rig to see.
func testLaneOrder(r *rig) {
	d := r.devs[0]
	rnd := rand.New(rand.NewPCG(4, 5))
	in, out := d.alloc(256), d.alloc(256)
	r.sent(d, d.write(out, 0, make([]byte, 256)))
	compute := d.lanes[:len(d.lanes)-2]
	sums := make([]block, len(compute))
	count := make([]uint32, len(compute))
	for i := range sums {
		sums[i] = d.put(words(0))
	}
	d.flush()
	r.ok(filled(sums...)...)
	var last op
	for range 600 {
		switch rnd.IntN(5) {
		case 0:
			last = d.write(in, int64(rnd.IntN(200)), make([]byte, 1+rnd.IntN(50)))
		case 1:
			last = d.read(make([]byte, 1+rnd.IntN(50)), out, int64(rnd.IntN(200)))
		case 2:
			d.free(d.alloc(int64(1 + rnd.IntN(100))))
		default:
			i := rnd.IntN(len(compute))
			count[i]++
			last = d.launch(compute[i], []graph.Step{r.step("add", 1, 1)}, []driver.Arg{sums[i].all()})
		}
		if rnd.IntN(20) == 0 {
			d.send()
		}
	}
	d.flush()
	r.ok(last)
	for i, b := range sums {
		var after []op
		if count[i] > 0 {
			after = append(after, op{d, driver.Wait{Lane: compute[i], Seq: d.seq[compute[i]]}})
		}
		if got := numbers(b.get(after...)); got[0] != count[i] {
			r.Errorf("%d launches on lane %d added %d", count[i], compute[i], got[0])
		}
	}
}

// long is the number of rounds of the slow kernel that keeps it running while a
// test looks at the next operation.
const long = 1 << 20

// testWaits has readers and writers wait for a launch that takes its time.
func testWaits(r *rig) {
	d := r.devs[0]
	for _, lane := range d.lanes[:len(d.lanes)-2] {
		x := d.put(words(1, 2, 3))
		first := d.launch(lane, []graph.Step{r.step("slow", 3, long)}, []driver.Arg{x.all()}, filled(x)...)
		second := d.on("add", 3, 5, []op{first, first}, x)
		got := numbers(x.get(second, first))
		if want := []uint32{slow(1, long) + 5, slow(2, long) + 5, slow(3, long) + 5}; !slices.Equal(got, want) {
			r.Errorf("lane %d: got %d, want %d", lane, got, want)
		}
		// An operation that waits for one that ended long ago begins at once.
		if got := numbers(x.get(d.on("add", 3, 1, []op{first, second}, x), first)); got[0] != slow(1, long)+6 {
			r.Errorf("lane %d: got %d after one more", lane, got)
		}
	}
	// A buffer is overwritten only after it was read.
	const n = 1 << 20
	old, next := bytes.Repeat([]byte{1}, n), bytes.Repeat([]byte{2}, n)
	b := d.alloc(n)
	got := make([]byte, n)
	read := d.read(got, b, 0, d.write(b, 0, old))
	again := d.read(make([]byte, n), b, 0, d.write(b, 0, next, read))
	r.sent(d, read, again)
	if !bytes.Equal(got, old) {
		r.Errorf("a write that waited for a read came before its byte %d", firstDifference(got, old))
	}
}

// testWaitsForLater waits for operations that are given later: later in the
// same batch, and in a later one.
func testWaitsForLater(r *rig) {
	d := r.devs[0]
	b := d.alloc(4)
	got := make([]byte, 4)
	read := d.read(got, b, 0, d.next(d.in(), 0))
	write := d.write(b, 0, words(11))
	d.send()
	if r.ok(read, write); numbers(got)[0] != 11 {
		r.Errorf("a read given before the write it waits for got %d", numbers(got))
	}

	read = d.read(got, b, 0, d.next(d.in(), 1))
	d.send()
	r.sent(d, d.write(b, 0, words(12)))
	if done, _ := r.board.State(read.Wait); done {
		r.Error("a read ended before what it waits for was given")
	}
	r.sent(d, d.write(b, 0, words(13)))
	if r.ok(read); numbers(got)[0] != 13 {
		r.Errorf("a read that waited for a later write got %d", numbers(got))
	}
}

// testChain hands one number from lane to lane.
func testChain(r *rig) {
	d := r.devs[0]
	host := words(0)
	b := d.alloc(4)
	last := d.write(b, 0, host)
	const links = 200
	for i := range links {
		lane := d.lanes[i%(len(d.lanes)-2)]
		last = d.launch(lane, []graph.Step{r.step("add", 1, 1)}, []driver.Arg{{Buf: b, Bytes: 4}}, last)
		last = d.write(b, 0, host, d.read(host, b, 0, last))
		if i%7 == 0 {
			d.send()
		}
	}
	d.flush()
	if r.ok(last); numbers(host)[0] != links {
		r.Errorf("%d links counted %d", links, numbers(host)[0])
	}
}

// bump adds one to a number in host memory on a device, by way of a buffer
// where it needs one, and returns the operation that is last.
func (d *dev) bump(host []byte, b driver.Buffer, waits ...op) op {
	steps := []graph.Step{d.r.step("add", 1, 1)}
	if d.direct {
		return d.launch(d.compute(), steps, []driver.Arg{{Buf: driver.NoBuffer, Bytes: 4, Host: host}}, waits...)
	}
	o := d.write(b, 0, host, waits...)
	return d.read(host, b, 0, d.launch(d.compute(), steps, []driver.Arg{{Buf: b, Bytes: 4}}, o))
}

// testChainOverDevices hands a number back and forth between two devices, all
// of it given ahead.
func testChainOverDevices(r *rig) {
	host := words(0)
	bufs := []driver.Buffer{r.devs[0].alloc(4), r.devs[1].alloc(4)}
	var last []op
	const links = 100
	for i := range links {
		last = []op{r.devs[i%2].bump(host, bufs[i%2], last...)}
	}
	// The one that waits longest is told first.
	r.devs[1].send()
	r.devs[0].send()
	if r.ok(last...); numbers(host)[0] != links {
		r.Errorf("%d links counted %d", links, numbers(host)[0])
	}
}

// testTwoAtOnce does the same with a goroutine for each device, which give and
// collect in their own time.
func testTwoAtOnce(r *rig) {
	host := words(0)
	const rounds = 200
	final := func(d *dev) driver.Lane { // where the last operation of a bump is
		if d.direct {
			return d.compute()
		}
		return d.out()
	}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for me, d := range r.devs {
		other := r.devs[1-me]
		wg.Go(func() {
			b := d.alloc(4)
			for i := range rounds {
				// The first device waits for the other's round before, the
				// second for the first's of the same round.
				var waits []op
				if seq := uint32(i + me); seq > 0 {
					waits = append(waits, op{other, driver.Wait{Lane: final(other), Seq: seq}})
				}
				d.bump(host, b, waits...)
				if errs[me] = d.trySend(); errs[me] != nil {
					return
				}
				d.collect()
			}
		})
	}
	wg.Wait()
	for me, d := range r.devs {
		if errs[me] != nil {
			r.Fatalf("submit to %s: %v", d.Info().Name, errs[me])
		}
		r.ok(op{d, driver.Wait{Lane: final(d), Seq: rounds}})
	}
	if got := numbers(host)[0]; got != 2*rounds {
		r.Errorf("%d rounds on two devices counted %d", rounds, got)
	}
}

// testFailure fails one operation: what waits for it, directly or not, on this
// device or another, ends without having run; nothing else does.
func testFailure(r *rig) {
	d, e := r.devs[0], r.devs[1]
	missing := d.alloc(-1)
	own := func(d *dev) block { return d.put(words(100)) }
	x, y, z, far, near := own(d), own(d), own(d), own(e), own(e)
	copied := d.alloc(4)
	before := d.write(copied, 0, words(100))

	good := d.on("add", 1, 1, nil, x)
	bad := d.launch(d.compute(), []graph.Step{r.step("add", 1, 1)}, []driver.Arg{{Buf: missing, Bytes: 4}}, good)
	behind := d.on("add", 1, 1, nil, y)
	deps := map[string]op{"direct": d.on("add", 1, 1, []op{good, bad}, z)}
	deps["of a dependent"] = d.on("add", 1, 1, []op{deps["direct"]}, z)
	deps["on another lane"] = d.write(copied, 0, words(5), before, bad)
	deps["of that one"] = d.read(make([]byte, 4), copied, 0, deps["on another lane"])
	deps["on another device"] = e.on("add", 1, 1, []op{bad}, far)
	deps["of a dependent of another device"] = e.on("add", 1, 1, []op{deps["of a dependent"]}, far)
	fine := e.on("add", 1, 1, []op{good, behind}, near)
	d.send()
	e.send()
	r.fails("a launch on a buffer that could not be made", bad, driver.ErrOutOfMemory)
	for name, o := range deps {
		r.fails("the dependent "+name, o, driver.ErrDependency)
	}
	r.ok(good, behind, fine)
	late := d.on("add", 1, 1, []op{bad}, z)
	d.send()
	r.fails("a dependent of what failed long ago", late, driver.ErrDependency)
	for _, c := range []struct {
		name string
		b    block
		want uint32
	}{{"before it", x, 101}, {"behind it", y, 101}, {"dependent", z, 100}, {"dependent elsewhere", far, 100}, {"independent elsewhere", near, 101}} {
		if got := numbers(c.b.get()); got[0] != c.want {
			r.Errorf("%s: memory holds %d, want %d", c.name, got[0], c.want)
		}
	}
	got := make([]byte, 4)
	if r.sent(d, d.read(got, copied, 0)); numbers(got)[0] != 100 {
		r.Errorf("a copy whose condition failed was made: %d", numbers(got))
	}
	d.alive("a failure")
	e.alive("a failure elsewhere")
}

// busy gives a device work that takes a while on its first compute lane, more work
// after it on all lanes, and an operation that waits for never. It returns the
// counter, the adds that increment it, and that last operation.
func (d *dev) busy(never op) (counted block, adds []op, stuck op) {
	x := d.put(words(1))
	counted = d.put(words(0))
	first := d.on("slow", 1, 16*long, nil, x)
	for i := range 20 {
		adds = append(adds, d.on("add", 1, 1, nil, counted))
		b := d.alloc(4)
		d.read(make([]byte, 4), b, 0, d.write(b, 0, words(uint32(i)), first))
	}
	stuck = d.read(make([]byte, 4), d.alloc(4), 0, never)
	d.on("add", 1, 1, []op{stuck}, x)
	d.send()
	return counted, adds, stuck
}

// testCloseInFlight closes a device with work to do: all of it completes, in
// order, and what did not run says so.
func testCloseInFlight(r *rig) {
	d, e := r.devs[0], r.devs[1]
	never := e.next(e.out(), 50)
	counted, adds, stuck := d.busy(never)
	far := e.put(words(100))
	dep := e.on("add", 1, 1, []op{stuck}, far)
	e.send()
	if err := d.Close(); err != nil {
		r.Errorf("close with work in flight: %v", err)
	}
	if err := d.Close(); err != nil {
		r.Errorf("close again: %v", err)
	}
	d.collect()
	shut := map[driver.Lane]uint32{}
	for _, l := range d.lanes {
		for seq := uint32(1); seq <= d.seq[l]; seq++ {
			c, ok := d.ended[driver.Wait{Lane: l, Seq: seq}]
			switch {
			case !ok:
				r.Errorf("operation %d of lane %d did not complete with Close", seq, l)
			case errors.Is(c.Err, driver.ErrClosed):
				shut[l] = max(shut[l], seq)
			case c.Err == nil && shut[l] > 0:
				r.Errorf("operation %d of lane %d ran after %d was refused", seq, l, shut[l])
			case c.Err != nil && !errors.Is(c.Err, driver.ErrDependency):
				r.Errorf("operation %d of lane %d: %v; want it done, %q or %q", seq, l, c.Err, driver.ErrClosed, driver.ErrDependency)
			}
		}
	}
	if c := d.ended[stuck.Wait]; !errors.Is(c.Err, driver.ErrClosed) {
		r.Errorf("what waited for something that never came: %v; want %q", c.Err, driver.ErrClosed)
	}
	if counted.host != nil {
		ran := uint32(0)
		for _, o := range adds {
			if d.ended[o.Wait].Err == nil {
				ran++
			}
		}
		if got := numbers(counted.host)[0]; got != ran {
			r.Errorf("%d launches say they ran, and added %d", ran, got)
		}
	}
	r.fails("what another device had waiting for it", dep, driver.ErrDependency)
	if got := numbers(far.get()); got[0] != 100 {
		r.Errorf("a launch that waited for a closed device ran: %d", got)
	}
	e.alive("another was closed")
}

// testCloseAtOnce closes devices that never did anything.
func testCloseAtOnce(r *rig) {
	for _, d := range open(r, r.c) { // never attached
		for i := range 2 {
			if err := d.Close(); err != nil {
				r.Errorf("close %d of %s: %v", i+1, d.Info().Name, err)
			}
		}
	}
	if err := r.devs[0].Close(); err != nil { // attached
		r.Error(err)
	}
}

// testAfterClose gives work to a closed device.
func testAfterClose(r *rig) {
	d := r.devs[0]
	d.alive("it was opened")
	if err := d.Close(); err != nil {
		r.Error(err)
	}
	d.write(1, 0, words(1))
	if err := d.trySend(); !errors.Is(err, driver.ErrClosed) {
		r.Errorf("submit to a closed device: %v; want %q", err, driver.ErrClosed)
	}
	if d.Info().Name == "" {
		r.Error("a closed device has no name")
	}
	d.collect()
}

// testLoss loses a device with work to do, and brings it back if it can be.
func testLoss(r *rig) {
	d, e := r.devs[0], r.devs[1]
	lose := r.c.Lose
	if lose == nil {
		p, ok := d.Device.(driver.Dropper)
		if !ok {
			return
		}
		lose = func(testing.TB, driver.Device) { p.Drop(errors.New("the test gives up on it")) }
	}
	kept := d.alloc(4)
	r.sent(d, d.write(kept, 0, words(41)))
	_, _, stuck := d.busy(e.next(e.out(), 50))
	far := e.put(words(100))
	dep := e.on("add", 1, 1, []op{stuck}, far)
	e.send()
	lose(r, d.Device)
	r.fails("what waited when its device was lost", stuck, driver.ErrDeviceLost)
	for _, l := range d.lanes {
		for seq := uint32(1); seq <= d.seq[l]; seq++ {
			c := op{d, driver.Wait{Lane: l, Seq: seq}}.wait()
			if c.Err != nil && !errors.Is(c.Err, driver.ErrDeviceLost) && !errors.Is(c.Err, driver.ErrDependency) {
				r.Errorf("operation %d of lane %d: %v; want it done, %q or %q", seq, l, c.Err, driver.ErrDeviceLost, driver.ErrDependency)
			}
		}
	}
	r.fails("what another device had waiting for it", dep, driver.ErrDependency)
	e.alive("another was lost")
	d.write(kept, 0, words(1))
	if err := d.trySend(); !errors.Is(err, driver.ErrDeviceLost) {
		r.Errorf("submit to a lost device: %v; want %q", err, driver.ErrDeviceLost)
	}
	if _, ok := d.Device.(driver.Reviver); !ok {
		return
	}
	whole, err := d.revive()
	if err != nil {
		r.Fatalf("no rung brought %s back: %v", d.Info().Name, err)
	}
	if whole && !d.Traits().Keeps {
		r.Errorf("%s says it keeps nothing, and did", d.Info().Name)
	}
	if whole {
		got := make([]byte, 4)
		if r.sent(d, d.read(got, kept, 0)); numbers(got)[0] != 41 {
			r.Errorf("memory that was kept holds %d, want 41", numbers(got))
		}
	}
	d.alive(fmt.Sprintf("it came back (memory kept: %v)", whole))
}
