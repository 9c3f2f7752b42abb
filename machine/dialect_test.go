package machine_test

import (
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

func TestCanRun(t *testing.T) {
	kernel := func(d graph.Dialect) *graph.Kernel { return &graph.Kernel{Impls: []graph.Impl{{Dialect: d}}} }
	tests := []struct {
		device machine.Device
		kernel graph.Dialect
		want   bool
	}{
		{machine.Device{Backend: "cpu"}, graph.Go, true},
		{machine.Device{Backend: "cpu"}, graph.PTX, false},
		{machine.Device{Backend: "cuda"}, graph.Library, true},
		{machine.Device{Backend: "cuda", Exact: true}, graph.Library, false},
		{machine.Device{Backend: "other"}, graph.Go, false},
		{machine.Device{Backend: "other"}, graph.Abstract, true},
		{machine.Device{Backend: "other", Dialects: []graph.Dialect{graph.Go}}, graph.Go, true},
		{machine.Device{Backend: "cuda", Dialects: []graph.Dialect{graph.Go}}, graph.PTX, false},
	}
	for _, c := range tests {
		if got := c.device.CanRun(kernel(c.kernel)); got != c.want {
			t.Errorf("%s with %v, exact %v: dialect %v runs: %v", c.device.Backend, c.device.Dialects, c.device.Exact, c.kernel, got)
		}
	}
}
