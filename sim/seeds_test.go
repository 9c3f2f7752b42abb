package sim

import (
	"errors"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run TestSeeds with this seed only")
	seedsFlag = flag.Int("seeds", 250, "how many seeds TestSeeds runs")
)

// trial is a simulation and the errors its runs may, and must, end with.
type trial struct {
	Config
	kind string
	// poison, when set, names tasks that never succeed: exactly the runs that
	// have one must fail.
	poison string
	// volatile data may be lost for good.
	volatile bool
}

// newTrial draws a trial of a kind that depends on seed.
func newTrial(r *rand.Rand, seed uint64) trial {
	tr := trial{Config: randomConfig(r, seed), kind: "plain"}
	switch seed % 8 {
	case 1, 3:
		tr.kind = "tight"
		tighten(r, &tr.Config)
	case 5:
		tr.kind = "poisoned"
		tr.poison = fmt.Sprint("t", r.IntN(12))
		tr.Engine.Retries = 1 + r.IntN(3)
		// Nothing else may use up retries.
		tr.Faults = slices.DeleteFunc(tr.Faults, func(f Fault) bool {
			return slices.Contains([]FaultKind{FailNext, FailTask, Hang, Break, Mend}, f.Kind)
		})
		tr.Faults = append(tr.Faults, Fault{Kind: FailTask, Task: tr.poison, Times: 1_000_000})
	case 7:
		tr.kind = "cancelled"
		tr.Faults = append(tr.Faults, Fault{Kind: Cancel, Times: 1 + r.IntN(len(tr.Jobs)), At: time.Duration(r.IntN(5e6))})
	}
	tr.Faults.sort()
	for _, j := range tr.Jobs {
		for d := range j.Graph.NumData() {
			tr.volatile = tr.volatile || j.Graph.Data(graph.DataID(d)).Durability == graph.Volatile
		}
	}
	return tr
}

// randomConfig draws a machine, a policy, graphs, resident data and faults.
func randomConfig(r *rand.Rand, seed uint64) Config {
	m := RandomMachine(r)
	names := sched.Names()
	c := Config{
		Machine: m, Policy: names[r.IntN(len(names))], Seed: seed, Noise: r.Float64() * 0.3,
		// Whatever hangs is noticed, and no series of injected failures uses
		// up a task's retries or a device's credit.
		Engine:  engine.Options{TaskTimeout: 50 * time.Millisecond, Retries: 100, Depth: 1 << r.IntN(7), ReplayDepth: 1 + r.IntN(40)},
		MaxTime: time.Hour, MaxSteps: 1_000_000,
	}
	o := RandomOptions{Gangs: r.IntN(3) == 0, Constraints: r.IntN(2) == 0, Volatile: r.IntN(3) == 0}
	for i := range 1 + r.IntN(3) {
		c.Jobs = append(c.Jobs, Job{
			Name: fmt.Sprint("g", i), At: time.Duration(r.IntN(3)) * time.Millisecond, Graph: RandomGraph(r, o),
		})
	}
	// Tasks without any data have paths of their own.
	if r.IntN(4) == 0 {
		spec := Spec{Kind: "independent", N: 1 + r.IntN(40), Ops: 1e6, Gang: r.IntN(3)}
		g, err := spec.Graph()
		if err != nil {
			panic(err)
		}
		c.Jobs = append(c.Jobs, Job{Name: "bare", At: time.Duration(r.IntN(3)) * time.Millisecond, Graph: g})
	}
	// Some of the data outlives the runs and is shared by several.
	if r.IntN(3) == 0 {
		g := RandomGraph(r, o)
		var bind []Binding
		for d := range g.NumData() {
			if gd := g.Data(graph.DataID(d)); gd.Input && gd.Durability != graph.Volatile && r.IntN(2) == 0 {
				bind = append(bind, Binding{graph.DataID(d), len(c.Resident)})
				c.Resident = append(c.Resident, graph.Data{Name: gd.Name, Bytes: gd.Bytes, Durability: gd.Durability})
			}
		}
		for i := range 1 + r.IntN(3) {
			c.Jobs = append(c.Jobs, Job{Name: fmt.Sprint("r", i), At: time.Duration(r.IntN(3)) * time.Millisecond, Graph: g, Bind: bind})
		}
	}
	if r.IntN(4) > 0 {
		c.Faults = RandomFaults(r, m, 10*time.Millisecond)
	}
	return c
}

// tighten leaves little memory on every device and brings more data than fits,
// so that values are given up and fetched again all the time.
func tighten(r *rand.Rand, c *Config) {
	for i := range c.Machine.Devices {
		if d := &c.Machine.Devices[i]; d.MemBytes > 0 {
			d.MemBytes = 2 * randomNeed
		}
	}
	for i := range c.Faults {
		if c.Faults[i].Kind == Shrink {
			c.Faults[i].Bytes = 2*randomNeed - int64(r.IntN(randomNeed/2))
		}
	}
	c.Jobs, c.Resident = nil, nil
	for i := range 1 + r.IntN(2) {
		c.Jobs = append(c.Jobs, Job{
			Name: fmt.Sprint("g", i), Graph: RandomGraph(r, RandomOptions{Data: 10 + r.IntN(40), Tasks: 20 + r.IntN(100), Gangs: r.IntN(4) == 0, Constraints: true}),
		})
	}
}

// check runs a trial and says what is wrong with the outcome. The simulation
// itself compares what every task reads and every output holds with running the
// tasks one after the other, and minds memory, order and lanes. Here: whatever
// policy, devices and faults there are, every task ends exactly once or the run
// errs for a reason and names what did not, and a loss repeats no longer chain
// than was promised.
func (tr *trial) check() (res *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	c := tr.Config
	if tr.kind == "poisoned" || tr.kind == "cancelled" {
		c.Engine.Trace = trace.NewRecorder(1 << 14)
	}
	if res, err = Run(c); err != nil {
		return nil, err
	}
	jobs := inOrder(c.Jobs)
	for i := range res.Runs {
		if err := tr.checkRun(res, i, jobs[i].Graph); err != nil {
			return nil, fmt.Errorf("run %d %s: %w", res.Runs[i].Run, res.Runs[i].Name, err)
		}
	}
	return res, nil
}

func (tr *trial) checkRun(res *Result, i int, g *graph.Graph) error {
	r := &res.Runs[i]
	rep := r.Report
	if limit := 2*tr.Engine.ReplayDepth + tr.Engine.Depth; rep.LongestReplay > limit {
		return fmt.Errorf("a loss made %d tasks in a row run again, the limit is %d", rep.LongestReplay, limit)
	}
	if rep.Tasks != g.NumTasks() {
		return fmt.Errorf("the report counts %d tasks, the graph has %d", rep.Tasks, g.NumTasks())
	}
	cancelled := slices.ContainsFunc(tr.Faults, func(f Fault) bool { return f.Kind == Cancel && f.Times == i+1 })
	poisoned := false
	for t := range g.NumTasks() {
		poisoned = poisoned || tr.poison != "" && g.TaskName(graph.TaskID(t)) == tr.poison
	}
	if r.Err == nil {
		if poisoned {
			return fmt.Errorf("it ended well though %s never succeeds", tr.poison)
		}
		if rep.Executed-rep.Replays != rep.Tasks {
			return fmt.Errorf("%d executions, %d of them repeats, of %d tasks", rep.Executed, rep.Replays, rep.Tasks)
		}
		return nil
	}
	lost := tr.volatile && len(tr.Faults) > 0 && errors.Is(r.Err, engine.ErrDataLost)
	if !poisoned && !lost && !(cancelled && errors.Is(r.Err, engine.ErrCancelled)) {
		return r.Err
	}
	var e *engine.RunError
	if !errors.As(r.Err, &e) {
		return fmt.Errorf("the error does not say what is unfinished: %w", r.Err)
	}
	// A task whose result was lost is unfinished again.
	if done := rep.Tasks - len(e.Names); rep.Executed < done || rep.Replays == 0 && rep.Executed > done {
		return fmt.Errorf("%d executions, %d repeats, and %d of %d tasks unfinished: %w", rep.Executed, rep.Replays, len(e.Names), rep.Tasks, r.Err)
	}
	if res.Trace == nil {
		return nil
	}
	ran := make([]bool, g.NumTasks())
	for _, ev := range res.Trace {
		if ev.Kind == trace.Missing {
			return fmt.Errorf("the recorder is too small to tell what ran")
		}
		if ev.Kind == trace.Exec && ev.Run == int32(r.Run) && !ev.Failed {
			ran[ev.Task] = true
		}
	}
	for t, ok := range ran {
		if name := g.TaskName(graph.TaskID(t)); !ok && !slices.Contains(e.Names, name) {
			return fmt.Errorf("%s never ran and is not named: %w", name, r.Err)
		}
	}
	if poisoned && !slices.Contains(e.Names, tr.poison) {
		return fmt.Errorf("%s never succeeds and is not named: %w", tr.poison, r.Err)
	}
	return nil
}

// notable are seeds beyond those that are always run which once found something.
var notable = []uint64{
	653,   // a value given up while it was copied to host memory, and then computed again
	3300,  // an output that waited for a value to be made again beside its home, for ever
	3875,  // a value moved out of a memory from another one, where it was being made again
	14246, // a buffer of a lost memory, kept by a copy that hung, and used when the device was back
}

// TestSeeds runs random graphs on random machines under random policies while
// random things go wrong; see check for what must hold. A failing seed is
// printed with the command that runs it alone.
func TestSeeds(t *testing.T) {
	seeds := slices.Clone(notable)
	for seed := range uint64(*seedsFlag) {
		seeds = append(seeds, seed+1)
	}
	if *seedFlag != 0 {
		seeds = []uint64{*seedFlag}
	}
	var sum engine.Report
	failed, gangs, bad := 0, 0, 0
	for _, seed := range seeds {
		if bad == 10 {
			break
		}
		tr := newTrial(rand.New(rand.NewPCG(seed, 1)), seed)
		res, err := tr.check()
		if err != nil {
			bad++
			t.Errorf("seed %d (go test ./sim -run '^TestSeeds$' -seed %d), %s, policy %s:\n%v\nfaults:\n%s",
				seed, seed, tr.kind, tr.Policy, err, tr.Faults.Text(tr.Machine))
			continue
		}
		for _, r := range res.Runs {
			if r.Err != nil {
				failed++
			}
			sum.Retries += r.Report.Retries
			sum.Replays += r.Report.Replays
			sum.Evictions += r.Report.Evictions
			sum.Commits += r.Report.Commits
			sum.Copies += r.Report.Copies
		}
		for _, j := range tr.Jobs {
			for k := range j.Graph.NumTasks() {
				if j.Graph.Task(graph.TaskID(k)).Gang > 1 {
					gangs++
				}
			}
		}
	}
	if len(seeds) <= 200 {
		return
	}
	// The runs must go through what they are there to test.
	for what, n := range map[string]int{
		"retries": sum.Retries, "replays": sum.Replays, "evictions": sum.Evictions, "commits": sum.Commits,
		"copies": sum.Copies, "gangs": gangs, "failed runs": failed,
	} {
		if n < 20 {
			t.Errorf("only %d %s", n, what)
		}
	}
}

// drawn lets rapid choose every random number, so that it can shrink a failing
// trial to a small one. Reversed, small draws decide the leading bits, which
// are the ones that count; ones in the middle keep math/rand from rejecting 0.
type drawn struct{ t *rapid.T }

func (d drawn) Uint64() uint64 {
	return bits.Reverse64(rapid.Uint64().Draw(d.t, "")) | 0xffff<<32 | 0xffff
}

// TestSeedsShrink is TestSeeds by way of rapid: less ground covered, smaller
// failures.
func TestSeedsShrink(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := newTrial(rand.New(drawn{t}), rapid.Uint64Range(0, 7).Draw(t, "kind"))
		if _, err := tr.check(); err != nil {
			t.Fatalf("%s, policy %s:\n%v\nfaults:\n%s", tr.kind, tr.Policy, err, tr.Faults.Text(tr.Machine))
		}
	})
}
