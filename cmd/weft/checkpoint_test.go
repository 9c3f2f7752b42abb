package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/checkpoint"
	"github.com/weft-run/weft/internal/checkpoint/disk"
	"github.com/weft-run/weft/internal/test/poll"
)

var (
	kills    = flag.Int("kills", 12, "how often TestKill kills a process")
	killSeed = flag.Uint64("kill-seed", 1, "what TestKill draws the moments from")
)

// killed are workloads that take about a second, with the data their results are in.
var killed = []struct {
	out  string
	args []string
}{
	{"end", []string{"automata", "--rows", "1024", "--cols", "1024", "--steps", "12000", "--k", "4"}},                                 // class X
	{"end", []string{"reservoir", "--neurons", "200", "--channels", "16", "--steps", "6000", "--batch", "128", "--split", "neurons"}}, // class R
	{"root", []string{"merkle", "--leaves", "2097152"}},
	{"end", []string{"reservoir", "--neurons", "800", "--steps", "900", "--batch", "64", "--split", "rows"}}, // says which device does what
	{"C", []string{"tropical", "--m", "2048", "--k", "4096", "--n", "1024"}},
	{"state", []string{"fold", "--steps", "40000", "--frame", "200", "--temperature", "0.6-1.1"}},
}

// keptBytes reads data of the newest checkpoint in a folder, which must be of a finished run.
func keptBytes(t *testing.T, dir, name string) []byte {
	t.Helper()
	f, err := disk.Open(dir, keptName, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, refused, err := checkpoint.Manifests(f)
	if err != nil || len(refused) > 0 || len(found) == 0 || !found[0].Finished {
		t.Fatalf("no finished checkpoint: %v, %v", refused, err)
	}
	var out []byte
	var names []string
	if err := checkpoint.Load(f, found[0], func(d *checkpoint.Data) []byte {
		names = append(names, d.Name)
		if d.Name != name {
			return nil
		}
		out = make([]byte, d.Bytes)
		return out
	}); err != nil {
		t.Fatal(err)
	}
	if out == nil {
		t.Fatalf("the result has no %q, but %q", name, names)
	}
	return out
}

// hasCheckpoint reports whether a folder has a checkpoint.
func hasCheckpoint(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, keptName, "checkpoint-*"))
	return len(found) > 0
}

// A process that is killed at random moments and resumed gives the bytes of one that was
// not. The moments follow from the seed and from how fast the machine is.
//
//	go test ./cmd/weft -run TestKill -kills 500 -kill-seed 7
func TestKill(t *testing.T) {
	r := rand.New(rand.NewPCG(*killSeed, 1))
	killed, kills := killed, *kills
	if testing.Short() { // the race detector makes computing ten times as slow
		killed, kills = slices.Clone(killed[:2]), kills/2
		for i, steps := range []string{"600", "250"} {
			killed[i].args = slices.Clone(killed[i].args)
			killed[i].args[slices.Index(killed[i].args, "--steps")+1] = steps
		}
	}
	ever := 0
	for i, w := range killed {
		start := func(devices, dir string, more ...string) (*exec.Cmd, *bytes.Buffer) {
			args := append([]string{"run"}, w.args...)
			args = append(args, "--devices", devices, "--calibrate", "off", "--cache-dir", "off", "--check=false", "--checkpoint", dir, "--every", "20ms")
			c := exec.CommandContext(t.Context(), os.Args[0], append(args, more...)...)
			c.Env = append(os.Environ(), "WEFT_TEST_MAIN=1")
			out := &bytes.Buffer{}
			c.Stdout, c.Stderr = out, out
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			return c, out
		}
		whole := filepath.Join(t.TempDir(), "whole")
		c, out := start("cpu/2", whole)
		began := time.Now()
		if err := c.Wait(); err != nil {
			t.Fatalf("%s: %v: %s", w.args[0], err, out)
		}
		took := time.Since(began)
		want := keptBytes(t, whole, w.out)
		dir, lives, resumed := filepath.Join(t.TempDir(), "killed"), 0, 0
		for left := (kills + i) / len(killed); ; {
			devices, more := "cpu/2", []string(nil)
			if hasCheckpoint(dir) {
				devices, more = fmt.Sprintf("cpu/%d", 2+r.IntN(2)), append(more, "--resume")
				resumed++
			}
			c, out := start(devices, dir, more...)
			lives++
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			var kill <-chan time.Time
			if left > 0 {
				kill = time.After(time.Duration(r.Float64() * 0.7 * float64(took)))
			}
			if kill != nil && resumed == 0 {
				poll.True(t, "there is something to resume, at least once", func() bool { return hasCheckpoint(dir) || len(ended) > 0 })
			}
			var err error
			select {
			case err = <-ended:
			case <-kill:
				left--
				_ = c.Process.Kill() // it may have ended
				if err = <-ended; err != nil && c.ProcessState.ExitCode() < 0 {
					continue
				}
			}
			if err != nil {
				t.Fatalf("%s, life %d: %v: %s", w.args[0], lives, err, out)
			}
			if !bytes.Equal(keptBytes(t, dir, w.out), want) {
				t.Fatalf("%s, seed %d: after %d lives the result is another", w.args[0], *killSeed, lives)
			}
			if left == 0 {
				break
			}
			dir = filepath.Join(t.TempDir(), "again")
		}
		ever += resumed
		t.Logf("%s, undisturbed in %v: %d lives, %d of them resumed", w.args[0], took.Round(time.Millisecond), lives, resumed)
	}
	// A run that is short may end before it is killed.
	if ever == 0 && kills >= len(killed) {
		t.Errorf("no life was resumed")
	}
}

// The report of a run that ended says how many checkpoints could not be written, why, and what there
// is in the folder.
func TestUnwrittenReport(t *testing.T) {
	for _, c := range []struct {
		r    keptReport
		want string
	}{
		{keptReport{Failed: 2, Why: "full", Total: 9}, "2 checkpoints could not be written: full.\nThere is none in the folder.\n"},
		{keptReport{Failed: 1, Why: "full", Total: 9, Done: 4, From: 4, Resumed: true}, "1 checkpoint could not be written: full.\nThe newest in the folder has 4 of 9 tasks.\n"},
		{keptReport{Dir: "d", Failed: 1, Why: "full", Total: 9, Done: 9, Written: 3}, "1 checkpoint could not be written: full.\nThe newest in the folder has 9 of 9 tasks.\n"},
		{keptReport{Dir: "d", Total: 9, Done: 9, Written: 1}, "for it.\n"},
	} {
		var b bytes.Buffer
		if c.r.text(&b, false); !strings.HasSuffix(b.String(), c.want) {
			t.Errorf("%+v: %s", c.r, &b)
		}
	}
}

// Mistakes about checkpoints are told in one line with status 2, and damage with status 1.
func TestCheckpointCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	base := []string{"run", "automata", "--rows", "64", "--cols", "64", "--steps", "40", "--devices", "cpu", "--calibrate", "off", "--cache-dir", "off"}
	with := func(more ...string) []string { return append(slices.Clone(base), more...) }
	if out := works(t, with("--checkpoint", dir, "--resume-if-any")...); !strings.Contains(out, "1 checkpoint in "+dir) || !strings.Contains(out, " for it.\n") {
		t.Errorf("%s", out)
	}
	for _, flag := range []string{"--resume", "--resume-if-any"} {
		out := works(t, with("--checkpoint", dir, flag)...)
		if !strings.Contains(out, "Nothing was left to compute") || !strings.Contains(out, "The result agrees") || strings.Contains(out, "Bottleneck") || strings.Contains(out, "took") {
			t.Errorf("%s: %s", flag, out)
		}
	}
	if out := works(t, with("--checkpoint", dir, "--resume", "--json")...); !strings.Contains(out, `"resumed": true`) {
		t.Errorf("%s", out)
	}
	refused := filepath.Join(t.TempDir(), "refused")
	for _, c := range []struct {
		status int
		says   string
		args   []string
	}{
		{2, "go with --checkpoint", with("--resume")},
		{2, "go with --checkpoint", with("--every", "5s")},
		{2, "--every 0s", with("--checkpoint", dir, "--every", "0s")},
		{2, "one run", with("--checkpoint", dir, "--repeat", "3")},
		{2, "nothing to resume", with("--checkpoint", filepath.Join(t.TempDir(), "none"), "--resume")},
		{2, "seed is 1 there and 2 here", with("--checkpoint", dir, "--resume", "--seed", "2")},
		{2, "go with --checkpoint", with("--resume-if-any")},
		{2, "tasks; remove it or name another folder to begin anew, or resume it with --resume\n", with("--checkpoint", dir)},
		{2, "cannot be kept", []string{"run", "reservoir", "--strategy", "eager", "--devices", "cpu", "--calibrate", "off", "--neurons", "10", "--batch", "4", "--steps", "2", "--checkpoint", refused}},
		{2, "takes one folder", []string{"checkpoint", "show"}},
		{2, "there are no checkpoints in it", []string{"checkpoint", "show", t.TempDir()}},
		{2, "name the folder it is in", []string{"checkpoint", "show", filepath.Join(dir, keptName)}},
		{2, "is no folder", []string{"checkpoint", "show", filepath.Join(dir, "lock")}},
		{2, "2 are given", []string{"checkpoint", "show", dir, dir}},
		{2, "name a folder", with("--checkpoint", "", "--every", "5s")},
		{2, "give one of them", with("--checkpoint", dir, "--resume", "--resume-if-any")},
		{2, "is no folder", with("--checkpoint", filepath.Join(dir, "lock"))},
		{2, "workload is automata there and merkle here, leaves is nothing there and 16 here", []string{"run", "merkle", "--leaves", "16", "--devices", "cpu", "--calibrate", "off", "--cache-dir", "off", "--checkpoint", dir, "--resume"}},
		{2, "no such folder", []string{"checkpoint", "show", filepath.Join(t.TempDir(), "gone")}},
	} {
		code, _, stderr := runWeft(c.args...)
		if code != c.status || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: status %d, %q; want %d and %q", c.args, code, stderr, c.status, c.says)
		}
	}
	if _, err := os.Stat(refused); err == nil {
		t.Error("a run that cannot be kept left a folder for its checkpoints")
	}
	out := works(t, "checkpoint", "show", dir)
	for _, want := range []string{"whole", "finished", "data end", "workload       automata"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, keptName, "data-*"))
	src, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	src[4100] ^= 1
	if err := os.WriteFile(files[0], src, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := runWeft("checkpoint", "show", dir); code != 1 || !strings.Contains(out, "damaged") || !strings.Contains(stderr, "checksum") {
		t.Errorf("damaged: status %d, %s, %s", code, out, stderr)
	}
	if code, _, stderr := runWeft(with("--checkpoint", dir, "--resume")...); code != 1 || !strings.Contains(stderr, "checksum") {
		t.Errorf("damaged: status %d, %s", code, stderr)
	}
}

// A graph of the user's that was interrupted goes on with --resume and writes its outputs.
func TestCheckpointGraph(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "c"), filepath.Join(t.TempDir(), "smooth.npy")
	blur := []string{"run", "../../examples/blur/blur.json", "--bind", "image=../../examples/blur/image.npy", "--devices", "cpu", "--calibrate", "off", "--cache-dir", "off"}
	plain := filepath.Join(t.TempDir(), "plain.npy")
	works(t, append(slices.Clone(blur), "--out", "smooth="+plain)...)
	works(t, append(slices.Clone(blur), "--checkpoint", dir)...)
	works(t, append(slices.Clone(blur), "--checkpoint", dir, "--resume", "--out", "smooth="+out)...)
	a, err1 := os.ReadFile(plain)
	b, err2 := os.ReadFile(out)
	if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
		t.Errorf("not the output of a run without checkpoints: %v", err)
	}
}

// A workload with a flag --graph can be kept; with another graph it is not resumed.
func TestCheckpointFlagGraph(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "c")
	ranks := func(graph string, more ...string) []string {
		return append([]string{"run", "network", "--graph", graph, "--checkpoint", dir, "--devices", "cpu", "--calibrate", "off", "--cache-dir", "off"}, more...)
	}
	works(t, ranks("karate")...)
	works(t, ranks("karate", "--resume")...)
	if code, _, stderr := runWeft(ranks("davis", "--resume")...); code != 2 || !strings.Contains(stderr, "--graph is karate there and davis here") {
		t.Errorf("another graph: status %d, %s", code, stderr)
	}
}

// After an interrupt the report says what is kept and how to go on.
func TestInterruptedReport(t *testing.T) {
	for want, r := range map[string]keptReport{
		"Kept: 3 of 9 tasks; the same command with --resume": {Written: 2, Done: 3, Total: 9},
		"Kept: 4 of 9 tasks; the same command with --resume": {Resumed: true, From: 4, Done: 4, Total: 9},
		"No task is kept yet":                                {Failed: 1, Why: "no room", Total: 9},
	} {
		var b bytes.Buffer
		if r.text(&b, true); !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in %q", want, &b)
		}
		b.Reset()
		if r.text(&b, false); strings.Contains(b.String(), want) {
			t.Errorf("not interrupted: %q", &b)
		}
	}
}

// An interrupted run that was resumed counts the tasks that were done before.
func TestInterruptedResumed(t *testing.T) {
	r := &liveReport{Interrupted: true, Tasks: 9, Devices: []deviceRow{{Tasks: 2}, {Tasks: 1}}, Kept: &keptReport{Resumed: true, From: 4, Done: 6, Total: 9}}
	var b bytes.Buffer
	if r.text(&b); !strings.Contains(b.String(), "Interrupted in the first run, after 7 of 9 tasks.\nResumed after 4 of 9 tasks.\n") {
		t.Errorf("%s", &b)
	}
}

// Long parameters are cut between two characters.
func TestLongParameter(t *testing.T) {
	var b bytes.Buffer
	writeCheckpoints(&b, []weft.CheckpointInfo{{Data: map[string]int64{}, Params: map[string]string{"k": "x" + strings.Repeat("ü", 60), "m": strings.Repeat("ü", maxShown)}}})
	if out := b.String(); !utf8.Valid(b.Bytes()) || !strings.Contains(out, "x"+strings.Repeat("ü", maxShown-1)+"…\n") || !strings.Contains(out, strings.Repeat("ü", maxShown)+"\n") {
		t.Errorf("%s", out)
	}
}

// What a manifest says does not move the cursor of a terminal.
func TestShowQuotes(t *testing.T) {
	const evil = "x\x1b[2J\n"
	dir := t.TempDir()
	f, err := disk.Open(dir, evil, true)
	if err != nil {
		t.Skip(err) // a file system without such names
	}
	defer f.Close()
	s, err := checkpoint.Open(f, "folder")
	if err != nil {
		t.Fatal(err)
	}
	data := []checkpoint.Source{{Name: evil, Mem: []byte{1}, Live: []bool{true}, Dirty: []bool{true}}}
	if _, err := s.Write(checkpoint.Meta{Name: evil, Params: []checkpoint.Param{{Key: evil, Value: evil}}}, data); err != nil {
		t.Fatal(err)
	}
	if out := works(t, "checkpoint", "show", dir); strings.Contains(out, "\x1b") || strings.Count(out, `x\x1b[2J\n`) != 5 || strings.Count(out, "\n") != 7 {
		t.Errorf("%q", out)
	}
	for _, file := range []string{"data-000000000001", "checkpoint-000000000001"} {
		if err := os.WriteFile(filepath.Join(dir, evil, file), []byte(evil), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, out, stderr := runWeft("checkpoint", "show", dir); code != 1 || strings.Contains(out+stderr, "\x1b") {
			t.Errorf("%s is damaged: status %d, %q, %q", file, code, out, stderr)
		}
	}
}
