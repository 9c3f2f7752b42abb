package protein

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-run/weft/internal/safefile"
)

// Select says what to read of a file with several chains or models.
type Select struct {
	// Chain is the chain to read: empty means the first, "all" all of them, and several
	// are named with commas between them.
	Chain string
	// Model is the number of the model to read; zero means the first.
	Model int
}

// maxFile is the largest structure file, in its compressed form and without it: the largest
// entry of the PDB archive has less than half of this.
const maxFile = 1 << 30

// shipped are small structures that are part of the program.
//
//go:embed testdata/1crn.pdb testdata/1ubi.pdb testdata/bpti.pdb
var shipped embed.FS

// Shipped are the names of structures that [Open] knows without a file.
func Shipped() []string { return []string{"1CRN", "1UBI", "BPTI"} }

// Open reads a structure by the name of one that is shipped, or from a file.
func Open(name string, s Select) (*Structure, error) {
	if slices.Contains(Shipped(), strings.ToUpper(name)) {
		text, err := shipped.ReadFile("testdata/" + strings.ToLower(name) + ".pdb")
		if err != nil {
			return nil, err
		}
		return read(text, strings.ToUpper(name), s)
	}
	text, err := safefile.ReadInput(name, maxFile)
	if err != nil {
		return nil, fmt.Errorf("protein: %w; shipped structures are %s", err, strings.Join(Shipped(), ", "))
	}
	return readNamed(text, name, filepath.Base(name), s)
}

// Read reads the C-alpha atoms of a structure in the PDB or mmCIF format, plain or
// compressed by gzip; which one it is the text says itself. Of alternate locations of an atom
// it takes the one that is occupied most, of equal ones the first. Residues without a C-alpha
// atom are left out ([Structure.Missing]). Ions, water and ligands do not count, modified
// amino acids do. Errors wrap [ErrStructure], but for those of reading.
func Read(r io.Reader, s Select) (*Structure, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("protein: read structure: %w", err)
	}
	return read(text, "structure", s)
}

func read(text []byte, name string, s Select) (*Structure, error) {
	return readNamed(text, name, name, s)
}

// readNamed is read of a file, which errors name with its folder.
func readNamed(text []byte, file, name string, s Select) (*Structure, error) {
	fail := func(err error) (*Structure, error) { return nil, fmt.Errorf("protein: %s: %w", file, err) }
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(text))
		if err == nil {
			text, err = io.ReadAll(io.LimitReader(z, maxFile+1))
		}
		if err != nil {
			return fail(fmt.Errorf("it is compressed by gzip and cut off or damaged (%w): %w", err, ErrStructure))
		}
		name = strings.TrimSuffix(name, ".gz")
	}
	if len(text) > maxFile {
		return fail(fmt.Errorf("more than %d bytes: %w", maxFile, ErrStructure))
	}
	parse := readPDB
	if isCIF(text) {
		parse = readCIF
	}
	residues, err := parse(text, s.Model)
	if err == nil {
		residues, err = pick(residues, s.Chain)
	}
	if err != nil {
		return fail(err)
	}
	out := &Structure{Name: name, Residues: residues}
	return out, out.check()
}

// atom is a C-alpha atom as a file gives it.
type atom struct {
	Residue
	occupancy float64
}

// residuesOf makes residues of the C-alpha atoms of a model: of alternate locations, which
// follow each other, the one that is occupied most.
func residuesOf(atoms []atom, alternate []bool) []Residue {
	var out []Residue
	var best float64
	for i, a := range atoms {
		if n := len(out); n > 0 && alternate[i] {
			if last := out[n-1]; last.Chain == a.Chain && last.Number == a.Number && last.Insertion == a.Insertion {
				if a.occupancy > best {
					out[n-1], best = a.Residue, a.occupancy
				}
				continue
			}
		}
		out, best = append(out, a.Residue), a.occupancy
	}
	return out
}

// number reads a number of a file. The decimal forms alone are allowed: neither NaN nor
// infinity nor hexadecimal.
func number(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	if strings.Trim(s, "0123456789+-.eE") != "" {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// modelsOf picks a model out of those that a file has.
func modelsOf(models map[int][]Residue, order []int, model int) ([]Residue, error) {
	if len(order) == 0 {
		return nil, fmt.Errorf("no C-alpha atom; give a protein in the PDB or mmCIF format: %w", ErrStructure)
	}
	if model == 0 {
		model = order[0]
	}
	residues, ok := models[model]
	if !ok {
		return nil, fmt.Errorf("no model %d; the file has %s: %w", model, span(order), ErrStructure)
	}
	return residues, nil
}

// span names the models of a file in few words.
func span(order []int) string {
	if len(order) == 1 {
		return fmt.Sprintf("model %d", order[0])
	}
	return fmt.Sprintf("%d models, %d to %d", len(order), slices.Min(order), slices.Max(order))
}

// modified are modified amino acids that older files have as HETATM without naming them in
// MODRES.
var modified = map[string]bool{"MSE": true}

// pdbFile is what has been read of a file in the PDB format.
type pdbFile struct {
	model     int
	within    bool // between MODEL and ENDMDL
	modified  map[string]bool
	atoms     []atom
	alternate []bool
	models    map[int][]Residue
	order     []int
	header    bool
	ended     bool
}

// readPDB reads the C-alpha atoms of a model in the PDB format.
func readPDB(text []byte, model int) ([]Residue, error) {
	f := pdbFile{model: 1, modified: make(map[string]bool), models: make(map[int][]Residue)}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<16)
	for at := 1; lines.Scan(); at++ {
		if err := f.line(strings.TrimRight(lines.Text(), "\r")); err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", at, err, ErrStructure)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("a line of more than 65,536 bytes is in no structure file: %w", ErrStructure)
	}
	f.flush()
	switch {
	case f.within:
		return nil, fmt.Errorf("it ends within model %d, so it is cut off; fetch it again: %w", f.model, ErrStructure)
	case f.header && !f.ended:
		return nil, fmt.Errorf("it has a HEADER and no END, so it is cut off; fetch it again: %w", ErrStructure)
	}
	return modelsOf(f.models, f.order, model)
}

// flush ends a model.
func (f *pdbFile) flush() {
	if len(f.atoms) == 0 {
		return
	}
	if f.models[f.model] == nil {
		f.order = append(f.order, f.model)
	}
	f.models[f.model] = append(f.models[f.model], residuesOf(f.atoms, f.alternate)...)
	f.atoms, f.alternate = f.atoms[:0], f.alternate[:0]
}

// line takes one line of a file.
func (f *pdbFile) line(l string) error {
	record := l
	if len(l) > 6 {
		record = l[:6]
	}
	switch strings.TrimRight(record, " ") {
	case "HEADER":
		f.header = true
	case "END":
		f.ended = true
	case "MODRES":
		if len(l) >= 15 {
			f.modified[strings.TrimSpace(l[12:15])] = true
		}
	case "MODEL":
		f.flush()
		n, err := strconv.Atoi(strings.TrimSpace(l[len("MODEL"):]))
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not the number of a model", strings.TrimSpace(l[len("MODEL"):]))
		}
		if f.models[n] != nil {
			return fmt.Errorf("model %d begins a second time", n)
		}
		f.model, f.within = n, true
	case "ENDMDL":
		f.flush()
		f.within = false
	case "ATOM":
		return f.atom(l)
	case "HETATM":
		if len(l) >= 20 && (f.modified[strings.TrimSpace(l[17:20])] || modified[strings.TrimSpace(l[17:20])]) {
			return f.atom(l)
		}
	}
	return nil
}

// atom takes the line of an atom, in its 80 columns.
func (f *pdbFile) atom(l string) error {
	if len(l) < 54 {
		return fmt.Errorf("an atom's record ends before its coordinates in columns 31 to 54")
	}
	if l[12:16] != " CA " {
		return nil
	}
	a := atom{occupancy: 1}
	a.Name, a.Chain, a.Insertion = strings.TrimSpace(l[17:20]), strings.TrimSpace(l[21:22]), strings.TrimSpace(l[26:27])
	if a.Chain == "" {
		a.Chain = "_"
	}
	var ok bool
	if a.Number, ok = residueNumber(l[22:26]); !ok {
		return fmt.Errorf("%q in columns 23 to 26 is not the number of a residue", l[22:26])
	}
	for k, to := range []*float64{&a.X, &a.Y, &a.Z} {
		c := 30 + 8*k
		if *to, ok = number(l[c : c+8]); !ok || math.Abs(*to) > maxCoordinate {
			return fmt.Errorf("%q in columns %d to %d is not a coordinate", l[c:c+8], c+1, c+8)
		}
	}
	for k, to := range []*float64{&a.occupancy, &a.B} {
		c := 54 + 6*k
		if s := strings.TrimSpace(l[min(c, len(l)):min(c+6, len(l))]); s != "" {
			if *to, ok = number(s); !ok {
				return fmt.Errorf("%q in columns %d to %d is not a number", s, c+1, c+6)
			}
		}
	}
	f.atoms, f.alternate = append(f.atoms, a), append(f.alternate, l[16] != ' ')
	return nil
}

// residueNumber reads the four columns of a residue's number, in decimal or, beyond 9,999, in
// the base-36 form that begins with a letter: A000 is 10,000.
func residueNumber(s string) (int, bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, false
	}
	first := s[0]
	lower := first >= 'a' && first <= 'z'
	if !lower && (first < 'A' || first > 'Z') {
		n, err := strconv.Atoi(s)
		return n, err == nil
	}
	n, err := strconv.ParseInt(s, 36, 64)
	if err != nil || len(s) != 4 {
		return 0, false
	}
	const letters = 36 * 36 * 36
	if lower {
		return int(n) + 16*letters + 10_000, true
	}
	return int(n) - 10*letters + 10_000, true
}
