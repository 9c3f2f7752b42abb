//go:build !gpu && (stub || cgo)

package cuda

import (
	"os"
	"syscall"
	"testing"

	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
)

// Without a GPU the tests run on a stand-in for NVIDIA's libraries in C, so they
// need a C compiler: cgo is on where there is one. The tag stub runs them with
// cgo off, as weft is built; the tag gpu on a real GPU.

func TestMain(m *testing.M) {
	code := m.Run()
	cudatest.Remove()
	os.Exit(code)
}

func libraryPath(t testing.TB) []string {
	t.Helper()
	dir, err := cudatest.Libraries()
	if err != nil {
		t.Fatal(err)
	}
	return []string{dir}
}

func closeFD(fd int) { _ = syscall.Close(fd) }
