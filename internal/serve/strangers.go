package serve

import "net/http"

// Memory that connections take for clients that are not known: for requests that are not there yet, of which the head is
// read before anybody can say whose it is, and for requests without a token, to which the answer may not be taken. By
// HTTP/2 one connection may have hundreds of them. It counts by connection, and where all take too much of it, the address
// that has the most such connections loses its oldest.

const (
	// freeBytes of what comes do not count: a connection has room for them anyway.
	freeBytes = 4 << 10
	// strangerBytes is what a request takes beside its head.
	strangerBytes = 16 << 10
)

// burden is what a connection takes for clients that are not known. connections.mu guards it.
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
