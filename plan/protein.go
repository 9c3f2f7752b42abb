package plan

import (
	"fmt"
	"math"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload/protein"
)

// Protein is a job on one protein chain: its energy landscape, and replicas of Langevin
// dynamics with replica exchange on a structure-based model of one bead per residue. Weft
// has the landscape as a workload; the dynamics are planned from their operation counts.
type Protein struct {
	Name     string
	Residues int
	Replicas int
	Steps    int // of dynamics, of each replica
	// Swap is the number of steps between two exchanges of replicas; 0 means 100.
	Swap int
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
// Bank, with 64 replicas of a million steps.
func ProteinExamples() []Protein {
	var out []Protein
	for _, c := range []struct {
		name     string
		residues int
	}{{"BPTI", 58}, {"1AKE", 214}, {"2F8V", 951}, {"4JSV", 2750}} {
		out = append(out, Protein{Name: c.name, Residues: c.residues, Replicas: 64, Steps: 1_000_000})
	}
	return out
}

// What is counted of a chain of n residues. Contacts are pairs within 8 Å: 2.9 for each
// residue in chains of the Protein Data Bank. Pairs within the cutoff of 12 Å are as many
// more as that sphere is larger. Atoms are those of 4JSV for each residue.
const (
	contactsPerResidue = 2.9
	atomsPerResidue    = 22128. / 2750
	anglesPerRow       = 1000
)

func (p Protein) contacts() float64 { return contactsPerResidue * float64(p.Residues) }

func (p Protein) pairs() float64 {
	n := float64(p.Residues)
	return min(p.contacts()*math.Pow(12./8, 3), n*(n-1)/2)
}

// Conformation is the memory of one conformation in bytes: coordinates of atoms, phases of
// pairs, contacts, and a landscape.
func (p Protein) Conformation() int64 {
	return protein.MemoryOf(p.Residues, atomsPerResidue*float64(p.Residues)).Total()
}

// maxSwap is the most steps between two exchanges: a task has a launch for each.
const maxSwap = 100_000

func (p Protein) check() error {
	if p.Residues < 4 || p.Residues > 1<<20 || p.Replicas < 1 || p.Replicas > 1<<16 || p.Steps < 1 || p.Swap < 0 || p.Swap > maxSwap {
		return fmt.Errorf("plan: a protein of %d residues in %d replicas of %d steps with an exchange every %d; use 4 residues, one replica and one step at least, and %d steps between exchanges at most", p.Residues, p.Replicas, p.Steps, p.Swap, maxSwap)
	}
	return nil
}

// Landscape returns the sampling of the landscape: for each of the n-2 bonds 1000 turns,
// each of which changes all pairs across the bond, at about 25 operations. Bonds in the
// middle cost most.
func (p Protein) Landscape() (Need, Work, error) {
	if err := p.check(); err != nil {
		return Need{}, Work{}, err
	}
	n := int64(p.Residues)
	// before is the pairs of rows before one: the sum of (i+2)(n-i-2).
	before := func(i int64) float64 {
		x, c := float64(i), float64(n)
		return x*(2*c-4) + x*(x-1)/2*(c-4) - (x-1)*x*(2*x-1)/6
	}
	pairs := func(lo, hi int64) float64 { return before(hi) - before(lo) }
	kernel := &graph.Kernel{Name: "protein.landscape", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	task := func(lo, hi int64) graph.Task {
		return graph.Task{
			Steps: []graph.Step{{Kernel: kernel}},
			Work:  graph.Work{Ops: 25 * anglesPerRow * pairs(lo, hi), Bytes: float64(24*n + 8*anglesPerRow*(hi-lo)), Unit: graph.FP64},
		}
	}
	w := Work{
		Items: sched.Items{Extent: n - 2, Cost: pairs, Bytes: func(lo, hi int64) (in, out int64) { return 24 * n, 8 * anglesPerRow * (hi - lo) }},
		Whole: task(0, n-2),
		Graph: func(ranges []sched.Range) (*graph.Graph, error) {
			b := new(graph.Builder)
			beads := b.Data(graph.Data{Name: "beads", Bytes: 24 * n, Input: true})
			for i, r := range ranges {
				out := b.Data(graph.Data{Name: fmt.Sprint("energies ", i), Bytes: 8 * anglesPerRow * r.Len(), Output: true})
				t := task(r.Lo, r.Hi)
				t.Uses = []graph.Use{{Data: beads, Access: graph.Read}, {Data: out, Access: graph.Write}}
				b.Add(t)
			}
			return b.Build()
		},
	}
	g, err := w.Graph([]sched.Range{{Lo: 0, Hi: n - 2}})
	if err != nil {
		return Need{}, Work{}, err
	}
	need := NeedOf("landscape of "+p.Name, g, 1)
	need.Workload, need.Parts = "landscape", int(n-2)
	return need, w, nil
}

// rounds is how many exchanges are simulated: enough that a device that is late shows.
const rounds = 4

// Dynamics returns the replicas. A step of a replica takes 60 operations for each bead, 40
// for each contact and 25 for each pair within the cutoff; a device makes a step of all its
// replicas by one launch. Replicas stay where they are; after each Swap steps energies are
// gathered and temperatures exchanged.
func (p Protein) Dynamics() (Need, Work, error) {
	if err := p.check(); err != nil {
		return Need{}, Work{}, err
	}
	swap := p.Swap
	if swap == 0 {
		swap = 100
	}
	swap = min(swap, p.Steps)
	n := float64(p.Residues)
	ops := 60*n + 40*p.contacts() + 25*p.pairs()
	bytes := 72*n + 12*p.contacts()
	each := p.Conformation()
	step := &graph.Kernel{Name: "protein.steps", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	exchange := &graph.Kernel{Name: "protein.exchange", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	task := func(replicas int64) graph.Task {
		k := float64(swap) * float64(replicas)
		t := graph.Task{Work: graph.Work{Ops: ops * k, Bytes: bytes * k, Unit: graph.FP64}}
		for range swap {
			t.Steps = append(t.Steps, graph.Step{Kernel: step})
		}
		return t
	}
	w := Work{
		Items: sched.Items{Extent: int64(p.Replicas), Bytes: func(lo, hi int64) (in, out int64) {
			return (hi - lo) * 24 * int64(p.Residues), (hi - lo) * 24 * int64(p.Residues)
		}},
		Whole: task(int64(p.Replicas)),
		// A task launches once a step however few replicas it has: more tasks than devices
		// would only launch more often.
		Grain: max(int64(p.Replicas)/8, 1),
		Graph: func(ranges []sched.Range) (*graph.Graph, error) {
			b := new(graph.Builder)
			temperatures := b.Data(graph.Data{Name: "temperatures", Bytes: 8 * int64(p.Replicas), Input: true})
			var states, energies []graph.DataID
			for i, r := range ranges {
				// Coordinates come from the host and go back; the rest is made there.
				states = append(states, b.Data(graph.Data{Name: fmt.Sprint("beads ", i), Bytes: 24 * int64(p.Residues) * r.Len(), Input: true, Output: true}))
				energies = append(energies, b.Data(graph.Data{Name: fmt.Sprint("energies ", i), Bytes: 8 * r.Len()}))
			}
			for range rounds {
				all := []graph.Use{{Data: temperatures, Access: graph.ReadWrite}}
				for i, r := range ranges {
					t := task(r.Len())
					t.Workspace = (each - 24*int64(p.Residues)) * r.Len()
					t.Uses = []graph.Use{{Data: states[i], Access: graph.ReadWrite}, {Data: temperatures, Access: graph.Read}, {Data: energies[i], Access: graph.Write}}
					b.Add(t)
					all = append(all, graph.Use{Data: energies[i], Access: graph.Read})
				}
				b.Add(graph.Task{Steps: []graph.Step{{Kernel: exchange}}, Uses: all, Work: graph.Work{Bytes: 16 * float64(p.Replicas)}})
			}
			return b.Build()
		},
	}
	g, err := w.Graph([]sched.Range{{Lo: 0, Hi: int64(p.Replicas)}})
	if err != nil {
		return Need{}, Work{}, err
	}
	need := NeedOf("dynamics of "+p.Name, g, float64(p.Steps)/float64(swap)/rounds)
	need.Runs = 1 // replicas stay on their devices from exchange to exchange
	need.Parts = p.Replicas
	need.State = int64(p.Replicas) * 48 * int64(p.Residues) // positions and velocities
	need.LeastBytes = each                                  // a device can take one replica at a time
	return need, w, nil
}

// ProteinPlan is what a protein takes on a machine.
type ProteinPlan struct {
	Protein
	Landscape, Dynamics Estimate
	Bytes               int64 // of all replicas
	// Layout is nil if they fit on no device.
	Layout   *Layout
	Accuracy Accuracy
	Fits     bool
	Why      string // why it does not fit
}

// Accuracy is how near to the native structure the best replica is expected to come.
type Accuracy struct {
	Known bool
	// RMSD is the distance from the native structure in Å that a replica reaches with a
	// Chance, and Best the chance that one of all replicas does.
	RMSD, Chance, Best float64
	Why                string
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
