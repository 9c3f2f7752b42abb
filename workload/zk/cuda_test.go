//go:build gpu

package zk

import (
	"bytes"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cuda"
	"github.com/weft-run/weft/internal/workloadtest"
)

// These tests need an NVIDIA GPU.

// The quotient that a GPU computes is that of cores, and gnark accepts proofs of all circuits that it
// makes, with the bytes of those that cores make.
func TestCUDA(t *testing.T) {
	rt, err := weft.Open(t.Context(), weft.Options{
		NoCalibrate: true, CacheDir: "off", Funcs: Funcs(),
		Drivers: []driver.Driver{cuda.New(cuda.Options{Devices: []int{0}, Exact: true})},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, log := range []int{0, 1, 6, 10, 11, 18, 19} {
		testQuotient(t, rt, log)
	}
	for _, name := range Circuits() {
		for _, units := range []int{1, 2, 30} {
			s := shipped(t, name, units, 3)
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
				t.Errorf("%s of %d units: the GPU makes the proof %x, cores %x", name, units, proofs[0], proofs[1])
			}
		}
	}
}
