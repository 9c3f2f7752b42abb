package model

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// ErrArray is wrapped by errors about files that hold no array, or one of an unsupported
// kind.
var ErrArray = errors.New("bad array")

// Array is numbers of one type in C order: the last dimension varies fastest. An array
// whose Elem is empty is bytes that nothing is known of.
type Array struct {
	Elem  graph.Elem
	Shape []int64 // empty for a single number
	Bytes []byte  // little-endian, aligned for the elements
}

// Element lists the Go types of the elements of an array. Go has no float16; its bits are
// bound as uint16.
type Element interface {
	~float32 | ~float64 | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~bool
}

// elemOf is the type of T's values.
func elemOf[T Element]() graph.Elem {
	e, ok := graph.ElemOf(reflect.TypeFor[T]().Kind().String())
	if !ok {
		panic("model: no element type of " + reflect.TypeFor[T]().String())
	}
	return e
}

// takes reports whether data of a type can be bound to values of another. Data whose type
// is not stated takes all, and float16 is also bound as its bits.
func takes(data, values graph.Elem) bool {
	return data == "" || values == "" || data == values || data == graph.F2 && values == graph.U2
}

// Values views the elements of an array as a slice of T, over the same memory. float16 is
// viewed as uint16.
func Values[T Element](a *Array) ([]T, error) {
	if e := elemOf[T](); a.Elem == "" || !takes(a.Elem, e) {
		return nil, fmt.Errorf("%w: it holds %s, not %s", ErrArray, known(a.Elem), e)
	}
	return weft.View[T](a.Bytes), nil
}

// known is a type in words.
func known(e graph.Elem) string {
	if e == "" {
		return "bytes of no stated type"
	}
	return string(e)
}

// magic begins a file of NumPy's format, which numpy.lib.format documents: magic, version,
// length of the header, header, elements. The header is a dictionary as Python writes it.
const magic = "\x93NUMPY"

// maxHeader is the longest header that is read, in bytes. NumPy refuses longer ones than
// 10,000, and one of 64 dimensions has less than 2,000.
const maxHeader = 10_000

// maxBefore is the most bytes before the elements of an array.
const maxBefore int64 = int64(len(magic)) + 6 + maxHeader

// maxDims is the most dimensions, as many as NumPy 2 has.
const maxDims = 64

// ParseNPY reads an array in NumPy's format, of version 1.0, 2.0 or 3.0. The array shares
// memory with src where that is aligned. Arrays of Python objects, records, text, dates
// and complex numbers are refused, and so are those in Fortran order or big-endian.
func ParseNPY(src []byte) (*Array, error) {
	a, rest, err := parseHeader(src)
	if err != nil {
		return nil, err
	}
	bytes, _ := a.Elem.Bytes(a.Shape)
	if int64(len(rest)) != bytes {
		return nil, fmt.Errorf("%w: %s in the shape %v take %d bytes, and there are %d", ErrArray, a.Elem, a.Shape, bytes, len(rest))
	}
	a.Bytes = aligned(rest, a.Elem.Size())
	return a, a.check()
}

// check looks for bytes that are no values of the type.
func (a *Array) check() error {
	if a.Elem != graph.B1 {
		return nil
	}
	if i := slices.IndexFunc(a.Bytes, func(b byte) bool { return b > 1 }); i >= 0 {
		return fmt.Errorf("%w: element %d is a bool of the value %d; it must be 0 or 1", ErrArray, i, a.Bytes[i])
	}
	return nil
}

// aligned returns bytes that lie at a multiple of a size, which is a power of two.
func aligned(b []byte, size int64) []byte {
	if len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%uintptr(size) == 0 {
		return b
	}
	return append(make([]byte, 0, len(b)), b...)
}

// parseHeader reads all but the elements, which are the rest.
func parseHeader(src []byte) (a *Array, rest []byte, err error) {
	bad := func(format string, args ...any) (*Array, []byte, error) {
		return nil, nil, fmt.Errorf("%w: "+format, append([]any{ErrArray}, args...)...)
	}
	rest, ok := bytes.CutPrefix(src, []byte(magic))
	if !ok || len(rest) < 2 {
		return bad("no file in NumPy's format: it does not begin with \\x93NUMPY")
	}
	major, minor, rest := rest[0], rest[1], rest[2:]
	width := 4 // of the header's length
	if major == 1 {
		width = 2
	}
	if major < 1 || major > 3 || minor != 0 {
		return bad("version %d.%d of NumPy's format; 1.0, 2.0 and 3.0 are read", major, minor)
	}
	if len(rest) < width {
		return bad("it ends in its header")
	}
	length := int64(binary.LittleEndian.Uint16(rest))
	if width == 4 {
		length = int64(binary.LittleEndian.Uint32(rest))
	}
	switch rest = rest[width:]; {
	case length > maxHeader:
		return bad("a header of %d bytes; %d are the most", length, maxHeader)
	case int64(len(rest)) < length:
		return bad("it ends in its header")
	}
	h := header{rest: string(rest[:length])}
	if a, err = h.array(); err != nil {
		return nil, nil, err
	}
	return a, rest[length:], nil
}

// header is the unread rest of an array's header: a dictionary of three fields, in any
// order, as Python writes it.
type header struct{ rest string }

func (h *header) array() (*Array, error) {
	a := &Array{}
	seen := map[string]bool{}
	if !h.next("{") {
		return nil, h.bad()
	}
	for !h.next("}") {
		name, ok := h.quoted()
		if !ok || seen[name] || !h.next(":") {
			return nil, h.bad()
		}
		seen[name] = true
		var err error
		switch name {
		case "descr":
			a.Elem, err = h.elem()
		case "fortran_order":
			err = h.order()
		case "shape":
			a.Shape, err = h.shape()
		default:
			err = h.bad()
		}
		if err != nil {
			return nil, err
		}
		if !h.next(",") && !strings.HasPrefix(h.rest, "}") {
			return nil, h.bad()
		}
	}
	if strings.Trim(h.rest, " \n") != "" || len(seen) != 3 {
		return nil, h.bad()
	}
	if _, ok := a.Elem.Bytes(a.Shape); !ok {
		return nil, fmt.Errorf("%w: %s in the shape %v are too many", ErrArray, a.Elem, a.Shape)
	}
	return a, nil
}

// bad is the error of a header that is none.
func (h *header) bad() error {
	near := h.rest[:min(len(h.rest), 20)]
	return fmt.Errorf("%w: its header is none of NumPy's, near %q", ErrArray, near)
}

// next takes a token off the front, and the spaces around it.
func (h *header) next(token string) bool {
	rest, ok := strings.CutPrefix(strings.TrimLeft(h.rest, " "), token)
	if ok {
		h.rest = strings.TrimLeft(rest, " ")
	}
	return ok
}

// quoted takes text in quotes off the front.
func (h *header) quoted() (string, bool) {
	for _, quote := range []string{"'", `"`} {
		if h.next(quote) {
			text, rest, ok := strings.Cut(h.rest, quote)
			if !ok || strings.Contains(text, `\`) {
				return "", false
			}
			h.rest = strings.TrimLeft(rest, " ")
			return text, true
		}
	}
	return "", false
}

// elem reads the type of the elements.
func (h *header) elem() (graph.Elem, error) {
	if strings.HasPrefix(h.rest, "[") || strings.HasPrefix(h.rest, "(") {
		return "", fmt.Errorf("%w: it holds records; save each field as an array of its own", ErrArray)
	}
	descr, ok := h.quoted()
	if !ok || len(descr) < 2 {
		return "", h.bad()
	}
	order, short := descr[0], descr[1:]
	e, ok := graph.ElemOf(short)
	switch {
	case strings.HasPrefix(short, "O"):
		return "", fmt.Errorf("%w: it holds Python objects, pickled, which are not read; save numbers", ErrArray)
	case !ok || short != e.Short():
		return "", fmt.Errorf("%w: it holds elements of type %q; f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 are read", ErrArray, descr)
	case order == '>' && e.Size() > 1:
		return "", fmt.Errorf("%w: it is big-endian; save x.astype(%q)", ErrArray, "<"+short)
	case order != '<' && e.Size() > 1 || !strings.ContainsRune("<>|=", rune(order)):
		return "", h.bad()
	}
	return e, nil
}

// order reads whether the first dimension varies fastest, which is refused.
func (h *header) order() error {
	switch {
	case h.next("False"):
		return nil
	case h.next("True"):
		return fmt.Errorf("%w: it is in Fortran order; save numpy.ascontiguousarray(x)", ErrArray)
	}
	return h.bad()
}

// shape reads a tuple of sizes.
func (h *header) shape() ([]int64, error) {
	if !h.next("(") {
		return nil, h.bad()
	}
	shape := []int64{}
	for !h.next(")") {
		end := strings.IndexFunc(h.rest, func(r rune) bool { return r < '0' || r > '9' })
		if end < 0 {
			return nil, h.bad()
		}
		n, err := strconv.ParseInt(h.rest[:end], 10, 64)
		if err != nil {
			return nil, h.bad()
		}
		if shape = append(shape, n); len(shape) > maxDims {
			return nil, fmt.Errorf("%w: it has more than %d dimensions", ErrArray, maxDims)
		}
		h.rest = h.rest[end:]
		h.next("L") // as Python 2 wrote it
		// One number in parentheses is no tuple.
		if !h.next(",") && (len(shape) == 1 || !strings.HasPrefix(h.rest, ")")) {
			return nil, h.bad()
		}
	}
	return shape, nil
}

// WriteNPY writes the array in version 1.0 of NumPy's format, its elements at a multiple
// of 64 bytes.
func (a *Array) WriteNPY(w io.Writer) error {
	if bytes, ok := a.Elem.Bytes(a.Shape); !ok || bytes != int64(len(a.Bytes)) || len(a.Shape) > maxDims {
		return fmt.Errorf("%w: %s in the shape %v and %d bytes do not go together", ErrArray, known(a.Elem), a.Shape, len(a.Bytes))
	}
	order := "<"
	if a.Elem.Size() == 1 {
		order = "|"
	}
	var shape strings.Builder
	for i, n := range a.Shape {
		if i > 0 {
			shape.WriteString(" ")
		}
		fmt.Fprintf(&shape, "%d,", n)
	}
	tuple := shape.String()
	if len(a.Shape) > 1 {
		tuple = strings.TrimSuffix(tuple, ",")
	}
	text := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, a.Elem.Short(), tuple)
	const before, line = len(magic) + 4, 64
	text += strings.Repeat(" ", line-1-(before+len(text))%line) + "\n"
	head := append([]byte(magic), 1, 0)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(text)))
	if _, err := w.Write(append(head, text...)); err != nil {
		return err
	}
	_, err := w.Write(a.Bytes)
	return err
}
