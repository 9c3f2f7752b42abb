package fake

import (
	"fmt"
	"maps"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
)

// MakeSlab makes memory of a file that has no name, so that another process can
// map it by its descriptor and it outlives this one there. It does not count
// as memory of the device.
func (d *device) MakeSlab(bytes int64) (fd int, size int64, err error) {
	if bytes <= 0 || bytes > d.info.MemBytes {
		return -1, 0, fmt.Errorf("fake: slab of %d bytes on %s: %w", bytes, d.info.Name, driver.ErrOutOfMemory)
	}
	page := int64(unix.Getpagesize())
	size = (bytes + page - 1) / page * page
	fd, err = unix.MemfdCreate("weft-fake-slab", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, 0, fmt.Errorf("fake: slab of %d bytes on %s: %w", bytes, d.info.Name, err)
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		_ = unix.Close(fd)
		return -1, 0, fmt.Errorf("fake: slab of %d bytes on %s: %w", bytes, d.info.Name, err)
	}
	return fd, size, nil
}

// MapSlab maps the memory behind fd.
func (d *device) MapSlab(n int32, fd int, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n < 1 || d.slabs[n] != nil {
		return fmt.Errorf("fake: map slab %d on %s: use a number from 1 that is free", n, d.info.Name)
	}
	mem, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("fake: map slab %d on %s: %w", n, d.info.Name, err)
	}
	d.slabs[n] = mem
	return nil
}

// DropSlab has nothing to give up but the descriptor, which the caller closes.
func (d *device) DropSlab(int) error { return nil }

// UnmapSlab gives a slab up, and the buffers placed in it.
func (d *device) UnmapSlab(n int32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	mem := d.slabs[n]
	if mem == nil {
		return fmt.Errorf("fake: unmap slab %d on %s: it is not mapped", n, d.info.Name)
	}
	delete(d.slabs, n)
	maps.DeleteFunc(d.buffers, func(_ driver.Buffer, b buffer) bool { return b.slab == n })
	return unix.Munmap(mem)
}

// unmapAll unmaps all slabs. The caller holds the lock.
func (d *device) unmapAll() {
	for n, mem := range d.slabs {
		_ = unix.Munmap(mem)
		delete(d.slabs, n)
	}
}

var _ driver.SlabMaker = (*device)(nil)
