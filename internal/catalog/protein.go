package catalog

import (
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/elastic"
	"github.com/weft-run/weft/workload/protein/phase"
)

// structureFlags adds the flags that say of which protein something is computed, and returns
// what completes them: a structure that is named stands before the helix there is otherwise.
func structureFlags(f *pflag.FlagSet, structure *string, of *protein.Select, residues *int, helix int) func() error {
	f.StringVar(structure, "structure", "", "structure: 1CRN, 1UBI, BPTI, or a file in PDB or mmCIF format")
	f.StringVar(&of.Chain, "chain", "", "chain of the structure, several as A,B, or all (the first)")
	f.IntVar(&of.Model, "model", 0, "model of the structure (the first)")
	f.IntVar(residues, "residues", helix, "residues of a helix that stands in for a structure")
	return func() error {
		if *structure == "" && *of != (protein.Select{}) {
			*structure = "1CRN"
		}
		if *structure != "" && !f.Changed("residues") {
			*residues = 0
		}
		return nil
	}
}

func elasticFlags(f *pflag.FlagSet) Order {
	c := elastic.Config{}
	complete := structureFlags(f, &c.Structure, &c.Select, &c.Residues, 256)
	f.StringVar(&c.Network, "network", elastic.Gaussian, "gnm (Gaussian, a row a residue) or anm (anisotropic, three rows)")
	f.Float64Var(&c.Cutoff, "cutoff", 0, "distance up to which residues are joined, in angstrom (10 for gnm, 15 for anm)")
	f.IntVar(&c.Modes, "modes", 20, "slowest modes to find")
	f.IntVar(&c.Steps, "steps", 0, "steps of the Lanczos method (chosen)")
	f.Uint32Var(&c.Seed, "seed", 1, "what the first vector is drawn from")
	return order(&c, elastic.New, notZero(f, "modes"), complete)
}

func phaseFlags(f *pflag.FlagSet) Order {
	c := phase.Config{}
	complete := structureFlags(f, &c.Structure, &c.Select, &c.Residues, 512)
	f.Float64Var(&c.Time, "time", 0, "time in picoseconds")
	return order(&c, phase.New, complete)
}
