package network

import (
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/philox"
)

// Numbers that are added eight at a time are those added one after the other, to the last bit.
func TestWide(t *testing.T) {
	for n := range 100 {
		to, row := make([]float32, n), make([]float32, n)
		philox.Fill32(to, uint64(n), 1)
		philox.Fill32(row, uint64(n), 2)
		want := slices.Clone(to)
		addScalar(want, row, 0.7)
		add(to, row, 0.7)
		if !slices.Equal(to, want) {
			t.Errorf("%d numbers: %v, want %v", n, to, want)
		}
	}
}
