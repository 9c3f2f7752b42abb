package batch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// traffic is a scenario in virtual time: Poisson arrivals of a rate at some devices.
type traffic struct {
	rate     float64 // items a second
	devices  int
	maxBatch int
	deadline time.Duration
	clients  int
	seconds  float64
}

// result is what came of it, without the first tenth.
type result struct {
	p50, p99        time.Duration
	goodput         float64 // items done by their deadline, a second
	late, refused   int     // expired and refused
	done, batches   int
	meanBatch       float64
	withoutDeadline int // answers after the deadline
}

// run has batches take 1 ms and 0.1 ms for each item.
func (tr traffic) run(t testing.TB, seed uint64) (res result) {
	w := newWorld(t, seed)
	mod := &Model{MaxBatch: tr.maxBatch}
	var on []*Device
	for range tr.devices {
		d := &Device{}
		w.m.AddDevice(d)
		on = append(on, d)
	}
	w.m.AddModel(mod, Cost{Fixed: 10 * ms}, on...)
	w.cost = func(b *Batch) time.Duration { return ms + time.Duration(b.Examples())*ms/10 }
	warm := time.Duration(tr.seconds / 10 * float64(time.Second))
	end := time.Duration(tr.seconds * float64(time.Second))
	var took []time.Duration
	w.onAnswer = func(e *entry, k Kind) {
		if e.added < warm {
			return
		}
		switch k {
		case Done:
			took = append(took, w.now-e.added)
			if w.now > e.it.Deadline {
				res.withoutDeadline++
			}
		case Refuse:
			res.refused++
		default:
			res.late++
		}
	}
	w.onStart = func(b *Batch) {
		if w.now >= warm {
			res.batches++
			res.done += len(b.Items)
		}
	}
	for w.now < end {
		w.until(w.now + time.Duration(w.rand.ExpFloat64()/tr.rate*float64(time.Second)))
		w.add(mod, &Item{Client: fmt.Sprint(w.rand.IntN(tr.clients)), Examples: 1, Deadline: w.now + tr.deadline}, false)
		if len(w.list) > 1000 {
			w.list = w.list[:0] // nobody looks at it here
		}
	}
	w.until(end + time.Second)
	slices.Sort(took)
	res.p50, res.p99 = took[len(took)/2], took[len(took)*99/100]
	res.goodput = float64(len(took)) / (end - warm).Seconds()
	res.meanBatch = float64(res.done) / float64(res.batches)
	return res
}

// At half load 99 of 100 items meet a tight deadline, and none is refused for long.
func TestLatency(t *testing.T) {
	res := traffic{rate: 1000, devices: 2, maxBatch: 32, deadline: 10 * ms, clients: 5, seconds: 20}.run(t, 1)
	t.Logf("%+v", res)
	if res.p99 > 10*ms || res.late+res.refused > res.done/100 {
		t.Errorf("%+v", res)
	}
	if res.p50 > 2500*time.Microsecond {
		t.Errorf("half of the items took more than %v: a batch of one takes 1.1 ms", res.p50)
	}
}

// With twice the load that the devices can do they do as much as they can: the rest is
// refused at once, and hardly anything that was taken is too late.
func TestOverload(t *testing.T) {
	for _, tr := range []traffic{
		{devices: 2, maxBatch: 32, deadline: 50 * ms, clients: 10, seconds: 4},
		{devices: 2, maxBatch: 32, deadline: 10 * ms, clients: 1, seconds: 4},
		{devices: 3, maxBatch: 1, deadline: 20 * ms, clients: 3, seconds: 4},
	} {
		n := float64(tr.maxBatch)
		capacity := float64(tr.devices) * n / (1e-3 + 1e-4*n)
		tr.rate = 2 * capacity
		res := tr.run(t, 1)
		t.Logf("capacity %.0f/s: %+v", capacity, res)
		if res.goodput < 0.9*capacity {
			t.Errorf("%+v: goodput is %.0f/s of %.0f/s", tr, res.goodput, capacity)
		}
		if res.late > res.done/10 || res.withoutDeadline > 0 {
			t.Errorf("%+v: %d items were taken and came too late, %d were answered after their deadline", tr, res.late, res.withoutDeadline)
		}
	}
}

// BenchmarkPolicy reports what becomes of traffic, in virtual time.
func BenchmarkPolicy(b *testing.B) {
	for _, rate := range []float64{100, 1000, 5000, 10000, 14000, 30000} {
		b.Run(fmt.Sprintf("rate=%.0f", rate), func(b *testing.B) {
			var res result
			for i := range b.N {
				res = traffic{rate: rate, devices: 2, maxBatch: 32, deadline: 50 * ms, clients: 5, seconds: 2}.run(b, uint64(i))
			}
			b.ReportMetric(res.p50.Seconds()*1e3, "p50-ms")
			b.ReportMetric(res.p99.Seconds()*1e3, "p99-ms")
			b.ReportMetric(res.goodput, "good/s")
			b.ReportMetric(res.meanBatch, "items/batch")
		})
	}
}

// What is predicted for batches dealt out to devices is what dealing them out gives.
func TestLast(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		shares := make([]share, 1+r.IntN(5))
		for i := range shares {
			shares[i] = share{before: 10 * r.Float64() * float64(r.IntN(2)), batch: 0.1 + 3*r.Float64()}
		}
		n := 1 + r.IntN(30)
		var want float64
		dealt := slices.Clone(shares)
		for range n {
			first := 0
			for i, s := range dealt {
				if s.before+s.batch < dealt[first].before+dealt[first].batch {
					first = i
				}
			}
			dealt[first].before += dealt[first].batch
			want = dealt[first].before
		}
		if got := last(slices.Clone(shares), n); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%d batches on %v end after %v, not %v", n, shares, got, want)
		}
	}
}
