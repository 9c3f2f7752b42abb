package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// state lists the variables of packages that functions change, and the functions called init, by folder and
// name, with the reason why each is for the whole process. Everything else belongs to a value that somebody
// opens and closes.
var state = map[string]string{
	"..entries":                                "kernels of Apply are variables of packages, made before anything is opened, and a worker process must find the function of each by the same name",
	"..pointerFrees":                           "remembers what is always the same of a type",
	"..workerFuncs":                            "Worker is the first line of main: there is no runtime yet to keep its functions",
	"task.tasks":                               "the cores are the process's, and task.Go has nothing to open",
	"graph.stepsTaken":                         "counts steps for a test, with the tag invariants alone",
	"internal/signature.known":                 "a kernel in Go is declared where it is defined, and checked by its name wherever a graph comes from",
	"internal/backend/proc.entered":            "whether this program calls Worker decides whether it can be its own worker",
	"internal/backend/cuda.frames":             "memory to reuse: frames are passed to C, and may not be on a stack",
	"internal/backend/vulkan.frames":           "memory to reuse: frames are passed to C, and may not be on a stack",
	"internal/backend/vulkan.heard":            "a process has a few thousand callbacks for C and cannot free one",
	"internal/backend/vulkan.hearers":          "the one callback finds the platform by a number, as C may not keep a pointer of Go",
	"internal/backend/cuda/cudatest.Libraries": "tests compile the stand-in once",
	"internal/backend/cuda/cudatest.made":      "where Libraries put it, for Remove",
	"collective.scratches":                     "memory to reuse",
	"serve.answers":                            "memory to reuse",
	"serve.buffers":                            "memory to reuse",
	"workload/reservoir.fewFree":               "memory to reuse",
	"workload/reservoir.packs":                 "memory to reuse",
	"workload/reservoir.scratches":             "memory to reuse",
	"workload/enumerative.known":               "remembers primes, which are always the same",
	"workload/zk.domains":                      "remembers roots of unity, which are always the same",
	"workload/zk/ntt.domains":                  "remembers roots of unity, which are always the same",
	"cmd/weft/internal/terminal.shown":         "a process has one terminal, which must be put back however the command ends",
	"cmd/weft/internal/bench.spun":             "takes a sum, so that a compiler cannot leave the work out",
}

// TestState keeps packages from having state of the whole process without a reason.
func TestState(t *testing.T) {
	packages := make(map[string]map[string][]byte)
	sources(t, func(file string, src []byte) {
		if strings.HasSuffix(file, ".pb.go") {
			return
		}
		folder := path.Dir(file)
		if packages[folder] == nil {
			packages[folder] = make(map[string][]byte)
		}
		packages[folder][file] = src
	})
	seen := make(map[string]bool)
	for folder, files := range packages {
		found, err := changed(files)
		if err != nil {
			t.Error(err)
		}
		for _, name := range found {
			key := folder + "." + name
			seen[key] = true
			if state[key] == "" {
				t.Errorf("%s is state of the whole process: make it a field of what uses it, or add it to state_test.go with the reason", key)
			}
		}
	}
	for key := range state {
		if !seen[key] {
			t.Errorf("%s is listed in state_test.go and no function changes it: remove its row", key)
		}
	}
}

// changed returns the names of a package's variables that its functions assign to, or that are made to be
// changed (of packages sync and sync/atomic), and "init" if it has such a function.
func changed(sources map[string][]byte) (names []string, err error) {
	files := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		f, err := parser.ParseFile(files, name, sources[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	// What other packages have is not needed to tell which name is a variable of this one.
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Error: func(error) {}, Importer: nothing{}, FakeImportC: true}
	pkg, _ := config.Check("p", files, parsed, &info)
	found := make(map[string]bool)
	assigned := func(x ast.Expr) {
		if id := root(x); id != nil {
			if v, ok := info.Uses[id].(*types.Var); ok && v.Parent() == pkg.Scope() {
				found[v.Name()] = true
			}
		}
	}
	for _, f := range parsed {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" {
					found["init"] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR && synchronised(v) {
						for _, id := range v.Names {
							found[id.Name] = true
						}
					}
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, x := range n.Lhs {
					assigned(x)
				}
			case *ast.IncDecStmt:
				assigned(n.X)
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") && len(n.Args) > 0 {
					assigned(n.Args[0])
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// root returns the variable that an expression is a part of, nil if there is none.
func root(x ast.Expr) *ast.Ident {
	for {
		switch e := x.(type) {
		case *ast.Ident:
			return e
		case *ast.IndexExpr:
			x = e.X
		case *ast.SelectorExpr:
			x = e.X
		case *ast.StarExpr:
			x = e.X
		case *ast.ParenExpr:
			x = e.X
		default:
			return nil
		}
	}
}

// synchronised reports whether a variable is of something in package sync or sync/atomic, outside of functions.
func synchronised(v *ast.ValueSpec) (yes bool) {
	ast.Inspect(v, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && (id.Name == "sync" || id.Name == "atomic") {
				yes = true
			}
		}
		_, function := n.(*ast.FuncLit)
		return !function
	})
	return yes
}

// nothing has every package, empty.
type nothing struct{}

func (nothing) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// The check itself must be able to fail.
func TestStateCatches(t *testing.T) {
	for _, c := range []struct {
		src  string
		want []string
	}{
		{"var a = map[string]int{}\nfunc f() int { return a[\"\"] }", nil},
		{"var a = map[string]int{}\nfunc f() { a[\"\"] = 1 }", []string{"a"}},
		{"var a = map[string]int{}\nfunc f() { delete(a, \"\") }", []string{"a"}},
		{"var a = map[string]int{}\nfunc f() { a := map[string]int{}; a[\"\"] = 1 }", nil},
		{"var a []int\nfunc f() { a = append(a, 1) }", []string{"a"}},
		{"var a struct{ b *int }\nfunc f() { *a.b++ }", []string{"a"}},
		{"import \"sync\"\nvar a sync.Mutex", []string{"a"}},
		{"import \"sync\"\nvar a = sync.OnceValue(func() int { return 1 })", []string{"a"}},
		{"import \"sync\"\nvar a = func() { var m sync.Mutex; m.Lock() }", nil},
		{"import \"sync/atomic\"\nvar a, b atomic.Bool", []string{"a", "b"}},
		{"func init() {}", []string{"init"}},
	} {
		got, err := changed(map[string][]byte{"a.go": []byte("package p\n" + c.src)})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: found %q, %v; want %q", c.src, got, err, c.want)
		}
	}
	// In another file than the variable.
	got, err := changed(map[string][]byte{"a.go": []byte("package p\nvar a int"), "b.go": []byte("package p\nfunc f() { a++ }")})
	if err != nil || !slices.Equal(got, []string{"a"}) {
		t.Errorf("in two files: found %q, %v", got, err)
	}
}
