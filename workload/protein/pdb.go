package protein

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// modified are modified amino acids that older files have as HETATM without naming them in
// MODRES.
var modified = map[string]bool{"MSE": true}

// pdbFile is the state of reading a file in the PDB format.
type pdbFile struct {
	*collected
	at       int  // the model of the position
	within   bool // between MODEL and ENDMDL
	modified map[string]bool
	header   bool
	ended    bool
}

// readPDB reads the C-alpha atoms of a text in the PDB format, whose first line was read already.
func readPDB(in *lines, ok bool, c *collected) error {
	f := pdbFile{collected: c, at: 1, modified: make(map[string]bool)}
	for ; ok; ok = in.next() {
		if err := f.line(in.line); err != nil {
			return fmt.Errorf("line %d: %w: %w", in.number, err, ErrStructure)
		}
	}
	switch {
	case f.within:
		return fmt.Errorf("it ends within model %d, so it is cut off; fetch it again: %w", f.at, ErrStructure)
	case f.header && !f.ended:
		return fmt.Errorf("it has a HEADER and no END, so it is cut off; fetch it again: %w", ErrStructure)
	}
	return nil
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
		if len(f.modified) > f.limits.names {
			return fmt.Errorf("more than %d modified residues", f.limits.names)
		}
	case "MODEL":
		name := string(bytes.TrimSpace(l[len("MODEL"):]))
		n, err := strconv.Atoi(name)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not the number of a model", name)
		}
		if _, ok := f.models[n]; ok {
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
	if err := f.called(&a, bytes.TrimSpace(l[17:20]), bytes.TrimSpace(l[21:22]), bytes.TrimSpace(l[26:27])); err != nil {
		return err
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
