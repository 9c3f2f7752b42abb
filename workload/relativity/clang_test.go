//go:build clang

package relativity

import (
	"slices"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
)

// The kernel for NVIDIA GPUs moves bodies as the reference does, whatever their number, and in parts to the
// same bytes.
func TestHostBodies(t *testing.T) {
	b := workloadtest.NewBlocks(t)
	for _, n := range []int{1, 255, 700} {
		var whole []float32
		for _, ranges := range [][]sched.Range{{{Hi: int64(n)}}, {{Hi: int64(n) / 3}, {Lo: int64(n) / 3, Hi: int64(n)}}} {
			if ranges[0].Len() == 0 {
				continue
			}
			j := newBodies(Config{Problem: Bodies, Count: n, Steps: 2, Seed: 5})
			g, err := j.Graph(ranges)
			if err != nil {
				t.Fatal(err)
			}
			b.Run(t, g, map[string][]byte{
				"masses": workloadtest.Bytes(j.mass), "first places": workloadtest.Bytes(j.startAt), "first velocities": workloadtest.Bytes(j.startV),
				"places": workloadtest.Bytes(j.at), "velocities": workloadtest.Bytes(j.v),
			})
			if err := j.Check(); err != nil {
				t.Errorf("%d bodies in %d parts: %v", n, len(ranges), err)
			}
			if got := append(slices.Clone(j.at), j.v...); whole == nil {
				whole = got
			} else if !slices.Equal(got, whole) {
				t.Errorf("%d bodies: parts have other bytes", n)
			}
		}
	}
}
