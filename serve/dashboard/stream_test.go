package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/internal/test/poll"
)

// patience is how long tests wait for what must come.
const patience = 60 * time.Second

// reader reads a stream.
type reader struct {
	body  io.ReadCloser
	lines *bufio.Reader
}

// watch opens a stream of a server.
func watch(t *testing.T, ctx context.Context, url string) *reader {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", url+"/dashboard/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		t.Fatalf("stream: %s %s: %s", res.Status, res.Header.Get("Content-Type"), body)
	}
	t.Cleanup(func() { res.Body.Close() })
	return &reader{body: res.Body, lines: bufio.NewReader(res.Body)}
}

// next returns the next frame.
func (r *reader) next(t *testing.T) (kind string, s *pageState) {
	t.Helper()
	kind, s, err := r.read()
	if err != nil {
		t.Fatal(err)
	}
	return kind, s
}

// read reads a frame.
func (r *reader) read() (kind string, s *pageState, err error) {
	var data string
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			return "", nil, err
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			break
		}
		if rest, ok := strings.CutPrefix(line, "event: "); ok {
			kind = rest
		}
		if rest, ok := strings.CutPrefix(line, "data: "); ok {
			data = rest
		}
	}
	s = new(pageState)
	return kind, s, json.Unmarshal([]byte(data), s)
}

// serving starts a server that ends with the test.
func serving(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return s
}

// counted is a dashboard whose state is a count of looks, every millisecond.
func counted() (*dashboard, *atomic.Int64) {
	d := newDashboard(nil, Options{})
	looks := new(atomic.Int64)
	d.look = func() *pageState { return &pageState{Uptime: float64(looks.Add(1))} }
	d.sampler.every = time.Millisecond
	return d, looks
}

// Many readers share one sampler, see the same frames, and none is left when they go.
func TestStreamShared(t *testing.T) {
	d, looks := counted()
	s := serving(t, d)
	if looks.Load() != 0 {
		t.Error("it looks while nobody does")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const n = 20
	var wg sync.WaitGroup
	var frames atomic.Int64
	for range n {
		r := watch(t, ctx, s.URL)
		wg.Go(func() {
			last := 0.0
			for range 30 {
				_, got, err := r.read()
				if err != nil || got.Uptime <= last {
					t.Errorf("frame %+v after %v, %v", got, last, err)
					return
				}
				last = got.Uptime
				frames.Add(1)
			}
		})
	}
	wg.Wait()
	if frames.Load() != n*30 {
		t.Errorf("%d frames, want %d", frames.Load(), n*30)
	}
	d.sampler.mu.Lock()
	readers := d.sampler.readers
	d.sampler.mu.Unlock()
	if readers != n {
		t.Errorf("%d readers, want %d", readers, n)
	}
	cancel()
	quiet(t, d)
	was := looks.Load()
	time.Sleep(20 * time.Millisecond) // twenty samples' time: nothing may come
	if now := looks.Load(); now != was {
		t.Errorf("it looked %d times after all had gone", now-was)
	}
	// And it begins anew.
	_, got := watch(t, t.Context(), s.URL).next(t)
	if got.Uptime <= float64(was) {
		t.Errorf("a new reader got frame %v, an old one", got.Uptime)
	}
}

// quiet waits until a dashboard has no reader and its sampler has ended.
func quiet(t *testing.T, d *dashboard) {
	t.Helper()
	poll.True(t, "the readers to be gone", func() bool {
		d.sampler.mu.Lock()
		defer d.sampler.mu.Unlock()
		select {
		case <-d.sampler.ended:
			return d.sampler.readers == 0
		default:
			return false
		}
	})
}

// A reader that reads nothing holds up no other, and gets the whole state when it goes on.
func TestStreamSlow(t *testing.T) {
	d, _ := counted()
	d.sampler.wait = patience
	big := strings.Repeat("x", 1<<16)
	looks := 0.0
	d.look = func() *pageState { looks++; return &pageState{Uptime: looks, Name: big} }
	s := serving(t, d)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /dashboard/stream HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the slow reader to be there", func() bool { d.sampler.mu.Lock(); defer d.sampler.mu.Unlock(); return d.sampler.readers == 1 })
	fast := watch(t, t.Context(), s.URL)
	if _, err := io.CopyN(io.Discard, fast.lines, 32<<20); err != nil { // more than the buffers of a connection hold
		t.Fatal(err)
	}
	// What waits for the slow reader is old; then it is sent the newest, whole.
	slow, last, skipped := &reader{lines: bufio.NewReader(c)}, 0.0, false
	for end := time.Now().Add(patience); !skipped && time.Now().Before(end); {
		kind, got := nextChunked(t, slow)
		skipped = got > last+1 && last > 0
		if skipped && kind != "full" {
			t.Errorf("after frame %v came a %s of %v", last, kind, got)
		}
		last = got
	}
	if !skipped {
		t.Error("a slow reader missed no frame")
	}
}

// nextChunked reads a frame of a raw connection, whose chunks have lines with their lengths.
func nextChunked(t *testing.T, r *reader) (string, float64) {
	t.Helper()
	kind := ""
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(line, "event: "); ok {
			kind = strings.TrimSpace(rest)
		}
		if m := uptime.FindStringSubmatch(line); m != nil { // the rest is long
			at, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return kind, at
		}
	}
}

var uptime = regexp.MustCompile(`^data: .*"uptime":([0-9.]+)`)

// There is a bound on streams, and it is said.
func TestStreamLimit(t *testing.T) {
	d, _ := counted()
	s := serving(t, d)
	for range maxReaders {
		watch(t, t.Context(), s.URL).next(t)
	}
	res, err := http.Get(s.URL + "/dashboard/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s", res.Status)
	}
}

// Full frames and deltas put together are the state, whatever changes.
func TestFrames(t *testing.T) {
	states := []*pageState{scene(1, 3, 4), scene(1, 3, 4), scene(1, 3, 6), scene(1, 3, 5)}
	states[1].Uptime++
	states[1].Jobs[2].Part = 0.5
	states[1].Events = append(states[1].Events, pageEvent{N: 61, Text: "more"})
	states[2].Events = states[1].Events
	var before *frame
	had := map[string]pageJob{}
	events := 0
	for i, s := range states {
		f := newFrame(s, before)
		text := string(f.event(before))
		kind, rest, _ := strings.Cut(strings.TrimPrefix(text, "event: "), "\ndata: ")
		var got pageState
		if err := json.Unmarshal([]byte(rest), &got); err != nil {
			t.Fatal(err)
		}
		if want := []string{"full", "delta", "delta", "full"}[i]; kind != want { // the last has lost a job
			t.Errorf("frame %d is a %s, want %s", i, kind, want)
		}
		if (got.Machine != nil) != (kind == "full") || (got.History != nil) != (kind == "full") {
			t.Errorf("frame %d: what does not change is in the wrong frames", i)
		}
		if kind == "full" {
			had, events = map[string]pageJob{}, 0
		}
		for _, j := range got.Jobs {
			had[j.ID] = j
		}
		events += len(got.Events)
		if len(had) != len(s.Jobs) || events != len(s.Events) {
			t.Fatalf("frame %d: %d jobs and %d events are known, want %d and %d", i, len(had), events, len(s.Jobs), len(s.Events))
		}
		for _, j := range s.Jobs {
			if had[j.ID] != j {
				t.Errorf("frame %d: job %+v is known as %+v", i, j, had[j.ID])
			}
		}
		if i == 1 && len(got.Jobs) != 1 {
			t.Errorf("a delta has %d jobs, of which one changed", len(got.Jobs))
		}
		before = f
	}
}
