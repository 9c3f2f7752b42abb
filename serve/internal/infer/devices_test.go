package infer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/fake"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/workload/reservoir"
)

// openWith is open for a runtime of the caller's.
func openWith(t *testing.T, folder string, o weft.Options) *Service {
	t.Helper()
	o.NoCalibrate, o.CacheDir = true, "off"
	rt, err := weft.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(rt, Options{Folder: folder, Deadline: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(context.Background()), rt.Close()); err != nil {
			t.Error(err)
		}
	})
	poll.True(t, "models are loaded", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.opening == 0
	})
	return s
}

// on returns where a model is.
func on(t *testing.T, s *Service, name string) []string {
	t.Helper()
	i, err := s.Model(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return i.Devices
}

// A spare that takes the place of the only device with a model has the model, and no request
// is refused meanwhile. It has the weights that were loaded, whatever became of the file.
func TestSwappedDevice(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 4, "")
	s := openWith(t, folder, weft.Options{Devices: "cpu/2", Spares: "cpu:1", Funcs: funcs(nil)})
	names := []string{s.devices[0].name, s.devices[1].name}
	if got := on(t, s, "m"); !slices.Equal(got, names[:1]) {
		t.Fatalf("before the swap the model is on %v", got)
	}
	os.WriteFile(filepath.Join(folder, "m", "w.bin"), floats(7, 7, 7), 0o644)
	stop := make(chan struct{})
	var all sync.WaitGroup
	var asked [2]atomic.Int64
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := s.Infer(t.Context(), ask("m", 1, 2, 3))
				if err != nil || !bytes.Equal(r.Outputs[0].Data, want(ten, 1, 2, 3)) {
					t.Errorf("while devices are swapped: %v", err)
					return
				}
				asked[slices.Index(names, r.Device)].Add(1)
			}
		})
	}
	for i, swap := range [][2]int{{0, 1}, {1, 0}, {0, 1}} {
		before := asked[swap[0]].Load()
		poll.True(t, "the first device answers", func() bool { return asked[swap[0]].Load() > before || t.Failed() })
		if err := s.rt.Swap(t.Context(), names[swap[0]], names[swap[1]]); err != nil {
			t.Fatalf("swap %d: %v", i, err)
		}
	}
	before := asked[1].Load()
	poll.True(t, "the second device answers", func() bool { return asked[1].Load() > before || t.Failed() })
	close(stop)
	all.Wait()
	if err := s.Ready(); err != nil || !slices.Equal(on(t, s, "m"), names[1:]) {
		t.Errorf("after the swap the model is on %v: %v", on(t, s, "m"), err)
	}
}

// A device that is put into service after a model was loaded gets it, with as many copies as
// model.yaml allows.
func TestDeviceComes(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "all"), "mul", 1, "")
	put(t, filepath.Join(folder, "one"), "mul", 1, "copies: 1\n")
	s := openWith(t, folder, weft.Options{Devices: "cpu/2", Spares: "cpu:0", Funcs: funcs(nil)})
	first, second := s.devices[0].name, s.devices[1].name
	if err := s.rt.Undrain(first); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the model is on both", func() bool { return len(on(t, s, "all")) == 2 })
	if got := on(t, s, "one"); !slices.Equal(got, []string{second}) {
		t.Errorf("the model of one copy is on %v", got)
	}
	if err := s.rt.Drain(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"all", "one"} {
		poll.True(t, "it is on the one that is left", func() bool { return slices.Equal(on(t, s, name), []string{first}) && s.Ready() == nil })
		if r, err := s.Infer(t.Context(), ask(name, 1, 2, 3)); err != nil || r.Device != first {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if err := s.rt.Undrain(second); err != nil {
		t.Fatal(err)
	}
	poll.True(t, "the model is on both again", func() bool { return len(on(t, s, "all")) == 2 })
	if got := on(t, s, "one"); !slices.Equal(got, []string{first}) {
		t.Errorf("the model of one copy is on %v", got)
	}
	for _, d := range s.devices {
		if n := map[string]int64{first: 2, second: 1}[d.name] * s.models["all"]["1"].bytes; d.bytes != n {
			t.Errorf("%s holds %d bytes, not %d", d.name, d.bytes, n)
		}
	}
}

// Where no device takes work, requests are refused and nothing is ready, until one does; that
// holds for a model that the runtime places too, and for one that is loaded meanwhile.
func TestNoDevice(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 1, "")
	writeReservoir(t, filepath.Join(folder, "r"), "batch: 4\n")
	for _, devices := range []string{"cpu", "cpu/2"} {
		t.Run(devices, func(t *testing.T) {
			s := openWith(t, folder, weft.Options{Devices: devices, Funcs: funcs(nil)})
			if err := s.Ready(); err != nil {
				t.Fatal(err)
			}
			for _, d := range s.devices {
				s.deviceIs(d.name, "broken")
			}
			late := filepath.Join(folder, "late")
			put(t, late, "mul", 1, "")
			defer os.RemoveAll(late)
			if err := s.Load(t.Context(), "late"); err == nil {
				t.Error("a model is loaded without a device")
			}
			for _, name := range []string{"m", "r", "late"} {
				if _, err := s.Infer(t.Context(), ask(name, 1, 2, 3)); !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s without a device: %v", name, err)
				}
				if i, err := s.Model(name, ""); err != nil || i.State == Ready || !strings.Contains(i.Reason, "no device") {
					t.Errorf("%s without a device: %+v, %v", name, i, err)
				}
			}
			if err := s.Ready(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no device") {
				t.Errorf("ready without a device: %v", err)
			}
			s.deviceIs(s.devices[0].name, "healthy")
			poll.True(t, "models are served again", func() bool { return s.Ready() == nil })
			for _, name := range []string{"m", "late"} {
				if r, err := s.Infer(t.Context(), ask(name, 1, 2, 3)); err != nil || r.Device != s.devices[0].name {
					t.Errorf("%+v, %v", r, err)
				}
			}
			r, err := s.Infer(t.Context(), &Request{Model: "r", Inputs: []Tensor{{Name: "input", Type: FP32, Shape: []int64{1, 5, 4}, Data: make([]byte, 80)}}})
			if err != nil || r.Device != s.devices[0].name || !slices.Equal(on(t, s, "r"), []string{r.Device}) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// While a device that was lost is brought back and none other takes work, requests wait for it:
// of a model that is put on devices, and of one that the runtime places. If it cannot be brought
// back those that come are refused.
func TestReturning(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 1, "")
	writeReservoir(t, filepath.Join(folder, "r"), "batch: 4\n")
	questions := []*Request{ask("m", 1, 2, 3), {Model: "r", Inputs: []Tensor{{Name: "input", Type: FP32, Shape: []int64{1, 5, 4}, Data: make([]byte, 80)}}}}
	for _, devices := range []string{"cpu", "cpu/2"} {
		t.Run(devices, func(t *testing.T) {
			s := openWith(t, folder, weft.Options{Devices: devices, Funcs: funcs(nil)})
			all := func(state string) {
				for _, d := range s.devices {
					s.deviceIs(d.name, state)
				}
			}
			all("lost")
			answers := make(chan error, len(questions))
			for _, r := range questions {
				go func() {
					_, err := s.Infer(t.Context(), r)
					answers <- err
				}()
			}
			poll.True(t, "requests wait", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.models["m"]["1"].mod.Waiting()+s.models["r"]["1"].mod.Waiting() == len(questions) || len(answers) > 0
			})
			if err := s.Ready(); !errors.Is(err, ErrUnavailable) {
				t.Errorf("ready while no device takes work: %v", err)
			}
			s.deviceIs(s.devices[0].name, "healthy")
			for range questions {
				if err := <-answers; err != nil {
					t.Errorf("a request that waited: %v", err)
				}
			}
			poll.True(t, "models are served again", func() bool { return s.Ready() == nil })
			all("lost")
			all("broken")
			for _, r := range questions {
				if _, err := s.Infer(t.Context(), r); !errors.Is(err, ErrUnavailable) {
					t.Errorf("a request when no device comes back: %v", err)
				}
			}
		})
	}
}

// While the newest version goes from one device to another, an older one does not answer in
// its place; where no device takes it, the older one does.
func TestNewestMoves(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m", "1"), "mul", 1, "")
	put(t, filepath.Join(folder, "m", "2"), "mul", 1, "")
	s := openWith(t, folder, weft.Options{Devices: "cpu", Funcs: funcs(nil)})
	s.mu.Lock()
	defer s.mu.Unlock()
	newest := s.models["m"]["2"]
	devices := newest.devices
	for _, expected := range []bool{true, false} {
		newest.devices, newest.expected = nil, expected
		if v := s.pick("m", ""); (v == newest) != expected {
			t.Errorf("expected %v: version %s answers", expected, v.number)
		}
	}
	newest.devices = devices
}

// writeReservoir writes a reservoir of 50 neurons that takes 5 steps of 4 channels.
func writeReservoir(t *testing.T, folder, more string) {
	t.Helper()
	p := reservoir.Defaults()
	p.Size, p.Inputs = 50, 4
	w, err := reservoir.New(p)
	if err != nil {
		t.Fatal(err)
	}
	m := &reservoir.Model{Weights: w, Steps: 5, Mode: reservoir.Sequence, Feature: reservoir.Last,
		Readout: &reservoir.Readout{Outputs: 2, Inputs: 50, Weights: make([]float64, 2*51)}}
	for i := range m.Readout.Weights {
		m.Readout.Weights[i] = float64(i%7) - 3
	}
	var file bytes.Buffer
	if _, err := m.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	os.Mkdir(folder, 0o755)
	os.WriteFile(filepath.Join(folder, "r.safetensors"), file.Bytes(), 0o644)
	os.WriteFile(filepath.Join(folder, "model.yaml"), []byte("kind: reservoir\nfile: r.safetensors\n"+more), 0o644)
}

// A reservoir of a few kilobytes does not get gigabytes for its batches, whatever it asks for.
func TestReservoirMemory(t *testing.T) {
	folder := t.TempDir()
	writeReservoir(t, filepath.Join(folder, "r"), "batch: 1000\nmemory: 800KiB\n") // 80 + 4·200 bytes each
	writeReservoir(t, filepath.Join(folder, "fits"), "batch: 1000\nmemory: 900KiB\n")
	s := openWith(t, folder, weft.Options{Devices: "cpu", Funcs: funcs(nil)})
	if i, _ := s.Model("r", ""); i.State != Failed || !strings.Contains(i.Reason, "a batch of 1000 takes") || !strings.Contains(i.Reason, "greater memory, in model.yaml") {
		t.Errorf("%+v", i)
	}
	if i, _ := s.Model("fits", ""); i.State != Ready {
		t.Errorf("%+v", i)
	}
	drv, err := fake.New(fake.Options{MemBytes: 500 << 10, Funcs: funcs(nil)})
	if err != nil {
		t.Fatal(err)
	}
	small := openWith(t, folder, weft.Options{Drivers: []driver.Driver{drv}})
	if i, _ := small.Model("fits", ""); i.State != Failed || !strings.Contains(i.Reason, "fake:0 has room for 5") || !strings.Contains(i.Reason, "a smaller batch takes less") {
		t.Errorf("on a device without the memory: %+v", i)
	}
}

// A device that is lost with its memory and brought back has the models again. Where there is
// another one no request notices; where there is none, requests are refused at worst.
func TestLostAndBack(t *testing.T) {
	for devices := 1; devices <= 2; devices++ {
		t.Run(fmt.Sprint(devices), func(t *testing.T) {
			folder := t.TempDir()
			put(t, filepath.Join(folder, "m"), "mul", 4, "")
			drv, err := fake.New(fake.Options{Devices: devices, MemBytes: 1 << 20, Funcs: funcs(nil)})
			if err != nil {
				t.Fatal(err)
			}
			s := openWith(t, folder, weft.Options{Drivers: []driver.Driver{drv}})
			stop := make(chan struct{})
			var all sync.WaitGroup
			var answered atomic.Int64
			for range 3 {
				all.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						r, err := s.Infer(t.Context(), ask("m", 1, 2, 3))
						switch {
						case err == nil && bytes.Equal(r.Outputs[0].Data, want(ten, 1, 2, 3)):
							answered.Add(1)
						case devices > 1 || !errors.Is(err, ErrUnavailable) && !errors.As(err, new(*BusyError)):
							t.Errorf("while a device is lost: %v", err)
							return
						}
					}
				})
			}
			for i := range int64(3) {
				before := answered.Load()
				poll.True(t, "requests are answered", func() bool { return answered.Load() > before+10 || t.Failed() })
				if err := drv.Play("on 0 lose"); err != nil {
					t.Fatal(err)
				}
				poll.True(t, "it is lost", func() bool { return s.rt.Metrics().Devices[0].Losses > i })
				poll.True(t, "it is back with the model", func() bool { return len(on(t, s, "m")) == devices && s.Ready() == nil || t.Failed() })
			}
			before := answered.Load()
			poll.True(t, "requests are answered", func() bool { return answered.Load() > before+10 || t.Failed() })
			close(stop)
			all.Wait()
		})
	}
}

// A version that failed for want of a device and whose folder has gone stays as it is when one comes.
func TestFolderGone(t *testing.T) {
	folder := t.TempDir()
	put(t, filepath.Join(folder, "m"), "mul", 1, "")
	s := openWith(t, folder, weft.Options{Devices: "cpu", Funcs: funcs(nil)})
	s.deviceIs(s.devices[0].name, "lost")
	late := filepath.Join(folder, "late")
	put(t, filepath.Join(late, "1"), "mul", 1, "")
	if err := s.Load(t.Context(), "late"); !errors.Is(err, errNoPlace) {
		t.Fatal(err)
	}
	put(t, filepath.Join(late, "2"), "mul", 1, "")
	if err := os.RemoveAll(filepath.Join(late, "1")); err != nil {
		t.Fatal(err)
	}
	s.deviceIs(s.devices[0].name, "healthy")
	s.place()
	if i, err := s.Model("late", "1"); err != nil || i.State != Failed {
		t.Errorf("a version without a folder: %+v, %v", i, err)
	}
}

// A device that is lost while a model is put on others is none of the model's.
func TestLostWhileLoading(t *testing.T) {
	folder, open := t.TempDir(), make(chan struct{})
	var s *Service
	var inside atomic.Int64
	second := func(c *weft.Call, lo, hi int) { // waits on all devices but the first
		s.mu.Lock()
		wait := s.making != nil && len(s.making.devices) > 0
		s.mu.Unlock()
		if inside.Add(1); wait {
			<-open
		}
	}
	list := funcs(nil)
	list["second"] = second
	s = openWith(t, folder, weft.Options{Devices: "cpu/2", Funcs: list})
	put(t, filepath.Join(folder, "m"), "second", 1, "warmup: 1\n")
	loaded := make(chan error, 1)
	go func() { loaded <- s.Load(t.Context(), "m") }()
	poll.True(t, "it is on the first device", func() bool { return inside.Load() == 2 })
	s.mu.Lock()
	first := s.making.devices[0]
	s.mu.Unlock()
	s.deviceIs(first.name, "lost")
	close(open)
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	if got := on(t, s, "m"); len(got) != 1 || got[0] == first.name || first.bytes != 0 {
		t.Errorf("after the loss of %s, which holds %d bytes, it is on %v", first.name, first.bytes, got)
	}
	s.deviceIs(first.name, "healthy")
	poll.True(t, "it is on both", func() bool { return len(on(t, s, "m")) == 2 })
}

// A model that fails on all devices failed by itself, and is not tried again when a device comes; one
// that fails while a device is away is.
func TestFailsItself(t *testing.T) {
	folder := t.TempDir()
	list := funcs(nil)
	var well atomic.Bool
	list["ill"] = func(c *weft.Call, lo, hi int) {
		if !well.Load() {
			c.Fail(errors.New("it is ill"))
		}
	}
	put(t, filepath.Join(folder, "m"), "ill", 1, "warmup: 1\n")
	s := openWith(t, folder, weft.Options{Devices: "cpu/2", Funcs: list})
	i, err := s.Model("m", "")
	if err != nil || i.State != Failed || strings.Contains(i.Reason, errNoPlace.Error()) || !strings.Contains(i.Reason, "it is ill") {
		t.Errorf("%+v, %v", i, err)
	}
	s.deviceIs(s.devices[1].name, "lost")
	if err := s.Load(t.Context(), "m"); !errors.Is(err, errNoPlace) || !strings.Contains(err.Error(), "it is ill") {
		t.Errorf("while a device is away: %v", err)
	}
	well.Store(true)
	s.deviceIs(s.devices[1].name, "healthy")
	poll.True(t, "it is served", func() bool { return s.Ready() == nil })
}

// A request whose devices are lost again and again fails, and says why.
func TestLostTooOften(t *testing.T) {
	folder, g := t.TempDir(), &gate{open: make(chan struct{})}
	put(t, filepath.Join(folder, "m"), "held", 1, "warmup: 0\n")
	s := openWith(t, folder, weft.Options{Devices: "cpu", Funcs: funcs(g)})
	answered := make(chan error, 1)
	go func() {
		_, err := s.Infer(t.Context(), ask("m", 1, 2, 3))
		answered <- err
	}()
	for {
		var err error
		over := false
		poll.True(t, "it is computed or has failed", func() bool {
			select {
			case err = <-answered:
				over = true
			default:
			}
			return over || g.inside.Load() > 0
		})
		if over {
			if !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "%!") || !strings.Contains(err.Error(), "is lost") {
				t.Errorf("%v", err)
			}
			return
		}
		s.deviceIs(s.devices[0].name, "lost")
		poll.True(t, "the kernel has stopped", func() bool { return g.inside.Load() == 0 })
		s.deviceIs(s.devices[0].name, "healthy")
	}
}
