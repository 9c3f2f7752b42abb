package serve

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth is the largest depth of nested JSON: tensors have few dimensions.
const maxDepth = 32

// reader reads JSON in one pass, strictly: one value and nothing after it, no key twice,
// no more than maxDepth levels, valid UTF-8. Its methods return what is wrong and where.
// What it accepts encoding/json accepts too, with the same meaning.
type reader struct {
	src   []byte
	at    int
	depth int
	hold  *hold // for tensors; nil for any
}

// syntaxError says where in a body the JSON is wrong.
type syntaxError struct {
	at   int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("JSON, byte %d: %s", e.at, e.what) }

func (r *reader) errorf(format string, args ...any) error {
	return &syntaxError{r.at, fmt.Sprintf(format, args...)}
}

// peek skips white space and returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	for r.at < len(r.src) {
		switch c := r.src[r.at]; c {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return c
		}
	}
	return 0
}

// take skips white space and one byte, which must be c.
func (r *reader) take(c byte) error {
	if r.peek() != c || r.at == len(r.src) {
		return r.errorf("expected %q, found %s", c, r.found())
	}
	r.at++
	return nil
}

// found is the next byte for an error.
func (r *reader) found() string {
	if r.at >= len(r.src) {
		return "the end"
	}
	return fmt.Sprintf("%q", rune(r.src[r.at]))
}

// end errs unless nothing but white space is left.
func (r *reader) end() error {
	if r.peek() != 0 || r.at < len(r.src) {
		return r.errorf("expected the end, found %s", r.found())
	}
	return nil
}

// enter reads an opening bracket, and reports whether anything stands before the closing one,
// which it reads too.
func (r *reader) enter(open, end byte) (more bool, err error) {
	if err := r.take(open); err != nil {
		return false, err
	}
	if r.depth++; r.depth > maxDepth {
		return false, r.errorf("nested more than %d deep", maxDepth)
	}
	return r.peek() != end || r.leave(), nil
}

// leave reads a closing bracket that is there, and reports that nothing more stands before it.
func (r *reader) leave() (more bool) {
	r.at++
	r.depth--
	return false
}

// next reads a comma, or the closing bracket, and reports which: whether more stands before it.
func (r *reader) next(end byte) (more bool, err error) {
	if r.peek() == end {
		return r.leave(), nil
	}
	return true, r.take(',')
}

// array calls item at every element, which must read it.
func (r *reader) array(item func() error) error {
	more, err := r.enter('[', ']')
	for more && err == nil {
		if err = item(); err == nil {
			more, err = r.next(']')
		}
	}
	return err
}

// maxKeys is the most keys that an object may have. Every key is compared with those
// before it.
const maxKeys = 256

// object calls field at every value, which must read it.
func (r *reader) object(field func(key string) error) error {
	var few [8]string
	seen := few[:0]
	more, err := r.enter('{', '}')
	for more && err == nil {
		r.peek()
		at := r.at
		key, err := r.string()
		if err != nil {
			return err
		}
		if slices.Contains(seen, key) {
			r.at = at
			return r.errorf("key %s is there twice", quoted(key))
		}
		if seen = append(seen, key); len(seen) > maxKeys {
			return r.errorf("more than %d keys in an object", maxKeys)
		}
		if err := r.take(':'); err != nil {
			return err
		}
		if err := field(key); err != nil {
			return err
		}
		if more, err = r.next('}'); err != nil {
			return err
		}
	}
	return err
}

// fields reads an object with known keys, each by its function.
func (r *reader) fields(known map[string]func() error) error {
	return r.object(func(key string) error {
		read, ok := known[key]
		if !ok {
			return r.unknown(key, slices.Collect(maps.Keys(known))...)
		}
		return read()
	})
}

// unknown is the error about a key that an object does not have.
func (r *reader) unknown(key string, known ...string) error {
	slices.Sort(known)
	return r.errorf("no key %s; there is %s", quoted(key), strings.Join(known, ", "))
}

// string reads a string.
func (r *reader) string() (string, error) {
	if err := r.take('"'); err != nil {
		return "", err
	}
	start, plain := r.at, true
	for ; r.at < len(r.src); r.at++ {
		switch c := r.src[r.at]; {
		case c == '"':
			raw := r.src[start:r.at]
			r.at++
			if plain {
				return textOf(raw), nil
			}
			if !utf8.Valid(raw) {
				return "", r.errorf("a string is not UTF-8")
			}
			var s string
			if err := json.Unmarshal(r.src[start-1:r.at], &s); err != nil {
				return "", r.errorf("a string is not one of JSON")
			}
			return s, nil
		case c == '\\':
			plain = false
			r.at++
		case c < ' ':
			return "", r.errorf("a control character in a string")
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	r.at = len(r.src)
	return "", r.errorf("a string does not end")
}

// textOf is a text, without taking memory for those that most requests have.
func textOf(raw []byte) string {
	switch string(raw) {
	case "id":
		return "id"
	case "name":
		return "name"
	case "shape":
		return "shape"
	case "datatype":
		return "datatype"
	case "data":
		return "data"
	case "inputs":
		return "inputs"
	case "outputs":
		return "outputs"
	case "parameters":
		return "parameters"
	case "binary_data":
		return "binary_data"
	case "binary_data_size":
		return "binary_data_size"
	case "binary_data_output":
		return "binary_data_output"
	case "timeout":
		return "timeout"
	case "priority":
		return "priority"
	case "input":
		return "input"
	case "output":
		return "output"
	case "FP16":
		return "FP16"
	case "FP32":
		return "FP32"
	case "FP64":
		return "FP64"
	}
	return string(raw)
}

// number reads a number and returns its text.
func (r *reader) number() ([]byte, error) {
	r.peek()
	start := r.at
	at := start
	if at < len(r.src) && r.src[at] == '-' {
		at++
	}
	ok := false
	if at < len(r.src) && r.src[at] == '0' {
		at, ok = at+1, true
	} else {
		at, ok = digits(r.src, at)
	}
	if ok && at < len(r.src) && r.src[at] == '.' {
		at, ok = digits(r.src, at+1)
	}
	if ok && at < len(r.src) && r.src[at]|0x20 == 'e' {
		if at++; at < len(r.src) && (r.src[at] == '+' || r.src[at] == '-') {
			at++
		}
		at, ok = digits(r.src, at)
	}
	if r.at = at; !ok {
		return nil, r.errorf("expected a number, found %s", r.found())
	}
	return r.src[start:at], nil
}

// digits returns where digits end that stand at a place, and whether there are any.
func digits(src []byte, at int) (end int, any bool) {
	for end = at; end < len(src) && src[end]-'0' <= 9; end++ {
	}
	return end, end > at
}

// raw reads a value of any kind and returns its text.
func (r *reader) raw() ([]byte, error) {
	r.peek()
	start := r.at
	err := r.pass()
	return r.src[start:r.at], err
}

// pass reads a value of any kind, of which nothing is kept. Keys of objects are not compared.
func (r *reader) pass() error {
	switch c := r.peek(); c {
	case '{', '[':
		more, err := r.enter(c, c+2)
		for more && err == nil {
			if c == '{' {
				if err = r.skipString(); err == nil {
					err = r.take(':')
				}
			}
			if err == nil {
				err = r.pass()
			}
			if err == nil {
				more, err = r.next(c + 2)
			}
		}
		return err
	case '"':
		return r.skipString()
	case 't', 'f', 'n':
		_, err := r.word()
		return err
	}
	_, err := r.number()
	return err
}

// skipString reads a string, of which nothing is kept.
func (r *reader) skipString() error {
	if err := r.take('"'); err != nil {
		return err
	}
	for ; r.at < len(r.src); r.at++ {
		switch c := r.src[r.at]; {
		case c == '"':
			r.at++
			return nil
		case c == '\\':
			r.at++
		case c < ' ':
			return r.errorf("a control character in a string")
		}
	}
	r.at = len(r.src)
	return r.errorf("a string does not end")
}

// word reads true, false or null.
func (r *reader) word() (string, error) {
	r.peek()
	for _, w := range []string{"true", "false", "null"} {
		if rest := r.src[r.at:]; len(rest) >= len(w) && string(rest[:len(w)]) == w {
			r.at += len(w)
			return w, nil
		}
	}
	return "", r.errorf("expected a value, found %s", r.found())
}

// scalar reads a text, a number (as json.Number), true or false.
func (r *reader) scalar() (any, error) {
	switch c := r.peek(); {
	case c == '"':
		return r.string()
	case c == '-' || c-'0' <= 9:
		n, err := r.number()
		return json.Number(n), err
	case c == '{' || c == '[':
		return nil, r.errorf("expected a text, a number, true or false")
	}
	w, err := r.word()
	if err == nil && w == "null" {
		return nil, r.errorf("expected a text, a number, true or false, found null")
	}
	return w == "true", err
}

// boolean reads true or false.
func (r *reader) boolean() (bool, error) {
	v, err := r.scalar()
	b, ok := v.(bool)
	if err == nil && !ok {
		err = r.errorf("expected true or false")
	}
	return b, err
}

// maxSafe is the largest whole number that any reader of JSON keeps.
const maxSafe = 1<<53 - 1

// integer reads a whole number within bounds.
func (r *reader) integer(least, most int64) (int64, error) {
	raw, err := r.number()
	if err != nil {
		return 0, err
	}
	n, err := json.Number(raw).Int64()
	if err != nil || n < least || n > most {
		return 0, r.errorf("%s is not a whole number from %d to %d", short(raw), least, most)
	}
	return n, nil
}

// quoted and short make what a client wrote part of an error, of bounded length.
func quoted(s string) string { return fmt.Sprintf("%q", short(s)) }

func short[T string | []byte](s T) string {
	const most = 64
	if len(s) <= most {
		return string(s)
	}
	return strings.ToValidUTF8(string(s[:most]), "") + "…"
}
