package serve

import (
	"context"
	"errors"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/infer"
)

// Local is a server on this machine's loopback for its own process: for benchmarks and trials,
// which load it as anybody would.
type Local struct {
	*Server
	Models *infer.Service
	served chan error
	wait   time.Duration
}

// Start serves the models of a configuration on a runtime, at a free port, and returns when all
// are ready. The caller closes it before the runtime.
func Start(ctx context.Context, c Config, rt *weft.Runtime) (_ *Local, err error) {
	c.Listen, c.GRPC = "127.0.0.1:0", "none"
	l := &Local{served: make(chan error, 1), wait: time.Duration(c.Limits.DrainTime)}
	if l.Models, err = infer.New(rt, c.Infer(nil)); err != nil {
		return nil, err
	}
	l.Server, err = New(Options{Config: c, Service: l.Models, Runtime: rt})
	if err == nil {
		err = l.Listen()
	}
	if err != nil {
		return nil, errors.Join(err, l.Models.Close(ctx))
	}
	go func() { l.served <- l.Serve() }()
	for l.Models.Ready() != nil {
		for _, m := range l.Models.Models() {
			if m.State == infer.Failed {
				return nil, errors.Join(errors.New(m.Reason), l.Close())
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), l.Close())
		}
	}
	return l, nil
}

// Close ends the server and its service when the requests under way have their answers, or
// after the drain_time of its configuration.
func (l *Local) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.wait)
	defer cancel()
	return errors.Join(l.Drain(ctx), <-l.served)
}
