package api

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Element is a type of Go that a tensor's elements can have. FP16 has none: its elements
// are the bits, as uint16 (see [Half] and [FromHalf]).
type Element interface {
	bool | uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64
}

// Tensor is a named array as the protocol carries it.
type Tensor struct {
	Name     string
	Datatype string // BOOL, UINT8 to UINT64, INT8 to INT64, FP16, FP32 or FP64
	Shape    []int64
	Data     []byte // elements in C order, little-endian

	region *Region // that Data is in, from offset on; nil for none
	offset int64
}

// ElementSize returns the bytes of an element of a type, 0 if it is none of those that
// tensors have.
func ElementSize(datatype string) int64 {
	switch datatype {
	case "BOOL", "UINT8", "INT8":
		return 1
	case "UINT16", "INT16", "FP16":
		return 2
	case "UINT32", "INT32", "FP32":
		return 4
	case "UINT64", "INT64", "FP64":
		return 8
	}
	return 0
}

// Elements returns the number of elements of a shape. A negative dimension, or a number of
// bytes that does not fit an int64, is an error.
func Elements(shape []int64) (int64, error) {
	n, empty := int64(1), false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		case d == 0:
			empty = true
		case n > math.MaxInt64/8/d:
			return 0, fmt.Errorf("shape %v is too large", shape)
		default:
			n *= d
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}

// NewTensor returns a tensor of values, which are copied. Without a shape it has one
// dimension.
func NewTensor[T Element](name string, values []T, shape ...int64) Tensor {
	if len(shape) == 0 {
		shape = []int64{int64(len(values))}
	}
	data, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		panic("api: " + err.Error()) // every Element has a fixed size
	}
	return Tensor{Name: name, Datatype: datatypeOf[T](), Shape: shape, Data: data}
}

// Values returns a tensor's elements. T must be the type of Go for the tensor's. Without a tensor,
// as for an output that an answer does not have, it is an error.
func Values[T Element](t *Tensor) ([]T, error) {
	if t == nil {
		return nil, fmt.Errorf("there is no tensor to take %s from: the answer has no output of the name that was asked for", datatypeOf[T]())
	}
	if want := datatypeOf[T](); t.Datatype != want && !(t.Datatype == "FP16" && want == "UINT16") {
		return nil, fmt.Errorf("tensor %q is %s and not %s", t.Name, t.Datatype, want)
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	out := make([]T, int64(len(t.Data))/ElementSize(t.Datatype))
	if _, err := binary.Decode(t.Data, binary.LittleEndian, out); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return out, nil
}

// check errs unless the data fits type and shape.
func (t *Tensor) check() error {
	size := ElementSize(t.Datatype)
	if size == 0 {
		return fmt.Errorf("tensor %q: no type %q", t.Name, t.Datatype)
	}
	n, err := Elements(t.Shape)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if int64(len(t.Data)) != n*size {
		return fmt.Errorf("tensor %q of %s %v takes %d bytes and has %d", t.Name, t.Datatype, t.Shape, n*size, len(t.Data))
	}
	return nil
}

func datatypeOf[T Element]() string {
	switch any(*new(T)).(type) {
	case bool:
		return "BOOL"
	case uint8:
		return "UINT8"
	case uint16:
		return "UINT16"
	case uint32:
		return "UINT32"
	case uint64:
		return "UINT64"
	case int8:
		return "INT8"
	case int16:
		return "INT16"
	case int32:
		return "INT32"
	case int64:
		return "INT64"
	case float32:
		return "FP32"
	}
	return "FP64"
}

// ErrNotJSON says that a tensor has elements that JSON has no number for: NaN or an
// infinity. Binary data can carry them.
var ErrNotJSON = errors.New("JSON cannot hold NaN or an infinity; use binary data")

// AppendJSON appends the elements as a flat JSON list.
func (t *Tensor) AppendJSON(dst []byte) ([]byte, error) {
	if err := t.check(); err != nil {
		return dst, err
	}
	le, size := binary.LittleEndian, int(ElementSize(t.Datatype))
	dst = append(dst, '[')
	for at := 0; at < len(t.Data); at += size {
		if at > 0 {
			dst = append(dst, ',')
		}
		b, x := t.Data[at:], math.NaN()
		switch t.Datatype {
		case "BOOL":
			dst = strconv.AppendBool(dst, b[0] != 0)
		case "UINT8":
			dst = strconv.AppendUint(dst, uint64(b[0]), 10)
		case "UINT16":
			dst = strconv.AppendUint(dst, uint64(le.Uint16(b)), 10)
		case "UINT32":
			dst = strconv.AppendUint(dst, uint64(le.Uint32(b)), 10)
		case "UINT64":
			dst = strconv.AppendUint(dst, le.Uint64(b), 10)
		case "INT8":
			dst = strconv.AppendInt(dst, int64(int8(b[0])), 10)
		case "INT16":
			dst = strconv.AppendInt(dst, int64(int16(le.Uint16(b))), 10)
		case "INT32":
			dst = strconv.AppendInt(dst, int64(int32(le.Uint32(b))), 10)
		case "INT64":
			dst = strconv.AppendInt(dst, int64(le.Uint64(b)), 10)
		case "FP16":
			x = float64(FromHalf(le.Uint16(b)))
		case "FP32":
			x = float64(math.Float32frombits(le.Uint32(b)))
		case "FP64":
			x = math.Float64frombits(le.Uint64(b))
		}
		if t.Datatype[0] != 'F' {
			continue
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return dst, fmt.Errorf("tensor %q, element %d: %w", t.Name, at/size, ErrNotJSON)
		}
		dst = appendFloat(dst, x, min(8*size, 64))
	}
	return append(dst, ']'), nil
}

// appendFloat appends the shortest number that reads back as x, of a type of 16, 32 or 64
// bits. A half is written as the float32 that it is.
func appendFloat(dst []byte, x float64, bits int) []byte {
	return strconv.AppendFloat(dst, x, 'g', -1, max(bits, 32))
}

// AppendElement appends the bytes of one element, given as a number or a boolean of JSON. A
// number that the type cannot hold is an error; floats are rounded.
func AppendElement(dst []byte, datatype string, literal []byte) ([]byte, error) {
	// string(literal) is written out in each call: there it takes no memory.
	le := binary.LittleEndian
	bits := int(8 * ElementSize(datatype))
	switch datatype {
	case "BOOL":
		switch string(literal) {
		case "true", "1":
			return append(dst, 1), nil
		case "false", "0":
			return append(dst, 0), nil
		}
		return dst, fmt.Errorf("%s is neither true nor false", literal)
	case "FP16", "FP32", "FP64":
		x, err := strconv.ParseFloat(string(literal), max(bits, 32))
		if err != nil || bits == 16 && math.Abs(x) >= 65520 { // which rounds to an infinity
			return dst, fmt.Errorf("%s is not a number that %s can hold", literal, datatype)
		}
		switch bits {
		case 16:
			if x, err = strconv.ParseFloat(string(literal), 64); err != nil {
				return dst, err
			}
			return le.AppendUint16(dst, Half(x)), nil
		case 32:
			return le.AppendUint32(dst, math.Float32bits(float32(x))), nil
		}
		return le.AppendUint64(dst, math.Float64bits(x)), nil
	case "UINT8", "UINT16", "UINT32", "UINT64":
		n, err := strconv.ParseUint(string(literal), 10, bits)
		if err != nil {
			return dst, fmt.Errorf("%s is not a whole number that %s can hold", literal, datatype)
		}
		return appendBits(dst, n, bits), nil
	case "INT8", "INT16", "INT32", "INT64":
		n, err := strconv.ParseInt(string(literal), 10, bits)
		if err != nil {
			return dst, fmt.Errorf("%s is not a whole number that %s can hold", literal, datatype)
		}
		return appendBits(dst, uint64(n), bits), nil
	}
	return dst, fmt.Errorf("no type %q", datatype)
}

// appendBits appends the lowest bits of n.
func appendBits(dst []byte, n uint64, bits int) []byte {
	for at := 0; at < bits; at += 8 {
		dst = append(dst, byte(n>>at))
	}
	return dst
}

// parse fills the data from a list of JSON, which may be nested.
func (t *Tensor) parse(raw json.RawMessage) error {
	if len(raw) > 0 && raw[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		for _, x := range list {
			if err := t.parse(x); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	t.Data, err = AppendElement(t.Data, t.Datatype, raw)
	return err
}

// Half returns the bits of the half-precision number nearest to x, of two the even one.
func Half(x float64) uint16 {
	sign := uint16(math.Float64bits(x)>>48) & 0x8000
	a := math.Abs(x)
	switch {
	case math.IsNaN(x):
		return sign | 0x7e00
	case a >= 65520: // half way from the largest to the next power of two
		return sign | 0x7c00
	case a < 0x1p-14: // without an exponent: multiples of 2⁻²⁴, and the carry makes the first with one
		return sign | uint16(math.RoundToEven(a*0x1p24))
	}
	frac, exp := math.Frexp(a) // a = frac·2^exp, frac from ½
	m := uint16(math.RoundToEven(frac * 0x1p11))
	return sign | (uint16(exp+14)<<10 + m - 1<<10) // a carry of m goes into the exponent
}

// FromHalf returns the number that the bits of a half-precision number stand for.
func FromHalf(h uint16) float32 {
	exp, frac := int(h>>10&0x1f), float64(h&0x3ff)
	x := math.Ldexp(frac, -24)
	switch {
	case exp == 0x1f && frac != 0:
		return float32(math.NaN())
	case exp == 0x1f:
		x = math.Inf(1)
	case exp > 0:
		x = math.Ldexp(0x400+frac, exp-25)
	}
	if h&0x8000 != 0 {
		x = -x
	}
	return float32(x)
}
