package serve

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/test/poll"
)

// What connections take for clients that are not known is bounded, and counted where it is given back. The address with
// the most such connections loses its oldest; connections that take nothing so, or have a request of a client that is
// known, stay.
func TestBurdens(t *testing.T) {
	const head = 32 << 10
	conns := newConnections(1000, slog.New(slog.DiscardHandler))
	defer conns.end()
	conns.burdens(64*head, head)
	if conns.mostHeavy != 8*head {
		t.Fatalf("%d bytes are the most", conns.mostHeavy)
	}
	open := func(from string) (*fakeConn, *connection) {
		f := &fakeConn{from: from}
		c, _ := conns.admit(f)
		return f, c
	}
	little, kl := open("10.0.0.1")
	kl.received(freeBytes)
	known, kk := open("10.0.0.1")
	kk.received(head)
	kk.enter()
	kk.received(head)
	alone, ka := open("10.0.0.2")
	ka.received(head)
	if conns.heavyBytes != head {
		t.Errorf("%d bytes are counted, and one has %d", conns.heavyBytes, head)
	}
	var many []*fakeConn
	for range 20 {
		f, c := open("10.0.0.1")
		for range 4 { // as it comes
			c.received(head / 4)
		}
		many = append(many, f)
	}
	for i, f := range many {
		if f.closed != (i < len(many)-7) {
			t.Errorf("connection %d of those with heads: closed %t", i, f.closed)
		}
	}
	if little.closed || known.closed || alone.closed || conns.heavyBytes != 8*head || conns.count() != 10 {
		t.Errorf("closed: %t %t %t; %d bytes are counted, %d connections are open", little.closed, known.closed, alone.closed, conns.heavyBytes, conns.count())
	}
	// Requests count until they have ended, and then no bytes of theirs do.
	var ended []func()
	for range 3 {
		ended = append(ended, ka.stranger())
	}
	if want := int64(head + 3*(head+strangerBytes)); ka.burden.bytes != want || conns.heavyBytes > conns.mostHeavy {
		t.Errorf("three requests take %d bytes, not %d; all take %d", ka.burden.bytes, want, conns.heavyBytes)
	}
	for _, end := range ended {
		end()
	}
	if ka.burden.bytes != 0 || ka.came.Load() != 0 || alone.closed {
		t.Errorf("%d and %d bytes are left", ka.burden.bytes, ka.came.Load())
	}
	// What a client that is known sends after its request counts again.
	kk.leave()
	if kk.burden.bytes != 0 {
		t.Errorf("%d bytes are left of a request that has ended", kk.burden.bytes)
	}
	kk.received(2 * freeBytes)
	if kk.burden.bytes != 2*freeBytes {
		t.Errorf("%d bytes count of %d", kk.burden.bytes, 2*freeBytes)
	}
	for _, c := range []*connection{kl, kk, ka} {
		c.Close()
	}
	for e := conns.heavy.oldest(); e != nil; e = conns.heavy.oldest() {
		e.Close()
	}
	if conns.heavyBytes != 0 || len(conns.heavy.by) > 0 || conns.count() != 0 {
		t.Errorf("%d bytes are left, of %d addresses; %d connections are open", conns.heavyBytes, len(conns.heavy.by), conns.count())
	}
}

// Heads that never end, of which each has a place, do not take memory without end, nor keep out who has a token.
func TestEndlessHeads(t *testing.T) {
	const many = 200
	s, _, address := start(t, func(o *parts) {
		o.Config.Tokens, o.Config.Limits.ReadTime = tokenFile(t, secretToken), Duration(10*patience)
		o.Config.Limits.Bodies, o.Config.Limits.Body = 8<<20, 1<<20
	})
	for i := range many {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprintf("127.0.0.%d", 2+i%3))}, Timeout: patience}
		c, err := d.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /v2 HTTP/1.1\r\nHost: localhost\r\nX-Long: "+strings.Repeat("x", 30<<10)); err != nil {
			t.Fatal(err)
		}
	}
	poll.True(t, "most are ended", func() bool { return s.conns.count() <= int(s.conns.mostHeavy/(30<<10)) })
	if s.conns.count() == 0 {
		t.Error("all are ended")
	}
	asksOnce(t, address, api.Options{Token: secretToken, Attempts: -1})
}

// asksOnce makes a request on a connection of its own.
func asksOnce(t *testing.T, address string, o api.Options) {
	t.Helper()
	c, err := api.NewClient(address, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Server(t.Context()); err != nil {
		t.Error(err)
	}
}

// Requests of HTTP/2 whose answers have no room to be sent count until these are taken, as those of a client that is known
// or as memory of strangers, which is bounded: those who ask what only a token opens, and those who ask how the server is.
func TestUntakenHTTP2(t *testing.T) {
	const streams = 200
	cert, key := certificate(t, "localhost")
	s, _, address := start(t, func(o *parts) {
		o.Config.Tokens, o.Config.TLS = tokenFile(t, secretToken), TLS{cert, key}
		o.Config.Limits.WriteTime = Duration(10 * patience)
		o.Config.Limits.Bodies, o.Config.Limits.Body = 8<<20, 1<<20
	})
	sends := func(n int, path, token string) net.Conn {
		t.Helper()
		conn, err := tls.Dial("tcp", strings.TrimPrefix(address, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if conn.ConnectionState().NegotiatedProtocol != "h2" {
			t.Fatal("not by HTTP/2")
		}
		_ = conn.SetDeadline(time.Now().Add(10 * patience))
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		_, _ = conn.Write(untaken(n, path, token)) // one that was ended takes no more
		return conn
	}
	heavy := func() int64 {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return s.conns.heavyBytes
	}
	each := strangerBytes + int64(s.limits.Header)
	for _, path := range []string{"/v2", "/healthz"} {
		few := sends(5, path, "")
		poll.True(t, "five count", func() bool { return heavy() == 5*each })
		for range 5 {
			sends(streams, path, "")
		}
		poll.True(t, "those with too many are ended", func() bool { return s.conns.count() <= 1 })
		few.Close()
		poll.True(t, "all is given back", func() bool { return heavy() == 0 && s.conns.count() == 0 })
	}
	name, err := s.identify(t.Context(), "127.0.0.1", "Bearer "+secretToken)
	if err != nil {
		t.Fatal(err)
	}
	under := func() int {
		who := s.clients.known(name)
		s.clients.mu.Lock()
		defer s.clients.mu.Unlock()
		return who.under
	}
	known := sends(streams, "/v2", secretToken)
	poll.True(t, "all of a client that is known count", func() bool { return under() == streams })
	if heavy() != 0 {
		t.Errorf("%d bytes count as those of strangers", heavy())
	}
	known.Close()
	poll.True(t, "all have ended", func() bool { return under() == 0 })
}

// untaken are requests of HTTP/2 by a client that has room for no byte of an answer.
func untaken(streams int, path, token string) []byte {
	var b bytes.Buffer
	frame := func(kind, flags byte, stream uint32, payload []byte) {
		head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		b.Write(binary.BigEndian.AppendUint32(append(head, flags), stream))
		b.Write(payload)
	}
	b.WriteString("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame(4, 0, 0, []byte{0, 4, 0, 0, 0, 0})                           // SETTINGS_INITIAL_WINDOW_SIZE is 0
	text := func(s string) string { return string(rune(len(s))) + s }  // of less than 127 bytes
	fields := "\x82\x87\x04" + text(path) + "\x01" + text("localhost") // GET, https, :path, :authority
	if token != "" {
		fields += "\x0f\x08" + text("Bearer "+token) // authorization
	}
	for i := range streams {
		frame(1, 5, uint32(2*i+1), []byte(fields)) // HEADERS, with all of the request
	}
	return b.Bytes()
}
