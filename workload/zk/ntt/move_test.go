package ntt

import (
	"slices"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
)

// Items of a move begin in the middle of rows and are done in any order.
func TestMove(t *testing.T) {
	for _, p := range []moveParams{
		{rows: 1, cols: 1},
		{rows: 5, cols: 1000, from: 3, fromStride: 1001, to: 7, toStride: 1100},
		{rows: 700, cols: 3, fromStride: 3, to: 1, toStride: 5},
		{rows: 2, cols: 3000, fromStride: 0, toStride: 3000},
	} {
		from := make([]fr.Element, p.from+(p.rows-1)*p.fromStride+p.cols)
		for i := range from {
			from[i][0] = uint64(i + 1)
		}
		got := make([]fr.Element, p.to+(p.rows-1)*p.toStride+p.cols)
		want := slices.Clone(got)
		for row := range p.rows {
			for col := range p.cols {
				want[p.to+row*p.toStride+col] = from[p.from+row*p.fromStride+col]
			}
		}
		c := &weft.Call{Args: [][]byte{workloadtest.Bytes(from), workloadtest.Bytes(got)}}
		for i := (p.rows*p.cols - 1) / moved; i >= 0; i-- {
			move(c, p, i, i+1)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: other elements were moved", p)
		}
	}
}
