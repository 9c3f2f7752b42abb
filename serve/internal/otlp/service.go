package otlp

import (
	"context"
	"time"

	"github.com/weft-run/weft/serve/internal/infer"
)

// Service is a service of models whose predictions are traced.
type Service struct {
	*infer.Service
	exporter *Exporter
	infer    func(context.Context, *infer.Request) (*infer.Response, error)
}

// Trace makes a service whose predictions are recorded by e.
func Trace(s *infer.Service, e *Exporter) *Service {
	return &Service{Service: s, exporter: e, infer: s.Infer}
}

// Infer computes a prediction and records it: a span of the whole, and within it one of the wait for
// the batch and one of the batch, which end where the answer was there.
func (s *Service) Infer(ctx context.Context, r *infer.Request) (*infer.Response, error) {
	p, parent := s.exporter.begin(ctx)
	if !p.Sampled {
		return s.infer(ctx, r)
	}
	start := time.Now()
	a, err := s.infer(ctx, r)
	end := time.Now()
	whole := Span{Place: p, Parent: parent, Name: "infer " + r.Model, Server: true, Start: start, End: end,
		Attributes: []Attribute{{"weft.model", r.Model}, {"weft.request", r.ID}}}
	if err != nil {
		whole.Err = err.Error()
		s.exporter.Record(whole)
		return a, err
	}
	whole.Attributes = append(whole.Attributes, Attribute{"weft.version", a.Version}, Attribute{"weft.device", a.Device}, Attribute{"weft.batch", int64(a.Batch)})
	computing := end.Add(-a.Computed)
	part := func(name string, from, to time.Time) Span {
		return Span{Place: Place{Trace: p.Trace, Span: newSpan(), Sampled: true}, Parent: p.Span, Name: name, Start: from, End: to}
	}
	s.exporter.Record(whole, part("queue", computing.Add(-a.Queued), computing), part("compute", computing, end))
	return a, nil
}
