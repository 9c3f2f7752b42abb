package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/cmd/weft/internal/prove"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/serve"
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
	rt, note, err := config.Open(c.Context(), v.open)
	if err != nil {
		return err
	}
	if note != "" {
		fmt.Fprintln(v.out, terminal.OneLine(note))
	}
	defer rt.Close()
	return v.serve(c.Context(), rt, config, keys)
}

// judge errs at what the server would refuse before it listens. Devices that do not open are no mistake of the configuration.
func (v *serving) judge(ctx context.Context, config serve.Config) error {
	if _, err := circuitsOf(config); err != nil { // before devices are opened, which takes time
		return terminal.Usage(err)
	}
	opening := error(nil)
	o := serve.Options{Log: v.log, Open: func(ctx context.Context, o weft.Options) (rt *weft.Runtime, err error) {
		rt, opening = v.open(ctx, o)
		return rt, opening
	}}
	if err := serve.Check(ctx, config, o); err != nil && opening == nil {
		return terminal.Usage(err)
	} else if err != nil {
		return err
	}
	return nil
}

// open opens devices, and tells of those that do not open.
func (v *serving) open(ctx context.Context, o weft.Options) (*weft.Runtime, error) {
	o.Log = v.warnings
	return open(ctx, o, os.Stderr)
}

// circuitsOf reads the keys of the circuits that are to be proved, nil for none.
func circuitsOf(c serve.Config) (prove.Keys, error) {
	if c.Circuits == "" {
		return nil, nil
	}
	return prove.ReadKeys(c.Circuits, c.Proofs)
}

// prover puts keys on devices, if there are any.
func (v *serving) prover(rt *weft.Runtime, keys prove.Keys, c serve.Config) (serve.Prover, error) {
	if keys == nil {
		return nil, nil
	}
	s, err := prove.New(rt, keys, c.Proofs)
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
	prover, err := v.prover(rt, keys, config)
	if err != nil {
		return err
	}
	s, err := serve.Open(rt, config, serve.Options{Workloads: workloads.Served(), Prover: prover, Open: v.open, Version: built().String(), Log: v.log})
	if err != nil {
		return terminal.Usage(err)
	}
	v.announce(rt, config, s)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	meanwhile, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer stop()
	wait.Go(func() { v.list(meanwhile, s) })
	wait.Go(func() { v.reload(meanwhile, s, hup) })
	return s.Serve(ctx)
}

// reload has a server load its files anew at every signal, until ctx ends.
func (v *serving) reload(ctx context.Context, s *serve.Server, hup <-chan os.Signal) {
	for {
		select {
		case <-hup:
			v.log.Info("loading models, tokens and the certificate anew")
			if err := s.Reload(ctx); err != nil {
				v.log.Error("not all could be loaded anew", "err", terminal.OneLine(err.Error()))
			}
		case <-ctx.Done():
			return
		}
	}
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

// list says which models there are once all were tried.
func (v *serving) list(ctx context.Context, s *serve.Server) {
	rows := []string{"Ready:"}
	switch err := s.Loaded(ctx); {
	case ctx.Err() != nil:
		return
	case err != nil:
		rows[0] = "Not ready: " + terminal.OneLine(err.Error())
	}
	for _, m := range s.Models() {
		row := fmt.Sprintf("  %s version %s: %s", m.Name, m.Version, m.State)
		if m.Reason != "" {
			row += ", " + terminal.OneLine(m.Reason)
		}
		rows = append(rows, row)
	}
	fmt.Fprintln(v.out, strings.Join(rows, "\n"))
}
