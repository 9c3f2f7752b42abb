//go:build lavapipe

package vulkan

import (
	"embed"
	"log/slog"
	"strings"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/backendtest"
)

// These tests need Vulkan devices: .ci/run installs lavapipe, which computes on
// the CPU, and runs them with the tag.

//go:generate go run github.com/weft-run/weft/internal/tools/weftparams testdata
//go:generate ../../../workload/spirv.sh testdata/kernels.comp
//go:embed testdata/*.spv
var testSPIRV embed.FS

// testImpls are the implementations of a kernel of testdata/kernels.comp.
func testImpls(name string) []graph.Impl {
	if name == "fail" { // nothing fails here without losing the device
		return nil
	}
	source, err := testSPIRV.ReadFile("testdata/" + name + ".spv")
	if err != nil {
		panic(err)
	}
	per := uint32(64)
	if name == "saxpy" {
		per = 4 * 64
	}
	return []graph.Impl{{Dialect: graph.SPIRV, Entry: "main", Source: source, Per: [3]uint32{per}, Block: [3]uint32{64}}}
}

// failing fails a test with what is written to it, but for the loss of a device and a
// cache that was spoilt.
type failing struct{ testing.TB }

func (f failing) Write(b []byte) (int, error) {
	if s := string(b); !strings.Contains(s, "gpu lost") && !strings.Contains(s, "cache file removed") {
		f.Errorf("%s", b)
	}
	return len(b), nil
}

// warnings is a log that fails a test with every warning.
func warnings(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(failing{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func config(o Options) backendtest.Config {
	return backendtest.Config{Open: func() driver.Driver { return New(o) }, Impls: testImpls}
}

// TestSuite is what every backend passes.
func TestSuite(t *testing.T) {
	for name, o := range map[string]Options{
		"plain":       {MemBytes: 64 << 20},
		"three lanes": {MemBytes: 64 << 20, Streams: 3},
		"staged":      {MemBytes: 64 << 20, stage: true},
	} {
		t.Run(name, func(t *testing.T) { backendtest.Run(t, config(o)) })
	}
}
