package live

import (
	"unsafe"

	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/internal/fold"
)

// inline does an operation on the calling goroutine. in and out are of the lengths that
// checkSlices wants.
func inline[T Element](s *collective.Spec, in, out [][]T) {
	n := len(s.Ranks)
	whole := func(xs [][]T) [][]byte {
		all := make([][]byte, 0, n)
		for _, x := range xs {
			if len(x) > 0 {
				all = append(all, bytes(x))
			}
		}
		return all
	}
	divisor := 1
	if s.Op.Folds() && s.Fold == collective.Average {
		divisor = n
	}
	switch s.Op {
	case collective.AllReduce, collective.Reduce, collective.Broadcast, collective.Send:
		fold.Into(s.Fold, s.Type, whole(out), whole(in), divisor, false)
	case collective.ReduceScatter:
		parts := make([][]byte, n)
		for r := range n {
			lo, hi := collective.Cut(s.Count, n, r)
			for q := range n {
				parts[q] = bytes(in[q][lo:hi])
			}
			if lo < hi {
				fold.Into(s.Fold, s.Type, [][]byte{bytes(out[r])}, parts, divisor, false)
			}
		}
	case collective.AllGather:
		for r := range n {
			lo, hi := collective.Cut(s.Count, n, r)
			for q := range n {
				copy(out[q][lo:hi], in[r])
			}
		}
	case collective.AllToAll:
		for r := range n {
			lo, hi := collective.Cut(s.Count, n, r)
			for q := range n {
				copy(out[r][int64(q)*(hi-lo):], in[q][lo:hi])
			}
		}
	}
}

// bytes returns the memory of a slice.
func bytes[T Element](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), uintptr(len(x))*unsafe.Sizeof(*new(T)))
}
