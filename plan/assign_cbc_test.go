//go:build cbc

package plan

import (
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
	"testing"
)

var (
	byCBC  = flag.Int("cbc", 6, "random instances that TestAssignCBC tries")
	allows = flag.Int("seconds", 30, "how long cbc may take for one of them")
)

// proof is the relative gap at which cbc may stop. Costs are compared with its lower
// bound, so that this counts against Assign.
const proof = 0.002

// TestAssignCBC compares assignments of up to 60 jobs with the lower bound of COIN-OR's
// solver of integer programs. An instance that it does not prove within its time is
// compared with the bound it had, and listed.
func TestAssignCBC(t *testing.T) {
	if _, err := exec.LookPath("cbc"); err != nil {
		t.Fatal("there is no cbc; install the package coinor-cbc")
	}
	worst, unproven := 0.0, 0
	for seed := range *byCBC {
		rng := rand.New(rand.NewPCG(uint64(seed), 2))
		n := 8 + rng.IntN(53)
		if seed == 0 {
			n = 60
		}
		jobs, machines := shared(rng, n, 1+rng.IntN(3), 1+rng.IntN(3), 3)
		machines[len(machines)-1].Count = 3 + n/8
		least, bound, proven := solve(t, jobs, machines)
		if !proven {
			unproven++
			a, err := Assign(jobs, machines)
			if err != nil {
				if !math.IsInf(least, 1) {
					t.Errorf("seed %d: %v, cbc has a solution of %v", seed, err, least)
				}
				continue
			}
			t.Logf("seed %d, %d jobs: no proof in %d s; cost %.4f, cbc %.4f, its bound %.4f (%.2f %%)", seed, n, *allows, a.Cost, least, bound, 100*(a.Cost/bound-1))
			continue
		}
		gap := gapTo(t, seed, jobs, machines, bound)
		if gap > 0.01 {
			t.Logf("seed %d, %d jobs: %.2f %%", seed, n, 100*gap)
		}
		worst = max(worst, gap)
	}
	t.Logf("worst gap %.2f %% of %d instances that cbc proved; %d without a proof", 100*worst, *byCBC-unproven, unproven)
	if worst > 0.05 {
		t.Errorf("worst gap %.2f %%", 100*worst)
	}
}

// solve has cbc minimise the cost. bound is a cost that no assignment is below; it is
// infinite if there is no assignment.
func solve(t *testing.T, jobs []Job, machines []Machines) (least, bound float64, proven bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "assign.lp")
	if err := os.WriteFile(file, program(jobs, machines), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("cbc", file, "timeMode", "elapsed", "ratio", fmt.Sprint(proof), "sec", fmt.Sprint(*allows), "solve").CombinedOutput()
	if err != nil {
		t.Fatalf("cbc: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "infeasible") {
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
	if !ok && proven {
		bound, ok = least, true
	}
	if !ok {
		t.Fatalf("cbc says no bound:\n%s", out)
	}
	return least, bound, proven
}

// program writes the assignment as an integer program in the LP format: x_j_b says that
// job j is on machine b, y_b that machine b is started. Jobs on a machine run by their
// deadlines, so those due by each deadline must be done by then together.
func program(jobs []Job, machines []Machines) []byte {
	type unit struct {
		k     int
		first bool
	}
	var units []unit
	for k, m := range machines {
		for u := range m.Count {
			units = append(units, unit{k, u == 0})
		}
	}
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
		if !u.first { // equal machines are started in their order
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
