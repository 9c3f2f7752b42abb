// Package cudatest builds a stand-in for NVIDIA's libraries, so that tests of
// whatever uses GPUs run where there is none. It needs gcc. Nothing but tests may
// import it.
package cudatest

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// Calls counts the launches that a stand-in was asked for: kernels by themselves,
// graphs, and kernels to be recorded into graphs.
type Calls struct{ Kernels, Graphs, Recorded int }

// Sub returns what was asked for since an earlier time.
func (c Calls) Sub(then Calls) Calls {
	return Calls{c.Kernels - then.Kernels, c.Graphs - then.Graphs, c.Recorded - then.Recorded}
}

// CallsEnv is the environment variable that names the file in which stand-ins count
// what they are asked for. MakeCalls makes such a file.
const CallsEnv = "WEFT_STUB_CALLS"

// MakeCalls makes a file for CallsEnv and returns what reads it.
func MakeCalls(file string) (func() (Calls, error), error) {
	if err := os.WriteFile(file, make([]byte, 24), 0o600); err != nil {
		return nil, fmt.Errorf("cudatest: %w", err)
	}
	return func() (c Calls, err error) {
		b, err := os.ReadFile(file)
		if err != nil || len(b) != 24 {
			return c, fmt.Errorf("cudatest: %d bytes of calls: %w", len(b), err)
		}
		at := func(i int) int { return int(binary.LittleEndian.Uint64(b[8*i:])) }
		return Calls{at(0), at(1), at(2)}, nil
	}, nil
}

// Remove deletes what Libraries made, if it was called; nothing may use it any
// more.
func Remove() {
	if made != "" {
		_ = os.RemoveAll(made)
	}
}

// File is the path of a file in internal/backend/cuda/testdata, of the repository that
// the working directory is in. A binary built with -trimpath does not know where
// it was compiled.
func File(name string) string {
	dir, err := os.Getwd()
	for err == nil {
		path := filepath.Join(dir, "internal", "backend", "cuda", "testdata", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return filepath.Join("..", "cuda", "testdata", name)
}
