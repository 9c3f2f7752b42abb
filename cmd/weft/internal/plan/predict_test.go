package plan

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// synthetic returns a recording of workloads whose times are known functions of their
// size: launches, operations at a rate, bytes at a rate that falls beyond a cache, and noise.
func synthetic(label string, speed float64, seed uint64) *Recording {
	r := rand.New(rand.NewPCG(seed, 7))
	m := &machine.Machine{Devices: []machine.Device{{Name: "cpu", Model: label, HostMemory: true, MemBytes: 1 << 34}}}
	m.Devices[0].Rates.Ops[graph.FP32], m.Devices[0].Rates.MemoryBPS, m.Devices[0].Rates.LaunchNS = 1e11*speed, 1e10*speed, 1000
	out := &Recording{Version: RecordingVersion, Label: label, Machine: m}
	for w := range 10 {
		power := 1 + float64(w%3)/4 // bytes grow with operations to the power 1/power
		slow, cache := 1.2+r.Float64(), math.Pow(10, 6+3*r.Float64())
		for k := range 14 {
			ops := 4e8 * speed * math.Pow(250, float64(k)/13)
			bytes := 10 * math.Pow(ops, 1/power)
			bps := 3e10 * speed
			bps /= 1 + 2*1/(1+math.Pow(cache/bytes, 2))
			n := Need{Name: fmt.Sprint(w, k), Workload: fmt.Sprint("w", w), Flops: ops, Bytes: bytes, Launches: 10}
			t := slow * (2e-5 + ops/(1e11*speed) + bytes/bps)
			var runs []float64
			for range 5 {
				runs = append(runs, t*math.Exp(0.015*r.NormFloat64()))
			}
			out.Points = append(out.Points, PointOf(n, k, int(math.Ceil(0.06/t)), runs))
		}
	}
	return out
}

// Predictions of sizes left out are near, and their intervals hold as often as they say.
func TestEvaluateSizes(t *testing.T) {
	var sizes, halves []Judged
	for seed := range uint64(3) {
		all := []*Recording{synthetic("a", 1, seed), synthetic("b", 8, 100+seed), synthetic("c", 100, 200+seed)}
		for _, j := range Evaluate(all) {
			switch j.Kind {
			case HeldSize, HeldEnd:
				sizes = append(sizes, j)
			case HeldHalf:
				halves = append(halves, j)
			}
		}
	}
	s := Summarise(sizes)
	t.Logf("one size %+v", s)
	t.Logf("every other size %+v", Summarise(halves))
	if s.Predictions < 1000 || s.Within < 0.9 || s.Covered < 0.85 || s.Covered > 0.95 || s.HalfWidth > 0.25 {
		t.Errorf("%+v", s)
	}
}

// A point that is left out does not change its own prediction.
func TestLeftOutIsUnknown(t *testing.T) {
	a := []*Recording{synthetic("a", 1, 1)}
	b := []*Recording{synthetic("a", 1, 1)}
	for i := range b[0].Points[5].Seconds {
		b[0].Points[5].Seconds[i] *= 3
	}
	name := a[0].Points[5].Job
	find := func(rs []*Recording, kind Held) (out Judged) {
		for _, j := range Evaluate(rs) {
			if j.Job == name && j.Kind == kind {
				out = j
			}
		}
		return out
	}
	for _, kind := range []Held{HeldSize, HeldHalf, HeldWorkload} {
		x, y := find(a, kind), find(b, kind)
		if x.Median == 0 || x.Median != y.Median || x.Low != y.Low || x.High != y.High {
			t.Errorf("%s: %+v and with another time of its own %+v", kind, x, y)
		}
	}
}

// solve finds coefficients that no others without negative ones beat.
func TestSolve(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := new(series)
		for range 5 + r.IntN(5) {
			n := Need{Flops: math.Exp(10 + 10*r.Float64()), Bytes: math.Exp(10 + 10*r.Float64()), Launches: float64(1 + r.IntN(50))}
			s.add(&n, math.Exp(2*r.NormFloat64()-4))
		}
		loss := func(c [4]float64) (sum float64) {
			for i := range s.x {
				e := dot(c, s.terms[i])/math.Exp(s.y[i]) - 1
				sum += e * e
			}
			return sum
		}
		c := s.solve()
		best := loss(c)
		for range 300 {
			other := c
			k := r.IntN(4)
			if other[k] == 0 {
				other[k] = math.Exp(-20 * r.Float64())
			}
			other[k] *= math.Exp(r.NormFloat64() / 10)
			if l := loss(other); l < best*(1-1e-9) {
				t.Fatalf("seed %d: %v has loss %v, and %v has %v", seed, c, best, other, l)
			}
		}
		for _, x := range c {
			if x < 0 {
				t.Fatalf("seed %d: %v", seed, c)
			}
		}
	}
}

// A curve goes through exact data, whatever made it.
func TestCurveExact(t *testing.T) {
	for name, f := range map[string]func(n *Need) float64{
		"sum":   func(n *Need) float64 { return 1e-3 + n.Flops/1e9 },
		"power": func(n *Need) float64 { return 1e-9 * math.Pow(n.Flops+n.Bytes+1, 0.7) },
	} {
		s := new(series)
		at := func(k float64) Need { return Need{Flops: math.Pow(2, 20+k), Bytes: math.Pow(2, 15+k), Launches: 1} }
		for k := range 10 {
			n := at(float64(k))
			s.add(&n, f(&n))
		}
		c := s.fit()
		for _, k := range []float64{0.5, 4.3, 9.5} {
			n := at(k)
			if got, want := math.Exp(c.at(sizeOf(&n), termsOf(&n))), f(&n); math.Abs(got/want-1) > 0.01 {
				t.Errorf("%s at %v: %v, want %v", name, k, got, want)
			}
		}
	}
}

// On a machine of other rates a job takes what its bound part takes there.
func TestScaled(t *testing.T) {
	here := parts{launch: 0.01, compute: 1, memory: 0.5, link: 0.1}
	for _, c := range []struct {
		there parts
		want  float64
	}{
		{here, 2.11}, // at half the roofline
		{parts{0.01, 0.5, 0.5, 0.1}, 1.11},
		{parts{0.01, 0.1, 0.5, 0.1}, 1.11}, // memory takes over
		{parts{0.02, 1, 0.5, 0.3}, 2.32},
	} {
		if got := scaled(2.11, here, c.there); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("on %+v: %v, want %v", c.there, got, c.want)
		}
	}
}

// What a model says rests on what it has seen: the machine itself, another one, other
// workloads, nothing.
func TestModelKinds(t *testing.T) {
	a, b := synthetic("a", 1, 1), synthetic("b", 10, 2)
	m := Learn([]*Recording{a, b}, nil)
	n := a.Points[6].Need()
	took := a.Points[6].Median()
	e := m.OnMachine(n, a.Machine)
	if !e.Measured || math.Abs(e.Median/took-1) > 0.1 || !(e.Low < e.Median && e.Median < e.High) {
		t.Errorf("measured: %+v, took %v", e, took)
	}
	many := n
	many.Flops, many.Bytes, many.Launches, many.Runs = 1000*n.Flops, 1000*n.Bytes, 1000*n.Launches, 1000
	if x := m.OnMachine(many, a.Machine); !x.Measured || math.Abs(x.Median/(1000*e.Median)-1) > 1e-9 || math.Abs(x.High/(1000*e.High)-1) > 1e-9 {
		t.Errorf("a thousand runs: %+v, and one %+v", x, e)
	}
	other := *a.Machine
	other.Devices = []machine.Device{a.Machine.Devices[0]}
	other.Devices[0].Model = "never seen"
	for u := range other.Devices[0].Rates.Ops {
		other.Devices[0].Rates.Ops[u] *= 4
	}
	other.Devices[0].Rates.MemoryBPS *= 4
	x := m.OnMachine(n, &other)
	if x.Measured || math.Abs(x.Median/(took/4)-1) > 0.3 || x.High/x.Low <= e.High/e.Low {
		t.Errorf("four times the rates: %+v, took %v", x, took)
	}
	n.Workload = "unknown"
	if x = m.OnMachine(n, a.Machine); x.Measured || !strings.Contains(x.Why, "other workloads") || x.High/x.Low <= e.High/e.Low {
		t.Errorf("unknown workload: %+v", x)
	}
	// No kernel is faster on a processor than its rates say.
	if x = Learn(nil, nil).OnMachine(n, a.Machine); !strings.Contains(x.Why, "nothing was measured") || !(x.Median > x.Low) || math.Abs(x.Low/partsOf(&n, a.Machine).total()-1) > 1e-9 {
		t.Errorf("nothing measured: %+v", x)
	}
	n.LeastBytes, n.PeakBytes = 1<<35, 1<<36
	if x = m.OnMachine(n, a.Machine); x.Fits || x.Median != 0 || x.Why == "" {
		t.Errorf("too large: %+v", x)
	}
}

// The interval of a job that was not measured on a machine holds nine of ten errors of such predictions. Here these are
// powers of two: workload w takes 2^w times the roofline, or a machine is half as fast as its rates say.
func TestErrorsMakeIntervals(t *testing.T) {
	record := func(label string, rate, slow float64) *Recording {
		m := &machine.Machine{Devices: []machine.Device{{Name: "cpu", Model: label, HostMemory: true, MemBytes: 1 << 34}}}
		m.Devices[0].Rates.Ops[graph.FP32], m.Devices[0].Rates.MemoryBPS = rate, rate
		out := &Recording{Version: RecordingVersion, Label: label, Machine: m}
		for w := range 4 {
			for k := range 5 {
				n := Need{Name: fmt.Sprint(w, k), Workload: fmt.Sprint("w", w), Flops: 1e12 * math.Pow(3, float64(k))}
				took := slow * math.Pow(2, float64(w)) * n.Flops / rate
				out.Points = append(out.Points, PointOf(n, k, 1, []float64{took, took, took, took, took}))
			}
		}
		return out
	}
	a, b := record("a", 1e11, 1), record("b", 1e12, 2)
	other := *b.Machine
	other.Devices = []machine.Device{b.Machine.Devices[0]}
	other.Devices[0].Model = "never seen"
	n := Need{Name: "x", Workload: "w2", Flops: 2e12}
	strange := n
	strange.Workload = "unknown"
	for name, c := range map[string]struct {
		e            Estimate
		median, half float64
	}{
		// The middle of the other three is off by 2^2, 2^1, 2^1 and 2^2.
		"unknown workload": {Learn([]*Recording{a}, nil).OnMachine(strange, a.Machine), math.Pow(2, 1.5) * 20, 4},
		// What a took says half of what b takes, and the other way round.
		"unknown machine": {Learn([]*Recording{a, b}, nil).OnMachine(n, &other), 2 * 4 * 2, 2},
	} {
		if e := c.e; e.Measured || math.Abs(e.Median/c.median-1) > 0.01 || math.Abs(e.High/e.Median/c.half-1) > 0.01 || math.Abs(e.Median/e.Low/c.half-1) > 0.01 {
			t.Errorf("%s: %+v, want %v s within a factor of %v", name, e, c.median, c.half)
		}
	}
}

// A chord goes through its points, and in a straight line between them.
func TestChord(t *testing.T) {
	xs, ys := []float64{0, 1, 3}, []float64{5, 7, 6}
	for x, want := range map[float64]float64{0: 5, 0.25: 5.5, 1: 7, 2: 6.5, 3: 6} {
		if got := chord(xs, ys, x, false); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v: %v, want %v", x, got, want)
		}
	}
}

// Devices that share the launches of a job start them side by side.
func TestPartsOfLaunches(t *testing.T) {
	one := &machine.Machine{Devices: []machine.Device{{Name: "cpu", HostMemory: true}}}
	one.Devices[0].Rates.LaunchNS = 1000
	four := &machine.Machine{}
	for range 4 {
		four.Devices = append(four.Devices, one.Devices[0])
	}
	n := Need{Launches: 1000}
	if a, b := partsOf(&n, one).launch, partsOf(&n, four).launch; a < 1e-3 || math.Abs(b/a-0.25) > 1e-12 {
		t.Errorf("1,000 launches of 1 µs take %v s on one device and %v s on four", a, b)
	}
}

// Of no prediction there is nothing to say, and of one what it is.
func TestSummarise(t *testing.T) {
	if got := Summarise(nil); got != (Summary{}) {
		t.Errorf("of none: %+v", got)
	}
	got := Summarise([]Judged{{Seconds: 16, Median: 17, Low: 15, High: 15.5}})
	if want := (Summary{Predictions: 1, Within: 1, HalfWidth: 0.25 / 17, Median: 0.0625, Worst: 0.0625}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A line through near points does not see the bend that the far ones make.
func TestBends(t *testing.T) {
	s := new(series)
	for k := range 12 { // flat, and from the seventh on in proportion to the work
		s.x, s.y = append(s.x, float64(k)), append(s.y, math.Max(0, float64(k-6)))
	}
	for _, x := range []float64{1.5, 8.6, 9.9} {
		if got, want := bends(s, x, [4]float64{}), math.Max(0, x-6); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %v: %v, want %v", x, got, want)
		}
	}
}

// A job whose work is known takes on two devices what its tasks take there: half of the time if it can be divided, all
// of it if it is one task.
func TestTogether(t *testing.T) {
	g, err := Shipped().GPU("H100-SXM")
	if err != nil {
		t.Fatal(err)
	}
	k := &graph.Kernel{Name: "k", Impls: []graph.Impl{{Dialect: graph.PTX, Entry: "k"}}}
	task := func(n int64) graph.Task {
		return graph.Task{Steps: []graph.Step{{Kernel: k, Launch: graph.Grid(1)}}, Work: graph.Work{Ops: 1e12 * float64(n)}}
	}
	build := func(ranges []sched.Range) (*graph.Graph, error) {
		b := new(graph.Builder)
		for _, r := range ranges {
			x := task(r.Hi - r.Lo)
			x.Uses = []graph.Use{{Data: b.Data(graph.Data{Bytes: 8, Output: true}), Access: graph.Write}}
			b.Add(x)
		}
		return b.Build()
	}
	const items = 100
	need := Need{Name: "job", Flops: 1e12 * items, Launches: 1}
	for align, want := range map[int64]float64{1: 0.5, items: 1} {
		w := Work{Items: sched.Items{Extent: items, Align: align}, Whole: task(items), Graph: build}
		m := Learn(nil, map[string]Work{"job": w})
		one, two := m.Predict(need, g, 1), m.Predict(need, g, 2)
		if got := two.Median / one.Median; math.Abs(got-want) > 0.02 || !strings.Contains(two.Why, "simulated on 2 devices") {
			t.Errorf("tasks of %d items: %.3f of the time of one device, want %v: %s", align, got, want, two.Why)
		}
	}
}

// A job that has more alive than devices hold runs, and pays for what moves.
func TestSpilling(t *testing.T) {
	g, err := Shipped().GPU("RTX-4060")
	if err != nil {
		t.Fatal(err)
	}
	m := Learn(nil, nil)
	n := Need{Name: "x", Flops: 1e12, PeakBytes: 6e9, LeastBytes: 1e9}
	small := m.Predict(n, g, 1)
	n.PeakBytes = 18e9
	large := m.Predict(n, g, 1)
	if want := small.Median + 2*10e9/25e9; !small.Fits || !large.Fits || math.Abs(large.Median-want) > 1e-6 || large.Bottleneck != "link" {
		t.Errorf("%+v, want %v", large, want)
	}
	n.LeastBytes = 0 // it cannot be spilled
	if e := m.Predict(n, g, 1); e.Fits {
		t.Errorf("18 GB on 8: %+v", e)
	}
}

func TestSameModel(t *testing.T) {
	c := Shipped()
	for _, x := range []struct {
		opened string
		bytes  int64
		gpu    string
		want   bool
	}{
		{"NVIDIA H200", 144.1e9, "H200-SXM", true},
		{"NVIDIA H200", 144.1e9, "H200-NVL", false},
		{"NVIDIA H100 80GB HBM3", 85e9, "H100-SXM", true},
		{"NVIDIA H100 PCIe", 85e9, "H100-SXM", false},
		{"NVIDIA H100 PCIe", 85e9, "H100-PCIe", true},
		{"NVIDIA A100-SXM4-40GB", 42e9, "A100-SXM-40", true},
		{"NVIDIA A100-SXM4-40GB", 42e9, "A100-SXM-80", false},
		{"NVIDIA GeForce RTX 4060", 8.2e9, "RTX-4060", true},
		{"NVIDIA L40S", 48e9, "L40", false},
	} {
		g, err := c.GPU(x.gpu)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := MachineOf(g, 1)
		d := machine.Device{Model: x.opened, Kind: machine.Discrete, MemBytes: x.bytes}
		if got := sameModel(&d, &m.Devices[0]); got != x.want {
			t.Errorf("%s is %s: %v", x.opened, x.gpu, got)
		}
	}
}

// Machines made of a catalogue have the rates that the machine files state.
func TestMachineOf(t *testing.T) {
	for gpu, file := range map[string]string{"RTX-4060": "rtx4060", "H100-SXM": "8xh100"} {
		g, err := Shipped().GPU(gpu)
		if err != nil {
			t.Fatal(err)
		}
		want, ok := machine.Named(file)
		if !ok {
			t.Fatal(file)
		}
		got, _ := MachineOf(g, 8)
		if err := got.Validate(); err != nil {
			t.Fatal(err)
		}
		for u := range graph.Unit(graph.NumUnits) {
			a, b := got.Devices[0].Rates.For(u), want.Devices[0].Rates.For(u)
			if want.Devices[0].Rates.Ops[u] > 0 && math.Abs(a/b-1) > 0.02 {
				t.Errorf("%s, %v: %v and in %s %v", gpu, u, a, file, b)
			}
		}
	}
	for _, g := range Shipped().GPUs {
		for _, n := range []int{1, 2, 16} {
			if m, _ := MachineOf(g, n); m.Validate() != nil || len(m.Devices) != n {
				t.Errorf("%dx %s: %v", n, g.Name, m.Validate())
			}
		}
	}
}

func TestRecordingRoundTrip(t *testing.T) {
	r := synthetic("a", 1, 1)
	src, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeRecording(src)
	if err != nil {
		t.Fatal(err)
	}
	again, err := back.Encode()
	if err != nil || !bytes.Equal(src, again) {
		t.Errorf("%v, or it changed:\n%s", err, again)
	}
	for old, new := range map[string]string{
		`"version":1`:      `"version":9`,
		`"label":"a"`:      `"label":""`,
		`"unit":"fp32"`:    `"unit":"fp31"`,
		`"repeats":`:       `"repeats":-`,
		`"seconds":[`:      `"seconds":[-1,`,
		`"workload":"w0"`:  `"workload":""`,
		`"points":[`:       `"points":[{},`,
		`"ops":4`:          `"ops":-4`,
		"\n]}\n":           "\n]} x",
		`"label":"a","dev`: `"lable":"a","dev`,
	} {
		if bad := strings.Replace(string(src), old, new, 1); bad != string(src) {
			if _, err := DecodeRecording([]byte(bad)); !errors.Is(err, ErrRecording) {
				t.Errorf("with %s: %v", new, err)
			}
		}
	}
}

func FuzzDecodeRecording(f *testing.F) {
	src, err := synthetic("a", 1, 1).Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src[:bytes.IndexByte(src, '\n')])
	f.Add(append(bytes.Join(bytes.SplitN(src, []byte("\n"), 6)[:5], []byte("\n")), "]}"...))
	f.Fuzz(func(t *testing.T, src []byte) {
		r, err := DecodeRecording(src)
		if err != nil {
			return
		}
		for _, j := range Evaluate([]*Recording{r}) {
			if math.IsNaN(j.Median) || !(j.Low <= j.High) {
				t.Fatalf("%+v", j)
			}
		}
	})
}

// Points that are too short, too few or too far apart do not count.
func TestStable(t *testing.T) {
	for _, c := range []struct {
		seconds []float64
		repeats int
		want    bool
	}{
		{[]float64{1, 1, 1, 1, 1}, 1, true},
		{[]float64{1, 1, 1, 1}, 1, false},
		{[]float64{1, 1, 1.2, 1, 1}, 1, false},
		{[]float64{0.01, 0.01, 0.01, 0.01, 0.01}, 4, false},
		{[]float64{0.01, 0.01, 0.01, 0.01, 0.01}, 5, true},
	} {
		if p := (Point{Seconds: c.seconds, Repeats: c.repeats}); p.Stable() != c.want {
			t.Errorf("%v x %d: stable is %v", c.seconds, c.repeats, p.Stable())
		}
	}
}

// Recordings of one machine are one, and of another with the same label are not.
func TestMerged(t *testing.T) {
	a, b, c := synthetic("a", 1, 1), synthetic("a", 1, 1), synthetic("a", 1, 1)
	a.Points, b.Points = a.Points[:50], b.Points[50:]
	c.Machine.Devices[0].ComputeUnits = 16
	got := merged([]*Recording{a, b, c})
	if len(got) != 2 || len(got[0].Points) != 140 || got[1] != c || len(a.Points) != 50 {
		t.Errorf("%d recordings, the first of %d points", len(got), len(got[0].Points))
	}
}
