package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/extent"
)

// heap places a device's buffers. With slabs the memory is the keeper's and the
// heap knows where in it every buffer lies; without, the worker makes buffers
// and the heap only counts. The device's lock guards it.
type heap struct {
	slabbed bool
	limit   int64 // bytes, 0 without one
	step    int64 // what slabs are made of at least
	used    int64 // without slabs
	space   *extent.Space
	slabs   []slab // in the order they were made
	buffers map[driver.Buffer]buffer
	// unwiped are secret buffers in slabs that were freed and may not be overwritten yet. The
	// worker does that in its turn; if it is lost before, the next one does it first.
	unwiped []unwiped
}

// unwiped is a buffer that was freed before operation next was given. The worker overwrites it before it
// begins that operation.
type unwiped struct {
	buffer
	next uint64
}

// wiped notes that operation n is complete: buffers that were freed before it was given are overwritten.
func (h *heap) wiped(n uint64) {
	done := 0
	for done < len(h.unwiped) && h.unwiped[done].next <= n {
		done++
	}
	h.unwiped = slices.Delete(h.unwiped, 0, done)
}

// slab is device memory the keeper made.
type slab struct {
	n    int32
	fd   int
	size int64
}

// buffer is the position of a buffer; slab 0 is the worker's own memory.
type buffer struct {
	extent extent.ID
	slab   int32
	off    int64
	bytes  int64
}

const (
	extentAlign = 512 // what GPUs copy fastest
	minSlab     = 1 << 20
	maxSlab     = 512 << 20
	maxBuffer   = 1 << 50 // sizes add up without overflow
)

func newHeap(slabbed bool, limit int64) heap {
	h := heap{slabbed: slabbed, limit: limit, buffers: make(map[driver.Buffer]buffer)}
	h.clear()
	h.step = maxSlab
	if limit > 0 {
		h.step = min(max(limit/16, minSlab), maxSlab)
	}
	return h
}

func (h *heap) clear() {
	h.space, h.used = extent.New(extentAlign), 0
	clear(h.buffers)
	h.slabs, h.unwiped = nil, nil
}

// alloc makes a buffer and tells the worker. One that cannot be made stays
// absent, which fails what uses it. It returns false if it would have to wait and is
// not to.
func (d *device) alloc(b driver.Buffer, bytes int64, wait bool) bool {
	h := &d.heap
	if bytes <= 0 {
		return true
	}
	if _, there := h.buffers[b]; there {
		d.free(b, false)
	}
	if !h.slabbed {
		if bytes > maxBuffer || h.limit > 0 && h.used+bytes > h.limit {
			return true
		}
		h.used += bytes
		h.buffers[b] = buffer{bytes: bytes}
		d.place(own(b), h.buffers[b])
		return true
	}
	id, err := h.space.Get(bytes)
	if err != nil {
		if !wait {
			return false
		}
		if err := d.grow(bytes); err != nil {
			d.log.Debug("no device memory", "bytes", bytes, "err", err)
			return true
		}
		if id, err = h.space.Get(bytes); err != nil {
			return true
		}
	}
	region, off, _ := h.space.At(id)
	h.buffers[b] = buffer{extent: id, slab: region, off: off, bytes: bytes}
	d.place(own(b), h.buffers[b])
	return true
}

func (d *device) free(b driver.Buffer, secret bool) {
	h := &d.heap
	x, ok := h.buffers[b]
	if !ok {
		return // it could not be made, or went with its worker
	}
	delete(h.buffers, b)
	if x.slab == 0 {
		h.used -= x.bytes
	} else {
		h.space.Put(x.extent)
		if secret {
			h.unwiped = append(h.unwiped, unwiped{x, d.sent + 1})
		}
	}
	d.unplace(own(b), secret)
}

// unplace tells the worker that a buffer is no more.
func (d *device) unplace(name uint32, secret bool) {
	if d.w == nil {
		return
	}
	d.rec.begin(doFree)
	d.rec.u32(name)
	d.rec.flag(secret)
	d.tell()
}

// wipe has a new worker overwrite what the last one may not have. The extents may belong to other buffers by
// now. Nothing is lost of these: as long as an extent is on the list, no operation with work that was given
// after it was freed is complete.
func (d *device) wipe() {
	name := uint32(len(d.aliases)+len(d.unnamed))<<1 | 1 // no alias has it
	for _, x := range d.heap.unwiped {
		if slices.ContainsFunc(d.heap.slabs, func(s slab) bool { return s.n == x.slab }) {
			d.place(name, x.buffer)
			d.unplace(name, true)
		}
	}
}

// place tells the worker of a buffer.
func (d *device) place(name uint32, x buffer) {
	if d.w == nil {
		return
	}
	d.rec.begin(doAlloc)
	d.rec.u32(name)
	d.rec.i64(x.bytes)
	d.rec.u32(uint32(x.slab))
	d.rec.i64(x.off)
	d.tell()
}

// grow has the keeper make a slab that holds bytes. Slabs that are empty are
// given back first where the limit or the device wants it.
func (d *device) grow(bytes int64) error {
	h := &d.heap
	if bytes > maxBuffer || h.limit > 0 && bytes > h.limit {
		return fmt.Errorf("%w: %d bytes of %d", driver.ErrOutOfMemory, bytes, h.limit)
	}
	need := (bytes + extentAlign - 1) &^ (extentAlign - 1)
	want := max(need, h.step)
	if h.limit > 0 && h.space.Size()+want > h.limit {
		d.trim()
		if want = min(want, h.limit-h.space.Size()); want < need {
			return fmt.Errorf("%w: %d of %d bytes are in use", driver.ErrOutOfMemory, h.space.Used(), h.limit)
		}
	}
	n := d.origin.keeper.number()
	fd, size, err := d.origin.keeper.slab(d.life, d.origin.index, n, want)
	if errors.Is(err, driver.ErrOutOfMemory) {
		d.trim()
		n = d.origin.keeper.number()
		fd, size, err = d.origin.keeper.slab(d.life, d.origin.index, n, need)
	}
	if err != nil {
		return err
	}
	if err := d.tellSlab(d.life, d.w, slab{n, fd, size}); err != nil {
		_ = unix.Close(fd)
		return err
	}
	d.updateStandby()
	h.slabs = append(h.slabs, slab{n, fd, size})
	h.space.Grow(n, size)
	return nil
}

// tellSlab has a worker map a slab.
func (d *device) tellSlab(ctx context.Context, w *child, s slab) error {
	if w == nil {
		return nil
	}
	_, err := w.call(ctx, &message{Kind: tellSlab, Slab: s.n, Bytes: s.size}, s.fd)
	return err
}

// trim gives back slabs that have no buffers. It releases the lock while other devices
// unmap them.
func (d *device) trim() {
	h := &d.heap
	var empty []slab
	h.slabs = slices.DeleteFunc(h.slabs, func(s slab) bool {
		if !h.space.Shrink(s.n) {
			return false
		}
		empty = append(empty, s)
		d.unslab(s.n)
		d.tellStandby()
		if d.standby != nil {
			delete(d.standby.slabs, s.n)
		}
		return true
	})
	if d.w != nil {
		d.flush()
	}
	d.mu.Unlock()
	for _, s := range empty {
		for _, sib := range d.drv.all {
			if sib != d {
				sib.mu.Lock()
				if sib.foreign[s.n] {
					sib.unslab(s.n)
					if sib.w != nil {
						sib.flush()
					}
				}
				sib.mu.Unlock()
			}
		}
		_ = unix.Close(s.fd)
		d.origin.keeper.drop(d.life, d.origin.index, s.n)
	}
	d.mu.Lock()
}

// unslab has the worker unmap a slab, its own or a sibling's.
func (d *device) unslab(n int32) {
	delete(d.foreign, n)
	for k, x := range d.aliases {
		if x.at.slab == n {
			d.unalias(k)
		}
	}
	d.rec.begin(doUnslab)
	d.rec.u32(uint32(n))
	if d.w != nil {
		d.tell()
	}
}

// surrender forgets all slabs and the buffers in them.
func (d *device) surrender(ctx context.Context) {
	for _, s := range d.heap.slabs {
		_ = unix.Close(s.fd)
		d.origin.keeper.drop(ctx, d.origin.index, s.n)
	}
	d.heap.clear()
}

// own is the number the worker knows a buffer by. Odd ones are for aliases.
func own(b driver.Buffer) uint32 {
	if b == driver.NoBuffer {
		return uint32(b)
	}
	return uint32(b) << 1
}

// peerBuffer is a buffer of a sibling.
type peerBuffer struct {
	of  *device
	buf driver.Buffer
}

// alias is the name a worker knows a sibling's buffer by.
type alias struct {
	name uint32
	at   buffer
}

// find returns where a buffer lies, and the slab.
func (h *heap) find(b driver.Buffer) (buffer, slab, bool) {
	x, ok := h.buffers[b]
	if !ok || x.slab == 0 {
		return x, slab{}, false
	}
	i := slices.IndexFunc(h.slabs, func(s slab) bool { return s.n == x.slab })
	return x, h.slabs[i], true
}

// alias makes a sibling's buffer known to the worker and returns its name there.
func (d *device) alias(k peerBuffer, o offered) (uint32, bool) {
	a, ok := d.aliases[k]
	if !ok || a.at != o.buffer {
		if !d.foreign[o.slab.n] {
			if d.tellSlab(d.life, d.w, o.slab) != nil {
				return 0, false
			}
			d.foreign[o.slab.n] = true
			d.log.Debug("mapped memory of another worker", "slab", o.slab.n, "bytes", o.slab.size)
		}
		d.unalias(k)
		a = alias{name: uint32(len(d.aliases))<<1 | 1, at: o.buffer}
		if n := len(d.unnamed); n > 0 {
			a.name, d.unnamed = d.unnamed[n-1], d.unnamed[:n-1]
		}
		d.aliases[k] = a
		d.place(a.name, a.at)
	}
	return a.name, true
}

func (d *device) unalias(k peerBuffer) {
	a, ok := d.aliases[k]
	if !ok {
		return
	}
	delete(d.aliases, k)
	d.unnamed = append(d.unnamed, a.name)
	d.unplace(a.name, false)
}
