//go:build linux

package siege

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/serve/load"
)

// wrongVar has workers answer differently every time.
const wrongVar = "WEFT_TEST_WRONG"

func TestMain(m *testing.M) {
	proc.Main(chaos.Makers(funcs))
	os.Exit(m.Run())
}

// funcs has a kernel that doubles and takes a few milliseconds, so that workers die in it.
func funcs() map[string]driver.Func {
	return map[string]driver.Func{"twice": func(c *driver.Call, lo, hi int) {
		x, y := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[1])
		for end := time.Now().Add(3 * time.Millisecond); time.Now().Before(end); {
			for i := range y {
				y[i] = 2 * x[i]
			}
		}
		if os.Getenv(wrongVar) != "" {
			y[0] = float32(time.Now().Nanosecond())
		}
	}}
}

// putModel writes a model of that kernel and returns the folder of models.
func putModel(t *testing.T) string {
	t.Helper()
	models := t.TempDir()
	folder := filepath.Join(models, "twice")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"model.yaml": "kind: graph\nfile: m.json\nbatch: 4\n",
		"m.json": `{
  "data": [
    {"name": "x", "dtype": "float32", "shape": [4, 3], "input": true},
    {"name": "y", "dtype": "float32", "shape": [4, 3], "output": true}
  ],
  "kernels": [{"name": "twice", "impls": [{"dialect": "go", "entry": "twice"}]}],
  "tasks": [{"kernel": "twice", "grid": 1, "uses": [{"data": "x"}, {"data": "y", "access": "write"}]}]
}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return models
}

// Workers are killed under load, with a second device, with a standby, or with neither, where
// requests wait for the device: every request is answered, and rightly.
func TestNoneLost(t *testing.T) {
	models := putModel(t)
	for _, c := range []struct {
		devices string
		standby bool
	}{{"cpu/2", false}, {"fake/1", false}, {"cpu/1", true}} {
		told := 0
		s := &Siege{
			Options: weft.Options{Devices: c.devices, Standby: c.standby}, Models: models, Timeout: time.Minute,
			Rate: 150, For: 2 * time.Second, Every: 300 * time.Millisecond, Told: func(int, time.Duration) { told++ },
		}
		a := &Account{}
		for a.Kills == 0 && s.Seed < 10 { // a machine that stands still for seconds lets the time for kills pass
			s.Seed++
			var err error
			if a, err = s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if a.Sent == 0 || a.Succeeded != a.Sent || a.Success != 1 || len(a.Failed) > 0 || a.Wrong > 0 {
			t.Errorf("%s: %+v", c.devices, *a)
		}
		if a.Kills == 0 || a.Losses > a.Kills || told != a.Kills || a.DetectMS.N != a.Losses || a.LatencyMS.N != int(a.Sent) || a.StruckMS.N+a.QuietMS.N != a.LatencyMS.N {
			t.Errorf("%s: counts of %+v", c.devices, *a)
		}
		if n := len(proc.Pids("")); n > 0 {
			t.Errorf("%s: %d processes are left", c.devices, n)
		}
	}
}

func TestWrongIsFound(t *testing.T) {
	t.Setenv(wrongVar, "1")
	s := &Siege{Options: weft.Options{Devices: "cpu/1"}, Models: putModel(t), Rate: 10, For: time.Second, Every: time.Hour, Seed: 1}
	a, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a.Checked == 0 || a.Wrong != a.Checked || a.Kills != 0 {
		t.Errorf("every answer differs: %+v", *a)
	}
}

func TestRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(s *Siege)
		want   string
		is     error
	}{
		{func(s *Siege) { s.Rate = 0 }, "a rate of 0", ErrOption},
		{func(s *Siege) { s.For = -time.Second }, "duration", ErrOption},
		{func(s *Siege) { s.Every = time.Millisecond }, "10ms at least", ErrOption},
		{func(s *Siege) { s.Rate, s.For = 1e6, time.Hour }, "more than 50000000", ErrOption},
		{func(s *Siege) { s.Options.Devices = "rocm:0" }, "rocm", chaos.ErrDevices},
		{func(s *Siege) { s.Models = "/no/such/folder" }, "no such file", nil},
	} {
		s := &Siege{Options: weft.Options{Devices: "cpu/1"}, Rate: 10, For: time.Second, Every: time.Second}
		c.change(s)
		a, err := s.Run(t.Context())
		if err == nil || a != nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%q: %+v, %v", c.want, a, err)
		}
	}
}

// Two kills at 10 s and 11.5 s. Of what was under way at the first one answer came after the
// loss was known; the second struck a standby.
func TestTimes(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	f := &field{
		Siege: &Siege{},
		kills: []*kill{{at: at(10_000), lost: at(10_002), back: at(10_050)}, {at: at(11_500)}},
		requests: []request{ // in the order of their ends
			{at(9_000), at(9_004), true}, {at(9_998), at(10_001), true}, {at(9_999), at(10_030), true}, {at(10_500), at(10_540), true},
			{at(10_600), at(10_660), false}, {at(11_200), at(11_206), true}, {at(11_600), at(11_607), true}, {at(12_501), at(12_503), true},
		},
	}
	var a Account
	f.times(&a)
	for _, c := range []struct {
		what      string
		got, want chaos.Spread
	}{
		{"all", a.LatencyMS, chaos.Spread{N: 7, P50: 6, P99: 40, Max: 40}},
		{"struck", a.StruckMS, chaos.Spread{N: 2, P50: 7, P99: 40, Max: 40}},
		{"quiet", a.QuietMS, chaos.Spread{N: 5, P50: 4, P99: 31, Max: 31}},
		{"seconds", a.SecondsMS, chaos.Spread{N: 2, P50: 7, P99: 40, Max: 40}},
		{"detection", a.DetectMS, chaos.Spread{N: 1, P50: 2, P99: 2, Max: 2}},
		{"answer", a.AnswerMS, chaos.Spread{N: 1, P50: 28, P99: 28, Max: 28}},
		{"back", a.BackMS, chaos.Spread{N: 1, P50: 48, P99: 48, Max: 48}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, c.got, c.want)
		}
	}
	if a.Losses != 1 {
		t.Errorf("%d losses", a.Losses)
	}
}

// Devices are swapped, drained and returned by a client while requests come: all are answered,
// each once.
func TestSwapUnderLoad(t *testing.T) {
	rig, err := chaos.Open(t.Context(), weft.Options{Devices: "cpu/3", Spares: "cpu:2"}, chaos.Workers{})
	if err != nil {
		t.Fatal(err)
	}
	defer rig.Close()
	config := serve.DefaultConfig()
	config.Models, config.Batch.Deadline = putModel(t), serve.Duration(time.Minute)
	config.Listen, config.GRPC = "127.0.0.1:0", "none"
	server, err := serve.Open(rig.Runtime, config, serve.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(context.WithoutCancel(t.Context()))
	defer server.Close()
	if err := server.Loaded(t.Context()); err != nil {
		t.Fatal(err)
	}
	target, err := load.ParseTarget(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := load.Open(t.Context(), load.Options{Target: target, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	before := server.Models()[0]
	type loaded struct {
		r   *load.Result
		err error
	}
	over := make(chan loaded, 1)
	go func() {
		r, err := client.Run(t.Context(), load.Pace{Rate: 60, Duration: 2 * time.Second})
		over <- loaded{r, err}
	}()
	c, err := api.NewClient(server.URL(), api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var names []string
	for _, d := range rig.Devices() {
		names = append(names, d.Name)
	}
	changes := 0
	for i := 0; ; i++ {
		// The first of three goes out, the third comes in; then two are drained and come back.
		from, to, other := names[i%3], names[(i+2)%3], names[(i+1)%3]
		for _, do := range []func() (api.Device, error){
			func() (api.Device, error) { return c.Swap(t.Context(), from, to) },
			func() (api.Device, error) { return c.Drain(t.Context(), other) },
			func() (api.Device, error) { return c.Undrain(t.Context(), other) },
		} {
			// On a machine that stands still for seconds a worker passes for hung, and its device is lost.
			if d, err := do(); err != nil && rig.Metrics().Losses == 0 {
				t.Fatalf("change %d of %s: %+v, %v", changes, from, d, err)
			}
			changes++
			time.Sleep(20 * time.Millisecond) // or no device would serve for long enough to matter
		}
		select {
		case l := <-over:
			after := server.Models()[0]
			if l.err != nil || l.r.Answered != l.r.Arrived || l.r.Arrived == 0 {
				t.Errorf("after %d changes %+v, %v", changes, l.r, l.err)
			}
			if n := after.Succeeded - before.Succeeded; n != l.r.Answered || after.Requests-before.Requests != n {
				t.Errorf("%d requests were answered %d times, of %d that came", l.r.Answered, n, after.Requests-before.Requests)
			}
			return
		default:
		}
	}
}
