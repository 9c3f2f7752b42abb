package conv

import (
	"errors"
	"fmt"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/philox"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// errWrong is returned by [job.Check] for a result that is not the convolution.
var errWrong = errors.New("not the convolution")

// Splits are the ways to divide the work, by name.
const (
	Images = "images" // every task has some images
	Rows   = "rows"   // every task has some rows of all images, and reads a halo of others
)

// Config says which layer to compute.
type Config struct {
	Shape
	Seed uint64
	// Split is Images (the default) or Rows. With Rows, images and results lie
	// row by row: a row of all channels of all images, then the next.
	Split string
}

// maxNumbers bounds the numbers of all images, of all filters and of all results.
const maxNumbers = 1 << 32

// Default is a layer of ResNet-50, for a batch of 32 images.
func Default() Config {
	return Config{Shape: Shape{N: 32, C: 64, H: 56, W: 56, K: 64, R: 3, S: 3, Stride: 1, Pad: 1}}
}

// Validate returns an error that is [ErrShape] when the layer makes no sense or
// does not fit into memory.
func (c Config) Validate() error {
	if err := c.Shape.Validate(); err != nil {
		return err
	}
	if c.Split != "" && c.Split != Images && c.Split != Rows {
		return fmt.Errorf("conv: split %q: use %s or %s: %w", c.Split, Images, Rows, ErrShape)
	}
	if c.Split == Rows && c.N > maxImages {
		return fmt.Errorf("conv: %d images by rows: there may be %d; deal images out: %w", c.N, maxImages, ErrShape)
	}
	p, q := c.Out()
	for _, size := range []float64{product(c.N, c.C, c.H, c.W), product(c.K, c.C, c.R, c.S), product(c.N, c.K, p, q)} {
		if size > maxNumbers {
			return fmt.Errorf("conv %v: images, filters and results must have at most 2³² numbers each: %w", c.Shape, ErrShape)
		}
	}
	return nil
}

// Bytes is the host memory that the job takes at most: images, results, which are no
// larger than the images with their frame of zeros, and filters.
func (c Config) Bytes() float64 {
	frame := 2 * float64(c.Pad)
	pixels := (float64(c.H) + frame) * (float64(c.W) + frame)
	channels, filters := float64(c.C), float64(c.K)
	return 4 * (float64(c.N)*pixels*(channels+filters) + filters*channels*float64(c.R)*float64(c.S))
}

// job is one layer. Images or rows are dealt out; the filters are read by all.
type job struct {
	workload.Declared
	c       Config
	x, w, y []float32
	// cuts are where blocks of filters begin, and the number of filters. Each block is a
	// layer of its own to the kernels: the images of its group, and results that lie block
	// after block.
	cuts     []int
	groups   int     // of blocks, equally many to a group
	from, to layout  // of x and y
	above    float64 // errors of one element show above this, by the last Check
}

// New makes images and filters: uniform in (-1, 1), by logical index, so they do
// not depend on who computes.
// The job is a [workload.Job].
func New(c Config) (*job, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p, q := c.Out()
	j := &job{c: c, cuts: []int{0, c.K}, groups: 1, x: make([]float32, c.N*c.C*c.H*c.W), w: make([]float32, c.K*c.C*c.R*c.S), y: make([]float32, c.N*c.K*p*q)}
	j.from, j.to = byImage(c.C, c.H, c.W), byImage(c.K, p, q)
	if c.Split == Rows {
		j.from, j.to = byRow(c.N, c.C, c.W, 0), byRow(c.N, c.K, q, 0)
	}
	philox.Fill32(j.x, c.Seed, 0)
	philox.Fill32(j.w, c.Seed, 1)
	return j.declare(), nil
}

// imageKernel convolves some images; its arguments are the images, the filters, the
// results. Its parameters are graph.Conv2D, the task's shape; its grid is the rows,
// channels and images of the results.
// Shaders do part of the columns and terms where there are many, and the others in
// moreKernel.
var imageKernel = workload.With(graph.GoKernel("conv.images", bandRows, graph.All),
	workload.PTX(ptx, "conv_images", 256, 1, 64, 2), workload.Library("cudnn.conv2d"),
	workload.SPIRV(spirv, "conv_images", 64, 4, 16))

var moreKernel = workload.Only("conv.images.more", workload.SPIRV(spirv, "conv_images_more", 64, 4, 16))

// bandRows is the number of rows of an image's results in one item of the Go kernel. It is
// large compared with the rows that neighbouring items both read.
const bandRows = 16

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func {
	return signature.Funcs(kernels)
}

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: "conv.images", Does: "images convolved with filters, in NCHW order", Grid: "rows of a result, K, N", Args: arguments, Per: []uint32{bandRows, graph.All},
	}, imagesNeed, images),
	signature.Of(signature.Kernel{
		Name: "conv.rows", Does: "some rows of the results of conv.images, row by row", Grid: "rows, K, N", Args: arguments, Per: []uint32{bandRows, graph.All},
	}, rowsNeed, rows),
}

var arguments = []signature.Arg{signature.In("images", graph.F4), signature.In("filters", graph.F4), signature.Out("results", graph.F4)}

// Bounds of scratch memory: what any layer may have, and for larger ones how many floats for
// each of the arguments. It grows with padding, which no argument has.
const (
	someScratch = 1 << 20
	perFloat    = 32
)

// need returns the need of a call for a number of rows of all images.
func (s Shape) need(c *weft.Call, rows int) (n signature.Need, err error) {
	if err := s.Validate(); err != nil {
		return n, err
	}
	_, q := s.Out()
	n.Items = signature.Product(s.N, int(signature.Parts(rows, bandRows)))
	n.Elements[1] = signature.Product(s.K, s.C, s.R, s.S)
	n.Elements[2] = signature.Product(s.N, s.K, rows, q)
	given := 0
	for _, a := range c.Args[:len(arguments)] {
		given += len(a) / 4
	}
	if floats := newPlan(s).scratch(); floats > someScratch+perFloat*given {
		return n, fmt.Errorf("conv %v: it needs %d floats of scratch memory for %d floats of images, filters and results; use less padding: %w", s, floats, given, ErrShape)
	}
	return n, nil
}

func imagesNeed(c *weft.Call, p graph.Conv2D) (signature.Need, error) {
	s := Shape(p)
	rows := 0
	if s.Stride > 0 {
		rows, _ = s.Out()
	}
	n, err := s.need(c, rows)
	n.Elements[0] = signature.Product(s.N, s.C, s.H, s.W)
	return n, err
}

// scratches is memory for slabs and filters.
var scratches workload.Scratch[float32]

// images computes bands lo to hi, counted through all images. Bands that follow
// one another are computed together: whole images, or part of one.
func images(c *weft.Call, p graph.Conv2D, lo, hi int) {
	s := Shape(p)
	bands(c, newPlan(s), s.All(), lo, hi)
}

// atOnce is the number of terms computed between two calls of Call.Stopped, rounded up
// to whole bands: they take about a tenth of a second.
const atOnce = 1 << 32

// bands computes bands lo to hi of a part of the output.
func bands(c *weft.Call, l plan, all extent, lo, hi int) {
	x, w, y := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
	scratch := scratches.Get(l.scratch())
	defer scratches.Put(scratch)
	bands := (all.P1 - all.P0 + bandRows - 1) / bandRows
	most := max(int(atOnce/(int64(bandRows*l.q)*int64(l.K*l.terms))), 1)
	for lo < hi && !c.Stopped() {
		image, band := lo/bands, lo%bands
		part := all
		part.N0, part.N1 = image, image+1
		if whole := min(hi-lo, most) / bands; band == 0 && whole > 0 {
			part.N1 = image + whole
			lo += whole * bands
		} else {
			end := min(hi, lo+most, (image+1)*bands)
			part.P0, part.P1 = all.P0+band*bandRows, min(all.P0+(band+end-lo)*bandRows, all.P1)
			lo = end
		}
		l.part(y, x, w, part, *scratch)
	}
}

// declare says what the job is. Images and rows do not depend on how they are dealt out.
func (j *job) declare() *job {
	d := j.imageItems()
	if j.c.Split == Rows {
		d = j.rowItems()
	}
	d.Name, d.Class = fmt.Sprintf("conv %v", j.c.Shape), workload.RowExact
	if j.c.Split == Rows {
		d.Name += ", by rows"
	}
	if j.groups > 1 {
		d.Name += fmt.Sprintf(", %d groups", j.groups)
	}
	j.Declared = workload.Declare(d)
	return j
}

// before returns how many channels of results the items before one have: items are the
// images of every block, block after block.
func (j *job) before(piece int64) int64 {
	n := int64(j.c.N)
	b := min(piece/n, int64(len(j.cuts)-2))
	return int64(j.cuts[b])*n + (piece-b*n)*int64(j.cuts[b+1]-j.cuts[b])
}

// bytes returns the sizes of an image, of a filter, and of a channel of an image's results.
func (j *job) bytes() (in, filter, out int64) {
	n, k := j.c.N, j.c.K
	return int64(4 * len(j.x) / n / j.groups), int64(4 * len(j.w) / k), int64(4 * len(j.y) / n / k)
}

// shape is the layer for a number of images and filters.
func (j *job) shape(images, filters int) Shape {
	s := j.c.Shape
	s.N, s.K = images, filters
	return s
}

// filters returns which filters some items have.
func (j *job) filters(lo, hi int64) (first, end int) {
	n := int64(j.c.N)
	return j.cuts[lo/n], j.cuts[(hi-1)/n+1]
}

// maxImages is the most images of a task: GPUs count them along the last axis of a grid,
// which ends there.
const maxImages = 65_535

// imageItems declares images and blocks of filters that are dealt out.
func (j *job) imageItems() workload.Declaration {
	in, filter, out := j.bytes()
	n, blocks := int64(j.c.N), int64((len(j.cuts)-1)/j.groups) // of a group
	each := ops(j.shape(1, 1))
	return workload.Declaration{
		Of: "images", Extent: n * int64(len(j.cuts)-1),
		Ports: []workload.Port{
			workload.In("images", j.x, 0).Within(func(lo, hi int64) (int64, int64) { return (lo/n/blocks*n + lo%n) * in, (hi - lo) * in }),
			workload.In("filters", j.w, 0).Within(func(lo, hi int64) (int64, int64) {
				first, end := j.filters(lo, hi)
				return int64(first) * filter, int64(end-first) * filter
			}),
			workload.Out("results", j.y, 0).Within(func(lo, hi int64) (int64, int64) { return j.before(lo) * out, (j.before(hi) - j.before(lo)) * out }),
		},
		Cost: func(lo, hi int64) float64 { return each * float64(j.before(hi)-j.before(lo)) },
		Bytes: func(lo, hi int64) (int64, int64) {
			if hi == lo {
				return 0, 0
			}
			first, end := j.filters(lo, hi)
			return min(hi-lo, n*int64(j.groups))*in + int64(end-first)*filter, (j.before(hi) - j.before(lo)) * out
		},
		Ends: func(lo int64) int64 { return min(lo+maxImages, (lo/n+1)*n) },
		Task: func(t *graph.Task, lo, hi int64) {
			first, end := j.filters(lo, hi)
			s := j.shape(int(min(hi-lo, n)), end-first)
			if t.Name = fmt.Sprintf("images %d-%d", lo%n, lo%n+int64(s.N)); s.K < j.c.K {
				t.Name += fmt.Sprintf(", filters %d-%d", first, end)
			}
			p, _ := s.Out()
			params := graph.Conv2D(s)
			t.Steps = s.steps(graph.Step{Kernel: imageKernel, Launch: graph.Grid(int64(p), int64(s.K), int64(s.N))}.With(params),
				moreKernel, func(p part) any { return moreParams{params, p} })
			t.Work = graph.Work{Ops: ops(s), Bytes: traffic(s)}
		},
	}
}

// Operands are the images and the filters in the job's own memory; see Config.Split
// for their order. Between runs a caller may set them to the numbers it wants
// convolved.
func (j *job) Operands() (x, w []float32) { return j.x, j.w }

// Result is the output after a run, N × K × p × q or p × N × K × q, in the job's
// own memory.
func (j *job) Result() []float32 { return j.y }

// Rate is images and floating-point operations a second.
func (j *job) Rate(d time.Duration) string {
	return fmt.Sprintf("%.1f images/s, %.1f GFLOP/s", float64(j.c.N)/d.Seconds(), ops(j.c.Shape)/d.Seconds()/1e9)
}
