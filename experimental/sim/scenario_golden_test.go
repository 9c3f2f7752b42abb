package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

var rewrite = flag.Bool("rewrite", false, "write the expected output in testdata anew")

// TestGolden runs the scenarios in testdata. A file is a series of blocks:
// input lines, a line of dashes, the expected output, an empty line. Lines that
// begin with # are comments.
//
//	machine NAME        what to run on, for the rest of the file
//	policy NAME         by which policy, for the rest of the file
//	scenario NAME       one that comes with weft
//
// Other lines are a scenario's own (see ParseScenario). Virtual time is exact,
// so whatever changes a decision shows here.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var g golden
			var out strings.Builder
			for _, block := range strings.Split(strings.TrimRight(string(src), "\n"), "\n\n") {
				input, want, _ := strings.Cut(block, "\n----")
				got, err := g.run(input)
				if err != nil {
					t.Fatalf("%s\n%v", input, err)
				}
				if want = strings.Trim(want, "\n"); got != want && !*rewrite {
					t.Errorf("%s\ngot:\n%s\nwant:\n%s\n(go test ./experimental/sim -run TestGolden -rewrite takes it over)", input, got, want)
				}
				out.WriteString(input)
				if got != "" {
					out.WriteString("\n----\n" + got)
				}
				out.WriteString("\n\n")
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// golden is what the blocks of a file have set so far.
type golden struct {
	machine *machine.Machine
	policy  string
}

// run takes in a block and returns what came of its scenario, "" if it has none.
func (g *golden) run(input string) (string, error) {
	text := ""
	for line := range strings.Lines(input) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch verb {
		case "machine":
			m, ok := machine.Named(rest)
			if !ok {
				return "", fmt.Errorf("no machine %q", rest)
			}
			g.machine = m
		case "policy":
			g.policy = rest
		case "scenario":
			s, ok := FindScenario(rest)
			if !ok {
				return "", fmt.Errorf("no scenario %q", rest)
			}
			text += s.Text
		case "#", "":
		default:
			text += line + "\n"
		}
	}
	if text == "" {
		return "", nil
	}
	s, err := ParseScenario([]byte(text), g.machine)
	if err != nil {
		return "", err
	}
	jobs, err := s.Jobs()
	if err != nil {
		return "", err
	}
	c := Config{Machine: g.machine, Policy: g.policy, Jobs: jobs, Faults: s.Faults}
	c.Trace = trace.NewRecorder(1 << 16)
	res, err := Run(c)
	if err != nil {
		return "", err
	}
	return outcome(g.machine, inOrder(jobs), res), nil
}

// outcome puts a result into words: the whole, the devices, the runs if there
// are several, and the verdict. jobs are in the order of the runs.
func outcome(m *machine.Machine, jobs []Job, res *Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "makespan %v", res.Makespan)
	if !slices.ContainsFunc(res.Runs, func(r RunResult) bool { return r.Err != nil }) {
		fmt.Fprintf(&b, ", %.1f %% of what is possible", 100*res.Efficiency)
	}
	b.WriteString("\n")
	var sum, moves, copies, evictions, commits, retries, replays int
	tasks := make([]int, len(m.Devices))
	for _, r := range res.Runs {
		for d := range r.Report.Devices {
			tasks[d] += r.Report.Devices[d].Tasks
		}
		sum += r.Report.Executed
		moves += r.Report.Moves
		copies += r.Report.Copies
		evictions += r.Report.Evictions
		commits += r.Report.Commits
		retries += r.Report.Retries
		replays += r.Report.Replays
	}
	fmt.Fprintf(&b, "%d executions, %d copies, %d moves, %d evictions, %d commits, %d retries, %d replays\n",
		sum, copies, moves, evictions, commits, retries, replays)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for d := range m.Devices {
		fmt.Fprintf(w, "  %s\t%d tasks\t%.1f %%\n", m.Devices[d].Name, tasks[d], 100*res.Utilisation[d])
	}
	if len(res.Runs) > 1 {
		for _, r := range res.Runs {
			how := "ended well"
			if r.Err != nil {
				how = r.Err.Error()
			}
			fmt.Fprintf(w, "  %s\tat %v\ttook %v\t%s\n", r.Name, r.Submitted, r.Ended-r.Submitted, how)
		}
	} else if err := res.Runs[0].Err; err != nil {
		fmt.Fprintf(w, "%v\n", err)
	}
	w.Flush()
	graphs := make(map[int32]*graph.Graph)
	for i, r := range res.Runs {
		graphs[int32(r.Run)] = jobs[i].Graph
	}
	a := trace.Analyze(m, res.Trace, func(run int32, t graph.TaskID) []int32 { return graphs[run].Flow().Preds(t) })
	return b.String() + a.Sentence
}
