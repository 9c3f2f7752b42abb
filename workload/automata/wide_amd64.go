package automata

import "github.com/weft-run/weft/internal/simd"

// rowAVX512 and rowAVX2 compute vectors of eight or four words, one after the
// other. All pointers point at the first of them; the words before and behind
// are read as well.
//
//go:noescape
func rowAVX512(dst, up, mid, down *uint64, vectors int)

//go:noescape
func rowAVX2(dst, up, mid, down *uint64, vectors int)

// rowWide computes the words of a row from the second on, but not the last, and
// returns how many: all but two, or none.
func rowWide(dst, up, mid, down []uint64) int {
	inner := len(mid) - 2
	switch {
	case use == simd.AVX512 && inner >= 8:
		rowAVX512(&dst[1], &up[1], &mid[1], &down[1], inner/8)
		if inner%8 != 0 { // the last vector overlaps the one before
			i := 1 + inner - 8
			rowAVX512(&dst[i], &up[i], &mid[i], &down[i], 1)
		}
	case use >= simd.AVX2 && inner >= 4:
		rowAVX2(&dst[1], &up[1], &mid[1], &down[1], inner/4)
		if inner%4 != 0 {
			i := 1 + inner - 4
			rowAVX2(&dst[i], &up[i], &mid[i], &down[i], 1)
		}
	default:
		return 0
	}
	return inner
}
