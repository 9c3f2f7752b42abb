package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/cmd/weft/internal/plan"
)

// planned runs weft plan for a small product on a described machine, at a fixed day.
func planned(t *testing.T, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	args = append([]string{"plan", "gemm", "--n", "512", "--here", "rtx4060", "--date", "2026-11-18"}, args...)
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// What a rented machine is sent and sends back does not depend on the machine here. A proof's
// graph as cut for cores has sums as outputs that are yet to be added.
func TestPlanTransfers(t *testing.T) {
	var needs [2]plan.Need
	for i, here := range []string{"2xcpu", "none"} {
		var out, errs bytes.Buffer
		var d plan.Decision
		args := []string{"plan", "zk", "--constraints", "5000", "--here", here, "--date", "2026-11-18", "--json"}
		if status := run(t.Context(), args, &out, &errs); status != exitOK || json.Unmarshal(out.Bytes(), &d) != nil {
			t.Fatalf("%s: status %d: %s", here, status, &errs)
		}
		needs[i] = d.Need
	}
	if a, b := needs[0], needs[1]; a.Upload != b.Upload || a.Download != b.Download || a.Download <= 0 {
		t.Errorf("uploads %g and %g, downloads %g and %g", a.Upload, b.Upload, a.Download, b.Download)
	}
}

func TestPlan(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "front.svg")
	status, out, errs := planned(t, "--runs", "2000000", "--deadline", "3h", "--svg", svg, "--explain")
	if status != exitOK {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, want := range []string{"cheapest within 3 h", "\n1. ", "\n2. ", "why the others lost:\n2. ", "in time", "assumptions (--assume", "stale prices", "considered of", "optimisation: prepared once", "batch: 8 runs at a time", "115 W stated of cuda:0"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if status, _, errs := planned(t, "--svg", svg, "--plans", svg); status != exitUsage || !strings.Contains(errs, "which the command uses: name another file") {
		t.Errorf("a picture in place of records: status %d, %s", status, errs)
	}
	if b, err := os.ReadFile(svg); err != nil || !bytes.HasPrefix(b, []byte("<svg")) {
		t.Errorf("%.20s, %v", b, err)
	}
	status, out, errs = planned(t, "--runs", "2000000", "--budget", "20", "--json")
	var d plan.Decision
	if status != exitOK || json.Unmarshal([]byte(out), &d) != nil || d.Objective != plan.Fastest || d.Best.InBudget < 0.9 || len(d.Lost) != 5 {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

// Jobs whose graph depends on the devices are planned, a proof without keys, and one of very many tasks without
// simulating these on every machine.
func TestPlanPlaced(t *testing.T) {
	for _, args := range [][]string{
		{"fisher", "--points", "1000"}, {"tropical-net", "--batch", "64"}, {"zk", "--constraints", "400"}, {"elastic", "--explain"},
	} {
		var out, errs bytes.Buffer
		args = append(append([]string{"plan"}, args...), "--here", "rtx4060", "--date", "2026-11-18")
		if status := run(t.Context(), args, &out, &errs); status != exitOK || !strings.Contains(out.String(), "cheapest: ") {
			t.Errorf("%s: status %d: %s%s", args, status, out.String(), errs.String())
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.csv")
	if err := os.WriteFile(broken, []byte("cloud,instance_type,gpu,gpu_count,usd_per_hour_ondemand,price_date\nours,rack,H100-SXM,12,3,2026-11-01\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"--runs", "1000000000", "--deadline", "1m"}, exitNothingFits, "the deadline of 1m00s is too early"},
		{[]string{"--runs", "1000000000", "--budget", "0.001"}, exitNothingFits, "the budget of $0.001 is too small"},
		{[]string{"--here", "none", "--local"}, exitNothingFits, "nothing to rent"},
		{[]string{"--deadline", "soon"}, exitUsage, "--deadline soon"},
		{[]string{"--deadline", "0s"}, exitUsage, "later than now"},
		{[]string{"--budget", "-1"}, exitUsage, "--budget -1: expected US dollars that are not negative"},
		{[]string{"--budget", "NaN"}, exitUsage, "--budget NaN: it must be a number"},
		{[]string{"--budget", "+Inf"}, exitUsage, "--budget +Inf: it must be a number"},
		{[]string{"--deadline", "-1h"}, exitUsage, "bad duration"},
		{[]string{"--deadline", "1ms"}, exitNothingFits, "possible is"},
		{[]string{"--assume", "energy=NaN"}, exitUsage, "assumption energy=NaN: expected 0 $/kWh to 100 $/kWh"},
		{[]string{"--here", "rtx4061"}, exitUsage, "no such machine; did you mean rtx4060?"},
		{[]string{"--runs", "0"}, exitUsage, "run at least once"},
		{[]string{"--objective", "fast"}, exitUsage, "objective"},
		{[]string{"--date", "today"}, exitUsage, "expected a day"},
		{[]string{"--assume", "energy"}, exitUsage, "expected a name and a value"},
		{[]string{"--assume", "uplnk=1GB/s"}, exitUsage, "did you mean uplink?"},
		{[]string{"--offers", filepath.Join(dir, "none.csv")}, exitUsage, "no such file of offers"},
		{[]string{"--offers", broken}, exitUsage, "broken.csv:2: gpu_count: no machine has 12 H100-SXM; expected 1, 2, 4, 8 or 16"},
	}
	for row, want := range map[string]string{
		"ours,rack,H100-SMX,8,3,2026-11-01":    `row.csv:2: gpu: unknown GPU "H100-SMX"; did you mean H100-SXM?`,
		"ours,rack,RTX4060,1,3,2026-11-01":     `did you mean RTX-4060?`,
		"ours,rack,H100-SXM,8,-3,2026-11-01":   `row.csv:2: usd_per_hour_ondemand: "-3"; expected a number from`,
		"ours,rack,H100-SXM,8,NaN,2026-11-01":  `row.csv:2: usd_per_hour_ondemand: "NaN"`,
		"ours,rack,H100-SXM,8":                 "row.csv:2: 4 fields, expected 6",
		"ours,rack,H100-SXM,8,3,2026-11-01\n,": "row.csv:3: 2 fields, expected 6",
	} {
		file := filepath.Join(dir, "row.csv")
		if err := os.WriteFile(file, []byte("cloud,instance_type,gpu,gpu_count,usd_per_hour_ondemand,price_date\n"+row+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if status, _, errs := planned(t, "--offers", file); status != exitUsage || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: status %d: %s", row, status, errs)
		}
	}
	var out, said bytes.Buffer
	if status := run(t.Context(), []string{"plan", "reservoir", "--strategy", "eager", "--here", "rtx4060"}, &out, &said); status != exitUsage || !strings.Contains(said.String(), "it cannot be planned") {
		t.Errorf("a job with state: status %d: %s", status, said.String())
	}
	for _, c := range cases {
		status, _, errs := planned(t, c.args...)
		if status != c.status || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: status %d: %s", c.args, status, errs)
		}
	}
}

// A user's own prices are planned with.
func TestPlanOffers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ours.csv")
	if err := os.WriteFile(file, []byte("cloud,instance_type,gpu,gpu_count,usd_per_hour_ondemand,price_date\nours,rack,H200-SXM,8,0.01,2026-11-01\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := planned(t, "--runs", "2000000", "--deadline", "3h", "--offers", file)
	if status != exitOK || !strings.Contains(out, "ours rack") {
		t.Errorf("status %d: %s%s", status, out, errs)
	}
}

// A plan is kept, what happened is told, and the next plan is corrected by it.
func TestPlanRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plans.jsonl")
	plans := func() plan.Decision {
		t.Helper()
		status, out, errs := planned(t, "--runs", "1000", "--local", "--plans", file, "--json")
		var d plan.Decision
		if status != exitOK || json.Unmarshal([]byte(out), &d) != nil {
			t.Fatalf("status %d: %s%s", status, out, errs)
		}
		return d
	}
	tell := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		status := run(t.Context(), append([]string{"plan", "done"}, args...), &out, &errs)
		return status, out.String() + errs.String()
	}
	first := plans()
	// The same request is answered from the record, and another is not.
	if again := plans(); !again.Again || first.Again || again.Key != first.Key || again.Best.Seconds != first.Best.Seconds {
		t.Errorf("the same request: %t after %t, key %s after %s", again.Again, first.Again, again.Key, first.Key)
	}
	if _, out, _ := planned(t, "--runs", "1000", "--local", "--plans", file); !strings.Contains(out, "decided before; this is the plan of 2026-11-18") {
		t.Errorf("it is not said:\n%s", out)
	}
	if records, err := loadRecords(file); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v", len(records), err)
	}
	if status, out := tell(file, "--took", "1h"); status != exitOK || !strings.Contains(out, "0 of 1 plan ") {
		t.Fatalf("status %d: %s", status, out)
	}
	if second := plans(); second.Again || second.Best.Seconds < 2*first.Best.Seconds || !strings.Contains(second.Best.Estimate.Why, "corrected by") {
		t.Errorf("predicted %v s, then after an hour %v s: %s", first.Best.Seconds, second.Best.Seconds, second.Best.Estimate.Why)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{file}, "expected how long it took"},
		{[]string{file, "--took", "x"}, "expected how long it took"},
		{[]string{file + "x", "--took", "1h"}, "no such file"},
		{nil, "needs the file of records"},
	} {
		if status, out := tell(c.args...); status != exitUsage || !strings.Contains(out, c.want) {
			t.Errorf("%v: status %d: %s", c.args, status, out)
		}
	}
	tell(file, "--took", "1h")
	if status, out := tell(file, "--took", "1h"); status != exitUsage || !strings.Contains(out, "of every plan in it is said") {
		t.Errorf("status %d: %s", status, out)
	}
}
