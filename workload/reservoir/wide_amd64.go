package reservoir

import (
	"math"

	"github.com/weft-run/weft/internal/philox"
	"golang.org/x/sys/cpu"
)

// wide selects the kernels for sixteen patterns at once. Tests clear it to run
// the others.
var wide = cpu.X86.HasAVX512F

// addRow64 and addRow16 add a number of entries of a row, times 64 or 16 patterns
// of x, to sum. Rows of x are stride bytes apart. They round products, as the
// Go code does.
//
//go:noescape
func addRow64(sum, x *float32, stride uintptr, columns *int32, values *float32, entries int)

//go:noescape
func addRow16(sum, x *float32, stride uintptr, columns *int32, values *float32, entries int)

// relax16 does the work of relax for a number of vectors of sixteen patterns.
//
//go:noescape
func relax16(next, x, sum *float32, leak, keep float32, vectors int)

// addRowWide does the work of addRow for 64 patterns or as many sixteens as
// there are, and returns for how many.
func addRowWide(sum, x []float32, stride int, columns []int32, values []float32) int {
	if !wide || len(columns) == 0 {
		return 0
	}
	// The last value that is read must exist: the assembly does not check, and
	// columns ascend.
	_ = x[int(columns[len(columns)-1])*stride+len(sum)-1]
	if len(sum) == tile {
		addRow64(&sum[0], &x[0], 4*uintptr(stride), &columns[0], &values[0], len(columns))
		return tile
	}
	done := 0
	for ; done+16 <= len(sum); done += 16 {
		addRow16(&sum[done], &x[done], 4*uintptr(stride), &columns[0], &values[0], len(columns))
	}
	return done
}

// relaxWide does the work of relax for as many sixteens as there are, and
// returns for how many patterns.
func relaxWide(next, x, sum []float32, leak float32) int {
	vectors := len(sum) / 16
	if !wide || vectors == 0 {
		return 0
	}
	relax16(&next[0], &x[0], &sum[0], leak, 1-leak, vectors)
	return 16 * vectors
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
