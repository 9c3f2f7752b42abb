//go:build linux

package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/workload"
	"github.com/weft-run/weft/workload/reduce"
)

// wrongVar has workers compute something else.
const wrongVar = "WEFT_TEST_WRONG"

func TestMain(m *testing.M) {
	proc.Main(Makers(funcs))
	os.Exit(m.Run())
}

func funcs() map[string]driver.Func {
	out := reduce.Funcs()
	out["bump"] = bump
	if os.Getenv(wrongVar) != "" {
		for name, fn := range out {
			out[name] = func(c *driver.Call, lo, hi int) {
				fn(c, lo, hi)
				last := c.Args[len(c.Args)-1]
				last[len(last)-1] ^= 0x10
			}
		}
	}
	return out
}

func sums(context.Context) (workload.Job, error) {
	return reduce.New(reduce.Config{Op: "sum", N: 1 << 18, Seed: 3})
}

func TestTrial(t *testing.T) {
	for _, devices := range []string{"cpu/2", "fake/3"} {
		told := 0
		trial := &Trial{Job: sums, Options: weft.Options{Devices: devices, HangTimeout: time.Second}, For: 3 * time.Second, Seed: 5, Faults: Faults(), Told: func(*Account) { told++ }}
		a, err := trial.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if a.Wrong > 0 || a.Left > 0 || a.Right == 0 || a.Right+a.Errors != a.Rounds || told != a.Rounds || a.Bouts == 0 {
			t.Errorf("%s: %+v, told %d times", devices, *a, told)
		}
		if n := len(proc.Pids("")); n > 0 {
			t.Errorf("%s: %d processes are left", devices, n)
		}
	}
}

// A wrong result is held against weft unless it says that it could not check a device which lies.
func TestJudge(t *testing.T) {
	failed, wrong := errors.New("a task failed"), errors.New("the sum is 3")
	for _, c := range []struct {
		name       string
		unverified int
		err, wrong error
		lies       bool
		want       Account
	}{
		{"right", 0, nil, nil, true, Account{Right: 1}},
		{"right by luck", 2, nil, nil, true, Account{Right: 1}},
		{"failed", 0, failed, nil, false, Account{Errors: 1, FirstError: "round 1: a task failed"}},
		{"wrong", 0, nil, wrong, true, Account{Wrong: 1, FirstWrong: "round 1: the sum is 3"}},
		{"wrong, and nobody lies", 2, nil, wrong, false, Account{Wrong: 1, FirstWrong: "round 1: the sum is 3"}},
		{"wrong as it may be", 2, nil, wrong, true, Account{Errors: 1, FirstError: "round 1: 2 tasks were not verified, and a device has wrong results: the sum is 3"}},
	} {
		var a Account
		a.judge(&weft.Report{Unverified: c.unverified}, c.err, c.wrong, c.lies)
		if c.want.Rounds = 1; !reflect.DeepEqual(a, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, a, c.want)
		}
	}
	var a Account
	a.judge(nil, nil, wrong, true)
	if a.Wrong != 1 {
		t.Errorf("without a report: %+v", a)
	}
}

// A round that does not end in its time ends the trial, and leaves nothing.
func TestStuck(t *testing.T) {
	trial := &Trial{Job: sums, Options: weft.Options{Devices: "cpu/2", HangTimeout: time.Minute}, For: time.Minute, Seed: 1, Stuck: time.Nanosecond}
	a, err := trial.Run(t.Context())
	if !errors.Is(err, ErrStuck) || a.Rounds != 0 {
		t.Errorf("%v, %+v", err, *a)
	}
	if n := Usage().Processes; n > 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestWrongIsFound(t *testing.T) {
	t.Setenv(wrongVar, "1")
	trial := &Trial{Job: sums, Options: weft.Options{Devices: "cpu/2", HangTimeout: time.Minute}, For: time.Second, Seed: 1, Faults: []string{"kill"}}
	a, err := trial.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a.Right > 0 || a.Wrong == 0 || a.FirstWrong == "" {
		t.Errorf("every result is wrong: %+v", *a)
	}
}

// Memory that a worker uses stays when Close does not wait for the worker.
func TestCloseLate(t *testing.T) {
	rig, err := Open(t.Context(), weft.Options{Devices: "cpu", CloseWait: -1}, Workers{})
	if err != nil {
		t.Fatal(err)
	}
	mem, err := rig.memory.Get(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range proc.Pids("worker") { // it takes seconds to be given up on
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if err := rig.Close(); !errors.Is(err, weft.ErrTimeout) {
		t.Errorf("closing without waiting: %v", err)
	}
	there := unix.Madvise(mem, unix.MADV_NORMAL)
	select {
	case <-rig.Done():
		t.Log("it closed so fast that nothing is seen") // on a machine that stood still meanwhile
	default:
		if there != nil {
			t.Errorf("the memory is gone while a worker uses it: %v", there)
		}
	}
	<-rig.Done()
}

// A strike costs a device, but for one that only slows it, and the device comes back.
func TestStrikes(t *testing.T) {
	rig, err := Open(t.Context(), weft.Options{Devices: "cpu", HangTimeout: 3 * time.Second}, Workers{}) // a busy machine keeps a worker from running for a second
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rig.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events := make(chan weft.Event, 64)
	all := rig.Events(ctx, weft.EventDevice)
	go func() {
		for e := range all {
			events <- e
		}
	}()
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, s := range []Strike{Slow, Kill, Stop, Corrupt} {
		began, err := Any(rnd, s)
		if err != nil || began.IsZero() {
			t.Fatalf("%v: %v", s, err)
		}
		if s == Slow {
			select {
			case e := <-events:
				t.Errorf("%v: %v", s, e)
			default:
			}
			continue
		}
		for _, want := range []string{"lost", "suspect", "healthy"} {
			select {
			case e := <-events:
				if e.To != want {
					t.Fatalf("%v: %v, want %s", s, e, want)
				}
			case <-ctx.Done():
				t.Fatalf("%v: the device is not %s", s, want)
			}
		}
	}
}

// A process that was killed is dying until it is gone, and one that is stopped is not.
func TestDying(t *testing.T) {
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Wait() }() // it was killed
	for _, sig := range []syscall.Signal{0, syscall.SIGSTOP, syscall.SIGCONT} {
		if err := c.Process.Signal(sig); err != nil || dying(c.Process.Pid) {
			t.Errorf("after signal %d it is taken for dying, %v", sig, err)
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// No one has waited for it: it is a zombie at the latest.
	poll.True(t, "it was killed and is dying", func() bool { return dying(c.Process.Pid) })
	if !dying(1 << 30) {
		t.Error("a process that is not there is not dying")
	}
}

// An operation that is to fail does so once: a device that was lost after it comes back at once,
// although the operation would be the launch of its probe.
func TestFailsOnce(t *testing.T) {
	script, again := (&plan{fails: []int{2}}).script()
	rig, err := Open(t.Context(), weft.Options{Devices: "fake", HangTimeout: time.Minute}, Workers{Script: script, Again: again})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rig.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	events := rig.Events(ctx, weft.EventDevice)
	if _, err := Any(rand.New(rand.NewPCG(1, 2)), Kill); err != nil {
		t.Fatal(err)
	}
	var states []string
	for e := range events {
		if states = append(states, e.To); e.To == "healthy" || e.To == "broken" {
			break
		}
	}
	if want := []string{"lost", "suspect", "healthy"}; !slices.Equal(states, want) {
		t.Errorf("the device was %v, want %v", states, want)
	}
}

func TestOpenRefuses(t *testing.T) {
	for devices, want := range map[string]string{"": "none are named", "rocm": "no backend \"rocm\"", "cpu/2,cpu/3": "two ways", "gpu": "there is cpu, cuda, vulkan, fake", "cpu:5": "how many", "cpu/0": "cpu/0"} {
		rig, err := Open(t.Context(), weft.Options{Devices: devices}, Workers{})
		if err == nil {
			_ = rig.Close()
		}
		if !errors.Is(err, ErrDevices) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", devices, err, want)
		}
	}
}

func TestMore(t *testing.T) {
	before := Use{RSS: 1, Goroutines: 5, Descriptors: 7, Processes: 0}
	for u, want := range map[Use]bool{
		before:                               false,
		{1 << 30, 1 << 30, 1 << 30, 5, 7, 0}: false,
		{1, 0, 0, 4, 6, 0}:                   false,
		{1, 0, 0, 6, 7, 0}:                   true,
		{1, 0, 0, 5, 8, 0}:                   true,
		{1, 0, 0, 5, 7, 1}:                   true,
		{RSS: 1, Goroutines: 1 << 10}:        true,
		{RSS: 0, Descriptors: 7}:             false,
		{Goroutines: 5, Descriptors: 70}:     true,
	} {
		if got := u.more(before); (got != "") != want {
			t.Errorf("%+v: %q", u, got)
		}
	}
}

func TestFootprint(t *testing.T) {
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 1000, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 500, Output: true})
	k := graph.GoKernel("k")
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: x, Offset: 100, Access: graph.Read}, {Data: y, Bytes: 200, Access: graph.Write}}})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Workspace: 50, Uses: []graph.Use{{Data: y, Offset: 200, Bytes: 300, Access: graph.Write}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := footprintOf(g), (footprint{all: 1500, task: 1100}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
