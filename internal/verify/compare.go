package verify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weft-run/weft/graph"
)

// Difference is the first place where two results are not the same.
type Difference struct {
	Byte int64  // its offset within the slice
	A, B string // what is there
}

// Compare returns the first difference between two results of a task for one slice of data, nil
// if they agree. From devices that are alike, and where the data says so, they must be the same
// bytes; else numbers may differ by the data's tolerance, in parts of the largest magnitude of
// the slice. Numbers that are both not a number agree, whatever their bits.
func Compare(d *graph.Data, alike bool, a, b []byte) *Difference {
	if bytes.Equal(a, b) {
		return nil
	}
	if len(a) != len(b) {
		return &Difference{int64(min(len(a), len(b))), fmt.Sprintf("%d bytes", len(a)), fmt.Sprintf("%d bytes", len(b))}
	}
	size := int(d.Elem.Size())
	at := reader(d.Elem)
	if at == nil || len(a)%size != 0 {
		return firstByte(a, b, 0)
	}
	slack, tolerant := 0.0, !alike && d.Tolerance > 0
	if tolerant {
		for i := 0; i < len(a); i += size {
			for _, x := range []float64{at(a[i:]), at(b[i:])} {
				if x = math.Abs(x); x > slack && !math.IsInf(x, 0) {
					slack = x
				}
			}
		}
		slack *= d.Tolerance
	}
	for i := 0; i < len(a); i += size {
		if bytes.Equal(a[i:i+size], b[i:i+size]) {
			continue
		}
		x, y := at(a[i:]), at(b[i:])
		switch {
		case math.IsNaN(x) && math.IsNaN(y):
		case tolerant && math.Abs(x-y) <= slack: // in a slice of zeros too, which may have either sign
		case tolerant:
			return &Difference{int64(i), fmt.Sprint(x), fmt.Sprint(y)}
		default:
			return firstByte(a[i:i+size], b[i:i+size], int64(i))
		}
	}
	return nil
}

// firstByte finds the first byte that differs; from is the offset of the slices.
func firstByte(a, b []byte, from int64) *Difference {
	for i := range a {
		if a[i] != b[i] {
			return &Difference{from + int64(i), fmt.Sprintf("0x%02x", a[i]), fmt.Sprintf("0x%02x", b[i])}
		}
	}
	return nil
}

// reader returns the function that reads a number of a floating-point type, nil for others.
func reader(e graph.Elem) func([]byte) float64 {
	switch e {
	case graph.F2:
		return func(b []byte) float64 { return half(binary.NativeEndian.Uint16(b)) }
	case graph.F4:
		return func(b []byte) float64 { return float64(math.Float32frombits(binary.NativeEndian.Uint32(b))) }
	case graph.F8:
		return func(b []byte) float64 { return math.Float64frombits(binary.NativeEndian.Uint64(b)) }
	}
	return nil
}

// half is the value of an IEEE number of half precision.
func half(h uint16) float64 {
	sign, exp, frac := 1.0, int(h>>10&31), float64(h&1023)
	if h>>15 == 1 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac > 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}
