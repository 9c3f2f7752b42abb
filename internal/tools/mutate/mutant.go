package main

import (
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// mutant is a small error planted into a file: the bytes from From to To become New.
type mutant struct {
	File     string `json:"file"` // below the root of the module
	Line     int    `json:"line"`
	From, To int    `json:"-"`
	New      string `json:"-"`
	Kind     string `json:"kind"`
	What     string `json:"what"` // what was changed into what, in a line
	Key      string `json:"key"`  // names the mutant and the text it was made for
}

// Kinds of mutants.
const (
	negate   = "negate"   // a condition becomes its opposite
	operator = "operator" // an operator becomes a similar one
	constant = "constant" // a whole number becomes one more or less
	remove   = "remove"   // a statement goes
	result   = "result"   // a function returns something else
	pattern  = "pattern"  // one of a list from outside
)

// similar are the operators that operators become.
var similar = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GTR}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LSS}, token.GEQ: {token.GTR, token.LSS},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND}, token.AND: {token.OR}, token.OR: {token.AND},
	token.SHL: {token.SHR}, token.SHR: {token.SHL}, token.AND_NOT: {token.AND},
}

// changes collects the mutants of a file.
type changes struct {
	name  string
	src   []byte
	files *token.FileSet
	sum   [sha256.Size]byte
	out   []mutant
}

// mutants returns every mutant of a file, in the order of the text. Some do not
// compile, for nothing is known about types.
func mutants(name string, src []byte) ([]mutant, error) {
	c := &changes{name: name, src: src, files: token.NewFileSet(), sum: sha256.Sum256(src)}
	f, err := parser.ParseFile(c.files, name, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || words(fn) {
			continue
		}
		c.body(fn.Type, fn.Body)
	}
	slices.SortStableFunc(c.out, func(a, b mutant) int { return a.From - b.From })
	return c.out, nil
}

// words reports whether a function only makes text for people.
func words(fn *ast.FuncDecl) bool {
	return fn.Recv != nil && (fn.Name.Name == "String" || fn.Name.Name == "Error")
}

// body adds the mutants of a function's body.
func (c *changes) body(typ *ast.FuncType, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			c.body(n.Type, n.Body)
			return false
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "panic" {
				return false // what it says is for people
			}
		case *ast.IfStmt:
			c.not(n.Cond)
		case *ast.ForStmt:
			if n.Cond != nil {
				c.not(n.Cond)
			}
		case *ast.BinaryExpr:
			for _, op := range similar[n.Op] {
				from := c.at(n.OpPos)
				c.add(operator, from, from+len(n.Op.String()), op.String())
			}
		case *ast.BasicLit:
			if n.Kind == token.INT {
				text := c.text(n)
				c.replace(constant, n, "("+text+" + 1)")
				if text != "0" {
					c.replace(constant, n, "("+text+" - 1)")
				}
			}
		case *ast.BlockStmt:
			c.statements(n.List)
		case *ast.CaseClause:
			c.statements(n.Body)
		case *ast.CommClause:
			c.statements(n.Body)
		case *ast.ReturnStmt:
			c.results(typ, n)
		}
		return true
	})
}

// not adds the opposite of a condition.
func (c *changes) not(cond ast.Expr) { c.replace(negate, cond, "!("+c.text(cond)+")") }

// statements adds a mutant for each statement that can be left out.
func (c *changes) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok {
				if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
					continue
				}
			}
			c.replace(remove, s, "{}")
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				c.replace(remove, s, "{}")
			}
		case *ast.IncDecStmt, *ast.BranchStmt, *ast.DeferStmt, *ast.SendStmt:
			c.replace(remove, s, "{}")
		}
	}
}

// results adds mutants of what a function returns.
func (c *changes) results(typ *ast.FuncType, ret *ast.ReturnStmt) {
	if typ.Results == nil {
		return
	}
	var types []ast.Expr
	for _, f := range typ.Results.List {
		for range max(len(f.Names), 1) {
			types = append(types, f.Type)
		}
	}
	if len(types) != len(ret.Results) {
		return // none, or what a call returns
	}
	for i, x := range ret.Results {
		if other := otherThan(types[i], c.text(x)); other != "" {
			c.replace(result, x, other)
		}
	}
}

// otherThan is another value of a type than text stands for, "" where none is known.
func otherThan(typ ast.Expr, text string) string {
	switch t := typ.(type) {
	case *ast.Ident:
		switch t.Name {
		case "bool":
			return "!(" + text + ")"
		case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "float32", "float64":
			return "(" + text + ") + 1"
		case "error":
			if text != "nil" {
				return "nil"
			}
		}
	case *ast.StarExpr, *ast.MapType, *ast.FuncType:
		if text != "nil" {
			return "nil"
		}
	case *ast.ArrayType:
		if t.Len == nil && text != "nil" {
			return "nil"
		}
	}
	return ""
}

func (c *changes) at(p token.Pos) int { return c.files.Position(p).Offset }

func (c *changes) text(n ast.Node) string { return string(c.src[c.at(n.Pos()):c.at(n.End())]) }

func (c *changes) replace(kind string, n ast.Node, text string) {
	c.add(kind, c.at(n.Pos()), c.at(n.End()), text)
}

func (c *changes) add(kind string, from, to int, text string) {
	c.out = append(c.out, newMutant(c.name, c.src, c.sum, kind, from, to, text))
}

// newMutant describes a change of a file.
func newMutant(name string, src []byte, sum [sha256.Size]byte, kind string, from, to int, text string) mutant {
	line := 1
	for _, b := range src[:from] {
		if b == '\n' {
			line++
		}
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %x %d %d %s", name, sum, from, to, text))
	return mutant{
		File: name, Line: line, From: from, To: to, New: text, Kind: kind,
		What: short(string(src[from:to])) + " → " + short(text), Key: fmt.Sprintf("%x", key[:8]),
	}
}

// short is a text in a line of at most 60 characters.
func short(text string) string {
	out := []rune{}
	for _, r := range text {
		if r == '\n' || r == '\t' {
			r = ' '
		}
		if r == ' ' && len(out) > 0 && out[len(out)-1] == ' ' {
			continue
		}
		if len(out) == 60 {
			return string(out) + "…"
		}
		out = append(out, r)
	}
	return string(out)
}

// pkg is the package of the mutant, as an argument of go.
func (m *mutant) pkg() string { return "./" + filepath.ToSlash(filepath.Dir(m.File)) }

// apply returns a file with the mutant in it.
func (m *mutant) apply(src []byte) []byte {
	return slices.Concat(src[:m.From], []byte(m.New), src[m.To:])
}

// draw returns n of the mutants by a seed, all of them if there are no more. More are
// drawn by a larger n, not others.
func draw(all []mutant, seed uint64, n int) []mutant {
	out := slices.Clone(all)
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(n, len(out))]
}
