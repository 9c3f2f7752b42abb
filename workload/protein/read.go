package protein

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"maps"
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
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.IndexByte(text, '\n') < 0 { // lines may end in carriage returns alone
		text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
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
	alternate bool // one of several locations
}

// maxAtoms is the largest number of C-alpha atoms that are read of a model: the largest entries
// of the PDB archive have a sixth of them.
const maxAtoms = 1 << 21

// collected holds what was read of a file: the C-alpha atoms of the wanted model.
type collected struct {
	model  int         // the wanted one
	any    bool        // no model is wanted by number: the first atom's is taken
	models map[int]int // atoms by model
	atoms  []atom
	most   int               // of them
	names  map[string]string // of residues, chains and insertions, once each
}

func newCollected(model int) *collected {
	return &collected{model: model, any: model == 0, most: maxAtoms, models: make(map[int]int), names: make(map[string]string)}
}

// name returns a copy of a text of a file, so that the file's memory is not kept.
func (c *collected) name(text []byte) string {
	if s, ok := c.names[string(text)]; ok {
		return s
	}
	s := string(text)
	c.names[s] = s
	return s
}

// add takes an atom of a model.
func (c *collected) add(model int, a *atom) error {
	c.models[model]++
	if c.any {
		c.model, c.any = model, false
	}
	if model != c.model {
		return nil
	}
	if len(c.atoms) == c.most {
		return fmt.Errorf("more than %d C-alpha atoms; cut the file into smaller ones", c.most)
	}
	c.atoms = append(c.atoms, *a)
	return nil
}

// residues makes residues of the atoms: of alternate locations the one that is occupied most.
// Those need not follow each other.
func (c *collected) residues() ([]Residue, error) {
	switch {
	case len(c.models) == 0:
		return nil, fmt.Errorf("no C-alpha atom; give a protein in the PDB or mmCIF format: %w", ErrStructure)
	case len(c.atoms) == 0:
		return nil, fmt.Errorf("no model %d; the file has %s: %w", c.model, span(slices.Collect(maps.Keys(c.models))), ErrStructure)
	}
	type place struct {
		at        int // in out
		occupancy float64
	}
	places := make(map[residueKey]place)
	out := make([]Residue, 0, len(c.atoms))
	for _, a := range c.atoms {
		before, ok := places[a.key()]
		switch {
		case !ok || !a.alternate:
			places[a.key()] = place{len(out), a.occupancy}
			out = append(out, a.Residue)
		case a.occupancy > before.occupancy:
			places[a.key()] = place{before.at, a.occupancy}
			out[before.at] = a.Residue
		}
	}
	return out, nil
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

// span names the models of a file in few words.
func span(models []int) string {
	if len(models) == 1 {
		return fmt.Sprintf("model %d", models[0])
	}
	return fmt.Sprintf("%d models, %d to %d", len(models), slices.Min(models), slices.Max(models))
}

// modified are modified amino acids that older files have as HETATM without naming them in
// MODRES.
var modified = map[string]bool{"MSE": true}

// pdbFile is what has been read of a file in the PDB format.
type pdbFile struct {
	*collected
	at       int  // the model of the position
	within   bool // between MODEL and ENDMDL
	modified map[string]bool
	header   bool
	ended    bool
}

// readPDB reads the C-alpha atoms of a model in the PDB format.
func readPDB(text []byte, model int) ([]Residue, error) {
	f := pdbFile{collected: newCollected(model), at: 1, modified: make(map[string]bool)}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<16)
	for at := 1; lines.Scan(); at++ {
		if err := f.line(bytes.TrimRight(lines.Bytes(), "\r")); err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", at, err, ErrStructure)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("a line of more than 65,536 bytes is in no structure file: %w", ErrStructure)
	}
	switch {
	case f.within:
		return nil, fmt.Errorf("it ends within model %d, so it is cut off; fetch it again: %w", f.at, ErrStructure)
	case f.header && !f.ended:
		return nil, fmt.Errorf("it has a HEADER and no END, so it is cut off; fetch it again: %w", ErrStructure)
	}
	return f.residues()
}

// line takes one line of a file.
func (f *pdbFile) line(l []byte) error {
	record := l
	if len(l) > 6 {
		record = l[:6]
	}
	switch string(bytes.TrimRight(record, " ")) {
	case "HEADER":
		f.header = true
	case "END":
		f.ended = true
	case "MODRES":
		if len(l) >= 15 {
			f.modified[string(bytes.TrimSpace(l[12:15]))] = true
		}
	case "MODEL":
		name := string(bytes.TrimSpace(l[len("MODEL"):]))
		n, err := strconv.Atoi(name)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not the number of a model", name)
		}
		if f.models[n] > 0 {
			return fmt.Errorf("model %d begins a second time", n)
		}
		f.at, f.within = n, true
	case "ENDMDL":
		f.within = false
	case "ATOM":
		return f.atom(l)
	case "HETATM":
		if len(l) < 20 {
			return nil
		}
		if name := bytes.TrimSpace(l[17:20]); f.modified[string(name)] || modified[string(name)] {
			return f.atom(l)
		}
	}
	return nil
}

// atom takes the line of an atom, in its 80 columns.
func (f *pdbFile) atom(l []byte) error {
	if len(l) < 54 {
		return fmt.Errorf("an atom's record ends before its coordinates in columns 31 to 54")
	}
	if string(l[12:16]) != " CA " {
		return nil
	}
	a := atom{occupancy: 1, alternate: l[16] != ' '}
	a.Name, a.Chain, a.Insertion = f.name(bytes.TrimSpace(l[17:20])), f.name(bytes.TrimSpace(l[21:22])), f.name(bytes.TrimSpace(l[26:27]))
	if a.Chain == "" {
		a.Chain = "_"
	}
	var ok bool
	if a.Number, ok = residueNumber(string(l[22:26])); !ok {
		return fmt.Errorf("%q in columns 23 to 26 is not the number of a residue", l[22:26])
	}
	for k, to := range []*float64{&a.X, &a.Y, &a.Z} {
		c := 30 + 8*k
		if *to, ok = number(string(l[c : c+8])); !ok || math.Abs(*to) > maxCoordinate {
			return fmt.Errorf("%q in columns %d to %d is not a coordinate", l[c:c+8], c+1, c+8)
		}
	}
	for k, to := range []*float64{&a.occupancy, &a.B} {
		c := 54 + 6*k
		if s := bytes.TrimSpace(l[min(c, len(l)):min(c+6, len(l))]); len(s) > 0 {
			if *to, ok = number(string(s)); !ok {
				return fmt.Errorf("%q in columns %d to %d is not a number", s, c+1, c+6)
			}
		}
	}
	return f.add(f.at, &a)
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
