package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
)

// memory is a device's buffers. They lie in a heap that maps physical memory as
// it grows, or in slabs that a keeper process made.
//
// Its lock is the innermost: whoever copies from another device looks into that
// device's memory while it holds locks of its own.
type memory struct {
	mu      sync.Mutex
	limit   int64
	unit    int64   // what physical memory comes in
	base    uintptr // of the addresses reserved for the heap; 0 before it is used
	chunks  []chunk // behind them, in order
	heap    heap
	buffers []buffer // by number
	slabs   map[int32]chunk
	made    map[int]uint64 // handles of slabs made for others, by descriptor
}

// buffer is a part of device memory; bytes 0 means there is none.
type buffer struct {
	addr  uintptr
	bytes int64
	slab  bool
}

// chunk is physical memory behind addresses.
type chunk struct {
	handle uint64
	base   uintptr
	size   int64
}

// growth is the least physical memory that the heap takes at a time: taking any amount
// costs a tenth of a millisecond.
const growth = 64 << 20

// maxBuffers bounds buffer numbers, which index a table.
const maxBuffers = 1 << 24

// open finds out how much memory there is; addresses and memory come with use. A
// process that works in a keeper's slabs may find next to nothing free.
func (m *memory) open(d *device, f *frame) error {
	a := d.api
	if err := a.do(f, &a.memGetInfo, f.at(0), f.at(1)); err != nil {
		return err
	}
	free, total := int64(f.out[0]), int64(f.out[1])
	m.limit = free
	if left := margin + total/32; free > 2*left {
		m.limit = free - left
	}
	if d.o.MemBytes > 0 {
		m.limit = min(d.o.MemBytes, total)
	}
	if err := a.do(f, &a.granularity, f.at(0), put(f, 8, prop(d.num)), 1); err != nil {
		return err
	}
	m.unit = max(int64(f.out[0]), 1)
	m.slabs, m.made = make(map[int32]chunk), make(map[int]uint64)
	m.heap.grow = func(need int64) (got int64) { return m.grow(d, need) }
	return nil
}

func (m *memory) roundUp(n int64) int64 { return (n + m.unit - 1) / m.unit * m.unit }

// grow maps physical memory behind the end of the heap.
func (m *memory) grow(d *device, need int64) (got int64) {
	room := m.roundUp(m.limit) - m.heap.size
	need = m.roundUp(need)
	if need > room || d.dead.Load() != nil {
		return 0
	}
	// More than is needed, if there is that much.
	for _, n := range []int64{min(max(need, m.roundUp(growth)), room), need} {
		c := chunk{size: n}
		err := d.within(func(f *frame) (err error) {
			if m.base == 0 {
				if err = d.api.do(f, &d.api.memReserve, f.at(0), uintptr(m.roundUp(m.limit)), 0, 0, 0); err != nil {
					return err
				}
				m.base = uintptr(f.out[0])
			}
			c.base = m.base + uintptr(m.heap.size)
			if err = d.api.do(f, &d.api.memCreate, f.at(0), uintptr(n), put(f, 8, prop(d.num)), 0); err != nil {
				return err
			}
			c.handle = f.out[0]
			return d.mapChunk(f, c)
		})
		if err == nil {
			m.chunks = append(m.chunks, c)
			return n
		}
		d.log.Debug("no more device memory", "device", d.info.Name, "bytes", n, "err", err)
	}
	return 0
}

// mapChunk puts a chunk behind its addresses; on failure its handle is gone.
func (d *device) mapChunk(f *frame, c chunk) error {
	a := d.api
	err := a.do(f, &a.memMap, c.base, uintptr(c.size), 0, uintptr(c.handle), 0)
	if err == nil {
		who := d.peers.of(d, f)
		if err = a.do(f, &a.memSetAccess, c.base, uintptr(c.size), put(f, 8, who.list), uintptr(who.n)); err != nil && who.n > 1 {
			err = a.do(f, &a.memSetAccess, c.base, uintptr(c.size), put(f, 8, who.list), 1) // itself alone, then
		}
		if err == nil {
			return nil
		}
		_ = a.do(f, &a.memUnmap, c.base, uintptr(c.size)) // the first error says more
	}
	_ = a.do(f, &a.memRelease, uintptr(c.handle))
	return err
}

func (d *device) unmapChunk(f *frame, c chunk) error {
	a := d.api
	return errors.Join(a.do(f, &a.memUnmap, c.base, uintptr(c.size)), a.do(f, &a.memRelease, uintptr(c.handle)))
}

// alloc makes a buffer; one that cannot be made stays absent, which fails what
// uses it.
func (m *memory) alloc(d *device, o *driver.Op) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.Buf < 0 || o.Buf >= maxBuffers || o.Bytes <= 0 {
		return
	}
	for int(o.Buf) >= len(m.buffers) {
		m.buffers = append(m.buffers, buffer{})
	}
	b := &m.buffers[o.Buf]
	if b.bytes != 0 { // given twice: the caller has lost count, and the old one goes
		m.drop(o.Buf)
	}
	if o.Slab != 0 {
		s, ok := m.slabs[o.Slab]
		if ok && o.SlabOff >= 0 && o.SlabOff <= s.size && o.Bytes <= s.size-o.SlabOff {
			*b = buffer{s.base + uintptr(o.SlabOff), o.Bytes, true}
		}
		return
	}
	if o.Bytes > m.limit || m.heap.used+rounded(o.Bytes) > m.roundUp(m.limit) {
		return
	}
	if at, ok := m.heap.alloc(o.Bytes); ok {
		*b = buffer{m.base + uintptr(at), o.Bytes, false}
	}
}

func (m *memory) free(n driver.Buffer) {
	m.mu.Lock()
	m.drop(n)
	m.mu.Unlock()
}

func (m *memory) drop(n driver.Buffer) {
	if n < 0 || int(n) >= len(m.buffers) || m.buffers[n].bytes == 0 {
		return
	}
	if b := m.buffers[n]; !b.slab {
		m.heap.free(int64(b.addr-m.base), b.bytes)
	}
	m.buffers[n] = buffer{}
}

// find returns where a buffer is, and its size; 0 if there is none.
func (m *memory) find(n driver.Buffer) (uintptr, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n < 0 || int(n) >= len(m.buffers) {
		return 0, 0
	}
	return m.buffers[n].addr, m.buffers[n].bytes
}

// at resolves a part of a buffer.
func (m *memory) at(n driver.Buffer, off, bytes int64) (uintptr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n == driver.NoBuffer {
		return 0, fmt.Errorf("%w: it is host memory, which kernels here do not use", driver.ErrKernel)
	}
	if n < 0 || int(n) >= len(m.buffers) || m.buffers[n].bytes == 0 {
		return 0, fmt.Errorf("buffer %d: %w", n, driver.ErrOutOfMemory)
	}
	b := m.buffers[n]
	if off < 0 || bytes < 0 || off > b.bytes || bytes > b.bytes-off {
		return 0, fmt.Errorf("bytes %d to %d of a buffer of %d", off, off+bytes, b.bytes)
	}
	return b.addr + uintptr(off), nil
}

// close gives all memory back.
func (m *memory) close(d *device, f *frame) error {
	var errs []error
	for _, c := range m.chunks {
		errs = append(errs, d.unmapChunk(f, c))
	}
	for _, c := range m.slabs { // in any order: they are independent
		errs = append(errs, d.unmapChunk(f, c), d.api.do(f, &d.api.memUnreserve, c.base, uintptr(c.size)))
	}
	for _, h := range m.made { // likewise
		errs = append(errs, d.api.do(f, &d.api.memRelease, uintptr(h)))
	}
	if m.base != 0 {
		errs = append(errs, d.api.do(f, &d.api.memUnreserve, m.base, uintptr(m.roundUp(m.limit))))
	}
	return errors.Join(errs...)
}

// MakeSlab takes device memory that lives as long as this device is open or
// any process has it mapped, and returns a descriptor for it.
func (d *device) MakeSlab(bytes int64) (fd int, size int64, err error) {
	if bytes <= 0 {
		return 0, 0, fmt.Errorf("cuda: make a slab of %d bytes: a size must be positive", bytes)
	}
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	size = d.memory.roundUp(bytes)
	err = d.within(func(f *frame) error {
		a := d.api
		if err := a.do(f, &a.memCreate, f.at(0), uintptr(size), put(f, 8, prop(d.num)), 0); err != nil {
			return err
		}
		h := f.out[0]
		if err := a.do(f, &a.memExport, f.at(1), uintptr(h), posixFD, 0); err != nil {
			_ = a.do(f, &a.memRelease, uintptr(h))
			return err
		}
		fd = int(f.i32(1))
		d.memory.made[fd] = h
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("cuda: make a slab of %d bytes on %s: %w", bytes, d.info.Name, err)
	}
	return fd, size, nil
}

// DropSlab gives up a slab made here; its memory is free when no process has it mapped.
func (d *device) DropSlab(fd int) error {
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	h, ok := d.memory.made[fd]
	if !ok {
		return fmt.Errorf("cuda: drop the slab with descriptor %d on %s: none was made with it", fd, d.info.Name)
	}
	delete(d.memory.made, fd)
	return d.within(func(f *frame) error { return d.api.do(f, &d.api.memRelease, uintptr(h)) })
}

// MapSlab makes a slab's memory usable here.
func (d *device) MapSlab(n int32, fd int, size int64) error {
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	if _, there := d.memory.slabs[n]; n < 1 || there || size <= 0 || size%d.memory.unit != 0 {
		return fmt.Errorf("cuda: map slab %d of %d bytes on %s: slabs have numbers of their own from 1 on and sizes as MakeSlab returned them", n, size, d.info.Name)
	}
	err := d.within(func(f *frame) error {
		a := d.api
		if err := a.do(f, &a.memImport, f.at(0), uintptr(fd), posixFD); err != nil {
			return err
		}
		c := chunk{handle: f.out[0], size: size}
		if err := a.do(f, &a.memReserve, f.at(1), uintptr(size), 0, 0, 0); err != nil {
			_ = a.do(f, &a.memRelease, uintptr(c.handle))
			return err
		}
		c.base = uintptr(f.out[1])
		if err := d.mapChunk(f, c); err != nil {
			_ = a.do(f, &a.memUnreserve, c.base, uintptr(size))
			return err
		}
		d.memory.slabs[n] = c
		return nil
	})
	if err != nil {
		return fmt.Errorf("cuda: map slab %d of %d bytes on %s: %w", n, size, d.info.Name, err)
	}
	return nil
}

// UnmapSlab gives a slab up. Buffers in it are gone.
func (d *device) UnmapSlab(n int32) error {
	d.awaitWipes()
	d.memory.mu.Lock()
	defer d.memory.mu.Unlock()
	c, ok := d.memory.slabs[n]
	if !ok {
		return fmt.Errorf("cuda: unmap slab %d on %s: it is not mapped", n, d.info.Name)
	}
	delete(d.memory.slabs, n)
	for i := range d.memory.buffers {
		if b := &d.memory.buffers[i]; b.slab && b.addr >= c.base && b.addr < c.base+uintptr(c.size) {
			*b = buffer{}
		}
	}
	err := d.within(func(f *frame) error {
		return errors.Join(d.unmapChunk(f, c), d.api.do(f, &d.api.memUnreserve, c.base, uintptr(c.size)))
	})
	if err != nil {
		return fmt.Errorf("cuda: unmap slab %d on %s: %w", n, d.info.Name, err)
	}
	return nil
}

// span is a stretch of host memory.
type span struct {
	at, end uintptr
	ours    bool // registered by this device, not by another of the process
}

func spanOf(mem []byte) span {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	return span{at: at, end: at + uintptr(len(mem))}
}

// MapHost page-locks host memory, so that copies are done by the GPU alone.
func (d *device) MapHost(mem []byte) error {
	if len(mem) == 0 {
		return errors.New("cuda: map host memory: there is none")
	}
	s := spanOf(mem)
	err := d.within(func(f *frame) error {
		code := d.api.code(f, &d.api.hostRegister, s.at, uintptr(len(mem)), hostPortable)
		if s.ours = code == 0; code == errRegistered {
			return nil // by another device of this process, for all of them
		}
		return d.api.err(&d.api.hostRegister, code)
	})
	if err != nil {
		return fmt.Errorf("cuda: map %d bytes of host memory for %s: %w", len(mem), d.info.Name, err)
	}
	d.mu.Lock()
	i, _ := slices.BinarySearchFunc(d.mapped, s.at, compareSpan)
	d.mapped = slices.Insert(d.mapped, i, s)
	d.mu.Unlock()
	return nil
}

// UnmapHost undoes MapHost of the same memory.
func (d *device) UnmapHost(mem []byte) error {
	s := spanOf(mem)
	d.mu.Lock()
	i, ok := slices.BinarySearchFunc(d.mapped, s.at, compareSpan)
	if ok = ok && d.mapped[i].end == s.end; ok {
		s = d.mapped[i]
		d.mapped = slices.Delete(d.mapped, i, i+1)
	}
	d.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("cuda: unmap %d bytes of host memory from %s: they are not mapped", len(mem), d.info.Name)
	case !s.ours:
		return nil
	}
	err := d.within(func(f *frame) error { return d.api.do(f, &d.api.hostUnregister, s.at) })
	if err != nil {
		return fmt.Errorf("cuda: unmap %d bytes of host memory from %s: %w", len(mem), d.info.Name, err)
	}
	return nil
}

func compareSpan(s span, at uintptr) int {
	switch {
	case s.at < at:
		return -1
	case s.at > at:
		return 1
	}
	return 0
}

// locked reports whether host memory is page-locked, and appends to cuts how far
// into it one mapping ends and the next begins: a copy must not cross that.
func (d *device) locked(mem []byte, cuts []int64) ([]int64, bool) {
	s := spanOf(mem)
	i, exact := slices.BinarySearchFunc(d.mapped, s.at, compareSpan)
	if !exact {
		i--
	}
	if i < 0 || d.mapped[i].end <= s.at {
		return cuts, false
	}
	for ; d.mapped[i].end < s.end; i++ {
		if i+1 == len(d.mapped) || d.mapped[i+1].at != d.mapped[i].end {
			return cuts, false
		}
		cuts = append(cuts, int64(d.mapped[i].end-s.at))
	}
	return cuts, true
}

// CanCopyFrom reports whether a copy may name another device as its source: any
// GPU of this process.
func (d *device) CanCopyFrom(other driver.Device) bool {
	_, ok := other.(*device)
	return ok
}
