//go:build gpu || stub || cgo

package cuda

import (
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/backendtest"
)

func config(t testing.TB, o Options) backendtest.Config {
	o.LibraryPath = libraryPath(t)
	return backendtest.Config{
		Open: func() driver.Driver { return New(o) },
		Impls: func(kernel string) []graph.Impl {
			if kernel == "fail" { // nothing fails here without losing the device
				return nil
			}
			return testKernel(kernel).Impls
		},
	}
}

// TestSuite is what every backend passes.
func TestSuite(t *testing.T) {
	t.Run("one lane", func(t *testing.T) { backendtest.Run(t, config(t, Options{MemBytes: 64 << 20})) })
	t.Run("three lanes", func(t *testing.T) { backendtest.Run(t, config(t, Options{MemBytes: 64 << 20, Streams: 3})) })
}

func BenchmarkSuite(b *testing.B) { backendtest.Bench(b, config(b, Options{MemBytes: 1 << 30})) }
