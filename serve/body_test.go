package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve/internal/infer"
)

// Clients that announce large bodies and send little of them, with a length or in chunks, take
// next to nothing of the memory for bodies.
func TestSlowBodies(t *testing.T) {
	const slow = 16
	s, _, address := start(t, func(o *parts) {
		o.Config.Limits.Body, o.Config.Limits.Bodies = 1<<20, 2<<20
		o.Config.Limits.ReadTime = Duration(patience)
	})
	for i := range slow {
		c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		length := "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
		if i%2 == 0 {
			length = "Content-Length: 1000000\r\n\r\n{"
		}
		if _, err := io.WriteString(c, "POST /v2/models/double/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+length); err != nil {
			t.Fatal(err)
		}
	}
	poll.True(t, "all are being read", func() bool { return s.bodies.Load() == slow*firstBytes })
	large := strings.Replace(doubled, "2.5", "2."+strings.Repeat("5", 500_000), 1)
	for _, body := range []io.Reader{strings.NewReader(large), io.MultiReader(strings.NewReader(large))} {
		resp, err := http.Post(address+"/v2/models/double/infer", "application/json", body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || resp.StatusCode != 200 || !strings.Contains(string(text), "5.111111") {
			t.Errorf("%T: status %d, %v: %s", body, resp.StatusCode, err, text)
		}
	}
	poll.True(t, "what was answered is given back", func() bool { return s.bodies.Load() == slow*firstBytes })
}

// Bodies of any length arrive as they are, and all memory is given back.
func TestBodyLengths(t *testing.T) {
	_, _, s := handlerOf(t, func(o *parts) { o.Config.Limits.Body, o.Config.Limits.Bodies = 1<<20, 1<<21 })
	for _, n := range []int{0, 1, firstBytes - 1, firstBytes, firstBytes + 1, firstBytes + 2, 4*firstBytes + 1, 300_000, 1<<20 - 1, 1 << 20} {
		text := strings.Repeat("abcdefg", n/7+1)[:n]
		for _, length := range []int64{int64(n), -1} {
			h := &hold{s: s, who: &client{}}
			b, err := h.read(http.MaxBytesReader(nil, io.NopCloser(strings.NewReader(text)), 1<<20), length, 1<<20)
			if err != nil || string(b) != text || h.bytes > max(2*int64(n), firstBytes) || s.bodies.Load() != h.bytes || h.who.held.Load() != h.bytes {
				t.Errorf("%d bytes of length %d: %d came with %d reserved, %v", n, length, len(b), h.bytes, err)
			}
			if h.release(); s.bodies.Load() != 0 || h.who.held.Load() != 0 {
				t.Errorf("%d bytes of length %d: %d are still reserved", n, length, s.bodies.Load())
			}
		}
	}
}

// One client has half of the memory for bodies, so that it cannot keep others out.
func TestBodiesOfOne(t *testing.T) {
	h, f, s := handlerOf(t, func(o *parts) { o.Config.Limits.Body, o.Config.Limits.Bodies = 2000, 4000 })
	index := `{"ready":` + strings.Repeat(" ", 1950) + `true}`
	f.before = func(context.Context, *infer.Request) error {
		for ip, want := range map[string]int{"127.0.0.1": 503, "127.0.0.2": 200} {
			w := ask(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.RemoteAddr = ip + ":1"
				h.ServeHTTP(w, r)
			}), "POST", "/v2/repository/index", index)
			if w.Code != want || (want == 503) != strings.Contains(fmt.Sprint(w.Body), "your requests") {
				t.Errorf("%s: status %d: %s", ip, w.Code, w.Body)
			}
		}
		return nil
	}
	if w := ask(h, "POST", "/v2/models/double/infer", doubled); w.Code != 200 || s.bodies.Load() != 0 {
		t.Errorf("status %d, %d bytes under way", w.Code, s.bodies.Load())
	}
}

// Numbers take more memory than their text may have, and count too.
func TestTensorsHeld(t *testing.T) {
	h, f, s := handlerOf(t, func(o *parts) { o.Config.Limits.Body, o.Config.Limits.Bodies = 4000, 12000 })
	ones := strings.TrimSuffix(strings.Repeat("1,", 900), ",")
	for kind, want := range map[string]int{"FP32": 200, "FP64": 413} { // of 1800 bytes of text: 3600, and 7200
		f.before = func(_ context.Context, r *infer.Request) error {
			if got := s.bodies.Load(); got < int64(len(r.Inputs[0].Data))+1800 || got > 5600 {
				t.Errorf("%s: %d bytes are held for %d of a tensor", kind, got, len(r.Inputs[0].Data))
			}
			return nil
		}
		for _, body := range []string{
			`{"inputs":[{"name":"x","shape":[900],"datatype":"` + kind + `","data":[` + ones + `]}]}`,
			`{"inputs":[{"data":[` + ones + `],"name":"x","shape":[900],"datatype":"` + kind + `"}]}`,
		} {
			if w := ask(h, "POST", "/v2/models/double/infer", body); w.Code != want || s.bodies.Load() != 0 {
				t.Errorf("%s: status %d, %d bytes under way: %.80s", kind, w.Code, s.bodies.Load(), w.Body)
			}
		}
	}
}
