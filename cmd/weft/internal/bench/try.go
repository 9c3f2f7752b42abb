package bench

import (
	"context"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/workload"
)

const (
	tryRuns  = 3 // timed runs of a trial; one more before them is not timed
	tryEnds  = 100 * time.Millisecond
	tryTimes = 4. // ratio of the work of a trial to that of the one before
	tryMost  = 4 * time.Second
	tryKeeps = 3 // trials that are kept: the largest, since they tell most about a larger job
)

// WorkOf returns the work of a job, in the form that plans take.
func WorkOf(j workload.Job) plan.Work {
	w := workOf(j)
	if p, ok := j.(workload.Placed); ok {
		w.Placed = func(on *machine.Machine) (plan.Work, error) {
			err := p.Place(on)
			return workOf(j), err
		}
	}
	return w
}

// workOf is the work of a job as it was placed last.
func workOf(j workload.Job) plan.Work {
	return plan.Work{Items: j.Items(), Whole: j.Whole(), Graph: j.Graph}
}

// Try runs jobs like the planned one, beginning with a small part of its work, until one takes tryEnds
// or all of the work was run. It returns the times of the largest trials, or none if there was no
// time for any: trials stop after tryMost, and before one that would take longer by the time of the last. part
// makes a job with about that part of the work; parts that cannot be made, or are no larger than the one before,
// are skipped.
func Try(ctx context.Context, rt *weft.Runtime, name string, part func(ctx context.Context, part float64) (workload.Job, error)) ([]plan.Point, error) {
	within, cancel := context.WithTimeout(ctx, tryMost)
	defer cancel()
	var out []plan.Point
	was := ""
	until, _ := within.Deadline()
	for p := 1. / (1 << 14); within.Err() == nil; p = min(p*tryTimes, 1) {
		began := time.Now()
		job, err := part(within, p)
		if err == nil && job.Name() != was {
			was = job.Name()
			if point := try(within, rt, name, job); point != nil {
				out = append(out, *point)
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		next := time.Duration(tryTimes * float64(time.Since(began)))
		if n := len(out); p == 1 || n > 0 && (out[n-1].Median() > tryEnds.Seconds() || time.Now().Add(next).After(until)) {
			break
		}
	}
	return out[max(len(out)-tryKeeps, 0):], nil
}

// try measures a job. It returns nil if that did not run twice.
func try(ctx context.Context, rt *weft.Runtime, name string, job workload.Job) *plan.Point {
	need, err := NeedOf(name, job, rt.Machine())
	if err != nil {
		return nil
	}
	var seconds []float64
	for i := range 1 + tryRuns {
		res, err := workload.Run(ctx, rt, job)
		if err != nil {
			break
		}
		// The first run loads kernels, which is little of a long one.
		if took := res.Report.Elapsed(); i > 0 || took > tryEnds {
			seconds = append(seconds, took.Seconds())
		}
	}
	if len(seconds) < 2 {
		return nil
	}
	p := plan.PointOf(need, 1, 1, seconds)
	return &p
}

// NeedOf returns what a job of a workload asks of a machine, from its graph as cut for that machine.
func NeedOf(name string, job workload.Job, on *machine.Machine) (plan.Need, error) {
	g, err := plan.GraphFor(WorkOf(job), on)
	if err != nil {
		return plan.Need{}, err
	}
	n := plan.NeedOf(job.Name(), g, 1)
	n.Workload = name
	return n, nil
}
