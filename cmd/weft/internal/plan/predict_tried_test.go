package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// A prediction names the shortest and the longest trial that it is made from.
func TestTriedNamesTrials(t *testing.T) {
	m, _ := machine.Named("2xcpu")
	var trials []Point
	for _, s := range []float64{0.02, 0.3, 4} {
		trials = append(trials, PointOf(Need{Name: "j", Workload: "w", Flops: s * 1e9, Unit: graph.FP64, Launches: 1}, 1, 1, []float64{s, s, s}))
	}
	for n, want := range map[int]string{1: "by runs of 20 ms,", 3: "by runs of 20 ms to 4 s,"} {
		need := Need{Name: "j", Workload: "w", Flops: 1e12, Unit: graph.FP64, Launches: 1}
		if e := Learn(nil, nil).Tried(m, trials[:n]).OnMachine(need, m); !strings.Contains(e.Why, want) {
			t.Errorf("%d trials: %s, want %s", n, e.Why, want)
		}
	}
}

// Half of the range of runs is the error of a prediction between trials, and half of what trials differ by beside it.
func TestTriedNoise(t *testing.T) {
	m, _ := machine.Named("2xcpu")
	half := func(noise, bend float64) float64 {
		var trials []Point
		for i, s := range []float64{1, 4 * math.Exp(bend)} {
			n := Need{Name: "j", Workload: "w", Flops: 1e12 * math.Pow(4, float64(i)), Unit: graph.FP64}
			trials = append(trials, PointOf(n, 1, 1, []float64{s, s, s * math.Exp(noise)}))
		}
		e := Learn(nil, nil).Tried(m, trials).OnMachine(Need{Name: "j", Workload: "w", Flops: 2e12, Unit: graph.FP64}, m)
		return math.Log(e.High / e.Median)
	}
	floor := half(0, 0)
	for _, c := range []struct{ noise, bend float64 }{{0.2, 0}, {0, 0.3}, {0.2, 0.3}, {0.1, -0.3}} {
		if got, want := half(c.noise, c.bend)-floor, c.noise/2+math.Abs(c.bend)/2; math.Abs(got-want) > 1e-3 {
			t.Errorf("runs differ by %v and trials by %v: half an interval is %v more, want %v", c.noise, c.bend, got, want)
		}
	}
}

// Trials of workloads that are slower than the roofline by any factor, have costs of their own for each
// run, and noise: intervals hold what larger jobs take in nine of ten cases at least, and are no wider
// than they must be.
func TestTried(t *testing.T) {
	m, _ := machine.Named("2xcpu")
	r := rand.New(rand.NewPCG(1, 2))
	held, all, wide := 0, 0, 0.0
	for range 400 {
		slow := math.Exp(r.Float64() * 5)              // times the roofline
		fixed := math.Exp(-12 + 4*r.Float64())         // seconds
		bend := (r.Float64() - 0.5) * 0.1              // of the efficiency with the size
		noise := []float64{0.01, 0.05, 0.3}[r.IntN(3)] // of a run
		took := func(n *Need) float64 {
			return (fixed + slow*partsOf(n, m).total()*math.Pow(n.Flops/1e9, bend)) * math.Exp(noise*r.NormFloat64())
		}
		need := func(ops float64) Need {
			return Need{Name: "j", Workload: "w", Flops: ops, Bytes: ops / 10, Unit: graph.FP64, Launches: 1}
		}
		var trials []Point
		for ops := 1e6; len(trials) < 5; ops *= 4 {
			n := need(ops)
			trials = append(trials, PointOf(n, 1, 1, []float64{took(&n), took(&n), took(&n)}))
			if took(&n) > 0.1 {
				break
			}
		}
		model := Learn(nil, nil).Tried(m, trials[max(len(trials)-3, 0):])
		for _, more := range []float64{0.3, 1, 10, 100} {
			n := need(trials[len(trials)-1].Ops * more)
			e := model.OnMachine(n, m)
			if !e.Measured || !e.Fits || !strings.Contains(e.Why, "tried here") {
				t.Fatalf("%+v", e)
			}
			real := took(&n)
			all++
			if e.Low <= real && real <= e.High {
				held++
			}
			wide += math.Log(e.High/e.Low) / 2
		}
	}
	t.Logf("%d of %d held, by a factor of %.2f on average", held, all, math.Exp(wide/float64(all)))
	if part := float64(held) / float64(all); part < 0.9 || wide/float64(all) > math.Log(3) {
		t.Errorf("%.3f of %d are held, by a factor of %.2f on average", part, all, math.Exp(wide/float64(all)))
	}
}

// Trials say nothing of other machines and other workloads, and a recording counts for more.
func TestTriedElsewhere(t *testing.T) {
	m, _ := machine.Named("2xcpu")
	other, _ := machine.Named("rtx4060")
	n := Need{Name: "j", Workload: "w", Flops: 1e9, Unit: graph.FP64, Launches: 1}
	model := Learn(nil, nil).Tried(m, []Point{PointOf(n, 1, 1, []float64{7, 7})})
	if e := model.OnMachine(n, m); !e.Measured || math.Abs(e.Median/7-1) > 1e-9 {
		t.Errorf("here: %+v", e)
	}
	twice := n
	twice.Flops, twice.Launches, twice.Runs = 2*n.Flops, 2, 2
	if e := model.OnMachine(twice, m); !e.Measured || math.Abs(e.Median/14-1) > 1e-9 {
		t.Errorf("two runs here: %+v", e)
	}
	if e := model.OnMachine(n, other); e.Measured {
		t.Errorf("elsewhere: %+v", e)
	}
	n.Workload = "v"
	if e := model.OnMachine(n, m); e.Measured {
		t.Errorf("another workload: %+v", e)
	}
	var points []Point
	for i := range 5 {
		n := Need{Name: fmt.Sprint(i), Workload: "w", Flops: 1e9 * float64(i+1), Unit: graph.FP64, Launches: 1}
		s := float64(i + 1)
		points = append(points, PointOf(n, i+1, 1, []float64{s, s, s, s, s}))
	}
	n.Workload = "w"
	recorded := Learn([]*Recording{{Version: 1, Label: "here", Machine: m, Points: points}}, nil).Tried(m, []Point{PointOf(n, 1, 1, []float64{7, 7})})
	if e := recorded.OnMachine(n, m); math.Abs(e.Median-1) > 0.1 || strings.Contains(e.Why, "tried") {
		t.Errorf("recorded: %+v", e)
	}
}
