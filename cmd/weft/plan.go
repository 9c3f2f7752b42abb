package main

import (
	"bytes"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/internal/bench"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/plan"
	"github.com/weft-run/weft/workload"
)

// planning is a call of weft plan.
type planning struct {
	deadline  string
	budget    float64
	objective string
	offers    []string
	assume    []string
	here      string
	date      string
	runs      int
	local     bool
	asJSON    bool
	explain   bool
	svg       string
	records   string
	recorded  []string
}

func newPlan() *cobra.Command {
	c := &cobra.Command{
		Use:   "plan WORKLOAD",
		Short: "Say what a job would take and cost: here, rented, or both",
		Long: `Say what a workload would take and what it would cost: on this machine, on a
rented one, or on both together. The plan is the cheapest one within the
deadline, or the fastest within the budget if only that is given. It names the
reasons why the next best lost, and everything it assumes.

Prices come from a catalogue with dates and from files of your own (--offers);
nothing is asked of the network. Start-up, upload, download and egress are in
the price, a spot machine's interruptions and checkpoints in its time, and what
runs here costs energy.

The exit status is 3 if nothing fits. The error then says which limit binds and
what would be possible instead.`,
		Example: `  weft plan gemm --n 8192 --runs 20000 --deadline 2h
  weft plan fusion --runs 1000 --budget 50 --svg front.svg
  weft plan gemm --here rtx4060 --assume uplink=1GB/s --explain`,
		Args: terminal.OneOf("workload", "done"),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, w := range catalog.All() {
		c.AddCommand(newPlanOf(w))
	}
	c.AddCommand(newPlanDone())
	return c
}

// newPlanOf makes the command that plans a workload.
func newPlanOf(w catalog.Entry) *cobra.Command {
	p := new(planning)
	c := &cobra.Command{
		Use:               w.Name,
		Short:             strings.ToUpper(w.Short[:1]) + w.Short[1:],
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	order := w.Flags(c.Flags())
	p.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		request, known, err := p.request()
		if err != nil {
			return err
		}
		job, err := order.Job(c.Context())
		if err != nil {
			return err
		}
		if s, ok := job.(workload.Stateful); ok {
			defer s.Release()
		}
		return p.run(c, w.Name, job, request, known)
	}
	return c
}

func (p *planning) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.deadline, "deadline", "", "`time` from now until the result is here, as 2h or 30m")
	f.Float64Var(&p.budget, "budget", 0, "most US `dollars` to spend; 0 is no limit")
	f.StringVar(&p.objective, "objective", "", "cheapest or fastest (by default cheapest, or fastest if only a budget is given)")
	f.IntVar(&p.runs, "runs", 1, "how often the job is to be run; runs are independent of one another")
	f.StringVar(&p.here, "here", "", "plan for a `machine` by name or file in place of this one; none is none")
	f.BoolVar(&p.local, "local", false, "rent nothing")
	f.StringArrayVar(&p.offers, "offers", nil, "add a `file` of instances or GPUs to the catalogue (CSV, see docs/PLAN.md)")
	f.StringArrayVar(&p.assume, "assume", nil, "set an assumption, as energy=0.30 or uplink=1GB/s")
	f.StringVar(&p.date, "date", "", "the `day` of the plan, by which prices are stale (default today)")
	f.StringVar(&p.svg, "svg", "", "draw time and cost of the best options to a `file`; - is standard output")
	f.StringVar(&p.records, "plans", "", "keep the plan in a `file`, and correct it by what happened to those there")
	f.StringArrayVar(&p.recorded, "recordings", nil, "predict from a `file` that weft bench predict --record wrote")
	f.BoolVar(&p.explain, "explain", false, "say what every figure of the plan is made of")
	f.BoolVar(&p.asJSON, "json", false, "write the plan as JSON")
	terminal.Complete(c, "objective", func() []string { return []string{string(plan.Cheapest), string(plan.Fastest)} })
	terminal.Complete(c, "here", func() []string { return append(machine.Names(), "none") })
}

// request makes a request of the flags, still without a job, and the catalogue.
func (p *planning) request() (r plan.Request, known *plan.Catalogue, err error) {
	r = plan.Request{Objective: plan.Objective(p.objective), Budget: p.budget, Rent: !p.local, Assume: plan.DefaultAssumptions(), At: time.Now().UTC()}
	if p.deadline != "" {
		if r.Deadline, err = text.ParseDuration(p.deadline); err != nil {
			return r, nil, terminal.Usagef("--deadline %s: %w", p.deadline, err)
		}
		if r.Deadline == 0 {
			return r, nil, terminal.Usagef("--deadline %s: it must be later than now, as 2h", p.deadline)
		}
	}
	if !(p.budget >= 0) || math.IsInf(p.budget, 1) { // written so that NaN fails
		return r, nil, terminal.Usagef("--budget %v: expected US dollars that are not negative, as 50", p.budget)
	}
	if p.runs < 1 {
		return r, nil, terminal.Usagef("--runs %d: run at least once", p.runs)
	}
	if p.objective != "" {
		if err := terminal.MustName("objective", p.objective, []string{string(plan.Cheapest), string(plan.Fastest)}); err != nil {
			return r, nil, err
		}
	}
	if p.date != "" {
		if r.At, err = time.Parse(time.DateOnly, p.date); err != nil {
			return r, nil, terminal.Usagef("--date %s: expected a day, as 2026-08-22", p.date)
		}
	}
	for _, a := range p.assume {
		name, value, ok := strings.Cut(a, "=")
		if !ok {
			return r, nil, terminal.Usagef("--assume %s: expected a name and a value, as energy=0.30; there are %s", a, strings.Join(plan.AssumptionNames(), ", "))
		}
		if err := r.Assume.Set(name, value); err != nil {
			return r, nil, terminal.Usage(err)
		}
	}
	known = plan.Shipped()
	for _, file := range p.offers {
		src, err := readFile(file, "file of offers", nil)
		if err != nil {
			return r, nil, err
		}
		if err := known.Add(src); err != nil {
			return r, nil, located(file, err)
		}
	}
	return r, known, nil
}

// run plans a job and prints the plan.
func (p *planning) run(c *cobra.Command, name string, job workload.Job, r plan.Request, known *plan.Catalogue) error {
	var out *terminal.Output
	if p.svg != "" {
		file, err := terminal.OpenOutput(c, p.svg)
		if err != nil {
			return err
		}
		out = file
		defer out.Close()
	}
	on, err := p.machine(c)
	if err != nil {
		return err
	}
	work := plan.Work{Items: job.Items(), Whole: job.Whole(), Graph: job.Graph}
	if g, ok := job.(workload.Grained); ok {
		work.Grain = g.Grain()
	}
	_, work.Streamed = job.(workload.Streamed)
	one, _ := plan.MachineOf(known.GPUs[0], 1)
	if on != nil {
		one = on
	}
	g, err := plan.GraphFor(work, one)
	if err != nil {
		return err
	}
	r.Need = plan.NeedOf(job.Name(), g, float64(p.runs))
	r.Need.Workload, r.Need.Parts = name, p.runs
	records, err := loadRecords(p.records)
	if err != nil {
		return err
	}
	recordings, err := bench.LoadRecordings(p.recorded)
	if err != nil {
		return err
	}
	model := plan.Learn(recordings, map[string]plan.Work{job.Name(): work})
	refined := plan.Refine(model, records)
	if on != nil {
		h := plan.HereOf(on, model.OnMachine(r.Need, on), known, r.Assume)
		*h.Estimate = refined.Correct(h.GPU.Name, *h.Estimate)
		r.Here = []plan.Here{h}
	}
	d, err := p.decide(r, known, refined, records, recordings)
	if err != nil {
		return err
	}
	if out != nil {
		if err := out.Replace(func(w io.Writer) error { _, err := w.Write(d.SVG()); return err }); err != nil {
			return err
		}
	}
	return terminal.Print(c, p.asJSON, d, func(b *bytes.Buffer) error {
		writePlan(b, d, p.explain)
		return nil
	})
}

// decide makes a plan and keeps it. One that was kept for an equal request is the answer to
// this one too.
func (p *planning) decide(r plan.Request, known *plan.Catalogue, by *plan.Refined, records []plan.Record, recordings []*plan.Recording) (*plan.Decision, error) {
	if p.records == "" {
		return plan.Decide(r, known, by)
	}
	key, err := r.Key(known, recordings, plan.Outcomes(records))
	if err != nil {
		return nil, err
	}
	if d := plan.Decided(records, key); d != nil {
		return d, nil
	}
	d, err := plan.Decide(r, known, by)
	if err != nil {
		return nil, err
	}
	d.Key = key
	return d, saveRecords(p.records, append(records, plan.Record{Decision: *d, Corrected: by.Factor(d.Best.GPU.Name)}))
}

// machine returns the machine that is here, nil for none.
func (p *planning) machine(c *cobra.Command) (*machine.Machine, error) {
	switch p.here {
	case "none":
		return nil, nil
	case "":
		var s settings
		o, err := s.options()
		if err != nil {
			return nil, err
		}
		rt, err := open(c.Context(), o, c.ErrOrStderr())
		if err != nil {
			return nil, err
		}
		defer rt.Close()
		return rt.Machine(), nil
	}
	return loadMachine(p.here)
}
