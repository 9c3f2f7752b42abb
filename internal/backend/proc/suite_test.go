//go:build linux && !race

package proc_test

// Every test of the suite starts processes, which takes the race detector a
// second each; what it could find here it finds in the other tests.

import (
	"maps"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/backendtest"
	"github.com/weft-run/weft/internal/backend/proc"
)

// suite is the configuration of the suite every backend passes, for devices in
// workers.
func suite(t testing.TB, o proc.Options) backendtest.Config {
	mem, err := arena.Open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	o.Memory = mem
	return backendtest.Config{Open: func() driver.Driver { return proc.New(o) }}
}

func TestSuite(t *testing.T) {
	t.Run("lanes", func(t *testing.T) {
		backendtest.Run(t, suite(t, proc.Options{Driver: "fake", Config: []byte("memory 8388608; lanes 2; devices 2")}))
	})
	t.Run("cpu", func(t *testing.T) {
		backendtest.Run(t, suite(t, proc.Options{Driver: "cpu", MemBytes: 8 << 20}))
	})
}

func init() { maps.Copy(funcs, backendtest.Funcs()) }

func BenchmarkSuite(b *testing.B) {
	backendtest.Bench(b, suite(b, proc.Options{Driver: "cpu", MemBytes: 1 << 29}))
}
