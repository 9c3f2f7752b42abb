package plan

import (
	"fmt"
	"math"
)

// Protein is a job on one protein chain: replicas of its dynamics, and whatever else is computed of
// it, as its energy landscape.
type Protein struct {
	Name     string
	Chain    string // of the entry of that name, as protein.Select has it
	Residues int
	Replicas int
	Steps    int          // of dynamics, of each replica
	Jobs     []ProteinJob // one after the other
}

// ProteinJob is something that is computed of a protein, as the graphs of its workload say.
type ProteinJob struct {
	Need Need
	Work Work
}

// ProteinClass is the class of a chain by its length.
func (p Protein) ProteinClass() string {
	switch n := p.Residues; {
	case n < 100:
		return "small"
	case n <= 500:
		return "medium"
	case n <= 2000:
		return "large"
	default:
		return "mega"
	}
}

// ProteinExamples returns a chain of each class, named after its entry in the Protein Data
// Bank, with 64 replicas of a million steps and no jobs.
func ProteinExamples() []Protein {
	return []Protein{
		{Name: "BPTI", Residues: 58, Replicas: 64, Steps: 1_000_000},
		{Name: "1AKE", Chain: "A", Residues: 214, Replicas: 64, Steps: 1_000_000},
		{Name: "2F8V", Chain: "all", Residues: 951, Replicas: 64, Steps: 1_000_000},
		{Name: "4JSV", Chain: "all", Residues: 2750, Replicas: 64, Steps: 1_000_000},
	}
}

// atomsPerResidue is the number of atoms per residue in 4JSV.
const atomsPerResidue = 22128. / 2750

// Conformation is the memory of one conformation in bytes: coordinates of atoms, phases of
// pairs, contacts, and a landscape.
func (p Protein) Conformation() int64 {
	return conformationOf(p.Residues, atomsPerResidue*float64(p.Residues)).total()
}

// conformation is the size in bytes of one conformation of a protein with everything computed of it
// kept, term by term.
type conformation struct {
	coordinates int64 // three float64 for each atom
	phases      int64 // a complex number for each pair of residues
	contacts    int64 // 4 bytes for each pair, and a tenth of that above 1000 residues
	landscape   int64 // 1000 float64 for each residue
}

func conformationOf(residues int, atoms float64) conformation {
	n := float64(residues)
	m := conformation{coordinates: int64(24 * atoms), phases: int64(16 * n * n), contacts: int64(4 * n * n), landscape: int64(8000 * n)}
	if residues > 1000 {
		m.contacts = int64(0.4 * n * n)
	}
	return m
}

func (m conformation) total() int64 { return m.coordinates + m.phases + m.contacts + m.landscape }

func (p Protein) check() error {
	if p.Residues < 4 || p.Residues > 1<<20 || p.Replicas < 1 || p.Replicas > 1<<16 || p.Steps < 1 {
		return fmt.Errorf("plan: a protein of %d residues in %d replicas of %d steps; use 4 residues, one replica and one step at least", p.Residues, p.Replicas, p.Steps)
	}
	return nil
}

// ProteinPlan is the predicted time and memory of a protein on a machine.
type ProteinPlan struct {
	Protein   `json:"-"`
	Class     string     `json:"class"`
	Estimates []Estimate `json:"estimates"` // of the jobs
	Bytes     int64      `json:"bytes"`     // of all replicas
	// Layout is nil if the replicas fit on no device, or if all devices of the jobs use host memory.
	Layout   *Layout  `json:"-"`
	Accuracy Accuracy `json:"accuracy"`
	Fits     bool     `json:"fits"`
	Why      string   `json:"why,omitempty"` // why it does not fit
}

// Accuracy is the distance that the best replica is expected to have from the native structure.
type Accuracy struct {
	Known bool `json:"known"`
	// RMSD is the distance from the native structure in Å that a replica reaches with a
	// Chance, and Best the chance that one of all replicas does.
	RMSD   float64 `json:"rmsd,omitempty"`
	Chance float64 `json:"chance,omitempty"`
	Best   float64 `json:"best,omitempty"`
	Why    string  `json:"why"`
}

// foldings are runs of the model from a straight chain that are known: how many of them
// reached an RMSD below 1.5 Å within some steps.
var foldings = []struct {
	name         string
	residues     int
	folded, runs float64
	steps        float64
}{
	{"1CRN", 46, 8, 8, 849e3},
	{"BPTI", 58, 2, 4, 1.5e6},
}

// Accuracy predicts from runs of a chain that is at least as long. The chance that a run
// folds is that by the rule of succession, and waiting for it has no memory. Of longer
// chains nothing is known.
func (p Protein) Accuracy() Accuracy {
	for _, f := range foldings {
		if p.Residues > f.residues {
			continue
		}
		chance := 1 - math.Pow(1-(f.folded+1)/(f.runs+2), float64(p.Steps)/f.steps)
		return Accuracy{
			Known: true, RMSD: 1.5, Chance: chance, Best: 1 - math.Pow(1-chance, float64(p.Replicas)),
			Why: fmt.Sprintf("%.0f of %.0f runs of %s (%d residues) came below 1.5 Å within %.3g steps", f.folded, f.runs, f.name, f.residues, f.steps),
		}
	}
	longest := foldings[len(foldings)-1]
	return Accuracy{Why: fmt.Sprintf("not known: the longest chain whose folding was measured has %d residues", longest.residues)}
}
