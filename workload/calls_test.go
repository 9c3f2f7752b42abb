package workload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/machine"
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

func funcs() map[string]weft.Func {
	return workload.Funcs(
		gemm.Funcs(), tropical.Funcs(), tropical.TrainFuncs(), conv.Funcs(), reduce.Funcs(), reservoir.Funcs(), automata.Funcs(),
		merkle.Funcs(), landscape.Funcs(), fusion.Funcs(), fisher.Funcs(), enumerative.Funcs(), clifford.Funcs(), elastic.Funcs(), phase.Funcs(), relativity.Funcs(), graphs.Funcs(), autodiff.Funcs())
}

// Every call is right on one CPU device and on three.
func TestCalls(t *testing.T) {
	for _, parts := range []int{1, 3} {
		if testing.Short() && parts == 1 {
			continue // the same calls, one after another
		}
		t.Run(fmt.Sprintf("cpu/%d", parts), func(t *testing.T) { testCalls(t, workloadtest.Open(t, parts, funcs())) })
	}
}

// testCalls compares every call with plain loops, by seeds and in odd sizes.
func testCalls(t *testing.T, rt *weft.Runtime) {
	for name, test := range map[string]func(t *testing.T, rt *weft.Runtime){
		"gemm":     testGemm,
		"tropical": testTropical,
		"merkle":   testMerkle,
		"automata": testAutomata,
		"conv":     testConv,
		"fisher":   testFisher, "fusion": testFusion, "landscape": testLandscape, "reduce": testReduce,
		"reservoir": testReservoir, "enumerative": testEnumerative, "clifford": testClifford, "relativity": testRelativity, "network": testNetwork, "autodiff": testAutodiff,
	} {
		t.Run(name, func(t *testing.T) { test(t, rt) })
	}
}

// A call on a runtime without its kernels names the option that brings them.
func TestCallsName(t *testing.T) {
	rt := workloadtest.Open(t, 2, nil)
	ctx := t.Context()
	for pkg, call := range map[string]func() error{
		"gemm":     func() error { _, err := gemm.Mul(ctx, rt, random(2, 3, 1), random(3, 2, 2)); return err },
		"tropical": func() error { _, err := tropical.Mul(ctx, rt, random(2, 3, 1), random(3, 2, 2)); return err },
		"merkle":   func() error { _, err := merkle.RootOf(ctx, rt, make([][]byte, 1000)); return err },
		"automata": func() error {
			_, err := automata.Run(ctx, rt, &automata.Board{Rows: 1, Cols: 1, Words: make([]uint64, 1)}, automata.Life, 1)
			return err
		},
		"conv": func() error {
			one := make([]float32, 1)
			_, err := conv.Of(ctx, rt, one, one, conv.Layer{Shape: conv.Shape{N: 1, C: 1, H: 1, W: 1, K: 1, R: 1, S: 1, Stride: 1}})
			return err
		},
		"fisher": func() error { _, err := fisher.Of(ctx, rt, make([]float32, 4), make([]float32, 2)); return err },
		"fusion": func() error {
			_, err := fusion.Of(ctx, rt, make([]float32, fusion.Floats), &fusion.Weights{}, fusion.Config{})
			return err
		},
		"clifford": func() error {
			a, err := clifford.NewAlgebra(3, 0)
			if err == nil {
				_, err = clifford.Normalize(ctx, rt, a, make([]float32, 8))
			}
			return err
		},
		"autodiff": func() error {
			f, err := autodiff.Parse("x*y")
			if err == nil {
				_, _, err = autodiff.Gradient(ctx, rt, f, make([]float64, 4))
			}
			return err
		},
		"relativity": func() error {
			_, err := relativity.Minkowski(ctx, rt, make([]float64, 4), make([]float64, 4))
			return err
		},
		"network": func() error {
			g, err := graphs.Open("karate", "")
			if err == nil {
				_, err = graphs.Rank(ctx, rt, g, graphs.Config{})
			}
			return err
		},
		"enumerative": func() error {
			_, err := enumerative.Of(ctx, rt, enumerative.Config{Problem: enumerative.Degree, K: 2, N: 4})
			return err
		},
		"landscape": func() error { _, err := landscape.Of(ctx, rt, chain(5, 1)); return err },
		"reduce":    func() error { _, err := reduce.Of(ctx, rt, "sum", make([]float32, 3)); return err },
		"reservoir": func() error {
			w, patterns := network(t, 0)
			_, err := reservoir.Of(ctx, rt, w, reservoir.Sequence, patterns, 3)
			return err
		},
	} {
		err := call()
		if !errors.Is(err, weft.ErrNoFunc) || !strings.Contains(err.Error(), "weft.Options{Funcs: "+pkg+".Funcs()}") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", pkg, err)
		}
	}
}

// A small call is not predicted, but dealt out as the runtime's partitioner has it.
func TestSmallCalls(t *testing.T) {
	rt := workloadtest.Open(t, 2, funcs())
	for size, predicted := range map[int]bool{20: false, 300: true} {
		a := random(size, size, 1)
		res, err := gemm.MulInto(t.Context(), rt, random(size, size, 2), a, a, workload.Rows)
		if err != nil || (res.Prediction != nil) != predicted || res.Tasks < 2 || len(res.Partition.Ranges) != 2 {
			t.Errorf("%d × %d: %+v, %v", size, size, res, err)
		}
	}
}

// random is a matrix of numbers in (-1, 1).
func random(rows, cols int, seed uint64) workload.Matrix {
	r := rand.New(rand.NewPCG(seed, 1))
	m := workload.Matrix{Rows: rows, Cols: cols, Data: make([]float32, rows*cols)}
	for i := range m.Data {
		m.Data[i] = 2*r.Float32() - 1
	}
	return m
}

// products are the sizes of products: few rows, few columns, more of either than a task
// takes, and nothing.
var products = [][3]int{
	{1, 1, 1}, {3, 5, 7}, {1, 300, 1000}, {130, 17, 1}, {67, 33, 129}, {500, 40, 1100}, {2, 3, 70_001}, {70_001, 2, 3},
	{0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {0, 0, 0},
}

var splits = []workload.Split{workload.AnySplit, workload.Rows, workload.Columns, workload.Blocks}

func testGemm(t *testing.T, rt *weft.Runtime) {
	for seed, s := range products {
		a, b := random(s[0], s[1], uint64(seed)), random(s[1], s[2], uint64(seed)+100)
		if len(a.Data) > 4 && seed%2 == 0 {
			a.Data[3] = float32(math.Inf(1)) // with another sign, or zero, not a number
		}
		want, within := make([]float64, s[0]*s[2]), make([]float64, s[0]*s[2])
		for i := range s[0] {
			for j := range s[2] {
				for p := range s[1] {
					term := float64(a.At(i, p)) * float64(b.At(p, j))
					want[i*s[2]+j] += term
					within[i*s[2]+j] += math.Abs(term) * 0x1p-23 * float64(s[1])
				}
			}
		}
		var first []float32
		for _, split := range splits {
			c := random(s[0], s[2], 7)
			if _, err := gemm.MulInto(t.Context(), rt, c, a, b, split); err != nil {
				t.Fatal(err)
			}
			for i, got := range c.Data {
				if w := want[i]; float64(got) != w && !(math.Abs(float64(got)-w) <= within[i]) && (got == got || w == w) {
					t.Fatalf("%v by %q: element %d is %v, want %v", s, split, i, got, w)
				}
			}
			if first == nil {
				first = c.Data
			} else if oneBackend(rt) && !bytes.Equal(workloadtest.Bytes(c.Data), workloadtest.Bytes(first)) {
				t.Fatalf("%v by %q: other bits than by %q", s, split, splits[0])
			}
		}
		c, err := gemm.Mul(t.Context(), rt, a, b)
		if err != nil || c.Rows != s[0] || c.Cols != s[2] || len(c.Data) != len(want) {
			t.Errorf("%v: %d × %d with %d numbers, %v", s, c.Rows, c.Cols, len(c.Data), err)
		}
	}
}

// oneBackend reports whether all devices round alike.
func oneBackend(rt *weft.Runtime) bool {
	all := rt.Machine().Devices
	return !slices.ContainsFunc(all, func(d machine.Device) bool { return d.Backend != all[0].Backend || d.Model != all[0].Model })
}

func testTropical(t *testing.T, rt *weft.Runtime) {
	for seed, s := range products {
		a, b := random(s[0], s[1], uint64(seed)), random(s[1], s[2], uint64(seed)+100)
		if len(a.Data) > 4 {
			a.Data[3], a.Data[4] = float32(math.NaN()), float32(math.Inf(-1))
		}
		want := slices.Repeat([]float32{float32(math.Inf(-1))}, s[0]*s[2])
		for i := range s[0] {
			for j := range s[2] {
				for p := range s[1] {
					if x := a.At(i, p) + b.At(p, j); x > want[i*s[2]+j] {
						want[i*s[2]+j] = x
					}
				}
			}
		}
		for _, split := range splits {
			c := random(s[0], s[2], 7)
			if _, err := tropical.MulInto(t.Context(), rt, c, a, b, split); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.Data, want) {
				t.Fatalf("%v by %q is not the product", s, split)
			}
		}
		if c, err := tropical.Mul(t.Context(), rt, a, b); err != nil || !slices.Equal(c.Data, want) {
			t.Errorf("%v: not the product, %v", s, err)
		}
	}
}

// Products of matrices that do not fit are refused in one line.
func TestMulRefuses(t *testing.T) {
	rt := workloadtest.Open(t, 1, funcs())
	good := random(2, 3, 1)
	for what, m := range map[string][3]workload.Matrix{
		"sizes below zero":      {random(2, 2, 1), {Rows: -1, Cols: 3}, good},
		"an overflow":           {random(2, 2, 1), {Rows: math.MaxInt/2 + 1, Cols: 4}, {Rows: 4, Cols: 2, Data: make([]float32, 8)}},
		"an overflow of c":      {{}, {Rows: 1 << 62}, {Cols: 1 << 62}},
		"too few numbers":       {random(2, 2, 1), {Rows: 2, Cols: 3, Data: make([]float32, 5)}, random(3, 2, 1)},
		"no numbers":            {random(2, 2, 1), good, {Rows: 3, Cols: 2}},
		"other inner sizes":     {random(2, 3, 1), good, good},
		"other sizes of c":      {random(3, 2, 1), good, random(3, 2, 1)},
		"c without numbers":     {{Rows: 2, Cols: 2}, good, random(3, 2, 1)},
		"c over a":              {{Rows: 2, Cols: 2, Data: good.Data[:4]}, good, random(3, 2, 1)},
		"a long sum":            {random(1, 1, 1), random(1, 1<<16+1, 1), random(1<<16+1, 1, 1)},
		"an unknown split":      {random(2, 2, 1), good, random(3, 2, 1)},
		"an unknown split of 0": {{}, {}, {}},
	} {
		split := workload.Rows
		if strings.Contains(what, "split") {
			split = "diagonals"
		}
		for name, into := range map[string]func(context.Context, *weft.Runtime, workload.Matrix, workload.Matrix, workload.Matrix, workload.Split) (*workload.Result, error){
			"gemm": gemm.MulInto, "tropical": tropical.MulInto,
		} {
			_, err := into(t.Context(), rt, m[0], m[1], m[2], split)
			if !errors.Is(err, workload.ErrConfig) || !strings.HasPrefix(err.Error(), name+": ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s of %s: %v", name, what, err)
			}
		}
	}
	if _, err := gemm.Mul(t.Context(), rt, good, good); !errors.Is(err, workload.ErrConfig) {
		t.Error(err)
	}
	// Matrices without numbers, whose product has 2⁶⁰ zeros.
	if _, err := gemm.Mul(t.Context(), rt, workload.Matrix{Rows: 1 << 30}, workload.Matrix{Cols: 1 << 30}); !errors.Is(err, weft.ErrOutOfMemory) {
		t.Errorf("a product larger than memory: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := gemm.Mul(ctx, rt, good, random(3, 2, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
}
