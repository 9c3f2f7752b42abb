package proc_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/test/poll"
)

func init() {
	// steady takes 40 MiB, makes a file that its parameters name, and waits until it is gone.
	funcs["steady"] = func(c *driver.Call, _, _ int) {
		mine := touched(40)
		_ = os.WriteFile(string(c.Params), nil, 0o600) // without it the test fails
		poll.Within(time.Hour, func() bool {
			_, err := os.Stat(string(c.Params))
			return err != nil
		})
		copy(c.Args[0], mine[:1])
	}
	// hoard takes memory without end.
	funcs["hoard"] = func(*driver.Call, int, int) {
		for {
			sink = append(sink, touched(16))
			time.Sleep(time.Millisecond)
		}
	}
}

// touched returns mib MiB of memory. Every page has been written, so that all of it is resident.
func touched(mib int) []byte {
	b := make([]byte, mib<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	return b
}

// taken returns the memory of all workers of this process, in bytes.
func taken() (n int64) {
	for _, pid := range proc.Pids("worker") {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)) // it may have ended
		if f := strings.Fields(string(text)); len(f) > 2 {
			resident, _ := strconv.ParseInt(f[1], 10, 64)
			shared, _ := strconv.ParseInt(f[2], 10, 64)
			n += (resident - shared) * int64(os.Getpagesize())
		}
	}
	return n
}

// onDevice is a graph with one task on one device.
func onDevice(t *testing.T, name, params, device string) *graph.Graph {
	t.Helper()
	var b graph.Builder
	x := b.Data(graph.Data{Name: "x", Bytes: 64, Output: true})
	b.Add(graph.Task{
		Name: name, Steps: []graph.Step{{Kernel: kernel(name), Launch: graph.Grid(1), Params: []byte(params)}},
		Uses: []graph.Use{{Data: x, Access: graph.Write}}, On: graph.Constraint{Only: []string{device}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// When memory runs out, the worker with the newest large task is ended, each time it is
// tried, and its run fails with the reason. An older task goes on.
func TestGuard(t *testing.T) {
	const reserve = 100 << 20
	var most atomic.Int64 // that workers may have; more under the race detector
	most.Store(1 << 40)

	r := start(t, proc.Options{
		Workers: proc.Workers{WorkerBytes: 8 << 30, MemoryReserve: reserve},
		Driver:  "cpu", Config: []byte("2"),
		Available: func() int64 { return most.Load() - taken() },
	}, engine.Options{})
	there := filepath.Join(t.TempDir(), "there")
	ended := make(chan error, 1)
	go func() {
		_, _, err := r.run(t, onDevice(t, "steady", there, "cpu:0"), nil)
		ended <- err
	}()
	poll.True(t, "the older task", func() bool { _, err := os.Stat(there); return err == nil })
	most.Store(taken() + 400<<20)
	_, _, err := r.run(t, onDevice(t, "hoard", "", "cpu:1"), nil)
	var q *engine.Quarantine
	if !errors.As(err, &q) {
		t.Fatalf("the run that takes all memory ended with %v", err)
	}
	for _, l := range q.Losses {
		if l.Device != "cpu:1" || !strings.Contains(l.Err.Error(), "ended to keep memory free") {
			t.Errorf("a loss: %+v", l)
		}
	}
	if err := os.Remove(there); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the older task: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the older task does not end")
	}
}

// Where no worker has the memory none is ended, and the log says why.
func TestGuardOthers(t *testing.T) {
	var left atomic.Int64
	left.Store(1 << 50)
	r := start(t, proc.Options{
		Workers: proc.Workers{MemoryReserve: 1 << 40},
		Driver:  "cpu", Config: []byte("1"), Available: left.Load,
	}, engine.Options{})
	there := filepath.Join(t.TempDir(), "there")
	ended := make(chan error, 1)
	go func() {
		_, _, err := r.run(t, onDevice(t, "steady", there, "cpu:0"), nil)
		ended <- err
	}()
	poll.True(t, "the task", func() bool { _, err := os.Stat(there); return err == nil })
	left.Store(1 << 39)
	poll.True(t, "a report", func() bool {
		text := r.log.String()
		return strings.Contains(text, "memory is short, and no worker is ended for it") && strings.Contains(text, "no running worker has it")
	})
	if err := os.Remove(there); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the task: %v", err)
	}
}
