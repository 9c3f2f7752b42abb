// Package otlp sends traces of predictions to a collector of OpenTelemetry, by OTLP over HTTP with
// JSON. `weft serve` uses it where its configuration names a collector. Files: otlp.go (the exporter),
// span.go (spans, and where a request belongs), service.go (spans of predictions).
//
// Traces are made by a service around the service, which measures Infer and takes the wait and the batch from the
// answer. Spans wait in a bounded queue for a goroutine that sends them. A prediction has three spans.
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
	maxQueued = 16384           // spans that wait; more are dropped and counted
	maxSent   = 512             // spans in a message, which is sent at once when it is full
	every     = time.Second     // that a message waits to be full
	patience  = 5 * time.Second // for the collector to answer
)

// Exporter sends spans in the background. Whoever records one never waits: if the collector is slow
// or away, spans are dropped.
type Exporter struct {
	endpoint string
	sample   float64
	log      *slog.Logger
	client   *http.Client
	full     chan struct{} // has a token when there is a full message
	every    time.Duration

	mu    sync.Mutex // guards the fields below
	queue []Span
	// sent and dropped count spans; told is how many of those dropped the log has.
	sent, dropped, told uint64
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
	return &Exporter{endpoint: u.JoinPath("v1", "traces").String(), sample: sample, log: log, client: &http.Client{Timeout: patience, Transport: &http.Transport{}}, full: make(chan struct{}, 1), every: every}, nil
}

// Record queues spans to be sent.
func (e *Exporter) Record(spans ...Span) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue)+len(spans) > maxQueued {
		e.dropped += uint64(len(spans))
		return
	}
	if e.queue = append(e.queue, spans...); len(e.queue) >= maxSent {
		select {
		case e.full <- struct{}{}:
		default:
		}
	}
}

// Counts returns how many spans the collector took and how many were dropped.
func (e *Exporter) Counts() (sent, dropped uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sent, e.dropped
}

// Run sends what is recorded until ctx ends, and then what is left, once.
func (e *Exporter) Run(ctx context.Context) {
	t := time.NewTicker(e.every)
	defer t.Stop()
	defer e.left()
	defer e.client.CloseIdleConnections()
	failing := false
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			e.say(e.flush(last, 1), &failing)
			return
		case <-t.C:
			e.say(e.flush(ctx, 1), &failing)
		case <-e.full:
			// While the collector does not answer, it is tried once in a while.
			if !failing {
				e.say(e.flush(ctx, maxSent), &failing)
			}
		}
	}
}

// left counts what is still queued as dropped.
func (e *Exporter) left() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropped += uint64(len(e.queue))
	e.queue = nil
}

// say logs that the collector does not take spans, and that it does again, once each.
func (e *Exporter) say(err error, failing *bool) {
	switch {
	case err != nil && !*failing:
		e.log.Warn("traces are not sent", "err", err)
	case err == nil && *failing:
		e.log.Info("traces are sent again")
	}
	*failing = err != nil
}

// flush sends messages while there are spans for one of at least that many.
func (e *Exporter) flush(ctx context.Context, least int) error {
	for {
		e.mu.Lock()
		n := min(len(e.queue), maxSent)
		if n < least {
			n = 0
		}
		spans := append([]Span(nil), e.queue[:n]...)
		e.queue = append(e.queue[:0], e.queue[n:]...)
		dropped := e.dropped - e.told
		if least == 1 { // once in a while
			e.told = e.dropped
		}
		e.mu.Unlock()
		if dropped > 0 && least == 1 {
			e.log.Warn("spans were dropped: the collector is too slow, or away", "spans", dropped)
		}
		if n == 0 {
			return nil
		}
		err := e.send(ctx, spans)
		e.mu.Lock()
		switch {
		case err == nil:
			e.sent += uint64(n)
		case ctx.Err() != nil && len(e.queue)+n <= maxQueued: // it was not waited for
			e.queue = append(spans, e.queue...)
		default:
			e.dropped += uint64(n)
		}
		e.mu.Unlock()
		if err != nil {
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
