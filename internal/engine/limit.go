package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// Automatic timeouts of tasks on devices in processes of their own.

// Process describes the process a device runs in.
type Process struct {
	Own   bool // it is not the caller's, and can be killed whatever the device does
	Keeps bool // the content of the device's memory outlives it
	Left  bool // launches on host memory go on when the device is given up: nothing can end them
}

// Limits say how long a task may run on a device in a process of its own if no timeout
// is set; zero fields take the defaults named. A kernel that hangs there is ended by
// killing the process: a limit that is too short costs an execution of the task, one that
// is too long costs only time.
type Limits struct {
	// Least is the shortest limit (10 s): far above the delay of a short kernel by other
	// users of the device, and short enough to wait for.
	Least time.Duration
	// Times is the limit as a multiple of the predicted duration (20), for each launch that
	// may share the device. Nine of ten samples are within twice the prediction; the other
	// factor of 10 allows for lower clocks and other programs.
	Times int
	// Unknown is the limit if the prediction rests on no measurement, and while a kernel
	// may still be compiled (2 min): a large one takes about a minute.
	Unknown time.Duration
}

// defaults fills in the fields that are zero.
func (l *Limits) defaults() {
	l.Least, l.Times, l.Unknown = cmp.Or(l.Least, 10*time.Second), cmp.Or(l.Times, 20), cmp.Or(l.Unknown, 2*time.Minute)
}

// of returns the limit for a task with a predicted duration, from that many samples,
// where sharers launches may run at a time. compiles says that a kernel may be being
// compiled.
func (l Limits) of(predicted time.Duration, samples, sharers int, compiles bool) time.Duration {
	limit := max(l.Least, time.Duration(l.Times*sharers)*predicted)
	if samples == 0 || compiles {
		limit = max(limit, l.Unknown)
	}
	return limit
}

// sharers returns the number of launches that may run at a time on the resources a device
// computes with: one for each of its lanes and of the lanes of devices that name one of
// these resources. A team counts as one, since its lanes take as much together as one
// launch on all of them. Sharing the bandwidth of host memory does not count.
func sharers(m *machine.Machine, dev machine.DeviceID) int {
	n := 0
	for i := range m.Devices {
		d := &m.Devices[i]
		if machine.DeviceID(i) == dev || slices.ContainsFunc(d.Resources, func(r string) bool {
			return r != machine.HostMemory && slices.Contains(m.Devices[dev].Resources, r)
		}) {
			if d.TeamSize() > 0 {
				n++
			} else {
				n += max(d.Lanes, 1)
			}
		}
	}
	return n
}

// limit returns the time that a launch with an automatic timeout may run.
func (e *Engine) limit(tid taskID, dev machine.DeviceID) time.Duration {
	r, gt := e.taskOf(tid)
	d := &e.devs[dev]
	est := e.cost.Task(r.g.Task(gt), dev)
	predicted := max(est.Median, time.Duration(e.tasks.at[tid].cost))
	return e.o.Limits.of(predicted, est.Samples, d.sharers, e.compiles(d))
}

// compiles reports whether a device may be compiling: a launch in flight there is the
// first of its kernel in the device's process. Other launches wait meanwhile.
func (e *Engine) compiles(d *device) bool {
	for l := d.lanes[0]; l < d.lanes[1]; l++ {
		ln := &e.lanes[l]
		for seq := ln.done + 1; seq <= ln.issued; seq++ {
			if tid := ln.rec(seq).task; tid >= 0 {
				r, gt := e.taskOf(tid)
				for _, s := range r.g.Task(gt).Steps {
					if s.Kernel != nil && !d.compiled[s.Kernel.Name] {
						return true
					}
				}
			}
		}
	}
	return false
}

// ranBit returns the mark of a device in shape.ran. Devices from number 64 on have none:
// their kernels are looked up each time.
func ranBit(dev machine.DeviceID) uint64 { return 1 << uint(dev) }

// compiledOn notes that the kernels of a task have run on a device. It is called if the
// shape has no mark of that.
func (e *Engine) compiledOn(dev machine.DeviceID, task *graph.Task, sh *shape) {
	sh.ran |= ranBit(dev)
	d := &e.devs[dev]
	first := false
	for i := range task.Steps {
		k := task.Steps[i].Kernel
		if k == nil || k == d.ran {
			continue
		}
		if d.ran = k; !d.compiled[k.Name] {
			d.compiled[k.Name], first = true, true
		}
	}
	if first {
		d.compiledAt = e.now
		for l := d.lanes[0]; l < d.lanes[1]; l++ {
			e.watchLane(l)
		}
	}
}

// uncompiled forgets the kernels compiled in a device's process, which has ended.
func (e *Engine) uncompiled(dev machine.DeviceID) {
	clear(e.devs[dev].compiled)
	e.devs[dev].ran = nil
	for _, r := range e.runs {
		for k := 0; r != nil && k < len(r.shapes); k++ {
			r.shapes[k].ran &^= ranBit(dev)
		}
	}
}

// overdue returns the error of a task that ran too long.
func (e *Engine) overdue(rec *opRec, dev machine.DeviceID) error {
	if !rec.auto {
		return fmt.Errorf("%w after %v", ErrTimeout, rec.timeout)
	}
	return fmt.Errorf("%w after %v: no task_timeout is set and it was predicted to take %v", ErrTimeout,
		e.limit(rec.task, dev), time.Duration(e.tasks.at[rec.task].cost).Round(time.Microsecond))
}
