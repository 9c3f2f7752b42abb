//go:build lavapipe

package workload_test

import (
	"testing"

	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload/reservoir"
)

// A Vulkan device takes tasks that have steps for dense weights, beside a GPU that computes
// with them.
func TestVulkanBesideDense(t *testing.T) {
	rt := workloadtest.Exact(t, vulkan.New(vulkan.Options{}))
	defer rt.Close()
	beside := &machine.Machine{Devices: []machine.Device{{Name: "cuda:0", Backend: "cuda", Cluster: 16}}}
	for _, batch := range []int{3, 300} {
		p := reservoir.Defaults()
		p.Size, p.Inputs = 103, 17
		j, err := reservoir.NewJob(reservoir.Config{Params: p, Batch: batch, Steps: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Place(beside); err != nil {
			t.Fatal(err)
		}
		g, err := j.Graph([]sched.Range{{Hi: int64(batch)}})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(g.Task(0).Steps); n <= 3 {
			t.Errorf("%d steps, none for dense weights", n)
		}
		if _, err := rt.Run(t.Context(), g, j.Bind()...); err != nil {
			t.Fatal(err)
		}
		if err := j.Check(); err != nil {
			t.Error(err)
		}
	}
}
