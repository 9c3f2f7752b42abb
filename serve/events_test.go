package serve

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/test/poll"
)

// stream opens a stream of events and returns a function for the next line that is data or
// an id.
func streamOf(t *testing.T, address, seen string) (next func() string, end func()) {
	t.Helper()
	r, err := http.NewRequest("GET", address+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if seen != "" {
		r.Header.Set(lastEventID, seen)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	resp, err := http.DefaultClient.Do(r.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() string {
			for lines.Scan() {
				if s := lines.Text(); strings.HasPrefix(s, "id:") || strings.HasPrefix(s, "data:") || strings.HasPrefix(s, ": here") {
					return s
				}
			}
			return ""
		}, func() {
			cancel()
			resp.Body.Close()
		}
}

// Events come in order, and a reader that comes back goes on where it was.
func TestEvents(t *testing.T) {
	s, _, address := start(t, nil)
	next, end := streamOf(t, address, "")
	if got := next(); got != ": here" {
		t.Fatalf("%q", got)
	}
	tell := func(text string) { s.hub.tell(api.Event{Kind: api.EventRuntime, Text: text}) }
	tell("one\ntwo")
	id := strings.TrimPrefix(next(), "id: ")
	if data := next(); !strings.Contains(data, `"text":"one\ntwo"`) || id != s.hub.id(1) {
		t.Errorf("%s: %s", id, data)
	}
	end()
	tell("three")
	next, end = streamOf(t, address, id)
	if got := next(); got != "id: "+s.hub.id(2) || !strings.Contains(next(), "three") {
		t.Errorf("%q", got)
	}
	end()
	// So many later, what is lost is counted.
	for i := range keptEvents + 5 {
		tell(fmt.Sprint(i))
	}
	next, end = streamOf(t, address, id)
	if got := next(); !strings.Contains(got, `"missed":6`) {
		t.Errorf("%q", got)
	}
	end()
	// The id of another process says nothing.
	next, end = streamOf(t, address, "abc-1")
	if got := next(); got != ": here" {
		t.Errorf("%q", got)
	}
	end()
}

// A reader that does not read is dropped, and holds up nobody.
func TestSlowReader(t *testing.T) {
	s, _, address := start(t, func(o *parts) { o.Config.Limits.WriteTime = Duration(100 * time.Millisecond) })
	c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	count := func() int {
		s.hub.mu.Lock()
		defer s.hub.mu.Unlock()
		return len(s.hub.subs)
	}
	poll.True(t, "it watches", func() bool { return count() == 1 })
	text := strings.Repeat("x", 64<<10)
	poll.True(t, "it is dropped", func() bool {
		s.hub.tell(api.Event{Kind: api.EventRuntime, Text: text})
		return count() == 0
	})
	poll.True(t, "its stream has ended", func() bool { return s.streams.Load() == 0 })
}

// A reader for whom too many events wait is dropped; others get all of them, and it can
// come back for what it missed.
func TestHubDrops(t *testing.T) {
	h := newHub()
	slow, _, _, _ := h.watch("", "")
	other, _, _, _ := h.watch("j", "")
	quick, _, _, _ := h.watch("", "")
	for i := range waitingPer + 10 {
		h.tell(api.Event{Kind: api.EventRuntime, Text: fmt.Sprint(i)})
		if n, ok := <-quick.ch; !ok || n.number != uint64(i+1) {
			t.Fatalf("event %d is %d, %v", i+1, n.number, ok)
		}
	}
	seen := uint64(0)
	for n := range slow.ch { // which ends
		seen = n.number
	}
	if seen != waitingPer || len(h.subs) != 2 || len(other.ch) != 0 {
		t.Errorf("it saw %d, %d are left, another has %d", seen, len(h.subs), len(other.ch))
	}
	_, before, missed, _ := h.watch("", h.id(seen))
	if len(before) != 10 || before[0].number != seen+1 || missed != 0 {
		t.Errorf("it gets %d more, %d are missed", len(before), missed)
	}
	h.close()
	if _, ok := <-quick.ch; ok {
		t.Error("a stream goes on after the end")
	}
}

func TestStreamLimit(t *testing.T) {
	s, _, address := start(t, func(o *parts) { o.Config.Limits.Streams = 1 })
	_, end := streamOf(t, address, "")
	resp, err := http.Get(address + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("status %d", resp.StatusCode)
	}
	end()
	poll.True(t, "it has ended", func() bool { return s.streams.Load() == 0 })
}

// What happens to devices is told.
func TestRelay(t *testing.T) {
	rt := devices(t, "cpu/2")
	_, _, address := start(t, func(o *parts) { o.Runtime = rt })
	c, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := make(chan api.Event, 1)
	go func() {
		defer close(told)
		for e, err := range c.Events(ctx) {
			if err == nil {
				told <- e
			}
			return
		}
	}()
	poll.True(t, "the change is told", func() bool {
		if err := rt.Drain(ctx, "cpu:1"); err != nil {
			t.Error(err)
		}
		if err := rt.Undrain("cpu:1"); err != nil {
			t.Error(err)
		}
		select {
		case e := <-told:
			if e.Kind != api.EventRuntime || e.Device != "cpu:1" || e.ID == "" {
				t.Errorf("%+v", e)
			}
			return true
		default:
			return false
		}
	})
}

// Events of jobs with long parameters take bounded memory, kept and waiting.
func TestLongEvents(t *testing.T) {
	h := newHub()
	w, _, _, _ := h.watch("", "")
	for range 12 {
		h.tell(api.Event{Kind: api.EventRuntime, Text: strings.Repeat("x", 1<<20)})
	}
	waiting := 0
	for n := range w.ch { // until it is dropped
		waiting += len(n.data)
	}
	if h.bytes > eventBytes || len(h.kept) != 3 || waiting > eventBytes || len(h.subs) > 0 {
		t.Errorf("%d bytes of %d events are kept, %d waited for a reader of %d", h.bytes, len(h.kept), waiting, len(h.subs))
	}
	h.tell(api.Event{Kind: api.EventRuntime, Text: strings.Repeat("x", 5<<20)})
	w, before, _, _ := h.watch("", h.id(h.last-1))
	h.tell(api.Event{Kind: api.EventRuntime, Text: strings.Repeat("x", 5<<20)})
	if len(before) != 1 || len(w.ch) != 1 {
		t.Errorf("one that is longer than all may be: %d kept, %d wait", len(before), len(w.ch))
	}
}
