package weft

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/test/poll"
)

// TestGetIsWhole: Get beside a run that writes returns one version, never parts
// of two.
func TestGetIsWhole(t *testing.T) {
	const n, parts, rounds = 1 << 14, 4, 60
	rt, err := Open(context.Background(), Options{Devices: "cpu/2", NoCalibrate: true, Funcs: map[string]Func{"inc": func(c *Call, lo, hi int) {
		for x := View[int64](c.Args[0]); lo < hi; lo++ {
			x[lo]++
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	d, err := Alloc[int64](rt, "x", n)
	if err != nil {
		t.Fatal(err)
	}
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 * n, Input: true, Output: true})
	k := &graph.Kernel{Name: "inc", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "inc"}}}
	for p := range int64(parts) {
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: k, Launch: graph.Launch{Grid: [3]uint32{n / parts}}}},
			Uses:  []graph.Use{{Data: x, Offset: p * 8 * n / parts, Bytes: 8 * n / parts, Access: graph.ReadWrite}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for range rounds {
			if _, err := rt.Run(context.Background(), g, d.As("x")); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for ended := false; !ended; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			ended = true
		default:
		}
		got, err := d.Get(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if v != got[0] {
				t.Fatalf("element %d is of version %d, element 0 of %d", i, v, got[0])
			}
		}
	}
}

// TestTimeoutIsNamed: when timeouts use every device up, the error says so, and
// the devices work again once the calls have returned.
func TestTimeoutIsNamed(t *testing.T) {
	hold := make(chan struct{})
	rt, err := Open(context.Background(), Options{Devices: "cpu", NoCalibrate: true, Retries: -1, TaskTimeout: 2 * time.Second,
		Funcs: map[string]Func{"hang": func(*Call, int, int) {
			<-hold
		}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8})
	b.Add(graph.Task{
		Steps: []graph.Step{{Kernel: &graph.Kernel{Name: "hang", Impls: []graph.Impl{{Dialect: graph.Go, Entry: "hang"}}}}},
		Uses:  []graph.Use{{Data: x, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Run(context.Background(), g); !errors.Is(err, ErrTimeout) {
		t.Fatalf("the run ended with %v", err)
	}
	close(hold)
	poll.True(t, "the device is healthy", func() bool { return rt.Devices()[0].State == "healthy" })
	// A busy machine may keep a call for longer than its timeout.
	for end := time.Now().Add(2 * time.Minute); ; {
		_, err := rt.Run(context.Background(), g)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrTimeout) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
