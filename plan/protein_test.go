package plan

import (
	"math"
	"testing"

	"github.com/weft-run/weft/machine"
)

// The memory of a conformation is what the formulas of the workload give.
func TestConformation(t *testing.T) {
	for residues, want := range map[int]float64{500: 9.1e6, 2000: 82e6, 2750: 147e6, 10_000: 1.7e9, 200_000: 658e9} {
		if got := float64(Protein{Residues: residues}.Conformation()); math.Abs(got/want-1) > 0.015 {
			t.Errorf("%d residues: %.4g, want %.4g", residues, got, want)
		}
	}
}

// The landscape costs 1000·n³/6 pairs of 25 operations, and the middle most.
func TestLandscapeCost(t *testing.T) {
	for residues, want := range map[int]float64{500: 5e11, 2000: 3.3e13} {
		n, w, err := Protein{Name: "x", Residues: residues, Replicas: 1, Steps: 1}.Landscape()
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(n.Flops/want-1) > 0.06 || n.Download != 8000*float64(residues-2) {
			t.Errorf("%d residues: %.4g operations, want %.4g; %v bytes back", residues, n.Flops, want, n.Download)
		}
		// F(x) = 3x²-2x³ is the part of the work before x.
		all, quarter := w.Items.Cost(0, w.Items.Extent), w.Items.Cost(0, w.Items.Extent/4)
		if got, want := quarter/all, 3./16-2./64; math.Abs(got-want) > 0.01 {
			t.Errorf("%d residues: the first quarter has %v of the work, want %v", residues, got, want)
		}
		sum := 0.0
		for i := range int64(residues - 2) {
			sum += float64((i + 2) * (int64(residues) - i - 2))
		}
		if all != sum {
			t.Errorf("%d residues: %v pairs, counted one by one %v", residues, all, sum)
		}
	}
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
			x, err := PlanProtein(p, m, nil)
			if err != nil {
				t.Fatal(err)
			}
			if over := int64(64)*p.Conformation() > 8e9; i == 0 && (len(x.spills()) > 0) != over {
				t.Errorf("%s on %s: %d bytes, in host memory: %v", p.Name, name, x.Bytes, x.spills())
			}
			median, low, high := x.Seconds()
			if !x.Fits || !(low < median && median < high) {
				t.Errorf("%s on %s: %+v", p.Name, name, x)
			}
			took[i] = median
		}
		// Small chains are bound by launches, which eight devices do not shorten.
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
	x, err := PlanProtein(Protein{Name: "x", Residues: 200_000, Replicas: 2, Steps: 10}, m, nil)
	if err != nil || x.Fits || x.Why == "" {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := PlanProtein(Protein{Residues: 2}, m, nil); err == nil {
		t.Error("two residues are planned")
	}
}
