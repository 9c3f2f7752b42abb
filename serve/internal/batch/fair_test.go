package batch

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"
)

// flood returns a world with a model on a device and many items of each of some clients
// waiting behind a first one that is computed.
func flood(t *testing.T, seed uint64, clients []string, each int, item func(client string) *Item) (*world, *Model) {
	w := newWorld(t, seed)
	w.cost = func(b *Batch) time.Duration { return ms }
	d := &Device{}
	w.m.AddDevice(d)
	mod := &Model{MaxBatch: 8}
	w.m.AddModel(mod, Cost{Fixed: time.Microsecond}, d)
	for range each {
		for _, c := range clients {
			w.add(mod, item(c), false)
		}
	}
	return w, mod
}

// Between clients that have items waiting all the while, the examples computed never differ
// by more than twice the largest item.
func TestFairBetweenClients(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		largest := 1 + int(seed%8)
		// One client brings ten times as much as the others, and large items.
		clients := []string{"a", "b", "c", "flood", "flood", "flood", "flood", "flood", "flood", "flood"}
		left := map[string]int{}
		w, _ := flood(t, seed, clients, 200, func(c string) *Item {
			it := &Item{Client: c, Examples: 1 + r.IntN(largest), Deadline: time.Hour}
			if c == "flood" {
				it.Examples = largest
			}
			left[c]++
			return it
		})
		left["a"]-- // the first, which is computed already
		got := map[string]int{}
		w.onStart = func(b *Batch) {
			for _, it := range b.Items {
				got[it.Client] += it.Examples
				left[it.Client]--
			}
			if left["a"] == 0 || left["b"] == 0 || left["c"] == 0 {
				w.onStart = nil // from now on they are not all waiting
				return
			}
			for _, x := range []string{"a", "b", "c"} {
				for _, y := range []string{"b", "c", "flood"} {
					if diff := got[x] - got[y]; diff > 2*largest || -diff > 2*largest {
						t.Fatalf("seed %d: client %s got %d examples and %s %d, items have up to %d", seed, x, got[x], y, got[y], largest)
					}
				}
			}
		}
		w.until(w.now + time.Minute)
		if w.onStart != nil {
			t.Fatal("no client was ever done")
		}
	}
}

// A priority goes first, yet each that has items waiting gets one of turns times the number
// of priorities that have.
func TestNoPriorityStarves(t *testing.T) {
	const levels = 5
	priority := 0
	w, _ := flood(t, 1, []string{"a", "b"}, 2000, func(c string) *Item {
		priority = (priority + 1) % levels
		return &Item{Client: c, Priority: priority, Examples: 1, Deadline: time.Hour}
	})
	var taken []int
	w.onStart = func(b *Batch) {
		for _, it := range b.Items {
			taken = append(taken, it.Priority)
		}
	}
	w.until(w.now + 60*ms)
	if len(taken) < 400 {
		t.Fatalf("%d items were computed", len(taken))
	}
	var last, count [levels]int
	for i, p := range taken {
		last[p] = i
		count[p]++
		for q := range levels {
			if i-last[q] > turns*levels {
				t.Fatalf("priority %d got nothing from item %d to %d", q, last[q], i)
			}
		}
	}
	if top := count[levels-1]; top*10 < len(taken)*8 {
		t.Errorf("the highest priority got %d of %d", top, len(taken))
	}
}

// Models that share a device get the same time of it, whatever their batches cost, and one
// of a low priority gets its turn.
func TestFairBetweenModels(t *testing.T) {
	w := newWorld(t, 1)
	d := &Device{}
	w.m.AddDevice(d)
	cheap, dear, low := &Model{MaxBatch: 1}, &Model{MaxBatch: 1}, &Model{MaxBatch: 1}
	for _, mod := range []*Model{cheap, dear, low} {
		w.m.AddModel(mod, Cost{Fixed: ms}, d)
	}
	w.cost = func(b *Batch) time.Duration {
		if b.Model == dear {
			return 5 * ms
		}
		return ms
	}
	for range 3000 {
		w.add(cheap, &Item{Deadline: time.Hour}, false)
		w.add(dear, &Item{Deadline: time.Hour}, false)
		w.add(low, &Item{Deadline: time.Hour, Priority: -1}, false)
	}
	spent := map[*Model]time.Duration{}
	n, lastLow := 0, 0
	w.onStart = func(b *Batch) {
		spent[b.Model] += w.cost(b)
		if n++; b.Model == low {
			lastLow = n
		}
		if n-lastLow > turns*3 {
			t.Fatalf("%d batches without one of the low priority", n-lastLow)
		}
	}
	w.until(w.now + 2*time.Second)
	if a, b := spent[cheap].Seconds(), spent[dear].Seconds(); a < 0.8*b || b < 0.8*a {
		t.Errorf("the cheap model got %v, the dear one %v", spent[cheap], spent[dear])
	}
}

// One client alone has all places of a queue. When others come it gives up places until all
// have as many, those that came last and have the lowest priority.
func TestQueueIsShared(t *testing.T) {
	for name, limit := range map[string]func(*Machine, *Model){
		"of the model": func(_ *Machine, mod *Model) { mod.MaxWaiting = 100 },
		"of all":       func(m *Machine, _ *Model) { m.MaxWaiting = 100 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.cost = func(*Batch) time.Duration { return -1 }
			d := &Device{}
			w.m.AddDevice(d)
			mod, other := &Model{MaxBatch: 4}, &Model{MaxBatch: 4}
			limit(w.m, mod)
			w.m.AddModel(mod, Cost{}, d)
			w.m.AddModel(other, Cost{}, d)
			for range 500 {
				w.add(mod, &Item{Client: "flood", Priority: 1, Deadline: time.Hour}, false)
			}
			if n := mod.Waiting(); n != 100 {
				t.Errorf("a client alone has %d of 100 places", n)
			}
			// What is urgent takes the place of what is not.
			urgent := w.add(mod, &Item{Client: "flood", Priority: 2, Deadline: time.Hour}, false)
			if urgent.answered || mod.Waiting() != 100 {
				t.Error("an urgent item is refused while others of its client wait")
			}
			to := mod
			if w.m.MaxWaiting > 0 {
				to = other
			}
			for _, client := range []string{"a", "b", "c"} {
				for range 50 {
					w.add(to, &Item{Client: client, Deadline: time.Hour}, false)
				}
			}
			for _, client := range []string{"flood", "a", "b", "c"} {
				if n := w.m.clients.held(client); n < 24 || n > 26 {
					t.Errorf("%s has %d of 100 places", client, n)
				}
			}
			if urgent.answered || w.m.waiting != 100 {
				t.Errorf("the urgent item was answered %v; %d wait", urgent.kind, w.m.waiting)
			}
			for i := range 1000 {
				w.add(to, &Item{Client: fmt.Sprint(i), Deadline: time.Hour}, false)
			}
			if n := w.m.waiting; n != 100 {
				t.Errorf("%d items wait, 100 may", n)
			}
		})
	}
}

// A model whose batches hang everywhere is not given more, and stops no other.
func TestHangStopsNoOther(t *testing.T) {
	w := newWorld(t, 1)
	devices := []*Device{{}, {}}
	w.m.hang = 20 * ms
	bad, good := &Model{MaxBatch: 4}, &Model{MaxBatch: 4}
	for _, d := range devices {
		w.m.AddDevice(d)
	}
	for _, mod := range []*Model{bad, good} {
		w.m.AddModel(mod, Cost{Fixed: ms}, devices...)
	}
	w.cost = func(b *Batch) time.Duration {
		if b.Model == bad {
			return -1
		}
		return ms
	}
	started := 0
	w.onStart = func(b *Batch) {
		if b.Model == bad {
			started++
		}
	}
	for range 500 {
		w.add(bad, &Item{Deadline: w.now + 100*ms}, false)
		e := w.add(good, &Item{Deadline: w.now + 100*ms}, false)
		w.until(w.now + 2*ms)
		if e.answered && e.kind != Done {
			t.Fatalf("at %v an item of the other model was answered %v", w.now, e.kind)
		}
	}
	w.until(w.now + time.Second)
	done := 0
	for _, e := range w.list {
		if e.mod == good && e.kind == Done {
			done++
		}
	}
	if done != 500 || started != 2 {
		t.Errorf("%d of 500 items of the good model were done; %d batches of the bad one began", done, started)
	}
	// What hung ends after all: the model is computed again.
	for _, f := range append([]*flight(nil), w.batches...) {
		w.finish(f)
	}
	if w.add(bad, &Item{Deadline: w.now + time.Second}, false); started != 3 {
		t.Error("the model is not computed any more after its batches ended")
	}
}

// An event with 100,000 items waiting takes steps by the logarithm of their number.
func TestSteps(t *testing.T) {
	most := func(n int) (worst uint64) {
		w := newWorld(t, 1)
		w.cost = func(*Batch) time.Duration { return ms }
		r := w.rand
		devices := []*Device{{}, {}}
		for _, d := range devices {
			w.m.AddDevice(d)
		}
		models := []*Model{{MaxBatch: 16}, {MaxBatch: 1}, {MaxBatch: 16}}
		for _, mod := range models {
			w.m.AddModel(mod, Cost{Fixed: ms}, devices...)
		}
		count := func(f func()) {
			before, made := w.m.steps, w.m.batches
			f()
			// What a batch costs for each of its items is theirs.
			worst = max(worst, (w.m.steps-before)/(1+16*(w.m.batches-made)))
		}
		entries := make([]*entry, 0, n)
		for range n {
			it := &Item{Client: fmt.Sprint(r.IntN(1000)), Priority: r.IntN(16) - 8,
				Examples: 16, Deadline: time.Hour + time.Duration(r.IntN(1e9))}
			count(func() { entries = append(entries, w.add(models[r.IntN(3)], it, false)) })
		}
		if w.m.waiting < n-100 {
			t.Fatalf("%d of %d wait", w.m.waiting, n)
		}
		for range min(n/40, 1000) {
			count(func() { w.cancel(entries[r.IntN(n)]) })
			f := w.batches[0]
			w.now = max(w.now, f.ends)
			count(func() { w.finish(f) })
		}
		return worst
	}
	for _, n := range []int{1000, 10000, 100000} {
		got, limit := most(n), uint64(8*bits.Len(uint(n))+60)
		t.Logf("%d items: at most %d steps", n, got)
		if got > limit {
			t.Errorf("with %d items waiting an event took %d steps, more than %d", n, got, limit)
		}
	}
}

// Urgent items fill the next batch whatever else waits: none is left behind by a batch of
// bulk, refused or late, though a full batch would miss their deadlines and bulk items fill
// every batch.
func TestUrgentBeforeBulk(t *testing.T) {
	for seed := range uint64(12) {
		devices := make([]Cost, 1+seed%3)
		for i := range devices {
			devices[i] = Cost{Fixed: ms, Example: ms / 2} // a full batch takes 17 ms
		}
		w, mod, _ := one(t, 32, devices...)
		w.rand = rand.New(rand.NewPCG(seed, 3))
		const deadline = 22 * ms
		waits := map[*Item]bool{}
		urgent, bulk := 0, 0
		w.onStart = func(b *Batch) {
			for _, it := range b.Items {
				delete(waits, it)
				if it.Priority == 0 {
					bulk++
				}
			}
			if len(waits) > 0 {
				w.fatal("seed %d: a batch of %d begins without %d urgent items that wait", seed, len(b.Items), len(waits))
			}
		}
		w.onAnswer = func(e *entry, k Kind) {
			if e.it.Priority > 0 && k != Done {
				w.fatal("seed %d: an urgent item of %v is answered %v", seed, e.added, k)
			}
		}
		next := 50 * ms
		for w.now < 3*time.Second {
			for mod.Waiting() < 200 {
				w.add(mod, &Item{Client: fmt.Sprint(w.rand.IntN(3)), Examples: 1 + w.rand.IntN(3), Deadline: w.now + time.Hour}, false)
			}
			w.until(w.now + ms)
			if w.now >= next {
				next += time.Duration(w.rand.ExpFloat64() * float64(40*ms))
				it := &Item{Client: "u", Priority: 1 + w.rand.IntN(7), Examples: 1, Deadline: w.now + deadline}
				waits[it] = true
				w.add(mod, it, false)
				urgent++
			}
		}
		if urgent < 30 || bulk < 1000 {
			t.Errorf("%d urgent items and %d of bulk", urgent, bulk)
		}
	}
}
