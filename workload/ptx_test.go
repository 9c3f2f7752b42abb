package workload_test

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
	"github.com/weft-run/weft/workload/autodiff"
	"github.com/weft-run/weft/workload/automata"
	"github.com/weft-run/weft/workload/clifford"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/enumerative"
	"github.com/weft-run/weft/workload/fisher"
	"github.com/weft-run/weft/workload/fusion"
	"github.com/weft-run/weft/workload/gemm"
	"github.com/weft-run/weft/workload/landscape"
	"github.com/weft-run/weft/workload/merkle"
	graphs "github.com/weft-run/weft/workload/network"
	"github.com/weft-run/weft/workload/protein/elastic"
	"github.com/weft-run/weft/workload/protein/phase"
	"github.com/weft-run/weft/workload/reduce"
	"github.com/weft-run/weft/workload/relativity"
	"github.com/weft-run/weft/workload/reservoir"
	"github.com/weft-run/weft/workload/tropical"
	"github.com/weft-run/weft/workload/zk"
	"github.com/weft-run/weft/workload/zk/msm"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// entry is what a PTX source says of one of its kernels.
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

// A GPU gets pointers and a structure and believes them: every step of every
// workload must hand over what its PTX kernel takes.
func TestPTXTakesWhatStepsGive(t *testing.T) {
	make := func(j workload.Job, err error) workload.Job {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	jobs := []workload.Job{
		make(gemm.New(gemm.Config{M: 9, K: 8, N: 7})),
		make(tropical.New(tropical.Config{M: 9, K: 8, N: 7})),
		make(automata.New(automata.Config{Rows: 99, Cols: 64, Steps: 99})),
		make(automata.New(automata.Config{Rows: 99, Cols: 64, Steps: 99, K: 33})),
		make(automata.New(automata.Config{Rows: 99, Cols: 65, Steps: 99})),
		make(merkle.New(merkle.Config{N: 5000})),
		make(landscape.New(landscape.Config{})),
		make(elastic.New(elastic.Config{Residues: 30, Steps: 2})),
		make(phase.New(phase.Config{Residues: 30})),
		make(reservoir.NewJob(reservoir.Config{Params: reservoir.Defaults(), Batch: 3, Steps: 2})),
		make(reservoir.NewJob(reservoir.Config{Params: reservoir.Defaults(), Batch: 3, Steps: 2, Split: reservoir.Neurons})),
		make(fisher.New(fisher.Config{Points: 100, Features: 5})),
		make(fisher.NewDivergences(fisher.DivergenceConfig{Function: fisher.Entropy, Pairs: 100, Dim: 3})),
		make(tropical.NewTraining(tropical.Training{Inputs: 3, Hidden: 4, Outputs: 2, Batch: 20, Steps: 2})),
		make(fusion.New(fusion.Config{Records: 1000, Bind: true})),
		make(clifford.New(clifford.Config{Op: clifford.Rotor, P: 3, Count: 1000})),
		make(clifford.New(clifford.Config{Op: clifford.Norm, P: 3, Count: 1000})),
		make(relativity.New(relativity.Config{Problem: relativity.Orbits, Count: 10})),
		make(relativity.New(relativity.Config{Problem: relativity.Light, Count: 10})),
		make(relativity.New(relativity.Config{Problem: relativity.Boosts, Count: 10})),
		make(relativity.New(relativity.Config{Problem: relativity.Bodies, Count: 10})),
		make(graphs.New(graphs.Config{Problem: graphs.PageRank, Nodes: 100})),
		make(graphs.New(graphs.Config{Problem: graphs.Layers, Nodes: 100})),
		make(graphs.New(graphs.Config{Problem: graphs.Closeness, Nodes: 100})),
		make(graphs.New(graphs.Config{Problem: graphs.Medoids, Graph: "karate"})),
		make(autodiff.New(autodiff.Config{Problem: autodiff.Rosenbrock, Count: 10})),
		make(autodiff.New(autodiff.Config{Problem: autodiff.Helmholtz, Count: 10, Dims: 12})),
		make(enumerative.New(enumerative.Config{Problem: enumerative.Degree, K: 3, N: 15})),
		make(ntt.New(ntt.Config{Log: 20})),
		make(enumerative.NewCurves(enumerative.CurveConfig{Degree: 9})),
		make(msm.New(msm.Config{Group: "g1", Size: 3000})),
		make(msm.New(msm.Config{Group: "g2", Size: 1000})),
		make(zk.New(t.Context(), zk.Config{Circuit: zk.Range, Constraints: 130})),
		make(conv.New(conv.Config{Shape: conv.Shape{N: 2, C: 1, H: 5, W: 5, K: 2, R: 3, S: 3, Stride: 1}})),
		make(conv.New(conv.Config{Shape: conv.Shape{N: 2, C: 1, H: 5, W: 5, K: 2, R: 3, S: 3, Stride: 1}, Split: conv.Rows})),
	}
	for _, op := range reduce.Operations() {
		jobs = append(jobs, make(reduce.New(reduce.Config{Op: op, N: 5000})))
	}
	for _, c := range []struct{ size, inputs, batch int }{
		{50, 100, 8}, {50, 100, 15}, {50, 100, 29}, {50, 64, 57}, {1000, 64, 1024}, {1025, 3, 1}, {1025, 3, 64},
	} {
		if testing.Short() && c.size > 50 { // their weights take long to draw
			continue
		}
		p := reservoir.Defaults()
		p.Size, p.Inputs, p.Connectivity = c.size, c.inputs, 0.6
		jobs = append(jobs, make(reservoir.NewJob(reservoir.Config{Params: p, Batch: c.batch, Steps: 2})))
	}
	seen, looked := map[string]bool{}, map[workload.Job]bool{}
	for _, j := range slices.Concat(jobs, jobs) {
		// A machine that runs nothing but PTX, at first exactly.
		gpu := &machine.Machine{Devices: []machine.Device{{Name: "cuda:0", Backend: "cuda", Arch: "sm_90", Kind: machine.Discrete, MemBytes: 1 << 30, Exact: !looked[j]}}}
		gpu.Links = []machine.Link{{A: machine.Host, B: 0, BPS: 1e9}}
		looked[j] = true
		if p, ok := j.(workload.Placed); ok {
			if err := p.Place(gpu); err != nil {
				t.Fatal(err)
			}
		}
		g, err := j.Graph([]sched.Range{{Hi: j.Items().Extent}})
		if err != nil {
			t.Fatal(err)
		}
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
	if want := 83; len(seen) != want && !testing.Short() {
		t.Errorf("%d PTX kernels were looked at, want %d", len(seen), want)
	}
}

// What is read 16 bytes at a time must lie at multiples of them, in shared memory too: a
// GPU fails the launch otherwise, and a compiler that packs variables closer would do it.
func TestSharedAlignment(t *testing.T) {
	seen := 0
	for _, ptx := range [][]byte{gemm.Kernel.Impls[1].Source, tropical.Kernel.Impls[1].Source, conv.Kernel.Impls[1].Source} {
		for _, body := range strings.Split(string(ptx), ".visible .entry ")[1:] {
			if !strings.Contains(body, ".shared.v4.") {
				continue
			}
			seen++
			for _, m := range regexp.MustCompile(`\.shared \.align (\d+) `).FindAllStringSubmatch(body, -1) {
				if n, _ := strconv.Atoi(m[1]); n%16 != 0 {
					t.Errorf("%s has shared memory at multiples of %d bytes", body[:strings.Index(body, "(")], n)
				}
			}
		}
	}
	if want := 5; seen != want {
		t.Errorf("%d kernels read shared memory 16 bytes at a time, want %d", seen, want)
	}
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
		e, ok := readPTX(impl.Source)[impl.Entry]
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
		if !strings.Contains(string(impl.Source), ".target "+impl.Arch+"\n") {
			return nil, fmt.Errorf("%s is not made for %s", impl.Entry, impl.Arch)
		}
		names = append(names, impl.Entry)
	}
	if names == nil {
		return nil, fmt.Errorf("kernel %s has no PTX", s.Kernel.Name)
	}
	return names, nil
}
