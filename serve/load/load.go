// Package load sends predictions to a server of the Open Inference Protocol v2 at a rate that
// does not depend on its answers, and says how long they took. weft load prints what it says. It knows
// nothing of weft's own server: any that speaks the protocol over HTTP/1.1 or gRPC will do.
//
// The load is open: the time of each request is decided before the first one is sent
// (arrivals.go), and its latency counts from that time, whether or not a connection was free
// then. A server that stalls therefore has the stall in the latency of every request that
// arrived meanwhile, as its users would.
//
// Files: target.go (addresses), model.go (what a model takes), tensor.go (inputs and requests),
// conn.go (one connection), grpc.go (one by gRPC), arrivals.go (when requests are sent), run.go (one load), wait_*.go (waiting
// for a time), histogram.go and result.go (what it was like).
//
//	schedule ─next─► turn ─► wait until it is due ─► turn is handed on
//	                  ▲                                    │
//	                  └── the next free connection    send, read the answer, count
//
// The turn is held by one goroutine, which has a free connection and waits for the next arrival. It hands the turn on
// and sends the request itself, so that nothing has to be woken between the moment a request is due and the system
// call that sends it. A connection of gRPC is one of package grpc for itself, and messages are bytes before the load
// begins (grpc.go). The wait (wait_linux.go) leaves the last 2 ms to a thread that sleeps in the kernel without slack,
// since Go's timers are those of epoll, in milliseconds. Late is what was sent more than 1 ms after it was due. The
// time that this process added (from when a request was due and its connection free to when it was sent) is
// reported separately: if it is long, the generator was the bottleneck, and the report says so. Each arrival is
// counted once: answered, refused, failed, timed out, unsent or unfinished. In tests time is virtual
// (testing/synctest) and connections are pipes, so that latencies are exact.
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Options are the requests of a load and their target.
type Options struct {
	Target  Target
	Model   string // "" for the only one the server has
	Version string // "" for the one the server chooses
	Inputs  []Tensor
	Batch   int    // items in a request; 0 for 1, or for as many as the given inputs have
	Seed    uint64 // of inputs that are not given
	Binary  bool   // tensors as bytes behind the JSON, both ways; by gRPC they always are bytes
	Token   string // of the header Authorization; "" for none

	Connections int           // 0 for 64
	Timeout     time.Duration // from sending a request to its answer; 0 for 10 s
	// Each, if it is not nil, is called with every measured request that was sent: the time it
	// was due, the time it ended, and whether it was answered. Several goroutines call it at a
	// time.
	Each func(due, end time.Time, answered bool)

	dial func(ctx context.Context) (net.Conn, error) // nil for the network
}

// MaxConnections bounds Options.Connections: beyond it most systems have no ports or files left.
const MaxConnections = 16384

// Client is a server with the requests that it will be sent.
type Client struct {
	o        Options
	model    model
	requests [][]byte // whole, with their heads; sent in turn
	batch    int
	wait     func(ctx context.Context, until time.Time) error
}

// Open asks the server for the model's inputs, makes requests of them and sends one, so that
// whatever is wrong with them is known before any load.
func Open(ctx context.Context, o Options) (*Client, error) {
	if o.Connections == 0 {
		o.Connections = 64
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	switch {
	case o.Connections < 1 || o.Connections > MaxConnections:
		return nil, fmt.Errorf("%w: %d connections; it must be from 1 to %d", ErrOption, o.Connections, MaxConnections)
	case o.Timeout < time.Millisecond || o.Timeout > time.Hour:
		return nil, fmt.Errorf("%w: a timeout of %v; it must be from 1ms to 1h", ErrOption, o.Timeout)
	case o.Batch < 0 || o.Batch > 1<<20:
		return nil, fmt.Errorf("%w: a batch of %d; it must be from 1 to %d", ErrOption, o.Batch, 1<<20)
	}
	for _, r := range o.Token {
		if r <= ' ' || r > '~' {
			return nil, fmt.Errorf("%w: the token has a blank or a character that HTTP does not allow there", ErrOption)
		}
	}
	if o.dial == nil {
		o.dial = o.Target.dial
	}
	c := &Client{o: o, wait: waitUntil}
	cn := &conn{client: c}
	defer cn.close()
	if err := c.ask(ctx, cn); err != nil {
		return nil, err
	}
	if err := c.compose(); err != nil {
		return nil, err
	}
	return c, c.try(ctx, cn)
}

// ErrOption marks invalid load options, as opposed to server failures.
var ErrOption = errors.New("bad load")

// try sends one request, whose answer must be good.
func (c *Client) try(ctx context.Context, cn *conn) error {
	a, err := cn.exchange(ctx, c.requests[0], time.Now().Add(c.o.Timeout), true)
	if err != nil {
		return c.o.Target.failed(err)
	}
	if a.status != http.StatusOK {
		return fmt.Errorf("%s: a first request to model %q was answered with %s", c.o.Target, c.model.Name, a.reason())
	}
	return nil
}
