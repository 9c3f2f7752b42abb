package serve

import (
	"container/heap"
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Connections of HTTP and of gRPC share one number of places. Where all are taken, a new connection is given that of
// another, and refused only if all others have requests under way:
//
//   - first of one that is silent, which has not sent a request yet that the guard let in, by the head of the request; of
//     its oldest few one that has sent nothing, for the others may be about to have a request;
//   - then of one whose client is known and which is idle.
//
// Of these, the address with the most connections loses one first: its oldest silent one, or the one that has been idle
// for longest. An address that opens many connections therefore displaces its own, and a client with a token only has to
// send its request. A connection with requests under way is in no list, so that nothing is looked for: a place is found, or
// refused, in as many steps whatever the number of connections.

// connections are those that are open.
type connections struct {
	log   *slog.Logger
	every time.Duration // between two lines of the log; tests change it

	mu           sync.Mutex
	most         int // that may be open
	open         int
	silent, idle groups
	resting      list.List // those of idle, by the end of their last request
	heavy        groups    // those with a burden
	heavyBytes   int64     // of all burdens
	mostHeavy    int64     // that these may be
	head         int64     // most bytes of a head
	looks        int       // at connections whether they yield; tests bound it
	lost         losses
	telling      *time.Timer // tells what was lost since the last line; nil if nothing was for a while
}

// losses are connections that were lost to others.
type losses struct {
	ended, refused int
	short          bool // of descriptors
	heavy          bool // by burdens
}

// connection is one of them. Its requests tell when they begin and end.
type connection struct {
	net.Conn
	of    *connections
	shown shown
	from  string
	heard atomic.Bool  // true once a byte of it was read
	came  atomic.Int64 // bytes that were read since its last request ended
	known atomic.Bool  // true while a request of a client that is known is under way

	// Guarded by of.mu.
	gone   bool          // it has no place any more
	under  int           // requests under way of clients that are known
	used   time.Time     // when the last one ended
	spot                 // of the silent or of the idle
	rests  *list.Element // in resting, nil for none
	burden burden
}

// spot locates a connection within groups, so that removing it needs no search.
type spot struct {
	group *group // nil for none
	place *list.Element
}

// newConnections returns those of a server, none yet.
func newConnections(most int, log *slog.Logger) *connections {
	return &connections{most: most, log: log, every: time.Minute, mostHeavy: math.MaxInt64}
}

// admit gives a connection a place, and reports whether there was one.
func (t *connections) admit(c net.Conn) (x *connection, ok bool) {
	x = &connection{Conn: c, of: t, from: neighbours(address(c.RemoteAddr().String()))}
	t.mu.Lock()
	t.silent.add(x, &x.spot)
	t.open++
	var out *connection
	var told func()
	if t.open > t.most {
		if out = t.yields(x); out == x {
			t.lost.refused++
		} else {
			t.lost.ended++
		}
		t.remove(out)
		told = t.tells()
	}
	t.mu.Unlock()
	if out != nil {
		_ = out.Conn.Close() // its client is told by that
	}
	if told != nil {
		told()
	}
	return x, out != x
}

// justUsed is the time for which a connection is not idle after a request: its answer may be on the way yet.
const justUsed = time.Second

// yields returns the connection that gives its place up for a new one, which is that itself if no other can. t.mu is
// held.
func (t *connections) yields(x *connection) *connection {
	t.looks++
	if c := t.silent.yields(x); c != nil {
		return c
	}
	now := time.Now()
	longest := (*connection)(nil)
	if e := t.resting.Front(); e != nil {
		longest = e.Value.(*connection)
	}
	for _, c := range []*connection{t.idle.oldest(), longest} {
		if t.looks++; c != nil && now.Sub(c.used) >= justUsed {
			return c
		}
	}
	return x
}

// spoke reports whether something came from the client, whether it was read yet or not.
func (c *connection) spoke() bool { return c.heard.Load() || unread(c.Conn) }

func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		if !c.heard.Load() {
			c.heard.Store(true)
		}
		c.received(n)
	}
	return n, err
}

// shortage ends some connections where the process has no descriptors left.
func (t *connections) shortage() {
	const some = 64
	t.mu.Lock()
	var out []*connection
	for len(out) < some {
		c := t.yields(nil)
		if c == nil {
			break
		}
		t.remove(c)
		out = append(out, c)
	}
	t.lost.ended += len(out)
	t.lost.short = true
	told := t.tells()
	t.mu.Unlock()
	for _, c := range out {
		_ = c.Conn.Close() // its client is told by that
	}
	if told != nil {
		told()
	}
}

// remove counts a connection out, once. t.mu is held.
func (t *connections) remove(c *connection) {
	if c.gone {
		return
	}
	c.gone = true
	t.unlist(c)
	t.reweigh(c)
	t.open--
}

// unlist takes a connection out of the lists that it is in. t.mu is held.
func (t *connections) unlist(c *connection) {
	if c.group != nil {
		c.group.of.remove(&c.spot)
	}
	if c.rests != nil {
		t.resting.Remove(c.rests)
		c.rests = nil
	}
}

// tells returns what writes a line about connections that were lost, nil if there was one a short time ago: the next says
// it. t.mu is held.
func (t *connections) tells() func() {
	if t.telling != nil {
		return nil
	}
	lost, most := t.lost, t.most
	t.lost = losses{}
	t.telling = time.AfterFunc(t.every, t.tellAgain)
	why := "all places are taken"
	if lost.short {
		why = "the process has no descriptors left"
	} else if lost.heavy {
		why = "requests that are not there yet, or of clients that are not known, take too much memory"
	}
	return func() {
		t.log.Warn("connections were ended, or refused, to make room for others", "why", why, "ended", lost.ended, "refused", lost.refused, "places", most)
	}
}

// tellAgain tells what was lost since the last line, if anything was.
func (t *connections) tellAgain() {
	t.mu.Lock()
	told := func() {}
	if t.telling != nil { // and the server has not ended
		if t.telling = nil; t.lost != (losses{}) {
			told = t.tells()
		}
	}
	t.mu.Unlock()
	told()
}

// end tells nothing any more.
func (t *connections) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.telling != nil {
		t.telling.Stop()
		t.telling = nil
	}
}

// limit sets how many may be open, before any is.
func (t *connections) limit(most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.most = most
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	c.of.remove(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// enter counts a request in that the guard has let in, of a client that is known. Requests of tests have no connection.
func (c *connection) enter() {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.under++
	c.of.unlist(c)
	c.atRest(false)
}

// leave counts it out.
func (c *connection) leave() {
	if c == nil {
		return
	}
	t := c.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.under--; c.under > 0 {
		return
	}
	c.atRest(true)
	if c.gone {
		return
	}
	c.used = time.Now()
	t.idle.add(c, &c.spot)
	c.rests = t.resting.PushBack(c)
}

// atRest says whether no request of a client that is known is under way. What comes from then on may be the head of the
// next. c.of.mu is held.
func (c *connection) atRest(rest bool) {
	c.known.Store(!rest)
	if c.came.Swap(0) > freeBytes {
		c.of.reweigh(c)
	}
}

type connectionKey struct{}

// withConnection adds the connection of a request to its context, which is what a listener gave or has TLS around that.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// connectionOf returns the connection of a request, nil for none.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// groups are connections by address, as a heap with the address first that has the most.
type groups struct {
	by   map[string]*group
	heap []*group
	last uint64 // number of the youngest connection
}

// group are the connections of one address, the oldest first.
type group struct {
	of    *groups
	from  string
	at    int // in the heap
	list  list.List
	since uint64 // number of the oldest; of addresses that have as many, that with the oldest is first
}

// numbered is a connection with its number, in the list of a group.
type numbered struct {
	*connection
	number uint64
}

func (g *groups) Len() int { return len(g.heap) }
func (g *groups) Less(i, j int) bool {
	a, b := g.heap[i], g.heap[j]
	if a.list.Len() != b.list.Len() {
		return a.list.Len() > b.list.Len()
	}
	return a.since < b.since
}
func (g *groups) Swap(i, j int) {
	g.heap[i], g.heap[j] = g.heap[j], g.heap[i]
	g.heap[i].at, g.heap[j].at = i, j
}
func (g *groups) Push(x any) {
	x.(*group).at = len(g.heap)
	g.heap = append(g.heap, x.(*group))
}
func (g *groups) Pop() any {
	x := g.heap[len(g.heap)-1]
	g.heap[len(g.heap)-1] = nil
	g.heap = g.heap[:len(g.heap)-1]
	return x
}

// add makes a connection the youngest, and says where it is.
func (g *groups) add(c *connection, at *spot) {
	if g.by == nil {
		g.by = make(map[string]*group)
	}
	g.last++
	x := g.by[c.from]
	if x == nil {
		x = &group{of: g, from: c.from, since: g.last}
		g.by[c.from] = x
		heap.Push(g, x)
	}
	at.group, at.place = x, x.list.PushBack(numbered{c, g.last})
	heap.Fix(g, x.at)
}

// remove takes a connection out.
func (g *groups) remove(at *spot) {
	x := at.group
	x.list.Remove(at.place)
	*at = spot{}
	if first := x.list.Front(); first != nil {
		x.since = first.Value.(numbered).number
		heap.Fix(g, x.at)
		return
	}
	heap.Remove(g, x.at)
	delete(g.by, x.from)
}

// oldest returns the oldest connection of the address that has the most; nil for none.
func (g *groups) oldest() *connection {
	if len(g.heap) == 0 {
		return nil
	}
	return g.heap[0].list.Front().Value.(numbered).connection
}

// quietLooks bounds the search, among the oldest silent connections, for one that has sent nothing. A longer search takes
// more time, and leaves a new connection less time to send something if all older ones have.
const quietLooks = 8

// yields returns the oldest of the first quietLooks connections, of the address that has the most, that has sent nothing, or the
// oldest if all have; nil if x, the youngest, is the only one.
func (g *groups) yields(x *connection) *connection {
	first := g.oldest()
	if first == nil || first == x {
		return nil
	}
	for e, i := g.heap[0].list.Front(), 0; e != nil && i < quietLooks; e, i = e.Next(), i+1 {
		if c := e.Value.(numbered).connection; c != x && !c.spoke() {
			return c
		}
	}
	return first
}

// limited is a listener whose connections have places.
type limited struct {
	net.Listener
	all *connections
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				l.all.shortage()
			}
			return nil, err // whoever serves tries again
		}
		if x, ok := l.all.admit(c); ok {
			return x, nil
		}
	}
}
