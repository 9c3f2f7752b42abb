package infer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/workload/conv"
	"github.com/weft-run/weft/workload/reservoir"
)

// Requests that do not fit their model are refused with what is wrong.
func TestInvalid(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 4, "finite: true\n")
	put(t, filepath.Join(folder, "one"), "mul", 1, "")
	s := ready(t, folder, nil)
	tensor := func(change func(*Tensor)) *Request {
		r := ask("m", 1, 2, 3)
		change(&r.Inputs[0])
		return r
	}
	twice := ask("m", 1, 2, 3)
	twice.Inputs = append(twice.Inputs, twice.Inputs[0])
	out := ask("m", 1, 2, 3)
	out.Outputs = []string{"z"}
	for want, r := range map[string]*Request{
		`unknown input "z"`:                     tensor(func(t *Tensor) { t.Name = "z" }),
		"input x is FP64: the model takes FP32": tensor(func(t *Tensor) { t.Type = FP64 }),
		"has shape [3]: the model takes [-1 3]": tensor(func(t *Tensor) { t.Shape = []int64{3} }),
		"has shape [0 3]":                       tensor(func(t *Tensor) { t.Shape, t.Data = []int64{0, 3}, nil }),
		"has shape [-1 3]":                      tensor(func(t *Tensor) { t.Shape = []int64{-1, 3} }),
		"has shape [1 4]":                       tensor(func(t *Tensor) { t.Shape = []int64{1, 4} }),
		"has 11 bytes of data: FP32 takes 12":   tensor(func(t *Tensor) { t.Data = t.Data[:11] }),
		"of data: FP32 takes":                   tensor(func(t *Tensor) { t.Shape = []int64{1 << 62, 3} }),
		"element 1 of input x is not finite":    ask("m", 1, float32(math.NaN()), 3),
		"element 2 of input x is not finite":    ask("m", 1, 2, float32(math.Inf(-1))),
		"5 examples in one request":             ask("m", make([]float32, 15)...),
		"input x is missing":                    {Model: "m"},
		"input x is there twice":                twice,
		`unknown output "z"`:                    out,
	} {
		if _, err := s.Infer(t.Context(), r); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, not %s", err, want)
		}
	}
	if st := s.Stats()[0]; st.Invalid != 14 || st.Requests != 14 || st.Failed != 0 {
		t.Errorf("of 14 requests that do not fit, %d are invalid and %d failed", st.Invalid, st.Failed)
	}
	// Without "finite" anything goes, also where the model has no batches.
	nan := ask("one", 1, float32(math.NaN()), 3)
	if r, err := s.Infer(t.Context(), nan); err != nil || fmt.Sprint(r.Outputs[0].Shape) != "[1 3]" || !math.IsNaN(float64(math.Float32frombits(binary.LittleEndian.Uint32(r.Outputs[0].Data[4:])))) {
		t.Errorf("%+v, %v", r, err)
	}
	for err, r := range map[error]*Request{ErrNotFound: {Model: "none"}, ErrExpired: {Model: "m", Inputs: nan.Inputs, Deadline: time.Now()}} {
		r.Inputs = ask("", 1, 2, 3).Inputs
		if _, got := s.Infer(t.Context(), r); !errors.Is(got, err) {
			t.Errorf("%v, not %v", got, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Infer(gone, ask("m", 1, 2, 3)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := s.Infer(t.Context(), &Request{Model: "m", Version: "2"}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// Elements that are not finite are found in every type that has them.
func TestNotFinite(t *testing.T) {
	for _, x := range []struct {
		t    Type
		data []byte
		at   int
	}{
		{FP16, []byte{0, 0x3c, 0, 0x7c}, 1},
		{FP16, []byte{0xff, 0x7b, 0, 0xfc}, 1},
		{FP16, []byte{0xff, 0x7b}, -1},
		{FP32, floats(1, math.MaxFloat32, float32(math.Inf(1))), 2},
		{FP32, floats(1, math.MaxFloat32), -1},
		{FP64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.NaN())), 0},
		{FP64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.Inf(-1))), 0},
		{FP64, binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.MaxFloat64)), -1},
		{Int32, []byte{255, 255, 255, 255}, -1},
	} {
		if got := notFinite(&Tensor{Type: x.t, Data: x.data}); got != x.at {
			t.Errorf("%s %v: %d, not %d", x.t, x.data, got, x.at)
		}
	}
	if err := (&Spec{Name: "b", Type: Bool, Shape: []int64{2}}).check(&Tensor{Type: Bool, Shape: []int64{2}, Data: []byte{1, 2}}, false); err == nil {
		t.Error("2 is taken for a BOOL")
	}
}

// Versions are folders with numbers; the newest that is ready answers.
func TestVersions(t *testing.T) {
	folder := t.TempDir()
	m := filepath.Join(folder, "m")
	put(t, filepath.Join(m, "2"), "mul", 1, "", 2, 2, 2)
	put(t, filepath.Join(m, "10"), "mul", 1, "", 10, 10, 10)
	put(t, filepath.Join(m, "11"), "nowhere", 1, "")
	s := open(t, folder, nil)
	if err := s.Ready(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("with a version that does not load: %v", err)
	}
	for version, w := range map[string]float32{"": 10, "10": 10, "2": 2} {
		r := ask("m", 3, 3, 3)
		r.Version = version
		res, err := s.Infer(t.Context(), r)
		if err != nil || !bytes.Equal(res.Outputs[0].Data, floats(w, w, w)) {
			t.Errorf("version %q: %v", version, err)
		}
	}
	r := ask("m", 3, 3, 3)
	r.Version = "11"
	if _, err := s.Infer(t.Context(), r); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a version that failed to load: %v", err)
	}
	var states []string
	for _, i := range s.Models() {
		states = append(states, i.Name+" "+i.Version+" "+string(i.State))
	}
	if want := []string{"m 2 ready", "m 10 ready", "m 11 failed"}; !slices.Equal(states, want) {
		t.Errorf("%v", states)
	}
	// A version whose folder goes is taken out of service, one that comes is served.
	os.RemoveAll(filepath.Join(m, "11"))
	os.RemoveAll(filepath.Join(m, "2"))
	put(t, filepath.Join(m, "12"), "mul", 1, "", 12, 12, 12)
	if err := s.Load(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
	if i, err := s.Model("m", ""); err != nil || i.Version != "12" {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := s.Model("m", "2"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := s.Unload(t.Context(), "m"); err != nil || len(s.Models()) != 0 {
		t.Errorf("%v, %v", s.Models(), err)
	}
	if err := s.Unload(t.Context(), "m"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "README.md"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "..", "a/b", `a\b`, ".hidden", "none", "README.md"} {
		if err := s.Load(t.Context(), name); !errors.Is(err, ErrNotFound) {
			t.Errorf("load %q: %v", name, err)
		}
	}
	if err := s.Ready(); err != nil {
		t.Error(err)
	}
}

// Folders that hold no model say what is wrong, each in a line.
func TestBrokenModels(t *testing.T) {
	folder := t.TempDir()
	bad := func(name string, change func(dir string)) {
		dir := filepath.Join(folder, name)
		put(t, dir, "mul", 4, "")
		change(dir)
	}
	write := func(dir, file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bad("both", func(d string) { put(t, filepath.Join(d, "1"), "mul", 4, "") })
	bad("empty", func(d string) { os.Remove(filepath.Join(d, "model.yaml")) })
	bad("key", func(d string) { write(d, "model.yaml", "kind: graph\nfile: m.json\nbacth: 4\n") })
	bad("name", func(d string) { write(d, "model.yaml", "kind: graph\nfile: m.json\nname: other\n") })
	bad("batch", func(d string) { write(d, "model.yaml", "kind: graph\nfile: m.json\nbatch: 5\n") })
	bad("port", func(d string) { write(d, "model.yaml", "kind: graph\nfile: m.json\ninputs: [{name: z}]\n") })
	bad("type", func(d string) {
		write(d, "model.yaml", "kind: graph\nfile: m.json\ninputs:\n- name: x\n  type: FP64\n")
	})
	bad("side", func(d string) { write(d, "model.yaml", "kind: graph\nfile: m.json\ninputs: [{name: y}]\n") })
	bad("graph", func(d string) { write(d, "m.json", "{") })
	bad("gone", func(d string) { os.Remove(filepath.Join(d, "m.json")) })
	bad("weights", func(d string) { write(d, "w.bin", "abc") })
	bad("large", func(d string) { write(d, "model.yaml", strings.Repeat("#", maxConfig+1)) })
	bad("link", func(d string) {
		os.Remove(filepath.Join(d, "model.yaml"))
		os.Symlink("/etc/passwd", filepath.Join(d, "model.yaml"))
	})
	bad("reservoir", func(d string) { write(d, "model.yaml", "kind: reservoir\nfile: w.bin\n") })
	put(t, filepath.Join(folder, "good"), "mul", 4, "")
	s := open(t, folder, nil)
	want := map[string]string{
		"both": "have one or the other", "empty": "neither a model.yaml nor", "key": `model.yaml: line 3: unknown key "bacth"`,
		"name": "a model has the name of its folder", "batch": "first dimension", "port": "line 3", "type": "line 4: x is FP64", "side": "y is no input",
		"graph": "m.json", "gone": "m.json", "weights": "w", "large": "more than 65536 bytes", "link": "model.yaml", "reservoir": "not a reservoir model", "good": "",
	}
	checked := fmt.Sprint(Check(t.Context(), s.rt, Options{Folder: folder}))
	for name := range want {
		if strings.Contains(checked, "model "+name+": ") != (name != "good") || strings.Contains(checked, "\n") {
			t.Errorf("of %s, Check says %s", name, checked)
		}
	}
	for _, i := range s.Models() {
		if (i.State == Ready) != (i.Name == "good") || !strings.Contains(i.Reason, want[i.Name]) || strings.Contains(i.Reason, "\n") {
			t.Errorf("%s is %s: %s", i.Name, i.State, i.Reason)
		}
		delete(want, i.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	if err := os.Symlink("loop", filepath.Join(folder, "loop")); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(t.Context(), "loop"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a folder that cannot be read: %v", err)
	}
	if _, err := New(s.rt, Options{Folder: filepath.Join(folder, "none")}); err == nil {
		t.Error("a folder that there is not")
	}
}

// What an example has in a file is served: a graph of two tasks with weights.
func TestBlur(t *testing.T) {
	folder := t.TempDir()
	dir := filepath.Join(folder, "blur")
	os.Mkdir(dir, 0o755)
	for _, name := range []string{"blur.json", "gauss.npy", "blur.cu", "blur.spv"} {
		src, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "blur", name))
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(dir, name), src, 0o644)
	}
	os.WriteFile(filepath.Join(dir, "model.yaml"), []byte("kind: graph\nfile: blur.json\nbatch: 2\ncopies: 1\n"), 0o644)
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu/2", NoCalibrate: true, CacheDir: "off", Funcs: conv.Funcs()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	s, err := New(rt, Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	poll.True(t, "it is ready", func() bool { return s.Ready() == nil })
	image := make([]float32, 24*32)
	image[5*32+7] = 16
	res, err := s.Infer(t.Context(), &Request{Model: "blur", Outputs: []string{"smooth"}, Inputs: []Tensor{{Name: "image", Type: FP32, Shape: []int64{1, 24, 32}, Data: floats(image...)}}})
	if err != nil {
		t.Fatal(err)
	}
	at := func(y, x int) float32 {
		return math.Float32frombits(binary.LittleEndian.Uint32(res.Outputs[0].Data[4*(y*32+x):]))
	}
	if at(5, 7) != 4 || at(4, 7) != 2 || at(6, 8) != 1 || at(7, 7) != 0 {
		t.Errorf("a dot becomes %v, %v, %v, %v", at(5, 7), at(4, 7), at(6, 8), at(7, 7))
	}
	if i, _ := s.Model("blur", ""); len(i.Devices) != 1 {
		t.Errorf("one copy is on %v", i.Devices)
	}
}

// Without a folder a reservoir is served that tells its three classes apart.
func TestBuiltin(t *testing.T) {
	s := ready(t, "", nil)
	info, err := s.Model(builtinName, "")
	if err != nil || fmt.Sprint(info.Inputs, info.Outputs) != "[{input FP32 [-1 20 64]}] [{output FP32 [-1 3]}]" || info.Kind != "reservoir" {
		t.Fatalf("%+v, %v", info, err)
	}
	m := &reservoir.Model{Weights: &reservoir.Weights{Params: reservoir.Params{Inputs: 64}}, Steps: 20, Mode: reservoir.Sequence}
	right := 0
	for i := range 30 {
		values := make([]float64, 64)
		for c := range values {
			values[c] = []float64{0.2, 0.8, 0.5}[i%3]
			if c >= 32 {
				values[c] = []float64{0.8, 0.2, 0.5}[i%3]
			}
		}
		p, err := reservoir.Encoder{Seed: 9, Duration: 100}.Rate(values, uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		u := make([]float32, 20*64)
		if err := m.Input(u, p); err != nil {
			t.Fatal(err)
		}
		res, err := s.Infer(t.Context(), &Request{Model: builtinName, Inputs: []Tensor{{Name: "input", Type: FP32, Shape: []int64{1, 20, 64}, Data: floats(u...)}}})
		if err != nil {
			t.Fatal(err)
		}
		var out []float64
		for b := res.Outputs[0].Data; len(b) > 0; b = b[4:] {
			out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
		}
		if class, _ := reservoir.Class(out); class == i%3 {
			right++
		}
	}
	if right < 27 {
		t.Errorf("%d of 30 patterns were recognised", right)
	}
}

// A device that is drained gets no more batches, and those it has end.
func TestDrain(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 1, "")
	s := ready(t, folder, nil)
	first := s.devices[0].name
	if err := s.rt.Drain(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	// used says whether some of many requests at a time were computed there.
	used := func() bool {
		var on atomic.Bool
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				r, err := s.Infer(t.Context(), ask("m", 1, 2, 3))
				if err != nil {
					t.Error(err)
				} else if r.Device == first {
					on.Store(true)
				}
			})
		}
		all.Wait()
		return on.Load()
	}
	poll.True(t, "it gets no more batches", func() bool { return !used() })
	if err := s.rt.Undrain(first); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "it gets batches again", used)
}

// What a device had when it was lost is computed elsewhere.
func TestLostDevice(t *testing.T) {
	folder := t.TempDir()
	g := &gate{open: make(chan struct{})}
	put(t, filepath.Join(folder, "m"), "held", 1, "warmup: 0\n")
	s := ready(t, folder, g)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			x := float32(i)
			r, err := s.Infer(t.Context(), ask("m", x, x, x))
			if err != nil || !bytes.Equal(r.Outputs[0].Data, want(ten, x, x, x)) || r.Device != s.devices[1].name {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	poll.True(t, "a batch is on each device", func() bool { return g.inside.Load() == 2 && s.Stats()[0].Waiting == 2 })
	s.deviceIs(s.devices[0].name, "lost")
	poll.True(t, "the batch is given up", func() bool { return g.inside.Load() == 1 })
	close(g.open)
	all.Wait()
	if st := s.Stats()[0]; st.Succeeded != 4 || st.Batches != 4 {
		t.Errorf("%+v", st)
	}
}

// What the service allows bounds what a model asks for.
func TestBounds(t *testing.T) {
	folder := t.TempDir()
	g := &gate{open: make(chan struct{})}
	put(t, filepath.Join(folder, "m"), "held", 8, "warmup: 0\n")
	put(t, filepath.Join(folder, "large"), "mul", 1024, "memory: 10KiB\n")
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: funcs(g)})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, o := range []Options{{Deadline: -1}, {MaxWaiting: -1}, {MaxBatch: -1}, {MaxWait: -1}, {Depth: -1}} {
		if _, err := New(rt, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	s, err := New(rt, Options{Folder: folder, Deadline: patience, MaxBatch: 3, Depth: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if n := s.m.MaxWaiting; n != 10_000 {
		t.Errorf("%d requests may wait where nothing is said", n)
	}
	poll.True(t, "models are loaded", func() bool {
		i, err := s.Model("m", "")
		return err == nil && i.State == Ready
	})
	if i, err := s.Model("m", ""); err != nil || i.MaxBatch != 3 {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := s.Infer(t.Context(), ask("m", make([]float32, 12)...)); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "at most 3") {
		t.Errorf("a request of four examples: %v", err)
	}
	if i, err := s.Model("large", ""); err != nil || i.State != Failed || !strings.Contains(i.Reason, "a batch of 1024 takes 24KiB of memory and may take 10KiB") || !strings.Contains(i.Reason, "model.yaml") {
		t.Errorf("a model that takes more memory than it may: %+v, %v", i, err)
	}
	var all sync.WaitGroup
	var most atomic.Int64
	for i := range 20 {
		all.Go(func() {
			r := ask("m", make([]float32, 3*(1+i%2*2))...) // one example, or three
			res, err := s.Infer(t.Context(), r)
			if err != nil {
				t.Error(err)
				return
			}
			for n := most.Load(); i%2 == 0 && n < int64(res.Batch); n = most.Load() {
				most.CompareAndSwap(n, int64(res.Batch))
			}
		})
	}
	poll.True(t, "two batches are under way and the others wait", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := s.models["m"]["1"].mod.Waiting()
		for b := range s.flights {
			n += len(b.Items)
		}
		return len(s.flights) == 2 && n == 20
	})
	close(g.open)
	all.Wait()
	if most.Load() > 3 {
		t.Errorf("%d requests were computed together", most.Load())
	}
}

// A model goes to devices that are in service and have the room.
func TestFits(t *testing.T) {
	for _, x := range []struct {
		d    weft.DeviceMetrics
		want string
	}{
		{weft.DeviceMetrics{State: "healthy"}, ""}, // without a limit
		{weft.DeviceMetrics{State: "healthy", MemBytes: 100, MemUsed: 90}, ""},
		{weft.DeviceMetrics{State: "healthy", MemBytes: 100, MemUsed: 91}, "room for 9, and the model takes 10"},
		{weft.DeviceMetrics{State: "spare", MemBytes: 100}, "is spare"},
		{weft.DeviceMetrics{State: "lost"}, "is lost"},
	} {
		full := weft.DeviceMetrics{Name: "full", State: "healthy", MemBytes: 1}
		if err := fits([]weft.DeviceMetrics{full, x.d}, "", 10); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v, not %q", x.d, err, x.want)
		}
	}
}
