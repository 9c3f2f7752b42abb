package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/serve/load"
	"github.com/weft-run/weft/serve/simulate"
	"github.com/weft-run/weft/workload/reservoir"
)

// servingRow is the result of one profile of weft serve at one rate.
type servingRow struct {
	Kind    string  `json:"kind"` // simulated or measured
	Profile string  `json:"profile"`
	On      string  `json:"on"` // a described machine, or the devices here
	Devices int     `json:"devices"`
	Made    int     `json:"made_for_devices"` // that the profile is made for
	Bins    int     `json:"bins"`
	Rate    float64 `json:"rate"` // requests a second that arrive
	Seconds float64 `json:"seconds"`

	Arrived  uint64 `json:"arrived"`
	Answered uint64 `json:"answered"`
	Refused  uint64 `json:"refused"` // at once, because the deadline would not be met
	Expired  uint64 `json:"expired"` // later, because it was not met
	Failed   uint64 `json:"failed"`

	Reached     float64 `json:"answered_per_second"`
	P50         float64 `json:"p50_ms"`
	P95         float64 `json:"p95_ms"`
	P99         float64 `json:"p99_ms"`
	Most        float64 `json:"max_ms"`
	GoalMS      float64 `json:"goal_ms"`     // the deadline of the profile
	Utilisation float64 `json:"utilisation"` // of the devices, 0 to 1
	Batch       float64 `json:"mean_batch"`
	// Bottleneck says of a measurement that it is as much of the load generator as of the server.
	Bottleneck bool `json:"generator_bottleneck,omitempty"`
}

// servingRates are the requests a second that profiles are measured at without --rate.
var servingRates = map[string]float64{"hft": 2500, "analytics": 6000}

// serving is a call of weft bench serve.
type serving struct {
	Setup
	profiles, machines []string
	pace               load.Pace
	arrivals           string
	bins, connections  int
	asJSON             bool
	stderr             io.Writer
}

func newServing(s Setup) *cobra.Command {
	v := &serving{Setup: s}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Latencies of weft serve by its profiles, simulated or measured",
		Long: `Say how the profiles of weft serve hold up when requests for predictions of a
reservoir (1000 neurons, 64 channels) arrive at a rate that does not depend on
the answers.

With --machine it is simulated: the code that decides on batches runs in virtual
time, batches take what the simulator predicts for the machine, and there is no
network. Without, a server is started here, on the devices there are, and is
sent requests over loopback, with binary tensors, by this process.

Latencies count answered requests. Refused requests are those that the server
would have answered too late, expired ones those that it did. Devices counts
the devices that served, of as many as the profile uses at most.`,
		Example: `  weft bench serve --machine 3x5070,4x5070-ring,8x5070-hier
  weft bench serve --profile hft --rate 2500 --devices cuda`,
		Args: terminal.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error { return v.run(c) },
	}
	f := c.Flags()
	f.StringSliceVar(&v.profiles, "profile", serve.ProfileNames(), "profiles, joined by commas")
	f.StringSliceVar(&v.machines, "machine", nil, "simulate described `machines` (weft machines), by name or file")
	f.Float64Var(&v.pace.Rate, "rate", 0, "requests a second (2500 for hft, 6000 for analytics)")
	f.DurationVar(&v.pace.Duration, "duration", 10*time.Second, "how long requests arrive")
	f.DurationVar(&v.pace.WarmUp, "warm-up", 2*time.Second, "how long they arrive before that")
	f.StringVar(&v.arrivals, "arrivals", string(load.Poisson), "poisson, as of many users, or constant")
	f.Uint64Var(&v.pace.Seed, "seed", 1, "seed of arrivals")
	f.IntVar(&v.bins, "bins", 100, "time bins of an input, each a step of the reservoir")
	f.IntVar(&v.connections, "connections", 256, "connections of the load that is measured")
	f.BoolVar(&v.asJSON, "json", false, "write rows as JSON")
	terminal.Complete(c, "profile", serve.ProfileNames)
	terminal.Complete(c, "machine", machine.Names)
	return c
}

// check finds mistakes before anything is made.
func (v *serving) check() error {
	v.pace.Arrivals = load.Arrivals(v.arrivals)
	p := v.pace
	if p.Rate == 0 {
		p.Rate = 1
	}
	if err := p.Check(); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), load.ErrOption.Error()+": "))
	}
	switch {
	case len(v.profiles) == 0:
		return errors.New("--profile is empty: name one, as hft")
	case v.bins < 1 || v.bins > 10_000:
		return fmt.Errorf("--bins %d: it must be from 1 to 10000", v.bins)
	case v.connections < 1 || v.connections > load.MaxConnections:
		return fmt.Errorf("--connections %d: it must be from 1 to %d", v.connections, load.MaxConnections)
	case p.Rate*(p.WarmUp+p.Duration).Seconds() > maxArrivals:
		return fmt.Errorf("--rate %v for %v: these are more than %d requests", p.Rate, p.WarmUp+p.Duration, maxArrivals)
	}
	return nil
}

// alone refuses settings of measurements together with --machine, which simulates.
func (v *serving) alone(c *cobra.Command) (err error) {
	if len(v.machines) == 0 {
		return nil
	}
	refuse := func(f *pflag.Flag) {
		if f.Changed && err == nil {
			err = fmt.Errorf("--%s is for what runs here, and --machine simulates: leave out one of them", f.Name)
		}
	}
	c.InheritedFlags().VisitAll(refuse)
	refuse(c.Flags().Lookup("connections"))
	return err
}

// maxArrivals bounds the requests of a row.
const maxArrivals = 100_000_000

func (v *serving) run(c *cobra.Command) error {
	if err := v.check(); err != nil {
		return terminal.Usage(err)
	}
	if err := v.alone(c); err != nil {
		return terminal.Usage(err)
	}
	v.stderr = c.ErrOrStderr()
	machines := make([]*machine.Machine, len(v.machines))
	for i, name := range v.machines {
		var err error
		if machines[i], err = describedMachine(name); err != nil {
			return terminal.Usage(err)
		}
	}
	configs := make([]serve.Config, len(v.profiles))
	for i, p := range v.profiles {
		var err error
		if configs[i], err = serve.LoadConfig("", p); err != nil {
			return terminal.Usage(err)
		}
	}
	model, err := servedModel(v.bins)
	if err != nil {
		return terminal.Usage(err)
	}
	rows, err := v.rows(c.Context(), configs, machines, model)
	if err != nil && len(rows) == 0 {
		return err
	}
	printed := terminal.Print(c, v.asJSON, rows, func(w *bytes.Buffer) error { writeServing(w, rows); return nil })
	return errors.Join(err, printed)
}

// rows simulates or measures each profile. After an error it returns the rows that are complete.
func (v *serving) rows(ctx context.Context, configs []serve.Config, machines []*machine.Machine, m *reservoir.Model) ([]servingRow, error) {
	var rows []servingRow
	progress := terminal.StartProgress(v.stderr, v.asJSON, "profile", len(configs)*max(len(machines), 1))
	defer progress.Finish()
	for _, c := range configs {
		pace := v.pace
		if pace.Rate == 0 {
			pace.Rate = servingRates[c.Profile]
		}
		if len(machines) == 0 {
			row, err := v.measure(ctx, c, m, pace)
			if err != nil {
				return rows, err
			}
			rows = append(rows, row)
			progress.Add()
		}
		for _, on := range machines {
			var row servingRow
			err := terminal.Abandonable(ctx, func() (err error) {
				row, err = simulateServing(c, on, m, pace)
				return err
			})
			if err != nil {
				return rows, err
			}
			rows = append(rows, row)
			progress.Add()
		}
	}
	return rows, nil
}

// simulateServing runs a profile on a described machine.
func simulateServing(c serve.Config, m *machine.Machine, model *reservoir.Model, p load.Pace) (row servingRow, err error) {
	r, err := simulate.Run(c, m, model, p)
	if err != nil {
		return row, err
	}
	row = servingRow{
		Kind: "simulated", Profile: c.Profile, On: m.Name, Devices: r.Devices, Made: r.Made, Bins: model.Steps,
		Rate: p.Rate, Seconds: p.Duration.Seconds(), Arrived: r.Arrived, Answered: r.Answered, Refused: r.Refused, Expired: r.Expired, Failed: r.Failed,
		GoalMS: time.Duration(c.Batch.Deadline).Seconds() * 1e3, Utilisation: r.Utilisation, Batch: r.Batch,
	}
	row.Reached = float64(row.Answered) / row.Seconds
	if l := &r.Latency; l.Count() > 0 {
		ms := func(q float64) float64 { return l.Quantile(q).Seconds() * 1e3 }
		row.P50, row.P95, row.P99, row.Most = ms(0.5), ms(0.95), ms(0.99), l.Max().Seconds()*1e3
	}
	return row, nil
}

// describedMachine is a shipped machine, or one in a file.
func describedMachine(name string) (*machine.Machine, error) {
	if m, ok := machine.Named(name); ok {
		return m, nil
	}
	src, err := safefile.ReadInput(name, 16<<20)
	if err != nil {
		return nil, fmt.Errorf("--machine %s: no such machine is shipped (weft machines lists them), and no file is there: %w", name, err)
	}
	m, err := machine.Decode(src)
	if err != nil {
		return nil, fmt.Errorf("--machine %s: %w", name, err)
	}
	if m.Name == "" {
		m.Name = name
	}
	return m, nil
}

// servedModel is a reservoir of 1000 neurons and 64 channels with a readout of no meaning.
func servedModel(bins int) (*reservoir.Model, error) {
	p := reservoir.Defaults()
	p.Size, p.Inputs, p.Connectivity, p.Seed = 1000, 64, 0.1, 1
	w, err := reservoir.New(p)
	if err != nil {
		return nil, err
	}
	m := &reservoir.Model{Weights: w, Steps: bins, Mode: reservoir.Sequence, Feature: reservoir.Mean}
	m.Readout = &reservoir.Readout{Outputs: 3, Inputs: p.Size, Weights: make([]float64, 3*(p.Size+1))}
	for i := range m.Readout.Weights {
		m.Readout.Weights[i] = float64(i%7) / 7
	}
	return m, m.Validate()
}

// writeServing prints rows; the first word of each table says whether it is simulated.
func writeServing(w io.Writer, rows []servingRow) {
	for _, kind := range []string{"simulated", "measured"} {
		table := [][]any{{"profile", "on", "devices", "rate", "answered/s", "p50", "p95", "p99", "goal", "refused", "expired", "failed", "busy", "batch"}}
		var some *servingRow
		for i := range rows {
			r := &rows[i]
			if r.Kind != kind {
				continue
			}
			some = r
			table = append(table, []any{r.Profile, r.On, fmt.Sprintf("%d of %d", r.Devices, r.Made), fmt.Sprintf("%.0f", r.Rate), fmt.Sprintf("%.0f", r.Reached),
				milliseconds(r.P50), milliseconds(r.P95), milliseconds(r.P99), "<" + milliseconds(r.GoalMS), ofAll(r.Refused, r.Arrived), ofAll(r.Expired, r.Arrived), ofAll(r.Failed, r.Arrived),
				terminal.Percent(r.Utilisation), fmt.Sprintf("%.1f", r.Batch)})
		}
		if some == nil {
			continue
		}
		what := "the batching of weft serve in virtual time, with predicted batches and no network"
		if kind == "measured" {
			what = "weft serve over loopback, binary tensors, load from the same process"
		}
		fmt.Fprintf(w, "%s: %s\nreservoir of 1000 neurons, 64 channels, %d bins; %.3g s\n\n", kind, what, some.Bins, some.Seconds)
		terminal.Table(w, table)
		if slices.ContainsFunc(rows, func(r servingRow) bool { return r.Bottleneck }) {
			fmt.Fprintln(w, "\nThe load generator was late by itself: latencies are as much its own as the server's.")
		}
	}
}

func milliseconds(ms float64) string { return fmt.Sprintf("%.3g ms", ms) }

func ofAll(n, all uint64) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2g %%", 100*float64(n)/float64(all))
}
