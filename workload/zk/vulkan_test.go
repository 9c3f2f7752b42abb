//go:build lavapipe

package zk

import (
	"bytes"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/vulkan"
	"github.com/weft-run/weft/internal/workloadtest"
)

// The quotient that a Vulkan device computes is that of cores, for one pass and two.
func TestVulkanQuotient(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off",
		Drivers: []driver.Driver{vulkan.New(vulkan.Options{MemBytes: 1 << 30})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, log := range []int{0, 1, 6, 10, 11} {
		testQuotient(t, rt, log)
	}
}

// gnark accepts a proof that a Vulkan device made, with the bytes of one that cores made.
func TestVulkanProof(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
		Drivers: []driver.Driver{vulkan.New(vulkan.Options{MemBytes: 1 << 30})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	s := shipped(t, Range, 2, 3)
	var proofs [][]byte
	for _, rt := range []*weft.Runtime{rt, workloadtest.Open(t, 2, Funcs())} {
		p, err := NewProver(rt, s.ccs, &s.pk)
		if err != nil {
			t.Fatal(err)
		}
		proofs = append(proofs, s.proofBytes(t, p))
		p.Release()
	}
	if !bytes.Equal(proofs[0], proofs[1]) {
		t.Errorf("Vulkan makes the proof %x, cores %x", proofs[0], proofs[1])
	}
}
