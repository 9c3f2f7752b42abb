//go:build !gpu && (stub || cgo)

package cuda

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Without a GPU the tests run on a stand-in for NVIDIA's libraries in C, so they
// need a C compiler: cgo is on where there is one. The tag stub runs them with
// cgo off, as weft is built; the tag gpu on a real GPU.

// stub builds testdata/stub.c once and puts it where libraries are looked for:
// one file under all their names, so that they share their state.
var stub = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "weft-cuda-stub")
	if err != nil {
		return "", err
	}
	lib := filepath.Join(dir, "stub.so")
	text, err := exec.Command("gcc", "-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-shared", "-fPIC", "-pthread", "-o", lib, "testdata/stub.c").CombinedOutput()
	if err != nil {
		return dir, fmt.Errorf("%w\n%s", err, text)
	}
	for _, name := range []string{"libcuda.so.1", nvmlNames[0], cublasNames[0], cudnnNames[0], ncclNames[0], nvrtcNames[0]} {
		if err := os.Symlink(lib, filepath.Join(dir, name)); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := stub(); dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func libraryPath(t testing.TB) []string {
	t.Helper()
	dir, err := stub()
	if err != nil {
		t.Fatal(err)
	}
	return []string{dir}
}

func closeFD(fd int) { _ = syscall.Close(fd) }
