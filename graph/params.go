package graph

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode"
	"unsafe"

	"github.com/weft-run/weft/internal/text"
)

// The parameters of a kernel are one Go structure. Pack makes a step's Params of it,
// Unpacker reads them for a Go kernel, and internal/tools/weftparams writes its declaration into
// sources in CUDA C and GLSL. Fields are
//
//	int      a count or an index: 32 bits without a sign for kernels
//	uint32, int32, float32, uint64, int64, float64
//
// and structures of these, whose fields stand in their place. Numbers are
// little-endian, each at a multiple of its size, and the whole is a multiple of its
// largest field: the layout of C, and of push constants.

// maxCount is the largest value of an int among parameters.
const maxCount int64 = math.MaxUint32

// param is a field of parameters.
type param struct {
	kind reflect.Kind
	from uintptr // where it is in the Go structure
	at   int     // where it is in Params
}

// paramBytes are the sizes of fields in Params.
var paramBytes = map[reflect.Kind]int{
	reflect.Int: 4, reflect.Uint32: 4, reflect.Int32: 4, reflect.Float32: 4,
	reflect.Uint64: 8, reflect.Int64: 8, reflect.Float64: 8,
}

// kinds says in errors what a parameter can be.
const (
	kinds  = "a parameter is " + types
	fields = "use struct{ N int } or the like, each field " + types
	types  = "an int, uint32, int32, float32, uint64, int64 or float64"
)

// paramsOf lays out the fields of a structure and returns the number of bytes that they take.
func paramsOf(t reflect.Type) (params []param, bytes int, err error) {
	if t.Kind() != reflect.Struct {
		return nil, 0, fmt.Errorf("%w: parameters are a structure, not %v: %s", ErrValue, t, fields)
	}
	widest := 1
	var add func(t reflect.Type, from uintptr) error
	add = func(t reflect.Type, from uintptr) error {
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Type.Kind() == reflect.Struct {
				if err := add(f.Type, from+f.Offset); err != nil {
					return err
				}
				continue
			}
			n := paramBytes[f.Type.Kind()]
			if n == 0 {
				return fmt.Errorf("%w: %v.%s is of type %v: %s", ErrValue, t, f.Name, f.Type, kinds)
			}
			bytes = aligned(bytes, n)
			params = append(params, param{f.Type.Kind(), from + f.Offset, bytes})
			bytes += n
			widest = max(widest, n)
		}
		return nil
	}
	err = add(t, 0)
	return params, aligned(bytes, widest), err
}

// aligned is the first multiple of n from at on; n is a power of two.
func aligned(at, n int) int { return (at + n - 1) &^ (n - 1) }

// Pack returns parameters, a structure, as a step's Params. The error wraps ErrValue
// if an int is negative or takes more than 32 bits.
func Pack(params any) ([]byte, error) {
	v := reflect.ValueOf(params)
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: parameters are a structure, not %T: %s", ErrValue, params, fields)
	}
	var few [128]byte // most kernels have fewer
	out, widest, err := appendParams(few[:0], v)
	if err != nil {
		return nil, err
	}
	out = pad(out, widest)
	return append(make([]byte, 0, len(out)), out...), nil
}

// appendParams appends the fields of a structure and returns the size of its largest.
func appendParams(out []byte, v reflect.Value) (_ []byte, widest int, err error) {
	widest = 1
	for i := range v.NumField() {
		f, n := v.Field(i), 4
		switch f.Kind() {
		case reflect.Struct:
			if out, n, err = appendParams(out, f); err != nil {
				return nil, 0, err
			}
		case reflect.Int:
			if f.Int() < 0 || f.Int() > maxCount {
				return nil, 0, fmt.Errorf("%w: %v.%s is %d: an int among parameters is from 0 to %d", ErrValue, v.Type(), v.Type().Field(i).Name, f.Int(), maxCount)
			}
			out = binary.LittleEndian.AppendUint32(pad(out, n), uint32(f.Int()))
		case reflect.Uint32:
			out = binary.LittleEndian.AppendUint32(pad(out, n), uint32(f.Uint()))
		case reflect.Int32:
			out = binary.LittleEndian.AppendUint32(pad(out, n), uint32(f.Int()))
		case reflect.Float32:
			out = binary.LittleEndian.AppendUint32(pad(out, n), math.Float32bits(float32(f.Float())))
		case reflect.Uint64:
			n = 8
			out = binary.LittleEndian.AppendUint64(pad(out, n), f.Uint())
		case reflect.Int64:
			n = 8
			out = binary.LittleEndian.AppendUint64(pad(out, n), uint64(f.Int()))
		case reflect.Float64:
			n = 8
			out = binary.LittleEndian.AppendUint64(pad(out, n), math.Float64bits(f.Float()))
		default:
			return nil, 0, fmt.Errorf("%w: %v.%s is of type %v: %s", ErrValue, v.Type(), v.Type().Field(i).Name, f.Type(), kinds)
		}
		widest = max(widest, n)
	}
	return out, widest, nil
}

// pad appends zeros up to a multiple of n.
func pad(out []byte, n int) []byte {
	for len(out) < aligned(len(out), n) {
		out = append(out, 0)
	}
	return out
}

// ErrParams says that a step's Params are not as long as those its kernel takes.
var ErrParams = errors.New("wrong length of parameters")

// CheckParams returns ErrParams with both lengths if they differ.
func CheckParams(takes, given int) error {
	if takes == given {
		return nil
	}
	return fmt.Errorf("%w: it takes %s, given are %d", ErrParams, text.Count(takes, "byte"), given)
}

// Unpacker returns a function that reads what Pack made of a P. Its error wraps
// ErrParams if the bytes are not as many as Pack makes of a P, and ErrValue if Pack
// takes no P.
func Unpacker[P any]() func(params []byte) (P, error) {
	fields, bytes, err := paramsOf(reflect.TypeFor[P]())
	return func(params []byte) (p P, _ error) {
		if err != nil {
			return p, err
		}
		if err := CheckParams(bytes, len(params)); err != nil {
			return p, err
		}
		base := unsafe.Pointer(&p)
		for i := range fields {
			f := &fields[i]
			at, to := params[f.at:], unsafe.Add(base, f.from)
			switch f.kind {
			case reflect.Int:
				*(*int)(to) = int(binary.LittleEndian.Uint32(at))
			case reflect.Uint32, reflect.Int32, reflect.Float32:
				*(*uint32)(to) = binary.LittleEndian.Uint32(at)
			default:
				*(*uint64)(to) = binary.LittleEndian.Uint64(at)
			}
		}
		return p, nil
	}
}

// paramTypes are the types of fields in C.
var paramTypes = map[reflect.Kind]string{
	reflect.Int: "unsigned", reflect.Uint32: "unsigned", reflect.Int32: "int", reflect.Float32: "float",
	reflect.Uint64: "unsigned long long", reflect.Int64: "long long", reflect.Float64: "double",
}

// Declare returns the declaration of a structure of C for parameters, on one line, with the
// layout that Pack gives them. Names of fields become lower case, FirstRow is first_row.
func Declare(name string, params any) (string, error) {
	t := reflect.TypeOf(params)
	if _, _, err := paramsOf(t); err != nil {
		return "", err
	}
	var out strings.Builder
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for f := range t.Fields() {
			if f.Type.Kind() == reflect.Struct {
				add(f.Type)
				continue
			}
			fmt.Fprintf(&out, " %s ", paramTypes[f.Type.Kind()])
			before := 'A'
			for _, r := range f.Name {
				if unicode.IsUpper(r) && !unicode.IsUpper(before) {
					out.WriteByte('_')
				}
				out.WriteRune(unicode.ToLower(r))
				before = r
			}
			out.WriteByte(';')
		}
	}
	add(t)
	return fmt.Sprintf("struct %s {%s };", name, out.String()), nil
}

// With returns the step with parameters, a structure that Pack takes. Build reports parameters
// that Pack refused.
func (s Step) With(params any) Step {
	s.Params, s.wrong = Pack(params)
	return s
}
