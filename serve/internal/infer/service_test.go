package infer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/reservoir"
)

func TestMain(m *testing.M) {
	proc.Main(map[string]proc.Maker{"test": func([]byte, int) (driver.Driver, error) {
		return cpu.New(cpu.Options{Cores: 1, Funcs: funcs(&gate{open: make(chan struct{})})}), nil
	}})
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must come.
const patience = 5 * time.Minute

// gate holds kernels called "held" until it is opened.
type gate struct {
	open   chan struct{}
	inside atomic.Int32
}

// funcs are the kernels of the test's models: y = w·x, for each of some examples.
func funcs(g *gate) map[string]weft.Func {
	mul := func(c *weft.Call, lo, hi int) {
		x, w, y := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1]), weft.View[float32](c.Args[2])
		for i := lo; i < hi; i++ {
			y[i] = w[i%len(w)] * x[i] / 3
		}
	}
	own := map[string]weft.Func{
		"mul": mul,
		"picky": func(c *weft.Call, lo, hi int) { // fails for a 666
			for _, v := range weft.View[float32](c.Args[0]) {
				if v == 666 {
					c.Fail(errors.New("it does not like that number"))
					return
				}
			}
			mul(c, 0, len(c.Args[2])/4)
		},
		"deaf": func(c *weft.Call, lo, hi int) { // does not stop when it is asked to
			g.inside.Add(1)
			defer g.inside.Add(-1)
			<-g.open
			mul(c, 0, len(c.Args[2])/4)
		},
		"broken": func(c *weft.Call, lo, hi int) { c.Fail(errors.New("it computes nothing")) },
		"sleepy": func(c *weft.Call, lo, hi int) { // fails, and hangs for zeros
			if weft.View[float32](c.Args[0])[0] == 0 {
				poll.Within(time.Hour, c.Stopped)
			}
			c.Fail(errors.New("it computes nothing"))
		},
		"moody": func(c *weft.Call, lo, hi int) { // hangs for zeros until it is asked to stop, and fails for a 666
			x := weft.View[float32](c.Args[0])[0]
			if x == 0 {
				poll.Within(time.Hour, c.Stopped)
			}
			if x == 0 || x == 666 {
				c.Fail(errors.New("it does not like that number"))
				return
			}
			mul(c, 0, len(c.Args[2])/4)
		},
		"held": func(c *weft.Call, lo, hi int) {
			g.inside.Add(1)
			defer g.inside.Add(-1)
			for {
				select {
				case <-g.open:
					mul(c, 0, len(c.Args[2])/4)
					return
				case <-time.After(time.Millisecond):
					if c.Stopped() {
						return
					}
				}
			}
		},
	}
	return workload.Funcs(own, reservoir.Funcs())
}

// graphText is a model of batches of three numbers by a kernel.
func graphText(kernel string, batch int) string {
	return fmt.Sprintf(`{
  "data": [
    {"name": "x", "dtype": "float32", "shape": [%d, 3], "input": true},
    {"name": "w", "dtype": "float32", "shape": [3], "weights": "w.bin"},
    {"name": "y", "dtype": "float32", "shape": [%d, 3], "output": true}
  ],
  "kernels": [{"name": %q, "impls": [{"dialect": "go", "entry": %q}]}],
  "tasks": [{"kernel": %q, "grid": %d, "retries": -1, "uses": [{"data": "x"}, {"data": "w"}, {"data": "y", "access": "write"}]}]
}`, batch, batch, kernel, kernel, kernel, map[bool]int{true: 1, false: 3 * batch}[kernel != "mul"])
}

// put writes a model that multiplies by w.
func put(t testing.TB, folder, kernel string, batch int, more string, w ...float32) {
	t.Helper()
	if len(w) == 0 {
		w = []float32{1, 10, 100}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"model.yaml": fmt.Appendf(nil, "kind: graph\nfile: m.json\nbatch: %d\n%s", batch, more),
		"m.json":     []byte(graphText(kernel, batch)),
		"w.bin":      floats(w...),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func floats(xs ...float32) (b []byte) {
	for _, x := range xs {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// open starts a service over a folder and waits until it has tried all models.
func open(t testing.TB, folder string, g *gate) *Service {
	t.Helper()
	if g == nil {
		g = &gate{open: make(chan struct{})}
	}
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Retries: -1, Funcs: funcs(g)})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(rt, Options{Folder: folder, Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := rt.Close(); err != nil {
			t.Errorf("close the runtime: %v", err)
		}
	})
	poll.True(t, "models are loaded", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.opening == 0
	})
	return s
}

// ready is open for models that must all be.
func ready(t testing.TB, folder string, g *gate) *Service {
	t.Helper()
	s := open(t, folder, g)
	if err := s.Ready(); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask is a request of examples of three numbers each.
func ask(model string, xs ...float32) *Request {
	return &Request{Model: model, ID: "7", Inputs: []Tensor{{Name: "x", Type: FP32, Shape: []int64{int64(len(xs) / 3), 3}, Data: floats(xs...)}}}
}

// want is the answer to it.
func want(w []float32, xs ...float32) []byte {
	ys := make([]float32, len(xs))
	for i, x := range xs {
		ys[i] = w[i%3] * x / 3
	}
	return floats(ys...)
}

var ten = []float32{1, 10, 100}

func TestInfer(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 4, "inputs: [{name: x, type: FP32, shape: [4, 3]}]\n") // as in the graph
	s := ready(t, folder, nil)
	for n := 1; n <= 4; n++ {
		xs := make([]float32, 3*n)
		for i := range xs {
			xs[i] = float32(i) + 0.5
		}
		r, err := s.Infer(t.Context(), ask("m", xs...))
		if err != nil {
			t.Fatal(err)
		}
		y := r.Outputs[0]
		if len(r.Outputs) != 1 || y.Name != "y" || y.Type != FP32 || fmt.Sprint(y.Shape) != fmt.Sprint([]int{n, 3}) || !bytes.Equal(y.Data, want(ten, xs...)) {
			t.Errorf("%d examples give %+v", n, y)
		}
		if r.Model != "m" || r.Version != "1" || r.ID != "7" || r.Batch != 1 || !strings.HasPrefix(r.Device, "cpu") || r.Computed <= 0 {
			t.Errorf("%+v", r)
		}
	}
	info, err := s.Model("m", "")
	if err != nil || fmt.Sprint(info.Inputs, info.Outputs) != "[{x FP32 [-1 3]}] [{y FP32 [-1 3]}]" || info.MaxBatch != 4 || len(info.Devices) != 2 || info.State != Ready || info.Kind != "graph" {
		t.Errorf("%+v, %v", info, err)
	}
	st := s.Stats()[0]
	if st.Requests != 4 || st.Succeeded != 4 || st.Items != 10 || st.Batches != 4 || st.Waiting != 0 || total(st.Total) != 4 {
		t.Errorf("%+v", st)
	}
}

func total(h Histogram) (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Requests that are computed together have the bits that each has alone.
func TestBatchedBits(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 8, "max_wait: 20ms\n", 0.1, 7.7, 1e-3)
	res := filepath.Join(folder, "r")
	p := reservoir.Defaults()
	p.Size, p.Inputs = 50, 4
	w, err := reservoir.New(p)
	if err != nil {
		t.Fatal(err)
	}
	m := &reservoir.Model{Weights: w, Steps: 5, Mode: reservoir.Sequence, Feature: reservoir.Last,
		Readout: &reservoir.Readout{Outputs: 2, Inputs: 50, Weights: make([]float64, 2*51)}}
	r := rand.New(rand.NewPCG(1, 1))
	for i := range m.Readout.Weights {
		m.Readout.Weights[i] = r.NormFloat64()
	}
	var file bytes.Buffer
	if _, err := m.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(res, 0o755)
	os.WriteFile(filepath.Join(res, "r.safetensors"), file.Bytes(), 0o644)
	os.WriteFile(filepath.Join(res, "model.yaml"), []byte("kind: reservoir\nfile: r.safetensors\nbatch: 16\nmax_wait: 20ms\ninputs:\n  - name: x\n"), 0o644)
	s := ready(t, folder, nil)
	for model, shape := range map[string][]int64{"m": {1, 3}, "r": {1, 5, 4}} {
		each, _ := count(shape)
		requests := make([]*Request, 100)
		alone := make([][]byte, len(requests))
		for i := range requests {
			n := 1 + int64(i%3)
			xs := make([]float32, n*each)
			for j := range xs {
				xs[j] = float32(r.NormFloat64())
			}
			shape := append([]int64{n}, shape[1:]...)
			requests[i] = &Request{Model: model, Client: fmt.Sprint(i % 3), Inputs: []Tensor{{Name: "x", Type: FP32, Shape: shape, Data: floats(xs...)}}}
			res, err := s.Infer(t.Context(), requests[i])
			if err != nil {
				t.Fatal(err)
			}
			alone[i] = res.Outputs[0].Data
		}
		var all sync.WaitGroup
		var together atomic.Int32
		for i, r := range requests {
			all.Go(func() {
				res, err := s.Infer(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(res.Outputs[0].Data, alone[i]) {
					t.Errorf("model %s: request %d of a batch of %d differs from itself alone", model, i, res.Batch)
				}
				if res.Batch > 1 {
					together.Add(1)
				}
			})
		}
		all.Wait()
		if together.Load() < 10 {
			t.Errorf("model %s: %d of 100 requests were computed with others", model, together.Load())
		}
	}
}

// A request that fails its batch fails alone.
func TestOneBadRequest(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "picky", 8, "max_wait: 50ms\nwarmup: 2\n")
	s := ready(t, folder, nil)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			xs := []float32{float32(i), 2, 3}
			if i%10 == 3 {
				xs[1] = 666
			}
			r, err := s.Infer(t.Context(), ask("m", xs...))
			switch {
			case i%10 == 3 && (err == nil || !strings.Contains(err.Error(), "does not like")):
				t.Errorf("the bad request %d: %v", i, err)
			case i%10 != 3 && err != nil:
				t.Errorf("the good request %d: %v", i, err)
			case i%10 != 3 && !bytes.Equal(r.Outputs[0].Data, want(ten, xs...)):
				t.Errorf("request %d has the result of another", i)
			}
		})
	}
	all.Wait()
	if st := s.Stats()[0]; st.Failed != 4 || st.Succeeded != 36 {
		t.Errorf("%d failed and %d succeeded", st.Failed, st.Succeeded)
	}
}

// Models are replaced under load: no request fails, each has the result of one version, and
// what is asked after Load has returned has that of the new one.
func TestReplace(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 4, "", 1, 1, 1)
	s := ready(t, folder, nil)
	stop := make(chan struct{})
	var all sync.WaitGroup
	var newest, asked atomic.Int64
	newest.Store(1)
	for range 8 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				least := newest.Load()
				r, err := s.Infer(t.Context(), ask("m", 3, 3, 3))
				if err != nil {
					t.Errorf("while it was replaced: %v", err)
					return
				}
				asked.Add(1)
				y := weft.View[float32](append(make([]byte, 0, 64), r.Outputs[0].Data...))
				if y[0] != y[1] || y[1] != y[2] || y[0] < float32(least) {
					t.Errorf("outputs %v, version %d was there before", y, least)
				}
			}
		})
	}
	for n := 2; n <= 6; n++ {
		before := asked.Load()
		poll.True(t, "requests are answered", func() bool { return asked.Load() > before+20 || t.Failed() })
		put(t, filepath.Join(folder, "m"), "mul", 4, "", float32(n), float32(n), float32(n))
		if err := s.Load(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		newest.Store(int64(n))
	}
	// One that does not load leaves the old in place.
	os.WriteFile(filepath.Join(folder, "m", "model.yaml"), []byte("kind: graph\nfile: m.json\nbtach: 4\n"), 0o644)
	if err := s.Load(t.Context(), "m"); err == nil || !strings.Contains(err.Error(), "model.yaml: line 3") || !strings.Contains(err.Error(), "batch") {
		t.Errorf("a mistake in model.yaml: %v", err)
	}
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
	before := asked.Load()
	poll.True(t, "requests are answered", func() bool { return asked.Load() > before+20 || t.Failed() })
	close(stop)
	all.Wait()
	if st := s.Stats(); len(st) != 1 || st[0].Succeeded != uint64(asked.Load()) || st[0].Failed+st[0].Refused+st[0].Expired > 0 {
		t.Errorf("after %d requests: %+v", asked.Load(), st)
	}
	poll.True(t, "old versions are gone", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.old) == 0
	})
	for _, d := range s.devices {
		if one := s.models["m"]["1"].bytes; one == 0 || d.bytes != one {
			t.Errorf("%s holds %d bytes of a model that has %d", d.name, d.bytes, one)
		}
	}
}

// A model whose kernel hangs gets its requests answered by their deadlines and stops no
// other model.
func TestHang(t *testing.T) {
	for _, kernel := range []string{"held", "deaf"} {
		t.Run(kernel, func(t *testing.T) { testHang(t, kernel) })
	}
}

func testHang(t *testing.T, kernel string) {
	folder := t.TempDir()
	g := &gate{open: make(chan struct{})}
	put(t, filepath.Join(folder, "bad"), kernel, 1, "warmup: 0\ntimeout: 60s\n")
	put(t, filepath.Join(folder, "good"), "mul", 2, "")
	s := ready(t, folder, g)
	r := ask("bad", 1, 2, 3)
	r.Deadline = time.Now().Add(200 * time.Millisecond)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if _, err := s.Infer(t.Context(), r); !errors.Is(err, ErrExpired) && !errors.As(err, new(*BusyError)) {
				t.Errorf("of the model that hangs: %v", err)
			}
		})
	}
	poll.True(t, "kernels hang on both devices", func() bool { return g.inside.Load() == 2 })
	for i := range 20 {
		x := float32(i)
		res, err := s.Infer(t.Context(), ask("good", x, x, x))
		if err != nil || !bytes.Equal(res.Outputs[0].Data, want(ten, x, x, x)) {
			t.Fatalf("of the good model: %v", err)
		}
	}
	all.Wait()
	close(g.open)
	poll.True(t, "the model is computed again", func() bool {
		_, err := s.Infer(t.Context(), ask("bad", 1, 2, 3))
		return err == nil
	})
}

// A caller that goes away frees its place at once, and those that wait have no goroutine
// but their own.
func TestCancel(t *testing.T) {
	folder := t.TempDir()
	g := &gate{open: make(chan struct{})}
	put(t, filepath.Join(folder, "m"), "held", 1, "warmup: 0\nwaiting: 1000\n")
	s := ready(t, folder, g)
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the caller has gone")
	var all sync.WaitGroup
	const n = 300
	for i := range n {
		all.Go(func() {
			r := ask("m", 1, 2, 3)
			r.Client = fmt.Sprint(i)
			if _, err := s.Infer(ctx, r); !errors.Is(err, why) {
				t.Error(err)
			}
			for j := range r.Inputs[0].Data { // it is the caller's again
				r.Inputs[0].Data[j] = 0
			}
		})
	}
	poll.True(t, "all requests wait", func() bool { return s.Stats()[0].Waiting == n-2 })
	if more := runtime.NumGoroutine() - before; more > n+40 {
		t.Errorf("%d requests wait with %d goroutines", n, more)
	}
	cancel(why)
	all.Wait()
	if st := s.Stats()[0]; st.Waiting != 0 || st.Cancelled != n {
		t.Errorf("%+v", st)
	}
	close(g.open)
	if _, err := s.Infer(t.Context(), ask("m", 1, 2, 3)); err != nil {
		t.Error(err)
	}
}

// Too many requests are refused with a hint, and do not keep others from being answered.
func TestRefuse(t *testing.T) {
	folder := t.TempDir()
	g := &gate{open: make(chan struct{})}
	put(t, filepath.Join(folder, "m"), "held", 1, "warmup: 0\nwaiting: 10\n")
	s := ready(t, folder, g)
	var all sync.WaitGroup
	var busy, done atomic.Int32
	for range 50 {
		all.Go(func() {
			_, err := s.Infer(t.Context(), ask("m", 1, 2, 3))
			var b *BusyError
			switch {
			case errors.As(err, &b) && b.RetryAfter > 0:
				busy.Add(1)
			case err == nil:
				done.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	poll.True(t, "the others are refused", func() bool { return int(busy.Load())+s.Stats()[0].Waiting == 48 })
	close(g.open)
	all.Wait()
	if st := s.Stats()[0]; st.Refused != uint64(busy.Load()) || done.Load() != 50-busy.Load() || done.Load() != 12 {
		t.Errorf("%d refused, %d done: %+v", busy.Load(), done.Load(), st)
	}
}

// BenchmarkInfer is what a request costs besides what its kernel computes.
func BenchmarkInfer(b *testing.B) {
	folder := b.TempDir()
	put(b, filepath.Join(folder, "m"), "mul", 32, "")
	s := ready(b, folder, nil)
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			var all sync.WaitGroup
			var left atomic.Int64
			left.Store(int64(b.N))
			before := s.Stats()[0]
			for i := range callers {
				all.Go(func() {
					r := ask("m", 1, 2, 3)
					r.Client = fmt.Sprint(i % 8)
					for left.Add(-1) >= 0 {
						if _, err := s.Infer(b.Context(), r); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			after := s.Stats()[0]
			b.ReportMetric(float64(after.Items-before.Items)/float64(after.Batches-before.Batches), "items/batch")
		})
	}
}
