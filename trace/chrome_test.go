package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

var testNames = Names{
	Task:   func(run int32, t graph.TaskID) string { return fmt.Sprintf("stage \"%d\"\n%d", run, t) },
	Kernel: func(run int32, t graph.TaskID) string { return "sgemm" },
}

func written(t testing.TB, m *machine.Machine, evs []Event, n Names) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteChrome(&b, m, evs, n); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestChromeIsValid reads exports with encoding/json alone and checks what a
// viewer relies on.
func TestChromeIsValid(t *testing.T) {
	for _, s := range scenarios() {
		var file struct {
			TraceEvents []struct {
				Name string
				Ph   string
				Pid  *int
				Tid  *int
				Ts   *float64
				Dur  *float64
				ID   int
				Args map[string]any
			}
		}
		if err := json.Unmarshal(written(t, s.m, s.evs, testNames), &file); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		count := make(map[string]int)
		processes := make(map[int]string)
		starts := make(map[int]float64)
		for _, e := range file.TraceEvents {
			count[e.Ph]++
			if e.Pid == nil || e.Tid == nil || e.Ts == nil {
				t.Errorf("%s: %q of %q has no pid, tid or ts", s.name, e.Ph, e.Name)
				continue
			}
			switch e.Ph {
			case "M":
				if e.Name == "process_name" {
					processes[*e.Pid] = e.Args["name"].(string)
				}
			case "X":
				if e.Dur == nil {
					t.Errorf("%s: slice %q has no dur", s.name, e.Name)
				}
				if processes[*e.Pid] == "" {
					t.Errorf("%s: slice %q in a process without name", s.name, e.Name)
				}
			case "s":
				starts[e.ID] = *e.Ts
			case "f":
				if from, ok := starts[e.ID]; !ok || from > *e.Ts {
					t.Errorf("%s: arrow %d ends at %v, before it starts", s.name, e.ID, *e.Ts)
				}
			}
		}
		slices, instants := 0, 0
		for _, e := range s.evs {
			if e.Kind.lasts() {
				slices++
			} else {
				instants++
			}
		}
		if count["X"] != slices || count["i"] != instants || count["s"] != count["f"] {
			t.Errorf("%s: %d slices of %d, %d instants of %d, %d and %d arrow ends", s.name,
				count["X"], slices, count["i"], instants, count["s"], count["f"])
		}
		if s.name == "transfer" && count["s"] != 2 {
			t.Errorf("producer, copy and consumer have %d arrows, want 2", count["s"])
		}
		if s.name == "imbalance" && count["C"] == 0 {
			t.Error("no counter of queued tasks")
		}
	}
}

// TestChromeRoundTrip has every field survive, to the nanosecond.
func TestChromeRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := devices(3)
	m.Devices[1].Rates.LaunchNS = 7500.5
	m.Devices[2].Rates.Ops[graph.FP32] = 5.1e13
	var evs []Event
	for i := range 500 {
		big := func() time.Duration { return time.Duration(rng.Int64N(1 << 50)) }
		e := Event{Kind: Kind(i % len(kindNames)), Failed: i%7 == 0, Lane: uint8(rng.IntN(256)), Width: uint8(rng.IntN(256)),
			Device: machine.DeviceID(rng.IntN(4) - 1), From: machine.DeviceID(rng.IntN(4) - 1),
			Run: rng.Int32(), Task: graph.TaskID(i - 1), Ready: big(), Issued: big(), Start: big(),
			InputsAt: big(), Predicted: big(), Bytes: rng.Int64()}
		e.End = e.Start + big()
		evs = append(evs, e)
	}
	s, err := ReadChrome(bytes.NewReader(written(t, m, evs, testNames)))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Events, evs) {
		for i := range min(len(evs), len(s.Events)) {
			if s.Events[i] != evs[i] {
				t.Fatalf("event %d: got %+v, want %+v", i, s.Events[i], evs[i])
			}
		}
		t.Fatalf("%d events came back of %d", len(s.Events), len(evs))
	}
	for d := range m.Devices {
		got, want := s.Machine.Devices[d], m.Devices[d]
		if got.Name != want.Name || got.Lanes != want.Lanes || got.Rates != want.Rates || got.Model != want.Model {
			t.Errorf("device %d: got %+v, want %+v", d, got, want)
		}
	}
	for _, e := range evs {
		if e.Kind == Exec && (s.Names.Task(e.Run, e.Task) != testNames.Task(e.Run, e.Task) || s.Names.Kernel(e.Run, e.Task) != "sgemm") {
			t.Errorf("task %d of run %d is called %q, %q", e.Task, e.Run, s.Names.Task(e.Run, e.Task), s.Names.Kernel(e.Run, e.Task))
		}
	}
}

// TestSavedTraceAnalysesAlike has a file give the analysis the run gave.
func TestSavedTraceAnalysesAlike(t *testing.T) {
	for _, s := range scenarios() {
		saved, err := ReadChrome(bytes.NewReader(written(t, s.m, s.evs, Names{})))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		var live, read bytes.Buffer
		if err := WriteAnalysis(&live, Analyze(s.m, s.evs, nil)); err != nil {
			t.Fatal(err)
		}
		if err := WriteAnalysis(&read, Analyze(saved.Machine, saved.Events, nil)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(live.Bytes(), read.Bytes()) {
			t.Errorf("%s: analysis of the file:\n%s\nof the run:\n%s", s.name, read.Bytes(), live.Bytes())
		}
	}
}

func TestMicros(t *testing.T) {
	for _, c := range []struct {
		t    time.Duration
		want string
	}{{0, "0.000"}, {1, "0.001"}, {-1, "-0.001"}, {12345678, "12345.678"}, {-1000, "-1.000"}, {1 << 56, "72057594037927.936"}} {
		if got := string(appendMicros(nil, c.t)); got != c.want {
			t.Errorf("%d ns is written %s, want %s", c.t, got, c.want)
		}
		if got, err := parseMicros(c.want); got != c.t || err != nil {
			t.Errorf("%s reads as %d, %v", c.want, got, err)
		}
	}
	for _, bad := range []string{"", "1e3", "1.0000", "--1", "+1", "1.-2", "99999999999999999999", "x"} {
		if got, err := parseMicros(bad); err == nil {
			t.Errorf("%q reads as %v", bad, got)
		}
	}
}

func TestReadChromeRefuses(t *testing.T) {
	good := string(written(t, devices(2), []Event{exec(1, 1, 0, ms, 0), change(Lost, 1, ms)}, Names{}))
	change := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in %s", old, good)
		}
		return strings.ReplaceAll(good, old, new)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"no object":        "[]",
		"a string":         "\"a\\nb\"",
		"other file":       `{"traceEvents":[]}`,
		"truncated":        good[:len(good)-10],
		"newer":            change(`"weft":1`, `"weft":2`),
		"unknown kind":     change(`"cat":"lost"`, `"cat":"gone\n"`),
		"instant as slice": change(`"ph":"i"`, `"ph":"X"`),
		"no device":        change(`"device":1`, `"device":2`),
		"negative device":  change(`"device":1`, `"device":-2`),
		"no source":        change(`"from":-1`, `"from":2`),
		"lane":             change(`"lane":0`, `"lane":256`),
		"no ts":            change(`"ts":1000.000`, `"at":0`),
		"negative dur":     change(`"dur":1000.000`, `"dur":-1`),
		"no args":          change(`"args":{"run"`, `"more":{"run"`),
		"far future":       change(`"ts":1000.000`, `"ts":99999999999999999`),
	} {
		_, err := ReadChrome(strings.NewReader(text))
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v", name, err)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error of several lines %q", name, err)
		}
	}
}

type failingWriter struct{ room int }

var errFull = errors.New("disk full")

func (w *failingWriter) Write(p []byte) (int, error) {
	if len(p) > w.room {
		return 0, errFull
	}
	w.room -= len(p)
	return len(p), nil
}

func TestWriteErrorsAreReturned(t *testing.T) {
	s := scenarios()[2]
	a := Analyze(s.m, s.evs, nil)
	for name, write := range map[string]func(io.Writer) error{
		"WriteChrome":   func(w io.Writer) error { return WriteChrome(w, s.m, s.evs, Names{}) },
		"WriteTimeline": func(w io.Writer) error { return WriteTimeline(w, s.m, s.evs, 80) },
		"WriteAnalysis": func(w io.Writer) error { return WriteAnalysis(w, a) },
	} {
		if err := write(&failingWriter{room: 100}); !errors.Is(err, errFull) {
			t.Errorf("%s to a full disk: %v", name, err)
		}
	}
}

// FuzzReadChrome has every input refused in a line or read as something that
// can be analysed, drawn and written back the same.
func FuzzReadChrome(f *testing.F) {
	for _, s := range scenarios() {
		if len(s.evs) < 20 {
			f.Add(written(f, s.m, s.evs, testNames))
		}
	}
	f.Add([]byte(`{"otherData":{"weft":1,"devices":[{"name":"a","lanes":-1,"launch_ns":1e300,"fp32":-1}]},"traceEvents":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadChrome(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrFormat) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("error %q", err)
			}
			return
		}
		a := Analyze(s.Machine, s.Events, nil)
		a.Names = s.Names
		if err := WriteAnalysis(io.Discard, a); err != nil {
			t.Fatal(err)
		}
		if err := WriteTimeline(io.Discard, s.Machine, s.Events, 80); err != nil {
			t.Fatal(err)
		}
		if got := newCauseGraph(s.Machine, s.Events, nil); got.replay(without{}) != got.makespan() {
			t.Fatalf("replayed unchanged it takes %v, not %v", got.replay(without{}), got.makespan())
		}
		again, err := ReadChrome(bytes.NewReader(written(t, s.Machine, s.Events, s.Names)))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(again.Events, s.Events) {
			t.Fatalf("written back: %+v, was %+v", again.Events, s.Events)
		}
	})
}
