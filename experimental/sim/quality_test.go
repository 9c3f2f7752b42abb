package sim

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// The tests here hold the quality of decisions to numbers. All times are
// virtual, so a number that is reached once is reached always.

// equals is a machine of n devices that do 10⁹ operations a second and cost
// nothing to start or to reach.
func equals(n int) *machine.Machine {
	m := &machine.Machine{}
	for i := range n {
		m.Devices = append(m.Devices, machine.Device{
			Name: fmt.Sprintf("cuda:%d", i), Backend: "cuda", Kind: machine.Discrete, MemBytes: 1 << 30,
			Rates: machine.Rates{Ops: [graph.NumUnits]float64{1e9}},
		})
		m.Links = append(m.Links, machine.Link{A: machine.Host, B: machine.DeviceID(i), BPS: 1e9})
	}
	return m
}

// TestIndependentWorkIsSpread: a thousand equal tasks and more reach 95 % of
// what is possible, on equal devices and on different ones.
func TestIndependentWorkIsSpread(t *testing.T) {
	for _, name := range []string{"8xh100", "mixed"} {
		m, _ := machine.Named(name)
		cost := machine.NewRoofline(m)
		for _, text := range []string{"independent n=1000", "independent n=1003 size=0", "independent n=4001 ops=3e9"} {
			for _, noise := range []float64{0, 0.1} {
				res := simulate(t, name, text, func(c *Config) { c.Noise, c.Unchecked = noise, true })
				// For equal tasks the linear program has a solution that can
				// be written down: each device takes tasks at its own rate.
				rate := 0.0
				s, err := ParseScenario([]byte(text), m)
				if err != nil {
					t.Fatal(err)
				}
				g, err := s.Specs[0].Graph()
				if err != nil {
					t.Fatal(err)
				}
				for d := range m.Devices {
					rate += 1 / cost.Task(g.Task(0), machine.DeviceID(d)).Median.Seconds()
				}
				bound := float64(g.NumTasks()) / rate
				if math.Abs(res.Bound.Seconds()/bound-1) > 1e-3 {
					t.Errorf("%s on %s: bound %v, worked out %vs", text, name, res.Bound, bound)
				}
				if efficiency := bound / res.Makespan.Seconds(); efficiency < 0.95 {
					t.Errorf("%s on %s with noise %v: %.1f %% of what is possible, want 95", text, name, noise, 100*efficiency)
				}
			}
		}
	}
}

// TestUniformWorkIsEven: on uniform work the devices' utilisations differ by
// less than 5 % (standard deviation).
func TestUniformWorkIsEven(t *testing.T) {
	uniform, _ := FindScenario("uniform")
	for _, name := range machine.Names() {
		for _, noise := range []float64{0, 0.2} {
			res := simulate(t, name, uniform.Text, func(c *Config) { c.Noise, c.Unchecked = noise, true })
			mean, dev := 0.0, 0.0
			for _, u := range res.Utilisation {
				mean += u / float64(len(res.Utilisation))
			}
			for _, u := range res.Utilisation {
				dev += (u - mean) * (u - mean) / float64(len(res.Utilisation))
			}
			if dev = math.Sqrt(dev); dev >= 0.05 {
				t.Errorf("%s with noise %v: utilisations %.3f deviate by %.3f", name, noise, res.Utilisation, dev)
			}
		}
	}
}

// TestRowsByCost: rows of a triangle, where row i costs (i+2)(n−i−2), cut by
// cost into one task for each device keep 95 % of the devices' time busy, and so
// do many tasks placed as they come. Ranges of equal length stop at 67 to 73 %.
func TestRowsByCost(t *testing.T) {
	const n = 2000
	prefix := []float64{0}
	for i := range n - 2 {
		prefix = append(prefix, prefix[i]+float64((i+2)*(n-i-2)))
	}
	items := sched.Items{Extent: n - 2, Cost: func(lo, hi int64) float64 { return prefix[hi] - prefix[lo] }}
	total := prefix[n-2]
	for _, c := range []struct {
		devices int
		equal   float64 // percent
	}{{3, 69}, {4, 73}, {8, 68}, {16, 67}} {
		m := equals(c.devices)
		efficiency := func(cut string, parts int) float64 {
			partition, err := sched.NewPartitioner(cut)
			if err != nil {
				t.Fatal(err)
			}
			shares := make([]sched.Share, parts)
			for k := range shares {
				shares[k].Rate = 1e9
			}
			p, err := partition(items, shares)
			if err != nil {
				t.Fatal(err)
			}
			var b graph.Builder
			for _, r := range p.Ranges {
				b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel, Launch: oneBlock}}, Work: graph.Work{Ops: prefix[r.Hi] - prefix[r.Lo]}})
			}
			g, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			res, err := Run(Config{Machine: m, Jobs: []Job{{Graph: g}}})
			if err != nil {
				t.Fatal(err)
			}
			return 100 * total / 1e9 / float64(c.devices) / res.Makespan.Seconds()
		}
		if got := efficiency("equal", c.devices); math.Abs(got-c.equal) > 1 {
			t.Errorf("equal ranges on %d devices: %.1f %%, want %v", c.devices, got, c.equal)
		}
		for _, cut := range []string{"proportional", "latency", "dynamic"} {
			if got := efficiency(cut, c.devices); got < 95 {
				t.Errorf("%s on %d devices: %.1f %%, want 95", cut, c.devices, got)
			}
		}
		for _, cut := range []string{"proportional", "equal"} {
			if got := efficiency(cut, 32*c.devices); got < 95 {
				t.Errorf("32 ranges a device by %s on %d devices: %.1f %%, want 95", cut, c.devices, got)
			}
		}
	}
	// One task a row, on real machines.
	for _, name := range []string{"3x5070", "4xh100", "8xh100", "16xh100", "mixed"} {
		res := simulate(t, name, fmt.Sprintf("rows n=%d ops=1e10", n), func(c *Config) { c.Unchecked = true })
		if res.Efficiency < 0.95 {
			t.Errorf("a task a row on %s: %.1f %%, want 95", name, 100*res.Efficiency)
		}
	}
}

// repeated makes a simulation in which a scenario runs rounds times on one
// engine, each time on an idle machine in working order, at intervals of period.
func repeated(t *testing.T, name, text, policy string, rounds int, period time.Duration) Config {
	t.Helper()
	m, ok := machine.Named(name)
	if !ok {
		t.Fatalf("no machine %q", name)
	}
	s, err := ParseScenario([]byte(text), m)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := s.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Machine: m, Policy: policy, Unchecked: true}
	for k := range rounds {
		begin := time.Duration(k) * period
		for _, j := range jobs {
			j.At += begin
			c.Jobs = append(c.Jobs, j)
		}
		for _, f := range s.Faults {
			if f.Kind != Slow {
				t.Fatalf("%s cannot be repeated: nothing undoes %s", text, f.Kind)
			}
			c.Faults = append(c.Faults, Fault{At: begin, Kind: Slow, Device: f.Device, Factor: 1})
			f.At += begin
			c.Faults = append(c.Faults, f)
		}
	}
	return c
}

// roundTimes runs a scenario over and over and returns how long each round took.
func roundTimes(t *testing.T, name, text, policy string, rounds int) []time.Duration {
	t.Helper()
	const period = 10 * time.Second
	res, err := Run(repeated(t, name, text, policy, rounds, period))
	if err != nil {
		t.Fatalf("%s on %s: %v", policy, name, err)
	}
	took := make([]time.Duration, rounds)
	for _, r := range res.Runs {
		k := r.Submitted / period
		if r.Err != nil {
			t.Fatalf("%s on %s: %v", policy, name, r.Err)
		}
		if took[k] = max(took[k], r.Ended-k*period); took[k] >= period {
			t.Fatalf("%s on %s: rounds overlap", policy, name)
		}
	}
	return took
}

// learningRuns is how often adaptive sees a scenario before it is measured.
const learningRuns = 10

// TestAdaptiveCatchesUp: after learningRuns runs of a scenario, each of the
// next five takes adaptive at most 5 % longer than the best fixed policy, and
// no longer than roundrobin.
func TestAdaptiveCatchesUp(t *testing.T) {
	for _, name := range []string{"8xh100", "mixed", "3x5070"} {
		for _, scenario := range []string{"uniform", "mixed", "skewed", "bursty", "slowdevice"} {
			s, ok := FindScenario(scenario)
			if !ok {
				t.Fatalf("no scenario %q", scenario)
			}
			var best, roundrobin time.Duration
			bestName := ""
			for _, policy := range sched.Names() {
				if policy == "adaptive" {
					continue
				}
				took := roundTimes(t, name, s.Text, policy, 1)[0]
				if bestName == "" || took < best {
					best, bestName = took, policy
				}
				if policy == "roundrobin" {
					roundrobin = took
				}
			}
			times := roundTimes(t, name, s.Text, "adaptive", learningRuns+5)
			t.Logf("%s on %s: first %v, then %v; %s %v, roundrobin %v", scenario, name, times[0], times[learningRuns:], bestName, best, roundrobin)
			for _, took := range times[learningRuns:] {
				if float64(took) > 1.05*float64(best) {
					t.Errorf("%s on %s: adaptive takes %v, %s %v: %.1f %% more", scenario, name, took, bestName, best, 100*(float64(took)/float64(best)-1))
				}
				if took > roundrobin {
					t.Errorf("%s on %s: adaptive takes %v, roundrobin %v", scenario, name, took, roundrobin)
				}
			}
		}
	}
}

// TestAdaptiveLearns: a device that is three times slower than it says misleads
// a policy that believes it for ever, and adaptive not for long.
func TestAdaptiveLearns(t *testing.T) {
	const devices, tasks, each = 4, 1000, time.Millisecond
	m := equals(devices)
	spec := Spec{Kind: "independent", N: tasks, Ops: 1e6}
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	const period = 10 * time.Second
	var jobs []Job
	for k := range learningRuns + 1 {
		jobs = append(jobs, Job{Graph: g, At: time.Duration(k) * period})
	}
	slow := Faults{{Kind: Slow, Device: 1, Factor: 3, Silent: true}}
	times := func(policy string) (took []time.Duration) {
		res, err := Run(Config{Machine: m, Jobs: jobs, Policy: policy, Faults: slow, Unchecked: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range res.Runs {
			took = append(took, r.Ended-r.Submitted)
		}
		return took
	}
	ideal := time.Duration(float64(tasks*each) / (devices - 1 + 1.0/3))
	adaptive, misled := times("adaptive"), times("leastloaded")
	if last := misled[learningRuns]; float64(last) < 1.5*float64(ideal) {
		t.Errorf("leastloaded takes %v, possible is %v: there is nothing to learn", last, ideal)
	}
	if last := adaptive[learningRuns]; float64(last) > 1.05*float64(ideal) {
		t.Errorf("adaptive takes %v after %d runs, possible is %v", last, learningRuns, ideal)
	}
}

// TestChainMemory: data updated over and over takes room for two versions on a
// device and one on its way to the host, volatile data for one. Given that,
// nothing leaves the device but what is made durable; with room for less than
// two versions the data shuttles to the host and back instead of failing, and
// volatile data without room does fail.
func TestChainMemory(t *testing.T) {
	const tasks = 300
	run := func(durability graph.Durability, bytes int64) RunResult {
		spec := Spec{Kind: "chain", N: tasks, Ops: 1e6, Size: 1 << 20, Durability: durability}
		g, err := spec.Graph()
		if err != nil {
			t.Fatal(err)
		}
		m := equals(1)
		m.Devices[0].MemBytes = bytes
		res, err := Run(Config{Machine: m, Jobs: []Job{{Graph: g}}})
		if err != nil {
			t.Fatal(err)
		}
		return res.Runs[0]
	}
	for _, c := range []struct {
		durability graph.Durability
		room       int64
	}{{graph.Versioned, 3}, {graph.Mirrored, 3}, {graph.Volatile, 1}} {
		r := run(c.durability, c.room<<20)
		// One copy in, one of the result out.
		if r.Err != nil || r.Report.Evictions > 0 || r.Report.Copies > 2+r.Report.Commits {
			t.Errorf("%v data in room for %d: %v, %+v", c.durability, c.room, r.Err, r.Report)
		}
	}
	if r := run(graph.Versioned, 2<<20-1); r.Err != nil || r.Report.Copies < tasks {
		t.Errorf("versioned data in room for less than two: %v, %+v", r.Err, r.Report)
	}
	if r := run(graph.Volatile, 1<<20-1); !errors.Is(r.Err, engine.ErrOutOfMemory) {
		t.Errorf("volatile data in room for less than one: %v", r.Err)
	}
}
