package graph

import (
	"math"
	"slices"
)

// Elem is the type of the elements of data, by its name. The constants have the short
// names of NumPy, which count bytes.
type Elem string

const (
	F2 Elem = "float16" // IEEE half precision
	F4 Elem = "float32" // IEEE single precision
	F8 Elem = "float64" // IEEE double precision
	I1 Elem = "int8"    // 8 bits with a sign
	I2 Elem = "int16"   // 16 bits with a sign
	I4 Elem = "int32"   // 32 bits with a sign
	I8 Elem = "int64"   // 64 bits with a sign
	U1 Elem = "uint8"   // 8 bits without a sign
	U2 Elem = "uint16"  // 16 bits without a sign
	U4 Elem = "uint32"  // 32 bits without a sign
	U8 Elem = "uint64"  // 64 bits without a sign
	B1 Elem = "bool"    // a byte that is 0 or 1
)

// elemName is a type with its short name, which ends with its size.
type elemName struct {
	elem  Elem
	short string
}

var elems = []elemName{
	{F2, "f2"}, {F4, "f4"}, {F8, "f8"}, {I1, "i1"}, {I2, "i2"}, {I4, "i4"}, {I8, "i8"},
	{U1, "u1"}, {U2, "u2"}, {U4, "u4"}, {U8, "u8"}, {B1, "b1"},
}

// ElemOf returns the type with a name, such as float32 or f4.
func ElemOf(name string) (Elem, bool) {
	for _, e := range elems {
		if name == string(e.elem) || name == e.short {
			return e.elem, true
		}
	}
	return "", false
}

// Short returns the short name, such as f4, or "" if e is not a type.
func (e Elem) Short() string {
	for _, x := range elems {
		if x.elem == e {
			return x.short
		}
	}
	return ""
}

// Size returns the size of an element in bytes, or 0 if e is not a type.
func (e Elem) Size() int64 {
	short := e.Short()
	if short == "" {
		return 0
	}
	return int64(short[1] - '0')
}

func elemNames() (names []string) {
	for _, e := range elems {
		names = append(names, string(e.elem))
	}
	return names
}

// Bytes returns the number of bytes that elements of the type in a shape take. ok is false if the
// type is none, if a dimension is negative and if they are more than an int64 counts.
func (e Elem) Bytes(shape []int64) (n int64, ok bool) {
	if n = e.Size(); n == 0 {
		return 0, false
	}
	none := slices.Contains(shape, 0)
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, false
		case none: // whatever the others are
		case n > math.MaxInt64/d:
			return 0, false
		default:
			n *= d
		}
	}
	if none {
		return 0, true
	}
	return n, true
}
