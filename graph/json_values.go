package graph

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/internal/text"
)

// Readers of single values. Each fails with what was expected.

func (d *decoder) wrong(f text.Field, want string) {
	d.fail(f.Value.Line, "%s must be %s, not %s", f.Name, want, f.Value)
}

func (d *decoder) unknown(f text.Field, of, known string) {
	d.fail(f.Line, "unknown field %q of %s; known: %s", f.Name, of, known)
}

func (d *decoder) object(f text.Field) []text.Field {
	fields, ok := f.Value.V.([]text.Field)
	if !ok {
		d.wrong(f, "an object")
	}
	for i, f := range fields {
		// Objects have few fields, except in broken input, where the first
		// unknown one ends the search.
		if slices.ContainsFunc(fields[:min(i, 32)], func(g text.Field) bool { return g.Name == f.Name }) {
			d.fail(f.Line, "field %q is given twice", f.Name)
		}
	}
	return fields
}

func (d *decoder) list(f text.Field) []text.Value {
	list, ok := f.Value.V.([]text.Value)
	if !ok {
		d.wrong(f, "a list")
	}
	return list
}

func (d *decoder) text(f text.Field) string {
	s, ok := f.Value.V.(string)
	if !ok {
		d.wrong(f, "text")
	}
	return s
}

func (d *decoder) flag(f text.Field) bool {
	b, ok := f.Value.V.(bool)
	if !ok {
		d.wrong(f, "true or false")
	}
	return b
}

func (d *decoder) choice(f text.Field, names []string) int {
	i := slices.Index(names, d.text(f))
	if i < 0 {
		d.wrong(f, "one of "+strings.Join(names, ", "))
	}
	return i
}

func (d *decoder) number(f text.Field) float64 {
	s, _ := f.Value.V.(json.Number)
	x, err := strconv.ParseFloat(string(s), 64)
	if err != nil {
		d.wrong(f, "a number")
	}
	return x
}

func (d *decoder) integer(f text.Field, lo, hi int64) int64 {
	s, _ := f.Value.V.(json.Number)
	i, err := strconv.ParseInt(string(s), 10, 64)
	if err != nil { // 8e6 is a whole number too
		x, err := strconv.ParseFloat(string(s), 64)
		if err != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			d.wrong(f, "a whole number")
		}
		i = int64(x)
	}
	if i < lo || i > hi {
		d.wrong(f, fmt.Sprintf("from %d to %d", lo, hi))
	}
	return i
}

func (d *decoder) size(f text.Field) int64 {
	s, ok := f.Value.V.(string)
	if !ok {
		if _, ok := f.Value.V.(json.Number); !ok {
			d.wrong(f, `a number or a size such as "8MB"`)
		}
		return d.integer(f, math.MinInt64, math.MaxInt64)
	}
	n, err := text.ParseSize(s)
	if err != nil {
		d.fail(f.Value.Line, "%s: %v", f.Name, err)
	}
	return n
}

func (d *decoder) duration(f text.Field) time.Duration {
	t, err := time.ParseDuration(d.text(f))
	if err != nil {
		d.wrong(f, `a duration such as "5ms"`)
	}
	return t
}

func (d *decoder) base64(f text.Field) []byte {
	b, err := base64.StdEncoding.DecodeString(d.text(f))
	if err != nil {
		d.wrong(f, "base64")
	}
	if len(b) == 0 {
		return nil
	}
	return b
}

// dims reads a number or a list of up to three; missing dimensions are 1.
func (d *decoder) dims(f text.Field) [3]uint32 {
	dims := [3]uint32{1, 1, 1}
	list, ok := f.Value.V.([]text.Value)
	if !ok {
		list = []text.Value{f.Value}
	}
	if len(list) == 0 || len(list) > 3 {
		d.wrong(f, "a number or a list of up to three")
		return dims
	}
	for i, n := range list {
		dims[i] = uint32(d.integer(text.Field{Name: f.Name, Line: n.Line, Value: n}, 0, math.MaxUint32))
	}
	return dims
}

// per reads dimensions in which "all" stands for All.
func (d *decoder) per(f text.Field) [3]uint32 {
	whole := func(v *text.Value) bool {
		if v.V != allDimension {
			return false
		}
		v.V = json.Number(strconv.FormatUint(uint64(All), 10))
		return true
	}
	if list, ok := f.Value.V.([]text.Value); ok {
		list = slices.Clone(list)
		for i := range list {
			whole(&list[i])
		}
		f.Value.V = list
	} else {
		whole(&f.Value)
	}
	return d.dims(f)
}

// allDimension stands for All in JSON.
const allDimension = "all"

// shared reads a size of shared memory, which is an int.
func (d *decoder) shared(f text.Field) int {
	n := d.size(f)
	if n > math.MaxInt32 {
		d.wrong(f, fmt.Sprintf("at most %d", math.MaxInt32))
		return 0
	}
	return int(n)
}

// elem reads the type of elements.
func (d *decoder) elem(f text.Field) Elem {
	e, ok := ElemOf(d.text(f))
	if !ok {
		d.wrong(f, "one of "+strings.Join(elemNames(), ", "))
	}
	return e
}

// params reads the parameters of a step: base64, or a list of numbers with their types,
// which are laid out as Pack lays out a structure of them.
func (d *decoder) params(f text.Field) []byte {
	if _, ok := f.Value.V.(string); ok {
		return d.base64(f)
	}
	list, ok := f.Value.V.([]text.Value)
	if !ok {
		d.wrong(f, "base64 or a list such as [{\"int\": 64}, {\"float32\": 0.5}]")
	}
	var out []byte
	widest := 1
	for _, n := range list {
		fields := d.object(text.Field{Name: "a parameter", Value: n})
		if len(fields) != 1 {
			d.fail(n.Line, "a parameter has one field, its type, as {\"float32\": 0.5}")
		}
		for _, f := range fields {
			numbers, ok := f.Value.V.([]text.Value)
			if !ok {
				numbers = []text.Value{f.Value}
			}
			for _, n := range numbers {
				var size int
				out, size = d.param(out, text.Field{Name: f.Name, Line: n.Line, Value: n})
				widest = max(widest, size)
			}
		}
	}
	if out = pad(out, widest); len(out) == 0 {
		return nil
	}
	return out
}

// param appends a number of the type that its field is called by, and returns its size.
func (d *decoder) param(out []byte, f text.Field) ([]byte, int) {
	little := binary.LittleEndian
	switch f.Name {
	case "int", "uint32":
		return little.AppendUint32(pad(out, 4), uint32(d.integer(f, 0, maxCount))), 4
	case "int32":
		return little.AppendUint32(pad(out, 4), uint32(d.integer(f, math.MinInt32, math.MaxInt32))), 4
	case "float32":
		x := d.number(f)
		if math.Abs(x) > math.MaxFloat32 {
			d.wrong(f, "within the range of a float32")
		}
		return little.AppendUint32(pad(out, 4), math.Float32bits(float32(x))), 4
	case "uint64":
		s, _ := f.Value.V.(json.Number)
		if u, err := strconv.ParseUint(string(s), 10, 64); err == nil {
			return little.AppendUint64(pad(out, 8), u), 8
		}
		return little.AppendUint64(pad(out, 8), uint64(d.integer(f, 0, math.MaxInt64))), 8
	case "int64":
		return little.AppendUint64(pad(out, 8), uint64(d.integer(f, math.MinInt64, math.MaxInt64))), 8
	case "float64":
		return little.AppendUint64(pad(out, 8), math.Float64bits(d.number(f))), 8
	}
	d.fail(f.Line, "unknown type %q of a parameter: %s", f.Name, kinds)
	return out, 1
}
