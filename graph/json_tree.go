package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// node is a JSON value that knows its line, so that mistakes in what the file
// means can be reported as precisely as mistakes in how it is written.
type node struct {
	line int
	v    any // string, json.Number, bool, nil, []field or []node
}

type field struct {
	key  string
	line int
	val  node
}

// String renders a value for an error message, shortened.
func (n node) String() string {
	switch v := n.v.(type) {
	case nil:
		return "null"
	case []field:
		return "an object"
	case []node:
		return "a list"
	case string:
		if r := []rune(v); len(r) > 40 {
			v = string(r[:40]) + "…"
		}
		return fmt.Sprintf("%q", v)
	default:
		s := fmt.Sprint(v)
		return s[:min(len(s), 40)]
	}
}

// parseTree checks all of src and returns its tree.
func parseTree(src []byte) (node, error) {
	var whole json.RawMessage
	if err := json.Unmarshal(src, &whole); err != nil {
		line := 1 + bytes.Count(src, []byte("\n"))
		if at := (*json.SyntaxError)(nil); errors.As(err, &at) {
			end := min(max(int(at.Offset)-1, 0), len(src))
			line = 1 + bytes.Count(src[:end], []byte("\n"))
		}
		return node{}, &SyntaxError{Line: line, Reason: err.Error()}
	}
	p := treeParser{src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1}
	p.dec.UseNumber()
	return p.value(p.token()), nil
}

type treeParser struct {
	src  []byte
	dec  *json.Decoder
	at   int // line is that of src[at]
	line int
}

// token returns the next token; parseTree has checked that there is one.
func (p *treeParser) token() json.Token {
	t, err := p.dec.Token()
	if err != nil {
		panic("graph: valid JSON has no token: " + err.Error())
	}
	end := int(p.dec.InputOffset())
	p.line += bytes.Count(p.src[p.at:end], []byte("\n"))
	p.at = end
	return t
}

// value reads the value that starts with t.
func (p *treeParser) value(t json.Token) node {
	n := node{line: p.line, v: t}
	switch t {
	case json.Delim('{'):
		fields := []field{}
		for p.dec.More() {
			key, _ := p.token().(string)
			f := field{key: key, line: p.line}
			f.val = p.value(p.token())
			fields = append(fields, f)
		}
		p.token()
		n.v = fields
	case json.Delim('['):
		list := []node{}
		for p.dec.More() {
			list = append(list, p.value(p.token()))
		}
		p.token()
		n.v = list
	}
	return n
}
