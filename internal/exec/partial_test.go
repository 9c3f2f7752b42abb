package exec_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
)

// partial is a device in another process: of a batch it takes some at once and has the
// rest handed over in the background. Once it has taken enough it refuses everything.
type partial struct {
	driver.Device
	atOnce func(n int) int // of n operations
	enough atomic.Int32
}

var errRefused = errors.New("its process has ended")

func (p *partial) Submit(batch []driver.Op) error {
	if p.enough.Add(-int32(len(batch))) < 0 {
		return errRefused
	}
	return p.Device.Submit(batch)
}

func (p *partial) SubmitSome(batch []driver.Op) (int, error) {
	n := p.atOnce(len(batch))
	if n == 0 {
		return 0, nil
	}
	return n, p.Submit(batch[:n])
}

type partialDriver struct {
	driver.Driver
	atOnce func(n int) int
	enough int32
}

func (d partialDriver) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := d.Driver.Open(ctx, log)
	if err == nil {
		p := &partial{Device: devs[0], atOnce: d.atOnce}
		p.enough.Store(d.enough)
		devs[0] = p
	}
	return devs, err
}

// A device that refuses what it is given, at once or in the background, from the
// beginning or later, is lost, once, and its work is done by another.
func TestRefusedIsLost(t *testing.T) {
	for name, atOnce := range map[string]func(int) int{
		"at once":           func(n int) int { return n },
		"in the background": func(int) int { return 0 },
		"half of each":      func(n int) int { return n / 2 },
	} {
		for _, enough := range []int32{0, 7, 40} {
			t.Run(fmt.Sprintf("%s after %d", name, enough), func(t *testing.T) { refused(t, atOnce, enough) })
		}
	}
}

func refused(t *testing.T, atOnce func(n int) int, enough int32) {
	devices, err := fake.New(fake.Options{Devices: 2, Funcs: map[string]driver.Func{"inc": inc}})
	if err != nil {
		t.Fatal(err)
	}
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := exec.Open(context.Background(), exec.Config{
		Drivers: []driver.Driver{partialDriver{devices, atOnce, enough}}, Copier: copier[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close(context.Background())
	src, dst := make([]byte, 6400), make([]byte, 6400)
	end := make(chan error, 1)
	x.Start(&exec.Job{Graph: add(t, 6400, 64), Memory: memory(src, dst), Done: func(_ *engine.Report, err error) { end <- err }})
	select {
	case err := <-end:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		panic("nothing is heard of what was refused") // Close would wait for it
	}
	for i := range dst {
		if dst[i] != src[i]+1 {
			t.Fatalf("byte %d is %d", i, dst[i])
		}
	}
	if s, _ := x.Status(); s[0].Losses != 1 || s[1].Losses != 0 {
		t.Errorf("devices were lost %d and %d times, want 1 and 0", s[0].Losses, s[1].Losses)
	}
}
