package machine_test

import (
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

func TestCanRun(t *testing.T) {
	kernel := func(d graph.Dialect) *graph.Kernel { return &graph.Kernel{Impls: []graph.Impl{{Dialect: d}}} }
	apart := machine.Device{Backend: "cpu", Dialects: []graph.Dialect{"own"}, Apart: true}
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
		{machine.Device{Backend: "other", Dialects: []graph.Dialect{graph.Go}}, graph.Abstract, true},
		{apart, "own", true},
		{apart, graph.Go, false},
		{apart, graph.Abstract, false},
		{machine.Device{Backend: "cuda", Dialects: []graph.Dialect{graph.Go}}, graph.PTX, false},
	}
	for _, c := range tests {
		if got := c.device.CanRun(kernel(c.kernel)); got != c.want {
			t.Errorf("%s with %v, exact %v: dialect %v runs: %v", c.device.Backend, c.device.Dialects, c.device.Exact, c.kernel, got)
		}
		if got := c.device.Runs(c.kernel); got != (c.want && c.kernel != graph.Abstract) {
			t.Errorf("%s with %v, exact %v: Runs(%v) is %v", c.device.Backend, c.device.Dialects, c.device.Exact, c.kernel, got)
		}
	}
}

func TestRoundAlike(t *testing.T) {
	device := func(backend, rounding string) machine.Device {
		return machine.Device{Backend: backend, Rounding: rounding, Model: backend + rounding, Arch: rounding}
	}
	for _, c := range []struct {
		a, b machine.Device
		want bool
	}{
		{device("cpu", ""), device("cpu", ""), true},
		{device("cpu", ""), device("cuda", ""), false},
		{device("vulkan", "A"), device("vulkan", "A"), true},
		{device("vulkan", "A"), device("vulkan", "B"), false},
		{device("vulkan", "A"), device("other", "A"), false},
	} {
		if got := machine.RoundAlike(&c.a, &c.b); got != c.want {
			t.Errorf("%s and %s round alike: %v", c.a.Model, c.b.Model, got)
		}
	}
}
