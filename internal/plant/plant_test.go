package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Every error of the table can be put into its file, is one, and every kernel has three
// at least in each backend that it is in.
func TestTable(t *testing.T) {
	all, err := rows(table)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, p := range all {
		source, err := os.ReadFile(filepath.Join("../../workload", p.file))
		if err != nil {
			t.Error(err)
			continue
		}
		bad, err := p.apply(string(source))
		if err != nil || bad == string(source) {
			t.Errorf("%s, %s: %v", p.backend, p.kernel, err)
		}
		if tests[p.workload()] == "" {
			t.Errorf("%s has no tests", p.kernel)
		}
		counts[p.backend+" "+p.kernel]++
	}
	for kernel, n := range counts {
		if n < 3 && kernel != "go gemm.rows" { // which shares its tile with others
			t.Errorf("%s has %d errors", kernel, n)
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
