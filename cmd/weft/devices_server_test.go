package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve"
)

// served starts a server of two devices that wants a token, and returns its address and the file
// of the token.
func servedDevices(t *testing.T) (address, token string) {
	t.Helper()
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	config := serve.DefaultConfig()
	dir := t.TempDir()
	token, config.Tokens = filepath.Join(dir, "token"), filepath.Join(dir, "tokens")
	const secret = "0123456789abcdef0123456789abcdef"
	for file, text := range map[string]string{token: secret + "\n", config.Tokens: "tester " + secret + "\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config.Listen, config.Models = "", dir // which has no models
	s, err := serve.Open(rt, config, serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return h.URL, token
}

// The devices of a running service are shown, drained, returned, swapped, probed and recovered.
func TestDevicesOfServer(t *testing.T) {
	address, token := servedDevices(t)
	call := func(args ...string) (string, string, int) {
		var out, stderr bytes.Buffer
		code := run(t.Context(), append(append([]string{"devices"}, args...), "--server", address, "--token-file", token), &out, &stderr)
		return out.String(), stderr.String(), code
	}
	for _, c := range []struct{ args, state string }{
		{"drain cpu:0", "drained"}, {"undrain cpu:0", "healthy"}, {"swap cpu:0 cpu:1", "drained"}, {"swap cpu:1 cpu:0", "drained"},
		{"probe cpu:0", "healthy"}, {"recover cpu:0", "healthy"},
	} {
		out, stderr, code := call(append(strings.Fields(c.args), "--json")...)
		var d api.Device
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitOK || d.State != c.state || d.Name != strings.Fields(c.args)[1] {
			t.Errorf("%s: status %d: %s%s", c.args, code, out, stderr)
		}
	}
	if out, stderr, code := call(); code != exitOK || !strings.Contains(out, "drained") || !strings.Contains(out, "healthy") {
		t.Errorf("list: status %d: %s%s", code, out, stderr)
	}
	for args, want := range map[string]string{
		"drain cpu:0":             "it is the last device that takes work",
		"drain cpu:7":             "no device \"cpu:7\"",
		"swap cpu:0":              "the names of two devices",
		"drain":                   "the name of a device",
		"--health":                "leave out one of them",
		"--devices cpu/2":         "leave out one of them",
		"probe --ca-file x cpu:0": "servers by https",
	} {
		if out, stderr, code := call(strings.Fields(args)...); code == exitOK || !strings.Contains(stderr, want) || strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
			t.Errorf("%s: status %d: %s%s", args, code, out, stderr)
		}
	}
	for args, want := range map[string]string{
		"devices --server " + address:                              "wants a token",
		"devices drain cpu:0 --server nowhere":                     "write http://HOST:PORT",
		"devices --token-file " + token:                            "name it by --server",
		"devices drain cpu:0 --server http://127.0.0.1:1":          "nothing listens there",
		"devices probe cpu:0 --token-file /no --server " + address: "/no",
	} {
		var out, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &out, &stderr); code == exitOK || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: status %d: %s%s", args, code, &out, &stderr)
		}
	}
}

// Text of a server commands no terminal and looks like no other line, in tables, in errors and as JSON.
func TestDevicesOfHostileServer(t *testing.T) {
	const evil = "cpu:0\x1b]0;owned\a\x1b[2J\u009b31m\x7f\u202e\r\ncpu:9  healthy"
	var answer any
	status := http.StatusOK
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer h.Close()
	call := func(args ...string) (string, string) {
		var out, stderr bytes.Buffer
		run(t.Context(), append(append([]string{"devices"}, args...), "--server", h.URL), &out, &stderr)
		for _, text := range []string{out.String(), stderr.String()} {
			if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) || !utf8.ValidString(text) {
				t.Errorf("%v prints %q", args, text)
			}
			if strings.Contains(text, "\ncpu:9") {
				t.Errorf("%v shows a device that is not there:\n%s", args, text)
			}
		}
		return out.String(), stderr.String()
	}
	d := api.Device{Name: evil, Model: evil, State: evil, LastError: evil}
	answer = map[string]any{"devices": []api.Device{d}}
	if out, _ := call(); strings.Count(out, "owned") != 5 {
		t.Errorf("the device is shown as:\n%s", out)
	}
	var back []api.Device
	if out, _ := call("--json"); json.Unmarshal([]byte(out), &back) != nil || len(back) != 1 || back[0] != d {
		t.Errorf("the device is written as:\n%s", out)
	}
	answer = d
	if out, _ := call("probe", "cpu:0"); !strings.Contains(out, "owned") {
		t.Errorf("the device is shown as:\n%s", out)
	}
	answer, status = map[string]string{"error": evil}, http.StatusConflict
	if _, stderr := call("probe", "cpu:0"); !strings.Contains(stderr, "owned") {
		t.Errorf("the error is shown as:\n%s", stderr)
	}
}

// A server with TLS that is asked without it, and one whose certificate nobody knows: the message has the flag.
func TestDevicesOfTLSServer(t *testing.T) {
	h := httptest.NewUnstartedServer(http.NotFoundHandler())
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.StartTLS()
	defer h.Close()
	for address, want := range map[string]string{
		"http" + strings.TrimPrefix(h.URL, "https"): "the server speaks TLS; use --server " + h.URL + ", with --ca-file",
		h.URL: "--ca-file",
	} {
		var out, stderr bytes.Buffer
		if code := run(t.Context(), []string{"devices", "--server", address}, &out, &stderr); code != exitFailure || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: status %d: %s%s", address, code, out.String(), stderr.String())
		}
	}
}
