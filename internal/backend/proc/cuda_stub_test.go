//go:build linux && !race && !gpu && (stub || cgo)

package proc_test

import (
	"testing"

	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
)

// cudaLibraries is where workers find the stand-in for NVIDIA's libraries.
func cudaLibraries(t testing.TB) []string {
	t.Helper()
	dir, err := cudatest.Libraries()
	if err != nil {
		t.Fatal(err)
	}
	return []string{dir}
}
