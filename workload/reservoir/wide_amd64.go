package reservoir

import (
	"math"

	"github.com/weft-run/weft/internal/philox"
	"golang.org/x/sys/cpu"
)

// wide selects the kernels for sixteen patterns at once. Tests clear it to run
// the others.
var wide = cpu.X86.HasAVX512F

// half selects the kernels for eight patterns at once, for so few or where there are none
// for sixteen.
// Tests clear it likewise.
var half = cpu.X86.HasAVX2

// entries is a row of a matrix: where in x the rows of its columns begin, its values, the sums
// that their products with these are added to, and how many there are.
type entries struct {
	offsets *uint32
	values  *float32
	sum     *float32
	n       int
}

// offsets8 sets dst to where in x the rows of columns begin that are stride numbers apart, and
// returns the highest of the columns, which it takes as unsigned. Of those beyond most it takes
// that one, so that nothing outside of x is read whatever the columns are.
//
//go:noescape
func offsets8(dst *uint32, columns *int32, entries int, stride, most uint32) (highest uint32)

// addRow64 adds the products of a row with 64 patterns of x. Products are rounded, as the Go
// code does.
//
//go:noescape
func addRow64(row *entries, x *float32)

// addFour16 adds the products of four rows, in the order of their lengths with the longest
// first, with the patterns of x that the mask selects of sixteen. Four sums at a time hide the
// latency of an addition, which is all that a row on its own waits for.
//
//go:noescape
func addFour16(rows *[4]entries, x *float32, mask uint32)

// relax16 does the work of relax for a number of vectors of sixteen patterns, the last of
// which has those that a mask selects.
//
//go:noescape
func relax16(next, x, sum *float32, leak, keep float32, vectors int, last uint32)

// addFour8 and relax8 are addFour16 and relax16 for eight patterns, with a mask of as many
// words.
//
//go:noescape
func addFour8(rows *[4]entries, x *float32, mask *int32)

//go:noescape
func relax8(next, x, sum *float32, leak, keep float32, vectors int, last *int32)

// eighths has the masks of up to eight patterns: the mask of n begins at 8-n.
var eighths = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}

// addWide does the work of addRows, of rows that have entries, and returns the highest column.
func (m *Matrix) addWide(s *scratch, rows, row int, x []float32, n, stride, columns int) (highest uint32) {
	base, first := m.Start[0], m.Start[row]
	column, value := m.Column[first-base:m.Start[row+rows]-base], m.Value[first-base:m.Start[row+rows]-base]
	if len(s.offsets) < len(column) {
		s.offsets = make([]uint32, max(2*len(column), 1024))
	}
	_ = x[(columns-1)*stride+n-1] // the last that is read
	highest = offsets8(&s.offsets[0], &column[0], len(column), uint32(stride), uint32(columns-1))
	var keys [4]int
	for r := range rows {
		keys[r] = int(m.Start[row+r+1]-m.Start[row+r])<<2 | r
	}
	for r := rows; r < 4; r++ {
		keys[r] = r
	}
	descend(&keys)
	var list [4]entries
	for i, k := range keys {
		r, at := k&3, 0
		if k>>2 > 0 {
			at = int(m.Start[row+r] - first)
		}
		list[i] = entries{&s.offsets[at], &value[at], &s.sum[r][0], k >> 2}
	}
	if n == tile && wide {
		for r := range list {
			addRow64(&list[r], &x[0])
		}
		return highest
	}
	step := 16
	if !wide || half && n <= 8 { // loads of half a vector cost less
		step = 8
	}
	for done := 0; done < n; done += step {
		if step == 8 {
			addFour8(&list, &x[done], &eighths[8-min(n-done, 8)])
		} else {
			addFour16(&list, &x[done], some(n-done))
		}
		for i, k := range keys {
			list[i].sum = &s.sum[k&3][min(done+step, tile-1)]
		}
	}
	return highest
}

// descend puts numbers in descending order, without a branch that would be guessed wrong.
func descend(k *[4]int) {
	k[0], k[1] = max(k[0], k[1]), min(k[0], k[1])
	k[2], k[3] = max(k[2], k[3]), min(k[2], k[3])
	k[0], k[2] = max(k[0], k[2]), min(k[0], k[2])
	k[1], k[3] = max(k[1], k[3]), min(k[1], k[3])
	k[1], k[2] = max(k[1], k[2]), min(k[1], k[2])
}

// some is the mask of the first n patterns of sixteen.
func some(n int) uint32 { return 1<<min(n, 16) - 1 }

// relaxWide does the work of relax, and returns for how many patterns.
func relaxWide(next, x, sum []float32, leak float32) int {
	n := len(sum)
	if !wide && !half || n == 0 {
		return 0
	}
	_, _ = next[n-1], x[n-1]
	if !wide {
		vectors := (n + 7) / 8
		relax8(&next[0], &x[0], &sum[0], leak, 1-leak, vectors, &eighths[8-(n-8*(vectors-1))])
		return n
	}
	vectors := (n + 15) / 16
	relax16(&next[0], &x[0], &sum[0], leak, 1-leak, vectors, some(n-16*(vectors-1)))
	return n
}

// addMean8 adds a part of each of a number of eights of states to their means.
//
//go:noescape
func addMean8(mean, x *float32, parts float32, eights int)

// addMeanWide does the work of addMean for as many eights as there are, and returns for how
// many states.
func addMeanWide(mean, x []float32, parts float32) int {
	n := len(x) / 8
	if !wide && !half || n == 0 {
		return 0
	}
	_ = mean[8*n-1]
	addMean8(&mean[0], &x[0], parts, n)
	return 8 * n
}

// noise16 fills in the noise of four neurons for sixteen patterns, the first of
// which is item: Philox4x32-10 in every element of a vector. The item's lower
// half must not overflow on the way.
//
//go:noescape
func noise16(dst *float32, item uint64, step, group, seed, stream uint32, amplitude float32)

// drawNoiseWide does the work of drawNoise for as many sixteens of patterns as
// there are, and returns for how many patterns.
func drawNoiseWide(noise *[4][tile]float32, source philox.Source, item uint64, n int, step, group uint32, amplitude float32) int {
	if !wide {
		return 0
	}
	done := 0
	for ; done+16 <= n; done += 16 {
		first := item + uint64(done)
		if uint32(first) > math.MaxUint32-15 {
			break
		}
		noise16(&noise[0][done], first, step, group, source.Seed, source.Stream, amplitude)
	}
	return done
}
