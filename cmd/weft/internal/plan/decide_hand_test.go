package plan

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// exactly predicts what it is told for each GPU, within ten percent.
type exactly map[string]float64

func (x exactly) Predict(_ Need, g GPU, count int) Estimate {
	s := x[g.Name] / float64(count)
	return Estimate{Median: s, Low: s / 1.1, High: s * 1.1, Fits: s > 0}
}

// A rented machine's time and cost, computed by hand: start, upload, computing and
// download are paid for in whole minutes, and then egress.
func TestRentByHand(t *testing.T) {
	r := Request{Need: Need{Upload: 2.5e9, Download: 1.25e9}, Rent: true, Assume: DefaultAssumptions(), At: today}
	c := Shipped()
	c.Instances = []Instance{{Cloud: "c", Type: "one", GPU: "L4", GPUs: 1, OnDemand: 3.60, PriceDate: today}}
	d, err := Decide(r, c, exactly{"L4": 1000})
	if err != nil {
		t.Fatal(err)
	}
	o := d.Best
	if want := 180.0 + 200 + 1000 + 100; math.Abs(o.Seconds-want) > 1e-6 {
		t.Errorf("%v s, want %v", o.Seconds, want)
	}
	// 1481.7 s on average are 25 minutes, at a tenth of a cent a second; 1.25 GB leave.
	if want := 25*60*0.001 + 1.25*0.09; math.Abs(o.Cost-want) > 1e-6 {
		t.Errorf("$%v, want $%v", o.Cost, want)
	}
}

// The probability that both ends keep a deadline is that of draws.
func TestBothInTime(t *testing.T) {
	r := job()
	r.Need.Upload, r.Need.Download = 0, 0
	c := Shipped()
	c.Instances = []Instance{{Cloud: "c", Type: "one", GPU: "L4", GPUs: 1, OnDemand: 1, PriceDate: today}}
	r.Objective = Fastest
	times := exactly{"L4": 10000, "RTX-4060": 10000}
	d, err := Decide(r, c, times)
	if err != nil || d.Best.Kind != Hybrid {
		t.Fatalf("%v: %+v", err, d)
	}
	r.Deadline = time.Duration(d.Best.Seconds90 * 1e9)
	again, err := Decide(r, c, times)
	if err != nil {
		t.Fatal(err)
	}
	o := again.Best
	rng := rand.New(rand.NewPCG(1, 1))
	sigma := math.Log(1.1) / z90
	in := 0
	const draws = 20000
	for range draws {
		here := 10000 * (1 - o.Share) * math.Exp(sigma*rng.NormFloat64())
		there := 180 + 10000*o.Share*math.Exp(sigma*rng.NormFloat64())
		if max(here, there) <= r.Deadline.Seconds() {
			in++
		}
	}
	if got := float64(in) / draws; math.Abs(got-o.InTime) > 0.015 || math.Abs(o.InTime-0.9) > 0.015 {
		t.Errorf("in time with %v, drawn %v", o.InTime, got)
	}
}

// The time by which both ends are done with a probability is that of a scan over times.
func TestLatest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for k := range 3000 {
		ends, wide := make([]end, 2), 0.5
		if k%2 == 0 {
			wide = 3
		}
		for i := range ends {
			ends[i] = end{fixed: 100 * rng.Float64(), x: spread{10 + 1000*rng.Float64(), wide * rng.Float64(), wide * rng.Float64()}}
			if rng.IntN(4) == 0 { // known exactly
				ends[i].x.below, ends[i].x.above = 0, 0
			}
		}
		for _, p := range []float64{0.5, 0.9, 0.99} {
			got := latest(ends, p)
			both := func(t float64) float64 { return ends[0].within(t) * ends[1].within(t) }
			if both(got*(1+1e-5)) < p-1e-6 || both(got*(1-1e-5)) > p+1e-6 {
				t.Fatalf("%+v: by %v with %v and not %v", ends, got, both(got), p)
			}
		}
	}
}

// An option that misses the deadline lost for that, and the confidence is how probable
// it is to miss it.
func TestLossNamesTheLimit(t *testing.T) {
	r := job()
	r.Need.Parts = 1
	r.Deadline = 3 * time.Hour
	c := Shipped()
	c.Instances = []Instance{
		{Cloud: "c", Type: "fast", GPU: "H100-SXM", GPUs: 1, OnDemand: 9, PriceDate: today},
		{Cloud: "c", Type: "dear", GPU: "H200-SXM", GPUs: 1, OnDemand: 90, PriceDate: today},
	}
	d, err := Decide(r, c, exactly{"RTX-4060": 20000, "H100-SXM": 4000, "H200-SXM": 3000})
	if err != nil || d.Best.Offer.Type != "fast" || len(d.Lost) != 2 {
		t.Fatalf("%v: %+v", err, d)
	}
	dear, here := d.Lost[0], d.Lost[1]
	if !strings.Contains(here.Reason, "keeps the deadline with probability 0.00 only") || here.Confidence < 0.99 {
		t.Errorf("%+v", here)
	}
	want := (dear.Option.Cost - d.Best.Cost) / ((d.Best.Seconds90 - dear.Option.Seconds90) / 3600)
	if !strings.Contains(dear.Reason, "times as much; each hour saved would cost $") || math.Abs(dear.CostBenefit-want) > 1e-9*want || dear.Confidence < 0.99 {
		t.Errorf("%+v", dear)
	}
}

// Of machines that take equally long the cheaper is chosen, and no hour is said to be saved by the other. A machine of too
// little host memory is no offer, however cheap, beside one with equal GPUs.
func TestOffersByHand(t *testing.T) {
	r := Request{Need: Need{HostBytes: 32e9}, Rent: true, Assume: DefaultAssumptions(), At: today}
	c := Shipped()
	c.Instances = []Instance{
		{Cloud: "c", Type: "lean", GPU: "L4", GPUs: 1, OnDemand: 1, MemoryBytes: 16e9, PriceDate: today},
		{Cloud: "c", Type: "good", GPU: "L4", GPUs: 1, OnDemand: 2, MemoryBytes: 64e9, PriceDate: today},
		{Cloud: "c", Type: "dear", GPU: "A40", GPUs: 1, OnDemand: 3, MemoryBytes: 64e9, PriceDate: today},
	}
	d, err := Decide(r, c, exactly{"L4": 36000, "A40": 36000})
	if err != nil || d.Best.Offer.Type != "good" || len(d.Lost) != 1 {
		t.Fatalf("%v: %+v", err, d)
	}
	if l := d.Lost[0]; l.Option.Offer.Type != "dear" || l.Reason != "costs 1.5 times as much" || l.CostBenefit != 0 {
		t.Errorf("%+v", l)
	}
}

// The options that are weighed before the best is known: a rented machine does a part of the job, and never more than all or
// nothing, beside the fastest devices here, wherever these are named.
func TestWeighedSplits(t *testing.T) {
	r := job()
	slow := r.Here[0]
	slow.Name, slow.GPU.Name = "cuda:1", "RTX-4050"
	r.Here = append(r.Here, slow)
	r.Deadline = time.Second // which no split keeps
	c := Shipped()
	c.Instances = []Instance{{Cloud: "c", Type: "one", GPU: "L4", GPUs: 1, OnDemand: 1, PriceDate: today}}
	splits := func(need Need) (n int) {
		r.Need = need
		w := &weighing{Request: r, predictor: exactly{"L4": 1000, "RTX-4060": 1e6, "RTX-4050": 2e6}, known: make(map[place]Estimate), unfit: make(map[string]string)}
		if err := w.rented(c); err != nil {
			t.Fatal(err)
		}
		for _, o := range w.options {
			if o.Kind != Hybrid {
				continue
			}
			if n++; o.Here != "cuda:0" || o.First == nil && (o.Parts < 1 || o.Parts >= need.Parts) {
				t.Errorf("%d parts of %d there, and the rest on %s", o.Parts, need.Parts, o.Here)
			}
		}
		return n
	}
	if n := splits(r.Need); n == 0 {
		t.Error("no split")
	}
	need := r.Need
	need.Parts, need.First = 1, [3]First{{Flops: need.Flops / 2, Bytes: need.Bytes / 2, Upload: 1}}
	if n := splits(need); n != 1 {
		t.Errorf("%d options with the first half here", n)
	}
	need.First = [3]First{{Flops: need.Flops, Bytes: need.Bytes, Upload: 1}}
	if n := splits(need); n != 0 {
		t.Errorf("%d options with all of the work here and a rented machine", n)
	}
	r.Here[0], r.Here[1] = r.Here[1], r.Here[0]
	need.Parts = 64
	if n := splits(need); n == 0 {
		t.Error("no split")
	}
}
