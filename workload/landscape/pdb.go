package landscape

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// ErrPDB says that a text is not a structure in the PDB format, or has not what
// was asked for.
var ErrPDB = errors.New("not a usable PDB structure")

// ReadCA reads the C-alpha atoms of one chain from a file in the PDB format and
// returns their coordinates in angstrom. An empty chain name means the chain of
// the first C-alpha atom. Of several models the first is read, of alternative
// locations the first of each residue. Only ATOM records count, so that calcium
// ions and modified residues (HETATM) do not.
func ReadCA(r io.Reader, chain string) ([]float64, error) {
	if len(chain) > 1 {
		return nil, fmt.Errorf("landscape: chain %q: the PDB format names chains by one character: %w", chain, ErrPDB)
	}
	var xyz []float64
	var residue string
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if strings.HasPrefix(line, "ENDMDL") {
			break
		}
		if !strings.HasPrefix(line, "ATOM  ") || len(line) < 16 || line[12:16] != " CA " {
			continue
		}
		if len(line) < 54 {
			return nil, fmt.Errorf("landscape: line %d: an ATOM record ends before its coordinates in columns 31 to 54: %w", number, ErrPDB)
		}
		if chain == "" {
			chain = line[21:22]
		}
		if line[21:22] != chain || line[22:27] == residue {
			continue
		}
		residue = line[22:27]
		for c := 30; c < 54; c += 8 {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[c:c+8]), 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("landscape: line %d: %q in columns %d to %d is not a coordinate: %w", number, line[c:c+8], c+1, c+8, ErrPDB)
			}
			xyz = append(xyz, v)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("landscape: read structure: %w", err)
	}
	if len(xyz) == 0 && chain == "" {
		return nil, fmt.Errorf("landscape: no C-alpha atom: %w", ErrPDB)
	}
	if len(xyz) == 0 {
		return nil, fmt.Errorf("landscape: no C-alpha atom in chain %q: name a chain that the file has: %w", chain, ErrPDB)
	}
	return xyz, nil
}
