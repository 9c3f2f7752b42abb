package protein

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// compressed is a text by gzip, in a member for each part.
func compressed(t testing.TB, parts ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, p := range parts {
		z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(z, p); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// taken is the memory that a function allocates in all, the least of two times: others may
// allocate meanwhile.
func taken(do func()) uint64 {
	least := ^uint64(0)
	for range 2 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		do()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// Reading takes no memory for what is no C-alpha atom of the wanted chain and model, however much of it
// there is in a small compressed file: 1 MiB of text each takes less than a third of that.
func TestCompressedMemory(t *testing.T) {
	const size = 1 << 20
	many := func(s string) string { return strings.Repeat(s, size/len(s)) }
	atom := "ATOM      1  CA  ALA A   1       0.000   0.000   0.000\n"
	models := func(s string) string {
		var b strings.Builder
		for m := 2; b.Len() < size; m = m%9000 + 2 {
			fmt.Fprintf(&b, "MODEL     %4d\n%sENDMDL\n", m, strings.Repeat(s, 1000))
		}
		return b.String()
	}
	site := cifHead + "1 2 3 CA A 1\n"
	for name, c := range map[string]struct {
		text, refused string
	}{
		"water":           {atom + many("HETATM 4000  O   HOH A 201       1.000   2.000   3.000  1.00  0.00           O\n"), ""},
		"blank lines":     {atom + many("\n"), ""},
		"remarks":         {many("REMARK 3\r\n") + atom, ""},
		"other chains":    {atom + strings.ReplaceAll(many(atom), "A   1", "B   1"), ""},
		"one residue":     {many(atom), "line 2: residue ALA A 1 is there twice"},
		"models":          {atom + models(strings.ReplaceAll(atom, "A   1", "B   2")), ""},
		"long line":       {strings.Repeat("x", size), "65,536 bytes"},
		"CIF text":        {"data_x\n_a.b\n;" + many("some words\n") + ";\n" + site[len("data_\n"):], ""},
		"CIF table":       {"data_x\nloop_\n_a.b\n" + many("value ") + "\n" + site[len("data_\n"):], "65,536 bytes"},
		"CIF lines":       {"data_x\nloop_\n_a.b\n" + many("value\n") + site[len("data_\n"):], ""},
		"CIF behind":      {site + "loop_\n" + many("x"), ""},
		"CIF columns":     {"data_x\nloop_\n" + many("_atom_site.x\n"), "256 columns"},
		"CIF other atoms": {site + many("1 2 3 CB A 1\n"), ""},
		"CIF value":       {cifHead + "1 2 3 CA\n;" + many("A\n") + ";\n1\n", "64 bytes"},
		"CIF long value":  {cifHead + "1 2 3 CA\n;" + strings.Repeat("A", maxValue+1) + "\n;\n1\n", "64 bytes"},
		"CIF open text":   {cifHead + "1 2 3 CA\n;" + many("A\n"), "does not end"},
	} {
		z := compressed(t, c.text)
		var s *Structure
		var err error
		used := taken(func() { s, err = Read(bytes.NewReader(z), Select{Chain: "A"}) })
		if c.refused == "" && (err != nil || s.Len() != 1) || c.refused != "" && (!errors.Is(err, ErrStructure) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
		if used > 320<<10 {
			t.Errorf("%s: %d bytes of a file of %d took %d", name, len(c.text), len(z), used)
		}
	}
}

// What is kept of a residue is bounded, in files of both formats.
func TestResidueMemory(t *testing.T) {
	const n = 10_000
	var pdb, cif strings.Builder
	cif.WriteString(cifHead)
	for i := range n {
		chain, number, x, y := "AB"[i/5000], i%5000+1, 4*(i%1000), 4*(i/1000)
		fmt.Fprintf(&pdb, "ATOM      1  CA  ALA %c%4d    %8.3f%8.3f   0.000\n", chain, number, float64(x), float64(y))
		fmt.Fprintf(&cif, "%d %d 0 CA %c %d\n", x, y, chain, number)
	}
	for name, text := range map[string]string{"PDB": pdb.String(), "mmCIF": cif.String()} {
		z := compressed(t, text)
		var s *Structure
		var err error
		used := taken(func() { s, err = Read(bytes.NewReader(z), Select{Chain: "all"}) })
		if err != nil || s.Len() != n {
			t.Fatalf("%s: %v", name, err)
		}
		if used > 1200*n {
			t.Errorf("%s: %d bytes a residue", name, used/n)
		}
	}
}

// Each limit refuses a file that is beyond it, and takes one that is at it.
func TestLimits(t *testing.T) {
	line := func(chain byte, number int) string {
		return fmt.Sprintf("ATOM      1  CA  ALA %c%4d    %8.3f   0.000   0.000\n", chain, number, 4*float64(number))
	}
	text := line('A', 1) + line('A', 2) + line('B', 3)
	models := "MODEL 1\n" + line('A', 1) + "ENDMDL\nMODEL 2\n" + line('A', 1) + "ENDMDL\n"
	modified := "MODRES 1ABC SEP A    4  SER\nMODRES 1ABC TPO A    5  THR\n"
	for name, c := range map[string]struct {
		text string
		at   limits
		less func(l *limits)
		want string
	}{
		"bytes":    {text, limits{int64(len(text)), 9, 9, 9}, func(l *limits) { l.bytes-- }, "more than 164 bytes"},
		"lines":    {text, limits{999, 3, 9, 9}, func(l *limits) { l.lines-- }, "more than 2 lines"},
		"atoms":    {text, limits{999, 9, 3, 9}, func(l *limits) { l.atoms-- }, "more than 2 C-alpha atoms"},
		"names":    {text, limits{999, 9, 9, 4}, func(l *limits) { l.names-- }, "more than 3 names"}, // ALA, A, B and no insertion
		"models":   {strings.Repeat("REMARK\n", 3) + models, limits{999, 9, 9, 3}, func(l *limits) { l.names = 1 }, "more than 1 "},
		"modified": {modified + text, limits{999, 9, 9, 4}, func(l *limits) { l.names = 1 }, "more than 1 modified residues"},
	} {
		for _, z := range []bool{false, true} {
			in := []byte(c.text)
			if z {
				in = compressed(t, c.text)
			}
			if _, err := read(bytes.NewReader(in), "x", Select{Chain: "all"}, c.at); err != nil {
				t.Errorf("%s, at the limit: %v", name, err)
			}
			l := c.at
			c.less(&l)
			if _, err := read(bytes.NewReader(in), "x", Select{Chain: "all"}, l); !errors.Is(err, ErrStructure) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, beyond the limit: %v", name, err)
			}
		}
	}
	c := newCollected(Select{}, limits{names: 2, atoms: 1})
	for m := range 3 {
		if err := c.add(m, &atom{}); (err != nil) != (m == 2) || err != nil && !strings.Contains(err.Error(), "more than 2 models") {
			t.Error(m, err)
		}
	}
	for name, text := range map[string]string{
		"chain": cifHead + "1 2 3 CA " + strings.Repeat("A", maxName+1) + " 1\n", "number": cifHead + "1 2 3 CA A " + strings.Repeat("0", maxValue) + "1\n",
	} {
		if _, err := Read(strings.NewReader(text), Select{}); !errors.Is(err, ErrStructure) || !strings.Contains(err.Error(), "bytes at most") {
			t.Errorf("%s: %v", name, err)
		}
	}
	at := cifHead + "1 2 3 CA " + strings.Repeat("A", maxName) + " " + strings.Repeat("0", maxValue-1) + "1\n"
	if s, err := Read(strings.NewReader(at), Select{}); err != nil || len(s.Residues[0].Chain) != maxName || s.Residues[0].Number != 1 {
		t.Error(s, err)
	}
}

// A compressed file may have several members, and one that is damaged or cut off anywhere, also behind what is
// read of it, is refused as such.
func TestCompressed(t *testing.T) {
	cif := cifOf(t, []string{"1"})
	for name, text := range map[string]string{"PDB": sample, "mmCIF": cif} {
		want, err := Read(strings.NewReader(text), Select{})
		if err != nil {
			t.Fatal(err)
		}
		cut := len(text) / 2
		z := compressed(t, text[:cut], "", text[cut:cut+1], text[cut+1:])
		for how, r := range map[string]io.Reader{"whole": bytes.NewReader(z), "by bytes": iotest.OneByteReader(bytes.NewReader(z)), "with its end": iotest.DataErrReader(bytes.NewReader(z))} {
			if got, err := Read(r, Select{}); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, %s: %v, %v", name, how, got, err)
			}
		}
		z = compressed(t, text)
		for cut := 2; cut < len(z); cut += 1 + len(z)/50 {
			if _, err := Read(bytes.NewReader(z[:cut]), Select{}); !errors.Is(err, ErrStructure) || !strings.Contains(err.Error(), "cut off or damaged") {
				t.Fatalf("%s, %d of %d bytes: %v", name, cut, len(z), err)
			}
		}
		z[len(z)-6] ^= 1 // of the checksum
		if _, err := Read(bytes.NewReader(z), Select{}); !errors.Is(err, ErrStructure) || !strings.Contains(err.Error(), "cut off or damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An error of reading is no fault of the structure.
func TestUnreadable(t *testing.T) {
	broken := errors.New("broken pipe")
	for name, begin := range map[string][]byte{"PDB": []byte(sample[:200]), "mmCIF": []byte(cifHead), "behind the atoms": []byte(cifHead + "1 2 3 CA A 1\n#\nloop_\n"), "gzip": compressed(t, sample)[:50]} {
		_, err := Read(io.MultiReader(bytes.NewReader(begin), iotest.ErrReader(broken)), Select{})
		if !errors.Is(err, broken) || errors.Is(err, ErrStructure) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(t.TempDir(), Select{}); err == nil || errors.Is(err, ErrStructure) {
		t.Error(err)
	}
	path := filepath.Join(t.TempDir(), "x.pdb")
	if err := os.WriteFile(path, []byte("foreign\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Select{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// Lines end in a newline, a carriage return or both, wherever the buffer ends.
func TestLines(t *testing.T) {
	for _, r := range []io.Reader{strings.NewReader("\ufeffa\r\nb\rc\n\n\r\rd"), iotest.OneByteReader(strings.NewReader("\ufeffa\r\nb\rc\n\n\r\rd"))} {
		in := newLines(r, allowed)
		var got []string
		for in.next() {
			got = append(got, string(in.line))
		}
		if want := "a|b|c||||d"; strings.Join(got, "|") != want || in.failed() != nil {
			t.Errorf("%q, want %q, %v", got, want, in.failed())
		}
	}
	for length, ok := range map[int]bool{maxLine: true, maxLine + 2: false} {
		for _, end := range []string{"\n", "\r\n", "\r", ""} {
			text := sample + strings.Repeat("x", length) + end
			if _, err := Read(strings.NewReader(text), Select{}); (err == nil) != ok {
				t.Errorf("a line of %d bytes and %q: %v", length, end, err)
			}
		}
	}
}
