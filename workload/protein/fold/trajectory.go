package fold

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
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

// Write writes the trajectory of the lowest temperature in a format, one frame for each round,
// each moved and turned to where it is nearest to the native structure. With exchange its
// frames are of the replicas that were at that temperature. The format "pdb" has a model for each
// frame, "dcd" is that of CHARMM and NAMD, and "xtc" that of GROMACS, which have coordinates
// alone; "xtc" keeps hundredths of an angstrom.
func (r *Run) Write(w io.Writer, format string) error {
	b := bufio.NewWriter(w)
	write := map[string]func(*bufio.Writer) error{"pdb": r.writePDB, "dcd": r.writeDCD, "xtc": r.writeXTC}[format]
	if write == nil {
		return fmt.Errorf("fold: format %q: %w: use pdb, dcd or xtc", format, ErrFormat)
	}
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

// frame is the coordinates of a frame of the trajectory.
func (r *Run) frame(i int) []float64 {
	n := 3 * r.model.Beads()
	x := make([]float64, n)
	for k := range x {
		x[k] = float64(r.trace[i*n+k])
	}
	return protein.Superposed(x, r.model.Native)
}

func (r *Run) writePDB(w *bufio.Writer) error {
	for i := range r.Rounds() {
		fmt.Fprintf(w, "MODEL     %4d\n", (i+1)%10_000)
		x := r.frame(i)
		for k, res := range r.structure.Residues {
			for _, v := range x[3*k : 3*k+3] {
				if v <= -999.9995 || v >= 9999.9995 {
					return fmt.Errorf("fold: frame %d: a coordinate of %.0f angstrom has no place in the PDB format: %w: name a file that ends in .dcd", i+1, v, ErrFormat)
				}
			}
			chain := " "
			if len(res.Chain) == 1 && res.Chain != "_" {
				chain = res.Chain
			}
			fmt.Fprintf(w, "ATOM  %5d  CA  %3.3s %s%4d%1.1s   %8.3f%8.3f%8.3f  1.00%6.2f           C\n",
				(k+1)%100_000, res.Name, chain, res.Number%10_000, res.Insertion+" ", x[3*k], x[3*k+1], x[3*k+2], math.Min(res.B, 999.99))
		}
		fmt.Fprintln(w, "ENDMDL")
	}
	fmt.Fprintln(w, "END")
	return nil
}

// writeDCD writes Fortran records: each has its length before and behind it.
func (r *Run) writeDCD(w *bufio.Writer) error {
	record := func(parts ...any) error {
		size := 0
		for _, p := range parts {
			size += binary.Size(p)
		}
		for _, p := range append(append([]any{int32(size)}, parts...), int32(size)) {
			if err := binary.Write(w, binary.LittleEndian, p); err != nil {
				return err
			}
		}
		return nil
	}
	var header [20]int32
	header[0], header[1], header[2], header[3] = int32(r.Rounds()), int32(r.c.Every), int32(r.c.Every), int32(min(r.c.Steps, math.MaxInt32))
	header[9] = int32(math.Float32bits(float32(r.c.TimeStep)))
	header[19] = 24 // the version of CHARMM whose format it is
	title := fmt.Sprintf("%-80.80s", "weft: structure-based C-alpha model of "+r.name)
	if err := record([]byte("CORD"), header); err != nil {
		return err
	}
	if err := record(int32(1), []byte(title)[:80]); err != nil {
		return err
	}
	n := r.model.Beads()
	if err := record(int32(n)); err != nil {
		return err
	}
	axis := make([]float32, n)
	for i := range r.Rounds() {
		x := r.frame(i)
		for c := range 3 {
			for k := range axis {
				axis[k] = float32(x[3*k+c])
			}
			if err := record(axis); err != nil {
				return err
			}
		}
	}
	return nil
}
