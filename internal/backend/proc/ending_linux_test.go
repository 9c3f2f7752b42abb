package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/test/poll"
)

// attached opens a scripted device in a worker. inProcess is what it says of itself.
func attached(t *testing.T, inProcess bool) *device {
	t.Helper()
	mem, err := arena.Open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	devs, err := New(Options{Workers: Workers{Memory: mem}, Driver: "fake"}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := devs[0].(*device)
	d.origin.found.InProcess = inProcess
	lanes := make([]driver.Lane, max(d.info.Lanes, 1)+2+ownLanes)
	for i := range lanes {
		lanes[i] = driver.Lane(i)
	}
	b, err := mem.Board(len(lanes))
	if err != nil {
		t.Fatal(err)
	}
	d.Attach(b, lanes, func() {})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// loss waits until a device says that it is lost.
func loss(t *testing.T, d *device) error {
	t.Helper()
	got := make([]driver.Completion, 8)
	var err error
	poll.True(t, "the device is lost", func() bool {
		for _, c := range got[:d.Completions(got)] {
			if c.Lane == driver.NoLane {
				err = c.Err
				return true
			}
		}
		return false
	})
	return err
}

// hold keeps the parent from seeing the end of a device's worker until release is called. The
// parent's own limit on that wait is lifted.
func hold(d *device) (w *child, release func()) {
	w = d.serving.Load()
	w.readers.Add(1)
	d.mu.Lock()
	w.reap = time.Hour
	d.mu.Unlock()
	return w, w.readers.Done
}

// A killed worker is known to be lost from the end of its threads, before the end of the process is
// told. Where the system has no barrier it is after that.
func TestLossBeforeTheEnd(t *testing.T) {
	if err := membarrier(barrierRegister); err != nil {
		t.Logf("there is no barrier: %v", err)
		lossAfterTheEnd(t, true)
		return
	}
	d := attached(t, true)
	w, release := hold(d)
	want := fmt.Sprintf("worker process %d: signal: killed", w.pid())
	if err := syscall.Kill(w.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.lost:
	case <-time.After(time.Minute):
		t.Error("it was not known to be lost before its end")
	}
	release()
	if err := loss(t, d); !errors.Is(err, driver.ErrDeviceLost) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// What a device does that is not its process' threads goes on after these have ended.
func TestLossAfterTheEnd(t *testing.T) { lossAfterTheEnd(t, false) }

func lossAfterTheEnd(t *testing.T, inProcess bool) {
	t.Helper()
	d := attached(t, inProcess)
	w, release := hold(d)
	if err := syscall.Kill(w.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-w.reaped
	w.completions.h.awake.Store(0) // as the kernel does, if the worker was ready for it
	d.watch(w, make(chan struct{}))
	select {
	case <-w.lost:
		t.Error("it was lost before its end was known")
	default:
	}
	release()
	if err := loss(t, d); !errors.Is(err, driver.ErrDeviceLost) || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("the device says %v", err)
	}
}

// A worker that crashed and is not gone in time is said to have crashed: the kernel may take long to
// take its memory apart.
func TestSlowCrash(t *testing.T) {
	d := attached(t, false)
	w, release := hold(d)
	defer release()
	if err := syscall.Kill(w.pid(), syscall.SIGQUIT); err != nil { // the Go runtime ends with status 2
		t.Fatal(err)
	}
	<-w.reaped
	d.lose(w, w.ending()) // as after that time
	if err := loss(t, d); errors.Is(err, errHung) || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("the device says %v", err)
	}
	if e := w.ending(); e.over || !w.fell(e) {
		t.Errorf("it ended as %+v", e)
	}
}

// What ran in a worker that crashed runs alone next time, whether the worker is gone or not. That
// is not so for one that was killed.
func TestVerdict(t *testing.T) {
	crashed, killed := syscall.WaitStatus(2<<8), syscall.WaitStatus(syscall.SIGKILL)
	for _, c := range []struct {
		e       ending
		suspect bool
		text    string
	}{
		{ending{known: true, status: crashed}, true, "exit status 2"},
		{ending{over: true, known: true, status: crashed}, true, "exit status 2"},
		{ending{known: true, status: syscall.WaitStatus(syscall.SIGSEGV)}, true, "signal: segmentation fault"},
		{ending{known: true, status: killed}, false, "signal: killed"},
		{ending{over: true, known: true, status: killed}, false, "signal: killed"},
		{ending{over: true, known: true}, true, "exit status 0"},
		{ending{over: true}, false, "ended in an unknown way"},
		{ending{}, false, errHung.Error()},
	} {
		d := &device{origin: &origin{}, suspects: make(map[*graph.Task]bool)}
		d.origin.found.Info.HostMemory = true
		for range 2 {
			d.lanes = append(d.lanes, &lane{kind: computes, fly: []flight{{kind: driver.Launch, task: &graph.Task{}}}})
		}
		w := &child{cmd: &exec.Cmd{Process: &os.Process{Pid: 7}}}
		err := d.verdict(w, c.e)
		if !errors.Is(err, driver.ErrDeviceLost) || !strings.Contains(err.Error(), c.text) || (len(d.suspects) == 2) != c.suspect {
			t.Errorf("%+v: %d suspects: %v", c.e, len(d.suspects), err)
		}
	}
}

// A worker that says wrongly that it ends is ended.
func TestFalseEnd(t *testing.T) {
	d := attached(t, true)
	w := d.serving.Load()
	w.completions.h.awake.Store(0)
	if err := loss(t, d); !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("the device says %v", err)
	}
	<-w.exited
}

// The status of a process is known before it is waited for.
func TestStatusOf(t *testing.T) {
	if status, there := statusOf(os.Getpid()); status != 0 || !there {
		t.Errorf("of this process: %v %v", status, there)
	}
	if _, there := statusOf(1 << 30); there {
		t.Error("a process that is none is there")
	}
	for script, want := range map[string]syscall.WaitStatus{"exit 3": 3 << 8, "kill -9 $$": 9, "kill -11 $$": 11} {
		cmd := exec.Command("/bin/sh", "-c", script)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var got syscall.WaitStatus
		poll.True(t, "the process has ended", func() bool {
			got, _ = statusOf(cmd.Process.Pid)
			return got != 0
		})
		_ = cmd.Wait()         // it fails as the script says
		if got&^0x80 != want { // the bit says that there is a core file
			t.Errorf("%s: %#x, want %#x", script, got, want)
		}
	}
}

// How a worker ended that was reaped, while others still read what it said, is known.
func TestEndingOnceReaped(t *testing.T) {
	d := attached(t, true)
	w, release := hold(d)
	defer release()
	if e := w.ending(); e.known || e.over {
		t.Errorf("a worker that lives: %+v", e)
	}
	if err := syscall.Kill(w.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-w.reaped
	if e := w.ending(); !e.killed() || e.over {
		t.Errorf("one that was killed: %+v", e)
	}
}
