// Package extent divides address ranges into extents: a best-fit allocator with
// coalescing that touches none of the memory it hands out. Host memory and
// device memory are placed by it. It takes no lock: its owner does.
package extent

import (
	"errors"
	"fmt"
	"math/bits"
)

// ErrFull is returned when no free extent is large enough.
var ErrFull = errors.New("no room")

// ID names an extent while it is in use.
type ID int32

// Space is a set of regions and the extents they are cut into.
type Space struct {
	align   int64
	extents []extent
	unused  int32     // head of the list of records not in use
	bins    [64]int32 // free extents by the length of their size in bits
	regions map[int32]int32
	used    int64
	size    int64
}

// extent is a part of a region. Neighbours are linked by address; free extents are
// linked in their bin as well.
type extent struct {
	region     int32
	free       bool
	off, size  int64
	prev, next int32 // by address, -1 at the ends of the region
	back, fwd  int32 // in the bin
}

// New returns a space whose extents begin at multiples of align, a power of two.
func New(align int64) *Space {
	s := &Space{align: align, unused: -1, regions: make(map[int32]int32)}
	for i := range s.bins {
		s.bins[i] = -1
	}
	return s
}

// Grow adds a region with a number of its own. Extents never cross regions.
func (s *Space) Grow(region int32, size int64) {
	if _, there := s.regions[region]; there {
		panic(fmt.Sprintf("extent: region %d is there", region))
	}
	i := s.record()
	s.extents[i] = extent{region: region, size: size &^ (s.align - 1), prev: -1, next: -1}
	s.regions[region] = i
	s.size += s.extents[i].size
	s.link(i)
}

// Shrink takes a region away; it returns false when an extent of it is in use.
func (s *Space) Shrink(region int32) bool {
	i, ok := s.regions[region]
	if !ok || !s.extents[i].free || s.extents[i].next >= 0 {
		return false
	}
	s.unlink(i)
	s.size -= s.extents[i].size
	delete(s.regions, region)
	s.drop(i)
	return true
}

// Empty reports whether no extent of a region is in use.
func (s *Space) Empty(region int32) bool {
	i, ok := s.regions[region]
	return ok && s.extents[i].free && s.extents[i].next < 0
}

// Used is the size of all extents in use.
func (s *Space) Used() int64 { return s.used }

// Size is the size of all regions.
func (s *Space) Size() int64 { return s.size }

// Get takes an extent of at least n bytes.
func (s *Space) Get(n int64) (ID, error) {
	if n <= 0 || n > s.size {
		return -1, fmt.Errorf("extent: %d bytes: %w", n, ErrFull)
	}
	n = (n + s.align - 1) &^ (s.align - 1)
	i := s.find(n)
	if i < 0 {
		return -1, fmt.Errorf("extent: %d bytes: %w", n, ErrFull)
	}
	s.unlink(i)
	if rest := s.extents[i].size - n; rest > 0 {
		k := s.record()
		p := &s.extents[i]
		s.extents[k] = extent{region: p.region, off: p.off + n, size: rest, prev: i, next: p.next}
		if p.next >= 0 {
			s.extents[p.next].prev = k
		}
		p.next, p.size = k, n
		s.link(k)
	}
	s.used += n
	return ID(i), nil
}

// At says where an extent in use lies.
func (s *Space) At(id ID) (region int32, off, size int64) {
	p := &s.extents[id]
	return p.region, p.off, p.size
}

// Put gives an extent back.
func (s *Space) Put(id ID) {
	i := int32(id)
	p := &s.extents[i]
	if p.free || p.size == 0 {
		panic("extent: an extent was given back twice")
	}
	s.used -= p.size
	if k := p.next; k >= 0 && s.extents[k].free {
		s.unlink(k)
		s.absorb(i, k)
	}
	if k := s.extents[i].prev; k >= 0 && s.extents[k].free {
		s.unlink(k)
		s.absorb(k, i)
		i = k
	}
	s.link(i)
}

// absorb joins an extent with the one after it.
func (s *Space) absorb(i, k int32) {
	p, q := &s.extents[i], &s.extents[k]
	p.size += q.size
	p.next = q.next
	if q.next >= 0 {
		s.extents[q.next].prev = i
	}
	s.drop(k)
}

// tries bounds the search within a bin: past it any larger bin's first will do.
const tries = 32

func (s *Space) find(n int64) int32 {
	b := bits.Len64(uint64(n))
	best := int32(-1)
	k := 0
	for i := s.bins[b]; i >= 0 && k < tries; i = s.extents[i].fwd {
		if z := s.extents[i].size; z >= n && (best < 0 || z < s.extents[best].size) {
			best = i
		}
		k++
	}
	for b++; best < 0 && b < len(s.bins); b++ {
		best = s.bins[b]
	}
	if best >= 0 || k < tries {
		return best
	}
	// Only the rest of a crowded bin can have it.
	for i := s.bins[bits.Len64(uint64(n))]; i >= 0; i = s.extents[i].fwd {
		if s.extents[i].size >= n {
			return i
		}
	}
	return -1
}

func (s *Space) link(i int32) {
	p := &s.extents[i]
	b := bits.Len64(uint64(p.size))
	p.free, p.back, p.fwd = true, -1, s.bins[b]
	if p.fwd >= 0 {
		s.extents[p.fwd].back = i
	}
	s.bins[b] = i
}

func (s *Space) unlink(i int32) {
	p := &s.extents[i]
	if p.back >= 0 {
		s.extents[p.back].fwd = p.fwd
	} else {
		s.bins[bits.Len64(uint64(p.size))] = p.fwd
	}
	if p.fwd >= 0 {
		s.extents[p.fwd].back = p.back
	}
	p.free = false
}

func (s *Space) record() int32 {
	if i := s.unused; i >= 0 {
		s.unused = s.extents[i].fwd
		return i
	}
	s.extents = append(s.extents, extent{})
	return int32(len(s.extents) - 1)
}

func (s *Space) drop(i int32) {
	s.extents[i] = extent{fwd: s.unused}
	s.unused = i
}
