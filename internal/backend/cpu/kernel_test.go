package cpu_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
)

// runner launches kernels on one device, one after another.
type runner struct {
	t    *testing.T
	dev  driver.Device
	seq  uint32
	done chan struct{}
}

func start(t *testing.T, o cpu.Options) []*runner {
	t.Helper()
	devs, err := cpu.New(o).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	board := driver.NewBoard(len(devs))
	var out []*runner
	for i, d := range devs {
		r := &runner{t: t, dev: d, done: make(chan struct{}, 1)}
		d.Attach(board, []driver.Lane{driver.Lane(i)}, func() {
			select {
			case r.done <- struct{}{}:
			default:
			}
		})
		t.Cleanup(func() { d.Close() })
		out = append(out, r)
	}
	return out
}

// launch runs steps and returns how they ended.
func (r *runner) launch(lane driver.Lane, mem []byte, steps ...graph.Step) error {
	r.t.Helper()
	return r.run(lane, mem, &graph.Task{Steps: steps}, false)
}

// run runs a task on mem and returns how it ended.
func (r *runner) run(lane driver.Lane, mem []byte, task *graph.Task, compare bool) error {
	r.t.Helper()
	r.seq++
	op := driver.Op{
		Kind: driver.Launch, Lane: lane, Seq: r.seq, Task: task, Compare: compare,
		Args: []driver.Arg{{Buf: driver.NoBuffer, Host: mem, Bytes: int64(len(mem))}},
	}
	if err := r.dev.Submit([]driver.Op{op}); err != nil {
		r.t.Fatal(err)
	}
	select {
	case <-r.done:
	case <-time.After(2 * time.Minute):
		r.t.Fatal("a launch did not end")
	}
	var c [2]driver.Completion
	if n := r.dev.Completions(c[:]); n != 1 || c[0].Seq != r.seq {
		r.t.Fatalf("%d completions: %v", n, c[:n])
	}
	return c[0].Err
}

func step(entry string, grid [3]uint32, per [3]uint32) graph.Step {
	k := &graph.Kernel{Name: entry, Impls: []graph.Impl{{Dialect: graph.Go, Entry: entry, Per: per}}}
	return graph.Step{Kernel: k, Launch: graph.Launch{Grid: grid}}
}

// What is stopped ends early: when its kernel asks, or before it begins. What is
// before and behind it on its lane does not.
func TestStop(t *testing.T) {
	for _, cores := range []int{1, 2} {
		begun := make(chan struct{}, 100)
		var ran atomic.Int32
		funcs := map[string]driver.Func{
			"wait": func(c *driver.Call, lo, hi int) {
				begun <- struct{}{}
				for !c.Stopped() {
					runtime.Gosched()
				}
			},
			"count": func(c *driver.Call, lo, hi int) { ran.Add(int32(hi - lo)) },
		}
		r := start(t, cpu.Options{Cores: cores, Funcs: funcs})[0]
		op := func(seq uint32, entry string) driver.Op {
			return driver.Op{Kind: driver.Launch, Lane: 0, Seq: seq, Task: &graph.Task{Steps: []graph.Step{step(entry, [3]uint32{100, 1, 1}, [3]uint32{})}}}
		}
		stopper := r.dev.(driver.Stopper)
		if err := r.dev.Submit([]driver.Op{op(1, "count"), op(2, "wait"), op(3, "count"), op(4, "count"), op(5, "count")}); err != nil {
			t.Fatal(err)
		}
		<-begun
		stopper.Stop(driver.Wait{Lane: 0, Seq: 1}) // too late
		stopper.Stop(driver.Wait{Lane: 0, Seq: 4})
		stopper.Stop(driver.Wait{Lane: 0, Seq: 2})
		var all []driver.Completion
		for len(all) < 5 {
			<-r.done
			var c [8]driver.Completion
			all = append(all, c[:r.dev.Completions(c[:])]...)
		}
		for i, want := range []error{nil, driver.ErrStopped, nil, driver.ErrStopped, nil} {
			if !errors.Is(all[i].Err, want) {
				t.Errorf("%d cores, operation %d: %v, want %v", cores, all[i].Seq, all[i].Err, want)
			}
		}
		if ran.Load() != 300 {
			t.Errorf("%d cores: %d items were counted, want 300", cores, ran.Load())
		}
		if len(begun) >= 16 {
			t.Errorf("%d cores: a stopped launch began %d more parts", cores, len(begun))
		}
	}
}

// A kernel that was always short and does not return the sixth time keeps nothing that
// is complete from whoever asks, and its launch can be detached.
func TestShortKernelHangs(t *testing.T) {
	begun, release, calls := make(chan struct{}), make(chan struct{}), 0
	r := start(t, cpu.Options{Cores: 1, Funcs: map[string]driver.Func{"kernel": func(*driver.Call, int, int) {
		if calls++; calls == 6 {
			close(begun)
			<-release
		}
	}}})[0]
	kernel := step("kernel", [3]uint32{1, 1, 1}, [3]uint32{})
	if err := r.launch(0, nil, kernel); err != nil {
		t.Fatal(err)
	}
	var batch []driver.Op
	for seq := uint32(2); seq <= 7; seq++ {
		batch = append(batch, driver.Op{Kind: driver.Launch, Lane: 0, Seq: seq, Task: &graph.Task{Steps: []graph.Step{kernel}}})
	}
	if err := r.dev.Submit(batch); err != nil {
		t.Fatal(err)
	}
	<-begun
	var c [8]driver.Completion
	n := 0
	for end := time.Now().Add(2 * time.Minute); n == 0 && time.Now().Before(end); runtime.Gosched() {
		n = r.dev.Completions(c[:]) // once the lane has been silent for a while
	}
	if n != 4 || c[0].Seq != 2 || c[3].Seq != 5 {
		t.Errorf("%d completions: %v", n, c[:n])
	}
	if !r.dev.(driver.Detacher).Detach(driver.Wait{Lane: 0, Seq: 6}, 7) {
		t.Error("it was not detached")
	}
	r.seq = 7
	if err := r.launch(0, nil, kernel); err != nil {
		t.Error(err)
	}
	close(release)
	for end := time.Now().Add(2 * time.Minute); ; runtime.Gosched() {
		if n := r.dev.Completions(c[:]); n > 0 {
			if n != 1 || c[0].Seq != 6 || c[0].Err != nil {
				t.Errorf("%d completions: %v", n, c[:n])
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("the detached launch did not end")
		}
	}
}

// What ends early because its device was given up on is lost, not done.
func TestDropIsNoResult(t *testing.T) {
	for _, cores := range []int{1, 2} {
		begun := make(chan struct{}, 100)
		r := start(t, cpu.Options{Cores: cores, Funcs: map[string]driver.Func{"wait": func(c *driver.Call, lo, hi int) {
			begun <- struct{}{}
			for !c.Stopped() {
				runtime.Gosched()
			}
		}}})[0]
		task := &graph.Task{Steps: []graph.Step{step("wait", [3]uint32{100, 1, 1}, [3]uint32{})}}
		if err := r.dev.Submit([]driver.Op{{Kind: driver.Launch, Lane: 0, Seq: 1, Task: task}}); err != nil {
			t.Fatal(err)
		}
		<-begun
		r.dev.(driver.Dropper).Drop(errors.New("the test gives up on it"))
		<-r.done
		var c [8]driver.Completion
		if n := r.dev.Completions(c[:]); n != 1 || !errors.Is(c[0].Err, driver.ErrDeviceLost) {
			t.Errorf("%d cores: %d completions, the first: %v", cores, n, c[0].Err)
		}
	}
}

// Every item is computed once, however the team cuts them.
func TestTeamCoversItems(t *testing.T) {
	funcs := map[string]driver.Func{"count": func(c *driver.Call, lo, hi int) {
		if lo >= hi {
			c.Fail(fmt.Errorf("asked for items %d to %d", lo, hi))
			return
		}
		for i := lo; i < hi; i++ {
			c.Args[0][i]++
		}
	}}
	for _, cores := range []int{1, 2, 0} {
		r := start(t, cpu.Options{Cores: cores, Funcs: funcs})[0]
		for _, c := range []struct {
			grid, per [3]uint32
			items     int
		}{
			{[3]uint32{}, [3]uint32{}, 1},
			{[3]uint32{1, 1, 1}, [3]uint32{}, 1},
			{[3]uint32{2, 0, 0}, [3]uint32{}, 2},
			{[3]uint32{3, 5, 7}, [3]uint32{}, 105},
			{[3]uint32{10_007, 1, 1}, [3]uint32{}, 10_007},
			{[3]uint32{10_007, 1, 1}, [3]uint32{10, 1, 1}, 1001},
			{[3]uint32{64, 100, 1}, [3]uint32{graph.All, 3, 0}, 34},
		} {
			mem := make([]byte, c.items+1)
			if err := r.launch(0, mem, step("count", c.grid, c.per)); err != nil {
				t.Fatalf("%d cores, grid %d: %v", cores, c.grid, err)
			}
			for i, n := range mem {
				if want := byte(1); i < c.items && n != want || i == c.items && n != 0 {
					t.Fatalf("%d cores, grid %d per %d: item %d was computed %d times", cores, c.grid, c.per, i, n)
				}
			}
		}
	}
}

// A kernel that panics fails its launch, wherever in the team it happens, and
// the launches behind it run.
func TestPanics(t *testing.T) {
	var calls atomic.Int64
	at := func(when func(lo int) bool) driver.Func {
		return func(c *driver.Call, lo, hi int) {
			calls.Add(1)
			if when(lo) {
				panic(fmt.Sprintf("at %d", lo))
			}
		}
	}
	r := start(t, cpu.Options{Funcs: map[string]driver.Func{
		"all":   at(func(int) bool { return true }),
		"first": at(func(lo int) bool { return lo == 0 }),
		"late":  at(func(lo int) bool { return lo > 500 }),
		"nil":   func(c *driver.Call, lo, hi int) { _ = c.Args[7][lo] },
		"good":  at(func(int) bool { return false }),
	}})[0]
	for _, items := range []uint32{1, 1000} {
		for _, name := range []string{"all", "first", "late", "nil"} {
			if name == "late" && items == 1 {
				continue
			}
			err := r.launch(0, nil, step(name, [3]uint32{items}, [3]uint32{}))
			if err == nil || !strings.Contains(err.Error(), "kernel: panic: ") || errors.Is(err, driver.ErrKernel) {
				t.Errorf("%s on %d items: %v", name, items, err)
			}
			calls.Store(0)
			if err := r.launch(0, nil, step("good", [3]uint32{items}, [3]uint32{})); err != nil || calls.Load() == 0 {
				t.Errorf("after %s: %v", name, err)
			}
		}
	}
}

// The first Fail is the launch's error, once: the next launch starts clean.
func TestFail(t *testing.T) {
	boom := errors.New("boom")
	ran := false
	r := start(t, cpu.Options{Funcs: map[string]driver.Func{
		"fail": func(c *driver.Call, lo, hi int) {
			c.Fail(boom)
			c.Fail(errors.New("another"))
		},
		"mark": func(*driver.Call, int, int) { ran = true },
	}})[0]
	fail, mark := step("fail", [3]uint32{100}, [3]uint32{}), step("mark", [3]uint32{1}, [3]uint32{})
	if err := r.launch(0, nil, fail, mark); !errors.Is(err, boom) || !strings.Contains(err.Error(), `"fail"`) {
		t.Errorf("got %v; want boom and the kernel's name", err)
	}
	if ran {
		t.Error("a step ran behind one that failed")
	}
	if err := r.launch(0, nil, mark); err != nil || !ran {
		t.Errorf("the next launch: %v", err)
	}
}

func TestMissingFunc(t *testing.T) {
	r := start(t, cpu.Options{})[0]
	err := r.launch(0, nil, step("nobody", [3]uint32{1}, [3]uint32{}))
	if !errors.Is(err, driver.ErrKernel) || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("got %v; want ErrKernel with the kernel's name", err)
	}
}

// Cores are divided among devices without overlap; with more devices than
// cores they are shared, and that is said.
func TestParts(t *testing.T) {
	n := runtime.NumCPU()
	for _, parts := range []int{1, 2, n, n + 1, 3 * n} {
		var log strings.Builder
		devs, err := cpu.New(cpu.Options{Parts: parts}).Open(context.Background(), slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if len(devs) != parts {
			t.Fatalf("asked for %d parts, got %d", parts, len(devs))
		}
		cores := 0
		for i, d := range devs {
			info := d.Info()
			cores += info.ComputeUnits
			if want := fmt.Sprintf("cpu:%d", i); info.Name != want || info.ComputeUnits < 1 {
				t.Errorf("part %d of %d is %q with %d cores", i, parts, info.Name, info.ComputeUnits)
			}
			d.Close()
		}
		if want := max(n, parts); cores != want {
			t.Errorf("%d parts of %d cores have %d together, want %d", parts, n, cores, want)
		}
		if shared := strings.Contains(log.String(), "share"); shared != (parts > n) {
			t.Errorf("%d parts of %d cores: the log says %q", parts, n, log.String())
		}
	}
}

// Whether what a task only reads may have changed depends on the kernels that were called: one that is
// missing, or refuses its parameters, has changed nothing, but those of the steps before it may have.
func TestSpoiltBySteps(t *testing.T) {
	type params struct{ N int32 }
	r := start(t, cpu.Options{Cores: 2, Funcs: map[string]driver.Func{
		"write": func(c *driver.Call, _, _ int) { c.Args[0][0]++ },
		"look":  func(*driver.Call, int, int) {},
		"takes": driver.WithParams(func(*driver.Call, params, int, int) {}),
		"says": func(c *driver.Call, _, _ int) {
			c.Args[0][0]++
			c.Fail(fmt.Errorf("elsewhere: %w", driver.ErrUnfit))
		},
	}})[0]
	one := func(name string) graph.Step { return step(name, [3]uint32{1}, [3]uint32{}) }
	wide := func(name string) graph.Step { return step(name, [3]uint32{64}, [3]uint32{}) }
	other := one("look")
	other.Args = []int{3}
	for name, c := range map[string]struct {
		steps              []graph.Step
		unfit, may, writes bool // whether it is ErrUnfit, inputs may have changed, and have
	}{
		"the first is missing":           {[]graph.Step{one("nobody"), one("write")}, true, false, false},
		"the first refuses":              {[]graph.Step{one("takes"), one("write")}, true, false, false},
		"all parts of the first refuse":  {[]graph.Step{wide("takes"), one("write")}, true, false, false},
		"the first has wrong arguments":  {[]graph.Step{other, one("write")}, true, false, false},
		"the second is missing":          {[]graph.Step{one("write"), one("nobody")}, true, true, true},
		"the second refuses":             {[]graph.Step{one("write"), wide("takes")}, true, true, true},
		"the second has wrong arguments": {[]graph.Step{one("write"), other}, true, true, true},
		"the second, nothing written":    {[]graph.Step{one("look"), one("nobody")}, true, true, false},
		"it says that of another":        {[]graph.Step{one("says")}, false, true, true},
	} {
		for _, compare := range []bool{false, true} {
			task := &graph.Task{Steps: c.steps, Uses: []graph.Use{{Access: graph.Read}}}
			err := r.run(0, make([]byte, 8), task, compare)
			changed, may := compare && c.writes, !compare && c.may
			if errors.Is(err, driver.ErrUnfit) != c.unfit || errors.Is(err, driver.ErrSpoilt) != may || errors.Is(err, driver.ErrChecksum) != changed {
				t.Errorf("%s, compared %v: %v", name, compare, err)
			}
		}
	}
}

// A context that something took from the call of a launch that had ended is not that of the next launch:
// which ends when that is stopped.
func TestContextOfNextLaunch(t *testing.T) {
	var kept *driver.Call
	begun, ended := make(chan struct{}), make(chan error, 1)
	r := start(t, cpu.Options{Cores: 1, Funcs: map[string]driver.Func{
		"keep": func(c *driver.Call, _, _ int) { kept = c },
		"wait": func(c *driver.Call, _, _ int) {
			ctx := c.Context()
			close(begun)
			for !c.Stopped() {
				runtime.Gosched()
			}
			ended <- ctx.Err()
		},
	}})[0]
	if err := r.launch(0, nil, step("keep", [3]uint32{1}, [3]uint32{})); err != nil {
		t.Fatal(err)
	}
	late := kept.Context()
	go func() {
		<-begun
		r.dev.(driver.Stopper).Stop(driver.Wait{Lane: 0, Seq: 2})
	}()
	if err := r.launch(0, nil, step("wait", [3]uint32{1}, [3]uint32{})); !errors.Is(err, driver.ErrStopped) {
		t.Errorf("a launch that was stopped: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("its context did not end")
	}
	if late.Err() == nil {
		t.Error("the context that was taken before did not end")
	}
}
