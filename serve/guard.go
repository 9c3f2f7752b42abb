package serve

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/serve/internal/infer"
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
	return failure{status, max(after, time.Microsecond), fmt.Errorf(format, args...)}
}

// statusOf returns the status of an error, and the time to wait before asking again.
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
		return http.StatusServiceUnavailable, max(busy.RetryAfter, time.Microsecond)
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
		// Whole seconds are all that HTTP has, and too long by far for most who are refused.
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
		w.Header().Set(api.HeaderRetry, strconv.FormatFloat(float64((after+time.Microsecond-1)/time.Microsecond)/1e3, 'f', -1, 64))
	}
	if status == http.StatusRequestTimeout || status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // what follows is not read
	}
	s.answer(w, status, map[string]string{"error": strings.ReplaceAll(err.Error(), "\n", "; ") + remedy(err)})
}

// remedy returns a remedy for an error of the service that names none.
func remedy(err error) string {
	switch {
	case errors.Is(err, infer.ErrNotFound):
		return "; POST /v2/repository/index lists the models there are"
	case errors.Is(err, infer.ErrExpired):
		return "; send a longer timeout among the parameters, in microseconds, or none"
	}
	return ""
}

// answer writes a value as JSON. Text of JSON is written as it is.
func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	b, ready := v.(json.RawMessage)
	if !ready {
		var err error
		if b, err = json.Marshal(v); err != nil {
			s.log.Error("an answer could not be written", "err", err)
			status, b = http.StatusInternalServerError, []byte(`{"error":"the answer could not be written"}`)
		}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	h.Set("Cache-Control", "no-store")
	s.hurry(w)
	w.WriteHeader(status)
	if len(b) <= smallAnswer {
		b = append(slices.Clip(b), '\n')
	}
	_, err := w.Write(b) // a client that has gone needs no answer
	if err == nil && len(b) > smallAnswer {
		_, _ = w.Write(newLine)
	}
}

var newLine = []byte{'\n'}

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
		if closeAfter(r) {
			h["Connection"] = closed
		}
		h["X-Content-Type-Options"] = noSniff
		h["X-Frame-Options"] = noFrame
		h["Referrer-Policy"] = noReferrer
		h["Cross-Origin-Resource-Policy"] = sameOrigin
		question := s.shareWith(h, r)
		if err := s.local(r); err != nil {
			s.refuse(w, r, err)
			return
		}
		if question { // which comes without a token
			defer connectionOf(r.Context()).stranger()()
			w.WriteHeader(http.StatusNoContent)
			written(w, r)
			return
		}
		ask, err := s.admit(r.Context(), address(r.RemoteAddr), r.Header.Get("Authorization"), isProbe(r))
		if err != nil {
			if status, _ := statusOf(err); status == http.StatusUnauthorized {
				h.Set("WWW-Authenticate", `Basic realm="weft", charset="UTF-8"`)
				h.Add("WWW-Authenticate", `Bearer realm="weft"`)
			}
			s.refuse(w, r, err)
			return
		}
		defer s.dismiss(ask)
		if ask.who == nil && ask.conn == nil { // a probe of somebody who is not known
			defer connectionOf(r.Context()).stranger()()
		}
		r = r.WithContext(ask)
		ask.answer = answerWriter{ResponseWriter: w, s: s, r: r}
		next.ServeHTTP(&ask.answer, r)
		ask.answer.begin()
		written(w, r)
	})
}

// refuse answers a request of which nothing more is known than that it is not let in.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	defer connectionOf(r.Context()).stranger()()
	s.fail(w, r, err)
	written(w, r)
}

// closeAfter reports whether a connection ends after a request, for what follows may be a part of it to a proxy
// that looked at the other of Content-Length and Transfer-Encoding (RFC 9112, 6.1). Package http removes one of
// them before anybody sees it: the length of a request in chunks, and the encoding of one of HTTP/1.0. So
// it ends after every such request.
func closeAfter(r *http.Request) bool {
	return r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0)
}

// Values of headers that many answers have, which are never changed in place.
var (
	closed     = []string{"close"}
	noSniff    = []string{"nosniff"}
	noFrame    = []string{"DENY"}
	noReferrer = []string{"no-referrer"}
	sameOrigin = []string{"same-origin"}
	asJSON     = []string{"application/json"}
	asBytes    = []string{"application/octet-stream"}
)

// asked is the context of a request, with who made it.
type asked struct {
	context.Context
	name string
	who  *client     // nil for a probe
	conn *connection // nil for whoever is not known, and in tests
	// Of HTTP, and of gRPC.
	answer answerWriter
	held   *hold
}

type askedKey struct{}

// Value has the context itself under its key.
func (a *asked) Value(key any) any {
	if key == (askedKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// clientOf returns the client that makes a request.
func clientOf(ctx context.Context) string {
	if a, ok := ctx.Value(askedKey{}).(*asked); ok {
		return a.name
	}
	return ""
}

// isProbe reports whether a request asks how the server is, which anybody may.
func isProbe(r *http.Request) bool {
	switch r.URL.Path {
	case "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready":
		return r.Method == http.MethodGet || r.Method == http.MethodHead
	}
	return false
}

// address is the machine of where a request comes from.
func address(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return "local" // a Unix socket's
	}
	return host
}

// admit lets a request in from a machine, with what it has as Authorization, and returns its
// context with who makes it. The caller dismisses it when the request has ended. Anybody may
// probe.
func (s *Server) admit(ctx context.Context, from, authorization string, probe bool) (*asked, error) {
	name, err := s.identify(ctx, from, authorization)
	if probe {
		if err != nil {
			return &asked{Context: ctx, name: anonymous}, nil
		}
		ask := &asked{Context: ctx, name: name, conn: connectionOf(ctx)}
		ask.conn.enter()
		return ask, nil
	}
	if err != nil {
		if status, _ := statusOf(err); status == http.StatusUnauthorized {
			// Those who have no token have the rate of one client.
			who, wait := s.clients.enter("address " + neighbours(from))
			if wait > 0 {
				return nil, busyf(http.StatusTooManyRequests, wait, "too many requests without a token that is known")
			}
			s.clients.leave(who)
		}
		return nil, err
	}
	who, wait := s.clients.enter(name)
	if wait > 0 {
		return nil, busyf(http.StatusTooManyRequests, wait, "too many requests of %s: try again in %v", name, wait.Round(time.Microsecond))
	}
	ask := &asked{Context: ctx, name: name, who: who, conn: connectionOf(ctx)}
	ask.conn.enter()
	return ask, nil
}

// dismiss counts a request out that was let in.
func (s *Server) dismiss(ask *asked) {
	if ask.who != nil {
		s.clients.leave(ask.who)
	}
	ask.conn.leave()
}

// anonymous is the name of whoever asks for health without a token that is known, where tokens
// are wanted.
const anonymous = ""

// guessRate is how many wrong tokens an address may send a second, and guessBurst how many
// at once: more than a mistaken client needs, and far too few to find a token.
const (
	guessRate  = 10
	guessBurst = 100
)

// identify returns the name of a client: that of its token, or its address, of IPv6 the network.
//
// An address that has sent too many wrong tokens has none looked at for a while, right or
// wrong, for else guessing would go on at any speed. That does not hold for a token that its
// connection has shown before: who has it does not guess.
func (s *Server) identify(ctx context.Context, from, authorization string) (string, error) {
	ts := s.tokens.Load()
	if ts == nil {
		return neighbours(from), nil
	}
	token := bearer(authorization)
	if token == "" {
		return "", failf(http.StatusUnauthorized, "this server wants a token: send Authorization: Bearer TOKEN")
	}
	hash := sha256.Sum256([]byte(token))
	shown := (*shown)(nil)
	if c := connectionOf(ctx); c != nil {
		shown = &c.shown
	}
	allowance := (*client)(nil) // nil for a token that is no guess
	if !shown.has(&hash) {
		who, wait := s.guesses.enter(neighbours(from))
		if wait > 0 {
			return "", busyf(http.StatusTooManyRequests, wait, "too many wrong tokens came from your address: try again in %v", wait.Round(time.Microsecond))
		}
		defer s.guesses.leave(who)
		allowance = who
	}
	name, ok := ts.who(&hash)
	if !ok {
		return "", failf(http.StatusUnauthorized, "the token is not one that this server knows")
	}
	if allowance != nil {
		s.guesses.forgive(allowance)
		shown.keep(&hash)
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
	switch dest := r.Header.Get("Sec-Fetch-Dest"); dest {
	case "iframe", "frame", "embed", "object":
		return failf(http.StatusForbidden, "nothing of this server may be put into a page, as %s", dest)
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		same := err == nil && strings.EqualFold(u.Host, r.Host) && (u.Scheme == s.scheme() || r.TLS != nil && u.Scheme == "https")
		if !same && !s.listed(origin) {
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
	if s.secure(s.network) {
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
	if name == "localhost" || isAddress(name) {
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

// isAddress reports whether a host is an address and no name. An address with a zone is none: the zone
// is any text, and browsers send none.
func isAddress(host string) bool {
	at, err := netip.ParseAddr(host)
	return err == nil && at.Zone() == ""
}

// certified reports whether a certificate is for a name.
func certified(leaf *x509.Certificate, name string) bool {
	return leaf != nil && leaf.VerifyHostname(name) == nil
}
