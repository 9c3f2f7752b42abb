//go:build lavapipe

package vulkan

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/backendtest"
	"github.com/weft-run/weft/machine"
)

// rig is an attached device and the bookkeeping of a caller that waits for each
// operation. Lanes are 0 to compute, 1 to copy in and 2 to copy out.
type rig struct {
	testing.TB
	*device
	seq  [3]uint32
	buf  driver.Buffer
	woke chan struct{}
}

func openRig(t testing.TB, o Options) *rig {
	t.Helper()
	devs, err := New(o).Open(context.Background(), warnings(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devs[1:] {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	r := &rig{TB: t, device: devs[0].(*device), woke: make(chan struct{}, 1)}
	r.Attach(driver.NewBoard(3), []driver.Lane{0, 1, 2}, func() {
		select {
		case r.woke <- struct{}{}:
		default:
		}
	})
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// do runs an operation and returns how it ended.
func (r *rig) do(o driver.Op) driver.Completion {
	r.Helper()
	r.seq[o.Lane]++
	o.Seq = r.seq[o.Lane]
	if err := r.Submit([]driver.Op{o}); err != nil {
		r.Fatal(err)
	}
	late := time.NewTimer(2 * time.Minute)
	defer late.Stop()
	for {
		var c [1]driver.Completion
		if r.Completions(c[:]) == 1 && c[0].Lane != driver.NoLane {
			return c[0]
		}
		select {
		case <-r.woke:
		case <-late.C:
			r.Fatal("an operation did not complete within two minutes")
		}
	}
}

// put makes a buffer that holds data.
func (r *rig) put(data []byte) driver.Buffer {
	r.Helper()
	r.buf++
	if err := r.Submit([]driver.Op{{Kind: driver.Alloc, Buf: r.buf, Bytes: int64(len(data))}}); err != nil {
		r.Fatal(err)
	}
	if c := r.do(driver.Op{Kind: driver.Copy, Lane: 1, Bytes: int64(len(data)), Src: driver.NoBuffer, HostSrc: data, Dst: r.buf}); c.Err != nil {
		r.Fatal(c.Err)
	}
	return r.buf
}

func (r *rig) get(b driver.Buffer, n int) []byte {
	r.Helper()
	out := make([]byte, n)
	if c := r.do(driver.Op{Kind: driver.Copy, Lane: 2, Bytes: int64(n), Src: b, HostDst: out, Dst: driver.NoBuffer}); c.Err != nil {
		r.Fatal(c.Err)
	}
	return out
}

func (r *rig) launch(s graph.Step, args ...driver.Arg) error {
	r.Helper()
	t := &graph.Task{Name: "test", Steps: []graph.Step{s}}
	for range args {
		t.Uses = append(t.Uses, graph.Use{Access: graph.ReadWrite})
	}
	return r.do(driver.Op{Kind: driver.Launch, Task: t, Args: args}).Err
}

func words(xs ...uint32) (b []byte) {
	for _, x := range xs {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}

func step(name string, n int, k uint32) graph.Step {
	s := graph.Step{Kernel: &graph.Kernel{Name: name, Impls: testImpls(name)}, Launch: graph.Launch{Grid: [3]uint32{uint32(n), 1, 1}}}
	if name == "saxpy" {
		return s.With(backendtest.SaxpyParams{N: n, K: math.Float32frombits(k)})
	}
	return s.With(backendtest.Params{N: n, K: k})
}

// plane are the parameters of the kernels where and rows.
type plane struct{ W, H int }

// What the suite does, the validation layer has nothing to say about.
func TestValid(t *testing.T) {
	for name, o := range map[string]Options{
		"direct": {MemBytes: 64 << 20, Validation: true, Streams: 2}, "staged": {MemBytes: 64 << 20, Validation: true, stage: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRig(t, o)
			x := r.put(make([]byte, 5<<20))
			if err := r.MapHost(make([]byte, 8192)); err != nil {
				t.Error(err)
			}
			for _, off := range []int64{0, 4, 256} {
				if err := r.launch(step("add", 1000, 1), driver.Arg{Buf: x, Off: off, Bytes: 4000}); err != nil {
					t.Error(err)
				}
			}
			if got := binary.LittleEndian.Uint32(r.get(x, 5<<20)[4:]); got != 2 {
				t.Errorf("word 1 is %d, want 2", got)
			}
		})
	}
	var says bytes.Buffer
	d := New(Options{Validation: true})
	devs, err := d.Open(context.Background(), slog.New(slog.NewTextHandler(&says, nil)))
	if err != nil {
		t.Fatal(err)
	}
	dev := devs[0].(*device)
	f := getFrame()
	defer f.free()
	_, _ = create(f, &dev.c.createBuffer, dev.handle, bufferInfo{head: head{typ: tBuffer}, usage: bufferUsage}) // of no size
	if !strings.Contains(says.String(), "vulkan validation") {
		t.Errorf("a mistake was made, and the layer says %q", says.String())
	}
	for _, dev := range devs {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Where a device does its own copying, mapped host memory needs no staging.
func TestImport(t *testing.T) {
	r := openRig(t, Options{MemBytes: 64 << 20, stage: true})
	if r.limits.hostAlign == 0 {
		t.Fatalf("%s cannot import host memory, so nothing is tried", r.info.Model)
	}
	mem := make([]byte, 100_003)
	if err := r.MapHost(mem); err != nil {
		t.Fatal(err)
	}
	if at, ok := r.imported(mem[5:99_000]); !ok || at.bytes != 98_995 {
		t.Errorf("mapped memory is seen at %+v, %v", at, ok)
	}
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	b := r.put(mem)
	staged := 0
	for _, l := range r.lanes {
		for _, s := range l.all {
			if s.stage != nil {
				staged++
			}
		}
	}
	if staged > 0 {
		t.Errorf("%d staging buffers were made for memory that needs none", staged)
	}
	if got := r.get(b, len(mem)); !bytes.Equal(got, mem) {
		t.Error("what was copied from mapped memory comes back different")
	}
	if err := r.UnmapHost(mem); err != nil {
		t.Error(err)
	}
	if _, ok := r.imported(mem); ok {
		t.Error("memory that was unmapped is still seen")
	}
}

// A grid larger than a dispatch may be is started in parts, with the group size
// of the launch, and every group runs once.
func TestGridInParts(t *testing.T) {
	r := openRig(t, Options{MemBytes: 64 << 20, group: 3})
	const w, h, d = 2 * 11, 3 * 7, 1 * 5
	x := r.put(make([]byte, 4*w*h*d))
	s := step("where", 0, 0)
	s.Launch = graph.Launch{Grid: [3]uint32{11, 7, 5}, Block: [3]uint32{2, 3, 1}}
	s = s.With(plane{w, h})
	if err := r.launch(s, driver.Arg{Buf: x, Bytes: 4 * w * h * d}); err != nil {
		t.Fatal(err)
	}
	got := r.get(x, 4*w*h*d)
	for i := range w * h * d {
		want := uint32(1 + i%w%2 + i/w%h%3*2)
		if v := binary.LittleEndian.Uint32(got[4*i:]); v != want {
			t.Fatalf("item %d was written %d, want %d", i, v, want)
		}
	}
}

// What a device cannot take is refused before its driver sees it.
func TestLimits(t *testing.T) {
	r := openRig(t, Options{MemBytes: 1 << 30})
	small := r.put(words(5))
	arg := driver.Arg{Buf: small, Bytes: 4}
	if err := r.Submit([]driver.Op{{Kind: driver.Alloc, Buf: 100, Bytes: r.limits.storageBytes + 4}}); err != nil {
		t.Fatal(err)
	}
	add := step("add", 1, 1)
	sized := step("where", 0, 0)
	sized.Launch.Block = [3]uint32{r.limits.invocations + 1, 1, 1}
	fixed := step("add", 1, 1)
	fixed.Launch.Block = [3]uint32{32, 1, 1}
	long := step("add", 1, 1)
	long.Params = make([]byte, r.limits.pushBytes+4)
	short := step("add", 1, 1)
	short.Params = words(1)
	shared := step("add", 1, 1)
	shared.Launch = graph.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{64, 1, 1}, SharedBytes: 4}
	heap := step("heap", 1, 1)
	row := step("rows", 0, 0)
	row.Launch.Block = [3]uint32{32, 1, 1}
	for name, c := range map[string]struct {
		step graph.Step
		args []driver.Arg
		says string
	}{
		"too much shared memory":  {heap, []driver.Arg{arg}, "groups that share 1048620 bytes; the device has"},
		"other rows of a group":   {row, []driver.Arg{arg}, "compiled for groups of [32 2 1], launched with [32 1 1]"},
		"an empty buffer":         {add, []driver.Arg{{Buf: small, Bytes: 0}}, "empty"},
		"too large a buffer":      {add, []driver.Arg{{Buf: 100, Bytes: r.limits.storageBytes + 4}}, "cut the task"},
		"no buffer":               {add, nil, "has 1 buffers, given are 0"},
		"too many buffers":        {add, make([]driver.Arg, r.limits.arguments+1), "buffers; the device takes"},
		"too large a group":       {sized, []driver.Arg{arg}, "groups of"},
		"another group":           {fixed, []driver.Arg{arg}, "compiled for groups of [64 1 1]"},
		"too many parameters":     {long, []driver.Arg{arg}, "bytes of parameters; the device takes"},
		"too few parameters":      {short, []driver.Arg{arg}, "it takes 8 bytes, given are 4"},
		"dynamic shared memory":   {shared, []driver.Arg{arg}, "shared memory"},
		"groups that work united": {graph.Step{Kernel: add.Kernel, Params: add.Params, Launch: graph.Launch{Cooperative: true}}, []driver.Arg{arg}, "wait for one another"},
	} {
		for i := range c.args {
			if c.args[i].Buf == 0 {
				c.args[i] = arg
			}
		}
		if err := r.launch(c.step, c.args...); !errors.Is(err, driver.ErrKernel) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q with %q", name, err, driver.ErrKernel, c.says)
		}
	}
	if err := r.launch(add, arg); err != nil {
		t.Error(err)
	}
	if got := r.get(small, 4); !bytes.Equal(got, words(6)) {
		t.Errorf("after all that 5+1 is %d", got)
	}
}

// A group's size is the launch's where the shader leaves it open, and nowhere else;
// so is the memory groups share.
func TestOpenWidth(t *testing.T) {
	r := openRig(t, Options{MemBytes: 64 << 20})
	const w, h = 3 * 16, 2 * 2
	x := r.put(make([]byte, 4*w*h))
	launch := func(width uint32) error {
		s := step("rows", 0, 0)
		s.Launch = graph.Launch{Grid: [3]uint32{w / width, h / 2, 1}, Block: [3]uint32{width, 2, 1}}
		s = s.With(plane{w, h})
		return r.launch(s, driver.Arg{Buf: x, Bytes: 4 * w * h})
	}
	for _, width := range []uint32{16, 48, 8} {
		if err := launch(width); err != nil {
			t.Fatal(err)
		}
		got := r.get(x, 4*w*h)
		for i := range uint32(w * h) {
			if v := binary.LittleEndian.Uint32(got[4*i:]); v != 200+7+i%w%width {
				t.Fatalf("groups of %d: item %d is %d, want %d", width, i, v, 200+7+i%w%width)
			}
		}
	}
	r.limits.sharedBytes = 24 + 16*16 // as on a device that has no more
	if err := launch(16); err != nil {
		t.Error(err)
	}
	if err := launch(48); !errors.Is(err, driver.ErrKernel) || !strings.Contains(err.Error(), "share 792 bytes; the device has 280") {
		t.Errorf("groups of 48: %v", err)
	}
}

// What keeps a kernel from being made and may pass does not keep it for ever.
func TestPassingTrouble(t *testing.T) {
	r := openRig(t, Options{MemBytes: 64 << 20})
	x := r.put(words(5))
	arg := driver.Arg{Buf: x, Bytes: 4}
	s := step("add", 1, 1)
	for what, p := range map[string]*proc{"modules": &r.c.createModule, "pipelines": &r.c.createPipelines} {
		whole := *p
		p.addr = 0
		s := step("add", 1, 1)
		if what == "pipelines" { // of shaders that were not launched yet
			slow := s.Kernel.Impls[0]
			slow.Source, slow.Block = readTest(t, "slow"), [3]uint32{64, 1, 1}
			s.Kernel.Impls = []graph.Impl{slow, slow}
		}
		if err := r.launch(s, arg); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("without %s: %v", what, err)
		}
		*p = whole
		if k := r.kernels[s.Kernel]; k != nil && k.timings[classOf(s.Launch)].decided {
			t.Errorf("without %s: a variant was ruled out", what)
		}
		if err := r.launch(s, arg); err != nil {
			t.Errorf("with %s again: %v", what, err)
		}
	}
	glsl := s
	glsl.Kernel = &graph.Kernel{Name: "glsl", Impls: []graph.Impl{{Dialect: graph.GLSL, Entry: "main", Per: [3]uint32{64}, Block: [3]uint32{64}, Source: []byte(`#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer X { uint x[]; };
void main() { if (gl_GlobalInvocationID.x == 0) x[0] = 77; }`)}}}
	path := os.Getenv("PATH")
	t.Setenv("PATH", t.TempDir())
	if err := r.launch(glsl, arg); !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, driver.ErrKernel) {
		t.Errorf("without glslc: %v", err)
	}
	t.Setenv("PATH", path)
	if err := r.launch(glsl, arg); err != nil {
		t.Errorf("with glslc: %v", err)
	}
	if got := r.get(x, 4); !bytes.Equal(got, words(77)) {
		t.Errorf("the shader wrote %d", got)
	}
}

// A device whose driver lacks something is given back, and a layer that nobody can
// listen to is forgotten.
func TestHalfOpened(t *testing.T) {
	p, err := openPlatform(Options{}, warnings(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.release()
	found, err := p.find()
	if err != nil {
		t.Fatal(err)
	}
	whole, ended := p.api.deviceProc, 0
	p.api.deviceProc = proc{whole.name, callback(func(device uintptr, name unsafe.Pointer) uintptr {
		f := getFrame()
		defer f.free()
		real := f.call(&whole, device, uintptr(name))
		switch text(unsafe.Slice((*byte)(name), 64)) {
		case "vkCmdWriteTimestamp":
			return 0
		case "vkDestroyDevice":
			return callback(func(device, allocator uintptr) uintptr {
				ended++
				f := getFrame()
				defer f.free()
				return f.call(&proc{"vkDestroyDevice", real}, device, allocator)
			})
		}
		return real
	})}
	if err := found[0].open(); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "vkCmdWriteTimestamp") || ended != 1 {
		t.Errorf("opened without timestamps: %v; %d devices were given back", err, ended)
	}
	p.api.deviceProc = whole
	if err := found[0].open(); err != nil {
		t.Fatal(err)
	}
	if err := found[0].Close(); err != nil {
		t.Error(err)
	}
	f := getFrame()
	defer f.free()
	p.api.createMessenger.addr = 0
	if err := p.listen(f); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("listened: %v", err)
	}
	if _, there := hearers.Load(p.messengerID()); there {
		t.Error("what could not listen is still called")
	}
}

// A shader that only the driver finds to be wrong fails what uses it, not the device.
func TestRefused(t *testing.T) {
	r := openRig(t, Options{MemBytes: 64 << 20})
	small := r.put(words(5))
	arg := driver.Arg{Buf: small, Bytes: 4}
	bad := step("add", 1, 1)
	impl := &bad.Kernel.Impls[0]
	impl.Source = bytes.Clone(impl.Source)
	const load = 61
	for at := 20; at < len(impl.Source); {
		w := binary.LittleEndian.Uint32(impl.Source[at:])
		if w&0xffff == load { // of a type that is none
			copy(impl.Source[at+4:at+8], impl.Source[at+8:at+12])
		}
		at += 4 * int(w>>16)
	}
	if err := r.launch(bad, arg); !errors.Is(err, driver.ErrKernel) || errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("a load without a type: %v; want %q", err, driver.ErrKernel)
	}
	if err := r.launch(step("add", 1, 1), arg); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// GLSL is compiled when it is needed; what the compiler says reaches the user.
func TestGLSL(t *testing.T) {
	r := openRig(t, Options{MemBytes: 64 << 20})
	source := `#version 450
layout(local_size_x = 32) in;
layout(binding = 0) buffer X { float x[]; };
layout(push_constant) uniform P { uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) x[i] = sqrt(x[i]); }`
	kernel := func(source string) graph.Step {
		return graph.Step{
			Kernel: &graph.Kernel{Name: "roots", Impls: []graph.Impl{
				{Dialect: graph.GLSL, Entry: "main", Source: []byte(source), Per: [3]uint32{32}, Block: [3]uint32{32}}}},
			Launch: graph.Launch{Grid: [3]uint32{100}}, Params: words(100),
		}
	}
	var data []byte
	for i := range 100 {
		data = append(data, words(math.Float32bits(float32(i*i)))...)
	}
	x := r.put(data)
	if err := r.launch(kernel(source), driver.Arg{Buf: x, Bytes: 400}); err != nil {
		t.Fatal(err)
	}
	got := r.get(x, 400)
	for i := range 100 {
		if v := math.Float32frombits(binary.LittleEndian.Uint32(got[4*i:])); v != float32(i) {
			t.Fatalf("root %d is %v", i, v)
		}
	}
	err := r.launch(kernel(strings.Replace(source, "sqrt(", "squirt(", 1)), driver.Arg{Buf: x, Bytes: 400})
	if !errors.Is(err, driver.ErrKernel) || !strings.Contains(err.Error(), "squirt") {
		t.Errorf("broken GLSL: %v", err)
	}
}

// Compiled pipelines are kept on disk; what was spoilt there does no harm.
func TestPipelineCache(t *testing.T) {
	dir := t.TempDir()
	run := func() {
		t.Helper()
		r := openRig(t, Options{MemBytes: 64 << 20, CacheDir: dir, Devices: []int{0}})
		x := r.put(words(5))
		if err := r.launch(step("add", 1, 1), driver.Arg{Buf: x, Bytes: 4}); err != nil {
			t.Fatal(err)
		}
		if got := r.get(x, 4); !bytes.Equal(got, words(6)) {
			t.Errorf("5+1 is %d", got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	run()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 || !strings.HasSuffix(files[0], ".pipelines") {
		t.Fatalf("kept are %q, %v", files, err)
	}
	run()
	if err := os.WriteFile(files[0], []byte("this is no cache"), 0o600); err != nil {
		t.Fatal(err)
	}
	run()
	if b, err := os.ReadFile(files[0]); err != nil || !strings.HasPrefix(string(b), pipelineMark) {
		t.Errorf("it was not made again: %v", err)
	}
}

// Software devices share a UUID and are told apart all the same; who wants no
// doubles does not get them.
func TestIdentity(t *testing.T) {
	devs, err := New(Options{}).Open(context.Background(), warnings(t))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range devs {
		info := d.Info()
		if seen[info.UUID] || info.Kind != machine.CPU || info.SIMDLanes < 1 || info.Driver == "" {
			t.Errorf("%+v", info)
		}
		seen[info.UUID] = true
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if devs, err := New(Options{NoDoubles: true}).Open(context.Background(), nil); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("devices that are no doubles on a machine without: %v, %v", devs, err)
	}
	if got := New(Options{}).(driver.Examiner).Examine(); len(got) != 2 || !got[0].OK || !got[1].OK {
		t.Errorf("examined: %+v", got)
	}
}

func BenchmarkSuite(b *testing.B) { backendtest.Bench(b, config(Options{MemBytes: 1 << 30})) }

// time runs a launch over and over, from giving it until its end is known. A device
// that computes on the CPU shares it with others, so what it took of the CPU is
// reported as well: on an idle machine, cores divide it among themselves.
func (r *rig) time(b *testing.B, s graph.Step, args ...driver.Arg) {
	b.Helper()
	before, n := cpuTime(), 0
	for b.Loop() {
		n++
		if err := r.launch(s, args...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpuTime()-before).Seconds()*1e3/float64(n), "cpu-ms/op")
}

// cpuTime is what the process took of the CPU so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails for no process of one's own
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSaxpy is y += k·x of 16 M floats.
func BenchmarkSaxpy(b *testing.B) {
	r := openRig(b, Options{MemBytes: 1 << 30})
	const n = 16 << 20
	zeros := make([]byte, 4*n)
	x, y := driver.Arg{Buf: r.put(zeros), Bytes: 4 * n}, driver.Arg{Buf: r.put(zeros), Bytes: 4 * n}
	b.SetBytes(12 * n)
	r.time(b, step("saxpy", n, math.Float32bits(3)), x, y)
}

// BenchmarkProduct is the product of two matrices of 1024 × 1024, by gemm's kernel.
func BenchmarkProduct(b *testing.B) {
	source, err := os.ReadFile("../../../workload/gemm/gemm_rows.spv")
	if err != nil {
		b.Fatal(err)
	}
	r := openRig(b, Options{MemBytes: 1 << 30})
	const n = 1024
	zeros := make([]byte, 4*n*n)
	var args []driver.Arg
	for range 3 {
		args = append(args, driver.Arg{Buf: r.put(zeros), Bytes: 4 * n * n})
	}
	impl := graph.Impl{Dialect: graph.SPIRV, Entry: "main", Source: source, Per: [3]uint32{8, 512}, Block: [3]uint32{64}}
	r.time(b, graph.Step{
		Kernel: &graph.Kernel{Name: "gemm", Impls: []graph.Impl{impl}},
		Launch: graph.Launch{Grid: [3]uint32{n, n, 1}}, Params: words(n, n, n),
	}, args...)
}
