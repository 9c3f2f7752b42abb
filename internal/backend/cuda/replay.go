package cuda

import (
	"fmt"
	"slices"

	"github.com/weft-run/weft/graph"
)

const (
	// replayFrom is the number of steps from which a CUDA graph of a task is
	// cheaper than launching them.
	replayFrom = 4
	// replayKeep is the number of sets of addresses of a task with a graph of their
	// own. A task that writes fresh buffers comes round to the same few; equal
	// parts of a long chain, which are one task to a worker, have a set each.
	replayKeep = 64
	// replayTasks bounds the tasks remembered, replayMost about how many graphs
	// all of them have.
	replayTasks = 256
	replayMost  = 1024
)

// replays are tasks of several steps that ran before, as CUDA graphs: one call
// starts all their steps.
type replays struct {
	by   map[*graph.Task]*replay
	made int // graphs there are
}

type replay struct {
	runs  int
	execs []replayed
	last  int // which of execs ran last: the one after it is likely to be next
	next  int // which gives way
}

type replayed struct {
	ptrs []uintptr
	exec uintptr
}

// run starts a task as a graph and reports whether it did: not the first time,
// and not while its variants are being measured or are library routines, which
// keep state between calls.
func (r *replays) run(d *device, o *op, s *stream) (bool, error) {
	t := r.by[o.task]
	if t == nil {
		if len(r.by) >= replayTasks || r.made >= replayMost {
			r.close(d, d.f)
		}
		if r.by == nil {
			r.by = make(map[*graph.Task]*replay)
		}
		t = &replay{}
		r.by[o.task] = t
	}
	if t.runs++; t.runs < 2 || !r.fixed(d, o.task) {
		return false, nil
	}
	a := d.api
	for range t.execs {
		t.last = (t.last + 1) % len(t.execs)
		if e := &t.execs[t.last]; slices.Equal(e.ptrs, o.ptrs) {
			return true, d.called(&a.graphLaunch, a.code(d.f, &a.graphLaunch, e.exec, s.handle))
		}
	}
	g, err := r.capture(d, o, s)
	if err != nil {
		return false, err
	}
	defer func() { a.code(d.f, &a.graphDestroy, g) }() // what was made of it lives on
	t.last, err = r.place(d, t, g)
	if err != nil {
		return false, err
	}
	e := &t.execs[t.last]
	e.ptrs = append(e.ptrs[:0], o.ptrs...)
	return true, d.called(&a.graphLaunch, a.code(d.f, &a.graphLaunch, e.exec, s.handle))
}

// fixed reports whether every step of a task will run the same way again.
func (r *replays) fixed(d *device, t *graph.Task) bool {
	for i := range t.Steps {
		k := d.kernel(t.Steps[i].Kernel)
		if len(k.variants) == 0 {
			continue
		}
		n, all := 0, k.choices(&t.Steps[i].Launch)
		if len(all) > 1 {
			x := d.timing(k, class(&t.Steps[i].Launch))
			if !x.decided {
				return false
			}
			n = x.best
		}
		if all[n].library != nil {
			return false
		}
	}
	return true
}

// capture records the steps of a task without running them.
func (r *replays) capture(d *device, o *op, s *stream) (uintptr, error) {
	a := d.api
	if err := d.called(&a.captureBegin, a.code(d.f, &a.captureBegin, s.handle, captureThreadLocal)); err != nil {
		return 0, err
	}
	d.starting = nil // what is recorded does not run, so no loss is its fault
	_, err := d.startSteps(o, s)
	d.starting, o.launched = o, false
	if e := d.called(&a.captureEnd, a.code(d.f, &a.captureEnd, s.handle, d.f.at(0))); err == nil {
		err = e
	}
	g := uintptr(d.f.out[0])
	if err != nil && g != 0 {
		a.code(d.f, &a.graphDestroy, g)
	}
	if err == nil && g == 0 {
		err = fmt.Errorf("%s recorded nothing", a.captureEnd.name)
	}
	return g, err
}

// place makes a graph ready to run and returns where it is: as a new one, or in the
// place of an old one whose steps are the same and whose addresses are not.
func (r *replays) place(d *device, t *replay, g uintptr) (int, error) {
	a := d.api
	if n := len(t.execs); n > 0 && (n == replayKeep || r.made >= replayMost) {
		at := t.next % n
		t.next = at + 1
		if a.code(d.f, &a.graphUpdate, t.execs[at].exec, g, d.f.at(0)) == 0 {
			return at, nil
		}
		a.code(d.f, &a.graphExecDestroy, t.execs[at].exec)
		t.execs = slices.Delete(t.execs, at, at+1)
		r.made--
	}
	if err := d.called(&a.graphInstantiate, a.code(d.f, &a.graphInstantiate, d.f.at(0), g, 0)); err != nil {
		return 0, err
	}
	t.execs = append(t.execs, replayed{exec: uintptr(d.f.out[0])})
	r.made++
	return len(t.execs) - 1, nil
}

// close forgets all graphs; one that runs ends first.
func (r *replays) close(d *device, f *frame) {
	for _, t := range r.by { // in any order: they are independent
		for _, e := range t.execs {
			d.api.code(f, &d.api.graphExecDestroy, e.exec)
		}
	}
	clear(r.by)
	r.made = 0
}
