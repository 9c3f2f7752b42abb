//go:build !amd64

package reservoir

import "github.com/weft-run/weft/internal/philox"

// wide and half are false where there are no kernels for several patterns at once.
var wide, half = false, false

// The wide functions do nothing: the calling functions do all the work.

func (m *Matrix) addWide(s *scratch, rows, row int, x []float32, n, stride, columns int) (highest uint32) {
	return 0
}

func (c call) runWide(w *Weights, b *block, patterns Span, stopped func() bool) (bool, error) {
	return false, nil
}

func addMeanWide(mean, x []float32, parts float32) int { return 0 }

func relaxWide(next, x, sum []float32, leak float32) int { return 0 }

func drawNoiseWide(noise *[4][tile]float32, source philox.Source, item uint64, n int, step, group uint32, amplitude float32) int {
	return 0
}
