package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Value is a JSON value that knows its line, so that mistakes in what a file
// means can be reported as precisely as mistakes in how it is written.
type Value struct {
	Line int // from 1, where the value begins
	V    any // string, json.Number, bool, nil, []Field or []Value
}

// Field is a field of an object. Fields keep the order of the file, and one that
// is there twice is there twice.
type Field struct {
	Name  string
	Line  int
	Value Value
}

// String renders a value for an error message, shortened.
func (v Value) String() string {
	const most = 40 // characters, which leaves room in a line of 80 for what is wrong
	switch x := v.V.(type) {
	case nil:
		return "null"
	case []Field:
		return "an object"
	case []Value:
		return "a list"
	case string:
		if r := []rune(x); len(r) > most {
			x = string(r[:most]) + "…"
		}
		return fmt.Sprintf("%q", x)
	default:
		s := fmt.Sprint(x)
		return s[:min(len(s), most)]
	}
}

// ParseJSON reads src into a tree. Where src is no JSON it returns the line that
// is wrong.
func ParseJSON(src []byte) (v Value, line int, err error) {
	// An end that comes too early is reported where the text ends.
	src = bytes.TrimRight(src, "\r\n\t ")
	// The whole is checked first, so that reading tokens below cannot fail.
	var whole json.RawMessage
	if err := json.Unmarshal(src, &whole); err != nil {
		at := len(src)
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = min(at, int(syntax.Offset))
		}
		before := src[:max(at-1, 0)] // the offset is past the byte that is wrong
		return Value{}, 1 + bytes.Count(before, []byte("\n")), fmt.Errorf("not JSON: %w", err)
	}
	p := parser{src: src, tokens: json.NewDecoder(bytes.NewReader(src)), line: 1}
	p.tokens.UseNumber()
	return p.value(p.next()), 0, nil
}

type parser struct {
	src    []byte
	tokens *json.Decoder
	at     int // line is that of src[at]
	line   int
}

// next returns the next token; ParseJSON has checked that there is one.
func (p *parser) next() json.Token {
	t, err := p.tokens.Token()
	if err != nil {
		panic("text: json.Unmarshal accepted what json.Decoder does not: " + err.Error())
	}
	end := int(p.tokens.InputOffset())
	p.line += bytes.Count(p.src[p.at:end], []byte("\n"))
	p.at = end
	return t
}

// value reads the value that starts with t.
func (p *parser) value(t json.Token) Value {
	v := Value{Line: p.line, V: t}
	switch t {
	case json.Delim('{'):
		fields := []Field{}
		for p.tokens.More() {
			name, _ := p.next().(string)
			f := Field{Name: name, Line: p.line}
			f.Value = p.value(p.next())
			fields = append(fields, f)
		}
		p.next()
		v.V = fields
	case json.Delim('['):
		list := []Value{}
		for p.tokens.More() {
			list = append(list, p.value(p.next()))
		}
		p.next()
		v.V = list
	}
	return v
}
