package otlp

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve/internal/infer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is what a collector reads, by the description of OTLP's JSON.
type wire struct {
	ResourceSpans []struct {
		Resource   struct{ Attributes []wireAttribute }
		ScopeSpans []struct{ Spans []wireSpan }
	}
}

type wireSpan struct {
	TraceID           string `json:"traceId"`
	SpanID            string `json:"spanId"`
	ParentSpanID      string `json:"parentSpanId"`
	Name              string
	Kind              int
	StartTimeUnixNano string
	EndTimeUnixNano   string
	Attributes        []wireAttribute
	Status            struct {
		Code    int
		Message string
	}
}

type wireAttribute struct {
	Key   string
	Value struct{ StringValue, IntValue string }
}

func (s wireSpan) nanos(t *testing.T) (start, end int64) {
	t.Helper()
	start, err := strconv.ParseInt(s.StartTimeUnixNano, 10, 64)
	if err != nil {
		t.Error(err)
	}
	end, err = strconv.ParseInt(s.EndTimeUnixNano, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return start, end
}

// collector is a server that keeps what it is sent.
func collector(t *testing.T, status *atomic.Int64) (address string, spans func() []wireSpan) {
	t.Helper()
	var mu sync.Mutex
	var got []wireSpan
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m wire
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err != nil || r.URL.Path != "/v1/traces" || r.Method != "POST" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s: %v", r.Method, r.URL, body, err)
		}
		if c := status.Load(); c != 0 {
			w.WriteHeader(int(c))
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range m.ResourceSpans {
			if rs.Resource.Attributes[0].Key != "service.name" || rs.Resource.Attributes[0].Value.StringValue != "weft" {
				t.Errorf("%+v", rs.Resource)
			}
			for _, ss := range rs.ScopeSpans {
				got = append(got, ss.Spans...)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []wireSpan { mu.Lock(); defer mu.Unlock(); return got }
}

// traced runs f with a service that is traced, and returns when all was sent.
func traced(t *testing.T, address string, sample float64, inner func(context.Context, *infer.Request) (*infer.Response, error), f func(*Service)) {
	t.Helper()
	e, err := New(address, sample, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { e.Run(ctx) })
	f(&Service{exporter: e, infer: inner})
	cancel()
	wg.Wait()
}

// A prediction has a span below its caller's, with its wait and its batch as parts that follow one
// another; one that failed says why.
func TestSpans(t *testing.T) {
	var ok atomic.Int64
	address, spans := collector(t, &ok)
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traced(t, address, 0, func(_ context.Context, r *infer.Request) (*infer.Response, error) {
		if r.Model == "bad" {
			return nil, errors.New("no luck")
		}
		return &infer.Response{Version: "2", Device: "cpu:0", Batch: 8, Queued: 3 * time.Millisecond, Computed: 2 * time.Millisecond}, nil
	}, func(s *Service) {
		ctx := WithCaller(context.Background(), caller)
		if a, err := s.Infer(ctx, &infer.Request{Model: "m", ID: "7"}); err != nil || a.Batch != 8 {
			t.Error(a, err)
		}
		if _, err := s.Infer(ctx, &infer.Request{Model: "bad"}); err == nil {
			t.Error("no error")
		}
		for _, not := range []string{"", "garbage", caller[:len(caller)-1] + "0"} { // not to be traced
			if _, err := s.Infer(WithCaller(context.Background(), not), &infer.Request{Model: "m"}); err != nil {
				t.Error(err)
			}
		}
	})
	got := spans()
	if len(got) != 4 {
		t.Fatalf("%+v", got)
	}
	whole, queue, compute, bad := got[0], got[1], got[2], got[3]
	for _, s := range got {
		if s.TraceID != "0af7651916cd43dd8448eb211c80319c" || len(s.SpanID) != 16 {
			t.Errorf("%+v", s)
		}
	}
	if whole.ParentSpanID != "b7ad6b7169203331" || whole.Kind != 2 || whole.Name != "infer m" || whole.Status.Code != 0 || bad.Status.Code != 2 || bad.Status.Message != "no luck" {
		t.Errorf("%+v, %+v", whole, bad)
	}
	if queue.ParentSpanID != whole.SpanID || compute.ParentSpanID != whole.SpanID || queue.SpanID == compute.SpanID || queue.Kind != 1 {
		t.Errorf("%+v, %+v", queue, compute)
	}
	_, end := whole.nanos(t)
	waits, computes := queue, compute
	w0, w1 := waits.nanos(t)
	c0, c1 := computes.nanos(t)
	if w1-w0 != 3e6 || c1-c0 != 2e6 || w1 != c0 || c1 != end {
		t.Errorf("waits from %d to %d, computed from %d to %d, ended at %d", w0, w1, c0, c1, end)
	}
	facts := make(map[string]string)
	for _, a := range whole.Attributes {
		facts[a.Key] = a.Value.StringValue + a.Value.IntValue
	}
	if facts["weft.model"] != "m" || facts["weft.request"] != "7" || facts["weft.version"] != "2" || facts["weft.device"] != "cpu:0" || facts["weft.batch"] != "8" {
		t.Errorf("%v", facts)
	}
}

// The part of requests that is traced is the one asked for, each in a trace of its own.
func TestSample(t *testing.T) {
	var ok atomic.Int64
	address, spans := collector(t, &ok)
	const n = 1000
	traced(t, address, 0.25, func(context.Context, *infer.Request) (*infer.Response, error) { return nil, errors.New("x") }, func(s *Service) {
		for range n {
			s.Infer(context.Background(), &infer.Request{})
		}
	})
	traces := make(map[string]bool)
	for _, s := range spans() {
		traces[s.TraceID] = true
	}
	// 250 with a standard deviation of 14: eight of them is never.
	if got := len(spans()); got < 140 || got > 360 || len(traces) != got {
		t.Errorf("%d spans of %d in %d traces", got, n, len(traces))
	}
}

// A message that is full is sent at once, so that the rate of spans is bounded by the collector
// alone; what does not fill one goes with the next, or at the end.
func TestFullMessages(t *testing.T) {
	var ok atomic.Int64
	address, spans := collector(t, &ok)
	e, err := New(address, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.every = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { e.Run(ctx) })
	const bursts, each = 10, 4*maxSent + 1
	for i := range bursts {
		for range each {
			e.Record(Span{})
		}
		full := uint64((i + 1) * each / maxSent * maxSent)
		poll.True(t, fmt.Sprintf("of %d spans %d were sent", (i+1)*each, full), func() bool {
			sent, _ := e.Counts()
			return sent >= full
		})
	}
	cancel()
	wg.Wait()
	if sent, dropped := e.Counts(); sent != bursts*each || dropped != 0 || len(spans()) != bursts*each {
		t.Errorf("of %d spans %d were sent, %d dropped and %d came", bursts*each, sent, dropped, len(spans()))
	}
}

// A collector that refuses, or is away, holds up nobody and takes no memory.
func TestAway(t *testing.T) {
	e, err := New("http://127.0.0.1:1", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * maxQueued {
		e.Record(Span{})
	}
	if len(e.queue) != maxQueued || e.dropped != maxQueued {
		t.Errorf("%d wait, %d dropped", len(e.queue), e.dropped)
	}
	if err := e.flush(t.Context(), 1); err == nil {
		t.Error("nobody took them")
	}
	if sent, dropped := e.Counts(); sent != 0 || dropped != maxQueued+maxSent {
		t.Errorf("%d were sent and %d dropped", sent, dropped)
	}
	var status atomic.Int64
	status.Store(500)
	address, _ := collector(t, &status)
	if e, err = New(address, 1, nil); err != nil {
		t.Fatal(err)
	}
	defer e.client.CloseIdleConnections()
	e.Record(Span{})
	if err := e.flush(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("error %v", err)
	}
	for _, bad := range []string{"", "localhost:4318", "ftp://x", "http://"} {
		if _, err := New(bad, 1, nil); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
	if _, err := New("http://x", 1.5, nil); err == nil {
		t.Error("more than all are traced")
	}
}

// A header is read as it was written, or not at all.
func FuzzTraceparent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more")
	f.Add("00-00000000000000000000000000000000-b7ad6b7169203331-01")
	f.Add("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, s string) {
		p, ok := ParseTraceparent(s)
		if !ok {
			if p != (Place{}) {
				t.Errorf("%q: %+v", s, p)
			}
			return
		}
		if want := hex.EncodeToString(p.Trace[:]) + "-" + hex.EncodeToString(p.Span[:]); s[3:52] != want || p.Trace == [16]byte{} || p.Span == [8]byte{} {
			t.Errorf("%q: %+v", s, p)
		}
	})
}
