package weft_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
)

// drawn is a graph with what to bind and what must be in that afterwards.
type drawn struct {
	g         *graph.Graph
	mem, want [][]uint64
}

var drawGraph = rapid.Custom(func(t *rapid.T) drawn {
	g, mem, want := randomGraph(t)
	return drawn{g, mem, want}
})

// Devices are lost, fail and dawdle at any time, and runs are cancelled, while several
// goroutines run graphs: every run that succeeds gives what its tasks give one after another,
// and none fails unless it has data that weft was told not to recover.
func TestSabotage(t *testing.T) {
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	var right, cancelled, lost atomic.Int64
	var tasks, losses int64
	// On a machine that is fast a round may be over before a device was lost.
	for round, end := 0, time.Now().Add(time.Minute); round < rounds || losses == 0 && time.Now().Before(end); round++ {
		rnd := rand.New(rand.NewPCG(uint64(round), 5))
		n, l := sabotaged(t, rnd, func(rt *weft.Runtime, rnd *rand.Rand) {
			d := drawGraph.Example(int(rnd.Uint32()))
			start := make([][]uint64, len(d.mem))
			for i := range d.mem {
				start[i] = slices.Clone(d.mem[i])
			}
			limit := time.Minute
			early := rnd.IntN(4) == 0
			if early {
				limit = time.Duration(rnd.IntN(3000)) * time.Microsecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			_, err := rt.Run(ctx, d.g, bindAll(d.mem)...)
			cancel()
			volatile := false
			for i := range d.g.NumData() {
				volatile = volatile || d.g.Data(graph.DataID(i)).Durability == graph.Volatile
			}
			switch {
			case err == nil:
				right.Add(1)
				for i := range d.mem {
					if !slices.Equal(d.mem[i], d.want[i]) {
						t.Errorf("round %d: d%d is\n%x\nand one task after another gives\n%x", round, i, d.mem[i], d.want[i])
					}
				}
			case early && errors.Is(err, context.DeadlineExceeded):
				cancelled.Add(1)
			case volatile:
				lost.Add(1)
			default:
				t.Errorf("round %d: %v", round, err)
			}
			for i := range d.mem {
				if !d.g.Data(graph.DataID(i)).Output && !slices.Equal(d.mem[i], start[i]) {
					t.Errorf("round %d: input d%d was changed", round, i)
				}
			}
		})
		tasks += n
		losses += l
	}
	t.Logf("%d runs were right, %d cancelled, %d lost volatile data; scripted devices ran %d tasks and were lost %d times",
		right.Load(), cancelled.Load(), lost.Load(), tasks, losses)
	if right.Load() == 0 || tasks == 0 || losses == 0 {
		t.Error("nothing was tried: no run succeeded, or scripted devices had no task, or none was lost")
	}
}

// sabotaged has four goroutines do something twelve times each, with a runtime of two CPU
// devices and some scripted ones, to which something happens every few milliseconds.
// It returns how many tasks the scripted devices ran, and how often they were lost.
func sabotaged(t *testing.T, rnd *rand.Rand, do func(*weft.Runtime, *rand.Rand)) (tasks, losses int64) {
	t.Helper()
	devices := 1 + rnd.IntN(3)
	script := fmt.Sprintf("devices %d; memory %d; lanes %d", devices, 600+rnd.IntN(3000), 1+rnd.IntN(2))
	if rnd.IntN(2) == 0 {
		script += "; peer"
	}
	o, err := fake.Parse(script)
	if err != nil {
		t.Fatal(err)
	}
	funcs := map[string]weft.Func{"mix": mixFunc}
	o.Funcs = funcs
	drv, err := fake.New(o)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := weft.Open(t.Context(), weft.Options{Checksums: rnd.IntN(2) == 0,
		NoCalibrate: true, CacheDir: "off", Retries: 50, Concurrent: rnd.IntN(3) * 2, Policy: "roundrobin",
		Drivers: []driver.Driver{cpu.New(cpu.Options{Parts: 2, Funcs: funcs}), drv},
	})
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	deeds := rand.New(rand.NewPCG(rnd.Uint64(), 6))
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(deeds.IntN(5)) * time.Millisecond):
			}
			what := []string{"lose", "fail launches times 1", "fail copies times 1", "take 1ms launches times 2", "fail launches times 3"}[deeds.IntN(5)]
			if err := drv.Play(fmt.Sprintf("on %d %s", deeds.IntN(devices), what)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	var people sync.WaitGroup
	for range 4 {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 7))
		people.Go(func() {
			for range 12 {
				do(rt, rnd)
			}
		})
	}
	people.Wait()
	close(stop)
	<-stopped
	for _, d := range rt.Metrics().Devices {
		if strings.HasPrefix(d.Name, "fake:") {
			tasks += d.Tasks
			losses += d.Losses
		}
	}
	if err := rt.Close(); err != nil {
		t.Error(err)
	}
	return tasks, losses
}

// A run goes on while many ask for metrics without pause, and callbacks come while runs are
// submitted without pause.
func TestRunsAmongQuestions(t *testing.T) {
	rt := open(t, weft.Options{Devices: "cpu/2", Funcs: incFuncs})
	g := small(t, 100)
	x, y := make([]int64, 16), make([]int64, 16)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stop atomic.Bool
	var people sync.WaitGroup
	for range 16 {
		people.Go(func() {
			for !stop.Load() {
				rt.Metrics()
			}
		})
	}
	_, err := rt.Run(ctx, g, weft.Bind("x", x), weft.Bind("y", y))
	stop.Store(true)
	people.Wait()
	if err != nil || y[1] != x[1]+100 {
		t.Errorf("among callers of Metrics: y is %d, %v", y[1], err)
	}
	var called atomic.Bool
	var last *weft.Handle
	for !called.Load() && ctx.Err() == nil {
		last = rt.Submit(small(t, 1), func(*weft.Report, error) { called.Store(true) }, weft.Bind("x", make([]int64, 16)), weft.Bind("y", make([]int64, 16)))
	}
	if !called.Load() {
		t.Error("no callback while runs were submitted")
	}
	if _, err := last.Wait(); err != nil {
		t.Error(err)
	}
}
