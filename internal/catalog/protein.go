package catalog

import (
	"fmt"
	"strings"

	"github.com/weft-run/weft/workload/network"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/elastic"
	"github.com/weft-run/weft/workload/protein/phase"
)

// structure points to the fields of a workload's configuration that choose its structure: the name, the part of the
// file, and the structure itself if the request brought it.
type structure struct {
	name  *string
	of    *protein.Select
	given **protein.Structure
}

// order returns an order that is of the structure.
func (s structure) order(o Order) Order {
	o.of = &s
	return o
}

// flags adds the flags that say of which protein something is computed, and returns what
// completes them: a structure that is named stands before the helix there is otherwise.
func (s structure) flags(f *Flags, residues *int, helix int) func() error {
	f.StringVar(s.name, "structure", "", "structure: 1CRN, 1UBI, BPTI, or a file in PDB or mmCIF format")
	f.StringVar(&s.of.Chain, "chain", "", "chain of the structure, several as A,B, or all (the first)")
	f.IntVar(&s.of.Model, "model", 0, "model of the structure (the first)")
	f.IntVar(residues, "residues", helix, "residues of a helix that stands in for a structure")
	return func() error {
		if (s.named() != "" || *s.given != nil) && !f.Changed("residues") {
			*residues = 0
		}
		return nil
	}
}

// named returns the name of the structure: to select a part of none is to select it of crambin.
func (s structure) named() string {
	if *s.name == "" && *s.of != (protein.Select{}) {
		*s.name = "1CRN"
	}
	return *s.name
}

// read reads the structure: that of a text in the PDB or mmCIF format, or without a text the shipped one that flags
// name, if they name one.
func (s structure) read(text string) (err error) {
	switch {
	case text != "":
		*s.given, err = readText(text, *s.of)
	case s.named() != "":
		*s.given, err = protein.Open(*s.name, *s.of)
	}
	return err
}

// densePairs is the most pairs of residues nearer than protein.ContactDistance, for each residue, that a structure has
// whose text somebody sends. Real ones have 6, and those that touch everywhere 30. The memory and time of a model are in
// proportion to such pairs, of which a short text can have as many as the square of its lines.
const densePairs = 32

// mostResidues is the most residues of such a structure: no job takes more.
const mostResidues = 100_000

// readText reads a structure that somebody has sent.
func readText(text string, of protein.Select) (*protein.Structure, error) {
	s, err := protein.Read(strings.NewReader(text), of)
	if err != nil {
		return nil, err
	}
	if s.Len() > mostResidues {
		return nil, fmt.Errorf("protein: structure: it has %d residues, and %d are the most: %w", s.Len(), mostResidues, protein.ErrStructure)
	}
	pairs := 0
	for range protein.Near(s.Coordinates(), protein.ContactDistance) {
		if pairs++; pairs > densePairs*s.Len() {
			return nil, fmt.Errorf("protein: structure: its %d residues have more than %d pairs nearer than %g angstrom, as no chain has: %w", s.Len(), densePairs*s.Len(), protein.ContactDistance, protein.ErrStructure)
		}
	}
	return s, nil
}

// File returns the name of the flag that may name a file, "" if the workload has none, and what else it may name, which
// is shipped.
func (w Entry) File() (flag string, shipped []string) {
	switch w.Name {
	case "landscape", "elastic", "phase":
		return "structure", protein.Shipped()
	case "network":
		return "graph", network.Shipped()
	}
	return "", nil
}

// OfStructure reports whether the job is of a protein's structure.
func (o Order) OfStructure() bool { return o.of != nil }

// Read reads the structure that the job is of before the job is made, so that Validate judges it too: that of a text in
// the PDB or mmCIF format, or without a text the shipped one that the flags name, if they name one. The flags name no
// file. What is wrong is a mistake of the user.
func (o Order) Read(text string) error {
	if o.of == nil {
		return nil
	}
	return o.of.read(text)
}

func elasticFlags(f *Flags) Order {
	c := elastic.Config{}
	of := structure{&c.Structure, &c.Select, &c.Given}
	complete := of.flags(f, &c.Residues, 256)
	f.StringVar(&c.Network, "network", elastic.Gaussian, "gnm (Gaussian, a row a residue) or anm (anisotropic, three rows)")
	f.Float64Var(&c.Cutoff, "cutoff", 0, "distance up to which residues are joined, in angstrom (10 for gnm, 15 for anm)")
	f.IntVar(&c.Modes, "modes", 20, "slowest modes to find")
	f.IntVar(&c.Steps, "steps", 0, "steps of the Lanczos method (chosen)")
	f.Uint32Var(&c.Seed, "seed", 1, "what the first vector is drawn from")
	return of.order(OrderOf(&c, elastic.New, notZero(f, "modes"), complete))
}

func phaseFlags(f *Flags) Order {
	c := phase.Config{}
	of := structure{&c.Structure, &c.Select, &c.Given}
	complete := of.flags(f, &c.Residues, 512)
	f.Float64Var(&c.Time, "time", 0, "time in picoseconds")
	return of.order(OrderOf(&c, phase.New, complete))
}
