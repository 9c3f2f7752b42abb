package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

// language is how types are called.
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

// structure returns the fields of a Go structure as lines of a language.
func structure(dir, name string, in language) (lines []string, err error) {
	file, s, err := lookup(dir, name)
	if err != nil {
		return nil, err
	}
	for _, f := range s.Fields.List {
		switch t := f.Type.(type) {
		case *ast.SelectorExpr: // a structure of another package
			dir, err := imported(dir, file, t)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			nested, err := structure(dir, t.Sel.Name, in)
			if err != nil {
				return nil, err
			}
			lines = append(lines, nested...)
		case *ast.Ident:
			typ, ok := in[t.Name]
			if !ok { // a structure of this one
				nested, err := structure(dir, t.Name, in)
				if err != nil {
					return nil, fmt.Errorf("%s has a field of type %s: %w", name, t.Name, err)
				}
				lines = append(lines, nested...)
				continue
			}
			var names []string
			for _, n := range f.Names {
				if n.Name == "_" {
					return nil, fmt.Errorf("%s has a field without a name", name)
				}
				names = append(names, lower(n.Name))
			}
			line := "\t" + typ + " " + strings.Join(names, ", ") + ";"
			if says := strings.TrimSpace(f.Comment.Text()); says != "" {
				line += " // " + says
			}
			lines = append(lines, line)
		default:
			return nil, fmt.Errorf("%s has a field that is neither a number nor a structure", name)
		}
	}
	return lines, nil
}

// lookup finds a structure among the Go files of a folder, tests included, and the
// file it is in.
func lookup(dir, name string) (*ast.File, *ast.StructType, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	for _, path := range names {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if t, ok := s.(*ast.TypeSpec); ok && t.Name.Name == name {
					if s, ok := t.Type.(*ast.StructType); ok {
						return f, s, nil
					}
				}
			}
		}
	}
	return nil, nil, fmt.Errorf("no structure %s is declared in %s", name, dir)
}

// imported finds the folder of the package that a type of another package is of.
func imported(dir string, f *ast.File, t *ast.SelectorExpr) (string, error) {
	pkg, ok := t.X.(*ast.Ident)
	if !ok {
		return "", errors.New("it has a field of no known type")
	}
	root, path, err := module(dir)
	if err != nil {
		return "", err
	}
	for _, i := range f.Imports {
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
