package fold

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-run/weft/workload/protein"
)

// ErrFormat is wrapped by errors about files for trajectories.
var ErrFormat = errors.New("no trajectory can be written so")

// Formats are the endings of files that a trajectory can be written to.
func Formats() []string { return []string{".pdb", ".dcd", ".xtc"} }

// Format is the format of a file by its ending.
func Format(path string) (string, error) {
	switch e := strings.ToLower(filepath.Ext(path)); e {
	case ".pdb", ".dcd", ".xtc":
		return e[1:], nil
	default:
		return "", fmt.Errorf("fold: %s: %w: name a file that ends in %s", path, ErrFormat, strings.Join(Formats(), ", "))
	}
}

// lowPDB and highPDB are the bounds of a coordinate in the PDB format.
const lowPDB, highPDB = -999.9995, 9999.9995

// Writable reports, before anything is computed, a trajectory that [Run.Write] has no place for
// in a format: chains begin straight, and in the PDB format
// coordinates have eight columns and numbers four.
func (r *Run) Writable(format string) error {
	if format != "pdb" {
		return nil
	}
	if _, err := r.labels(); err != nil {
		return err
	}
	x := r.positions(0)
	middle, native, reach := middle(x), middle(r.model.Native), 0.0
	for k := 0; k < len(x); k += 3 {
		reach = max(reach, math.Hypot(math.Hypot(x[k]-middle[0], x[k+1]-middle[1]), x[k+2]-middle[2]))
	}
	for _, at := range native { // whichever way it is turned
		if at-reach <= lowPDB || at+reach >= highPDB {
			return fmt.Errorf("fold: %s begins straight, up to %.0f angstrom from its middle, which has no place in the PDB format: %w: name a file that ends in .dcd", r.name, reach, ErrFormat)
		}
	}
	return nil
}

// middle is the mean of positions.
func middle(x []float64) (m [3]float64) {
	for k, v := range x {
		m[k%3] += v * 3 / float64(len(x))
	}
	return m
}

// Write writes the trajectory of the lowest temperature in a format, one frame for each round,
// each superposed on the native structure. With exchange its frames come from the replicas that
// were at that temperature. The format "pdb" has a model for each frame. "dcd" (CHARMM and NAMD)
// and "xtc" (GROMACS) have coordinates alone; "xtc" keeps hundredths of an angstrom. [Trajectory]
// writes the same bytes frame by frame.
func (r *Run) Write(w io.Writer, format string) error {
	t := &Trajectory{to: w}
	if err := t.of(r, format); err != nil {
		return err
	}
	return t.Write(r.Rounds())
}

// coordinates returns the coordinates of a frame of the trajectory.
func (r *Run) coordinates(i int) []float64 {
	n := 3 * r.model.Beads()
	x := make([]float64, n)
	for k := range x {
		x[k] = float64(r.trace[i*n+k])
	}
	return protein.Superposed(x, r.model.Native)
}

// maxPDB is the largest number of a model or residue in the PDB format, and letters are the
// names of chains there.
const (
	maxPDB  = 9999
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// labels are chain, number and insertion code of each residue as the PDB format has them. A
// chain without a name of one letter gets the first that no other has, and one whose numbers or
// codes have no place is numbered from 1 on.
func (r *Run) labels() ([]string, error) {
	refuse := func(n int, what string, most int) ([]string, error) {
		return nil, fmt.Errorf("fold: %d %s have no place in the PDB format, which has %d: %w: name a file that ends in .dcd", n, what, most, ErrFormat)
	}
	if r.Rounds() > maxPDB {
		return refuse(r.Rounds(), "frames", maxPDB)
	}
	all, free := r.structure.Residues, letters
	fits := func(chain string) bool { return chain == "_" || len(chain) == 1 && strings.Contains(letters, chain) }
	for _, end := range r.model.Ends {
		if name := all[end-1].Chain; fits(name) {
			free = strings.ReplaceAll(free, name, "")
		}
	}
	var out []string
	for _, end := range r.model.Ends {
		chain := all[len(out):end]
		name := strings.ReplaceAll(chain[0].Chain, "_", " ")
		if !fits(chain[0].Chain) {
			if free == "" {
				return refuse(len(r.model.Ends), "chains", len(letters))
			}
			name, free = free[:1], free[1:]
		}
		anew := slices.ContainsFunc(chain, func(a protein.Residue) bool {
			return a.Number < -999 || a.Number > maxPDB || len(a.Insertion) > 1
		})
		if anew && len(chain) > maxPDB {
			return refuse(len(chain), "residues of a chain", maxPDB)
		}
		for i, a := range chain {
			if anew {
				a.Number, a.Insertion = i+1, ""
			}
			out = append(out, fmt.Sprintf("%s%4d%1s", name, a.Number, a.Insertion))
		}
	}
	return out, nil
}

// encoder makes the bytes of a format, a header and a frame at a time.
type encoder interface {
	// header returns the bytes before the first frame of a file with a number of frames.
	header(frames int) []byte
	// frame is the frame with a number, from 0 on.
	frame(i int) ([]byte, error)
	// end returns the bytes after the last frame.
	end() []byte
}

func (r *Run) encoder(format string) (encoder, error) {
	switch format {
	case "pdb":
		labels, err := r.labels()
		return pdb{r, labels}, err
	case "dcd":
		return dcd{r}, nil
	case "xtc":
		return xtc{r}, nil
	}
	return nil, fmt.Errorf("fold: format %q: %w: use pdb, dcd or xtc", format, ErrFormat)
}

type pdb struct {
	*Run
	labels []string
}

func (pdb) header(int) []byte { return nil }
func (pdb) end() []byte       { return []byte("END\n") }

func (r pdb) frame(i int) ([]byte, error) {
	b := fmt.Appendf(nil, "MODEL     %4d\n", i+1)
	x := r.coordinates(i)
	for k, res := range r.structure.Residues {
		for _, v := range x[3*k : 3*k+3] {
			if v <= lowPDB || v >= highPDB {
				return nil, fmt.Errorf("fold: frame %d: a coordinate of %.0f angstrom has no place in the PDB format: %w: name a file that ends in .dcd", i+1, v, ErrFormat)
			}
		}
		b = fmt.Appendf(b, "ATOM  %5d  CA  %3.3s %s   %8.3f%8.3f%8.3f  1.00%6.2f           C\n",
			(k+1)%100_000, res.Name, r.labels[k], x[3*k], x[3*k+1], x[3*k+2], min(max(res.B, -99.99), 999.99))
	}
	return append(b, "ENDMDL\n"...), nil
}

// dcd makes Fortran records: each has its length before and behind it.
type dcd struct{ *Run }

// dcdCount is the offset of the number of frames in the header: after its record length and four
// letters.
const dcdCount = 8

// record appends a record of numbers of a fixed size.
func record(b []byte, parts ...any) []byte {
	size := 0
	for _, p := range parts {
		size += binary.Size(p)
	}
	for _, p := range append(append([]any{int32(size)}, parts...), int32(size)) {
		b, _ = binary.Append(b, binary.LittleEndian, p) // it errs for types of no fixed size alone
	}
	return b
}

func (r dcd) header(frames int) []byte {
	var header [20]int32
	header[0], header[1], header[2], header[3] = int32(frames), int32(r.c.Every), int32(r.c.Every), int32(min(r.c.Steps, math.MaxInt32))
	header[9] = int32(math.Float32bits(float32(r.c.TimeStep)))
	header[19] = 24 // the version of CHARMM whose format it is
	title := fmt.Sprintf("%-80.80s", "weft: structure-based C-alpha model of "+r.name)
	b := record(nil, []byte("CORD"), header)
	b = record(b, int32(1), []byte(title)[:80])
	return record(b, int32(r.model.Beads()))
}

func (dcd) end() []byte { return nil }

func (r dcd) frame(i int) (b []byte, _ error) {
	x, axis := r.coordinates(i), make([]float32, r.model.Beads())
	for c := range 3 {
		for k := range axis {
			axis[k] = float32(x[3*k+c])
		}
		b = record(b, axis)
	}
	return b, nil
}
