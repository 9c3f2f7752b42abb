// Package cudatest builds a stand-in for NVIDIA's libraries, so that tests of
// whatever uses GPUs run where there is none. It needs gcc. Nothing but tests may
// import it.
package cudatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// names are the libraries the stand-in is found as: one file under all of them,
// so that they share their state.
var names = []string{"libcuda.so.1", "libnvidia-ml.so.1", "libcublas.so.13", "libcudnn.so.9", "libnccl.so.2", "libnvrtc.so.13"}

// made is the folder of Libraries, once there is one.
var made string

// Libraries builds the stand-in, once in a process, and returns the folder it is
// in: for cuda.Options.LibraryPath, or for LD_LIBRARY_PATH of processes to be
// started.
var Libraries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "weft-cuda-stub")
	if err != nil {
		return "", err
	}
	made = dir
	lib := filepath.Join(dir, "stub.so")
	text, err := exec.Command("gcc", "-O1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror",
		"-shared", "-fPIC", "-pthread", "-o", lib, File("stub.c")).CombinedOutput()
	if err != nil {
		return dir, fmt.Errorf("cudatest: %w\n%s", err, text)
	}
	for _, name := range names {
		if err := os.Symlink(lib, filepath.Join(dir, name)); err != nil {
			return dir, fmt.Errorf("cudatest: %w", err)
		}
	}
	return dir, nil
})

// Remove deletes what Libraries made, if it was called; nothing may use it any
// more.
func Remove() {
	if made != "" {
		_ = os.RemoveAll(made)
	}
}

// File is the path of a file in backend/cuda/testdata: as it was when this was
// compiled, or below the working directory where a test carried elsewhere runs.
func File(name string) string {
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "..", "testdata", name)
	if _, err := os.Stat(path); err != nil {
		return filepath.Join("..", "cuda", "testdata", name)
	}
	return path
}
