package batch

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// one returns a world with a model on some devices, whose cost it knows.
func one(t *testing.T, maxBatch int, costs ...Cost) (*world, *Model, []*Device) {
	w := newWorld(t, 1)
	mod := &Model{MaxBatch: maxBatch}
	var devices []*Device
	for range costs {
		d := &Device{}
		w.m.AddDevice(d)
		devices = append(devices, d)
	}
	w.m.AddModel(mod, costs[0], devices...)
	for i, p := range mod.on {
		p.cost = newEstimate(costs[i])
		p.cost.n = 1
	}
	w.cost = func(b *Batch) time.Duration {
		c := costs[slices.Index(devices, b.Device)]
		return c.Fixed + time.Duration(b.Examples())*c.Example
	}
	return w, mod, devices
}

// places returns a world with a model on one device, whose cost it knows, and notes when batches
// begin.
func places(t *testing.T, d *Device, cost Cost) (w *world, mod *Model, begun *[]time.Duration) {
	w = newWorld(t, 1)
	mod = &Model{MaxBatch: 100}
	w.m.AddDevice(d)
	w.m.AddModel(mod, cost, d)
	mod.on[0].cost = newEstimate(cost)
	mod.on[0].cost.n = 1
	begun = new([]time.Duration)
	w.onStart = func(*Batch) { *begun = append(*begun, w.now) }
	return w, mod, begun
}

// Nothing waits for more items while its device would compute those beside it; the last place is
// waited with.
func TestWaitsWithLastPlace(t *testing.T) {
	w, mod, begun := places(t, &Device{Slots: 2, Parallel: 2}, Cost{Fixed: 10 * ms})
	w.cost = func(*Batch) time.Duration { return 100 * ms }
	at := w.now
	for range 3 {
		mod.arrivals.gap, mod.arrivals.last = ms, 0
		w.add(mod, &Item{Examples: 1, Deadline: w.now + time.Minute}, false)
	}
	if len(*begun) != 1 {
		t.Errorf("%d batches began at once, want one in the first of two places", len(*begun))
	}
	w.until(w.now + 20*ms)
	if len(*begun) != 2 || (*begun)[1] == at {
		t.Errorf("batches began at %v, want another after a while in the second place", *begun)
	}
	w.until(w.now + time.Second)
}

// Places that only keep devices busy between batches are no reason not to wait: three devices in
// one, with four places each, fill their batches.
func TestPipelineFillsBatches(t *testing.T) {
	cost := Cost{Fixed: 10 * ms, Example: ms / 100}
	w, mod, begun := places(t, &Device{Slots: 3 * 4}, cost)
	var free [3]time.Duration
	w.cost = func(b *Batch) time.Duration {
		slices.Sort(free[:])
		free[0] = max(free[0], w.now) + cost.Fixed + time.Duration(b.Examples())*cost.Example
		return free[0] - w.now
	}
	for range 400 { // one each ms
		w.add(mod, &Item{Examples: 1, Deadline: w.now + time.Second}, false)
		w.until(w.now + ms)
	}
	w.until(w.now + 10*time.Second)
	if n := len(*begun); n > 400/5 {
		t.Errorf("400 items went in %d batches, want them filled", n)
	}
}

// An item is not kept waiting for another that gains less by it than the first one loses.
func TestWaitsOnlyWhereItPays(t *testing.T) {
	for _, c := range []struct {
		gap   time.Duration
		waits bool
	}{{4 * ms, true}, {6 * ms, false}} {
		w, mod, _ := one(t, 100, Cost{Fixed: 10 * ms})
		begun := false
		w.onStart = func(*Batch) { begun = true }
		mod.arrivals.gap, mod.arrivals.last = c.gap, 0
		w.add(mod, &Item{Examples: 1, Deadline: w.now + time.Minute}, false)
		if begun == c.waits {
			t.Errorf("with an arrival each %v and batches of 10 ms, an item begins at once: %v", c.gap, begun)
		}
		w.until(w.now + time.Second)
	}
}

// A group waits for more items where they come often enough, for no longer than the fixed
// cost of a batch, and the machine asks to be woken when that is over.
func TestWaits(t *testing.T) {
	w, mod, _ := one(t, 100, Cost{Fixed: 10 * ms, Example: ms / 100})
	var begun []time.Duration
	w.onStart = func(b *Batch) { begun = append(begun, w.now) }
	for range 40 { // one each ms; the first goes alone
		w.add(mod, &Item{Examples: 1, Deadline: w.now + time.Second}, false)
		w.until(w.now + ms)
	}
	w.until(w.now + time.Second)
	if n := len(begun); n < 3 || n > 5 {
		t.Errorf("%d batches of 40 items: %v", n, begun)
	}
	// A last one, with nothing else to wake the machine.
	at := w.now
	mod.arrivals.gap = ms
	mod.arrivals.last = 0
	w.add(mod, &Item{Examples: 1, Deadline: w.now + time.Minute}, false)
	n := len(begun)
	w.until(w.now + 30*time.Second)
	if len(begun) != n+1 || begun[n] <= at || begun[n] > at+10*ms {
		t.Errorf("an item added at %v began at %v", at, begun[n:])
	}
	// One that is in a hurry is not kept waiting, and one is not waited for that never comes.
	at = w.now
	w.add(mod, &Item{Examples: 1, Deadline: w.now + 11*ms}, false)
	if begun[len(begun)-1] != at {
		t.Error("an urgent item waits")
	}
}

// A batch is no larger than the deadline of the most urgent of its items allows.
func TestBatchFitsDeadlines(t *testing.T) {
	w, mod, _ := one(t, 100, Cost{Fixed: ms, Example: ms})
	w.add(mod, &Item{Examples: 1, Deadline: time.Second}, false)
	urgent := w.add(mod, &Item{Examples: 1, Client: "a", Deadline: 13 * ms}, false)
	for range 30 {
		w.add(mod, &Item{Examples: 1, Client: "b", Deadline: time.Second}, false)
	}
	var sizes []int
	w.onStart = func(b *Batch) { sizes = append(sizes, len(b.Items)) }
	w.until(time.Second)
	if urgent.kind != Done || len(sizes) != 2 || sizes[0] != 10 {
		t.Errorf("the urgent item was answered %v; batches had %v items", urgent.kind, sizes)
	}
}

// A batch waits for a device that is much faster and soon free, but not for one that does
// not end when it should.
func TestFasterDevice(t *testing.T) {
	w, mod, devices := one(t, 1, Cost{Fixed: ms}, Cost{Fixed: 100 * ms})
	var on []*Device
	var at []time.Duration
	w.onStart = func(b *Batch) { on, at = append(on, b.Device), append(at, w.now) }
	w.add(mod, &Item{Deadline: time.Minute}, false)
	w.add(mod, &Item{Deadline: time.Minute}, false)
	w.until(5 * ms)
	if !slices.Equal(on, []*Device{devices[0], devices[0]}) {
		t.Fatalf("two items went to %v", on)
	}
	cost := w.cost
	w.cost = func(b *Batch) time.Duration {
		if b.Device == devices[0] {
			return -1
		}
		return cost(b)
	}
	begin := w.now
	w.add(mod, &Item{Deadline: time.Minute}, false)
	w.add(mod, &Item{Deadline: time.Minute}, false)
	w.until(w.now + time.Minute/2)
	if len(on) != 4 || on[3] != devices[1] || at[3] > begin+3*ms/2 {
		t.Errorf("the slow device got the item at %v, %v after it came", at[3:], at[3]-begin)
	}
}

// What was lost with a device may be computed together, what failed may not.
func TestLostAndFailed(t *testing.T) {
	w, mod, devices := one(t, 4, Cost{Fixed: ms}, Cost{Fixed: ms})
	for range 1 + 4 + 4 { // one, which goes at once, and two batches
		w.add(mod, &Item{Deadline: time.Minute}, false)
	}
	for range 4 {
		w.add(mod, &Item{Deadline: time.Minute}, true)
	}
	w.until(ms + ms/2) // now a batch of four is on each device
	if len(w.batches) != 2 || len(w.batches[0].b.Items) != 4 || len(w.batches[1].b.Items) != 4 {
		t.Fatalf("%d batches", len(w.batches))
	}
	var sizes []int
	w.onStart = func(b *Batch) { sizes = append(sizes, len(b.Items)) }
	w.drop(devices[slices.Index(devices, w.batches[0].b.Device)], true)
	w.until(time.Second)
	if !slices.Equal(sizes, []int{4, 1, 1, 1, 1}) {
		t.Errorf("batches of %v items", sizes)
	}
	done, failed := 0, 0
	for _, e := range w.list {
		switch e.kind {
		case Done:
			done++
		case Fail:
			failed++
		}
	}
	if done != 9 || failed != 4 {
		t.Errorf("%d items were done and %d failed", done, failed)
	}
}

// A heap gives its things in order, whatever was moved and removed.
func TestHeap(t *testing.T) {
	type thing struct{ key, at int }
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var steps uint64
		h := heap[*thing]{steps: &steps, at: func(x *thing) *int { return &x.at }, less: func(a, b *thing) bool { return a.key < b.key }}
		var list []*thing
		for range 100 {
			switch n := r.IntN(10); {
			case n < 5 || len(list) == 0:
				x := &thing{key: r.IntN(50)}
				list = append(list, x)
				h.put(x)
			case n < 8:
				x := list[r.IntN(len(list))]
				x.key = r.IntN(50)
				h.put(x)
			default:
				i := r.IntN(len(list))
				h.remove(list[i])
				h.remove(list[i])
				list = slices.Delete(list, i, i+1)
			}
		}
		slices.SortFunc(list, func(a, b *thing) int { return a.key - b.key })
		for _, want := range list {
			x, ok := h.first()
			if !ok || x.key != want.key {
				t.Fatalf("the heap has %v first, not %v", x, want)
			}
			h.remove(x)
		}
		if _, ok := h.first(); ok {
			t.Fatal("something is left")
		}
	}
}
