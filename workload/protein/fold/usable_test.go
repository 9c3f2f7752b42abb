package fold

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

// Energies that are no numbers or infinite change nothing of the heat capacity, and a rung that has
// no other is one with too few.
func TestHeatBadEnergies(t *testing.T) {
	r := newSmall(t, Config{Steps: 400, Every: 10, Replicas: 5, Low: 0.6, High: 1.2})
	do(t, workloadtest.Open(t, 1, Funcs()), r)
	energy := func(round, replica int) *float64 { return &r.seen[(round*r.c.Replicas+replica)*seenCount+seenEnergy] }
	for i, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		*energy(r.Rounds()-1-i, i) = bad
	}
	h, err := r.Heat()
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range h.Capacity {
		if !(c >= 0 && c < 1e6) || !(h.Melting >= 0.6 && h.Melting <= 1.2) {
			t.Fatalf("capacity %v at %v, melting %v", c, h.Temperatures[i], h.Melting)
		}
	}
	for i := range r.Rounds() {
		for k := range r.c.Replicas {
			*energy(i, k) = math.NaN()
		}
	}
	if _, err := r.Heat(); !errors.Is(err, ErrFew) {
		t.Errorf("no energy: %v", err)
	}
}

// Of many rungs some are taken, the ends among them, and energies stay at their temperatures.
func TestHeatManyRungs(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, n := range []int{1, 2, maxRungs, maxRungs + 1, 1000} {
		temperatures := Config{Replicas: n, Low: 0.6, High: 1.2}.temperatures()
		parts := make([][][]float64, 3)
		for p := range parts {
			for _, temperature := range temperatures {
				parts[p] = append(parts[p], []float64{temperature, temperature, math.Inf(r.IntN(3) - 1)})
			}
		}
		out, at, err := usable(parts, temperatures)
		if err != nil || len(at) != min(n, maxRungs) || at[0] != temperatures[0] || at[len(at)-1] != temperatures[n-1] {
			t.Fatalf("%d rungs: %v, %v", n, at, err)
		}
		for k, temperature := range at {
			if k > 0 && temperature <= at[k-1] {
				t.Errorf("%d rungs: %v after %v", n, temperature, at[k-1])
			}
			for p := range out {
				if es := out[p][k]; len(es) != 2 || es[0] != temperature {
					t.Fatalf("%d rungs: energies %v at %v", n, es, temperature)
				}
			}
		}
	}
}
