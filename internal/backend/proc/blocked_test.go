//go:build linux

package proc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
)

// alone is a task without data on one device.
func alone(t *testing.T, on string) *graph.Graph {
	t.Helper()
	var b graph.Builder
	y := b.Data(graph.Data{Name: "y", Bytes: 1000})
	b.Add(graph.Task{
		Name: "alone", Steps: []graph.Step{{Kernel: kernel("bad")}}, On: graph.Constraint{Only: []string{on}},
		Uses: []graph.Use{{Data: y, Access: graph.Write}},
	})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// isStopped reports whether all threads of a process are stopped.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		t.Fatalf("process %d is not there: %v", pid, err)
	}
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			return false
		}
		if _, after, _ := strings.Cut(string(b), ") "); !strings.HasPrefix(after, "T") {
			return false
		}
	}
	return true
}

// While a keeper that is stopped is asked for memory, other devices go on.
func TestStoppedKeeper(t *testing.T) {
	r := start(t, proc.Options{}, engine.Options{}, cpu.New(cpu.Options{Cores: 1, Funcs: funcs}))
	far, near := r.Machine.Devices[0].Name, r.Machine.Devices[1].Name
	keeper := proc.Pids("keeper")[0]
	if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// On another core it goes on until the signal has reached it.
	for until := time.Now().Add(time.Minute); !isStopped(t, keeper); {
		if time.Now().After(until) {
			t.Fatal("the keeper is not stopped after a minute")
		}
		runtime.Gosched()
	}
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(context.Background(), alone(t, far), engine.RunOptions{}, nil)
		ended <- err
	}()
	g := alone(t, near)
	for range 20 {
		if _, err := r.Run(context.Background(), g, engine.RunOptions{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		_ = syscall.Kill(keeper, syscall.SIGCONT)
		t.Fatalf("the run that needs the keeper has ended: %v", err)
	default:
	}
	if !slices.Contains(proc.Pids("keeper"), keeper) {
		t.Error("the keeper was given up on before the other device's tasks had ended")
	}
	_ = syscall.Kill(keeper, syscall.SIGCONT) // or it was killed
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
