package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// testdata/two.json is two devices of 1 TFLOP/s with a launch of 1 µs, and
// four.txt four tasks of 1e9 operations: 1.001 ms each, two on each device.
func TestMakespan(t *testing.T) {
	got := simulated(t, "testdata/two.json", "testdata/four.txt")
	if want := 2002 * time.Microsecond; got.Makespan != want {
		t.Errorf("makespan %v, want %v", got.Makespan, want)
	}
	if got.Bound > got.Makespan || math.Abs(got.Efficiency-float64(got.Bound)/float64(got.Makespan)) > 1e-9 {
		t.Errorf("bound %v, efficiency %v for a makespan of %v", got.Bound, got.Efficiency, got.Makespan)
	}
	for _, d := range got.Devices {
		if d.Tasks != 2 || d.Busy != 2002*time.Microsecond {
			t.Errorf("%s ran %d tasks in %v, want 2 in 2.002ms", d.Name, d.Tasks, d.Busy)
		}
	}
}

// simulated runs weft sim --json.
func simulated(t *testing.T, args ...string) simJSON {
	t.Helper()
	var got simJSON
	text := works(t, append([]string{"sim", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	if !got.Simulated {
		t.Error("the JSON does not say that it is simulated")
	}
	return got
}

// Every scenario and every policy comes through and says that it is simulated,
// and the same command prints the same.
func TestSim(t *testing.T) {
	type choice struct{ scenario, policy string }
	var choices []choice
	for _, s := range scenarioNames() {
		choices = append(choices, choice{s, sched.Default})
	}
	if testing.Short() {
		choices = choices[:2]
	}
	for _, p := range sched.Names() {
		if !testing.Short() || p == sched.Default {
			choices = append(choices, choice{"mixed", p})
		}
	}
	for _, c := range choices {
		got := simulated(t, "mixed", c.scenario, "--policy", c.policy)
		if got.Makespan < got.Bound || !got.Checked || got.Policy != c.policy {
			t.Errorf("%v: %+v", c, got)
		}
		tasks := 0
		for _, r := range got.Runs {
			tasks += r.Tasks
		}
		for _, d := range got.Devices {
			tasks -= d.Tasks
		}
		if tasks != 0 {
			t.Errorf("%v: the devices ran %d fewer tasks than the runs have", c, tasks)
		}
	}
	a := works(t, "sim", "mixed", "bursty", "--noise", "0.1", "--seed", "7")
	if first, _, _ := strings.Cut(a, "\n"); first != "simulated: bursty on mixed, policy finish, noise 10.0 %, seed 7" {
		t.Errorf("the first line is %q", first)
	}
	if b := works(t, "sim", "mixed", "bursty", "--noise", "0.1", "--seed", "7"); a != b {
		t.Error("the same seed printed something else")
	}
	if b := works(t, "sim", "mixed", "bursty", "--noise", "0.1", "--seed", "8"); a == b {
		t.Error("another seed printed the same")
	}
}

func TestExplain(t *testing.T) {
	text := works(t, "sim", "mixed", "uniform", "--explain", "17")
	if n := strings.Count(text, "task 17 → "); n != 1 || strings.Contains(text, "task 18 → ") {
		t.Errorf("task 17 is explained %d times:\n%s", n, text)
	}
	if n := len(simulated(t, "mixed", "uniform", "--explain", "all").Explanations); n != 1000 {
		t.Errorf("%d of 1000 placements explained", n)
	}
	text = works(t, "sim", "mixed", "../../examples/smooth.json", "--explain", "0")
	if !strings.Contains(text, "blur top → ") {
		t.Errorf("task 0 is not explained by its name:\n%s", text)
	}
}

// A saved trace reads back as the same run, and still says what it is.
func TestTrace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "out.json")
	live := works(t, "sim", "mixed", "mixed", "--trace", file)
	saved := works(t, "trace", file)
	if !strings.HasPrefix(saved, "simulated: trace of ") {
		t.Errorf("the trace does not begin by saying that it is simulated:\n%s", saved)
	}
	timeline := func(s string) string {
		from := strings.Index(s, "\n       0 ")
		to := strings.Index(s, "# compute")
		if from < 0 || to < from {
			t.Fatalf("no timeline in\n%s", s)
		}
		return s[from:to]
	}
	if a, b := timeline(live), timeline(saved); a != b {
		t.Errorf("the timeline was\n%s\nand reads back as\n%s", a, b)
	}
}

// The story of the demonstration must be true.
func TestDemo(t *testing.T) {
	text := works(t, "run", "demo")
	for i, line := range strings.Split(text, "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("line %d has %d columns: %s", i+1, n, line)
		}
		if strings.ContainsAny(line, "\r\x1b") {
			t.Errorf("line %d has progress in it though this is no terminal: %q", i+1, line)
		}
	}
	var d demo
	if err := d.prepare(); err != nil {
		t.Fatal(err)
	}
	finish, err := d.simulate("finish", "finish", d.graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	round, err := d.simulate("roundrobin", "roundrobin", d.graph, nil)
	if err != nil {
		t.Fatal(err)
	}
	if finish.result.Makespan >= round.result.Makespan {
		t.Errorf("finish took %v, roundrobin %v", finish.result.Makespan, round.result.Makespan)
	}
	for _, want := range []string{
		"weft demo, simulated",
		fmt.Sprintf("%.1f times as fast as\nroundrobin", ratio(round, finish)),
		"equal to running the tasks one after another",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the demonstration does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "; 0 tasks whose results were lost") {
		t.Errorf("nothing had to be recovered:\n%s", text)
	}
}

// What a change of the machine is said to save is what it saves in a simulation of the
// changed machine.
func TestFixesAreSimulated(t *testing.T) {
	m, _ := machine.Named("mixed")
	changed := *m
	changed.Devices = slices.Clone(m.Devices)
	for i := range changed.Devices {
		changed.Devices[i].Rates.LaunchNS = 0
	}
	file := write(t, "launch.json", string(machine.Encode(&changed)))
	scenarios := []string{"rows", "skewed", "uniform"}
	if testing.Short() {
		scenarios = scenarios[:1]
	}
	for _, scenario := range scenarios {
		before, after := simulated(t, "mixed", scenario), simulated(t, file, scenario)
		i := slices.IndexFunc(before.Fixes, func(f fixJSON) bool { return f.What == "no launch overhead" })
		if i < 0 || before.Fixes[i].Makespan != after.Makespan {
			t.Errorf("%s: without launch overhead it takes %v; what would help is %+v", scenario, after.Makespan, before.Fixes)
		}
	}
}

// A simulation adds up what its machine draws and compares that with the budget.
func TestSimPower(t *testing.T) {
	line := func(args ...string) string { return strings.Join(strings.Fields(works(t, args...)), " ") }
	for m, want := range map[string]string{
		"3x5070":      "power 800 W at full load (devices 600 W, the rest 200 W); the budget is 1 kW ",
		"4x5070-ring": "power 1.27 kW at full load (devices 1.07 kW, the rest 200 W) ",
	} {
		if got := line("sim", m, "uniform"); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", m, want, got)
		}
	}
	if got := line("sim", "mixed", "uniform"); strings.Contains(got, "power ") {
		t.Errorf("a sum of some of the figures is told as the whole:\n%s", got)
	}
	if got := simulated(t, "3x5070", "uniform"); got.Watts != 800 || got.Budget != 1000 {
		t.Errorf("JSON has %v W of %v", got.Watts, got.Budget)
	}
	m, _ := machine.Named("3x5070")
	m.BudgetWatts = 700
	file := filepath.Join(t.TempDir(), "m.json")
	if err := os.WriteFile(file, machine.Encode(m), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := line("machines", file), "(devices 600 W, the rest 200 W); that is 100 W more than the budget of 700 W "; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}

// Every shipped machine says whether its figures were measured, as the note in its file does.
func TestMachinesOrigin(t *testing.T) {
	for _, name := range machine.Names() {
		src, err := os.ReadFile(filepath.Join("..", "..", "machine", "machines", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		out := works(t, "machines", name)
		if measured := bytes.Contains(src, []byte("as weft measured them")); strings.Contains(out, "as weft measured them") != measured || strings.Contains(out, "datasheets") == measured {
			t.Errorf("%s, measured %v: %s", name, measured, out)
		}
	}
}
