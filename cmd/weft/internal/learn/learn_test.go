package learn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/workload/reservoir"
)

func open(t *testing.T) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(context.Background(), weft.Options{Devices: "cpu", Funcs: reservoir.Funcs(), NoCalibrate: true, CacheDir: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	return rt
}

func run(t *testing.T, rt *weft.Runtime, task *Task) *Result {
	t.Helper()
	r, err := task.Run(context.Background(), rt, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %d neurons: %.4f in training, %.4f in testing", task.Name, task.Params.Size, r.Trained, r.Tested)
	return r
}

func TestNARMA10(t *testing.T) {
	rt := open(t)
	if r := run(t, rt, NARMA10(200, 1)); !(r.Tested <= 0.20) {
		t.Errorf("NRMSE %.4f, want at most 0.20", r.Tested)
	}
	if testing.Short() {
		return
	}
	if r := run(t, rt, NARMA10(500, 1)); !(r.Tested <= 0.14) {
		t.Errorf("NRMSE %.4f, want at most 0.14", r.Tested)
	}
}

func TestDigits(t *testing.T) {
	size, least := 500, 0.92
	if testing.Short() {
		size, least = 200, 0.85
	}
	task, err := Digits(size, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(task.Train) != 1200 || len(task.Test) != 597 || task.Params.Inputs != 64 || task.Model.Steps != 20 {
		t.Fatalf("%d and %d images", len(task.Train), len(task.Test))
	}
	rt := open(t)
	if r := run(t, rt, task); !(r.Tested >= least) {
		t.Errorf("%.4f are told right, want %v", r.Tested, least)
	}
	if testing.Short() {
		return
	}
	// Histograms know no channels: hardly better than chance.
	task.Model.Mode, task.Model.Steps = reservoir.Histogram, 1
	if r := run(t, rt, task); r.Tested > 0.3 {
		t.Errorf("%.4f are told right by histograms", r.Tested)
	}
}

func TestCapacity(t *testing.T) {
	rt := open(t)
	seeds := 10
	if testing.Short() {
		seeds = 3
	}
	mean := 0.0
	for seed := range seeds {
		m, c, err := Capacity(context.Background(), rt, Memory(100, uint32(seed)))
		if err != nil {
			t.Fatal(err)
		}
		if c > 100 || m.Validate() != nil {
			t.Errorf("seed %d: capacity %.1f of 100 neurons, %v", seed, c, m.Validate())
		}
		mean += c / float64(seeds)
	}
	t.Logf("memory capacity %.1f", mean)
	if mean < 27 || mean > 33 {
		t.Errorf("memory capacity %.1f, want 27 to 33", mean)
	}
}

func TestScore(t *testing.T) {
	targets := [][]float64{{1, 0}, {0, 1}, {1, 0}, {0, 1}}
	outputs := [][]float64{{0.6, 0.3}, {0.2, 0.1}, {0.1, 0}, {-2, -1}}
	if got := Score(outputs, targets, true); got != 0.75 {
		t.Errorf("%v right, want 0.75", got)
	}
	// Off by 0.5 everywhere, and the targets' deviation is 0.5.
	if got := Score([][]float64{{0.5}, {0.5}}, [][]float64{{1}, {0}}, false); math.Abs(got-1) > 1e-12 {
		t.Errorf("NRMSE %v, want 1", got)
	}
}

const lines = `{"duration": 10, "spikes": [[0, 1], [1, 2, 0.5]], "label": "a"}

{"duration": 10, "spikes": [[4, 1.5]], "label": "b"}
`

func TestFiles(t *testing.T) {
	var f Files
	for range 30 {
		if err := f.Read("x", strings.NewReader(lines)); err != nil {
			t.Fatal(err)
		}
	}
	task, err := f.Task(40, 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(task.Train) != 45 || len(task.Test) != 15 || task.Params.Inputs != 5 || fmt.Sprint(task.Model.Labels) != "[a b]" {
		t.Fatalf("%d and %d samples, %d channels, labels %v", len(task.Train), len(task.Test), task.Params.Inputs, task.Model.Labels)
	}
	if s := task.Train[0].Pattern.Spikes[1]; s != (reservoir.Spike{Channel: 1, Time: 2, Amplitude: 0.5}) {
		t.Errorf("spike %+v", s)
	}
	if r := run(t, open(t), task); r.Tested != 1 {
		t.Errorf("%v are told right", r.Tested)
	}
}

func TestFilesRefuse(t *testing.T) {
	ok := `{"duration": 10, "spikes": [[0, 1]], "label": "a"}` + "\n"
	for text, says := range map[string]string{
		`[]`:       "x:1",
		ok + `{`:   "x:2",
		`{"a": 1}`: "unknown field",
		`{"duration": 10, "spikes": [], "label": "a"}`:                     "without spikes",
		`{"duration": 10, "spikes": [[0]], "label": "a"}`:                  "write [CHANNEL",
		`{"duration": 10, "spikes": [[0.5, 1]], "label": "a"}`:             "channel 0.5",
		`{"duration": 10, "spikes": [[40000, 1]], "label": "a"}`:           "channel 40000",
		`{"duration": 10, "spikes": [[0, 11]], "label": "a"}`:              "outside",
		`{"duration": 10, "spikes": [[0, 1]]}`:                             "label",
		`{"duration": 10, "spikes": [[0, 1]], "label": "a", "target":[1]}`: "not both",
		`{"duration": 10, "spikes": [[0, 1]], "target":[]}`:                "no number",
		`{"duration": 10, "spikes": [[0, 1]], "target":[-1e31]}`:           "beyond",
		ok + `{"duration": 10, "spikes": [[0, 1]], "target":[1]}`:          "use one for all",
		strings.TrimSpace(ok) + ok:                                         "more than one",
	} {
		var f Files
		if err := f.Read("x", strings.NewReader(text)); !errors.Is(err, ErrTask) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	var f Files
	if _, err := f.Task(10, 1); !errors.Is(err, ErrTask) {
		t.Errorf("no patterns: %v", err)
	}
	if err := f.Read("x", strings.NewReader(strings.Repeat(ok, 9))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Task(10, 1); !errors.Is(err, ErrTask) {
		t.Errorf("one label: %v", err)
	}
	f = Files{}
	if err := f.Read("x", strings.NewReader(strings.Repeat(`{"duration": 10, "spikes": [[0, 1]], "target": [2]}`+"\n", 9))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Task(10, 1); !errors.Is(err, ErrTask) {
		t.Errorf("one target: %v", err)
	}
}

// What is read makes a task whose patterns a reservoir takes, whatever the file has.
func FuzzFiles(f *testing.F) {
	f.Add(lines)
	f.Add(`{"duration": 1e-300, "spikes": [[0, 0, -1]], "target": [1, 2]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var files Files
		if files.Read("x", strings.NewReader(text)) != nil {
			return
		}
		task, err := files.Task(10, 1)
		if err != nil {
			return
		}
		for _, s := range append(task.Train, task.Test...) {
			if err := s.Pattern.Validate(task.Params.Inputs); err != nil || len(s.Target) == 0 {
				t.Fatalf("%+v: %v", s, err)
			}
		}
	})
}
