package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/workload/protein"
)

// foldArgs are those of a short folding.
func foldArgs(more ...string) []string {
	return append([]string{"run", "fold", "--steps", "3000", "--frame", "500", "--replicas", "10", "--devices", "cpu/2", "--calibrate", "off", "--cache-dir", "off"}, more...)
}

// A folding reports its replicas, and writes a trajectory that can be read.
func TestFold(t *testing.T) {
	dir := t.TempDir()
	traj := filepath.Join(dir, "traj.pdb")
	out := works(t, foldArgs("--out", traj)...)
	for _, want := range []string{"fold 1CRN, 46 residues, 89 contacts, 10 replicas of 3000 steps at temperature 0.7 on 2 devices, class R", "Folded: 0 of 10 replicas", "agree with an independent reference", "it predicts none", "Written: " + traj} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if s, err := protein.Open(traj, protein.Select{Model: 6}); err != nil || s.Len() != 46 {
		t.Errorf("the trajectory: %v, %v", s, err)
	}
	var rep foldReport
	if err := json.Unmarshal([]byte(works(t, foldArgs("--json", "--temperature", "0.6-1.1", "--frame", "100", "--structure", "BPTI", "--out", filepath.Join(dir, "t.dcd"))...)), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Replicas) != 10 || rep.Acceptance == nil || rep.Heat == nil || !rep.Checked || rep.Steps <= 0 || rep.Best == nil {
		t.Errorf("%+v", rep)
	}
	if info, err := os.Stat(filepath.Join(dir, "t.dcd")); err != nil || info.Size() != 92+92+12+30*3*(8+4*58) {
		t.Errorf("the file has %v bytes, %v", info.Size(), err)
	}
}

// A folding that was kept is not computed again.
func TestFoldKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	if out := works(t, foldArgs("--checkpoint", dir)...); !strings.Contains(out, "1 checkpoint in "+dir) {
		t.Errorf("%s", out)
	}
	if out := works(t, foldArgs("--checkpoint", dir, "--resume")...); !strings.Contains(out, "Nothing was left to compute") || !strings.Contains(out, "agree with an independent reference") || strings.Contains(out, "Rate:") {
		t.Errorf("%s", out)
	}
	if code, _, err := runWeft(foldArgs("--checkpoint", dir, "--resume", "--seed", "9")...); code != exitUsage || !strings.Contains(err, "seed") {
		t.Errorf("status %d, %s", code, err)
	}
}

// Mistakes are told in one line that says what to do.
func TestFoldMistakes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"shipped structures are 1CRN", []string{"--structure", "nothing.pdb"}},
		{"no C-alpha atom", []string{"--structure", file("foreign.txt", "hello\n")}},
		{"ends before its coordinates", []string{"--structure", file("cut.pdb", "ATOM      1  CA  ALA A   1      11.1")}},
		{"the file has chains A", []string{"--chain", "Z"}},
		{"no model 3", []string{"--model", "3"}},
		{"as in 0.6-1.1", []string{"--temperature", "warm"}},
		{"they must grow", []string{"--temperature", "1.1-0.6"}},
		{"give 1 or more", []string{"--steps", "0"}},
		{"there must be 1 to", []string{"--replicas", "-3"}},
		{"name two files", []string{"--out", filepath.Join(dir, "t.dcd"), "--html", filepath.Join(dir, "t.dcd")}},
		{".pdb, .dcd, .xtc", []string{"--out", filepath.Join(dir, "t.xyz")}},
	} {
		if code, _, err := runWeft(foldArgs(c.args...)...); code != exitUsage || !strings.Contains(err, c.want) {
			t.Errorf("%v: status %d, %s", c.args, code, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "t.xyz")); err == nil {
		t.Error("a file was made")
	}
}
