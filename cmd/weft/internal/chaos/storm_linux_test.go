package chaos

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

var (
	storms    = flag.Int("storms", 2, "number of runtimes that TestStorm opens")
	stormSeed = flag.Uint64("storm-seed", 1, "seed of the random numbers of TestStorm")
)

const (
	stormPieces = 4 // of resident data, one task each
	stormWords  = 64
	stormDeeds  = 12 // strikes and requests about devices, for each runtime
)

// bump adds one to each word of its first argument and writes the sum to the second as well.
func bump(c *driver.Call, _, _ int) {
	w, y := weft.View[int64](c.Args[0]), weft.View[int64](c.Args[1])
	for i := range w {
		w[i]++
		y[i] = w[i]
	}
}

func bumps(t *testing.T) *graph.Graph {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 8 * stormWords * stormPieces, Input: true})
	y := b.Data(graph.Data{Name: "y", Bytes: 8 * stormWords * stormPieces, Output: true})
	for i := range int64(stormPieces) {
		at := i * 8 * stormWords
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: graph.GoKernel("bump"), Launch: graph.Grid(1)}},
			Uses:  []graph.Use{{Data: x, Offset: at, Bytes: 8 * stormWords, Access: graph.ReadWrite}, {Data: y, Offset: at, Bytes: 8 * stormWords, Access: graph.Write}},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Workers are killed and stopped, two at once too, while results are verified, devices drained,
// swapped, put back and recovered, and standbys take over; in the end devices are closed while they
// are being brought back. No update of resident data is lost or made twice, nothing hangs, and
// nothing is left.
func TestStorm(t *testing.T) {
	for n := range uint64(*storms) {
		rnd := rand.New(rand.NewPCG(*stormSeed, n))
		o := weft.Options{Devices: []string{"cpu/3", "fake/3"}[n%2], Standby: rnd.IntN(2) == 0, Verify: rnd.IntN(3), Retries: manyRetries, MaxLosses: 1000, HangTimeout: 2 * time.Second, CloseWait: leftWait}
		if rnd.IntN(2) == 0 {
			o.Spares = []string{"cpu:2", "fake:2"}[n%2]
		}
		storm(t, rnd, o)
		if t.Failed() {
			t.Fatalf("seed %d, runtime %d: %+v", *stormSeed, n, o)
		}
	}
}

func storm(t *testing.T, rnd *rand.Rand, o weft.Options) {
	t.Helper()
	rig, err := Open(t.Context(), o, Workers{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	w, err := weft.Alloc[int64](rig.Runtime, "w", stormWords*stormPieces)
	if err != nil {
		t.Fatal(err)
	}
	bump, err := rig.Prepare(bumps(t), w.As("x"))
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var runs sync.WaitGroup
	rounds := 0
	runs.Go(func() {
		y := make([]int64, stormWords*stormPieces)
		for !over.Load() {
			if _, err := bump.Run(ctx, weft.Bind("y", y)); err != nil {
				t.Errorf("run %d: %v", rounds, err)
				return
			}
			rounds++
			for i, v := range y {
				if v != int64(rounds) {
					t.Errorf("after %d runs element %d is %d", rounds, i, v)
					return
				}
			}
		}
	})
	var asked sync.WaitGroup
	for range stormDeeds {
		deed(ctx, rnd, rig, &asked)
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond) // so that the next finds runs and recoveries at any point
	}
	for _, d := range rig.Devices() {
		_ = rig.Undrain(d.Name) // it may be lost
	}
	over.Store(true)
	runs.Wait()
	if got, err := w.Get(ctx); err == nil && (got[0] != int64(rounds) || got[len(got)-1] != int64(rounds)) {
		t.Errorf("after %d runs the resident data is %d and %d", rounds, got[0], got[len(got)-1])
	} else if err != nil {
		t.Errorf("after %d runs: %v", rounds, err)
	}
	_, _ = Any(rnd, Kill)                                      // so that the device is being brought back when it is closed
	time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond) // a worker takes about that long to start
	if err := rig.Close(); err != nil {
		t.Errorf("after %d runs: %v", rounds, err)
	}
	t.Logf("%d runs, %d losses", rounds, rig.Metrics().Losses)
	asked.Wait() // what was asked about devices ends with them
	if ctx.Err() != nil {
		t.Errorf("it took too long: %v", context.Cause(ctx))
	}
}

// deed does something to a device, which may fail.
func deed(ctx context.Context, rnd *rand.Rand, rig *Rig, asked *sync.WaitGroup) {
	all := rig.Devices()
	i := rnd.IntN(len(all))
	from, to := all[i].Name, all[(i+1+rnd.IntN(len(all)-1))%len(all)].Name
	switch k := rnd.IntN(10); k {
	case 0, 1:
		_, _ = Any(rnd, Kill)
	case 2:
		_, _ = Any(rnd, Kill)
		_, _ = Any(rnd, Kill)
	case 3: // one after another: that which takes over, or is probed, is among them
		for range 6 {
			_, _ = Any(rnd, Kill)
			time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond) // less than a worker takes to start
		}
	case 4:
		_, _ = Any(rnd, Stop)
	case 5, 6:
		asked.Go(func() { _ = rig.Swap(ctx, from, to) })
	case 7:
		asked.Go(func() { _ = rig.Drain(ctx, from) })
	case 8:
		_ = rig.Undrain(from)
	case 9:
		asked.Go(func() { _ = rig.Recover(ctx, from) })
	}
}
