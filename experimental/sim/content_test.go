package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
)

// byteID is the reference: what each byte of a buffer holds.
type byteID struct {
	id  uint64
	off int64
}

// spell writes a content out byte by byte.
func spell(c content, n int64) []byteID {
	out := make([]byteID, n)
	for _, s := range c {
		for i := s.Lo; i < s.Hi; i++ {
			out[i] = byteID{s.ID, s.Off + i - s.Lo}
		}
	}
	return out
}

// canonical reports whether spans ascend, hold something and cannot be merged.
func canonical(c content) bool {
	for i, s := range c {
		if s.Lo >= s.Hi {
			return false
		}
		if i > 0 {
			p := c[i-1]
			if p.Hi > s.Lo || p.Hi == s.Lo && p.ID == s.ID && p.Off+p.Hi-p.Lo == s.Off {
				return false
			}
		}
	}
	return true
}

func TestContentAgainstBytes(t *testing.T) {
	const n = 40
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		bufs := [2]content{}
		refs := [2][]byteID{make([]byteID, n), make([]byteID, n)}
		for range 30 {
			k := r.IntN(2)
			lo := r.Int64N(n)
			hi := lo + 1 + r.Int64N(n-lo)
			if r.IntN(2) == 0 {
				id, off := uint64(1+r.IntN(3)), r.Int64N(4)
				bufs[k] = bufs[k].put(lo, hi, id, off)
				for i := lo; i < hi; i++ {
					refs[k][i] = byteID{id, off + i - lo}
				}
			} else {
				to := r.Int64N(n - (hi - lo) + 1)
				from := slices.Clone(refs[1-k])
				// Copies are only made of what is there.
				if slices.Contains(from[lo:hi], byteID{}) {
					continue
				}
				bufs[k] = bufs[k].copyFrom(to, bufs[1-k], lo, hi-lo)
				copy(refs[k][to:], from[lo:hi])
			}
			if !canonical(bufs[k]) || !slices.Equal(spell(bufs[k], n), refs[k]) {
				t.Fatalf("seed %d: %v is not %v", seed, bufs[k], refs[k])
			}
			// Sums agree exactly when the bytes do, wherever they are.
			a, b, l := r.Int64N(n/2), r.Int64N(n/2), 1+r.Int64N(n/2)
			sa, sta := bufs[0].sum(a, a+l)
			sb, stb := bufs[1].sum(b, b+l)
			wa, wb := refs[0][a:a+l], refs[1][b:b+l]
			if (sta == whole) == slices.Contains(wa, byteID{}) {
				t.Fatalf("seed %d: state %d of %v", seed, sta, wa)
			}
			if sta == whole && stb == whole && (sa == sb) != slices.Equal(wa, wb) {
				t.Fatalf("seed %d: sums %x %x of %v and %v", seed, sa, sb, wa, wb)
			}
		}
	}
}

// TestSequentialFollowsTheFlow checks sequential, which works on plain buffers,
// against the graph's single-assignment form: two uses read the same exactly
// when they read the same values from the same places.
func TestSequentialFollowsTheFlow(t *testing.T) {
	for seed := range uint64(50) {
		g := randomGraph(rand.New(rand.NewPCG(seed, 4)), randomOptions{Gangs: true})
		x := sequential(g, func(d graph.DataID) content { return initial(1, d, g.Data(d).Bytes) })
		f := g.Flow()
		// What the flow says a use reads: its values, as ranges of what their
		// producers wrote, with seams between pieces of one write removed.
		spellUse := func(u *graph.FlowUse) uint64 {
			var c content
			at := int64(0)
			for k, v := range f.Reads(u) {
				p := f.Pieces[u.P0+int32(k)]
				off := p.Lo
				id := uint64(p.Data)<<32 | 1<<62
				if t := f.Values[v].Producer; t != graph.NoTask {
					uses := f.TaskUses(t)
					for j := range uses {
						if slices.Contains(f.Writes(&uses[j]), v) {
							id = uint64(t)<<8 | uint64(j)
							off = p.Lo - f.Pieces[uses[j].P0].Lo
						}
					}
				}
				c = c.put(at, at+p.Hi-p.Lo, id+1, off)
				at += p.Hi - p.Lo
			}
			s, _ := c.sum(0, at)
			return s
		}
		bySum := make(map[uint64]uint64)
		byFlow := make(map[uint64]uint64)
		for i := range f.Uses {
			u := &f.Uses[i]
			if u.R < 0 {
				continue
			}
			s := spellUse(u)
			if old, ok := bySum[x.sums[i]]; ok && old != s {
				t.Fatalf("seed %d: use %d reads something else by the flow", seed, i)
			}
			if old, ok := byFlow[s]; ok && old != x.sums[i] {
				t.Fatalf("seed %d: use %d reads something else by the oracle", seed, i)
			}
			bySum[x.sums[i]], byFlow[s] = s, x.sums[i]
		}
	}
}
