package cut

import (
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/sched"
)

// Work is work that can be cut into ranges, each of which becomes a task.
type Work struct {
	Pieces sched.Pieces
	// Whole is the task that would do all of it: its kernel and its work estimate say
	// how fast each device is.
	Whole graph.Task
	// Graph builds the work as one task for each range. Without it a plan ends with the
	// ranges.
	Graph func(ranges []sched.Range) (*graph.Graph, error)
	// Resident returns the data of a graph that is on devices before the run. Nil means
	// none.
	Resident func(g *graph.Graph) ([]graph.DataID, error)
	// Grain is the least number of items in a task; 0 means 1.
	Grain int64
	// Streamed says that copying the data takes about as long as using it, and that it
	// is used once: a device with memory of its own gets several tasks, so that one is
	// copied while another is computed.
	Streamed bool
}

// Plan is how work is to be run.
type Plan struct {
	Partition  sched.Partition
	Ranges     []sched.Range // of the tasks, in the order to start them
	Graph      *graph.Graph
	Prediction *sched.Prediction
	Expected   Expected
}

// Plan cuts work, has its graph built and predicts that. If the prediction, which knows
// every task, shows that one device alone is faster than several, the work is cut for
// that device and predicted again. Predictions stop comparing devices once stop is true.
func (v *View) Plan(w Work, stop func() bool) (*Plan, error) {
	part, err := v.Split(w.Pieces, w.Whole)
	if err != nil {
		return nil, err
	}
	for {
		p := &Plan{Partition: part, Ranges: v.Tasks(w, part)}
		if w.Graph == nil {
			return p, nil
		}
		if p.Graph, err = w.Graph(p.Ranges); err != nil {
			return nil, err
		}
		var resident []graph.DataID
		if w.Resident != nil {
			if resident, err = w.Resident(p.Graph); err != nil {
				return nil, err
			}
		}
		if p.Prediction, p.Expected, err = v.Predict(p.Graph, resident, stop); err != nil {
			return nil, err
		}
		again := false
		if p.Partition, again = v.settle(w.Pieces, part, p.Prediction); !again {
			return p, nil
		}
		part = p.Partition // for one device, which settle does not change again
	}
}
