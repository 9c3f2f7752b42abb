package exec_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
)

// breaking is a device that, once armed, keeps completions back until two operations of
// a lane have ended, and tells of the first that the device was lost with it.
type breaking struct {
	driver.Device
	armed *atomic.Bool
	kept  []driver.Completion
	told  bool
}

func (b *breaking) Completions(out []driver.Completion) int {
	if !b.armed.Load() || b.told {
		return b.Device.Completions(out)
	}
	n := b.Device.Completions(out)
	b.kept = append(b.kept, out[:n]...)
	ended := make(map[driver.Lane]int)
	for i := range b.kept {
		if ended[b.kept[i].Lane]++; b.kept[i].Lane == driver.NoLane || ended[b.kept[i].Lane] < 2 || len(b.kept) > len(out) {
			continue
		}
		for k := range b.kept {
			if b.kept[k].Lane == b.kept[i].Lane {
				b.kept[k].Err = driver.ErrDeviceLost
				break
			}
		}
		b.told = true
		return copy(out, b.kept)
	}
	return 0
}

type breakingDriver struct {
	driver.Driver
	armed *atomic.Bool
}

func (d breakingDriver) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := d.Driver.Open(ctx, log)
	if err == nil {
		devs[0] = &breaking{Device: devs[0], armed: d.armed}
	}
	return devs, err
}

// What ends on a lane after an operation that was lost with its device is lost too, and
// is not told.
func TestCompletionsAfterALoss(t *testing.T) {
	devices, err := fake.New(fake.Options{Devices: 2, Funcs: map[string]driver.Func{"inc": inc}})
	if err != nil {
		t.Fatal(err)
	}
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	armed := new(atomic.Bool)
	x, err := exec.Open(context.Background(), exec.Config{
		Drivers: []driver.Driver{breakingDriver{devices, armed}}, Copier: copier[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close(context.Background())
	const n, parts = 1000, 40
	armed.Store(true)
	src, dst := make([]byte, n*parts), make([]byte, n*parts)
	var b graph.Builder
	in := b.Data(graph.Data{Name: "in", Bytes: n * parts, Input: true})
	out := b.Data(graph.Data{Name: "out", Bytes: n * parts, Output: true})
	for i := range int64(parts) {
		b.Add(graph.Task{
			Steps: []graph.Step{{Kernel: kernel("inc"), Launch: graph.Launch{Grid: [3]uint32{n, 1, 1}}}},
			Uses: []graph.Use{
				{Data: in, Offset: i * n, Bytes: n},
				{Data: out, Offset: i * n, Bytes: n, Access: graph.Write},
			},
			On: graph.Constraint{Hint: "fake:0"},
		})
	}
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Run(context.Background(), g, engine.RunOptions{}, memory(src, dst)); err != nil {
		t.Fatal(err)
	}
	for i := range dst {
		if dst[i] != src[i]+1 {
			t.Fatalf("byte %d is %d", i, dst[i])
		}
	}
	if s, _ := x.Status(); s[0].Losses != 1 {
		t.Errorf("the first device was lost %d times, want once", s[0].Losses)
	}
}
