package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// peaked returns a recording whose jobs need memory by a known rule.
func peaked(label string, speed float64, seed uint64) *Recording {
	r := synthetic(label, speed, seed)
	r.Machine.Devices[0].ComputeUnits, r.Machine.Devices[0].MemBytes, r.Machine.HostBytes = 16, 1<<50, 1<<50
	for i := range r.Points {
		p := &r.Points[i]
		p.Peak, p.Upload, p.Download = int64(3*p.Bytes), p.Bytes, p.Bytes/2
	}
	return r
}

// What is required of a device follows from recorded runs: memory as they had it, and as few
// units as do it in time.
func TestRequire(t *testing.T) {
	rec := peaked("a", 1, 1)
	m := Learn([]*Recording{rec}, nil)
	r := rand.New(rand.NewPCG(4, 4))
	refused := 0
	for range 2000 {
		// Half way between two recorded sizes, as several items.
		p := &rec.Points[14*r.IntN(10)+r.IntN(13)]
		ops := p.Ops * math.Sqrt(math.Pow(250, 1./13))
		l := Load{Workload: p.Workload, Batch: 1 + r.IntN(64), Priority: Priority(r.IntN(3))}
		l.Complexity = ops / float64(l.Batch)
		e := m.OnMachine(Need{Workload: p.Workload, Flops: ops, Bytes: 10 * math.Pow(ops, math.Log(p.Bytes/10)/math.Log(p.Ops)), Launches: 10}, rec.Machine)
		l.Latency = e.Median * math.Exp(3*r.Float64()-1)
		if r.IntN(2) == 0 {
			l.Throughput = float64(l.Batch) / e.Median * math.Exp(1-3*r.Float64())
		}
		least := map[Priority]float64{LowPriority: 0.5, NormalPriority: 0.9, HighPriority: 0.99}[l.Priority]
		q, err := m.Require(l, rec.Machine)
		allowed := l.Latency
		if l.Throughput > 0 {
			allowed = min(allowed, float64(l.Batch)/l.Throughput)
		}
		// in says how surely a batch is done in time on some of the 16 units.
		in := func(units int) float64 {
			sigma := math.Log(e.High/e.Median) / 1.6448536
			return 0.5 * math.Erfc(-math.Log(allowed*float64(units)/16/e.Median)/sigma/math.Sqrt2)
		}
		const near = 0.02 // needs are interpolated
		if err != nil {
			refused++
			if !errors.Is(err, ErrNoDevice) || in(16) > least+near {
				t.Fatalf("%+v: %v, and all units would do it with %v", l, err, in(16))
			}
			continue
		}
		if q.Confidence < least-1e-6 || in(q.Units) < least-near || math.Abs(q.Confidence-in(q.Units)) > near {
			t.Fatalf("%+v: %d units with confidence %v, by hand %v", l, q.Units, q.Confidence, in(q.Units))
		}
		if q.Units > 1 && in(q.Units-1) > least+near {
			t.Fatalf("%+v: %d units, and one less would do with %v", l, q.Units, in(q.Units-1))
		}
		want := 30 * math.Pow(ops, math.Log(p.Bytes/10)/math.Log(p.Ops))
		if off := math.Abs(float64(q.Bytes)/want - 1); off > 0.01 {
			t.Fatalf("%+v: %d bytes, want %.0f", l, q.Bytes, want)
		}
	}
	if refused < 100 || refused > 1900 {
		t.Errorf("%d of 2000 refused: this tests little", refused)
	}
}

// More to do needs no less memory, no fewer units and no less time; more time needs no more.
func TestRequireMonotone(t *testing.T) {
	rec := peaked("a", 1, 3)
	m := Learn([]*Recording{rec}, nil)
	l := Load{Workload: "w1", Batch: 8, Complexity: 1e8, Latency: 1}
	base, err := m.Require(l, rec.Machine)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(l *Load){
		"batch":      func(l *Load) { l.Batch *= 4 },
		"complexity": func(l *Load) { l.Complexity *= 4 },
		"priority":   func(l *Load) { l.Priority = HighPriority },
		"latency":    func(l *Load) { l.Latency /= 4 },
		"throughput": func(l *Load) { l.Throughput = 8 / base.Seconds.Median / 2 },
	} {
		more := l
		change(&more)
		q, err := m.Require(more, rec.Machine)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if q.Bytes < base.Bytes || q.Units < base.Units || q.Seconds.Median < base.Seconds.Median {
			t.Errorf("%s: %+v, before %+v", name, q, base)
		}
		if name != "priority" && q.Units == base.Units && q.Bytes == base.Bytes {
			t.Errorf("%s changes nothing: %+v", name, q)
		}
	}
}

// What does not fit is refused and never made slower: memory, and a device too slow.
func TestRequireRefuses(t *testing.T) {
	rec := peaked("a", 1, 1)
	m := Learn([]*Recording{rec}, nil)
	small := *rec.Machine
	small.HostBytes, small.Devices = 20e9, []machine.Device{rec.Machine.Devices[0]}
	small.Devices[0].MemBytes = 0
	good := Load{Workload: "w0", Batch: 1, Complexity: 1e9}
	if _, err := m.Require(good, rec.Machine); err != nil {
		t.Error(err)
	}
	for what, c := range map[string]struct {
		l    Load
		on   *machine.Machine
		is   error
		says string
	}{
		"memory":   {good, &small, ErrNoDevice, "30 GB and there are 20 GB"},
		"latency":  {Load{Workload: "w0", Batch: 1, Complexity: 1e9, Latency: 1e-9}, rec.Machine, ErrNoDevice, "allowed"},
		"workload": {Load{Workload: "none", Batch: 1, Complexity: 1}, rec.Machine, ErrUnknownWorkload, "--record"},
		"batch":    {Load{Workload: "w0", Complexity: 1}, rec.Machine, nil, "batch"},
		"nan":      {Load{Workload: "w0", Batch: 1, Complexity: math.NaN()}, rec.Machine, nil, "complexity"},
		"infinite": {Load{Workload: "w0", Batch: 1, Complexity: math.Inf(1)}, rec.Machine, nil, "finite"},
		"product":  {Load{Workload: "w0", Batch: 1 << 40, Complexity: 1e300}, rec.Machine, nil, "finite"},
		"often":    {Load{Workload: "w0", Batch: 1, Complexity: 1e9, Throughput: math.Inf(1)}, rec.Machine, nil, "finite"},
		"huge":     {Load{Workload: "w0", Batch: 1, Complexity: 1e200}, rec.Machine, ErrNoDevice, "TB of host memory"},
		"largest":  {Load{Workload: "w0", Batch: 1, Complexity: math.MaxFloat64}, rec.Machine, ErrNoDevice, ""},
	} {
		_, err := m.Require(c.l, c.on)
		if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	lean := peaked("a", 1, 1) // it needs no memory
	for i := range lean.Points {
		lean.Points[i].Peak, lean.Points[i].Upload, lean.Points[i].Download = 0, 0, 0
	}
	long := Load{Workload: "w0", Batch: 1, Complexity: math.MaxFloat64}
	if _, err := Learn([]*Recording{lean}, nil).Require(long, lean.Machine); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "too far") {
		t.Errorf("a load that takes for ever: %v", err)
	}
	// However large a load is, what is required of it is a number.
	for exponent := -320.0; exponent < 309; exponent++ {
		for _, throughput := range []float64{0, 1e-9, 1e300} {
			l := Load{Workload: "w0", Batch: 3, Complexity: math.Pow(10, exponent), Throughput: throughput}
			q, err := m.Require(l, rec.Machine)
			if err == nil && (!q.Seconds.valid() || q.Bytes < 0 || q.Units < 1 || !(q.Confidence >= 0 && q.Confidence <= 1)) {
				t.Fatalf("%+v: %+v", l, q)
			}
		}
	}
}

// The device that is asked for the smallest part is chosen, and its reservation holds.
func TestRequireReserves(t *testing.T) {
	slow, fast := peaked("a", 1, 1), peaked("b", 100, 1)
	fast.Machine.Devices[0].HostMemory = false
	m := Learn([]*Recording{slow, fast}, nil)
	both := &machine.Machine{HostBytes: 1 << 50, Devices: []machine.Device{slow.Machine.Devices[0], fast.Machine.Devices[0]}}
	both.Devices[0].Rates.Ops[graph.FP32] = 1e11
	q, err := m.Require(Load{Workload: "w2", Batch: 4, Complexity: 1e9, Latency: 0.2}, both)
	if err != nil || q.Device != 1 {
		t.Fatalf("%+v, %v", q, err)
	}
	res, err := NewReservations(both, Limits{Utilisation: 0.9, Margin: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	d := q.Demand(both)
	for n := 0; ; n++ {
		if _, err := res.Reserve(d, 0, make([]Condition, 2)); err != nil {
			if want := 14 / q.Units; !errors.Is(err, ErrNoDevice) || n != want {
				t.Errorf("%d reservations of %d units, want %d: %v", n, q.Units, want, err)
			}
			return
		}
	}
}
