package plan

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// The memory of a conformation is what the formulas of the workload give.
func TestConformation(t *testing.T) {
	for residues, want := range map[int]float64{500: 9.1e6, 2000: 82e6, 2750: 147e6, 10_000: 1.7e9, 200_000: 658e9} {
		if got := float64(Protein{Residues: residues}.Conformation()); math.Abs(got/want-1) > 0.015 {
			t.Errorf("%d residues: %.4g, want %.4g", residues, got, want)
		}
	}
	if got := conformationOf(2750, 22128); got != (conformation{coordinates: 531072, phases: 121e6, contacts: 3025000, landscape: 22e6}) {
		t.Errorf("4JSV: %+v", got)
	}
}

// foldingOf returns a protein with one job, of 650 operations per residue, replica and step. Any device
// runs it, or only those of some dialects.
func foldingOf(p Protein, dialects ...graph.Dialect) Protein {
	kernel := &graph.Kernel{Name: "steps", Impls: []graph.Impl{{Dialect: graph.Abstract}}}
	if dialects != nil {
		kernel.Impls = nil
	}
	for _, d := range dialects {
		kernel.Impls = append(kernel.Impls, graph.Impl{Dialect: d, Entry: "steps"})
	}
	const every = 1000
	bytes := 48 * int64(p.Residues)
	task := func(r sched.Range) graph.Task {
		return graph.Task{Steps: []graph.Step{{Kernel: kernel, Launch: graph.Grid(r.Len())}}, Work: graph.Work{Ops: 650 * float64(p.Residues) * every * float64(r.Len()), Bytes: float64(2 * bytes * r.Len()), Unit: graph.FP64}}
	}
	all := sched.Range{Hi: int64(p.Replicas)}
	w := Work{Items: sched.Items{Extent: all.Hi}, Whole: task(all), Graph: func(ranges []sched.Range) (*graph.Graph, error) {
		b := new(graph.Builder)
		state := b.Data(graph.Data{Name: "state", Bytes: bytes * all.Hi, Input: true, Output: true})
		for _, r := range ranges {
			t := task(r)
			t.Uses = []graph.Use{{Data: state, Offset: bytes * r.Lo, Bytes: bytes * r.Len(), Access: graph.ReadWrite}}
			b.Add(t)
		}
		return b.Build()
	}}
	g, err := w.Graph([]sched.Range{all})
	if err != nil {
		panic(err)
	}
	need := NeedOf("dynamics of "+p.Name, g, float64(p.Steps)/every)
	need.Workload, need.Serial, need.Chains = "fold", float64(p.Steps), float64(p.Replicas)
	p.Jobs = []ProteinJob{{need, w}}
	return p
}

// All classes are planned on both machines, and long chains are faster on more devices.
func TestProteinClasses(t *testing.T) {
	classes := map[string]bool{}
	for _, p := range ProteinExamples() {
		classes[p.ProteinClass()] = true
		var took [2]float64
		for i, name := range []string{"rtx4060", "8xh100"} {
			m, ok := machine.Named(name)
			if !ok {
				t.Fatal(name)
			}
			x, err := PlanProtein(foldingOf(p), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			if over := int64(64)*p.Conformation() > 8e9; i == 0 && (len(x.spills()) > 0) != over {
				t.Errorf("%s on %s: %d bytes, in host memory: %v", p.Name, name, x.Bytes, x.spills())
			}
			if x.Layout != nil && !slices.ContainsFunc(x.Layout.Allocations, func(a Allocation) bool { return a.Array == "energies" && a.Bytes == 8*int64(p.Replicas) }) {
				t.Errorf("%s on %s: no float64 for the energy of each replica in %+v", p.Name, name, x.Layout.Allocations)
			}
			median, low, high := x.Seconds()
			if !x.Fits || !(low < median && median < high) {
				t.Errorf("%s on %s: %+v", p.Name, name, x)
			}
			took[i] = median
		}
		// Small chains are bound by their steps, which eight devices do not shorten.
		if p.Residues > 100 && took[1] >= took[0] {
			t.Errorf("%s takes %v on one RTX 4060 and %v on 8 H100", p.Name, took[0], took[1])
		}
		if known := p.Residues <= 58; p.Accuracy().Known != known {
			t.Errorf("%s: %+v", p.Name, p.Accuracy())
		}
	}
	if len(classes) != 4 {
		t.Errorf("classes %v", classes)
	}
}

// Steps that follow one another take what was measured on an H200, 64 and 1,024 replicas of 46 beads, within the
// interval and within 30 %. More devices shorten neither these nor the arithmetic of one chain, and a
// recording of such steps on a GPU predicts no other number of chains.
func TestSerialSteps(t *testing.T) {
	h200, err := Shipped().GPU("H200-SXM")
	if err != nil {
		t.Fatal(err)
	}
	m := Learn(nil, nil)
	const perStep = 28_400 // operations of a step of 46 beads and 89 contacts
	need := func(chains, beads float64) Need {
		return Need{Workload: "fold", Unit: graph.FP64, Launches: 200, Serial: 1e6, Chains: chains, Flops: 1e6 * chains * perStep * beads / 46}
	}
	for chains, rate := range map[float64]float64{64: 11.75e6, 1024: 129.6e6} {
		e := m.Predict(need(chains, 46), h200, 1)
		if want := 1e6 * chains / rate; e.Low > want || want > e.High || math.Abs(e.Median/want-1) > 0.3 {
			t.Errorf("%v chains take %v s (%v to %v), and took %v", chains, e.Median, e.Low, e.High, want)
		}
	}
	rtx, err := Shipped().GPU("RTX-4060")
	if err != nil {
		t.Fatal(err)
	}
	// Steps alone may be wrong by a factor of 2 on the architecture that was measured, and of 3 on others.
	for off, gpu := range map[float64]GPU{2: h200, 3: rtx} {
		e := m.Predict(Need{Serial: 1e9}, gpu, 1)
		if math.Abs(e.Median/(1e9*5.3e-6)-1) > 1e-3 || math.Abs(e.High/e.Median/off-1) > 1e-3 || math.Abs(e.Median/e.Low/off-1) > 1e-3 {
			t.Errorf("10⁹ steps on %s: %+v, want a factor of %v either way", gpu.Name, e, off)
		}
	}
	long := m.Predict(need(64, 4600), h200, 1)
	if short := m.Predict(need(64, 46), h200, 1); long.Median < 2*short.Median || long.Bottleneck != "steps" {
		t.Errorf("chains of 4,600 beads: %+v, of 46: %+v", long, short)
	}
	if eight := m.Predict(need(64, 4600), h200, 8); eight.Median < 0.9*long.Median {
		t.Errorf("eight devices take %v s for chains that one takes %v s for", eight.Median, long.Median)
	}
	on, _ := MachineOf(h200, 1)
	r := &Recording{Version: RecordingVersion, Label: "h200", Machine: on}
	for i := 1; i <= 6; i++ {
		n := need(64, 46)
		n.Flops *= float64(i)
		r.Points = append(r.Points, PointOf(n, i, 1, []float64{float64(i), float64(i), float64(i), float64(i), float64(i)}))
	}
	if a, b := Learn([]*Recording{r}, nil).OnMachine(need(1024, 46), on), m.OnMachine(need(1024, 46), on); a.Median != b.Median {
		t.Errorf("%v s with a recording of 64 chains, %v s without", a.Median, b.Median)
	}
}

func (p *ProteinPlan) spills() []Spill {
	if p.Layout == nil {
		return nil
	}
	return p.Layout.Spills
}

func TestAccuracy(t *testing.T) {
	a := Protein{Residues: 46, Replicas: 1, Steps: 849_000}.Accuracy()
	if math.Abs(a.Chance-0.9) > 1e-12 || a.Best != a.Chance {
		t.Errorf("%+v", a)
	}
	b := Protein{Residues: 58, Replicas: 64, Steps: 1_500_000}.Accuracy()
	if math.Abs(b.Chance-0.5) > 1e-12 || b.Best < 0.99 {
		t.Errorf("%+v", b)
	}
}

// A protein that no device can hold is refused.
func TestProteinTooLarge(t *testing.T) {
	m, _ := machine.Named("rtx4060")
	x, err := PlanProtein(foldingOf(Protein{Name: "x", Residues: 200_000, Replicas: 2, Steps: 1000}), m, nil)
	if err != nil || x.Fits || x.Why == "" {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := PlanProtein(Protein{Residues: 2}, m, nil); err == nil {
		t.Error("two residues are planned")
	}
}

// A job runs on devices that have code for it alone: on the processor of a machine with a GPU, and
// nowhere on a machine without one.
func TestProteinCode(t *testing.T) {
	p := ProteinExamples()[0]
	mixed, _ := machine.Named("rtx4060")
	gpus, _ := machine.Named("8xh100")
	x, err := PlanProtein(foldingOf(p, graph.Go), mixed, nil)
	if err != nil || !x.Fits || x.Layout != nil {
		t.Errorf("in Go: %+v, %v", x, err)
	}
	cpu := *mixed
	cpu.Devices, cpu.Links = mixed.Devices[1:], nil
	for bytes, fits := range map[int64]bool{0: true, 1: false, 1 << 40: true} { // 0 is not known
		if cpu.HostBytes = bytes; fits != (func() bool { x, err := PlanProtein(foldingOf(p), &cpu, nil); return err == nil && x.Fits })() {
			t.Errorf("%d bytes of host memory: want fit %v", bytes, fits)
		}
	}
	cpu.HostBytes = mixed.HostBytes
	y, err := PlanProtein(foldingOf(p), &cpu, nil)
	if err != nil || x.Estimates[0].Median != y.Estimates[0].Median {
		t.Errorf("%v s in Go on both, %v s on the processor alone, %v", x.Estimates[0].Median, y.Estimates[0].Median, err)
	}
	if x, err := PlanProtein(foldingOf(p, graph.Go), gpus, nil); err != nil || x.Fits || !strings.Contains(x.Why, "it has code in go") {
		t.Errorf("on GPUs: %+v, %v", x, err)
	}
	if x, err := PlanProtein(foldingOf(p, graph.Go, graph.PTX), gpus, nil); err != nil || !x.Fits || x.Estimates[0].Median < 5.3 {
		t.Errorf("a million steps of 5.3 µs take %+v, %v", x, err)
	}
	r := Request{Need: foldingOf(p, graph.Go).Jobs[0].Need, Assume: DefaultAssumptions(), Rent: true}
	var none *NothingFitsError
	if _, err := Decide(r, Shipped(), Learn(nil, nil)); !errors.As(err, &none) || none.Binding != "code" {
		t.Errorf("rented: %v", err)
	}
}
