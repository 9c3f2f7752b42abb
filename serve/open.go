package serve

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/serve/dashboard"
	"github.com/weft-run/weft/serve/internal/infer"
	"github.com/weft-run/weft/serve/internal/metrics"
	"github.com/weft-run/weft/serve/internal/otlp"
)

// Options are what a program gives a server beside its configuration. The zero value will do.
type Options struct {
	// Workloads are kinds of jobs that clients may ask for besides those that come with the server. Their names differ
	// from one another and from these.
	Workloads []Workload
	// Prover proves circuits, nil for none. The server closes it.
	Prover Prover
	// Open opens the devices of a job that names some; nil refuses such jobs.
	Open    func(ctx context.Context, o weft.Options) (*weft.Runtime, error)
	Version string       // that clients are told
	Log     *slog.Logger // nil for none
}

// Open makes a server on a runtime, which must stay open until Close has returned. It takes the state folder and the
// addresses of the configuration, and begins to load the models. Connections wait from then on, until Serve.
func Open(rt *weft.Runtime, c Config, o Options) (*Server, error) {
	models, err := infer.New(rt, c.infer(o.Log))
	if err != nil {
		return nil, err
	}
	p := parts{Config: c, Service: models, Runtime: rt, Workloads: offers(o.Workloads), Proofs: o.Prover, Version: o.Version, Log: o.Log}
	if o.Open != nil {
		p.Open = func(ctx context.Context, devices string) (*weft.Runtime, error) {
			of := c
			of.Devices = devices
			wanted, err := of.Options()
			if err != nil {
				return nil, err
			}
			wanted.MaxDevices = 0
			return o.Open(ctx, wanted)
		}
	}
	stop, err := p.observe(models)
	var s *Server
	if err == nil {
		s, err = newServer(p)
	}
	if err == nil {
		s.stopObserving = stop
		s.dashboard = dashboard.New(rt, dashboard.Options{Name: "weft serve", Serving: s, Jobs: shownJobs{s.jobs}})
		err = s.take()
	}
	if err != nil {
		stop()
		return nil, errors.Join(err, models.Close(context.Background())) // no requests are under way
	}
	return s, nil
}

// observe makes the figures of a service and, where the configuration names a collector, has its predictions traced. The
// caller calls stop when the service has ended.
func (p *parts) observe(models *infer.Service) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	stop = func() {
		cancel()
		wg.Wait()
	}
	source := metrics.Source{Runtime: p.Runtime.Metrics, Models: models.Stats, Prices: metrics.Prices(p.Config.Prices)}
	if p.Proofs != nil {
		source.Proofs = func() (out []metrics.Proofs) {
			for _, c := range p.Proofs.Stats() {
				out = append(out, metrics.Proofs(c))
			}
			return out
		}
	}
	if t := p.Config.Traces; t.Collector != "" {
		e, err := otlp.New(t.Collector, t.Sample, p.Log)
		if err != nil {
			return stop, mistaken("traces", "%w", err)
		}
		wg.Go(func() { e.Run(ctx) })
		p.Service = otlp.Trace(models, e)
		source.Spans = func() (s metrics.Spans) {
			s.Sent, s.Dropped = e.Counts()
			return s
		}
	}
	figures := metrics.New(source)
	p.Metrics = figures
	wg.Go(func() { figures.Run(ctx) })
	return stop, nil
}

// Loaded waits until every model was loaded or has failed to be, and returns why the server is not ready then.
func (s *Server) Loaded(ctx context.Context) error {
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	loading := func(m infer.Info) bool { return m.State == infer.Loading }
	for s.service.Opening() || slices.ContainsFunc(s.service.Models(), loading) {
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return s.service.Ready()
}

// Serve answers until ctx ends or the server is closed, and closes it.
func (s *Server) Serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.accept() }()
	select {
	case err := <-served:
		return errors.Join(err, s.Close())
	case <-ctx.Done():
		err := s.Close()
		return errors.Join(err, <-served)
	}
}

// Close ends the server: it says that it is not ready, waits as long as drain_delay says for others to see that, takes no
// more requests, and waits for those under way. What has not ended after drain_time is cut off, and that is an error.
func (s *Server) Close() error {
	s.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(s.limits.DrainDelay+s.limits.DrainTime))
		defer cancel()
		s.closed = s.drain(ctx)
		s.stopObserving()
	})
	return s.closed
}
