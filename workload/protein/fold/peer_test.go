package fold

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// Energy and forces of a conformation are those that OpenMM's double precision gives for the same
// potential, which bench/fold_peer.py builds of the structure's file by itself.
func TestOpenMM(t *testing.T) {
	data, err := os.ReadFile("testdata/openmm.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Energy float64
		Forces []float64
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	m := modelOf(t, "1CRN")
	if len(want.Forces) != 3*m.Beads() {
		t.Fatalf("%d forces on %d beads", len(want.Forces), m.Beads())
	}
	largest := 0.0
	for _, f := range want.Forces {
		largest = max(largest, math.Abs(f))
	}
	everyKernel(t, func(t *testing.T) {
		g := shaken(m, 0, 1)
		for k := range g.x {
			for l := range lanes {
				g.x[k][l] = m.Native[k] + 0.3*math.Sin(1+7*float64(k))
			}
		}
		g.list()
		g.args.do(doForce)
		for l := range lanes {
			if got := g.args.energy[l]; !(math.Abs(got-want.Energy) <= 1e-11*want.Energy) {
				t.Errorf("replica %d: energy %v, by OpenMM %v", l, got, want.Energy)
			}
			for k, f := range want.Forces {
				if got := g.f[k][l]; !(math.Abs(got-f) <= 1e-11*largest) {
					t.Fatalf("replica %d: force %d is %v, by OpenMM %v", l, k, got, f)
				}
			}
		}
	})
}
