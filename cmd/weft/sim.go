package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

const (
	// checkedTasks is the most tasks for which the oracle follows the content of every
	// buffer. Larger simulations only tell times.
	checkedTasks = 200_000
	// whatIfTasks is the most tasks for which changes of the machine are simulated, which
	// takes four simulations more. With more tasks they are estimated from the trace.
	whatIfTasks = 50_000
	// minEvents and maxEvents bound the number of events recorded, 25 to 400 MB.
	minEvents, maxEvents = 1 << 18, 1 << 22
)

// simOptions are the flags of weft sim.
type simOptions struct {
	policy  string
	faults  string
	trace   string
	explain string
	seed    uint64
	noise   float64
	width   int
	json    bool
	list    bool
}

func newSim() *cobra.Command {
	var o simOptions
	c := &cobra.Command{
		Use:   "sim MACHINE SCENARIO|GRAPH",
		Short: "Simulate work on a described machine",
		Long: `Simulate work on a described machine and say where the time went.

MACHINE is the name of a shipped machine or a machine file. The work is the name
of a scenario, a scenario file or a graph in JSON. weft sim --list shows all
names. All times are virtual: the engine is the one that runs live, the devices
are a model of the machine.

A line of a scenario generates a graph, as "at 5ms dag n=512 width=32 skew=20",
or is a fault, as "at 2ms lose cuda:1". Generators are
` + strings.Join(sim.Generators(), ", ") + `.`,
		Example: `  weft sim mixed skewed
  weft sim 8xh100 stencil --policy roundrobin
  weft sim mixed uniform --faults faults.txt --trace out.json`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case o.list && len(args) > 0:
				return fmt.Errorf("sim --list takes no arguments; %q is too much", args[0])
			case o.list || len(args) == 2:
				return nil
			case len(args) > 2:
				return fmt.Errorf("sim takes a machine and work; %q is too much", args[2])
			}
			return errors.New("sim needs a machine and work: weft sim mixed skewed; --list shows the names")
		},
		ValidArgsFunction: completeInputs,
		RunE: func(c *cobra.Command, args []string) error {
			if o.list {
				l := newNames()
				return terminal.Print(c, o.json, l, l.text)
			}
			return o.run(c, args[0], args[1])
		},
	}
	f := c.Flags()
	f.StringVar(&o.policy, "policy", sched.Default, "how tasks are placed (see --list)")
	f.StringVar(&o.faults, "faults", "", "`file` of what goes wrong, as \"at 2ms lose cuda:1\"")
	f.StringVar(&o.trace, "trace", "", "write a trace for ui.perfetto.dev to a `file`; - is standard output")
	f.StringVar(&o.explain, "explain", "", "say why a `task` (name or number), or all, went where it went")
	f.Uint64Var(&o.seed, "seed", 0, "seed of noise and of policies that explore")
	f.Float64Var(&o.noise, "noise", 0, "vary durations by up to this fraction, 0 to 0.9")
	f.IntVar(&o.width, "width", terminal.Width, "columns of the timeline")
	f.BoolVar(&o.json, "json", false, "print JSON instead of text")
	f.BoolVar(&o.list, "list", false, "list machines, scenarios and policies")
	terminal.Complete(c, "policy", sched.Names)
	return c
}

// check finds mistakes in the flags before anything is read.
func (o *simOptions) check() error {
	if _, err := sched.New(o.policy); err != nil {
		return terminal.Usage(err)
	}
	if !(o.noise >= 0 && o.noise <= 0.9) { // written so that NaN fails
		return terminal.Usagef("--noise %v: it must be from 0 to 0.9", o.noise)
	}
	return terminal.CheckWidth(o.width)
}

func (o *simOptions) run(c *cobra.Command, machineArg, workArg string) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	var s *simulation
	var out *terminal.Output
	if o.trace != "" {
		if out, err = terminal.OpenOutput(c, o.trace); err != nil {
			return err
		}
		defer out.Close()
	}
	err = terminal.Abandonable(c.Context(), func() (err error) {
		if s, err = o.load(machineArg, workArg); err != nil {
			return err
		}
		return s.run()
	})
	if err != nil {
		return err
	}
	if out != nil {
		if err := s.saveTrace(c.Context(), out); err != nil {
			return err
		}
	}
	err = terminal.Print(c, o.json, s.json(), func(b *bytes.Buffer) error {
		if err := s.writeText(b, o.width); err != nil {
			return err
		}
		if o.trace != "" && o.trace != "-" {
			fmt.Fprintf(b, "\ntrace in %s: open it in ui.perfetto.dev, or: weft trace %s\n", o.trace, o.trace)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.failure()
}

// load reads machine, work and faults.
func (o *simOptions) load(machineArg, workArg string) (*simulation, error) {
	m, err := loadMachine(machineArg)
	if err != nil {
		return nil, err
	}
	w, err := loadWork(workArg, m)
	if err != nil {
		return nil, err
	}
	if o.faults != "" {
		more, err := loadFaults(o.faults, m)
		if err != nil {
			return nil, err
		}
		w.faults = append(w.faults, more...)
	}
	s := &simulation{machine: m, work: w, policy: o.policy, seed: o.seed, noise: o.noise}
	if o.explain != "" {
		if s.explain, err = explained(w, o.explain); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// explained returns a function that reports whether the user asked about a task, by the
// name that explanations give it.
func explained(w *work, arg string) (func(task string) bool, error) {
	if arg == "all" {
		return func(string) bool { return true }, nil
	}
	number, err := strconv.Atoi(arg)
	if err != nil {
		number = -1
	}
	wanted := make(map[string]bool)
	for i := range w.jobs {
		g := w.jobs[i].Graph
		for t := range g.NumTasks() {
			if name := g.TaskName(graph.TaskID(t)); t == number || name == arg {
				wanted[name] = true
			}
		}
	}
	if len(wanted) == 0 {
		return nil, terminal.Usagef("--explain %s: no such task; give a name, a number from 0, or all", arg)
	}
	return func(task string) bool { return wanted[task] }, nil
}

// nameJSON is a name sim takes, in the JSON of --list.
type nameJSON struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// names is every name sim takes: machines, scenarios, policies.
type names map[string][]nameJSON

func newNames() names {
	l := names{}
	for _, name := range machine.Names() {
		m, _ := machine.Named(name)
		l["machines"] = append(l["machines"], nameJSON{name, terminal.Models(m)})
	}
	for _, s := range sim.Scenarios() {
		l["scenarios"] = append(l["scenarios"], nameJSON{s.Name, s.About})
	}
	for _, name := range sched.Names() {
		l["policies"] = append(l["policies"], nameJSON{name, sched.About(name)})
	}
	return l
}

func (l names) text(b *bytes.Buffer) error {
	for i, kind := range []string{"machines", "scenarios", "policies"} {
		if i > 0 {
			fmt.Fprintln(b)
		}
		fmt.Fprintln(b, kind)
		for _, n := range l[kind] {
			if kind == "policies" && n.Name == sched.Default {
				n.About += " (the default)"
			}
			head := fmt.Sprintf("  %-17s ", n.Name)
			indent := "\n" + strings.Repeat(" ", len(head)-2) // Wrap adds two
			fmt.Fprintln(b, head+strings.ReplaceAll(terminal.Wrap(n.About, terminal.Width-len(head)), "\n", indent))
		}
	}
	return nil
}
