package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// backendless are the folders whose packages run on any device, with everything below them. What they
// ask of one is a field of machine.Device, or whether it runs a kernel.
var backendless = []string{"collective", "experimental", "internal/catalog", "internal/product", "internal/verify", "model", "sched", "serve/internal/infer", "serve/simulate", "workload"}

// architectures are the files that may name architectures of GPUs, with the reason. Such a name is what
// the PTX of a kernel needs, which the backend compares.
var architectures = map[string]string{
	"workload/kernel.go":    "declares the PTX of workloads",
	"collective/kernels.go": "declares the PTX of collective operations, which import no workload",
}

const namesArchitecture = "names an architecture"

// TestWalls keeps packages that run on any device from knowing backends.
func TestWalls(t *testing.T) {
	backends := backendNames(t)
	seen := make(map[string]bool)
	sources(t, func(file string, src []byte) {
		if !slices.ContainsFunc(backendless, func(folder string) bool { return within(path.Dir(file), folder) }) {
			return
		}
		found, err := knowledge(file, src, backends)
		if err != nil {
			t.Error(err)
		}
		for _, f := range found {
			if _, ok := architectures[file]; ok && strings.Contains(f, namesArchitecture) {
				seen[file] = true
				continue
			}
			t.Error(f)
		}
	})
	for file := range architectures {
		if !seen[file] {
			t.Errorf("%s names no architecture: remove its row", file)
		}
	}
}

// backendNames returns the names of the folders of backends.
func backendNames(t *testing.T) (names []string) {
	t.Helper()
	folders, err := os.ReadDir("internal/backend")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if !slices.Contains([]string{"all", "backendtest", "proc"}, f.Name()) { // which have no devices of their own
			names = append(names, f.Name())
		}
	}
	if !slices.Contains(names, "cuda") {
		t.Fatalf("no cuda among the backends %q", names)
	}
	return names
}

// knowledge returns where a file asks for the backend of a device, compares a value with the name of one,
// or names an architecture of NVIDIA's GPUs.
func knowledge(file string, src []byte, backends []string) (found []string, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	report := func(at ast.Node, what string) {
		found = append(found, fmt.Sprintf("%s: %s: ask the device by a field of machine.Device, which the backend sets", files.Position(at.Pos()), what))
	}
	literal := func(x ast.Expr) string {
		if l, ok := x.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				return s
			}
		}
		return ""
	}
	compared := func(exprs ...ast.Expr) {
		for _, x := range exprs {
			if s := literal(x); slices.Contains(backends, s) {
				report(x, fmt.Sprintf("compares with the name of backend %q", s))
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared(n.X, n.Y)
			}
		case *ast.CaseClause:
			compared(n.List...)
		case *ast.SelectorExpr:
			if n.Sel.Name == "Backend" {
				report(n.Sel, "reads the name of a backend")
			}
		case *ast.BasicLit:
			if strings.HasPrefix(literal(n), "sm_") {
				report(n, namesArchitecture)
			}
		}
		return true
	})
	return found, nil
}

// The check itself must be able to fail.
func TestWallsCatches(t *testing.T) {
	const name, reads, arch = `compares with the name of backend "cuda"`, "reads the name of a backend", namesArchitecture
	for _, c := range []struct {
		src  string
		want string // "" for nothing
	}{
		{`var x = d.Backend`, reads},
		{`var x = a.Backend != b.Backend`, reads},
		{`var x = name == "cuda"`, name},
		{"var x = `cuda` != name", name},
		{`func f() { switch name { case "x", "cuda": } }`, name},
		{`var x = k.Arch == "sm_90"`, arch},
		{`var x = strings.TrimPrefix(d.Arch, "sm_")`, arch},
		{`var x = machine.Device{Backend: "cuda"}`, ""},
		{`var x = name == "cube"`, ""},
		{`var x = "msm_90"`, ""},
		{`func f() { switch name { case "x": } }`, ""},
	} {
		found, err := knowledge("p.go", []byte("package p\n"+c.src), []string{"cpu", "cuda"})
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) == 0 || !strings.Contains(found[0], c.want)) {
			t.Errorf("%s: found %q, want %q", c.src, found, c.want)
		}
	}
}
