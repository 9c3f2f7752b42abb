package collective

import (
	"sync"
	"unsafe"
)

// The functions below combine arrays of numbers element by element, on the calling
// goroutine: the inner loops of operations. They know numbers and bytes, not tasks or
// devices.
//
// Arrays are folded from left to right, ((a op b) op c) and so on, and every
// step is rounded to the element type, so that folding arrays two at a time, in
// the same order, gives the same bits as folding all of them at once. Half
// precision is computed in single precision and rounded to nearest even after
// each step, which is correctly rounded. A NaN stays a NaN; which one is not
// promised. Sums and products of integers wrap around.

// blockBytes is the number of bytes folded at a time: they stay in the nearest
// cache until they have been written to all results.
const blockBytes = 8 << 10

// scratches are blocks to fold in, aligned for any element.
var scratches = sync.Pool{New: func() any { return new([blockBytes / 8]uint64) }}

// foldInto writes the fold of the arrays ins, divided by divisor when that is over 1,
// to every one of outs. All have the same number of bytes, whole elements, and
// are aligned for them. An array may be both in ins and in outs; otherwise they
// must not overlap. With stream the results go past the caches, for arrays too
// large to be found there again.
func foldInto(o Fold, t Type, outs, ins [][]byte, divisor int, stream bool) {
	if len(ins) == 1 && divisor <= 1 {
		for _, out := range outs {
			copyBytes(out, ins[0], stream)
		}
		return
	}
	step := steps[o][t]
	scratch := scratches.Get().(*[blockBytes / 8]uint64)
	defer scratches.Put(scratch)
	buf := unsafe.Slice((*byte)(unsafe.Pointer(scratch)), blockBytes)
	for lo, n := 0, len(ins[0]); lo < n; lo += blockBytes {
		hi := min(lo+blockBytes, n)
		acc := buf[:hi-lo]
		if !stream && len(ins) <= 2 {
			acc = outs[0][lo:hi] // nothing is read after it is written
		}
		if len(ins) == 1 {
			copy(acc, ins[0][lo:hi])
		} else {
			step(acc, ins[0][lo:hi], ins[1][lo:hi])
		}
		for k := 2; k < len(ins); k++ {
			step(acc, acc, ins[k][lo:hi])
		}
		if divisor > 1 {
			divides[t](acc, divisor)
		}
		for _, out := range outs {
			if dst := out[lo:hi]; &dst[0] != &acc[0] {
				copyBytes(dst, acc, stream)
			}
		}
	}
}

// copyBytes copies bytes, with stream past the caches.
func copyBytes(dst, src []byte, stream bool) {
	if stream {
		n := streamWide(dst, src)
		dst, src = dst[n:], src[n:]
	}
	copy(dst, src)
}

// number lists the types that Go computes with directly.
type number interface {
	float32 | float64 | int32 | int64
}

// view sees bytes as elements.
func view[T any](b []byte) []T {
	if len(b) == 0 {
		return nil
	}
	var t T
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), len(b)/int(unsafe.Sizeof(t)))
}

// steps are the loops that combine two arrays into a third, which may be one of
// them, by operation and type.
var steps = [numFolds][numTypes]func(dst, a, b []byte){
	Sum:     {sum32, sum64, half(add, f16), half(add, bf16), sum[int32], sum[int64]},
	Average: {sum32, sum64, half(add, f16), half(add, bf16), sum[int32], sum[int64]},
	Max:     {largest[float32], largest[float64], half(larger, f16), half(larger, bf16), largest[int32], largest[int64]},
	Min:     {least[float32], least[float64], half(smaller, f16), half(smaller, bf16), least[int32], least[int64]},
	Product: {product[float32], product[float64], half(multiply, f16), half(multiply, bf16), product[int32], product[int64]},
}

// divides are the loops that divide an array by a number.
var divides = [numTypes]func(x []byte, by int){
	divide[float32], divide[float64], halfDivide(f16), halfDivide(bf16), divide[int32], divide[int64],
}

func sum32(dst, a, b []byte) {
	n := addWide32(view[float32](dst), view[float32](a), view[float32](b)) * 4
	sum[float32](dst[n:], a[n:], b[n:])
}

func sum64(dst, a, b []byte) {
	n := addWide64(view[float64](dst), view[float64](a), view[float64](b)) * 8
	sum[float64](dst[n:], a[n:], b[n:])
}

func sum[T number](dst, a, b []byte) {
	x, y, z := view[T](a), view[T](b), view[T](dst)
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = x[i] + y[i]
	}
}

func largest[T number](dst, a, b []byte) {
	x, y, z := view[T](a), view[T](b), view[T](dst)
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = max(x[i], y[i])
	}
}

func least[T number](dst, a, b []byte) {
	x, y, z := view[T](a), view[T](b), view[T](dst)
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = min(x[i], y[i])
	}
}

func product[T number](dst, a, b []byte) {
	x, y, z := view[T](a), view[T](b), view[T](dst)
	x, y = x[:len(z)], y[:len(z)]
	for i := range z {
		z[i] = x[i] * y[i]
	}
}

func divide[T number](x []byte, by int) {
	d := T(by)
	for i, v := range view[T](x) {
		view[T](x)[i] = v / d
	}
}

// format is a way to keep a number in 16 bits.
type format struct {
	widen func(uint16) float32
	round func(float32) uint16
}

var (
	f16 = format{
		widen: func(h uint16) float32 { return Half(h).Float32() },
		round: func(x float32) uint16 { return uint16(NewHalf(x)) },
	}
	bf16 = format{
		widen: func(b uint16) float32 { return BFloat(b).Float32() },
		round: func(x float32) uint16 { return uint16(NewBFloat(x)) },
	}
)

func add(a, b float32) float32      { return a + b }
func multiply(a, b float32) float32 { return a * b }
func larger(a, b float32) float32   { return max(a, b) }
func smaller(a, b float32) float32  { return min(a, b) }

// half is a loop over 16-bit floats of a format.
func half(op func(a, b float32) float32, f format) func(dst, a, b []byte) {
	return func(dst, a, b []byte) {
		x, y, z := view[uint16](a), view[uint16](b), view[uint16](dst)
		x, y = x[:len(z)], y[:len(z)]
		for i := range z {
			z[i] = f.round(op(f.widen(x[i]), f.widen(y[i])))
		}
	}
}

func halfDivide(f format) func(x []byte, by int) {
	return func(x []byte, by int) {
		z := view[uint16](x)
		for i := range z {
			z[i] = f.round(f.widen(z[i]) / float32(by))
		}
	}
}
