package proc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/arena"
)

// attached opens a scripted device in a worker. inProcess is what it says of itself.
func attached(t *testing.T, inProcess bool) *device {
	t.Helper()
	mem, err := arena.Open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	devs, err := New(Options{Driver: "fake", Memory: mem}).Open(context.Background(), nil)
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
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(time.Millisecond) {
		for _, c := range got[:d.Completions(got)] {
			if c.Lane == driver.NoLane {
				return c.Err
			}
		}
	}
	t.Fatal("the device was never lost")
	return nil
}

// killHeld kills a device's worker, whose end is kept from the parent's reader, and returns what
// the device says, and whether the end had not been told by then.
func killHeld(t *testing.T, d *device) (err error, early bool) {
	t.Helper()
	w := d.serving.Load()
	w.readers.Add(1)
	defer w.readers.Done()
	if err := syscall.Kill(w.pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err = loss(t, d)
	if !w.alive() || !errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("the device says %v", err)
	}
	return err, !errors.Is(err, errHung)
}

// A killed worker is known to be lost from the end of its threads, before the process is gone and
// without waiting for that.
func TestLossBeforeTheEnd(t *testing.T) {
	// A worker is ready for it after a moment, and on a busy machine the process may be gone first.
	for wait := 50 * time.Millisecond; wait < 10*time.Second; wait *= 2 {
		d := attached(t, true)
		time.Sleep(wait)
		want := fmt.Sprintf("worker process %d: signal: killed", d.serving.Load().pid())
		if err, early := killHeld(t, d); early {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			return
		}
	}
	t.Error("no worker was known to be lost before its end")
}

// What a device does that is not its process' threads goes on after these have ended.
func TestLossAfterTheEnd(t *testing.T) {
	d := attached(t, false)
	if err, early := killHeld(t, d); early {
		t.Errorf("it was lost before its end was known: %v", err)
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

func TestKilled(t *testing.T) {
	d := attached(t, true)
	w := d.serving.Load()
	if killed(w.pid()) || killed(1<<30) {
		t.Error("a process that lives, or is none, was killed")
	}
}
