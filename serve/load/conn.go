package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// conn is a connection that carries one request at a time. It is made when it is needed, and
// again after it has ended. The client of net/http would do as well; with this one an exchange takes
// half of the processor time on both sides together (13 to 19 µs in place of 28), which a machine that
// also serves is short of, and it is known who was late.
type conn struct {
	client *Client
	c      net.Conn
	r      *bufio.Reader
	m      meter       // of what r reads
	stop   func() bool // ends the watch over the context
	used   bool        // has carried an answer: the server may have closed it since
	again  uint64      // how often it was made again
	rpc    *rpcConn    // in place of c, by gRPC
}

// answer is the answer to a request.
type answer struct {
	status int
	code   string // of gRPC, in place of the words for the status
	body   []byte // where it was asked for
}

// good reports whether it is the prediction that was asked for.
func (a *answer) good() bool { return a.status >= 200 && a.status < 300 }

// meter reads from a connection, up to a number of bytes.
type meter struct {
	net.Conn
	left int64
}

func (m *meter) Read(b []byte) (int, error) {
	if m.left <= 0 {
		return 0, errLong
	}
	n, err := m.Conn.Read(b[:min(int64(len(b)), m.left)])
	m.left -= int64(n)
	return n, err
}

// maxHead is the most bytes of the head of an answer, and errLong the error if there are more.
const maxHead = 1 << 20

var errLong = errors.New("the head of the answer is too long")

// maxBody is the most bytes of a body that is kept.
const maxBody = 4 << 20

// exchange sends a request and reads the answer, which must be there by the deadline. The body
// is dropped unless keep is set. A connection that the server has closed since the last answer
// is made again, once; a server may close those that are idle.
func (c *conn) exchange(ctx context.Context, request []byte, deadline time.Time, keep bool) (answer, error) {
	if c.client.o.Target.grpc {
		return c.call(ctx, request, deadline)
	}
	for {
		stale := c.used
		a, began, err := c.once(ctx, request, deadline, keep)
		if err == nil {
			return a, nil
		}
		c.close()
		if ctx.Err() != nil {
			return a, context.Cause(ctx)
		}
		if !stale || began || errors.Is(err, os.ErrDeadlineExceeded) {
			return a, err
		}
		c.again++
	}
}

// once is one try of an exchange. It reports whether an answer has begun.
func (c *conn) once(ctx context.Context, request []byte, deadline time.Time, keep bool) (a answer, began bool, err error) {
	if err := c.open(ctx, deadline); err != nil {
		return a, false, err
	}
	if err := c.c.SetDeadline(deadline); err != nil {
		return a, false, err
	}
	c.m.left = maxHead
	_, wrote := c.c.Write(request)
	if wrote != nil && errors.Is(wrote, os.ErrDeadlineExceeded) {
		return a, false, wrote
	}
	// A server may refuse a long request before it has read it: its answer says why.
	if _, err := c.r.Peek(1); err != nil {
		if wrote != nil {
			err = wrote
		}
		return a, false, err
	}
	r, err := http.ReadResponse(c.r, nil)
	for err == nil && r.StatusCode < 200 && r.StatusCode != http.StatusSwitchingProtocols {
		r, err = http.ReadResponse(c.r, nil)
	}
	if err != nil {
		return a, true, err
	}
	defer r.Body.Close()
	c.m.left = math.MaxInt64 // the deadline ends what never ends
	a.status = r.StatusCode
	if keep || r.StatusCode >= 400 {
		a.body, err = io.ReadAll(io.LimitReader(r.Body, maxBody))
	}
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		return a, true, err
	}
	c.used = true
	if r.Close || wrote != nil {
		c.close()
	}
	return a, true, nil
}

// open connects unless there is a connection.
func (c *conn) open(ctx context.Context, deadline time.Time) error {
	if c.c != nil || c.rpc != nil {
		return nil
	}
	dialing, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	made, err := c.client.o.dial(dialing)
	if err != nil {
		return err
	}
	if c.client.o.Target.grpc {
		return c.openRPC(dialing, made)
	}
	c.c, c.used = made, false
	c.m = meter{Conn: made, left: maxHead}
	if c.r == nil {
		c.r = bufio.NewReaderSize(&c.m, 32<<10)
	} else {
		c.r.Reset(&c.m)
	}
	c.stop = context.AfterFunc(ctx, func() { made.Close() })
	return nil
}

// close ends the connection, if there is one.
func (c *conn) close() {
	if c.rpc != nil {
		c.closeRPC()
	}
	if c.c == nil {
		return
	}
	c.stop()
	c.c.Close()
	c.c, c.used = nil, false
}

// name is the kind of an answer in words.
func (a answer) name() string {
	if a.code != "" {
		return a.code
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)))
}

// reason is a bad answer in words, with what the server says about it.
func (a answer) reason() string {
	text := a.name()
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(a.body, &said) == nil && said.Error != "" {
		return text + ": " + shown(said.Error)
	}
	return text
}
