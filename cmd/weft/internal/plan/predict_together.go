package plan

import (
	"fmt"
	"math"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/cut"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Work is a job that can be cut for the devices of a machine and simulated there.
type Work struct {
	// Items is the work that is cut into ranges; Whole is one task that would do all of it.
	Items sched.Items
	Whole graph.Task
	// Graph builds the work as one task for each range, in the order to start them.
	Graph func(ranges []sched.Range) (*graph.Graph, error)
	// Placed returns the work in the form for a machine, where that depends on its devices; nil
	// where it does not.
	Placed func(on *machine.Machine) (Work, error)
}

// Simulate cuts work for a machine and returns how long its graph takes there in virtual
// time, by the rates of the machine.
func Simulate(w Work, on *machine.Machine) (*sched.Prediction, error) {
	p, err := cutFor(w, on)
	if err != nil {
		return nil, err
	}
	return p.Prediction, nil
}

// GraphFor cuts work for a machine and returns its graph.
func GraphFor(w Work, on *machine.Machine) (*graph.Graph, error) {
	p, err := cutFor(w, on)
	if err != nil {
		return nil, err
	}
	return p.Graph, nil
}

// For returns the work in the form for a machine.
func (w Work) For(on *machine.Machine) (Work, error) {
	if w.Placed == nil {
		return w, nil
	}
	return w.Placed(on)
}

func cutFor(w Work, on *machine.Machine) (*cut.Plan, error) {
	w, err := w.For(on)
	if err != nil {
		return nil, fmt.Errorf("plan: simulate on %s: %w", on.Name, err)
	}
	v := cut.Knowledge{
		Machine: on, Cost: machine.NewHistory(machine.NewRoofline(on), on), Devices: make([]engine.DeviceStatus, len(on.Devices)),
	}
	p, err := v.Plan(cut.Divisible{Items: w.Items, Whole: w.Whole, Graph: w.Graph})
	if err != nil {
		return nil, fmt.Errorf("plan: simulate on %s: %w", on.Name, err)
	}
	return p, nil
}

// mostSimulated is the most tasks of a job for one device that is simulated on several: a plan looks at dozens of
// machines. More are steps that follow one another, which gain nothing from devices that exchange data after each.
const mostSimulated = 500

// stepsOf returns the number of tasks of work that is not divided, 0 if it cannot be built.
func stepsOf(w Work, on *machine.Machine) int {
	w, err := w.For(on)
	if err != nil {
		return 0
	}
	g, err := w.Graph([]sched.Range{{Hi: w.Items.Extent}})
	if err != nil {
		return 0
	}
	return g.NumTasks()
}

// together returns the time of a job on all devices, as a part of its time on one: by simulation
// where its work is known. Work of more than mostSimulated tasks is taken to run on one device, and
// a job whose work is not known to be divided without loss.
func (m *Model) together(n *Need, on, one *machine.Machine) (ratio float64, how string) {
	w, ok := m.works[n.Name]
	if ok {
		if steps := stepsOf(w, one); steps > mostSimulated {
			return 1, fmt.Sprintf("%d tasks are too many to simulate: taken to run on one device", steps)
		}
		all, err := Simulate(w, on)
		if err == nil {
			var alone *sched.Prediction
			if alone, err = Simulate(w, one); err == nil && all.Median > 0 && alone.Median > 0 {
				ratio = min(all.Median.Seconds()/alone.Median.Seconds(), 1) // or it would run on one
				return ratio, fmt.Sprintf("simulated on %d devices: %.3g times as fast as one", len(on.Devices), 1/ratio)
			}
		}
		if err != nil {
			how = "cannot be simulated (" + err.Error() + "), "
		}
	}
	ratio = max(partsOf(n, on).total(), 1e-12) / max(partsOf(n, one).total(), 1e-12)
	return math.Min(ratio, 1), how + "taken to divide without loss"
}
