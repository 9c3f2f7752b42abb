package conv

import (
	"fmt"
	"unsafe"

	"github.com/weft-run/weft/internal/panel"
)

// kernel is the inner loop in use: the fastest this machine runs. Tests set it
// to each in turn.
var kernel = panel.SumProduct()[0]

// A convolution is the product of the filters, K rows of C·R·S numbers, and the
// patches, C·R·S rows with a column for each output. The patches are never
// written down. The image is copied once into slabs with its padding, and there
// row (c,r,s) of the patches is the slab read from an offset: outputs that
// follow one another read numbers that follow one another. The inner loop takes
// the offsets as a table.
//
// With a stride of t, outputs that follow one another read every t-th number, so
// the slab holds the t × t phases of a channel as planes of their own. Output
// rows follow one another at the width of a plane, which is a few columns more
// than the output has; those columns are computed and thrown away.

// slabFloats is the size of a slab above which an image is cut into bands of rows, so
// that a slab and some filters stay in the L2 cache.
const slabFloats = 1 << 17

// slack is the number of floats that a tile may read beyond the last plane.
const slack = panel.MaxNR

// layout locates the numbers of images or results: the distances of images, channels
// and rows, and the first row.
type layout struct{ image, channel, row, first int }

// at returns the index at which a row of a channel of an image begins.
func (o layout) at(n, c, row int) int { return n*o.image + c*o.channel + (row-o.first)*o.row }

// byImage returns the layout NCHW for images of a number of channels, rows and columns.
func byImage(channels, rows, columns int) layout {
	return layout{image: channels * rows * columns, channel: rows * columns, row: columns}
}

// byRow is the order in which rows of all channels of all images lie together,
// and follow one another from first on.
func byRow(images, channels, columns, first int) layout {
	return layout{image: channels * columns, channel: columns, row: images * channels * columns, first: first}
}

// plan holds the sizes and offsets by which one layer is computed.
type plan struct {
	Shape
	from, to       layout
	end            int // rows of an image there are; no output needs others
	p, q           int // rows and columns of the output
	terms          int // of a sum: C·R·S
	phaseR, phaseS int // phases of a channel in use
	band           int // output rows in a slab
	width          int // columns of a plane
	halo           int // further rows of a plane
	plane          int // floats of a plane
	slab           int // floats of a slab
}

func newPlan(s Shape) plan {
	l := plan{Shape: s, terms: s.C * s.R * s.S}
	l.p, l.q = s.Out()
	l.from, l.to = byImage(s.C, s.H, s.W), byImage(s.K, l.p, l.q)
	l.end = s.H
	l.phaseR, l.phaseS = min(s.Stride, s.R), min(s.Stride, s.S)
	l.width = l.q + (s.S-1)/s.Stride
	l.halo = (s.R - 1) / s.Stride
	planes := s.C * l.phaseR * l.phaseS
	l.band = min(l.p, max(1, slabFloats/(planes*l.width)-l.halo))
	l.plane = (l.band + l.halo) * l.width
	l.slab = planes * l.plane
	return l
}

// scratch returns the floats of a slab, of the filters of a tile, of the tile
// and of the table of offsets.
func (l plan) scratch() int {
	return l.slab + slack + panel.MaxMR*l.terms + panel.MaxMR*panel.MaxNR + l.terms
}

// scratchFloats returns how many floats of scratch memory [computePart] needs: the same on
// every machine.
func scratchFloats(s Shape) int { return newPlan(s).scratch() }

// computePart computes a range of the output y from images x and filters w. All three are
// whole: indices count from the beginning of the layer. The slices must not overlap;
// scratch has at least as many floats as [scratchFloats] says, with any contents. The shape
// must be valid. Part panics when a slice is too short or the range reaches beyond the
// output.
//
// It runs on the calling goroutine, allocates nothing, and returns to Go every
// few ten microseconds, so it does not hold up the garbage collector. Calls may
// run at the same time with different scratch and ranges. Each call copies the
// images it reads, so ranges of all channels are best, then ranges of many.
func computePart(y, x, w []float32, s Shape, part extent, scratch []float32) {
	if err := s.Validate(); err != nil {
		panic(err)
	}
	l := newPlan(s)
	if !within(part.N0, part.N1, l.N) || !within(part.K0, part.K1, l.K) || !within(part.P0, part.P1, l.p) {
		panic(fmt.Sprintf("conv: range %+v reaches beyond the output, %d × %d × %d × %d", part, l.N, l.K, l.p, l.q))
	}
	need("x", x, product(l.N, l.C, l.H, l.W))
	need("w", w, product(l.K, l.C, l.R, l.S))
	need("y", y, product(l.N, l.K, l.p, l.q))
	need("scratch", scratch, float64(l.scratch()))
	l.part(y, x, w, part, scratch)
}

// part is Part for images and results of any layout, which are as large as they
// must be.
func (l plan) part(y, x, w []float32, part extent, scratch []float32) {
	slab, rest := scratch[:l.slab+slack], scratch[l.slab+slack:]
	filters, rest := rest[:kernel.MR*l.terms], rest[kernel.MR*l.terms:]
	tile, rest := rest[:kernel.MR*kernel.NR], rest[kernel.MR*kernel.NR:]
	// scratchFloats is memory of 4-byte words; here they are used as integers.
	off := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(rest))), l.terms)
	l.offsets(off)
	clear(slab[l.slab:])
	// The tile of the last channels would read filters that w may not have.
	odd := part.K1 - (part.K1-part.K0)%kernel.MR
	clear(filters)
	copy(filters, w[odd*l.terms:part.K1*l.terms])

	for n := part.N0; n < part.N1; n++ {
		for p := part.P0; p < part.P1; p += l.band {
			rows := min(l.band, part.P1-p)
			l.fill(slab, x, n, p, rows)
			outputs := (rows-1)*l.width + l.q
			for j := 0; j < outputs; j += kernel.NR {
				for k := part.K0; k < part.K1; k += kernel.MR {
					channels := min(kernel.MR, part.K1-k)
					from := w[k*l.terms:]
					if k == odd {
						from = filters
					}
					clear(tile)
					for t := 0; t < l.terms; t += panel.MaxDepth {
						end := min(t+panel.MaxDepth, l.terms)
						kernel.Tile(channels, tile, kernel.NR, from[t:], l.terms, slab[j:], off[t:end])
					}
					l.store(y, tile, n, k, channels, p, j, min(j+kernel.NR, outputs))
				}
			}
		}
	}
}

// offsets says where in a slab the row of patches for each (c,r,s) begins.
func (l plan) offsets(off []int32) {
	i := 0
	for c := range l.C {
		for r := range l.R {
			for s := range l.S {
				phase := (c*l.phaseR+r%l.Stride)*l.phaseS + s%l.Stride
				off[i] = int32(phase*l.plane + r/l.Stride*l.width + s/l.Stride)
				i++
			}
		}
	}
}

// fill copies to the slab what a number of output rows, from p on, read of image n.
func (l plan) fill(slab, x []float32, n, p, rows int) {
	for c := range l.C {
		for r := range l.phaseR {
			for s := range l.phaseS {
				plane := slab[:(rows+l.halo)*l.width]
				slab = slab[l.plane:]
				for h := p*l.Stride + r - l.Pad; len(plane) > 0; h += l.Stride {
					line := plane[:l.width]
					plane = plane[l.width:]
					if h < 0 || h >= l.end {
						clear(line)
						continue
					}
					l.fillLine(line, x[l.from.at(n, c, h):][:l.W], s-l.Pad)
				}
			}
		}
	}
}

// fillLine sets the line to every Stride-th number of a row of the image from
// column first on, and zeros where the row has none.
func (l plan) fillLine(line, row []float32, first int) {
	left := 0 // zeros before the image
	if first < 0 {
		left = min((-first+l.Stride-1)/l.Stride, len(line))
	}
	clear(line[:left])
	line, first = line[left:], first+left*l.Stride
	if first >= len(row) {
		clear(line)
		return
	}
	row = row[first:]
	if l.Stride == 1 {
		clear(line[copy(line, row):])
		return
	}
	have := min(len(line), (len(row)+l.Stride-1)/l.Stride)
	for i, h := 0, 0; i < have; i, h = i+1, h+l.Stride {
		line[i] = row[h]
	}
	clear(line[have:])
}

// store copies outputs lo to hi of a band that begins at row p from the tile to y: the
// outputs of a number of channels of image n, from first on, without columns beyond the
// output's.
func (l plan) store(y, tile []float32, n, first, channels, p, lo, hi int) {
	for j := lo; j < hi; {
		row, q := j/l.width, j%l.width
		next := min((row+1)*l.width, hi) // beginning of the next row
		if cols := min(next-j, l.q-q); cols > 0 {
			for k := range channels {
				copy(y[l.to.at(n, first+k, p+row)+q:][:cols], tile[k*kernel.NR+j-lo:])
			}
		}
		j = next
	}
}

// reference computes a range of the output in float64 by the definition, to
// compare [computePart] with. y is as large as the whole output.
func reference(y []float64, x, w []float32, s Shape, part extent) {
	ps, qs := s.Out()
	for n := part.N0; n < part.N1; n++ {
		for k := part.K0; k < part.K1; k++ {
			for p := part.P0; p < part.P1; p++ {
				for q := range qs {
					sum := 0.0
					for c := range s.C {
						for r := range s.R {
							for t := range s.S {
								h, v := p*s.Stride+r-s.Pad, q*s.Stride+t-s.Pad
								if h >= 0 && h < s.H && v >= 0 && v < s.W {
									sum += float64(x[((n*s.C+c)*s.H+h)*s.W+v]) * float64(w[((k*s.C+c)*s.R+r)*s.S+t])
								}
							}
						}
					}
					y[((n*s.K+k)*ps+p)*qs+q] = sum
				}
			}
		}
	}
}

func within(lo, hi, size int) bool { return 0 <= lo && lo <= hi && hi <= size }

func need(name string, xs []float32, floats float64) {
	if float64(len(xs)) < floats {
		panic(fmt.Sprintf("conv: %s has %d floats, needs %.0f", name, len(xs), floats))
	}
}
