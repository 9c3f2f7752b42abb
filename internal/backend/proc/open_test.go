//go:build linux

package proc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/machine"
)

func init() { makers["mortal"] = makeMortal }

// mortal says which children die while they open their device, and how often.
type mortal struct {
	Dir            string // where deaths are counted
	Keeper, Worker int    // deaths before a keeper and the workers of a device live
	Device         int    // the device whose workers die
	Fault          bool   // they die of a bad address and not of a panic
}

func makeMortal(config []byte, device int) (driver.Driver, error) {
	var m mortal
	if err := json.Unmarshal(config, &m); err != nil {
		return nil, err
	}
	deaths := m.Keeper
	if device >= 0 {
		if deaths = m.Worker; device != m.Device {
			deaths = 0
		}
	}
	file := filepath.Join(m.Dir, fmt.Sprint("deaths", device))
	before, _ := os.ReadFile(file) // none before the first
	if len(before) < deaths {
		if err := os.WriteFile(file, append(before, 'x'), 0o600); err != nil {
			return nil, err
		}
		if m.Fault {
			var none *mortal
			_ = none.Dir
		}
		panic("mortal, as it was told to be")
	}
	return makeFake([]byte("devices 2"), device)
}

// open opens devices over mortal children, and returns what was logged.
func (m mortal) open(t *testing.T) (_ []driver.Device, log string, _ error) {
	t.Helper()
	m.Dir = t.TempDir()
	config, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := arena.Open(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	before := children()
	book := &logBook{}
	devs, err := proc.New(proc.Options{Workers: proc.Workers{Memory: mem}, Driver: "mortal", Config: config}).Open(context.Background(), slog.New(slog.NewTextHandler(book, nil)))
	t.Cleanup(func() {
		for _, d := range devs {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		if left := children() - before; left > 0 {
			t.Errorf("%d children are left", left)
		}
		if err := mem.Close(); err != nil {
			t.Error(err)
		}
	})
	return devs, book.String(), err
}

// A child that dies while it opens a device is started again, a few times.
func TestOpenAgain(t *testing.T) {
	for _, c := range []struct {
		m    mortal
		devs int
		says string // of the error
	}{
		{mortal{}, 2, ""},
		{mortal{Keeper: 1}, 2, ""},
		{mortal{Keeper: 2, Worker: 2}, 2, ""},
		{mortal{Worker: 1, Device: 1, Fault: true}, 2, ""},
		{mortal{Keeper: 3}, 0, "panic: mortal, as it was told to be"},
		{mortal{Keeper: 3, Fault: true}, 0, "panic: runtime error: invalid memory address"},
		{mortal{Worker: 3, Device: 1}, 1, "fake:1: open: worker process"},
		{mortal{Worker: 3, Device: 0, Fault: true}, 1, "panic: runtime error: invalid memory address"},
	} {
		t.Run(fmt.Sprintf("%+v", c.m), func(t *testing.T) {
			devs, log, err := c.m.open(t)
			if len(devs) != c.devs || (err != nil) != (c.says != "") {
				t.Fatalf("%d devices, %v; want %d, an error with %q", len(devs), err, c.devs, c.says)
			}
			if err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("error %q; want one line with %q", err, c.says)
			}
			if got, want := strings.Count(log, "device left out"), 2-c.devs; c.devs > 0 && got != want {
				t.Errorf("%d devices are said to be left out, want %d:\n%s", got, want, log)
			}
		})
	}
}

// A backend that fails is no mistake of who asked for it; the devices of others, and
// its own that did open, can be used.
func TestOpenFails(t *testing.T) {
	wanted := errors.New("a mistake in the options")
	for _, c := range []struct {
		m      mortal
		choose error // of what looks for a device of fake
		opened int
	}{
		{mortal{Keeper: 3}, nil, 1},
		{mortal{Keeper: 3}, wanted, 0},
		{mortal{Worker: 3, Device: 1}, nil, 2},
		{mortal{}, wanted, 0},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			c.m.Dir = t.TempDir()
			config, err := json.Marshal(c.m)
			if err != nil {
				t.Fatal(err)
			}
			mem, err := arena.Open(1 << 30)
			if err != nil {
				t.Fatal(err)
			}
			defer mem.Close()
			copier, err := cpu.New(cpu.Options{Cores: 1}).Open(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			choose := func(m *machine.Machine) ([]bool, error) {
				keep := make([]bool, len(m.Devices))
				for i := range keep {
					keep[i] = true
				}
				return keep, c.choose
			}
			x, err := exec.Open(context.Background(), exec.Config{
				Drivers: []driver.Driver{cpu.New(cpu.Options{Cores: 1, Funcs: funcs}), proc.New(proc.Options{Workers: proc.Workers{Memory: mem}, Driver: "mortal", Config: config})},
				Copier:  copier[0], Choose: choose,
			})
			if c.choose != nil {
				failed := c.m.Keeper > 0
				if errors.Is(err, wanted) == failed || errors.Is(err, exec.ErrNoDevices) != failed || failed && !strings.Contains(err.Error(), "panic: mortal") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := len(x.Machine.Devices); got != c.opened {
				t.Errorf("%d devices, want %d", got, c.opened)
			}
			if err := x.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}
