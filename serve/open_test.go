package serve

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/test/poll"
)

// openedOn is a configuration of a server on a free port, with no models.
func openedOn(t *testing.T) Config {
	c := DefaultConfig()
	c.Listen, c.Models = "127.0.0.1:0", t.TempDir()
	c.Limits.DrainTime = Duration(10 * time.Minute) // it ends a hang
	return c
}

// A server has its figures, its dashboard and its jobs, and opens devices for a job by what it was given. When its context
// ends it answers no more.
func TestOpen(t *testing.T) {
	rt := devices(t, "cpu")
	var asked string
	s, err := Open(rt, openedOn(t), Options{Version: "v7", Prover: &fakeProver{}, Open: func(ctx context.Context, o weft.Options) (*weft.Runtime, error) {
		asked = o.Devices
		o.NoCalibrate, o.CacheDir = true, "off"
		return weft.Open(ctx, o)
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	if err := s.Loaded(t.Context()); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]string{
		"/metrics": `weft_proofs_total{circuit="sum",result="proved"} 0`, "/": "<title>", "/dashboard/state": `"name":"weft serve"`,
		"/v2": `"version":"v7"`, "/readyz": "", "/v1/circuits": `"sum"`,
	} {
		resp, err := http.Get(s.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: status %d, %v, without %q: %.300s", path, resp.StatusCode, err, want, body)
		}
	}
	if !strings.HasPrefix(s.GRPC(), "grpc://127.0.0.1:") {
		t.Errorf("gRPC is on %q", s.GRPC())
	}
	c, err := api.NewClient(s.URL(), api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	j, err := c.Submit(t.Context(), api.JobRequest{Workload: "merkle", Parameters: map[string]any{"leaves": 500}, Devices: "cpu/2"})
	if err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the job has ended", func() bool { j, err = c.Job(t.Context(), j.ID); return err != nil || j.Over() })
	if err != nil || j.State != api.JobSucceeded || asked != "cpu/2" {
		t.Errorf("%+v on %q: %v", j, asked, err)
	}
	stop()
	if err := errors.Join(<-served, s.Close()); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	if _, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://")); err == nil {
		t.Error("it still listens")
	}
}

// A server that listens nowhere answers by its handler, and ends.
func TestOpenHandler(t *testing.T) {
	c := openedOn(t)
	c.Listen = ""
	s, err := Open(devices(t, "cpu"), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.Handler())
	defer h.Close()
	if s.URL() != "" || s.GRPC() != "" {
		t.Errorf("it listens on %q and %q", s.URL(), s.GRPC())
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.WithoutCancel(t.Context())) }()
	resp, err := h.Client().Get(h.URL + "/v2/health/live")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	resp.Body.Close()
	if err := errors.Join(s.Close(), <-served, s.Close()); err != nil {
		t.Error(err)
	}
}

// What cannot be opened is an error, and leaves nothing behind that runs.
func TestOpenFails(t *testing.T) {
	rt := devices(t, "cpu")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for says, change := range map[string]func(*Config){
		"in use":            func(c *Config) { c.Listen = l.Addr().String() },
		"models":            func(c *Config) { c.Models = filepath.Join(c.Models, "none") },
		"no address":        func(c *Config) { c.Listen = "here" },
		"tokens":            func(c *Config) { c.Tokens = filepath.Join(c.Models, "none") },
		"write http://HOST": func(c *Config) { c.Traces.Collector = "nowhere" },
	} {
		c := openedOn(t)
		change(&c)
		if s, err := Open(rt, c, Options{}); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, %v; want %q", s, err, says)
		}
	}
}

// Models that fail to load are why a server is not ready.
func TestLoadedNot(t *testing.T) {
	c := openedOn(t)
	put(t, filepath.Join(c.Models, "bad/model.yaml"), []byte("kind: graph\nfile: gone.json\n"))
	s, err := Open(devices(t, "cpu"), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Loaded(t.Context()); err == nil || !strings.Contains(err.Error(), "gone.json") {
		t.Error(err)
	}
	if m := s.Models(); len(m) != 1 || m[0].Name != "bad" || m[0].State != "failed" || !strings.Contains(m[0].Reason, "gone.json") {
		t.Errorf("%+v", m)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	never := &Server{service: &loadingForever{newFake()}}
	if err := never.Loaded(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// loadingForever is a service whose models are never tried.
type loadingForever struct{ *fake }

func (*loadingForever) Opening() bool { return true }

// A configuration is checked without a trace: devices are opened and closed, and nothing is made.
func TestCheck(t *testing.T) {
	c := openedOn(t)
	c.Devices, c.State = "cpu", filepath.Join(t.TempDir(), "state")
	opened := 0
	o := Options{Open: func(ctx context.Context, o weft.Options) (*weft.Runtime, error) {
		if opened++; o.CacheDir != "off" || !o.NoCalibrate || o.Socket != "" || o.Checkpoint.Dir != "" {
			t.Errorf("it would write: %+v", o)
		}
		return weft.Open(ctx, o)
	}}
	if err := Check(t.Context(), c, o); err != nil || opened != 1 {
		t.Errorf("%v, opened %d times", err, opened)
	}
	if err := Check(t.Context(), c, Options{}); err != nil {
		t.Errorf("by weft.Open: %v", err)
	}
	if found, err := filepath.Glob(c.State + "*"); err != nil || found != nil {
		t.Errorf("%v was made: %v", found, err)
	}
	put(t, filepath.Join(c.Models, "bad/model.yaml"), []byte("kind: graph\nfile: gone.json\n"))
	if err := Check(t.Context(), c, o); err == nil || !strings.Contains(err.Error(), "model bad: gone.json") {
		t.Error(err)
	}
	opened, c.Models = 0, filepath.Join(c.Models, "none")
	if err := Check(t.Context(), c, o); err == nil || opened != 0 {
		t.Errorf("%v, after devices were opened %d times", err, opened)
	}
}
