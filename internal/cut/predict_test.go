package cut

import (
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// A graph is predicted while a device is lost that a task of it must run on: the task waits
// for the device. Others go elsewhere.
func TestPredictWhileLost(t *testing.T) {
	for _, only := range []string{"", "cpu:0"} {
		v := cores(2, 0)
		v.Devices[0].State = engine.Lost
		var b graph.Builder
		task := work(1e6)
		if only != "" {
			task.On.Only = []string{only}
		}
		b.Add(task)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		p, _, err := v.Predict(g, nil)
		if err != nil {
			t.Fatalf("only %q: %v", only, err)
		}
		takes, err := v.Takes(g)
		if err != nil || takes != p.Median || takes < time.Millisecond {
			t.Errorf("only %q: takes %v, predicted %v: %v", only, takes, p.Median, err)
		}
		on := 1
		if only != "" {
			on = 0
		}
		if p.Devices[on].Tasks != 1 {
			t.Errorf("only %q: %+v", only, p.Devices)
		}
	}
}
