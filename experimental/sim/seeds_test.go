package sim

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/trace"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "run TestSeeds with this seed only")
	firstFlag  = flag.Uint64("first", 1, "the first seed TestSeeds runs")
	seedsFlag  = flag.Int("seeds", 250, "how many seeds TestSeeds runs")
	traitsFlag = flag.String("traits", "", "traits TestSeeds may draw, or but,name,… for all but these")
)

// trait is a set of things a trial can be made of. They are drawn independently.
type trait uint32

const (
	tight      trait = 1 << iota // little device memory and more data than fits
	poisoned                     // a task that never succeeds
	cancelled                    // a run that is cancelled
	faulty                       // a fault script
	late                         // completions told late, gangs that end one by one
	ample                        // a limit on host memory that is not felt
	scarce                       // one that is
	weighted                     // runs of different weight and priority
	limited                      // limits on tasks in flight
	swapped                      // a device replaced by a spare
	exhausted                    // devices out of memory before they should be
	unstable                     // volatile data
	held                         // data that outlives runs
	heldUnsafe                   // some of it volatile
	frugal                       // few retries
	ganged                       // tasks over two devices
	selective                    // tasks for some devices only
	bare                         // tasks without data
	cutFor                       // runs that would rather use some devices
	traits     = iota
)

var traitNames = [traits]string{
	"tight", "poisoned", "cancelled", "faulty", "late", "ample", "scarce", "weighted", "limited", "swapped",
	"exhausted", "unstable", "held", "held-unsafe", "frugal", "ganged", "selective", "bare", "cut-for",
}

// traitOdds is one in how many trials has a trait.
var traitOdds = [traits]int{4, 6, 5, 1, 2, 6, 8, 3, 4, 4, 4, 3, 3, 6, 5, 3, 2, 4, 3}

func (k trait) String() string {
	var names []string
	for i, n := range traitNames {
		if k&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ",")
}

// trial is a simulation and the errors its runs may, and must, end with.
type trial struct {
	Config
	traits trait
	// poison, when set, names tasks that never succeed: exactly the runs that
	// have one must fail.
	poison string
	// volatile data may be lost for good.
	volatile bool
}

// newTrial draws a trial with those traits that are allowed.
func newTrial(r *rand.Rand, seed uint64, allowed trait) trial {
	var tr trial
	for i, n := range traitOdds {
		if r.IntN(n) == 0 {
			tr.traits |= 1 << i
		}
	}
	tr.traits &= allowed
	k := tr.traits
	m := randomMachine(r)
	names := sched.Names()
	tr.Config = Config{
		Machine: m, Policy: names[r.IntN(len(names))], Seed: seed, Noise: r.Float64() * 0.3,
		// Whatever hangs is noticed, and no series of injected failures uses
		// up a task's retries or a device's credit. A task takes 20 ms at most on a lane
		// of the slowest device, and 260 ms where that is slowed down, shared and noisy.
		TaskTimeout: 500 * time.Millisecond, Retries: 100,
		engine:  engine.Options{Depth: 1 << r.IntN(7), ReplayDepth: 1 + r.IntN(40), Health: engine.HealthRules{MaxLosses: 100}},
		MaxTime: time.Hour, MaxSteps: 1_000_000, late: k&late != 0,
		board: driver.NewBoard(len(engine.LanesOf(m))),
	}
	c := &tr.Config
	tr.drawJobs(r)
	if k&faulty != 0 {
		c.Faults = randomFaults(r, m, 10*time.Millisecond)
	}
	if k&exhausted == 0 {
		c.Faults = slices.DeleteFunc(c.Faults, func(f Fault) bool { return f.Kind == Exhaust })
	}
	if k&tight != 0 {
		tighten(r, c)
	}
	tr.drawOptions(r)
	if k&swapped != 0 {
		tr.drawSwap(r)
	}
	if seed%4 == 0 {
		// Numbers of operations begin again while it runs. The board takes a number
		// for the nearest count, so it gets there in steps.
		c.engine.Begun = make([]uint32, len(engine.LanesOf(m)))
		for l := range c.engine.Begun {
			c.engine.Begun[l] = math.MaxUint32 - uint32(seed%64)
			for k := range uint64(4) {
				c.board.Done(driver.Lane(l), uint32((k+1)*uint64(c.engine.Begun[l])/4), false)
			}
		}
	}
	if k&poisoned != 0 {
		tr.poison = fmt.Sprint("t", r.IntN(12))
		c.Retries = 1 + r.IntN(3)
		// Nothing else may use up retries.
		c.Faults = slices.DeleteFunc(c.Faults, func(f Fault) bool {
			return slices.Contains([]FaultKind{FailNext, FailTask, FailCopy, Refuse, Exhaust, Hang, Break, Mend}, f.Kind)
		})
		c.Faults = append(c.Faults, Fault{Kind: FailTask, Task: tr.poison, Times: 1_000_000})
	}
	if k&cancelled != 0 {
		for range 1 + r.IntN(2) {
			c.Faults = append(c.Faults, Fault{Kind: Cancel, Times: 1 + r.IntN(len(c.Jobs)), At: time.Duration(r.IntN(5e6))})
		}
	}
	c.Faults.sort()
	for _, j := range c.Jobs {
		for d := range j.Graph.NumData() {
			tr.volatile = tr.volatile || j.Graph.Data(graph.DataID(d)).Durability == graph.Volatile
		}
	}
	return tr
}

// drawJobs draws graphs, and resident data that some of them share.
func (tr *trial) drawJobs(r *rand.Rand) {
	c, k := &tr.Config, tr.traits
	o := randomOptions{Gangs: k&ganged != 0, Constraints: k&selective != 0, Volatile: k&unstable != 0}
	if k&tight != 0 { // more data than fits
		o.Data, o.Tasks = 10+r.IntN(30), 20+r.IntN(80)
	}
	at := func() time.Duration { return time.Duration(r.IntN(3)) * time.Millisecond }
	for i := range 1 + r.IntN(3) {
		c.Jobs = append(c.Jobs, Job{Name: fmt.Sprint("g", i), At: at(), Graph: randomGraph(r, o)})
	}
	// Tasks without any data have paths of their own.
	if k&bare != 0 {
		spec := Spec{Kind: "independent", N: 1 + r.IntN(40), Ops: 1e6, Gang: r.IntN(3)}
		g, err := spec.Graph()
		if err != nil {
			panic(err)
		}
		c.Jobs = append(c.Jobs, Job{Name: "bare", At: at(), Graph: g})
	}
	if k&held == 0 {
		return
	}
	o.Volatile = k&heldUnsafe != 0
	g := randomGraph(r, o)
	var bind []Binding
	for d := range g.NumData() {
		if gd := g.Data(graph.DataID(d)); gd.Input && r.IntN(2) == 0 {
			bind = append(bind, Binding{graph.DataID(d), len(c.Resident)})
			c.Resident = append(c.Resident, graph.Data{Name: gd.Name, Bytes: gd.Bytes, Durability: gd.Durability})
		}
	}
	for i := range 1 + r.IntN(3) {
		c.Jobs = append(c.Jobs, Job{Name: fmt.Sprint("r", i), At: at(), Graph: g, Bind: bind})
	}
}

// drawOptions draws how runs share the machine, and the limit on host memory.
func (tr *trial) drawOptions(r *rand.Rand) {
	c, k := &tr.Config, tr.traits
	for i := range c.Jobs {
		o := &c.Jobs[i]
		if k&weighted != 0 {
			o.Weight, o.Priority = 0.1+10*r.Float64(), r.IntN(5)-2
		}
		if k&cutFor != 0 {
			for d := range c.Machine.Devices {
				if r.IntN(2) == 0 {
					o.Rather = append(o.Rather, machine.DeviceID(d))
				}
			}
		}
		if k&limited != 0 && r.IntN(2) == 0 {
			o.Concurrent = 1 + r.IntN(4)
		}
		if k&frugal != 0 && r.IntN(2) == 0 {
			o.Retries = 1 + r.IntN(3)
		}
	}
	if k&limited != 0 && r.IntN(2) == 0 {
		c.Concurrent = 1 + r.IntN(6)
	}
	if k&frugal != 0 {
		c.Retries = 1 + r.IntN(4)
	}
	switch {
	case k&scarce != 0:
		c.Machine.HostBytes = 2*randomNeed + r.Int64N(8*randomNeed)
	case k&ample != 0:
		// All data of all runs, in as many versions as may have to be kept to
		// compute something again.
		for _, j := range c.Jobs {
			for d := range j.Graph.NumData() {
				c.Machine.HostBytes += 24 * j.Graph.Data(graph.DataID(d)).Bytes
			}
		}
		c.Machine.HostBytes += 4 * randomNeed
	}
}

// drawSwap adds a device that takes the place of another.
func (tr *trial) drawSwap(r *rand.Rand) {
	m := tr.Machine
	old := machine.DeviceID(len(m.Devices) - 1)
	spare := m.Devices[old]
	spare.Name = fmt.Sprintf("cuda:%d", len(m.Devices))
	m.Devices = append(m.Devices, spare)
	id := machine.DeviceID(len(m.Devices) - 1)
	m.Links = append(m.Links, machine.Link{A: machine.Host, B: id, Kind: machine.PCIe, BPS: 1e9, LatencyNS: float64(r.IntN(5000))})
	tr.Faults = append(tr.Faults, Fault{Kind: Swap, At: time.Duration(r.IntN(5e6)), Device: old, Other: id})
	tr.board = driver.NewBoard(len(engine.LanesOf(m)))
}

// tighten leaves little memory on every device, so that values are given up and
// fetched again all the time.
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
	if tr.traits&(poisoned|cancelled|frugal) != 0 {
		c.Trace = trace.NewRecorder(1 << 14)
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
	if limit := 2*tr.engine.ReplayDepth + tr.engine.Depth; rep.LongestReplay > limit {
		return fmt.Errorf("a loss made %d tasks in a row run again, the limit is %d", rep.LongestReplay, limit)
	}
	if rep.Tasks != g.NumTasks() {
		return fmt.Errorf("the report counts %d tasks, the graph has %d", rep.Tasks, g.NumTasks())
	}
	cancelled := slices.ContainsFunc(tr.Faults, func(f Fault) bool { return f.Kind == Cancel && f.Times == i+1 })
	toxic := false
	for t := range g.NumTasks() {
		toxic = toxic || tr.poison != "" && g.TaskName(graph.TaskID(t)) == tr.poison
	}
	if r.Err == nil {
		if toxic {
			return fmt.Errorf("it ended well though %s never succeeds", tr.poison)
		}
		if rep.Executed-rep.Replays != rep.Tasks {
			return fmt.Errorf("%d executions, %d of them repeats, of %d tasks", rep.Executed, rep.Replays, rep.Tasks)
		}
		return nil
	}
	lost := tr.volatile && len(tr.Faults) > 0 && errors.Is(r.Err, engine.ErrDataLost)
	full := tr.traits&scarce != 0 && errors.Is(r.Err, engine.ErrOutOfMemory)
	if !toxic && !lost && !full && !tr.usedUp(res, i, g) && !(cancelled && errors.Is(r.Err, engine.ErrCancelled)) {
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
	if toxic && errors.Is(r.Err, ErrInjected) && !slices.Contains(e.Names, tr.poison) {
		return fmt.Errorf("%s never succeeds and is not named: %w", tr.poison, r.Err)
	}
	return nil
}

// usedUp reports whether the task that a run failed of failed more often than it may,
// in a trial of few retries. Devices lost under a task count from the third on, and the
// trace has those as failures too.
func (tr *trial) usedUp(res *Result, i int, g *graph.Graph) bool {
	var te *engine.TaskError
	r := &res.Runs[i]
	if tr.traits&frugal == 0 || !errors.As(r.Err, &te) {
		return false
	}
	retries := tr.Retries
	if n := inOrder(tr.Jobs)[i].Retries; n != 0 {
		retries = n
	}
	fails := 0
	for _, ev := range res.Trace {
		if ev.Kind == trace.Exec && ev.Failed && ev.Run == int32(r.Run) && g.TaskName(ev.Task) == te.Task {
			fails++
		}
	}
	return fails > retries
}

// TestSeeds runs random graphs on random machines under random policies while
// random things go wrong; see check for what must hold. A failing seed is
// printed with the command that runs it alone.
func TestSeeds(t *testing.T) {
	var seeds []uint64
	for seed := range uint64(*seedsFlag) {
		seeds = append(seeds, *firstFlag+seed)
	}
	allowed := ^trait(0)
	if *traitsFlag != "" {
		allowed = 0
		for i, n := range traitNames {
			if slices.Contains(strings.Split(*traitsFlag, ","), n) != strings.HasPrefix(*traitsFlag, "but,") {
				allowed |= 1 << i
			}
		}
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
		tr := newTrial(rand.New(rand.NewPCG(seed, 1)), seed, allowed)
		res, err := tr.check()
		if err != nil {
			bad++
			t.Errorf("seed %d (go test ./experimental/sim -run '^TestSeeds$' -seed %d), %s, policy %s:\n%v\nfaults:\n%s",
				seed, seed, tr.traits, tr.Policy, err, tr.Faults.Text(tr.Machine))
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
// failures. It draws the same trials each time, as TestSeeds does, and others with
// -rapid.seed.
func TestSeedsShrink(t *testing.T) {
	if f := flag.Lookup("rapid.seed"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("1"); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		tr := newTrial(rand.New(drawn{t}), rapid.Uint64Range(0, 7).Draw(t, "seed"), ^trait(0))
		if _, err := tr.check(); err != nil {
			t.Fatalf("%s, policy %s:\n%v\nfaults:\n%s", tr.traits, tr.Policy, err, tr.Faults.Text(tr.Machine))
		}
	})
}
