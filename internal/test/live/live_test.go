// Package live has a random driver of the runtime as programs use it: through the public face,
// on cores, on worker processes and on scripted devices that fail copies and launches, are lost
// and come back. From a seed it draws the options, all of them together, the devices, what happens
// to them, and graphs over slices that overlap; several callers run these at once, in every way that
// there is. Every run that ends well must have the bytes of its tasks one after another
// (interpret in program_test.go), every error must have a reason that was drawn, and nothing may be left.
//
// The simulators (package sim, internal/test/bytevm) cannot see what belongs to the live loop:
// its goroutines, what it does between two steps of the engine, and the root package above it. What a
// seed draws here is the same each time; when things happen is not. A failing seed may pass
// the next time, hence -again.
//
// Files: program_test.go (graphs and their meaning), rig_test.go (options, devices, trouble) and
// runs_test.go (callers and verdicts).
package live

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/test/poll"
	"go.uber.org/goleak"
)

var (
	firstFlag  = flag.Uint64("first", 1, "the first seed TestLive runs")
	seedsFlag  = flag.Uint64("seeds", 12, "how many seeds TestLive runs")
	againFlag  = flag.Uint64("again", 1, "how often it runs each")
	verifyFlag = flag.Int("verify", -1, "Options.Verify of all runs, drawn if it is negative")
	// A seed takes a second, and two minutes with the race detector on a busy machine.
	limitFlag = flag.Duration("limit", 8*time.Minute, "the time after which a seed is taken to hang")
	drawnFlag = flag.Bool("drawn", false, "print what each seed draws")
)

func TestMain(m *testing.M) {
	weft.Worker((&kernels{worker: true}).funcs())
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
}

// Random graphs, run by several callers at once with all options drawn together while devices
// fail, are lost and come back, give the bytes of their tasks one after another.
func TestLive(t *testing.T) {
	seeds := *seedsFlag
	if testing.Short() {
		seeds = min(seeds, 4)
	}
	var sum counts
	var next, bad atomic.Uint64
	var several sync.WaitGroup
	for range 4 { // most of the time a trial waits
		several.Go(func() {
			for n := next.Add(1) - 1; n < seeds**againFlag && bad.Load() < 5; n = next.Add(1) - 1 {
				seed := *firstFlag + n / *againFlag
				if wrong := attempt(t.Context(), seed, &sum); wrong != "" {
					t.Errorf("seed %d (go test ./internal/test/live -run '^TestLive$' -seeds 1 -first %d -again 50), after %d right runs of all:\n%s", seed, seed, sum.right(), wrong)
					bad.Add(1)
				}
			}
		})
	}
	several.Wait()
	t.Log(sum.String())
	if sum.Right == 0 && seeds > 1 {
		t.Error("no run ended well")
	}
}

// attempt runs a seed and returns what was wrong.
func attempt(ctx context.Context, seed uint64, sum *counts) string {
	r := rand.New(rand.NewPCG(seed, 1))
	t := &trial{rig: drawRig(r), ctx: ctx, sum: sum}
	if *drawnFlag {
		fmt.Println("seed", seed, t.rig)
	}
	began := time.Now()
	watch := time.AfterFunc(*limitFlag, func() { t.hung(seed) })
	defer watch.Stop()
	t.all(r)
	if *drawnFlag {
		fmt.Println("seed", seed, "took", time.Since(began))
	}
	if len(t.bad) == 0 {
		return ""
	}
	out := t.rig.String()
	for _, b := range t.bad {
		out += "\n  " + b
	}
	return out + "\nlog:\n" + t.log.String()
}

// all opens the runtime, has people use it amid trouble, and looks at what is left.
func (t *trial) all(r *rand.Rand) {
	if err := t.open(t.ctx); err != nil {
		t.fail("open: %v", err)
		return
	}
	for i := range 3 * r.IntN(2) {
		mem := make([]byte, 1+r.IntN(t.maxBytes))
		for k := range mem {
			mem[k] = byte(r.Uint32())
		}
		d, err := weft.Put(t.Runtime, fmt.Sprint("resident", i), mem)
		if err != nil {
			t.fail("put: %v", err)
			break
		}
		t.shared = append(t.shared, &resident{d, mem})
	}
	over := make(chan struct{})
	var people, beside sync.WaitGroup
	for range 1 + r.IntN(6) {
		r := rand.New(rand.NewPCG(r.Uint64(), 2))
		people.Go(func() { t.person(r) })
	}
	troubled := rand.New(rand.NewPCG(r.Uint64(), 3))
	if !t.calm {
		beside.Go(func() {
			if err := t.trouble(t.ctx, troubled, over); err != nil {
				t.fail("%v", err)
			}
		})
	}
	watching, stop := context.WithCancel(t.ctx)
	beside.Go(func() { t.listen(watching) })
	beside.Go(func() { t.count(watching) })
	people.Wait()
	close(over)
	stop()
	beside.Wait()
	t.settle()
	t.left()
	t.sum.add(func(c *counts) {
		c.Losses, c.Kernels = c.Losses+t.Metrics().Losses, c.Kernels+t.kernels.failures.Load()
	})
	if err := t.Close(); err != nil {
		t.fail("close: %v", err)
	}
}

// listen sees that no execution fails for a reason that was not drawn, though it be tried again.
func (t *trial) listen(ctx context.Context) {
	for e := range t.Events(ctx, weft.EventTaskFailed) {
		switch {
		case t.calm:
			t.fail("nothing happened, and %v", e)
		case errors.Is(e.Err, driver.ErrOutOfMemory) && !t.limited:
			t.fail("a device has the memory that it said, and %v", e)
		}
	}
}

// count sees that no more tasks are in flight than may be. Those that are verified are not counted:
// each waits for others in flight.
func (t *trial) count(ctx context.Context) {
	for limit := t.o.Concurrent; limit > 0 && t.o.Verify == 0 && ctx.Err() == nil; time.Sleep(200 * time.Microsecond) {
		n := 0
		for _, p := range t.Runs() {
			n += p.Running
		}
		if n > limit {
			t.fail("%d tasks in flight, and %d are allowed", n, limit)
			return
		}
	}
}

// left sees that nothing is left once all runs have ended and residents are given up.
func (t *trial) left() {
	for _, s := range t.shared {
		s.data.Release()
	}
	if n := t.Runs(); len(n) > 0 {
		t.fail("runs are left: %+v", n)
	}
	var held string
	if !poll.Within(*limitFlag/4, func() bool {
		held = ""
		for _, d := range t.Metrics().Devices {
			if d.MemUsed > 0 || d.Queued > 0 {
				held += fmt.Sprintf("%s (%s) holds %d bytes and %d tasks; ", d.Name, d.State, d.MemUsed, d.Queued)
			}
		}
		return held == ""
	}) {
		t.fail("left: %s", held)
	}
}

// hung tells what a seed that does not end does, and ends the process.
func (t *trial) hung(seed uint64) {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	fmt.Printf("live: seed %d does not end: %s\n", seed, t.rig)
	if t.Runtime != nil {
		for _, p := range t.Runs() {
			fmt.Printf("  run %+v\n", p)
		}
		for _, d := range t.Metrics().Devices {
			fmt.Printf("  device %+v\n", d)
		}
	}
	fmt.Printf("log:\n%s\n%s\n", t.log, buf)
	os.Exit(3)
}
