package workload_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
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
)

// smallJobs are jobs of every workload, at least one for each kernel.
func smallJobs(t *testing.T) []workload.Job {
	t.Helper()
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
		make(enumerative.NewCurves(enumerative.CurveConfig{Degree: 9})),
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
	return jobs
}

// A GPU gets pointers and a structure and believes them: every step of every
// workload must hand over what its PTX kernel takes.
func TestPTXTakesWhatStepsGive(t *testing.T) {
	jobs := smallJobs(t)
	if seen, want := workloadtest.PTXTakes(t, jobs), 63; seen != want && !testing.Short() {
		t.Errorf("%d PTX kernels were looked at, want %d", seen, want)
	}
}

// What is read 16 bytes at a time must lie at multiples of them, in shared memory too: a
// GPU fails the launch otherwise, and a compiler that packs variables closer would do it.
func TestSharedAlignment(t *testing.T) {
	seen := 0
	sources := make(map[string]bool)
	for _, j := range smallJobs(t) {
		for _, ptx := range workloadtest.PTX(t, j) {
			sources[string(ptx)] = true
		}
	}
	for ptx := range sources {
		for _, body := range strings.Split(ptx, ".visible .entry ")[1:] {
			name, _, _ := strings.Cut(body, "(")
			if workload, _, _ := strings.Cut(name, "_"); !slices.Contains([]string{"gemm", "tropical", "conv"}, workload) || !strings.Contains(body, ".shared.v4.") {
				continue
			}
			seen++
			for _, m := range regexp.MustCompile(`\.shared \.align (\d+) `).FindAllStringSubmatch(body, -1) {
				if n, _ := strconv.Atoi(m[1]); n%16 != 0 {
					t.Errorf("%s has shared memory at multiples of %d bytes", name, n)
				}
			}
		}
	}
	if want := 5; seen != want {
		t.Errorf("%d kernels read shared memory 16 bytes at a time, want %d", seen, want)
	}
}

// Every workload says what its check may miss.
func TestInspected(t *testing.T) {
	stream, err := reservoir.NewStreamJob(reservoir.StreamConfig{Params: reservoir.Defaults(), Replicas: 2, Patterns: 3, Steps: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range append(smallJobs(t), stream) {
		if _, ok := j.(workload.Inspected); !ok {
			t.Errorf("%s does not say what its check may miss", j.Name())
		}
	}
}
