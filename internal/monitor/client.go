package monitor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Client is attached to a runtime.
type Client struct {
	c    *net.UnixConn
	r    *reader
	wait time.Duration // for a frame
	stop func() bool
	ctx  context.Context
}

// Dial attaches to the runtime that listens at a path, until ctx ends.
func Dial(ctx context.Context, path string, every time.Duration) (*Client, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	c := &Client{c: conn, r: newReader(conn, maxFrame), wait: min(every, mostEvery) + askWait, ctx: ctx}
	if uid, err := peerOf(conn); err != nil || uid != os.Geteuid() {
		_ = conn.Close() // nothing was sent
		return nil, errors.Join(err, fmt.Errorf("%s: it belongs to user %d", path, uid))
	}
	line, err := json.Marshal(Request{Weft: Version, EveryMS: int(every.Milliseconds())})
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(writeWait))
	}
	if err != nil {
		_ = conn.Close() // the first error says more
		return nil, err
	}
	_, _ = conn.Write(append(line, '\n')) // a server that takes nothing says why by its first line
	c.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return c, nil
}

// Next waits for the next frame. It returns io.EOF when the runtime was closed.
func (c *Client) Next() (*Frame, error) {
	if err := c.c.SetReadDeadline(time.Now().Add(c.wait)); err != nil && c.ctx.Err() == nil {
		return nil, err
	}
	f, err := c.r.frame()
	switch {
	case c.ctx.Err() != nil:
		return nil, context.Cause(c.ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, errors.New("the runtime does not answer")
	case err != nil && (!errors.Is(err, ErrProtocol) || errors.Is(err, io.ErrUnexpectedEOF)):
		return nil, io.EOF // the connection is gone, and so is the runtime
	case err != nil:
		return nil, err
	case f.Error != "":
		return nil, errors.New(f.Error)
	}
	return f, nil
}

// Close detaches.
func (c *Client) Close() {
	c.stop()
	_ = c.c.Close() // nothing is owed
}
