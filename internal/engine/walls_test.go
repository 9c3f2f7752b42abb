package engine

import (
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestWalls checks that each part of the engine's state is changed by the code it belongs
// to alone: records of the store by the store, flags of values by on, where a task is by
// move.
func TestWalls(t *testing.T) {
	fset := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_on.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Selections: make(map[*ast.SelectorExpr]*types.Selection)}
	// A test that was built without paths knows no folder of Go.
	if build.Default.GOROOT == "" {
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			t.Fatal(err)
		}
		build.Default.GOROOT = strings.TrimSpace(string(root))
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	if _, err := conf.Check("engine", fset, files, info); err != nil {
		t.Fatal(err)
	}
	// walls names, by record or by record and field, the functions that may change it, as
	// receiver or as receiver and method.
	walls := map[string][]string{
		"store": {"store"}, "space": {"store"}, "inst": {"store"}, "slot": {"store"}, "datum": {"store"}, "idle": {"store", "idle"},
		"value.flags": {"value.on"}, "value.slot": {"store"},
		"task.where":  {"task.move"},
		"outbox.list": {"outbox", "Engine.Step"},
	}
	changes := 0
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			recv := ""
			if fn.Recv != nil {
				recv = types.ExprString(fn.Recv.List[0].Type)
			}
			recv = strings.TrimPrefix(recv, "*")
			eachChange(fn.Body, func(target ast.Expr) {
				for _, field := range fieldsOf(target, info) {
					record, _, _ := strings.Cut(field, ".")
					for _, key := range []string{record, field} {
						allowed, walled := walls[key]
						if !walled {
							continue
						}
						changes++
						if !slices.Contains(allowed, recv) && !slices.Contains(allowed, recv+"."+fn.Name.Name) {
							t.Errorf("%s: %s.%s changes %s, which is for %v", fset.Position(target.Pos()), recv, fn.Name.Name, field, allowed)
						}
					}
				}
			})
		}
	}
	if changes < 60 {
		t.Errorf("%d changes were looked at: the test does not see what it should", changes)
	}
}

// eachChange visits what a function assigns to, increments or decrements.
func eachChange(body ast.Node, visit func(target ast.Expr)) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				for _, l := range s.Lhs {
					visit(l)
				}
			}
		case *ast.IncDecStmt:
			visit(s.X)
		}
		return true
	})
}

// fieldsOf returns the field that is changed with what it is in, as "record.field": of
// x.a[i].b, "a's record.b"; of x.m[i] = v, the field m itself.
func fieldsOf(target ast.Expr, info *types.Info) []string {
	switch x := target.(type) {
	case *ast.IndexExpr:
		return fieldsOf(x.X, info)
	case *ast.StarExpr:
		return fieldsOf(x.X, info)
	case *ast.ParenExpr:
		return fieldsOf(x.X, info)
	case *ast.SelectorExpr:
		sel := info.Selections[x]
		if sel == nil {
			return nil
		}
		// Through embedded parts, the record is the one that declares the field.
		recv := sel.Recv()
		for _, k := range sel.Index()[:len(sel.Index())-1] {
			recv = deref(recv).Underlying().(*types.Struct).Field(k).Type()
		}
		named, ok := deref(recv).(*types.Named)
		if !ok {
			return nil
		}
		if named.Obj().Name() == "blocks" {
			return fieldsOf(x.X, info) // the records of a store's array
		}
		return []string{named.Obj().Name() + "." + x.Sel.Name}
	}
	return nil
}

func deref(t types.Type) types.Type {
	if p, ok := t.(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}
