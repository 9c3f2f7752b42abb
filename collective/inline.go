package collective

import (
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/machine"
)

// Inline is the algorithm of an operation so small that the caller's own goroutine does
// it, in the order of ranks, sooner than any device could be told to.
const Inline = "inline"

// inlineBytes limits the bytes that an inline operation reads and writes. A core moves 64 KiB
// in about 6 µs, which is the time a device needs to receive a task and report its end.
const inlineBytes = 64 << 10

// Inline reports whether an operation is done inline: it is small, no algorithm is asked
// for, and all ranks are on devices that use host memory.
func (s *Spec) Inline(m *machine.Machine) bool {
	if s.Algorithm != "" || s.Op == OpBarrier || s.check(m) != nil {
		return false
	}
	var elements int64
	for r, d := range s.Ranks {
		if !m.Devices[d].HostMemory {
			return false
		}
		elements += s.InCount(r) + s.OutCount(r)
	}
	return elements*s.Type.Size() <= inlineBytes
}

// uses is the memory of operations of a group that are done inline at the same time. The claims
// of runs are the loop's, which to ask would take longer than the operation. It is not known
// here what runs use.
type uses struct {
	mu    sync.Mutex
	spans []span
	calls uint64
}

// span is memory that a call reads, or writes.
type span struct {
	from, to uintptr // to is the first address after it
	call     uint64
	written  bool
}

// claim notes what a call uses, or errs if another writes any of it, or it would write what
// another uses.
func claim[T Element](u *uses, in, out [][]T) (call uint64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	others := len(u.spans)
	u.calls++
	for i, xs := range [2][][]T{in, out} {
		for rank, x := range xs {
			if len(x) == 0 {
				continue
			}
			from := uintptr(unsafe.Pointer(unsafe.SliceData(x)))
			s := span{from, from + uintptr(len(x))*unsafe.Sizeof(*new(T)), u.calls, i == 1}
			for _, o := range u.spans[:others] {
				if s.from < o.to && o.from < s.to && (s.written || o.written) {
					u.spans = u.spans[:others]
					return 0, fmt.Errorf("%w: memory of rank %d is in use by an operation in progress, and one of them writes it; wait for that one", weft.ErrBinding, rank)
				}
			}
			u.spans = append(u.spans, s)
		}
	}
	return u.calls, nil
}

// release gives back what a call uses.
func (u *uses) release(call uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.spans = slices.DeleteFunc(u.spans, func(s span) bool { return s.call == call })
}

// inline does an operation on the calling goroutine. in and out are of the lengths that
// checkSlices wants.
func inline[T Element](s *Spec, in, out [][]T) {
	n := len(s.Ranks)
	whole := func(xs [][]T) [][]byte {
		all := make([][]byte, 0, n)
		for _, x := range xs {
			if len(x) > 0 {
				all = append(all, bytesOf(x))
			}
		}
		return all
	}
	divisor := 1
	if s.Op.Folds() && s.Fold == Average {
		divisor = n
	}
	switch s.Op {
	case OpAllReduce, OpReduce, OpBroadcast, OpSend:
		foldInto(s.Fold, s.Type, whole(out), whole(in), divisor, false)
	case OpReduceScatter:
		parts := make([][]byte, n)
		for r := range n {
			lo, hi := Cut(s.Count, n, r)
			for q := range n {
				parts[q] = bytesOf(in[q][lo:hi])
			}
			if lo < hi {
				foldInto(s.Fold, s.Type, [][]byte{bytesOf(out[r])}, parts, divisor, false)
			}
		}
	case OpAllGather:
		for r := range n {
			lo, hi := Cut(s.Count, n, r)
			for q := range n {
				copy(out[q][lo:hi], in[r])
			}
		}
	case OpAllToAll:
		for r := range n {
			lo, hi := Cut(s.Count, n, r)
			for q := range n {
				copy(out[r][int64(q)*(hi-lo):], in[q][lo:hi])
			}
		}
	}
}

// bytesOf returns the memory of a slice.
func bytesOf[T any](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), uintptr(len(x))*unsafe.Sizeof(*new(T)))
}

func overlap[T any](a, b []T) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	size := unsafe.Sizeof(a[0])
	x, y := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return x < y+uintptr(len(b))*size && y < x+uintptr(len(a))*size
}
