package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/bench"
	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/text"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
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
	try       bool
	trials    []plan.Point // that were made
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
  weft plan zk --constraints 1000000 --here none --recordings h200.json
  weft plan gemm --here rtx4060 --assume uplink=1GB/s --explain`,
		Args: terminal.OneOf("workload", "done"),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, w := range workloads.All() {
		c.AddCommand(newPlanOf(w))
	}
	c.AddCommand(newPlanFold(), newPlanDone())
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
	order := workloads.Flags(c.Flags(), w)
	p.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		request, known, err := p.request()
		if err != nil {
			return err
		}
		job, runs, err := workloads.Outline(c.Context(), order)
		if err != nil {
			return err
		}
		if _, ok := job.(workload.Stateful); ok {
			mend := ""
			if c.Flags().Changed("strategy") {
				mend = "; leave --strategy out"
			}
			return terminal.Usagef("%s keeps state on devices, on which its graph depends: it cannot be planned%s", job.Name(), mend)
		}
		return p.run(c, &toPlan{
			name: w.Name, title: job.Name(), work: bench.WorkOf(job), runs: 1, parts: p.runs,
			try: func(ctx context.Context, rt *weft.Runtime) ([]plan.Point, error) {
				return bench.Try(ctx, rt, w.Name, func(ctx context.Context, part float64) (workload.Job, error) {
					switch {
					case part >= 1 && runs:
						return job, nil
					case part >= 1:
						return workloads.Job(ctx, order)
					}
					return workloads.Part(ctx, w, c.Flags(), part)
				})
			},
		}, request, known)
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
	f.StringArrayVar(&p.recorded, "recordings", nil, "predict from a `file` that weft bench predict --record wrote; may be repeated")
	f.BoolVar(&p.try, "try", true, "run it or smaller ones like it here for seconds, if no recording has it")
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

// toPlan is a job to plan: its work, and the facts that its graph does not tell.
type toPlan struct {
	name   string // of the workload
	title  string // of the job
	work   plan.Work
	runs   float64 // runs of the work's graph, one after the other, in each of the parts
	serial float64 // steps that follow one another in a run of the graph
	chains float64 // of such steps, side by side
	parts  int     // parts of the job that are independent of one another
	state  int64   // bytes of a checkpoint, if the graph does not tell them
	host   int64   // host memory, if it is more than the graph says
	// try measures the job, or smaller ones like it, on the devices of a runtime.
	try func(ctx context.Context, rt *weft.Runtime) ([]plan.Point, error)
	// more adds what only this workload knows to the plan; nil adds nothing.
	more func(d *plan.Decision, on *machine.Machine, recordings []*plan.Recording) (any, func(b *bytes.Buffer), error)
}

// need returns what the job asks of a machine, from its graph as cut for that machine.
func (t *toPlan) need(on *machine.Machine) (plan.Need, error) {
	g, err := plan.GraphFor(t.work, on)
	if err != nil { // no device there has code for it; the plan says so
		work, err := t.work.For(on)
		if err != nil {
			return plan.Need{}, err
		}
		if g, err = work.Graph([]sched.Range{{Lo: 0, Hi: work.Items.Extent}}); err != nil {
			return plan.Need{}, err
		}
	}
	times := t.runs * float64(t.parts)
	n := plan.NeedOf(t.title, g, times)
	n.Workload, n.Parts, n.Serial, n.Chains = t.name, t.parts, t.serial*times, t.chains
	n.State, n.HostBytes = cmp.Or(t.state, n.State), max(n.HostBytes, t.host)
	return n, nil
}

// run plans a job and prints the plan.
func (p *planning) run(c *cobra.Command, t *toPlan, r plan.Request, known *plan.Catalogue) error {
	var out *terminal.Output
	if p.svg != "" {
		file, err := terminal.OpenOutput(c, p.svg)
		if err != nil {
			return err
		}
		out = file
		defer out.Close()
		others := append(slices.Concat(p.offers, p.recorded), cmp.Or(p.records, "-")) // a dash is no file
		if err := terminal.Distinct([]*terminal.Output{out}, others...); err != nil {
			return err
		}
	}
	if p.records != "" {
		if err := terminal.Writable(c, p.records); err != nil {
			return err
		}
	}
	on, rt, err := p.machine(c)
	if err != nil {
		return err
	}
	if rt != nil {
		defer rt.Close()
	}
	rented, _ := plan.MachineOf(known.GPUs[0], 1)
	if r.Need, err = t.need(cmp.Or(on, rented)); err != nil {
		return err
	}
	if on != nil && r.Rent { // a graph as cut for cores may have other outputs, as sums that are yet to be added
		there, err := t.need(rented)
		if err != nil {
			return err
		}
		r.Need.Upload, r.Need.Download = there.Upload, there.Download
	}
	recordings, err := bench.LoadRecordings(p.recorded)
	if err != nil {
		return err
	}
	d, err := p.decide(c, t, r, known, recordings, on, rt)
	if err != nil {
		return err
	}
	if out != nil {
		if err := out.Replace(func(w io.Writer) error { _, err := w.Write(d.SVG()); return err }); err != nil {
			return err
		}
	}
	var all any = d
	var write func(b *bytes.Buffer)
	if t.more != nil {
		if all, write, err = t.more(d, on, recordings); err != nil {
			return err
		}
	}
	return terminal.Print(c, p.asJSON, all, func(b *bytes.Buffer) error {
		writePlan(b, d, p.explain, write)
		return nil
	})
}

// decide makes a plan and keeps it. One that was kept for an equal request is the answer to
// this one too.
func (p *planning) decide(c *cobra.Command, t *toPlan, r plan.Request, known *plan.Catalogue, recordings []*plan.Recording, on *machine.Machine, rt *weft.Runtime) (*plan.Decision, error) {
	records, err := loadRecords(p.records)
	if err != nil {
		return nil, err
	}
	model := plan.Learn(recordings, map[string]plan.Work{t.title: t.work})
	here := func(by *plan.Refined) []plan.Here {
		if on == nil {
			return nil
		}
		h := plan.HereOf(on, model.OnMachine(r.Need, on), known, r.Assume)
		*h.Estimate = by.Correct(h.GPU.Name, *h.Estimate)
		return []plan.Here{h}
	}
	by := plan.Refine(model, records)
	r.Here = here(by)
	key := ""
	if p.records != "" {
		if key, err = r.Key(known, recordings, plan.Outcomes(records)); err != nil {
			return nil, err
		}
		if d := plan.Decided(records, key); d != nil {
			return d, nil
		}
	}
	if p.try && rt != nil && r.Here[0].Estimate.Fits && !r.Here[0].Estimate.Measured {
		if p.trials, err = t.try(c.Context(), rt); err != nil {
			return nil, err
		}
		model = model.Tried(on, p.trials)
		by = plan.Refine(model, records)
		r.Here = here(by)
	}
	d, err := plan.Decide(r, known, by)
	if err != nil || p.records == "" {
		return d, err
	}
	d.Key = key
	return d, saveRecords(p.records, append(records, plan.Record{Decision: *d, Corrected: by.Factor(d.Best.GPU.Name)}))
}

// machine returns the machine that is here, nil for none, and its runtime if it is this one.
func (p *planning) machine(c *cobra.Command) (*machine.Machine, *weft.Runtime, error) {
	switch p.here {
	case "none":
		return nil, nil, nil
	case "":
		var s settings
		o, err := s.options()
		if err != nil {
			return nil, nil, err
		}
		rt, err := open(c.Context(), o, c.ErrOrStderr())
		if err != nil {
			return nil, nil, err
		}
		return rt.Machine(), rt, nil
	}
	m, err := loadMachine(p.here)
	return m, nil, err
}
