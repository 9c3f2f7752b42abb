//go:build gpu || stub || cgo

package cuda

import (
	"errors"
	"slices"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
)

func TestMemory(t *testing.T) {
	const limit = 96 << 20
	r := openRig(t, Options{MemBytes: limit})
	if got := r.dev.Info().MemBytes; got != limit {
		t.Errorf("limit is %d", got)
	}
	fits := r.alloc(64 << 20)
	not := r.alloc(64 << 20)
	zero, negative := r.alloc(0), r.alloc(-5)
	data, back := upTo(1<<20), make([]uint32, 1<<20)
	r.must(r.copyIn(fits, bytesOf(data)))
	for _, b := range []driver.Buffer{not, zero, negative, 12345, 1 << 30} {
		if c := r.wait(r.copyIn(b, make([]byte, 4))); !errors.Is(c.Err, driver.ErrOutOfMemory) {
			t.Errorf("buffer %d: %v", b, c.Err)
		}
	}
	for _, o := range []driver.Op{
		{Kind: driver.Copy, Bytes: 8, Src: driver.NoBuffer, Dst: fits, HostSrc: make([]byte, 4)},
		{Kind: driver.Copy, Bytes: -1, Src: driver.NoBuffer, Dst: fits, HostSrc: make([]byte, 4)},
		{Kind: driver.Copy, Bytes: 8, Src: driver.NoBuffer, Dst: fits, DstOff: 64<<20 - 4, HostSrc: make([]byte, 8)},
		{Kind: driver.Copy, Bytes: 8, Src: driver.NoBuffer, Dst: fits, DstOff: -4, HostSrc: make([]byte, 8)},
		{Kind: driver.Copy, Bytes: 8, Src: driver.NoBuffer, Dst: driver.NoBuffer, HostSrc: make([]byte, 8), HostDst: make([]byte, 8)},
	} {
		if c := r.wait(r.send(r.in(), o)); c.Err == nil {
			t.Errorf("%+v went well", o)
		}
	}
	r.must(r.copyOut(bytesOf(back), fits))
	if !slices.Equal(data, back) {
		t.Error("content changed")
	}
	// What is freed is there again, without end.
	r.submit(driver.Op{Kind: driver.Free, Buf: fits})
	for i := range 10_000 {
		n := int64(1+i%7) << 20
		r.submit(driver.Op{Kind: driver.Alloc, Buf: 7, Bytes: n}, driver.Op{Kind: driver.Alloc, Buf: 8, Bytes: 3 * n}, driver.Op{Kind: driver.Free, Buf: 7}, driver.Op{Kind: driver.Free, Buf: 8})
	}
	all := r.alloc(90 << 20)
	r.must(r.copyIn(all, make([]byte, 100)))
	odd := make([]byte, 77)
	for i := range odd {
		odd[i] = byte(i)
	}
	got := make([]byte, 50)
	w := r.send(r.in(), driver.Op{Kind: driver.Copy, Bytes: 77, Src: driver.NoBuffer, Dst: all, DstOff: 13, HostSrc: odd})
	w = r.send(r.in(), driver.Op{Kind: driver.Copy, Bytes: 60, Src: all, SrcOff: 20, Dst: all, DstOff: 1<<20 + 1}, w)
	w = r.send(r.out(), driver.Op{Kind: driver.Copy, Bytes: 50, Src: all, SrcOff: 1<<20 + 4, Dst: driver.NoBuffer, HostDst: got}, w)
	r.must(w)
	if !slices.Equal(got, odd[10:60]) {
		t.Errorf("got %v", got)
	}
	w = r.send(r.out(), driver.Op{Kind: driver.Copy, Src: all, Dst: driver.NoBuffer})
	r.must(w)
}

func TestHostMemory(t *testing.T) {
	r := openRig(t, Options{})
	m := r.dev.(driver.HostMapper)
	const n = 1 << 20
	mem := make([]byte, 4*n+64)[13:] // begins nowhere in particular
	mem = mem[:4*n]
	if err := m.MapHost(nil); err == nil {
		t.Error("mapped nothing")
	}
	if err := m.MapHost(mem); err != nil {
		t.Fatal(err)
	}
	b := r.alloc(2 * n)
	for i := range mem[:2*n] {
		mem[i] = byte(i * 7)
	}
	w := r.send(r.in(), driver.Op{Kind: driver.Copy, Bytes: 2 * n, Src: driver.NoBuffer, Dst: b, HostSrc: mem[:2*n]})
	w = r.send(r.out(), driver.Op{Kind: driver.Copy, Bytes: 2 * n, Src: b, Dst: driver.NoBuffer, HostDst: mem[2*n:]}, w)
	r.must(w)
	if !slices.Equal(mem[:2*n], mem[2*n:]) {
		t.Error("copies differ")
	}
	for _, size := range []int64{1, 3, 4, 100, 4096, shortBytes - 1, shortBytes, shortBytes + 1} { // short ones go another way
		for _, off := range []int64{0, 3, 4, 8} {
			from, to := mem[off:off+size], mem[2*n+off:2*n+off+size]
			clear(to)
			w := r.send(r.in(), driver.Op{Kind: driver.Copy, Bytes: size, Src: driver.NoBuffer, Dst: b, DstOff: off, HostSrc: from})
			w = r.send(r.out(), driver.Op{Kind: driver.Copy, Bytes: size, Src: b, SrcOff: off, Dst: driver.NoBuffer, HostDst: to}, w)
			r.must(w)
			if !slices.Equal(from, to) {
				t.Errorf("%d bytes at %d differ", size, off)
			}
		}
	}
	if err := m.UnmapHost(mem[:n]); err == nil {
		t.Error("unmapped a part")
	}
	if err := m.UnmapHost(mem); err != nil {
		t.Error(err)
	}
	if err := m.UnmapHost(mem); err == nil {
		t.Error("unmapped twice")
	}
}

// Host memory that was mapped in parts is copied whole, also from the middle of
// one part to the middle of another.
func TestMappedInParts(t *testing.T) {
	r := openRig(t, Options{})
	m := r.dev.(driver.HostMapper)
	const part, parts = 1 << 20, 3
	mem := make([]byte, (parts+1)*part)
	mem = mem[4096-int(spanOf(mem).at%4096):][:parts*part]
	for i := range mem {
		mem[i] = byte(i * 11)
	}
	for i := range parts {
		if err := m.MapHost(mem[i*part : (i+1)*part]); err != nil {
			t.Fatal(err)
		}
	}
	b := r.alloc(parts * part)
	want := slices.Clone(mem)
	for _, at := range [][2]int{{0, len(mem)}, {part - 5, part + 5}, {part / 2, 2*part + 7}, {part, 2 * part}} {
		r.must(r.copyIn(b, mem[at[0]:at[1]]))
		clear(mem[at[0]:at[1]])
		r.must(r.copyOut(mem[at[0]:at[1]], b))
		if !slices.Equal(mem, want) {
			t.Fatalf("bytes %d to %d differ", at[0], at[1])
		}
	}
	for i := range parts {
		if err := m.UnmapHost(mem[i*part : (i+1)*part]); err != nil {
			t.Fatal(err)
		}
	}
}

// Memory made by one device is used by another opener, which finds in it what
// the first left.
func TestSlabs(t *testing.T) {
	keeper, user := openRig(t, Options{}).dev.(driver.SlabMaker), openRig(t, Options{})
	fd, size, err := keeper.MakeSlab(5 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(fd)
	if size < 5<<20 {
		t.Fatalf("slab of %d bytes", size)
	}
	if _, _, err := keeper.MakeSlab(0); err == nil {
		t.Error("made an empty slab")
	}
	s := user.dev.(driver.SlabMaker)
	if err := s.MapSlab(1, fd, size); err != nil {
		t.Fatal(err)
	}
	if err := s.MapSlab(1, fd, size); err == nil {
		t.Error("mapped a slab twice")
	}
	place := func(r *rig, b driver.Buffer, slab int32, off, n int64) {
		r.submit(driver.Op{Kind: driver.Alloc, Buf: b, Bytes: n, Slab: slab, SlabOff: off})
	}
	data, back := upTo(1000), make([]uint32, 1000)
	place(user, 50, 1, 1<<20, 4000)
	user.must(user.copyIn(50, bytesOf(data)))
	for _, bad := range [][3]int64{{1, size - 4, 8}, {1, -8, 8}, {2, 0, 8}, {1, 0, size + 1}} {
		place(user, 51, int32(bad[0]), bad[1], bad[2])
		if c := user.wait(user.copyIn(51, make([]byte, 4))); !errors.Is(c.Err, driver.ErrOutOfMemory) {
			t.Errorf("slab %v: %v", bad, c.Err)
		}
	}
	if err := s.UnmapSlab(1); err != nil {
		t.Fatal(err)
	}
	if c := user.wait(user.copyIn(50, make([]byte, 4))); !errors.Is(c.Err, driver.ErrOutOfMemory) {
		t.Errorf("a buffer of a slab that is gone: %v", c.Err)
	}
	if err := user.dev.Close(); err != nil {
		t.Error(err)
	}
	next := openRig(t, Options{})
	if err := next.dev.(driver.SlabMaker).MapSlab(3, fd, size); err != nil {
		t.Fatal(err)
	}
	place(next, 1, 3, 1<<20, 4000)
	next.must(next.copyOut(bytesOf(back), 1))
	if !slices.Equal(data, back) {
		t.Error("content did not survive")
	}
}
