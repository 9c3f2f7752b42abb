package exec

import (
	"context"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/test/poll"
)

// Callers that wait for the same data at the same time are all answered, and nothing of
// them is kept.
func TestFetchTogether(t *testing.T) {
	x := open(t, Config{Drivers: []driver.Driver{faked(t, "devices 1", incs)}})
	ref, err := x.Put("x", make([]byte, 8), graph.Versioned)
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	x.do(func(*loop) { <-gate })
	const callers = 3
	read, answers := make(chan struct{}, callers), make(chan error, callers)
	for range callers {
		go func() {
			answers <- x.Fetch(context.Background(), ref, func() error { return nil }, func() { read <- struct{}{} })
		}()
	}
	poll.True(t, "all callers ask", func() bool { return len(x.calls) == callers })
	close(gate)
	for range callers {
		select {
		case err := <-answers:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a caller is not answered")
		}
	}
	if len(read) != callers {
		t.Errorf("%d of %d read", len(read), callers)
	}
	left := make(chan int, 1)
	x.do(func(l *loop) { left <- len(l.fetches) })
	if n := <-left; n != 0 {
		t.Errorf("%d lists of callers are kept", n)
	}
	x.Release(ref)
}
