//go:build linux

package proc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
)

// The test binary is the program whose children are tested: it turns into a
// worker when started as one.
func TestMain(m *testing.M) {
	if os.Getenv("WEFT_WORKER") != "" {
		obey()
	}
	proc.Main(makers)
	if as := os.Getenv("WEFT_TEST_PARENT"); as != "" {
		parent(as)
	}
	code := m.Run()
	cudatest.Remove()
	os.Exit(code)
}

var makers = map[string]proc.Maker{"fake": makeFake, "cpu": makeCPU, "stuck": makeStuck, "stops": makeStops}

// makeStops makes a fake device. A worker stops itself first if there is a file with the name that
// the configuration gives, which it removes.
func makeStops(config []byte, device int) (driver.Driver, error) {
	if device >= 0 && os.Remove(string(config)) == nil {
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			return nil, err
		}
	}
	return makeFake(nil, device)
}

func makeStuck([]byte, int) (driver.Driver, error) { return stuck{}, nil }

// makeCPU makes as many CPU devices as the configuration says, of a core each.
func makeCPU(config []byte, _ int) (driver.Driver, error) {
	n, _ := strconv.Atoi(string(config))
	return cpu.New(cpu.Options{Cores: 1, Parts: n, Funcs: funcs}), nil
}

func makeFake(config []byte, _ int) (driver.Driver, error) {
	o, err := fake.Parse(string(config))
	if err != nil {
		return nil, err
	}
	o.Funcs = funcs
	return fake.New(o)
}

// funcs are the kernels of the tests, in parent and children alike.
var funcs = map[string]driver.Func{
	"inc": func(c *driver.Call, lo, hi int) {
		for i := lo; i < hi; i++ {
			c.Args[1][i] = c.Args[0][i] + 1
		}
	},
	// step is out[i] = 3·in[i] + i, which no order of tasks but the right one gives.
	"step": func(c *driver.Call, lo, hi int) {
		in, out := c.Args[0][lo:hi], c.Args[1][lo:hi]
		stepped(out, in, lo)
		for i := 0; i < len(out); i += 64 { // for the race detector
			out[i] = in[i]*3 + byte(lo+i)
		}
	},
	"bad": func(*driver.Call, int, int) {}, // the script makes it so
	"crash": func(*driver.Call, int, int) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // signals take a moment
	},
	"stop": func(*driver.Call, int, int) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {} // signals take a moment
	},
	"eat": func(*driver.Call, int, int) { // out of memory, the way the kernel sees it
		_ = syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		for i := range 1 << 20 {
			sink = append(sink, make([]byte, 1<<20))
			sink[i][0] = 1
		}
	},
}

var sink [][]byte

func kernel(name string) *graph.Kernel {
	return &graph.Kernel{Name: name, Impls: []graph.Impl{{Dialect: graph.Go, Entry: name}}}
}

// rig is an executor over workers, and what it logged.
type rig struct {
	*exec.Executor
	mem *arena.Arena
	log *logBook
}

// start opens an executor over workers; everything it started is gone after the
// test.
func start(t testing.TB, o proc.Options, eo engine.Options, also ...driver.Driver) *rig {
	t.Helper()
	return startWith(t, exec.Config{Engine: eo}, o, also...)
}

// startWith is start with a configuration that says more.
func startWith(t testing.TB, c exec.Config, o proc.Options, also ...driver.Driver) *rig {
	t.Helper()
	mem, err := arena.Open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	o.Memory = mem
	if o.Driver == "" {
		o.Driver = "fake"
	}
	if c.Engine.Health.RungTimeout == 0 {
		c.Engine.Health.RungTimeout = time.Minute // a process may take its time to start on a busy machine
	}
	if c.CloseWait == 0 {
		c.CloseWait = time.Minute // likewise to end
	}
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	book := &logBook{}
	before := children()
	c.Drivers, c.Copier = append([]driver.Driver{proc.New(o)}, also...), copier[0]
	c.Log = slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	x, err := exec.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := x.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if left := children() - before; left > 0 {
			t.Errorf("%d children are left", left)
		}
		if t.Failed() {
			t.Log(book.String())
		}
		mem.Close()
	})
	return &rig{x, mem, book}
}

// logBook collects log lines.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func children() int { return len(proc.Pids("")) }

// stepped writes 3·in[i] + first + i to out. The race detector, which would make it ten times as
// slow, does not see it: callers use some of the bytes beside it where others may.
//
//go:norace
func stepped(out, in []byte, first int) {
	for i := range out {
		out[i] = in[i]*3 + byte(first+i)
	}
}

// chain builds rounds of "step" over a block, cut into parts that depend on one
// another only through their own data, and the result by plain Go.
func chain(t *testing.T, n, parts, rounds int64) (*graph.Graph, []byte, []byte) {
	t.Helper()
	var b graph.Builder
	in := make([]byte, n)
	stepped(in, in, 7)
	prev := b.Data(graph.Data{Name: "in", Bytes: n, Input: true})
	for r := range rounds {
		next := b.Data(graph.Data{Name: fmt.Sprintf("r%d", r), Bytes: n, Output: r == rounds-1})
		for p := range parts {
			lo, hi := p*n/parts, (p+1)*n/parts
			b.Add(graph.Task{
				Name:  fmt.Sprintf("round %d part %d", r, p),
				Steps: []graph.Step{{Kernel: kernel("step"), Launch: graph.Launch{Grid: [3]uint32{uint32(hi - lo), 1, 1}}}},
				Uses:  []graph.Use{{Data: prev, Offset: lo, Bytes: hi - lo}, {Data: next, Offset: lo, Bytes: hi - lo, Access: graph.Write}},
			})
		}
		prev = next
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(in)
	for range rounds {
		for p := range parts {
			lo, hi := p*n/parts, (p+1)*n/parts
			stepped(want[lo:hi], want[lo:hi], 0)
		}
	}
	return g, in, want
}

// fused is a graph whose tasks in a row are one.
func fused(g *graph.Graph) *graph.Graph {
	return graph.Fuse(g, graph.Fusion{
		From: 2, Upto: 1000, Bytes: 1 << 30, Takes: func(graph.TaskID) time.Duration { return 0 }, Where: func(graph.TaskID) int { return 0 },
	})
}

// Tasks of many steps with arguments of their own travel to workers, whole, and
// again when the worker they were given to is lost.
func TestFused(t *testing.T) {
	const parts, rounds = 3, 100
	g, in, want := chain(t, 3000, parts, rounds)
	one := fused(g)
	if n := one.NumTasks(); n != parts {
		t.Fatalf("%d tasks became %d, want %d", g.NumTasks(), n, parts)
	}
	for name, script := range map[string]string{"well": "devices 2", "lost": "devices 2; on 0 lose launches times 1"} {
		t.Run(name, func(t *testing.T) {
			r := start(t, proc.Options{Config: []byte(script)}, engine.Options{})
			for range 3 {
				got, _, err := r.run(t, one, in)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("the result is right: %v; %v", bytes.Equal(got, want), err)
				}
			}
		})
	}
}

// run runs a graph with one input and one output.
func (r *rig) run(t *testing.T, g *graph.Graph, in []byte) ([]byte, *engine.Report, error) {
	t.Helper()
	return r.runWith(t, g, in, engine.RunOptions{})
}

func (r *rig) runWith(t *testing.T, g *graph.Graph, in []byte, o engine.RunOptions) ([]byte, *engine.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out []byte
	mem := make([][]byte, g.NumData())
	for i := range mem {
		switch d := g.Data(graph.DataID(i)); {
		case d.Input:
			mem[i] = in
		case d.Output:
			out = make([]byte, d.Bytes)
			mem[i] = out
		}
	}
	rep, err := r.Run(ctx, g, o, func(d graph.DataID) []byte { return mem[d] })
	return out, rep, err
}

func (r *rig) mustRun(t *testing.T, g *graph.Graph, in, want []byte) *engine.Report {
	t.Helper()
	out, rep, err := r.run(t, g, in)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out, want) {
		for i := range out {
			if out[i] != want[i] {
				t.Fatalf("byte %d of %d is %d, want %d", i, len(out), out[i], want[i])
			}
		}
	}
	return rep
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name string
		o    proc.Options
		n    int
	}{
		{"fake", proc.Options{Config: []byte("devices 2")}, 2},
		{"cpu", proc.Options{Driver: "cpu"}, 1},
		{"lanes", proc.Options{Config: []byte("lanes 3")}, 1},
		{"split", proc.Options{Parts: func(machine.Device) int { return 3 }}, 3},
		{"standby", proc.Options{Workers: proc.Workers{Standby: true}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, c.o, engine.Options{})
			if len(r.Machine.Devices) != c.n {
				t.Fatalf("%d devices, want %d", len(r.Machine.Devices), c.n)
			}
			for _, n := range []int64{1000, 100_003, 9 << 20} { // on the spot, by one part, by several
				g, in, want := chain(t, n, 4, 3)
				r.mustRun(t, g, in, want)
			}
		})
	}
}

// Copies of more parts than there is room for at a time.
func TestLongCopies(t *testing.T) {
	r := start(t, proc.Options{}, engine.Options{})
	g, in, want := chain(t, 37<<20+3, 2, 1)
	r.mustRun(t, g, in, want)
}

// A run with a CPU device of this process beside workers: both wait for each
// other's operations on the shared board.
func TestMixed(t *testing.T) {
	r := start(t, proc.Options{Config: []byte("devices 2")}, engine.Options{}, cpu.New(cpu.Options{Cores: 1, Funcs: funcs}))
	for range 5 {
		g, in, want := chain(t, 50_000, 8, 6)
		r.mustRun(t, g, in, want)
	}
}

// Workers are killed at any moment, again and again: the results are those of a
// sequential run.
func TestKillAnyTime(t *testing.T) {
	for seed, c := range []struct {
		bytes int64
		pause time.Duration // a kill comes after 10 to 70 of it
	}{
		{40_000, time.Millisecond}, {40_000, time.Millisecond},
		{18<<20 + 3, 5 * time.Millisecond}, // copies of several parts
	} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			o := proc.Options{Workers: proc.Workers{Standby: seed%2 == 1}, Config: []byte("devices 2\ntake 1ms launches")}
			r := start(t, o, engine.Options{Health: engine.HealthRules{Trust: time.Nanosecond, MaxLosses: 1000}, Retries: 50},
				cpu.New(cpu.Options{Cores: 1, Funcs: funcs}))
			rnd := rand.New(rand.NewPCG(uint64(seed), 7))
			stop, ended := make(chan struct{}), make(chan int)
			go func() {
				kills := 0
				for {
					select {
					case <-stop:
						ended <- kills
						return
					case <-time.After(time.Duration(10+rnd.IntN(60)) * c.pause):
					}
					if ws := proc.Pids("worker"); len(ws) > 0 {
						_ = syscall.Kill(ws[rnd.IntN(len(ws))], syscall.SIGKILL)
						kills++
					}
				}
			}()
			defer func() {
				close(stop)
				if kills := <-ended; kills == 0 {
					t.Error("nothing was killed")
				} else {
					t.Logf("%d kills", kills)
				}
			}()
			until := time.Now().Add(time.Second)
			for runs := 0; runs < 3 || time.Now().Before(until); runs++ {
				g, in, want := chain(t, c.bytes, 8, 4)
				r.mustRun(t, g, in, want)
			}
		})
	}
}

// one builds a task of one kernel beside tasks of "inc" over other data.
func one(t *testing.T, bad string, n int64, others int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: n, Input: true})
	out := b.Data(graph.Data{Name: "out", Bytes: n * int64(others+1), Output: true})
	for i := range others + 1 {
		name := "inc"
		if i == others/2 && bad != "" {
			name = bad
		}
		b.Add(graph.Task{
			Name:  fmt.Sprintf("%s %d", name, i),
			Steps: []graph.Step{{Kernel: kernel(name), Launch: graph.Launch{Grid: [3]uint32{uint32(n), 1, 1}}}},
			Uses:  []graph.Use{{Data: in}, {Data: out, Offset: int64(i) * n, Bytes: n, Access: graph.Write}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (r *rig) state(i int) engine.DeviceState {
	var s engine.DeviceState
	r.Look(func(_ machine.Cost, st []engine.DeviceStatus) { s = st[i].State })
	return s
}

// A kernel that ends its process, one that stops it and one that uses up all
// memory: their task fails after three losses and says what these were, and the device
// works on. Each change of the device's state is logged once.
func TestKernelsThatKill(t *testing.T) {
	for bad, hang := range map[string]time.Duration{"crash": 0, "stop": 2 * time.Second, "eat": 0} {
		t.Run(bad, func(t *testing.T) {
			o := engine.Options{}
			if hang > 0 {
				// A busy machine may keep other workers from running for so long as well, and the
				// device is not to be given up for that.
				o.Health.Trust = time.Nanosecond
			}
			r := start(t, proc.Options{Workers: proc.Workers{HangTimeout: hang}}, o)
			_, _, err := r.run(t, one(t, bad, 100, 0), make([]byte, 100))
			var te *engine.TaskError
			var q *engine.Quarantine
			if !errors.As(err, &te) || te.Task != bad+" 0" || !errors.As(err, &q) || len(q.Losses) != 3 {
				t.Fatalf("got %v; want an error of the task that tells of three losses", err)
			}
			for i, l := range q.Losses {
				if l.Device != "fake:0" || l.Err == nil || i > 0 && l.At <= q.Losses[i-1].At {
					t.Errorf("loss %d is %+v", i, l)
				}
			}
			poll.True(t, "the device, with every change of its state logged once", func() (ok bool) {
				r.Look(func(_ machine.Cost, st []engine.DeviceStatus) { // between two steps
					log := r.log.String()
					ok = st[0].State == engine.Healthy && st[0].Losses >= 3 &&
						strings.Count(log, "from=healthy to=lost") == st[0].Losses && strings.Count(log, "from=lost to=healthy") == st[0].Losses
				})
				return ok
			})
			g, in, want := chain(t, 10_000, 4, 2)
			r.mustRun(t, g, in, want)
		})
	}
}

// A device that is lost to a kernel, as one reports it whose context is poisoned:
// the kernel's task fails with the kernel's name, everything else completes, and
// nothing grows over many such faults.
func TestFaults(t *testing.T) {
	const faults = 100
	r := start(t, proc.Options{Workers: proc.Workers{Standby: false}, Config: []byte("lose kernel bad")}, engine.Options{})
	in := make([]byte, 1000)
	var fds, rss int
	for n := range faults {
		ok := one(t, "", 1000, 5)
		done := make(chan error, 1)
		outs := make([]byte, 6000)
		mem := [][]byte{in, outs}
		r.Start(&exec.Job{Graph: ok, Memory: func(d graph.DataID) []byte { return mem[d] }, Done: func(_ *engine.Report, err error) { done <- err }})
		_, _, err := r.runWith(t, one(t, "bad", 1000, 0), in, engine.RunOptions{Retries: -1})
		if !errors.Is(err, driver.ErrKernel) || !strings.Contains(err.Error(), `"bad"`) {
			t.Fatalf("fault %d: got %v; want the kernel named", n, err)
		}
		if err := <-done; err != nil {
			t.Fatalf("fault %d: a run beside it: %v", n, err)
		}
		for i, x := range outs {
			if x != 1 {
				t.Fatalf("fault %d: byte %d of the run beside it is %d", n, i, x)
			}
		}
		if n == faults/5 {
			poll.True(t, "the device", func() bool { return r.state(0) == engine.Healthy })
			fds, rss = usage(t)
		}
	}
	poll.True(t, "the device", func() bool { return r.state(0) == engine.Healthy })
	noGrowth(t, faults, fds, rss)
}

// usage returns open descriptors and resident memory.
func usage(t *testing.T) (fds, rss int) {
	t.Helper()
	runtime.GC()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	return len(list), pages * os.Getpagesize()
}

// Garbage in the memory a worker shares ends that worker and nothing else.
func TestGarbage(t *testing.T) {
	r := start(t, proc.Options{}, engine.Options{Health: engine.HealthRules{Trust: time.Nanosecond}})
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 3 {
		pid := proc.Pids("worker")[0]
		scribble(t, pid, rnd)
		g, in, want := chain(t, 10_000, 4, 3)
		r.mustRun(t, g, in, want)
		poll.True(t, "another worker", func() bool { return r.state(0) == engine.Healthy && len(proc.Pids("worker")) == 1 })
		if proc.Pids("worker")[0] == pid {
			// What was overwritten was read already: nothing was wrong with it.
			t.Log("the worker was not replaced")
		}
	}
	if !strings.Contains(r.log.String(), "garbage") {
		t.Error("no garbage was ever noticed")
	}
}

// scribble writes over a worker's rings.
func scribble(t *testing.T, pid int, rnd *rand.Rand) {
	t.Helper()
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/4", pid), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	junk := make([]byte, st.Size()/2-4096)
	for i := range junk {
		junk[i] = byte(rnd.Uint32())
	}
	for _, at := range []int64{4096, st.Size()/2 + 4096} { // both rings, behind their heads
		if _, err := f.WriteAt(junk, at); err != nil {
			t.Fatal(err)
		}
	}
	// And a tail that promises more than there is.
	if _, err := f.WriteAt([]byte{0x18, 0xff}, 64+st.Size()/2*rnd.Int64N(2)); err != nil {
		t.Fatal(err)
	}
}

// What was computed before a fault is there after it, without being sent again,
// whether the keeper lives or not.
func TestMemoryIsKept(t *testing.T) {
	for _, victim := range []string{"worker", "keeper worker"} {
		t.Run(victim, func(t *testing.T) {
			mem, d := attached(t, proc.Options{})
			host, err := mem.Get(100_000)
			if err != nil {
				t.Fatal(err)
			}
			for i := range host {
				host[i] = byte(i * 13)
			}
			complete(t, d, driver.Op{Kind: driver.Alloc, Buf: 5, Bytes: int64(len(host))},
				driver.Op{Kind: driver.Copy, Lane: 2, Seq: 1, Bytes: int64(len(host)), Src: driver.NoBuffer, HostSrc: host, Dst: 5})
			for _, role := range strings.Fields(victim) {
				if err := syscall.Kill(proc.Pids(role)[0], syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			got := make([]driver.Completion, 8)
			poll.True(t, "the loss", func() bool { n := d.Completions(got); return n > 0 && got[n-1].Lane == driver.NoLane })
			kept, err := d.(driver.Reviver).Revive(context.Background(), driver.Restart)
			if err != nil || !kept {
				t.Fatalf("kept %v, %v", kept, err)
			}
			back, err := mem.Get(100_000)
			if err != nil {
				t.Fatal(err)
			}
			clear(back)
			complete(t, d, driver.Op{Kind: driver.Copy, Lane: 3, Seq: 1, Bytes: int64(len(host)), Src: 5, Dst: driver.NoBuffer, HostDst: back})
			if !bytes.Equal(back, host) {
				t.Error("memory that was kept holds something else")
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// attached opens a fake device in a worker, with lanes 1 to 6 of a board. Its memory is given back when the test ends.
func attached(t *testing.T, o proc.Options) (*arena.Arena, driver.Device) {
	t.Helper()
	mem, err := arena.Open(1 << 28)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	o.Driver, o.Memory = "fake", mem
	devs, err := proc.New(o).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := mem.Board(7)
	if err != nil {
		t.Fatal(err)
	}
	devs[0].Attach(b, []driver.Lane{1, 2, 3, 4, 5, 6}, func() {})
	return mem, devs[0]
}

// A device that is closed while it is brought back leaves no process behind, whichever is first.
func TestCloseWhileRevived(t *testing.T) {
	for i := range 12 {
		mem, d := attached(t, proc.Options{Workers: proc.Workers{Standby: i%2 == 0}})
		host, err := mem.Get(100)
		if err != nil {
			t.Fatal(err)
		}
		complete(t, d, driver.Op{Kind: driver.Alloc, Buf: 5, Bytes: int64(len(host))},
			driver.Op{Kind: driver.Copy, Lane: 2, Seq: 1, Bytes: int64(len(host)), Src: driver.NoBuffer, HostSrc: host, Dst: 5})
		for _, pid := range proc.Pids("worker") {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
		got := make([]driver.Completion, 8)
		poll.True(t, "the loss", func() bool { n := d.Completions(got); return n > 0 && got[n-1].Lane == driver.NoLane })
		begin := make(chan struct{})
		var both sync.WaitGroup
		both.Go(func() {
			<-begin
			_, _ = d.(driver.Reviver).Revive(context.Background(), driver.Restart) // which errs if Close is first
		})
		both.Go(func() {
			<-begin
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		close(begin)
		both.Wait()
		poll.True(t, "the end of the processes", func() bool { return len(proc.Pids("worker")) == 0 })
	}
}

// complete submits operations, the last of which completes well.
func complete(t *testing.T, d driver.Device, ops ...driver.Op) {
	t.Helper()
	if err := d.Submit(ops); err != nil {
		t.Fatal(err)
	}
	got := make([]driver.Completion, 8)
	poll.True(t, "completion", func() bool {
		n := d.Completions(got)
		for _, c := range got[:n] {
			if c.Err != nil {
				t.Fatal(c.Err)
			}
		}
		return n > 0 && got[n-1].Seq == ops[len(ops)-1].Seq
	})
}

// Of several kernels that run at once when the device is lost, only the one that
// did it fails.
func TestSuspects(t *testing.T) {
	r := start(t, proc.Options{Config: []byte("lanes 4; take 2ms launches; lose kernel bad")}, engine.Options{})
	for range 3 {
		in := make([]byte, 100)
		done := make(chan error, 1)
		outs := make([]byte, 1300)
		mem := [][]byte{in, outs}
		r.Start(&exec.Job{Graph: one(t, "", 100, 12), Memory: func(d graph.DataID) []byte { return mem[d] }, Done: func(_ *engine.Report, err error) { done <- err }})
		_, _, err := r.runWith(t, one(t, "bad", 100, 0), in, engine.RunOptions{Retries: -1})
		if !errors.Is(err, driver.ErrKernel) || !strings.Contains(err.Error(), `"bad"`) {
			t.Fatalf("got %v; want the kernel named", err)
		}
		if err := <-done; err != nil {
			t.Fatalf("a run beside it: %v", err)
		}
	}
}

// startParent starts a program with workers, as one of parents, and returns what its
// children are called.
func startParent(t *testing.T, as string) (cmd *osexec.Cmd, children []string) {
	t.Helper()
	cmd = osexec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "WEFT_TEST_PARENT="+as)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed, as it should be
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.Fields(line)
}

// Children end when the program does, however it ends: also those that are stopped,
// that hang while they open their devices, and that another command started.
func TestOrphans(t *testing.T) {
	for as, n := range map[string]int{"open": 3, "stopped": 3, "stuck": 1, "wrapped": 2} {
		t.Run(as, func(t *testing.T) {
			cmd, children := startParent(t, as)
			if as == "stopped" {
				for _, f := range children {
					pid, err := strconv.Atoi(f)
					if err != nil {
						t.Fatal(err)
					}
					if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			for _, f := range children {
				poll.True(t, "the end of child "+f, func() bool {
					text, err := os.ReadFile("/proc/" + f + "/stat")
					return err != nil || strings.Contains(string(text), ") Z ")
				})
			}
			if len(children) != n {
				t.Errorf("children were %q; want %d", children, n)
			}
		})
	}
}

// A program that was stopped together with its workers, as all of a container may be,
// does not take them for hung when it goes on.
func TestStopped(t *testing.T) {
	cmd, children := startParent(t, "open")
	var pids []int
	for _, f := range children {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	signal := func(s syscall.Signal, pids ...int) {
		t.Helper()
		for _, pid := range pids {
			if err := syscall.Kill(pid, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	signal(syscall.SIGSTOP, pids...)
	time.Sleep(200 * time.Millisecond) // the program has felt their last pulse, which is the worst case
	signal(syscall.SIGSTOP, cmd.Process.Pid)
	time.Sleep(parentHang) // all processes are stopped, so that none can tell when the time has passed
	signal(syscall.SIGCONT, cmd.Process.Pid)
	signal(syscall.SIGCONT, pids...)
	time.Sleep(500 * time.Millisecond) // the watchers have looked some times, and would have killed
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(text), ") Z ") {
			t.Errorf("child %d is gone: %s %v", pid, text, err)
		}
	}
}

// parentHang is how long workers of parent may be silent.
const parentHang = 3 * time.Second

// parent is the program of TestOrphans and TestStopped: it has children, says which,
// and waits.
func parent(as string) {
	mem, err := arena.Open(1 << 28)
	if err != nil {
		panic(err)
	}
	o := proc.Options{Workers: proc.Workers{Memory: mem, HangTimeout: parentHang}, Driver: "fake", Config: []byte("devices 2"), Answer: time.Hour}
	switch as {
	case "wrapped":
		exe, err := os.Executable()
		if err != nil {
			panic(err)
		}
		o.WorkerCommand = []string{"/bin/sh", "-c", `"$0"; true`, exe}
		fallthrough
	case "stuck":
		o.Driver = "stuck"
		book := &logBook{}
		go func() { _, _ = proc.New(o).Open(context.Background(), slog.New(slog.NewTextHandler(book, nil))) }()
		poll.Within(time.Hour, func() bool { return strings.Contains(book.String(), "msg=stuck") })
	default:
		copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
		if err != nil {
			panic(err)
		}
		if _, err := exec.Open(context.Background(), exec.Config{Drivers: []driver.Driver{proc.New(o)}, Copier: copier[0]}); err != nil {
			panic(err)
		}
	}
	all := proc.Pids("")
	for _, pid := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
		if err != nil {
			panic(err)
		}
		for _, f := range strings.Fields(string(text)) {
			below, err := strconv.Atoi(f)
			if err != nil {
				panic(err)
			}
			all = append(all, below)
		}
	}
	fmt.Println(strings.Trim(fmt.Sprint(all), "[]"))
	select {}
}

// stuck is a driver that never returns.
type stuck struct{}

func (stuck) Name() string { return "stuck" }

func (stuck) Open(_ context.Context, log *slog.Logger) ([]driver.Device, error) {
	log.Info("stuck")
	time.Sleep(time.Hour)
	return nil, nil
}

// A program that does not call Main is told so, and is not started a second time.
func TestCommand(t *testing.T) {
	mem, err := arena.Open(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	_, err = proc.New(proc.Options{Workers: proc.Workers{Memory: mem, WorkerCommand: []string{"/bin/sh", "-c", "echo no worker here; exit 3"}}, Driver: "fake"}).Open(context.Background(), nil)
	if err == nil || !strings.Contains(err.Error(), "no worker here") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v; want how the command ended", err)
	}
	// What is not there is told in the driver's own words.
	if _, err := proc.New(proc.Options{Workers: proc.Workers{Memory: mem}, Driver: "none"}).Open(context.Background(), nil); !errors.Is(err, driver.ErrUnavailable) || strings.Contains(err.Error(), "keeper") {
		t.Errorf("a driver without a maker: %v", err)
	}
	o := proc.Options{Workers: proc.Workers{Memory: mem}, Driver: "fake", Config: []byte("devices 2"), Parts: func(machine.Device) int { return 0 }}
	if _, err := proc.New(o).Open(context.Background(), nil); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "none of these is selected: fake:0, fake:1") {
		t.Errorf("with none of its devices asked for: %v", err)
	}
}

// The home of resident data that lies in shared memory goes back there with the
// data.
func TestHomesGoBack(t *testing.T) {
	r := start(t, proc.Options{}, engine.Options{})
	before := r.mem.Used()
	const n = 257 << 20 // more than is kept for reuse
	home, err := r.mem.Get(n)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := r.Put("x", home, graph.Versioned)
	if err != nil {
		t.Fatal(err)
	}
	if used := r.mem.Used(); used < before+n {
		t.Fatalf("%d bytes are used, %d were before", used, before)
	}
	r.Release(ref)
	poll.True(t, "the home's memory", func() bool { return r.mem.Used() < before+n })
}

// noGrowth fails if faults have cost descriptors or memory.
func noGrowth(t *testing.T, faults, fds, rss int) {
	t.Helper()
	// Who was killed last may not be cleared away yet.
	poll.True(t, fmt.Sprintf("no more descriptors than the %d before, after %d faults", fds, faults), func() bool {
		f, _ := usage(t)
		return f <= fds+5
	})
	if _, m := usage(t); m > rss+32<<20 {
		t.Errorf("%d bytes of memory after %d faults, %d before", m, faults, rss)
	}
}

// A launch that names more than a record holds fails, and the worker goes on.
func TestTooManyArguments(t *testing.T) {
	r := start(t, proc.Options{Driver: "cpu"}, engine.Options{})
	const n = 14_000
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: n, Input: true})
	uses := []graph.Use{{Data: b.Data(graph.Data{Name: "out", Bytes: 1, Output: true}), Bytes: 1, Access: graph.Write}}
	for i := range int64(n) {
		uses = append(uses, graph.Use{Data: in, Offset: i, Bytes: 1})
	}
	b.Add(graph.Task{Name: "many", Steps: []graph.Step{{Kernel: kernel("inc"), Launch: graph.Launch{Grid: [3]uint32{1, 1, 1}}}}, Uses: uses})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = r.run(t, g, make([]byte, n)); !errors.Is(err, driver.ErrKernel) {
		t.Errorf("%v, want %v", err, driver.ErrKernel)
	}
	if book := r.log.String(); strings.Contains(book, "worker lost") {
		t.Errorf("the worker was lost:\n%s", book)
	}
}

// A copy that goes through the arena in parts fails if one of them does, whichever it is, and
// is made again: the result is right.
func TestPartOfACopyFails(t *testing.T) {
	fails := func(n int64, op int) {
		g, in, want := chain(t, n, 1, 1)
		t.Run(fmt.Sprintf("%d of %d bytes", op, n), func(t *testing.T) {
			r := start(t, proc.Options{Config: fmt.Appendf(nil, "fail op %d", op)}, engine.Options{})
			out := make([]byte, len(want))
			_, err := r.Run(context.Background(), g, engine.RunOptions{}, func(d graph.DataID) []byte {
				if g.Data(d).Input {
					return in
				}
				return out
			})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out, want) {
				t.Error("the result is wrong")
			}
		})
	}
	for op := 1; op <= 9; op++ { // three parts in, a launch, three parts out, and the copies, which wait for their parts
		fails(9<<20, op)
	}
	for _, op := range []int{1, 2, 3, 6, 10, 11} { // of eleven parts, which is more than fit at a time
		fails(41<<20, op)
	}
}
