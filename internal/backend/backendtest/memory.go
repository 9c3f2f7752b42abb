package backendtest

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// testCopies copies odd numbers of bytes between odd places, host memory and
// two buffers, and compares with the same copies between slices.
func testCopies(r *rig) {
	d := r.devs[0]
	rnd := rand.New(rand.NewPCG(1, 2))
	sizes := []int{10_007, 4_099}
	var bufs []driver.Buffer
	var want [][]byte
	var last []op
	for _, n := range sizes {
		data := noise(rnd, n)
		b := d.alloc(int64(n))
		last = []op{d.write(b, 0, data, last...)}
		bufs, want = append(bufs, b), append(want, slices.Clone(data))
	}
	type seen struct {
		o         op
		got, want []byte
	}
	var reads []seen
	for i := range 300 {
		to := rnd.IntN(2)
		n := 1 + rnd.IntN(min(sizes[0], sizes[1]))
		off, srcOff := rnd.IntN(sizes[to]-n+1), rnd.IntN(sizes[1-to]-n+1)
		var o op
		switch rnd.IntN(3) {
		case 0:
			data := noise(rnd, n)
			o = d.write(bufs[to], int64(off), data, last...)
			copy(want[to][off:], data)
		case 1:
			o = d.move(bufs[to], int64(off), bufs[1-to], int64(srcOff), int64(n), last...)
			copy(want[to][off:off+n], want[1-to][srcOff:])
		case 2:
			got := make([]byte, n)
			o = d.read(got, bufs[to], int64(off), last...)
			reads = append(reads, seen{o, got, slices.Clone(want[to][off : off+n])})
		}
		last = []op{o}
		if i%17 == 0 {
			d.send()
		}
	}
	d.send()
	r.ok(last...)
	for i, s := range reads {
		r.ok(s.o)
		if !bytes.Equal(s.got, s.want) {
			r.Fatalf("read %d, of %d bytes, differs at byte %d", i, len(s.got), firstDifference(s.got, s.want))
		}
	}
	// Past what a driver stages in one piece.
	data := noise(rnd, 5<<20+3)
	if m := d.memory(); m > 0 && m < 8<<20 {
		data = data[:m/4]
	}
	got := make([]byte, len(data))
	b := d.alloc(int64(len(data)))
	o := d.read(got, b, 0, d.write(b, 0, data))
	d.send()
	if r.ok(o); !bytes.Equal(got, data) {
		r.Errorf("a copy of %d bytes there and back differs at byte %d", len(data), firstDifference(got, data))
	}
}

func noise(rnd *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, rnd.Uint64())
	}
	return b[:n:n]
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// testBounds names bytes that are not there: the operation fails, memory stays
// as it was and the device goes on. Copying nothing is no mistake.
func testBounds(r *rig) {
	d := r.devs[0]
	const n = 64
	old := bytes.Repeat([]byte{7}, n)
	a, b := d.alloc(n), d.alloc(n)
	r.sent(d, d.write(a, 0, old), d.write(b, 0, old))

	in := func(bytes, off int64, host []byte) op {
		return d.add(driver.Op{Kind: driver.Copy, Lane: d.in(), Bytes: bytes, Src: driver.NoBuffer, HostSrc: host, Dst: a, DstOff: off})
	}
	out := func(bytes, off int64, host []byte) op {
		return d.add(driver.Op{Kind: driver.Copy, Lane: d.out(), Bytes: bytes, Src: a, SrcOff: off, Dst: driver.NoBuffer, HostDst: host})
	}
	host := make([]byte, 2*n)
	for name, o := range map[string]op{
		"a copy past the end of a buffer":           in(n, 1, host),
		"a copy longer than a buffer":               in(n+1, 0, host),
		"a copy to a negative offset":               in(4, -4, host),
		"a copy of negative length":                 in(-4, 8, host),
		"a copy to an offset beyond all":            in(8, math.MaxInt64-4, host),
		"a copy from less host memory than it says": in(n, 0, host[:8]),
		"a copy from no host memory":                in(n, 0, nil),
		"a copy out past the end":                   out(n, 1, host),
		"a copy out of negative length":             out(-4, 8, host),
		"a copy out into too little host memory":    out(n, 0, host[:8]),
		"a copy between buffers past the end":       d.move(b, 8, a, 0, n),
		"a copy between buffers from past the end":  d.move(b, 0, a, 8, n),
		"a copy between buffers of negative length": d.move(b, 8, a, 8, -4),
		"a launch on bytes past the end": d.launch(d.compute(), []graph.Step{r.step("add", 2, 1)},
			[]driver.Arg{{Buf: a, Off: n - 4, Bytes: 8}}),
		"a launch on bytes before the beginning": d.launch(d.compute(), []graph.Step{r.step("add", 2, 1)},
			[]driver.Arg{{Buf: a, Off: -4, Bytes: 8}}),
	} {
		d.flush()
		r.fails(name, o, nil)
	}
	r.sent(d, in(0, 0, nil), in(0, n, nil), out(0, 0, nil), d.move(b, n, a, n, 0))
	got := make([]byte, n)
	for _, buf := range []driver.Buffer{a, b} {
		if r.sent(d, d.read(got, buf, 0)); !bytes.Equal(got, old) {
			r.Errorf("what should have failed changed byte %d of a buffer", firstDifference(got, old))
		}
	}
	d.alive("copies out of bounds")
}

// testMemoryLimit asks for more than there is.
func testMemoryLimit(r *rig) {
	d := r.devs[0]
	all := d.memory()
	if all == 0 {
		return // a device that uses host memory may have no limit of its own
	}
	big := d.alloc(all + 1)
	w := d.write(big, 0, []byte{1, 2, 3})
	// Of other bytes, since it does not wait: a device may believe it has them.
	l := d.launch(d.compute(), []graph.Step{r.step("add", 1, 1)}, []driver.Arg{{Buf: big, Off: 256, Bytes: 4}})
	d.send()
	r.fails("a copy into a buffer larger than memory", w, driver.ErrOutOfMemory)
	r.fails("a launch on a buffer larger than memory", l, driver.ErrOutOfMemory)
	d.free(big)
	d.alive("an allocation of all memory and a byte")

	// Large memories are not worth filling: their drivers count the same way.
	if all > 1<<30 {
		return
	}
	part := all / 5 * 3
	for range 3 {
		first, second := d.alloc(part), d.alloc(part)
		a, b := d.write(first, part-3, []byte{1, 2, 3}), d.write(second, 0, []byte{1, 2, 3})
		d.send()
		r.ok(a)
		r.fails("a copy into the second of two buffers that do not fit together", b, driver.ErrOutOfMemory)
		d.free(second)
		d.free(first)
	}
	d.alive("memory was full")
}

// testOddSizes makes buffers of impossible sizes and of sizes that are no multiple of a word.
func testOddSizes(r *rig) {
	d := r.devs[0]
	for _, n := range []int64{0, -1, math.MinInt64, 1 << 62, math.MaxInt64} {
		b := d.alloc(n)
		w := d.write(b, 0, []byte{1})
		l := d.launch(d.compute(), []graph.Step{r.step("add", 1, 1)}, []driver.Arg{{Buf: b, Off: 256, Bytes: 4}})
		d.send()
		r.fails("a copy into a buffer of an impossible size", w, nil)
		r.fails("a launch on a buffer of an impossible size", l, nil)
		d.free(b)
	}
	d.free(1 << 20) // was never made
	for _, n := range []int{1, 2, 3, 5, 255, 257, 4097} {
		data, got := noise(rand.New(rand.NewPCG(3, uint64(n))), n), make([]byte, n)
		b := d.alloc(int64(n))
		if r.sent(d, d.read(got, b, 0, d.write(b, 0, data))); !bytes.Equal(got, data) {
			r.Errorf("a buffer of %d bytes does not keep them", n)
		}
		d.free(b)
	}
	d.alive("odd sizes")
}

// testBufferLeak makes and frees ten thousand buffers, several times what the
// device has, a few at a time.
func testBufferLeak(r *rig) {
	d := r.devs[0]
	size := int64(64 << 10)
	if d.memory() > 0 {
		size = min(d.memory()/2000, 16<<20) + 1
	}
	for range 100 {
		var bufs []driver.Buffer
		var ops []op
		for range 100 {
			b := d.alloc(size)
			bufs = append(bufs, b)
			ops = append(ops, d.write(b, size-1, []byte{1}))
		}
		r.sent(d, ops...)
		for _, b := range bufs {
			d.free(b)
		}
	}
	d.alive("ten thousand buffers")
}

// testSecrets frees buffers that hold secrets and at once makes others of the same size. These must
// not contain secrets, and must keep data that is written while the secret is overwritten.
func testSecrets(r *rig) {
	d := r.devs[0]
	rnd := rand.New(rand.NewPCG(4, 2))
	for _, n := range []int{1, 6, 255, 4099, 300_001} {
		secret := noise(rnd, n+8)[:n]
		b := d.alloc(int64(n))
		r.sent(d, d.write(b, 0, secret))
		got, next := make([]byte, n), noise(rnd, n+8)[:n]
		d.wipe(b)
		again := d.alloc(int64(n))
		before := d.read(got, again, 0)
		d.send()
		r.ok(before)
		const some = 6 // fewer bytes of it may be there by chance
		for _, at := range []int{0, n / 2, n - some} {
			if n < some {
				break
			}
			if at = min(at, n-some); bytes.Contains(got, secret[at:at+some]) {
				r.Errorf("byte %d of a secret of %d bytes can be read in the next buffer", at, n)
			}
		}
		for range 5 {
			o := d.write(again, 0, next)
			last := d.read(got, again, 0, o)
			d.send()
			if r.ok(o, last); !bytes.Equal(got, next) {
				r.Fatalf("a buffer of %d bytes in the place of a secret has lost byte %d", n, firstDifference(got, next))
			}
			next = noise(rnd, n+8)[:n]
			d.wipe(again)
			again = d.alloc(int64(n))
		}
		d.free(again)
	}
	d.wipe(1 << 20) // was never made

	// A device whose memory is full of secrets has it back once they are overwritten.
	all := d.memory()
	if all == 0 || all > 1<<30 {
		d.alive("secrets")
		return
	}
	for range 3 {
		b := d.alloc(all / 5 * 3)
		o := d.write(b, all/5*3-3, []byte{1, 2, 3})
		d.send()
		r.ok(o)
		d.wipe(b)
	}
	d.alive("secrets")
}

// testWipeOvertakes frees a secret behind a copy that waits for an operation which the device is given
// later, and needs the memory at once: Submit must not wait for the copy.
func testWipeOvertakes(r *rig) {
	d := r.devs[0]
	all := d.memory()
	if all == 0 || all > 1<<30 {
		return
	}
	secret, small := d.alloc(all/5*3), d.alloc(64)
	filled := d.write(secret, 0, []byte{1, 2, 3})
	r.sent(d, filled)
	got, data := make([]byte, 3), []byte{4, 5, 6}
	held := d.write(small, 0, data, d.next(d.out(), 0))
	d.wipe(secret)
	again := d.alloc(all / 5 * 3)
	sent := make(chan error, 1)
	go func() { sent <- d.trySend() }()
	select {
	case err := <-sent:
		if err != nil {
			r.Fatal(err)
		}
	case <-time.After(deadline / 4):
		r.Fatalf("%s: Submit waits for an operation that can be given only after it", d.Info().Name)
	}
	first := d.read(got, again, 0)
	r.sent(d, first, held)
	if bytes.Contains(got, []byte{1, 2, 3}) {
		r.Errorf("a secret can be read in the next buffer: %v", got)
	}
	d.free(small)
	d.free(again)
	d.alive("a wipe behind a copy that waits")
}
