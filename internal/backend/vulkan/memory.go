package vulkan

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/extent"
	"github.com/weft-run/weft/machine"
)

// memory is a device's buffers: extents of chunks, each of which is one buffer of
// Vulkan's, since drivers have few of those to give.
type memory struct {
	direct  bool // the CPU copies from and to it
	limit   int64
	kind    uint32 // memory type
	staging uint32 // memory type of staging buffers
	heap    uint32 // which heap buffers are in

	mu      sync.Mutex
	space   *extent.Space
	chunks  map[int32]*chunk
	next    int32
	buffers map[driver.Buffer]buffer
	wiping  int       // extents that are overwritten before they are given back
	wiped   sync.Cond // of mu: there are fewer
}

// chunk is memory with a buffer over all of it.
type chunk struct {
	memory, buffer uint64
	base           uintptr // where the CPU sees it; 0 when it does not
	size           int64
}

// buffer is an extent of a chunk.
type buffer struct {
	place
	id extent.ID
}

// place is a part of a chunk.
type place struct {
	*chunk
	off, bytes int64
}

// mem is the place as the CPU sees it.
func (p place) mem() []byte {
	return unsafe.Slice((*byte)(pointer(p.base+uintptr(p.off))), p.bytes)
}

const (
	// growth is the least memory taken at a time.
	growth = 64 << 20
	// extentAlign is the alignment of buffers in bytes: no device asks for more.
	extentAlign = 256
)

// open chooses the kinds of memory to use.
func (m *memory) open(d *device, f *frame) error {
	props := answer[memoryProperties](f)
	f.call(&d.api.memoryProperties, d.phys, address(props))
	// Any buffer made like those to come says which kinds suit it.
	b, err := create(f, &d.c.createBuffer, d.handle, d.bufferInfo(f, 1<<16))
	if err != nil {
		return err
	}
	needs := answer[memoryNeeds](f)
	f.call(&d.c.bufferMemory, d.handle, uintptr(b), address(needs))
	f.call(&d.c.destroyBuffer, d.handle, uintptr(b), 0)
	// best returns the kind of memory with the most of the flags, the first
	// counting most, on the largest heap.
	best := func(must uint32, flags ...uint32) (kind uint32, ok bool) {
		rank := func(i uint32) (r uint64) {
			for n, fl := range flags {
				if props.kind[i].flags&fl == fl {
					r += 1 << (40 + 8 - n)
				}
			}
			return r + props.heap[props.kind[i].heap].size>>20
		}
		for i := range props.kinds {
			if needs.kinds>>i&1 == 1 && props.kind[i].flags&must == must && (!ok || rank(i) > rank(kind)) {
				kind, ok = i, true
			}
		}
		return kind, ok
	}
	const shared = memHostVisible | memHostCoherent | memHostCached
	var ok bool
	if m.staging, ok = best(memHostVisible|memHostCoherent, memHostCached); !ok {
		return fmt.Errorf("no memory for staging: %w", driver.ErrUnavailable)
	}
	flags := []uint32{memDeviceLocal}
	if d.info.Kind != machine.Discrete {
		flags = append(flags, shared)
	}
	if m.kind, ok = best(0, flags...); !ok {
		return fmt.Errorf("no memory for buffers: %w", driver.ErrUnavailable)
	}
	m.direct = d.info.Kind != machine.Discrete && props.kind[m.kind].flags&shared == shared && !d.o.stage
	m.heap = props.kind[m.kind].heap
	heap := int64(min(props.heap[m.heap].size, 1<<62))
	m.limit = heap / 10 * 9
	if d.o.MemBytes > 0 {
		m.limit = min(d.o.MemBytes, heap)
	}
	m.space = extent.New(max(extentAlign, d.limits.offsetAlign))
	m.wiped.L = &m.mu
	m.chunks, m.buffers = make(map[int32]*chunk), make(map[driver.Buffer]buffer)
	return nil
}

// bufferInfo describes a buffer all queues use.
func (d *device) bufferInfo(f *frame, size int64) bufferInfo {
	b := bufferInfo{head: head{typ: tBuffer}, size: uint64(size), usage: bufferUsage}
	if len(d.families) > 1 {
		b.sharing, b.families, b.familyAt = 1, uint32(len(d.families)), list(f, d.families)
	}
	return b
}

// makeChunk takes memory of a kind and puts a buffer over it; the CPU sees it if
// it is to.
func (d *device) makeChunk(size int64, kind uint32, visible bool) (c *chunk, err error) {
	f := getFrame()
	defer f.free()
	c = &chunk{size: size}
	defer func() {
		if err != nil {
			d.dropChunk(c)
		}
	}()
	if size > d.limits.allocBytes {
		return c, fmt.Errorf("%w: %d bytes at once, and the driver gives %d", driver.ErrOutOfMemory, size, d.limits.allocBytes)
	}
	if c.buffer, err = create(f, &d.c.createBuffer, d.handle, d.bufferInfo(f, size)); err != nil {
		return c, err
	}
	needs := answer[memoryNeeds](f)
	f.call(&d.c.bufferMemory, d.handle, uintptr(c.buffer), address(needs))
	if c.memory, err = create(f, &d.c.allocate, d.handle, memoryInfo{head: head{typ: tMemory}, size: needs.size, kind: kind}); err != nil {
		return c, err
	}
	if err = f.do(&d.c.bindMemory, d.handle, uintptr(c.buffer), uintptr(c.memory), 0); err != nil {
		return c, err
	}
	if visible {
		at := answer[uintptr](f)
		err = f.do(&d.c.mapMemory, d.handle, uintptr(c.memory), 0, uintptr(wholeSize), 0, address(at))
		c.base = *at
	}
	return c, err
}

func (d *device) dropChunk(c *chunk) {
	f := getFrame()
	defer f.free()
	f.call(&d.c.destroyBuffer, d.handle, uintptr(c.buffer), 0)
	f.call(&d.c.freeMemory, d.handle, uintptr(c.memory), 0)
}

// get takes an extent. The caller holds the lock.
func (m *memory) get(d *device, n int64) (buffer, error) {
	if n <= 0 || n > m.limit || m.space.Used()+n > m.limit {
		return buffer{}, fmt.Errorf("%d bytes of %d, %d in use: %w", n, m.limit, m.space.Used(), driver.ErrOutOfMemory)
	}
	id, err := m.space.Get(n)
	if err != nil {
		size := (n + extentAlign - 1) / extentAlign * extentAlign
		c, err := d.makeChunk(max(size, min(growth, m.limit)), m.kind, m.direct)
		if err != nil && size < growth {
			c, err = d.makeChunk(size, m.kind, m.direct)
		}
		if err != nil {
			return buffer{}, err
		}
		m.next++
		m.chunks[m.next] = c
		m.space.Grow(m.next, c.size)
		if id, err = m.space.Get(n); err != nil {
			return buffer{}, fmt.Errorf("%w: %w", driver.ErrOutOfMemory, err)
		}
	}
	region, off, _ := m.space.At(id)
	return buffer{place{m.chunks[region], off, n}, id}, nil
}

// getSoon takes an extent, and waits for those that are being overwritten where there is none without
// them. The caller holds the lock.
func (m *memory) getSoon(d *device, n int64) (buffer, error) {
	b, err := m.get(d, n)
	for err != nil && m.wiping > 0 {
		m.wiped.Wait()
		b, err = m.get(d, n)
	}
	return b, err
}

// put gives an extent back, and its chunk if that is empty and large: small ones
// are needed again. The caller holds the lock.
func (m *memory) put(d *device, b buffer) {
	region, _, _ := m.space.At(b.id)
	m.space.Put(b.id)
	if c := m.chunks[region]; c.size > growth && m.space.Shrink(region) {
		delete(m.chunks, region)
		d.dropChunk(c)
	}
}

// scratch takes an extent for the time of a launch.
func (m *memory) scratch(d *device, n int64) (buffer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.getSoon(d, n)
}

func (m *memory) unscratch(d *device, bs []buffer, secret bool) {
	for _, b := range bs {
		m.give(d, b, secret)
	}
}

// give gives an extent back, once it is overwritten with zeros if it was secret.
func (m *memory) give(d *device, b buffer, secret bool) {
	m.mu.Lock()
	if secret && !m.direct {
		m.wiping++
		m.mu.Unlock()
		d.wipe(b)
		return
	}
	if secret {
		clear(b.mem())
	}
	m.put(d, b)
	m.mu.Unlock()
}

// putWiped gives an extent back that was overwritten. One that was not stays as it is: it holds a secret,
// and the GPU may still use it.
func (m *memory) putWiped(d *device, b buffer, err error) {
	m.mu.Lock()
	if err == nil {
		m.put(d, b)
	}
	m.wiping--
	m.mu.Unlock()
	m.wiped.Broadcast()
}

// wipe has the GPU overwrite an extent, on a lane of its own: Submit may wait for it, and an
// operation on another lane may wait for one that is yet to be submitted.
func (d *device) wipe(b buffer) {
	d.mu.Lock()
	d.flying++
	d.mu.Unlock()
	d.wiper.push(&op{direction: zeros, dst: b.place, bytes: (b.bytes + 3) &^ 3, freed: b})
}

// alloc makes a buffer; one that cannot be made stays absent, which fails what
// uses it.
func (m *memory) alloc(d *device, o *driver.Op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.buffers[o.Buf]; ok { // given twice: the caller has lost count
		m.put(d, old)
		delete(m.buffers, o.Buf)
	}
	b, err := m.getSoon(d, o.Bytes)
	if err != nil {
		d.log.Debug("no buffer", "device", d.info.Name, "bytes", o.Bytes, "err", err)
		return
	}
	m.buffers[o.Buf] = b
}

func (m *memory) free(d *device, n driver.Buffer, secret bool) {
	m.mu.Lock()
	b, ok := m.buffers[n]
	delete(m.buffers, n)
	m.mu.Unlock()
	if ok {
		m.give(d, b, secret)
	}
}

// at resolves a part of a buffer.
func (m *memory) at(n driver.Buffer, off, bytes int64) (place, error) {
	if n == driver.NoBuffer {
		return place{}, fmt.Errorf("%w: it is host memory, which kernels here do not use", driver.ErrKernel)
	}
	m.mu.Lock()
	b, ok := m.buffers[n]
	m.mu.Unlock()
	if !ok {
		return place{}, fmt.Errorf("buffer %d: %w", n, driver.ErrOutOfMemory)
	}
	if off < 0 || bytes < 0 || off > b.bytes || bytes > b.bytes-off {
		return place{}, fmt.Errorf("bytes %d to %d of a buffer of %d", off, off+bytes, b.bytes)
	}
	return place{b.chunk, b.off + off, bytes}, nil
}

// close gives all memory back.
func (m *memory) close(d *device) {
	for _, c := range m.chunks { // in any order: they are independent
		d.dropChunk(c)
	}
}

// span is host memory that was mapped. Where the device can be given it, buffer
// stands for the pages it lies on, from base on.
type span struct {
	mem   []byte
	chunk *chunk
}

func sameStart(a, b []byte) bool {
	return unsafe.SliceData(a) == unsafe.SliceData(b) && len(a) == len(b)
}

// pageBytes is the size to which memory may be rounded out: pages exist as a whole.
const pageBytes = 4096

// MapHost lets the device copy from and to host memory by itself. Where the CPU
// does the copying, or the driver cannot be given memory, there is nothing to it.
func (d *device) MapHost(mem []byte) error {
	s := span{mem: mem}
	if align := d.limits.hostAlign; !d.memory.direct && align > 0 && align <= pageBytes && len(mem) > 0 {
		var err error
		if s.chunk, err = d.importHost(mem, uintptr(align)); err != nil {
			return fmt.Errorf("vulkan: map %d bytes for %s: %w", len(mem), d.info.Name, err)
		}
	}
	d.mu.Lock()
	d.mapped = append(d.mapped, s)
	d.mu.Unlock()
	return nil
}

// importHost makes a chunk of host memory.
func (d *device) importHost(mem []byte, align uintptr) (c *chunk, err error) {
	f := getFrame()
	defer f.free()
	lo := uintptr(unsafe.Pointer(&mem[0])) &^ (align - 1)
	hi := (uintptr(unsafe.Pointer(&mem[0])) + uintptr(len(mem)) + align - 1) &^ (align - 1)
	c = &chunk{size: int64(hi - lo), base: lo}
	defer func() {
		if err != nil {
			d.dropChunk(c)
		}
	}()
	kinds := answer[hostPointerInfo](f)
	kinds.head = head{typ: tHostPointer}
	if err = f.do(&d.c.hostPointer, d.handle, hostAllocation, lo, address(kinds)); err != nil {
		return c, err
	}
	info := d.bufferInfo(f, c.size)
	info.next = put(f, externalBuffer{head: head{typ: tExternalBuffer}, handles: hostAllocation})
	if c.buffer, err = create(f, &d.c.createBuffer, d.handle, info); err != nil {
		return c, err
	}
	needs := answer[memoryNeeds](f)
	f.call(&d.c.bufferMemory, d.handle, uintptr(c.buffer), address(needs))
	kind := uint32(0)
	for kind < 32 && (kinds.kinds&needs.kinds)>>kind&1 == 0 {
		kind++
	}
	if kind == 32 {
		return c, fmt.Errorf("no kind of memory takes it: %w", driver.ErrUnavailable)
	}
	from := put(f, importInfo{head: head{typ: tImportHost}, handle: hostAllocation, at: lo})
	if c.memory, err = create(f, &d.c.allocate, d.handle, memoryInfo{head: head{typ: tMemory, next: from}, size: uint64(c.size), kind: kind}); err != nil {
		return c, err
	}
	return c, f.do(&d.c.bindMemory, d.handle, uintptr(c.buffer), uintptr(c.memory), 0)
}

// UnmapHost undoes MapHost.
func (d *device) UnmapHost(mem []byte) error {
	d.mu.Lock()
	i := slices.IndexFunc(d.mapped, func(s span) bool { return sameStart(s.mem, mem) })
	var s span
	if i >= 0 {
		s = d.mapped[i]
		d.mapped = slices.Delete(d.mapped, i, i+1)
	}
	d.mu.Unlock()
	if i < 0 {
		return fmt.Errorf("vulkan: unmap %d bytes for %s: they are not mapped", len(mem), d.info.Name)
	}
	if s.chunk != nil {
		d.dropChunk(s.chunk)
	}
	return nil
}

func (d *device) unmapAll() {
	for _, s := range d.mapped {
		if s.chunk != nil {
			d.dropChunk(s.chunk)
		}
	}
	d.mapped = nil
}

// imported returns the place where the device sees host memory, if it does.
func (d *device) imported(host []byte) (place, bool) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(host)))
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.mapped {
		if s.chunk != nil && at >= s.chunk.base && at+uintptr(len(host)) <= s.chunk.base+uintptr(s.chunk.size) {
			return place{s.chunk, int64(at - s.chunk.base), int64(len(host))}, true
		}
	}
	return place{}, false
}
