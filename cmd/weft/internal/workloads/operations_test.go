package workloads

import (
	"math"
	"testing"
)

// Elements are as many as were asked for, or near to that, and every operation has its own name.
func TestOperations(t *testing.T) {
	seen := make(map[string]bool)
	for _, o := range Operations() {
		if seen[o.Name] || o.Domain == "" {
			t.Errorf("%+v: the name is there, or no domain", o)
		}
		seen[o.Name] = true
		for _, n := range []int{10, 100, 1000} {
			j, err := o.Job(t.Context(), n)
			if err != nil {
				t.Errorf("%s: %v", o.Name, err)
				continue
			}
			got := float64(j.Items().Extent)
			switch o.Name {
			case "tropical_matrix_multiply": // rows
				got *= got
			case "fisher_information", "ca_evolution", "graph_neural_network": // points, blocks of rows, blocks of edges
				continue
			}
			if math.Abs(math.Log(got/float64(n))) > 0.15 {
				t.Errorf("%s of %d has %v elements: %s", o.Name, n, got, j.Name())
			}
		}
	}
	if _, err := (Operation{workload: "x"}).Job(t.Context(), 1); err == nil {
		t.Error("an operation of no workload")
	}
	if _, err := (Operation{workload: "gemm", flags: "--x"}).Job(t.Context(), 1); err == nil {
		t.Error("an operation with a flag that there is not")
	}
}
