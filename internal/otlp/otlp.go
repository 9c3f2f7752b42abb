// Package otlp sends traces of predictions to a collector of OpenTelemetry, by OTLP over HTTP with
// JSON. `weft serve` uses it where its configuration names a collector. Files: otlp.go (the exporter),
// span.go (spans, and where a request belongs), service.go (spans of predictions).
package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Bounds of an exporter.
const (
	maxQueued = 4096            // spans that wait; more are dropped and counted
	maxSent   = 512             // spans in a message
	every     = time.Second     // from one message to the next
	patience  = 5 * time.Second // for the collector to answer
)

// Exporter sends spans in the background. Whoever records one never waits: if the collector is slow
// or away, spans are dropped.
type Exporter struct {
	endpoint string
	sample   float64
	log      *slog.Logger
	client   *http.Client

	mu      sync.Mutex // guards the fields below
	queue   []Span
	dropped uint64
}

// New makes an exporter to the collector at an address such as http://localhost:4318. sample is the part
// of requests that are traced, of those whose sender does not say.
func New(address string, sample float64, log *slog.Logger) (*Exporter, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("collector %q: write http://HOST:PORT or https://HOST:PORT", address)
	}
	if !(sample >= 0 && sample <= 1) {
		return nil, fmt.Errorf("sample %v: it must be from 0 to 1", sample)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Exporter{endpoint: u.JoinPath("v1", "traces").String(), sample: sample, log: log, client: &http.Client{Timeout: patience, Transport: &http.Transport{}}}, nil
}

// Record queues spans to be sent.
func (e *Exporter) Record(spans ...Span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue)+len(spans) > maxQueued {
		e.dropped += uint64(len(spans))
		return
	}
	e.queue = append(e.queue, spans...)
}

// Run sends what is recorded until ctx ends, and then what is left, once.
func (e *Exporter) Run(ctx context.Context) {
	t := time.NewTicker(every)
	defer t.Stop()
	defer e.client.CloseIdleConnections()
	failing := false
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			e.told(e.flush(last), &failing)
			return
		case <-t.C:
			e.told(e.flush(ctx), &failing)
		}
	}
}

// told logs that the collector does not take spans, and that it does again, once each.
func (e *Exporter) told(err error, failing *bool) {
	switch {
	case err != nil && !*failing:
		e.log.Warn("traces are not sent", "err", err)
	case err == nil && *failing:
		e.log.Info("traces are sent again")
	}
	*failing = err != nil
}

// flush sends all that is queued.
func (e *Exporter) flush(ctx context.Context) error {
	for {
		e.mu.Lock()
		n := min(len(e.queue), maxSent)
		spans := append([]Span(nil), e.queue[:n]...)
		e.queue = append(e.queue[:0], e.queue[n:]...)
		dropped := e.dropped
		e.dropped = 0
		e.mu.Unlock()
		if dropped > 0 {
			e.log.Warn("spans were dropped: the collector is too slow", "spans", dropped)
		}
		if n == 0 {
			return nil
		}
		if err := e.send(ctx, spans); err != nil {
			return err
		}
	}
}

// send sends spans in one message.
func (e *Exporter) send(ctx context.Context, spans []Span) error {
	body, err := json.Marshal(message(spans))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := e.client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	io.Copy(io.Discard, io.LimitReader(a.Body, 1<<20))
	if a.StatusCode >= 300 {
		return fmt.Errorf("%s answered with %s", e.endpoint, a.Status)
	}
	return nil
}
