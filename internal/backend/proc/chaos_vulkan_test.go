//go:build linux && lavapipe

package proc_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/backendtest"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/backend/vulkan"
)

func init() { makers["vulkan"] = makeVulkan }

func makeVulkan(config []byte, device int) (driver.Driver, error) {
	var o vulkan.Options
	if err := json.Unmarshal(config, &o); err != nil {
		return nil, err
	}
	if device >= 0 {
		o.Devices = []int{device}
	}
	return vulkan.New(o), nil
}

// TestVulkanChaos is chaos on Vulkan devices, of which lavapipe is one that computes
// on the CPU.
func TestVulkanChaos(t *testing.T) {
	config, err := json.Marshal(vulkan.Options{Devices: []int{0}, MemBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../vulkan/testdata/add.spv")
	if err != nil {
		t.Fatal(err)
	}
	k := &graph.Kernel{Name: "add", Impls: []graph.Impl{
		{Dialect: graph.SPIRV, Entry: "main", Source: source, Per: [3]uint32{64}, Block: [3]uint32{64}},
	}}
	chaos(t, chaotic{
		o: proc.Options{Driver: "vulkan", Config: config},
		work: func(t *testing.T, rnd *rand.Rand) (*graph.Graph, []byte, []byte) {
			n := 1000 + rnd.IntN(1<<18)
			return increments(t, k, backendtest.Params{N: n, K: 1}, n, 5+rnd.IntN(30))
		},
	})
}
