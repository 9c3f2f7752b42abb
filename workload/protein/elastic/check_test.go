package elastic

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
)

// Sums of vectors with random factors show a wrong number anywhere, as each vector by itself does.
func TestCheckDrawn(t *testing.T) {
	defer func(from float64) { drawnFrom = from }(drawnFrom)
	for _, c := range []Config{{Structure: "1CRN"}, {Structure: "1CRN", Network: Anisotropic, Steps: 60}, {Residues: 7}} {
		j, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := workload.Call(t.Context(), workloadtest.Open(t, 1, Funcs()), j, "elastic"); err != nil {
			t.Fatal(err)
		}
		if j.isDrawn(j.width) || j.Misses()[0].Chance != 0 {
			t.Errorf("%+v: a small network is not looked at vector by vector", c)
		}
		drawnFrom = 0
		if err := j.Check(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if chance := j.Misses()[0].Chance; !(chance > 0 && chance < 1e-7) {
			t.Errorf("%+v: chance %v", c, chance)
		}
		spaces, _ := j.spaces()
		if len(spaces) > 1 { // the second begins with another vector, where this one ends
			drawnFrom = 2e10
			continue
		}
		vector := spaces[0].first + len(spaces[0].diagonal)/2
		for name, at := range map[string]*float64{
			"a vector": &j.basis[j.at(vector, 3)], "the last vector": &j.basis[j.at(spaces[0].first+len(spaces[0].diagonal)-1, 1)], "a rigid motion": &j.basis[j.at(0, 3)],
			"squares": &j.squares[j.blocks], "diagonal": &j.diagonal[j.blocks], "the first of the diagonal": &j.diagonal[0],
		} {
			for _, wrong := range []float64{math.NaN(), *at + 1e-6, -*at - 0.1} {
				good := *at
				*at = wrong
				if err := j.Check(); !errors.Is(err, errWrong) {
					t.Errorf("%+v: %s is %v for %v: the check says %v", c, name, wrong, good, err)
				}
				*at = good
			}
		}
		drawnFrom = 2e10
	}
}

// A network whose products would take minutes is refused with the time, unless the steps are given.
func TestMaxProducts(t *testing.T) {
	defer func(was func(string, int64) error) { enough = was }(enough)
	enough = func(string, int64) error { return nil }
	c := Config{Residues: 8000, Network: Anisotropic, Cutoff: 1000}
	_, err := New(c)
	if !errors.Is(err, workload.ErrConfig) || !strings.Contains(err.Error(), "5105889 springs at 1000 Å; 1500 steps take 1.4e+11 products") || !strings.Contains(err.Error(), "lower the cutoff") {
		t.Error(err)
	}
}
