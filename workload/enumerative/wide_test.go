package enumerative

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// Sums modulo eight primes at a time are those of one prime after another, to the bit, for any
// number of primes and coordinates; and numbers of a caller that are no fields do no harm.
func TestWide(t *testing.T) {
	was := wide
	defer func() { wide = was }()
	for _, c := range []Config{{K: 1, N: 9}, {K: 2, N: 5}, {K: 3, N: 20}, {K: 4, N: 12}, {K: 7, N: 15}, {K: 8, N: 14}, {K: 16, N: 18}} {
		c.Problem = Degree
		j, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, spoiled := range []bool{false, true} {
			if spoiled {
				for i := range j.tables {
					j.tables[i] = j.tables[i]*2654435761 + 12345
				}
			}
			for primes := 1; primes <= len(j.primes); primes++ {
				p := j.p
				p.primes = primes
				var got [2][]uint32
				for i := range got {
					wide = was && i == 0
					got[i] = make([]uint32, int(chunks(int64(p.count)))*primes)
					call := &weft.Call{Args: [][]byte{bytesOf(j.space), bytesOf(j.tables), bytesOf(got[i])}, Params: graph.Step{}.With(p).Params,
						Launch: graph.Grid(chunks(int64(p.count)), int64(primes))}
					sums(call, p, 0, int(chunks(int64(p.count))))
				}
				if !spoiled && !slices.Equal(got[0], got[1]) {
					t.Fatalf("%+v, %d primes: %v, want %v", c, primes, got[0], got[1])
				}
			}
		}
	}
}

// BenchmarkSums times terms of fixed points on a core: those of degrees by vectors and by Go code, and
// others.
func BenchmarkSums(b *testing.B) {
	was := wide
	defer func() { wide = was }()
	for _, c := range []struct {
		name string
		wide bool
		Config
	}{
		{"degree-wide", was, Config{Problem: Degree, K: 10, N: 30}},
		{"degree", false, Config{Problem: Degree, K: 10, N: 30}},
		{"lines", false, Config{Problem: Hypersurface, K: 2, N: 64}},
		{"planes", false, Config{Problem: Hypersurface, K: 3, N: 8}},
		{"schubert", false, Config{Problem: Schubert, K: 4, N: 24, Classes: [][]int{{16, 10, 4, 2}, {12, 9, 6}, {12, 9}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			j, err := New(c.Config)
			if err != nil {
				b.Fatal(err)
			}
			wide = c.wide
			call := &weft.Call{Args: [][]byte{bytesOf(j.space), bytesOf(j.tables), bytesOf(j.sums)}}
			most := min(4, int(chunks(int64(j.p.count))))
			for b.Loop() {
				sums(call, j.p, 0, most)
			}
			points := float64(min(most*chunk, j.p.count))
			b.ReportMetric(float64(b.N)*points*float64(len(j.primes))/b.Elapsed().Seconds()/1e6, "Mterm/s")
		})
	}
}

func bytesOf(x []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}
