//go:build lavapipe || gpu

package zk

import (
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/workloadtest"
)

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
