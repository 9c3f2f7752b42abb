package protein

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// cifWords splits a text in the CIF format into words.
type cifWords struct {
	in    *lines
	rest  []byte // of the line
	begun bool   // something of the line was read
	line  int    // of the word that was read last, from one
	long  []byte // the beginning of a text of several lines
}

// cifWord is a word of the CIF format, a part of the text, until the next is read. A quoted one is a
// value whatever it looks like.
type cifWord struct {
	text   []byte
	quoted bool
}

func (w *cifWord) is(prefix string) bool {
	return !w.quoted && len(w.text) >= len(prefix) && strings.EqualFold(string(w.text[:len(prefix)]), prefix)
}

// missing reports whether the word stands for no value.
func (w *cifWord) missing() bool {
	return !w.quoted && (string(w.text) == "." || string(w.text) == "?")
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// next goes to the next line.
func (w *cifWords) next() bool {
	if !w.in.next() {
		return false
	}
	w.rest, w.begun = w.in.line, false
	return true
}

// read returns the next word; ok is false at the end of the text.
func (w *cifWords) read() (word cifWord, ok bool, err error) {
	for {
		if !w.begun && len(w.rest) > 0 && w.rest[0] == ';' {
			return w.lines()
		}
		w.begun, w.rest = true, bytes.TrimLeft(w.rest, " \t")
		if len(w.rest) > 0 && w.rest[0] != '#' {
			break
		}
		if w.line = w.in.number; !w.next() {
			return word, false, nil
		}
	}
	w.line = w.in.number
	t := w.rest
	if c := t[0]; c == '\'' || c == '"' {
		for i := 1; i < len(t); i++ {
			if t[i] == c && (i+1 == len(t) || blank(t[i+1])) {
				w.rest = t[i+1:]
				return cifWord{t[1:i], true}, true, nil
			}
		}
		return word, false, fmt.Errorf("line %d: a text in quotes does not end: %w", w.line, ErrStructure)
	}
	end := bytes.IndexAny(t, " \t")
	if end < 0 {
		end = len(t)
	}
	w.rest = t[end:]
	return cifWord{t[:end], false}, true, nil
}

// lines reads a text that begins and ends with ';' at the beginning of a line. No value of an atom has so many
// bytes as are kept of it.
func (w *cifWords) lines() (word cifWord, ok bool, err error) {
	w.line = w.in.number
	w.long = append(w.long[:0], w.rest[1:min(len(w.rest), maxValue+2)]...)
	for w.next() {
		if len(w.rest) > 0 && w.rest[0] == ';' {
			w.rest, w.begun = w.rest[1:], true
			return cifWord{w.long, true}, true, nil
		}
		if room := maxValue + 1 - len(w.long); room > 0 {
			w.long = append(append(w.long, '\n'), w.rest[:min(len(w.rest), room)]...)
		}
	}
	return word, false, fmt.Errorf("line %d: a text that begins with ';' does not end, so the file is cut off: %w", w.line, ErrStructure)
}

// atomSite are the columns of the table of atoms that are read; those behind a bar are
// taken where the first is not there.
var atomSite = [...]string{
	"group_pdb", "label_atom_id|auth_atom_id", "label_alt_id", "label_comp_id|auth_comp_id", "auth_asym_id|label_asym_id",
	"auth_seq_id|label_seq_id", "pdbx_pdb_ins_code", "cartn_x", "cartn_y", "cartn_z", "occupancy", "b_iso_or_equiv",
	"pdbx_pdb_model_num", "label_seq_id", "type_symbol",
}

// The places in atomSite.
const (
	siteGroup = iota
	siteAtom
	siteAlternate
	siteName
	siteChain
	siteNumber
	siteInsertion
	siteX
	siteY
	siteZ
	siteOccupancy
	siteB
	siteModel
	sitePolymer
	siteElement
)

// readCIF reads the C-alpha atoms of a text in the mmCIF format, whose first line was read already, from
// the first data block that has a table of atoms.
func readCIF(in *lines, _ bool, c *collected) error {
	w := &cifWords{in: in, rest: in.line}
	for {
		word, ok, err := w.read()
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("no table _atom_site, so the file is cut off or has no coordinates: %w", ErrStructure)
		}
		if !word.is("loop_") {
			continue
		}
		var columns []string // of the table, if it is that of atoms
		for at := 0; ; at++ {
			if word, ok, err = w.read(); err != nil {
				return err
			}
			if !ok || !word.is("_") {
				break
			}
			if at > 0 && columns == nil || at == 0 && !word.is("_atom_site.") {
				continue
			}
			if at == maxColumns {
				return fmt.Errorf("line %d: the table of atoms has more than %d columns: %w", w.line, maxColumns, ErrStructure)
			}
			columns = append(columns, strings.ToLower(string(word.text[:min(len(word.text), maxValue)])))
		}
		if columns != nil {
			return readSites(w, columns, word, ok, c)
		}
		if word.is("loop_") {
			return fmt.Errorf("line %d: a table without values: %w", w.line, ErrStructure)
		}
	}
}

// sitesOf returns the indices of the columns of atomSite in a table, -1 for missing
// ones.
func sitesOf(columns []string) (at [len(atomSite)]int, err error) {
	for i, names := range atomSite {
		at[i] = -1
		for name := range strings.SplitSeq(names, "|") {
			if at[i] < 0 {
				at[i] = slices.Index(columns, "_atom_site."+name)
			}
		}
		switch i {
		case siteAtom, siteChain, siteNumber, siteX, siteY, siteZ:
			if at[i] < 0 {
				return at, fmt.Errorf("the table of atoms has no column %s: %w", strings.ReplaceAll(names, "|", " or "), ErrStructure)
			}
		}
	}
	return at, nil
}

// cifRow is a row of the table of atoms: the texts of the columns that are read, without those that stand
// for no value.
type cifRow struct {
	texts  [][]byte
	wanted []bool
	size   int // columns that it has so far
}

// take takes the next word of a row.
func (r *cifRow) take(word *cifWord) error {
	k := r.size
	r.size++
	if !r.wanted[k] {
		return nil
	}
	if r.texts[k] = r.texts[k][:0]; word.missing() {
		return nil
	}
	if len(word.text) > maxValue {
		return fmt.Errorf("%.20q and more: a value of an atom has %d bytes at most", word.text, maxValue)
	}
	r.texts[k] = append(r.texts[k], word.text...)
	return nil
}

// readSites reads the table of atoms, whose first word was read already.
func readSites(w *cifWords, columns []string, word cifWord, ok bool, c *collected) error {
	at, err := sitesOf(columns)
	if err != nil {
		return err
	}
	row := cifRow{texts: make([][]byte, len(columns)), wanted: make([]bool, len(columns))}
	for _, k := range at {
		if k >= 0 {
			row.wanted[k] = true
		}
	}
	for ok && (word.quoted || !word.is("loop_") && !word.is("_") && !word.is("data_")) {
		err := row.take(&word)
		if err == nil && row.size == len(columns) {
			err = c.site(row.texts, &at)
			row.size = 0
		}
		if err != nil {
			return fmt.Errorf("line %d: %w: %w", w.line, err, ErrStructure)
		}
		if word, ok, err = w.read(); err != nil {
			return err
		}
	}
	if row.size > 0 {
		return fmt.Errorf("line %d: the table of atoms ends within a row of %d columns, so the file is cut off: %w", w.line, len(columns), ErrStructure)
	}
	w.in.rest()
	return nil
}

// site adds the atom of a row if it is a C-alpha atom.
func (c *collected) site(row [][]byte, at *[len(atomSite)]int) (err error) {
	value := func(i int) []byte {
		if at[i] < 0 {
			return nil
		}
		return row[at[i]]
	}
	if string(value(siteAtom)) != "CA" || strings.EqualFold(string(value(siteElement)), "CA") || string(value(siteGroup)) == "HETATM" && len(value(sitePolymer)) == 0 {
		return nil
	}
	a, model := atom{occupancy: 1, alternate: len(value(siteAlternate)) > 0}, 1
	if err := c.called(&a, value(siteName), value(siteChain), value(siteInsertion)); err != nil {
		return err
	}
	if a.Number, err = strconv.Atoi(string(value(siteNumber))); err != nil {
		return fmt.Errorf("%q is not the number of a residue", value(siteNumber))
	}
	if m := value(siteModel); len(m) > 0 {
		if model, err = strconv.Atoi(string(m)); err != nil || model < 1 {
			return fmt.Errorf("%q is not the number of a model", m)
		}
	}
	var ok bool
	for i, to := range []*float64{&a.X, &a.Y, &a.Z} {
		if *to, ok = number(string(value(siteX + i))); !ok || math.Abs(*to) > maxCoordinate {
			return fmt.Errorf("%q is not a coordinate", value(siteX+i))
		}
	}
	for i, to := range []*float64{&a.occupancy, &a.B} {
		if s := value(siteOccupancy + i); len(s) > 0 {
			if *to, ok = number(string(s)); !ok {
				return fmt.Errorf("%q is not a number", s)
			}
		}
	}
	return c.add(model, &a)
}
