//go:build gpu || stub || cgo

package cuda

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/backendtest"
	"github.com/weft-run/weft/machine"
)

func TestInfo(t *testing.T) {
	for _, r := range openRigs(t, Options{Streams: 2}) {
		d := r.dev.Info()
		t.Logf("%+v", d)
		m := machine.Machine{Name: "m", Devices: []machine.Device{d}}
		if err := m.Validate(); err != nil {
			t.Error(err)
		}
		if d.Backend != "cuda" || !strings.HasPrefix(d.Arch, "sm_") || d.MemBytes <= 0 || d.ComputeUnits <= 0 || d.Lanes != 2 || d.UUID == "" || d.Model == "" {
			t.Errorf("info is %+v", d)
		}
		tm, err := r.dev.(driver.Telemeter).Telemetry()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", tm)
		if tm.TempC < 1 || tm.TempC > 120 || tm.MemUsed < 0 || tm.MemUsed > 1 || tm.PowerW <= 0 || tm.ClockMHz <= 0 || tm.Util < 0 || tm.Util > 1 {
			t.Errorf("telemetry is %+v", tm)
		}
		if peak := r.dev.Traits().MemoryPeak; peak < 10e9 || peak > 100e12 {
			t.Errorf("memory is built for %g B/s", peak)
		}
		if d.PowerWatts <= 0 {
			t.Errorf("no power limit")
		}
		if l := r.dev.Traits().HostLink; l.Kind != machine.PCIe || l.BPS < 1e9 {
			t.Errorf("link to host is %+v", l)
		}
		if s := r.dev.(driver.Hanger).LastSeen(); time.Since(s) > time.Minute {
			t.Errorf("last seen %v ago", time.Since(s))
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{Streams: -1}, {Streams: 7}, {MemBytes: -1}, {Devices: []int{-1}}} {
		if _, err := New(o).Open(context.Background(), nil); err == nil || errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	o := Options{Devices: []int{99}, LibraryPath: libraryPath(t)}
	if _, err := New(o).Open(context.Background(), nil); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a device that is not there: %v", err)
	}
}

func TestExamine(t *testing.T) {
	for _, f := range New(Options{LibraryPath: libraryPath(t)}).(driver.Examiner).Examine() {
		t.Logf("%+v", f)
		if f.What == "NVIDIA driver" && !f.OK || f.What == "" || f.Says == "" || !f.OK && f.Fix == "" {
			t.Errorf("finding %+v", f)
		}
	}
}

// Copies in, a chain of launches and a copy out, all submitted at once.
func TestChain(t *testing.T) {
	for _, lanes := range []int{1, 2} {
		r := openRig(t, Options{Streams: lanes})
		const n = 5000
		src, dst := upTo(n), make([]uint32, n)
		b := r.alloc(4 * n)
		one := &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), n)}}
		for range 3 { // the first time nothing is known, later ones share tickets
			w := r.copyIn(b, bytesOf(src))
			for i := range 20 {
				w = r.launch(i%lanes, one, args(4*n, b), w)
			}
			w = r.copyOut(bytesOf(dst), b, w)
			r.must(w)
			for i := range dst {
				if dst[i] != src[i]+20 {
					t.Fatalf("element %d is %d, want %d", i, dst[i], src[i]+20)
				}
			}
			clear(dst)
		}
	}
}

// Launches that come back, the same as before or with another buffer, parameter, grid,
// block or kernel: what a graph of them does is set again where it differs.
func TestChainAgain(t *testing.T) {
	r := openRig(t, Options{Streams: 1})
	const n = 2048
	kernel := testKernel("add_one")
	var kinds [6]struct {
		task  *graph.Task
		reach int
		by    uint32
	}
	for i := range kinds {
		k := &kinds[i]
		s := step(kernel, n)
		k.reach, k.by = n, 1
		switch i {
		case 1:
			s.Params, k.reach = params(count{n / 2}), n/2
		case 2:
			s.Launch, k.reach = graph.Launch{Grid: [3]uint32{2}, Block: [3]uint32{256}}, 512
		case 3:
			s.Launch, k.reach = graph.Launch{Grid: [3]uint32{4}, Block: [3]uint32{256}}, 1024
		case 4: // as 3 but for the block
			s.Launch, k.reach = graph.Launch{Grid: [3]uint32{4}, Block: [3]uint32{128}}, 512
		case 5:
			s.Kernel, k.by = testKernel("add_two"), 2
		}
		k.task = &graph.Task{Steps: []graph.Step{s}}
	}
	bufs := [2]driver.Buffer{r.alloc(4 * n), r.alloc(4 * n)}
	var want [2][n]uint32
	dst := make([]uint32, n)
	clean := make([]uint32, n)
	for _, b := range bufs {
		r.must(r.copyIn(b, bytesOf(clean)))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	first, of := 0, [3]int{}
	for round := range 200 {
		switch round % 4 { // or as in the round before
		case 0:
			first = rnd.IntN(2)
		case 2:
			of[rnd.IntN(3)] = rnd.IntN(len(kinds))
		}
		var batch []driver.Op
		var last driver.Wait
		for i := range 3 {
			b, k := (first+i)%2, &kinds[of[i]]
			for j := range k.reach {
				want[b][j] += k.by
			}
			op, w := r.on(0, driver.Op{Kind: driver.Launch, Task: k.task, Args: args(4*n, bufs[b])})
			batch, last = append(batch, op), w
		}
		r.submit(batch...)
		r.must(last)
	}
	for b, buf := range bufs {
		r.must(r.copyOut(bytesOf(dst), buf))
		if !slices.Equal(dst, want[b][:]) {
			t.Errorf("buffer %d begins with %d, want %d; at half %d, want %d", b, dst[0], want[b][0], dst[n/2], want[b][n/2])
		}
	}
}

// Random graphs of copies and launches over lanes, against the same in Go.
func TestRandom(t *testing.T) {
	kernel := testKernel("saxpy")
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		r := openRig(t, Options{Streams: 1 + int(seed)%3})
		const n, count = 1000, 6
		host := make([][]float32, count) // what the buffers should hold
		bufs := make([]driver.Buffer, count)
		last := make([][]driver.Wait, count) // users of each buffer
		pinned := make([][]float32, count)
		for i := range bufs {
			host[i], pinned[i] = make([]float32, n), make([]float32, n)
			for j := range host[i] {
				host[i][j] = float32(rnd.IntN(100))
			}
			copy(pinned[i], host[i])
			bufs[i] = r.alloc(4 * n)
			last[i] = []driver.Wait{r.copyIn(bufs[i], bytesOf(pinned[i]))}
		}
		for range 300 {
			x, y := rnd.IntN(count), rnd.IntN(count)
			if x == y {
				continue
			}
			waits := slices.Concat(last[x], last[y])
			if rnd.IntN(4) == 0 {
				copy(host[y], host[x])
				w := r.send(r.in(), driver.Op{Kind: driver.Copy, Bytes: 4 * n, Src: bufs[x], Dst: bufs[y]}, waits...)
				last[x], last[y] = []driver.Wait{w}, []driver.Wait{w}
				continue
			}
			a := float32(rnd.IntN(3)) * 0.5
			for j := range host[y] {
				host[y][j] = a*host[x][j] + host[y][j]
				if host[y][j] > 1e30 {
					t.Fatal("numbers grow too large")
				}
			}
			task := &graph.Task{Steps: []graph.Step{{Kernel: kernel, Launch: graph.Launch{Grid: [3]uint32{n}}, Params: params(backendtest.SaxpyParams{N: n, K: a})}}}
			w := r.launch(rnd.IntN(r.lanes-2), task, args(4*n, bufs[x], bufs[y]), waits...)
			last[x], last[y] = []driver.Wait{w}, []driver.Wait{w}
		}
		for i := range bufs {
			got := make([]float32, n)
			r.must(r.copyOut(bytesOf(got), bufs[i], last[i]...))
			if !slices.Equal(got, host[i]) {
				t.Fatalf("seed %d: buffer %d differs", seed, i)
			}
		}
		done := map[driver.Lane]uint32{}
		for _, c := range r.all {
			if done[c.Lane]++; c.Seq != done[c.Lane] || c.End < c.Start {
				t.Fatalf("seed %d: lane %d completed %d after %d, from %v to %v", seed, c.Lane, c.Seq, done[c.Lane]-1, c.Start, c.End)
			}
		}
	}
}

func TestStepsAndWorkspace(t *testing.T) {
	r := openRig(t, Options{})
	const n = 3000
	src, dst := upTo(n), make([]uint32, n)
	x, y, work := r.alloc(4*n), r.alloc(4*n), r.alloc(4*n)
	nothing := &graph.Kernel{Name: "elsewhere", Impls: []graph.Impl{{Dialect: graph.PTX}, {Dialect: graph.Go, Entry: "f"}}}
	task := &graph.Task{Steps: []graph.Step{{Kernel: nothing}, step(testKernel("through"), n)}, Workspace: 4 * n}
	w := r.launch(0, task, args(4*n, x, y, work), r.copyIn(x, bytesOf(src)))
	r.must(r.copyOut(bytesOf(dst), y, w))
	if !slices.Equal(src, dst) {
		t.Error("result differs")
	}
}

// A task of many steps is recorded when it runs again, with the same buffers and
// with others.
func TestReplay(t *testing.T) {
	r := openRig(t, Options{})
	const n, steps = 2000, 10
	task := &graph.Task{}
	one, two := testKernel("add_one"), testKernel("add_two")
	for i := range steps {
		k := one
		if i%2 == 1 {
			k = two
		}
		task.Steps = append(task.Steps, step(k, n))
	}
	var bufs []driver.Buffer
	for range replayKeep + 2 {
		bufs = append(bufs, r.alloc(4*n))
	}
	src, dst := upTo(n), make([]uint32, n)
	for round := range 3 * len(bufs) {
		b := bufs[round%len(bufs)]
		if round < 5 {
			b = bufs[0]
		}
		w := r.launch(0, task, args(4*n, b), r.copyIn(b, bytesOf(src)))
		r.must(r.copyOut(bytesOf(dst), b, w))
		for i := range dst {
			if dst[i] != src[i]+steps*3/2 {
				t.Fatalf("round %d: element %d is %d, want %d", round, i, dst[i], src[i]+steps*3/2)
			}
		}
	}
}

// Of several variants that compute the same the fastest is kept.
func TestVariants(t *testing.T) {
	r := openRig(t, Options{})
	slow, fast := testKernel("spin").Impls[0], testKernel("spin").Impls[0]
	k := &graph.Kernel{Name: "pick", Impls: []graph.Impl{slow, fast}}
	k.Impls[0].Entry = "spin_long"
	b := r.alloc(4)
	r.must(r.copyIn(b, make([]byte, 4)))
	p := params(spinParams{100_000})
	task := &graph.Task{Steps: []graph.Step{{Kernel: k, Params: p}}}
	for range 2*trials + 2 {
		r.must(r.launch(0, task, args(4, b)))
	}
	got := r.dev.(driver.Tuner).Tuning()
	if len(got) != 1 || got[0].Kernel != "pick" || got[0].Entry != "spin" || got[0].NS < 90_000 {
		t.Errorf("tuning is %+v", got)
	}
	n := make([]uint32, 1)
	r.must(r.copyOut(bytesOf(n), b))
	if n[0] != 2*trials+2 {
		t.Errorf("ran %d times, want %d", n[0], 2*trials+2)
	}
}

func TestCooperative(t *testing.T) {
	r := openRig(t, Options{})
	const blocks = 6
	b := r.alloc(4 * (blocks + 1))
	zero, got := make([]uint32, blocks+1), make([]uint32, blocks+1)
	task := &graph.Task{Steps: []graph.Step{{Kernel: testKernel("meet"), Launch: graph.Launch{
		Grid: [3]uint32{blocks}, Block: [3]uint32{1}, Cooperative: true}}}}
	w := r.launch(0, task, args(4*(blocks+1), b), r.copyIn(b, bytesOf(zero)))
	r.must(r.copyOut(bytesOf(got), b, w))
	for i, x := range got {
		if x != blocks {
			t.Errorf("word %d is %d, want %d", i, x, blocks)
		}
	}
}

// clusterPTX notes how many blocks its cluster has.
const clusterPTX = `.version 7.8
.target sm_90
.address_size 64
.visible .entry cluster(.param .u64 x)
{
	.reg .b64 %rd<5>;
	.reg .b32 %r<4>;
	ld.param.u64 %rd1, [x];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r1, %cluster_nctaid.x;
	mov.u32 %r2, %ctaid.x;
	mul.wide.u32 %rd3, %r2, 4;
	add.s64 %rd4, %rd2, %rd3;
	st.global.u32 [%rd4], %r1;
	ret;
}
`

func TestClusterAndSharedMemory(t *testing.T) {
	r := openRig(t, Options{})
	b := r.alloc(4 * 1024)
	got := make([]uint32, 32)
	for _, size := range []uint32{2, 4, 16} {
		k := &graph.Kernel{Name: "cluster", Impls: []graph.Impl{{Dialect: graph.PTX, Arch: "sm_90", Entry: "cluster", Source: []byte(clusterPTX)}}}
		task := &graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{
			Grid: [3]uint32{32}, Block: [3]uint32{32}, Cluster: [3]uint32{size, 1, 1}}}}}
		r.must(r.copyOut(bytesOf(got), b, r.launch(0, task, args(4*1024, b))))
		for i, x := range got {
			if x != size {
				t.Errorf("block %d is in a cluster of %d, want %d", i, x, size)
			}
		}
	}
	src, back := upTo(1024), make([]uint32, 1024)
	large := &graph.Task{Steps: []graph.Step{{Kernel: testKernel("large"), Params: params(count{1024}),
		Launch: graph.Launch{Grid: [3]uint32{1}, Block: [3]uint32{1024}, SharedBytes: 64 << 10}}}}
	w := r.launch(0, large, args(4*1024, b), r.copyIn(b, bytesOf(src)))
	r.must(r.copyOut(bytesOf(back), b, w))
	slices.Reverse(back)
	if !slices.Equal(src, back) {
		t.Error("not reversed")
	}
}

// compressed returns a content as gzip has it.
func compressed(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBadKernels(t *testing.T) {
	r := openRig(t, Options{Exact: true})
	b := r.alloc(4096)
	ptx := func(name string, src []byte, arch string) *graph.Kernel {
		return &graph.Kernel{Name: name, Impls: []graph.Impl{{Dialect: graph.PTX, Arch: arch, Entry: name, Source: src, Block: [3]uint32{32}}}}
	}
	for _, c := range []struct {
		task graph.Task
		want string
	}{
		{graph.Task{Steps: []graph.Step{{Kernel: ptx("nowhere", testPTX, "sm_75")}}}, `entry "nowhere"`},
		{graph.Task{Steps: []graph.Step{{Kernel: ptx("nowhere", compressed(t, testPTX), "sm_75")}}}, `entry "nowhere"`},
		{graph.Task{Steps: []graph.Step{{Kernel: ptx("add_one", compressed(t, testPTX)[:50], "sm_75")}}}, "compressed source of add_one"},
		{graph.Task{Steps: []graph.Step{{Kernel: ptx("broken", []byte(".version 6.3\n.target sm_75\n.address_size 64\nthis is no PTX\n"), "sm_75")}}}, "PTX"},
		{graph.Task{Steps: []graph.Step{{Kernel: ptx("void", nil, "sm_75")}}}, "source is empty"},
		{graph.Task{Steps: []graph.Step{{Kernel: ptx("add_one", testPTX, "sm_999")}}}, "it is for sm_999"},
		{graph.Task{Steps: []graph.Step{{Kernel: ptx("add_one", testPTX, "volta")}}}, "write it as sm_75"},
		{graph.Task{Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "go", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "f"}}}}}}, "no implementation"},
		{graph.Task{Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "lib", Impls: []graph.Impl{{Dialect: graph.Library, Entry: "cublas.sgemm"}}}}}}, "not exact"},
		{graph.Task{Steps: []graph.Step{{Kernel: testKernel("add_one")}}}, "it takes 4 bytes, given are 0"},
		{graph.Task{Steps: []graph.Step{{Kernel: testKernel("add_one"), Params: params(count{1})[:2]}}}, "it takes 4 bytes, given are 2"},
		{graph.Task{Steps: []graph.Step{{Kernel: testKernel("add_one"), Params: params(count{1}), Launch: graph.Launch{Grid: [3]uint32{1}, Block: [3]uint32{5000}}}}}, "INVALID_VALUE"},
	} {
		end := r.wait(r.launch(0, &c.task, args(4096, b)))
		if !errors.Is(end.Err, driver.ErrKernel) || !strings.Contains(end.Err.Error(), c.want) {
			t.Errorf("want %q, got %v", c.want, end.Err)
		}
		if stays := c.want != "INVALID_VALUE"; errors.Is(end.Err, driver.ErrUnfit) != stays {
			t.Errorf("%v: whether it stays is not said", end.Err)
		}
		if errors.Is(end.Err, driver.ErrDeviceLost) {
			t.Fatalf("lost the device: %v", end.Err)
		}
	}
	// The device lives on, and runs compressed code.
	packed := *testKernel("add_one")
	packed.Impls = slices.Clone(packed.Impls)
	packed.Impls[0].Source = compressed(t, packed.Impls[0].Source)
	for _, k := range []*graph.Kernel{testKernel("add_one"), &packed} {
		one := &graph.Task{Steps: []graph.Step{step(k, 1024)}}
		r.must(r.launch(0, one, args(4096, b), r.copyIn(b, make([]byte, 4096))))
	}
}

// What fails makes what waits for it fail, and nothing else.
func TestFailureTravels(t *testing.T) {
	r := openRig(t, Options{Streams: 2})
	b := r.alloc(4096)
	bad := &graph.Task{Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "none"}}}}
	one := &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), 1024)}}
	in := r.copyIn(b, make([]byte, 4096))
	f := r.launch(0, bad, args(4096, b), in)
	f2 := r.launch(1, one, args(4096, b), f)
	f3 := r.copyOut(make([]byte, 4096), b, f2)
	ok := r.launch(0, one, args(4096, b), in)
	got := make([]uint32, 1024)
	end := r.copyOut(bytesOf(got), b, ok)
	for _, w := range []driver.Wait{f2, f3} {
		if c := r.wait(w); !errors.Is(c.Err, driver.ErrDependency) {
			t.Errorf("lane %d operation %d: %v", w.Lane, w.Seq, c.Err)
		}
	}
	if c := r.wait(f); !errors.Is(c.Err, driver.ErrKernel) {
		t.Error(c.Err)
	}
	r.must(end)
	if got[0] != 1 || got[1023] != 1 {
		t.Errorf("got %d and %d", got[0], got[1023])
	}
}

// Everything completes exactly once when a device closes under load.
func TestClose(t *testing.T) {
	r := openRig(t, Options{Streams: 2})
	b := r.alloc(4)
	spin := &graph.Task{Steps: []graph.Step{{Kernel: testKernel("spin"), Params: params(spinParams{2_000_000})}}}
	var all []driver.Wait
	for i := range 10 {
		all = append(all, r.launch(i%2, spin, args(4, b)))
	}
	never := driver.Wait{Lane: r.first + driver.Lane(r.in()), Seq: 1000}
	held := r.copyOut(make([]byte, 4), b, never)
	all = append(all, held)
	if err := r.dev.Close(); err != nil {
		t.Error(err)
	}
	if err := r.dev.Close(); err != nil {
		t.Error(err)
	}
	if err := r.dev.Submit([]driver.Op{{Kind: driver.Free}}); !errors.Is(err, driver.ErrClosed) {
		t.Errorf("submit after close: %v", err)
	}
	for _, w := range all {
		if c := r.wait(w); c.Err != nil && !errors.Is(c.Err, driver.ErrClosed) {
			t.Error(c.Err)
		}
	}
	if c := r.wait(held); !errors.Is(c.Err, driver.ErrClosed) {
		t.Errorf("what never began: %v", c.Err)
	}
}

// A secret that is freed as the owner ends, which takes it no more, does not keep Close from its end.
func TestCloseBesideWipe(t *testing.T) {
	r := openRig(t, Options{})
	r.dev.(*device).wiper.asked.Add(1)
	closed := make(chan error, 1)
	go func() { closed <- r.dev.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("Close waits for a wipe that no GPU was given")
	}
}

// Waits between devices go over the board.
func TestTwoDevices(t *testing.T) {
	rigs := openRigs(t, Options{})
	if len(rigs) == 1 { // the stub, which CI runs, always has two
		t.Log("one GPU: its peer is missing")
		return
	}
	a, b := rigs[0], rigs[1]
	x, y := a.alloc(4000), b.alloc(4000)
	one := &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), 1000)}}
	src, mid, dst := upTo(1000), make([]uint32, 1000), make([]uint32, 1000)
	back := b.copyOut(bytesOf(dst), y, driver.Wait{Lane: b.first, Seq: 1})
	w := b.launch(0, one, args(4000, y), driver.Wait{Lane: b.first + driver.Lane(b.in()), Seq: 1})
	in := b.copyIn(y, bytesOf(mid), driver.Wait{Lane: a.first + driver.Lane(a.out()), Seq: 1})
	time.Sleep(time.Millisecond) // whatever runs ahead of its waits has the chance to
	a.must(a.copyOut(bytesOf(mid), x, a.launch(0, one, args(4000, x), a.copyIn(x, bytesOf(src)))))
	b.must(in, w, back)
	for i := range dst {
		if dst[i] != src[i]+2 {
			t.Fatalf("element %d is %d, want %d", i, dst[i], src[i]+2)
		}
	}
	// Directly from one memory to the other.
	if !b.dev.(driver.PeerCopier).CanCopyFrom(a.dev) {
		t.Fatal("no copies between GPUs")
	}
	w = b.send(b.in(), driver.Op{Kind: driver.Copy, Bytes: 4000, From: a.dev, Src: x, Dst: y})
	b.must(b.copyOut(bytesOf(dst), y, w))
	if !slices.Equal(dst, mid) {
		t.Error("peer copy differs")
	}
	l, err := a.dev.(driver.PeerCopier).LinkTo(b.dev)
	if err != nil || l.BPS <= 0 {
		t.Errorf("link between GPUs is %+v, %v", l, err)
	}
}

// faultEnv marks the process in which TestFault loses its GPU for good.
const faultEnv = "WEFT_TEST_FAULT"

// A kernel that writes to an illegal address fails by name; the rest fails with
// a lost device, and nothing is taken any more.
func TestFault(t *testing.T) {
	steps := map[string][]graph.Step{
		"alone": {{Kernel: testKernel("crash")}},
		// Launching the second may be what finds the device lost.
		"first": {{Kernel: testKernel("crash")}, step(testKernel("add_one"), 1024)},
	}
	for name := range steps {
		t.Run(name, func(t *testing.T) {
			if os.Getenv(faultEnv) != "" {
				fault(t, steps[name])
				return
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestFault$/^"+name+"$", "-test.v", "-test.timeout=100s")
			cmd.Env = append(os.Environ(), faultEnv+"=1")
			text, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(text), "--- PASS: TestFault/"+name) {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

func fault(t *testing.T, steps []graph.Step) {
	// One device: others of the process would be lost too, before they are ready or
	// after.
	r := openRig(t, Options{Devices: []int{0}})
	b := r.alloc(4096)
	one := &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), 1024)}}
	r.must(r.launch(0, one, args(4096, b), r.copyIn(b, make([]byte, 4096))))
	never := driver.Wait{Lane: r.first + driver.Lane(r.in()), Seq: 1000}
	held := r.copyOut(make([]byte, 4), b, never)
	began := time.Now()
	culprit := r.launch(0, &graph.Task{Steps: steps}, args(4096, b))
	var others []driver.Wait
	for { // until the device says no
		// A kernel it has not seen: looking for it may be what finds the device lost.
		fresh := &graph.Task{Steps: []graph.Step{step(testKernel("add_one"), 1024)}}
		o, w := r.on(0, driver.Op{Kind: driver.Launch, Task: fresh, Args: args(4096, b)})
		if r.dev.Submit([]driver.Op{o}) != nil {
			break
		}
		others = append(others, w)
		runtime.Gosched()
	}
	r.collect() // it told why before it said no
	if _, ok := r.got[driver.Wait{Lane: driver.NoLane}]; !ok {
		t.Error("it takes nothing, and has not said that it is lost")
	}
	c := r.wait(culprit)
	t.Logf("after %v: %v", time.Since(began), c.Err)
	var e *Error
	if !errors.Is(c.Err, driver.ErrKernel) || !errors.As(c.Err, &e) || e.Name != "CUDA_ERROR_ILLEGAL_ADDRESS" || !strings.Contains(c.Err.Error(), `"crash"`) {
		t.Errorf("the culprit: %v", c.Err)
	}
	if c := r.wait(driver.Wait{Lane: driver.NoLane}); !errors.Is(c.Err, driver.ErrDeviceLost) || !errors.Is(c.Err, driver.ErrKernel) {
		t.Errorf("the loss: %v", c.Err)
	}
	if last := r.all[len(r.all)-1]; last.Lane != driver.NoLane {
		t.Errorf("lane %d completed after the device was told to be lost", last.Lane)
	}
	for _, w := range append(others, held) {
		if c := r.wait(w); !errors.Is(c.Err, driver.ErrDeviceLost) || errors.Is(c.Err, driver.ErrKernel) {
			t.Errorf("another: %v", c.Err)
		}
	}
	if err := r.dev.Submit(nil); !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("submit: %v", err)
	}
	if err := r.dev.Close(); err != nil {
		t.Error(err)
	}
}
