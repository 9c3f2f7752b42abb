package house

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPublicTypes sees that no exported declaration of a public package mentions a type
// of an internal one: godoc would show neither its fields nor its methods, and no other
// module could name it.
func TestPublicTypes(t *testing.T) {
	s := &fromSource{files: token.NewFileSet(), known: map[string]*types.Package{"unsafe": types.Unsafe}}
	for _, dir := range publicFolders(t) {
		p, err := s.Import(path.Join(module, filepath.ToSlash(dir)))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range internals(p) {
			t.Errorf("%s: %s", dir, x)
		}
	}
	if graph := s.known[module+"/graph"]; graph == nil || graph.Scope().Lookup("Task") == nil {
		t.Error("graph.Task was not read, so nothing was looked at")
	}
}

// fromSource imports packages of this module from source, without the bodies of functions,
// and takes all others for empty: what is looked for is not in them.
type fromSource struct {
	files *token.FileSet
	known map[string]*types.Package
}

func (s *fromSource) Import(name string) (*types.Package, error) {
	if p := s.known[name]; p != nil {
		return p, nil
	}
	dir, own := strings.CutPrefix(name, module)
	if !own {
		p := types.NewPackage(name, path.Base(strings.TrimSuffix(name, "/v2")))
		p.MarkComplete()
		s.known[name] = p
		return p, nil
	}
	dir = filepath.Join(".", filepath.FromSlash(dir))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var parsed []*ast.File
	for _, e := range entries {
		if ok, err := build.Default.MatchFile(dir, e.Name()); err != nil || !ok || filepath.Ext(e.Name()) != ".go" || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(s.files, filepath.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
	}
	s.known[name] = s.check(name, parsed...)
	return s.known[name], nil
}

// check checks a package as far as that is possible without the packages it imports
// from elsewhere.
func (s *fromSource) check(name string, files ...*ast.File) *types.Package {
	c := types.Config{Importer: s, IgnoreFuncBodies: true, Error: func(error) {}}
	p, _ := c.Check(name, s.files, files, nil) // the compiler finds errors
	return p
}

// internals returns what exported declarations of a package mention of internal ones.
func internals(p *types.Package) (found []string) {
	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			m := &mentions{seen: make(map[types.Type]bool)}
			m.object(o)
			for _, x := range m.found {
				found = append(found, fmt.Sprintf("%s mentions %s", name, x))
			}
		}
	}
	return found
}

// mentions are the internal types that users meet in a declaration.
type mentions struct {
	seen  map[types.Type]bool
	found []string
}

func (m *mentions) object(o types.Object) {
	named, ok := o.Type().(*types.Named)
	if _, isType := o.(*types.TypeName); !isType || !ok {
		m.in(o.Type())
		return
	}
	m.seen[named] = true
	m.inside(named)
}

// inside looks at what users see of a type.
func (m *mentions) inside(t *types.Named) {
	m.params(t.TypeParams())
	m.in(t.Underlying())
	for f := range t.Methods() {
		if f.Exported() {
			m.in(f.Type())
		}
	}
}

func (m *mentions) params(l *types.TypeParamList) {
	for p := range l.TypeParams() {
		m.in(p.Constraint())
	}
}

// named looks at a type by its name; what is exported elsewhere is looked at there.
func (m *mentions) named(o *types.TypeName, args *types.TypeList) (open bool) {
	for a := range args.Types() {
		m.in(a)
	}
	if p := o.Pkg(); p != nil && strings.Contains(p.Path()+"/", "/internal/") {
		if x := p.Path() + "." + o.Name(); !slices.Contains(m.found, x) {
			m.found = append(m.found, x)
		}
		return false
	}
	return !o.Exported()
}

func (m *mentions) in(t types.Type) {
	if t == nil || m.seen[t] {
		return
	}
	m.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		m.named(t.Obj(), t.TypeArgs())
		m.in(t.Rhs())
	case *types.Named:
		if m.named(t.Obj(), t.TypeArgs()) {
			m.inside(t)
		}
	case *types.Map:
		m.in(t.Key())
		m.in(t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		m.in(t.Elem())
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() || f.Embedded() {
				m.in(f.Type())
			}
		}
	case *types.Signature:
		m.params(t.TypeParams())
		m.in(t.Params())
		m.in(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			m.in(v.Type())
		}
	case *types.Interface:
		for e := range t.EmbeddedTypes() {
			m.in(e)
		}
		for f := range t.ExplicitMethods() {
			if f.Exported() {
				m.in(f.Type())
			}
		}
	case *types.Union:
		for x := range t.Terms() {
			m.in(x.Type())
		}
	}
}

func TestPublicTypesCatches(t *testing.T) {
	s := &fromSource{files: token.NewFileSet(), known: make(map[string]*types.Package)}
	parse := func(src string) *ast.File {
		f, err := parser.ParseFile(s.files, "f.go", src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	s.known["m/internal/x"] = s.check("m/internal/x", parse(`package x; type T struct{ F int }; func (T) M() {}; type G[E any] []E; var V T; type I interface{ M() }`))
	for src, want := range map[string]bool{
		`type A = x.T`:                                                       true,
		`type A x.T`:                                                         false, // the fields are its own
		`type A struct{ F x.T }`:                                             true,
		`type A struct{ f x.T }`:                                             false,
		`type A struct{ x.T }`:                                               true,
		`type A struct{ t }; type t = x.T`:                                   true,
		`type A struct{ t }; type t struct{ F []x.T }`:                       true,
		`type A struct{ t }; type t struct{ f x.T }`:                         false,
		`type A map[string]*x.T`:                                             true,
		`type A map[string]chan [2]*x.T`:                                     true,
		`type A interface{ m(x.T) }`:                                         false,
		`type A interface{ M(x.T) }`:                                         true,
		`type A interface{ x.I }`:                                            true,
		`type A interface{ ~int | x.T }`:                                     true,
		`type A[E x.I] []E`:                                                  true,
		`type A[E any] []E; type B A[x.T]`:                                   true,
		`type A[E any] []E; var B A[x.T]`:                                    true,
		`type A int; func (A) M() x.G[int] { panic(0) }`:                     true,
		`type A int; func (A) m() x.G[int] { panic(0) }`:                     false,
		`type a int; func (a) M() x.T { panic(0) }`:                          false,
		`type a int; func (a) M() x.T { panic(0) }; func F() a { return 0 }`: true,
		`func F(x.T) {}`:                                                     true,
		`func F() (a, b *x.T) { return }`:                                    true,
		`func f(x.T) {}`:                                                     false,
		`var V = x.V`:                                                        true,
		`var V = x.V.F`:                                                      false,
		`var V = func(x.T) {}`:                                               true,
	} {
		p := s.check("m/p", parse(`package p; import "m/internal/x"; `+src))
		if found := internals(p); (len(found) > 0) != want {
			t.Errorf("%s: found %q", src, found)
		}
	}
}
