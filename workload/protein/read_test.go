package protein

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The shipped structures have the residues and contacts that they are known to have.
func TestShipped(t *testing.T) {
	for _, c := range []struct {
		name               string
		residues, contacts int
		first, last        string
	}{
		{"1CRN", 46, 89, "THR A 1", "ASN A 46"},
		{"1crn", 46, 89, "THR A 1", "ASN A 46"},
		{"1UBI", 76, 153, "MET A 1", "GLY A 76"},
		{"BPTI", 58, 143, "ARG I 1", "ALA I 58"},
	} {
		s, err := Open(c.name, Select{})
		if err != nil {
			t.Fatal(err)
		}
		contacts := s.Contacts(8, 4)
		if s.Len() != c.residues || len(contacts) != c.contacts || s.Residues[0].String() != c.first || s.Residues[s.Len()-1].String() != c.last || s.Missing() != 0 {
			t.Errorf("%s: %d residues from %s to %s, %d contacts, %d missing", c.name, s.Len(), s.Residues[0], s.Residues[s.Len()-1], len(contacts), s.Missing())
		}
	}
	s, _ := Open("1CRN", Select{})
	if r := s.Residues[0]; r.X != 16.967 || r.Y != 12.784 || r.Z != 4.338 || r.B != 10.80 {
		t.Errorf("first residue %+v", r)
	}
}

const sample = `HEADER    TEST
MODRES 1ABC SEP A    4  SER
ATOM      1  N   ALA A   1      11.104   6.134  -6.504  1.00  0.00           N
ATOM      2  CA AALA A   1      11.639   6.071  -5.147  0.40  7.50           C
ATOM      3  CA BALA A   1       7.000   8.000   5.000  0.60  8.50           C
ATOM      6  CA  GLY A   2       7.000   8.000   9.000
ATOM      6  CA  GLY A   2A      7.000   8.000  13.000
HETATM    7  CA  SEP A   4       7.000   8.000  18.000  1.00  3.00           C
HETATM    8  CA  MSE A   5       7.000   8.000  21.000  1.00  3.00           C
ATOM      9  CA  GLY B  -1       1.500  -2.500   3.500
HETATM    4 CA    CA A 101       1.000   2.000   3.000  1.00  0.00          CA
HETATM    4  CA  LIG A 102       1.000   2.000   3.000  1.00  0.00           C
END
`

func TestReadPDB(t *testing.T) {
	s, err := Read(strings.NewReader(sample), Select{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Residue{
		{"ALA", "A", 1, "", 7, 8, 5, 8.5},
		{"GLY", "A", 2, "", 7, 8, 9, 0},
		{"GLY", "A", 2, "A", 7, 8, 13, 0},
		{"SEP", "A", 4, "", 7, 8, 18, 3},
		{"MSE", "A", 5, "", 7, 8, 21, 3},
	}
	if !slices.Equal(s.Residues, want) || s.Missing() != 1 || !slices.Equal(s.Ends(), []int{5}) {
		t.Errorf("%+v, %d missing, ends %v", s.Residues, s.Missing(), s.Ends())
	}
	_, bare, _ := strings.Cut(sample, "\n") // lines that end in any way, behind a byte order mark
	bare = strings.ReplaceAll(bare, "\n", "\r")
	for _, text := range []string{strings.Replace(sample, "MSE A", "MSExA", 1), "\ufeff" + sample, strings.ReplaceAll(sample, "\n", "\r"), "\ufeff" + bare[strings.Index(bare, "ATOM"):]} {
		if got, err := Read(strings.NewReader(text), Select{}); err != nil || got.Len() < 4 || got.Residues[0] != want[0] || got.Residues[len(got.Residues)-1].Name != "MSE" {
			t.Errorf("%.20q: %v, %v", text, got, err)
		}
	}
	for chain, n := range map[string]int{"A": 5, "B": 1, "all": 6, "A,B": 6} {
		if s, err := Read(strings.NewReader(strings.ReplaceAll(sample, "\n", "\r\n")), Select{Chain: chain}); err != nil || s.Len() != n {
			t.Errorf("chain %s: %v, %v", chain, s, err)
		} else if n == 6 && !slices.Equal(s.Ends(), []int{5, 6}) {
			t.Errorf("chain %s ends at %v", chain, s.Ends())
		}
	}
}

// twoModels has model 3 before model 7.
const twoModels = `MODEL        3
ATOM      1  CA  ALA A   1       0.000   0.000   0.000
ENDMDL
MODEL        7
ATOM      1  CA  ALA A   1       1.000   0.000   0.000
ENDMDL
`

func TestModels(t *testing.T) {
	for model, x := range map[int]float64{0: 0, 3: 0, 7: 1} {
		if s, err := Read(strings.NewReader(twoModels), Select{Model: model}); err != nil || s.Residues[0].X != x {
			t.Errorf("model %d: %v, %v", model, s, err)
		}
	}
	atom := strings.Split(twoModels, "\n")[1] + "\n"
	if s, err := Read(strings.NewReader(atom), Select{Model: 1}); err != nil || s.Len() != 1 {
		t.Errorf("atoms outside of all models: %v, %v", s, err)
	}
	cif := cifOf(t, []string{"1", "2"})
	for model, x := range map[int]float64{0: 16.967, 1: 16.967, 2: 17.967} {
		if s, err := Read(strings.NewReader(cif), Select{Model: model}); err != nil || math.Abs(s.Residues[0].X-x) > 1e-9 {
			t.Errorf("mmCIF, model %d: %v", model, err)
		}
	}
}

// cifHead begins a table of atoms: x, y and z, the atom, chain and number.
const cifHead = "data_\nloop_\n_atom_site.Cartn_x\n_atom_site.Cartn_y\n_atom_site.Cartn_z\n_atom_site.label_atom_id\n_atom_site.auth_asym_id\n_atom_site.auth_seq_id\n"

// cifOf is crambin in the mmCIF format, with other columns between those that count, once in
// each of some models.
func cifOf(t testing.TB, models []string) string {
	t.Helper()
	s, err := Open("1CRN", Select{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# made for a test\ndata_1CRN\n_entry.id 1CRN\n_struct.title\n;a text with loop_\nand _atom_site.id in it\n;\nloop_\n_citation.id\n_citation.title\n1 'it's quoted'\n2 \"loop_\"\nloop_\n")
	for _, c := range []string{"group_PDB", "id", "type_symbol", "label_atom_id", "label_alt_id", "label_comp_id", "label_asym_id", "label_seq_id", "pdbx_PDB_ins_code",
		"Cartn_x", "Cartn_y", "Cartn_z", "occupancy", "B_iso_or_equiv", "auth_seq_id", "auth_asym_id", "pdbx_PDB_model_num"} {
		b.WriteString("_atom_site." + c + "\n")
	}
	for m, model := range models {
		for i, r := range s.Residues {
			fmt.Fprintf(&b, "ATOM %d N N . %s X %d ? 0 0 0 1.00 0 %d A %s\n", 3*i, r.Name, i+1, r.Number, model)
			fmt.Fprintf(&b, "ATOM %d C CA . %s X %d %s\n%.3f %.3f %.3f 1.00 %.2f %d A %s\n", 3*i+1, r.Name, i+1, cmp.Or(r.Insertion, "?"), r.X+float64(m), r.Y, r.Z, r.B, r.Number, model)
		}
		fmt.Fprintf(&b, "HETATM 900 CA CA . CA Y . ? 1 1 1 1.00 0 101 A %s\nHETATM 901 C CA . LIG Y . ? 2 1 1 1.00 0 102 A %s\n", model, model)
	}
	b.WriteString("#\nloop_\n_other.id\n1\n")
	return b.String()
}

func TestReadCIF(t *testing.T) {
	want, err := Open("1CRN", Select{})
	if err != nil {
		t.Fatal(err)
	}
	text := cifOf(t, []string{"1"})
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	for form, b := range map[string]string{"plain": text, "CRLF": strings.ReplaceAll(text, "\n", "\r\n"), "gzip": z.String()} {
		got, err := Read(strings.NewReader(b), Select{Chain: "A"})
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if !slices.Equal(got.Residues, want.Residues) {
			t.Errorf("%s: other residues than of the PDB format: %v", form, got.Residues)
		}
	}
	// What the authors call a chain goes before the label, wherever the columns are.
	chains := "data_\nloop_\n_atom_site.auth_asym_id\n_atom_site.label_asym_id\n" + strings.Replace(strings.TrimPrefix(cifHead, "data_\nloop_\n"), "_atom_site.auth_asym_id\n", "", 1)
	if s, err := Read(strings.NewReader(chains+"A X 1 2 3 CA 1\n"), Select{}); err != nil || s.Residues[0].Chain != "A" {
		t.Errorf("%v, %v", s, err)
	}
	path := filepath.Join(t.TempDir(), "x.cif.gz")
	if err := os.WriteFile(path, z.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(path, Select{}); err != nil || s.Name != "x.cif" {
		t.Errorf("%v, %v", s, err)
	}
}

// What is not a structure is refused with one line that names the reason.
func TestRefused(t *testing.T) {
	atom := "ATOM      1  CA  ALA A   1       0.000   0.000   0.000\n"
	cif := cifOf(t, []string{"1"})
	for name, c := range map[string]struct {
		text string
		sel  Select
		want string
	}{
		"empty":               {"", Select{}, "no C-alpha atom"},
		"foreign":             {"{\"name\": 1}\n", Select{}, "no C-alpha atom"},
		"no C-alpha":          {"ATOM      1  N   ALA A   1       0.000   0.000   0.000\n", Select{}, "no C-alpha atom"},
		"no chain":            {sample, Select{Chain: "C"}, "the file has chains A, B"},
		"no model":            {twoModels, Select{Model: 1}, "2 models, 3 to 7"},
		"short line":          {atom[:40] + "\n", Select{}, "line 1: an atom's record ends before"},
		"cut off":             {strings.TrimSuffix(sample, "END\n"), Select{}, "HEADER and no END"},
		"cut in a model":      {strings.TrimSuffix(twoModels, "ENDMDL\n"), Select{}, "ends within model 7"},
		"NaN":                 {strings.Replace(atom, "  0.000", "    NaN", 1), Select{}, "not a coordinate"},
		"y":                   {atom[:38] + "  y.000 " + atom[46:], Select{}, `"  y.000 " in columns 39 to 46 is not a coordinate`},
		"cut modified":        {"HETATM    1  CA  MSE\n" + atom, Select{}, "line 1: an atom's record ends before"},
		"hexadecimal":         {strings.Replace(atom, "  0.000", "  0x1p2", 1), Select{}, "not a coordinate"},
		"overflow":            {strings.Replace(atom, "  0.000", "  1e400", 1), Select{}, "not a coordinate"},
		"far":                 {strings.Replace(atom, "  0.000", "   1e20", 1), Select{}, "not a coordinate"},
		"number":              {strings.Replace(atom, "A   1", "A  x1", 1), Select{}, `"  x1" in columns 23 to 26 is not the number of a residue`},
		"two models unmarked": {atom + strings.Replace(atom, "A   1", "A   2", 1) + atom, Select{}, "is there twice"},
		"clash":               {atom + strings.Replace(strings.Replace(atom, "A   1", "A   2", 1), "0.000", "0.050", 1), Select{}, "apart, which clashes"},
		"endless line":        {strings.Repeat("x", 1<<20), Select{}, "65,536"},
		"damaged gzip":        {"\x1f\x8bxxxx", Select{}, "damaged"},
		"CIF without atoms":   {"data_x\nloop_\n_a.b\n1\n2\n", Select{}, "no table _atom_site"},
		"CIF cut off":         {cif[:strings.LastIndex(cif, "CA . ASN")], Select{}, "ends within a row"},
		"CIF with NaN":        {strings.Replace(cif, "16.967", "nan", 1), Select{}, "not a coordinate"},
		"CIF without x":       {strings.Replace(cif, "Cartn_x", "Cartn_u", 1), Select{}, "no column cartn_x"},
		"CIF open text":       {"data_x\n_a.b\n;text\n", Select{}, "does not end"},
	} {
		_, err := Read(strings.NewReader(c.text), c.sel)
		if !errors.Is(err, ErrStructure) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Open("no such file", Select{}); err == nil || !strings.Contains(err.Error(), "shipped structures are 1CRN") {
		t.Error(err)
	}
}

func TestResidueNumber(t *testing.T) {
	for s, want := range map[string]int{"   1": 1, "9999": 9999, "A000": 10000, "A001": 10001, "ZZZZ": 1223055, "a000": 1223056, " -12": -12} {
		if got, ok := residueNumber(s); !ok || got != want {
			t.Errorf("%q: %d, %v, want %d", s, got, ok, want)
		}
	}
}

// Cubes of space find the pairs that all pairs of beads find.
func TestNear(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	xyz := make([]float64, 3*400)
	for i := range xyz {
		xyz[i] = 60*r.Float64() - 30
	}
	var want []Contact
	for i := range 400 {
		for j := i + 1; j < 400; j++ {
			if d := math.Sqrt(distance2(xyz, i, j)); d*d < 81 {
				want = append(want, Contact{i, j, d})
			}
		}
	}
	if got := slices.Collect(Near(xyz, 9)); !slices.Equal(got, want) {
		t.Errorf("%d pairs, want %d", len(got), len(want))
	}
}

// FuzzRead checks that any text is refused with a known error or gives finite residues that
// are apart.
func FuzzRead(f *testing.F) {
	f.Add(sample, "A", 0)
	f.Add(twoModels, "", 7)
	f.Add(cifOf(f, []string{"1", "2"}), "A", 2)
	f.Add(cifHead+"1 2 3 CA A 1\n", "all", 0)
	f.Add("\x1f\x8b", "", 0)
	f.Fuzz(func(t *testing.T, text, chain string, model int) {
		s, err := Read(strings.NewReader(text), Select{chain, model})
		if err != nil {
			if !errors.Is(err, ErrStructure) {
				t.Error(err)
			}
			return
		}
		if s.Len() == 0 {
			t.Error("no residues")
		}
		for _, v := range s.Coordinates() {
			if math.IsNaN(v) || math.Abs(v) > maxCoordinate {
				t.Errorf("coordinate %v", v)
			}
		}
	})
}

// Alternate locations of a residue count as one wherever in the file they are, and one without
// a letter is one of them.
func TestAlternate(t *testing.T) {
	line := func(letter string, number int, x, occupancy float64) string {
		return fmt.Sprintf("ATOM      1  CA %sALA A%4d    %8.3f   0.000   0.000%6.2f  0.00\n", letter, number, x, occupancy)
	}
	for name, text := range map[string]string{
		"apart":         line("A", 1, 0, 0.4) + line("A", 2, 4, 0.6) + line("B", 1, 1, 0.6) + line("B", 2, 5, 0.4),
		"together":      line("A", 1, 0, 0.4) + line("B", 1, 1, 0.6) + line("A", 2, 4, 0.6) + line("B", 2, 5, 0.4),
		"first unnamed": line(" ", 1, 0, 0.4) + line("B", 1, 1, 0.6) + line("A", 2, 4, 0.6) + line("B", 2, 5, 0.4),
		"equal":         line("A", 1, 1, 0.5) + line("B", 1, 0, 0.5) + line("A", 2, 4, 0.5) + line("C", 2, 5, 0.5),
	} {
		s, err := Read(strings.NewReader(text), Select{})
		if err != nil || s.Len() != 2 || s.Residues[0].X != 1 || s.Residues[1].X != 4 {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

// Of many models one is kept, whichever number the first has.
func TestManyModels(t *testing.T) {
	var b strings.Builder
	for m := range 50 {
		fmt.Fprintf(&b, "MODEL     %4d\nATOM      1  CA  ALA A   1    %8.3f   0.000   0.000\nENDMDL\n", m, float64(m))
	}
	for _, model := range []int{0, 1, 49} {
		c := newCollected(Select{Model: model}, allowed)
		in := newLines(strings.NewReader(b.String()), allowed)
		if err := readPDB(in, in.next(), c); err != nil {
			t.Fatal(err)
		}
		if r, err := c.residues(); err != nil || len(r) != 1 || r[0].X != float64(model) {
			t.Errorf("model %d: %v, %v", model, r, err)
		}
	}
}

// An error names some of many chains.
func TestManyChains(t *testing.T) {
	var b strings.Builder
	b.WriteString(cifHead)
	for i := range 1000 {
		fmt.Fprintf(&b, "%d 0 0 CA C%d 1\n", 4*i, i)
	}
	_, err := Read(strings.NewReader(b.String()), Select{Chain: "none"})
	if want := "the file has chains C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17, C18, C19 and 980 more"; err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	if got, err := Read(strings.NewReader(b.String()), Select{Chain: "C7,C999"}); err != nil || got.Len() != 2 || got.Residues[1].Chain != "C999" {
		t.Error(got, err)
	}
}

// Beads that are all in one place are seen to be so by the first two.
func TestNearStops(t *testing.T) {
	for range Near(make([]float64, 3*(1<<16)), nearest) {
		return
	}
	t.Error("no pair")
}
