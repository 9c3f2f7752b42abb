package weft_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/proc"
)

// drawn is a graph with what to bind and what must be in that afterwards.
type drawn struct {
	g         *graph.Graph
	mem, want [][]uint64
	volatile  bool  // some of its data is
	bytes     int64 // of all data
}

var drawGraph = rapid.Custom(func(t *rapid.T) drawn {
	g, mem, want := randomGraph(t)
	d := drawn{g: g, mem: mem, want: want}
	for i := range g.NumData() {
		d.volatile = d.volatile || g.Data(graph.DataID(i)).Durability == graph.Volatile
		d.bytes += g.Data(graph.DataID(i)).Bytes
	}
	return d
})

// Devices are lost, fail and dawdle at any time, and runs are cancelled, while several
// goroutines run graphs with options that are drawn: every run that succeeds gives what its tasks
// give one after another, and none fails but for a reason that was drawn. With WEFT_SEED it draws
// others.
func TestSabotage(t *testing.T) {
	seed, rounds := uint64(0), 8
	if testing.Short() {
		rounds = 2
	}
	if s := os.Getenv("WEFT_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	var n struct {
		right                                   [4]atomic.Int64 // by Verify
		cancelled, lost, full, verified, copies atomic.Int64
	}
	var tasks, losses, killed int64
	const versions = 48 // as many of all data are never there at a time
	workers := runtime.GOOS == "linux"
	// Some rounds lose no device, and not each that draws this does so before it is over.
	for ; rounds > 0 || rounds > -50 && (losses == 0 || workers && killed == 0); rounds-- {
		rnd := rand.New(rand.NewPCG(seed, 5))
		s := drawSabotage(t, rnd)
		s.amid(t, rnd, func(rnd *rand.Rand) {
			d := drawGraph.Example(int(rnd.Uint32()))
			early := rnd.IntN(4) == 0
			rep, err := s.attempt(t, d, early, rnd)
			switch {
			case err == nil:
				n.right[s.o.Verify].Add(1)
				n.verified.Add(int64(rep.Verified))
				for i := range d.mem {
					if !slices.Equal(d.mem[i], d.want[i]) {
						t.Errorf("seed %d: with Verify %d d%d is\n%x\nand one task after another gives\n%x", seed, s.o.Verify, i, d.mem[i], d.want[i])
					}
				}
			case early && errors.Is(err, context.DeadlineExceeded):
				n.cancelled.Add(1)
			case d.volatile && errors.Is(err, weft.ErrDataLost):
				n.lost.Add(1)
			case strings.Contains(err.Error(), "copying") && strings.Contains(err.Error(), "failed by the script"):
				n.copies.Add(1) // a busy machine copies less often than copies are to fail
			case errors.Is(err, weft.ErrOutOfMemory) && s.o.HostBytes > 0 && s.o.HostBytes < versions*d.bytes:
				n.full.Add(1)
			default:
				t.Errorf("seed %d: %v", seed, err)
			}
		})
		for _, d := range s.Metrics().Devices {
			if strings.HasPrefix(d.Name, "fake:") {
				tasks += d.Tasks
				losses += d.Losses
			}
		}
		killed += s.killed
		if err := s.Close(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		seed++
	}
	right := [4]int64{n.right[0].Load(), n.right[1].Load(), n.right[2].Load(), n.right[3].Load()}
	t.Logf("with Verify 0 to 3 %d runs were right, with %d tasks verified, %d cancelled, %d lost volatile data, %d lacked memory, %d failed for their copies; scripted devices ran %d tasks and were lost %d times, %d workers were killed",
		right, n.verified.Load(), n.cancelled.Load(), n.lost.Load(), n.full.Load(), n.copies.Load(), tasks, losses, killed)
	if slices.Max(right[:]) == 0 || tasks == 0 || losses == 0 || workers && killed == 0 {
		t.Error("nothing was tried: no run succeeded, or scripted devices had no task, or none was lost, or no worker was killed")
	}
}

// sabotage is a runtime to whose devices something happens every other millisecond: scripted ones
// beside two CPU devices, or CPU devices in worker processes, which are killed.
type sabotage struct {
	*weft.Runtime
	o       weft.Options
	strike  func(*rand.Rand) error // is called by one goroutine
	strikes int                    // on scripted devices
	killed  int64                  // workers
}

// drawSabotage draws a runtime.
func drawSabotage(t *testing.T, rnd *rand.Rand) *sabotage {
	t.Helper()
	s := &sabotage{o: weft.Options{
		Checksums: rnd.IntN(2) == 0, Verify: rnd.IntN(4), HostBytes: int64(rnd.IntN(2)) << (9 + rnd.IntN(9)), Funcs: mixed,
		Retries: 50, MaxLosses: 1000, CloseWait: time.Minute, Concurrent: rnd.IntN(3) * 2, Policy: "roundrobin", Isolate: rnd.IntN(3) == 0 && runtime.GOOS == "linux",
	}}
	if s.o.Isolate {
		s.o.Devices, s.strike = fmt.Sprintf("cpu/%d", 2+rnd.IntN(2)), s.kill
		s.o.Ladder = "restart:1m, restart:1m, restart:1m" // a busy machine takes its time
	} else {
		devices := 1 + rnd.IntN(3)
		script := fmt.Sprintf("devices %d; memory %d; lanes %d", devices, 600+rnd.IntN(3000), 1+rnd.IntN(2))
		if rnd.IntN(2) == 0 {
			script += "; peer"
		}
		drv := follows(t, script, mixed)
		s.o.Drivers = []driver.Driver{cpu.New(cpu.Options{Parts: 2, Funcs: mixed}), drv}
		what := []string{"fail copies times 1", "fail copies times 1"} // which costs no attempt
		for _, w := range []string{"lose", "fail launches times 1", "fail copies times 3", "take 1ms launches times 2", "fail launches times 3"} {
			if rnd.IntN(2) == 0 { // it is long before a device has tasks that is lost or fails often
				what = append(what, w)
			}
		}
		s.strike = func(rnd *rand.Rand) error {
			if s.strikes++; s.strikes > 20 { // nor does a task that failed often run again soon
				what = what[:1]
			}
			return drv.Play(fmt.Sprintf("on %d %s", rnd.IntN(devices), what[rnd.IntN(len(what))]))
		}
	}
	s.Runtime = open(t, s.o)
	return s
}

// kill kills a worker process, once no device lacks one. It does so as often as the ladder has rungs: a
// device that is lost again soon is broken for a while.
func (s *sabotage) kill(rnd *rand.Rand) error {
	pids := proc.Pids("worker")
	if s.killed == 3 || len(pids) == 0 || slices.ContainsFunc(s.Devices(), func(d weft.Device) bool { return d.State != "healthy" }) {
		return nil
	}
	p, err := os.FindProcess(pids[rnd.IntN(len(pids))])
	if err == nil {
		err = p.Kill()
	}
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	s.killed++
	return err
}

// amid runs do four times in each of twelve goroutines while devices are struck. With twelve callers, launches that
// verify queue behind one another.
func (s *sabotage) amid(t *testing.T, rnd *rand.Rand, do func(*rand.Rand)) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	deeds := rand.New(rand.NewPCG(rnd.Uint64(), 6))
	go func() {
		defer close(stopped)
		for {
			if err := s.strike(deeds); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(deeds.IntN(2000)) * time.Microsecond):
			}
		}
	}()
	var people sync.WaitGroup
	for range 12 {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), 7))
		people.Go(func() {
			for range 4 {
				do(rnd)
			}
		})
	}
	people.Wait()
	close(stop)
	<-stopped
}

// attempt runs a graph, for some milliseconds if it is to end early, and sees that its inputs stay as they are.
func (s *sabotage) attempt(t *testing.T, d drawn, early bool, rnd *rand.Rand) (*weft.Report, error) {
	start := make([][]uint64, len(d.mem))
	for i := range d.mem {
		start[i] = slices.Clone(d.mem[i])
	}
	limit := long
	if early {
		limit = time.Duration(rnd.IntN(3000)) * time.Microsecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	rep, err := s.Run(ctx, d.g, bindAll(d.mem)...)
	for i := range d.mem {
		if !d.g.Data(graph.DataID(i)).Output && !slices.Equal(d.mem[i], start[i]) {
			t.Errorf("input d%d was changed", i)
		}
	}
	return rep, err
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
