//go:build lavapipe || gpu

package workload_test

import (
	"slices"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/probe"
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

// all are the samples of every workload here.
var all = workloadtest.Samples{Funcs: funcs(), Make: samples}

// samples makes every workload anew, in sizes that are odd and small.
func samples(t *testing.T) []workloadtest.Sample {
	var out []workloadtest.Sample
	product := func(j workload.Job, err error, result func() []float32) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: j, Result: func() []byte { return workloadtest.Bytes(result()) }})
	}
	g, err := gemm.New(gemm.Config{M: 301, K: 97, N: 303, Seed: 1})
	product(g, err, func() []float32 { return g.Result() })
	// K is a multiple of 8 and N of 4: tiles inside C are taken four numbers at a time.
	wide, err := gemm.New(gemm.Config{M: 203, K: 104, N: 1036, Seed: 1})
	product(wide, err, func() []float32 { return wide.Result() })
	for _, c := range []tropical.Config{
		{M: 201, K: 101, N: 303, Seed: 1},
		{M: 201, K: 344, N: 1036, Seed: 1}, // four at a time, as above
		{M: 67, K: 3, N: 70, Seed: 2},      // every eighth maximum is negative, so that a zero beyond the edge shows
	} {
		p, err := tropical.New(c)
		product(p, err, func() []float32 { return p.Result() })
	}
	// Sums so close to one another that a comparison with any slack takes the wrong one.
	near, err := tropical.New(tropical.Config{M: 67, K: 50, N: 70, Seed: 2})
	product(near, err, func() []float32 { return near.Result() })
	a, b := near.Operands()
	for _, xs := range [][]float32{a, b} {
		for i := range xs {
			xs[i] *= 1e-6
		}
	}
	for _, s := range []conv.Shape{
		{N: 3, C: 5, H: 17, W: 70, K: 13, R: 3, S: 3, Stride: 1, Pad: 1},
		{N: 3, C: 2, H: 23, W: 20, K: 3, R: 5, S: 4, Stride: 2, Pad: 2},
		// Outputs fill three quarters of tiles of 8 × 32, which conv.cu has for 3 × 3 filters,
		// with rows of a multiple of 4 and not. There are filters for two blocks of 64.
		{N: 3, C: 2, H: 15, W: 60, K: 67, R: 3, S: 3, Stride: 1, Pad: 1},
		{N: 3, C: 2, H: 17, W: 63, K: 5, R: 3, S: 3, Stride: 1},
	} {
		for _, split := range []string{conv.Images, conv.Rows} {
			c, err := conv.New(conv.Config{Shape: s, Seed: 1, Split: split})
			product(c, err, func() []float32 { return c.Result() })
		}
	}
	fu, err := fusion.New(fusion.Config{Records: 1003, Bind: true, Seed: 3})
	product(fu, err, func() []float32 { return fu.Result() })
	for _, s := range [][2]int{{3, 0}, {1, 3}, {4, 1}, {1, 0}, {2, 1}, {2, 4}} { // three that kernels know, and others
		for _, op := range clifford.Operations() {
			c, err := clifford.New(clifford.Config{Op: op, P: s[0], Q: s[1], Count: 1003, Seed: 3})
			product(c, err, func() []float32 { return c.Result() })
		}
	}
	for _, c := range []relativity.Config{
		{Problem: relativity.Orbits, Count: 203, Steps: 512, Turns: 2, Seed: 3},
		{Problem: relativity.Orbits, Count: 203, Steps: 4096, Tolerance: 1e-9, Seed: 3},
		{Problem: relativity.Light, Count: 203, Steps: 128, Seed: 3},
		{Problem: relativity.Boosts, Count: 1003, Seed: 3},
		{Problem: relativity.Bodies, Count: 301, Steps: 3, Seed: 3},
	} {
		j, err := relativity.New(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: j, Result: func() []byte {
			switch j := j.(type) {
			case interface{ Result() []float64 }: // orbits, light
				return workloadtest.Bytes(j.Result())
			case interface{ Result() (a, b []float64) }:
				boosted, products := j.Result()
				return workloadtest.Bytes(slices.Concat(boosted, products))
			}
			places, velocities := j.(interface{ Result() (a, b []float32) }).Result()
			return workloadtest.Bytes(slices.Concat(places, velocities))
		}})
	}
	for _, c := range []graphs.Config{
		{Problem: graphs.PageRank, Nodes: 1003, Edges: 20, Steps: 7, Seed: 3}, // with rows of more than 256 edges
		{Problem: graphs.PageRank, Graph: "miserables", Steps: 3},
		{Problem: graphs.Layers, Nodes: 203, Features: 37, Seed: 3},
		{Problem: graphs.Layers, Graph: "miserables", Features: 130, Layers: 1, Seed: 3},
		{Problem: graphs.Closeness, Nodes: 203, Seed: 3},
		{Problem: graphs.Closeness, Graph: "davis"},
		{Problem: graphs.Medoids, Nodes: 203, Seed: 3},
		{Problem: graphs.Medoids, Graph: "karate", K: 3},
	} {
		j, err := graphs.New(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: j, Result: func() []byte { return graphNumbers(j) }})
	}
	for _, c := range []autodiff.Config{
		{Problem: autodiff.Rosenbrock, Count: 203, Dims: 70, Seed: 3}, // two passes
		{Problem: autodiff.Helmholtz, Count: 203, Dims: 9, Seed: 3},   // nearly 64 slots
		{Problem: autodiff.Helmholtz, Count: 203, Dims: 12, Seed: 3},  // more than 64 slots
		{Problem: autodiff.Helmholtz, Count: 67, Dims: 24, Seed: 3},   // more than 128
		{Problem: autodiff.Helmholtz, Count: 203, Dims: 3, Seed: 3, Generate: true},
		{Problem: autodiff.Expression, Expr: "tanh(9*x)*atan(y)-abs(x-y)^1.5", Count: 203, Seed: 3, Generate: true},
		{Problem: autodiff.Expression, Count: 1003, Low: 0.1, High: 0.9, Seed: 3,
			Expr: "sin(3*x)*cos(y); tan(x)-atan(4*y); exp(-x)/log(y); sqrt(x)*sinh(y)-cosh(x+y); tanh(3*x-y); asin(x)-acos(y)^2; abs(x-y)+x^-3"},
	} {
		a, err := autodiff.New(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: a, Result: func() []byte {
			values, derivatives := a.Result()
			return workloadtest.Bytes(slices.Concat(values, derivatives))
		}})
	}
	for _, c := range []enumerative.Config{
		{Problem: enumerative.Degree, K: 5, N: 16},
		{Problem: enumerative.Hypersurface, K: 4, N: 18},
		{Problem: enumerative.Schubert, K: 4, N: 18, Classes: [][]int{{8, 5, 2, 1}, {9, 3, 1}, {14, 8, 5}}},
		{Problem: enumerative.Schubert, K: 2, N: 4, Classes: [][]int{{2}, {1, 1}}},
	} {
		e, err := enumerative.New(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: e, Result: func() []byte { return append(workloadtest.Bytes(e.Sums()), e.Result().Bytes()...) }})
	}
	for _, degree := range []int{1, 7, 265} { // the last takes a shader several launches
		curves, err := enumerative.NewCurves(enumerative.CurveConfig{Degree: degree})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: curves, Result: func() []byte { return curves.Result().Bytes() }})
	}
	fi, err := fisher.New(fisher.Config{Points: 1003, Features: 37, Blocks: 2, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, workloadtest.Sample{Job: fi, Result: func() []byte { return workloadtest.Bytes(fi.Result()) }})
	for i, f := range fisher.Functions() {
		d, err := fisher.NewDivergences(fisher.DivergenceConfig{Function: f, Pairs: 1003, Dim: 5 + i, Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: d, Result: func() []byte { return workloadtest.Bytes(d.Result()) }})
	}
	for _, c := range []tropical.Training{
		{Inputs: 37, Hidden: 19, Outputs: 5, Batch: 203, Steps: 3, Seed: 3},
		{Inputs: 1, Hidden: 1, Outputs: 1, Batch: 3, Steps: 2, Shards: 3, Seed: 2},
		{Inputs: 2, Hidden: 7, Outputs: 3, Batch: 101, Steps: 2, Seed: 4}, // so few that biases win often
	} {
		net, err := tropical.NewTraining(c)
		product(net, err, func() []float32 { return net.Result() })
	}
	for _, op := range reduce.Operations() {
		for _, n := range []int{1, 4097, 1_000_003} {
			r, err := reduce.New(reduce.Config{Op: op, N: n, Seed: 1})
			product(r, err, func() []float32 { return []float32{r.Result()} })
		}
		// The largest and the smallest element are in the first of 34 blocks, or the last.
		for _, at := range []int{0, 33 * reduce.Block} {
			r, err := reduce.New(reduce.Config{Op: op, N: 33*reduce.Block + 2, Seed: 1})
			product(r, err, func() []float32 { return []float32{r.Result()} })
			r.Elements()[at], r.Elements()[at+1] = 2, -2
		}
	}
	for _, split := range []string{reservoir.Patterns, reservoir.Neurons, reservoir.Rows} {
		params := reservoir.Defaults()
		params.Size, params.Noise = 203, 0.01
		for _, batch := range []int{37, 44} { // one by one, and in fours
			r, err := reservoir.NewJob(reservoir.Config{Params: params, Batch: batch, Steps: 5, Split: split})
			product(r, err, func() []float32 { return r.States() })
		}
	}
	for _, c := range []automata.Config{
		{Rows: 301, Cols: 64 * 33, Steps: 21},
		{Rows: 401, Cols: 64 * 7, Steps: 99, K: 33},
		{Rows: 128, Cols: 64, Steps: 64, K: 64},
		// The kernels for up to 8 steps and for more, both with more than the 30 words of a strip.
		{Rows: 100, Cols: 64 * 32, Steps: 20, K: 7},
		{Rows: 100, Cols: 64 * 32, Steps: 20, K: 10},
		// Words that are not full, rows shorter than a word, and other rules than Life's.
		{Rows: 130, Cols: 64*31 + 1, Steps: 70, K: 64},
		{Rows: 67, Cols: 63, Steps: 20, K: 7},
		{Rows: 70, Cols: 63, Steps: 130, K: 64}, // all of a margin counts
		{Rows: 41, Cols: 129, Steps: 30, Rule: "B02/S8"},
		{Rows: 300, Cols: 64 * 9, Steps: 25, Rule: "B36/S125"},
	} {
		a, err := automata.New(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: a, Result: func() []byte { return workloadtest.Bytes(a.Result()) }})
	}
	for _, mode := range []merkle.Mode{merkle.RFC6962, merkle.Dup} {
		for _, n := range []int{1, 2, 3, 7, 100, 4099, 300_001} {
			m, err := merkle.New(merkle.Config{N: n, Mode: mode})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, workloadtest.Sample{Job: m, Result: func() []byte { root := m.Root(); return root[:] }})
		}
	}
	sp := reservoir.Defaults()
	sp.Size, sp.Inputs = 203, 17
	stream, err := reservoir.NewStreamJob(reservoir.StreamConfig{Params: sp, Replicas: 3, Patterns: 5, Steps: 3})
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, workloadtest.Sample{Job: stream, Result: func() []byte { return workloadtest.Bytes(slices.Concat(stream.Replicas()...)) }})
	for _, c := range []elastic.Config{{Structure: "1CRN", Network: elastic.Anisotropic, Steps: 30}, {Residues: 5}} {
		e, err := elastic.New(c)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, workloadtest.Sample{Job: e, Result: func() []byte {
			basis, squares, diagonal := e.Result()
			return workloadtest.Bytes(slices.Concat(basis, squares, diagonal))
		}})
	}
	p, err := phase.New(phase.Config{Structure: "1CRN", Time: 3})
	if err != nil {
		t.Fatal(err)
	}
	out = append(out, workloadtest.Sample{Job: p, Result: func() []byte { return workloadtest.Bytes(p.Result()) }})
	l, err := landscape.New(landscape.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return append(out, workloadtest.Sample{Job: l, Result: func() []byte { return workloadtest.Bytes(l.Result()) }})
}

// graphNumbers are the results of a job of package network.
func graphNumbers(j workload.Job) []byte {
	switch j := j.(type) {
	case interface {
		Given() []float64
		Residual() float64
	}:
		return workloadtest.Bytes(append(slices.Clone(j.Given()), j.Residual()))
	case interface{ Result(int) workload.Matrix }:
		return workloadtest.Bytes(j.Result(0).Data)
	}
	d := j.(interface {
		Closeness() []float32
		Distances() workload.Matrix
		Medoids() (medoids, labels []uint32)
	})
	if c := d.Closeness(); c != nil {
		return workloadtest.Bytes(slices.Concat(d.Distances().Data, c))
	}
	medoids, labels := d.Medoids()
	return workloadtest.Bytes(slices.Concat(medoids, labels))
}

// testProbe runs the check of probes on all devices of a driver and looks at every byte.
func testProbe(t *testing.T, d driver.Driver) {
	rt, err := weft.Open(t.Context(), weft.Options{NoCalibrate: true, CacheDir: "off", Drivers: []driver.Driver{d}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	in, out := make([]byte, probe.Bytes), make([]byte, probe.Bytes)
	for _, d := range rt.Devices() {
		g, err := probe.Graph(d.Name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(100) {
			probe.Fill(in, seed)
			if _, err := rt.Run(t.Context(), g, weft.Bind("weft.probe.in", in), weft.Bind("weft.probe.out", out)); err != nil {
				t.Fatal(err)
			}
			if err := probe.Check(in, out); err != nil {
				t.Errorf("seed %d on %s: %v", seed, d.Name, err)
			}
		}
	}
}
