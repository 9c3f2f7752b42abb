package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Every mistake, of the caller or the server, is said in one line.
func TestRefuses(t *testing.T) {
	ok := func(http.ResponseWriter, *http.Request) {}
	says := func(text string) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v2/models/m", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
		mux.HandleFunc("POST /v2/models/m/infer", ok)
		mux.HandleFunc("POST /v2/repository/index", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, text) })
		return mux
	}
	for name, c := range map[string]struct {
		h    http.Handler
		o    Options
		want string
	}{
		"no model": {server(ok), Options{Model: "n"}, `no model "n" there (404 Not Found); --model names another`},
		"bad request": {server(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, `{"error":"x is odd"}`)
		}), Options{Model: "m"}, `a first request to model "m" was answered with 400 Bad Request: x is odd`},
		"no JSON":        {says("<html>"), Options{Model: "m"}, `what the server says of model "m": not what the protocol says`},
		"no inputs":      {says("{}"), Options{Model: "m"}, "it names no inputs"},
		"unknown type":   {says(`{"inputs":[{"name":"x","datatype":"FP8","shape":[1]}]}`), Options{Model: "m"}, `the type "FP8"`},
		"bad dimension":  {says(`{"inputs":[{"name":"x","datatype":"FP32","shape":[0]}]}`), Options{Model: "m"}, "a dimension of 0"},
		"open dimension": {says(`{"inputs":[{"name":"x","datatype":"FP32","shape":[-1,-1]}]}`), Options{Model: "m"}, "give it by --input x=FILE.npy"},
		"too large":      {says(`{"inputs":[{"name":"x","datatype":"FP32","shape":[-1,100000000]}]}`), Options{Model: "m", Batch: 9}, "more than 256 MiB"},
		"fixed":          {says(`{"inputs":[{"name":"x","datatype":"FP32","shape":[2,2]}]}`), Options{Model: "m", Batch: 2}, "leave --batch out"},
		"no list":        {server(ok), Options{}, "does not list its models (404 Not Found); name one by --model"},
		"none ready":     {says(`[{"name":"m","state":"LOADING"}]`), Options{}, "no model that is ready"},
		"several":        {says(`[{"name":"m"},{"name":"n","state":"READY"},{"name":"m"}]`), Options{}, "name one by --model: m, n"},
		"wrong type":     {server(ok), Options{Model: "m", Inputs: []Tensor{{Type: "FP64", Shape: []int64{1, 3}, Data: make([]byte, 24)}}}, "takes FP32 in the shape [-1 3], and FP64 in the shape [1 3] are given"},
		"wrong shape":    {server(ok), Options{Model: "m", Inputs: []Tensor{{Type: "FP32", Shape: []int64{1, 4}, Data: make([]byte, 16)}}}, "FP32 in the shape [1 4] are given"},
		"wrong rank":     {server(ok), Options{Model: "m", Inputs: []Tensor{{Type: "FP32", Shape: []int64{1, 1, 1, 3}, Data: make([]byte, 12)}}}, "[1 1 1 3] are given"},
		"wrong name":     {server(ok), Options{Model: "m", Inputs: []Tensor{{Name: "z", Type: "FP32"}}}, `no input "z"; it has ["x"]`},
		"too few":        {server(ok), Options{Model: "m", Batch: 3, Inputs: []Tensor{{Type: "FP32", Shape: []int64{2, 3}, Data: make([]byte, 24)}}}, `a batch of 3, and input "x" is given with 2`},
		"infinite":       {server(ok), Options{Model: "m", Inputs: []Tensor{{Type: "FP32", Shape: []int64{3}, Data: bytes.Repeat([]byte{255}, 12)}}}, "element 0 is NaN, which JSON cannot hold; use --binary"},
		"token":          {server(ok), Options{Model: "m", Token: "a\r\nb"}, "the token has a blank"},
		"connections":    {server(ok), Options{Model: "m", Connections: -1}, "it must be from 1 to"},
		"timeout":        {server(ok), Options{Model: "m", Timeout: 1}, "it must be from 1ms to 1h"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, c.h, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v\nwant %s", err, c.want)
			}
		})
	}
}

// Servers that do not speak HTTP, or are not there, are said to be so.
func TestNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	talk := func(text string) {
		c, err := l.Accept()
		if err != nil {
			return
		}
		bufio.NewReader(c).ReadString('\n')
		io.WriteString(c, text)
		c.Close()
	}
	for text, want := range map[string]string{"220 mail\r\n": "malformed HTTP", "": "connection closed by the server", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{": "connection closed by the server"} {
		done := make(chan struct{})
		go func() { defer close(done); talk(text) }()
		target, err := ParseTarget("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), Options{Target: target, Model: "m"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", text, err)
		}
		<-done
	}
	gone := "http://" + l.Addr().String()
	l.Close()
	for _, at := range []string{gone, "unix:" + filepath.Join(t.TempDir(), "none")} {
		target, err := ParseTarget(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), Options{Target: target, Model: "m"}); err == nil || !strings.Contains(err.Error(), "is the server running there?") {
			t.Errorf("%s: error %v", at, err)
		}
	}
}

// A Unix socket, TLS with a certificate of one's own, a path before the protocol's, and the name
// of the only model.
func TestTargets(t *testing.T) {
	h := server(func(http.ResponseWriter, *http.Request) {}).(*http.ServeMux)
	h.HandleFunc("POST /v2/repository/index", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `[{"name":"m","state":"READY"}]`) })
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	onSocket := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	onSocket.Start()
	defer onSocket.Close()
	secure := httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	below := httptest.NewServer(http.StripPrefix("/some/where", h))
	defer below.Close()
	for _, at := range []string{"unix:" + path, "unix://" + path, secure.URL, below.URL + "/some/where/"} {
		target, err := ParseTarget(at)
		if err != nil {
			t.Fatal(err)
		}
		if target.Secure() {
			if _, err := Open(t.Context(), Options{Target: target}); err == nil || !strings.Contains(err.Error(), "certificate") {
				t.Errorf("%s was trusted: %v", at, err)
			}
			if err := target.Trust(pemOf(secure.Certificate().Raw)); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Open(t.Context(), Options{Target: target, Connections: 3})
		if err != nil {
			t.Error(err)
			continue
		}
		s, err := c.Run(t.Context(), Pace{Rate: 1000, Arrivals: Poisson, Duration: 50 * time.Millisecond})
		if err != nil || s.Answered == 0 || s.Answered != s.Arrived {
			t.Errorf("%s: %+v, %v", at, s, err)
		}
	}
}

// A server that is hostile, or broken, takes no memory and shows no control characters.
func TestHostile(t *testing.T) {
	t.Run("text", func(t *testing.T) {
		_, err := open(t, server(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			json.NewEncoder(w).Encode(map[string]string{"error": "\x1b[2Jgone\r\n\x00" + strings.Repeat("x", 1000)})
		}), Options{Model: "m"})
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\r\n\x00") || !strings.Contains(err.Error(), "[2Jgone") || len(err.Error()) > 2*maxCause {
			t.Errorf("error %q", err)
		}
	})
	t.Run("names", func(t *testing.T) {
		if names, err := parseIndex([]byte(`[{"name":"a\u001b[2J"},{"name":"b"}]`)); err != nil || len(names) != 1 || names[0] != "b" {
			t.Errorf("%q, %v", names, err)
		}
	})
	t.Run("head", func(t *testing.T) {
		p := newPipes()
		defer p.Close()
		sent := make(chan int, 1)
		go func() {
			c, err := p.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			bufio.NewReader(c).ReadString('\n')
			go io.Copy(io.Discard, c)
			n, _ := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for err == nil {
				var k int
				k, err = io.WriteString(c, "X: "+strings.Repeat("y", 1000)+"\r\n")
				n += k
			}
			sent <- n
		}()
		_, err := Open(t.Context(), Options{Model: "m", dial: p.dial})
		if err == nil || !strings.Contains(err.Error(), "the head of the answer is too long") {
			t.Errorf("error %v", err)
		}
		if n := <-sent; n > maxHead+100<<10 {
			t.Errorf("%d bytes were read", n)
		}
	})
}
