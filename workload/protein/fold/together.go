package fold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// together is runs that are folded at once.
type together struct {
	names string // of their structures, for checkpoints
	mu    sync.Mutex
	left  []float64 // operations that each run has still to do
}

// aheadEach is the priority that a run has for each run with less left to do: a head start of ten
// seconds, which is more than a round takes.
const aheadEach = 100

// priority records the rest of a run and returns the priority of its next round. Runs with more
// left go first, so that all end at about the same time and no device is idle before.
func (t *together) priority(run int, left float64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left[run] = left
	less := 0
	for _, l := range t.left {
		if l < left {
			less++
		}
	}
	return aheadEach * min(less, 1000)
}

// DoAll folds several runs at once, such as chains of different lengths, as [Run.Do] does each of
// them. While replicas of one run wait for each other before they exchange temperatures, or are
// too few for all devices, devices advance other runs: the run with the most left to do goes
// first. The results are the same as with Do, byte by byte. Checkpoints store the runs under names
// of their own, and are resumed with the same runs in the same order. After each round of a run
// DoAll calls told, unless it is nil, with the numbers of run and round, from 0 on, one call at a
// time. An error of one run ends all. DoAll is called once, and no run may be split.
func DoAll(ctx context.Context, rt *weft.Runtime, runs []*Run, told func(run, round int)) error {
	all := &together{left: make([]float64, len(runs))}
	var names []string
	for k, r := range runs {
		switch {
		case r == nil:
			return fmt.Errorf("fold: run %d of %d is nil: %w", k, len(runs), workload.ErrConfig)
		case slices.Contains(runs[:k], r):
			return fmt.Errorf("%s: run %d is the same as run %d: %w: make a run for each", r.Name(), k, slices.Index(runs, r), workload.ErrConfig)
		case r.c.Split != SplitNever && len(runs) > 1:
			return fmt.Errorf("%s: its trajectory is to be split: %w: fold it alone", r.Name(), workload.ErrConfig)
		}
		names = append(names, r.name)
		all.left[k] = r.left(0)
	}
	if len(runs) == 0 {
		return fmt.Errorf("fold: no runs: %w: give one or more", workload.ErrConfig)
	}
	all.names = strings.Join(names, ",")
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards first, and calls of told
	var first error
	for k, r := range runs {
		if len(runs) > 1 {
			r.among, r.number = all, k
		}
		wg.Go(func() {
			err := r.Do(ctx, rt, func(round int) {
				mu.Lock()
				defer mu.Unlock()
				if told != nil {
					told(k, round)
				}
			})
			if err == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
			cancel(errors.New("another run of these failed"))
		})
	}
	wg.Wait()
	return first
}

// left is the number of operations from a round on.
func (r *Run) left(round int) float64 {
	return r.tables.work(r.groups*lanes, r.c.Steps).Ops * float64(r.c.Steps-round*r.c.Every) / float64(r.c.Steps)
}

// deviceTasks is the most tasks for each device that a round of a run among others has. Which device
// gets each of them is decided when one is free.
const deviceTasks = 4

// hosts is the number of devices that can advance the run, if all there are compute in host memory, otherwise zero.
func (r *Run) hosts(rt *weft.Runtime) int {
	n := 0
	for i := range rt.Machine().Devices {
		switch d := &rt.Machine().Devices[i]; {
		case !d.HostMemory:
			return 0
		case d.CanRun(r.tables.kernel()):
			n++
		}
	}
	return n
}

// taskOps is the most operations of a task of a run among others: they take less than half a second, also
// by the portable kernel, so that no run keeps a device from the others for long.
const taskOps = 1e9

// tasks is the number of tasks that a round among others has on some devices.
func (r *Run) tasks(devices int) int { return min(r.groups, deviceTasks*devices) }

// shortSteps is the most steps of a launch among others.
func (r *Run) shortSteps(devices int) int {
	tasks := r.tasks(devices)
	groups := (r.groups + tasks - 1) / tasks // of the largest task
	return max(1, int(taskOps/r.tables.work(lanes*groups, 1).Ops))
}

// launchAmong advances all replicas by some steps of a round while other runs are advanced, too. A plan
// would be for devices that are free.
func (r *Run) launchAmong(ctx context.Context, rt *weft.Runtime, i, steps, devices int, bind []weft.Binding) (*weft.Report, error) {
	p := r.prepared[steps]
	if p == nil {
		tasks := int64(r.tasks(devices))
		ranges := make([]sched.Range, tasks)
		for k := range tasks {
			ranges[k] = sched.Range{Lo: k * int64(r.groups) / tasks, Hi: (k + 1) * int64(r.groups) / tasks}
		}
		g, err := r.round(steps).graph(ranges)
		if err != nil {
			return nil, err
		}
		if p, err = rt.Prepare(g, bind...); err != nil {
			return nil, err
		}
		r.prepared[steps] = p
	}
	now, err := p.With(weft.RunOptions{Priority: r.among.priority(r.number, r.left(i))})
	if err != nil {
		return nil, err
	}
	return now.Run(ctx)
}
