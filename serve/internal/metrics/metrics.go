// Package metrics writes what a runtime and a service do in the text format of Prometheus. A server
// mounts a [Collector] at /metrics and calls its Run beside it. docs/METRICS.md has every figure with
// its formula; a test holds the two together.
//
// Files: metrics.go (samples and the handler), figures.go (formulas, pure), families.go (which
// figures there are), page.go (the text format), host.go (the machine, from /proc).
//
// A Collector samples the runtime, the service and /proc once a second and keeps a minute of samples; formulas
// (figures.go) are functions of two of them. Figures are taken from two snapshots and not counted as they happen.
package metrics

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/serve/internal/infer"
)

// Source is where figures come from.
type Source struct {
	Runtime func() weft.Metrics  // nil if there is none
	Models  func() []infer.Stats // nil if nothing is served
	Spans   func() Spans         // nil if nothing is traced
	Proofs  func() []Proofs      // nil if nothing is proved
	Prices  Prices
}

// Proofs are the figures of a circuit since the start.
type Proofs struct {
	Circuit                           string
	Proved, Refused, Failed, Verified uint64
	Seconds                           float64 // that proofs took
	Waiting, Running                  int     // now
}

// Spans counts the spans of traces since the start.
type Spans struct{ Sent, Dropped uint64 }

// Prices turn energy, devices and predictions into money, of any one currency. A price of 0 is
// not known.
type Prices struct {
	KWh        float64 // of a kilowatt-hour
	DeviceHour float64 // of having a device for an hour
	Prediction float64 // what a prediction is worth
}

// Check returns an error unless prices are finite and not negative.
func (p Prices) Check() error {
	for name, v := range map[string]float64{"a kilowatt-hour": p.KWh, "a device hour": p.DeviceHour, "a prediction": p.Prediction} {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return fmt.Errorf("the price of %s is %v; it must be a finite number, not negative", name, v)
		}
	}
	return nil
}

const (
	every  = time.Second // from one sample to the next
	window = time.Minute // that "recent" reaches back, and up to a sample more
)

// sample is all that is known at one time.
type sample struct {
	at      time.Time
	runtime weft.Metrics
	models  []infer.Stats
	spans   Spans
	proofs  []Proofs
	host    host
}

// Collector keeps the samples of the window and what adds up over all of them. Its methods
// may be called at the same time.
type Collector struct {
	source Source
	root   string // of the file system that has /proc and /sys
	now    func() time.Time

	mu      sync.Mutex // guards the fields below
	samples []sample   // oldest first
	totals  totals
}

// totals are what adds up since the collector was made.
type totals struct {
	joules  map[string]float64 // by device; only those that tell their power
	devices float64            // seconds, of all devices in service together
	peak    float64            // predictions a second
	// predictions counts those of models that are gone as well.
	predictions float64
}

// New makes a collector. It takes its first sample at once.
func New(s Source) *Collector {
	c := &Collector{source: s, root: "/", now: time.Now, totals: totals{joules: make(map[string]float64)}}
	c.sample()
	return c
}

// Run samples once a second until ctx ends. Without it samples are taken when somebody asks, and
// the peak and the energy are as coarse as that.
func (c *Collector) Run(ctx context.Context) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			c.sample()
		}
	}
}

// sample takes a sample and keeps it.
func (c *Collector) sample() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(c.read())
}

// read asks the sources for what is known now.
func (c *Collector) read() sample {
	s := sample{at: c.now(), host: readHost(c.root)}
	if c.source.Runtime != nil {
		s.runtime = c.source.Runtime()
	}
	if c.source.Models != nil {
		s.models = c.source.Models()
	}
	if c.source.Spans != nil {
		s.spans = c.source.Spans()
	}
	if c.source.Proofs != nil {
		s.proofs = c.source.Proofs()
	}
	return s
}

// keep adds a sample to the others, unless the last one is too young to tell a rate by.
func (c *Collector) keep(s sample) {
	if n := len(c.samples); n == 0 {
		c.totals.predictions = items(&sample{}, &s)
	} else if s.at.Sub(c.samples[n-1].at) < every/2 {
		return
	} else {
		c.totals = c.totals.with(&c.samples[n-1], &s)
	}
	c.samples = append(c.samples, s)
	if n := c.outside(s.at); n > 0 {
		c.samples = slices.Delete(c.samples, 0, n)
	}
}

// outside returns how many of the oldest samples are not needed for the window that ends at a
// time: it begins with the latest sample that is not younger than it is long, or with the first.
func (c *Collector) outside(now time.Time) (n int) {
	for n+1 < len(c.samples) && now.Sub(c.samples[n+1].at) >= window {
		n++
	}
	return n
}

// ServeHTTP answers with the text.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "metrics are read by GET", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method == http.MethodGet {
		w.Write(c.Text())
	}
}

// Text returns the figures of now.
func (c *Collector) Text() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.read()
	c.keep(now)
	// What is shown is of now, also if it was too early to keep it.
	last := len(c.samples) - 1
	t := c.totals.with(&c.samples[last], &now)
	before := last
	if now.at.Sub(c.samples[last].at) < every/2 {
		before = max(last-1, 0)
	}
	v := view{source: &c.source, totals: &t, now: &now, before: &c.samples[before], oldest: &c.samples[c.outside(now.at)]}
	p := &page{}
	v.write(p)
	return p.text
}
