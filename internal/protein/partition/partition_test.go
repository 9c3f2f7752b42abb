package partition_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/internal/protein/partition"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload/protein"
)

// beads reads the C-alpha atoms of a structure.
func beads(t testing.TB, name string) []float64 {
	t.Helper()
	s, err := protein.Open(name, protein.Select{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Coordinates()
}

const (
	crambin = "1CRN"
	closed  = "testdata/1ake_a.pdb"
	open    = "testdata/4ake_a.pdb"
)

func contacts(t testing.TB, path string) *network.Matrix {
	t.Helper()
	m, err := network.Contacts(beads(t, path), network.ContactCutoff)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Clusters cut no more contacts than an independent spectral bisection found, nor than METIS 5.1.0
// cuts (the better of its two methods, within 3 %), as bench/protein.py records it. Ranges of residues cut as many as were counted by another program.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		path                         string
		parts, ranges, listed, metis int
	}{
		{crambin, 2, 59, 30, 29}, {crambin, 4, 79, 68, 63},
		{closed, 2, 99, 74, 64}, {closed, 4, 232, 159, 131},
		{open, 2, 63, 55, 45}, {open, 4, 198, 127, 103},
	} {
		m := contacts(t, c.path)
		p, err := partition.ContactClusters(m, partition.Equal(c.parts))
		if err != nil {
			t.Fatal(err)
		}
		checkSizes(t, p, partition.Equal(c.parts))
		cut := p.Cut(m)
		t.Logf("%s in %d: %d contacts of %d cut, METIS %d", c.path, c.parts, cut, (m.Nonzeros()-m.Rows())/2, c.metis)
		if cut > min(c.listed, c.metis) {
			t.Errorf("%s in %d parts: %d contacts cut; a bisection cuts %d and METIS %d", c.path, c.parts, cut, c.listed, c.metis)
		}
		r, err := partition.ResidueRanges(m.Rows(), partition.Equal(c.parts))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Cut(m); got != c.ranges {
			t.Errorf("%s: %d ranges cut %d contacts, want %d", c.path, c.parts, got, c.ranges)
		}
		if got := r.Communication(m); got != int64(c.ranges)*48 {
			t.Errorf("%s: %d ranges exchange %d bytes for %d contacts", c.path, c.parts, got, c.ranges)
		}
	}
}

// checkSizes reports sizes that are far from the weights.
func checkSizes(t *testing.T, p *partition.Parts, weights []float64) {
	t.Helper()
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	for k, s := range p.Sizes() {
		if want := weights[k] / sum * float64(len(p.Of)); math.Abs(float64(s)-want) > max(0.03*want, 1)+1 || s == 0 {
			t.Errorf("part %d of %v has %d residues, want %.1f", k, weights, s, want)
		}
	}
}

// Parts follow weights, every residue is in one, and the same arguments give the same parts.
func TestWeights(t *testing.T) {
	m := contacts(t, open)
	for _, weights := range [][]float64{{1}, {95, 80}, {1, 3}, {5, 1, 1}, {1, 1, 1, 1, 1, 1, 1}, {1e-9, 1}} {
		for _, cut := range []func() (*partition.Parts, error){
			func() (*partition.Parts, error) { return partition.ContactClusters(m, weights) },
			func() (*partition.Parts, error) { return partition.ResidueRanges(m.Rows(), weights) },
		} {
			p, err := cut()
			if err != nil {
				t.Fatal(err)
			}
			checkSizes(t, p, weights)
			again, _ := cut()
			if !slices.Equal(p.Of, again.Of) {
				t.Errorf("%v: other parts the second time", weights)
			}
			order := p.Order()
			if !slices.IsSortedFunc(order, func(a, b int) int { return p.Of[a] - p.Of[b] }) {
				t.Errorf("%v: the order mixes parts", weights)
			}
			slices.Sort(order)
			for i, r := range order {
				if i != r {
					t.Fatalf("%v: residue %d is missing or there twice", weights, i)
				}
			}
		}
	}
}

// Every number of parts up to that of residues is possible, and each part has a residue.
func TestManyParts(t *testing.T) {
	m := contacts(t, crambin)
	for parts := 1; parts <= m.Rows(); parts++ {
		p, err := partition.ContactClusters(m, partition.Equal(parts))
		if err != nil {
			t.Errorf("%d parts: %v", parts, err)
			continue
		}
		if sizes := p.Sizes(); len(sizes) != parts || slices.Min(sizes) < 1 {
			t.Errorf("%d parts have %v residues", parts, sizes)
		}
	}
}

// A network in several pieces has no domains.
func TestDomainsApart(t *testing.T) {
	var xyz []float64
	for k := range 3 {
		for i, x := range protein.Helix(20).Coordinates() {
			if i%3 == 0 {
				x += 100 * float64(k)
			}
			xyz = append(xyz, x)
		}
	}
	m, err := network.Kirchhoff(xyz, network.GaussianCutoff)
	if err != nil {
		t.Fatal(err)
	}
	modes, err := m.Slowest(network.Uniform(m.Rows()), 3)
	if err != nil {
		t.Fatal(err)
	}
	for domains := 1; domains <= 3; domains++ {
		if p, err := partition.StructuralDomains(modes, domains); !errors.Is(err, partition.ErrPartition) {
			t.Errorf("%d domains of three pieces: %v, %v", domains, p, err)
		}
	}
	modes.Values = []float64{math.NaN(), math.Inf(1), -1}
	if _, err := partition.StructuralDomains(modes, 1); !errors.Is(err, partition.ErrPartition) {
		t.Errorf("an eigenvalue that is none: %v", err)
	}
}

// The domains of open adenylate kinase are those that were published: NMP (residues 30 to 59),
// LID (122 to 159) and CORE.
func TestDomains(t *testing.T) {
	m, err := network.Kirchhoff(beads(t, open), network.GaussianCutoff)
	if err != nil {
		t.Fatal(err)
	}
	modes, err := m.Slowest(network.Uniform(m.Rows()), 3)
	if err != nil {
		t.Fatal(err)
	}
	p, err := partition.StructuralDomains(modes, 3)
	if err != nil {
		t.Fatal(err)
	}
	published := make([]int, 214)
	for i := range published {
		switch r := i + 1; {
		case r >= 30 && r <= 59:
			published[i] = 1
		case r >= 122 && r <= 159:
			published[i] = 2
		}
	}
	best := 0
	for _, as := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		same := 0
		for i, d := range p.Of {
			if as[d] == published[i] {
				same++
			}
		}
		best = max(best, same)
	}
	t.Logf("%d of 214 residues agree", best)
	if best < 182 { // 85 %
		t.Errorf("%d of 214 residues are in the domains that were published", best)
	}
}

// Parts are the ranges of a partitioner, for devices that have a rate.
func TestPartitioner(t *testing.T) {
	m := contacts(t, crambin)
	p, err := partition.ContactClusters(m, []float64{2, 1})
	if err != nil {
		t.Fatal(err)
	}
	cut := p.Partitioner()
	shares := []sched.Share{{Device: 0, Rate: 2}, {Device: 1}, {Device: 2, Rate: 1}}
	items := sched.Items{Extent: 46}
	got, err := cut(items, shares)
	if err != nil {
		t.Fatal(err)
	}
	sizes := p.Sizes()
	if err := sched.CheckPartition(items, shares, got); err != nil || got.Ranges[0].Len() != int64(sizes[0]) || got.Ranges[1].Len() != 0 || got.Completion == 0 {
		t.Errorf("partition %+v of parts of %v residues: %v", got, sizes, err)
	}
	for _, bad := range []struct {
		items  sched.Items
		shares []sched.Share
	}{{sched.Items{Extent: 45}, shares}, {sched.Items{Extent: 46, Align: 2}, shares}, {items, shares[:1]}, {items, append(shares, shares[0])}} {
		if _, err := cut(bad.items, bad.shares); !errors.Is(err, partition.ErrPartition) {
			t.Errorf("%+v: error %v", bad, err)
		}
	}
}

func TestRejects(t *testing.T) {
	m := contacts(t, crambin)
	for _, weights := range [][]float64{nil, partition.Equal(47), {1, 0}, {1, -1}, {math.NaN()}, {math.Inf(1), 1}} {
		if _, err := partition.ContactClusters(m, weights); !errors.Is(err, partition.ErrPartition) {
			t.Errorf("clusters by %v: error %v", weights, err)
		}
		if _, err := partition.ResidueRanges(46, weights); !errors.Is(err, partition.ErrPartition) {
			t.Errorf("ranges by %v: error %v", weights, err)
		}
	}
	modes, err := m.Slowest(network.Uniform(46), 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, domains := range []int{0, 3, 47} {
		if _, err := partition.StructuralDomains(modes, domains); !errors.Is(err, partition.ErrPartition) {
			t.Errorf("%d domains: error %v", domains, err)
		}
	}
}
