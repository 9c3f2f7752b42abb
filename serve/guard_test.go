package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
)

// A page of another site, or one whose name was made to stand for this machine, is refused.
func TestForeignPage(t *testing.T) {
	h, f, _ := handlerOf(t, func(o *parts) {
		o.Config.Hosts, o.Config.Origins = []string{"Weft.example.org"}, []string{"https://tools.example.org"}
	})
	for _, c := range []struct {
		header []string
		ok     bool
	}{
		{nil, true},
		{[]string{"Host", "127.0.0.1:8000"}, true},
		{[]string{"Host", "[::1]:8000"}, true},
		{[]string{"Host", "10.1.2.3"}, true}, // an address cannot be rebound
		{[]string{"Host", "LOCALHOST"}, true},
		{[]string{"Host", "weft.example.org:80"}, true},
		{[]string{"Host", "evil.example"}, false},
		{[]string{"Host", "localhost.evil.example"}, false},
		{[]string{"Host", "127.0.0.1.evil.example:8000"}, false},
		{[]string{"Host", ""}, false},
		{[]string{"Host", "[fe80::1%25evil.example]:8000"}, false},
		{[]string{"Host", "[fe80::1%evil.example]"}, false},
		{[]string{"Host", "fe80::1%1"}, false},
		{[]string{"Origin", "http://localhost:8000"}, true},
		{[]string{"Origin", "https://tools.example.org"}, true},
		{[]string{"Origin", "https://localhost:8000"}, false},
		{[]string{"Origin", "http://localhost:3000"}, false},
		{[]string{"Origin", "http://evil.example"}, false},
		{[]string{"Origin", "null"}, false},
		{[]string{"Origin", "http://evil.example", "Host", "evil.example"}, false},
		{[]string{"Sec-Fetch-Site", "same-origin"}, true},
		{[]string{"Sec-Fetch-Site", "cross-site"}, false},
		{[]string{"Sec-Fetch-Site", "same-site"}, false},
		{[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, false}, // a form
		{[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "empty"}, true},
		{[]string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Dest", "iframe"}, false},
		{[]string{"Origin", "http://localhost:8000", "Sec-Fetch-Dest", "frame"}, false},
		{[]string{"Content-Type", "application/json; charset=utf-8"}, true},
		{[]string{"Content-Type", "text/plain"}, false},
		{[]string{"Content-Type", "application/x-www-form-urlencoded"}, false},
	} {
		asked := len(f.seen)
		w := ask(h, "POST", "/v2/models/double/infer", doubled, c.header...)
		if c.ok != (w.Code == 200) || c.ok != (len(f.seen) > asked) {
			t.Errorf("%q: status %d: %s", c.header, w.Code, w.Body)
		}
		if !c.ok {
			if saidError(t, w); w.Code != 403 && w.Code != 415 {
				t.Errorf("%q: status %d", c.header, w.Code)
			}
		}
		listed := len(c.header) > 1 && c.header[1] == "https://tools.example.org"
		if cors := w.Header().Get("Access-Control-Allow-Origin"); (cors != "") != listed {
			t.Errorf("%q: answers may be read by %q", c.header, cors)
		}
	}
	if w := ask(h, "GET", "/v2", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"); w.Code != 200 {
		t.Errorf("a link: status %d", w.Code)
	}
	for _, dest := range []string{"iframe", "frame", "embed", "object"} {
		if w := ask(h, "GET", "/v2", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", dest); w.Code != 403 {
			t.Errorf("a link in an %s: status %d", dest, w.Code)
		}
	}
}

// certificate makes files of a certificate for a name, and of its key.
func certificate(t *testing.T, name string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

const secretToken = "correct-horse-battery"

func tokenFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokens(t *testing.T) {
	path := tokenFile(t, "# of the team\nann "+secretToken+"\n\n0123456789abcdef0123\n")
	h, f, s := handlerOf(t, func(o *parts) { o.Config.Tokens = path })
	basic := func(p string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+p)) }
	for header, status := range map[string]int{
		"": 401, "Bearer": 401, "Bearer wrong": 401, "Bearer " + secretToken + "x": 401, "Bearer " + secretToken[1:]: 401, "Digest " + secretToken: 401,
		"Bearer " + secretToken: 200, "bearer " + secretToken: 200, "Bearer 0123456789abcdef0123": 200,
		basic(secretToken): 200, basic("wrong"): 401, "Basic !": 401, "Bearer " + strings.Repeat("x", 5000): 401,
	} {
		w := ask(h, "POST", "/v2/models/double/infer", doubled, "Authorization", header)
		if w.Code != status {
			t.Errorf("%.40q: status %d: %s", header, w.Code, w.Body)
		}
		if e := ""; status == 401 {
			if e = saidError(t, w); strings.Contains(e, secretToken) || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%q: %s", header, e)
			}
		}
	}
	if got := f.seen[0].Client; got != "ann" && got != "token-4" {
		t.Errorf("the client is %q", got)
	}
	for _, path := range []string{"/v2", "/v1/jobs", "/v1/events", "/metrics", "/", "/v2/models/double", "/nothing"} {
		if w := ask(h, "GET", path, ""); w.Code != 401 {
			t.Errorf("%s without a token: status %d", path, w.Code)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"} {
		if w := ask(h, "GET", path, ""); w.Code != 200 {
			t.Errorf("%s without a token: status %d", path, w.Code)
		}
	}
	// A new file holds after a reload, and a bad one changes nothing.
	if err := os.WriteFile(path, []byte("new-token-of-the-team\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a short token: %v", err)
	}
	for header, status := range map[string]int{"Bearer " + secretToken: 401, "Bearer new-token-of-the-team": 200} {
		if w := ask(h, "GET", "/v2", "", "Authorization", header); w.Code != status {
			t.Errorf("after the reload, %q: status %d", header, w.Code)
		}
	}
}

// Files of tokens and keys that others can read are not used.
func TestSecretFiles(t *testing.T) {
	path := tokenFile(t, secretToken)
	cert, key := certificate(t, "weft.test")
	c := DefaultConfig()
	c.Tokens, c.TLS = path, TLS{cert, key}
	for _, file := range []string{path, key} {
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := newServer(parts{Config: c, Service: newFake()}); err == nil || !strings.Contains(err.Error(), "0644") {
			t.Errorf("%s with mode 0644: %v", file, err)
		}
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "# none\n", "a b c\n", "short", "a " + secretToken + "\na " + secretToken} {
		if _, err := parseTokens([]byte(text)); err == nil {
			t.Errorf("tokens %q are taken", text)
		}
	}
}

// With a certificate and tokens any address is served, by TLS alone.
func TestTLS(t *testing.T) {
	cert, key := certificate(t, "weft.test")
	s, _, address := start(t, func(o *parts) {
		o.Config.Listen, o.Config.TLS, o.Config.Tokens = "0.0.0.0:0", TLS{cert, key}, tokenFile(t, secretToken)
	})
	if s.clients.rate != publicRate {
		t.Errorf("the rate is %v", s.clients.rate)
	}
	src, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(src)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	address = "https://127.0.0.1:" + address[strings.LastIndex(address, ":")+1:]
	c, err := api.NewClient(address, api.Options{Token: secretToken, HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Infer(t.Context(), &api.InferRequest{Model: "double", Inputs: []api.Tensor{api.NewTensor("x", []float32{4})}})
	if err != nil {
		t.Fatal(err)
	}
	if y, err := api.Values[float32](r.Output("y")); err != nil || y[0] != 8 {
		t.Errorf("%v, %v", y, err)
	}
	if !s.hostAllowed("weft.test:443") || s.hostAllowed("evil.test") {
		t.Error("the names of the certificate are not the hosts")
	}
	resp, err := http.Get(strings.Replace(address, "https", "http", 1) + "/v2")
	if err == nil {
		if resp.Body.Close(); resp.StatusCode == 200 {
			t.Error("answered without TLS")
		}
	}
}

// Requests that are too large are refused, whether they say so or not.
func TestTooLarge(t *testing.T) {
	_, _, address := start(t, func(o *parts) { o.Config.Limits.Body, o.Config.Limits.Bodies = 2000, 3000 })
	big := strings.Replace(doubled, "2.5", "2."+strings.Repeat("5", 3000), 1)
	for _, body := range []io.Reader{strings.NewReader(big), io.MultiReader(strings.NewReader(big))} {
		resp, err := http.Post(address+"/v2/models/double/infer", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%T: status %d", body, resp.StatusCode)
		}
	}
	// Of several at a time, what is beyond the limit of all waits outside.
	h, f, s := handlerOf(t, func(o *parts) { o.Config.Limits.Body, o.Config.Limits.Bodies = 2000, 2000 })
	f.before = func(context.Context, *infer.Request) error {
		if w := ask(h, "POST", "/v2/repository/index", `{"ready":`+strings.Repeat(" ", 1990)+`true}`); w.Code != 413 || w.Header().Get("Connection") != "close" {
			t.Errorf("status %d, connection %q: %s", w.Code, w.Header().Get("Connection"), w.Body)
		}
		if w := ask(h, "POST", "/v2/repository/index", `{"ready":`+strings.Repeat(" ", 1950)+`true}`); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		return nil
	}
	if w := ask(h, "POST", "/v2/models/double/infer", doubled); w.Code != 200 || s.bodies.Load() != 0 {
		t.Errorf("status %d, %d bytes under way", w.Code, s.bodies.Load())
	}
	// Headers have a limit too.
	r, err := http.NewRequest("GET", address+"/v2", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long header: status %d", resp.StatusCode)
	}
}

// A client that sends its body slowly is answered after a time, and one that sends no
// request is cut off.
func TestSlowClient(t *testing.T) {
	_, _, server := start(t, func(o *parts) { o.Config.Limits.ReadTime = Duration(time.Second) })
	var all sync.WaitGroup
	for text, status := range map[string]string{
		"POST /v2/models/double/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{": "408",
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n":                                                      "200",
		"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n":                                                     "404",
		"GET /v2 HTTP/1.1\r\nHost: loc": "",
		"":                              "",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(server, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			b, err := io.ReadAll(c) // until the server closes it
			if err != nil && !strings.Contains(err.Error(), "reset") || !bytes.Contains(b, []byte(status)) {
				t.Errorf("%q: %q, %v", text, b, err)
			}
		})
	}
	all.Wait()
}

// Idle connections take nothing from others, and are closed. Their number has a limit.
func TestIdleConnections(t *testing.T) {
	const many = 500
	s, _, address := start(t, func(o *parts) {
		o.Config.Limits.Connections = many + 10
		o.Config.Limits.ReadTime = Duration(patience)
	})
	var idle []net.Conn
	defer func() {
		for _, c := range idle {
			c.Close()
		}
	}()
	for range many {
		c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	resp, err := http.Get(address + "/v2")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != 200 {
		t.Errorf("status %d", resp.StatusCode)
	}
	// Those beyond the limit take the places of the oldest.
	for range 30 {
		c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	for _, c := range idle[:20] {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("an old one: %v", err)
		}
	}
	if s.conns.count() > many+10 {
		t.Errorf("%d are open", s.conns.count())
	}
}

// A client has so many requests a second, and so many at a time, whatever others do.
func TestRate(t *testing.T) {
	h, f, s := handlerOf(t, func(o *parts) { o.Config.Limits.Rate, o.Config.Limits.Concurrent = 2, 2 })
	at := time.Now()
	s.clients.now = func() time.Time { return at }
	from := func(ip string) int {
		r := ask(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = net.JoinHostPort(ip, "1")
			h.ServeHTTP(w, r)
		}), "GET", "/v2", "")
		if r.Code == 429 && r.Header().Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", r.Header().Get("Retry-After"))
		}
		return r.Code
	}
	for i := range 6 {
		if got, want := from("10.0.0.1"), 200; i < 4 && got != want || i >= 4 && got != 429 {
			t.Errorf("request %d: status %d", i, got)
		}
	}
	if got := from("10.0.0.2"); got != 200 {
		t.Errorf("another client: status %d", got)
	}
	for i := range 6 { // addresses that one customer of IPv6 has
		if got := from(fmt.Sprintf("2001:db8::%x", i+1)); (got == 200) != (i < 4) {
			t.Errorf("request %d of a network of IPv6: status %d", i, got)
		}
	}
	if got := from("2001:db8:0:1::1"); got != 200 {
		t.Errorf("another network: status %d", got)
	}
	at = at.Add(time.Second)
	for i := range 3 {
		if got := from("10.0.0.1"); (got == 200) != (i < 2) {
			t.Errorf("a second later, request %d: status %d", i, got)
		}
	}
	// Probes are always answered.
	for range 10 {
		if w := ask(h, "GET", "/healthz", ""); w.Code != 200 {
			t.Errorf("a probe: status %d", w.Code)
		}
	}
	at = at.Add(time.Hour)
	depth := 0
	f.before = func(context.Context, *infer.Request) error {
		depth++
		if under := depth; under < 3 {
			if w := ask(h, "POST", "/v2/models/double/infer", doubled); (w.Code == 200) != (under < 2) {
				t.Errorf("request %d at a time: status %d", under+1, w.Code)
			}
		}
		return nil
	}
	if w := ask(h, "POST", "/v2/models/double/infer", doubled); w.Code != 200 {
		t.Errorf("status %d", w.Code)
	}
	// Very many clients take bounded memory.
	for i := range 2*maxClients + 10 {
		if who, _ := s.clients.enter(fmt.Sprint(i)); who != nil {
			s.clients.leave(who)
		}
		at = at.Add(time.Millisecond)
	}
	if n := len(s.clients.all); n > maxClients+1 {
		t.Errorf("%d clients are remembered", n)
	}
}

// A handler that panics is an answer, and the server goes on.
func TestPanic(t *testing.T) {
	h, f, _ := handlerOf(t, nil)
	f.before = func(context.Context, *infer.Request) error { panic("planted") }
	w := ask(h, "POST", "/v2/models/double/infer", doubled)
	if e := saidError(t, w); w.Code != 500 || strings.Contains(e, "planted") {
		t.Errorf("status %d, %s", w.Code, e)
	}
	f.before = nil
	if w := ask(h, "POST", "/v2/models/double/infer", doubled); w.Code != 200 {
		t.Errorf("status %d", w.Code)
	}
}

// A request whose end a proxy may see elsewhere is answered, and what follows on its connection is not.
func TestSmuggling(t *testing.T) {
	_, _, address := start(t, nil)
	const index = "POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	const old = "POST /v2/repository/index HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n"
	const next = "GET /v2 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for _, c := range []struct {
		text     string
		statuses []int // of the answers until the server closes the connection
	}{
		{index + "Content-Length: 40\r\nContent-Length: 2\r\n\r\n{}" + next, []int{400}},
		{index + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + next, []int{200}},
		{index + "Transfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + next, []int{200}},
		{index + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + next, []int{200}},
		{index + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + next, []int{501}},
		{old + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}" + next, []int{200}},
		{old + "Transfer-Encoding: chunked\r\n\r\n" + next, []int{200}},
		{index + "Content-Length: 2\r\n\r\n{}" + next, []int{200, 200}},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, c.text); err != nil {
			t.Fatal(err)
		}
		var got []int
		for in := bufio.NewReader(conn); ; {
			resp, err := http.ReadResponse(in, nil)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%q: the connection stays open", c.text)
			}
			if err != nil {
				break
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
			got = append(got, resp.StatusCode)
		}
		if !slices.Equal(got, c.statuses) {
			t.Errorf("%q: answers %d, want %d", c.text, got, c.statuses)
		}
	}
}

// What is asked of the server as a whole passes the guard too.
func TestOptionsOfAll(t *testing.T) {
	_, _, address := start(t, func(o *parts) { o.Config.Tokens = tokenFile(t, secretToken) })
	for header, status := range map[string]int{
		"Host: localhost\r\n": 401, "Host: evil.example\r\nAuthorization: Bearer " + secretToken + "\r\n": 403,
		"Host: localhost\r\nAuthorization: Bearer " + secretToken + "\r\n": 204,
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "OPTIONS * HTTP/1.1\r\n%s\r\n", header)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != status || (status == 204) != (resp.Header.Get("Allow") != "") {
			t.Errorf("%q: status %d, %v", header, resp.StatusCode, resp.Header)
		}
	}
}

// count returns the number that is open.
func (t *connections) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open
}
