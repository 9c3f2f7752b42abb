package protein

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// atom is a C-alpha atom as a file gives it.
type atom struct {
	Residue
	occupancy float64
	alternate bool // one of several locations
}

// collected holds the residues of the wanted chains of the wanted model of a file.
type collected struct {
	limits
	model  int              // the wanted one
	any    bool             // no model is wanted by number: the first atom's is taken
	models map[int]struct{} // that have atoms
	names  map[string]uint32
	texts  []string // the names, by number
	count  int      // atoms of the wanted model
	chains []string // of the wanted model, in order
	known  map[string]bool
	wanted map[string]bool // chains, and whether they were found; nil for all
	first  bool            // the first chain is wanted, and has not begun
	kept   []Residue
	places map[place]location
}

// place tells the residues of a structure apart. Chain and insertion are names by number.
type place struct {
	chain, insertion uint32
	number           int
}

// location is the kept alternate location of a residue.
type location struct {
	at        int // in kept
	occupancy float64
}

func newCollected(s Select, l limits) *collected {
	c := &collected{limits: l, model: s.Model, any: s.Model == 0, first: s.Chain == "", wanted: make(map[string]bool),
		models: make(map[int]struct{}), names: make(map[string]uint32), known: make(map[string]bool), places: make(map[place]location)}
	switch {
	case s.Chain == "all":
		c.wanted = nil
	case !c.first:
		for name := range strings.SplitSeq(s.Chain, ",") {
			c.wanted[name] = false
		}
	}
	return c
}

// name returns the one copy of a name of a file.
func (c *collected) name(text []byte) (string, error) {
	if n, ok := c.names[string(text)]; ok {
		return c.texts[n], nil
	}
	if len(text) > maxName {
		return "", fmt.Errorf("%.20q and more: the name of a residue or a chain has %d bytes at most", text, maxName)
	}
	if len(c.texts) == c.limits.names {
		return "", fmt.Errorf("more than %d names of residues and chains; cut the file into smaller ones", c.limits.names)
	}
	s := string(text)
	c.names[s] = uint32(len(c.texts))
	c.texts = append(c.texts, s)
	return s, nil
}

// called sets the names of an atom.
func (c *collected) called(a *atom, name, chain, insertion []byte) (err error) {
	if len(chain) == 0 {
		chain = []byte("_")
	}
	if a.Name, err = c.name(name); err != nil {
		return err
	}
	if a.Chain, err = c.name(chain); err != nil {
		return err
	}
	a.Insertion, err = c.name(insertion)
	return err
}

// add takes an atom of a model. Of alternate locations, which need not follow each other, it keeps the
// one that is occupied most.
func (c *collected) add(model int, a *atom) error {
	if _, ok := c.models[model]; !ok {
		if len(c.models) == c.limits.names {
			return fmt.Errorf("more than %d models; cut the file into smaller ones", c.limits.names)
		}
		c.models[model] = struct{}{}
	}
	if c.any {
		c.model, c.any = model, false
	}
	if model != c.model {
		return nil
	}
	if c.count++; c.count > c.atoms {
		return fmt.Errorf("more than %d C-alpha atoms; cut the file into smaller ones", c.atoms)
	}
	if !c.takes(a.Chain) {
		return nil
	}
	at := place{c.names[a.Chain], c.names[a.Insertion], a.Number}
	before, ok := c.places[at]
	switch {
	case !ok:
		c.places[at] = location{len(c.kept), a.occupancy}
		c.kept = append(c.kept, a.Residue)
	case !a.alternate:
		return fmt.Errorf("residue %s is there twice; of several models each needs MODEL and ENDMDL", a.Residue)
	case a.occupancy > before.occupancy:
		c.places[at] = location{before.at, a.occupancy}
		c.kept[before.at] = a.Residue
	}
	return nil
}

// takes reports whether residues of a chain are kept, and notes the chain.
func (c *collected) takes(chain string) bool {
	if !c.known[chain] {
		c.known[chain] = true
		c.chains = append(c.chains, chain)
		if c.first {
			c.wanted[chain], c.first = false, false
		}
		if _, ok := c.wanted[chain]; ok {
			c.wanted[chain] = true
		}
	}
	return c.wanted == nil || c.wanted[chain]
}

// residues returns the residues of the wanted chains, in the order of the file.
func (c *collected) residues() ([]Residue, error) {
	switch {
	case len(c.models) == 0:
		return nil, fmt.Errorf("no C-alpha atom; give a protein in the PDB or mmCIF format: %w", ErrStructure)
	case c.count == 0:
		return nil, fmt.Errorf("no model %d; the file has %s: %w", c.model, span(slices.Collect(maps.Keys(c.models))), ErrStructure)
	}
	for _, name := range slices.Sorted(maps.Keys(c.wanted)) {
		if !c.wanted[name] {
			return nil, fmt.Errorf("no C-alpha atom in chain %q; the file has chains %s: %w", name, listed(c.chains), ErrStructure)
		}
	}
	return c.kept, nil
}

// maxNamed is the number of chains that an error names.
const maxNamed = 20

// listed names chains, the first of them where there are many.
func listed(chains []string) string {
	if more := len(chains) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(chains[:maxNamed], ", "), more)
	}
	return strings.Join(chains, ", ")
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
