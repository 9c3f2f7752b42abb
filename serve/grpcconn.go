package serve

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// rpcListener has connections whose answers must be taken within a time. Connections that
// have not begun to speak do not keep the server from ending.
type rpcListener struct {
	net.Listener
	patience time.Duration

	mu     sync.Mutex
	silent map[*rpcConn]bool // connections that have not begun to speak
	ended  bool
}

func (l *rpcListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	x := &rpcConn{Conn: c, from: l, untaken: make(map[*reply]bool)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = c.Close() // it is not begun, and its client tries again elsewhere
		return x, nil
	}
	l.silent[x] = true
	return x, nil
}

// end closes connections that have not begun to speak, and those that come.
func (l *rpcListener) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for c := range l.silent {
		_ = c.Conn.Close() // its client tries again elsewhere
	}
}

// forget has a connection end as those do that speak.
func (l *rpcListener) forget(c *rpcConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.silent, c)
}

// rpcConn is a connection of gRPC.
type rpcConn struct {
	net.Conn
	from *rpcListener

	mu      sync.Mutex
	untaken map[*reply]bool // nil once it is closed
}

// rpcAddr is the remote address of a connection, by which a call has its connection.
type rpcAddr struct {
	net.Addr
	conn *rpcConn
}

func (c *rpcConn) RemoteAddr() net.Addr { return rpcAddr{c.Conn.RemoteAddr(), c} }

// SetDeadline is called by package grpc before it waits for a client to begin, and with no
// time when it has.
func (c *rpcConn) SetDeadline(t time.Time) error {
	if t.IsZero() {
		c.from.forget(c)
	}
	return c.Conn.SetDeadline(t)
}

func (c *rpcConn) Write(b []byte) (int, error) {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.from.patience)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Close ends the connection, and with it what was to be sent.
func (c *rpcConn) Close() error {
	c.from.forget(c)
	c.mu.Lock()
	left := c.untaken
	c.untaken = nil
	c.mu.Unlock()
	for a := range left {
		a.release()
	}
	return c.Conn.Close()
}

// reply is an answer that its client has not taken yet. It counts as a body of its client's, and
// ends its connection after the time for being taken: a client may read all that comes, and
// yet open no window for it.
type reply struct {
	message any
	held    *hold
	conn    *rpcConn
	late    *time.Timer
}

// enter counts an answer of some bytes in, until release counts it out.
func (a *reply) enter(size int) {
	a.conn.mu.Lock()
	defer a.conn.mu.Unlock()
	if a.conn.untaken == nil {
		return
	}
	a.conn.untaken[a] = true
	_ = a.held.take(int64(size))                                                 // it is there already: what its client asks for next is refused
	a.late = time.AfterFunc(a.conn.from.patience, func() { _ = a.conn.Close() }) // its client is told by that
}

func (a *reply) release() {
	a.late.Stop()
	a.held.release()
}

// Put is called by package grpc when the answer is sent or will not be.
func (a *reply) Put(*[]byte) {
	a.conn.mu.Lock()
	defer a.conn.mu.Unlock()
	if a.conn.untaken[a] {
		delete(a.conn.untaken, a)
		a.release()
	}
}

// Get makes a reply a pool of buffers, which it is for one alone.
func (a *reply) Get(size int) *[]byte {
	b := make([]byte, size)
	return &b
}

// codec reads and writes messages as package grpc does, and knows how large they become and when
// answers are sent.
type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*reply)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	b, err := proto.Marshal(a.message.(proto.Message))
	a.message = nil // it may have the memory of a whole batch
	if err != nil {
		return nil, err
	}
	if mem.IsBelowBufferPoolingThreshold(len(b)) { // for such no pool is told
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	a.enter(len(b))
	return mem.BufferSlice{mem.NewBuffer(&b, a)}, nil
}
