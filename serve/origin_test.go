package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weft-run/weft/api"
)

// mayRead is what a browser does with an answer to a request of a page: whether it shows it, and
// for a question beforehand (method not empty) whether it then sends the request, by the rules of
// the Fetch standard for requests without credentials.
func mayRead(origin, method string, headers []string, w *httptest.ResponseRecorder) bool {
	if got := w.Header().Values("Access-Control-Allow-Origin"); len(got) != 1 || got[0] != origin {
		return false
	}
	if method == "" {
		return true
	}
	has := func(list, item string) bool {
		for x := range strings.SplitSeq(w.Header().Get(list), ",") {
			if strings.EqualFold(strings.TrimSpace(x), item) {
				return true
			}
		}
		return false
	}
	ok := w.Code >= 200 && w.Code < 300 && (method == "GET" || method == "POST" || has("Access-Control-Allow-Methods", method))
	for _, x := range headers {
		ok = ok && has("Access-Control-Allow-Headers", x)
	}
	return ok
}

// A page of a listed origin uses the server as a program does; others do not.
func TestOrigins(t *testing.T) {
	const listed = "https://tools.example.org"
	h, _, s := handlerOf(t, func(o *parts) {
		o.Config.Origins, o.Config.Tokens = []string{"https://other.example.org:8443", listed}, tokenFile(t, secretToken)
	})
	s.clients.rate, s.clients.burst = 1e-9, 3
	asks := func(origin, method, path string, headers ...string) *httptest.ResponseRecorder {
		return ask(h, "OPTIONS", path, "", "Origin", origin, "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", strings.ToLower(strings.Join(headers, ",")), "Sec-Fetch-Site", "cross-site")
	}
	for _, c := range []struct {
		origin, method string
		headers        []string
		ok             bool
	}{
		{listed, "POST", []string{"Authorization", "Content-Type", api.HeaderLength}, true},
		{"https://other.example.org:8443", "DELETE", []string{"Authorization", "Idempotency-Key", "Last-Event-ID"}, true},
		{listed, "GET", nil, true},
		{listed, "PUT", nil, false},
		{listed, "POST", []string{"X-Weft-Dashboard"}, false}, // only the dashboard's own page may act there
		{"https://evil.example.org", "POST", []string{"Authorization"}, false},
		{"http://tools.example.org", "GET", nil, false},
		{"https://tools.example.org:8443", "GET", nil, false},
		{"https://tools.example.org.evil.example", "GET", nil, false},
		{"null", "GET", nil, false},
	} {
		w := asks(c.origin, c.method, "/v2/models/double/infer", c.headers...)
		if mayRead(c.origin, c.method, c.headers, w) != c.ok {
			t.Errorf("%s asks for %s with %q: status %d, %v", c.origin, c.method, c.headers, w.Code, w.Header())
		}
		if w.Header().Get("Vary") != "Origin" || w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", c.origin, w.Header())
		}
		if c.ok && w.Body.Len() > 0 {
			t.Errorf("%s: a body %q", c.origin, w.Body)
		}
	}
	// The request itself, and what is wrong with one, can be read; all of it without a cookie.
	for _, c := range []struct {
		path, token string
		status      int
	}{{"/v2/models/double/infer", secretToken, 200}, {"/v2/models/none/infer", secretToken, 404}, {"/v2/nowhere", secretToken, 404}, {"/v2", secretToken, 429}, {"/v2", "wrong", 401}} {
		for origin, ok := range map[string]bool{listed: true, "https://evil.example.org": false} {
			w := ask(h, "POST", c.path, doubled, "Origin", origin, "Authorization", "Bearer "+c.token, "Sec-Fetch-Site", "cross-site")
			if mayRead(origin, "", nil, w) != ok || ok && w.Code != c.status || !ok && w.Code != 403 {
				t.Errorf("%s, %s: status %d, %v", c.path, origin, w.Code, w.Header())
			}
			for _, name := range []string{api.HeaderLength, api.HeaderRetry, "Retry-After"} {
				if strings.Contains(w.Header().Get("Access-Control-Expose-Headers"), name) != ok {
					t.Errorf("%s: header %s, %v", origin, name, w.Header())
				}
			}
		}
	}
	// Without origins nothing is said of them, and OPTIONS is a method as others.
	h, _, _ = handlerOf(t, nil)
	w := ask(h, "OPTIONS", "/v2", "", "Origin", "http://localhost:8000", "Access-Control-Request-Method", "GET")
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Access-Control-Allow-Origin") != "" || w.Header().Get("Vary") != "" {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
}

// An origin that no browser sends is a mistake in the configuration.
func TestOriginMistakes(t *testing.T) {
	for origin, want := range map[string]string{
		"*": "name each", "null": "name each", "https://a.example/": "nothing after it", "https://a.example/x": "nothing after it", "a.example": "SCHEME://HOST",
		"ftp://a.example": "SCHEME://HOST", "https://": "SCHEME://HOST", "https://me@a.example": "SCHEME://HOST", "https://a.example?x": "SCHEME://HOST",
		"https://a.example:443": "leave out the port", "http://a.example:80": "leave out the port", "http://a.example:": "leave out the port",
		"https://bücher.example": "ASCII", "": "SCHEME://HOST",
	} {
		if err := checkOrigin(origin); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", origin, err)
		}
	}
	for _, origin := range []string{"https://a.example", "http://localhost:3000", "https://a.example:80", "http://[::1]:3000", "https://xn--bcher-kva.example"} {
		if err := checkOrigin(origin); err != nil {
			t.Error(err)
		}
	}
	if _, err := parseConfig([]byte("origins: ['*']"), ""); err == nil || !strings.Contains(err.Error(), "origins: ") {
		t.Error(err)
	}
}
