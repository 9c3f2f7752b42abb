package partition_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/internal/protein/partition"
)

// spread is the sum of squared distances of residues from the means of their domains, where a residue is
// at its entries of the slowest modes, each over the root of its eigenvalue: by pairs, without a mean.
func spread(modes *network.Modes, domains int, of []int) float64 {
	sum := 0.0
	for d := range domains {
		pairs, size := 0.0, 0.0
		for i := range of {
			if of[i] != d {
				continue
			}
			size++
			for k := range i {
				if of[k] != d {
					continue
				}
				for m := range domains {
					by := modes.Vectors[m][i] - modes.Vectors[m][k]
					pairs += by * by / modes.Values[m]
				}
			}
		}
		if size > 0 {
			sum += pairs / size
		}
	}
	return sum
}

// Of few residues all ways to put them into domains can be tried. The domains are the best of these for
// modes that are drawn, whose eigenvalues differ by up to a thousand times.
func TestDomainsAreTheBest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	best := 0
	const tries, n = 100, 9
	for try := range tries {
		domains := 2 + try%2
		modes := &network.Modes{}
		for k := range domains {
			modes.Values = append(modes.Values, math.Pow(1000, float64(k)*r.Float64()))
			v := make([]float64, n)
			for i := range v {
				v[i] = r.NormFloat64()
			}
			modes.Vectors = append(modes.Vectors, v)
		}
		p, err := partition.StructuralDomains(modes, domains)
		if err != nil {
			t.Fatal(err)
		}
		got, least := spread(modes, domains, p.Of), math.Inf(1)
		of := make([]int, n)
		for code := range int(math.Pow(float64(domains), n-1)) { // the first residue is in the first domain
			for i := 1; i < n; i++ {
				of[i] = code % domains
				code /= domains
			}
			least = min(least, spread(modes, domains, of))
		}
		if got <= least*(1+1e-9) {
			best++
		} else if got > 1.5*least {
			t.Errorf("try %d: spread %v, and %v is the least", try, got, least)
		}
	}
	t.Logf("%d of %d are the best", best, tries)
	if best < 90 {
		t.Errorf("%d of %d are the best", best, tries)
	}
}
