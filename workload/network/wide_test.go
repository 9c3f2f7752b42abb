package network

import (
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/philox"
)

// Nodes give as much by numbers that are gathered eight at a time as by those gathered one after the
// other, to the last bit, in rows of any length, and a column that is outside is found.
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
	if !gather(got, x[40:], starts, columns, x, 0.85, base) || !gatherScalar(want, x[40:], starts, columns, x, 0.85, base) {
		t.Fatal("all columns are there")
	}
	if !slices.Equal(got, want) {
		t.Errorf("nodes give %v, want %v", got, want)
	}
	for i := range columns {
		was := columns[i]
		for _, c := range []uint32{n, 1<<32 - 1} {
			columns[i] = c
			if gather(got, x, starts, columns, x, 0.85, base) || gatherScalar(want, x, starts, columns, x, 0.85, base) {
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

// A graph in the order of the lengths of its rows has the edges and weights it had.
func TestByLength(t *testing.T) {
	edges := []edge{{0, 3}, {1, 0}, {1, 2}, {1, 4}, {2, 2}, {4, 0}, {4, 1}}
	weights := []float64{1, 2, 3, 4, 5, 6, 7}
	g, err := newGraph("g", 6, edges, weights, false, RepeatedSum, 0)
	if err != nil {
		t.Fatal(err)
	}
	sorted, place := g.byLength()
	if want := []uint32{2, 0, 3, 4, 1, 5}; !slices.Equal(place, want) {
		t.Fatalf("nodes are at %v, want %v", place, want)
	}
	if want := []uint32{0, 3, 5, 6, 7, 7, 7}; !slices.Equal(sorted.Starts, want) {
		t.Errorf("rows begin at %v, want %v", sorted.Starts, want)
	}
	if err := sorted.valid(); err != nil {
		t.Error(err)
	}
	for k, e := range edges {
		columns, values := sorted.Row(int(place[e.from]))
		if at := slices.Index(columns, place[e.to]); at < 0 || values[at] != weights[k] {
			t.Errorf("edge %v of weight %v: columns %v, values %v", e, weights[k], columns, values)
		}
	}
}
