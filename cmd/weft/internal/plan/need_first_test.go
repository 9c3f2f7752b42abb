package plan

import (
	"math"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
)

// funnel is a graph of three tasks: 1000 bytes become 400, these 50, and these with 30 bytes
// of another input 10.
func funnel(t *testing.T) *graph.Graph {
	t.Helper()
	var b graph.Builder
	in, other := b.Data(graph.Data{Name: "in", Bytes: 1000, Input: true}), b.Data(graph.Data{Name: "other", Bytes: 30, Input: true})
	mid, few := b.Data(graph.Data{Name: "mid", Bytes: 400}), b.Data(graph.Data{Name: "few", Bytes: 50})
	out := b.Data(graph.Data{Name: "out", Bytes: 10, Output: true})
	step := []graph.Step{{Kernel: graph.GoKernel("k"), Launch: graph.Grid(1)}}
	use := func(d graph.DataID, bytes int64, a graph.Access) graph.Use {
		return graph.Use{Data: d, Bytes: bytes, Access: a}
	}
	b.Add(graph.Task{Steps: step, Uses: []graph.Use{use(in, 1000, graph.Read), use(mid, 400, graph.Write)}, Work: graph.Work{Ops: 100, Bytes: 1400}})
	b.Add(graph.Task{Steps: step, Uses: []graph.Use{use(mid, 400, graph.Read), use(few, 50, graph.Write)}, Work: graph.Work{Ops: 200, Bytes: 450}})
	b.Add(graph.Task{Steps: step, Uses: []graph.Use{use(few, 50, graph.Read), use(other, 30, graph.Read), use(out, 10, graph.Write)}, Work: graph.Work{Ops: 700, Bytes: 90}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The beginnings of a graph are those that leave less to upload, counted by hand.
func TestFirstOf(t *testing.T) {
	n := NeedOf("funnel", funnel(t), 1)
	want := [3]First{{Flops: 100, Bytes: 1400, Upload: 430}, {Flops: 300, Bytes: 1850, Upload: 80}}
	if n.First != want {
		t.Errorf("%+v, want %+v", n.First, want)
	}
	if n := NeedOf("funnel", funnel(t), 5); n.First != [3]First{} {
		t.Errorf("of several runs: %+v", n.First)
	}
	first, rest := n.First[0].share(&n)
	if math.Abs(first-1400.0/1940) > 1e-12 || math.Abs(rest-0.9) > 1e-12 {
		t.Errorf("shares %v and %v", first, rest)
	}
}

// Where the uplink is slow the first tasks run here; the time is that of both, one after the
// other, computed by hand.
func TestPreprocessHere(t *testing.T) {
	r := job()
	r.Need = Need{Name: "funnel", Flops: 1e15, Bytes: 1e12, Upload: 1e12, Download: 1.25e9, PeakBytes: 1e9,
		First: [3]First{{Flops: 1e14, Bytes: 1e11, Upload: 1.25e9}}}
	r.Objective = Fastest
	c := Shipped()
	c.Instances = []Instance{{Cloud: "c", Type: "one", GPU: "L4", GPUs: 1, OnDemand: 3.6, PriceDate: today}}
	d, err := Decide(r, c, exactly{"L4": 1000, "RTX-4060": 10000})
	if err != nil {
		t.Fatal(err)
	}
	o := d.Best
	if o.First == nil || o.Kind != Hybrid || !strings.HasPrefix(o.Name, "preprocess here, compute on c one") {
		t.Fatalf("%+v", o)
	}
	if want := 0.1*10000 + 180 + 100 + 0.9*1000 + 100; math.Abs(o.Seconds-want) > 1e-6*want {
		t.Errorf("%v s, want %v", o.Seconds, want)
	}
	// Both are late together: 10 % more of both is the 95 % quantile.
	sigma := math.Log(1.1) / z90
	if want := 380 + 1900*math.Exp(1.2815515655446004*sigma); math.Abs(o.Seconds90-want) > 1e-6*want {
		t.Errorf("90 %% within %v s, want %v", o.Seconds90, want)
	}
	// 900 s with 380 s around them are 22 minutes of rent, 215 W for 1000 s are energy.
	mean := exactly{"x": 1}.Predict(Need{}, GPU{Name: "x"}, 1).spread().mean()
	if want := 22*60*0.001 + 1.25*0.09 + 1000*mean*0.215/3600*0.2; math.Abs(o.Cost-want) > 1e-6*want {
		t.Errorf("$%v, want $%v", o.Cost, want)
	}
}
