package automata

import "github.com/weft-run/weft/internal/simd"

// use is the set of kernels in use. Tests set it to run the others.
var use = simd.Best

// computeRows computes the next generation of the rows lo to hi-1 of src into the same
// rows of dst. Both are blocks of rows of the given number of words, and src
// must have the row above lo and the row below hi-1: 1 <= lo and
// hi*words < len(src). The other rows of dst are left as they are. dst must not
// overlap src.
func computeRows(dst, src []uint64, words, lo, hi int) {
	for y := lo; y < hi; y++ {
		up, mid, down := src[(y-1)*words:y*words], src[y*words:(y+1)*words], src[(y+1)*words:(y+2)*words]
		row(dst[y*words:(y+1)*words], up, mid, down)
	}
}

// Torus computes the next generation of the rows lo to hi-1 of a whole grid,
// whose first and last row are neighbours. dst must not overlap src.
func Torus(dst, src []uint64, words, lo, hi int) {
	rows := len(src) / words
	at := func(y int) []uint64 { return src[y*words : (y+1)*words] }
	for y := lo; y < hi; y++ {
		above, below := y-1, y+1
		if above < 0 {
			above = rows - 1
		}
		if below == rows {
			below = 0
		}
		row(dst[y*words:(y+1)*words], at(above), at(y), at(below))
	}
}

// Advance steps a block k times. a holds the block with k halo rows above and
// below it; b is as long. The generations take turns in a and b, and Advance
// returns the one that holds the last: its rows k to rows-k-1 are right, those
// of the halo are stale and have to be filled again before the next call.
//
// While a generation of both fits into the cache of a core, memory is read and
// written once for k generations.
func Advance(a, b []uint64, words, k int) []uint64 {
	rows := len(a) / words
	for s := 1; s <= k; s++ {
		computeRows(b, a, words, s, rows-s)
		a, b = b, a
	}
	return a
}

// row computes a row from the three around it.
func row(dst, up, mid, down []uint64) {
	n := len(mid)
	dst, up, down = dst[:n], up[:n], down[:n]
	done := rowWide(dst, up, mid, down)
	// What the wide kernel leaves are the two words whose neighbours are at the
	// other end of the row, or all of them.
	dst[0] = word(up[n-1], up[0], up[1%n], mid[n-1], mid[0], mid[1%n], down[n-1], down[0], down[1%n])
	for i := 1 + done; i < n-1; i++ {
		dst[i] = word(up[i-1], up[i], up[i+1], mid[i-1], mid[i], mid[i+1], down[i-1], down[i], down[i+1])
	}
	if n > 1 {
		i := n - 1
		dst[i] = word(up[i-1], up[i], up[0], mid[i-1], mid[i], mid[0], down[i-1], down[i], down[0])
	}
}

// word computes 64 cells from the nine words around them by adding the nine
// cells around each, itself included, in bit planes: a cell lives if the sum is
// three, or if it is four and the cell was alive. The letters name the words
// to the west, in the middle and to the east in three rows.
func word(w1, c1, e1, w2, c2, e2, w3, c3, e3 uint64) uint64 {
	// The sum of each row of three, as ones and twos.
	one1, two1 := add3(c1<<1|w1>>63, c1, c1>>1|e1<<63)
	one2, two2 := add3(c2<<1|w2>>63, c2, c2>>1|e2<<63)
	one3, two3 := add3(c3<<1|w3>>63, c3, c3>>1|e3<<63)
	// The sum of the rows: ones, and the number of twos, which is carry plus
	// odd plus twice pair.
	ones, carry := add3(one1, one2, one3)
	odd, pair := add3(two1, two2, two3)
	// Three is one and a single two. Four is no one and two twos.
	single := odd ^ carry
	three := ones & single &^ pair
	four := (pair ^ carry) &^ (ones | single)
	return three | four&c2
}

// add3 adds three bits in every place.
func add3(a, b, c uint64) (ones, twos uint64) {
	x := a ^ b
	return x ^ c, a&b | x&c
}

// cutBlocks cuts rows into parts contiguous blocks whose heights differ by one at
// most, and returns where each begins, with rows at the end.
func cutBlocks(rows, parts int) []int {
	begin := make([]int, parts+1)
	for i := range begin {
		begin[i] = i * rows / parts
	}
	return begin
}

// ops returns the number of 32-bit operations for k steps of a number of rows and of
// words in each: about thirty for 32 cells.
func ops(words, rows, k int) float64 { return 60 * float64(words) * float64(rows) * float64(k) }
