package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode"
)

// Target is the address of a server.
type Target struct {
	text    string // as it was written
	network string // "tcp" or "unix"
	address string
	host    string // of the header Host
	prefix  string // of the paths of the protocol
	tls     *tls.Config
	grpc    bool
	model   string // that an address of gRPC names
}

// ParseTarget reads the address of a server: http://HOST:PORT or https://HOST:PORT, either with
// a path in front of the protocol's paths, unix:/PATH of a socket, or grpc://HOST:PORT/MODEL,
// or grpcs:// for TLS.
func ParseTarget(s string) (Target, error) {
	bad := func(format string, args ...any) (Target, error) {
		return Target{}, fmt.Errorf("%w: address %q: %s; write http://HOST:PORT, https://HOST:PORT, unix:/PATH or grpc://HOST:PORT/MODEL", ErrOption, s, fmt.Sprintf(format, args...))
	}
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		path = strings.TrimPrefix(path, "//") // unix:///path is how others write it
		if strings.Trim(path, "/") == "" || strings.ContainsRune(path, 0) {
			return bad("no path of a socket")
		}
		return Target{text: s, network: "unix", address: path, host: "localhost"}, nil
	}
	u, err := url.Parse(s)
	switch {
	case err != nil && strings.Contains(s, "://"):
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return bad("%v", err)
	case err != nil || !slices.Contains([]string{"http", "https", "grpc", "grpcs"}, u.Scheme):
		return bad("neither http nor https")
	case u.Hostname() == "":
		return bad("no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return bad("a query or fragment has no meaning here")
	case u.User != nil:
		return bad("a name and password have no meaning here")
	}
	t := Target{text: s, network: "tcp", host: u.Host, prefix: strings.TrimRight(u.EscapedPath(), "/")}
	port := u.Port()
	if t.grpc = strings.HasPrefix(u.Scheme, "grpc"); t.grpc {
		t.prefix, t.model = "", strings.Trim(u.Path, "/")
		switch {
		case port == "":
			return bad("no port")
		case strings.Contains(t.model, "/"):
			return bad("a path that is no name of a model")
		}
	}
	if u.Scheme == "grpcs" {
		t.tls = &tls.Config{ServerName: u.Hostname()} // package grpc adds its protocol
	}
	if u.Scheme == "https" {
		t.tls = &tls.Config{ServerName: u.Hostname(), NextProtos: []string{"http/1.1"}}
	}
	switch {
	case port == "" && t.tls != nil:
		port = "443"
	case port == "":
		port = "80"
	}
	t.address = net.JoinHostPort(u.Hostname(), port)
	return t, nil
}

// String returns the address as it was written.
func (t Target) String() string { return t.text }

// Secure reports whether the server is reached by https, or gRPC with TLS.
func (t Target) Secure() bool { return t.tls != nil }

// Trust makes t accept certificates that were signed by those in pem alone.
func (t *Target) Trust(pem []byte) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%w: no certificate in PEM", ErrOption)
	}
	t.tls = t.tls.Clone()
	t.tls.RootCAs = roots
	return nil
}

// dial connects.
func (t Target) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, t.network, t.address)
	if err != nil || t.tls == nil || t.grpc { // whose own library encrypts
		return c, err
	}
	s := tls.Client(c, t.tls)
	if err := s.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

// failed is the error of a server that could not be asked.
func (t Target) failed(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	hint := ""
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		hint = "; is the server running there?"
	}
	return fmt.Errorf("%s: %s%s", t, cause(err), hint)
}

// cause describes an error in a few words, without addresses and system calls, so that errors
// of one kind are counted together.
func cause(err error) string {
	var (
		number syscall.Errno
		lookup *net.DNSError
	)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &lookup):
		return "host not found: " + lookup.Name
	case errors.As(err, &number):
		return number.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed by the server"
	}
	return shown(err.Error())
}

// shown is text of others as a line of bounded length without control characters.
func shown(text string) string {
	long := len(text) > maxCause
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), maxCause)], "")), " "))
	if long {
		text += "…"
	}
	return text
}

// maxCause is the longest text of others that is shown, in bytes.
const maxCause = 200
