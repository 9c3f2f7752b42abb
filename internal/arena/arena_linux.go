package arena

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/numa"
)

// file is the anonymous file behind an arena.
type file struct{ fd int }

func create(size int64) (*file, []byte, error) {
	fd, err := Memfd("weft arena", size)
	if err != nil {
		return nil, nil, err
	}
	mem, err := Map(fd, size)
	if err != nil {
		_ = unix.Close(fd)
		return nil, nil, err
	}
	interleave(mem, memoryNodes(numa.Nodes()))
	return &file{fd}, mem, nil
}

// memoryNodes are the numbers of the nodes that have memory.
func memoryNodes(nodes []numa.Node) (ids []int) {
	for _, n := range nodes {
		if n.Memory {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// interleave has pages that are made from now on come from several memory nodes in turn.
// An arena is read and written by devices at all nodes: pages where the program happened
// to touch them first would all be behind one memory bus. With one node, or where that is
// not allowed, pages are made as they always are.
func interleave(mem []byte, nodes []int) {
	if len(nodes) > 1 {
		_ = bind(mem, nodes) // slower, and nothing else
	}
}

// bind sets the nodes that pages come from in turn.
func bind(mem []byte, nodes []int) error {
	const inTurn = 3 // MPOL_INTERLEAVE
	var mask [16]uint64
	most := 64 * len(mask)
	for _, n := range nodes {
		if n >= most {
			return unix.EINVAL
		}
		mask[n/64] |= 1 << (n % 64)
	}
	// The kernel takes one bit less than it is told.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), inTurn,
		uintptr(unsafe.Pointer(&mask[0])), uintptr(most+1), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Memfd makes an anonymous file of a size that no process can change: touching memory
// of a mapped file beyond its end raises SIGBUS, so a process that could truncate it
// could end all others that map it.
func Memfd(name string, size int64) (fd int, err error) {
	fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	if err = unix.Ftruncate(fd, size); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Map maps an arena another process made.
func Map(fd int, size int64) ([]byte, error) {
	return unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
}

// Close gives the memory up. Nothing of it may be used after.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	mem := a.mem
	a.mem = nil
	if mem == nil {
		return nil
	}
	for b, at := range a.boards {
		b.Retire()
		_ = unix.Munmap(at.own) // as mapped
		_ = unix.Close(at.fd)
	}
	if err := unix.Munmap(mem); err != nil {
		return fmt.Errorf("arena: unmap: %w", err)
	}
	return unix.Close(a.file.fd)
}

func (a *Arena) board(n int) (*driver.Board, error) {
	size, far := driver.BoardBytes(n)
	fd, own, err := readable(size)
	if err != nil {
		return nil, fmt.Errorf("arena: share a board: %w", err)
	}
	mem, err := a.Get(max(far, page))
	if err != nil {
		_ = unix.Munmap(own) // as mapped
		_ = unix.Close(fd)
		return nil, err
	}
	clear(mem)
	b := driver.ShareBoard(own, mem, n)
	off, _ := a.Find(mem)
	a.mu.Lock()
	a.boards[b] = boardAt{off, fd, own}
	a.mu.Unlock()
	return b, nil
}

// readable makes memory that other processes can map by descriptor to read it and
// not to write it. Kernels before 5.1 cannot refuse that: there others are not
// told to.
func readable(size int64) (fd int, mem []byte, err error) {
	if fd, err = unix.MemfdCreate("weft board", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, nil, err
	}
	if err = unix.Ftruncate(fd, size); err == nil {
		mem, err = unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, nil, err
	}
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE)
	_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return fd, mem, nil
}

// JoinBoard joins a board another process made, as its BoardAt says: off is where
// it lies in the arena, which mem maps, and fd the memory this process only reads.
// The descriptor stays the caller's.
func JoinBoard(mem []byte, off int64, fd, member int) (*driver.Board, error) {
	if off < 0 || off >= int64(len(mem)) {
		return nil, fmt.Errorf("arena: a board at %d of %d bytes", off, len(mem))
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("arena: map a board: %w", err)
	}
	own, err := unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("arena: map a board of %d bytes: %w", st.Size, err)
	}
	b, err := driver.JoinBoard(own, mem[off:], member)
	if err != nil {
		_ = unix.Munmap(own) // as mapped
	}
	return b, err
}

// fill has the pages of fresh memory made by several cores at once:
// page-locking them one by one takes ten times as long.
func fill(mem []byte) {
	n := min(runtime.NumCPU(), 8)
	step := (len(mem)/n + page - 1) &^ (page - 1)
	var wg sync.WaitGroup
	for at := 0; at < len(mem); at += step {
		part := mem[at:min(at+step, len(mem))]
		wg.Go(func() {
			// Kernels before 5.14 cannot, and make pages as they are touched.
			_ = unix.Madvise(part, unix.MADV_POPULATE_WRITE)
		})
	}
	wg.Wait()
}
