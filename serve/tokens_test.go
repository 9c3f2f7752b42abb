package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
)

// Tokens cannot be guessed quickly, whatever the rate of requests: an address that guesses has
// no token looked at, not even the right one. Others are not kept out.
func TestGuessing(t *testing.T) {
	h, _, s := handlerOf(t, func(o *parts) { o.Config.Tokens = tokenFile(t, secretToken) })
	at := time.Now()
	s.guesses.now = func() time.Time { return at }
	from := func(ip, path, token string) *httptest.ResponseRecorder {
		return ask(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = net.JoinHostPort(ip, "1")
			h.ServeHTTP(w, r)
		}), "GET", path, "", "Authorization", "Bearer "+token)
	}
	for i := range 2 * guessBurst {
		w := from("127.0.0.1", "/v2", fmt.Sprint("guess-", i))
		if want := map[bool]int{true: 401, false: 429}[i < guessBurst]; w.Code != want || (want == 401) != (w.Header().Get("WWW-Authenticate") != "") {
			t.Fatalf("guess %d: status %d", i, w.Code)
		}
	}
	w := from("127.0.0.1", "/v2", secretToken)
	if ms, err := strconv.ParseFloat(w.Header().Get(api.HeaderRetry), 64); w.Code != 429 || err != nil || ms < 99 || ms > 101 || w.Header().Get("Retry-After") != "1" {
		t.Errorf("the right token after too many guesses: status %d, again after %v ms", w.Code, ms)
	}
	for range 2 * guessBurst {
		if w := from("127.0.0.2", "/v2", secretToken); w.Code != 200 {
			t.Fatalf("from another address: status %d", w.Code)
		}
	}
	// A second later there are so many more, and probes are answered all the time.
	at = at.Add(time.Second)
	for i := range 2 * guessRate {
		if w := from("127.0.0.1", "/readyz", "guess"); w.Code != 200 {
			t.Errorf("a probe: status %d", w.Code)
		}
		if w := from("127.0.0.1", "/v2", "guess"); (w.Code == 401) != (i < guessRate/2) { // of which a probe has one
			t.Errorf("guess %d a second later: status %d", i, w.Code)
		}
	}
	// Addresses that one customer of IPv6 has are one.
	for i := range 2 * guessBurst {
		if w := from(fmt.Sprintf("2001:db8::%x", i+1), "/v2", "guess"); (w.Code == 401) != (i < guessBurst) {
			t.Fatalf("guess %d: status %d", i, w.Code)
		}
	}
	if w := from("2001:db8:0:1::1", "/v2", secretToken); w.Code != 200 {
		t.Errorf("of another network: status %d", w.Code)
	}
	// Those who have no token at all share the rate of one client.
	s.clients.rate, s.clients.burst, s.clients.now = 1, 2, s.guesses.now
	for i := range 4 {
		if w := from(fmt.Sprintf("2001:db8:0:2::%x", i+1), "/v2", ""); (w.Code == 401) != (i < 2) {
			t.Errorf("request %d without a token: status %d", i, w.Code)
		}
	}
}

// A connection that has shown its token goes on although others at its address guess, and is no
// way to guess either.
func TestGuessingNeighbour(t *testing.T) {
	t.Run("HTTP/1.1", func(t *testing.T) { guessBeside(t, TLS{}, nil) })
	cert, key := certificate(t, "weft.test")
	src, err := os.ReadFile(cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(src)
	t.Run("HTTP/2.0", func(t *testing.T) { guessBeside(t, TLS{cert, key}, &tls.Config{RootCAs: pool}) })
}

func guessBeside(t *testing.T, files TLS, config *tls.Config) {
	s, _, address := start(t, func(o *parts) { o.Config.Tokens, o.Config.TLS = tokenFile(t, secretToken), files })
	at := time.Now()
	s.guesses.now = func() time.Time { return at }
	status := func(c *http.Client, token string) int {
		t.Helper()
		r, err := http.NewRequest("GET", address+"/v2", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 2, false: 1}[config != nil]; resp.ProtoMajor != want {
			t.Fatalf("by %s", resp.Proto)
		}
		return resp.StatusCode
	}
	one := func() *http.Client {
		tr := &http.Transport{MaxConnsPerHost: 1, TLSClientConfig: config, ForceAttemptHTTP2: config != nil}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	friend, guesser := one(), one()
	if got := status(friend, secretToken); got != 200 {
		t.Fatalf("status %d", got)
	}
	for range guessBurst {
		status(guesser, "guess")
	}
	for _, c := range []struct {
		who   *http.Client
		token string
		want  int
	}{{guesser, "guess", 429}, {friend, secretToken, 200}, {friend, "guess", 429}, {friend, secretToken, 200}, {one(), secretToken, 429}} {
		if got := status(c.who, c.token); got != c.want {
			t.Errorf("token %s: status %d, not %d", c.token, got, c.want)
		}
	}
}

// Who has no token is told whether the server is ready, and not what it serves.
func TestHealthSaysNoNames(t *testing.T) {
	h, f, s := handlerOf(t, func(o *parts) { o.Config.Tokens = tokenFile(t, "probe "+secretToken) })
	for _, path := range []string{"/readyz", "/v2/health/ready"} {
		f.notReady = nil
		for header, told := range map[string]bool{"": false, "Bearer guess": false, "Bearer " + secretToken: true} {
			f.notReady = nil
			if w := ask(h, "GET", path, "", "Authorization", header); w.Code != 200 {
				t.Errorf("%s, %q: status %d", path, header, w.Code)
			}
			f.notReady = errors.New("model hush of /srv/models failed")
			w := ask(h, "GET", path, "", "Authorization", header)
			if e := saidError(t, w); w.Code != 503 || strings.Contains(e, "hush") != told || w.Header().Get("Retry-After") == "" {
				t.Errorf("%s, %q: status %d, %s", path, header, w.Code, e)
			}
		}
	}
	s.guesses.rate, s.guesses.burst = 1e-9, 0 // no token is looked at
	if w := ask(h, "GET", "/readyz", "", "Authorization", "Bearer "+secretToken); w.Code != 503 || strings.Contains(w.Body.String(), "hush") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	// Without tokens all may know.
	h, f, _ = handlerOf(t, nil)
	f.notReady = errors.New("model hush failed")
	if w := ask(h, "GET", "/readyz", ""); w.Code != 503 || !strings.Contains(w.Body.String(), "hush") {
		t.Errorf("without tokens: status %d: %s", w.Code, w.Body)
	}
}
