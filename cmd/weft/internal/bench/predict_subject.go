package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/plan"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/protein/fold"
)

// Recorded returns the names of the workloads that can be recorded: all of the catalogue, and
// rounds of folding.
func Recorded() []string { return append(workloads.Names(), folding) }

// ladders returns the workloads to record.
func (o *predictions) ladders() (out []*ladder, err error) {
	for _, name := range o.only {
		if err := terminal.MustName("workload", name, Recorded()); err != nil {
			return nil, err
		}
	}
	for _, w := range workloads.All() {
		if len(o.only) == 0 || slices.Contains(o.only, w.Name) {
			out = append(out, ladderOf(w))
		}
	}
	if len(o.only) == 0 || slices.Contains(o.only, folding) {
		out = append(out, foldLadder())
	}
	return out, nil
}

// ladderOf is the ladder of a workload of the catalogue.
func ladderOf(w catalog.Entry) *ladder {
	first := w.Growth.Flags[0]
	return &ladder{
		name: w.Name, flag: first,
		ends: func(rec *recorder) (least, most int, err error) { return rec.ends(w) },
		near: func(size int) (int, error) {
			sizes, err := workloads.SizedAt(w, size)
			return sizes[first], err
		},
		make: func(ctx context.Context, size int) (subject, error) {
			sizes, err := workloads.SizedAt(w, size)
			if err != nil {
				return nil, err
			}
			j, err := workloads.Sized(ctx, w, sizes)
			if err != nil {
				return nil, err
			}
			return job{j}, nil
		},
	}
}

// job is a job of the catalogue.
type job struct{ workload.Job }

// need uses the graph that plans make. That of a run is cut by what was learnt until then.
func (j job) need(rt *weft.Runtime) (plan.Need, error) { return NeedOf("", j.Job, rt.Machine()) }

func (j job) run(ctx context.Context, rt *weft.Runtime, jobs int) (seconds []float64, err error) {
	for range jobs {
		res, err := workload.Run(ctx, rt, j.Job)
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, res.Report.Elapsed().Seconds())
	}
	return seconds, nil
}

// longestSetup is the longest time to make the inputs of a job that is measured: a recording has some hundred
// sizes to make in two minutes.
const longestSetup = 200 * time.Millisecond

// ends returns sizes of a workload that take about shortest and longest. It tries larger and
// larger ones, up to the largest that the workload allows or that is made in longestSetup.
func (rec *recorder) ends(w catalog.Entry) (least, most int, err error) {
	first := w.Growth.Flags[0]
	sizes, err := workloads.Defaults(w)
	if err != nil {
		return 0, 0, err
	}
	usual := sizes[first]
	sizes = w.Growth.Times(sizes, 1./256)
	shortest, longest := rec.o.shortest.Seconds(), rec.o.longest.Seconds()
	wasSize, was, fixed := 0, 0.0, time.Duration(0)
	for {
		size, began := sizes[first], time.Now()
		job, err := workloads.Sized(rec.ctx, w, sizes)
		if err != nil && rec.ctx.Err() == nil && was == 0 && size < usual { // too small for its other flags
			sizes = w.Growth.Times(sizes, 2)
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		setup := time.Since(began)
		if was == 0 {
			fixed = setup // whatever the size
		}
		setup -= min(fixed, setup)
		took, err := rec.took(job)
		if err != nil {
			return 0, 0, err
		}
		fmt.Fprintf(rec.log, "%-12s %-24s %10s, set up in %s\n", w.Name, fmt.Sprintf("--%s %d", first, size), terminal.Seconds(took), terminal.Short(setup))
		switch {
		case least == 0 || took < shortest:
			least = size
		case was < shortest && took > was: // between
			least = int(float64(wasSize) * math.Pow(float64(size)/float64(wasSize), math.Log(shortest/was)/math.Log(took/was)))
		}
		// A step is 16 times the work at most: a small size predicts a large one badly.
		target := longest
		if took < 0.7*shortest {
			target = shortest
		}
		more := min(target/took, 16)
		if setup > longestSetup {
			most := w.Growth.Times(sizes, longestSetup.Seconds()/setup.Seconds())
			least := min(least, w.Growth.Times(most, 1./8)[first]) // there may be nothing that takes shortest
			return least, most[first], nil
		}
		larger, err := workloads.SizedAt(w, min(w.Growth.Times(sizes, more)[first], w.Growth.Most))
		if err != nil {
			return 0, 0, err
		}
		if target == longest && more < 1.25 || larger[first] <= size {
			return least, larger[first], nil
		}
		wasSize, was, sizes = size, took, larger
	}
}

// took runs a job a few times and returns the shortest time: the first ones load kernels.
func (rec *recorder) took(job workload.Job) (seconds float64, err error) {
	seconds = math.Inf(1)
	for range 4 {
		res, err := workload.Run(rec.ctx, rec.rt, job)
		switch {
		case rec.ctx.Err() != nil:
			return 0, rec.ctx.Err()
		case err != nil:
			return 0, fmt.Errorf("it cannot run here: %w", err)
		}
		seconds = min(seconds, res.Report.Elapsed().Seconds())
	}
	return seconds, nil
}

// folding is the name under which rounds of weft run fold are recorded.
const folding = "fold"

// foldReplicas is the number of replicas of a recorded round, and foldLeast the fewest steps.
const (
	foldReplicas = 64
	foldLeast    = 64
)

// foldRound is a round of folding: steps of replicas of the shipped structure 1CRN.
type foldRound struct{ steps int }

// foldLadder is the ladder of rounds of folding, by their steps.
func foldLadder() *ladder {
	return &ladder{
		name: folding, flag: "every",
		ends: func(rec *recorder) (least, most int, err error) {
			took, err := foldRound{foldLeast}.run(rec.ctx, rec.rt, 4)
			if err != nil {
				return 0, 0, fmt.Errorf("it cannot run here: %w", err)
			}
			at := func(d time.Duration) int { return max(int(d.Seconds()/slices.Min(took)*foldLeast), foldLeast) }
			return at(rec.o.shortest), at(rec.o.longest), nil
		},
		near: func(size int) (int, error) { return size, nil },
		make: func(_ context.Context, size int) (subject, error) { return foldRound{size}, nil },
	}
}

func (r foldRound) of(times int) (*fold.Run, error) {
	return fold.New(fold.Config{Replicas: foldReplicas, Every: r.steps, Steps: times * r.steps, Seed: 1})
}

func (r foldRound) need(rt *weft.Runtime) (need plan.Need, err error) {
	f, err := r.of(1)
	if err != nil {
		return need, err
	}
	round, _ := f.Round()
	g, err := plan.GraphFor(plan.Work{Items: round.Items, Whole: round.Whole, Graph: round.Graph}, rt.Machine())
	if err != nil {
		return need, err
	}
	return plan.NeedOf(fmt.Sprintf("%s, rounds of %d", f.Name(), r.steps), g, 1), nil
}

// run folds rounds and returns the time of each. The first, which brings kernels and tables to devices,
// and the last, which is cut in two, are not counted.
func (r foldRound) run(ctx context.Context, rt *weft.Runtime, jobs int) (seconds []float64, err error) {
	f, err := r.of(jobs + 2)
	if err != nil {
		return nil, err
	}
	var at time.Time
	err = f.Do(ctx, rt, func(round int) {
		now := time.Now()
		if round > 0 && round <= jobs {
			seconds = append(seconds, now.Sub(at).Seconds())
		}
		at = now
	})
	return seconds, err
}
