package cuda

import (
	"math/bits"
	"slices"
)

// heap hands out extents of one stretch of addresses that can grow at its end.
// Small extents that are freed are kept by size and handed out again at once;
// when nothing fits they are merged with their neighbours, and only then the
// heap grows. It knows addresses, not memory.
type heap struct {
	size  int64             // what there is
	grow  func(int64) int64 // makes at least so much more and returns how much, 0 for none
	used  int64
	spare []extent            // free, by address, no two adjacent
	quick [quickSizes][]int64 // free, by size: addresses
	kept  int64               // bytes in quick
}

type extent struct{ at, bytes int64 }

const (
	// align is the alignment of every extent, in bytes: vector loads, the copy
	// engines and tensor maps need it.
	align = 256
	// quickSizes is the number of size classes: four to each power of two, up to 16
	// MiB.
	quickSizes = 17 * 4
	quickMax   = 16 << 20
)

// rounded is the size an extent of n bytes really takes: a multiple of align,
// and for small ones one of the quick sizes.
func rounded(n int64) int64 {
	if n <= 4*align {
		return (n + align - 1) &^ (align - 1)
	}
	if n > quickMax {
		return (n + 4095) &^ 4095
	}
	step := int64(1) << (bits.Len64(uint64(n-1)) - 3)
	return (n + step - 1) &^ (step - 1)
}

// quickIndex is the position of a rounded size among the quick ones, -1 when it
// is too large for them.
func quickIndex(n int64) int {
	if n > quickMax {
		return -1
	}
	if n <= 4*align {
		return int(n/align) - 1
	}
	top := bits.Len64(uint64(n - 1))
	// n is a multiple of 2^(top-3), between 4 (exclusive) and 8 of it.
	return (top-11)*4 + int(n>>(top-3)) - 1
}

// alloc returns the address of n bytes.
func (h *heap) alloc(n int64) (at int64, ok bool) {
	n = rounded(n)
	if i := quickIndex(n); i >= 0 {
		if l := h.quick[i]; len(l) > 0 {
			at = l[len(l)-1]
			h.quick[i] = l[:len(l)-1]
			h.kept -= n
			h.used += n
			return at, true
		}
	}
	at, ok = h.cut(n)
	if !ok && h.kept > 0 {
		h.merge()
		at, ok = h.cut(n)
	}
	if !ok {
		need := n
		if l := len(h.spare); l > 0 && h.spare[l-1].at+h.spare[l-1].bytes == h.size {
			need -= h.spare[l-1].bytes
		}
		if more := h.grow(need); more > 0 {
			h.release(extent{h.size, more})
			h.size += more
			at, ok = h.cut(n)
		}
	}
	if ok {
		h.used += n
	}
	return at, ok
}

// free takes back what alloc returned for n bytes.
func (h *heap) free(at, n int64) {
	n = rounded(n)
	h.used -= n
	if i := quickIndex(n); i >= 0 {
		h.quick[i] = append(h.quick[i], at)
		h.kept += n
		return
	}
	h.release(extent{at, n})
}

// cut takes n bytes from the smallest extent that has them.
func (h *heap) cut(n int64) (int64, bool) {
	best := -1
	for i := range h.spare {
		if b := h.spare[i].bytes; b >= n && (best < 0 || b < h.spare[best].bytes) {
			best = i
			if b == n {
				break
			}
		}
	}
	if best < 0 {
		return 0, false
	}
	e := &h.spare[best]
	at := e.at
	e.at += n
	e.bytes -= n
	if e.bytes == 0 {
		h.spare = slices.Delete(h.spare, best, best+1)
	}
	return at, true
}

// merge gives the quick extents back to the rest.
func (h *heap) merge() {
	for i := range h.quick {
		n := quickSize(i)
		for _, at := range h.quick[i] {
			h.release(extent{at, n})
		}
		h.quick[i] = h.quick[i][:0]
	}
	h.kept = 0
}

// quickSize is the size that has index i among the quick ones.
func quickSize(i int) int64 {
	if i < 4 {
		return int64(i+1) * align
	}
	return int64(i%4+5) << (i/4 + 7)
}

// release adds an extent to the free ones and joins it with its neighbours.
func (h *heap) release(e extent) {
	i, _ := slices.BinarySearchFunc(h.spare, e.at, func(x extent, at int64) int { return int(min(max(x.at-at, -1), 1)) })
	if i > 0 && h.spare[i-1].at+h.spare[i-1].bytes == e.at {
		h.spare[i-1].bytes += e.bytes
		if i < len(h.spare) && e.at+e.bytes == h.spare[i].at {
			h.spare[i-1].bytes += h.spare[i].bytes
			h.spare = slices.Delete(h.spare, i, i+1)
		}
		return
	}
	if i < len(h.spare) && e.at+e.bytes == h.spare[i].at {
		h.spare[i] = extent{e.at, e.bytes + h.spare[i].bytes}
		return
	}
	h.spare = slices.Insert(h.spare, i, e)
}
