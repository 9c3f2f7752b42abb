package backendtest

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// Kernels are the names of the kernels a backend brings for its tests. Numbers
// are little-endian; n is the number of items, which is the grid's width as
// launched, so threads past it have nothing to do. Parameters are Params, with
// exceptions: saxpy has SaxpyParams, layout LayoutParams, and noop, which has no
// arguments, none.
//
//	noop                  nothing
//	add    x              x[i] += k                    uint32
//	saxpy  x, y           y[i] += k * x[i]             float32
//	spread in, out, work  work[i] = 2 * in[i]          uint32
//	gather in, out, work  out[i] = work[n-1-i] + k     uint32
//	slow   x              k times x[i] = x[i]*1664525 + 1013904223   uint32
//	layout x              the first item writes the parameters, word by word
//	fail                  the launch fails, and nothing else happens
//
// A backend whose kernels cannot fail without losing the device has no
// implementation of fail; it needs all the others.
var Kernels = []string{"noop", "add", "saxpy", "spread", "gather", "slow", "layout", "fail"}

// Params are the parameters of most kernels.
type Params struct {
	N int
	K uint32
}

// SaxpyParams are the parameters of saxpy.
type SaxpyParams struct {
	N int
	K float32
}

// LayoutParams are the parameters of layout: fields that have gaps between and behind
// them.
type LayoutParams struct {
	N int
	A float64
	B int32
	C uint64
	D float32
}

// words are the parameters as layout writes them.
func (p *LayoutParams) words() []uint32 {
	a := math.Float64bits(p.A)
	return []uint32{uint32(p.N), uint32(a), uint32(a >> 32), uint32(p.B), uint32(p.C), uint32(p.C >> 32), math.Float32bits(p.D)}
}

// errFail is the error of the kernel fail.
var errFail = errors.New("this kernel fails")

// Funcs returns the kernels as Go functions, for drivers that run those.
func Funcs() map[string]driver.Func {
	return map[string]driver.Func{
		"noop": func(*driver.Call, int, int) {},
		"add": driver.WithParams(func(c *driver.Call, p Params, lo, hi int) {
			for i := lo; i < hi; i++ {
				set(c.Args[0], i, get(c.Args[0], i)+p.K)
			}
		}),
		"saxpy": driver.WithParams(func(c *driver.Call, p SaxpyParams, lo, hi int) {
			for i := lo; i < hi; i++ {
				x, y := math.Float32frombits(get(c.Args[0], i)), math.Float32frombits(get(c.Args[1], i))
				set(c.Args[1], i, math.Float32bits(y+p.K*x))
			}
		}),
		"spread": driver.WithParams(func(c *driver.Call, _ Params, lo, hi int) {
			for i := lo; i < hi; i++ {
				set(c.Args[2], i, 2*get(c.Args[0], i))
			}
		}),
		"gather": driver.WithParams(func(c *driver.Call, p Params, lo, hi int) {
			for i := lo; i < hi; i++ {
				set(c.Args[1], i, get(c.Args[2], p.N-1-i)+p.K)
			}
		}),
		"slow": driver.WithParams(func(c *driver.Call, p Params, lo, hi int) {
			for i := lo; i < hi; i++ {
				set(c.Args[0], i, slow(get(c.Args[0], i), p.K))
			}
		}),
		"layout": driver.WithParams(func(c *driver.Call, p LayoutParams, lo, hi int) {
			if lo == 0 {
				copy(c.Args[0], words(p.words()...))
			}
		}),
		"fail": func(c *driver.Call, lo, hi int) { c.Fail(errFail) },
	}
}

// GoImpls returns a kernel's implementation by the function of Funcs.
func GoImpls(kernel string) []graph.Impl {
	if !slices.Contains(Kernels, kernel) {
		return nil
	}
	return []graph.Impl{{Dialect: graph.Go, Entry: kernel}}
}

func slow(x, k uint32) uint32 {
	for range k {
		x = x*1664525 + 1013904223
	}
	return x
}

func get(b []byte, i int) uint32    { return binary.LittleEndian.Uint32(b[4*i:]) }
func set(b []byte, i int, v uint32) { binary.LittleEndian.PutUint32(b[4*i:], v) }

// words makes bytes of numbers, and numbers of bytes.
func words(xs ...uint32) []byte {
	b := make([]byte, 0, 4*len(xs))
	for _, x := range xs {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

func numbers(b []byte) []uint32 {
	out := make([]uint32, len(b)/4)
	for i := range out {
		out[i] = get(b, i)
	}
	return out
}

// ramp is n numbers that are all different.
func ramp(n int, from uint32) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = from + uint32(i)*3
	}
	return out
}
