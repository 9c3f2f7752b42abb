package workload_test

import (
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/workload"
)

func TestKernelValues(t *testing.T) {
	k := graph.GoKernel("k", 48, graph.All)
	if got := k.Impls[0].Shape(graph.Grid(100, 7)).Grid; got != [3]uint32{3, 1, 1} {
		t.Errorf("a grid of 100 × 7 is cut into %v", got)
	}
	var s workload.Scratch[uint64]
	a := s.Get(3)
	if b := s.Get(5); len(*a) < 3 || len(*b) < 5 || &(*a)[0] == &(*b)[0] {
		t.Error("scratch memory is short or shared")
	}
}
