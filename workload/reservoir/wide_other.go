//go:build !amd64

package reservoir

import "github.com/weft-run/weft/internal/philox"

// wide and half are false where there are no kernels for several patterns at once.
var wide, half = false, false

// The wide functions do nothing: the calling functions do all the work.

func addRowWide(sum, x []float32, stride int, columns []int32, values []float32) int { return 0 }

func addFourWide(sum *[4][tile]float32, n int, m *Matrix, row int, x []float32, stride int) bool {
	return false
}

func relaxWide(next, x, sum []float32, leak float32) int { return 0 }

func drawNoiseWide(noise *[4][tile]float32, source philox.Source, item uint64, n int, step, group uint32, amplitude float32) int {
	return 0
}
