package conv

import (
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// rowsKernel convolves some rows of all images; its arguments are those rows of
// the images that these need, the filters, and the rows of the results. Its grid is the
// rows, channels and images of the results. Shaders do part of them, as Kernel's, and
// the others in moreRowsKernel.
var rowsKernel = workload.With(graph.GoKernel("conv.rows", bandRows, graph.All),
	workload.PTX(ptx, "conv_rows", 64, 1, 16), workload.SPIRV(spirv, "conv_rows", 64, 1, 16))

var moreRowsKernel = workload.Only("conv.rows.more", workload.SPIRV(spirv, "conv_rows_more", 64, 1, 16))

// rowsParams are the parameters of rowsKernel.
type rowsParams struct {
	graph.Conv2D
	first, rows int // of the results
	topRow      int // the first row of the images that there is
}

// moreRowsParams are the parameters of moreRowsKernel.
type moreRowsParams struct {
	rowsParams
	part
}

func rowsNeed(c *weft.Call, p rowsParams) (signature.Need, error) {
	s := Shape(p.Conv2D)
	n, err := s.need(c, p.rows)
	if err != nil {
		return n, err
	}
	if out, _ := s.Out(); p.rows < 1 || p.first+p.rows > out {
		return n, fmt.Errorf("rows %d to %d of a result of %d: %w", p.first, p.first+p.rows-1, out, ErrShape)
	}
	top := max(p.first*s.Stride-s.Pad, 0)                  // first row of the images that is read
	end := min((p.first+p.rows-1)*s.Stride-s.Pad+s.R, s.H) // behind the last
	if p.topRow > top {                                    // even if all rows that are read are padding
		return n, fmt.Errorf("the images begin at row %d, and row %d is read: %w", p.topRow, top, ErrShape)
	}
	n.Elements[0] = signature.Product(max(end-p.topRow, 0), s.N, s.C, s.W)
	return n, nil
}

// rows computes bands lo to hi of some rows, counted through all images.
func rows(c *weft.Call, p rowsParams, lo, hi int) {
	l := newPlan(Shape(p.Conv2D))
	first, n, top := p.first, p.rows, p.topRow
	l.from, l.to = byRow(l.N, l.C, l.W, top), byRow(l.N, l.K, l.q, first)
	l.end = min(top+len(c.Args[0])/(4*l.from.row), l.H)
	all := l.All()
	all.P0, all.P1 = first, first+n
	bands(c, l, all, lo, hi)
}

// grid is the rows of the images, of which blocks need some of their neighbours'.
func (j *job) grid() collective.Halo {
	return collective.Halo{Rows: int64(j.c.H), RowBytes: int64(4 * j.c.N * j.c.C * j.c.W)}
}

// window is the rows of the images that rows lo to hi of the results need: those
// their filters' first rows are at when there is no padding, and a halo.
func (j *job) window(g collective.Halo, lo, hi int64) collective.Block {
	stride, pad := int64(j.c.Stride), int64(j.c.Pad)
	own := collective.Block{Lo: min(lo*stride, g.Rows), Hi: min((hi-1)*stride+1, g.Rows)}
	w := g.Window(own, max(pad, int64(j.c.R)-1-pad))[0]
	// Rows of nothing but padding still need a place to point at.
	w.Lo = min(w.Lo, g.Rows-1)
	w.Hi = max(w.Hi, w.Lo+1)
	return w
}

// rowItems declares rows of the results that are dealt out.
func (j *job) rowItems() workload.Declaration {
	s, g := j.c.Shape, j.grid()
	p, q := s.Out()
	each := ops(s) / float64(p)
	return workload.Declaration{
		Of: "rows", Extent: int64(p), Ops: each,
		Ports: []workload.Port{
			workload.In("images", j.x, 0).Within(func(lo, hi int64) (offset, bytes int64) {
				u := g.Use(0, j.window(g, lo, hi), graph.Read)
				return u.Offset, u.Bytes
			}),
			workload.All("filters", j.w), workload.Out("results", j.y, s.N*s.K*q),
		},
		Cost: func(lo, hi int64) float64 { return each * float64(hi-lo) },
		Task: func(t *graph.Task, lo, hi int64) {
			params := rowsParams{graph.Conv2D(s), int(lo), int(hi - lo), int(j.window(g, lo, hi).Lo)}
			t.Steps = s.steps(graph.Step{Kernel: rowsKernel, Launch: graph.Grid(hi-lo, int64(s.K), int64(s.N))}.With(params),
				moreRowsKernel, func(p part) any { return moreRowsParams{params, p} })
		},
	}
}
