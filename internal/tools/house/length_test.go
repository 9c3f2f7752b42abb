package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// maxFunc is the most lines a function may have: what a reader sees at once and
// can name in one sentence. A table that it returns does not count.
const maxFunc = 80

// TestFuncLength keeps functions short, those of tests apart: many are tables.
func TestFuncLength(t *testing.T) {
	sources(t, func(file string, src []byte) {
		found, err := longFuncs(file, src)
		if err != nil {
			t.Error(err)
		}
		for _, f := range found {
			t.Errorf("%s has %d lines, more than %d: split it where its parts can be named", f.name, f.lines, maxFunc)
		}
	})
}

// longFunc is a function with too many lines.
type longFunc struct {
	name  string // with its file
	lines int
}

// longFuncs returns the functions of a file that are too long, literals of
// functions included.
func longFuncs(file string, src []byte) (found []longFunc, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := func(n ast.Node) int { return files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1 }
	name := "a variable"
	ast.Inspect(f, func(n ast.Node) bool {
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.FuncDecl:
			name, body = n.Name.Name, n.Body
		case *ast.FuncLit:
			body = n.Body
		}
		if body == nil {
			return true
		}
		count := lines(n)
		for _, stmt := range body.List {
			if r, ok := stmt.(*ast.ReturnStmt); ok {
				for _, x := range r.Results {
					if table, ok := x.(*ast.CompositeLit); ok {
						count -= lines(table) - 1
					}
				}
			}
		}
		if count > maxFunc {
			found = append(found, longFunc{file + ": " + name, count})
		}
		return true
	})
	return found, nil
}

// The check itself must be able to fail.
func TestFuncLengthCatches(t *testing.T) {
	body := func(line string, n int) string { return strings.Repeat(line+"\n", n) }
	for _, c := range []struct {
		src  string
		want []longFunc
	}{
		{"func f() {\n" + body("g()", 78) + "}", nil},
		{"func f() {\n" + body("g()", 79) + "}", []longFunc{{"p.go: f", 81}}},
		{"func (t T) f() {\n" + body("g()", 79) + "}", []longFunc{{"p.go: f", 81}}},
		{"var v = func() {\n" + body("g()", 79) + "}", []longFunc{{"p.go: a variable", 81}}},
		{"func f() []int {\ng()\nreturn []int{\n" + body("1,", 200) + "}\n}", nil},
		{"func f() []int {\n" + body("g()", 79) + "return []int{\n" + body("1,", 200) + "}\n}", []longFunc{{"p.go: f", 82}}},
		{"func f() []T {\nreturn []T{{func() {\n" + body("g()", 79) + "}}}\n}", []longFunc{{"p.go: f", 81}}},
		{"func f() {\nx = []int{\n" + body("1,", 100) + "}\n}", []longFunc{{"p.go: f", 104}}},
	} {
		got, err := longFuncs("p.go", []byte("package p\n"+c.src))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%.60q: %v, %v; want %v", c.src, got, err, c.want)
		}
	}
}
