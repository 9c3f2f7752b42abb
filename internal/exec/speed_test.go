//go:build speed

package exec_test

import (
	"testing"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/test/pace"
)

// TestSpeed measures empty tasks on two devices of a runtime's executor.
func TestSpeed(t *testing.T) {
	const n = 10_000
	var rows []pace.Row
	for _, c := range []struct {
		name        string
		width, deps int
	}{{"live: task that waits for nothing", n, 0}, {"live: task of a chain", 1, 1}, {"live: task of a DAG", 64, 3}} {
		x := open(t, 2, engine.Options{})
		g := layered(t, n, c.width, c.deps)
		rows = append(rows, pace.Row{Case: c.name, Tasks: n, Run: func() {
			if _, err := x.Run(t.Context(), g, engine.RunOptions{}, nil); err != nil {
				t.Fatal(err)
			}
		}})
	}
	pace.Measure(t, rows)
}
