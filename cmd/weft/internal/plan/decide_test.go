package plan

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var today = time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)

// job is some hours of work for a small GPU: a request as most tests need it.
func job() Request {
	return Request{
		Need: Need{Name: "job", Flops: 2e17, Bytes: 1e15, Upload: 1e9, Download: 2e9, PeakBytes: 4e9, State: 1e9, Parts: 64},
		Here: []Here{{Name: "cuda:0", GPU: GPU{Name: "RTX-4060", MemoryBytes: 8e9, MemoryBPS: 272e9, FP32: 15.11e12}, Count: 1, Watts: 215}},
		Rent: true, Assume: DefaultAssumptions(), At: today,
	}
}

func mustDecide(t *testing.T, r Request, c *Catalogue) *Decision {
	t.Helper()
	d, err := Decide(r, c, sheet{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecideCheapest(t *testing.T) {
	d := mustDecide(t, job(), Shipped())
	if d.Best.Kind != Local { // energy is cheaper than rent
		t.Errorf("without a deadline: %s", d.Best.Name)
	}
	// 215 W for the expected time, 1e15 bytes at half of 272 GB/s in the median.
	x := Estimate{Median: 2e17 / 15.11e12 / 0.5, Low: 2e17 / 15.11e12, High: 2e17 / 15.11e12 / 0.15}
	want := x.spread().mean() * 0.215 / 3600 * 0.20
	if math.Abs(d.Best.Cost-want) > 1e-9*want || d.Best.Energy != d.Best.Cost {
		t.Errorf("local cost %v, want %v", d.Best.Cost, want)
	}
	r := job()
	r.Deadline = 2 * time.Hour
	d = mustDecide(t, r, Shipped())
	if d.Best.Kind == Local || d.Best.InTime < 0.9 || d.Confidence < 0.9 {
		t.Errorf("within 2 h: %+v", d.Best)
	}
	if len(d.Lost) != mostLost {
		t.Errorf("%d losses", len(d.Lost))
	}
	for _, l := range d.Lost {
		if l.Reason == "" || l.Confidence < 0 || l.Confidence > 1 || l.Option.Kept && l.Option.Cost < d.Best.Cost {
			t.Errorf("%+v", l)
		}
	}
	if len(d.Unverified) == 0 {
		t.Error("nothing is called unverified")
	}
	if len(d.Assumed) != len(assumptions) {
		t.Errorf("%d assumptions listed", len(d.Assumed))
	}
}

func TestDecideFastest(t *testing.T) {
	r := job()
	r.Budget = 20
	d := mustDecide(t, r, Shipped())
	if d.Objective != Fastest || d.Best.InBudget < 0.9 || d.Best.Cost90 > 20 {
		t.Errorf("%s: %+v", d.Objective, d.Best)
	}
	r.Budget = 200
	if more := mustDecide(t, r, Shipped()); more.Best.Seconds90 > d.Best.Seconds90 {
		t.Errorf("with $200 it takes %v s, with $20 %v s", more.Best.Seconds90, d.Best.Seconds90)
	}
}

// Every limit is named when it binds, with something that is possible.
func TestNothingFits(t *testing.T) {
	cases := []struct {
		name    string
		change  func(r *Request)
		binding string
		instead int
		want    string
	}{
		{"deadline", func(r *Request) { r.Deadline = time.Minute }, "deadline", 1, "the deadline of 1m00s is too early"},
		{"budget", func(r *Request) { r.Budget = 1e-4 }, "budget", 1, "the budget of $0.0001 is too small"},
		{"both", func(r *Request) { r.Deadline, r.Budget = 2*time.Hour, 1 }, "deadline and budget", 2, "nothing keeps both"},
		{"memory", func(r *Request) { r.Need.PeakBytes = 1 << 50 }, "memory", 0, "no machine can run it"},
		{"offers", func(r *Request) { r.Here, r.Rent = nil, false }, "offers", 0, "nothing to rent"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := job()
			c.change(&r)
			_, err := Decide(r, Shipped(), sheet{})
			e := (*NothingFitsError)(nil)
			if !errors.As(err, &e) || e.Binding != c.binding || len(e.Instead) != c.instead || !strings.Contains(e.Reason, c.want) {
				t.Fatalf("%v: %+v", err, e)
			}
			for _, o := range e.Instead { // which must be possible indeed
				again := r
				if r.Deadline > 0 {
					again.Deadline = time.Duration(o.Seconds90*1.001*1e9) + 1
				}
				if r.Budget > 0 {
					again.Budget = o.Cost90 * 1.001
				}
				if _, err := Decide(again, Shipped(), sheet{}); err != nil {
					t.Errorf("instead %s: %v", o.Name, err)
				}
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	for name, change := range map[string]func(r *Request){
		"deadline":   func(r *Request) { r.Deadline = -1 },
		"budget":     func(r *Request) { r.Budget = math.NaN() },
		"flops":      func(r *Request) { r.Need.Flops = math.Inf(1) },
		"objective":  func(r *Request) { r.Objective = "best" },
		"count":      func(r *Request) { r.Here[0].Count = 0 },
		"assumption": func(r *Request) { r.Assume.Uplink = 0 },
		"unit":       func(r *Request) { r.Need.Unit = 99 },
		"least":      func(r *Request) { r.Need.LeastBytes = r.Need.PeakBytes + 1 },
		"negative":   func(r *Request) { r.Need.LeastBytes = -1 },
	} {
		r := job()
		change(&r)
		if _, err := Decide(r, Shipped(), sheet{}); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Decide(job(), Shipped(), nil); !errors.Is(err, ErrRequest) {
		t.Errorf("no predictor: %v", err)
	}
	if _, err := Decide(job(), nil, sheet{}); !errors.Is(err, ErrRequest) {
		t.Errorf("no catalogue: %v", err)
	}
	here := job()
	here.Rent = false
	if _, err := Decide(here, nil, sheet{}); err != nil {
		t.Errorf("no catalogue where none is used: %v", err)
	}
	c := Shipped()
	c.Instances = append(c.Instances, Instance{Cloud: "a", Type: "b", GPU: "nothing", GPUs: 1, OnDemand: 1})
	if _, err := Decide(job(), c, sheet{}); !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), "unknown GPU") {
		t.Errorf("unknown GPU: %v", err)
	}
}

// badPredictor answers what is no time.
type badPredictor float64

func (b badPredictor) Predict(Need, GPU, int) Estimate {
	return Estimate{Median: float64(b), Low: float64(b), High: float64(b), Fits: true}
}

func TestBadPredictions(t *testing.T) {
	for _, x := range []float64{math.NaN(), 0, -1, math.Inf(1)} {
		_, err := Decide(job(), Shipped(), badPredictor(x))
		if e := (*NothingFitsError)(nil); !errors.As(err, &e) {
			t.Errorf("predicted %v: %v", x, err)
		}
	}
}

// Leaving out dearer offers of equal machines changes nothing: each offer decided alone
// gives no better plan, and the best of them is as good.
func TestPruning(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		c := manyOffers(rng, 60)
		r := job()
		r.Need.Flops *= math.Exp(rng.NormFloat64())
		r.Need.Parts = []int{1, 7, 64}[rng.IntN(3)]
		switch rng.IntN(3) {
		case 0:
			r.Deadline = time.Duration(float64(time.Hour) * (1 + 9*rng.Float64()))
		case 1:
			r.Budget = 5 + 50*rng.Float64()
		}
		all, err := Decide(r, c, sheet{})
		if err != nil && !errors.As(err, new(*NothingFitsError)) {
			t.Fatal(err)
		}
		best := math.Inf(1)
		for _, n := range c.Instances {
			alone := *c
			alone.Instances = []Instance{n}
			d, err := Decide(r, &alone, sheet{})
			if err != nil {
				continue
			}
			if d.Objective == Fastest {
				best = min(best, d.Best.Seconds90)
			} else {
				best = min(best, d.Best.Cost)
			}
		}
		if (all == nil) != math.IsInf(best, 1) {
			t.Fatalf("%d: together %v, alone %v", i, err, best)
		}
		if all == nil {
			continue
		}
		got := all.Best.Cost
		if all.Objective == Fastest {
			got = all.Best.Seconds90
		}
		if got != best {
			t.Errorf("%d: %s %v, one by one %v", i, all.Objective, got, best)
		}
		if all.Pruned == 0 {
			t.Errorf("%d: nothing was pruned", i)
		}
	}
}

// manyOffers is a catalogue of n instances at random prices.
func manyOffers(rng *rand.Rand, n int) *Catalogue {
	c := Shipped()
	c.Instances = nil
	for i := range n {
		g := c.GPUs[rng.IntN(len(c.GPUs))]
		count := 1 << rng.IntN(4)
		price := g.FP32 / 1e12 / 20 * float64(count) * math.Exp(0.5*rng.NormFloat64())
		x := Instance{Cloud: "c", Type: fmt.Sprintf("t%d", i), GPU: g.Name, GPUs: count, OnDemand: price, PriceDate: today}
		if rng.IntN(2) == 0 {
			x.Spot = price * (0.2 + 0.6*rng.Float64())
		}
		c.Instances = append(c.Instances, x)
	}
	return c
}

// No option beats another on the front in both respects, and every option is beaten by
// one on the front or is there.
func TestFront(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		options := make([]*Option, rng.IntN(30))
		for i := range options {
			options[i] = &Option{Name: fmt.Sprint(i), Seconds90: float64(rng.IntN(10)), Cost: float64(rng.IntN(10))}
		}
		f := (&weighing{options: options}).front()
		for i, a := range f {
			for j, b := range f {
				if i != j && a.Seconds90 <= b.Seconds90 && a.Cost <= b.Cost {
					t.Fatalf("%v beats %v", a, b)
				}
			}
		}
		for _, o := range options {
			beaten := false
			for _, a := range f {
				beaten = beaten || a.Seconds90 <= o.Seconds90 && a.Cost <= o.Cost
			}
			if !beaten {
				t.Fatalf("%v is missing", o)
			}
		}
	}
}

// A split in which both ends are done at the same time is the fastest there is.
func TestHybridEven(t *testing.T) {
	r := job()
	r.Need.Parts = 50
	r.Objective = Fastest
	c := Shipped()
	c.Instances = c.Instances[:0]
	c.Instances = append(c.Instances, Instance{Cloud: "c", Type: "one", GPU: "A40", GPUs: 1, OnDemand: 1, Spot: 0.5, PriceDate: today})
	d := mustDecide(t, r, c)
	if d.Best.Kind != Hybrid {
		t.Fatalf("%+v", d.Best)
	}
	// Every other split, computed anew with the medians of both ends.
	here := 2e17 / 15.11e12 / 0.5
	there := 2e17 / 37.4e12 / 0.5
	time := func(parts int) float64 {
		x := float64(parts) / 50
		return max(here*(1-x), 180+1e9/12.5e6+there*x+2e9*x/12.5e6)
	}
	best := 1
	for p := 1; p < 50; p++ {
		if time(p) < time(best) {
			best = p
		}
	}
	var onDemand *Option
	for i := range d.Front {
		if o := &d.Front[i]; o.Kind == Hybrid && !o.Offer.OnSpot && o.Parts == best {
			onDemand = o
		}
	}
	if !d.Best.Offer.OnSpot {
		onDemand = &d.Best
	}
	if onDemand == nil || onDemand.Parts != best {
		t.Errorf("best is %d parts there, got %+v", best, d.Best)
	}
}

// The probability of keeping a deadline and a budget is that of a simulation in which
// times are drawn from the stated intervals and interruptions happen.
func TestProbabilities(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	r := job()
	r.Need.Flops = 1e18
	r.Need.State = 20e9
	r.Assume.Spot = 1
	r.Here = nil
	c := Shipped()
	c.Instances = []Instance{{Cloud: "c", Type: "one", GPU: "A100-SXM-40", GPUs: 1, OnDemand: 100, Spot: 1, PriceDate: today}}
	d := mustDecide(t, r, c)
	o := d.Best
	if o.Spot == nil || o.Spot.Checkpoints < 2 {
		t.Fatalf("%+v", o.Spot)
	}
	x := o.Estimate.spread()
	save, rate := 20e9/500e6, 1.0/3600
	var took []float64
	for range 40000 {
		z := rng.NormFloat64()
		work := x.median * math.Exp(z*x.above)
		if z < 0 {
			work = x.median * math.Exp(z*x.below)
		}
		wall := o.Start + o.Upload + o.Download
		for work > 0 {
			segment := min(work, o.Spot.Every)
			need := segment + save
			if fail := rng.ExpFloat64() / rate; fail < need {
				wall += fail + r.Assume.Start + save
				continue
			}
			wall += need
			work -= segment
		}
		took = append(took, wall)
	}
	mean, in := 0.0, 0
	for _, s := range took {
		mean += s / float64(len(took))
		if s <= o.Seconds90 {
			in++
		}
	}
	if got := float64(in) / float64(len(took)); math.Abs(got-0.9) > 0.03 {
		t.Errorf("%.3f end within the time that 0.9 should", got)
	}
	if cost := mean/3600 + o.Egress; math.Abs(cost-o.Cost) > 0.03*cost {
		t.Errorf("mean cost %v, expected %v", cost, o.Cost)
	}
}

// Against drawn interruptions, and the best interval against others.
func TestOnSpot(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct{ seconds, rate, restart, save float64 }{
		{36000, 1.0 / 3600, 300, 30}, {36000, 1.0 / 36000, 300, 5}, {7200, 1.0 / 3600, 100, 0}, {100, 1e-3, 10, 1},
	} {
		s := onSpot(c.seconds, c.rate, c.restart, c.save)
		n := s.Checkpoints + 1
		segment := (c.seconds + s.Checkpoints*c.save) / n
		var sum, square float64
		const runs = 20000
		for range runs {
			wall := 0.0
			for i := 0.0; i < n; {
				if fail := rng.ExpFloat64() / c.rate; fail < segment {
					wall += fail + c.restart
					continue
				}
				wall += segment
				i++
			}
			sum += wall
			square += wall * wall
		}
		mean := sum / runs
		spread := math.Sqrt(max(square/runs-mean*mean, 0)) / mean
		if math.Abs(mean-s.Factor*c.seconds) > 0.02*mean || math.Abs(spread-s.Spread) > 0.05*s.Spread+0.005 {
			t.Errorf("%+v: %.4g ± %.3g, simulated %.4g ± %.3g", c, s.Factor*c.seconds, s.Spread, mean, spread)
		}
	}
	for _, c := range []struct{ save, mean float64 }{{1, 3600}, {30, 3600}, {300, 3600}, {3000, 3600}} {
		factor := func(every float64) float64 { return math.Expm1((every+c.save)/c.mean) * c.mean / every }
		best := math.Inf(1)
		for every := 1.0; every < 20000; every++ {
			best = min(best, factor(every))
		}
		if got := factor(checkpointEvery(c.save, c.mean)); got > 1.01*best {
			t.Errorf("save %v: every %v takes %v, the best %v", c.save, checkpointEvery(c.save, c.mean), got, best)
		}
	}
	if s := onSpot(100, 0, 1, 1); s.Factor != 1 {
		t.Errorf("without interruptions: %+v", s)
	}
}

func TestSpread(t *testing.T) {
	x := Estimate{Median: 10, Low: 8, High: 15}.spread()
	for p, want := range map[float64]float64{0.05: 8, 0.5: 10, 0.95: 15} {
		if got := x.quantile(p); math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %v is %v, want %v", p, got, want)
		}
		if got := x.within(want); math.Abs(got-p) > 1e-9 {
			t.Errorf("within %v is %v, want %v", want, got, p)
		}
	}
	mean := 0.0
	for i := range 100000 {
		mean += x.quantile((float64(i) + 0.5) / 100000)
	}
	if mean /= 100000; math.Abs(mean-x.mean()) > 1e-4*mean {
		t.Errorf("mean %v, want %v", x.mean(), mean)
	}
}

// A quantity that is known exactly on one side has no probability there, and all of it at
// the median.
func TestSpreadDegenerate(t *testing.T) {
	for _, c := range []struct {
		x    spread
		v, p float64
	}{
		{spread{median: 10}, 9.999, 0}, {spread{median: 10}, 10, 1}, {spread{median: 10}, 10.001, 1},
		{spread{median: 10}, 0, 0}, {spread{median: 10}, -1, 0}, {spread{10, 0.5, 0.5}, 0, 0},
		{spread{10, 0.5, 0}, 10, 1}, {spread{10, 0.5, 0}, 9.999999, 0.5}, {spread{10, 0.5, 0}, 11, 1},
		{spread{10, 0, 0.5}, 9.999, 0}, {spread{10, 0, 0.5}, 10, 0.5}, {spread{10, 0, 0.5}, 10 * math.Exp(0.5*z90), 0.95},
	} {
		if got := c.x.within(c.v); math.Abs(got-c.p) > 1e-6 {
			t.Errorf("%+v: within %v is %v, want %v", c.x, c.v, got, c.p)
		}
	}
	exact := spread{median: 10}
	if exact.quantile(0.01) != 10 || exact.quantile(0.99) != 10 || exact.mean() != 10 {
		t.Errorf("quantiles %v and %v, mean %v", exact.quantile(0.01), exact.quantile(0.99), exact.mean())
	}
}

// Checkpoints are counted as a job writes them: one after each interval, and none at its end.
func TestSpotCheckpoints(t *testing.T) {
	const rate, save = 1.0 / 3600, 20.0
	every := checkpointEvery(save, 1/rate)
	for _, seconds := range []float64{every / 2, every, 1.01 * every, 2 * every, 2.5 * every, 10.7 * every} {
		s := onSpot(seconds, rate, 300, save)
		count := 0.0
		for at := every; at < seconds*(1-1e-12); at += every {
			count++
		}
		if s.Checkpoints != count || (s.Every == 0) != (count == 0) {
			t.Errorf("%v s: %v checkpoints every %v s, want %v every %v s", seconds, s.Checkpoints, s.Every, count, every)
		}
		// Equal segments, of which all but the last write a checkpoint.
		n := count + 1
		segment := (seconds + count*save) / n
		if want := n * math.Expm1(rate*segment); math.Abs(s.Interruptions-want) > 1e-9*want {
			t.Errorf("%v s: %v interruptions, want %v", seconds, s.Interruptions, want)
		}
	}
	if s := onSpot(5000, rate, 300, 0); s.Checkpoints != 0 || s.Every != 0 {
		t.Errorf("a job that cannot be continued writes checkpoints: %+v", s)
	}
}

func TestStaleIsNamed(t *testing.T) {
	r := job()
	r.Deadline = 2 * time.Hour
	r.At = today.AddDate(2, 0, 0)
	d := mustDecide(t, r, Shipped())
	if len(d.Stale) == 0 || !d.Best.Stale || !strings.Contains(d.Stale[0], d.Best.Offer.Type) {
		t.Errorf("%v", d.Stale)
	}
	r.At = time.Date(2025, 9, 12, 0, 0, 0, 0, time.UTC)
	if d := mustDecide(t, r, Shipped()); len(d.Stale) > 0 {
		t.Errorf("in 2025: %v", d.Stale)
	}
}

func TestAssumptions(t *testing.T) {
	a := DefaultAssumptions()
	for name, value := range map[string]string{"uplink": "1GB/s", "energy": "0.30", "start": "2m", "gpu-power": "115W", "egress": "0.05$/GB"} {
		if err := a.Set(name, value); err != nil {
			t.Error(err)
		}
	}
	if a.Uplink != 1e9 || a.EnergyPrice != 0.30 || a.Start != 120 || a.GPUWatts != 115 || a.Egress != 0.05 {
		t.Errorf("%+v", a)
	}
	for _, bad := range [][2]string{{"uplnk", "1GB/s"}, {"uplink", "fast"}, {"confidence", "1"}, {"energy", "-1"}, {"spot", "NaN"}} {
		if err := a.Set(bad[0], bad[1]); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	for _, x := range a.List() {
		if x.Text == "" || x.Means == "" {
			t.Errorf("%+v", x)
		}
		if err := a.Set(x.Name, strings.ReplaceAll(x.Text, " ", "")); err != nil {
			t.Errorf("what is shown cannot be set: %v", err)
		}
	}
}

func list() []Assumption {
	a := DefaultAssumptions()
	return a.List()
}

// Whatever is given as an assumption is a number within its bounds, or refused.
func FuzzSet(f *testing.F) {
	for _, a := range list() {
		f.Add(a.Name, strings.ReplaceAll(a.Text, " ", ""))
	}
	f.Add("energy", "NaN")
	f.Add("start", "1h1h")
	f.Add("uplink", "1e999GB/s")
	f.Fuzz(func(t *testing.T, name, value string) {
		a := DefaultAssumptions()
		if err := a.Set(name, value); err != nil {
			if a != DefaultAssumptions() || strings.Contains(err.Error(), "\n") && !strings.Contains(name+value, "\n") {
				t.Fatalf("%q=%q: %v", name, value, err)
			}
			return
		}
		if err := a.check(); err != nil {
			t.Fatalf("%q=%q: %v", name, value, err)
		}
	})
}

// The drawing is well-formed, whatever names are in it, and shows what was chosen.
func TestSVG(t *testing.T) {
	r := job()
	r.Need.Name = `<a & "b">`
	r.Deadline = 2 * time.Hour
	d := mustDecide(t, r, Shipped())
	svg := d.SVG()
	x := xml.NewDecoder(bytes.NewReader(svg))
	circles := 0
	for {
		tok, err := x.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "circle" {
			circles++
		}
	}
	if want := 1 + len(d.Lost) + len(d.Front); circles != want || bytes.Contains(svg, []byte("NaN")) || bytes.Contains(svg, []byte("Inf")) {
		t.Errorf("%d circles, want %d", circles, want)
	}
	if !bytes.Contains(svg, []byte(escaped(d.Best.Name))) {
		t.Error("the best is not named")
	}
}

// The name of the best is written 10 pixels beside its dot and above it, towards the middle of the drawing.
func TestSVGNamesBest(t *testing.T) {
	fast, slow := Option{Name: "fast", Seconds90: 10, Cost: 5}, Option{Name: "slow", Seconds90: 1000, Cost: 1}
	for _, c := range []struct {
		best   Option
		anchor string
		dx     float64
	}{{fast, "start", 10}, {slow, "end", -10}} {
		d := &Decision{Best: c.best, Front: []Option{fast, slow}}
		var at struct {
			Circles []struct {
				X    float64 `xml:"cx,attr"`
				Y    float64 `xml:"cy,attr"`
				Fill string  `xml:"fill,attr"`
			} `xml:"circle"`
			Texts []struct {
				X      float64 `xml:"x,attr"`
				Y      float64 `xml:"y,attr"`
				Anchor string  `xml:"text-anchor,attr"`
				Text   string  `xml:",chardata"`
			} `xml:"text"`
		}
		if err := xml.Unmarshal(d.SVG(), &at); err != nil {
			t.Fatal(err)
		}
		dot, name := at.Circles[len(at.Circles)-1], at.Texts[len(at.Texts)-1]
		if dot.Fill != "#c33" || name.Text != c.best.Name || name.Anchor != c.anchor || math.Abs(name.X-dot.X-c.dx) > 0.11 || math.Abs(dot.Y-name.Y-10) > 0.11 {
			t.Errorf("%s: dot %+v, name %+v, want %v beside it", c.best.Name, dot, name, c.dx)
		}
	}
}
