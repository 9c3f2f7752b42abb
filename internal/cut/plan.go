package cut

import (
	"errors"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Divisible is work that can be cut into ranges, each of which becomes a task.
type Divisible struct {
	// Items that are Streamed have their data in host memory.
	Items sched.Items
	// Whole is the task that would do all of it: its kernel and its work estimate say
	// how fast each device is.
	Whole graph.Task
	// Graph builds the work as one task for each range. Without it a plan ends with the
	// ranges.
	Graph func(ranges []sched.Range) (*graph.Graph, error)
	// Resident returns the data of a graph that is on devices before the run. Nil means
	// none.
	Resident func(g *graph.Graph) ([]graph.DataID, error)
}

// Plan is a way to run work.
type Plan struct {
	Partition  sched.Partition
	Ranges     []sched.Range // of the tasks, in the order to start them
	Graph      *graph.Graph
	Prediction *sched.Prediction
	Expected   Expected

	resident []graph.DataID // data of the graph that is on devices before the run
}

// Plan cuts work, has its graph built and predicts that. Where it can go to one device or to
// several it is cut for each set of them and goes to the one that choose picks.
func (v *Knowledge) Plan(w Divisible) (*Plan, error) {
	part, err := v.Split(w.Items, w.Whole)
	if err != nil {
		return nil, err
	}
	if w.Graph == nil {
		return &Plan{Partition: part, Ranges: v.Tasks(w, part)}, nil
	}
	var on []machine.DeviceID // nil for any device
	if c := part.Choice; c != nil && c.One() && c.Able() > 1 {
		on = devicesOf(part)
	}
	p, err := v.build(w, part, on)
	if err != nil {
		return nil, err
	}
	if err := v.compare(p.Graph, p.resident, p.Prediction); err != nil {
		return nil, err
	}
	if part.Choice == nil || p.Prediction.Alone == nil {
		return p, nil
	}
	plans, err := v.setPlans(w, p)
	if err != nil {
		return nil, err
	}
	best, pick := choose(plans)
	if v.busy() {
		pick = best // nothing can be learned among other runs
	}
	return v.settle(plans, best, pick, workSize(w)), nil
}

// busy reports whether devices have work of other runs.
func (v *Knowledge) busy() bool {
	return slices.ContainsFunc(v.Devices, func(d engine.DeviceStatus) bool { return d.Queued > 0 || d.Taken > 0 })
}

// maxHalvings is the largest number of times that ranges of tasks are halved to fit in memory. Six
// make 64 tasks of one; work that needs more is refused.
const maxHalvings = 6

// build cuts each device's range into tasks, has the graph of them built and predicts it
// for the devices it is cut for; nil means any. Where a task does not fit in the memory of
// a device, the ranges of all are halved.
func (v *Knowledge) build(w Divisible, part sched.Partition, on []machine.DeviceID) (*Plan, error) {
	ranges := v.Tasks(w, part)
	p, err := v.buildOf(w, part, ranges, on)
	first := err
	for n := 0; n < maxHalvings && errors.Is(err, engine.ErrOutOfMemory); n++ {
		var halves []sched.Range
		for _, r := range ranges {
			halves = append(halves, halved(w.Items, r)...)
		}
		if len(halves) == len(ranges) {
			break
		}
		ranges = halves
		p, err = v.buildOf(w, part, ranges, on)
	}
	if err != nil {
		return nil, first // of the tasks as they would be
	}
	return p, nil
}

// buildOf has the graph of some ranges built and predicts it.
func (v *Knowledge) buildOf(w Divisible, part sched.Partition, ranges []sched.Range, on []machine.DeviceID) (*Plan, error) {
	p, err := &Plan{Partition: part, Ranges: ranges}, v.stopped()
	if err != nil {
		return nil, err
	}
	if p.Graph, err = w.Graph(p.Ranges); err != nil {
		return nil, err
	}
	if w.Resident != nil {
		if p.resident, err = w.Resident(p.Graph); err != nil {
			return nil, err
		}
	}
	if p.Prediction, p.Expected, err = v.predict(p.Graph, p.resident, on); err != nil {
		return nil, err
	}
	p.Partition.Completion = p.Prediction.Median
	return p, nil
}

// devicesOf returns the devices that have a range, ascending.
func devicesOf(part sched.Partition) (on []machine.DeviceID) {
	for i, r := range part.Ranges {
		if r.Len() > 0 {
			on = append(on, machine.DeviceID(i))
		}
	}
	return on
}
