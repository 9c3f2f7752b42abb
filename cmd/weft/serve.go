package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/internal/dashboard"
	"github.com/weft-run/weft/internal/infer"
	"github.com/weft-run/weft/internal/metrics"
	"github.com/weft-run/weft/internal/otlp"
	"github.com/weft-run/weft/internal/prove"
	"github.com/weft-run/weft/internal/serve"
)

// serving is a call of `weft serve`.
type serving struct {
	listen, grpc, models, circuits, state, config, profile, devices string
	check                                                           bool
	out                                                             io.Writer
	log                                                             *slog.Logger
	warnings                                                        *slog.Logger // for the runtime, which tells of each device that it opens
}

func newServe() *cobra.Command {
	v := &serving{}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve predictions of models, and jobs, over HTTP and gRPC",
		Long: `Serve predictions of models over HTTP and gRPC, by the Open Inference Protocol
v2, on all devices of this machine; and run workloads as jobs, over HTTP. With
a folder of circuits it also makes and verifies proofs.
Without a folder of models it serves a reservoir that is made at the start. Jobs
and their results are gone when the server ends, unless --state names a folder
to keep them in.

It listens on this machine only. Any other address needs a certificate and
tokens, which a configuration file names; docs/SERVE.md has all of its keys.
SIGHUP loads models, tokens and the certificate anew. SIGTERM ends the server
when the requests under way have their answers.`,
		Example: `  weft serve
  weft serve --models ./models --profile analytics
  curl localhost:8000/v2/models/reservoir
  weft zk setup circuits/sum --circuit range && weft serve --circuits circuits
  grpcurl -plaintext localhost:8001 list`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return v.run(c) },
	}
	f := c.Flags()
	f.StringVar(&v.listen, "listen", "", "address, or unix:/PATH for a socket (127.0.0.1:8000)")
	f.StringVar(&v.grpc, "grpc", "", "address of gRPC, unix:/PATH or none (127.0.0.1:8001)")
	f.StringVar(&v.models, "models", "", "`folder` with a folder for each model")
	f.StringVar(&v.circuits, "circuits", "", "`folder` with keys for each circuit, to prove (none)")
	f.StringVar(&v.state, "state", "", "`folder` that keeps jobs over a restart (memory)")
	f.StringVar(&v.config, "config", "", "read the configuration from a `file` in YAML")
	f.StringVar(&v.profile, "profile", "", "settings that go together: hft or analytics")
	f.StringVarP(&v.devices, "devices", "d", "", "devices to use, as in cuda or cpu/2 (all)")
	f.BoolVar(&v.check, "check-config", false, "say whether the configuration is good, and end")
	terminal.Complete(c, "profile", serve.ProfileNames)
	terminal.Complete(c, "devices", deviceNames)
	return c
}

// settle reads the configuration, in which flags go before the file.
func (v *serving) settle() (serve.Config, error) {
	c, err := serve.LoadConfig(v.config, v.profile)
	if err != nil {
		return c, terminal.Usage(err)
	}
	for _, f := range []struct {
		from string
		to   *string
	}{{v.listen, &c.Listen}, {v.grpc, &c.GRPC}, {v.models, &c.Models}, {v.circuits, &c.Circuits}, {v.state, &c.State}, {v.devices, &c.Devices}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	if err := c.Validate(); err != nil {
		return c, terminal.Usage(err)
	}
	return c, nil
}

func (v *serving) run(c *cobra.Command) error {
	config, err := v.settle()
	if err != nil {
		return err
	}
	v.out = c.OutOrStdout()
	v.log = slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
	v.warnings = slog.New(slog.NewTextHandler(c.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	if v.check {
		if err := v.judge(c.Context(), config); err != nil {
			return err
		}
		fmt.Fprintln(v.out, "The configuration is good.")
		return nil
	}
	keys, err := circuitsOf(config)
	if err != nil {
		return terminal.Usage(err)
	}
	rt, note, err := config.Open(c.Context(), func(ctx context.Context, o weft.Options) (*weft.Runtime, error) {
		o.Log = v.warnings
		return open(ctx, o, os.Stderr)
	})
	if err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintln(v.out, terminal.OneLine(note))
	}
	defer rt.Close()
	return v.serve(c.Context(), rt, config, keys)
}

// judge errs at what the server would refuse before it listens: files that the configuration names, the folders of models
// and of jobs, and devices. It makes and keeps nothing, and models are put on no device.
func (v *serving) judge(ctx context.Context, config serve.Config) error {
	_, err := serve.New(serve.Options{Config: config, Service: &infer.Service{}})
	if err == nil {
		err = serve.CheckState(config.State)
	}
	if err == nil {
		_, err = circuitsOf(config)
	}
	if err == nil {
		_, err = infer.Names(config.Models) // before devices are opened, which takes time
	}
	if err != nil {
		return terminal.Usage(err)
	}
	rt, _, err := config.Open(ctx, func(ctx context.Context, o weft.Options) (*weft.Runtime, error) {
		o.Log, o.Socket, o.CacheDir, o.NoCalibrate, o.Checkpoint = v.warnings, "", "off", true, weft.Checkpoint{}
		return open(ctx, o, os.Stderr)
	})
	if err != nil {
		return err
	}
	defer rt.Close()
	if err := infer.Check(ctx, rt, config.Infer(v.log)); err != nil {
		return terminal.Usage(err)
	}
	return nil
}

// circuitsOf reads the keys of the circuits that are to be proved, nil for none.
func circuitsOf(c serve.Config) (prove.Keys, error) {
	if c.Circuits == "" {
		return nil, nil
	}
	return prove.ReadKeys(c.Circuits, c.Proofs.Limits())
}

// proofs puts keys on devices, if there are any.
func (v *serving) proofs(rt *weft.Runtime, keys prove.Keys, c serve.Config) (*prove.Service, error) {
	if keys == nil {
		return nil, nil
	}
	s, err := prove.New(rt, keys, c.Proofs.Limits())
	if err != nil {
		return nil, err
	}
	for _, k := range s.Circuits() {
		note := ""
		if k.ForTests {
			note = ", with keys for tests only"
		}
		fmt.Fprintf(v.out, "Circuit %s has %d constraints%s.\n", k.Name, k.Constraints, note)
	}
	return s, nil
}

// serve serves until ctx ends, and then ends in good order.
func (v *serving) serve(ctx context.Context, rt *weft.Runtime, config serve.Config, keys prove.Keys) error {
	proofs, err := v.proofs(rt, keys, config)
	if err != nil {
		return err
	}
	models, err := infer.New(rt, config.Infer(v.log))
	if err != nil {
		return terminal.Usage(err)
	}
	figures, service, stop := v.observe(rt, models, proofs, config)
	defer stop()
	jobs := &shownJobs{}
	s, err := serve.New(serve.Options{
		Config: config, Service: service, Proofs: proofs, Workloads: workloads.All(), Runtime: rt, Metrics: figures, Version: built().String(), Log: v.log,
		Dashboard: dashboard.New(rt, dashboard.Options{Name: "weft serve", Serving: shownModels{models}, Jobs: jobs}),
		Open: func(ctx context.Context, devices string) (*weft.Runtime, error) {
			config := config
			config.Devices = devices
			o, err := config.Options()
			if err != nil {
				return nil, err
			}
			o.MaxDevices, o.Log = 0, v.warnings
			return open(ctx, o, os.Stderr)
		},
	})
	if err == nil {
		jobs.server = s
		err = s.Listen()
	}
	if err != nil {
		return errors.Join(terminal.Usage(err), models.Close(context.Background())) // no requests are under way
	}
	v.announce(rt, config, s)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	loaded := time.NewTicker(50 * time.Millisecond)
	defer loaded.Stop()
	for {
		select {
		case <-loaded.C:
			if models.Opening() {
				continue
			}
			if list := settled(models.Models(), models.Ready()); list != "" {
				fmt.Fprintln(v.out, list)
				loaded.Stop()
			}
		case <-hup:
			v.log.Info("loading models, tokens and the certificate anew")
			if err := s.Reload(ctx); err != nil {
				v.log.Error("not all could be loaded anew", "err", terminal.OneLine(err.Error()))
			}
		case err := <-served: // it failed
			return errors.Join(err, v.drain(s, config))
		case <-ctx.Done():
			err := v.drain(s, config)
			return errors.Join(err, <-served)
		}
	}
}

// observe makes the figures of a service and, where the configuration names a collector, has its
// predictions traced. The caller calls stop when the service has ended.
func (v *serving) observe(rt *weft.Runtime, models *infer.Service, proofs *prove.Service, c serve.Config) (figures *metrics.Collector, service serve.Service, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	source := metrics.Source{Runtime: rt.Metrics, Models: models.Stats, Prices: metrics.Prices(c.Prices)}
	service = models
	if proofs != nil {
		source.Proofs = proofs.Stats
	}
	if c.Traces.Collector != "" {
		e, err := otlp.New(c.Traces.Collector, c.Traces.Sample, v.log)
		if err != nil {
			panic(err) // Validate has accepted it
		}
		wg.Go(func() { e.Run(ctx) })
		service = otlp.Trace(models, e)
		source.Spans = func() (s metrics.Spans) {
			s.Sent, s.Dropped = e.Counts()
			return s
		}
	}
	figures = metrics.New(source)
	wg.Go(func() { figures.Run(ctx) })
	return figures, service, func() {
		cancel()
		wg.Wait()
	}
}

// drain ends the server within the time of its configuration.
func (v *serving) drain(s *serve.Server, c serve.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.Limits.DrainDelay+c.Limits.DrainTime))
	defer cancel()
	return s.Drain(ctx)
}

// announce says where the server listens and what on.
func (v *serving) announce(rt *weft.Runtime, c serve.Config, s *serve.Server) {
	var names []string
	for _, d := range rt.Devices() {
		names = append(names, d.Name)
	}
	what := "a reservoir that is made now"
	if c.Models != "" {
		what = "the models of " + c.Models
	}
	fmt.Fprintf(v.out, "Listening on %s, to serve %s on %s (%s).\n", s.URL(), what, terminal.Count(len(names), "device"), strings.Join(names, ", "))
	if at := s.GRPC(); at != "" {
		fmt.Fprintf(v.out, "gRPC is on %s.\n", at)
	}
	if c.State == "" {
		fmt.Fprintln(v.out, "Jobs are kept in memory until the server ends; --state FOLDER keeps them.")
	}
	if s := c.Shortfall(len(names)); s != "" {
		fmt.Fprintf(v.out, "Note: %s.\n", s)
	}
}

// settled says which models there are once none is loading, "" before.
func settled(models []infer.Info, ready error) string {
	rows := []string{"Ready:"}
	if ready != nil {
		rows[0] = "Not ready: " + terminal.OneLine(ready.Error())
	}
	for _, m := range models {
		if m.State == infer.Loading {
			return ""
		}
		row := fmt.Sprintf("  %s version %s: %s", m.Name, m.Version, m.State)
		if m.Reason != "" {
			row += ", " + terminal.OneLine(m.Reason)
		}
		rows = append(rows, row)
	}
	return strings.Join(rows, "\n")
}
