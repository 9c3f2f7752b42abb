package exec_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/exec"
)

// tuners gives fake devices something they found about kernels.
type tuners struct {
	driver.Driver
	found []driver.Tuned   // by every device, when it is opened
	each  [][]driver.Tuned // by each device, in place of found
}

type tuner struct {
	driver.Device
	told, found []driver.Tuned
}

func (d *tuners) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := d.Driver.Open(ctx, log)
	for i := range devs {
		one := &tuner{Device: devs[i], found: d.found}
		if d.each != nil {
			one.found = d.each[i]
		}
		devs[i] = one
	}
	return devs, err
}

func (t *tuner) Tune(ts []driver.Tuned) { t.told = ts }
func (t *tuner) Tuning() []driver.Tuned { return append(slices.Clone(t.told), t.found...) }

// What one device found, those that are alike are told the next time; what each found
// itself goes before that.
func TestTuningIsShared(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	open := func(found ...[]driver.Tuned) [][]driver.Tuned {
		t.Helper()
		drv, err := fake.New(fake.Options{Devices: 3})
		if err != nil {
			t.Fatal(err)
		}
		copier, err := cpu.New(cpu.Options{Cores: 1}).Open(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		devs := &tuners{Driver: drv, each: found}
		x, err := exec.Open(ctx, exec.Config{Drivers: []driver.Driver{devs}, Copier: copier[0], CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		known := x.Tuning()
		if err := x.Close(ctx); err != nil {
			t.Fatal(err)
		}
		return known
	}
	a := driver.Tuned{Kernel: "a", Class: 7, Entry: "fast", NS: 10}
	other := driver.Tuned{Kernel: "a", Class: 7, Entry: "slow", NS: 12}
	b := driver.Tuned{Kernel: "b", Class: 1, Entry: "b", NS: 3}
	open([]driver.Tuned{a, b}, []driver.Tuned{other}, nil)
	got := open(nil, nil, nil)
	for i, want := range [][]driver.Tuned{{a, b}, {other, b}} {
		if !slices.Equal(got[i], want) {
			t.Errorf("device %d knows %v, want %v", i, got[i], want)
		}
	}
	if len(got[2]) != 2 || got[2][1] != b || got[2][0] != a && got[2][0] != other {
		t.Errorf("device 2, which found nothing, knows %v", got[2])
	}
}

// What devices find about kernels is kept, and told to them the next time; files
// for others, or broken ones, are not.
func TestTuningIsKept(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	open := func(found ...driver.Tuned) []driver.Tuned {
		t.Helper()
		drv, err := fake.New(fake.Options{Devices: 2})
		if err != nil {
			t.Fatal(err)
		}
		copier, err := cpu.New(cpu.Options{Cores: 1}).Open(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := exec.Open(ctx, exec.Config{Drivers: []driver.Driver{&tuners{Driver: drv, found: found}}, Copier: copier[0], CacheDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		known := x.Tuning()
		if len(known) != 2 || !slices.Equal(known[0], known[1]) {
			t.Fatalf("devices know %v", known)
		}
		if err := x.Close(ctx); err != nil {
			t.Fatal(err)
		}
		return known[0]
	}
	a := driver.Tuned{Kernel: "a", Hash: "1", Class: 7, Entry: "a_fast", Block: 128, NS: 1500}
	b := driver.Tuned{Kernel: "b", Class: 71, Entry: "b_only", NS: 2}
	if got := open(a); !slices.Equal(got, []driver.Tuned{a}) {
		t.Errorf("at first %v is known", got)
	}
	if got := open(b); !slices.Equal(got, []driver.Tuned{a, b}) {
		t.Errorf("then %v is known, want what was found before as well", got)
	}
	if got := open(); !slices.Equal(got, []driver.Tuned{a, b}) {
		t.Errorf("at last %v is known", got)
	}
	files, err := filepath.Glob(filepath.Join(dir, "tuning-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files are %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"broken": "{", "of another version": strings.Replace(string(text), `"version": 1`, `"version": 2`, 1),
		"of other devices": strings.Replace(string(text), "fake:0", "fake:7", 1),
	} {
		if err := os.WriteFile(files[0], []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := open(); len(got) != 0 {
			t.Errorf("from a file %s %v is known", name, got)
		}
		if _, err := os.Stat(files[0]); err == nil {
			t.Errorf("a file %s stays", name)
		}
	}
}

// mutes gives fake devices of which the first tells nothing until it is closed.
type mutes struct{ driver.Driver }

type mute struct {
	driver.Device
	closed chan struct{}
}

func (d *mutes) Open(ctx context.Context, log *slog.Logger) ([]driver.Device, error) {
	devs, err := d.Driver.Open(ctx, log)
	devs[0] = &mute{devs[0], make(chan struct{})}
	return devs, err
}

func (m *mute) Tune([]driver.Tuned) {}

func (m *mute) Tuning() []driver.Tuned {
	<-m.closed
	return nil
}

func (m *mute) Close() error {
	close(m.closed)
	return m.Device.Close()
}

// Close does not wait for a device that does not tell what it decided, and keeps what others tell.
func TestCloseWithoutTuning(t *testing.T) {
	dir := t.TempDir()
	found := driver.Tuned{Kernel: "a", Hash: "1", Class: 7, Entry: "a_fast", Block: 128, NS: 1500}
	open := func(d func(driver.Driver) driver.Driver) *exec.Executor {
		drv, err := fake.New(fake.Options{Devices: 2})
		if err != nil {
			t.Fatal(err)
		}
		copier, err := cpu.New(cpu.Options{Cores: 1}).Open(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		x, err := exec.Open(t.Context(), exec.Config{Drivers: []driver.Driver{d(drv)}, Copier: copier[0], CacheDir: dir, CloseWait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := open(func(d driver.Driver) driver.Driver {
		return &mutes{&tuners{Driver: d, found: []driver.Tuned{found}}}
	})
	if err := x.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	x = open(func(d driver.Driver) driver.Driver { return &tuners{Driver: d} })
	if got := x.Tuning(); len(got) != 2 || !slices.Equal(got[0], []driver.Tuned{found}) {
		t.Errorf("%v is known", got)
	}
	if err := x.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
