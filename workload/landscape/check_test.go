package landscape

import (
	"math"
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/philox"
)

// What is compared is all of a short landscape, some angles of every part of every row of
// a longer one, and rows from all over of a very long one.
func TestSample(t *testing.T) {
	for _, c := range []struct {
		beads int
		want  picked
	}{
		{46, picked{44, 1000, 44}}, {200, picked{198, 1000, 198}}, {500, picked{498, 75, 498}},
		{1200, picked{1198, 5, 1198}}, {1400, picked{1398, 3, 1398}}, {2000, picked{1998, 1, 1998}}, {5000, picked{386, 1, 4998}}, {20000, picked{24, 1, 19998}},
	} {
		rows := rowCount(c.beads)
		s := sampleOf(rows, float64(costBefore(c.beads, rows))/float64(rows))
		if s != c.want {
			t.Errorf("%d residues: %+v, want %+v", c.beads, s, c.want)
		}
		places := philox.Source{Seed: 3}
		last := -1
		for i := range s.rows {
			row := s.row(i, places)
			if row <= last || row >= rows {
				t.Fatalf("%d residues: row %d follows row %d", c.beads, row, last)
			}
			last = row
			var parts [hostedParts]int
			for k := range s.each {
				parts[s.angle(row, k, places)*hostedParts/Angles]++
			}
			for p, n := range parts {
				if s.each >= hostedParts && n != s.each/hostedParts {
					t.Fatalf("%d residues: part %d of row %d has %d samples of %d", c.beads, p, row, n, s.each)
				}
			}
		}
	}
}

// What a check allows is little beside the energy, and the energy is that of the full
// potential.
func TestAxisEnergy(t *testing.T) {
	for _, m := range []*Model{crambin(t), coil(t, 60)} {
		native := m.Energy(m.Native)
		r := axis{model: m}
		for i := range rowCount(m.Beads()) {
			r.set(i)
			for _, by := range []float64{0, 0.01, 1, 3, 6} {
				want := m.Energy(m.Turned(i, by))
				got, within := r.energy(native, by)
				if !(math.Abs(got-want) <= within) || within > 1e-8*(1+math.Abs(want)) {
					t.Errorf("%d beads, row %d, turned by %v: %v ± %v, by the full potential %v", m.Beads(), i, by, got, within, want)
				}
			}
		}
	}
}

// Where the origin of the coordinates is makes no difference to how exact energies are: a
// check accepts what kernels compute of a chain that is far from it, and of the end of a
// long one.
func TestCheckFarFromOrigin(t *testing.T) {
	far := slices.Clone(crambin(t).Native)
	for i := range far {
		far[i] += 1e5
	}
	for name, native := range map[string][]float64{"crambin at 1e5": far, "a helix of 300": helix(300)} {
		m, err := NewModel(native)
		if err != nil {
			t.Fatal(err)
		}
		energy, turns, row := m.Energy(native), turnTable(), make([]float64, Angles)
		r := axis{model: m}
		rows := rowCount(m.Beads())
		for i := rows - 12; i < rows; i++ {
			r.set(i)
			computeRow(row, native, turns, energy, i)
			for k := 0; k < Angles; k += 3 {
				got := row[k]
				want, within := r.energy(energy, 2*math.Pi*float64(k)/Angles)
				if !(math.Abs(got-want) <= within/2) {
					t.Fatalf("%s, row %d, angle %d: energy %v, by the turned structure %v ± %v", name, i, k, got, want, within)
				}
			}
		}
	}
}
