package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve/internal/oip"
)

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1} }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

// Where all places are taken, the oldest silent connection of the address that has the most goes first, then one that is
// idle, and a connection with a request under way never.
func TestPlaces(t *testing.T) {
	conns := newConnections(4, slog.New(slog.DiscardHandler))
	defer conns.end()
	admit := func(from string) (*fakeConn, *connection, bool) {
		f := &fakeConn{from: from}
		c, ok := conns.admit(f)
		return f, c, ok
	}
	a1, _, _ := admit("10.0.0.1")
	a2, _, _ := admit("10.0.0.1")
	b1, kb, _ := admit("10.0.0.2")
	c1, kc, _ := admit("10.0.0.3")
	kc.enter()
	d1, kd, ok := admit("10.0.0.4") // takes the place of the oldest of two
	if !ok || !a1.closed || a2.closed || b1.closed || conns.count() != 4 {
		t.Fatalf("%t: %v %v %v, %d are open", ok, a1, a2, b1, conns.count())
	}
	kb.enter()
	kb.leave()
	kd.enter()
	e1, ke, ok := admit("10.0.0.1") // takes that of the only silent one
	if !ok || !a2.closed || b1.closed || d1.closed {
		t.Errorf("%t: %v %v %v", ok, a2, b1, d1)
	}
	ke.enter()
	if f1, _, ok := admit("10.0.0.5"); ok || !f1.closed || b1.closed { // whose answer may be on the way yet
		t.Errorf("%t: %v %v", ok, f1, b1)
	}
	kb.used = kb.used.Add(-time.Hour)
	g1, _, ok := admit("10.0.0.5") // takes that of the idle one
	if !ok || g1.closed || !b1.closed || c1.closed || d1.closed || e1.closed {
		t.Errorf("%t: %v %v %v %v %v", ok, g1, b1, c1, d1, e1)
	}
	h1, kh, ok := admit("10.0.0.5") // silent ones alone have a place among those with requests
	if !ok || !g1.closed || conns.count() != 4 {
		t.Errorf("%t: %v, %d are open", ok, g1, conns.count())
	}
	kh.enter()
	if _, _, ok := admit("10.0.0.6"); ok {
		t.Error("all have requests under way, and one more is taken")
	}
	for _, c := range []*connection{kb, kc, kd, ke, kh} {
		c.leave()
		for range 2 { // the second time does nothing
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if !h1.closed || conns.count() != 0 || len(conns.silent.by)+len(conns.idle.by)+len(conns.silent.heap)+len(conns.idle.heap)+conns.resting.Len() > 0 {
		t.Errorf("%d are open, %d and %d addresses", conns.count(), len(conns.silent.by), len(conns.idle.by))
	}
}

// A connection that has sent something keeps its place while silent ones of its own address come, whether the server has read
// that or not; where the oldest few have sent something the oldest goes, so that new ones have their time.
func TestPlacesSpoken(t *testing.T) {
	const places = 4 * quietLooks
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := newConnections(places, slog.New(slog.DiscardHandler))
	defer conns.end()
	in := &limited{Listener: l, all: conns}
	accept := func(says string) *connection {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, says); err != nil {
			t.Fatal(err)
		}
		x, err := in.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { x.Close() })
		return x.(*connection)
	}
	unheard, heard := accept("GET"), accept("G")
	if n, err := heard.Read(make([]byte, 8)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	poll.True(t, "what was sent is there", func() bool { return unheard.spoke() })
	var silent *connection
	for range 5 * places {
		silent = accept("")
	}
	if unheard.gone || heard.gone || silent.gone || silent.spoke() || conns.count() != places {
		t.Errorf("gone: %t and %t of those that spoke, and %t of the youngest; %d are open", unheard.gone, heard.gone, silent.gone, conns.count())
	}
	for range 2 * places {
		poll.True(t, "what was sent is there", accept("G").spoke)
	}
	silent = accept("")
	for range places - quietLooks {
		if silent.gone {
			t.Fatal("a new one has no time to send something")
		}
		poll.True(t, "what was sent is there", accept("G").spoke)
	}
}

// What it costs to refuse a connection, or to find one that yields, does not grow with the number of those that are open.
func TestPlacesGrowth(t *testing.T) {
	for _, n := range []int{100, 10_000} {
		conns := newConnections(n, slog.New(slog.DiscardHandler))
		defer conns.end()
		var all []*connection
		for i := range n {
			c, ok := conns.admit(&fakeConn{from: fmt.Sprintf("10.0.%d.%d", i%7, i%11)})
			if !ok {
				t.Fatal("a free place is refused")
			}
			c.enter()
			all = append(all, c)
		}
		for _, c := range all[:n/2] { // their answers are on the way, and the others have requests
			c.leave()
			c.used = time.Now().Add(time.Hour)
		}
		const tries = 100
		conns.looks = 0
		for range tries {
			if _, ok := conns.admit(&fakeConn{from: "10.1.0.1"}); ok {
				t.Fatal("all places are in use, and one more is taken")
			}
		}
		if conns.looks > 3*tries {
			t.Errorf("%d connections: %d looks to refuse %d", n, conns.looks, tries)
		}
		// The one that is idle for longest yields, of whatever address it is.
		all[0].used = time.Now().Add(-time.Hour)
		conns.looks = 0
		if _, ok := conns.admit(&fakeConn{from: "10.1.0.1"}); !ok || !all[0].gone || conns.looks > 3 {
			t.Errorf("%d connections: %t after %d looks", n, ok, conns.looks)
		}
	}
}

// A process that may have few descriptors takes fewer connections, and has some left for other things.
func TestFewDescriptors(t *testing.T) {
	for _, c := range []struct{ wanted, left, want int }{
		{20_000, 1 << 31, 20_000}, {20_000, 20_300, 20_000}, {20_000, 20_256, 20_000}, {20_000, 1004, 748}, {20_000, 100, 50}, {20_000, 1, 1}, {20_000, -5, 1}, {10, 1004, 10},
	} {
		if got := placesFor(c.wanted, c.left); got != c.want {
			t.Errorf("%d connections with %d descriptors: %d, want %d", c.wanted, c.left, got, c.want)
		}
	}
	// Where they are used up all the same, silent connections are ended.
	conns := newConnections(100, slog.New(slog.DiscardHandler))
	defer conns.end()
	var first *fakeConn
	for i := range 70 {
		f := &fakeConn{from: "10.0.0.1"}
		if conns.admit(f); i == 0 {
			first = f
		}
	}
	if conns.shortage(); conns.count() != 6 || !first.closed {
		t.Errorf("%d are left", conns.count())
	}
	for _, c := range []struct {
		err  error
		left int
	}{{syscall.ECONNABORTED, 6}, {syscall.EMFILE, 0}} {
		l := &limited{Listener: noConns{err: &net.OpError{Op: "accept", Err: c.err}}, all: conns}
		if _, err := l.Accept(); !errors.Is(err, c.err) || conns.count() != c.left {
			t.Errorf("after %v %d are left, want %d", err, conns.count(), c.left)
		}
	}
	conns.limit(2)
	for range 3 {
		conns.admit(&fakeConn{from: "10.0.0.1"})
	}
	if conns.count() != 2 {
		t.Errorf("%d are open of 2", conns.count())
	}
}

// noConns is a listener with one connection, or an error.
type noConns struct {
	net.Listener
	conn net.Conn
	err  error
}

func (l noConns) Accept() (net.Conn, error) { return l.conn, l.err }

// Of a connection of gRPC that is closed before it speaks nothing is kept, and of one that fails there is none.
func TestSilentForgotten(t *testing.T) {
	l := &rpcListener{Listener: noConns{conn: &fakeConn{from: "10.0.0.1"}}, silent: make(map[*rpcConn]bool)}
	c, err := l.Accept()
	if err != nil || len(l.silent) != 1 {
		t.Fatalf("%v, %d are silent", err, len(l.silent))
	}
	if err := c.Close(); err != nil || len(l.silent) != 0 {
		t.Errorf("%v, %d are kept", err, len(l.silent))
	}
	l.Listener = noConns{err: net.ErrClosed}
	if c, err := l.Accept(); c != nil || err == nil {
		t.Errorf("%v, %v", c, err)
	}
}

// lossLog counts what is logged about connections.
type lossLog struct {
	slog.Handler
	n, lost atomic.Int64
}

func (l *lossLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "connections were ended") {
		l.n.Add(1)
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "ended" || a.Key == "refused" {
				l.lost.Add(a.Value.Int64())
			}
			return true
		})
	}
	return nil
}

// Ten times as many idle connections as there are places, over HTTP and gRPC, from one address and from others
// that come again as soon as they are ended, do not keep out who has a token, nor those who ask for health. The log says so
// in one line.
func TestIdleAttack(t *testing.T) {
	const places, idle, asks = 20, 200, 10
	log := &lossLog{Handler: slog.NewTextHandler(io.Discard, nil)}
	s, _, address := start(t, func(o *parts) {
		o.Log = slog.New(log)
		o.Config.Tokens, o.Config.GRPC = tokenFile(t, secretToken), "127.0.0.1:0"
		o.Config.Limits.Connections, o.Config.Limits.ReadTime = places, Duration(10*patience)
	})
	s.conns.mu.Lock()
	s.conns.every = time.Hour // longer than the test on any machine
	s.conns.mu.Unlock()
	to, rpc := strings.TrimPrefix(address, "http://"), strings.TrimPrefix(s.GRPC(), "grpc://")
	open := func(from string, i int) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
		c, err := d.Dial("tcp", []string{to, rpc}[i%2])
		if err != nil {
			t.Error(err)
		}
		return c
	}
	kept, err := api.NewClient(address, api.Options{Token: secretToken, Attempts: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	ask := func(phase string) {
		if _, err := kept.Server(t.Context()); err != nil {
			t.Errorf("%s: a connection that is there: %v", phase, err)
		}
		for range asks {
			c, err := api.NewClient(address, api.Options{Token: secretToken, Attempts: -1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Server(t.Context()); err != nil {
				t.Errorf("%s: %v", phase, err)
			}
			c.Close()
			r, err := http.NewRequest("GET", address+"/healthz", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Close = true
			resp, err := http.DefaultClient.Do(r)
			if err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: health: %v", phase, err)
			}
			resp.Body.Close()
			conn, err := grpc.NewClient(rpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := oip.NewGRPCInferenceServiceClient(conn).ServerLive(t.Context(), &oip.ServerLiveRequest{}); err != nil {
				t.Errorf("%s: gRPC: %v", phase, err)
			}
			conn.Close()
		}
		if n := s.conns.count(); n > places {
			t.Errorf("%s: %d connections are open", phase, n)
		}
	}
	ask("before")
	for i := range idle {
		if c := open("127.0.0.1", i); c != nil {
			defer c.Close()
		}
	}
	poll.True(t, "all were accepted", func() bool { // one that waits for that takes the place of an older one of its address
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return int(log.lost.Load())+s.conns.lost.ended+s.conns.lost.refused > idle-places
	})
	ask("of one address")
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for k := range places + 4 {
		from := fmt.Sprintf("127.0.0.%d", 2+k%4)
		all.Go(func() {
			for i := k; ctx.Err() == nil; i++ {
				c := open(from, i)
				if c == nil {
					return
				}
				ended := context.AfterFunc(ctx, func() { c.Close() })
				_, _ = io.Copy(io.Discard, c) // until it is ended
				ended()
				c.Close()
			}
		})
	}
	poll.True(t, "the others are there", func() bool { return s.conns.count() == places })
	ask("of several addresses")
	cancel()
	all.Wait()
	if log.n.Load() != 1 {
		t.Errorf("%d lines were logged", log.n.Load())
	}
	s.conns.tellAgain()
	if log.n.Load() != 2 || log.lost.Load() < idle-places {
		t.Errorf("%d lines tell of %d connections", log.n.Load(), log.lost.Load())
	}
}
