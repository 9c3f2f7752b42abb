package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/workload/zk"
)

// Every error of the table can be put into its file, and is one. In Go it leaves nothing unused, which would not
// compile and so would be tried by no test.
func TestTable(t *testing.T) {
	all, err := rows(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		source, err := os.ReadFile(filepath.Join("../../../workload", p.file))
		if err != nil {
			t.Error(err)
			continue
		}
		bad, err := p.apply(string(source))
		if err != nil || bad == string(source) {
			t.Errorf("%s, %s: %v", p.backend, p.kernel, err)
		}
		if filepath.Ext(p.file) == ".go" {
			for _, what := range unused(bad) {
				t.Errorf("%s, %s: with %q it does not compile: %s", p.backend, p.kernel, p.new, what)
			}
		}
		if tests[p.workload()] == "" {
			t.Errorf("%s has no tests", p.kernel)
		}
	}
}

// empty has packages without names, which is enough to see what a file uses.
type empty struct{}

func (empty) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

// unused says which variables and imports a Go file does not use, as far as that shows without the other files of its
// package, and what of it cannot be parsed.
func unused(source string) (out []string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, 0)
	if err != nil {
		return []string{err.Error()}
	}
	c := types.Config{Importer: empty{}, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) && e.Soft && strings.Contains(e.Msg, "not used") {
			out = append(out, e.Msg)
		}
	}}
	_, _ = c.Check("", set, []*ast.File{file}, nil) // it lacks the names of others
	return out
}

// What does not compile for what it does not use is named.
func TestUnused(t *testing.T) {
	for source, want := range map[string]string{
		"import \"math\"\nfunc f(x float64, y []float64) float64 { for i, v := range y { x += v * g(i) }; return math.Abs(x) }": "",
		"func f(x float64, y []float64) float64 { for i, v := range y { x += v }; return x }":                                   "declared and not used: i",
		"import \"math\"\nfunc f() {}": "\"math\" imported and not used",
		"func f() { x := g() }":        "declared and not used: x",
		"func f() {":                   "2:12: expected '}', found 'EOF'",
	} {
		if got := strings.Join(unused("package p\n"+source+"\n"), ", "); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

// entries are the kernels that the workloads have in each backend: Go functions, shaders and
// entries of PTX, with an underscore for each dot. Collective operations have oracles of
// their own.
func entries(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	funcs := catalog.Funcs()
	maps.Copy(funcs, zk.Funcs())
	for _, name := range slices.Sorted(maps.Keys(funcs)) {
		if !strings.HasPrefix(name, "collective.") {
			out["go"] = append(out["go"], strings.ReplaceAll(name, ".", "_"))
		}
	}
	files, err := filepath.Glob("../../../workload/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"elastic", "phase", "ntt", "msm"} {
		more, err := filepath.Glob("../../../workload/" + (&planted{kernel: name}).folder() + "/*")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	entry := regexp.MustCompile(`\.visible \.entry (\w+)\(`)
	for _, f := range files {
		if name, ok := strings.CutSuffix(filepath.Base(f), ".spv"); ok {
			out["spirv"] = append(out["spirv"], name)
			continue
		}
		if !strings.HasSuffix(f, ".ptx.gz") {
			continue
		}
		source, err := os.ReadFile(f)
		if err == nil {
			source, err = plain(source)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range entry.FindAllStringSubmatch(string(source), -1) {
			out["cuda"] = append(out["cuda"], m[1])
		}
	}
	return out
}

// lacking says which kernels have fewer than three errors, and which errors are of no kernel.
// Parts of kernels that have errors of their own are named too, kernels of workloads outside of the catalogue,
// and what the host makes of results: in assembly there is no list to compare with.
func lacking(all []planted, entries map[string][]string) (out []string) {
	same := map[string]string{"go automata_deep": "go automata_block"} // one function
	parts := []string{
		"go gemm_tile", "go tropical_tile", "go fold_advance", "go fold_part", "go fold_exchange", "go fold_ladder", "go fold_observe", "go fold_heat",
		"go partition_domains", "go partition_clusters", "go partition_parts", "go modes_slowest", "go modes_tridiagonal", "go zk_proof", "go elastic_modes", "go msm_total", "go network_start",
	}
	counts := map[string]int{}
	for _, p := range all {
		counts[p.backend+" "+strings.ReplaceAll(p.kernel, ".", "_")]++
	}
	known := slices.Clone(parts)
	for backend, names := range entries {
		for _, name := range names {
			kernel := backend + " " + name
			known = append(known, kernel)
			if other := same[kernel]; other != "" {
				kernel = other
			}
			if n := counts[kernel]; n < 3 {
				out = append(out, fmt.Sprintf("kernel %s has %d errors in table.txt, want 3", kernel, n))
			}
		}
	}
	for kernel, n := range counts {
		backend, name, _ := strings.Cut(kernel, " ")
		switch assembly := strings.HasPrefix(backend, "avx"); {
		case assembly && n < 3:
			out = append(out, fmt.Sprintf("kernel %s has %d errors in table.txt, want 3", kernel, n))
		case n < 3 && slices.Contains(parts, kernel):
			out = append(out, fmt.Sprintf("%s has %d errors in table.txt, want 3", kernel, n))
		case !slices.Contains(known, kernel) && !(assembly && slices.Contains(known, "go "+name)):
			out = append(out, fmt.Sprintf("table.txt has errors in %s, which is no kernel", kernel))
		}
	}
	slices.Sort(out)
	return out
}

// Every kernel has three errors at least in each backend that it is in.
func TestEveryKernel(t *testing.T) {
	all, err := rows(table)
	if err != nil {
		t.Fatal(err)
	}
	have := entries(t)
	for backend, least := range map[string]int{"go": 25, "spirv": 35, "cuda": 30} {
		if len(have[backend]) < least {
			t.Errorf("%d kernels of %s were found, want %d or more: %v", len(have[backend]), backend, least, have[backend])
		}
	}
	for _, line := range lacking(all, have) {
		t.Error(line)
	}
	// What is left out is named.
	for _, kernel := range []string{"go automata.any", "spirv automata.any", "cuda automata.any", "avx2 automata.block"} {
		backend, name, _ := strings.Cut(kernel, " ")
		left := 0
		some := slices.DeleteFunc(slices.Clone(all), func(p planted) bool {
			if p.backend != backend || p.kernel != name {
				return false
			}
			left++
			return left > 2
		})
		want := fmt.Sprintf("kernel %s has 2 errors in table.txt, want 3", strings.ReplaceAll(kernel, ".", "_"))
		if got := lacking(some, have); !slices.Equal(got, []string{want}) {
			t.Errorf("without errors of %s: %q", kernel, got)
		}
	}
}

// An error is found if a test fails, and by the check if that says so.
func TestSeen(t *testing.T) {
	for _, c := range []struct {
		backend, out string
		failed       bool
		want         string
	}{
		{"go", "ok", false, missed},
		{"go", "--- FAIL: TestTile", true, byTest},
		{"go", "element (1, 2) is 3, want 4: not the product", true, byBoth},
		{"go", "FAIL x [build failed]", true, ""},
		{"spirv", "--- FAIL: TestVulkanKernels", true, ""},
		{"spirv", "--- FAIL: TestVulkanKernels\n    --- FAIL: TestVulkanKernels/gemm", true, byTest},
		{"cuda", "panic: test timed out", true, byTest},
	} {
		if got, err := seen(c.backend, c.out, c.failed); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%q: %q, %v", c.out, got, err)
		}
	}
}
