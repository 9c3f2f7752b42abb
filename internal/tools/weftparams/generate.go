package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

var (
	marker = regexp.MustCompile(`^//params: *(?:([\w./-]+)\.)?(\w+)$`)
	head   = regexp.MustCompile(`^(struct|layout\(push_constant\) uniform) \w+ \{`)
)

// language maps the Go types that graph.Pack packs to the type names of another language.
type language map[string]string

var (
	cuda = language{
		"int": "unsigned", "uint32": "unsigned", "int32": "int", "float32": "float",
		"uint64": "unsigned long long", "int64": "long long", "float64": "double",
	}
	glsl = language{
		"int": "uint", "uint32": "uint", "int32": "int", "float32": "float",
		"uint64": "uint64_t", "int64": "int64_t", "float64": "double",
	}
)

// generate returns a source with its declarations made anew.
func generate(file, source string) (string, error) {
	var out []string
	lines := strings.Split(source, "\n")
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		m := marker.FindStringSubmatch(lines[i])
		if m == nil {
			if strings.HasPrefix(lines[i], "//params:") {
				return "", fmt.Errorf("%s:%d: write //params: and the name of a structure", file, i+1)
			}
			continue
		}
		at, end := i+1, i+1
		for end < len(lines) && !strings.HasSuffix(lines[end], "};") {
			end++
		}
		if end == len(lines) || !head.MatchString(lines[at]) {
			return "", fmt.Errorf("%s:%d: a struct or a push_constant block must follow, and end with };", file, at+1)
		}
		begin := head.FindStringSubmatch(lines[at])
		in := glsl
		if begin[1] == "struct" {
			in = cuda
		}
		dir, err := folder(filepath.Dir(file), m[1])
		if err != nil {
			return "", fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		fields, err := structure(dir, m[2], in)
		if err != nil {
			return "", fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		out = append(append(append(out, begin[0]), fields...), "};")
		i = end
	}
	return strings.Join(out, "\n"), nil
}

// folder finds the folder that a source in another names: that one, one relative to it,
// or one of its module.
func folder(dir, name string) (string, error) {
	if name == "" || name[0] == '.' {
		return filepath.Join(dir, filepath.FromSlash(name)), nil
	}
	root, _, err := module(dir)
	return filepath.Join(root, filepath.FromSlash(name)), err
}

// module finds the folder and the path of the module a folder belongs to.
func module(dir string) (root, path string, err error) {
	if root, err = filepath.Abs(dir); err != nil {
		return "", "", err
	}
	for {
		b, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			m := regexp.MustCompile(`(?m)^module\s+(\S+)`).FindSubmatch(b)
			if m == nil {
				return "", "", fmt.Errorf("%s has no module line", filepath.Join(root, "go.mod"))
			}
			return root, string(m[1]), nil
		}
		if up := filepath.Dir(root); up != root {
			root = up
			continue
		}
		return "", "", errors.New("there is no go.mod in this folder or above it")
	}
}

// structure returns the fields of the structure name, declared in dir, as lines of a
// language.
func structure(dir, name string, in language) ([]string, error) {
	at, t, err := lookup(dir, name)
	if err != nil {
		return nil, err
	}
	_, s, at, err := at.resolve(t, in)
	if err == nil && s == nil {
		err = errors.New("it is a number, not a structure")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return at.fields(name, "", s, in)
}

// scope finds the types that a Go file mentions: in its own folder and in its imports.
type scope struct {
	dir  string
	file *ast.File
}

// fields returns the fields of the structure name as lines, and those of structures in
// it in their place, which is how graph.Pack packs them. Their names begin with prefix.
// Fields of one structure type that occurs several times have the names of its
// occurrences in front, because names in a declaration must differ.
func (at scope) fields(name, prefix string, s *ast.StructType, in language) (lines []string, err error) {
	occurs := make(map[string]int)
	for _, f := range s.Fields.List {
		occurs[types.ExprString(f.Type)] += len(names(f))
	}
	for _, f := range s.Fields.List {
		of := types.ExprString(f.Type)
		number, nested, from, err := at.resolve(f.Type, in)
		if err != nil {
			return nil, fmt.Errorf("%s has a field of type %s: %w", name, of, err)
		}
		if nested != nil && occurs[of] == 1 {
			more, err := from.fields(of, prefix, nested, in)
			if err != nil {
				return nil, err
			}
			lines = append(lines, more...)
			continue
		}
		var called []string
		for _, n := range names(f) {
			if n == "_" {
				return nil, fmt.Errorf("%s has a field without a name", name)
			}
			called = append(called, prefix+lower(n))
		}
		if nested != nil {
			for _, c := range called {
				more, err := from.fields(of, c+"_", nested, in)
				if err != nil {
					return nil, err
				}
				lines = append(lines, more...)
			}
			continue
		}
		line := "\t" + number + " " + strings.Join(called, ", ") + ";"
		if says := strings.TrimSpace(f.Comment.Text()); says != "" {
			line += " // " + says
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// names returns the names a field declares; an embedded one has that of its type.
func names(f *ast.Field) (out []string) {
	for _, n := range f.Names {
		out = append(out, n.Name)
	}
	if len(out) == 0 {
		of := types.ExprString(f.Type)
		out = append(out, of[strings.LastIndex(of, ".")+1:])
	}
	return out
}

// resolve follows the names of a type to the number it is, called as the language does,
// or to the structure, with the scope of its fields.
func (at scope) resolve(t ast.Expr, in language) (number string, s *ast.StructType, from scope, err error) {
	dir, name := at.dir, ""
	switch t := t.(type) {
	case *ast.StructType:
		return "", t, at, nil
	case *ast.Ident:
		if number, ok := in[t.Name]; ok {
			return number, nil, at, nil
		}
		name = t.Name
	case *ast.SelectorExpr: // of another package
		if dir, err = at.imported(t); err != nil {
			return "", nil, at, err
		}
		name = t.Sel.Name
	default:
		return "", nil, at, errors.New("it is neither a number nor a structure")
	}
	if from, t, err = lookup(dir, name); err != nil {
		return "", nil, at, err
	}
	return from.resolve(t, in)
}

// lookup finds a type among the Go files of a folder, tests included, and the scope of
// what its declaration names.
func lookup(dir, name string) (scope, ast.Expr, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return scope{}, nil, err
	}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return scope{}, nil, err
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if t, ok := s.(*ast.TypeSpec); ok && t.Name.Name == name {
					return scope{dir, f}, t.Type, nil
				}
			}
		}
	}
	return scope{}, nil, fmt.Errorf("no number or structure %s is declared in %s", name, dir)
}

// imported finds the folder of the package that a type of another package is of.
func (at scope) imported(t *ast.SelectorExpr) (string, error) {
	pkg, ok := t.X.(*ast.Ident)
	if !ok {
		return "", errors.New("it is of no package")
	}
	root, path, err := module(at.dir)
	if err != nil {
		return "", err
	}
	for _, i := range at.file.Imports {
		from, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return "", err
		}
		name := from[strings.LastIndex(from, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		if below, ok := strings.CutPrefix(from, path+"/"); ok && name == pkg.Name {
			return filepath.Join(root, filepath.FromSlash(below)), nil
		}
	}
	return "", fmt.Errorf("package %s is not of this module", pkg.Name)
}

// lower makes a name of C from one of Go.
func lower(name string) string {
	var out strings.Builder
	before := 'A'
	for _, r := range name {
		if unicode.IsUpper(r) && !unicode.IsUpper(before) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
		before = r
	}
	return out.String()
}
