package protein

import (
	"embed"
	"fmt"
	"io"
	"path/filepath"
	"slices"
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

// shipped are small structures that are part of the program.
//
//go:embed testdata/1crn.pdb testdata/1ubi.pdb testdata/bpti.pdb
var shipped embed.FS

// Shipped are the names of structures that [Open] knows without a file.
func Shipped() []string { return []string{"1CRN", "1UBI", "BPTI"} }

// Open reads a structure by the name of one that is shipped, or from a file.
func Open(name string, s Select) (*Structure, error) {
	if slices.Contains(Shipped(), strings.ToUpper(name)) {
		f, err := shipped.Open("testdata/" + strings.ToLower(name) + ".pdb")
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return read(f, strings.ToUpper(name), s, allowed)
	}
	f, err := safefile.OpenInput(name)
	if err != nil {
		return nil, fmt.Errorf("protein: %w; shipped structures are %s", err, strings.Join(Shipped(), ", "))
	}
	defer f.Close()
	return read(f, name, s, allowed)
}

// Read reads the C-alpha atoms of a structure in the PDB or mmCIF format, plain or compressed
// by gzip; it detects the format from the text. Of alternate locations of an atom it takes
// the one with the largest occupancy, of equal ones the first. Residues without a C-alpha
// atom are left out ([Structure.Missing]). Ions, water and ligands do not count, modified
// amino acids do. Errors wrap [ErrStructure], except errors of reading.
//
// The text is not kept: memory is that of the residues, whatever else is in the file and however well
// it is compressed. It has at most 1 GiB, also without compression, in 2²⁴ lines of at most 64 KiB, with
// 524,288 C-alpha atoms in a model and 65,536 models.
func Read(r io.Reader, s Select) (*Structure, error) { return read(r, "structure", s, allowed) }

// read reads a structure within limits. Errors have the name of the file with its folder.
func read(r io.Reader, file string, s Select, l limits) (*Structure, error) {
	in := newLines(r, l)
	residues, err := readLines(in, s)
	if err != nil {
		return nil, fmt.Errorf("protein: %s: %w", file, err)
	}
	out := &Structure{Name: filepath.Base(file), Residues: residues}
	if in.compressed {
		out.Name = strings.TrimSuffix(out.Name, ".gz")
	}
	return out, out.check()
}
