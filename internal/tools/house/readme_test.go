package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The README's first two programs are examples, which are compiled and whose output is
// checked. The first is short enough to be read at once.
func TestReadmeExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(readme)
	if n := strings.Count(rest, "\n"); n > 150 {
		t.Errorf("README.md has %d lines, more than a stranger reads (150); docs/ has room", n)
	}
	for _, x := range []struct {
		file, function string
		lines          int // at most
	}{{"task/example_test.go", "Example", 19}, {"example_graph_test.go", "Example_graph", 56}} {
		_, after, ok := strings.Cut(rest, "```go\n")
		block, remains, closed := strings.Cut(after, "```\n")
		if !ok || !closed {
			t.Fatal("README.md has too few blocks of Go")
		}
		rest = remains
		example, err := os.ReadFile(x.file)
		if err != nil {
			t.Fatal(err)
		}
		program := strings.NewReplacer("package weft_test\n", "package main\n", "package task_test\n", "package main\n", "func "+x.function+"() {\n", "func main() {\n").Replace(string(example))
		before, output, ok := strings.Cut(program, "\t// Output: ")
		program = before + "}\n"
		if !ok || block != program {
			t.Errorf("the README's program is not that of %s, which is\n%s", x.file, program)
		}
		if n := strings.Count(program, "\n"); n > x.lines {
			t.Errorf("the program of %s has %d lines, more than %d", x.file, n, x.lines)
		}
		if output, _, _ = strings.Cut(output, "\n"); !strings.Contains(string(readme), output) {
			t.Errorf("the README does not show what it prints: %s", output)
		}
	}
}

// ofUnexported reports whether a method belongs to a type nobody outside can name.
func ofUnexported(fn *ast.FuncDecl) bool {
	if fn.Recv == nil {
		return false
	}
	t := fn.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if g, ok := t.(*ast.IndexExpr); ok {
		t = g.X
	}
	id, ok := t.(*ast.Ident)
	return ok && !id.IsExported()
}

// Every exported function and method of the two packages that programs begin with is used in an example.
func TestExamplesUseEverything(t *testing.T) {
	for folder, least := range map[string]int{".": 20, "task": 15} {
		exported, used := exportedAndUsed(t, folder)
		if len(exported) < least {
			t.Fatalf("found only %d exported functions in %s", len(exported), folder)
		}
		for name, file := range exported {
			if !used[name] {
				t.Errorf("%s, of %s, is in no example: add one", name, file)
			}
		}
	}
}

// exportedAndUsed returns the files of the exported functions and methods of a package by their names, and the
// names that its examples use.
func exportedAndUsed(t *testing.T, folder string) (exported map[string]string, used map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	used, exported = make(map[string]bool), make(map[string]string)
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		switch base := filepath.Base(name); {
		case strings.HasPrefix(base, "example"):
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					used[s.Sel.Name] = true
				}
				return true
			})
		case !strings.HasSuffix(base, "_test.go"):
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && !ofUnexported(fn) {
					exported[fn.Name.Name] = name
				}
			}
		}
	}
	// Called by fmt, errors and encoding/json, not by name.
	for _, name := range []string{"Error", "Unwrap", "MarshalJSON", "UnmarshalJSON", "String"} {
		delete(exported, name)
	}
	return exported, used
}
