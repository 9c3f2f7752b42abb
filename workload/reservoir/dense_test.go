package reservoir

import (
	"slices"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
	"github.com/weft-run/weft/workload"
)

// A launch of any batch and number of channels has room in a multiprocessor of Hopper, and
// clusters for all patterns.
func TestWholeFits(t *testing.T) {
	const most = 227 << 10
	for inputs := 1; inputs <= wholeInputs; inputs++ {
		p := Params{Size: wholeSize, Inputs: inputs}
		for batch := 1; batch < tileFrom; batch++ {
			w := p.wholeOf(batch)
			l := w.launch(&call{size: p.Size, inputs: inputs, batch: batch})
			if l.SharedBytes > most || int(l.Grid[0])*w.patterns < 16*batch || int(l.Grid[0]-16)*w.patterns >= 16*batch {
				t.Fatalf("%d channels, %d patterns: %d at a time, %+v", inputs, batch, w.patterns, l)
			}
		}
	}
}

// Dense weights have every weight in its place.
func TestSpreadOut(t *testing.T) {
	p := Defaults()
	p.Size, p.Inputs = 70, 40
	w, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	depth, driven := p.denseDepth()
	if depth != 128+64 || driven != 128 {
		t.Fatalf("depth %d, channels from %d", depth, driven)
	}
	got := w.spreadOut()
	if int64(4*len(got)) != p.denseBytes() {
		t.Fatalf("%d numbers, %d bytes", len(got), p.denseBytes())
	}
	entries := 0
	for i := range p.Size {
		for k := range depth {
			want := float32(0)
			for _, part := range []struct {
				m    *Matrix
				from int
			}{{&w.Recurrent, 0}, {&w.Input, driven}} {
				for e := part.m.Start[i]; e < part.m.Start[i+1]; e++ {
					if part.from+int(part.m.Column[e]) == k {
						want = part.m.Value[e]
					}
				}
			}
			if got[i*depth+k] != want {
				t.Fatalf("row %d, column %d: %v, want %v", i, k, got[i*depth+k], want)
			}
			if want != 0 {
				entries++
			}
		}
	}
	if entries != len(w.Recurrent.Value)+len(w.Input.Value) {
		t.Errorf("%d entries", entries)
	}
}

// Dense weights are for GPUs that can all run their kernels, and for reservoirs that gain by
// them.
func TestDenseWhere(t *testing.T) {
	gpu := func(cluster int, exact bool) machine.Device {
		return machine.Device{Name: "cuda", Backend: "cuda", Cluster: cluster, Exact: exact}
	}
	core := machine.Device{Name: "cpu", Backend: "cpu", Arch: "amd64"}
	for i, c := range []struct {
		devices      []machine.Device
		size         int
		connectivity float64
		want         bool
	}{
		{[]machine.Device{core}, 40, 0.2, false},
		{[]machine.Device{core, gpu(16, false)}, 40, 0.2, true},
		{[]machine.Device{gpu(16, true)}, 40, 0.2, false},
		{[]machine.Device{gpu(8, false)}, 40, 0.2, false},
		{[]machine.Device{gpu(16, false), gpu(0, false)}, 40, 0.2, false},
		{[]machine.Device{gpu(16, false)}, 1025, 0.1, false},
		{[]machine.Device{gpu(16, false)}, 1025, 0.6, true},
	} {
		if testing.Short() && c.size > 1000 {
			continue // it takes the race detector half a minute
		}
		p := Defaults()
		p.Size, p.Inputs, p.Connectivity = c.size, 5, c.connectivity
		j, err := NewJob(Config{Params: p, Batch: 3, Steps: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Place(&machine.Machine{Devices: c.devices}); err != nil {
			t.Fatal(err)
		}
		if got := j.dense != nil; got != c.want {
			t.Errorf("case %d: %v", i, got)
		}
		j.c.Batch = tileFrom - 1
		if got, want := j.ClassOn(c.devices), c.want && !j.c.fits(); (got == workload.Tolerance) != want {
			t.Errorf("case %d: class %s", i, got)
		}
		j.c.Batch = tileFrom
		if got := j.ClassOn(c.devices); (got == workload.Tolerance) != c.want {
			t.Errorf("case %d: class %s of many patterns", i, got)
		}
	}
}

// Whatever is chosen for a batch is done by each kind of device once: all steps, in order.
func TestDenseSteps(t *testing.T) {
	for _, c := range []struct{ size, batch, steps, launches int }{{1000, 1, 7, 1}, {1000, 255, 7, 1}, {1000, 256, 7, 7}, {2000, 1, 7, 7}, {2000, 64, 3, 3}} {
		p := Params{Size: c.size, Inputs: 64}
		steps := p.denseSteps(call{size: c.size, inputs: 64, batch: c.batch, steps: c.steps})
		does := func(s graph.Step, d graph.Dialect) bool {
			return slices.ContainsFunc(s.Kernel.Impls, func(i graph.Impl) bool { return i.Dialect == d && i.Entry != "" })
		}
		count := map[graph.Dialect]int{}
		for _, s := range steps {
			for _, d := range []graph.Dialect{graph.Go, graph.PTX, graph.SPIRV} {
				if does(s, d) {
					count[d]++
				}
			}
		}
		if count[graph.Go] != c.steps || count[graph.SPIRV] != c.steps || count[graph.PTX] != c.launches {
			t.Errorf("%+v: %v", c, count)
		}
	}
}

// Devices without the kernels of dense weights give the same bits where a machine has some
// with them.
func TestDenseElsewhere(t *testing.T) {
	rt := openCPU(t, "cpu")
	p := Defaults()
	p.Size, p.Inputs, p.Seed = 83, 17, 3
	for _, batch := range []int{1, 37, 300} {
		var states [2][]float32
		for i := range states {
			j, err := NewJob(Config{Params: p, Batch: batch, Steps: 4})
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				j.dense = j.w.spreadOut()
			}
			g, err := j.Graph([]sched.Range{{Hi: int64(batch)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := rt.Run(t.Context(), g, j.Bind()...); err != nil {
				t.Fatal(err)
			}
			if err := j.Check(); err != nil {
				t.Error(err)
			}
			states[i] = slices.Concat(j.x, j.mean)
		}
		if !slices.Equal(states[0], states[1]) {
			t.Errorf("%d patterns: other states", batch)
		}
	}
	m := someModel(t, tinyParams(), 6, 3, Mean)
	inputs, want := someInputs(m, 41), room(m, 41)
	q := mustPredictor(t, rt, m, 41)
	if err := q.Predict(t.Context(), inputs, want); err != nil {
		t.Fatal(err)
	}
	d, err := newPredictor(rt, m, 300, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, n := range []int{41, 3, 1, 40} {
		got := room(m, n)
		if err := d.Predict(t.Context(), inputs[:n], got); err != nil {
			t.Fatal(err)
		}
		for b := range n {
			if !slices.Equal(got[b], want[b]) {
				t.Fatalf("prediction %d of %d: %v, want %v", b, n, got[b], want[b])
			}
		}
	}
}

// readEach gives what readBatch gives, bit for bit.
func TestReadEach(t *testing.T) {
	const size, outputs = 37, 3
	r := &Readout{Outputs: outputs, Inputs: size}
	for i := range outputs * (size + 1) {
		r.Weights = append(r.Weights, 1/float64(i+3))
	}
	for n := 1; n <= 9; n++ {
		side, each := make([]float32, n*size), make([]float32, n*size)
		want, got := make([][]float32, n), make([][]float32, n)
		for b := range n {
			want[b], got[b] = make([]float32, outputs), make([]float32, outputs)
			for i := range size {
				v := 1 / float32(b*size+i+1)
				side[i*n+b], each[b*size+i] = v, v
			}
		}
		r.readBatch(want, side, n)
		r.readEach(got, each)
		for b := range n {
			if !slices.Equal(want[b], got[b]) {
				t.Fatalf("state %d of %d: %v, want %v", b, n, got[b], want[b])
			}
		}
	}
}

// A predictor needs the memory of all data of its graph, and of its workspace.
func TestPredictorBytes(t *testing.T) {
	p := Defaults()
	p.Size, p.Inputs = 70, 40
	w, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{Weights: w, Steps: 5, Mode: Sequence, Feature: Last}
	cpu := machine.Device{Name: "cpu:0", Backend: "cpu"}
	hopper := machine.Device{Name: "cuda:0", Backend: "cuda", Cluster: 16}
	ampere := machine.Device{Name: "cuda:0", Backend: "cuda"}
	for _, c := range []struct {
		on           []machine.Device
		whole, dense bool
	}{
		{[]machine.Device{cpu}, true, false},
		{[]machine.Device{cpu, hopper}, false, true},
		{[]machine.Device{cpu, ampere}, false, false},
	} {
		const batch = 9
		g, err := m.batchGraph(w, batch, batch, batch, c.whole, c.dense)
		if err != nil {
			t.Fatal(err)
		}
		want := g.Task(0).Workspace
		for i := range g.NumData() {
			want += g.Data(graph.DataID(i)).Bytes
		}
		if c.whole && w.fewer() { // and for few inputs
			for _, n := range w.slice().bytes() {
				want += n
			}
		}
		weights, work := m.PredictorBytes(&machine.Machine{Devices: c.on}, batch)
		if weights+work != want || (weights > w.denseBytes()) != c.dense {
			t.Errorf("%v: %d bytes of weights and %d for a batch; the graph has %d", c.on, weights, work, want)
		}
	}
	large := &Model{Weights: &Weights{Params: Params{Inputs: 1 << 30, Size: 1 << 30}}, Steps: 1 << 30}
	if _, work := large.PredictorBytes(&machine.Machine{}, 1<<16); work < 1<<60 {
		t.Errorf("a batch beyond all bounds takes %d bytes", work)
	}
}
