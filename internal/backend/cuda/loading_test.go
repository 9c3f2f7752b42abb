//go:build !gpu && (stub || cgo)

package cuda

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
)

// A device whose driver compiles code is not silent, however long that takes.
func TestLoadingIsSeen(t *testing.T) {
	r := openRig(t, Options{Devices: []int{0}})
	dir := t.TempDir()
	k := testKernel("add_one")
	k.Impls[0].Source = append([]byte("// held by "+dir+"\n"), testPTX...)
	b := r.alloc(1024)
	w := r.launch(0, &graph.Task{Steps: []graph.Step{step(k, 256)}}, args(1024, b))
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the code was not loaded in a minute")
		}
	}
	from := time.Now()
	if seen := r.dev.(driver.Hanger).LastSeen(); seen.Before(from) {
		t.Errorf("last seen %v before it was asked, while it loads code", from.Sub(seen))
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.must(w)
}
