//go:build linux

package proc_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/test/poll"
)

// A kernel that hangs in a worker fails its run although no timeout was set, and runs
// beside it end well.
func TestHungKernelIsEnded(t *testing.T) {
	const limit = time.Second // of a task that takes microseconds
	r := start(t, proc.Options{Config: []byte("lanes 2; hang kernel bad")}, engine.Options{
		Retries: 50, // of those that a busy machine keeps for longer
		Limits:  engine.Limits{Least: limit, Unknown: limit},
	})
	var b graph.Builder
	y := b.Data(graph.Data{Name: "y", Bytes: 1000})
	b.Add(graph.Task{
		Name: "stays", Steps: []graph.Step{{Kernel: kernel("bad")}}, Retries: -1,
		Uses: []graph.Use{{Data: y, Access: graph.Write}},
	})
	hangs, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(context.Background(), hangs, engine.RunOptions{}, nil)
		ended <- err
	}()
	g, in, want := chain(t, 10_000, 4, 3)
	for waits := true; waits; {
		select {
		case err = <-ended:
			waits = false
		default:
		}
		r.mustRun(t, g, in, want)
	}
	te := (*engine.TaskError)(nil)
	if !errors.Is(err, engine.ErrTimeout) || !errors.As(err, &te) || te.Task != "stays" || !strings.Contains(err.Error(), "no task_timeout is set") {
		t.Errorf("the run that hangs: %v", err)
	}
	if st, _ := r.Status(); st[0].Losses == 0 {
		t.Error("the worker whose kernel hangs was not given up on")
	}
}

// hung runs a kernel that hangs until its context ends, and returns when it runs.
func (r *rig) hung(t *testing.T, ctx context.Context) <-chan error {
	t.Helper()
	g := one(t, "bad", 1000, 0)
	ended := make(chan error, 1)
	go func() {
		in, out := make([]byte, 1000), make([]byte, 1000)
		_, err := r.Run(ctx, g, engine.RunOptions{}, func(d graph.DataID) []byte { return [][]byte{in, out}[d] })
		ended <- err
	}()
	poll.True(t, "the kernel runs", func() bool {
		st, _ := r.Status()
		return st[0].Stats.Active > 0
	})
	return ended
}

// Cancelling a run whose kernel hangs in a worker ends the worker. Nothing is held then,
// other runs go on, and the device comes back.
func TestCancelKillsWorker(t *testing.T) {
	r := startWith(t, exec.Config{KillWait: 50 * time.Millisecond, CancelWait: 2 * time.Minute, Engine: engine.Options{TaskTimeout: -1, Retries: 50}},
		proc.Options{Config: []byte("lanes 2; hang kernel bad")})
	ctx, cancel := context.WithCancel(context.Background())
	ended := r.hung(t, ctx)
	cancel()
	if err := <-ended; !errors.Is(err, engine.ErrCancelled) || errors.Is(err, exec.ErrHeld) {
		t.Errorf("the cancelled run: %v", err)
	}
	g, in, want := chain(t, 10_000, 4, 3)
	r.mustRun(t, g, in, want)
	if st, _ := r.Status(); st[0].Losses != 1 {
		t.Errorf("the worker was given up on %d times, want once", st[0].Losses)
	}
}

// Close ends although a kernel hangs in a worker, and leaves no process behind.
func TestCloseKillsWorker(t *testing.T) {
	r := startWith(t, exec.Config{KillWait: 50 * time.Millisecond, CloseWait: 2 * time.Minute, Engine: engine.Options{TaskTimeout: -1}},
		proc.Options{Workers: proc.Workers{Standby: true}, Config: []byte("hang kernel bad")})
	ended := r.hung(t, context.Background())
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, engine.ErrCancelled) {
		t.Errorf("the run: %v", err)
	}
}

// Close ends although worker, standby and keeper are stopped, and leaves no process
// behind.
func TestCloseKillsStopped(t *testing.T) {
	r := startWith(t, exec.Config{CloseWait: 2 * time.Minute}, proc.Options{Workers: proc.Workers{Standby: true}, End: 100 * time.Millisecond})
	poll.True(t, "there is a standby", func() bool { return strings.Contains(r.log.String(), "stands by") })
	for _, pid := range proc.Pids("") {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// A worker that hangs is found by its beats while the parent waits for its answer, which it
// would do for an hour here.
func TestHungWhileAsked(t *testing.T) {
	r := start(t, proc.Options{Workers: proc.Workers{HangTimeout: time.Second}, Config: []byte("devices 2"), Answer: time.Hour}, engine.Options{
		// Of workers that a busy machine keeps from running for as long.
		Retries: 100, Health: engine.HealthRules{Trust: time.Nanosecond, MaxLosses: 1000},
	})
	for _, pid := range proc.Pids("worker") {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	g, in, want := chain(t, 1<<20, 4, 2) // its buffers are in slabs that the workers are told of
	r.runsInTime(t, g, in, want)
}

// runsInTime fails if a run, of which something is stopped, does not end with its result in two minutes.
func (r *rig) runsInTime(t *testing.T, g *graph.Graph, in, want []byte) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		out, _, err := r.run(t, g, in)
		if err == nil && !bytes.Equal(out, want) {
			err = errors.New("the result is wrong")
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the run waits for a process that is stopped")
	}
}

// A worker keeps its work while its standby is stopped, which is to map what it allocates: here
// the standby may be silent for an hour.
func TestStoppedStandbyDelaysNoWork(t *testing.T) {
	r := start(t, proc.Options{Workers: proc.Workers{Standby: true, HangTimeout: time.Hour}, Config: []byte("devices 2"), Answer: time.Hour}, engine.Options{})
	for _, pid := range r.standbys(t, 2) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	g, in, want := chain(t, 4<<20, 4, 3)
	r.runsInTime(t, g, in, want)
}

// A standby that is stopped is found and replaced, each time, though it may take an hour to answer.
func TestStoppedStandbyIsReplaced(t *testing.T) {
	r := start(t, proc.Options{Workers: proc.Workers{Standby: true, HangTimeout: time.Second}, Answer: time.Hour}, engine.Options{})
	for n := range 2 {
		pid := r.standbys(t, n+1)[n]
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		poll.True(t, "word of its end", func() bool { return strings.Count(r.log.String(), "no standby; another is started") > n })
	}
	r.standbys(t, 3)
	if !strings.Contains(r.log.String(), "it does not answer for") {
		t.Errorf("the log does not say why:\n%s", r.log.String())
	}
}

// standbys waits for a number of standbys, in all, and returns their process IDs in the order in
// which they stood by.
func (r *rig) standbys(t *testing.T, n int) (pids []int) {
	t.Helper()
	poll.True(t, "standbys", func() bool {
		pids = nil
		for _, line := range strings.Split(r.log.String(), "\n") {
			if _, id, ok := strings.Cut(line, " pid="); ok && strings.Contains(line, "a worker stands by") {
				if pid, err := strconv.Atoi(id); err == nil {
					pids = append(pids, pid)
				}
			}
		}
		return len(pids) >= n
	})
	return pids
}

// A worker that stops while it is started in the place of another is found, and the next one is
// started: here it may take an hour to answer. It stops itself in what makes its driver.
func TestStoppedWhileStarted(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "stop")
	r := start(t, proc.Options{Workers: proc.Workers{HangTimeout: time.Second}, Driver: "stops", Config: []byte(mark), Answer: time.Hour}, engine.Options{
		Health: engine.HealthRules{Ladder: slices.Repeat([]engine.TimedRung{{Rung: engine.Restart, Timeout: time.Hour}}, 8), Trust: time.Nanosecond, MaxLosses: 1000},
	})
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(proc.Pids("worker")[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "a worker has stopped itself", func() bool {
		_, err := os.Stat(mark)
		return err != nil
	})
	g, in, want := chain(t, 10_000, 4, 3)
	r.runsInTime(t, g, in, want)
}
