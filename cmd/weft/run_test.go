package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// An interrupted command tells what was done and says by its status that it was
// interrupted.
func TestInterruptedRun(t *testing.T) {
	for delay := 50 * time.Millisecond; ; delay *= 2 { // until it is long enough for a run
		ctx, stop := context.WithCancel(t.Context())
		var stdout, stderr bytes.Buffer
		timer := time.AfterFunc(delay, stop)
		code := run(ctx, strings.Fields("run gemm --size 64 --repeat 10000000 --json"), &stdout, &stderr)
		timer.Stop()
		stop()
		if code != exitInterrupted || besidesSlowness(stderr.String()) != "weft: interrupted\n" {
			t.Fatalf("status %d, %q", code, stderr.String())
		}
		if stdout.Len() == 0 {
			continue
		}
		var rep liveReport
		if err := json.Unmarshal(stdout.Bytes(), &rep); err != nil {
			t.Fatal(err)
		}
		if !rep.Interrupted || rep.Checked || rep.Runs == nil {
			t.Errorf("interrupted %v, checked %v, %d runs", rep.Interrupted, rep.Checked, len(rep.Runs))
		}
		if len(rep.Runs) > 0 {
			return
		}
	}
}

// What an interrupted first run did is told as well.
func TestInterruptedFirstRun(t *testing.T) {
	rep := liveReport{Job: "gemm", Tasks: 52, Interrupted: true, Devices: []deviceRow{
		{Name: "cpu:0", Cores: 1, Tasks: 7, Busy: 0.5, Util: 1}, {Name: "cpu:1", Cores: 1, Tasks: 5, Busy: 0.5, Util: 1},
	}}
	var b bytes.Buffer
	rep.text(&b)
	if text := b.String(); !strings.Contains(text, "after 12 of 52 tasks.") || strings.Contains(text, "predicted") || strings.Contains(text, "learning") {
		t.Errorf("the report of an interrupted first run is\n%s", text)
	}
}

// A run says what came out where that is a few words. The roots are those that
// package merkle is tested with.
func TestResult(t *testing.T) {
	for args, want := range map[string]string{
		"merkle --leaves 5":                                       "Result: root 3f35561797baf07cd5bb2f67b799f12a67d641ea89c61d6aee54217690dca7af.\n",
		"merkle --leaves 5 --mode dup":                            "Result: root da6f7f6db719c1b4e2e7b6c132fe8f52f905487e5502bf568f9219edb8bf7bde.\n",
		"automata --rows 64 --cols 64 --steps 4 --pattern glider": "Result: 5 of 4096 cells alive after 4 steps.\n",
		"reduce --n 1 --op max --json":                            `"result": "max `,
		"elastic --structure 1UBI":                                "Result: 20 modes, eigenvalues 1.36924, ",
		"enumerative --problem hypersurface":                      "Result: 27 lines on a hypersurface of degree 3.\n",
		"enumerative --problem hypersurface --n 5":                "Result: 2875 lines on a hypersurface of degree 5.\n",
		"enumerative --problem schubert":                          "Result: 2 planes in all classes.\n",
		"enumerative --k 2 --n 37 --json":                         `"result": "degree 3116285494907301262"`,
		"enumerative --problem hypersurface --n 64":               " (257 digits; --json has all) lines on a hypersurface of degree 123.\n",
		"msm --size 2^8":                                          "Result: x = ",
		"ntt --size 2^10":                                         "Result: first element ",
		"clifford --count 10":                                     "Result: sum -",
		"autodiff --count 10":                                     "Result: sum ",
		"autodiff --count 10 --expr 1/(x-x)+y":                    "Result: sum 0 of values, norm 3.16227766 of derivatives; not finite at 10 points, the first of which is point 0 (x = 0.",
		"relativity --problem boosts --count 10":                  "Result: sum of products ",
		"zk --constraints 100 --circuit range --verify-each":      "… of 164 bytes.\nThe result agrees with an independent reference.\n",
		"zk --constraints 100 --circuit range --explain":          "  one device for each 10000 constraints: at most 1 of 2\n",
		"network --graph karate":                                  "highest ranks 33: 0.100919, 0: 0.096997",
		"phase --structure 1CRN":                                  "Result: sum 33.9396328606+2.5151761862i, norm 6.853830579",
		"landscape --residues 4":                                  "Result: native energy ",
		"merkle --leaves 7":                                       " of the time, imbalance ",
		"merkle --leaves 9 --json":                                `"bottleneck": "`,
	} {
		args := append([]string{"run"}, strings.Fields(args+" --devices cpu/2 --repeat 1 --calibrate off --cache-dir off")...)
		if text := works(t, args...); !strings.Contains(text, want) {
			t.Errorf("weft %s does not say %q:\n%s", strings.Join(args, " "), want, text)
		}
	}
}

// The result of a job that has a table goes to a file, whole, which is no input; standard output has nothing
// else then.
func TestRunTable(t *testing.T) {
	const common = " --devices cpu --repeat 1 --calibrate off --cache-dir off"
	two := write(t, "two.txt", "0 1\n1 0\n")
	out := filepath.Join(t.TempDir(), "ranks.csv")
	works(t, append(strings.Fields("run network --out "+out+common), "--graph", two)...)
	const want = "node,rank\n0,0.5\n1,0.5\n"
	if got, err := os.ReadFile(out); err != nil || string(got) != want {
		t.Errorf("%v, %q", err, got)
	}
	code, stdout, stderr := runWeft(append(strings.Fields("run network --out -"+common), "--graph", two)...)
	if code != 0 || stdout != want || !strings.Contains(stderr, "highest ranks") {
		t.Errorf("status %d, %q and %q", code, stdout, stderr)
	}
	for flags, why := range map[string]string{
		"--out " + two:                     "which the command uses",
		"--out " + out + " --trace " + out: "which the command uses",
		"--out - --trace -":                "standard output",
		"--out " + t.TempDir():             "is a folder",
	} {
		code, _, stderr := runWeft(append(strings.Fields("run network "+flags+common), "--graph", two)...)
		if code == 0 || !strings.Contains(stderr, why) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %s", flags, code, stderr)
		}
	}
	if got, err := os.ReadFile(two); err != nil || string(got) != "0 1\n1 0\n" {
		t.Errorf("%v, the input is %q", err, got)
	}
	code, _, _ = runWeft(strings.Fields("run network --graph karate --steps 1 --out " + out + common)...)
	if got, err := os.ReadFile(out); code == 0 || err != nil || string(got) != want {
		t.Errorf("after a run that failed: status %d, %v, %q", code, err, got)
	}
	if code, _, stderr := runWeft(strings.Fields("run gemm --out " + out)...); code == 0 || !strings.Contains(stderr, "--out") {
		t.Errorf("a workload without a table: status %d, %s", code, stderr)
	}
}

// Edges that a file repeats count as --repeated says, and the report says how many there are.
func TestRunRepeated(t *testing.T) {
	const common = " --devices cpu --repeat 1 --calibrate off --cache-dir off"
	edges := write(t, "edges.txt", "0 1 1\n0 2 1\n1 0 1\n2 0 1\n0 1 2\n")
	for flags, want := range map[string]string{
		"":                  "4 edges (1 repeated, whose weights are added)",
		" --repeated sum":   "4 edges (1 repeated, whose weights are added)",
		" --repeated last":  "4 edges (1 repeated, of which the last count)",
		" --repeated error": "weft: network: edges.txt: bad graph: the edge from node 0 to node 1 is there 2 times: leave all but one out, or",
		" --repeated first": `weft: network: not valid: repeated edges by "first": use sum, last or error`,
	} {
		code, stdout, stderr := runWeft(append(strings.Fields("run network"+flags+common), "--graph", edges)...)
		if failed := strings.HasPrefix(want, "weft: "); !strings.Contains(stdout+stderr, want) || failed != (code == 2) {
			t.Errorf("%s: status %d, %q and %q, want %q", flags, code, stdout, stderr, want)
		}
	}
	if code, _, stderr := runWeft(strings.Fields("run network --repeated sum --nodes 100" + common)...); code != 2 || !strings.Contains(stderr, "only graphs in files") {
		t.Errorf("without a file: status %d, %s", code, stderr)
	}
}

// A run of too few steps fails, checked or not, and says how many would do.
func TestTooFewSteps(t *testing.T) {
	for _, check := range []string{"true", "false"} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), strings.Fields("run elastic --structure 1CRN --steps 3 --repeat 1 --calibrate off --cache-dir off --check="+check), &stdout, &stderr)
		const want = "weft: elastic: too few steps: 0 of 20 modes converged after 3; 49 should do\n"
		if code != 1 || stdout.Len() > 0 || stderr.String() != want {
			t.Errorf("--check=%s: status %d, %q and %q, want %q", check, code, stdout.String(), stderr.String(), want)
		}
	}
}

// A run says what its check may have missed, with the chance of it.
func TestMisses(t *testing.T) {
	common := " --devices cpu/2 --repeat 1 --calibrate off --cache-dir off"
	for args, want := range map[string]string{
		"fusion --records 100":            "  The chance that one number off by more than its rounding goes unseen is none.\n",
		"gemm --m 50 --k 50 --n 50":       "  The chance that a row or tile with several such elements goes unseen is at most 1e-03.\n",
		"tropical --m 9 --k 9 --n 9":      "  The chance that one wrong element goes unseen is none.\n",
		"merkle --leaves 5 --json":        `"what": "one wrong hash"`,
		"automata --rows 64 --cols 64":    "  The chance that one wrong cell goes unseen is none.\n",
		"merkle --leaves 5 --check=false": "",
	} {
		text := works(t, append([]string{"run"}, strings.Fields(args+common)...)...)
		if !strings.Contains(text, want) || want == "" && strings.Contains(text, "unseen") {
			t.Errorf("weft run %s does not say %q:\n%s", args, want, text)
		}
	}
}

// A command that ends before it has anything to write leaves the file of an earlier
// one as it is, and one that does replaces all of it.
func TestOutputStays(t *testing.T) {
	old := strings.Repeat("what was there ", 1000)
	file := write(t, "out", old)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for _, args := range []string{"bench suite --html " + file, "run gemm --size 64 --trace " + file} {
		var stdout, stderr bytes.Buffer
		if code := run(ctx, strings.Fields(args), &stdout, &stderr); code != exitInterrupted {
			t.Errorf("weft %s: status %d, %s", args, code, stderr.String())
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != old {
			t.Errorf("weft %s left %d bytes of %d, %v", args, len(got), len(old), err)
		}
	}
	works(t, "run", "gemm", "--size", "8", "--repeat", "1", "--trace", file)
	if got, err := os.ReadFile(file); err != nil || !json.Valid(got) {
		t.Errorf("the trace is no JSON: %v\n%s", err, got)
	}
}

// idler is a job whose tasks do nothing once the right result of an earlier run is there,
// which would pass for theirs. A graph may be made more than once for a run.
type idler struct {
	workload.Job
	idle bool
}

func (j *idler) Graph(ranges []sched.Range) (*graph.Graph, error) {
	g, err := j.Job.Graph(ranges)
	if j.idle = err == nil && j.Check() == nil; j.idle {
		nothing := &graph.Kernel{Name: "nothing", Impls: []graph.Impl{{Dialect: graph.Go}}}
		for i := range g.NumTasks() {
			g.Task(graph.TaskID(i)).Steps = []graph.Step{{Kernel: nothing}}
		}
	}
	return g, err
}

// What is checked is the result of the last run, not what an earlier one left.
func TestCheckLastRun(t *testing.T) {
	for name, sizes := range map[string]map[string]int{
		"gemm": {"m": 256, "k": 256, "n": 256}, "tropical": {"m": 256, "k": 256, "n": 256}, "conv": {"batch": 1},
		"reduce": {"n": 1 << 20}, "merkle": {"leaves": 1 << 12}, "automata": {"rows": 512, "cols": 512}, "landscape": {"residues": 40}, "elastic": {"residues": 40}, "phase": {"residues": 40},
	} {
		w, _ := workloads.Find(name)
		job, err := workloads.Sized(t.Context(), w, sizes)
		if err != nil {
			t.Fatal(err)
		}
		c := &cobra.Command{}
		c.SetContext(t.Context())
		c.SetOut(io.Discard)
		l := live{options: weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off"}, repeat: 2, check: true}
		j := &idler{Job: job}
		if err := l.run(c, j); err == nil || !strings.Contains(err.Error(), "the result is wrong") {
			t.Errorf("%s: the last run did nothing, and the command says %v", name, err)
		}
		if !j.idle {
			t.Errorf("%s: the last run did something: this tests nothing", name)
		}
	}
}

// The error of predictions is the median over an even number of runs as well.
func TestPredictionError(t *testing.T) {
	rep := liveReport{Runs: []runRow{{Seconds: 1, Predicted: 1.1, Samples: 1}, {Seconds: 1, Predicted: 1.3, Samples: 1}}}
	rep.fill(&workload.Result{Report: &weft.Report{}})
	if got := rep.PredictionError; math.Abs(got-0.2) > 1e-9 {
		t.Errorf("predictions that were off by 10 %% and 30 %% are off by %v in the median", got)
	}
}

// The device with the largest score gets the largest domain, in the table and in the parts.
func TestDomainsFollowScores(t *testing.T) {
	for _, scores := range []string{"1,2,1", "3,2,1", "1,2,3"} {
		args := []string{"partition", "--structure", "1UBI", "--by", "domains", "--scores", scores}
		var got proteinJSON
		if err := json.Unmarshal([]byte(works(t, append(args, "--json")...)), &got); err != nil {
			t.Fatal(err)
		}
		counted := make([]int, 3)
		for _, device := range got.Parts {
			counted[device]++
		}
		score := strings.Split(scores, ",")
		for i := range score {
			for k := range score {
				if score[i] > score[k] && got.Sizes[i] < got.Sizes[k] || counted[i] != got.Sizes[i] {
					t.Errorf("scores %s: sizes %v, parts have %v", scores, got.Sizes, counted)
				}
			}
		}
		if text := works(t, args...); !strings.Contains(text, "Sizes of domains follow from the structure") {
			t.Errorf("the report is\n%s", text)
		}
	}
}
