package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/weft-run/weft/internal/safefile"
)

// readSecrets reads the files of tokens and of the certificate.
func (s *Server) readSecrets() error {
	if s.config.Tokens != "" {
		ts, err := loadTokens(s.config.Tokens)
		if err != nil {
			return err
		}
		s.tokens.Store(&ts)
	}
	if s.config.TLS.Cert == "" {
		return nil
	}
	cert, err := safefile.ReadNamed(s.config.TLS.Cert, 1<<20)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	key, err := safefile.ReadSecret(s.config.TLS.Key, 1<<20)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key) // with its leaf
	if err != nil {
		return fmt.Errorf("tls: %s and %s: %w", s.config.TLS.Cert, s.config.TLS.Key, err)
	}
	s.cert.Store(&pair)
	return nil
}

// tlsConfig offers the certificate as it is at each connection. Go's defaults refuse what
// is older than TLS 1.2.
func (s *Server) tlsConfig() *tls.Config {
	if s.cert.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.cert.Load(), nil },
	}
}

// secure reports whether connections of a network have TLS. A Unix socket has none.
func (s *Server) secure(network string) bool { return network == "tcp" && s.config.TLS.Cert != "" }

// take takes the state folder and the addresses. Connections wait from then on, until accept.
func (s *Server) take() error {
	err := error(nil)
	if s.config.State != "" {
		err = s.jobs.restore(s.config.State, s.plan)
		s.countStructures()
	}
	if err == nil {
		if err = s.bind(); err != nil {
			err = errors.Join(err, s.jobs.release())
		}
	}
	if err != nil {
		s.endRelay()
		return err
	}
	s.jobs.resume()
	return nil
}

// bind takes the addresses.
func (s *Server) bind() error {
	network, address, err := s.config.address()
	if err != nil {
		return err
	}
	if network != "" {
		if s.listener, err = s.listen(network, address); err != nil {
			return err
		}
	}
	if s.grpc != nil {
		if err := s.listenGRPC(); err != nil {
			if s.listener != nil {
				_ = s.listener.Close() // the first error says more
			}
			return err
		}
	}
	if n := placesFor(s.limits.Connections, descriptors()); n < s.limits.Connections {
		s.conns.limit(n)
		s.log.Warn("fewer connections are taken than limits.connections says: raise the number of files that the process may open, by ulimit -n", "connections", n, "wanted", s.limits.Connections)
	}
	return nil
}

// spared are the descriptors that are left for other things than connections, but at most half of those there are.
const spared = 256

// placesFor returns how many connections there may be where so many descriptors are left.
func placesFor(wanted, left int) int { return max(min(wanted, left-min(spared, left/2)), 1) }

// listen takes an address, for as many connections as are allowed.
func (s *Server) listen(network, address string) (l net.Listener, err error) {
	if network == "unix" {
		l, err = listenUnix(address)
	} else {
		l, err = net.Listen(network, address)
	}
	if err != nil {
		return nil, err
	}
	return &limited{Listener: l, all: s.conns}, nil
}

// URL returns the address of the server, "" if it listens nowhere.
func (s *Server) URL() string {
	if s.listener == nil || s.network == "unix" {
		return s.config.Listen
	}
	return s.scheme() + "://" + s.listener.Addr().String()
}

// maxSocket is the longest name that a socket may have: 104 bytes on macOS, with a zero.
const maxSocket = 103

// listenUnix makes a socket that this user alone can connect to. It is made in a folder of
// its own, so that it is never there with other rights. One that nobody listens at is
// replaced.
func listenUnix(path string) (net.Listener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("%s: there is a file that is no socket; choose another path", path)
	default:
		if c, err := net.Dial("unix", path); err == nil {
			_ = c.Close() // nothing was sent
			return nil, fmt.Errorf("%s: another process listens there", path)
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".w")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	if len(made) > maxSocket || len(path) > maxSocket {
		return nil, fmt.Errorf("%s: the name of a socket has at most %d bytes, with some for a folder beside it; choose a shorter path", path, maxSocket)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		_ = l.Close() // the first error says more
		return nil, err
	}
	return &unixListener{l, path}, nil
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	*net.UnixListener
	path string
}

func (l *unixListener) Close() error {
	_ = os.Remove(l.path) // another process may have replaced it, and then finds it gone
	return l.UnixListener.Close()
}
