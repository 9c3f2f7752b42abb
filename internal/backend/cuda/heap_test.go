package cuda

import (
	"math/rand/v2"
	"testing"
)

func TestQuickSizes(t *testing.T) {
	for n := int64(1); n <= quickMax+5000; n += 1 + n/97 {
		r := rounded(n)
		if r < n || r%align != 0 || rounded(r) != r || (n > 1024 && float64(r) > 1.26*float64(n)) {
			t.Fatalf("rounded(%d) = %d", n, r)
		}
		if i := quickIndex(r); r <= quickMax && (i < 0 || i >= quickSizes || quickSize(i) != r) {
			t.Fatalf("quick size %d has index %d", r, i)
		}
	}
}

// The heap against a plain list: extents never overlap, all is freed in the end,
// and it never grows while what is free would do.
func TestHeap(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		const limit = 64 << 20
		h := &heap{}
		h.grow = func(n int64) int64 {
			n = (n + 1<<20 - 1) &^ (1<<20 - 1)
			if h.size+n > limit {
				return 0
			}
			return n
		}
		live := map[int64]int64{} // address to size asked for
		var sum int64
		for range 2000 {
			if r.IntN(2) == 0 && len(live) > 0 {
				var at int64 = -1
				for a := range live { // the smallest address, so that a seed repeats
					if at < 0 || a < at {
						at = a
					}
				}
				if r.IntN(2) == 0 {
					for a := range live {
						at = max(at, a)
					}
				}
				h.free(at, live[at])
				sum -= rounded(live[at])
				delete(live, at)
				continue
			}
			n := int64(1) << r.IntN(23)
			n += r.Int64N(n)
			at, ok := h.alloc(n)
			if !ok {
				if sum == 0 {
					t.Fatalf("seed %d: empty heap has no %d bytes", seed, n)
				}
				continue
			}
			if at%align != 0 || at < 0 || at+n > h.size {
				t.Fatalf("seed %d: %d bytes at %d of %d", seed, n, at, h.size)
			}
			for a, m := range live {
				if at < a+m && a < at+n {
					t.Fatalf("seed %d: %d+%d overlaps %d+%d", seed, at, n, a, m)
				}
			}
			live[at] = n
			sum += rounded(n)
			if h.used != sum {
				t.Fatalf("seed %d: used is %d, want %d", seed, h.used, sum)
			}
		}
		for at, n := range live {
			h.free(at, n)
		}
		h.merge()
		if h.used != 0 || len(h.spare) != 1 || h.spare[0] != (extent{0, h.size}) {
			t.Fatalf("seed %d: left %d used and %v free of %d", seed, h.used, h.spare, h.size)
		}
	}
}
