package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits on what users have to look at, which may fall and not rise.
const (
	mostPackages    = 41
	mostIdentifiers = 1828
)

// experimental are the folders whose packages may change in any version: contracts that still
// move, and what stands on them.
var experimental = []string{"experimental/", "serve/simulate"}

// TestAPI compares what users can name with testdata/api.txt, so that every change of the
// public face is seen, and is made on purpose:
//
//	go test ./internal/tools/house -run '^TestAPI$' -rewrite
func TestAPI(t *testing.T) {
	s := publicNames(t)
	compare(t, "testdata/api.txt", s.text())
	packages, identifiers := s.count(func(string) bool { return true })
	t.Logf("users can name %d identifiers of %d packages", identifiers, packages)
	if packages > mostPackages || identifiers > mostIdentifiers {
		t.Errorf("%d identifiers of %d packages are public, more than %d of %d: move what users do not call below internal/", identifiers, packages, mostIdentifiers, mostPackages)
	}
}

// isExperimental reports whether a package is not promised.
func isExperimental(pkg string) bool {
	return slices.ContainsFunc(experimental, func(folder string) bool { return strings.HasPrefix(pkg+"/", strings.TrimSuffix(folder, "/")+"/") })
}

// text has what is promised, then what is not, a line a declaration or field.
func (s *surface) text() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		in    func(pkg string) bool
	}{
		{"promised from v0.1 on", func(pkg string) bool { return !isExperimental(pkg) }},
		{"experimental: may change in any version", isExperimental},
	} {
		packages, identifiers := s.count(part.in)
		fmt.Fprintf(&b, "# %s (%d identifiers of %d packages)\n", part.title, identifiers, packages)
		for _, line := range s.lines {
			if pkg, _, _ := strings.Cut(line, ": "); part.in(pkg) {
				b.WriteString(line + "\n")
			}
		}
	}
	return b.String()
}

// count returns the number of packages, and that of identifiers: exported declarations, exported
// methods of exported types, and methods of exported interfaces. Fields do not count, and what
// several platforms declare counts once.
func (s *surface) count(in func(pkg string) bool) (packages, identifiers int) {
	seen := make(map[string]bool)
	for name := range s.names {
		pkg, _, _ := strings.Cut(name, ": ")
		if !in(pkg) {
			continue
		}
		identifiers++
		if !seen[pkg] {
			seen[pkg] = true
			packages++
		}
	}
	return packages, identifiers
}

// TestPublicNames sees that every exported name is documented.
func TestPublicNames(t *testing.T) {
	for _, x := range publicNames(t).bare {
		t.Errorf("%s has no sentence that says what it is", x)
	}
}

// surface is what the public packages of the module declare.
type surface struct {
	lines []string        // a declaration each, sorted
	bare  []string        // those without a comment
	names map[string]bool // identifiers, after their package
}

func publicNames(t *testing.T) *surface {
	t.Helper()
	s := &surface{names: make(map[string]bool)}
	for _, dir := range publicFolders(t) {
		if err := s.folder(dir); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(s.lines)
	s.lines = slices.Compact(s.lines) // a file for each platform declares the same
	return s
}

// publicFolders are the folders that may have a package users can import.
func publicFolders(t *testing.T) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch base := filepath.Base(dir); {
		case base == "internal" || base == "testdata" || base == "cmd" || base == "examples" || base != "." && strings.HasPrefix(base, "."):
			return fs.SkipDir
		}
		dirs = append(dirs, dir)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// folder adds the declarations of a package.
func (s *surface) folder(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if f.Name.Name == "main" {
			return nil
		}
		p := &publicFile{surface: s, pkg: filepath.ToSlash(dir), files: files}
		for _, d := range f.Decls {
			p.declaration(d)
		}
	}
	return nil
}

// publicFile is a file that is looked through.
type publicFile struct {
	*surface
	pkg   string
	files *token.FileSet
}

func (p *publicFile) declaration(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || !exportedReceiver(d) {
			return
		}
		name := d.Name.Name
		if d.Recv != nil {
			name = p.text(d.Recv.List[0].Type) + "." + name
		}
		p.tally(strings.TrimPrefix(name, "*"))
		p.add(name, d.Doc, "func "+receiver(p, d)+d.Name.Name+strings.TrimPrefix(p.text(d.Type), "func"))
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				p.typeSpec(d, s)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() {
						p.tally(n.Name)
						p.add(n.Name, first(s.Doc, s.Comment, d.Doc), d.Tok.String()+" "+n.Name+valueType(p, s))
					}
				}
			}
		}
	}
}

// first returns the comment that is there.
func first(docs ...*ast.CommentGroup) *ast.CommentGroup {
	for _, d := range docs {
		if d != nil {
			return d
		}
	}
	return nil
}

func valueType(p *publicFile, s *ast.ValueSpec) string {
	if s.Type == nil {
		return ""
	}
	return " " + p.text(s.Type)
}

func receiver(p *publicFile, d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	return "(" + p.text(d.Recv.List[0].Type) + ") "
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	x := d.Recv.List[0].Type
	for {
		switch y := x.(type) {
		case *ast.StarExpr:
			x = y.X
		case *ast.IndexExpr:
			x = y.X
		case *ast.IndexListExpr:
			x = y.X
		case *ast.Ident:
			return y.IsExported()
		default:
			return false
		}
	}
}

// typeSpec adds a type with its exported fields or methods, a line each.
func (p *publicFile) typeSpec(d *ast.GenDecl, s *ast.TypeSpec) {
	if !s.Name.IsExported() {
		return
	}
	p.tally(s.Name.Name)
	head := "type " + s.Name.Name
	if s.TypeParams != nil {
		var params []string
		for _, f := range s.TypeParams.List {
			for _, n := range f.Names {
				params = append(params, n.Name+" "+p.text(f.Type))
			}
		}
		head += "[" + strings.Join(params, ", ") + "]"
	}
	if s.Assign.IsValid() {
		head += " ="
	}
	doc := first(s.Doc, s.Comment, d.Doc)
	var fields *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		head, fields = head+" struct", x.Fields
	case *ast.InterfaceType:
		head, fields = head+" interface", x.Methods
	default:
		p.add(s.Name.Name, doc, head+" "+p.text(s.Type))
		return
	}
	p.add(s.Name.Name, doc, head)
	for _, f := range fields.List {
		if len(f.Names) == 0 {
			p.add(s.Name.Name+"."+p.text(f.Type), doc, head+": "+p.text(f.Type))
		}
		for _, n := range f.Names {
			if n.IsExported() {
				if _, method := s.Type.(*ast.InterfaceType); method {
					p.tally(s.Name.Name + "." + n.Name)
				}
				p.add(s.Name.Name+"."+n.Name, doc, head+": "+n.Name+" "+p.text(f.Type))
			}
		}
	}
}

// tally notes an identifier.
func (p *publicFile) tally(name string) { p.names[p.pkg+": "+name] = true }

// add notes a declaration, and that it has no comment.
func (p *publicFile) add(name string, doc *ast.CommentGroup, line string) {
	name = p.pkg + "." + name
	p.lines = append(p.lines, p.pkg+": "+line)
	// Methods that the language or the library prescribes need no sentence.
	if doc == nil && !slices.Contains([]string{"Error", "Unwrap", "String"}, name[strings.LastIndex(name, ".")+1:]) {
		p.bare = append(p.bare, name)
	}
}

// text prints an expression in one line.
func (p *publicFile) text(x ast.Expr) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, p.files, x); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
