//go:build lavapipe

package vulkan

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// Which variant is fastest follows from what was measured, and those that cannot
// win are not tried again.
func TestTiming(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		takes [][]time.Duration // of each variant, its runs in order
		best  int
		runs  int // until that was known
	}{
		"close":           {[][]time.Duration{{12 * ms, 10 * ms, 11 * ms}, {11 * ms, 9 * ms, 14 * ms}}, 1, 6},
		"clear":           {[][]time.Duration{{30 * ms}, {10 * ms}}, 1, 2},
		"one falls back":  {[][]time.Duration{{10 * ms, 10 * ms, 9 * ms}, {40 * ms}, {11 * ms, 8 * ms, 9 * ms}}, 2, 7},
		"the first stays": {[][]time.Duration{{10 * ms}, {20 * ms}, {30 * ms}, {16 * ms}}, 0, 4},
	} {
		n := len(c.takes)
		k := &kernel{name: "k", variants: make([]variant, n), timings: make(map[int]*timing)}
		d := &device{platform: &platform{log: warnings(t)}, tuned: make(driver.Decisions)}
		for i := range k.variants {
			k.variants[i] = variant{impl: &graph.Impl{Entry: "main"}, module: &module{id: string(rune('a' + i))}}
		}
		tm, runs := d.timing(k, 3), make([]int, n)
		total := 0
		for ; !tm.decided && total < 100; total++ {
			i := tm.pick()
			d.measured(&measurement{k, 3, i}, c.takes[i][runs[i]])
			runs[i]++
		}
		if tm.pick() != c.best || total != c.runs {
			t.Errorf("%s: variant %d after %d runs, want %d after %d", name, tm.pick(), total, c.best, c.runs)
		}
		if got := d.Tuning(); len(got) != 1 || got[0].Hash != k.variants[c.best].module.id || got[0].Class != 3 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A variant that an earlier run decided for and that limits forbid now leaves the
// choice to the others.
func TestForbiddenDecision(t *testing.T) {
	k := &kernel{name: "k", timings: make(map[int]*timing)}
	for _, id := range []string{"a", "b"} {
		k.variants = append(k.variants, variant{impl: &graph.Impl{Entry: "main"}, module: &module{id: id}})
	}
	d := &device{platform: &platform{log: warnings(t)}, tuned: make(driver.Decisions)}
	d.Tune([]driver.Tuned{{Kernel: "k", Class: 3, Entry: "main", Hash: "a"}})
	tm := d.timing(k, 3)
	if tm.pick() != 0 || !tm.decided {
		t.Fatalf("variant %d, decided %v; want what was decided", tm.pick(), tm.decided)
	}
	tm.without(0)
	if tm.pick() != 1 {
		t.Error("a forbidden variant is picked again")
	}
}

// A task of several steps decides something when they are all alike.
func TestTrialOfSteps(t *testing.T) {
	k, l := &kernel{}, &kernel{}
	at := func(k *kernel, class, variant int) prepared {
		return prepared{measures: &measurement{k, class, variant}}
	}
	for name, c := range map[string]struct {
		steps []prepared
		want  bool
	}{
		"none":            {nil, false},
		"one":             {[]prepared{at(k, 1, 2)}, true},
		"one decided":     {[]prepared{{}}, false},
		"alike":           {[]prepared{at(k, 1, 2), at(k, 1, 2), at(k, 1, 2)}, true},
		"two kernels":     {[]prepared{at(k, 1, 2), at(l, 1, 2)}, false},
		"two sizes":       {[]prepared{at(k, 1, 2), at(k, 2, 2)}, false},
		"two variants":    {[]prepared{at(k, 1, 2), at(k, 1, 1)}, false},
		"second decided":  {[]prepared{at(k, 1, 2), {}}, false},
		"first decided":   {[]prepared{{}, at(k, 1, 2)}, false},
		"both of decided": {[]prepared{{}, {}}, false},
	} {
		if got := measurementOf(c.steps); (got != nil) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A shader that leaves its group size open runs in groups the device chose, and
// what was found out is known the next time.
func TestTuning(t *testing.T) {
	source := `#version 450
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform P { uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < n) x[i]++; }`
	const n = 1000
	s := graph.Step{
		Kernel: &graph.Kernel{Name: "count", Impls: []graph.Impl{{Dialect: graph.GLSL, Entry: "main", Source: []byte(source)}}},
		Launch: graph.Launch{Grid: [3]uint32{n}}, Params: words(n),
	}
	open := func() (*rig, driver.Buffer) {
		r := openRig(t, Options{MemBytes: 64 << 20, Devices: []int{0}})
		return r, r.put(make([]byte, 4*n))
	}
	launch := func(r *rig, x driver.Buffer, times uint32) {
		t.Helper()
		if err := r.launch(s, driver.Arg{Buf: x, Bytes: 4 * n}); err != nil {
			t.Fatal(err)
		}
		want := bytes.Repeat(words(times), n)
		if got := r.get(x, 4*n); !bytes.Equal(got, want) {
			t.Fatalf("after %d launches the counts are wrong", times)
		}
	}
	r, x := open()
	for i := range measureRuns * len(groups) {
		launch(r, x, uint32(i+1))
	}
	first := r.Tuning()
	if len(first) != 1 || first[0].Kernel != "count" || first[0].Class != 9 {
		t.Fatalf("decided is %+v", first)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r, x = open()
	r.Tune(first)
	launch(r, x, 1)
	k := r.kernels[s.Kernel]
	if tm := k.timings[9]; !tm.decided || !k.variants[tm.best].is(first[0]) {
		t.Errorf("%+v is not known any more", first[0])
	}
	// What holds for another shader does not hold for this one.
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	first[0].Hash = "another"
	r, x = open()
	r.Tune(first)
	launch(r, x, 1)
	if r.kernels[s.Kernel].timings[9].decided {
		t.Error("a decision about another shader was taken over")
	}
}

// A variant that the device's limits forbid is left to others.
func TestVariantLimits(t *testing.T) {
	r := openRig(t, Options{MemBytes: 64 << 20})
	s := step("add", 1, 1)
	wrong := s.Kernel.Impls[0]
	wrong.Block = [3]uint32{r.limits.invocations + 1}
	s.Kernel.Impls = append([]graph.Impl{wrong}, s.Kernel.Impls...)
	x := r.put(words(5))
	for range 3 {
		if err := r.launch(s, driver.Arg{Buf: x, Bytes: 4}); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.get(x, 4); !bytes.Equal(got, words(8)) {
		t.Errorf("5+1+1+1 is %d", got)
	}
}

// A launch that is refused for what it gives or asks rules out no variant: those after
// it are measured among all.
func TestRefusedLaunch(t *testing.T) {
	const n = 1000
	source := func(uses string) []byte {
		return []byte(`#version 450
layout(local_size_x_id = 0) in;
layout(binding = 0) buffer X { uint x[]; };
layout(push_constant) uniform P { uint n; };
void main() { uint i = gl_GlobalInvocationID.x; if (i < ` + uses + `) x[i]++; }`)
	}
	whole, without := graph.Impl{Dialect: graph.GLSL, Entry: "main", Source: source("n")}, graph.Impl{Dialect: graph.GLSL, Entry: "main", Source: source("1000")}
	launch := graph.Launch{Grid: [3]uint32{n}}
	sharing := graph.Launch{Grid: [3]uint32{n}, SharedBytes: 4}
	united := graph.Launch{Grid: [3]uint32{n}, Cooperative: true}
	r := openRig(t, Options{MemBytes: 64 << 20})
	x := driver.Arg{Buf: r.put(make([]byte, 4*n)), Bytes: 4 * n}
	for name, c := range map[string]struct {
		impls []graph.Impl
		step  graph.Step
		args  []driver.Arg
	}{
		"too few parameters":                {[]graph.Impl{whole}, graph.Step{Launch: launch}, []driver.Arg{x}},
		"too many parameters":               {[]graph.Impl{whole}, graph.Step{Launch: launch, Params: words(n, n)}, []driver.Arg{x}},
		"too many parameters for a device":  {[]graph.Impl{whole}, graph.Step{Launch: launch, Params: make([]byte, r.limits.pushBytes+4)}, []driver.Arg{x}},
		"too many parameters for the first": {[]graph.Impl{whole, without}, graph.Step{Launch: launch, Params: words(n, n)}, []driver.Arg{x}},
		"too many parameters for the last":  {[]graph.Impl{without, whole}, graph.Step{Launch: launch, Params: words(n, n)}, []driver.Arg{x}},
		"no buffer":                         {[]graph.Impl{whole}, graph.Step{Launch: launch, Params: words(n)}, nil},
		"too many buffers":                  {[]graph.Impl{whole}, graph.Step{Launch: launch, Params: words(n)}, slices.Repeat([]driver.Arg{x}, r.limits.arguments+1)},
		"dynamic shared memory":             {[]graph.Impl{whole}, graph.Step{Launch: sharing, Params: words(n)}, []driver.Arg{x}},
		"groups that work united":           {[]graph.Impl{whole}, graph.Step{Launch: united, Params: words(n)}, []driver.Arg{x}},
	} {
		c.step.Kernel = &graph.Kernel{Name: name, Impls: c.impls}
		for range 2 {
			if err := r.launch(c.step, c.args...); !errors.Is(err, driver.ErrKernel) {
				t.Errorf("%s: %v; want %q", name, err, driver.ErrKernel)
			}
		}
		good := graph.Step{Kernel: c.step.Kernel, Launch: launch, Params: words(n)}
		k := r.kernels[good.Kernel]
		for range k.variants {
			if err := r.launch(good, x); err != nil {
				t.Fatalf("%s, then a good launch: %v", name, err)
			}
		}
		if tm := k.timings[classOf(launch)]; slices.Min(tm.runs) == 0 || slices.Max(tm.fastest) > time.Hour {
			t.Errorf("%s: after it and a good launch for each of %d variants they took %v", name, len(k.variants), tm.fastest)
		}
	}
}
