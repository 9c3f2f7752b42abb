package cuda

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/weft-run/weft/driver"
)

var ncclNames = []string{"libnccl.so.2", "libnccl.so"}

// nccl is NVIDIA's library for collectives. A device is one rank of one
// communicator: that of all devices that joined, or of itself alone.
type nccl struct {
	lib                                                 *library
	uniqueID, initRank, destroy, allReduce, errorString proc
	comm                                                uintptr
}

func (n *nccl) open(folders []string) error {
	if n.lib != nil {
		return nil
	}
	lib, err := open(folders, ncclNames...)
	if err != nil {
		return err
	}
	n.errorString = lib.bind("ncclGetErrorString")
	for _, b := range []struct {
		to   *proc
		name string
	}{
		{&n.uniqueID, "ncclGetUniqueId"}, {&n.initRank, "ncclCommInitRank"}, {&n.destroy, "ncclCommDestroy"}, {&n.allReduce, "ncclAllReduce"},
	} {
		if *b.to = lib.bind(b.name); b.to.addr == 0 {
			return fmt.Errorf("%s has no %s", lib.path, b.name)
		}
	}
	n.lib = lib
	return nil
}

func (n *nccl) do(f *frame, p *proc, args ...uintptr) error {
	code := int32(f.call(p, args...))
	if code == 0 {
		return nil
	}
	text := ""
	if n.errorString.addr != 0 {
		text = cString(f.call(&n.errorString, uintptr(code)), 256)
	}
	return fmt.Errorf("%w: %s: NCCL result %d: %s", driver.ErrKernel, p.name, code, text)
}

// ncclID is ncclUniqueId.
type ncclID [128]byte

// newID makes the name ranks find one another by.
func (n *nccl) newID(f *frame) (id ncclID, err error) {
	err = n.do(f, &n.uniqueID, f.at(0))
	return *(*ncclID)(unsafe.Pointer(&f.out[0])), err
}

// join makes the device a rank; it returns when all ranks have joined. The name
// goes by value: on the stack for x86, by address for ARM.
func (n *nccl) join(f *frame, id ncclID, ranks, rank int) error {
	n.close()
	args := []uintptr{f.at(0), uintptr(ranks)}
	if runtime.GOARCH == "amd64" {
		args = append(args, uintptr(rank), 0, 0, 0)
		for i := 0; i < len(id); i += 8 {
			args = append(args, uintptr(binary.NativeEndian.Uint64(id[i:])))
		}
	} else {
		args = append(args, put(f, 1, id), uintptr(rank))
	}
	if err := n.do(f, &n.initRank, args...); err != nil {
		return err
	}
	n.comm = uintptr(f.out[0])
	return nil
}

func (n *nccl) close() {
	if n.comm == 0 {
		return
	}
	f := getFrame()
	defer f.free()
	_ = n.do(f, &n.destroy, n.comm) // nothing runs on it any more
	n.comm = 0
}

// CollectiveID makes a name for Join.
func (d *device) CollectiveID() (id []byte, err error) {
	d.joining.Lock()
	defer d.joining.Unlock()
	err = d.within(func(f *frame) error {
		if err := d.comm.open(d.o.LibraryPath); err != nil {
			return err
		}
		name, err := d.comm.newID(f)
		id = name[:]
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cuda: collective on %s: %w", d.info.Name, err)
	}
	return id, nil
}

// Join makes the device a rank of a communicator, which nccl routines use from
// then on.
func (d *device) Join(id []byte, ranks, rank int) error {
	if len(id) != len(ncclID{}) || ranks < 1 || rank < 0 || rank >= ranks {
		return fmt.Errorf("cuda: join as rank %d of %d with a name of %d bytes: names have %d", rank, ranks, len(id), len(ncclID{}))
	}
	d.joining.Lock()
	defer d.joining.Unlock()
	err := d.within(func(f *frame) error {
		if err := d.comm.open(d.o.LibraryPath); err != nil {
			return err
		}
		return d.comm.join(f, ncclID(id), ranks, rank)
	})
	if err != nil {
		return fmt.Errorf("cuda: join on %s: %w", d.info.Name, err)
	}
	return nil
}

// allReduce sums send over all ranks into recv. Params are two little-endian
// uint32: the number of elements, and 0 for float32 or 1 for float64.
func allReduce(d *device, s *stream, ptrs []uintptr, params []byte) error {
	if len(ptrs) < 2 || len(params) != 8 || word(params, 1) > 1 {
		return fmt.Errorf("%w: allreduce takes send and recv, a count and 0 or 1, given are %d buffers and %d bytes", driver.ErrKernel, len(ptrs), len(params))
	}
	d.joining.Lock()
	defer d.joining.Unlock()
	n := &d.comm
	if n.comm == 0 { // nobody joined it with others: it is alone
		id, err := n.newID(d.f)
		if err != nil {
			return err
		}
		if err := n.join(d.f, id, 1, 0); err != nil {
			return err
		}
	}
	const float32s, sum = 7, 0
	return n.do(d.f, &n.allReduce, ptrs[0], ptrs[1], word(params, 0), float32s+word(params, 1), sum, n.comm, s.handle)
}
