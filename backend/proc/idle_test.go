//go:build linux && !race

package proc_test

import (
	"context"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/backend/cpu"
	"github.com/weft-run/weft/backend/proc"
	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/exec"
)

// On a machine with many cores nobody looks for long for what cannot come: samples of
// the condition of idle devices do not keep the executor awake.
func TestIdleSleeps(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	mem, err := arena.Open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := exec.Open(context.Background(), exec.Config{
		Drivers: []driver.Driver{proc.New(proc.Options{Driver: "fake", Config: []byte("devices 2"), Memory: mem})},
		Copier:  copier[0], HealthInterval: 4 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close(context.Background())
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began, before := time.Now(), used()
	time.Sleep(time.Second)
	if u := (used() - before).Seconds() / time.Since(began).Seconds(); u > 0.25 {
		t.Errorf("an idle executor uses %.0f %% of a core", 100*u)
	}
}
