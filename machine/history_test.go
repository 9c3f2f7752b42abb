package machine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
)

// powerLaw is a kernel's true time: 3 ns for each size to the 0.8.
func powerLaw(size float64) float64 { return 3 * math.Pow(size, 0.8) }

// noisy multiplies by a log-normal error of a relative spread.
func noisy(r *rand.Rand, ns, spread float64) time.Duration {
	return time.Duration(ns * math.Exp(r.NormFloat64()*spread))
}

func newHistory(t testing.TB, name string) *History {
	m := named(t, name)
	return NewHistory(NewRoofline(m), m)
}

func ofSize(kernel string, size float64) *graph.Task {
	return task(kernel, 1, graph.Work{Ops: size / 2, Bytes: size / 2})
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func TestHistoryRecoversPowerLaw(t *testing.T) {
	h := newHistory(t, "mixed")
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		size := math.Exp(10 + 8*r.Float64())
		h.Observe(ofSize("k", size), 0, noisy(r, powerLaw(size), 0.05))
	}
	for _, x := range []float64{10, 12, 14, 16, 18} { // sizes never seen exactly
		size := math.Exp(x)
		got := h.Task(ofSize("k", size), 0)
		if q := float64(got.Median) / powerLaw(size); math.Abs(q-1) > 0.05 {
			t.Errorf("size e^%v: predicted %v, which is %.3f of the truth", x, got.Median, q)
		}
		if got.Bound != ByHistory || got.Samples != 200 {
			t.Errorf("size e^%v: %+v, want history with 200 samples", x, got)
		}
	}
	if b := h.models[0].line.slope; math.Abs(b-0.8) > 0.02 {
		t.Errorf("exponent %v, want 0.8", b)
	}
}

// Samples in two camps, with no usual one among them, still give an answer.
func TestHistoryBetweenTwoCamps(t *testing.T) {
	h := newHistory(t, "mixed")
	task := ofSize("k", 1e6)
	for range 8 {
		for _, took := range []time.Duration{time.Microsecond, time.Second} {
			h.Observe(task, 0, took)
			if e := h.Task(task, 0); e.Median <= 0 || e.Median > time.Minute {
				t.Fatalf("after samples of 1 µs and 1 s it predicts %v", e.Median)
			}
		}
	}
}

// The interval must hold nine of ten held-out samples, for sizes within the
// range seen and for a size seen often.
func TestHistoryIntervalCovers(t *testing.T) {
	for _, c := range []struct {
		name   string
		spread float64
		size   func(*rand.Rand) float64
	}{
		{"line, 5 % noise", 0.05, func(r *rand.Rand) float64 { return math.Exp(10 + 8*r.Float64()) }},
		{"line, 30 % noise", 0.30, func(r *rand.Rand) float64 { return math.Exp(10 + 8*r.Float64()) }},
		{"one size, 20 % noise", 0.20, func(*rand.Rand) float64 { return 1e6 }},
	} {
		covered, total := 0, 0
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, 2))
			h := newHistory(t, "mixed")
			for range 60 {
				size := c.size(r)
				h.Observe(ofSize("k", size), 0, noisy(r, powerLaw(size), c.spread))
			}
			for range 50 {
				size := c.size(r)
				e := h.Task(ofSize("k", size), 0)
				took := noisy(r, powerLaw(size), c.spread)
				if e.Low <= took && took <= e.High {
					covered++
				}
				total++
			}
		}
		if got := float64(covered) / float64(total); got < 0.86 || got > 0.94 {
			t.Errorf("%s: the interval held %.1f %% of %d samples, want about 90", c.name, 100*got, total)
		}
	}
}

func TestHistoryTakesOverFromRoofline(t *testing.T) {
	h := newHistory(t, "mixed")
	k := ofSize("k", 1e9)
	base := h.base.Task(k, 0)
	epoch := h.Epoch()
	for i := range 2 {
		h.Observe(k, 0, 10*base.Median)
		if got := h.Task(k, 0); got != base {
			t.Fatalf("after %d samples: %+v, want the roofline's %+v", i+1, got, base)
		}
	}
	if h.Epoch() != epoch {
		t.Error("the epoch moved although no answer did")
	}
	h.Observe(k, 0, 10*base.Median)
	if got := h.Task(k, 0); math.Abs(ratio(got.Median, base.Median)-10) > 0.01 || got.Samples != 3 || got.Bound != ByHistory {
		t.Errorf("after 3 samples: %+v, want ten times the roofline's %v", got, base.Median)
	}
	if h.Epoch() == epoch {
		t.Error("the answer moved tenfold and the epoch did not")
	}
	// Other kernels, units, gangs and devices are not concerned.
	other := ofSize("k", 1e9)
	other.Work.Unit = graph.TF32
	gang := ofSize("k", 1e9)
	gang.Gang = 2
	twice := task("k", 2, k.Work)
	for name, got := range map[string][2]Estimate{
		"kernel": {h.Task(ofSize("l", 1e9), 0), h.base.Task(ofSize("l", 1e9), 0)},
		"unit":   {h.Task(other, 0), h.base.Task(other, 0)},
		"gang":   {h.Task(gang, 0), h.base.Task(gang, 0)},
		"steps":  {h.Task(twice, 0), h.base.Task(twice, 0)},
		"device": {h.Task(k, 1), h.base.Task(k, 1)},
	} {
		if got[0] != got[1] {
			t.Errorf("another %s got %+v, want the roofline's %+v", name, got[0], got[1])
		}
	}
}

// Tasks of several kernels are told apart by which, in what order and how often.
func TestHistoryKernelSequences(t *testing.T) {
	kernels := map[rune]*graph.Kernel{'a': {Name: "a"}, 'b': {Name: "b"}, 'c': {Name: "c"}}
	sequences := []string{"", "a", "aa", "ab", "ba", "aab", "abb", "aba", "abc", "abac", "cab"}
	of := func(s string) *graph.Task {
		k := &graph.Task{Work: graph.Work{Ops: 1e6}}
		for _, r := range s {
			k.Steps = append(k.Steps, graph.Step{Kernel: kernels[r]})
		}
		return k
	}
	h := newHistory(t, "mixed")
	for i, s := range sequences {
		for range 3 {
			h.Observe(of(s), 0, time.Duration(i+1)*time.Millisecond)
		}
	}
	again := newHistory(t, "mixed")
	if err := again.Load(h.Save()); err != nil {
		t.Fatal(err)
	}
	for i, s := range sequences {
		want := time.Duration(i+1) * time.Millisecond
		for _, h := range []*History{h, again} {
			if got := h.Task(of(s), 0); got.Samples != 3 || math.Abs(ratio(got.Median, want)-1) > 1e-6 {
				t.Errorf("%q: %v from %d samples, want %v from 3", s, got.Median, got.Samples, want)
			}
		}
	}
	for _, s := range []string{"b", "c", "aaa", "bb", "bab", "abcc", "ca"} {
		if got := h.Task(of(s), 0); got.Samples != 0 {
			t.Errorf("%q was never run and has %d samples", s, got.Samples)
		}
	}
}

func TestHistoryIsSharedByEqualDevices(t *testing.T) {
	h := newHistory(t, "3x5070")
	k := ofSize("k", 1e9)
	for i := range 3 {
		h.Observe(k, DeviceID(i), time.Second)
	}
	for i := range 3 {
		if got := h.Task(k, DeviceID(i)); got.Samples != 3 || math.Abs(got.Median.Seconds()-1) > 1e-6 {
			t.Errorf("device %d: %+v", i, got)
		}
	}
}

func TestHistoryPrefersTheExactSize(t *testing.T) {
	h := newHistory(t, "mixed")
	// A kernel that is no power law: flat, then a step in the middle.
	truth := map[float64]time.Duration{1e6: time.Millisecond, 1e7: 8 * time.Millisecond, 1e8: 9 * time.Millisecond}
	for range 20 {
		for _, size := range []float64{1e6, 1e7, 1e8} {
			h.Observe(ofSize("k", size), 0, truth[size])
		}
	}
	for size, want := range truth {
		got := h.Task(ofSize("k", size), 0)
		if math.Abs(ratio(got.Median, want)-1) > 1e-6 || got.Samples != 20 {
			t.Errorf("size %g: %v from %d samples, want %v from 20", size, got.Median, got.Samples, want)
		}
	}
	between := h.Task(ofSize("k", 3e6), 0)
	if between.Samples != 60 || between.High < 2*between.Low {
		t.Errorf("between the sizes: %+v, want the line through all 60 with a wide interval", between)
	}
}

func TestHistoryExtrapolatesWithDoubt(t *testing.T) {
	h := newHistory(t, "mixed")
	r := rand.New(rand.NewPCG(3, 3))
	for range 60 {
		size := math.Exp(12 + r.Float64())
		h.Observe(ofSize("k", size), 0, noisy(r, powerLaw(size), 0.05))
	}
	last := 0.0
	for _, x := range []float64{12.5, 14, 16, 20} {
		e := h.Task(ofSize("k", math.Exp(x)), 0)
		width := ratio(e.High, e.Low)
		if width <= last {
			t.Errorf("size e^%v: the interval spans a factor of %.2f, nearer sizes %.2f; want it to grow", x, width, last)
		}
		if truth := time.Duration(powerLaw(math.Exp(x))); truth < e.Low || truth > e.High {
			t.Errorf("size e^%v: the truth %v is outside %v to %v", x, truth, e.Low, e.High)
		}
		last = width
	}
}

// The times of a task without stated work do not predict one with work.
func TestHistoryUnstatedWork(t *testing.T) {
	h := newHistory(t, "mixed")
	for range 10 {
		h.Observe(task("k", 1, graph.Work{}), 0, time.Second)
	}
	large := ofSize("k", 1e9)
	if got, want := h.Task(large, 0), h.base.Task(large, 0); got != want {
		t.Errorf("predicted %+v, want %+v", got, want)
	}
}

func TestHistoryOutliers(t *testing.T) {
	const usual = time.Millisecond
	k := ofSize("k", 1e8)
	for _, c := range []struct {
		name    string
		samples []time.Duration
		want    time.Duration
	}{
		{"one wild sample among many", []time.Duration{usual, usual, usual, usual, 100 * usual, usual, usual}, usual},
		{"a slow first launch", []time.Duration{100 * usual, usual, usual, usual, usual}, usual},
		{"a wild second", []time.Duration{usual, 50 * usual, usual, usual, usual}, usual},
		{"a wild last", []time.Duration{usual, usual, usual, usual, usual / 100}, usual},
		{"a device that became slower", []time.Duration{usual, usual, usual, usual, 3 * usual, 3 * usual, 3 * usual}, 3 * usual},
		{"failed runs", []time.Duration{usual, usual, usual, 0, -1, 0}, usual},
	} {
		h := newHistory(t, "mixed")
		for _, took := range c.samples {
			h.Observe(k, 0, took)
		}
		if got := h.Task(k, 0); got.Samples < 3 || math.Abs(ratio(got.Median, c.want)-1) > 0.01 {
			t.Errorf("%s: %v from %d samples, want %v", c.name, got.Median, got.Samples, c.want)
		}
	}
	// The same off the sizes seen, where the line answers.
	h := newHistory(t, "mixed")
	for i := range 20 {
		size := 1e6 * float64(i+1)
		h.Observe(ofSize("k", size), 0, time.Duration(powerLaw(size)))
	}
	h.Observe(ofSize("k", 5.5e6), 0, time.Duration(50*powerLaw(5.5e6)))
	if q := float64(h.Task(ofSize("k", 7.5e6), 0).Median) / powerLaw(7.5e6); math.Abs(q-1) > 0.02 {
		t.Errorf("one wild sample moved the line to %.3f of the truth", q)
	}
}

func TestHistoryEpoch(t *testing.T) {
	h := newHistory(t, "mixed")
	k := ofSize("k", 1e8)
	for range 100 {
		h.Observe(k, 0, time.Millisecond)
	}
	told := h.Epoch()
	for range 100 {
		h.Observe(k, 0, 1020*time.Microsecond)
	}
	if h.Epoch() != told {
		t.Error("the answer moved by 2 % and the epoch moved")
	}
	// A slow drift must be told too, however small its steps are; what callers
	// who ask again at every epoch believe is never far off.
	believed, took := h.Task(k, 0).Median, 1020*time.Microsecond
	for range 400 {
		took += took / 500
		h.Observe(k, 0, took)
		if e := h.Epoch(); e != told {
			told, believed = e, h.Task(k, 0).Median
		}
		if now := h.Task(k, 0).Median; math.Abs(ratio(now, believed)-1) > 0.0501+0.02 {
			t.Fatalf("callers believe %v, the answer is %v", believed, now)
		}
	}
	if h.Task(k, 0).Median < 1500*time.Microsecond {
		t.Errorf("the drift was not followed: %v", h.Task(k, 0).Median)
	}
}

func TestHistoryCopies(t *testing.T) {
	h := newHistory(t, "3x5070")
	base := func(n int64) time.Duration { return h.base.Copy(n, Host, 0).Median }
	r := rand.New(rand.NewPCG(4, 4))
	for range 100 { // links give 80 % of what they promise
		n := int64(math.Exp(10 + 10*r.Float64()))
		h.ObserveCopy(n, Host, 0, noisy(r, float64(base(n))/0.8, 0.03))
	}
	for _, n := range []int64{1e5, 1e6, 1e8} {
		got := h.Copy(n, Host, 2) // an equal device on an equal path
		if q := ratio(got.Median, base(n)); math.Abs(q-1.25) > 0.03 || got.Bound != ByHistory {
			t.Errorf("%d bytes: %.3f of the model (%v), want 1.25", n, q, got.Bound)
		}
		if back := h.Copy(n, 2, Host); back != h.base.Copy(n, 2, Host) {
			t.Errorf("the way back was never measured, yet it answers %+v", back)
		}
	}
	for range 3 {
		h.ObserveCopy(4096, Host, 1, 77*time.Microsecond)
	}
	if got := h.Copy(4096, Host, 0).Median; math.Abs(ratio(got, 77*time.Microsecond)-1) > 0.01 {
		t.Errorf("a size seen three times takes %v, want 77µs", got)
	}
	h.ObserveCopy(4096, 0, 0, time.Second)
	if got := h.Copy(4096, 0, 0).Median; got != 0 {
		t.Errorf("a copy within one memory takes %v", got)
	}
}

func TestHistoryChanged(t *testing.T) {
	for _, c := range []struct {
		name  string
		after []time.Duration // what runs take once a millisecond is usual
		want  bool
	}{
		{"as ever", []time.Duration{1100 * time.Microsecond, 900 * time.Microsecond}, false},
		{"one wild run", []time.Duration{9 * time.Millisecond, time.Millisecond, time.Millisecond}, false},
		{"slower for good", []time.Duration{3 * time.Millisecond, 3 * time.Millisecond, 3 * time.Millisecond}, true},
		{"faster for good", []time.Duration{300 * time.Microsecond, 300 * time.Microsecond, 300 * time.Microsecond}, true},
		{"a little slower", []time.Duration{1700 * time.Microsecond, 1700 * time.Microsecond, 1700 * time.Microsecond}, false},
	} {
		h := newHistory(t, "mixed")
		k := ofSize("k", 1e8)
		for range 20 {
			h.Observe(k, 0, time.Millisecond)
		}
		for _, took := range c.after {
			h.Observe(k, 0, took)
		}
		if h.Changed() != c.want {
			t.Errorf("%s: Changed() = %v", c.name, !c.want)
		}
	}
}

// The first run of a kernel touches fresh memory; what counts is the rest.
func TestHistoryFirstRun(t *testing.T) {
	h := newHistory(t, "mixed")
	k := ofSize("k", 1e8)
	for _, took := range []time.Duration{1500, 1000, 1010} {
		h.Observe(k, 0, took*time.Microsecond)
	}
	if got := h.Task(k, 0).Median; got != 1005*time.Microsecond {
		t.Errorf("after runs of 1.5, 1 and 1.01 ms it predicts %v, want the mean of the last two", got)
	}
}

// learned returns a history with tasks of several kernels and steps, and copies.
func learned(t testing.TB) *History {
	h := newHistory(t, "mixed")
	r := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		size := math.Exp(float64(10 + r.IntN(9)))
		k := task([]string{"gemm", "relu", "sum"}[r.IntN(3)], 1+r.IntN(2), graph.Work{Ops: size, Bytes: size / 8, Unit: graph.Unit(r.IntN(2))})
		h.Observe(k, DeviceID(r.IntN(3)), noisy(r, powerLaw(size), 0.1))
		h.ObserveCopy(int64(size), Host, DeviceID(r.IntN(2)), noisy(r, size, 0.1))
	}
	return h
}

func TestHistorySaveAndLoad(t *testing.T) {
	h := learned(t)
	saved := h.Save()
	again := newHistory(t, "mixed")
	epoch := again.Epoch()
	if err := again.Load(saved); err != nil {
		t.Fatal(err)
	}
	if again.Epoch() == epoch {
		t.Error("Load changed every answer and not the epoch")
	}
	if !bytes.Equal(again.Save(), saved) {
		t.Error("Save after Load gives other bytes")
	}
	// Both must answer alike now and after learning more.
	for i := range 50 {
		size := math.Exp(8 + float64(i)/4)
		k := task("gemm", 1+i%2, graph.Work{Ops: size, Bytes: size / 8})
		for d := range DeviceID(3) {
			if a, b := h.Task(k, d), again.Task(k, d); a != b {
				t.Fatalf("size %g on %d: %+v before, %+v after", size, d, a, b)
			}
		}
		if a, b := h.Copy(int64(size), Host, 0), again.Copy(int64(size), Host, 0); a != b {
			t.Fatalf("copy of %g: %+v before, %+v after", size, a, b)
		}
		h.Observe(k, 0, time.Millisecond)
		again.Observe(k, 0, time.Millisecond)
	}
	// A machine with only some of the devices uses what it can.
	other := newHistory(t, "rtx4060")
	if err := other.Load(saved); err != nil {
		t.Fatal(err)
	}
	k := task("gemm", 1, graph.Work{Ops: math.Exp(12), Bytes: math.Exp(12) / 8})
	fresh := newHistory(t, "mixed")
	if err := fresh.Load(saved); err != nil {
		t.Fatal(err)
	}
	if got, want := other.Task(k, 0), fresh.Task(k, 1); got != want || got.Samples == 0 {
		t.Errorf("the RTX 4060 alone: %+v, in the mixed machine: %+v", got, want)
	}
}

func TestHistoryLoadIsStrict(t *testing.T) {
	h := newHistory(t, "mixed")
	for range 4 {
		h.Observe(ofSize("k", 1e6), 0, time.Millisecond)
		h.Observe(ofSize("k", 2e6), 0, 2*time.Millisecond)
		h.ObserveCopy(1000, Host, 0, time.Millisecond)
	}
	good := string(h.Save())
	for name, change := range map[string][2]string{
		"not JSON":        {`{"version"`, `{"version`},
		"trailing":        {good, good + "{}"},
		"version":         {`"version":2`, `"version":1`},
		"unknown field":   {`"unit"`, `"unti"`},
		"unknown unit":    {`"fp32"`, `"fp8"`},
		"no samples":      {`"seen":8`, `"seen":0`},
		"negative cxx":    {`"cxx":`, `"cxx":-`},
		"weight":          {`"w":`, `"w":9`},
		"huge":            {`"my":`, `"my":1e300,"mx":`},
		"gang":            {`"gang":1`, `"gang":0`},
		"times":           {`"times":1`, `"times":0`},
		"device":          {`"device":"d`, `"device":"","bps":1,"to":"d`},
		"negative work":   {`"ops":500000`, `"ops":-500000`},
		"out of order":    {`"ops":500000`, `"ops":5000000`},
		"same time":       {`"last":10`, `"last":11`},
		"no time":         {`"last":10`, `"last":0`},
		"copy rate":       {`"bps":`, `"bps":-`},
		"task and copy":   {`"device":"host"`, `"device":"host","unit":"fp32"`},
		"copy of no size": {`"copies":[{"x":`, `"copies":[{"x":1e9,"y":0},{"x":`},
		"copy for ever":   {`"copies":[`, `"copies":[{"x":1,"y":-1e9},`},
		"many copies":     {`"copies":[`, `"copies":[` + strings.Repeat(`{"x":1,"y":0},`, maxLast)},
		"copies of tasks": {`"shapes":[`, `"copies":[{"x":1,"y":0}],"shapes":[`},
		"no recent":       {`"recent":[13`, `"recent":[],"x":[13`},
		"no shapes":       {good, `{"version":2,"models":[{"unit":"fp32","gang":1,"device":"d","fit":{"seen":1,"w":1,"w2":1},"shapes":[]}]}`},
		"the same twice":  {good, strings.Replace(good, `"models":[`, `"models":[`+good[strings.Index(good, `[`)+1:strings.Index(good, `,{"device":"host"`)]+`,`, 1)},
	} {
		src := strings.Replace(good, change[0], change[1], 1)
		if src == good {
			t.Errorf("%s: the case changes nothing in %s", name, good)
			continue
		}
		if err := h.Load([]byte(src)); !errors.Is(err, ErrHistory) {
			t.Errorf("%s: Load = %v, want ErrHistory", name, err)
		}
		if string(h.Save()) != good {
			t.Fatalf("%s: a failed Load changed the history", name)
		}
	}
	if err := h.Load([]byte(good)); err != nil {
		t.Errorf("the file the cases above break does not load itself: %v", err)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	h := newHistory(t, "mixed")
	const n = 3 * maxShapes
	at := func(i int) *graph.Task { return ofSize(fmt.Sprint("k", i/100), float64(1e6+2*(i%100))) }
	for i := range n {
		for range 3 {
			h.Observe(at(i), 0, time.Millisecond)
		}
		if h.shapes > maxShapes {
			t.Fatalf("%d shapes after %d", h.shapes, i+1)
		}
	}
	if got := h.Task(at(n-1), 0); got.Samples != 3 {
		t.Errorf("the newest shape was dropped: %+v", got)
	}
	if got := h.Task(at(0), 0); got.Samples != 0 {
		t.Errorf("the oldest shape is still there: %+v", got)
	}
	if len(h.models) > maxShapes/100+2 || len(h.tasks) != len(h.models) {
		t.Errorf("%d models, %d keys are left of %d shapes", len(h.models), len(h.tasks), h.shapes)
	}
	if err := newHistory(t, "mixed").Load(h.Save()); err != nil {
		t.Errorf("a full history does not load: %v", err)
	}
}

func TestHistoryTaskDoesNotAllocate(t *testing.T) {
	h := learned(t)
	known := ofSize("relu", 1e6)
	for range 3 {
		h.Observe(known, 0, time.Millisecond)
	}
	between := task("gemm", 1, graph.Work{Ops: 1e6, Bytes: 1e5})
	unknown := task("none", 1, graph.Work{Ops: 1e6})
	for name, f := range map[string]func(){
		"known size":     func() { h.Task(known, 0) },
		"new size":       func() { h.Task(between, 0) },
		"unknown kernel": func() { h.Task(unknown, 0) },
		"copy":           func() { h.Copy(1e6, Host, 0) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Student's quantiles from the tables, to see that the expansion is good enough.
func TestStudent90(t *testing.T) {
	for df, want := range map[float64]float64{3: 2.353, 5: 2.015, 10: 1.812, 30: 1.697, 1e9: 1.645} {
		if got := student90(df); math.Abs(got-want) > 0.02*want {
			t.Errorf("%v degrees of freedom: %v, want %v", df, got, want)
		}
	}
}

// FuzzLoad checks that whatever loads can be used and saved again.
func FuzzLoad(f *testing.F) {
	m := named(f, "mixed")
	h := NewHistory(NewRoofline(m), m)
	f.Add(h.Save())
	for range 4 {
		h.Observe(ofSize("gemm", 1e6), 0, time.Millisecond)
		h.ObserveCopy(1e6, Host, 0, time.Millisecond)
		h.ObserveTrial("gemm", 1e6, time.Millisecond)
	}
	f.Add(h.Save())
	f.Fuzz(func(t *testing.T, src []byte) {
		h := NewHistory(NewRoofline(m), m)
		if err := h.Load(src); err != nil {
			return
		}
		k := ofSize("gemm", 1e6)
		for range 4 {
			h.Observe(k, 0, time.Millisecond)
			h.ObserveCopy(1e6, Host, 0, time.Millisecond)
			h.ObserveTrial("gemm", 1e6, time.Millisecond)
		}
		if x := h.Trials("gemm", 1e6); x.Runs == 0 || x.Mean < 0 || x.Doubt < 0 || x.Since != 0 {
			t.Fatalf("trials %+v", x)
		}
		if e := h.Task(k, 0); e.Median < 0 || e.Low > e.Median || e.High < e.Median {
			t.Fatalf("estimate %+v", e)
		}
		if err := NewHistory(NewRoofline(m), m).Load(h.Save()); err != nil {
			t.Fatalf("what was loaded and saved does not load: %v", err)
		}
	})
}

func BenchmarkHistoryTask(b *testing.B) {
	h := learned(b)
	known := ofSize("relu", 1e6)
	two := ofSize("relu", 1e6)
	two.Steps = append(two.Steps, graph.Step{Kernel: &graph.Kernel{Name: "sum"}})
	for range 5 {
		h.Observe(known, 0, time.Millisecond)
		h.Observe(two, 0, time.Millisecond)
	}
	for _, c := range []struct {
		name    string
		t       *graph.Task
		byShape bool
	}{
		{"size=known", known, true},
		{"size=new", task("gemm", 1, graph.Work{Ops: 1e6, Bytes: 1e5}), false},
		{"kernels=2", two, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := h.taskModel(c.t, 0)
			if i, ok := m.find(c.t.Work.Ops, c.t.Work.Bytes); (ok && m.shapes[i].fit.Seen >= enough) != c.byShape || m.fit.Seen < enough {
				b.Fatal("this measures another case than it says")
			}
			b.ReportAllocs()
			for b.Loop() {
				h.Task(c.t, 0)
			}
		})
	}
}

func BenchmarkRooflineTask(b *testing.B) {
	c := NewRoofline(named(b, "mixed"))
	k := ofSize("k", 1e9)
	b.ReportAllocs()
	for b.Loop() {
		c.Task(k, 0)
	}
}

func BenchmarkHistoryObserve(b *testing.B) {
	h := learned(b)
	k := task("gemm", 1, graph.Work{Ops: math.Exp(12), Bytes: math.Exp(12) / 8})
	b.ReportAllocs()
	for b.Loop() {
		h.Observe(k, 0, time.Millisecond)
	}
}

func TestHistoryGraph(t *testing.T) {
	h := newHistory(t, "mixed")
	if f, n := h.Graph("a on 2", 1e9); f != 1 || n != 0 {
		t.Errorf("of a graph never seen it says %v from %d", f, n)
	}
	h.ObserveGraph("a on 2", 1e9, time.Second, 2*time.Second)
	if f, n := h.Graph("a on 2", 1e9); f <= 1 || f >= 1.9 || n != 1 {
		t.Errorf("after one run of twice the time it says %v from %d, want something careful", f, n)
	}
	for range 30 {
		h.ObserveGraph("a on 2", 1e9, time.Second, 2*time.Second)
		h.ObserveGraph("a on 2", 1e3, time.Second, 3*time.Second)
	}
	if f, _ := h.Graph("a on 2", 1.1e9); math.Abs(f-2) > 0.15 {
		t.Errorf("graphs of that size take twice the time, and it says %v", f)
	}
	if f, _ := h.Graph("a on 2", 1e6); math.Abs(f-1) > 0.01 {
		t.Errorf("of graphs of another size nothing is known, and it says %v", f)
	}
	for _, other := range []*History{newHistory(t, "mixed"), h.Clone()} {
		if err := other.Load(h.Save()); err != nil {
			t.Fatal(err)
		}
		want, _ := h.Graph("a on 2", 1e9)
		if f, _ := other.Graph("a on 2", 1e9); f != want {
			t.Errorf("read back it says %v, want %v", f, want)
		}
	}
}

// A size between others is predicted from its neighbours, however far the line
// through all of them is off.
func TestHistoryNeighbours(t *testing.T) {
	h := newHistory(t, "mixed")
	takes := func(size float64) time.Duration { // a step no line follows
		if size > 3e6 {
			return time.Duration(size * 4)
		}
		return time.Duration(size)
	}
	for range 4 {
		for size := 1e5; size < 1e8; size *= 1.5 {
			h.Observe(ofSize("k", size), 0, takes(size))
		}
	}
	for _, size := range []float64{2e5, 1e6, 1e7, 5e7} {
		if q := ratio(h.Task(ofSize("k", size), 0).Median, takes(size)); math.Abs(q-1) > 0.1 {
			t.Errorf("size %g: predicted %.2f of what it takes", size, q)
		}
	}
}

func TestHistoryClone(t *testing.T) {
	h := learned(t)
	c := h.Clone()
	if !bytes.Equal(c.Save(), h.Save()) {
		t.Fatal("a clone knows something else")
	}
	before := string(h.Save())
	for range 20 {
		c.Observe(task("gemm", 1, graph.Work{Ops: math.Exp(12), Bytes: math.Exp(12) / 8}), 0, time.Hour)
	}
	if string(h.Save()) != before {
		t.Error("what a clone learns reaches the original")
	}
}

// What noisy samples of almost one size say about other sizes is within a factor
// of two of the truth at an eighth and eight times the work, and the interval
// admits what it does not know. The truth here is the roofline's time at some
// efficiency, plus what starting costs.
func TestHistoryOtherSizes(t *testing.T) {
	covered, total := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 6))
		h := newHistory(t, "mixed")
		size := math.Exp(12 + 14*r.Float64()) // from launch-bound to compute-bound
		mix := r.Float64()
		of := func(size float64) *graph.Task {
			return task("k", 1, graph.Work{Ops: size * mix, Bytes: size * (1 - mix)})
		}
		efficiency, spread := 0.1+0.9*r.Float64(), 0.05+0.25*r.Float64()
		takes := func(size float64) float64 { return float64(h.base.Task(of(size), 0).Median) / efficiency }
		for range 3 + r.IntN(10) {
			for range 4 { // parts of one job, almost alike
				s := size * (1 + 0.02*r.Float64())
				h.Observe(of(s), 0, noisy(r, takes(s), spread))
			}
		}
		for _, f := range []float64{0.125, 0.5, 2, 8} {
			got := h.Task(of(size*f), 0)
			if q := float64(got.Median) / takes(size*f); q < 0.5 || q > 2 {
				t.Errorf("seed %d: at %v of the size it predicts %.3g of the truth", seed, f, q)
			}
			if got.Low <= time.Duration(takes(size*f)) && time.Duration(takes(size*f)) <= got.High {
				covered++
			}
			total++
		}
		near, far := h.Task(of(size*2), 0), h.Task(of(size*64), 0)
		if ratio(far.High, far.Low) <= ratio(near.High, near.Low) {
			t.Errorf("seed %d: the interval is %v to %v at twice the size, %v to %v at 64 times", seed, near.Low, near.High, far.Low, far.High)
		}
	}
	if covered < total*9/10 {
		t.Errorf("the interval held %d of %d", covered, total)
	}
}
