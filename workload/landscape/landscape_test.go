package landscape

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/simd"
	"github.com/weft-run/weft/workload/protein"
)

// everyKernel runs a test with each kernel this machine has.
func everyKernel(t *testing.T, test func(t *testing.T)) {
	defer func() { use = simd.Best }()
	for _, use = range simd.Sets() {
		t.Run(fmt.Sprintf("kernel=%v", use), test)
	}
}

func crambin(t testing.TB) *Model {
	t.Helper()
	s, err := protein.Open("1CRN", protein.Select{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(s.Coordinates())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// coil returns a chain of n beads that winds tightly enough to have contacts.
func coil(t testing.TB, n int) *Model {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(n), 4))
	var xyz []float64
	for i := range n {
		a := float64(i)
		xyz = append(xyz, 6*math.Cos(0.65*a)+0.3*r.NormFloat64(), 6*math.Sin(0.65*a)+0.3*r.NormFloat64(), 0.45*a+0.3*r.NormFloat64())
	}
	m, err := NewModel(xyz)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sample computes the whole landscape in one range.
func sample(m *Model) []float64 {
	dst := make([]float64, rowCount(m.Beads())*Angles)
	computeRows(dst, m.Native, turnTable(), m.Energy(m.Native), 0, rowCount(m.Beads()))
	return dst
}

func TestCrambin(t *testing.T) {
	m := crambin(t)
	if m.Beads() != 46 || len(m.Contacts) != 89 {
		t.Errorf("%d residues and %d contacts, want 46 and 89", m.Beads(), len(m.Contacts))
	}
	// Bonds, angles and dihedrals vanish, contacts give -1 each, and the other
	// pairs repel each other a little.
	if rest := m.Energy(m.Native) + 89; rest <= 0 || rest > 0.02 {
		t.Errorf("native energy is %v beyond that of the contacts", rest)
	}
}

// The native structure is the minimum: no small displacement lowers the energy,
// and the gradient vanishes but for the repulsion.
func TestNativeIsMinimum(t *testing.T) {
	m := crambin(t)
	r := rand.New(rand.NewPCG(1, 1))
	native := m.Energy(m.Native)
	for range 200 {
		x := slices.Clone(m.Native)
		for i := range x {
			x[i] += 0.05 * r.NormFloat64()
		}
		if e := m.Energy(x); e <= native {
			t.Fatalf("a displaced structure has energy %v, below %v", e, native)
		}
	}
	const h = 1e-5
	x := slices.Clone(m.Native)
	for i := range x {
		x[i] = m.Native[i] + h
		up := m.Energy(x)
		x[i] = m.Native[i] - h
		down := m.Energy(x)
		x[i] = m.Native[i]
		if g := (up - down) / (2 * h); math.Abs(g) > 0.1 {
			t.Errorf("coordinate %d: slope %v at the minimum", i, g)
		}
	}
}

// The energy does not change when the whole structure is moved.
func TestEnergyIsInvariant(t *testing.T) {
	m := crambin(t)
	x := m.Turned(20, 0.3)
	want := m.Energy(x)
	sin, cos := math.Sincos(1.1)
	for i := 0; i < len(x); i += 3 {
		x[i], x[i+1], x[i+2] = cos*x[i]-sin*x[i+1]+5, sin*x[i]+cos*x[i+1]-7, x[i+2]+11
	}
	if got := m.Energy(x); math.Abs(got-want) > 1e-9*math.Abs(want) {
		t.Errorf("energy %v after moving, %v before", got, want)
	}
}

// A turned structure keeps its bonds and angles, and one dihedral changes by
// the angle.
func TestTurned(t *testing.T) {
	m := crambin(t)
	for i := range rowCount(m.Beads()) {
		x := m.Turned(i, 0.7)
		for j := range m.Beads() - 3 {
			want := 0.0
			if j == i-1 {
				want = 0.7
			}
			d := math.Abs(math.Remainder(dihedral(x, j)-dihedral(m.Native, j), 2*math.Pi))
			if math.Abs(d-want) > 1e-9 {
				t.Fatalf("turn at %d: dihedral %d changes by %v", i, j, d)
			}
			if math.Abs(angle(x, j)-angle(m.Native, j)) > 1e-9 || math.Abs(distance2(x, j, j+1)-distance2(m.Native, j, j+1)) > 1e-9 {
				t.Fatalf("turn at %d: the angle or bond at %d changes", i, j)
			}
		}
	}
}

// Every entry equals the potential of the turned structure, evaluated in full.
func TestAgainstFullEnergy(t *testing.T) {
	everyKernel(t, func(t *testing.T) {
		for _, m := range []*Model{crambin(t), coil(t, 4), coil(t, 5), coil(t, 9)} {
			got := sample(m)
			step := 1
			if m.Beads() > 20 {
				step = 37
			}
			for e := 0; e < len(got); e += step {
				i, k := e/Angles, e%Angles
				want := m.Energy(m.Turned(i, 2*math.Pi*float64(k)/Angles))
				// Energies of overlapping beads are as steep as they are large.
				if math.Abs(got[e]-want) > 1e-9*(100+math.Abs(want)) {
					t.Fatalf("%d beads, row %d, angle %d: %v, want %v", m.Beads(), i, k, got[e], want)
				}
			}
		}
	})
}

// The kernels agree with each other to the last bit.
func TestKernelsAgree(t *testing.T) {
	m := coil(t, 40)
	defer func() { use = simd.Best }()
	use = simd.Go
	want := sample(m)
	for _, use = range simd.Sets()[1:] {
		if !slices.Equal(sample(m), want) {
			t.Errorf("kernel %v differs from the Go code", use)
		}
	}
}

// Cutting the rows into ranges, with equal or weighted costs, changes no bit.
func TestCutsDoNotChangeResult(t *testing.T) {
	m := crambin(t)
	want := sample(m)
	energy, turns := m.Energy(m.Native), turnTable()
	for parts := 1; parts <= 8; parts++ {
		shares := make([]float64, parts)
		for p := range shares {
			shares[p] = float64(1 + p%3)
		}
		begin := cutRows(m.Beads(), shares)
		got := make([]float64, len(want))
		for p := parts - 1; p >= 0; p-- {
			computeRows(got, m.Native, turns, energy, begin[p], begin[p+1])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d parts: the result differs", parts)
		}
	}
}

func TestCostBefore(t *testing.T) {
	for _, n := range []int{3, 4, 5, 46, 301} {
		var sum int64
		for i := range rowCount(n) {
			if got := costBefore(n, i); got != sum {
				t.Fatalf("%d beads: rows before %d cost %d, want %d", n, i, got, sum)
			}
			sum += costOf(n, i)
		}
		if got := costBefore(n, rowCount(n)); got != sum {
			t.Errorf("%d beads: all rows cost %d, want %d", n, got, sum)
		}
	}
}

// efficiency is the mean cost of the ranges over the largest.
func efficiency(n int, begin []int) float64 {
	var most int64
	for p := range len(begin) - 1 {
		most = max(most, costBefore(n, begin[p+1])-costBefore(n, begin[p]))
	}
	return float64(costBefore(n, rowCount(n))) / float64(most) / float64(len(begin)-1)
}

// Equal ranges of rows waste a third of the devices; ranges of equal cost waste
// next to nothing.
func TestCutBalancesCost(t *testing.T) {
	const n = 20_000
	for _, c := range []struct {
		parts int
		equal float64
	}{{3, 0.692}, {4, 0.727}, {8, 0.681}, {16, 0.670}} {
		equal := make([]int, c.parts+1)
		shares := make([]float64, c.parts)
		for p := range shares {
			shares[p] = 1
			equal[p+1] = rowCount(n) * (p + 1) / c.parts
		}
		if got := efficiency(n, equal); math.Abs(got-c.equal) > 5e-4 {
			t.Errorf("%d equal ranges: efficiency %.4f, want %.3f", c.parts, got, c.equal)
		}
		if got := efficiency(n, cutRows(n, shares)); got < 0.998 {
			t.Errorf("%d weighted ranges: efficiency %.4f", c.parts, got)
		}
	}
}

func TestCutCovers(t *testing.T) {
	for _, n := range []int{3, 4, 5, 10, 46} {
		for _, shares := range [][]float64{{1}, {0, 1}, {1, 0}, {1, 2, 3}, {95, 80}, {1, 1, 1, 1, 1, 1, 1, 1}} {
			begin := cutRows(n, shares)
			if begin[0] != 0 || begin[len(shares)] != rowCount(n) || !slices.IsSorted(begin) {
				t.Errorf("%d beads by %v: %v", n, shares, begin)
			}
		}
	}
}

func TestRowsDoNotAllocate(t *testing.T) {
	m := crambin(t)
	dst, turns := make([]float64, rowCount(46)*Angles), turnTable()
	if n := testing.AllocsPerRun(5, func() {
		computeRows(dst, m.Native, turns, -89, 0, 3)
		rowPart(dst[:200], m.Native, turns, -89, 3, 400)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkRows samples the landscape of crambin on one core.
func BenchmarkRows(b *testing.B) {
	m := crambin(b)
	n := m.Beads()
	dst, turns, energy := make([]float64, rowCount(n)*Angles), turnTable(), m.Energy(m.Native)
	defer func() { use = simd.Best }()
	for _, use = range simd.Sets() {
		b.Run(fmt.Sprintf("kernel=%v", use), func(b *testing.B) {
			for range b.N {
				computeRows(dst, m.Native, turns, energy, 0, rowCount(n))
			}
			pairs := Angles * float64(costBefore(n, rowCount(n))) * float64(b.N)
			b.ReportMetric(pairs/b.Elapsed().Seconds()/1e6, "Mpair/s")
		})
	}
}
