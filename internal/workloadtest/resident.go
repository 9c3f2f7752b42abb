package workloadtest

import (
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
)

// Put makes data resident until the benchmark ends.
func Put[T any](t testing.TB, rt *weft.Runtime, name string, xs []T) *weft.Data[T] {
	t.Helper()
	d, err := weft.Put(rt, name, xs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Release)
	return d
}

// Busy runs a graph whose data is resident three times, and ten times that count. It returns the median
// of the times that the first device was busy with its tasks. A launch and waiting for its end are part
// of them.
func Busy(t testing.TB, rt *weft.Runtime, g *graph.Graph, data ...weft.Binding) time.Duration {
	t.Helper()
	const warm, times = 3, 10
	var took []time.Duration
	for range warm + times {
		rep, err := rt.Run(t.Context(), g, data...)
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, rep.Devices[0].Busy)
	}
	took = took[warm:]
	slices.Sort(took)
	return took[times/2]
}
