package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/workload/protein"
	"github.com/weft-run/weft/workload/protein/fold"
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

// The temperatures of a tuned ladder are reported, with the shares of exchanges between neighbours.
func TestFoldTuned(t *testing.T) {
	args := foldArgs("--temperature", "0.6-1.1", "--steps", "3200", "--frame", "50", "--spacing", "tuned")
	if out := works(t, args...); !strings.Contains(out, " by neighbours.\nThe ladder was tuned in the first 1600 steps: [0.600 ") {
		t.Errorf("%s", out)
	}
	var rep foldReport
	if err := json.Unmarshal([]byte(works(t, append(args, "--json")...)), &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep.Ladder) != 10 || len(rep.ByPair) != 9 || rep.Tuned != 1600 || rep.Ladder[9] != 1.1 || !rep.Checked {
		t.Errorf("%+v", rep)
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

// helixPDB is the text of a helix of some residues in the PDB format.
func helixPDB(n int) string {
	var b strings.Builder
	for i, r := range protein.Helix(n).Residues {
		fmt.Fprintf(&b, "ATOM  %5d  CA  ALA A%4d    %8.3f%8.3f%8.3f  1.00  0.00           C\n", i+1, i+1, r.X, r.Y, r.Z)
	}
	return b.String()
}

// A chain that is too long for the PDB format is refused before it is folded, and the report of
// a run is there although its trajectory could not be written.
func TestFoldUnwritten(t *testing.T) {
	dir := t.TempDir()
	long, out := filepath.Join(dir, "long.pdb"), filepath.Join(dir, "out.pdb")
	if err := os.WriteFile(long, []byte(helixPDB(560)), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--structure", long, "--steps", "2", "--frame", "2", "--replicas", "1", "--check=false", "--out"}
	if code, text, err := runWeft(foldArgs(append(args, out)...)...); code != exitUsage || !strings.Contains(err, "name a file that ends in .dcd") || text != "" {
		t.Errorf("status %d, %s%s", code, text, err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was made")
	}
	works(t, foldArgs(append(args, filepath.Join(dir, "out.dcd"))...)...)
	if runtime.GOOS != "linux" { // no other has a file that is always full
		return
	}
	full := filepath.Join(dir, "full.dcd")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	if code, text, err := runWeft(foldArgs("--out", full)...); code != exitFailure || !strings.Contains(text, "Folded: 0 of 10 replicas") || strings.Contains(text, "Written") || !strings.Contains(err, full+": ") {
		t.Errorf("status %d, %s%s", code, text, err)
	}
}

// The best frame so far is that of all rounds, however many are seen at once.
func TestFoldSoFar(t *testing.T) {
	r, err := fold.New(fold.Config{Steps: 60, Every: 10, Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/1", NoCalibrate: true, CacheDir: "off", Funcs: fold.Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	if err := r.Do(t.Context(), rt, nil); err != nil {
		t.Fatal(err)
	}
	var s soFar
	for _, c := range []struct{ rounds, fresh int }{{3, 3}, {4, 1}, {4, 0}, {6, 2}} {
		if n := s.look(r, c.rounds); n != c.fresh || s.best != r.Best(c.rounds) {
			t.Errorf("after %d rounds %d are new, best %+v, want %+v", c.rounds, n, s.best, r.Best(c.rounds))
		}
	}
}

// A folding tells what its check may have missed and what --verify found.
func TestFoldVerified(t *testing.T) {
	out := works(t, foldArgs("--verify", "1")...)
	for _, want := range []string{
		"\nVerified: two devices agreed on the results of ", "  The chance that a wrong replica in the last 500 steps goes unseen is ", "  The chance that a wrong step before them goes unseen is ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var rep foldReport
	if err := json.Unmarshal([]byte(works(t, foldArgs("--verify", "1", "--json")...)), &rep); err != nil {
		t.Fatal(err)
	}
	if rep.Verified == nil || rep.Verified.Tasks == 0 || rep.Verified.Wrong == nil || rep.Done != 6 || rep.Frames != 6 {
		t.Errorf("%+v", rep)
	}
	if out := works(t, foldArgs("--check=false")...); strings.Contains(out, "erified") || strings.Contains(out, "unseen") {
		t.Errorf("%s", out)
	}
}

// A folding that is interrupted tells how far it came, kept or not.
func TestFoldInterrupted(t *testing.T) {
	for kept, want := range map[string]string{"": "Nothing is kept; --checkpoint DIR", filepath.Join(t.TempDir(), "kept"): " of 5000 frames; the same command with --resume"} {
		args := foldArgs("--steps", "10000000", "--frame", "2000", "--replicas", "1")
		if kept != "" {
			args = append(args, "--checkpoint", kept, "--every", "1ms", "--resume-if-any")
		}
		for delay := 50 * time.Millisecond; ; delay *= 2 { // until it is long enough for a frame
			ctx, stop := context.WithCancel(t.Context())
			var stdout, stderr bytes.Buffer
			timer := time.AfterFunc(delay, stop)
			code := run(ctx, args, &stdout, &stderr)
			timer.Stop()
			stop()
			if code != exitInterrupted || besidesSlowness(stderr.String()) != "weft: interrupted\n" {
				t.Fatalf("status %d, %q", code, stderr.String())
			}
			if out := stdout.String(); strings.Contains(out, "Best so far: RMSD ") {
				if !strings.Contains(out, want) || !strings.Contains(out, " of 5000 frames.\n") || strings.Contains(out, "after 0 of") {
					t.Errorf("%s", out)
				}
				break
			}
		}
	}
}

// Several structures fold at once, with the results that each has alone, in files of their own, and are
// resumed together.
func TestFoldSeveral(t *testing.T) {
	dir := t.TempDir()
	kept, traj, page := filepath.Join(dir, "kept"), filepath.Join(dir, "traj.dcd"), filepath.Join(dir, "page.html")
	args := []string{"--temperature", "0.6-1.1", "--steps", "1000", "--frame", "100"}
	var all foldReports
	if err := json.Unmarshal([]byte(works(t, foldArgs(append(args, "--structure", "1CRN,BPTI", "--json", "--checkpoint", kept, "--out", traj, "--html", page)...)...)), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Structures) != 2 || all.Steps <= 0 || all.Seconds <= 0 || all.Kept == nil || all.Kept.Done != 20 || all.Kept.Total != 20 {
		t.Fatalf("%+v", all)
	}
	for k, name := range []string{"1CRN", "BPTI"} {
		alone := filepath.Join(dir, "alone.dcd")
		works(t, foldArgs(append(args, "--structure", name, "--out", alone)...)...)
		one, err := os.ReadFile(alone)
		among, other := os.ReadFile(filepath.Join(dir, "traj-"+name+".dcd"))
		if err != nil || other != nil || !bytes.Equal(one, among) {
			t.Errorf("%s: %d and %d bytes, %v, %v", name, len(one), len(among), err, other)
		}
		if _, err := os.Stat(filepath.Join(dir, "page-"+name+".html")); err != nil {
			t.Error(err)
		}
		if rep := all.Structures[k]; !rep.Checked || rep.Steps != 0 || rep.Kept != nil || len(rep.Replicas) != 10 || len(rep.Files) != 2 || !strings.HasPrefix(rep.Job, "fold "+name) {
			t.Errorf("%+v", rep)
		}
	}
	out := works(t, foldArgs(append(args, "--structure", "1CRN,BPTI", "--checkpoint", kept, "--resume")...)...)
	for _, want := range []string{"fold 1CRN, 46 residues", "\n\nfold BPTI, 58 residues", "Nothing was left to compute", "it predicts none.\n"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("not one %q in\n%s", want, out)
		}
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"another computation", []string{"--structure", "BPTI,1CRN", "--checkpoint", kept, "--resume"}},
		{"structures is 1CRN,BPTI there", []string{"--structure", "1CRN", "--checkpoint", kept, "--resume"}},
		{"--split-chain with 2 structures", []string{"--structure", "BPTI,1CRN", "--replicas", "1", "--temperature", "0.7", "--split-chain"}},
		{"traj-1CRN.dcd", []string{"--structure", "1CRN,1CRN", "--out", traj}},
		{"--html - with 2 structures", []string{"--structure", "1CRN,BPTI", "--html", "-"}},
		{"--structure 1CRN,: name", []string{"--structure", "1CRN,"}},
	} {
		if code, _, err := runWeft(foldArgs(append(args, c.args...)...)...); code != exitUsage || !strings.Contains(err, c.want) {
			t.Errorf("%v: status %d, %s", c.args, code, err)
		}
	}
}

// Several structures that are interrupted tell how far each came, and go on from there.
func TestFoldSeveralInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kept")
	args := foldArgs("--structure", "1CRN,1UBI", "--steps", "2000000", "--frame", "1000", "--replicas", "8", "--checkpoint", dir, "--every", "1ms", "--resume-if-any")
	for delay := 50 * time.Millisecond; ; delay *= 2 { // until it is long enough for frames of both
		ctx, stop := context.WithCancel(t.Context())
		var stdout, stderr bytes.Buffer
		timer := time.AfterFunc(delay, stop)
		code := run(ctx, args, &stdout, &stderr)
		timer.Stop()
		stop()
		if code != exitInterrupted || besidesSlowness(stderr.String()) != "weft: interrupted\n" {
			t.Fatalf("status %d, %q", code, stderr.String())
		}
		out := stdout.String()
		if strings.Count(out, "Best so far: RMSD ") < 2 {
			continue
		}
		if strings.Count(out, " of 2000 frames.\n") != 2 || strings.Count(out, " of 4000 frames; the same command with --resume goes on from there.") != 1 {
			t.Errorf("%s", out)
		}
		return
	}
}

// Temperatures may be written with exponents.
func TestFoldNumbers(t *testing.T) {
	for text, want := range map[string][2]float64{
		"0.7": {0.7, 0.7}, "1e-3": {1e-3, 1e-3}, "0.6-1.1": {0.6, 1.1}, "1e-2-1": {0.01, 1}, "1e-2-5e-2": {0.01, 0.05}, "1E+0-2": {1, 2},
		"": {}, "-": {}, "-0.7": {}, "0": {}, "0.6-": {}, "0.6--1": {}, "-1-2": {}, "1-2-3": {}, "warm": {}, "nan": {}, "1-nan": {}, "0.6–1": {},
	} {
		low, high, ok := catalog.Ladder(text)
		if bad := want[0] == 0; ok == bad || ok && [2]float64{low, high} != want {
			t.Errorf("%q: %v, %v, %v", text, low, high, ok)
		}
	}
	if out := works(t, foldArgs("--temperature", "1e-3", "--steps", "500")...); !strings.Contains(out, "at temperature 0.001 on") {
		t.Errorf("%s", out)
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
	crambin, err := os.ReadFile("../../workload/protein/testdata/1crn.pdb")
	if err != nil {
		t.Fatal(err)
	}
	native := file("native.pdb", string(crambin))
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
		{"give geometric or tuned", []string{"--temperature", "0.6-1.1", "--spacing", "steep"}},
		{"two temperatures and 64 frames", []string{"--spacing", "tuned"}},
		{"give 1 or more", []string{"--steps", "0"}},
		{"there must be 1 to", []string{"--replicas", "-3"}},
		{"name another file", []string{"--out", filepath.Join(dir, "t.dcd"), "--html", filepath.Join(dir, "t.dcd")}},
		{"name another file", []string{"--out", filepath.Join(dir, "t.dcd"), "--html", dir + "/./t.dcd"}},
		{"which the command uses: name another file", []string{"--structure", native, "--out", native}},
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

// A trajectory that is split has the bytes of one that is not, and splitting it over one device is
// refused in words.
func TestFoldSplit(t *testing.T) {
	dir := t.TempDir()
	args := func(more ...string) []string {
		return append([]string{"run", "fold", "--steps", "300", "--frame", "100", "--replicas", "1", "--calibrate", "off", "--cache-dir", "off", "--check=false"}, more...)
	}
	var want []byte
	for _, more := range [][]string{{"--devices", "cpu"}, {"--devices", "cpu", "--split-chain=always"}, {"--devices", "cpu/2", "--split-chain=always"}} {
		file := filepath.Join(dir, "t.dcd")
		works(t, args(append(more, "--out", file)...)...)
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%v: other bytes", more)
		}
	}
	code, _, err := runWeft(args("--devices", "cpu", "--split-chain")...)
	if code != exitFailure || !strings.Contains(err, "one device to split over") || !strings.Contains(err, "--split-chain=always") {
		t.Errorf("status %d, %s", code, err)
	}
	if code, _, err := runWeft(args("--replicas", "2", "--split-chain")...); code != exitUsage || !strings.Contains(err, "there must be 1") {
		t.Errorf("status %d, %s", code, err)
	}
}

// A trajectory has the frames that were computed when a run is interrupted, and a run that goes on from its
// checkpoint, or without one from the start, ends it with the bytes of a run that was not, whatever the end of the file
// was made.
func TestFoldKeepsFrames(t *testing.T) {
	dir := t.TempDir()
	args := func(out string, more ...string) []string {
		return foldArgs(append([]string{"--steps", "20000", "--frame", "20", "--replicas", "8", "--check=false", "--out", out}, more...)...)
	}
	for _, ext := range []string{".dcd", ".pdb", ".xtc"} {
		whole, out, kept := filepath.Join(dir, "whole"+ext), filepath.Join(dir, "cut"+ext), filepath.Join(dir, "kept"+ext)
		if ext == ".dcd" {
			works(t, args(whole)...)
		} else {
			works(t, args(whole, "--checkpoint", filepath.Join(dir, "kept.dcd"), "--resume")...) // it is complete
		}
		want, err := os.ReadFile(whole)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var stdout, stderr bytes.Buffer
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			run(ctx, args(out, "--checkpoint", kept, "--every", "1ms"), &stdout, &stderr)
		}()
		frames := func() bool {
			info, err := os.Stat(out)
			return err == nil && info.Size() > 20_000
		}
		poll.True(t, ext+": 20,000 bytes are in the file", func() bool {
			select {
			case <-ended:
				if !frames() {
					t.Fatalf("%s: the run ended with less than 20,000 bytes in its file\n%s%s", ext, &stdout, &stderr)
				}
			default:
			}
			return frames()
		})
		stop()
		<-ended
		got, err := os.ReadFile(out)
		if err != nil || len(got) == 0 || !bytes.HasPrefix(want[12:], got[12:]) {
			t.Fatalf("%s: %d bytes of %d, %v\n%s%s", ext, len(got), len(want), err, &stdout, &stderr)
		}
		if len(got) < len(want) && !strings.Contains(stdout.String(), "Written, as far as it was computed: "+out) {
			t.Errorf("%s", &stdout)
		}
		for _, cut := range []int{len(got) - 7, 15_000} { // as a kill at any byte leaves it
			if err := os.WriteFile(out, got[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			works(t, args(out, "--checkpoint", kept, "--resume")...)
			if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s cut at %d: %d bytes, want %d, %v", ext, cut, len(got), len(want), err)
			}
		}
	}
}
