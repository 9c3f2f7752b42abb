package weft_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// A device that is drained while a task is verified there finishes it, however long that takes.
func TestVerifyDrain(t *testing.T) {
	started, finish := make(chan struct{}, 10), make(chan struct{})
	var calls atomic.Int64
	drv := follows(t, "devices 2", map[string]weft.Func{"add": func(c *weft.Call, lo, hi int) {
		calls.Add(1)
		started <- struct{}{}
		<-finish
		add3(c, lo, hi)
	}})
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1, CancelWait: 20 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 64, Input: true, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: graph.GoKernel("add"), Launch: graph.Grid(8)}},
		Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}}, On: graph.Constraint{Only: []string{"fake:0"}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	y := make([]int64, 8)
	var rep *weft.Report
	var both sync.WaitGroup
	both.Go(func() { rep, err = rt.Run(ctx, g, weft.Bind("x", y)) })
	<-started
	both.Go(func() {
		if err := rt.Drain(ctx, "fake:0"); err != nil {
			t.Error(err)
		}
	})
	poll.True(t, "a device that is drained", func() bool { return rt.Devices()[0].State == "draining" })
	time.Sleep(300 * time.Millisecond) // verify looks after executions every 50 ms: a few times, while the device is drained
	close(finish)
	both.Wait()
	if err != nil || !all(y, 3) || rep.Unverified != 1 || calls.Load() != 1 {
		t.Errorf("after %d calls x is %v, the report %+v, %v", calls.Load(), y, rep, err)
	}
	if losses := rt.Metrics().Losses; losses != 0 {
		t.Errorf("%d devices were lost", losses)
	}
}

// A task whose device is lost for good waits for one that is drained, verified or not. A second
// execution does not: the task has a result.
func TestVerifyDeviceGone(t *testing.T) {
	const script = "devices 2; on %[1]d revive standby fails; on %[1]d revive restart fails; on %[1]d revive reopen fails; on %[1]d hang launches times 1"
	loses := func(t *testing.T, o weft.Options, lost int) (*weft.Runtime, func() (int64, *weft.Report, error)) {
		drv := follows(t, fmt.Sprintf(script, lost), map[string]weft.Func{"add": add3})
		o.Drivers, o.HealthInterval = []driver.Driver{drv}, -1
		rt := open(t, o)
		if lost == 0 {
			if err := rt.Drain(t.Context(), "fake:1"); err != nil {
				t.Fatal(err)
			}
		}
		var b graph.Builder
		x := b.Data(graph.Data{Name: "x", Bytes: 64, Input: true, Output: true})
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: graph.GoKernel("add"), Launch: graph.Grid(8)}},
			Uses:  []graph.Use{{Data: x, Access: graph.ReadWrite}}, On: graph.Constraint{Hint: "fake:0"},
		})
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		y := make([]int64, 8)
		h := rt.Submit(g, nil, weft.Bind("x", y))
		poll.True(t, "a task on the device", func() bool { return rt.Metrics().Devices[lost].Queued > 0 })
		if err := drv.Play(fmt.Sprintf("on %d lose", lost)); err != nil {
			t.Fatal(err)
		}
		poll.True(t, "a device that is given up", func() bool { return rt.Devices()[lost].State == "broken" })
		return rt, func() (int64, *weft.Report, error) {
			rep, err := h.Wait()
			return y[0], rep, err
		}
	}
	for _, verify := range []int{0, 1} {
		rt, wait := loses(t, weft.Options{Verify: verify}, 0)
		if err := rt.Undrain("fake:1"); err != nil {
			t.Fatal(err)
		}
		if x, rep, err := wait(); err != nil || x != 3 || rep.Unverified != verify {
			t.Errorf("verify %d: after a drained device is back x is %d, the report %+v, %v", verify, x, rep, err)
		}
	}
	_, wait := loses(t, weft.Options{Verify: 1}, 1)
	if x, rep, err := wait(); err != nil || x != 3 || rep.Unverified != 1 || len(rep.VerifyErrors) > 0 {
		t.Errorf("without another device x is %d, the report %+v, %v", x, rep, err)
	}
}

// priorities notes the priorities of the tasks that it has placed.
type priorities struct {
	sched.Policy
	seen chan int
}

func (p priorities) Place(v *sched.Situation, out []sched.Placement) []sched.Placement {
	for i := range v.Tasks {
		p.seen <- v.Tasks[i].Priority
	}
	return p.Policy.Place(v, out)
}

// What the options of a run say of its tasks holds for each execution of one that is verified.
func TestVerifyRunOptions(t *testing.T) {
	boom := errors.New("boom")
	var calls atomic.Int64
	drv := follows(t, "devices 2; hang kernel slow", map[string]weft.Func{"slow": countUp, "add": func(c *weft.Call, lo, hi int) {
		if calls.Add(1) > 1 {
			c.Fail(boom)
		}
		add3(c, lo, hi)
	}})
	seen := make(chan int, 1000)
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1, PlaceBy: func(p sched.Problem) sched.Policy {
		roundrobin, err := sched.New("roundrobin")
		if err != nil {
			t.Fatal(err)
		}
		return priorities{roundrobin(p), seen}
	}})
	slow := row(t, "", "slow")
	x := make([]int64, 8)
	with := func(g *graph.Graph, o weft.RunOptions) (*weft.Report, error) {
		p, err := rt.Prepare(g, weft.Bind("x", x[:g.Data(0).Bytes/8]))
		if err == nil {
			p, err = p.With(o)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		return p.Run(ctx)
	}
	rep, err := with(tripled(t, 1), weft.RunOptions{Retries: 1, Priority: 7})
	if err != nil || rep.Unverified != 1 || calls.Load() != 3 { // one execution, then one that is tried twice
		t.Errorf("after %d calls the report is %+v, %v", calls.Load(), rep, err)
	}
	for len(seen) > 0 {
		if n := <-seen; n != 7 {
			t.Errorf("a task was placed with priority %d", n)
		}
	}
	_, err = with(slow, weft.RunOptions{Retries: -1, Timeout: 50 * time.Millisecond})
	if !errors.Is(err, weft.ErrTimeout) {
		t.Errorf("the error of a task that hangs is %v", err)
	}
}

// A task whose second execution fails has the result of the first, and counts as not verified;
// another device that can decides.
func TestVerifySecondFails(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name       string
		works      func(call int64) bool
		verified   int
		unverified int
		errs       int
	}{
		{"always", func(n int64) bool { return n == 1 }, 0, 1, 1},
		{"never", func(int64) bool { return true }, 1, 0, 0},
		{"once", func(n int64) bool { return n != 2 }, 1, 0, 0}, // and is tried again
	} {
		var calls atomic.Int64
		drv := follows(t, "devices 3", map[string]weft.Func{"add": func(call *weft.Call, lo, hi int) {
			if lo == 0 && !c.works(calls.Add(1)) {
				call.Fail(boom)
			}
			add3(call, lo, hi)
		}})
		rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1})
		x := make([]int64, 8)
		rep, err := rt.Run(t.Context(), tripled(t, 1), weft.Bind("x", x))
		if err != nil || !all(x, 3) || rep.Verified != c.verified || rep.Unverified != c.unverified || len(rep.Wrong) > 0 {
			t.Errorf("%s: x is %v, the report %+v, %v", c.name, x, rep, err)
			continue
		}
		if len(rep.VerifyErrors) != c.errs || c.errs > 0 && !strings.Contains(rep.VerifyErrors[0], "boom") {
			t.Errorf("%s: errors are %q", c.name, rep.VerifyErrors)
		}
	}
}

// Where two devices differ and the third fails, as does the process, the difference is the error of
// the run.
func TestVerifyReferenceFails(t *testing.T) {
	var calls atomic.Int64
	rt := open(t, weft.Options{Devices: "cpu/2", Verify: 1, Funcs: map[string]weft.Func{"add": func(c *weft.Call, lo, hi int) {
		n := calls.Add(1)
		if n == 3 {
			panic("on purpose")
		}
		c.Args[0][0] = byte(n)
	}}})
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8, Output: true})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: graph.GoKernel("add"), Launch: graph.Grid(1)}},
		Uses:  []graph.Use{{Data: x, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	_, err = rt.Run(t.Context(), g, weft.Bind("x", make([]int64, 1)))
	var w *weft.WrongResult
	if !errors.As(err, &w) || !w.Undecided {
		t.Errorf("the error is %v", err)
	}
}

// Verified tasks that together need more host memory than there is wait for one another.
func TestVerifyHostBytes(t *testing.T) {
	const tasks, size = 40, 64 << 10
	var b graph.Builder
	for range tasks {
		x := b.Data(graph.Data{Bytes: size})
		y := b.Data(graph.Data{Bytes: 8, Output: true})
		step := func(kernel string) []graph.Step {
			return []graph.Step{{Kernel: graph.GoKernel(kernel), Launch: graph.Grid(1)}}
		}
		b.Add(graph.Task{Steps: step("fill"), Uses: []graph.Use{{Data: x, Access: graph.Write}}})
		b.Add(graph.Task{Steps: step("last"), Uses: []graph.Use{{Data: x}, {Data: y, Access: graph.Write}}})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	funcs := map[string]weft.Func{
		"fill": func(c *weft.Call, _, _ int) {
			for i := range c.Args[0] {
				c.Args[0][i] = byte(i)
			}
		},
		"last": func(c *weft.Call, _, _ int) { c.Args[1][0] = c.Args[0][size-1] },
	}
	for _, every := range []int{1, 3} {
		rt := open(t, weft.Options{Drivers: []driver.Driver{follows(t, "devices 3", funcs)}, Verify: every, HostBytes: 2*size + size/2})
		var outs []weft.Binding
		mem := make([][]byte, 2*tasks)
		for d := range graph.DataID(2 * tasks) {
			if g.Data(d).Output {
				mem[d] = make([]byte, 8)
				outs = append(outs, weft.Bind(g.Data(d).Name, mem[d]))
			}
		}
		for range 20 {
			if _, err := rt.Run(t.Context(), g, outs...); err != nil {
				t.Fatalf("verify %d: %v", every, err)
			}
		}
		for d, m := range mem {
			if m != nil && m[0] != 255 {
				t.Errorf("verify %d: the result of %s is %d", every, g.Data(graph.DataID(d)).Name, m[0])
			}
		}
	}
}

// A spare takes the place of a device whose results are wrong.
func TestVerifySpare(t *testing.T) {
	drv := follows(t, "devices 4; on 1 corrupt kernel add", map[string]weft.Func{"add": add3})
	rt := open(t, weft.Options{Drivers: []driver.Driver{drv}, Verify: 1, Policy: "roundrobin", Spares: "fake:3"})
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	x := make([]int64, 8*20)
	for n := int64(1); rt.Metrics().Wrong == 0; n++ {
		if _, err := rt.Run(ctx, tripled(t, 20), weft.Bind("x", x)); err != nil || !all(x, 3*n) {
			t.Fatalf("x is %v, %v", x, err)
		}
	}
	poll.True(t, "a spare in service", func() bool {
		d := rt.Devices()
		return d[1].State == "drained" && d[3].State == "healthy"
	})
	if s := rt.Devices()[machine.DeviceID(2)].State; s != "healthy" {
		t.Errorf("another device is %s", s)
	}
}

// Kernels that run in workers are not executed by the process that checks, even where nothing
// else could decide.
func TestVerifyIsolated(t *testing.T) {
	rt := inWorkers(t, weft.Options{Devices: "cpu/2", Verify: 1, CancelWait: 20 * time.Millisecond})
	goesOn(t, rt)
	x, y := make([]int64, 16), make([]int64, 16)
	_, err := rt.Run(t.Context(), isolatedTask(t, "isolated.pid", 1), weft.Bind("x", x), weft.Bind("y", y))
	var w *weft.WrongResult
	if !errors.As(err, &w) || !w.Undecided || here.Load() != 0 {
		t.Errorf("with %d calls in this process the error is %v", here.Load(), err)
	}
	// A worker that is drained lives until it has finished what is verified.
	alone := *isolatedTask(t, "isolated.nap", 1).Task(0)
	var b graph.Builder
	b.Data(graph.Data{Name: "x", Bytes: 128, Input: true})
	b.Data(graph.Data{Name: "y", Bytes: 128, Output: true})
	alone.On.Only = []string{"cpu:0"}
	b.Add(alone)
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	h := rt.Submit(g, nil, weft.Bind("x", x), weft.Bind("y", y))
	poll.True(t, "a task on the device", func() bool { return rt.Metrics().Devices[0].Queued > 0 })
	if err := rt.Drain(t.Context(), "cpu:0"); err != nil {
		t.Error(err)
	}
	if _, err := h.Wait(); err != nil {
		t.Error(err)
	}
	if n := rt.Metrics().Losses; n != 0 {
		t.Errorf("%d workers were ended", n)
	}
}
