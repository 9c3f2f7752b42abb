package conv

import (
	"fmt"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// RowsKernel convolves some rows of all images; its arguments are those rows of
// the images that these need, the filters, and the rows of the results. Its grid is the
// rows, channels and images of the results. Shaders do part of them, as Kernel's, and
// the others in moreRowsKernel.
var RowsKernel = workload.With(graph.GoKernel("conv.rows", bandRows, graph.All),
	workload.PTX(ptx, "conv_rows", 64, 1, 16), workload.SPIRV(spirv, "conv_rows", 64, 1, 16))

var moreRowsKernel = workload.Only("conv.rows.more", workload.SPIRV(spirv, "conv_rows_more", 64, 1, 16))

// rowsParams are the parameters of RowsKernel.
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
func (j *Job) grid() collective.Halo {
	return collective.Halo{Rows: int64(j.c.H), RowBytes: int64(4 * j.c.N * j.c.C * j.c.W)}
}

// window is the rows of the images that rows lo to hi of the results need: those
// their filters' first rows are at when there is no padding, and a halo.
func (j *Job) window(g collective.Halo, lo, hi int64) collective.Block {
	stride, pad := int64(j.c.Stride), int64(j.c.Pad)
	own := collective.Block{Lo: min(lo*stride, g.Rows), Hi: min((hi-1)*stride+1, g.Rows)}
	w := g.Window(own, max(pad, int64(j.c.R)-1-pad))[0]
	// Rows of nothing but padding still need a place to point at.
	w.Lo = min(w.Lo, g.Rows-1)
	w.Hi = max(w.Hi, w.Lo+1)
	return w
}

// rowPieces are the rows of the results.
func (j *Job) rowItems() sched.Items {
	p, q := j.c.Out()
	g := j.grid()
	return sched.Items{
		Extent: int64(p),
		Cost:   func(lo, hi int64) float64 { return Ops(j.c.Shape) / float64(p) * float64(hi-lo) },
		Bytes: func(lo, hi int64) (int64, int64) {
			if hi == lo {
				return 0, 0
			}
			w := j.window(g, lo, hi)
			return (w.Hi-w.Lo)*g.RowBytes + int64(4*len(j.w)), (hi - lo) * int64(4*j.c.N*j.c.K*q)
		},
	}
}

// rowsTask is rows lo to hi of the results.
func (j *Job) rowsTask(g collective.Halo, lo, hi int64) graph.Task {
	s, w := j.c.Shape, j.window(g, lo, hi)
	p, q := s.Out()
	params := rowsParams{graph.Conv2D(s), int(lo), int(hi - lo), int(w.Lo)}
	return graph.Task{
		Name: fmt.Sprintf("rows %d-%d", lo, hi),
		Steps: s.steps(graph.Step{Kernel: RowsKernel, Launch: graph.Grid(hi-lo, int64(s.K), int64(s.N))}.With(params),
			moreRowsKernel, func(p part) any { return moreRowsParams{params, p} }),
		Work: graph.Work{
			Ops:   Ops(s) / float64(p) * float64(hi-lo),
			Bytes: float64((w.Hi-w.Lo)*g.RowBytes) + float64(4*len(j.w)) + float64(hi-lo)*float64(4*s.N*s.K*q),
		},
	}
}

// rowsGraph has a task for each range of rows.
func (j *Job) rowsGraph(ranges []sched.Range) (*graph.Graph, error) {
	_, q := j.c.Out()
	g, out := j.grid(), int64(4*j.c.N*j.c.K*q)
	var b graph.Builder
	dx := b.Data(graph.Data{Name: "images", Bytes: int64(4 * len(j.x)), Input: true})
	dw := b.Data(graph.Data{Name: "filters", Bytes: int64(4 * len(j.w)), Input: true})
	dy := b.Data(graph.Data{Name: "results", Bytes: int64(4 * len(j.y)), Output: true})
	for _, r := range ranges {
		t := j.rowsTask(g, r.Lo, r.Hi)
		t.Uses = []graph.Use{
			g.Use(dx, j.window(g, r.Lo, r.Hi), graph.Read),
			{Data: dw, Access: graph.Read},
			{Data: dy, Offset: r.Lo * out, Bytes: r.Len() * out, Access: graph.Write},
		}
		b.Add(t)
	}
	return b.Build()
}
