//go:build lavapipe

package fold

import (
	"errors"
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload/protein"
)

// These tests need Vulkan devices: .ci/run installs lavapipe and runs them.

// onVulkan opens the Vulkan devices alone.
func onVulkan(t *testing.T) *weft.Runtime {
	t.Helper()
	return openOn(t, vulkan.New(vulkan.Options{MemBytes: 256 << 20}))
}

// A Vulkan device goes where the reference goes, and sees what that sees.
func TestVulkanSteps(t *testing.T) {
	testStepsOn(t, onVulkan(t))
}

// A launch has as many steps as lavapipe takes, and gives the bytes that many short ones give; a
// replica has the same bytes whichever replicas run beside it.
func TestVulkanSameBytes(t *testing.T) {
	rt := onVulkan(t)
	for _, name := range []string{"1CRN", "1UBI"} {
		s := open(t, name)
		run := func(c Config) *Run {
			r, err := NewOf(c, s)
			if err != nil {
				t.Fatal(err)
			}
			do(t, rt, r)
			if err := r.Check(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return r
		}
		m, err := protein.ModelOf(s)
		if err != nil {
			t.Fatal(err)
		}
		tables, _, _ := tablesOf(m)
		most := tables.stepsWithin(65_535)
		long := run(Config{Steps: most + 10, Every: most, Replicas: 2, Seed: 3})
		parts := run(Config{Steps: most + 10, Every: most/9 + 1, Replicas: 9, Seed: 3})
		if got := long.parts(0); !slices.Equal(got, []int{most}) {
			t.Errorf("%s: launches of %v steps, want %d", name, got, most)
		}
		for k := range 2 {
			if !slices.Equal(long.Positions(k), parts.Positions(k)) {
				t.Errorf("%s: replica %d of launches of %d steps is elsewhere than of %d", name, k, most, most/9+1)
			}
		}
	}
}

// A chain of more beads than a group has invocations is left to other devices.
func TestVulkanLong(t *testing.T) {
	rt := onVulkan(t)
	for beads, want := range map[int]error{middleBeads: nil, middleBeads + 1: weft.ErrNoDevice} {
		r, err := NewOf(Config{Steps: 3, Every: 3, Replicas: 1}, protein.Helix(beads))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Do(t.Context(), rt, nil); !errors.Is(err, want) {
			t.Errorf("%d beads: %v", beads, err)
		}
		if want != nil {
			continue
		}
		if err := r.Check(); err != nil {
			t.Errorf("%d beads: %v", beads, err)
		}
	}
}

// Mean Q and Rg of the replicas of Vulkan devices are those of the processors', within five standard
// errors. Their random numbers differ.
func TestVulkanStatistics(t *testing.T) {
	c := Config{Steps: 3000, Every: 500, Replicas: 16, Low: 1.1}
	testMeans(t, c, onVulkan(t), workloadtest.Open(t, 1, Funcs()), 5)
}
