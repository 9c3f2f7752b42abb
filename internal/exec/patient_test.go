package exec_test

import (
	"context"
	"sync"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/test/poll"
)

// A launch on a patient device stands behind another one while the copy of what it reads fails,
// and many copies fail after that. It learns of the failure when its turn comes, and runs with
// what it reads.
func TestPatientLearnsOfFailures(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	funcs := map[string]driver.Func{
		"seven": func(c *driver.Call, _, _ int) { c.Args[0][0] = 7 },
		"hold":  func(*driver.Call, int, int) { close(begun); <-release },
		"twice": func(c *driver.Call, _, _ int) { c.Args[1][0] = 2 * c.Args[0][0] },
	}
	drv, err := fake.New(fake.Options{Devices: 1, Funcs: funcs})
	if err != nil {
		t.Fatal(err)
	}
	device := func(o cpu.Options) driver.Device {
		devs, err := cpu.New(o).Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return devs[0]
	}
	x, err := exec.Open(t.Context(), exec.Config{
		Drivers: []driver.Driver{drv}, Copier: device(cpu.Options{Cores: 1}),
		Patient: device(cpu.Options{Cores: 1, Apart: "patient", Streams: 1, Funcs: funcs}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close(context.Background())
	let := sync.OnceFunc(func() { close(release) })
	defer let() // or Close would wait
	task := func(dialect graph.Dialect, name string, uses ...graph.Use) graph.Task {
		k := &graph.Kernel{Name: name, Impls: []graph.Impl{{Dialect: dialect, Entry: name}}}
		return graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Uses: uses}
	}
	start := func(fn func(b *graph.Builder, made, y graph.Use)) (out []byte, ended chan error) {
		var b graph.Builder
		made := b.Data(graph.Data{Name: "made", Bytes: 1})
		y := b.Data(graph.Data{Name: "y", Bytes: 1, Output: true})
		fn(&b, graph.Use{Data: made, Access: graph.Write}, graph.Use{Data: y, Access: graph.Write})
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		out, ended = make([]byte, 1), make(chan error, 1)
		go func() {
			_, err := x.Run(t.Context(), g, engine.RunOptions{}, func(graph.DataID) []byte { return out })
			ended <- err
		}()
		return out, ended
	}
	_, held := start(func(b *graph.Builder, _, y graph.Use) { b.Add(task("patient", "hold", y)) })
	<-begun
	play := func(script string) {
		if err := drv.Play(script); err != nil {
			t.Fatal(err)
		}
	}
	play("fail copies times 1")
	out, asked := start(func(b *graph.Builder, made, y graph.Use) {
		b.Add(task(graph.Go, "seven", made))
		made.Access = graph.Read
		b.Add(task("patient", "twice", made, y))
	})
	poll.True(t, "what the launch reads is copied", func() bool {
		_, c := x.Status()
		return c.Copies > 0
	})
	// Each of these runs ends after all else but the launches on the patient device, and fails a
	// copy on the lane of the one before.
	for range 5 {
		if out, ended := start(func(b *graph.Builder, _, y graph.Use) { b.Add(task(graph.Go, "seven", y)) }); <-ended != nil || out[0] != 7 {
			t.Fatal("a run beside it failed")
		}
		play("fail copies times 1")
	}
	play("fail copies times 1")
	let()
	if err := <-held; err != nil {
		t.Error(err)
	}
	if err := <-asked; err != nil || out[0] != 14 {
		t.Errorf("the result is %d, %v", out[0], err)
	}
}
