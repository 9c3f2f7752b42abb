package serve

import "net/http"

// A stranger is a client that has not shown a token. Strangers take memory in two ways: heads of requests, which the server
// reads before it can look for a token, and requests without a token whose answers are not read, of which one connection of
// HTTP/2 may have hundreds. The server counts both by connection. Beyond the limit, the address with the most such
// connections loses its oldest one.

const (
	// freeBytes of what comes do not count: a connection has room for them anyway.
	freeBytes = 4 << 10
	// strangerBytes is the memory of a request in bytes, its head not included.
	strangerBytes = 16 << 10
)

// burden counts the memory that a connection takes for strangers. connections.mu guards it.
type burden struct {
	strangers int // requests under way, of such clients
	bytes     int64
	spot      // in connections.heavy, while bytes is not 0
}

// burdens limits what all connections take so: to a part of the memory for bodies, and at least to a few heads. It is called
// before any is open.
func (t *connections) burdens(bodies, head int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.head, t.mostHeavy = head, max(bodies/8, 4*(head+strangerBytes))
}

// received counts bytes that came.
func (c *connection) received(n int) {
	if c.came.Add(int64(n)) > freeBytes && !c.known.Load() {
		c.of.weigh(c, 0)
	}
}

// stranger counts a request in whose client is not known, and returns what counts it out. Requests of tests have no
// connection.
func (c *connection) stranger() (out func()) {
	if c == nil {
		return func() {}
	}
	c.of.weigh(c, 1)
	return func() { c.of.weigh(c, -1) }
}

// weigh counts requests of clients that are not known in or out, and ends connections while all take too much.
func (t *connections) weigh(c *connection, strangers int) {
	var out []*connection
	told := func() {}
	t.mu.Lock()
	if c.burden.strangers += strangers; strangers < 0 && c.burden.strangers == 0 {
		c.came.Store(0) // the head of the next is counted from here on
	}
	for t.reweigh(c); t.heavyBytes > t.mostHeavy; {
		x := t.heavy.oldest()
		t.remove(x)
		out = append(out, x)
	}
	if len(out) > 0 {
		t.lost.ended += len(out)
		t.lost.heavy = true
		if tell := t.tells(); tell != nil {
			told = tell
		}
	}
	t.mu.Unlock()
	for _, x := range out {
		_ = x.Conn.Close() // its client is told by that
	}
	told()
}

// reweigh brings the burden of a connection up to date. t.mu is held.
func (t *connections) reweigh(c *connection) {
	bytes := int64(c.burden.strangers) * (strangerBytes + t.head)
	if came := c.came.Load(); came > freeBytes && !c.known.Load() {
		bytes += min(came, 2*t.head+strangerBytes) // what comes after a request and is not wanted is not kept
	}
	if c.gone {
		bytes = 0
	}
	t.heavyBytes += bytes - c.burden.bytes
	was := c.burden.bytes
	switch c.burden.bytes = bytes; {
	case was == 0 && bytes > 0:
		t.heavy.add(c, &c.burden.spot)
	case was > 0 && bytes == 0:
		t.heavy.remove(&c.burden.spot)
	}
}

// written has the answer to a request of HTTP/2 written, which package http would do after the handler, when the request
// counts no more.
func written(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor > 1 {
		_ = http.NewResponseController(w).Flush() // a client that has gone needs no answer
	}
}
