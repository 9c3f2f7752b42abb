package proc

import (
	"log/slog"
	"os/exec"
	"testing"
	"time"
)

// A child that cannot be reaped, as one that hangs in the kernel, is not waited for
// without end. This one is never waited for.
func TestFinishBounded(t *testing.T) {
	t.Parallel() // most of it is waiting
	c := &child{role: asWorker, log: slog.New(slog.DiscardHandler), calls: map[int]chan reply{}, exited: make(chan struct{}), doom: make(chan struct{})}
	conn, end, err := newPair()
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	c.conn = conn
	c.cmd = exec.Command("sleep", "1000")
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan bool, 1)
	go func() { gone <- c.finish() }()
	select {
	case g := <-gone:
		if g {
			t.Error("it is said to be gone")
		}
	case <-time.After(2 * time.Minute):
		t.Error("it is waited for without end")
	}
	if err := c.cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
}
