package load

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const metadata = `{"name": "m", "versions": ["1"], "platform": "fake", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}], "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}]}`

// server is a model that answers as infer says.
func server(infer http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/models/m", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, metadata) })
	mux.HandleFunc("POST /v2/models/m/infer", infer)
	return mux
}

// pipes is a network in memory, whose time may be virtual.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }
func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, syscall.ECONNREFUSED
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// virtual opens a client of a server in a bubble, where time goes on only when all wait for it.
// What is measured is exact: a goroutine that computes takes no time.
func virtual(t *testing.T, o Options, infer http.HandlerFunc) (*Client, *http.Server) {
	t.Helper()
	p := newPipes()
	s := &http.Server{Handler: server(infer)}
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(p) }()
	t.Cleanup(func() { s.Close(); <-done; time.Sleep(time.Minute) }) // handlers end
	o.Model, o.dial = "m", p.dial
	c, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.wait = waitCoarsely
	return c, s
}

// balanced checks that every request that arrived is counted once.
func balanced(t *testing.T, s *Result) {
	t.Helper()
	if sum := s.Answered + s.Refused + s.TimedOut + s.Unsent + s.Unfinished + s.Failed; sum != s.Arrived {
		t.Errorf("%d arrived and %d are counted: %+v", s.Arrived, sum, s)
	}
	n := uint64(0)
	for _, b := range s.Histogram {
		n += b.Count
	}
	if n != s.Answered {
		t.Errorf("%d answered, %d drawn", s.Answered, n)
	}
}

func within(x, want float64) bool { return x >= want*(1-1e-9) && x <= want*1.008 }

// A server that takes 200 µs and stalls once, for 100 ms, delays every request that arrives
// meanwhile. One that waits for answers before it sends more would have seen a single slow one.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lock = make(chan struct{}, 1)
		n := 0
		c, _ := virtual(t, Options{Connections: 1}, func(w http.ResponseWriter, r *http.Request) {
			lock <- struct{}{}
			if n++; n == 502 { // the first of all tries the model, the 501st of the load stalls
				time.Sleep(100 * time.Millisecond)
			} else {
				time.Sleep(200 * time.Microsecond)
			}
			<-lock
		})
		s, err := c.Run(t.Context(), Pace{Rate: 1000, Duration: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		balanced(t, s)
		// Request 500 is answered 100 ms after it was due, 500+k after 100 - k + 0.2·k + … ms: the
		// backlog shrinks by 0.8 ms with each, so that the 125th finds the server free again.
		// Late are those that are sent more than 1 ms after they were due: 100 - 0.8·(k-1) - 1 > 1.
		want := uint64(0)
		var latencies []float64 // ms
		free := 0.0             // when the server is, in ms
		for i := range 1000 {
			due, took := float64(i), 0.2
			if i == 500 {
				took = 100
			}
			begin := max(due, free)
			free = begin + took
			if begin-due > 1+1e-9 {
				want++
			}
			latencies = append(latencies, free-due)
		}
		if want < 100 || s.Late != want || s.Answered != 1000 {
			t.Errorf("%d late of %d, want %d of 1000", s.Late, s.Answered, want)
		}
		for _, ms := range []int{1, 10, 50, 90, 99} {
			least, most := 0, 0 // a bucket is 1/128 wide
			for _, l := range latencies {
				if l >= float64(ms)+1e-6 {
					least++
				}
				if l >= float64(ms)*(1-1./128)-1e-6 {
					most++
				}
			}
			got := int(s.Answered - s.latency.below(time.Duration(ms)*time.Millisecond))
			if got < least || got > most {
				t.Errorf("%d took %d ms or more, want %d to %d", got, ms, least, most)
			}
		}
		if !within(s.Latency.P50, 200e-6) || s.Latency.Max != 0.1 || s.Latency.P99 < 0.09 {
			t.Errorf("latencies %+v", s.Latency)
		}
		if s.Own.Max != 0 || s.Bottleneck {
			t.Errorf("the generator was late by %+v", s.Own)
		}
		if s.Seconds != 1 || s.Reached != 1000 {
			t.Errorf("%v in %v s", s.Reached, s.Seconds)
		}
	})
}

// The quantiles of a server with two known delays are those delays; the warm-up is left out.
func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		c, _ := virtual(t, Options{Connections: 100}, func(w http.ResponseWriter, r *http.Request) {
			switch i := n.Add(1) - 2; { // the first one tries the model
			case i < 100: // the warm-up
				time.Sleep(70 * time.Millisecond)
			case i%50 == 0: // 2 %
				time.Sleep(30 * time.Millisecond)
			default:
				time.Sleep(5 * time.Millisecond)
			}
		})
		s, err := c.Run(t.Context(), Pace{Rate: 1000, WarmUp: 100 * time.Millisecond, Duration: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		balanced(t, s)
		l := s.Latency
		if !within(l.P50, 5e-3) || !within(l.P95, 5e-3) || !within(l.P99, 30e-3) || l.Max != 30e-3 || l.Min != 5e-3 {
			t.Errorf("latencies %+v", l)
		}
		if mean := 0.98*5e-3 + 0.02*30e-3; !within(l.Mean, mean) {
			t.Errorf("mean %v, want %v", l.Mean, mean)
		}
		if s.Arrived != 10000 || s.Answered != 10000 || s.Late != 0 {
			t.Errorf("%+v", s)
		}
		if n.Load() != 10101 {
			t.Errorf("the server saw %d requests", n.Load())
		}
	})
}

// A server that can do half of what is asked reaches half, and what cannot be sent before its
// timeout is counted as that.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := virtual(t, Options{Connections: 2, Timeout: 200 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(4 * time.Millisecond) // 500 a second by two connections
		})
		s, err := c.Run(t.Context(), Pace{Rate: 1000, Duration: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		balanced(t, s)
		// Requests are sent until 2.2 s: by one connection at 0, 4, … 2200 ms, by the other at 1, 5, … 2197.
		if s.Arrived != 2000 || s.Sent != 1101 || s.Answered != 1101 || s.Unsent != 899 || math.Abs(s.Reached-1101/2.204) > 1e-6 {
			t.Errorf("%+v", s)
		}
		if math.Abs(s.Latency.Max-1.104) > 0.001 || math.Abs(s.Latency.P50-0.55) > 0.01 {
			t.Errorf("latencies %+v", s.Latency)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "could not be sent in time") {
			t.Errorf("error %v", err)
		}
		if s.Bottleneck || s.Waited+s.Unsent < 1900 {
			t.Errorf("%d waited for a connection; the generator is the bottleneck: %v", s.Waited+s.Unsent, s.Bottleneck)
		}
	})
}

// Statuses are told apart, with what the server said to the first; 429 and 503 are refusals.
func TestStatuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		c, _ := virtual(t, Options{Connections: 4, Timeout: time.Second}, func(w http.ResponseWriter, r *http.Request) {
			switch i := n.Add(1) - 2; {
			case i < 0:
			case i%10 == 0:
				w.WriteHeader(http.StatusTooManyRequests)
			case i%10 == 1:
				w.WriteHeader(http.StatusServiceUnavailable)
			case i%10 == 2:
				w.WriteHeader(http.StatusInternalServerError)
				io.WriteString(w, `{"error": "out\nof luck"}`)
			case i%10 == 3:
				panic(http.ErrAbortHandler)
			case i%10 == 4:
				time.Sleep(2 * time.Second)
			}
		})
		s, err := c.Run(t.Context(), Pace{Rate: 2, Duration: 50 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		balanced(t, s)
		// What is cut short on a connection that has carried an answer is sent again once: the server
		// may have closed it before. The requests that follow shift by one for each.
		if s.Refused == 0 || s.TimedOut == 0 || s.Failed == 0 || s.Reconnected == 0 {
			t.Errorf("%+v", s)
		}
		if len(s.Failures) == 0 || s.Failures[0].Status != 500 || s.Failures[0].Why != "500 Internal Server Error" || s.Failures[0].Said != "500 Internal Server Error: out of luck" {
			t.Errorf("failures %+v", s.Failures)
		}
	})
}

// A server that closes each connection after its answer, and says so, is connected to again without
// an error in between.
func TestCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := virtual(t, Options{Connections: 2}, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
		s, err := c.Run(t.Context(), Pace{Rate: 100, Duration: time.Second})
		if err != nil || s.Answered != 100 || s.Reconnected != 0 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// A server that dies is seen in what follows.
func TestDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := virtual(t, Options{Connections: 4}, func(http.ResponseWriter, *http.Request) { time.Sleep(time.Millisecond) })
		time.AfterFunc(500*time.Millisecond, func() { server.Close() })
		s, err := c.Run(t.Context(), Pace{Rate: 100, Duration: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		balanced(t, s)
		if s.Answered < 45 || s.Answered > 51 || s.Failed < 49 {
			t.Errorf("%+v", s)
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error %v", err)
		}
	})
}

// The end of the context gives what there is until then.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := virtual(t, Options{Connections: 1}, func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(505*time.Millisecond, cancel)
		s, err := c.Run(ctx, Pace{Rate: 100, Duration: time.Hour})
		if !errors.Is(err, context.Canceled) || s == nil {
			t.Fatal(s, err)
		}
		balanced(t, s)
		// 51 arrived; 25 are answered, one is under way, 25 waited.
		if !s.Interrupted || s.Arrived != 51 || s.Answered != 25 || s.Unfinished != 26 || s.Seconds != 0.505 {
			t.Errorf("%+v", s)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if s, err := c.Run(ctx, Pace{Rate: 1, Duration: time.Hour}); !errors.Is(err, context.Canceled) {
			t.Error(s, err)
		}
	})
}

// open asks a real server.
func open(t *testing.T, h http.Handler, o Options) (*Client, error) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	var err error
	if o.Target, err = ParseTarget(s.URL); err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), o)
}

// What is sent is what the protocol says, as JSON and as bytes behind it.
func TestRequests(t *testing.T) {
	type body struct {
		Parameters struct {
			Out bool `json:"binary_data_output"`
		}
		Inputs []struct {
			Name       string
			Datatype   string
			Shape      []int64
			Data       []float32
			Parameters struct {
				Size int `json:"binary_data_size"`
			}
		}
	}
	given := Tensor{Type: "FP32", Shape: []int64{2, 3}}
	for i := range 6 {
		given.Data = binary.LittleEndian.AppendUint32(given.Data, 0x3f800000+uint32(i)<<20) // 1, 1.125, …
	}
	for _, binaryData := range []bool{false, true} {
		var seen [][]float32
		c, err := open(t, server(func(w http.ResponseWriter, r *http.Request) {
			all, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			var b body
			head := all
			if text := r.Header.Get("Inference-Header-Content-Length"); text != "" {
				n, err := strconv.Atoi(text)
				if err != nil || n > len(all) {
					t.Fatal(text, err)
				}
				head = all[:n]
			}
			if err := json.Unmarshal(head, &b); err != nil {
				t.Error(err)
			}
			in := b.Inputs[0]
			raw := all[len(head):]
			if b.Parameters.Out != binaryData || in.Parameters.Size != len(raw) || (len(raw) > 0) != binaryData {
				t.Errorf("%s", all)
			}
			for i := 0; i < len(raw); i += 4 {
				in.Data = append(in.Data, float32frombits(raw[i:]))
			}
			if in.Name != "x" || in.Datatype != "FP32" || len(in.Shape) != 2 || in.Shape[0] != 1 || r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("%s %v", all, r.Header)
			}
			seen = append(seen, in.Data)
		}), Options{Model: "m", Batch: 1, Inputs: []Tensor{given}, Binary: binaryData, Token: "secret", Connections: 1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Run(t.Context(), Pace{Rate: 1000, Duration: 4 * time.Millisecond})
		if err != nil || s.Answered != 4 {
			t.Fatal(s, err)
		}
		want := [][]float32{{1, 1.125, 1.25}, {1, 1.125, 1.25}, {1.375, 1.5, 1.625}, {1, 1.125, 1.25}, {1.375, 1.5, 1.625}}
		if len(seen) != 5 || !equal(seen, want) {
			t.Errorf("binary %v: sent %v", binaryData, seen)
		}
	}
}

func float32frombits(b []byte) float32 {
	var f float32
	binary.Read(bytes.NewReader(b), binary.LittleEndian, &f)
	return f
}

func equal(a, b [][]float32) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}
