package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft/cmd/weft/internal/plan"
)

// foldPlanned runs weft plan fold at a fixed day.
func foldPlanned(t *testing.T, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(t.Context(), append([]string{"plan", "fold", "--date", "2026-11-18"}, args...), &out, &errs)
	return status, out.String(), errs.String()
}

// foldDecision is a plan with what it says of the protein.
type foldDecision struct {
	plan.Decision
	Protein *plan.ProteinPlan `json:"protein"`
}

// A plan of a folding has the operations of its graphs, counted by hand here, and the expected
// accuracy.
func TestPlanFold(t *testing.T) {
	status, out, errs := foldPlanned(t, "--structure", "BPTI", "--here", "rtx4060", "--local", "--json")
	var d foldDecision
	if status != exitOK || json.Unmarshal([]byte(out), &d) != nil {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	// 58 beads, 143 contacts, 12 pairs of each bead, and 180 operations for its noise.
	want := 64 * 1e6 * (60*58 + 40*143 + 25*12*58 + 180*58.)
	if n := d.Need; math.Abs(n.Flops/want-1) > 1e-9 || n.Runs != 1000 || n.Serial != 1e6 || n.State < 64*48*58 {
		t.Errorf("%+v; want %v operations", n, want)
	}
	if p := d.Protein; p == nil || p.Class != "small" || !p.Accuracy.Known || p.Accuracy.RMSD != 1.5 || p.Accuracy.Best < 0.99 || len(p.Estimates) != 2 || !p.Fits {
		t.Errorf("%+v", p)
	}
	status, out, errs = foldPlanned(t, "--residues", "951", "--here", "rtx4060", "--local", "--runs", "3")
	if status != exitOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, want := range []string{"fold helix, 951 residues", ", 3 runs", "class large", "not known: the longest chain", "energy landscape would take another", "1.656 GB if all"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	checkWidth(t, out)
}

func checkWidth(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// All size classes are planned on both machines.
func TestPlanFoldClasses(t *testing.T) {
	status, out, errs := foldPlanned(t, "--classes", "--json")
	var all []classPlan
	if status != exitOK || json.Unmarshal([]byte(out), &all) != nil || len(all) != 8 {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	classes := map[string]int{}
	for _, x := range all {
		classes[x.Plan.Class]++
		if x.Machine == "rtx4060" && (!x.Plan.Fits || !(x.Low < x.Seconds && x.Seconds < x.High)) {
			t.Errorf("%+v", x)
		}
		if !x.Plan.Fits && x.Plan.Why == "" {
			t.Errorf("%s on %s does not fit, and why is not said", x.Chain, x.Machine)
		}
	}
	if len(classes) != 4 {
		t.Errorf("classes %v", classes)
	}
	status, out, errs = foldPlanned(t, "--classes")
	if status != exitOK || !strings.Contains(out, "\n8xh100\n") || !strings.Contains(out, "4JSV (helix)") || !strings.Contains(out, "RMSD below 1.5") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
	checkWidth(t, out)
}

func TestPlanFoldRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--residues", "3"}, "--residues 3: there must be 5 or more"},
		{[]string{"--residues", "50", "--structure", "BPTI"}, "leave --structure"},
		{[]string{"--structure", "none.pdb"}, "none.pdb"},
		{[]string{"--replicas", "0"}, "give 1 or more"},
		{[]string{"--temperature", "warm"}, "--temperature warm"},
		{[]string{"--structures", "pdb"}, "goes with --classes"},
		{[]string{"--classes", "--here", "8xh10"}, "no such machine; did you mean 8xh100?"},
	} {
		status, _, errs := foldPlanned(t, c.args...)
		if status != exitUsage || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d: %s", c.args, status, errs)
		}
	}
}

// On this machine a job is tried, unless that is not wanted, and the plan says so. Trials of workloads
// may end without a result where a machine has no time for them; those of a folding do not.
func TestPlanTries(t *testing.T) {
	for _, job := range [][]string{
		{"clifford", "--count", "3000"}, {"phase", "--residues", "32"}, {"elastic", "--structure", "1CRN"},
		{"fold", "--steps", "200", "--frame", "20", "--replicas", "8"},
	} {
		for _, try := range []bool{true, false} {
			var out, errs bytes.Buffer
			var d plan.Decision
			status := run(t.Context(), append(append([]string{"plan"}, job...), "--local", "--json", fmt.Sprintf("--try=%t", try)), &out, &errs)
			if status != exitOK || json.Unmarshal(out.Bytes(), &d) != nil {
				t.Fatalf("%v: status %d: %s", job, status, errs.String())
			}
			e := d.Best.Estimate
			said := "nothing was measured"
			if e.Measured {
				said = "tried here"
			}
			if !strings.Contains(e.Why, said) || e.Measured && !try || !e.Measured && try && job[0] == "fold" || !(e.Low < e.Median && e.Median < e.High) {
				t.Errorf("%v, tried: %t: %+v", job, try, e)
			}
		}
	}
}
