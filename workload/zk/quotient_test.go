package zk

import (
	"errors"
	"fmt"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/zk/ntt"
)

// The steps that GPUs have make the quotient that cores make, for one pass and two. Here the Go code of a pass stands
// for theirs.
func TestSteps(t *testing.T) {
	kernels := []**graph.Kernel{&cosetKernel, &quotientKernel, &passKernel, &productKernel}
	for i, k := range []*graph.Kernel{{Name: "zk.coset", Impls: []graph.Impl{{Dialect: graph.Go}}}, {Name: "zk.quotient", Impls: []graph.Impl{{Dialect: graph.Go}}}, ntt.Pass, graph.GoKernel("zk.product")} {
		defer func(old *graph.Kernel) { *kernels[i] = old }(*kernels[i])
		*kernels[i] = k
	}
	rt := workloadtest.Open(t, 1, workload.Funcs(Funcs(), map[string]weft.Func{"zk.product": func(c *weft.Call, lo, hi int) {
		a, b, sub, out := weft.View[fr.Element](c.Args[0]), weft.View[fr.Element](c.Args[1]), weft.View[fr.Element](c.Args[2]), weft.View[fr.Element](c.Args[3])
		for i := lo; i < hi; i++ {
			out[i].Mul(&a[i], &b[i])
			out[i].Sub(&out[i], &sub[i])
		}
	}}))
	for _, log := range []int{0, 1, 6, 10, 11} {
		testQuotient(t, rt, log)
	}
}

// Data that are shorter than the parameters of a kernel say are refused.
func TestShortData(t *testing.T) {
	rt := workloadtest.Open(t, 1, Funcs())
	for k, args := range map[*graph.Kernel]int{cosetKernel: 2, quotientKernel: 4} {
		var b graph.Builder
		task := graph.Task{Steps: []graph.Step{graph.Step{Kernel: k, Launch: graph.Grid(1)}.With(transformParams{4})}}
		var pairs []weft.Binding
		for i := range args {
			out, name, access := i == args-1, fmt.Sprint(i), graph.Read
			if out {
				access = graph.Write
			}
			task.Uses = append(task.Uses, graph.Use{Data: b.Data(graph.Data{Name: name, Bytes: 15 * scalarBytes, Input: !out, Output: out}), Access: access})
			pairs = append(pairs, weft.Bind(name, make([]fr.Element, 15)))
		}
		b.Add(task)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rt.Run(t.Context(), g, pairs...); !errors.Is(err, driver.ErrUnfit) {
			t.Errorf("%s of 16 values with 15: %v", k.Name, err)
		}
	}
}

// testQuotient compares the quotient of polynomials with 2^log values with that of cores.
func testQuotient(t *testing.T, rt *weft.Runtime, log int) {
	t.Helper()
	p := &Prover{rt: rt, shape: newShape(1<<log, log, [numSums]int{})}
	n := p.size()
	r := source(uint64(log))
	var x [3][]fr.Element
	for i := range x {
		x[i] = make([]fr.Element, n)
		for k := range x[i] {
			x[i][k] = scalar(r)
		}
	}
	ones, zeros, got := make([]fr.Element, n), make([]fr.Element, n), make([]fr.Element, n)
	for i := range ones {
		ones[i].SetOne()
	}
	// What comes home is the quotient times one.
	var b placed
	h := p.transforms(&b)
	data := func(name string, in, out bool) graph.DataID {
		return b.Data(graph.Data{Name: name, Bytes: int64(n) * scalarBytes, Input: in, Output: out})
	}
	b.Add(graph.Task{
		Steps: []graph.Step{graph.Step{Kernel: productKernel, Launch: graph.Grid(n)}.With(productParams{n})},
		Uses: []graph.Use{
			{Data: h, Access: graph.Read}, {Data: data("ones", true, false), Access: graph.Read}, {Data: data("zeros", true, false), Access: graph.Read},
			{Data: data("got", false, true), Access: graph.Write},
		},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	pairs := []weft.Binding{weft.Bind("a", x[0]), weft.Bind("b", x[1]), weft.Bind("c", x[2]), weft.Bind("ones", ones), weft.Bind("zeros", zeros), weft.Bind("got", got)}
	for i, tables := range p.tables() {
		pairs = append(pairs, weft.Bind([]string{tablesBack, tablesCoset, tablesDivide}[i], tables))
	}
	if _, err := rt.Run(t.Context(), g, pairs...); err != nil {
		t.Fatal(err)
	}
	var c [3][]byte
	for i := range x {
		c[i] = make([]byte, n*scalarBytes)
		call := &weft.Call{Args: [][]byte{workloadtest.Bytes(x[i]), c[i]}}
		coset(call, transformParams{log}, 0, 1)
	}
	want := make([]fr.Element, n)
	quotient(&weft.Call{Args: [][]byte{c[0], c[1], c[2], workloadtest.Bytes(want)}}, transformParams{log}, 0, 1)
	for i := range want {
		if !got[i].Equal(&want[i]) {
			t.Fatalf("2^%d: coefficient %d is %v, want %v", log, i, &got[i], &want[i])
		}
	}
}
