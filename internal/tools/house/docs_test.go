package house

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

var rewrite = flag.Bool("rewrite", false, "write generated files anew: testdata/api.txt, docs/CALLS.md, docs/PACKAGES.md")

// compare holds a generated file to what the source says now, or writes it anew.
func compare(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	if got == want {
		return
	}
	have, had := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range had {
		if !slices.Contains(have, line) {
			t.Errorf("gone or changed: %s", line)
		}
	}
	for _, line := range have {
		if !slices.Contains(had, line) {
			t.Errorf("new: %s", line)
		}
	}
	t.Errorf("%s differs from the source; if that is meant, write it anew with: go test ./internal/tools/house -rewrite", file)
}

// TestDocs sees that docs/PACKAGES.md and docs/CALLS.md say what the source says.
func TestDocs(t *testing.T) {
	s := readSources(t)
	compare(t, "docs/PACKAGES.md", s.packages())
	compare(t, "docs/CALLS.md", s.calls())
}

// A declaration that changes changes the documents: what they are compared with is read from the source.
func TestDocsFollow(t *testing.T) {
	s := &sourceText{folders: make(map[string]*folder), modules: []string{"example.org/mod"}}
	for file, src := range map[string]string{
		"workload/x/x.go": `// Package x adds numbers. It has more to say.
package x
import ("context"; "github.com/weft-run/weft"; "example.org/mod/sub")
// Of adds. Slowly.
func Of(ctx context.Context, rt *weft.Runtime, xs []float32) (float32, error)
// Not takes no runtime.
func Not(ctx context.Context)
func of(ctx context.Context, rt *weft.Runtime)
// Do goes on.
func (r *Run) Do(ctx context.Context, rt *weft.Runtime)
func (r *run) Do(ctx context.Context, rt *weft.Runtime)
`,
		"internal/y/y.go": "// Package y is below.\npackage y\n",
	} {
		s.add(file, []byte(src))
	}
	packages, calls := s.packages(), s.calls()
	for text, wants := range map[string][]string{
		packages: {"| `workload/x` | adds numbers | `.`; example.org/mod |\n", "| `internal/y` | is below | |\n"},
		calls:    {"## workload/x\n\nPackage x adds numbers.\n", "| `x.Of(xs []float32) (float32, error)` | adds |\n", "| `(*x.Run).Do()` | goes on |\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
	}
	if strings.Contains(calls, "Not") || strings.Contains(calls, "of(") || strings.Contains(calls, "run)") {
		t.Errorf("more than the calls of users:\n%s", calls)
	}
}

// sourceText is what documents are made of.
type sourceText struct {
	folders map[string]*folder
	modules []string // of third parties
}

// folder is a package of this tree, without its tests.
type folder struct {
	name, doc string          // doc is the package's first sentence
	imports   map[string]bool // folders of this tree, and modules of third parties
	calls     []documented
}

// documented is an exported function or method that takes a context and a runtime.
type documented struct{ signature, does string }

func readSources(t *testing.T) *sourceText {
	t.Helper()
	s := &sourceText{folders: make(map[string]*folder)}
	for _, dir := range workspace(t) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		mod, err := modfile.ParseLax("go.mod", text, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range mod.Require {
			s.modules = append(s.modules, r.Mod.Path)
		}
	}
	sources(t, s.add)
	return s
}

// add reads a file.
func (s *sourceText) add(file string, src []byte) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		panic(err)
	}
	d := s.folders[path.Dir(file)]
	if d == nil {
		d = &folder{name: f.Name.Name, imports: make(map[string]bool)}
		s.folders[path.Dir(file)] = d
	}
	if first := new(doc.Package).Synopsis(f.Doc.Text()); first != "" && d.doc == "" {
		d.doc = strings.TrimRight(first, ".,:") + "."
	}
	for _, spec := range f.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err)
		}
		if inner, own := strings.CutPrefix(name+"/", module+"/"); own {
			d.imports["`"+path.Clean(inner)+"`"] = true
			continue
		}
		for _, m := range s.modules {
			if within(name, m) {
				d.imports[strings.TrimPrefix(m, "golang.org/")] = true
			}
		}
	}
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.IsExported() && !ofUnexported(fn) && takesRuntime(fn.Type) {
			d.calls = append(d.calls, callOf(files, f.Name.Name, fn))
		}
	}
}

// takesRuntime reports whether the first arguments are a context and a runtime.
func takesRuntime(fn *ast.FuncType) bool {
	var types []string
	for _, field := range fn.Params.List {
		for range field.Names {
			types = append(types, printed(token.NewFileSet(), field.Type))
		}
	}
	return len(types) >= 2 && types[0] == "context.Context" && types[1] == "*weft.Runtime"
}

// callOf describes a call without its context and its runtime.
func callOf(files *token.FileSet, pkg string, fn *ast.FuncDecl) documented {
	name := pkg + "." + fn.Name.Name
	if fn.Recv != nil {
		recv := printed(files, fn.Recv.List[0].Type)
		star := strings.HasPrefix(recv, "*")
		name = pkg + "." + strings.TrimPrefix(recv, "*") + "." + fn.Name.Name
		if star {
			name = "(*" + pkg + "." + strings.TrimPrefix(recv, "*") + ")." + fn.Name.Name
		}
	}
	rest := *fn.Type
	rest.TypeParams = nil
	rest.Params = &ast.FieldList{List: fn.Type.Params.List[2:]}
	does := new(doc.Package).Synopsis(fn.Doc.Text())
	does = strings.TrimSuffix(strings.TrimPrefix(does, fn.Name.Name+" "), ".")
	return documented{strings.Replace(printed(files, &rest), "func", name, 1), does}
}

func printed(files *token.FileSet, node any) string {
	var b strings.Builder
	if err := printer.Fprint(&b, files, node); err != nil {
		panic(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// packages is a table of all packages: first those that programs import.
func (s *sourceText) packages() string {
	var b strings.Builder
	b.WriteString(`# Packages

Every package with the first sentence of its documentation and what it imports: folders of this tree, then modules
of third parties. ` + "`internal/tools/house/layering_test.go`" + ` says what each may import and why it may import no more.
Written by ` + "`go test ./internal/tools/house -rewrite`" + `.
`)
	side := func(dir string) string {
		switch {
		case s.folders[dir].name == "main":
			return "Programs"
		case slices.Contains(strings.Split(dir, "/"), "internal"):
			return "Internal"
		}
		return "What programs import"
	}
	for _, title := range []string{"What programs import", "Internal", "Programs"} {
		fmt.Fprintf(&b, "\n## %s\n\n| package | what it does | imports |\n|---|---|---|\n", title)
		for _, dir := range slices.Sorted(maps.Keys(s.folders)) {
			if side(dir) != title {
				continue
			}
			d := s.folders[dir]
			own, others := []string{}, []string{}
			for _, name := range slices.Sorted(maps.Keys(d.imports)) {
				if strings.HasPrefix(name, "`") {
					own = append(own, name)
				} else {
					others = append(others, name)
				}
			}
			imports := strings.Join(own, ", ")
			if len(others) > 0 {
				imports = strings.TrimPrefix(imports+"; "+strings.Join(others, ", "), "; ")
			}
			says := d.doc
			for _, opening := range []string{"Package " + d.name + " ", "Command " + path.Base(dir) + " "} {
				says = strings.TrimPrefix(says, opening)
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s|\n", dir, strings.ReplaceAll(strings.TrimSuffix(says, "."), "|", `\|`), strings.TrimLeft(imports+" ", " "))
		}
	}
	return b.String()
}

// calls lists the calls of all workloads.
func (s *sourceText) calls() string {
	var b strings.Builder
	b.WriteString(`# Calls

What the workloads compute, as one call each, over the caller's data on the devices of a runtime. Each call also takes
a context and a ` + "`*weft.Runtime`" + ` first, which was opened with the kernels of the package:

` + "```go" + `
rt, err := weft.Open(ctx, weft.Options{Funcs: workload.Funcs(gemm.Funcs(), merkle.Funcs())})
…
c, err := gemm.Mul(ctx, rt, a, b)         // workload.Matrix
root, err := merkle.RootOf(ctx, rt, leaves) // RFC 6962; merkle.TreeOf makes proofs
` + "```" + `

The documentation of each package says what its results guarantee: class X is the same bytes on any devices, R the same
bytes on any number of devices of one backend, T values within a stated tolerance. Written by
` + "`go test ./internal/tools/house -rewrite`" + `.
`)
	for _, dir := range slices.Sorted(maps.Keys(s.folders)) {
		d := s.folders[dir]
		if !strings.HasPrefix(dir, "workload/") || len(d.calls) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| call | what it does |\n|---|---|\n", dir, d.doc)
		slices.SortFunc(d.calls, func(x, y documented) int { return strings.Compare(x.signature, y.signature) })
		for _, c := range d.calls {
			fmt.Fprintf(&b, "| `%s` | %s |\n", c.signature, c.does)
		}
	}
	return b.String()
}
