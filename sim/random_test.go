package sim

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/sched"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run TestRandom with this seed only")
	seedsFlag = flag.Int("seeds", 300, "how many seeds TestRandom runs")
)

// randomConfig makes a simulation out of a seed.
func randomConfig(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 1))
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

// tightConfig is randomConfig with little memory on every device and more data
// than fits, so that values are given up and fetched again all the time.
func tightConfig(seed uint64) Config {
	c := randomConfig(seed)
	r := rand.New(rand.NewPCG(seed, 7))
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
	return c
}

// checkRandom runs a simulation and says what is wrong with the outcome: whatever
// policy, devices and faults there are, every run must end with the results of
// the sequential one. Only volatile data may be lost for good.
func checkRandom(c Config) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	res, err := Run(c)
	if err != nil {
		return err
	}
	volatile := false
	for _, j := range c.Jobs {
		for d := range j.Graph.NumData() {
			volatile = volatile || j.Graph.Data(graph.DataID(d)).Durability == graph.Volatile
		}
	}
	for _, r := range res.Runs {
		if r.Err != nil && !(volatile && len(c.Faults) > 0 && errors.Is(r.Err, engine.ErrDataLost)) {
			return fmt.Errorf("run %d %s: %w", r.Run, r.Name, r.Err)
		}
	}
	return nil
}

func TestRandom(t *testing.T) { checkSeeds(t, *seedsFlag, randomConfig) }

func TestRandomTight(t *testing.T) { checkSeeds(t, *seedsFlag/3, tightConfig) }

func checkSeeds(t *testing.T, n int, config func(uint64) Config) {
	lo, hi := uint64(1), uint64(n)
	if *seedFlag != 0 {
		lo, hi = *seedFlag, *seedFlag
	}
	bad := 0
	for seed := lo; seed <= hi && bad < 10; seed++ {
		if err := checkRandom(config(seed)); err != nil {
			bad++
			c := config(seed)
			t.Errorf("seed %d (go test ./sim -run '%s$' -seed %d), policy %s:\n%v\nfaults:\n%s", seed, t.Name(), seed, c.Policy, err, c.Faults.Text(c.Machine))
		}
	}
}

// TestRandomCovers sees to it that the random runs go through what they are
// there to test.
func TestRandomCovers(t *testing.T) {
	var sum engine.Report
	gangs := 0
	for seed := range uint64(200) {
		c := randomConfig(seed)
		if seed%2 == 0 {
			c = tightConfig(seed)
		}
		res, err := Run(c)
		if err != nil {
			continue // TestRandom's business
		}
		for i, r := range res.Runs {
			sum.Retries += r.Report.Retries
			sum.Replays += r.Report.Replays
			sum.Evictions += r.Report.Evictions
			sum.Commits += r.Report.Commits
			sum.Copies += r.Report.Copies
			for k := range c.Jobs[i].Graph.NumTasks() {
				if c.Jobs[i].Graph.Task(graph.TaskID(k)).Gang > 1 {
					gangs++
				}
			}
		}
	}
	for what, n := range map[string]int{
		"retries": sum.Retries, "replays": sum.Replays, "evictions": sum.Evictions, "commits": sum.Commits, "copies": sum.Copies, "gangs": gangs,
	} {
		if n < 20 {
			t.Errorf("only %d %s", n, what)
		}
	}
}
