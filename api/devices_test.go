package api

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A client waits for a drain that the server says goes on, looks at the device until it is over,
// and stops when its context ends.
func TestDrainGoesOn(t *testing.T) {
	looks := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := "draining"
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusAccepted)
		case strings.HasSuffix(r.URL.Path, "forever"):
		default:
			if looks++; looks == 2 {
				state = "drained"
			}
		}
		fmt.Fprintf(w, `{"name":"d","state":%q}`, state)
	}))
	defer s.Close()
	c, err := NewClient(s.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if d, err := c.Drain(t.Context(), "cuda:0/2"); err != nil || d.State != "drained" || looks != 2 {
		t.Errorf("%+v after %d looks: %v", d, looks, err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := c.Swap(ctx, "forever", "x"); err == nil {
		t.Error("it waits without a context")
	}
}

// A server by https is trusted by certificates that are given, and by no others.
func TestTrusted(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"devices":[{"name":"cpu:0"}]}`) }))
	defer s.Close()
	for _, trusted := range []bool{true, false} {
		o := Options{Attempts: -1}
		if trusted {
			o.Trusted = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		}
		c, err := NewClient(s.URL, o)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := c.Devices(t.Context()); (err == nil) != trusted || trusted && (len(list) != 1 || list[0].Name != "cpu:0") {
			t.Errorf("trusted %v: %v, %v", trusted, list, err)
		}
		c.Close()
	}
	if _, err := NewClient(s.URL, Options{Trusted: []byte("no certificate")}); err == nil || !strings.Contains(err.Error(), "PEM") {
		t.Errorf("no certificates: %v", err)
	}
}
