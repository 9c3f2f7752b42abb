package extent_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/internal/extent"
)

// Pieces never overlap, stay within their region, keep their alignment, and
// everything given back is one extent again. A plain list is the reference.
func TestPieces(t *testing.T) {
	type held struct {
		id       extent.ID
		region   int32
		off, len int64
	}
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := extent.New(64)
		sizes := map[int32]int64{}
		for i := range int32(3) {
			sizes[i] = 64 * (100 + r.Int64N(1000))
			s.Grow(i, sizes[i])
		}
		var in []held
		var used int64
		for range 2000 {
			if len(in) > 0 && r.IntN(5) < 2 {
				k := r.IntN(len(in))
				s.Put(in[k].id)
				used -= in[k].len
				in[k] = in[len(in)-1]
				in = in[:len(in)-1]
				continue
			}
			n := 1 + r.Int64N(1<<uint(1+r.IntN(14)))
			id, err := s.Get(n)
			if err != nil {
				if !errors.Is(err, extent.ErrFull) {
					t.Fatal(err)
				}
				// No gap may be large enough.
				for region, size := range sizes {
					if gap := widest(size, func(yield func(off, n int64)) {
						for _, h := range in {
							if h.region == region {
								yield(h.off, h.len)
							}
						}
					}); gap >= (n+63)&^63 {
						t.Fatalf("seed %d: %d bytes refused with a gap of %d in region %d", seed, n, gap, region)
					}
				}
				continue
			}
			region, off, size := s.At(id)
			if off%64 != 0 || size < n || off+size > sizes[region] {
				t.Fatalf("seed %d: %d bytes at %d+%d of region %d with %d", seed, n, off, size, region, sizes[region])
			}
			for _, h := range in {
				if h.region == region && off < h.off+h.len && h.off < off+size {
					t.Fatalf("seed %d: two extents at %d and %d", seed, off, h.off)
				}
			}
			in = append(in, held{id, region, off, size})
			used += size
			if s.Used() != used {
				t.Fatalf("seed %d: %d used, want %d", seed, s.Used(), used)
			}
		}
		for _, h := range in {
			if s.Empty(h.region) || s.Shrink(h.region) {
				t.Fatalf("seed %d: region %d in use counts as empty", seed, h.region)
			}
			break
		}
		for _, h := range in {
			s.Put(h.id)
		}
		for region := range sizes {
			if !s.Empty(region) || !s.Shrink(region) {
				t.Fatalf("seed %d: region %d did not become one free extent", seed, region)
			}
		}
		if s.Used() != 0 || s.Size() != 0 {
			t.Fatalf("seed %d: %d used of %d after all was given back", seed, s.Used(), s.Size())
		}
	}
}

// widest returns the widest gap between extents.
func widest(size int64, each func(func(off, n int64))) int64 {
	taken := make([]bool, size/64)
	each(func(off, n int64) {
		for i := off / 64; i < (off+n)/64; i++ {
			taken[i] = true
		}
	})
	var best, run int64
	for _, x := range taken {
		if run++; x {
			run = 0
		}
		best = max(best, run)
	}
	return best * 64
}

func TestGiveBackTwice(t *testing.T) {
	s := extent.New(64)
	s.Grow(1, 1024)
	id, err := s.Get(100)
	if err != nil {
		t.Fatal(err)
	}
	s.Put(id)
	defer func() {
		if recover() == nil {
			t.Fatal("nothing was said")
		}
	}()
	s.Put(id)
}
