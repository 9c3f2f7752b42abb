package serve

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/internal/infer"
)

// failure is an error with its status.
type failure struct {
	status int
	after  time.Duration // for Retry-After; 0 for none
	error
}

func (f failure) Unwrap() error { return f.error }

func failf(status int, format string, args ...any) error {
	return failure{status: status, error: fmt.Errorf(format, args...)}
}

// busyf refuses what may be asked for again after a while.
func busyf(status int, after time.Duration, format string, args ...any) error {
	return failure{status, max(after, time.Millisecond), fmt.Errorf(format, args...)}
}

// statusOf returns the status of an error, and how long to wait before asking again.
func statusOf(err error) (status int, after time.Duration) {
	busy, large := (*infer.BusyError)(nil), (*http.MaxBytesError)(nil)
	var f failure
	var bad badRequest
	switch {
	case errors.As(err, &f):
		return f.status, f.after
	case errors.As(err, &bad), errors.Is(err, infer.ErrInvalid):
		return http.StatusBadRequest, 0
	case errors.Is(err, infer.ErrNotFound):
		return http.StatusNotFound, 0
	case errors.Is(err, infer.ErrExpired):
		return http.StatusGatewayTimeout, 0
	case errors.As(err, &busy):
		return http.StatusServiceUnavailable, max(busy.RetryAfter, time.Millisecond)
	case errors.Is(err, infer.ErrUnavailable):
		return http.StatusServiceUnavailable, time.Second
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, 0
	case errors.Is(err, os.ErrDeadlineExceeded): // of the connection
		return http.StatusRequestTimeout, 0
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, 0
	}
	return http.StatusInternalServerError, 0
}

// handler is a handler whose error is the answer.
type handler func(w http.ResponseWriter, r *http.Request) error

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, after := statusOf(err)
	if r.Context().Err() != nil && status >= 500 {
		panic(http.ErrAbortHandler) // the client has gone, and must not take nothing for success
	}
	if status == http.StatusInternalServerError {
		s.log.Error("a request failed", "method", r.Method, "path", short(r.URL.Path), "err", err)
	}
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
	}
	if status == http.StatusRequestTimeout || status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // what follows is not read
	}
	s.answer(w, status, map[string]string{"error": strings.ReplaceAll(err.Error(), "\n", "; ")})
}

// answer writes a value as JSON.
func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.log.Error("an answer could not be written", "err", err)
		status, b = http.StatusInternalServerError, []byte(`{"error":"the answer could not be written"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	h.Set("Cache-Control", "no-store")
	s.hurry(w)
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a client that has gone needs no answer
}

// hurry gives the client the time for taking an answer from now on.
func (s *Server) hurry(w http.ResponseWriter) {
	// Writers of tests have no deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Duration(s.limits.WriteTime)))
}

// guard stands before every request: it refuses those of foreign pages and hosts, of
// unknown clients, and of clients that ask for too much.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch p := recover(); {
			case p == http.ErrAbortHandler: // its way of ending a connection
				panic(p)
			case p != nil:
				s.log.Error("a request panicked", "method", r.Method, "path", short(r.URL.Path), "panic", p, "stack", string(debug.Stack()))
				s.fail(w, r, failf(http.StatusInternalServerError, "this request made the server fail; its log says more"))
			}
		}()
		h := w.Header()
		s.hurry(w) // a deadline of the request before may still hold
		if r.ContentLength != 0 {
			// Whoever answers without reading the body has package http read the rest.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Duration(s.limits.ReadTime)))
		}
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if err := s.local(r); err != nil {
			s.fail(w, r, err)
			return
		}
		name, err := s.identify(r)
		if err != nil {
			h.Set("WWW-Authenticate", `Basic realm="weft", charset="UTF-8"`)
			h.Add("WWW-Authenticate", `Bearer realm="weft"`)
			// Whoever guesses tokens has the rate of one client.
			if who, wait := s.clients.enter("address " + address(r)); wait > 0 {
				err = busyf(http.StatusTooManyRequests, wait, "too many requests without a token that is known")
			} else {
				s.clients.leave(who)
			}
			s.fail(w, r, err)
			return
		}
		if !isProbe(r) {
			who, wait := s.clients.enter(name)
			if wait > 0 {
				s.fail(w, r, busyf(http.StatusTooManyRequests, wait, "too many requests of %s: try again in %v", name, wait.Round(time.Millisecond)))
				return
			}
			defer s.clients.leave(who)
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, name)))
	})
}

type clientKey struct{}

// clientOf is who makes a request.
func clientOf(r *http.Request) string {
	name, _ := r.Context().Value(clientKey{}).(string)
	return name
}

// isProbe reports whether a request asks how the server is, which anybody may.
func isProbe(r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready":
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	return false
}

// address is where a request comes from.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return "local" // a Unix socket's
	}
	return host
}

// identify returns the name of a client: that of its token, or its address.
func (s *Server) identify(r *http.Request) (string, error) {
	ts := s.tokens.Load()
	if ts == nil {
		return address(r), nil
	}
	if isProbe(r) {
		return "probe", nil
	}
	token := bearer(r)
	if token == "" {
		return "", failf(http.StatusUnauthorized, "this server wants a token: send Authorization: Bearer TOKEN")
	}
	name, ok := ts.who(token)
	if !ok {
		return "", failf(http.StatusUnauthorized, "the token is not one that this server knows")
	}
	return name, nil
}

// local errs for a request that a foreign web page may have made. A page is foreign by its
// Origin; and a page whose own name was made to resolve to this machine (DNS rebinding) is
// known by the Host, which is then that name. Addresses cannot be rebound.
func (s *Server) local(r *http.Request) error {
	if s.network == "unix" {
		return nil // no browser gets here
	}
	if !s.hostAllowed(r.Host) {
		return failf(http.StatusForbidden, "this server does not answer to the host %s; name it under hosts in the configuration", quoted(r.Host))
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		same := err == nil && strings.EqualFold(u.Host, r.Host) && u.Scheme == s.scheme()
		if !same && !slices.Contains(s.config.Origins, origin) {
			return failf(http.StatusForbidden, "pages of %s may not use this server; name it under origins in the configuration", quoted(origin))
		}
		return nil
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return nil
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Method == http.MethodGet {
		return nil // a link that somebody followed
	}
	return failf(http.StatusForbidden, "pages of other sites may not use this server")
}

func (s *Server) scheme() string {
	if s.config.TLS.Cert != "" {
		return "https"
	}
	return "http"
}

// hostAllowed reports whether the server answers to a host.
func (s *Server) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if name == "localhost" || net.ParseIP(name) != nil {
		return true
	}
	for _, h := range s.config.Hosts {
		if strings.EqualFold(h, name) {
			return true
		}
	}
	cert := s.cert.Load()
	return cert != nil && name != "" && certified(cert.Leaf, name)
}

// certified reports whether a certificate is for a name.
func certified(leaf *x509.Certificate, name string) bool {
	return leaf != nil && leaf.VerifyHostname(name) == nil
}

// orderBytes is the most bytes of a body that orders something and has no tensors. What is
// ordered is remembered.
const orderBytes = 1 << 20

// body reads the body of a request, of one of some types, within limits of size and time.
// The caller calls done when it needs the bytes no more.
func (s *Server) body(w http.ResponseWriter, r *http.Request, limit int64, types ...string) (b []byte, done func(), err error) {
	limit = min(limit, int64(s.limits.Body))
	if r.ContentLength > limit {
		return nil, nil, failf(http.StatusRequestEntityTooLarge, "the body has %d bytes, and %d are the most", r.ContentLength, limit)
	}
	if r.Header.Get("Content-Type") != "" { // a browser always says it
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || !slices.Contains(types, kind) {
			return nil, nil, failf(http.StatusUnsupportedMediaType, "Content-Type %s: send %s", quoted(r.Header.Get("Content-Type")), strings.Join(types, " or "))
		}
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, nil, failf(http.StatusUnsupportedMediaType, "Content-Encoding %s: send the body as it is", quoted(enc))
	}
	take := r.ContentLength
	if take < 0 {
		take = limit // it says no length
	}
	if s.bodies.Add(take) > int64(s.limits.Bodies) {
		s.bodies.Add(-take)
		return nil, nil, busyf(http.StatusServiceUnavailable, time.Second, "too many large requests are under way")
	}
	done = func() { s.bodies.Add(-take) }
	control := http.NewResponseController(w)
	// Writers of tests have no deadline.
	_ = control.SetReadDeadline(time.Now().Add(time.Duration(s.limits.ReadTime)))
	if r.ContentLength > 0 {
		b = make([]byte, 0, min(r.ContentLength, 1<<20)+1)
	}
	b, err = readInto(b, http.MaxBytesReader(w, r.Body, limit))
	if err != nil {
		done()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, nil, badf("the body ended early: %w", err)
		}
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			return nil, nil, failf(http.StatusRequestTimeout, "the body did not arrive within %v", time.Duration(s.limits.ReadTime))
		}
		return nil, nil, err
	}
	_ = control.SetReadDeadline(time.Time{})
	return b, done, nil
}

// readInto reads all of r behind what b has.
func readInto(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = slices.Grow(b, max(len(b), 512))
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}
