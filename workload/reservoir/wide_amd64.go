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

// addRow64 and addRow16 add a number of entries of a row, times 64 or 16 patterns
// of x, to sum. Rows of x are stride bytes apart. They round products, as the
// Go code does.
//
//go:noescape
func addRow64(sum, x *float32, stride uintptr, columns *int32, values *float32, entries int)

//go:noescape
func addRow16(sum, x *float32, stride uintptr, columns *int32, values *float32, entries int)

// addFour16 adds the entries of four successive rows, times the patterns of x that the
// mask selects of sixteen, to four rows of sums that are a tile apart. columns and values
// are those of the first row, and starts says where each row and the next one begin.
// Four sums at a time hide the latency of an addition, which is all that a row on its own
// waits for.
//
//go:noescape
func addFour16(sum, x *float32, stride uintptr, columns *int32, values *float32, starts *int32, mask uint32)

// relax16 does the work of relax for a number of vectors of sixteen patterns, the last of
// which has those that a mask selects.
//
//go:noescape
func relax16(next, x, sum *float32, leak, keep float32, vectors int, last uint32)

// addFour8 and relax8 are addFour16 and relax16 for eight patterns, with a mask of as many
// words.
//
//go:noescape
func addFour8(sum, x *float32, stride uintptr, columns *int32, values *float32, starts *int32, mask *int32)

//go:noescape
func relax8(next, x, sum *float32, leak, keep float32, vectors int, last *int32)

// eighths has the masks of up to eight patterns: that of n begins at 8-n.
var eighths = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}

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

// addFourWide does the work of addFour, and reports whether it did.
func addFourWide(sum *[4][tile]float32, n int, m *Matrix, row int, x []float32, stride int) bool {
	if !wide && !half || n == 0 {
		return false
	}
	lo, hi := m.Start[row]-m.Start[0], m.Start[row+4]-m.Start[0]
	if lo == hi {
		return true
	}
	columns, values := m.Column[lo:hi], m.Value[lo:hi]
	for r := row; r < row+4; r++ { // see addRowWide; starts must ascend
		if from, to := m.Start[r]-m.Start[row], m.Start[r+1]-m.Start[row]; from < to {
			_ = x[int(columns[from:to][to-from-1])*stride+n-1]
		}
	}
	if !wide || half && n <= 8 { // loads of half a vector cost less
		for done := 0; done < n; done += 8 {
			addFour8(&sum[0][done], &x[done], 4*uintptr(stride), &columns[0], &values[0], &m.Start[row], &eighths[8-min(n-done, 8)])
		}
		return true
	}
	for done := 0; done < n; done += 16 {
		addFour16(&sum[0][done], &x[done], 4*uintptr(stride), &columns[0], &values[0], &m.Start[row], some(n-done))
	}
	return true
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
