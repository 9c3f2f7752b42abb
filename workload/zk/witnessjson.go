package zk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
)

// witnessReader reads the values of variables from JSON, in one pass and without copies of them.
// It takes what encoding/json takes, but for names that are there twice.
type witnessReader struct {
	text   []byte
	next   int
	at     map[string]int // place of a variable by its name
	names  []string
	values []fr.Element
	seen   []bool
	name   []byte // of the value that is read
	depth  int
}

// newReader returns a reader of the values of variables.
func newReader(public, secret []string, text []byte) *witnessReader {
	names := slices.Concat(public, secret)
	r := &witnessReader{text: text, at: make(map[string]int, len(names)), values: make([]fr.Element, len(names)), seen: make([]bool, len(names)), names: names}
	for i, name := range names {
		r.at[name] = i
	}
	return r
}

// maxNesting is the most objects and arrays that a value is in.
const maxNesting = 16

// errNoObject is the error for a text that is not an object.
var errNoObject = errors.New("it must be a JSON object with a value for each variable")

// read reads the whole text.
func (r *witnessReader) read() error {
	switch r.peek() {
	case 0:
		if r.next == len(r.text) {
			return errors.New("it is empty; it must be a JSON object with a value for each variable")
		}
		return r.bad()
	case '{':
	default:
		return errNoObject
	}
	if err := r.object(); err != nil {
		return err
	}
	if r.peek(); r.next < len(r.text) {
		return errors.New("there is more than one JSON object")
	}
	return nil
}

// object reads an object with the values of all variables.
func (r *witnessReader) object() error {
	clear(r.seen)
	if err := r.value(); err != nil {
		return err
	}
	if i := slices.Index(r.seen, false); i >= 0 {
		return fmt.Errorf("it has no value for %s", r.names[i])
	}
	return nil
}

// peek skips white space and returns the next byte, 0 at the end.
func (r *witnessReader) peek() byte {
	for ; r.next < len(r.text); r.next++ {
		switch c := r.text[r.next]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// bad says where the text is no JSON.
func (r *witnessReader) bad() error { return fmt.Errorf("it is no JSON from byte %d on", r.next) }

// value reads a value, with those that are in it.
func (r *witnessReader) value() error {
	switch r.peek() {
	case '{':
		return r.inside('}', func(int) ([]byte, error) {
			key, err := r.key()
			if err == nil && r.peek() != ':' {
				err = r.bad()
			}
			r.next++
			return key, err
		})
	case '[':
		var number [20]byte
		return r.inside(']', func(i int) ([]byte, error) { return strconv.AppendInt(number[:0], int64(i), 10), nil })
	}
	return r.scalar()
}

// inside reads the values of an object or an array up to its end. part reads what the name of a value
// ends with.
func (r *witnessReader) inside(end byte, part func(i int) ([]byte, error)) error {
	if r.depth++; r.depth > maxNesting {
		return fmt.Errorf("%s is nested more than %d deep", shortName(r.name), maxNesting)
	}
	r.next++
	outer := len(r.name)
	for i := 0; r.peek() != end; i++ {
		if i > 0 {
			if r.peek() != ',' {
				return r.bad()
			}
			if r.next++; r.peek() == end {
				return r.bad()
			}
		}
		p, err := part(i)
		if err != nil {
			return err
		}
		if outer > 0 {
			r.name = append(r.name, '_')
		}
		r.name = append(r.name, p...)
		if err := r.value(); err != nil {
			return err
		}
		r.name = r.name[:outer]
	}
	r.next++
	r.depth--
	return nil
}

// quoted reads a string and returns the text between its quotes, as it is written.
func (r *witnessReader) quoted() ([]byte, error) {
	if r.peek() != '"' {
		return nil, r.bad()
	}
	begin := r.next + 1
	for i := begin; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			r.next = i + 1
			return r.text[begin:i], nil
		case c == '\\':
			i++
		case c < ' ':
			r.next = i
			return nil, r.bad()
		}
	}
	r.next = len(r.text)
	return nil, r.bad()
}

// key reads the name of a value.
func (r *witnessReader) key() ([]byte, error) {
	at := r.next
	raw, err := r.quoted()
	if err != nil || bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return raw, err
	}
	var s string
	if !utf8.Valid(raw) || json.Unmarshal(r.text[r.next-len(raw)-2:r.next], &s) != nil {
		r.next = at
		return nil, r.bad()
	}
	return []byte(s), nil
}

// scalar reads a number, maybe in quotes, as the value of the variable that has the name.
func (r *witnessReader) scalar() error {
	base, digits := uint64(10), []byte(nil)
	if r.peek() == '"' {
		var err error
		if digits, err = r.quoted(); err != nil {
			return err
		}
		if bytes.HasPrefix(digits, []byte("0x")) {
			base, digits = 16, digits[2:]
		}
	} else {
		begin := r.next
		for r.next < len(r.text) && !bytes.ContainsRune([]byte(" \t\n\r,]}:"), rune(r.text[r.next])) {
			r.next++
		}
		digits = r.text[begin:r.next]
		if len(digits) == 0 || len(digits) <= maxDigits && !json.Valid(digits) || len(digits) > 1 && digits[0] == '0' && digits[1] != '.' {
			r.next = begin
			return r.bad()
		}
	}
	i, ok := r.at[string(r.name)]
	switch {
	case !ok:
		return fmt.Errorf("it has a value for %s, which is not one of %s", shortName(r.name), some(r.names))
	case r.seen[i]:
		return fmt.Errorf("%s has two values", r.name)
	}
	r.seen[i] = true
	if err := parseScalar(digits, base, &r.values[i]); err != nil {
		return fmt.Errorf("%s %w", r.name, err)
	}
	return nil
}

// shortName is a name that a text has, for an error.
func shortName(name []byte) string {
	const most = 64
	if len(name) > most {
		return string(bytes.ToValidUTF8(name[:most], nil)) + "…"
	}
	return string(name)
}

// maxDigits is more than a scalar has.
const maxDigits = 80

var errNoNumber = errors.New("must be a whole number from 0 on, as 5, \"5\" or \"0x5\"")

// parseScalar reads the digits of a scalar. Errors do not say them.
func parseScalar(digits []byte, base uint64, to *fr.Element) error {
	if len(digits) == 0 {
		return errNoNumber
	}
	if len(digits) > maxDigits {
		return errors.New("must be a whole number below the order of the group")
	}
	var words [scalarWords]uint64 // the least first
	defer clear(words[:])
	large := false
	for _, c := range digits {
		d := uint64(bytes.IndexByte([]byte("0123456789abcdef"), c|0x20))
		if c < '0' || d >= base {
			return errNoNumber
		}
		for i := range words {
			hi, lo := bits.Mul64(words[i], base)
			var carry uint64
			words[i], carry = bits.Add64(lo, d, 0)
			d = hi + carry
		}
		large = large || d > 0
	}
	for i := scalarWords - 1; i >= 0 && !large; i-- {
		if q := uint64(modulus.Bits()[i]); words[i] != q {
			large = words[i] > q
			break
		} else if i == 0 {
			large = true
		}
	}
	if large {
		return fmt.Errorf("is not below the order of the group, %v", modulus)
	}
	var text [scalarBytes]byte
	defer clear(text[:])
	for i, w := range words {
		for j := range 8 {
			text[scalarBytes-1-8*i-j] = byte(w >> (8 * j))
		}
	}
	return to.SetBytesCanonical(text[:])
}
