// Package conv convolves batches of images with filters, as convolution layers do: float32, images, filters and results in NCHW order,
//
//	y[n,k,p,q] = Σ over c,r,s of x[n, c, p·stride+r-pad, q·stride+s-pad] · w[k,c,r,s]
//
// where x is 0 outside the image. [Of] convolves a caller's images on the devices of a
// runtime, also with dilation, groups and unequal padding.
//
// Its results are of class R: bitwise the same however the output is dealt out,
// because every element is one chain of additions from zero, in the order of c,
// then r, then s. As in package gemm, whose inner loop it shares, the chain is of
// fused multiply-adds with AVX-512, AVX2 and NEON, which agree in every bit, and
// of rounded products without.
package conv

import (
	"errors"
	"fmt"
	"math"
)

// ErrShape is returned for a layer or a range that makes no sense.
var ErrShape = errors.New("bad shape")

// Shape describes a layer.
type Shape struct {
	N, C, H, W int // images, and their channels, rows and columns
	K, R, S    int // filters (output channels), and their rows and columns
	Stride     int // from one output to the next, at least 1
	Pad        int // zeros around the image, on each side
}

// String says the sizes in words.
func (s Shape) String() string {
	return fmt.Sprintf("%d × %d × %d × %d, %d filters %d × %d, stride %d, pad %d", s.N, s.C, s.H, s.W, s.K, s.R, s.S, s.Stride, s.Pad)
}

// Out returns the rows and columns of the output, which is N × K × p × q.
func (s Shape) Out() (p, q int) {
	return (s.H+2*s.Pad-s.R)/s.Stride + 1, (s.W+2*s.Pad-s.S)/s.Stride + 1
}

// Validate returns an error that is [ErrShape] when the layer cannot be computed:
// a size below 1, a filter larger than the padded image, or one image or
// filter with more than 2³¹ numbers. The other functions take a valid shape.
func (s Shape) Validate() error {
	if err := s.positive(); err != nil {
		return err
	}
	h, w := float64(s.H)+2*float64(s.Pad), float64(s.W)+2*float64(s.Pad)
	switch {
	case s.Pad < 0:
		return fmt.Errorf("conv %v: padding must not be negative: %w", s, ErrShape)
	case float64(s.R) > h || float64(s.S) > w:
		return fmt.Errorf("conv %v: filter larger than the padded image: make it smaller or pad more: %w", s, ErrShape)
	// One stride more, because the phases of a strided image are rounded up.
	case float64(s.C)*(h+float64(s.Stride))*(w+float64(s.Stride)) > math.MaxInt32,
		float64(s.C)*float64(s.R)*float64(s.S) > math.MaxInt32:
		return fmt.Errorf("conv %v: an image or a filter is too large: cut it into smaller ones: %w", s, ErrShape)
	}
	return nil
}

// positive reports sizes that are none.
func (s Shape) positive() error {
	for _, size := range []int{s.N, s.C, s.H, s.W, s.K, s.R, s.S, s.Stride} {
		if size < 1 || size > math.MaxInt32 {
			return fmt.Errorf("conv %v: every size and the stride must be from 1 to 2³¹-1: %w", s, ErrShape)
		}
	}
	return nil
}

// extent is the part of the output with images N0 to N1, channels K0 to K1 and
// rows P0 to P1; the ends are not included.
type extent struct{ N0, N1, K0, K1, P0, P1 int }

// All returns the range of the whole output.
func (s Shape) All() extent {
	p, _ := s.Out()
	return extent{0, s.N, 0, s.K, 0, p}
}

// ops returns the floating-point operations of a layer.
func ops(s Shape) float64 {
	p, q := s.Out()
	return 2 * product(s.N, s.K, p, q, s.C, s.R, s.S)
}

// traffic returns the bytes a layer has to read and write at least.
func traffic(s Shape) float64 {
	p, q := s.Out()
	return 4 * (product(s.N, s.C, s.H, s.W) + product(s.K, s.C, s.R, s.S) + product(s.N, s.K, p, q))
}

// product multiplies in float64, which does not overflow.
func product(sizes ...int) float64 {
	f := 1.0
	for _, s := range sizes {
		f *= float64(s)
	}
	return f
}
