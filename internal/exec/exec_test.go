package exec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

func kernel(name string) *graph.Kernel {
	return &graph.Kernel{Name: name, Impls: []graph.Impl{{Dialect: graph.Go, Entry: name}}}
}

// start opens an executor on devices of one core each, with kernels of its own.
func start(t *testing.T, parts int, o engine.Options, funcs map[string]driver.Func) *exec.Executor {
	t.Helper()
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := exec.Open(context.Background(), exec.Config{
		Drivers: []driver.Driver{cpu.New(cpu.Options{Cores: parts, Parts: parts, Funcs: funcs})}, Copier: copier[0], Engine: o,
		CancelWait: 2 * time.Minute, // a busy machine takes its time
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close(context.Background()) })
	return x
}

// add builds out[i] = in[i] + 1 over n bytes in parts tasks.
func add(t *testing.T, n, parts int64) *graph.Graph {
	t.Helper()
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: n, Input: true})
	out := b.Data(graph.Data{Name: "out", Bytes: n, Output: true})
	for p := range parts {
		lo, hi := p*n/parts, (p+1)*n/parts
		b.Add(graph.Task{
			Name:  fmt.Sprintf("part %d", p),
			Steps: []graph.Step{{Kernel: kernel("inc"), Launch: graph.Launch{Grid: [3]uint32{uint32(hi - lo), 1, 1}}}},
			Uses:  []graph.Use{{Data: in, Offset: lo, Bytes: hi - lo}, {Data: out, Offset: lo, Bytes: hi - lo, Access: graph.Write}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func inc(c *driver.Call, lo, hi int) {
	for i := lo; i < hi; i++ {
		c.Args[1][i] = c.Args[0][i] + 1
	}
}

func memory(in, out []byte) exec.CallerMemory {
	return func(d graph.DataID) []byte { return [][]byte{in, out}[d] }
}

func TestRunOnParts(t *testing.T) {
	for _, parts := range []int{1, 2, 3, 8} {
		x := start(t, parts, engine.Options{}, map[string]driver.Func{"inc": inc})
		in, out := make([]byte, 10_007), make([]byte, 10_007)
		for i := range in {
			in[i] = byte(i * 7)
		}
		rep, err := x.Run(context.Background(), add(t, int64(len(in)), 16), engine.RunOptions{}, memory(in, out))
		if err != nil {
			t.Fatal(err)
		}
		for i := range out {
			if out[i] != in[i]+1 {
				t.Fatalf("%d parts: byte %d is %d, want %d", parts, i, out[i], in[i]+1)
			}
		}
		if rep.Executed != 16 || rep.Copies != 0 {
			t.Errorf("%d parts: %d executed, %d copies; want 16 and none: host memory is shared", parts, rep.Executed, rep.Copies)
		}
	}
}

func TestManyRunsAtOnce(t *testing.T) {
	x := start(t, 2, engine.Options{}, map[string]driver.Func{"inc": inc})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			in, out := make([]byte, 1000), make([]byte, 1000)
			in[0] = byte(i)
			if _, err := x.Run(context.Background(), add(t, 1000, 1+int64(i)), engine.RunOptions{}, memory(in, out)); err != nil {
				t.Error(err)
			}
			if out[0] != byte(i)+1 {
				t.Errorf("run %d: got %d", i, out[0])
			}
		}()
	}
	wg.Wait()
}

func TestRetryThenFailure(t *testing.T) {
	var mu sync.Mutex
	left := 2
	boom := errors.New("boom")
	flaky := func(c *driver.Call, lo, hi int) {
		mu.Lock()
		defer mu.Unlock()
		if left > 0 {
			left--
			c.Fail(boom)
			return
		}
		inc(c, lo, hi)
	}
	x := start(t, 2, engine.Options{}, map[string]driver.Func{"inc": flaky})
	in, out := make([]byte, 64), make([]byte, 64)
	rep, err := x.Run(context.Background(), add(t, 64, 1), engine.RunOptions{Retries: 3}, memory(in, out))
	if err != nil || rep.Retries != 2 || out[5] != 1 {
		t.Fatalf("err %v, %d retries, out %d; want a good end after 2", err, rep.Retries, out[5])
	}
	left = 1000
	_, err = x.Run(context.Background(), add(t, 64, 1), engine.RunOptions{}, memory(in, out))
	var te *engine.TaskError
	if !errors.Is(err, boom) || !errors.As(err, &te) || te.Task != "part 0" {
		t.Fatalf("got %v; want the kernel's error with the task's name", err)
	}
}

func TestPanicIsAnError(t *testing.T) {
	x := start(t, 1, engine.Options{}, map[string]driver.Func{"inc": func(*driver.Call, int, int) { panic("no") }})
	in, out := make([]byte, 64), make([]byte, 64)
	if _, err := x.Run(context.Background(), add(t, 64, 4), engine.RunOptions{Retries: -1}, memory(in, out)); err == nil {
		t.Fatal("a kernel panicked and the run ended well")
	}
	if _, err := x.Run(context.Background(), add(t, 64, 4), engine.RunOptions{Retries: -1}, memory(in, out)); err == nil {
		t.Fatal("the executor did not survive the first panic")
	}
}

func TestUnregisteredKernel(t *testing.T) {
	x := start(t, 1, engine.Options{}, nil)
	_, err := x.Run(context.Background(), add(t, 64, 1), engine.RunOptions{Retries: -1}, memory(make([]byte, 64), make([]byte, 64)))
	if !errors.Is(err, driver.ErrKernel) {
		t.Fatalf("got %v", err)
	}
}

// A kernel that no device can run costs none of them, however often it is tried.
func TestRefusedKernelCostsNoDevice(t *testing.T) {
	x := start(t, 2, engine.Options{}, nil)
	for range 6 {
		_, err := x.Run(context.Background(), add(t, 64, 1), engine.RunOptions{Retries: 1}, memory(make([]byte, 64), make([]byte, 64)))
		if !errors.Is(err, driver.ErrKernel) {
			t.Fatalf("got %v", err)
		}
	}
	st, _ := x.Status()
	for i := range st {
		if st[i].State != engine.Healthy || st[i].Losses != 0 {
			t.Errorf("device %d is %v and was lost %d times", i, st[i].State, st[i].Losses)
		}
	}
}

func TestCancel(t *testing.T) {
	begun := make(chan struct{}, 100)
	hold := make(chan struct{})
	x := start(t, 2, engine.Options{}, map[string]driver.Func{"inc": func(c *driver.Call, lo, hi int) {
		begun <- struct{}{}
		<-hold
	}})
	ctx, cancel := context.WithCancel(context.Background())
	end := make(chan error)
	go func() {
		_, err := x.Run(ctx, add(t, 640, 64), engine.RunOptions{}, memory(make([]byte, 640), make([]byte, 640)))
		end <- err
	}()
	<-begun
	cancel()
	select {
	case err := <-end:
		t.Fatalf("the run ended with a kernel in flight: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(hold)
	if err := <-end; !errors.Is(err, context.Canceled) || !errors.Is(err, engine.ErrCancelled) {
		t.Fatalf("got %v", err)
	}
}

// A kernel that asks ends when its run is cancelled; one of another run does not.
func TestCancelStopsKernels(t *testing.T) {
	begun, hold := make(chan struct{}), make(chan struct{})
	var stopped atomic.Bool
	x := start(t, 2, engine.Options{}, map[string]driver.Func{
		"mine": func(c *driver.Call, lo, hi int) {
			begun <- struct{}{}
			for !c.Stopped() {
				runtime.Gosched()
			}
		},
		"other": func(c *driver.Call, lo, hi int) {
			begun <- struct{}{}
			<-hold
			stopped.Store(c.Stopped())
		},
	})
	begin := func(name, on string) (*exec.Job, <-chan exec.End) {
		var b graph.Builder
		b.Add(graph.Task{Name: name, Steps: []graph.Step{{Kernel: kernel(name)}}, On: graph.Constraint{Only: []string{on}}})
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan exec.End, 1)
		j := &exec.Job{Graph: g, Done: func(r *engine.Report, err error) { end <- exec.End{Report: r, Err: err} }}
		x.Start(j)
		<-begun
		return j, end
	}
	_, other := begin("other", "cpu:0")
	mine, end := begin("mine", "cpu:1")
	x.Cancel(mine)
	if e := <-end; !errors.Is(e.Err, engine.ErrCancelled) || errors.Is(e.Err, exec.ErrHeld) {
		t.Errorf("the run that was cancelled ended with %v", e.Err)
	}
	close(hold)
	if e := <-other; e.Err != nil || stopped.Load() {
		t.Errorf("the other ended with %v, stopped: %v", e.Err, stopped.Load())
	}
}

func TestCloseEndsEverything(t *testing.T) {
	rec := trace.NewRecorder(1 << 10)
	x := start(t, 2, engine.Options{Trace: rec}, map[string]driver.Func{"inc": inc})
	done := make(chan error, 1)
	x.Start(&exec.Job{
		Graph: add(t, 1<<16, 512), Memory: memory(make([]byte, 1<<16), make([]byte, 1<<16)),
		Done: func(_ *engine.Report, err error) { done <- err },
	})
	if err := x.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil && !errors.Is(err, engine.ErrCancelled) {
		t.Fatal(err)
	}
	if _, err := x.Run(context.Background(), add(t, 64, 1), engine.RunOptions{}, nil); !errors.Is(err, exec.ErrClosed) {
		t.Fatalf("after Close: %v", err)
	}
	if x.Look(func(machine.Cost, []engine.DeviceStatus) {}) {
		t.Error("a closed executor can be looked at")
	}
	recorded := make(chan int, 1)
	go func() { recorded <- len(x.Events(rec)) }()
	select {
	case n := <-recorded:
		if n == 0 {
			t.Error("what was recorded is gone")
		}
	case <-time.After(time.Minute):
		t.Error("what a closed executor recorded is waited for")
	}
}

func TestResidentData(t *testing.T) {
	x := start(t, 2, engine.Options{}, map[string]driver.Func{"bump": func(c *driver.Call, lo, hi int) {
		for i := lo; i < hi; i++ {
			c.Args[0][i]++
		}
	}})
	var b graph.Builder
	d := b.Data(graph.Data{Name: "x", Bytes: 100, Input: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel("bump"), Launch: graph.Launch{Grid: [3]uint32{100, 1, 1}}}}, Uses: []graph.Use{{Data: d, Access: graph.ReadWrite}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	home := make([]byte, 100)
	ref, err := x.Put("x", home, graph.Versioned)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := x.Run(context.Background(), g, engine.RunOptions{Bind: []engine.Binding{{Data: d, Ref: ref}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Fetch(context.Background(), ref, func() error { return nil }, func() {}); err != nil {
		t.Fatal(err)
	}
	if home[42] != 5 {
		t.Fatalf("after 5 runs: %d", home[42])
	}
	x.Release(ref)
}

// A hung kernel cannot be killed, but a task that only makes data can be run elsewhere. What the
// call was given stays its own until it returns: whatever it writes then changes no
// result, the run ends after it, and its device works again. The second call has the
// same time as the first, which grows until it is enough for one on a busy machine.
func TestTimeoutLeavesHungDevice(t *testing.T) {
	var b graph.Builder
	d := b.Data(graph.Data{Name: "out", Bytes: 64, Output: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel("fill"), Launch: graph.Grid(64)}}, Uses: []graph.Use{{Data: d, Access: graph.Write}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	fill := func(c *driver.Call, lo, hi int, x byte) {
		for i := lo; i < hi; i++ {
			c.Args[0][i] = x
		}
	}
	for timeout := 2 * time.Second; ; timeout *= 2 {
		var calls atomic.Int32
		hold := make(chan struct{})
		x := start(t, 2, engine.Options{TaskTimeout: timeout, Retries: 50}, map[string]driver.Func{"fill": func(c *driver.Call, lo, hi int) {
			switch calls.Add(1) {
			case 1:
				<-hold
				fill(c, 0, 64, 99)
			case 2:
				fill(c, lo, hi, 1)
				close(hold)
			default:
				fill(c, lo, hi, 1)
			}
		}})
		out := make([]byte, 64)
		rep, err := x.Run(context.Background(), g, engine.RunOptions{}, memory(out, nil))
		if err == nil && rep.Retries > 1 && timeout < time.Minute {
			continue
		}
		if err != nil || rep.Retries != 1 {
			t.Fatalf("err %v, %d retries", err, rep.Retries)
		}
		if out[0] != 1 || out[63] != 1 {
			t.Fatalf("the result is %d and %d, want 1", out[0], out[63])
		}
		x.Look(func(_ machine.Cost, st []engine.DeviceStatus) {
			for i := range st {
				if st[i].State != engine.Healthy {
					t.Errorf("afterwards device %d is %s", i, st[i].State)
				}
			}
		})
		return
	}
}

// A task that reads what it was bound to is not run again while a kernel of it goes on, which may have written it.
func TestTimeoutOfReader(t *testing.T) {
	for _, retries := range []int{0, 5} {
		var calls atomic.Int32
		hold := make(chan struct{})
		x := start(t, 2, engine.Options{TaskTimeout: time.Second, Retries: retries}, map[string]driver.Func{"inc": func(c *driver.Call, lo, hi int) {
			if calls.Add(1) == 1 {
				c.Args[0][0] = 99
				<-hold
			}
			inc(c, lo, hi)
		}})
		in, out := make([]byte, 64), make([]byte, 64)
		go func() {
			defer close(hold)
			// The kernel returns once its device was given up, or the test has waited for a minute.
			poll.Within(time.Minute, func() (lost bool) {
				x.Look(func(_ machine.Cost, st []engine.DeviceStatus) {
					for i := range st {
						lost = lost || st[i].State != engine.Healthy
					}
				})
				return lost
			})
		}()
		_, err := x.Run(context.Background(), add(t, 64, 1), engine.RunOptions{}, memory(in, out))
		if !errors.Is(err, engine.ErrTimeout) || !strings.Contains(err.Error(), "not tried again") || calls.Load() != 1 {
			t.Errorf("%v after %d calls", err, calls.Load())
		}
	}
}

// An Open whose context ends fails with its cause, and says nothing about backends that
// could not be opened in time.
func TestOpenIsCancelled(t *testing.T) {
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	var log bytes.Buffer
	_, err = exec.Open(ctx, exec.Config{
		Drivers: []driver.Driver{cancelling{cancel, why}, cpu.New(cpu.Options{Cores: 1})}, Copier: copier[0],
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if !errors.Is(err, why) || log.Len() > 0 {
		t.Errorf("got %v, log %q", err, log.String())
	}
}

// cancelling is a driver in whose Open the context ends.
type cancelling struct {
	cancel context.CancelCauseFunc
	why    error
}

func (cancelling) Name() string { return "cancelling" }

func (d cancelling) Open(ctx context.Context, _ *slog.Logger) ([]driver.Device, error) {
	d.cancel(d.why)
	return nil, ctx.Err()
}

// A caller that stops waiting for data leaves nothing behind that would keep runs from
// writing it.
func TestFetchLeft(t *testing.T) {
	began, hold := make(chan struct{}, 3), make(chan struct{})
	x := start(t, 1, engine.Options{}, map[string]driver.Func{"bump": func(c *driver.Call, _, _ int) {
		began <- struct{}{}
		<-hold
		c.Args[0][0]++
	}})
	var b graph.Builder
	d := b.Data(graph.Data{Name: "x", Bytes: 8, Input: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel("bump"), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: d, Access: graph.ReadWrite}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	home := make([]byte, 8)
	ref, err := x.Put("x", home, graph.Versioned)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	run := func() {
		x.Start(&exec.Job{Graph: g, Options: engine.RunOptions{Bind: []engine.Binding{{Data: d, Ref: ref}}}, Done: func(_ *engine.Report, err error) { done <- err }})
	}
	run()
	<-began
	ctx, cancel := context.WithCancel(context.Background())
	asked, left := make(chan struct{}), make(chan error, 1)
	go func() {
		left <- x.Fetch(ctx, ref, func() error { close(asked); return nil }, func() { t.Error("it read") })
	}()
	<-asked
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left got %v", err)
	}
	close(hold)
	for i := range 3 { // the data is brought home before the second run or the third
		if i > 0 {
			run()
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a run waits for a reader that has left")
		}
	}
	if err := x.Fetch(context.Background(), ref, func() error { return nil }, func() {}); err != nil || home[0] != 3 {
		t.Errorf("after three runs: %d, %v", home[0], err)
	}
	x.Release(ref)
}
