package cut

import (
	"time"

	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// Knowledge is a machine with its measurements and state at one time. Its methods change
// nothing that outlives it.
type Knowledge struct {
	Machine *machine.Machine
	Cost    *machine.History
	Devices []engine.DeviceStatus // the condition of each device, in the order of their IDs

	// Policy places tasks in simulations; nil means the default.
	Policy sched.Factory
	// Partitioner is obeyed where it is set. Without it work is cut by the default one,
	// for several devices or for one, whichever is predicted to be done first.
	Partitioner sched.Partitioner
	// Concurrent limits tasks in flight over all devices; 0 means no limit.
	Concurrent int
	// Stop reports that the answer is not wanted any more: Plan, Predict
	// and Takes return ErrStopped. Nil means never.
	Stop func() bool
}

// ErrStopped is returned where Knowledge.Stop ended what was asked for.
var ErrStopped = sim.ErrStopped

// stopped is ErrStopped when the answer is not wanted any more.
func (v *Knowledge) stopped() error {
	if v.Stop != nil && v.Stop() {
		return ErrStopped
	}
	return nil
}

// Rates returns a Knowledge without what was learned of kernels and copies: its predictions
// follow from the rates of devices and links alone.
func (v *Knowledge) Rates() *Knowledge {
	out := *v
	out.Cost = machine.NewHistory(machine.NewRoofline(v.Machine), v.Machine)
	return &out
}

// slow returns how many times slower than its model a device runs.
func (v *Knowledge) slow(d machine.DeviceID) float64 { return max(v.Devices[d].Slow, 1) }

// out returns the devices that take no work.
func (v *Knowledge) out() (out []machine.DeviceID) {
	for i := range v.Devices {
		if v.Devices[i].State != engine.Healthy {
			out = append(out, machine.DeviceID(i))
		}
	}
	return out
}

// task predicts a task on a device in its present condition.
func (v *Knowledge) task(t *graph.Task, on machine.DeviceID) machine.Estimate {
	e := v.Cost.Task(t, on)
	if f := v.slow(on); f > 1 {
		e.Median, e.Low, e.High = stretch(e.Median, f), stretch(e.Low, f), stretch(e.High, f)
	}
	return e
}

// present makes a Knowledge the simulator's cost model.
type present struct{ *Knowledge }

// Task predicts a task on a device.
func (p present) Task(t *graph.Task, on machine.DeviceID) machine.Estimate { return p.task(t, on) }

// Copy predicts a copy.
func (p present) Copy(bytes int64, from, to machine.DeviceID) machine.Estimate {
	return p.Cost.Copy(bytes, from, to)
}

// Epoch never changes: nothing is learned from a simulation.
func (p present) Epoch() uint64 { return 0 }

func stretch(d time.Duration, f float64) time.Duration { return time.Duration(float64(d) * f) }
