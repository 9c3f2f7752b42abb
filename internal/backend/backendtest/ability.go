package backendtest

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// testTelemetry reads the device's condition while it works.
func testTelemetry(r *rig) {
	d := r.devs[0]
	t, ok := d.Device.(driver.Telemeter)
	if !ok {
		return
	}
	x := d.put(words(1))
	o := d.on("slow", 1, 4*long, nil, x)
	d.send()
	type reading struct {
		driver.Telemetry
		err error
	}
	ch := make(chan reading)
	go func() {
		got, err := t.Telemetry()
		ch <- reading{got, err}
	}()
	got := <-ch
	r.ok(o)
	if got.err != nil {
		r.Fatalf("telemetry of %s: %v", d.Info().Name, got.err)
	}
	for _, g := range []struct {
		name    string
		v, most float64
	}{{"util", got.Util, 1}, {"memory", got.MemUsed, 1}, {"temperature", got.TempC, 150}, {"power", got.PowerW, 5000}, {"clock", got.ClockMHz, 20000}} {
		if math.IsNaN(g.v) || g.v > g.most {
			r.Errorf("%s of %s is %v; want at most %v, or negative if not known", g.name, d.Info().Name, g.v, g.most)
		}
	}
}

// testPeerCopies copies from one device's memory to another's.
func testPeerCopies(r *rig) {
	for i, d := range r.devs {
		e := r.devs[1-i]
		p, ok := d.Device.(driver.PeerCopier)
		if !ok || !p.CanCopyFrom(e.Device) {
			continue
		}
		const n = 70_001
		data, got := noise(rand.New(rand.NewPCG(6, 7)), n), make([]byte, n)
		src, dst := e.alloc(n+11), d.alloc(n+5)
		w := e.write(src, 11, data)
		c := d.add(driver.Op{
			Kind: driver.Copy, Lane: d.in(), Bytes: n, From: e.Device, Src: src, SrcOff: 11, Dst: dst, DstOff: 5,
		}, w)
		o := d.read(got, dst, 5, c)
		d.send() // and so the copy waits for what is not there yet
		e.send()
		if r.ok(w, c, o); !bytes.Equal(got, data) {
			r.Errorf("a copy from %s to %s differs at byte %d", e.Info().Name, d.Info().Name, firstDifference(got, data))
		}
		far := d.add(driver.Op{Kind: driver.Copy, Lane: d.in(), Bytes: n, From: e.Device, Src: src, SrcOff: 12, Dst: dst})
		none := d.add(driver.Op{Kind: driver.Copy, Lane: d.in(), Bytes: n, From: e.Device, Src: src + 1000, Dst: dst})
		d.send()
		r.fails("a copy past the end of another device's buffer", far, nil)
		r.fails("a copy of a buffer another device does not have", none, nil)
		d.alive("copies from another")
		e.alive("copies to another")
	}
}

// testHostMapper copies to and from memory that is mapped, and is not any more.
func testHostMapper(r *rig) {
	d := r.devs[0]
	m, ok := d.Device.(driver.HostMapper)
	if !ok {
		return
	}
	const n = 1<<20 + 5
	rnd := rand.New(rand.NewPCG(8, 9))
	data, got := noise(rnd, n), make([]byte, n)
	b := d.alloc(n)
	for _, state := range []string{"mapped", "unmapped", "mapped again"} {
		if state != "unmapped" {
			for _, mem := range [][]byte{data, got} {
				if err := m.MapHost(mem); err != nil {
					r.Fatalf("%s: %v", state, err)
				}
			}
		}
		copy(data, noise(rnd, 1000))
		clear(got)
		if r.sent(d, d.read(got[3:], b, 3, d.write(b, 0, data))); !bytes.Equal(got[3:], data[3:]) {
			r.Errorf("%s memory: a copy there and back differs at byte %d", state, 3+firstDifference(got[3:], data[3:]))
		}
		if state != "unmapped" {
			for _, mem := range [][]byte{data, got} {
				if err := m.UnmapHost(mem); err != nil {
					r.Fatalf("after %s: %v", state, err)
				}
			}
		}
	}
	if err := m.UnmapHost(data); err == nil {
		r.Error("memory that is not mapped was unmapped")
	}
	d.alive("host memory was mapped")
}

// testSharedMemory copies between memory that processes share and a device.
func testSharedMemory(r *rig) {
	d := r.devs[0]
	mem := d.Traits().Shared
	if mem == nil {
		return
	}
	rnd := rand.New(rand.NewPCG(12, 13))
	for _, n := range []int64{1, 64, 4097, 3<<20 + 1} {
		src, err := mem.Get(n)
		if err != nil {
			r.Fatal(err)
		}
		dst, err := mem.Get(n)
		if err != nil {
			r.Fatal(err)
		}
		copy(src, noise(rnd, int(n)))
		clear(dst)
		b := d.alloc(n)
		if r.sent(d, d.read(dst, b, 0, d.write(b, 0, src))); !bytes.Equal(src, dst) {
			r.Errorf("%d bytes of shared memory, there and back, differ at byte %d", n, firstDifference(dst, src))
		}
		d.free(b)
		mem.Put(src)
		mem.Put(dst)
	}
	d.flush()
}

// testSlabs shares device memory between two that opened the device.
func testSlabs(r *rig) {
	d, e := r.devs[0], r.devs[1]
	a, ok := d.Device.(driver.SlabMaker)
	if !ok {
		return
	}
	b := e.Device.(driver.SlabMaker)
	const n = 1 << 20
	fd, size, err := a.MakeSlab(n - 5)
	if err != nil {
		r.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "slab")
	defer file.Close()
	if size < n-5 {
		r.Fatalf("asked for %d bytes, got %d", n-5, size)
	}
	if err := a.MapSlab(1, fd, size); err != nil {
		r.Fatal(err)
	}
	if err := b.MapSlab(3, fd, size); err != nil {
		r.Fatal(err)
	}
	place := func(d *dev, slab int32, off, n int64) driver.Buffer {
		d.buf++
		d.batch = append(d.batch, driver.Op{Kind: driver.Alloc, Buf: d.buf, Bytes: n, Slab: slab, SlabOff: off})
		return d.buf
	}
	// Two buffers of d, seen as one and a half by e.
	first, second := place(d, 1, 4096, 4096), place(d, 1, 8192, 4096)
	both := place(e, 3, 4096, 8192)
	rnd := rand.New(rand.NewPCG(10, 11))
	x, y, got := noise(rnd, 4096), noise(rnd, 4096), make([]byte, 8192)
	w1, w2 := d.write(first, 0, x), d.write(second, 0, y)
	read := e.read(got, both, 0, w1, w2)
	d.send()
	e.send()
	want := append(bytes.Clone(x), y...)
	if r.ok(w1, w2, read); !bytes.Equal(got, want) {
		r.Errorf("what one wrote into a slab the other reads differently from byte %d on", firstDifference(got, want))
	}
	for name, o := range map[string]op{
		"past the end of a slab": d.write(place(d, 1, size-10, 11), 0, []byte{1}),
		"before a slab":          d.write(place(d, 1, -1, 11), 0, []byte{1}),
		"in no slab":             d.write(place(d, 2, 0, 11), 0, []byte{1}),
	} {
		d.flush()
		r.fails("a copy into a buffer "+name, o, nil)
	}
	d.free(first)
	d.free(second)
	d.send()
	if err := a.UnmapSlab(1); err != nil {
		r.Error(err)
	}
	if err := a.UnmapSlab(1); err == nil {
		r.Error("a slab was unmapped twice")
	}
	d.alive("its slab was unmapped")
	clear(got)
	if r.sent(e, e.read(got, both, 0)); !bytes.Equal(got, want) {
		r.Errorf("when one gave a slab up, the other lost it from byte %d on", firstDifference(got, want))
	}
	e.free(both)
	e.send()
	if err := b.UnmapSlab(3); err != nil {
		r.Error(err)
	}
}

// testHanger checks that a device that works shows life.
func testHanger(r *rig) {
	d := r.devs[0]
	h, ok := d.Device.(driver.Hanger)
	if !ok {
		return
	}
	from := time.Now()
	d.alive("it was opened")
	if seen := h.LastSeen(); seen.Before(from.Add(-deadline)) || seen.After(time.Now()) {
		r.Errorf("%s was last seen at %v; it worked between %v and now", d.Info().Name, seen, from)
	}
}

// testStop asks for launches to be ended early: one that waits behind another, one
// under way and one that has ended. Each completes in its turn, having done nothing
// that counts or as if it had not been asked, and what comes after them runs.
func testStop(r *rig) {
	d := r.devs[0]
	s, ok := d.Device.(driver.Stopper)
	if !ok {
		return
	}
	x, y := d.put(words(5)), d.put(words(5))
	first := d.on("add", 1, 1, nil, x)
	d.send()
	r.ok(first)
	s.Stop(first.Wait)
	under := d.on("slow", 1, long, nil, y)
	behind := d.on("add", 1, 10, nil, x)
	d.send()
	s.Stop(behind.Wait)
	s.Stop(under.Wait)
	want := uint32(6)
	if c := behind.wait(); c.Err == nil {
		want += 10 // it was too late
	} else if !errors.Is(c.Err, driver.ErrStopped) {
		r.Errorf("a launch that was to stop before it began: %v", c.Err)
	}
	if c := under.wait(); c.Err != nil && !errors.Is(c.Err, driver.ErrStopped) {
		r.Errorf("a launch that was to stop: %v", c.Err)
	}
	last := d.on("add", 1, 100, nil, x)
	if got := numbers(x.get(last))[0]; got != want+100 {
		r.Errorf("after launches that were to stop: %d, want %d", got, want+100)
	}
	d.alive("launches were stopped")
}
