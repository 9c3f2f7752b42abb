package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every half is the number that its bits stand for, and the nearest half of every number
// in between is the one that is nearer, or the even one.
func TestHalf(t *testing.T) {
	value := func(h uint16) float64 { // by the definition of the format
		sign, exp, frac := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
		if exp == 0 {
			return sign * frac / 1024 * math.Pow(2, -14)
		}
		return sign * (1 + frac/1024) * math.Pow(2, float64(exp-15))
	}
	for h := range 0x7c00 {
		h := uint16(h)
		for _, h := range []uint16{h, h | 0x8000} {
			x := float64(FromHalf(h))
			if x != value(h) || Half(x) != h {
				t.Fatalf("%#x is %v and goes back to %#x", h, x, Half(x))
			}
		}
		if h == 0x7bff {
			continue
		}
		low, high := value(h), value(h+1)
		mid, even := (low+high)/2, h+h&1
		if Half(math.Nextafter(mid, 0)) != h || Half(math.Nextafter(mid, 1e9)) != h+1 || Half(mid) != even {
			t.Fatalf("about the middle of %#x and the next: %#x %#x %#x", h, Half(math.Nextafter(mid, 0)), Half(mid), Half(math.Nextafter(mid, 1e9)))
		}
	}
	if Half(65519.99) != 0x7bff || Half(65520) != 0x7c00 || Half(math.Inf(-1)) != 0xfc00 || FromHalf(0x7c00) != float32(math.Inf(1)) || FromHalf(Half(math.NaN())) == FromHalf(Half(math.NaN())) {
		t.Error("at the ends")
	}
}

// roundTrip checks that values survive bytes and JSON.
func roundTrip[T Element](t *testing.T, values ...T) {
	t.Helper()
	x := NewTensor("x", values)
	got, err := Values[T](&x)
	if err != nil || len(got) != len(values) {
		t.Fatalf("%v, %v", got, err)
	}
	text, err := x.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	var plain []T
	if x.Datatype != "UINT8" { // which encoding/json reads as base64
		if err := json.Unmarshal(text, &plain); err != nil {
			t.Fatal(err)
		}
	}
	y := Tensor{Name: "x", Datatype: x.Datatype, Shape: x.Shape}
	if err := y.parse(text); err != nil || string(y.Data) != string(x.Data) {
		t.Errorf("%s: %s is % x and was % x, %v", x.Datatype, text, y.Data, x.Data, err)
	}
	for i := range values {
		if got[i] != values[i] || plain != nil && plain[i] != values[i] {
			t.Errorf("%v became %v, %v", values[i], got[i], plain)
		}
	}
}

func TestTensors(t *testing.T) {
	roundTrip(t, true, false)
	roundTrip[uint8](t, 0, 255)
	roundTrip[uint16](t, 0, 65535)
	roundTrip[uint32](t, 0, math.MaxUint32)
	roundTrip[uint64](t, 0, math.MaxUint64)
	roundTrip[int8](t, -128, 127)
	roundTrip[int16](t, -32768, 32767)
	roundTrip[int32](t, math.MinInt32, math.MaxInt32)
	roundTrip[int64](t, math.MinInt64, math.MaxInt64)
	roundTrip[float32](t, 0.1, -1e-45, math.MaxFloat32, float32(math.Copysign(0, -1)))
	roundTrip(t, 0.1, -5e-324, math.MaxFloat64)
	x := NewTensor("x", []float32{1, float32(math.NaN())})
	if _, err := x.AppendJSON(nil); !errors.Is(err, ErrNotJSON) {
		t.Errorf("NaN: %v", err)
	}
	if _, err := Values[float64]((&InferResponse{}).Output("y")); err == nil || !strings.Contains(err.Error(), "no output") {
		t.Errorf("no tensor: %v", err)
	}
	if _, err := Values[float64](&x); err == nil {
		t.Error("FP32 was read as FP64")
	}
	x.Shape = []int64{3}
	if _, err := Values[float32](&x); err == nil {
		t.Error("a wrong shape was taken")
	}
	for _, shape := range [][]int64{{-1}, {math.MaxInt64, 2}, {1 << 62, 0, 1 << 62}} {
		if _, err := Elements(shape); err == nil && shape[0] != 1<<62 {
			t.Errorf("%v has a number of elements", shape)
		}
	}
}

// A busy server is asked again when it says, and no oftener than wanted.
func TestRetries(t *testing.T) {
	var asked atomic.Int32
	status, after, precise := http.StatusServiceUnavailable, "", ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("Authorization %q", r.Header.Get("Authorization"))
		}
		if asked.Add(1) < 3 {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			if precise != "" {
				w.Header().Set(HeaderRetry, precise)
			}
			http.Error(w, `{"error":"busy"}`, status)
			return
		}
		io.WriteString(w, `{"name":"weft","version":"1","extensions":[]}`)
	}))
	defer srv.Close()
	c, err := NewClient(srv.URL, Options{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if m, err := c.Server(t.Context()); err != nil || m.Name != "weft" || asked.Load() != 3 {
		t.Errorf("%+v, %v, %d requests", m, err, asked.Load())
	}
	// As long as the server asks for.
	asked.Store(1)
	after = "1"
	if began := time.Now(); true {
		if _, err := c.Server(t.Context()); err != nil || time.Since(began) < time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	}
	// And not longer, where it says that precisely: the context leaves no time for the seconds.
	for _, precise = range []string{"0.5", "1"} {
		asked.Store(0)
		after = "3000"
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if _, err := c.Server(ctx); err != nil || asked.Load() != 3 {
			t.Errorf("%s ms: %v, %d requests", precise, err, asked.Load())
		}
		cancel()
	}
	for ms, want := range map[string]time.Duration{"0.25": 250 * time.Microsecond, "1500": 1500 * time.Millisecond, "soon": 2 * time.Second, "": 2 * time.Second, "-1": 0, "NaN": 0, "1e300": 0} {
		if e := refusal(&http.Response{Header: http.Header{HeaderRetry: {ms}, "Retry-After": {"2"}}, Body: http.NoBody}); e.RetryAfter != want {
			t.Errorf("%q is %v", ms, e.RetryAfter)
		}
	}
	// Not if the context does not leave time for it.
	asked.Store(0)
	after, precise = "3000", ""
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	refused := (*Error)(nil)
	if _, err := c.Server(ctx); !errors.As(err, &refused) || refused.Status != 503 || refused.Message != "busy" || refused.RetryAfter != 3000*time.Second || asked.Load() != 1 {
		t.Errorf("%v, %d requests", err, asked.Load())
	}
	// Mistakes are not repeated.
	asked.Store(0)
	status = http.StatusBadRequest
	if _, err := c.Server(t.Context()); !errors.As(err, &refused) || refused.Status != 400 || asked.Load() != 1 {
		t.Errorf("%v, %d requests", err, asked.Load())
	}
	for _, bad := range []string{"", "localhost", "ftp://x", "http://"} {
		if _, err := NewClient(bad, Options{}); err == nil {
			t.Errorf("%q is an address", bad)
		}
	}
}

// A submission that is repeated carries the same key.
func TestSubmitTwice(t *testing.T) {
	keys := make(chan string, 4)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys <- r.Header.Get(idempotencyKey)
		if len(keys) == 1 {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		io.WriteString(w, `{"id":"7","workload":"gemm","state":"queued"}`)
	}))
	defer srv.Close()
	c, err := NewClient(srv.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	j, err := c.Submit(t.Context(), JobRequest{Workload: "gemm"})
	if err != nil || j.ID != "7" || j.Over() {
		t.Fatalf("%+v, %v", j, err)
	}
	if a, b := <-keys, <-keys; a != b || a == "" {
		t.Errorf("%q and %q", a, b)
	}
}

// A stream that breaks goes on after the last event that was seen.
func TestWatchAgain(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		state := JobRunning
		if n == 2 {
			state = JobSucceeded
		}
		io.WriteString(w, ": hello\n\nid: "+strconv.Itoa(n+1)+"\nevent: job\ndata: {\"kind\":\"job\",\ndata: \"job\":{\"id\":\"7\",\"state\":\""+state+"\"}}\n\n")
	}))
	defer srv.Close()
	c, err := NewClient(srv.URL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var ids []string
	for e, err := range c.Watch(t.Context(), "7") {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	if strings.Join(ids, " ") != "1 2 3" {
		t.Errorf("%q", ids)
	}
}

// Answers that are no predictions are errors.
func TestDecodeInferRefuses(t *testing.T) {
	for body, length := range map[string]string{
		`{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[1,2]}]}`:                         "",
		`{"outputs":[{"name":"y","shape":[1],"datatype":"BYTES","data":["a"]}]}`:                        "",
		`{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]}`:  "",
		`{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":-4}}]}`: "",
		`{"outputs":[]}x`:   "14",
		`{"outputs":[]} `:   "99",
		`{"outputs":[]}   `: "-1",
		`no`:                "",
		`{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}}]}`: "",
	} {
		if r, err := decodeInfer([]byte(body), length, nil); err == nil {
			t.Errorf("%s: %+v", body, r)
		}
	}
}

// Whatever a server answers, it is a prediction that fits its types, or an error.
func FuzzDecodeInfer(f *testing.F) {
	f.Add([]byte(`{"model_name":"m","outputs":[{"name":"y","shape":[1,2],"datatype":"FP32","data":[[1,2]]}],"parameters":{"batch":1}}`), "")
	f.Add([]byte(`{"outputs":[{"name":"y","shape":[1],"datatype":"INT8","parameters":{"binary_data_size":1}}]}x`), "91")
	f.Add([]byte(`{"outputs":[{"name":"y","shape":[1],"datatype":"FP32","parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}}]}`), "")
	f.Fuzz(func(t *testing.T, body []byte, length string) {
		r, err := decodeInfer(body, length, []Tensor{NewTensor("y", []float32{1})})
		if err != nil {
			return
		}
		for i := range r.Outputs {
			if err := r.Outputs[i].check(); err != nil {
				t.Error(err)
			}
		}
	})
}
