package main

import (
	"bytes"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/bench"
	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/host"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/fold"
)

// foldPlanning is a call of weft plan fold.
type foldPlanning struct {
	planning
	config      fold.Config
	temperature string
	residues    int
	classes     bool
	structures  string
}

func newPlanFold() *cobra.Command {
	p := new(foldPlanning)
	c := &cobra.Command{
		Use:   "fold",
		Short: "Fold replicas of a protein chain",
		Long: `Say what folding replicas of a protein chain would take and cost, as weft run
fold does it, and how near to the native structure they are expected to come
where that is known. What it needs is read from the graphs of that workload. It
plans more than weft run fold computes by default: 64 replicas of 1000000 steps
at temperatures 0.6 to 1.1, unless flags say otherwise.

--residues is a helix of any length that stands in for a structure: it has fewer
contacts than real ones, which is a tenth of the work. --classes plans a chain
of each size class on the described machines rtx4060 and 8xh100, or the one that
--here names, and prints a table of each.`,
		Example: `  weft plan fold --structure BPTI --replicas 64 --deadline 2h
  weft plan fold --residues 951 --here rtx4060 --local
  weft plan fold --classes --structures pdb`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return p.plan(c) },
	}
	f := c.Flags()
	f.StringVar(&p.config.Structure, "structure", "", "structure: 1CRN, 1UBI, BPTI, or a file in PDB or mmCIF format (1CRN)")
	f.StringVar(&p.config.Select.Chain, "chain", "", "chain to fold (the first); several with commas, or all")
	f.IntVar(&p.config.Select.Model, "model", 0, "model of the file to take (the first)")
	f.IntVar(&p.residues, "residues", 0, "residues of a helix that stands in for a structure")
	f.IntVar(&p.config.Steps, "steps", 1_000_000, "time steps of each replica")
	f.IntVar(&p.config.Every, "frame", 1000, "steps between frames, after which replicas exchange temperatures")
	f.IntVar(&p.config.Replicas, "replicas", 64, "trajectories; eight are computed at once")
	f.StringVar(&p.temperature, "temperature", "0.6-1.1", "`temperature`, or lowest and highest")
	f.BoolVar(&p.classes, "classes", false, "plan a chain of each size class and print a table")
	f.StringVar(&p.structures, "structures", "", "with --classes, a `folder` of structures that workload/protein/fetch.sh made")
	p.flags(c)
	terminal.Complete(c, "structure", protein.Shipped)
	return c
}

// settle makes a configuration of the flags.
func (p *foldPlanning) settle() error {
	var ok bool
	if p.config.Low, p.config.High, ok = catalog.Ladder(p.temperature); !ok {
		return terminal.Usagef("--temperature %s: give a number above 0, or two as in 0.6-1.1", p.temperature)
	}
	if p.config.Replicas == 1 {
		p.config.High = p.config.Low
	}
	if p.config.Steps == 0 || p.config.Every == 0 || p.config.Replicas == 0 {
		return terminal.Usagef("--steps %d, --frame %d, --replicas %d: give 1 or more", p.config.Steps, p.config.Every, p.config.Replicas)
	}
	p.config.Every = min(p.config.Every, max(p.config.Steps, 1))
	if p.residues != 0 && (p.config.Structure != "" || p.config.Select != protein.Select{}) {
		return terminal.Usagef("--residues %d is a helix: leave --structure, --chain and --model out", p.residues)
	}
	if p.residues < 0 || p.residues > 0 && p.residues < fewestResidues {
		return terminal.Usagef("--residues %d: there must be %d or more", p.residues, fewestResidues)
	}
	if p.structures != "" && !p.classes {
		return terminal.Usagef("--structures %s goes with --classes", p.structures)
	}
	if err := p.config.Validate(); err != nil {
		return terminal.Usage(err)
	}
	return nil
}

// fewestResidues is the length of the shortest helix that has a native contact.
const fewestResidues = 5

func (p *foldPlanning) plan(c *cobra.Command) error {
	request, known, err := p.request()
	if err != nil {
		return err
	}
	if err := p.settle(); err != nil {
		return err
	}
	if p.classes {
		return p.planClasses(c)
	}
	s := protein.Helix(p.residues)
	if p.residues == 0 {
		if s, err = protein.Open(p.structure(), p.config.Select); err != nil {
			return terminal.Usage(err)
		}
	}
	r, of, err := p.protein(s)
	if err != nil {
		return err
	}
	job := of.Jobs[0]
	return p.run(c, &toPlan{
		name: "fold", title: r.Name(), work: job.Work, runs: job.Need.Runs, serial: job.Need.Serial / job.Need.Runs, chains: job.Need.Chains, parts: p.runs,
		state: r.State(), host: int64(p.config.Bytes(s.Len())),
		try: func(ctx context.Context, rt *weft.Runtime) ([]plan.Point, error) { return p.rounds(ctx, rt, s) },
		more: func(d *plan.Decision, on *machine.Machine, recordings []*plan.Recording) (any, func(b *bytes.Buffer), error) {
			if on == nil || d.Best.Kind != plan.Local {
				on, _ = plan.MachineOf(d.Best.GPU, d.Best.GPUs)
			}
			x, err := plan.PlanProtein(of, on, recordings, p.trials...)
			if err != nil {
				return nil, nil, err
			}
			all := struct {
				*plan.Decision
				Protein *plan.ProteinPlan `json:"protein"`
			}{d, x}
			return all, func(b *bytes.Buffer) { writeProtein(b, x, on) }, nil
		},
	}, request, known)
}

func (p *foldPlanning) structure() string {
	if p.config.Structure == "" {
		return "1CRN"
	}
	return p.config.Structure
}

// protein returns the folding run of a structure, and its jobs to plan: folding and energy landscape.
func (p *foldPlanning) protein(s *protein.Structure) (*fold.Run, plan.Protein, error) {
	of := plan.Protein{Name: s.Name, Residues: s.Len(), Replicas: p.config.Replicas, Steps: p.config.Steps}
	if err := host.Enough("plan fold", int64(p.config.Bytes(s.Len()))); err != nil {
		return nil, of, err
	}
	r, err := fold.NewOf(p.config, s)
	if err != nil {
		return nil, of, terminal.Usage(err)
	}
	dynamics, err := roundOf(r, p.config.Every)
	if err != nil {
		return nil, of, err
	}
	of.Jobs = append(of.Jobs, dynamics)
	if s.Len() <= landscape.MaxResidues {
		l, err := landscape.New(landscape.Config{Residues: s.Len()}) // its cost depends on the length alone
		if err != nil {
			return nil, of, err
		}
		work := bench.WorkOf(l)
		t := &toPlan{name: "landscape", title: l.Name(), work: work, runs: 1, parts: 1}
		one, _ := machine.Named(planMachines[0])
		need, err := t.need(one)
		if err != nil {
			return nil, of, err
		}
		of.Jobs = append(of.Jobs, plan.ProteinJob{Need: need, Work: work})
	}
	return r, of, nil
}

// roundOf is all rounds of a folding as a job.
func roundOf(r *fold.Run, every int) (plan.ProteinJob, error) {
	round, times := r.Round()
	work := plan.Work{Items: round.Items, Whole: round.Whole, Graph: round.Graph}
	t := &toPlan{name: "fold", title: r.Name(), work: work, runs: times, serial: float64(every), chains: float64(r.Replicas()), parts: 1, state: r.State()}
	one, _ := machine.Named(planMachines[0])
	need, err := t.need(one)
	return plan.ProteinJob{Need: need, Work: work}, err
}

// rounds folds a few rounds on the devices of a runtime, with more steps each time until a round takes
// long enough, and returns the times.
func (p *foldPlanning) rounds(ctx context.Context, rt *weft.Runtime, s *protein.Structure) (out []plan.Point, err error) {
	const most, enough, count = 4 * time.Second, 100 * time.Millisecond, 4
	began := time.Now()
	for every := 4; ; every = min(4*every, p.config.Every) {
		every = min(every, p.config.Every)
		c := p.config
		c.Every, c.Steps = every, (count+1)*every // the last round is cut in two
		r, err := fold.NewOf(c, s)
		if err != nil {
			return nil, err
		}
		var seconds []float64
		at := time.Now()
		err = r.Do(ctx, rt, func(round int) {
			now := time.Now()
			if round > 0 && round < count {
				seconds = append(seconds, now.Sub(at).Seconds())
			}
			at = now
		})
		if err != nil {
			return nil, err
		}
		job, err := roundOf(r, every)
		if err != nil {
			return nil, err
		}
		n := job.Need
		n.Flops, n.Bytes, n.Launches = n.Flops/n.Runs, n.Bytes/n.Runs, n.Launches/n.Runs
		out = append(out, plan.PointOf(n, every, 1, seconds))
		took := time.Duration(out[len(out)-1].Median() * 1e9)
		if every == p.config.Every || took > enough || time.Since(began)+20*took > most {
			return out, nil
		}
	}
}
