//go:build clang

package clifford

import (
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
	"github.com/weft-run/weft/sched"
)

// The kernel for NVIDIA GPUs multiplies as the reference does: algebras that it knows and one that it does
// not, full blocks and the last, pairs and one factor for all.
func TestHostProducts(t *testing.T) {
	b := workloadtest.NewBlocks(t)
	for _, a := range [][2]int{{3, 0}, {1, 3}, {4, 1}, {2, 1}} {
		for _, op := range []string{Product, Rotor} {
			for _, n := range []int{1, 512, 1100} {
				j := workloadtest.New[*job](t)(New(Config{Op: op, P: a[0], Q: a[1], Count: n, Seed: 2}))
				g, err := j.Graph([]sched.Range{{Hi: int64(n)}})
				if err != nil {
					t.Fatal(err)
				}
				b.Run(t, g, map[string][]byte{
					"x": workloadtest.Bytes(j.x), "y": workloadtest.Bytes(j.y), "tables": workloadtest.Bytes(j.entries), "rotor": workloadtest.Bytes(j.rotor), "out": workloadtest.Bytes(j.out),
				})
				if err := j.Check(); err != nil {
					t.Errorf("%s of %d: %v", op, n, err)
				}
			}
		}
	}
}
