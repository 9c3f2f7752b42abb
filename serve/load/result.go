package load

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weft-run/weft/internal/text"
)

// Result is the outcome of the requests of a load that arrived after the warm-up. Each of them
// is counted under one of Answered, Refused, TimedOut, Unsent, Unfinished, and the Count of one
// of Failures. All times are in seconds.
type Result struct {
	Model       string   `json:"model"`
	Rate        float64  `json:"rate"` // that was asked for, in requests a second
	Arrivals    Arrivals `json:"arrivals"`
	Batch       int      `json:"batch"`
	Connections int      `json:"connections"`
	Seconds     float64  `json:"seconds"` // until the last answer, or the end of the load

	Arrived    uint64 `json:"arrived"`
	Sent       uint64 `json:"sent"`
	Answered   uint64 `json:"answered"`
	Refused    uint64 `json:"refused"`    // answered with 429 or 503
	TimedOut   uint64 `json:"timed_out"`  // sent and not answered in time
	Unsent     uint64 `json:"unsent"`     // no connection was free until the timeout had passed after the end
	Unfinished uint64 `json:"unfinished"` // when the load was interrupted
	Failed     uint64 `json:"failed"`     // the sum over Failures

	// Late counts requests that were sent more than 1 ms after they were due, Waited the ones
	// among them for which no connection was free.
	Late        uint64    `json:"late"`
	Waited      uint64    `json:"waited"`
	Reconnected uint64    `json:"reconnected"` // connections that the server had closed while they were idle
	Failures    []Failure `json:"failures,omitempty"`

	Reached float64 `json:"reached"` // requests answered in a second
	// Latency is measured on answered requests, from the time they were due. Own is the delay
	// between the earliest time a request could be sent and its sending: the lateness of this
	// process alone.
	Latency     Quantiles `json:"latency"`
	Own         Quantiles `json:"own_lateness"`
	Histogram   []Bar     `json:"histogram"`
	Interrupted bool      `json:"interrupted"`
	// Bottleneck says that this process was late by itself so often that the figures are as much
	// its own as the server's: by more than 1 ms and a tenth of the latency, at the 99th percentile.
	Bottleneck bool `json:"generator_bottleneck"`

	latency, own *Histogram
	failures     map[string]*Failure
}

// Failure is why some requests failed.
type Failure struct {
	Why    string `json:"why"`              // an answer's status, or what happened to the connection
	Status int    `json:"status,omitempty"` // of HTTP; over gRPC the one that says the same
	Count  uint64 `json:"count"`
	Said   string `json:"said,omitempty"` // by the server, to the first of them
}

// Expired reports whether the server answered that the deadline had passed.
func (f Failure) Expired() bool { return f.Status == http.StatusGatewayTimeout }

// Quantiles describe a histogram, in seconds.
type Quantiles struct {
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Bar is the number of requests whose latency was from From to less than To, in seconds.
type Bar struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count uint64  `json:"count"`
}

func newResult(c *Client, p Pace) *Result {
	return &Result{Model: c.model.Name, Rate: p.Rate, Arrivals: p.Arrivals, Batch: c.batch,
		Connections: c.o.Connections, latency: new(Histogram), own: new(Histogram), failures: make(map[string]*Failure)}
}

// maxFailures is the most kinds of failures that are told apart.
const maxFailures = 20

// fail counts a failure; status is 0 where there is no answer.
func (s *Result) fail(why string, status int, said string) {
	s.Failed++
	if s.failures[why] == nil {
		if len(s.failures) >= maxFailures {
			why, status, said = "others", 0, ""
		}
		if s.failures[why] == nil {
			s.failures[why] = &Failure{Why: why, Status: status, Said: said}
		}
	}
	s.failures[why].Count++
}

// finish derives what follows from counts, after a load of some length.
func (s *Result) finish(took time.Duration) {
	s.Seconds = took.Seconds()
	if s.Seconds > 0 {
		s.Reached = float64(s.Answered) / s.Seconds
	}
	s.Latency, s.Own = s.latency.quantiles(), s.own.quantiles()
	s.Histogram = s.latency.bars()
	s.Bottleneck = s.Own.P99 > lateAfter.Seconds() && s.Own.P99 > s.Latency.P99/10
	for _, f := range slices.SortedFunc(maps.Values(s.failures), func(a, b *Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Why, b.Why))
	}) {
		s.Failures = append(s.Failures, *f)
	}
}

func (h *Histogram) quantiles() Quantiles {
	at := func(q float64) float64 { return h.Quantile(q).Seconds() }
	return Quantiles{Min: h.min().Seconds(), Mean: h.mean().Seconds(), P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), P999: at(0.999), Max: h.Max().Seconds()}
}

// steps are the bounds of bars within a decade: finer ones while few decades are to be drawn.
var steps = [][]time.Duration{{10, 12, 14, 17, 20, 25, 30, 35, 40, 50, 60, 70, 85}, {10, 15, 20, 30, 50, 70}, {10, 20, 50}, {10}}

// maxBars is the most bars that are drawn, if any steps are coarse enough.
const maxBars = 16

// bars counts durations between round bounds, from the least to the greatest.
func (h *Histogram) bars() []Bar {
	if h.n == 0 {
		return nil
	}
	var edges []time.Duration
	for _, in := range steps {
		edges = h.edges(in)
		if len(edges) <= maxBars+1 {
			break
		}
	}
	out := make([]Bar, 0, len(edges))
	for i := range edges[1:] {
		out = append(out, Bar{From: edges[i].Seconds(), To: edges[i+1].Seconds(), Count: h.below(edges[i+1]) - h.below(edges[i])})
	}
	return out
}

// edges are round durations, the first not above the least duration and the last above the
// greatest.
func (h *Histogram) edges(in []time.Duration) []time.Duration {
	out := []time.Duration{0}
	for decade := time.Duration(1); ; decade *= 10 { // 1e18 ns is more than longest
		for _, s := range in {
			if decade == 1 && s > 10 {
				break // parts of a nanosecond
			}
			edge := max(decade/10*s, 1)
			if edge <= h.least {
				out = out[:0]
			}
			if out = append(out, edge); edge > h.most {
				return out
			}
		}
	}
}

// Err returns an error if requests failed or were not answered in time. Those that the server
// refused are no failure: it is what it should do with more than it can take.
func (s *Result) Err() error {
	lost := s.Failed + s.TimedOut + s.Unsent
	if lost == 0 {
		return nil
	}
	why := ""
	for _, f := range s.Failures {
		why += fmt.Sprintf(", %d: %s", f.Count, f.Why)
	}
	if s.TimedOut > 0 {
		why += fmt.Sprintf(", %d timed out", s.TimedOut)
	}
	if s.Unsent > 0 {
		why += fmt.Sprintf(", %d could not be sent in time", s.Unsent)
	}
	return fmt.Errorf("at %s requests a second, %d of %d got no good answer (%s)", text.Rate(s.Rate), lost, s.Arrived, why[2:])
}
