package protein

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func open(t testing.TB, name string) *Model {
	t.Helper()
	s, err := Open(name, Select{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ModelOf(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Bonds, angles and dihedrals vanish in the native structure, contacts give -1 each, and the
// other pairs repel each other a little.
func TestNativeEnergy(t *testing.T) {
	for name, contacts := range map[string]int{"1CRN": 89, "BPTI": 143} {
		m := open(t, name)
		if rest := m.Energy(m.Native) + float64(contacts); len(m.Contacts) != contacts || rest <= 0 || rest > 0.03 {
			t.Errorf("%s: %d contacts, native energy is %v beyond theirs", name, len(m.Contacts), rest)
		}
	}
}

// shaken is the native structure with every coordinate displaced at random.
func shaken(m *Model, by float64, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := slices.Clone(m.Native)
	for i := range x {
		x[i] += by * r.NormFloat64()
	}
	return x
}

// Forces are the negative slopes of the potential, also of two chains.
func TestForces(t *testing.T) {
	two := open(t, "1CRN")
	two, err := NewModel(two.Native, 20, 46)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Model{open(t, "1CRN"), open(t, "BPTI"), two} {
		for _, by := range []float64{0, 0.1, 0.3} {
			x := shaken(m, by, 7)
			f := make([]float64, len(x))
			if e := m.Forces(f, x); math.Abs(e-m.Energy(x)) > 1e-12*math.Abs(e) {
				t.Errorf("energy %v with forces, %v without", e, m.Energy(x))
			}
			const h = 1e-5
			largest := 1.0
			for _, v := range f {
				largest = max(largest, math.Abs(v))
			}
			for i := range x {
				at := x[i]
				x[i] = at + h
				up := m.Energy(x)
				x[i] = at - h
				down := m.Energy(x)
				x[i] = at
				if off := math.Abs(f[i] + (up-down)/(2*h)); off > 5e-8*largest {
					t.Fatalf("displaced by %v: force %d is %v, by differences %v, off by %v", by, i, f[i], -(up-down)/(2*h), off)
				}
			}
		}
	}
}

// Forces of a conformation add up to nothing, and neither do their moments.
func TestForcesBalance(t *testing.T) {
	m := open(t, "BPTI")
	x := shaken(m, 0.3, 2)
	f := make([]float64, len(x))
	m.Forces(f, x)
	var sum, turn vector
	for i := range m.Beads() {
		a, c := bead(f, i), cross(bead(x, i), bead(f, i))
		sum = vector{sum.x + a.x, sum.y + a.y, sum.z + a.z}
		turn = vector{turn.x + c.x, turn.y + c.y, turn.z + c.z}
	}
	if math.Sqrt(dot(sum, sum)) > 1e-9 || math.Sqrt(dot(turn, turn)) > 1e-6 {
		t.Errorf("forces add up to %v, moments to %v", sum, turn)
	}
}

func TestNewModelRejects(t *testing.T) {
	good := open(t, "1CRN").Native
	for name, x := range map[string][]float64{
		"few":          good[:9],
		"ragged":       good[:13],
		"not a number": append(slices.Clone(good[:12]), math.NaN(), 0, 0),
		"far":          append(slices.Clone(good[:12]), 1e9, 0, 0),
		"same":         append(slices.Clone(good[:12]), good[:3]...),
		"line":         {0, 0, 0, 4, 0, 0, 8, 0, 0, 8, 4, 0},
	} {
		if _, err := NewModel(x); !errors.Is(err, ErrStructure) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, ends := range [][]int{{45}, {0, 46}, {47}, {20, 20, 46}, {30, 20, 46}} {
		if _, err := NewModel(good, ends...); !errors.Is(err, ErrStructure) {
			t.Errorf("chains that end at %v: error %v", ends, err)
		}
	}
}

// turned is a conformation moved and turned about two axes.
func turned(x []float64, by float64) []float64 {
	out := slices.Clone(x)
	sin, cos := math.Sincos(by)
	for i := 0; i < len(x); i += 3 {
		a, b, c := cos*x[i]-sin*x[i+1], sin*x[i]+cos*x[i+1], x[i+2]
		out[i], out[i+1], out[i+2] = a+5, cos*b-sin*c-7, sin*b+cos*c+11
	}
	return out
}

// A conformation that is only moved and turned is at distance zero; one that is mirrored is
// not; and no turn of a displaced one comes nearer than what is found.
func TestRMSD(t *testing.T) {
	m := open(t, "1CRN")
	for _, by := range []float64{0, 0.5, 2, 3.14159} {
		if d := RMSD(turned(m.Native, by), m.Native); d > 1e-6 {
			t.Errorf("turned by %v: RMSD %v", by, d)
		}
		if math.Abs(Rg(turned(m.Native, by))-Rg(m.Native)) > 1e-9 {
			t.Errorf("turned by %v: Rg %v", by, Rg(turned(m.Native, by)))
		}
	}
	mirrored := slices.Clone(m.Native)
	for i := 0; i < len(mirrored); i += 3 {
		mirrored[i] *= -1
	}
	if d := RMSD(mirrored, m.Native); d < 5 {
		t.Errorf("mirrored: RMSD %v", d)
	}
	x := turned(shaken(m, 1, 3), 1)
	best := RMSD(x, m.Native)
	moved := Superposed(x, m.Native)
	for _, by := range []float64{-0.02, -0.001, 0.001, 0.02} {
		other := turned(moved, by)
		c, d := centre(other), centre(m.Native)
		sum := 0.0
		for i := range m.Beads() {
			b := bead(other, i)
			e := sub(vector{b.x - c.x + d.x, b.y - c.y + d.y, b.z - c.z + d.z}, bead(m.Native, i))
			sum += dot(e, e)
		}
		if d := math.Sqrt(sum / 46); d < best {
			t.Errorf("turned by another %v: %v, below %v", by, d, best)
		}
	}
	if best < 1 || best > 2 {
		t.Errorf("displaced by 1 in each coordinate: RMSD %v", best)
	}
}

func TestObservables(t *testing.T) {
	m := open(t, "1CRN")
	if q, g := m.Q(m.Native), GDTTS(m.Native, m.Native); q != 1 || math.Abs(g-100) > 1e-9 {
		t.Errorf("native: Q %v, GDT-TS %v", q, g)
	}
	line := make([]float64, 3*46)
	for i := range 46 {
		line[3*i] = 3.8 * float64(i)
	}
	if q, g := m.Q(line), GDTTS(line, m.Native); q != 0 || g > 30 {
		t.Errorf("a line: Q %v, GDT-TS %v", q, g)
	}
	// Beads at equal distances a: Rg² = a²(n²-1)/12.
	if want := 3.8 * math.Sqrt((46*46-1)/12.0); math.Abs(Rg(line)-want) > 1e-9 {
		t.Errorf("a line: Rg %v, want %v", Rg(line), want)
	}
	count := 0
	for i, row := range m.ContactMap(m.Native) {
		for j, c := range row {
			if c && i < j {
				count++
			}
		}
	}
	if count != 89 {
		t.Errorf("%d contacts in the map", count)
	}
	if r := Rg(m.Native); r < 9 || r > 10.5 {
		t.Errorf("native Rg %v", r)
	}
}

// GDT-TS counts beads within 1, 2, 4 and 8 angstrom. Beads on shells of six, which are moved outwards by
// shell, are superposed where they are, so that distances are known.
func TestGDTTS(t *testing.T) {
	for _, c := range []struct {
		off  [4]float64
		want float64
	}{
		{[4]float64{0.7, 1.5, 3, 7}, 62.5}, {[4]float64{0.999, 1.999, 3.999, 7.999}, 62.5}, {[4]float64{1.001, 2.001, 4.001, 8.001}, 37.5},
		{[4]float64{0.6, 0.6, 0.6, 0.6}, 100}, {[4]float64{1.1, 1.1, 1.1, 1.1}, 75}, {[4]float64{9, 9, 9, 9}, 0}, {[4]float64{5, 5, 9, 0}, 37.5},
	} {
		var x, y []float64
		for shell, off := range c.off {
			radius := 20 * float64(shell+1)
			for axis := range 3 {
				for _, sign := range []float64{-1, 1} {
					at := make([]float64, 3)
					at[axis] = sign * radius
					y = append(y, at...)
					at = make([]float64, 3)
					at[axis] = sign * (radius + off)
					x = append(x, at...)
				}
			}
		}
		if got := GDTTS(turned(x, 0.8), y); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("shells moved by %v: GDT-TS %v, want %v", c.off, got, c.want)
		}
	}
}

// What a conformation cannot be is refused in words, and one without beads is at distance zero.
func TestConformationSizes(t *testing.T) {
	m := open(t, "1CRN")
	for name, f := range map[string]func(){
		"a negative helix":       func() { Helix(-1) },
		"RMSD of unequal":        func() { RMSD(m.Native, m.Native[3:]) },
		"GDT-TS of unequal":      func() { GDTTS(m.Native[3:], m.Native) },
		"RMSD of half a bead":    func() { RMSD(m.Native[1:], m.Native[1:]) },
		"the energy of nothing":  func() { m.Energy(nil) },
		"forces on too few":      func() { m.Forces(make([]float64, 3), m.Native) },
		"contacts of too few":    func() { m.Q(m.Native[3:]) },
		"a contact map of more":  func() { m.ContactMap(append(slices.Clone(m.Native), 0, 0, 0)) },
		"superposed on a longer": func() { Superposed(m.Native[3:], m.Native) },
	} {
		func() {
			defer func() {
				if why, ok := recover().(string); !ok || !strings.HasPrefix(why, "protein: ") {
					t.Errorf("%s: %v", name, why)
				}
			}()
			f()
		}()
	}
	if d, g, r := RMSD(nil, nil), GDTTS(nil, nil), Rg(nil); d != 0 || g != 0 || r != 0 {
		t.Errorf("no beads: RMSD %v, GDT-TS %v, Rg %v", d, g, r)
	}
}
