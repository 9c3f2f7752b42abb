package workloads

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// elsewhere are workloads without a test of their largest size in their own package, and where it is or why
// there is none.
var elsewhere = map[string]string{
	"gemm":      "internal/product",
	"elastic":   "its graph follows from a matrix that its structure makes",
	"network":   "its graph follows from the edges, which are drawn in memory",
	"reservoir": "its graph follows from weights, which are drawn in memory",
	"zk":        "its graph follows from a circuit, which is compiled in memory",
}

// Every workload has a test that builds its graphs at the largest size it allows.
func TestLargestOfAll(t *testing.T) {
	for _, w := range All() {
		folder := packageOf(w.Funcs)
		why, known := elsewhere[w.Name]
		if known && strings.HasPrefix(why, "internal/") {
			folder = why
		} else if known {
			continue
		}
		src, err := os.ReadFile(filepath.Join("../../../..", folder, "largest_linux_test.go"))
		if err != nil || !strings.Contains(string(src), "func TestLargest(t *testing.T)") {
			t.Errorf("%s: %s has no TestLargest: %v", w.Name, folder, err)
		}
	}
}

// packageOf is the folder of the package that a function is of.
func packageOf(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	name = strings.TrimPrefix(name, "github.com/weft-run/weft/")
	slash := strings.LastIndex(name, "/")
	dot := strings.Index(name[slash+1:], ".")
	return name[:slash+1+dot]
}
