package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/serve/internal/infer"
)

func TestMain(m *testing.M) {
	weft.Worker()
	if dir := os.Getenv(servedState); dir != "" {
		serveState(dir) // see TestStateKilled
	}
	goleak.VerifyTestMain(m)
}

// patience is how long tests wait for what must happen.
const patience = 60 * time.Second

// fake is a service with a model that doubles its input x into y.
type fake struct {
	mu       sync.Mutex
	models   map[string]infer.State
	notReady error
	reason   string // of models that failed
	seen     []infer.Request
	before   func(ctx context.Context, r *infer.Request) error // nil for nothing
	closed   bool
}

func newFake() *fake { return &fake{models: map[string]infer.State{"double": infer.Ready}} }

func (f *fake) Infer(ctx context.Context, r *infer.Request) (*infer.Response, error) {
	f.mu.Lock()
	f.seen = append(f.seen, *r)
	before := f.before
	f.mu.Unlock()
	if _, err := f.Model(r.Model, r.Version); err != nil {
		return nil, err
	}
	if before != nil {
		if err := before(ctx, r); err != nil {
			return nil, err
		}
	}
	if !r.Deadline.IsZero() && time.Now().After(r.Deadline) {
		return nil, fmt.Errorf("model %s: %w", r.Model, infer.ErrExpired)
	}
	if len(r.Inputs) != 1 || r.Inputs[0].Name != "x" || r.Inputs[0].Type != infer.FP32 {
		return nil, fmt.Errorf("%w: model %s takes x of FP32", infer.ErrInvalid, r.Model)
	}
	x := r.Inputs[0]
	y := make([]byte, 0, len(x.Data))
	for at := 0; at < len(x.Data); at += 4 {
		v := 2 * math.Float32frombits(binary.LittleEndian.Uint32(x.Data[at:]))
		y = binary.LittleEndian.AppendUint32(y, math.Float32bits(v))
	}
	return &infer.Response{Model: r.Model, Version: "1", ID: r.ID, Batch: 1, Device: "cpu:0", Queued: time.Millisecond, Computed: 2 * time.Millisecond,
		Outputs: []infer.Tensor{{Name: "y", Type: infer.FP32, Shape: x.Shape, Data: y}}}, nil
}

func (f *fake) Models() (out []infer.Info) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, state := range f.models {
		reason := ""
		if state == infer.Failed {
			reason = f.reason
		}
		out = append(out, infer.Info{Name: name, Version: "1", Kind: "graph", State: state, Reason: reason, MaxBatch: 8,
			Inputs:  []infer.Spec{{Name: "x", Type: infer.FP32, Shape: []int64{-1, 3}}},
			Outputs: []infer.Spec{{Name: "y", Type: infer.FP32, Shape: []int64{-1, 3}}}})
	}
	return out
}

func (f *fake) Model(name, version string) (infer.Info, error) {
	for _, m := range f.Models() {
		if m.Name == name && (version == "" || version == m.Version) {
			return m, nil
		}
	}
	return infer.Info{}, fmt.Errorf("%w: %s", infer.ErrNotFound, name)
}

func (f *fake) Load(_ context.Context, name string) error {
	if name == "absent" {
		return fmt.Errorf("%w: %s", infer.ErrNotFound, name)
	}
	if name == "broken" {
		return errors.New("model.yaml: line 1: no kind")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.models[name] = infer.Ready
	return nil
}

func (f *fake) Unload(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.models, name)
	return nil
}

func (f *fake) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notReady
}

func (f *fake) Stats() []infer.Stats { return nil }

func (f *fake) Opening() bool { return false }

func (f *fake) Close(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

// start starts a server with the fake, on a free port of loopback, changed as wanted.
func start(t testing.TB, change func(o *parts)) (*Server, *fake, string) {
	t.Helper()
	f := newFake()
	o := parts{Config: DefaultConfig(), Service: f, Workloads: catalog.All(), Version: "test", Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	o.Config.Listen = "127.0.0.1:0"
	if change != nil {
		change(&o)
	}
	s, err := newServer(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.accept() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if !s.draining.Load() {
			if err := s.drain(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s, f, s.URL()
}

// ask makes a request of the handler, as if it came from this machine.
func ask(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:8000", "127.0.0.1:4000"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// handlerOf is the handler of a server with the fake that does not listen.
func handlerOf(t testing.TB, change func(o *parts)) (http.Handler, *fake, *Server) {
	t.Helper()
	f := newFake()
	o := parts{Config: DefaultConfig(), Service: f, Workloads: catalog.All(), Version: "test"}
	if change != nil {
		change(&o)
	}
	s, err := newServer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.endRelay)
	return s.Handler(), f, s
}

// saidError is the text of an answer that is an error, which must be one line.
func saidError(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var e map[string]string
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	if err := d.Decode(&e); err != nil || len(e) != 1 || e["error"] == "" || strings.Contains(e["error"], "\n") {
		t.Fatalf("status %d: not an error: %q", w.Code, w.Body)
	}
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Errorf("an error of type %q", ct)
	}
	return e["error"]
}

const doubled = `{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2.5,-3]}]}`
