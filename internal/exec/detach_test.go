package exec_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/test/poll"
)

// late is a driver of devices the first of which hands over failures late, when whoever
// looks after its calls has come to ask the loop, and has no call detached before.
type late struct{ driver.Driver }

func (l late) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := l.Driver.Open(ctx, log)
	if err != nil {
		return nil, err
	}
	d := devs[0]
	devs[0] = &lateDevice{Device: d, Stopper: d.(driver.Stopper), Dropper: d.(driver.Dropper), Reviver: d.(driver.Reviver)}
	return devs, nil
}

type lateDevice struct {
	driver.Device
	driver.Stopper
	driver.Dropper
	driver.Reviver
	failures int
}

func (d *lateDevice) Completions(dst []driver.Completion) int {
	n := d.Device.Completions(dst)
	for i := range dst[:n] {
		if dst[i].Err != nil {
			d.failures++
		}
	}
	if d.failures > 0 && n > 0 {
		time.Sleep(20 * time.Millisecond) // longer than DetachAfter and several health intervals
	}
	return n
}

func (d *lateDevice) Detach(op driver.Wait, upto uint32) bool {
	return d.failures > 3 && d.Device.(driver.Detacher).Detach(op, upto)
}

// A device that is dropped for its failures in the step in which a call of it would be
// detached keeps the memory of that call until it returns.
func TestDetachOfDropped(t *testing.T) {
	begun, release := make(chan struct{}, 100), make(chan struct{})
	var well atomic.Bool
	boom := errors.New("boom")
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := exec.Open(context.Background(), exec.Config{
		Copier: copier[0], Streams: 2, HealthInterval: time.Millisecond, Engine: engine.Options{DetachAfter: time.Millisecond},
		Drivers: []driver.Driver{late{cpu.New(cpu.Options{Parts: 2, Funcs: map[string]driver.Func{
			"stuck": func(c *driver.Call, _, _ int) {
				begun <- struct{}{}
				<-release
				c.Args[0][0] = 42
			},
			"fail": func(c *driver.Call, _, _ int) {
				if !well.Load() {
					c.Fail(boom)
				}
			},
		}})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close(context.Background())
	let := sync.OnceFunc(func() { close(release) })
	defer let() // or Close would wait
	run := func(kernels ...string) (out []byte, ended chan error) {
		var b graph.Builder
		data := b.Data(graph.Data{Name: "x", Bytes: int64(len(kernels)), Output: true})
		for i, name := range kernels {
			b.Add(graph.Task{
				Steps: []graph.Step{{Kernel: kernel(name), Launch: graph.Grid(1)}}, On: graph.Constraint{Only: []string{"cpu:0"}},
				Uses: []graph.Use{{Data: data, Offset: int64(i), Bytes: 1, Access: graph.Write}},
			})
		}
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		out, ended = make([]byte, len(kernels)), make(chan error, 1)
		go func() {
			_, err := x.Run(context.Background(), g, engine.RunOptions{}, func(graph.DataID) []byte { return out })
			ended <- err
		}()
		return out, ended
	}
	out, stuck := run("stuck")
	<-begun
	_, failing := run("fail", "fail", "fail", "fail", "fail", "fail", "fail", "fail")
	poll.True(t, "the device is dropped", func() bool {
		st, _ := x.Status()
		return st[0].Losses > 0
	})
	well.Store(true)
	let()
	if err := <-stuck; err != nil || out[0] != 42 {
		t.Errorf("the result of the long call is %d, %v", out[0], err)
	}
	if err := <-failing; err != nil {
		t.Error(err)
	}
	if err := x.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// Kernels that each wait for a run of their own device end, however deep: those that wait are
// detached one after another.
func TestDetachNested(t *testing.T) {
	const deep = 3 * 8 // more than are detached without further waiting
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var b graph.Builder
	data := b.Data(graph.Data{Name: "x", Bytes: 1, Output: true})
	b.Add(graph.Task{Steps: []graph.Step{{Kernel: kernel("nest"), Launch: graph.Grid(1)}}, Uses: []graph.Use{{Data: data, Access: graph.Write}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var x *exec.Executor
	var level atomic.Int32
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // a kernel that is not detached is left behind then
	defer cancel()
	run := func() (byte, error) {
		out := make([]byte, 1)
		_, err := x.Run(ctx, g, engine.RunOptions{}, func(graph.DataID) []byte { return out })
		return out[0], err
	}
	x, err = exec.Open(context.Background(), exec.Config{
		Copier: copier[0], Streams: 1, HealthInterval: time.Millisecond, Engine: engine.Options{DetachAfter: time.Millisecond},
		Drivers: []driver.Driver{cpu.New(cpu.Options{Cores: 1, Funcs: map[string]driver.Func{
			"nest": func(c *driver.Call, _, _ int) {
				if level.Add(1) == deep {
					return
				}
				inner, err := run()
				if err != nil {
					c.Fail(err)
				}
				c.Args[0][0] = inner + 1
			},
		}})},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run(); got != deep-1 || err != nil {
		t.Errorf("%d levels, %v", got, err)
	}
	if err := x.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
