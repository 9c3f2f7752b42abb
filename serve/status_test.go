package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
)

// Every bad request has its status, and a line that says what is wrong and what to do about it.
func TestStatuses(t *testing.T) {
	rt := devices(t, "cpu")
	h, f, s := handlerOf(t, func(o *parts) {
		o.Config.Limits.Body, o.Config.Limits.Bodies, o.Config.Hosts, o.Runtime = 4000, 8000, []string{"weft.example"}, rt
	})
	defer s.drain(t.Context())
	const at, jobs = "/v2/models/double/infer", "/v1/jobs"
	fails := func(err error) func(context.Context, *infer.Request) error {
		return func(context.Context, *infer.Request) error { return err }
	}
	late := func(_ context.Context, r *infer.Request) error {
		time.Sleep(time.Until(r.Deadline) + time.Millisecond)
		return nil
	}
	nan := api.NewTensor("x", []float32{float32(math.NaN())})
	head := `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]}`
	job := `{"workload":"reduce","parameters":{"n":1000,"op":"max"}}`
	if w := ask(h, "POST", jobs, job, "Idempotency-Key", "k"); w.Code != 201 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	for _, c := range []struct {
		method, path, body string
		header             []string
		before             func(context.Context, *infer.Request) error
		status             int
		says, fix          string
	}{
		{"POST", at, "", nil, nil, 400, "the body is empty", `"inputs"`},
		{"POST", at, `{"inputs":[`, nil, nil, 400, "byte 11", "found the end"},
		{"POST", at, `{"inptus":[]}`, nil, nil, 400, `no key "inptus"`, "there is id, inputs"},
		{"POST", at, `{}`, nil, nil, 400, `no "inputs"`, ""},
		{"POST", at, strings.Replace(doubled, "[1,3]", "[1,4]", 1), nil, nil, 400, "has 3 elements", "takes 4"},
		{"POST", at, strings.Replace(doubled, "FP32", "FP31", 1), nil, nil, 400, `no type "FP31"`, "FP32 and FP64"},
		{"POST", at, strings.Replace(doubled, "2.5", "NaN", 1), nil, nil, 400, "no NaN", "binary data"},
		{"POST", at, strings.Replace(doubled, "2.5", "-Infinity", 1), nil, nil, 400, "no infinity", "binary data"},
		{"POST", at, strings.Replace(doubled, "2.5", "1e39", 1), nil, nil, 400, "1e39", "FP32 can hold"},
		{"POST", at, doubled, []string{api.HeaderLength, "many"}, nil, 400, `"many"`, "a number of bytes"},
		{"POST", "/v2/models/double/versions/1/infer", `{"model_version":"2",` + doubled[1:], nil, nil, 400, "the path names", "leave them out"},
		{"POST", "/v2/repository/models/double/load", `{"parameters":{"x":1}}`, nil, nil, 400, `no parameter "x"`, "by its folder"},
		{"POST", jobs, `{"workload":"gem"}`, nil, nil, 400, `unknown workload "gem"`, "did you mean gemm?"},
		{"GET", "/v2", "", []string{"Host", "evil.example"}, nil, 403, "evil.example", "under hosts"},
		{"GET", "/v2", "", []string{"Origin", "http://evil.example"}, nil, 403, "evil.example", "under origins"},
		{"POST", "/v2/models/none/infer", doubled, nil, nil, 404, "no such model", "/v2/repository/index lists"},
		{"POST", "/v2/models/double/versions/9/infer", doubled, nil, nil, 404, "no such model", "/v2/repository/index lists"},
		{"GET", "/v2/models/double/versions/9", "", nil, nil, 404, "no such model", "/v2/repository/index lists"},
		{"GET", "/v2/models/-", "", nil, nil, 404, `"-"`, "/v2/repository/index lists"},
		{"GET", "/v2/modles/double", "", nil, nil, 404, "nothing is at /v2/modles/double", ""},
		{"GET", "/v1/jobs/none", "", nil, nil, 404, `no job "none"`, "forgotten"},
		{"GET", at, "", nil, nil, 405, "not GET", "takes POST"},
		{"DELETE", "/v1/jobs", "", nil, nil, 405, "not DELETE", "takes GET, HEAD, POST"},
		{"POST", at, head + string(nan.Data), []string{api.HeaderLength, strconv.Itoa(len(head))}, nil, 406, "NaN", "use binary data"},
		{"POST", jobs, strings.Replace(job, "1000", "2000", 1), []string{"Idempotency-Key", "k"}, nil, 409, "another job", "use a new one"},
		{"POST", at, strings.Repeat(" ", 4001), nil, nil, 413, "more than 4000 bytes", "limits.body"},
		{"POST", at, doubled, []string{"Content-Type", "text/plain"}, nil, 415, "text/plain", "send application/json or"},
		{"POST", at, doubled, []string{"Content-Type", ";"}, nil, 415, "Content-Type", "send application/json or"},
		{"POST", at, doubled, []string{"Content-Encoding", "gzip"}, nil, 415, "gzip", "as it is"},
		{"POST", at, doubled, nil, fails(errors.New("device lost")), 500, "device lost", ""},
		{"POST", at, doubled, nil, fails(&infer.BusyError{Model: "double", RetryAfter: 1500 * time.Microsecond}), 503, "double", "try again in 1.5ms"},
		{"POST", at, doubled, nil, fails(fmt.Errorf("%w: model double is loading", infer.ErrUnavailable)), 503, "loading", ""},
		{"POST", at, `{"parameters":{"timeout":1},` + doubled[1:], nil, late, 504, "deadline", "longer timeout"},
	} {
		f.mu.Lock()
		f.before = c.before
		f.mu.Unlock()
		w := ask(h, c.method, c.path, c.body, c.header...)
		if e := saidError(t, w); w.Code != c.status || !strings.Contains(e, c.says) || !strings.Contains(e, c.fix) || strings.Contains(e, "%!") || len(e) > 400 {
			t.Errorf("%s %s %.60q %q: status %d, %s; want %d, %q and %q", c.method, c.path, c.body, c.header, w.Code, e, c.status, c.says, c.fix)
		}
		if busy := c.status == 503 || c.status == 429; busy != (w.Header().Get("Retry-After") != "") || busy != (w.Header().Get(api.HeaderRetry) != "") {
			t.Errorf("%s %s: status %d, again after %q s, %q ms", c.method, c.path, w.Code, w.Header().Get("Retry-After"), w.Header().Get(api.HeaderRetry))
		}
	}
	f.mu.Lock()
	f.before = fails(&infer.BusyError{Model: "double", RetryAfter: 1500 * time.Microsecond})
	f.mu.Unlock()
	if w := ask(h, "POST", at, doubled); w.Header().Get("Retry-After") != "1" || w.Header().Get(api.HeaderRetry) != "1.5" {
		t.Errorf("again after %q s, %q ms", w.Header().Get("Retry-After"), w.Header().Get(api.HeaderRetry))
	}
}

// So has what is wrong with how a body arrives.
func TestBodyStatuses(t *testing.T) {
	_, _, server := start(t, func(o *parts) {
		o.Config.Limits.Body, o.Config.Limits.Bodies, o.Config.Limits.ReadTime = 4000, 80000, Duration(time.Second)
	})
	var all sync.WaitGroup
	for _, c := range []struct {
		rest      string
		status    int
		says, fix string
	}{
		{"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "could not be read", "chunk"},
		{"Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n", 5000, strings.Repeat(" ", 5000)) + "0\r\n\r\n", 413, "more than 4000 bytes", "limits.body"},
		{"Content-Length: 5000\r\n\r\n", 413, "more than 4000 bytes", "limits.body"},
		{"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", 408, "did not arrive within 1s", "limits.read_time"},
		{"Content-Length: 100\r\n\r\n{", 408, "did not arrive within 1s", "limits.read_time"},
		{"\r\n", 400, "the body is empty", `"inputs"`}, // and not 411: no length is none
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, "POST /v2/models/double/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+c.rest); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%.60q: %v", c.rest, err)
				return
			}
			defer resp.Body.Close()
			var e struct{ Error string }
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.StatusCode != c.status || !strings.Contains(e.Error, c.says) || !strings.Contains(e.Error, c.fix) {
				t.Errorf("%.60q: status %d, %v, %s", c.rest, resp.StatusCode, err, e.Error)
			}
		})
	}
	all.Wait()
}

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// A client that goes is no failure of the server: nothing is answered, its request is cancelled,
// and the log has no error.
func TestClientGone(t *testing.T) {
	var log lines
	s, f, address := start(t, func(o *parts) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	begun, ended := make(chan struct{}), make(chan error, 1)
	f.before = func(ctx context.Context, _ *infer.Request) error {
		close(begun)
		select {
		case <-ctx.Done():
		case <-time.After(patience):
		}
		ended <- context.Cause(ctx)
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", address+"/v2/models/double/infer", strings.NewReader(doubled))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	go func() {
		<-begun
		cancel()
	}()
	if resp, err := http.DefaultClient.Do(r); err == nil {
		resp.Body.Close()
		t.Errorf("status %d", resp.StatusCode)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request went on: %v", err)
	}
	if err := s.drain(t.Context()); err != nil {
		t.Error(err)
	}
	if log.mu.Lock(); strings.Contains(log.buf.String(), "level=ERROR") {
		t.Errorf("%s", &log.buf)
	}
	log.mu.Unlock()
}
