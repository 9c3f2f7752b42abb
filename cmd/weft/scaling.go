package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload"
)

// scalingRow is one workload on so many devices.
type scalingRow struct {
	Workload   string  `json:"workload"`
	Job        string  `json:"job"` // with its sizes
	Devices    int     `json:"devices"`
	Seconds    float64 `json:"seconds"` // median
	Speedup    float64 `json:"speedup"` // median of the ratios within each round
	Efficiency float64 `json:"efficiency"`
	Predicted  float64 `json:"predicted_seconds"`
}

func newScaling() *cobra.Command {
	var o weft.Options
	var asJSON bool
	var s scaling
	c := &cobra.Command{
		Use:   "scaling",
		Short: "Each workload on 1 to n devices (strong scaling)",
		Long: `Run each workload on one device of one core and on 2 to n such devices, and
report the speed-up. Sizes grow until one device takes --at-least. Rounds are
interleaved, and a speed-up is the median of the ratios within a round, so that
other load on the machine counts as little as possible.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			rows, err := s.run(c, o)
			if err != nil {
				return err
			}
			return printRows(c, asJSON, rows, func(w io.Writer) {
				table := [][]any{{"workload", "devices", "median", "speed-up", "efficiency", "predicted"}}
				for _, r := range rows {
					table = append(table, []any{r.Workload, r.Devices, short(time.Duration(r.Seconds * 1e9)), fmt.Sprintf("%.2f", r.Speedup), percent(r.Efficiency), short(time.Duration(r.Predicted * 1e9))})
				}
				writeTable(w, table)
				fmt.Fprintln(w)
				for i, r := range rows {
					if i == 0 || r.Job != rows[i-1].Job {
						fmt.Fprintln(w, r.Job)
					}
				}
			})
		},
	}
	runtimeFlags(c.Flags(), &o)
	c.Flags().IntVar(&s.repeat, "repeat", 7, "rounds, each running every number of devices once")
	c.Flags().DurationVar(&s.atLeast, "at-least", time.Second, "grow sizes until one device takes so long; 0 leaves them as weft run has them")
	c.Flags().StringSliceVar(&s.only, "only", nil, "workloads to run (all)")
	c.Flags().BoolVar(&asJSON, "json", false, "write rows as JSON")
	return c
}

// scaling is what `weft bench scaling` was asked for.
type scaling struct {
	repeat   int
	atLeast  time.Duration
	only     []string
	progress func(string)
}

// run measures every workload on 1, 2, 4 … n devices of one core each.
func (s *scaling) run(c *cobra.Command, o weft.Options) ([]scalingRow, error) {
	if s.repeat < 1 || s.atLeast < 0 {
		return nil, badUsage("--repeat must be at least 1 and --at-least not negative")
	}
	probe, err := openRuntime(c.Context(), o, c.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	most := len(probe.Devices())
	probe.Close()
	if most < 2 {
		return nil, badUsage("scaling needs several devices; ask for them, as in --devices cpu/2")
	}
	for _, name := range s.only {
		if !slices.ContainsFunc(workloads, func(w entry) bool { return w.name == name }) {
			return nil, badUsage("unknown workload %q; there are %s", name, strings.Join(workloadNames(), ", "))
		}
	}
	var counts []int
	for n := 1; n < most; n *= 2 {
		counts = append(counts, n)
	}
	counts = append(counts, most)
	s.progress = progressOn(c.ErrOrStderr())
	defer s.progress("")
	// One runtime for each number of devices, all devices of equal size.
	rts := make([]*weft.Runtime, len(counts))
	for i, n := range counts {
		on := o
		on.MaxDevices = n
		if rts[i], err = openRuntime(c.Context(), on, c.ErrOrStderr()); err != nil {
			return nil, err
		}
		defer rts[i].Close()
	}
	var rows []scalingRow
	for _, w := range workloads {
		if len(s.only) > 0 && !slices.Contains(s.only, w.name) {
			continue
		}
		got, err := s.one(c.Context(), w, rts, counts)
		if err != nil {
			return nil, err
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

// one measures a workload. The first round is left out: it makes memory that
// later rounds find made.
func (s *scaling) one(ctx context.Context, w entry, rts []*weft.Runtime, counts []int) ([]scalingRow, error) {
	job, err := s.grow(ctx, w, rts[0])
	if err != nil {
		return nil, err
	}
	took := make([][]float64, len(rts))
	ratio := make([][]float64, len(rts))
	predicted := make([]float64, len(rts))
	for round := range s.repeat + 1 {
		for i, rt := range rts {
			s.progress(fmt.Sprintf("%s on %s, round %d of %d", job.Name(), count(counts[i], "device"), round+1, s.repeat+1))
			res, err := workload.Run(ctx, rt, job)
			if err != nil {
				return nil, err
			}
			if round == 0 {
				continue
			}
			s := res.Report.Elapsed().Seconds()
			took[i] = append(took[i], s)
			ratio[i] = append(ratio[i], took[0][len(took[0])-1]/s)
			predicted[i] = res.Predicted.Seconds()
		}
	}
	s.progress("checking " + job.Name())
	if err := job.Check(); err != nil {
		return nil, fmt.Errorf("the result is wrong: %w", err)
	}
	var rows []scalingRow
	for i, n := range counts {
		up := median(ratio[i])
		rows = append(rows, scalingRow{
			Workload: w.name, Job: job.Name(), Devices: n, Seconds: median(took[i]),
			Speedup: up, Efficiency: up / float64(n), Predicted: predicted[i],
		})
	}
	return rows, nil
}

// grow makes the workload's job at a size that takes one device so long, or at
// the largest the workload allows here. It grows by eight times at most in one
// go, as small sizes say little about large ones.
func (s *scaling) grow(ctx context.Context, w entry, rt *weft.Runtime) (workload.Job, error) {
	sizes := make(map[string]int)
	for {
		flags := pflag.NewFlagSet(w.name, pflag.ContinueOnError)
		newJob := w.flags(flags)
		for _, name := range w.grow.flags {
			n, ok := sizes[name]
			if !ok {
				n, _ = flags.GetInt(name)
				sizes[name] = n
			}
			if err := flags.Set(name, strconv.Itoa(n)); err != nil {
				return nil, err
			}
		}
		job, err := newJob()
		if err != nil {
			return nil, err
		}
		var took time.Duration
		for range 2 { // the first makes memory
			s.progress("looking for a size: " + job.Name())
			res, err := workload.Run(ctx, rt, job)
			if err != nil {
				return nil, err
			}
			took = res.Report.Elapsed()
		}
		more := min(1.1*s.atLeast.Seconds()/took.Seconds(), 8)
		if took >= s.atLeast || !w.grow.by(sizes, more) {
			return job, nil
		}
	}
}

// growth says how to make a workload's job larger: by these flags, to whose
// power the work grows, up to a size of the first.
type growth struct {
	flags []string
	power float64
	most  int
}

// by grows sizes so that the work becomes so many times as much, and reports
// whether it could. Sizes stay multiples of 64.
func (g growth) by(sizes map[string]int, more float64) bool {
	first := sizes[g.flags[0]]
	to := min(float64(first)*math.Pow(more, 1/g.power), float64(g.most))
	for _, name := range g.flags {
		n := float64(sizes[name]) * to / float64(first)
		sizes[name] = max(int(math.Ceil(n/64))*64, sizes[name])
	}
	return sizes[g.flags[0]] > first
}

// median sorts xs and returns its middle.
func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

func workloadNames() []string {
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}
