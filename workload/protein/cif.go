package protein

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// isCIF reports whether a text is in the mmCIF format: behind comments it begins with a data
// block.
func isCIF(text []byte) bool {
	for {
		text = bytes.TrimLeft(text, " \t\r\n\ufeff")
		if !bytes.HasPrefix(text, []byte("#")) {
			break
		}
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			return false
		}
		text = text[end:]
	}
	return len(text) >= 5 && strings.EqualFold(string(text[:5]), "data_")
}

// cifWords splits a text in the CIF format into words.
type cifWords struct {
	text []byte
	at   int
	line int // of the word that was read last, from one
	next int // line of the position
}

// cifWord is a word of the CIF format, a part of the text. A quoted one is a value whatever it
// looks like.
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

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// read returns the next word; ok is false at the end of the text.
func (w *cifWords) read() (word cifWord, ok bool, err error) {
	t := w.text
	for w.at < len(t) && (blank(t[w.at]) || t[w.at] == '#') {
		if t[w.at] == '#' {
			for w.at < len(t) && t[w.at] != '\n' {
				w.at++
			}
			continue
		}
		if t[w.at] == '\n' {
			w.next++
		}
		w.at++
	}
	w.line = w.next
	if w.at == len(t) {
		return word, false, nil
	}
	begin := w.at
	switch c := t[begin]; {
	case c == ';' && (begin == 0 || t[begin-1] == '\n'):
		end := bytes.Index(t[begin:], []byte("\n;"))
		if end < 0 {
			return word, false, fmt.Errorf("line %d: a text that begins with ';' does not end, so the file is cut off: %w", w.line, ErrStructure)
		}
		w.next += bytes.Count(t[begin:begin+end+1], []byte("\n"))
		w.at = begin + end + 2
		return cifWord{t[begin+1 : begin+end], true}, true, nil
	case c == '\'' || c == '"':
		for i := begin + 1; i < len(t) && t[i] != '\n'; i++ {
			if t[i] == c && (i+1 == len(t) || blank(t[i+1])) {
				w.at = i + 1
				return cifWord{t[begin+1 : i], true}, true, nil
			}
		}
		return word, false, fmt.Errorf("line %d: a text in quotes does not end: %w", w.line, ErrStructure)
	}
	for w.at < len(t) && !blank(t[w.at]) {
		w.at++
	}
	return cifWord{t[begin:w.at], false}, true, nil
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

// readCIF reads the C-alpha atoms of a model in the mmCIF format, from the first data block
// that has a table of atoms.
func readCIF(text []byte, model int) ([]Residue, error) {
	w := &cifWords{text: text, next: 1}
	for {
		word, ok, err := w.read()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, fmt.Errorf("no table _atom_site, so the file is cut off or has no coordinates: %w", ErrStructure)
		}
		if !word.is("loop_") {
			continue
		}
		var columns []string
		for {
			if word, ok, err = w.read(); err != nil {
				return nil, err
			}
			if !ok || !word.is("_") {
				break
			}
			columns = append(columns, strings.ToLower(string(word.text)))
		}
		if len(columns) > 0 && strings.HasPrefix(columns[0], "_atom_site.") {
			return readSites(w, columns, word, ok, model)
		}
		if word.is("loop_") {
			return nil, fmt.Errorf("line %d: a table without values: %w", w.line, ErrStructure)
		}
	}
}

// sitesOf finds the columns of atomSite among those of a table; -1 where there is none.
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

// readSites reads the table of atoms, whose first word was read already.
func readSites(w *cifWords, columns []string, word cifWord, ok bool, model int) ([]Residue, error) {
	at, err := sitesOf(columns)
	if err != nil {
		return nil, err
	}
	c := newCollected(model)
	row := make([]cifWord, 0, len(columns))
	for ok && (word.quoted || !word.is("loop_") && !word.is("_") && !word.is("data_")) {
		if row = append(row, word); len(row) == len(columns) {
			if err := c.site(row, &at); err != nil {
				return nil, fmt.Errorf("line %d: %w: %w", w.line, err, ErrStructure)
			}
			row = row[:0]
		}
		if word, ok, err = w.read(); err != nil {
			return nil, err
		}
	}
	if len(row) > 0 {
		return nil, fmt.Errorf("line %d: the table of atoms ends within a row of %d columns, so the file is cut off: %w", w.line, len(columns), ErrStructure)
	}
	return c.residues()
}

// site takes a row, if it is that of a C-alpha atom.
func (c *collected) site(row []cifWord, at *[len(atomSite)]int) (err error) {
	value := func(i int) []byte {
		if at[i] < 0 || row[at[i]].missing() {
			return nil
		}
		return row[at[i]].text
	}
	if string(value(siteAtom)) != "CA" || strings.EqualFold(string(value(siteElement)), "CA") || string(value(siteGroup)) == "HETATM" && len(value(sitePolymer)) == 0 {
		return nil
	}
	a, model := atom{occupancy: 1, alternate: len(value(siteAlternate)) > 0}, 1
	a.Name, a.Chain, a.Insertion = c.name(value(siteName)), c.name(value(siteChain)), c.name(value(siteInsertion))
	if a.Chain == "" {
		a.Chain = "_"
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
