package conv

import (
	"context"
	"fmt"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
)

// Layer is a layer as [Of] computes it: a [Shape] with the further options of convolutions.
//
//	y[n,k,p,q] = Σ over c,r,s of x[n, c₀+c, p·stride+r·dilation-top, q·stride+s·dilation-left] · w[k,c,r,s]
//
// where c₀ is the first channel of the filter's group, and top and left are Pad plus Top and
// Left.
type Layer struct {
	Shape
	// Dilation is the distance of the numbers that a filter multiplies; 0 means 1.
	Dilation int
	// Groups is the number of groups that channels and filters are cut into, in their
	// order; 0 means 1. A filter has the channels of its group alone, C ÷ Groups.
	Groups int
	// Top, Bottom, Left and Right are further rows and columns of zeros around an image.
	Top, Bottom, Left, Right int
}

// Out returns the rows and columns of the output, which is N × K × p × q.
func (l Layer) Out() (p, q int) {
	l = l.withDefaults()
	return (l.H+2*l.Pad+l.Top+l.Bottom-(l.R-1)*l.Dilation-1)/l.Stride + 1, (l.W+2*l.Pad+l.Left+l.Right-(l.S-1)*l.Dilation-1)/l.Stride + 1
}

func (l Layer) withDefaults() Layer {
	if l.Dilation == 0 || l.R == 1 && l.S == 1 {
		l.Dilation = 1
	}
	if l.Groups == 0 {
		l.Groups = 1
	}
	return l
}

// Validate returns an error that is [ErrShape] when the layer cannot be computed.
func (l Layer) Validate() error {
	if err := l.positive(); err != nil {
		return err
	}
	if l.Dilation < 0 || l.Dilation > math.MaxInt32 || l.Groups < 0 {
		return fmt.Errorf("conv %v: dilation %d and %d groups must be from 1 to 2³¹-1: %w", l.Shape, l.Dilation, l.Groups, ErrShape)
	}
	l = l.withDefaults()
	for _, pad := range []int{l.Pad, l.Top, l.Bottom, l.Left, l.Right} {
		if pad < 0 || pad > math.MaxInt32 {
			return fmt.Errorf("conv %v: padding %d must be from 0 to 2³¹-1: %w", l.Shape, pad, ErrShape)
		}
	}
	h, w := float64(l.H+2*l.Pad+l.Top+l.Bottom), float64(l.W+2*l.Pad+l.Left+l.Right)
	switch {
	case l.C%l.Groups != 0 || l.K%l.Groups != 0:
		return fmt.Errorf("conv %v: %d groups: channels and filters must be multiples of it: %w", l.Shape, l.Groups, ErrShape)
	case float64(l.R-1)*float64(l.Dilation)+1 > h || float64(l.S-1)*float64(l.Dilation)+1 > w:
		return fmt.Errorf("conv %v: filter with dilation %d larger than the padded image: make it smaller or pad more: %w", l.Shape, l.Dilation, ErrShape)
	case float64(l.C)*(h+float64(l.Stride))*(w+float64(l.Stride)) > math.MaxInt32:
		return fmt.Errorf("conv %v: an image is too large: cut it into smaller ones: %w", l.Shape, ErrShape)
	}
	// What follows has no more numbers than fit into integers: N is one, and so is an image.
	p, q := l.Out()
	if product(l.N, l.C, l.H, l.W) > maxNumbers || product(l.N, l.K, p, q) > maxNumbers {
		return fmt.Errorf("conv %v: images and results must have at most 2³² numbers each: %w", l.Shape, ErrShape)
	}
	return Config{Shape: l.plain().Shape}.Validate()
}

// plain is a layer without dilation, groups and unequal padding that computes the same from
// other images. An image becomes one for each phase of the results, which is some of its
// rows and columns that are evenly spaced: they read every Dilation-th row and column.
type plain struct {
	Shape             // of one group, but with the filters of all
	down, across int  // phases of rows and of columns
	same         bool // the images are as they were but for their order
}

func (l Layer) plain() plain {
	l = l.withDefaults()
	s := l.Shape
	s.C /= l.Groups
	if l.Dilation == 1 && l.Top == 0 && l.Bottom == 0 && l.Left == 0 && l.Right == 0 {
		return plain{s, 1, 1, true}
	}
	p, q := l.Out()
	common := gcd(l.Stride, l.Dilation)
	down, across := min(l.Dilation/common, p), min(l.Dilation/common, q) // others have no results
	s.N, s.Stride, s.Pad = s.N*down*across, l.Stride/common, 0
	s.H, s.W = ((p+down-1)/down-1)*s.Stride+s.R, ((q+across-1)/across-1)*s.Stride+s.S
	return plain{s, down, across, false}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Of returns a convolution of images with filters, N × K × p × q, computed on the devices of
// a runtime that was opened with [Funcs] among its kernels: images are N × C × H × W,
// filters K × C÷Groups × R × S. Padding is zeros, which filters multiply like other
// numbers. A term that is not a number makes its sum none. Sizes that make no layer, and
// slices of other lengths, are an error that wraps [ErrShape].
func Of(ctx context.Context, rt *weft.Runtime, images, filters []float32, l Layer) ([]float32, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	l = l.withDefaults()
	if n := l.N * l.C * l.H * l.W; len(images) != n {
		return nil, fmt.Errorf("conv %v: %d numbers of images: there must be %d: %w", l.Shape, len(images), n, ErrShape)
	}
	if n := l.K * (l.C / l.Groups) * l.R * l.S; len(filters) != n {
		return nil, fmt.Errorf("conv %v: %d numbers of filters: there must be %d: %w", l.Shape, len(filters), n, ErrShape)
	}
	s := l.plain()
	p, q := s.Out()
	j := &job{c: Config{Shape: s.Shape}, x: images, w: filters, y: make([]float32, s.N*s.K*p*q), groups: l.Groups}
	for i := range l.Groups {
		each, parts := l.K/l.Groups, s.split(rt.Machine(), l.Groups)
		for part := range parts {
			j.cuts = append(j.cuts, i*each+part*each/parts)
		}
	}
	j.cuts = append(j.cuts, l.K)
	if !s.same || l.Groups > 1 && l.N > 1 {
		j.x = l.gather(images, s)
	}
	if _, err := workload.Call(ctx, rt, j.declare(), "conv"); err != nil {
		return nil, err
	}
	if s.down*s.across == 1 && (len(j.cuts) == 2 || l.N == 1) {
		return j.y, nil
	}
	return l.scatter(j, s), nil
}

// Filters of a block when filters are dealt out: fewer would leave tiles empty, of a CPU
// and of a GPU.
const (
	leastFilters    = 16
	leastFiltersGPU = 64
)

// split returns into how many blocks the filters of a group are cut: one, unless there are
// fewer images than devices that are no CPUs or, where there are none, fewer bands of images
// than cores.
func (s plain) split(m *machine.Machine, groups int) int {
	cores, others := 0, 0
	for i := range m.Devices {
		if d := &m.Devices[i]; d.Kind == machine.CPU {
			cores += max(d.ComputeUnits, 1)
		} else {
			others++
		}
	}
	p, _ := s.Out()
	units, pieces, least := cores, s.N*groups*((p+bandRows-1)/bandRows), leastFilters
	if others > 0 {
		units, pieces, least = others, s.N*groups, leastFiltersGPU
	}
	return max(min((units+pieces-1)/pieces, s.K/groups/least), 1)
}

// gather rearranges images as the plain layer needs them: group after group, and within a
// group the phases of an image one after another, with their padding.
func (l Layer) gather(from []float32, s plain) []float32 {
	to := make([]float32, l.Groups*s.N*s.C*s.H*s.W)
	_ = workload.Sweep(l.Groups*s.N, func(lo, hi int) error {
		for i := lo; i < hi; i++ {
			group, image := i/s.N, i%s.N
			a, b := image/s.across%s.down, image%s.across
			n := image / (s.down * s.across)
			for c := range s.C {
				plane := from[(n*l.C+group*s.C+c)*l.H*l.W:][:l.H*l.W]
				out := to[(i*s.C+c)*s.H*s.W:][:s.H*s.W]
				if s.same {
					copy(out, plane)
					continue
				}
				for u := range s.H {
					h := a*l.Stride + u*l.Dilation - l.Pad - l.Top
					if h < 0 || h >= l.H {
						continue
					}
					line(out[u*s.W:][:s.W], plane[h*l.W:][:l.W], b*l.Stride-l.Pad-l.Left, l.Dilation)
				}
			}
		}
		return nil
	})
	return to
}

// line sets to to every step-th number of a row from a column on, and leaves it where the row
// has none.
func line(to, row []float32, first, step int) {
	for v := range to {
		if x := first + v*step; x >= 0 && x < len(row) {
			to[v] = row[x]
		}
	}
}

// scatter returns the results of a job of the plain layer in the order of the layer.
func (l Layer) scatter(j *job, s plain) []float32 {
	p, q := l.Out()
	rows, cols := s.Out()
	to := make([]float32, l.N*l.K*p*q)
	_ = workload.Sweep(l.K, func(lo, hi int) error {
		block := 0
		for k := lo; k < hi; k++ {
			for k >= j.cuts[block+1] {
				block++
			}
			first, filters := j.cuts[block], j.cuts[block+1]-j.cuts[block]
			for i := range s.N {
				from := j.y[(first*s.N+i*filters+k-first)*rows*cols:][:rows*cols]
				a, b := i/s.across%s.down, i%s.across
				out := to[(i/(s.down*s.across)*l.K+k)*p*q:][:p*q]
				for y := a; y < p; y += s.down {
					for x := b; x < q; x += s.across {
						out[y*q+x] = from[y/s.down*cols+x/s.across]
					}
				}
			}
		}
		return nil
	})
	return to
}
