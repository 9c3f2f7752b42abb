package monitor

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// maxClients is the greatest number of clients at a time: each costs frames.
	maxClients = 8
	// askWait is the time that a client may take to ask, writeWait to take a frame.
	askWait   = 5 * time.Second
	writeWait = 2 * time.Second
	// leastEvery and mostEvery bound the time from one frame to the next.
	leastEvery = 100 * time.Millisecond
	mostEvery  = 10 * time.Second
)

// Source provides the data that one client sees.
type Source interface {
	// Frame returns what happens now, with the events since the last call.
	Frame() *Frame
	Close()
}

// Server shows a runtime to clients.
type Server struct {
	l      *socket
	source func() Source
	log    *slog.Logger
	uid    int // who may attach
	wait   time.Duration
	done   chan struct{}
	all    sync.WaitGroup

	mu    sync.Mutex
	conns map[*net.UnixConn]bool // being served
	shut  bool
}

// Serve listens at a path, or with "" at a new socket in Dir, and shows each client what a
// source of its own returns.
func Serve(path string, source func() Source, log *slog.Logger) (*Server, error) {
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	s := newServer(l, source, log)
	s.all.Go(s.accept)
	return s, nil
}

func newServer(l *socket, source func() Source, log *slog.Logger) *Server {
	return &Server{l: l, source: source, log: log, uid: os.Geteuid(), wait: writeWait, done: make(chan struct{}), conns: make(map[*net.UnixConn]bool)}
}

// Path returns the path at which it listens.
func (s *Server) Path() string { return s.l.Addr().String() }

// Close removes the socket and ends its connections.
func (s *Server) Close() {
	s.mu.Lock()
	again := s.shut
	s.shut = true
	for c := range s.conns {
		_ = c.Close() // whoever serves it finds out
	}
	s.mu.Unlock()
	if !again {
		close(s.done)
		_ = s.l.Close() // which removes the socket; there is nobody to tell
	}
	s.all.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.l.AcceptUnix()
		select {
		case <-s.done:
			if err == nil {
				_ = c.Close() // it came too late
			}
			return
		default:
		}
		if err != nil { // too many files are open, say
			s.log.Warn("a client of the socket was not taken", "err", err)
			select {
			case <-time.After(time.Second):
			case <-s.done:
			}
			continue
		}
		if err := s.admit(c); err != nil {
			s.log.Info("a client of the socket was refused", "err", err)
			_ = s.send(c, &Frame{Error: err.Error()}) // it may be gone
			_ = c.Close()
		}
	}
}

// admit serves a client, if it is this user's and there is room.
func (s *Server) admit(c *net.UnixConn) error {
	uid, err := peerOf(c)
	switch {
	case err != nil:
		return err
	case uid != s.uid:
		return fmt.Errorf("user %d may not attach to a runtime of user %d", uid, s.uid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == maxClients {
		return fmt.Errorf("%d clients are attached, which is the most", maxClients)
	}
	if s.shut {
		return net.ErrClosed
	}
	s.conns[c] = true
	s.all.Go(func() {
		defer func() {
			_ = c.Close() // nothing is owed to it
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		}()
		s.serve(c)
	})
	return nil
}

// peerOf returns the user at the other end of a connection.
func peerOf(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	if e := raw.Control(func(fd uintptr) { uid, err = peer(int(fd)) }); e != nil {
		return -1, e
	}
	return uid, err
}

// serve sends frames to a client until it is gone.
func (s *Server) serve(c *net.UnixConn) {
	if c.SetReadDeadline(time.Now().Add(askWait)) != nil {
		return
	}
	q, err := readRequest(c)
	if err != nil {
		_ = s.send(c, &Frame{Error: err.Error()}) // it may be gone
		return
	}
	every := min(max(time.Duration(min(q.EveryMS, 1<<30))*time.Millisecond, leastEvery), mostEvery)
	source := s.source()
	defer source.Close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for s.send(c, source.Frame()) == nil {
		select {
		case <-tick.C:
		case <-s.done:
			return
		}
	}
}

// send sends a frame, or errs if the client does not take it.
func (s *Server) send(c *net.UnixConn, f *Frame) error {
	line, err := encode(f)
	if err == nil {
		err = c.SetWriteDeadline(time.Now().Add(s.wait))
	}
	if err == nil {
		_, err = c.Write(line)
	}
	return err
}
