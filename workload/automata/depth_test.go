package automata_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/automata"
)

// simulated runs graphs on a described machine in virtual time.
func simulated(t *testing.T, m *machine.Machine, g *graph.Graph) time.Duration {
	t.Helper()
	policy, err := sched.New("finish")
	if err != nil {
		t.Fatal(err)
	}
	res, err := sim.Run(sim.Config{
		Machine: m, Cost: machine.NewRoofline(m), Unchecked: true,
		NewPolicy: policy, Jobs: []sim.Job{{Graph: g}},
	})
	if err == nil {
		err = res.Runs[0].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	return res.Makespan
}

// equally cuts a job into a range for each device.
func equally(m *machine.Machine, j workload.Job) (out []sched.Range) {
	n, items := int64(len(m.Devices)), j.Items().Extent
	for i := range n {
		if r := (sched.Range{Lo: i * items / n, Hi: (i + 1) * items / n}); r.Len() > 0 {
			out = append(out, r)
		}
	}
	return out
}

// onMachine prices jobs by simulating them on a described machine.
func onMachine(t *testing.T, m *machine.Machine) workload.Pricer {
	return func(all workload.Job, samples ...workload.Job) (out []time.Duration, err error) {
		for _, s := range samples {
			g, err := s.Graph(equally(m, all))
			if err != nil {
				return nil, err
			}
			out = append(out, simulated(t, m, g))
		}
		return out, nil
	}
}

// cores is two machines of one fast core each, with a link between them; what
// kind of link makes all the difference.
const cores = `{
  "name": "cores", "host": {"memory": "64GB", "bandwidth": "20GB/s"},
  "devices": [{"name": "cpu", "count": 2, "kind": "cpu", "backend": "cpu", "memory": "8GB", "cores": 1, "simd_lanes": 16,
    "rates": {"fp32": "100GFLOP/s", "int32": "100GOP/s", "memory": "20GB/s", "launch": "1us"}}],
  "links": [
    {"a": "cpu", "b": "host", "kind": LINK},
    {"a": "cpu", "b": "cpu", "kind": LINK}
  ]
}`

// Rounds become longer where exchanging halos costs more, and the number of steps
// chosen by pricing a few rounds is one with which the whole game is as fast, in
// simulation, as with any.
func TestDepthFollowsLinks(t *testing.T) {
	parse := func(link string) *machine.Machine {
		m, err := machine.Decode([]byte(strings.ReplaceAll(cores, "LINK", link)))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	named := func(name string) *machine.Machine {
		m, ok := machine.Named(name)
		if !ok {
			t.Fatalf("no machine %q", name)
		}
		return m
	}
	const side, steps = 8192, 256
	game := func(k int, m *machine.Machine) *automata.Job {
		j := workloadtest.New[*automata.Job](t)(automata.New(automata.Config{Rows: side, Cols: side, Steps: steps, K: k, Pattern: "glider"}))
		if err := j.Place(m); err != nil {
			t.Fatal(err)
		}
		return j
	}
	for _, c := range []struct {
		name string
		m    *machine.Machine
		want int // 0: whichever is good
	}{
		{"fast link", parse(`"pcie", "rate": "20GB/s", "latency": "1us"`), 16},
		{"slow link", parse(`"network", "rate": "1GB/s", "latency": "1ms"`), 64},
		{"3x5070", named("3x5070"), 8},
		{"8xh100", named("8xh100"), 0},
		{"16xh100", named("16xh100"), 0},
	} {
		j := game(0, c.m)
		variants, err := j.Vary(onMachine(t, c.m))
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(variants, func(w workload.Variant) bool { return w.Taken }); i < 0 || variants[i].Name != fmt.Sprint("k ", j.K()) {
			t.Errorf("%s: rounds have %d steps, chosen from %v", c.name, j.K(), variants)
		}
		least, took := time.Duration(math.MaxInt64), time.Duration(0)
		for k := 1; k <= 64; k *= 2 {
			fixed := game(k, c.m)
			g, err := fixed.Graph(equally(c.m, fixed))
			if err != nil {
				t.Fatal(err)
			}
			full := simulated(t, c.m, g)
			if least = min(least, full); k == j.K() {
				took = full
			}
		}
		if c.want > 0 && j.K() != c.want {
			t.Errorf("%s: rounds of %d steps, want %d: %v", c.name, j.K(), c.want, variants)
		}
		if float64(took) > 1.05*float64(least) {
			t.Errorf("%s: with %d steps between exchanges the game takes %v, with another number %v", c.name, j.K(), took, least)
		}
	}
}

// What was chosen holds for the machine it was chosen for, and what was asked for
// is not chosen.
func TestDepthIsChosenOnce(t *testing.T) {
	asked := 0
	price := func(_ workload.Job, samples ...workload.Job) ([]time.Duration, error) {
		asked++
		return make([]time.Duration, len(samples)), nil
	}
	c := automata.Config{Rows: 12, Cols: 64, Steps: 10}
	j := workloadtest.New[*automata.Job](t)(automata.New(c))
	one, other := new(machine.Machine), new(machine.Machine)
	for i, step := range []struct {
		on   *machine.Machine
		want int // times asked in all
	}{{one, 4}, {one, 4}, {other, 8}} {
		if err := j.Place(step.on); err != nil {
			t.Fatal(err)
		}
		variants, err := j.Vary(price)
		if err != nil || len(variants) != 4 || asked != step.want {
			t.Errorf("run %d: %d variants, %d prices asked for, error %v; want 4 variants (1, 2, 4, 8), %d prices", i, len(variants), asked, err, step.want)
		}
		if j.K() != 1 { // all cost the same
			t.Errorf("run %d: rounds of %d steps", i, j.K())
		}
	}
	c.K = 3
	j = workloadtest.New[*automata.Job](t)(automata.New(c))
	if variants, err := j.Vary(price); variants != nil || err != nil || j.K() != 3 || asked != 8 {
		t.Errorf("rounds of 3 steps became %d: %v, %v", j.K(), variants, err)
	}
}

// A run says what it chose from.
func TestDepthOfRun(t *testing.T) {
	rt := workloadtest.Open(t, 3, automata.Funcs())
	j := workloadtest.New[*automata.Job](t)(automata.New(automata.Config{Rows: 300, Cols: 256, Steps: 40, Seed: 5}))
	for range 2 {
		res := workloadtest.Run(t, rt, j)
		if err := j.Check(); err != nil {
			t.Error(err)
		}
		if n := len(res.Variants); n < 3 || res.Variants[n-1].Name != "k 32" {
			t.Errorf("variants %v, want some up to k 32", res.Variants)
		}
		if i := slices.IndexFunc(res.Variants, func(w workload.Variant) bool { return w.Taken }); i < 0 || res.Variants[i].Name != fmt.Sprint("k ", j.K()) || res.Variants[i].Predicted <= 0 {
			t.Errorf("variants %v, with rounds of %d steps", res.Variants, j.K())
		}
	}
}

// A way is taken by its name, and what is no way is refused.
func TestTake(t *testing.T) {
	c := automata.Config{Rows: 300, Cols: 256, Steps: 40, Seed: 5}
	j := workloadtest.New[*automata.Job](t)(automata.New(c))
	if err := j.Take("k 16"); err != nil || j.K() != 16 {
		t.Errorf("rounds of %d steps, %v; want 16", j.K(), err)
	}
	for _, way := range []string{"", "k", "k 0", "k -1", "k 65", "k 9999999999999999999", "16"} {
		if err := j.Take(way); !errors.Is(err, workload.ErrConfig) || j.K() != 16 {
			t.Errorf("%q: %v", way, err)
		}
	}
	c.K = 3
	j = workloadtest.New[*automata.Job](t)(automata.New(c))
	if err := j.Take(""); err != nil || j.K() != 3 {
		t.Errorf("rounds of %d steps, %v; want 3", j.K(), err)
	}
	if err := j.Take("k 4"); !errors.Is(err, workload.ErrConfig) {
		t.Errorf("a way where there is no choice: %v", err)
	}
}
