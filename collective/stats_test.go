package collective_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/collective"
)

// Times and sizes are kept by operation, over the calls that succeeded.
func TestStats(t *testing.T) {
	ctx, rt := open(t, weft.Options{Devices: "cpu/2"})
	g := group(t, rt, collective.Options{})
	if got := g.Stats(); len(got) != 0 {
		t.Errorf("before any call: %+v", got)
	}
	var wall time.Duration
	reduce := func(ctx context.Context, n int) error {
		in, out := [][]float64{make([]float64, n), make([]float64, n)}, [][]float64{make([]float64, n), make([]float64, n)}
		began := time.Now()
		_, err := collective.AllReduce(ctx, g, collective.Sum, in, out)
		if err == nil {
			wall += time.Since(began)
		}
		return err
	}
	for _, n := range []int{300, 7, 90} {
		if err := reduce(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := reduce(ended, 1000); err == nil {
		t.Error("a call with a context that has ended succeeded")
	}
	if _, err := collective.AllReduce(ctx, g, collective.Sum, [][]float64{{1}, {2}}, [][]float64{{0}, nil}); err == nil {
		t.Error("slices that do not fit were taken")
	}
	for range 2 {
		if _, err := collective.Barrier(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	got := g.Stats()
	if len(got) != 2 || got[0].Op != collective.OpAllReduce || got[1].Op != collective.OpBarrier {
		t.Fatalf("%+v, want allreduce and barrier", got)
	}
	a, b := got[0], got[1]
	if a.Calls != 3 || a.Failed != 1 || a.Bytes != 8*397 || a.LeastBytes != 8*7 || a.MostBytes != 8*300 {
		t.Errorf("allreduce: %+v", a)
	}
	if a.LeastTook <= 0 || a.MostTook < a.LeastTook || a.Took < a.LeastTook+a.MostTook || a.Took > wall {
		t.Errorf("allreduce in %v: %+v", wall, a)
	}
	if b.Calls != 2 || b.Failed != 0 || b.Bytes != 0 || b.Took <= 0 {
		t.Errorf("barrier: %+v", b)
	}
}

// What the collective operations of a group moved.
func ExampleGroup_Stats() {
	ctx := context.Background()
	rt, err := weft.Open(ctx, weft.Options{Devices: "cpu/2", Funcs: collective.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	g, err := collective.New(rt, collective.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range []int{100, 300} {
		src := make([]float32, n)
		if _, err := collective.Broadcast(ctx, g, 0, src, [][]float32{nil, make([]float32, n)}); err != nil {
			log.Fatal(err)
		}
	}
	for _, s := range g.Stats() {
		fmt.Println(s.Op, s.Calls, "times, of", s.LeastBytes, "to", s.MostBytes, "bytes, took time:", s.Took > 0)
	}
	// Output: broadcast 2 times, of 400 to 1200 bytes, took time: true
}
