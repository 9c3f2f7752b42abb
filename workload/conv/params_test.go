package conv

import (
	"errors"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// Parameters that come with a graph are checked: against the memory, and so that scratch
// memory, which grows with padding, stays in proportion to it.
func TestParamsOfGraphs(t *testing.T) {
	for _, c := range []struct {
		p       graph.Conv2D
		x, w, y int // floats
		want    string
	}{
		{graph.Conv2D{N: 1, C: 1, H: 4, W: 4, K: 1, R: 3, S: 3, Stride: 1, Pad: 1}, 16, 9, 16, ""},
		{graph.Conv2D{N: 1, C: 1, H: 4, W: 4, K: 1, R: 3, S: 3, Stride: 1, Pad: 1}, 15, 9, 16, "need 16 of float32 in images"},
		{graph.Conv2D{N: 1, C: 1, H: 4, W: 4, K: 1, R: 3, S: 3, Stride: 1, Pad: 1}, 16, 8, 16, "need 9 of float32 in filters"},
		{graph.Conv2D{N: 1, C: 1, H: 4, W: 4, K: 1, R: 3, S: 3, Stride: 0, Pad: 1}, 16, 9, 16, "stride must be from 1"},
		{graph.Conv2D{N: 1, C: 1 << 31, H: 1, W: 1, K: 1, R: 1, S: 1, Stride: 1}, 16, 9, 16, "must be from 1"},
		// 40000 zeros around one number take 37 MB beside 0.4 MB of filters and results.
		{graph.Conv2D{N: 1, C: 1, H: 1, W: 1, K: 1, R: 200, S: 200, Stride: 200, Pad: 22000}, 1, 40000, 220 * 220, "use less padding"},
	} {
		args := [][]byte{make([]byte, 4*c.x), make([]byte, 4*c.w), make([]byte, 4*c.y)}
		for _, step := range []graph.Step{graph.Step{}.With(c.p), graph.Step{}.With(rowsParams{Conv2D: c.p, rows: 1})} {
			name := "conv.images"
			if len(step.Params) != len((graph.Step{}.With(c.p)).Params) {
				name = "conv.rows"
			}
			k := &weft.Call{Args: args, Params: step.Params, Launch: graph.Grid(1000)}
			Funcs()[name](k, 0, 1)
			err := k.Err()
			if name == "conv.rows" && strings.Contains(c.want, "in images") {
				continue // one row reads fewer
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %+v: %v, want %q", name, c.p, err, c.want)
			}
			if err != nil && !errors.Is(err, ErrShape) && !strings.Contains(c.want, "need") {
				t.Errorf("%v is no ErrShape", err)
			}
		}
	}
}

// Images that begin behind the first row are refused even if all rows that are read are padding.
func TestPaddingBeforeImages(t *testing.T) {
	p := rowsParams{Conv2D: graph.Conv2D{N: 1, C: 2, H: 11, W: 10, K: 1, R: 6, S: 3, Stride: 5, Pad: 6}, rows: 1, topRow: 7}
	k := &weft.Call{Args: [][]byte{make([]byte, 1<<14), make([]byte, 1<<14), make([]byte, 1<<14)}, Params: graph.Step{}.With(p).Params, Launch: graph.Grid(11, 1, 1)}
	Funcs()["conv.rows"](k, 0, 1)
	if err := k.Err(); !errors.Is(err, ErrShape) || !strings.Contains(err.Error(), "begin at row 7, and row 0 is read") {
		t.Errorf("images that begin behind the rows: %v", err)
	}
}
