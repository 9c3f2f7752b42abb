//go:build cbc

package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var (
	byCBC  = flag.Int("cbc", 6, "random instances that TestAssignCBC tries")
	allows = flag.Int("seconds", 30, "processor time that cbc may take for one of them")
	kept   = flag.String("kept", "", "file of instances that were tried: these are not tried again, others are added")
)

// proof is the relative gap at which cbc may stop. Costs are compared with its lower
// bound, so that this counts against Assign.
const proof = 0.002

// instance is an instance with the results of Assign and cbc: a line of the file that -kept names.
type instance struct {
	Seed    int     `json:"seed"`
	Seconds int     `json:"seconds"` // that cbc had
	Jobs    int     `json:"jobs"`
	Proven  bool    `json:"proven"`
	Cost    float64 `json:"cost"`  // of Assign
	Least   float64 `json:"least"` // of the assignment that cbc found; 0 for none
	Bound   float64 `json:"bound"` // of cbc
	Gap     float64 `json:"gap"`   // of Cost above Bound; 0 if there is no assignment
}

// TestAssignCBC compares assignments of up to 60 jobs with the lower bound of COIN-OR's
// solver of integer programs, as many side by side as there are cores. An instance that it
// does not prove within its time is compared with the bound it had, and listed apart. It
// fails if nothing is proved: then nothing was compared.
func TestAssignCBC(t *testing.T) {
	if _, err := exec.LookPath("cbc"); err != nil {
		t.Fatal("there is no cbc; install the package coinor-cbc")
	}
	all := loadTried(t, *kept)
	var mu sync.Mutex
	t.Run("instances", func(t *testing.T) {
		for seed := range *byCBC {
			if _, done := all[seed]; done {
				continue
			}
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				x := tryInstance(t, seed)
				mu.Lock()
				defer mu.Unlock()
				all[seed] = x
				keepTried(t, *kept, x)
			})
		}
	})
	if err := judge(t.Logf, all, *byCBC); err != nil {
		t.Error(err)
	}
}

// Where the bound of Assign is the least cost itself, it is above the bound of cbc, which is
// less than that by the part proof. It is compared with what cbc's assignment costs.
func TestAssignMeets(t *testing.T) {
	x := tryInstance(t, 168)
	if !x.Proven || math.Abs(x.Cost-x.Least) > 1e-6*x.Least || x.Bound > x.Least*(1-proof/2) {
		t.Errorf("cost %v, cbc's %v with the bound %v, proven %t; expected equal costs above the bound", x.Cost, x.Least, x.Bound, x.Proven)
	}
}

// A sum of instances is refused if nothing was proved, or an assignment is too dear.
func TestJudge(t *testing.T) {
	open, closed := instance{Bound: 1, Cost: 1.2, Gap: 0.2}, instance{Proven: true, Bound: 1, Cost: 1.04, Gap: 0.04}
	dear := instance{Proven: true, Bound: 1, Cost: 1.06, Gap: 0.06}
	for _, c := range []struct {
		all  []instance
		want string
	}{
		{nil, "proved none of 0"},
		{[]instance{open, open}, "proved none of 2"},
		{[]instance{open, closed}, ""},
		{[]instance{closed, dear}, "6.00 %"},
	} {
		all := map[int]instance{}
		for i, x := range c.all {
			all[i] = x
		}
		if err := judge(func(string, ...any) {}, all, len(c.all)); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.all, err)
		}
	}
}

// judge tells the worst gap of the first n instances that were proved, lists those that were
// not, and errs if the gap is above 5 % or there is none.
func judge(logf func(format string, args ...any), all map[int]instance, n int) error {
	worst, proven, unproven, open := instance{Seed: -1}, 0, 0, 0.0
	for seed := range n {
		x, done := all[seed]
		switch {
		case !done: // the test of it says why
			continue
		case !x.Proven:
			logf("no proof in %d s: seed %d, %d jobs: cost %.4f, cbc %.4f, its bound %.4f (%.2f %%)", x.Seconds, seed, x.Jobs, x.Cost, x.Least, x.Bound, 100*x.Gap)
			unproven, open = unproven+1, max(open, x.Gap)
			continue
		case x.Gap > 0.01:
			logf("seed %d, %d jobs: %.2f %%", seed, x.Jobs, 100*x.Gap)
		}
		if proven++; worst.Seed < 0 || x.Gap > worst.Gap {
			worst = x
		}
	}
	if proven == 0 {
		return fmt.Errorf("cbc proved none of %d instances, so that nothing was compared; give it more time with -seconds", n)
	}
	logf("worst gap %.2f %% of %d instances that cbc proved; %d without a proof, at most %.2f %% above its bound", 100*worst.Gap, proven, unproven, 100*open)
	if worst.Gap > 0.05 {
		return fmt.Errorf("worst gap %.2f %%: seed %d", 100*worst.Gap, worst.Seed)
	}
	return nil
}

// tryInstance draws an instance and solves it both ways.
func tryInstance(t *testing.T, seed int) instance {
	rng := rand.New(rand.NewPCG(uint64(seed), 2))
	n := 8 + rng.IntN(53)
	if seed == 0 {
		n = 60
	}
	jobs, machines := shared(rng, n, 1+rng.IntN(3), 1+rng.IntN(3), 3)
	machines[len(machines)-1].Count = 3 + n/8
	x := instance{Seed: seed, Seconds: *allows, Jobs: n}
	least, bound, proven := solve(t, jobs, machines)
	x.Proven = proven
	if math.IsInf(bound, 1) { // there is no assignment
		gapTo(t, seed, jobs, machines, bound)
		return x
	}
	x.Bound = bound
	if !math.IsInf(least, 1) {
		x.Least = least
	}
	a, err := Assign(jobs, machines)
	if err != nil {
		if x.Least > 0 {
			t.Fatalf("seed %d: %v, cbc has a solution of %v", seed, err, least)
		}
		return x
	}
	x.Cost, x.Gap = a.Cost, gapOf(t, seed, jobs, machines, a, bound)
	boundHolds(t, seed, a, least)
	return x
}

// loadTried reads the file of -kept: instances by seed that had as much time.
func loadTried(t *testing.T, file string) map[int]instance {
	all := map[int]instance{}
	if file == "" {
		return all
	}
	src, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(src)) {
		var x instance
		// The last line may be half of one, of a test that was killed.
		if json.Unmarshal([]byte(line), &x) == nil && x.Seconds == *allows {
			all[x.Seed] = x
		}
	}
	return all
}

// keepTried adds an instance to the file of -kept. A half line before it is ended.
func keepTried(t *testing.T, file string, x instance) {
	if file == "" {
		return
	}
	line, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(f, "\n%s\n", line)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// impossible is what cbc says if there is no assignment. Its log has the word for parts of the
// search too.
var impossible = regexp.MustCompile(`(?m)^(Result - .*infeasible|Pre-processing says infeasible|.*problem (is|was) infeasible)`)

// solve has cbc minimise the cost. least is the exact cost of the assignment that it found,
// infinite for none. bound is a cost that no assignment is below, which may be below least by
// the part proof of it; it is infinite if there is no assignment.
func solve(t *testing.T, jobs []Job, machines []Machines) (least, bound float64, proven bool) {
	t.Helper()
	file, found := filepath.Join(t.TempDir(), "assign.lp"), filepath.Join(t.TempDir(), "found")
	if err := os.WriteFile(file, program(jobs, machines), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("cbc", file, "ratio", fmt.Sprint(proof), "timeMode", "cpu", "sec", fmt.Sprint(*allows), "solve", "solution", found).CombinedOutput()
	if err != nil {
		t.Fatalf("cbc: %v\n%s", err, out)
	}
	if impossible.Match(out) {
		return math.Inf(1), math.Inf(1), true
	}
	number := func(pattern string) (float64, bool) {
		m := regexp.MustCompile(pattern).FindSubmatch(out)
		if m == nil {
			return 0, false
		}
		x, err := strconv.ParseFloat(string(m[1]), 64)
		return x, err == nil
	}
	least, solved := number(`Objective value: +([-+.eE0-9]+)`)
	if !solved && !strings.Contains(string(out), "No feasible solution found") {
		t.Fatalf("cbc says neither a solution nor that there is none:\n%s", out)
	}
	if !solved {
		least = math.Inf(1)
	}
	switch {
	case strings.Contains(string(out), "Stopped on time"):
	case strings.Contains(string(out), "Result - Optimal solution found"):
		proven = true
	default:
		t.Fatalf("cbc says neither that it stopped nor that it is done:\n%s", out)
	}
	bound, ok := number(`Lower bound: +([-+.eE0-9]+)`)
	switch {
	case ok:
		bound -= 0.0005 // it is written with three digits
	case proven:
		bound = least * (1 - proof)
	default:
		t.Fatalf("cbc says no bound:\n%s", out)
	}
	if solved {
		least = exact(t, found, least, jobs, machines)
	}
	return least, bound, proven
}

// exact returns the cost of the assignment in a file that cbc wrote, with its variables
// rounded. It is infinite if a job is late then: cbc keeps constraints but for a tolerance.
func exact(t *testing.T, file string, said float64, jobs []Job, machines []Machines) float64 {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := found(string(src), jobs, machines)
	if err != nil {
		t.Fatalf("%v:\n%s", err, src)
	}
	usd, err := price(jobs, machines, runs)
	if err != nil {
		t.Logf("cbc's solution of %v, rounded to an assignment, is none and is not compared: %v", said, err)
		return math.Inf(1)
	}
	if math.Abs(usd-said) > 1e-6*usd {
		t.Logf("cbc's solution of %v costs %v as an assignment", said, usd)
	}
	return usd
}

// The assignment of a solution has the jobs that are on a machine in the order of their deadlines.
func TestFound(t *testing.T) {
	machines := []Machines{{Name: "here", Count: 1, Hourly: 1}, {Name: "there", Count: 2, Hourly: 36, Start: 10}}
	jobs := []Job{
		{Deadline: 100, Seconds: []float64{40, 20}, Extra: []float64{0, 0.5}},
		{Deadline: 50, Seconds: []float64{30, 10}, Extra: []float64{0, 0}},
		{Deadline: 100, Seconds: []float64{60, 30}, Extra: []float64{0, 0}},
	}
	const head = "Optimal - objective value 1.2\n"
	runs, err := found(head+"  0 y_0 1 0\n  1 x_2_0 0.9999999 0.1\n  2 x_0_0 1e-07 0\n  3 x_0_2 1 0.7\n  4 x_1_2 1 0\n", jobs, machines)
	want := []Run{{Job: 0, Machines: 1, Unit: 1, Begin: 20, End: 40}, {Job: 1, Machines: 1, Unit: 1, Begin: 10, End: 20}, {Job: 2, End: 60}}
	if err != nil || !slices.Equal(runs, want) {
		t.Errorf("%+v, %v", runs, err)
	}
	if usd, err := price(jobs, machines, runs); err != nil || math.Abs(usd-(0.4+0.5+60.0/3600)) > 1e-12 {
		t.Errorf("cost %v, %v", usd, err)
	}
	for lines, want := range map[string]string{
		"":                                "job 0 has 0 machines",
		"1 x_0_0 1 0\n2 x_0_1 1 0":        "job 0 has 2 machines",
		"1 x_3_0 1 0":                     "x_3_0",
		"1 x_0_3 1 0":                     "x_0_3",
		"1 x_0_0 much 0":                  "much",
		"1 x_0_0 1 0\n2 x_1_0 1 0\n3 x_2": "x_2",
	} {
		if _, err := found(head+lines, jobs, machines); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", lines, err, want)
		}
	}
}

// found reads the assignment from a solution that cbc wrote: a line for each variable that is
// not 0, with a number, its name and its value.
func found(solution string, jobs []Job, machines []Machines) ([]Run, error) {
	units := unitsOf(machines)
	on := make([][]int, len(units))
	places := make([]int, len(jobs))
	_, lines, _ := strings.Cut(solution, "\n")
	for line := range strings.Lines(lines) {
		f := strings.Fields(strings.TrimPrefix(line, "**")) // of a variable that is beyond its bounds
		if len(f) > 1 && strings.HasPrefix(f[1], "y_") {
			continue
		}
		var j, i int
		if len(f) < 3 {
			return nil, fmt.Errorf("a line of cbc's solution is %q", line)
		}
		if _, err := fmt.Sscanf(f[1], "x_%d_%d", &j, &i); err != nil || j < 0 || j >= len(jobs) || i < 0 || i >= len(units) {
			return nil, fmt.Errorf("cbc's solution has a variable %s", f[1])
		}
		x, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return nil, err
		}
		if x > 0.5 {
			on[i] = append(on[i], j)
			places[j]++
		}
	}
	for j, n := range places {
		if n != 1 {
			return nil, fmt.Errorf("job %d has %d machines in cbc's solution", j, n)
		}
	}
	runs := make([]Run, len(jobs))
	for i, u := range units {
		slices.SortStableFunc(on[i], func(a, b int) int { return cmp.Compare(jobs[a].Deadline, jobs[b].Deadline) })
		at := machines[u.k].Start
		for _, j := range on[i] {
			end := at + jobs[j].Seconds[u.k]
			runs[j] = Run{Job: j, Machines: u.k, Unit: u.u, Begin: at, End: end}
			at = end
		}
	}
	return runs, nil
}

// numbered is the machine u of the kind k.
type numbered struct{ k, u int }

// unitsOf returns all machines in the order in which program numbers them.
func unitsOf(machines []Machines) []numbered {
	var units []numbered
	for k, m := range machines {
		for u := range m.Count {
			units = append(units, numbered{k, u})
		}
	}
	return units
}

// program writes the assignment as an integer program in the LP format: x_j_b says that
// job j is on machine b, y_b that machine b is started. Jobs on a machine run by their
// deadlines, so those due by each deadline must be done by then together.
func program(jobs []Job, machines []Machines) []byte {
	units := unitsOf(machines)
	var dues []float64
	for _, j := range jobs {
		dues = append(dues, j.Deadline)
	}
	slices.Sort(dues)
	dues = slices.Compact(dues)
	var b strings.Builder
	b.WriteString("Minimize\n cost:")
	for i, u := range units {
		m := machines[u.k]
		fmt.Fprintf(&b, "\n + %.12g y_%d", m.Start*m.Hourly/3600, i)
		for j := range jobs {
			if t := jobs[j].Seconds[u.k]; t > 0 {
				fmt.Fprintf(&b, "\n + %.12g x_%d_%d", t*m.Hourly/3600+jobs[j].Extra[u.k], j, i)
			}
		}
	}
	b.WriteString("\nSubject To\n")
	for j := range jobs {
		fmt.Fprintf(&b, " once_%d:", j)
		for i, u := range units {
			if jobs[j].Seconds[u.k] > 0 {
				fmt.Fprintf(&b, "\n + x_%d_%d", j, i)
			}
		}
		b.WriteString(" = 1\n")
	}
	for i, u := range units {
		for d, due := range dues {
			line := ""
			for j := range jobs {
				if t := jobs[j].Seconds[u.k]; t > 0 && jobs[j].Deadline <= due {
					line += fmt.Sprintf("\n + %.12g x_%d_%d", t, j, i)
				}
			}
			if line != "" {
				fmt.Fprintf(&b, " due_%d_%d:%s - %.12g y_%d <= 0\n", i, d, line, max(due-machines[u.k].Start, 0), i)
			}
		}
		if u.u > 0 { // equal machines are started in their order
			fmt.Fprintf(&b, " turn_%d: y_%d - y_%d >= 0\n", i, i-1, i)
		}
	}
	b.WriteString("Binary\n")
	for i, u := range units {
		fmt.Fprintf(&b, " y_%d\n", i)
		for j := range jobs {
			if jobs[j].Seconds[u.k] > 0 {
				fmt.Fprintf(&b, " x_%d_%d\n", j, i)
			}
		}
	}
	b.WriteString("End\n")
	return []byte(b.String())
}
