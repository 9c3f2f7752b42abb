package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestFifo compares a queue with a list. Its buffer stays in proportion to the entries in
// it, however many pass through.
func TestFifo(t *testing.T) {
	for _, length := range []int{1, 40, 63, 64, 65, 300} {
		var q fifo[int]
		var want []int
		for i := range 20_000 {
			q.push(i)
			want = append(want, i)
			if q.last() != i || q.next() != want[0] || q.len() != len(want) {
				t.Fatalf("%d entries from %d to %d, want %d from %d to %d", q.len(), q.next(), q.last(), len(want), want[0], i)
			}
			for len(want) > length {
				if got := q.pop(); got != want[0] {
					t.Fatalf("popped %d, want %d", got, want[0])
				}
				want = want[1:]
			}
		}
		if most := 4*length + 256; cap(q.buf) > most {
			t.Errorf("a buffer of %d entries for %d at a time, want at most %d", cap(q.buf), length, most)
		}
	}
}

// queueModel drives a device's queue with random calls beside a list of its entries.
type queueModel struct {
	t    *testing.T
	rng  *rand.Rand
	all  int
	q    queue
	next taskID
	list []keyed // in the order in which they are to be popped
}

// TestQueue compares a device's queue with a sorted list.
func TestQueue(t *testing.T) {
	for seed := range uint64(20) {
		m := &queueModel{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
		m.q.all = &m.all
		m.q.seq = 1<<32 - 100 // numbers wrap
		most := 1 + m.rng.IntN(200)
		for range 2000 {
			m.call(most)
			m.check()
		}
	}
}

// The plain list of a device's queue stays in proportion to the tasks in it, however many
// pass through.
func TestQueueStaysSmall(t *testing.T) {
	for _, length := range []int{1, 40, 63, 64, 65, 300} {
		q := queue{all: new(int)}
		for i := range taskID(20_000) {
			if q.push(i, int64(i)); q.len() > length {
				q.pop()
			}
		}
		if most := 4*length + 256; cap(q.line) > most {
			t.Errorf("a list of %d entries for %d at a time, want at most %d", cap(q.line), length, most)
		}
	}
}

// call makes one random call; the queue holds at most so many entries.
func (m *queueModel) call(most int) {
	switch k := m.rng.IntN(20); {
	case len(m.list) == 0 || k < 10 && len(m.list) < most:
		key := int64(m.next) / 8 // mostly ascending, with equals
		if m.rng.IntN(3) == 0 {
			key -= int64(m.rng.IntN(20))
		}
		m.q.push(m.next, key)
		m.insert(keyed{key, m.q.seq, m.next})
		m.next++
	case k < 16:
		got := m.q.pop()
		m.took(got, m.list[0])
		if m.rng.IntN(4) == 0 {
			m.q.unpop(got)
			m.insert(got)
		}
	case k < 17:
		if got, ok := m.q.popTail(); ok {
			m.took(got, m.find(got.task))
		}
	case k < 19:
		want := pick(m.rng, m.list)
		if !m.q.remove(want.task) || m.q.remove(want.task) {
			m.t.Fatalf("task %d was not removed once", want.task)
		}
		m.took(want, want)
	default:
		odd := taskID(2 + m.rng.IntN(5))
		drop := func(tid taskID) bool { return tid%odd == 1 }
		m.q.filter(drop)
		m.list = slices.DeleteFunc(m.list, func(k keyed) bool { return drop(k.task) })
	}
}

// insert puts an entry into the list, behind those with the same key that came before it.
func (m *queueModel) insert(k keyed) {
	at := slices.IndexFunc(m.list, func(o keyed) bool { return o.key > k.key || o.key == k.key && int32(o.seq-k.seq) > 0 })
	if at < 0 {
		at = len(m.list)
	}
	m.list = slices.Insert(m.list, at, k)
}

// find returns the entry of a task in the list.
func (m *queueModel) find(tid taskID) keyed {
	at := slices.IndexFunc(m.list, func(k keyed) bool { return k.task == tid })
	if at < 0 {
		m.t.Fatalf("task %d is not in the queue", tid)
	}
	return m.list[at]
}

// took takes an entry that left the queue off the list.
func (m *queueModel) took(got, want keyed) {
	m.t.Helper()
	if got != want {
		m.t.Fatalf("took %+v, want %+v", got, want)
	}
	m.list = slices.DeleteFunc(m.list, func(k keyed) bool { return k == got })
}

// check compares the queue with the list.
func (m *queueModel) check() {
	m.t.Helper()
	if m.q.len() != len(m.list) || m.all != len(m.list) {
		m.t.Fatalf("%d entries, %d of all queues, want %d", m.q.len(), m.all, len(m.list))
	}
	if len(m.list) > 0 && m.q.next() != m.list[0] {
		m.t.Fatalf("next is %+v, want %+v", m.q.next(), m.list[0])
	}
	var got, want []taskID
	m.q.each(func(tid taskID) { got = append(got, tid) })
	for _, k := range m.list {
		want = append(want, k.task)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		m.t.Fatalf("tasks %v, want %v", got, want)
	}
}

// TestHeaps pushes entries in random order and pops the least, of each heap of the engine.
func TestHeaps(t *testing.T) {
	const lanes = 40
	e := new(Engine)
	e.lanes = make([]lane, lanes)
	n := 0 // entries pushed
	heaps := map[string]struct {
		push func(key int)
		pop  func() int
	}{
		"bounds": {func(key int) {
			l := Lane(n % lanes)
			e.lanes[l].bound = 0 // as if its last bound had passed
			e.lookAt(l, time.Duration(key))
		}, func() int {
			at := e.bounds[0].at
			e.popBound()
			return int(at)
		}},
		"retries": {func(key int) { e.retryAt(time.Duration(key), taskID(key)) }, func() int { return int(e.popDelayed()) }},
		"retries of some runs": {func(key int) {
			e.delayed = append(e.delayed, delay{time.Duration(key), taskID(key)})
			heapify(e.delayed)
		}, func() int { return int(e.popDelayed()) }},
		"runs to admit": {func(key int) { e.consider(&run{id: RunID(key)}) }, func() int { return int(e.nextToAdmit().id) }},
	}
	for name, h := range heaps {
		e.delayed = nil
		rng := rand.New(rand.NewPCG(1, 2))
		var keys []int
		for n = range 3000 {
			if len(keys) == 0 || len(keys) < lanes && rng.IntN(2) == 0 {
				keys = append(keys, 1+rng.IntN(1000))
				h.push(keys[len(keys)-1])
				continue
			}
			least := slices.Min(keys)
			if got := h.pop(); got != least {
				t.Fatalf("%s: popped %d, the least is %d", name, got, least)
			}
			at := slices.Index(keys, least)
			keys = slices.Delete(keys, at, at+1)
		}
	}
}
