package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Options configure a client. The zero value is useful.
type Options struct {
	Token string // sent with every request; "" for none
	// HTTP makes the requests; nil is a client of its own. It is not used for Unix sockets.
	HTTP *http.Client
	// Trusted has certificates, in PEM, that a server by https is trusted by in place of those
	// that the system knows. It is not used with HTTP.
	Trusted []byte
	// Attempts limits how often a request is sent (4). It is sent again only if no server
	// answered, or one that was too busy; -1 sends it once.
	Attempts int
}

// Client talks to a server. It may be used by several goroutines.
type Client struct {
	base     string
	token    string
	http     *http.Client
	own      bool // http was made here
	attempts int
}

// maxAnswer is the most that is read of an answer, in bytes: what cannot be a prediction.
const maxAnswer = 1 << 30

// NewClient returns a client of the server at an address: a URL ("http://127.0.0.1:8000"),
// or "unix:/path" for a socket.
func NewClient(address string, o Options) (*Client, error) {
	c := &Client{base: strings.TrimRight(address, "/"), token: o.Token, http: o.HTTP, attempts: o.Attempts}
	if c.attempts == 0 {
		c.attempts = 4
	}
	path, socket := strings.CutPrefix(address, "unix:")
	if c.http == nil || socket {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = 64
		if len(o.Trusted) > 0 {
			t.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
			if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(o.Trusted) {
				return nil, errors.New("api: no certificates in what the server is to be trusted by; give them as PEM")
			}
		}
		if socket {
			c.base = "http://localhost"
			t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			}
		}
		c.http, c.own = &http.Client{Transport: t}, true
	}
	if u, err := url.Parse(c.base); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("api: %q is no address; write http://HOST:PORT, https://HOST:PORT or unix:/PATH", address)
	}
	return c, nil
}

// Close closes connections that are idle. A client that was given in Options is left alone.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

// Error is an answer that is not the one wanted.
type Error struct {
	Status     int           // of HTTP
	Message    string        // what the server said
	RetryAfter time.Duration // how long it asks to wait; 0 if it does not
}

func (e *Error) Error() string { return fmt.Sprintf("%s (status %d)", e.Message, e.Status) }

// again reports whether a request that was answered so may be made again.
func (e *Error) again() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
}

// call is a request to the server.
type call struct {
	method, path string
	header       http.Header
	body         []byte
	repeatable   bool // making it twice is as good as once
}

// do makes a request until it is answered or not to be made again. The caller closes the
// body of the answer, which has status 2xx.
func (c *Client) do(ctx context.Context, q call) (*http.Response, error) {
	for attempt := 1; ; attempt++ {
		resp, err := c.once(ctx, q)
		if err == nil {
			return resp, nil
		}
		refused := (*Error)(nil)
		again := q.repeatable
		if errors.As(err, &refused) {
			again = refused.again() // it was not begun
		}
		if !again || attempt >= c.attempts || ctx.Err() != nil {
			return nil, err
		}
		if !pause(ctx, attempt, refused) {
			return nil, err
		}
	}
}

// pause waits before a request is made again: for the time the server asks for, or 50 ms,
// doubled with each attempt. A random extra delay of up to half of that, with a bound that also
// doubles, keeps clients that were refused together from coming back together. pause reports
// whether the context leaves time for the wait.
func pause(ctx context.Context, attempt int, refused *Error) bool {
	wait := 50 * time.Millisecond << min(attempt-1, 6)
	if refused != nil && refused.RetryAfter > 0 {
		wait = refused.RetryAfter
	}
	wait += rand.N(wait/2<<min(attempt-1, 6) + 1)
	if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
		return false
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// once makes a request.
func (c *Client) once(ctx context.Context, q call) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, q.method, c.base+q.path, bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	for k, v := range q.header {
		r.Header[k] = v
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, refusal(resp)
}

// refusal makes an error of an answer.
func refusal(resp *http.Response) *Error {
	e := &Error{Status: resp.StatusCode, Message: http.StatusText(resp.StatusCode)}
	// The precise time if there is one, and at most an hour.
	ms, err := strconv.ParseFloat(resp.Header.Get(HeaderRetry), 64)
	if s, noTime := strconv.Atoi(resp.Header.Get("Retry-After")); err != nil && noTime == nil {
		ms = 1e3 * float64(s)
	}
	if ms > 0 && ms < 3600e3 {
		e.RetryAfter = time.Duration(ms * float64(time.Millisecond))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return e // the status says enough
	}
	var said struct {
		Error string `json:"error"`
	}
	line := strings.TrimSpace(string(text))
	switch {
	case json.Unmarshal(text, &said) == nil && said.Error != "":
		e.Message = said.Error
	case line != "" && len(line) <= maxLine && !strings.ContainsAny(line, "<\n"): // of a proxy, or of a server that wants TLS
		e.Message = line
	}
	return e
}

// maxLine is the longest text that is taken for what a server says that is not one of weft.
const maxLine = 200

// json makes a request with a value and reads the answer into another; either may be nil.
func (c *Client) json(ctx context.Context, method, path string, header http.Header, in, out any) error {
	q := call{method: method, path: path, header: header, repeatable: method == http.MethodGet || header.Get(idempotencyKey) != ""}
	if in != nil {
		var err error
		if q.body, err = json.Marshal(in); err != nil {
			return err
		}
		if q.header = q.header.Clone(); q.header == nil {
			q.header = http.Header{}
		}
		q.header.Set("Content-Type", "application/json")
	}
	resp, err := c.do(ctx, q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := readAll(resp)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("api: %s %s: %w", method, path, err)
	}
	return nil
}

// readAll reads an answer. Of what the server says of its length the first megabyte is believed.
func readAll(resp *http.Response) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(resp.ContentLength, 0), 1<<20)) + bytes.MinRead)
	_, err := b.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && b.Len() > maxAnswer {
		err = fmt.Errorf("api: the answer has more than %d bytes", maxAnswer)
	}
	return b.Bytes(), err
}

// Server says what the server is.
func (c *Client) Server(ctx context.Context) (out ServerMetadata, err error) {
	return out, c.json(ctx, http.MethodGet, "/v2", nil, nil, &out)
}

// Ready returns nil if the server is ready for requests, else why it is not.
func (c *Client) Ready(ctx context.Context) error {
	resp, err := c.once(ctx, call{method: http.MethodGet, path: "/v2/health/ready"})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Model says what a model takes and gives; version "" is the newest.
func (c *Client) Model(ctx context.Context, name, version string) (out ModelMetadata, err error) {
	return out, c.json(ctx, http.MethodGet, modelPath(name, version), nil, nil, &out)
}

// Models lists the models of the server, ready or not.
func (c *Client) Models(ctx context.Context) (out []ModelStatus, err error) {
	return out, c.json(ctx, http.MethodPost, "/v2/repository/index", nil, struct{}{}, &out)
}

// Load has the server load a model from its folder, or load it again.
func (c *Client) Load(ctx context.Context, name string) error {
	return c.json(ctx, http.MethodPost, "/v2/repository/models/"+url.PathEscape(name)+"/load", nil, struct{}{}, nil)
}

// Unload has the server unload a model, after the requests under way.
func (c *Client) Unload(ctx context.Context, name string) error {
	return c.json(ctx, http.MethodPost, "/v2/repository/models/"+url.PathEscape(name)+"/unload", nil, struct{}{}, nil)
}

// modelPath returns the path of a model, or of one version of it.
func modelPath(name, version string) string {
	p := "/v2/models/" + url.PathEscape(name)
	if version != "" {
		p += "/versions/" + url.PathEscape(version)
	}
	return p
}
