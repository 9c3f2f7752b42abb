package prove

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/workload/zk"
)

// devices opens devices with the kernels of proofs.
func devices(t testing.TB, which string) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(t.Context(), weft.Options{Devices: which, NoCalibrate: true, CacheDir: "off", Funcs: zk.Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// start starts a server that proves sums and has no models, on a free port of loopback, changed as wanted.
func start(t *testing.T, rt *weft.Runtime, o serve.Options, change func(c *serve.Config)) (*serve.Server, *Service) {
	t.Helper()
	c := serve.DefaultConfig()
	c.Listen, c.GRPC, c.Models = "127.0.0.1:0", "none", t.TempDir()
	c.Limits.DrainTime = serve.Duration(10 * time.Minute) // it ends a hang
	if change != nil {
		change(&c)
	}
	keys, err := keysOf()
	if err != nil {
		t.Fatal(err)
	}
	service, err := New(rt, keys, c.Proofs)
	if err != nil {
		t.Fatal(err)
	}
	o.Prover = service
	s, err := serve.Open(rt, c, o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(context.WithoutCancel(t.Context())) // Close returns its error
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s, service
}

// ask makes a request of a server, as if it came from this machine.
func ask(s *serve.Server, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:8000", "127.0.0.1:4000"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// saidError is the text of an answer that is an error, which must be one line.
func saidError(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var e map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || len(e) != 1 || e["error"] == "" || strings.Contains(e["error"], "\n") {
		t.Fatalf("status %d: not an error: %q", w.Code, w.Body)
	}
	return e["error"]
}

const fiveAndSeven = `{"witness":{"Values":[5,"0x7"],"Sum":"12"}}`

// values is a witness for a client.
type values map[string]any

// clientAt is a client of a server.
func clientAt(t testing.TB, address string) *api.Client {
	t.Helper()
	c, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// gnarkAccepts has gnark read a key and a proof from their bytes, and verify.
func gnarkAccepts(t testing.TB, key []byte, p api.Proof, public int) error {
	t.Helper()
	var vk groth16.VerifyingKey
	var proof groth16.Proof
	if _, err := vk.ReadFrom(bytes.NewReader(key)); err != nil {
		t.Fatal(err)
	}
	if _, err := proof.ReadFrom(bytes.NewReader(p.Proof)); err != nil {
		t.Fatal(err)
	}
	return groth16.Verify(&proof, &vk, fr.Vector{fr.NewElement(uint64(public))})
}

// A proof comes back over HTTP, and gnark accepts it.
func TestProve(t *testing.T) {
	rt := devices(t, "cpu/2")
	s, _ := start(t, rt, serve.Options{}, nil)
	c := clientAt(t, s.URL())
	all, err := c.Circuits(t.Context())
	if err != nil || len(all) != 1 || all[0] != (api.Circuit{Name: "sum", Constraints: 131, Public: 1, Secret: 2, ForTests: true}) {
		t.Fatalf("%+v %v", all, err)
	}
	p, err := c.Prove(t.Context(), "sum", values{"Values": []any{5, "0x7"}, "Sum": "12"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if p.Circuit != "sum" || p.Public["Sum"] != "12" || len(p.Public) != 1 || p.Constraints != 131 || !p.ForTests || p.Took <= 0 {
		t.Errorf("%+v", p)
	}
	resp, err := http.Get(s.URL() + "/v1/circuits/sum/key")
	if err != nil {
		t.Fatal(err)
	}
	key, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := gnarkAccepts(t, key, p, 12); err != nil {
		t.Error(err)
	}
	if err := gnarkAccepts(t, key, p, 13); err == nil {
		t.Error("gnark accepts it for another sum")
	}
	if v, err := c.Verify(t.Context(), p); err != nil || !v.Valid || v.Reason != "" {
		t.Errorf("%+v %v", v, err)
	}
	p.Public["Sum"] = "13"
	if v, err := c.Verify(t.Context(), p); err != nil || v.Valid || !strings.Contains(v.Reason, "does not prove") {
		t.Errorf("%+v %v", v, err)
	}
	long := p
	long.Proof = slices.Concat(p.Proof, make([]byte, 1<<10))
	if v, err := c.Verify(t.Context(), long); err != nil || v.Valid || !strings.Contains(v.Reason, "are the most") {
		t.Errorf("a long proof: %+v %v", v, err)
	}
	copy(p.Proof[128:], []byte{255, 255, 255, 255}) // commitments
	if v, err := c.Verify(t.Context(), p); err != nil || v.Valid || !strings.Contains(v.Reason, "damaged") {
		t.Errorf("a proof with billions of commitments: %+v %v", v, err)
	}
	p.Proof = p.Proof[:7]
	if v, err := c.Verify(t.Context(), p); err != nil || v.Valid || v.Reason == "" {
		t.Errorf("%+v %v", v, err)
	}
}

// What is wrong with a request is said in a line, before devices work and without its values.
func TestProveRefused(t *testing.T) {
	rt := devices(t, "cpu")
	s, _ := start(t, rt, serve.Options{}, func(c *serve.Config) { c.Proofs.Witness, c.Proofs.Batch = 1<<20, 3 })
	before := rt.Metrics().Runs.Submitted
	const order = "21888242871839275222246405745257275088548364400416034343698204186575808495617"
	sum := func(text string) string { return `{"witness":{"Values":[5,424242],"Sum":` + text + `}}` }
	for _, c := range []struct {
		path, body string
		status     int
		says       string
	}{
		{"prove", sum("12"), 422, "does not satisfy the circuit: constraint "},
		{"prove", ``, 400, "JSON, byte 0"},
		{"prove", `{}`, 400, "there is no witness"},
		{"prove", `{"witness":null}`, 400, "must be a JSON object"},
		{"prove", `{"witness":[424242]}`, 400, "must be a JSON object"},
		{"prove", `{"witness":{"Values":[5,424242],"Sum":12}`, 400, "expected"},
		{"prove", `{"Values":[5,424242],"Sum":12}`, 400, `no key "Values"; there is timeout_ms, witness`},
		{"prove", sum("12") + "1", 400, "expected the end"},
		{"prove", sum("NaN"), 400, "expected"},
		{"prove", sum("-424242"), 400, "Sum must be a whole number from 0 on"},
		{"prove", sum("424242.5"), 400, "Sum must be a whole number from 0 on"},
		{"prove", sum("1e99"), 400, "Sum must be a whole number from 0 on"},
		{"prove", sum(`"twelve"`), 400, "Sum must be a whole number from 0 on"},
		{"prove", sum("true"), 400, "Sum must be a whole number from 0 on"},
		{"prove", sum(order), 400, "Sum is not below the order of the group"},
		{"prove", sum(`"` + order + `"`), 400, "Sum is not below the order of the group"},
		{"prove", sum(strings.Repeat("9", 1<<19)), 400, "Sum must be a whole number below"},
		{"prove", sum(`12,"Sum":12`), 400, "Sum has two values"},
		{"prove", `{"witness":{},"witness":{}}`, 400, `key "witness" is there twice`},
		{"prove", sum(`12,"Other":1`), 400, "a value for Other"},
		{"prove", `{"witness":{"Values":[424242],"Sum":12}}`, 400, "no value for Values_1"},
		{"prove", `{"witness":{"Values":[1,2,3],"Sum":12}}`, 400, "a value for Values_2"},
		{"prove", `{"witness":{"Values":[` + strings.Repeat("0,", 1<<18) + `0],"Sum":1}}`, 400, "a value for Values_2"},
		{"prove", `{"witness":` + strings.Repeat(`[`, 1<<18), 400, "nested more than 32 deep"},
		{"prove", `{"witness":{"Values":` + strings.Repeat(`[`, 20) + strings.Repeat(`]`, 20) + `}}`, 400, "nested more than 16 deep"},
		{"prove", `{"witness":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "more than 1048576 bytes"},
		{"prove", `{"witness":{},"timeout_ms":0}`, 400, "not a whole number from 1 to"},
		{"verify", `{"public":{"Sum":1}}`, 400, `send {"proof"`},
		{"verify", `{"proof":"%","public":{"Sum":1}}`, 400, "base64"},
		{"verify", `{"proof":"","public":{"Sum":1,"Values":[1,2]}}`, 400, "public: zk: bad witness: it has a value for Values_0"},
		{"jobs", `{"witnesses":[]}`, 400, "there are no witnesses"},
		{"jobs", `{"witnesses":[{"Values":[5,424242],"Sum":12},{}]}`, 400, "witness 1: "},
		{"jobs", `{"witnesses":[{},{},{},{}]}`, 400, "more than 3 witnesses"},
	} {
		w := ask(s, "/v1/circuits/sum/"+c.path, c.body)
		if said := saidError(t, w); w.Code != c.status || !strings.Contains(said, c.says) || strings.Contains(said, "424242") || len(said) > 400 {
			t.Errorf("%s %.80s: status %d: %s", c.path, c.body, w.Code, said)
		}
	}
	for _, name := range []string{"product", "..", "%2e%2e%2fsum", strings.Repeat("x", 300)} {
		if w := ask(s, "/v1/circuits/"+name+"/prove", fiveAndSeven); w.Code != 404 {
			t.Errorf("circuit %.20s: status %d: %s", name, w.Code, w.Body)
		}
	}
	if w := ask(s, "/v1/circuits/product/prove", fiveAndSeven); !strings.Contains(saidError(t, w), "there is sum") {
		t.Error(w.Body)
	}
	if w := ask(s, "/v1/jobs", `{"workload":"prove","parameters":{"circuit":"sum"}}`); w.Code != 400 || !strings.Contains(saidError(t, w), "/v1/circuits/CIRCUIT/jobs") {
		t.Error(w.Body)
	}
	if after := rt.Metrics().Runs.Submitted; after != before {
		t.Errorf("devices were given %d runs", after-before)
	}
}

// gatedDevice opens a device whose sums of points wait for gate, and counts those that have begun.
func gatedDevice(t *testing.T, gate <-chan struct{}) (*weft.Runtime, *atomic.Int64) {
	t.Helper()
	var begun atomic.Int64
	funcs := zk.Funcs()
	sum := funcs["msm.g1"]
	funcs["msm.g1"] = func(c *weft.Call, lo, hi int) {
		begun.Add(1)
		<-gate
		sum(c, lo, hi)
	}
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: funcs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt, &begun
}

// Proofs at the same time are made, whatever becomes of others: one whose client goes away, one whose
// time is over, one too many.
func TestProveTogether(t *testing.T) {
	gate := make(chan struct{})
	rt, begun := gatedDevice(t, gate)
	s, service := start(t, rt, serve.Options{}, func(c *serve.Config) { c.Proofs.Concurrent, c.Proofs.Queue = 2, 4 })
	c := clientAt(t, s.URL())
	stats := func() serve.ProofStats { return service.Stats()[0] }
	var wait sync.WaitGroup
	ask := func(ctx context.Context, x int, timeout time.Duration, check func(api.Proof, error)) {
		wait.Go(func() {
			check(c.Prove(ctx, "sum", values{"Values": []int{x, 1}, "Sum": x + 1}, timeout))
		})
	}
	well := func(x int) func(api.Proof, error) {
		return func(p api.Proof, err error) {
			if err != nil || p.Public["Sum"] != fmt.Sprint(x+1) {
				t.Errorf("proof %d: %v %v", x, p.Public, err)
			}
		}
	}
	ask(t.Context(), 1, 0, well(1))
	poll.True(t, "a proof on the device", func() bool { return begun.Load() > 0 })
	gone, leave := context.WithCancel(t.Context())
	ask(gone, 2, 0, func(_ api.Proof, err error) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("its client left: %v", err)
		}
	})
	poll.True(t, "two proofs", func() bool { return stats().Running == 2 })
	// One client has no more than half of the places.
	ask(t.Context(), 3, 0, well(3))
	poll.True(t, "a proof that waits", func() bool { return stats().Waiting == 1 })
	_, err := c.Prove(t.Context(), "sum", values{"Values": []int{1, 1}, "Sum": 2}, time.Millisecond)
	var e *api.Error
	if !errors.As(err, &e) || e.Status != 503 || !strings.Contains(err.Error(), "are yours") {
		t.Errorf("one too many: %v", err)
	}
	leave()
	poll.True(t, "the place of a client that left", func() bool { return stats().Failed == 1 && stats().Waiting == 0 })
	ask(t.Context(), 4, time.Millisecond, func(_ api.Proof, err error) {
		if !errors.As(err, &e) || e.Status != 504 {
			t.Errorf("after its time: %v", err)
		}
	})
	poll.True(t, "the end of its time", func() bool { return stats().Failed == 2 })
	close(gate)
	wait.Wait()
	if s := stats(); s.Proved != 2 || s.Running != 0 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

// A proof that loses a device is made all the same.
func TestProveLostDevice(t *testing.T) {
	o, err := fake.Parse(`devices 2; memory 67108864; lose kernel "msm.g1" times 1`)
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = zk.Funcs()
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := weft.Open(t.Context(), weft.Options{Drivers: []driver.Driver{drv}, NoCalibrate: true, CacheDir: "off", Funcs: zk.Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	s, _ := start(t, rt, serve.Options{}, nil)
	c := clientAt(t, s.URL())
	p, err := c.Prove(t.Context(), "sum", values{"Values": []int{5, 7}, "Sum": 12}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Verify(t.Context(), p); err != nil || !v.Valid {
		t.Errorf("%+v %v", v, err)
	}
	if rt.Metrics().Losses == 0 {
		t.Error("no device was lost")
	}
}

// A list of witnesses is proved as a job. Neither the log nor the state folder has them.
func TestProveJob(t *testing.T) {
	rt := devices(t, "cpu/2")
	dir := t.TempDir()
	var log bytes.Buffer
	o := serve.Options{Log: slog.New(slog.NewTextHandler(&lockedWriter{w: &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	s, _ := start(t, rt, o, func(c *serve.Config) { c.State = dir })
	c := clientAt(t, s.URL())
	const secret = 7777777777777
	j, err := c.ProveAll(t.Context(), "sum", []any{
		values{"Values": []int{secret, 1}, "Sum": secret + 1}, values{"Values": []int{secret, 1}, "Sum": 3}, values{"Values": []int{3, 4}, "Sum": 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range c.Watch(t.Context(), j.ID) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Job != nil {
			j = *e.Job
		}
	}
	if j.State != api.JobSucceeded || j.Progress.Runs != 3 || j.Workload != "prove" || fmt.Sprint(j.Parameters) != "map[circuit:sum proofs:3]" {
		t.Fatalf("%+v", j)
	}
	r, err := c.Result(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	if r.Result != "2 of 3 were proved" || len(r.Proofs) != 3 || !strings.Contains(r.Proofs[1].Error, "does not satisfy") || r.Proofs[1].Proof != nil {
		t.Fatalf("%+v", r)
	}
	for _, i := range []int{0, 2} {
		p := r.Proofs[i]
		if v, err := c.Verify(t.Context(), api.Proof{Circuit: "sum", Proof: p.Proof, Public: p.Public}); err != nil || !v.Valid || p.Error != "" {
			t.Errorf("proof %d: %+v %v", i, v, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	text := log.String()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	if strings.Contains(text, fmt.Sprint(secret)+`,`) || strings.Contains(text, fmt.Sprint(secret)+`"`) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(fmt.Sprint(secret)))) {
		t.Errorf("a secret was written: %s", text)
	}
}

// lockedWriter is a writer for many.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
