package workloadtest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// entry is the signature of a kernel in a PTX source.
type entry struct {
	pointers, params int // arguments, and bytes of the structure behind them
	threads          int // of a block
}

var (
	entries  = regexp.MustCompile(`(?s)\.visible \.entry (\w+)\((.*?)\)\n\.maxntid (\d+), 1, 1\n`)
	pointers = regexp.MustCompile(`\.param \.u64 `)
	byValue  = regexp.MustCompile(`\.param \.align \d+ \.b8 \w+\[(\d+)\]`)
)

func readPTX(source []byte) map[string]entry {
	out := map[string]entry{}
	for _, m := range entries.FindAllStringSubmatch(string(source), -1) {
		e := entry{pointers: len(pointers.FindAllString(m[2], -1))}
		e.threads, _ = strconv.Atoi(m[3])
		if s := byValue.FindStringSubmatch(m[2]); s != nil {
			e.params, _ = strconv.Atoi(s[1])
		}
		out[m[1]] = e
	}
	return out
}

// onGPU returns the graph of a job on a machine that runs nothing but PTX.
func onGPU(t *testing.T, j workload.Job, exact bool) *graph.Graph {
	t.Helper()
	gpu := &machine.Machine{Devices: []machine.Device{{Name: "cuda:0", Backend: "cuda", Arch: "sm_90", Cluster: 16, Kind: machine.Discrete, MemBytes: 1 << 30, Exact: exact}}}
	gpu.Links = []machine.Link{{A: machine.Host, B: 0, BPS: 1e9}}
	if p, ok := j.(workload.Placed); ok {
		if err := p.Place(gpu); err != nil {
			t.Fatal(err)
		}
	}
	g, err := j.Graph([]sched.Range{{Hi: j.Items().Extent}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// PTX returns the PTX of all kernels of a job.
func PTX(t *testing.T, j workload.Job) (sources [][]byte) {
	t.Helper()
	g := onGPU(t, j, true)
	for id := range g.NumTasks() {
		for _, step := range g.Task(graph.TaskID(id)).Steps {
			for _, impl := range step.Kernel.Impls {
				if impl.Dialect == graph.PTX {
					source, err := impl.Code()
					if err != nil {
						t.Fatal(err)
					}
					sources = append(sources, source)
				}
			}
		}
	}
	return sources
}

// PTXTakes compares what the steps of jobs hand over with what their PTX kernels take, pointers and a structure, which
// a GPU believes. It returns the number of kernels that were looked at. Those of package collective have tests of their own.
func PTXTakes(t *testing.T, jobs []workload.Job) int {
	t.Helper()
	seen, looked := map[string]bool{}, map[workload.Job]bool{}
	for _, j := range slices.Concat(jobs, jobs) {
		g := onGPU(t, j, !looked[j]) // at first exactly
		looked[j] = true
		for id := range g.NumTasks() {
			task := g.Task(graph.TaskID(id))
			for i := range task.Steps {
				if strings.HasPrefix(task.Steps[i].Kernel.Name, "collective.") {
					continue // whose own tests see to it
				}
				names, err := checkStep(task, &task.Steps[i])
				if err != nil {
					t.Errorf("%s: %s: %v", j.Name(), task.Name, err)
				}
				for _, name := range names {
					seen[name] = true
				}
			}
		}
	}
	return len(seen)
}

// checkStep returns the entries of a step's PTX kernels.
func checkStep(task *graph.Task, s *graph.Step) (names []string, err error) {
	for i := range s.Kernel.Impls {
		impl := &s.Kernel.Impls[i]
		if impl.Dialect != graph.PTX {
			continue
		}
		if impl.Entry == "" {
			return nil, nil // a step for shaders alone
		}
		code, err := impl.Code()
		if err != nil {
			return nil, err
		}
		e, ok := readPTX(code)[impl.Entry]
		if !ok {
			return nil, fmt.Errorf("the PTX of %s has no entry %s", s.Kernel.Name, impl.Entry)
		}
		want := entry{pointers: len(task.Uses), params: len(s.Params), threads: e.threads}
		if task.Workspace > 0 {
			want.pointers++
		}
		if s.Args != nil {
			want.pointers = len(s.Args)
		}
		l := impl.Shape(s.Launch)
		if got := int(l.Block[0] * l.Block[1] * l.Block[2]); got != e.threads {
			return nil, fmt.Errorf("%s is launched with %d threads, made for %d", impl.Entry, got, e.threads)
		}
		if e != want {
			return nil, fmt.Errorf("%s takes %+v, its step gives %+v", impl.Entry, e, want)
		}
		if !strings.Contains(string(code), ".target "+impl.Arch+"\n") {
			return nil, fmt.Errorf("%s is not made for %s", impl.Entry, impl.Arch)
		}
		names = append(names, impl.Entry)
	}
	if names == nil {
		return nil, fmt.Errorf("kernel %s has no PTX", s.Kernel.Name)
	}
	return names, nil
}
