package weft_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
)

// tripled is n tasks, each of which updates a part of x; every task adds 3 to its numbers.
func tripled(t testing.TB, n int) *graph.Graph {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: int64(64 * n), Input: true, Output: true})
	for i := range n {
		b.Add(graph.Task{
			Name:  fmt.Sprintf("part %d", i),
			Steps: []graph.Step{{Kernel: graph.GoKernel("add"), Launch: graph.Grid(8)}},
			Uses:  []graph.Use{{Data: x, Offset: int64(64 * i), Bytes: 64, Access: graph.ReadWrite}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// add3 is the kernel of tripled.
func add3(c *weft.Call, lo, hi int) {
	x := weft.View[int64](c.Args[0])
	for i := lo; i < hi; i++ {
		x[i] += 3
	}
}

// follows returns devices that follow a script.
func follows(t testing.TB, script string, funcs map[string]weft.Func) *fake.Driver {
	t.Helper()
	o, err := fake.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	o.Funcs = funcs
	d, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// all reports whether all numbers are one.
func all(x []int64, is int64) bool {
	return !slices.ContainsFunc(x, func(v int64) bool { return v != is })
}

// A wrong result of secret data is reported without its bytes.
func TestVerifySecret(t *testing.T) {
	drv := follows(t, "devices 3; on 1 corrupt kernel add", map[string]weft.Func{"add": add3})
	var log bytes.Buffer
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1, Policy: "roundrobin", Concurrent: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 64, Input: true, Output: true, Secret: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: graph.GoKernel("add"), Launch: graph.Grid(8)}}, Uses: []graph.Use{{Data: x, Access: graph.ReadWrite}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var wrong []weft.WrongResult
	for n := int64(1); len(wrong) == 0 && n < 100; n++ {
		is := slices.Repeat([]int64{n}, 8)
		rep, err := rt.Run(t.Context(), g, weft.Bind("x", is))
		if err != nil || !all(is, n+3) {
			t.Fatal(is, err)
		}
		wrong = rep.Wrong
	}
	if len(wrong) == 0 || wrong[0].Device != "fake:1" || wrong[0].Got != "a secret" || wrong[0].Want != "another" {
		t.Errorf("wrong results are %+v", wrong)
	}
	if !strings.Contains(log.String(), "has a secret instead of another") {
		t.Errorf("the log says %s", log.String())
	}
}

// A device computes wrong bytes. With every task verified each run is right, and the device is
// drained and named by the report, events, metrics and the log.
func TestVerify(t *testing.T) {
	var log bytes.Buffer
	drv := follows(t, "devices 3; on 1 corrupt kernel add", map[string]weft.Func{"add": add3})
	rt := open(t, weft.Options{
		Drivers: []driver.Driver{drv}, Verify: 1, Policy: "roundrobin", Concurrent: 1,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var rule, device string
	events := rt.Events(ctx, weft.EventRule, weft.EventDevice)
	told := make(chan struct{})
	go func() {
		defer close(told)
		for e := range events {
			switch e.Kind {
			case weft.EventRule:
				rule = e.String()
			case weft.EventDevice:
				device = e.String()
			}
			if rule != "" && device != "" {
				return
			}
		}
	}()
	const tasks = 20
	x := make([]int64, 8*tasks)
	var wrong []weft.WrongResult
	runs := int64(0)
	for len(wrong) == 0 && ctx.Err() == nil {
		rep, err := rt.Run(ctx, tripled(t, tasks), weft.Bind("x", x))
		if err != nil {
			t.Fatal(err)
		}
		if runs++; !all(x, 3*runs) {
			t.Fatalf("x is wrong after %d runs: %v", runs, x)
		}
		if rep.Verified != tasks || rep.Unverified != 0 {
			t.Errorf("run %d: %d tasks verified and %d not, of %d", runs, rep.Verified, rep.Unverified, tasks)
		}
		executed := 0
		for _, d := range rep.Devices {
			executed += d.Tasks
		}
		if executed < 2*tasks || len(rep.Devices) != 3 || len(rep.Names) != 3 {
			t.Errorf("run %d: %d executions on %d devices", runs, executed, len(rep.Devices))
		}
		wrong = rep.Wrong
	}
	for _, w := range wrong {
		if w.Device != "fake:1" || w.Data != "x" || w.Byte%64 != 63 || w.Got == w.Want || len(w.Against) != 2 || slices.Contains(w.Against, "fake:1") {
			t.Errorf("wrong result is %+v", w)
		}
	}
	<-told
	want := `the result of fake:1 differs from the result of fake:`
	for _, said := range []string{rule, device} {
		if !strings.Contains(said, want) {
			t.Errorf("an event is %q and has no %q", said, want)
		}
	}
	poll.True(t, "the device is drained", func() bool { return rt.Metrics().Devices[1].State == "drained" || ctx.Err() != nil })
	m := rt.Metrics()
	if m.Devices[1].State != "drained" || !strings.Contains(m.Devices[1].LastError, want) || m.Wrong != int64(len(wrong)) || m.Verified != tasks*runs {
		t.Errorf("metrics are %+v", m)
	}
	if _, err := rt.Run(ctx, tripled(t, tasks), weft.Bind("x", x)); err != nil || !all(x, 3*(runs+1)) {
		t.Errorf("without the device: %v, %v", err, x)
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), want) || !strings.Contains(log.String(), `device=fake:1 from=healthy to=draining cause=`) {
		t.Errorf("the log is\n%s", log.String())
	}
}

// Where two devices differ and nothing can decide, the run fails and says what differs.
func TestVerifyUndecided(t *testing.T) {
	drv := follows(t, "devices 2; on 1 corrupt kernel add", map[string]weft.Func{"add": add3})
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1})
	x := make([]int64, 8)
	_, err := rt.Run(t.Context(), tripled(t, 1), weft.Bind("x", x))
	var w *weft.WrongResult
	if !errors.As(err, &w) || !w.Undecided || w.Task != "part 0" || !strings.HasPrefix(w.Device, "fake:") || len(w.Against) != 1 || w.Against[0] == w.Device || w.Byte != 63 {
		t.Fatalf("the error is %v", err)
	}
	if !strings.HasSuffix(err.Error(), "no two agree, and there is no other device that could decide; 1 task unfinished: part 0") ||
		!strings.HasPrefix(err.Error(), `task "part 0": the result of fake:`) || strings.Count(err.Error(), "part 0") != 2 {
		t.Errorf("the error says %q", err)
	}
}

// The error of a task that is verified is that of its execution, and executions that are tried again are counted.
func TestVerifyFailure(t *testing.T) {
	for _, c := range []struct {
		fails   int32 // executions, from the first on
		says    string
		retries int
	}{
		{1, "", 1},
		{1 << 30, `task "part 0" on cpu:D: kernel "add": a bad day (4 attempts, all the same); 1 task unfinished: part 0`, 3},
	} {
		var calls atomic.Int32
		rt := open(t, weft.Options{Devices: "cpu/2", Verify: 1, Retries: 3, MaxFailures: 10, Funcs: map[string]weft.Func{"add": func(k *weft.Call, lo, hi int) {
			if lo == 0 && calls.Add(1) <= c.fails {
				k.Fail(errors.New("a bad day"))
				return
			}
			add3(k, lo, hi)
		}}})
		rep, err := rt.Run(t.Context(), tripled(t, 1), weft.Bind("x", make([]int64, 8)))
		says := ""
		if err != nil {
			says = strings.NewReplacer("cpu:0", "cpu:D", "cpu:1", "cpu:D").Replace(err.Error())
		}
		if te := (*weft.TaskError)(nil); says != c.says || errors.As(err, &te) && len(te.Attempts) != 4 {
			t.Errorf("the error is %v; want %q", err, c.says)
		}
		if rep == nil || rep.Retries != c.retries {
			t.Errorf("after %d failures the report is %+v; want %d retries", c.fails, rep, c.retries)
		}
	}
}

// All tasks that fail are named once, with what each of them did.
func TestVerifyFailures(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Verify: 1, Funcs: map[string]weft.Func{"add": func(k *weft.Call, lo, hi int) {
		if lo == 0 {
			panic("no sum")
		}
	}}})
	_, err := rt.Run(t.Context(), tripled(t, 2), weft.Bind("x", make([]int64, 16)))
	run := (*weft.RunError)(nil)
	if !errors.As(err, &run) || len(run.Names) != 2 || strings.Count(err.Error(), "unfinished") != 1 || strings.Contains(err.Error(), `"verify"`) || strings.Contains(err.Error(), "on verify") {
		t.Errorf("the error is %v", err)
	}
}

// Two of three devices are lost by the task and come back, and the third is wrong: its result is
// not used although no other device can execute the task when it is there.
func TestVerifyWaits(t *testing.T) {
	drv := follows(t, "devices 3; on 0 corrupt kernel add; on 1 lose launches times 1; on 2 lose launches times 1", map[string]weft.Func{"add": add3})
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1, MaxLosses: 10, Ladder: "later:1m", Rungs: map[string]weft.Rung{
		"later": func(ctx context.Context, _ string) error {
			select {
			case <-time.After(300 * time.Millisecond): // long enough for a run that does not wait to have ended
			case <-ctx.Done():
			}
			return nil
		},
	}})
	x := make([]int64, 8)
	for runs := int64(1); ; runs++ { // until the device that is wrong had the task
		rep, err := rt.Run(t.Context(), tripled(t, 1), weft.Bind("x", x))
		if err != nil {
			t.Fatal(err)
		}
		if !all(x, 3*runs) || rep.Verified != 1 || rep.Unverified != 0 {
			t.Fatalf("after %d runs x is %v, %d verified and %d not", runs, x, rep.Verified, rep.Unverified)
		}
		if len(rep.Wrong) > 0 {
			break
		}
	}
}

// Where two devices differ and there is no third, the process decides by the Go function. With one device
// left, tasks are executed once and counted as unverified.
func TestVerifyReference(t *testing.T) {
	var calls atomic.Int64
	rt := open(t, weft.Options{Devices: "cpu/2", Verify: 1, Funcs: map[string]weft.Func{"add": func(c *weft.Call, lo, hi int) {
		add3(c, lo, hi)
		if lo == 0 && calls.Add(1) == 1 {
			c.Args[0][7]++
		}
	}}})
	x := make([]int64, 8)
	rep, err := rt.Run(t.Context(), tripled(t, 1), weft.Bind("x", x))
	if err != nil || !all(x, 3) || rep.Verified != 1 || len(rep.Wrong) != 1 || !slices.Contains(rep.Wrong[0].Against, "the host") {
		t.Fatalf("x is %v, the report %+v, %v", x, rep, err)
	}
	poll.True(t, rep.Wrong[0].Device+" is drained", func() bool {
		return slices.ContainsFunc(rt.Metrics().Devices, func(d weft.DeviceMetrics) bool { return d.State == "drained" && d.Name == rep.Wrong[0].Device })
	})
	rep, err = rt.Run(t.Context(), tripled(t, 1), weft.Bind("x", x))
	if err != nil || !all(x, 6) || rep.Verified != 0 || rep.Unverified != 1 || rt.Metrics().Unverified != 1 {
		t.Errorf("on one device x is %v, the report %+v, %v", x, rep, err)
	}
}

// Nothing can be verified on one device.
func TestVerifyAlone(t *testing.T) {
	_, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", Verify: 1, NoCalibrate: true, CacheDir: "off"})
	if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "there is only cpu:0; use several, as cpu/2, or leave verify off") {
		t.Errorf("the error is %v", err)
	}
	_, err = weft.Open(t.Context(), weft.Options{Devices: "cpu/2", Spares: "cpu:1", Verify: 1, NoCalibrate: true, CacheDir: "off"})
	if !errors.Is(err, weft.ErrOptions) || !strings.Contains(err.Error(), "all but one of cpu:0, cpu:1 are spares; use several") {
		t.Errorf("with a spare the error is %v", err)
	}
	why := errors.New("broken: the worker was killed")
	one := &found{name: "cpu", devs: []machine.Device{{Model: "one"}}}
	_, err = weft.Open(t.Context(), weft.Options{Drivers: []driver.Driver{one, &found{name: "broken", err: why}}, Verify: 1, NoCalibrate: true, CacheDir: "off"})
	if errors.Is(err, weft.ErrOptions) || !errors.Is(err, why) || !strings.Contains(err.Error(), "only cpu:0 opened; left out: broken: the worker was killed") {
		t.Errorf("with a device left out the error is %v", err)
	}
}

// One task in so many is picked, others in other runs of the same prepared graph, and the same
// by a runtime that is opened anew.
func TestVerifySample(t *testing.T) {
	const tasks, runs, every = 50, 40, 8
	count := func() (out []int) {
		rt := open(t, weft.Options{Devices: "cpu/2", Verify: every, Funcs: map[string]weft.Func{"add": add3}})
		defer rt.Close()
		p, err := rt.Prepare(tripled(t, tasks), weft.Bind("x", make([]int64, 8*tasks)))
		if err != nil {
			t.Fatal(err)
		}
		for range runs {
			rep, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, rep.Verified)
		}
		return out
	}
	first := count()
	sum := 0
	for _, n := range first {
		sum += n
	}
	// 2000 tasks, of which 250 are expected with a standard deviation of 15.
	if sum < 190 || sum > 310 || slices.Min(first) == slices.Max(first) {
		t.Errorf("verified are %v, in all %d", first, sum)
	}
	if again := count(); !slices.Equal(first, again) {
		t.Errorf("verified are %v, and then %v", first, again)
	}
}

// Any graph gives what its tasks give one after another while a device spoils all it computes.
func TestVerifyAnyGraph(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	wrong, verified := 0, 0
	for round := range rounds {
		rnd := rand.New(rand.NewPCG(uint64(round), 11))
		funcs := map[string]weft.Func{"mix": mixFunc}
		script := fmt.Sprintf("devices 3; lanes %d; on %d corrupt launches", 1+rnd.IntN(2), rnd.IntN(3))
		rt := open(t, weft.Options{
			Drivers: []driver.Driver{follows(t, script, funcs)}, Verify: 1, Policy: "roundrobin", Concurrent: rnd.IntN(3),
		})
		for range 4 {
			d := drawGraph.Example(int(rnd.Uint32()))
			rep, err := rt.Run(t.Context(), d.g, bindAll(d.mem)...)
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			for i := range d.mem {
				if !slices.Equal(d.mem[i], d.want[i]) {
					t.Fatalf("round %d: d%d is\n%x\nand one task after another gives\n%x", round, i, d.mem[i], d.want[i])
				}
			}
			wrong, verified = wrong+len(rep.Wrong), verified+rep.Verified
		}
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d tasks were verified, %d results wrong", verified, wrong)
	if wrong == 0 || verified == 0 {
		t.Error("nothing was wrong")
	}
}

// A run that is cancelled while a task of it is verified ends, and so does the runtime.
func TestVerifyCancelled(t *testing.T) {
	drv := follows(t, "devices 2; hang kernel add", map[string]weft.Func{"add": add3})
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1})
	ctx, cancel := context.WithCancel(t.Context())
	begun, events := make(chan struct{}), rt.Events(t.Context(), weft.EventRunBegan) // from here on
	go func() {
		defer cancel()
		for e := range events {
			if e.Run == 2 { // the execution
				break
			}
		}
		close(begun)
	}()
	_, err := rt.Run(ctx, tripled(t, 1), weft.Bind("x", make([]int64, 8)))
	if !errors.Is(err, weft.ErrCancelled) {
		t.Errorf("the error is %v", err)
	}
	<-begun
	if err := drv.Play("release"); err != nil {
		t.Error(err)
	}
}

// A kernel that fails is tried as often as without verification, and its error is the run's.
func TestVerifyFails(t *testing.T) {
	boom := errors.New("boom")
	var calls atomic.Int64
	rt := open(t, weft.Options{Devices: "cpu/2", Verify: 1, Retries: 2, Funcs: map[string]weft.Func{"add": func(c *weft.Call, lo, _ int) {
		if lo == 0 {
			calls.Add(1)
		}
		c.Fail(boom)
	}}})
	_, err := rt.Run(t.Context(), tripled(t, 1), weft.Bind("x", make([]int64, 8)))
	if !errors.Is(err, boom) || calls.Load() != 3 {
		t.Errorf("after %d calls the error is %v", calls.Load(), err)
	}
}

// A task with several steps, a workspace and a part of data that it only reads.
func TestVerifySteps(t *testing.T) {
	var calls atomic.Int64
	rt := open(t, weft.Options{Devices: "cpu/2", Verify: 1, Funcs: map[string]weft.Func{
		"first":  func(c *weft.Call, _, _ int) { copy(c.Args[2], c.Args[0]); c.Args[2][0] += c.Params[0] },
		"second": func(c *weft.Call, _, _ int) { copy(c.Args[0], c.Args[1]); c.Args[0][1] += byte(calls.Add(1) % 2) },
	}})
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: 16, Input: true})
	out := b.Data(graph.Data{Name: "out", Bytes: 8, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{
			{Kernel: graph.GoKernel("first"), Launch: graph.Grid(1), Params: []byte{5}},
			{Kernel: graph.GoKernel("second"), Launch: graph.Grid(1), Args: []int{1, 2}},
		},
		Uses:      []graph.Use{{Data: in, Offset: 8, Bytes: 8}, {Data: out, Access: graph.Write}},
		Workspace: 8,
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]byte, 16), make([]byte, 8)
	binary.LittleEndian.PutUint64(x[8:], 100)
	// The first execution is wrong by calls, the second right, and the reference, the third, as the first.
	rep, err := rt.Run(t.Context(), g, weft.Bind("in", x), weft.Bind("out", y))
	if err != nil || y[0] != 105 || y[1] != 1 || len(rep.Wrong) != 1 {
		t.Errorf("out is %v, the report %+v, %v", y, rep, err)
	}
}

// Results of devices of different kinds are compared as the graph says of their data, and not
// at all where it says nothing.
func TestVerifyKinds(t *testing.T) {
	funcs := map[string]weft.Func{"add": add3}
	rt := open(t, weft.Options{
		Drivers: []driver.Driver{cpu.New(cpu.Options{Funcs: funcs}), follows(t, "devices 1", funcs)}, Verify: 1,
	})
	for tolerance, verified := range map[float64]int{0: 0, graph.SameBytes: 1} {
		var b graph.Builder
		x := b.Data(graph.Data{Name: "x", Bytes: 64, Input: true, Output: true, Tolerance: tolerance})
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: graph.GoKernel("add"), Launch: graph.Grid(8)}},
			Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}},
		})
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		y := make([]int64, 8)
		rep, err := rt.Run(t.Context(), g, weft.Bind("x", y))
		if err != nil || !all(y, 3) || rep.Verified != verified || rep.Unverified != 1-verified {
			t.Errorf("tolerance %v: x is %v, the report %+v, %v", tolerance, y, rep, err)
		}
	}
}
