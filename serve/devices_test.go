package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/test/poll"
)

// Devices are listed, drained, returned, swapped and probed by a client of package api, and
// mistakes are said in a line.
func TestDevices(t *testing.T) {
	rt := devices(t, "cpu/3")
	_, _, address := start(t, func(o *parts) { o.Runtime = rt })
	c, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.Devices(t.Context())
	if err != nil || len(list) != 3 || list[0].State != "healthy" || list[0].Name != rt.Devices()[0].Name || list[0].Model == "" || list[0].LastError != "" {
		t.Fatalf("%+v, %v", list, err)
	}
	a, b, other := list[0].Name, list[1].Name, list[2].Name
	for _, step := range []struct {
		what   string
		do     func() (api.Device, error)
		device string
		state  string
	}{
		{"drain", func() (api.Device, error) { return c.Drain(t.Context(), a) }, a, "drained"},
		{"drain again", func() (api.Device, error) { return c.Drain(t.Context(), a) }, a, "drained"},
		{"swap", func() (api.Device, error) { return c.Swap(t.Context(), b, a) }, b, "drained"},
		{"see", func() (api.Device, error) { return c.Device(t.Context(), a) }, a, "healthy"},
		{"undrain", func() (api.Device, error) { return c.Undrain(t.Context(), b) }, b, "healthy"},
		{"recover", func() (api.Device, error) { return c.Recover(t.Context(), b) }, b, "healthy"},
		{"probe", func() (api.Device, error) { return c.Probe(t.Context(), other) }, other, "healthy"},
	} {
		d, err := step.do()
		if err != nil || d.Name != step.device || d.State != step.state {
			t.Errorf("%s: %+v, %v", step.what, d, err)
		}
		if now, err := c.Device(t.Context(), d.Name); err != nil || now.State != step.state {
			t.Errorf("after %s: %+v, %v", step.what, now, err)
		}
	}
	for _, name := range []string{a, b} {
		if _, err := c.Drain(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		what   string
		do     func() (api.Device, error)
		status int
		says   string
	}{
		{"drain the last", func() (api.Device, error) { return c.Drain(t.Context(), other) }, http.StatusConflict, "drain " + other},
		{"drain none", func() (api.Device, error) { return c.Drain(t.Context(), "cpu:9/x") }, http.StatusNotFound, "GET /v1/devices"},
		{"see none", func() (api.Device, error) { return c.Device(t.Context(), "cpu:9") }, http.StatusNotFound, "GET /v1/devices"},
		{"swap with none", func() (api.Device, error) { return c.Swap(t.Context(), other, "cpu:9") }, http.StatusNotFound, "cpu:9"},
		{"swap with itself", func() (api.Device, error) { return c.Swap(t.Context(), other, other) }, http.StatusNotFound, "own place"},
		{"swap with nothing", func() (api.Device, error) { return c.Swap(t.Context(), other, "") }, http.StatusBadRequest, `"to"`},
	} {
		_, err := step.do()
		said := (*api.Error)(nil)
		if !errors.As(err, &said) || said.Status != step.status || !strings.Contains(said.Message, step.says) || strings.Contains(said.Message, "\n") {
			t.Errorf("%s: %v", step.what, err)
		}
	}
}

// What a client may do with devices is what its token lets it do, and bodies are read strictly.
func TestDevicesGuarded(t *testing.T) {
	rt := devices(t, "cpu/2")
	h, _, s := handlerOf(t, func(o *parts) { o.Runtime = rt })
	name := rt.Devices()[0].Name
	at := "/v1/devices/" + name
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
	}{
		{"POST", at + "/drain", `{"to":"x"}`, nil, 400},
		{"POST", at + "/swap", `{"to":1}`, nil, 400},
		{"POST", at + "/swap", `{"to":"` + strings.Repeat("x", 1<<21) + `"}`, nil, 413},
		{"POST", at + "/explode", "", nil, 404},
		{"GET", at + "/drain", "", nil, 405},
		{"POST", at + "/drain", "", []string{"Origin", "http://elsewhere.example"}, 403},
		{"POST", at + "/drain", "", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		if w := ask(h, c.method, c.path, c.body, c.header...); w.Code != c.status || saidError(t, w) == "" {
			t.Errorf("%s %s: status %d: %s", c.method, c.path, w.Code, w.Body)
		}
	}
	if d, err := s.device(name); err != nil || d.State != "healthy" {
		t.Errorf("%+v, %v", d, err)
	}
	s.tokens.Store(&tokens{})
	for _, path := range []string{"", "/drain"} {
		method := map[string]string{"": "GET", "/drain": "POST"}[path]
		if w := ask(h, method, at+path, ""); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a token: status %d: %s", path, w.Code, w.Body)
		}
	}
}

// A drain that takes long is answered before its end, goes on, and the client waits for it.
func TestSlowDrain(t *testing.T) {
	var inside atomic.Int32
	free := make(chan struct{})
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Funcs: map[string]weft.Func{"hold": func(*weft.Call, int, int) {
		inside.Add(1)
		<-free
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	name := rt.Devices()[0].Name
	var g graph.Builder
	g.Add(graph.Task{Name: "hold", Steps: []graph.Step{{Kernel: graph.GoKernel("hold"), Launch: graph.Launch{Grid: [3]uint32{1, 1, 1}}}}, On: graph.Constraint{Only: []string{name}}})
	built, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := rt.Run(context.Background(), built)
		ended <- err
	}()
	poll.True(t, "the task runs", func() bool { return inside.Load() > 0 })
	s, _, address := start(t, func(o *parts) { o.Runtime = rt })
	s.actionWait = 50 * time.Millisecond
	w := ask(s.Handler(), "POST", "/v1/devices/"+name+"/drain", "")
	var d api.Device
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusAccepted || d.State != "draining" {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	c, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Drain(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a drain that was not waited for: %v", err)
	}
	time.AfterFunc(10*time.Millisecond, func() { close(free) })
	if d, err := c.Drain(t.Context(), name); err != nil || d.State != "drained" {
		t.Errorf("%+v, %v", d, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
