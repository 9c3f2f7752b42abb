package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/serve/load"
)

// predictions is a server of the Open Inference Protocol with one model, which answers as infer says.
func predictions(t *testing.T, infer http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v2/repository/index", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `[{"name": "digits", "version": "1", "state": "READY"}]`)
	})
	mux.HandleFunc("GET /v2/models/digits", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"name": "digits", "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]}`)
	})
	mux.HandleFunc("POST /v2/models/digits/infer", infer)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// A load is reported as text that fits a terminal, as a table for several rates, and as JSON.
func TestLoad(t *testing.T) {
	var token, batch atomic.Value
	url := predictions(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Inputs []struct{ Shape []int64 } }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Inputs) != 1 {
			t.Errorf("%+v, %v", body, err)
			return
		}
		token.Store(r.Header.Get("Authorization"))
		batch.Store(body.Inputs[0].Shape[0])
	})
	common := []string{"load", url, "--duration", "100ms", "--warm-up", "10ms", "--connections", "4"}
	text := works(t, append(common, "--rate", "300", "--batch", "3", "--token-file", write(t, "token", " secret\n"))...)
	for _, want := range []string{"model digits: 300 requests a second, constant arrivals, batches of 3, 4\n", fmt.Sprintf("%-11s  %9d  in ", "arrived", 30), fmt.Sprintf("%-11s  %9d  ", "answered", 30), "\np50 ", " items a second\n", "The generator itself was late by "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if !regexp.MustCompile(`(?m)^ +\S+ \S+ to +\S+ \S+ +\d+  #`).MatchString(text) {
		t.Errorf("no histogram in\n%s", text)
	}
	if token.Load() != "Bearer secret" || batch.Load() != int64(3) {
		t.Errorf("sent %v in batches of %v", token.Load(), batch.Load())
	}
	table := works(t, append(common, "--rate", "100,200", "--arrivals", "poisson")...)
	if !regexp.MustCompile(`(?s)^rate +reached .*\n100 .*\n200 .*\n\n100: The gen.*200: The gen`).MatchString(table) {
		t.Errorf("printed\n%s", table)
	}
	for line := range strings.Lines(text + table) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > terminal.Width {
			t.Errorf("%q is wider than %d", line, terminal.Width)
		}
	}
	var results []load.Result
	if err := json.Unmarshal([]byte(works(t, append(common, "--rate", "100,200", "--json", "--binary=false")...)), &results); err != nil || len(results) != 2 || results[1].Rate != 200 || results[1].Answered != 20 {
		t.Errorf("%+v, %v", results, err)
	}
}

// Inputs come from files of NumPy's format.
func TestLoadInput(t *testing.T) {
	var seen atomic.Value
	url := predictions(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		seen.Store(string(b))
	})
	header := "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }"
	file := write(t, "x.npy", "\x93NUMPY\x01\x00"+string([]byte{byte(len(header)), 0})+header+"\x00\x00\x80\x3f\x00\x00\x00\x40")
	for _, arg := range []string{file, "x=" + file} {
		works(t, "load", url, "--duration", "20ms", "--warm-up", "0s", "--input", arg)
		if want := `{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":[1,2]}]}`; seen.Load() != want {
			t.Errorf("sent %s, want %s", seen.Load(), want)
		}
	}
	code, _, stderr := runWeft("load", url, "--input", "y="+file)
	if code != exitUsage || stderr != "weft: model \"digits\" has no input \"y\"; it has [\"x\"]: write --input NAME=FILE\n" {
		t.Errorf("status %d, %s", code, stderr)
	}
}

// Requests that fail make a failure of the load, which is reported nonetheless. Those that the server
// refuses do not.
func TestLoadFails(t *testing.T) {
	var status atomic.Int64
	var n atomic.Int64
	url := predictions(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 {
			w.WriteHeader(int(status.Load()))
		}
	})
	args := []string{"load", url, "--duration", "50ms", "--warm-up", "0s"}
	status.Store(http.StatusInternalServerError)
	code, stdout, stderr := runWeft(args...)
	if code != exitFailure || stderr != "weft: at 100 requests a second, 5 of 5 got no good answer (5: 500 Internal Server Error)\n" || !regexp.MustCompile(`\nfailed +5  500 Internal Server Error\n`).MatchString(stdout) {
		t.Errorf("status %d, %s\n%s", code, stderr, stdout)
	}
	n.Store(0)
	status.Store(http.StatusServiceUnavailable)
	if text := works(t, args...); !regexp.MustCompile(`\nrefused +5  `).MatchString(text) {
		t.Errorf("printed\n%s", text)
	}
	socket := filepath.Join(t.TempDir(), "none")
	if code, _, stderr := runWeft("load", "unix:"+socket); code != exitFailure || stderr != "weft: unix:"+socket+": no such file or directory; is the server running there?\n" {
		t.Errorf("status %d, %s", code, stderr)
	}
}

// Ctrl-C prints what there is.
func TestLoadInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var n atomic.Int64
	url := predictions(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 21 {
			cancel()
		}
	})
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"load", url, "--rate", "1000", "--duration", "1h", "--warm-up", "0s", "--connections", "2"}, &stdout, &stderr)
	if code != exitInterrupted || stderr.String() != "weft: interrupted\n" || !regexp.MustCompile(`(?m)^answered +(1\d|2\d) `).MatchString(stdout.String()) {
		t.Errorf("status %d, %s\n%s", code, stderr.String(), stdout.String())
	}
}

// A load of weft's own server, whose figures count what was sent, and whose traces have it all.
func TestLoadServe(t *testing.T) {
	var spans atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		spans.Add(int64(bytes.Count(b, []byte(`"traceId":`))))
	}))
	defer collector.Close()
	config := write(t, "weft.yaml", "prices: {device_hour: 2}\ntraces: {collector: \""+collector.URL+"\"}\n")
	if err := os.Chmod(config, 0o600); err != nil {
		t.Fatal(err)
	}
	c, lines := serveLines(t, "--listen", "127.0.0.1:0", "--config", config)
	address, rpc := "", ""
	for lines.Scan() && lines.Text() != "Ready:" {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
		if at, ok := strings.CutPrefix(lines.Text(), "gRPC is on "); ok {
			rpc = strings.TrimSuffix(at, ".") + "/reservoir"
		}
	}
	go func() {
		for lines.Scan() { // so that it is not held up by its output
		}
	}()
	for _, how := range [][]string{{address, "--binary=false"}, {address, "--binary"}, {rpc}} {
		text := works(t, append([]string{"load", "--rate", "20", "--duration", "500ms", "--warm-up", "0s", "--batch", "2", "--timeout", "1m"}, how...)...)
		if !strings.Contains(text, "model reservoir: 20 requests a second") || !regexp.MustCompile(`(?m)^answered +10 `).MatchString(text) {
			t.Errorf("%s: printed\n%s", how, text)
		}
	}
	r, err := http.Get(address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	page, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	// Three times ten requests, and one each to try the model, with two items each.
	for _, want := range []string{`weft_requests_total{model="reservoir",version="1"} 33`, `weft_predictions_total{model="reservoir",version="1"} 66`,
		`weft_requests_ended_total{model="reservoir",version="1",result="succeeded"} 33`, `weft_device_in_service{device="cpu:0"} 1`, `weft_cost_total{part="devices"} `} {
		if !strings.Contains(string(page), "\n"+want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if n := spans.Load(); n != 3*33 {
		t.Errorf("%d spans of 33 requests", n)
	}
}

// Addresses of collectors and prices are checked with the rest of a configuration.
func TestServeObserved(t *testing.T) {
	for text, want := range map[string]string{
		"traces: {collector: \"localhost:4318\"}":      `traces: collector "localhost:4318": write http://HOST:PORT or https://HOST:PORT`,
		"traces: {collector: \"http://x\", sample: 2}": "traces: sample 2: it must be from 0 to 1",
		"prices: {kwh: -1}":                            "prices.kwh: -1 is not from 0 to",
	} {
		code, _, stderr := runWeft("serve", "--check-config", "--config", write(t, "weft.yaml", text+"\n"))
		if code != exitUsage || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %s", text, code, stderr)
		}
	}
}
