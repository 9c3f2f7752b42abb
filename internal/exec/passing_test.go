package exec_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
)

// failing is a driver whose devices give err where the fake's script has an operation fail.
type failing struct {
	driver.Driver
	err error
}

func (f failing) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := f.Driver.Open(ctx, log)
	for i := range devs {
		devs[i] = failingDevice{devs[i], f.err}
	}
	return devs, err
}

type failingDevice struct {
	driver.Device
	err error
}

func (d failingDevice) Completions(dst []driver.Completion) int {
	n := d.Device.Completions(dst)
	for i := range dst[:n] {
		if err := dst[i].Err; err != nil && !errors.Is(err, driver.ErrDependency) {
			dst[i].Err = d.err
		}
	}
	return n
}

// A kernel that a device could not start is tried again, unless it never can be started there.
func TestPassingFailures(t *testing.T) {
	for _, c := range []struct {
		err     error
		retries int
	}{
		{driver.ErrKernel, 1},
		{fmt.Errorf("%w: %w", driver.ErrKernel, driver.ErrOutOfMemory), 1},
		{fmt.Errorf("%w: %w", driver.ErrKernel, driver.ErrFaulted), 1},
		{driver.ErrUnfit, 0},
		{fmt.Errorf("%w: %w", driver.ErrUnfit, driver.ErrNoFunc), 0},
	} {
		devices, err := fake.New(fake.Options{
			Devices: 1, Funcs: map[string]driver.Func{"inc": inc},
			Script: fake.Script{{Device: fake.AllDevices, Do: fake.Fail, At: fake.Match{Kind: fake.OfKernel, Kernel: "inc"}, Times: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		copier, err := cpu.New(cpu.Options{Cores: 1}).Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := exec.Open(t.Context(), exec.Config{
			Drivers: []driver.Driver{failing{devices, c.err}}, Copier: copier[0],
		})
		if err != nil {
			t.Fatal(err)
		}
		src, dst := make([]byte, 64), make([]byte, 64)
		rep, err := x.Run(t.Context(), add(t, 64, 1), engine.RunOptions{}, memory(src, dst))
		switch {
		case rep.Retries != c.retries || (err == nil) != (c.retries > 0):
			t.Errorf("%v: %d retries, want %d: %v", c.err, rep.Retries, c.retries, err)
		case err == nil && dst[7] != 1:
			t.Errorf("%v: got %v", c.err, dst)
		case err != nil && !errors.Is(err, c.err):
			t.Errorf("%v: the run fails with %v", c.err, err)
		}
		x.Close(t.Context())
	}
}

// What a kernel fails with is that of its own launch, whatever an error of another device says in it.
func TestErrorsOfAnother(t *testing.T) {
	var of error
	calls, panics := 0, false
	x := start(t, 1, engine.Options{}, map[string]driver.Func{"inc": func(c *driver.Call, lo, hi int) {
		switch calls++; {
		case calls > 1:
			inc(c, lo, hi)
		case panics:
			panic(of)
		default:
			c.Fail(of)
		}
	}})
	for _, is := range []error{
		driver.ErrUnavailable, driver.ErrOutOfMemory, driver.ErrDeviceLost, driver.ErrKernel, driver.ErrUnfit, driver.ErrNoFunc,
		driver.ErrFaulted, driver.ErrDependency, driver.ErrSpoilt, driver.ErrChecksum, driver.ErrClosed, driver.ErrStopped,
	} {
		for _, panics = range []bool{false, true} {
			of, calls = fmt.Errorf("elsewhere: %w", is), 0
			src, dst := make([]byte, 64), make([]byte, 64)
			rep, err := x.Run(t.Context(), add(t, 64, 1), engine.RunOptions{Retries: 3}, memory(src, dst)) // so that inputs are compared
			if err != nil || rep.Retries != 1 || dst[7] != 1 {
				t.Errorf("a kernel fails with %q, by panic %v: %d retries, %v", of, panics, rep.Retries, err)
			}
			if _, err := x.Run(t.Context(), add(t, 64, 1), engine.RunOptions{}, memory(src, dst)); err != nil {
				t.Errorf("after %q, by panic %v: %v", of, panics, err)
			}
		}
	}
	if st, _ := x.Status(); st[0].State != engine.Healthy || st[0].Losses != 0 {
		t.Errorf("the device is %v and was lost %d times", st[0].State, st[0].Losses)
	}
}
