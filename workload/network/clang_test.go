//go:build clang

package network

import (
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
)

// The kernel for NVIDIA GPUs ranks nodes as the reference does, with rows without edges, short and long
// ones, and the same bytes in parts.
func TestHostRank(t *testing.T) {
	b := workloadtest.NewBlocks(t)
	g, err := RMAT(3000, 40, 1)
	if err != nil {
		t.Fatal(err)
	}
	longest := 0
	for i := range g.Rows() {
		columns, _ := g.Row(i)
		longest = max(longest, len(columns))
	}
	if longest < 4*longRow {
		t.Fatalf("the longest row has %d edges", longest)
	}
	for _, weighted := range []bool{false, true} {
		if weighted {
			g.Values = make([]float64, len(g.Columns))
			for i := range g.Values {
				g.Values[i] = 1 + float64(i%7)
			}
		}
		var whole []float64
		for _, parts := range []int64{1, 3} {
			j, err := rankJob(Config{Steps: 3, Damping: 0.85, Tolerance: 1}, g)
			if err != nil {
				t.Fatal(err)
			}
			var ranges []sched.Range
			n := j.Items().Extent
			for i := range parts {
				ranges = append(ranges, sched.Range{Lo: n * i / parts, Hi: n * (i + 1) / parts})
			}
			tasks, err := j.Graph(ranges)
			if err != nil {
				t.Fatal(err)
			}
			b.Run(t, tasks, map[string][]byte{
				"bounds": workloadtest.Bytes(j.bounds), "starts": workloadtest.Bytes(j.in.Starts), "columns": workloadtest.Bytes(j.columns),
				"weights": workloadtest.Bytes(j.weights), "shares": workloadtest.Bytes(j.shares), "start": workloadtest.Bytes(j.start),
				"given": workloadtest.Bytes(j.given), "before": workloadtest.Bytes(j.before), "changes": workloadtest.Bytes(j.changes),
			})
			if err := j.Check(); err != nil {
				t.Errorf("weighted %v, in %d parts: %v", weighted, parts, err)
			}
			if got := append(slices.Clone(j.given), j.changes...); whole == nil {
				whole = got
			} else if !slices.Equal(got, whole) {
				t.Errorf("weighted %v: parts have other bytes", weighted)
			}
		}
	}
}
