//go:build speed

package engine_test

import (
	"testing"
	"time"

	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/test/pace"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// TestSpeed measures a task through the engine as the benchmarks do, in graphs of 10,000.
func TestSpeed(t *testing.T) {
	const n = 10_000
	var rows []pace.Row
	for _, c := range []struct {
		name, machine string
		width, deps   int
		rec           *trace.Recorder
	}{
		{"engine: task of a DAG", "2xcpu", 64, 3, nil},
		{"engine: the same, traced", "2xcpu", 64, 3, trace.NewRecorder(1 << 15)},
		{"engine: the same between two GPUs, with copies", "2xh100", 64, 3, nil},
		{"engine: task of a chain", "2xcpu", 1, 1, nil},
		{"engine: task that waits for nothing", "2xcpu", n, 0, nil},
	} {
		m, _ := machine.Named(c.machine)
		g := layered(t, n, c.width, c.deps)
		e := engine.New(engine.Options{Machine: m, Cost: machine.NewRoofline(m), Trace: c.rec})
		var evs []engine.Event
		var acts []engine.Action
		var now time.Duration
		rows = append(rows, pace.Row{Case: c.name, Tasks: n, Run: func() { evs, acts = drive(t, e, g, evs, acts, &now) }})
	}
	pace.Measure(t, rows)
}
