package network

import (
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/philox"
)

// Numbers that are gathered eight at a time have the sums of those gathered one after the other,
// to the last bit, in rows of any length, and one that is outside is found.
func TestWideGather(t *testing.T) {
	const n, base = 1000, 7
	draw := philox.Source{Seed: 1}
	x := make([]float64, n)
	for i := range x {
		x[i] = philox.Symmetric(draw.Uint32(uint64(i), 0, 0))
	}
	starts, columns := []uint32{base}, []uint32(nil)
	for length := range 40 {
		for k := range length {
			columns = append(columns, draw.Uint32(uint64(length), 1, uint32(k))%n)
		}
		starts = append(starts, base+uint32(len(columns)))
	}
	got, want := make([]float64, 40), make([]float64, 40)
	if !gather(got, starts, columns, x, base) || !gatherScalar(want, starts, columns, x, base) {
		t.Fatal("all columns are there")
	}
	if !slices.Equal(got, want) {
		t.Errorf("sums %v, want %v", got, want)
	}
	for i := range columns {
		was := columns[i]
		for _, c := range []uint32{n, 1<<32 - 1} {
			columns[i] = c
			if gather(got, starts, columns, x, base) || gatherScalar(want, starts, columns, x, base) {
				t.Fatalf("column %d is %d of %d", i, c, n)
			}
		}
		columns[i] = was
	}
}

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
