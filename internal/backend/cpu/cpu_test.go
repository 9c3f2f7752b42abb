package cpu_test

import (
	"fmt"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/backendtest"
	"github.com/weft-run/weft/internal/backend/cpu"
)

func config(o cpu.Options) backendtest.Config {
	o.MemBytes, o.Funcs = 64<<20, backendtest.Funcs()
	return backendtest.Config{Open: func() driver.Driver { return cpu.New(o) }}
}

// The cores as one device, as two, and as more than there may be.
func TestSuite(t *testing.T) {
	for _, parts := range []int{1, 2, 4} {
		t.Run(fmt.Sprintf("cpu %d", parts), func(t *testing.T) { backendtest.Run(t, config(cpu.Options{Parts: parts})) })
	}
	t.Run("pinned", func(t *testing.T) { backendtest.Run(t, config(cpu.Options{Threads: cpu.Threads{Pin: true}, Parts: 2})) })
}

func Benchmark(b *testing.B) { backendtest.Bench(b, config(cpu.Options{})) }
