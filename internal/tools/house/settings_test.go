package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"slices"
	"testing"
)

// A setting keeps its name on its way from weft.Options to a worker, so that a reader finds it by that name everywhere.
func TestSettingsKeepTheirNames(t *testing.T) {
	settings := optionFields(t)
	sources(t, func(file string, src []byte) {
		if dir := path.Dir(file); dir == "." || path.Dir(dir) == "internal" || path.Dir(dir) == "internal/backend" {
			for _, r := range renamed(t, file, src, settings) {
				t.Errorf("%s: give it the name that weft.Options has", r)
			}
		}
	})
}

// optionFields returns the fields of weft.Options.
func optionFields(t *testing.T) (names []string) {
	t.Helper()
	src, err := os.ReadFile("options.go")
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), "options.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok && s.Name.Name == "Options" {
			for _, field := range s.Type.(*ast.StructType).Fields.List {
				for _, name := range field.Names {
					names = append(names, name.Name)
				}
			}
		}
		return true
	})
	if len(names) < 40 {
		t.Fatalf("weft.Options has only %q", names)
	}
	return names
}

// renamed returns where a file copies a setting, taken from something called o, to a field of another name. The
// prefix that the name of a structure stands for may be left out, as in RebalanceOptions.Threshold.
func renamed(t *testing.T, file string, src []byte, settings []string) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		field, ok := pair.Key.(*ast.Ident)
		if !ok {
			return true
		}
		from, ok := pair.Value.(*ast.SelectorExpr)
		if !ok || !slices.Contains(settings, from.Sel.Name) {
			return true
		}
		var of string
		switch x := from.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		if name := from.Sel.Name; of == "o" && field.IsExported() && field.Name != name && "Rebalance"+field.Name != name {
			found = append(found, files.Position(pair.Pos()).String()+": "+name+" becomes "+field.Name)
		}
		return true
	})
	return found
}

// The check itself must be able to fail.
func TestSettingsKeepTheirNamesCatches(t *testing.T) {
	for src, want := range map[string]int{
		`var a = T{Pin: o.Pin, Retries: r.o.Retries, Threshold: o.RebalanceThreshold}`: 0,
		`var a = T{Tie: o.Pin}`:                     1,
		`var a = T{Inner: U{Tries: r.o.Retries}}`:   1,
		`var a = T{Tie: p.Pin, Other: o.Something}`: 0,
	} {
		if got := renamed(t, "f.go", []byte("package p\n"+src), []string{"Pin", "Retries", "RebalanceThreshold"}); len(got) != want {
			t.Errorf("%s: %q, want %d", src, got, want)
		}
	}
}
