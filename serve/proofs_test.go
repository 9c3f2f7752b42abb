package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/test/poll"
)

// fakeProver proves sums of two numbers without cryptography: a proof is the sum, as text.
type fakeProver struct {
	gate            chan struct{} // proofs wait for it, nil for none
	running, proved atomic.Int64
	read, forgotten atomic.Int64
	closed          atomic.Bool
	busy            error // of proofs, nil for none
}

var sumCircuit = api.Circuit{Name: "sum", Constraints: 1, Public: 1, Secret: 2, ForTests: true}

func (f *fakeProver) Circuits() []api.Circuit { return []api.Circuit{sumCircuit} }

func (f *fakeProver) Circuit(name string) (api.Circuit, error) {
	if name != "sum" {
		return api.Circuit{}, fmt.Errorf("%w %q; there is sum", ErrNotFound, name)
	}
	return sumCircuit, nil
}

func (f *fakeProver) Key(string) ([]byte, error) { return []byte("key"), nil }

// fakeSum is a witness.
type fakeSum struct {
	f      *fakeProver
	Values [2]int
	Sum    int
}

func (f *fakeProver) Read(_ string, witness []byte) (Statement, error) {
	q := &fakeSum{f: f}
	if err := json.Unmarshal(witness, q); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	f.read.Add(1)
	return q, nil
}

func (q *fakeSum) Forget() { q.f.forgotten.Add(1) }

func (q *fakeSum) Prove(ctx context.Context, _ string) (out api.Proof, err error) {
	q.f.running.Add(1)
	defer q.f.running.Add(-1)
	if q.f.gate != nil {
		select {
		case <-q.f.gate:
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
	if q.f.busy != nil {
		return out, q.f.busy
	}
	if q.Values[0]+q.Values[1] != q.Sum {
		return out, fmt.Errorf("%w: it does not satisfy the circuit", ErrWitness)
	}
	q.f.proved.Add(1)
	sum := fmt.Sprint(q.Sum)
	return api.Proof{Circuit: "sum", Proof: []byte(sum), Public: map[string]string{"Sum": sum}, Constraints: 1, ForTests: true, Took: 1}, nil
}

func (f *fakeProver) Verify(_ string, proof, public []byte) (refused, err error) {
	var values struct{ Sum json.Number }
	if err := json.Unmarshal(public, &values); err != nil {
		return nil, fmt.Errorf("%w: public: %w", ErrInvalid, err)
	}
	if string(proof) != values.Sum.String() {
		return errors.New("it is of another sum"), nil
	}
	return nil, nil
}

func (f *fakeProver) Stats() []ProofStats {
	return []ProofStats{{Circuit: "sum", Proved: uint64(f.proved.Load())}}
}

func (f *fakeProver) Close(context.Context) error {
	f.closed.Store(true)
	return nil
}

const fiveAndSeven = `{"witness":{"Values":[5,7],"Sum":12}}`

// Errors of a prover have a status each. Memory is given back, and witnesses are forgotten, whatever comes of a request.
func TestProofStatuses(t *testing.T) {
	f := &fakeProver{}
	h, _, s := handlerOf(t, func(o *parts) {
		o.Config.Proofs.Witness, o.Config.Proofs.Batch = 1<<20, 3
		o.Proofs = f
	})
	for _, c := range []struct {
		path, body string
		busy       error
		status     int
		says       string
	}{
		{"prove", fiveAndSeven, nil, 200, `"proof"`},
		{"prove", `{"witness":{"Values":[5,7],"Sum":13}}`, nil, 422, "does not satisfy"},
		{"prove", `{"witness":{"Values":5}}`, nil, 400, "bad request"},
		{"prove", fiveAndSeven, fmt.Errorf("%w: 3 are the most", ErrBusy), 503, "3 are the most"},
		{"prove", fiveAndSeven, ErrClosed, 503, "the server is ending"},
		{"prove", fiveAndSeven, context.DeadlineExceeded, 504, "raise proofs.time"},
		{"prove", fiveAndSeven, errors.New("a device burns"), 500, "burns"},
		{"prove", `{}`, nil, 400, "there is no witness"},
		{"prove", `{"witness":` + strings.Repeat(`[`, 1<<18), nil, 400, "nested more than 32 deep"},
		{"prove", `{"witness":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "more than 1048576 bytes"},
		{"verify", `{"proof":"MTI=","public":{"Sum":12}}`, nil, 200, `"valid":true`},
		{"verify", `{"proof":"MTI=","public":{"Sum":13}}`, nil, 200, "another sum"},
		{"verify", `{"proof":"%","public":{"Sum":1}}`, nil, 400, "base64"},
		{"verify", `{"proof":"","public":[]}`, nil, 400, "public"},
		{"jobs", `{"witnesses":[]}`, nil, 400, "there are no witnesses"},
		{"jobs", `{"witnesses":[{"Values":[5,7],"Sum":12},{"Values":5}]}`, nil, 400, "witness 1: "},
		{"jobs", `{"witnesses":[{},{},{},{}]}`, nil, 400, "more than 3 witnesses"},
	} {
		f.busy = c.busy
		w := ask(h, "POST", "/v1/circuits/sum/"+c.path, c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || (w.Header().Get("Retry-After") != "") != (c.status == 503) {
			t.Errorf("%s %.80s: status %d: %s", c.path, c.body, w.Code, w.Body)
		}
		if n := s.bodies.Load(); n != 0 {
			t.Errorf("%s %.80s: %d bytes are held", c.path, c.body, n)
		}
		if f.read.Load() != f.forgotten.Load() {
			t.Errorf("%s %.80s: of %d witnesses %d were forgotten", c.path, c.body, f.read.Load(), f.forgotten.Load())
		}
	}
	if w := ask(h, "POST", "/v1/circuits/product/prove", fiveAndSeven); w.Code != 404 || !strings.Contains(saidError(t, w), "there is sum") {
		t.Error(w.Code, w.Body)
	}
	s.draining.Store(true)
	if w := ask(h, "POST", "/v1/circuits/sum/prove", fiveAndSeven); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("while it ends: status %d: %s", w.Code, w.Body)
	}
	s.draining.Store(false)
	if err := s.drain(t.Context()); err != nil || !f.closed.Load() {
		t.Errorf("the prover was closed: %v, %v", f.closed.Load(), err)
	}
}

// A server without circuits says so, and one with tokens wants one.
func TestProveNotAllowed(t *testing.T) {
	h, _, _ := handlerOf(t, nil)
	if w := ask(h, "POST", "/v1/circuits/sum/prove", fiveAndSeven); w.Code != 404 || !strings.Contains(saidError(t, w), "--circuits") {
		t.Error(w.Code, w.Body)
	}
	if w := ask(h, "GET", "/v1/circuits", ""); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"circuits":[]}` {
		t.Error(w.Code, w.Body)
	}
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("ann 0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, _, _ = handlerOf(t, func(o *parts) { o.Config.Tokens = file })
	for _, path := range []string{"/v1/circuits/sum/prove", "/v1/circuits/sum/verify", "/v1/circuits/sum/jobs"} {
		if w := ask(h, "POST", path, fiveAndSeven); w.Code != 401 {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
}

// Proofs that the end of the server cuts off have an answer that says so.
func TestProveCutOff(t *testing.T) {
	f := &fakeProver{gate: make(chan struct{})}
	s, _, address := start(t, func(o *parts) { o.Proofs = f })
	c, err := api.NewClient(address, api.Options{Attempts: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	answers := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.Prove(t.Context(), "sum", map[string]any{"Values": []int{5, 7}, "Sum": 12}, 0)
			answers <- err
		}()
	}
	poll.True(t, "two proofs under way", func() bool { return f.running.Load() == 2 })
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*patience)
		defer cancel()
		ended <- s.drain(ctx)
	}()
	poll.True(t, "the end to begin", s.draining.Load)
	s.cutOff()
	for range 2 {
		var e *api.Error
		if err := <-answers; !errors.As(err, &e) || e.Status != 503 || !strings.Contains(err.Error(), "the server is ending") {
			t.Errorf("a proof that was cut off: %v", err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for left, want := range map[time.Duration]time.Duration{time.Minute: 57 * time.Second, 4 * time.Second: 2 * time.Second, 0: 0} {
		if got := cutAfter(left); got != want {
			t.Errorf("of %v proofs are cut off after %v, want %v", left, got, want)
		}
	}
}

// A job of proofs that waited when the server ended is over after a restart: its witnesses are gone.
func TestProveJobRestart(t *testing.T) {
	dir := t.TempDir()
	_, err := (&Server{}).plan(&api.JobRequest{Workload: proofJob})
	if err == nil || !strings.Contains(err.Error(), "kept in memory alone") {
		t.Fatal(err)
	}
	js := &jobs{limits: Jobs{Concurrent: 1, Queue: 2, Keep: 9, KeepFor: Duration(time.Hour), KeepBytes: 1 << 20}, hub: newHub(), log: slog.New(slog.DiscardHandler), now: time.Now}
	if err := js.restore(dir, nil); err != nil {
		t.Fatal(err)
	}
	js.resume()
	release := make(chan error)
	if _, _, err := js.submit(api.JobRequest{Workload: "w", Repeat: 1}, gated(release), "", nil); err != nil {
		t.Fatal(err)
	}
	forgotten := 0
	j, _, err := js.submit(api.JobRequest{Workload: proofJob, Repeat: 1}, gated(release), "", nil, func() { forgotten++ })
	if err != nil || forgotten != 0 {
		t.Fatal(err, forgotten)
	}
	js.mu.Lock()
	js.closed = true // before it can begin
	js.mu.Unlock()
	close(release)
	if err := js.close(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
	if forgotten != 1 {
		t.Errorf("its witnesses were forgotten %d times", forgotten)
	}
	again := &jobs{limits: js.limits, hub: newHub(), log: js.log, now: time.Now}
	if err := again.restore(dir, (&Server{}).plan); err != nil {
		t.Fatal(err)
	}
	if now, err := again.get(j.ID); err != nil || now.State != api.JobFailed || !strings.Contains(now.Error, "memory alone") {
		t.Errorf("%+v %v", now, err)
	}
	if err := again.close(t.Context(), patience); err != nil {
		t.Fatal(err)
	}
}

// The memory of a body with a witness is cleared, that which it grew out of too.
func TestSecretBody(t *testing.T) {
	_, _, s := handlerOf(t, nil)
	for _, n := range []int{10, firstBytes, 5 * firstBytes} {
		seen := &watched{Reader: bytes.NewReader(bytes.Repeat([]byte("7"), n))}
		h := s.hold(t.Context())
		h.secret = true
		b, err := h.read(seen, -1, 1<<20)
		if err != nil || len(b) != n {
			t.Fatal(len(b), err)
		}
		h.release()
		for _, piece := range append(seen.all, b) {
			if len(bytes.Trim(piece, "\x00")) > 0 {
				t.Errorf("%d bytes are left of a body of %d", len(piece), n)
			}
		}
	}
}

// watched remembers memory that was read into.
type watched struct {
	io.Reader
	all [][]byte
}

func (w *watched) Read(b []byte) (int, error) {
	w.all = append(w.all, b)
	return w.Reader.Read(b)
}

// All of what is JSON within its depth is read.
func FuzzRaw(f *testing.F) {
	for _, s := range []string{fiveAndSeven, `[1,-2.5e3,"\"\\",null,true]`, `{"a":[{},[]],"a":"é"}`, `[1,]`, `"`, "\"\x01\"", `01`, `{"a" 1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r := &reader{src: src}
		text, err := r.raw()
		if err == nil {
			err = r.end()
		}
		if err == nil && !bytes.Equal(text, bytes.Trim(src, " \t\r\n")) {
			t.Fatalf("of %q it read %q", src, text)
		}
		if err != nil && json.Valid(src) && !strings.Contains(err.Error(), "nested") {
			t.Fatalf("%q: %v", src, err)
		}
	})
}
