package automata

import (
	"fmt"
	"math/bits"
	"strings"

	"github.com/weft-run/weft/workload"
)

// Rule says which cells live in the next generation, by how many of the eight around them
// live. It is comparable; the zero value is the rule by which nothing lives.
type Rule struct {
	birth, survive uint16 // bit n is for n neighbours, of dead cells and of live ones
}

// Life is Conway's rule, B3/S23.
var Life = Rule{1 << 3, 1<<2 | 1<<3}

// ParseRule returns the rule that a text such as B36/S23 writes: the numbers of live
// neighbours with which a cell is born, and those with which it survives. Other texts are
// an error that wraps [workload.ErrConfig].
func ParseRule(text string) (Rule, error) {
	born, lives, found := strings.Cut(strings.ToUpper(text), "/")
	born, b := strings.CutPrefix(born, "B")
	lives, s := strings.CutPrefix(lives, "S")
	if !found || !b || !s || strings.Trim(born+lives, "012345678") != "" {
		return Rule{}, fmt.Errorf("automata: rule %q: %w: write numbers of neighbours from 0 to 8 as in B3/S23", text, workload.ErrConfig)
	}
	set := func(digits string) (set uint16) {
		for _, d := range digits {
			set |= 1 << (d - '0')
		}
		return set
	}
	return Rule{set(born), set(lives)}, nil
}

// String writes the rule as ParseRule reads it.
func (r Rule) String() string {
	digits := func(set uint16) (out []byte) {
		for n := range 9 {
			if set>>n&1 == 1 {
				out = append(out, '0'+byte(n))
			}
		}
		return out
	}
	return fmt.Sprintf("B%s/S%s", digits(r.birth), digits(r.survive))
}

// game holds the properties of a board that the kernel of a row needs, for any width and
// rule.
type game struct {
	rule Rule
	rest int // cells in the last word of a row; 0 where it is full. Its other bits are zero.
}

// advance is [Advance] for the game.
func (g game) advance(a, b []uint64, words, k int) []uint64 {
	rows := len(a) / words
	for s := 1; s <= k; s++ {
		for y := s; y < rows-s; y++ {
			g.row(b[y*words:(y+1)*words], a[(y-1)*words:y*words], a[y*words:(y+1)*words], a[(y+1)*words:(y+2)*words])
		}
		a, b = b, a
	}
	return a
}

// row computes a row from the three around it.
func (g game) row(dst, up, mid, down []uint64) {
	n, done := len(mid), 0
	if g.rule == Life {
		done = rowWide(dst, up, mid, down) // of the inner words
	}
	at := func(i int) uint64 {
		w1, c1, e1 := g.around(up, i)
		w2, c2, e2 := g.around(mid, i)
		w3, c3, e3 := g.around(down, i)
		if g.rule == Life {
			return word(w1, c1, e1, w2, c2, e2, w3, c3, e3)
		}
		return g.rule.word(w1, c1, e1, w2, c2, e2, w3, c3, e3)
	}
	dst[0] = at(0)
	for i := 1 + done; i < n; i++ {
		dst[i] = at(i)
	}
	if g.rest > 0 {
		dst[n-1] &= 1<<g.rest - 1
	}
}

// around returns word i of a row with those to its west and east. The row is a ring of
// cells: behind its last cell the first follows, in the same word if that is not full.
func (g game) around(row []uint64, i int) (west, cells, east uint64) {
	n := len(row)
	west, cells, east = row[(i+n-1)%n], row[i], row[(i+1)%n]
	if i == 0 && g.rest > 0 {
		west <<= 64 - g.rest
	}
	if i == n-1 && g.rest > 0 {
		cells |= row[0] << g.rest
	}
	return west, cells, east
}

// word computes 64 cells from the nine words around them, as the function of that name
// does for Life, from the number of live cells among the nine around each.
func (r Rule) word(w1, c1, e1, w2, c2, e2, w3, c3, e3 uint64) (out uint64) {
	one1, two1 := add3(c1<<1|w1>>63, c1, c1>>1|e1<<63)
	one2, two2 := add3(c2<<1|w2>>63, c2, c2>>1|e2<<63)
	one3, two3 := add3(c3<<1|w3>>63, c3, c3>>1|e3<<63)
	ones, carry := add3(one1, one2, one3)
	odd, pair := add3(two1, two2, two3)
	sum := [4]uint64{ones, odd ^ carry, pair ^ odd&carry, pair & odd & carry}
	// A live cell is one of the nine itself.
	dead, alive := r.birth, r.survive<<1
	for left := dead | alive; left != 0; left &= left - 1 {
		n := bits.TrailingZeros16(left)
		is := ^uint64(0) // places where the sum is n
		for b := range sum {
			if n>>b&1 == 1 {
				is &= sum[b]
			} else {
				is &^= sum[b]
			}
		}
		if dead>>n&1 == 1 {
			out |= is &^ c2
		}
		if alive>>n&1 == 1 {
			out |= is & c2
		}
	}
	return out
}
