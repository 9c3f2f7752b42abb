package engine

import (
	"math/bits"
	"slices"
)

// Containers for records: arrays that grow and recycle, first-in first-out queues, and
// the queue of tasks placed on a device.

// blocks stores pointer-free records in one array and hands out ranges of consecutive
// ones, recycled by power-of-two size class. Indices stay valid while the array grows; a
// pointer into it does not outlive an alloc.
type blocks[I ~int32, T any] struct {
	at   []T
	free [32][]I // ranges to reuse, by size class
	live int     // records handed out; invariant: the sum over their users
}

// class returns the size class of n records: the least c with 2^c >= n.
func class(n int) int { return bits.Len32(uint32(n - 1)) }

// alloc returns the index of n consecutive records with undefined content.
func (b *blocks[I, T]) alloc(n int) I {
	if n == 0 {
		return 0
	}
	c := class(n)
	b.live += n
	if f := b.free[c]; len(f) > 0 {
		i := f[len(f)-1]
		b.free[c] = f[:len(f)-1]
		return i
	}
	i := len(b.at)
	size := 1 << c
	if cap(b.at)-i < size {
		grown := make([]T, i, max(2*cap(b.at), i+size))
		copy(grown, b.at)
		b.at = grown
	}
	b.at = b.at[:i+size]
	return I(i)
}

// release takes back n records that alloc returned at i.
func (b *blocks[I, T]) release(i I, n int) {
	if n == 0 {
		return
	}
	c := class(n)
	b.live -= n
	b.free[c] = append(b.free[c], i)
}

// fifo is a first-in first-out queue.
type fifo[T any] struct {
	buf  []T
	head int
}

func (q *fifo[T]) len() int { return len(q.buf) - q.head }

func (q *fifo[T]) push(t T) {
	if q.head > 64 && q.head*2 > len(q.buf) {
		n := copy(q.buf, q.buf[q.head:])
		q.buf, q.head = q.buf[:n], 0
	}
	q.buf = append(q.buf, t)
}

func (q *fifo[T]) pop() T {
	t := q.buf[q.head]
	q.head++
	if q.head == len(q.buf) {
		q.buf, q.head = q.buf[:0], 0
	}
	return t
}

// next returns the entry that pop would return, last the one pushed most recently.
func (q *fifo[T]) next() T { return q.buf[q.head] }
func (q *fifo[T]) last() T { return q.buf[len(q.buf)-1] }

// queue holds the tasks placed on a device, smallest key first and in order of arrival
// among equals. Most keys arrive in ascending order and go into a plain list; the others
// (urgent tasks, a run that is behind in service) go into a heap.
type queue struct {
	all  *int    // tasks in the queues of all devices, kept by every queue
	line []keyed // entries from head on, keys ascending
	head int
	heap []keyed // entries that arrived with a smaller key than the last of line
	seq  uint32  // arrivals counted
}

// keyed is an entry of a device's queue.
type keyed struct {
	key  int64
	seq  uint32
	task taskID
}

func (a keyed) less(b keyed) bool {
	if a.key != b.key {
		return a.key < b.key
	}
	return int32(a.seq-b.seq) < 0 // seq wraps around
}

func (q *queue) len() int { return len(q.line) - q.head + len(q.heap) }

func (q *queue) push(t taskID, key int64) {
	q.seq++
	*q.all++
	k := keyed{key, q.seq, t}
	if n := len(q.line); n == q.head || q.line[n-1].key <= key {
		if q.head > 64 && q.head*2 > n {
			m := copy(q.line, q.line[q.head:])
			q.line, q.head = q.line[:m], 0
		}
		q.line = append(q.line, k)
		return
	}
	q.pushHeap(k)
}

// unpop puts a task back in front of those with the same key.
func (q *queue) unpop(k keyed) {
	*q.all++
	q.pushHeap(k)
}

func (q *queue) pushHeap(k keyed) {
	q.heap = append(q.heap, k)
	i := len(q.heap) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !q.heap[i].less(q.heap[p]) {
			break
		}
		q.heap[i], q.heap[p] = q.heap[p], q.heap[i]
		i = p
	}
}

// urgent reports whether the next task is in the heap.
func (q *queue) urgent() bool {
	return len(q.heap) > 0 && (q.head == len(q.line) || q.heap[0].less(q.line[q.head]))
}

// next returns the entry that pop would return.
func (q *queue) next() keyed {
	if q.urgent() {
		return q.heap[0]
	}
	return q.line[q.head]
}

func (q *queue) pop() keyed {
	*q.all--
	if q.urgent() {
		k := q.heap[0]
		n := len(q.heap) - 1
		q.heap[0] = q.heap[n]
		q.heap = q.heap[:n]
		q.sink(0)
		return k
	}
	k := q.line[q.head]
	q.head++
	if q.head == len(q.line) {
		q.line, q.head = q.line[:0], 0
	}
	return k
}

// sink moves an entry of the heap down until no child is smaller.
func (q *queue) sink(i int) {
	for {
		c := 2*i + 1
		if c >= len(q.heap) {
			return
		}
		if c+1 < len(q.heap) && q.heap[c+1].less(q.heap[c]) {
			c++
		}
		if !q.heap[c].less(q.heap[i]) {
			return
		}
		q.heap[c], q.heap[i] = q.heap[i], q.heap[c]
		i = c
	}
}

// popTail takes the last task of the plain list out, for another device.
func (q *queue) popTail() (keyed, bool) {
	if n := len(q.line); n > q.head {
		k := q.line[n-1]
		q.line = q.line[:n-1]
		*q.all--
		if len(q.line) == q.head {
			q.line, q.head = q.line[:0], 0
		}
		return k, true
	}
	return keyed{}, false
}

// each visits every task, in no particular order.
func (q *queue) each(fn func(tid taskID)) {
	for _, k := range q.line[q.head:] {
		fn(k.task)
	}
	for _, k := range q.heap {
		fn(k.task)
	}
}

// filter takes out every task for which drop returns true.
func (q *queue) filter(drop func(tid taskID) bool) {
	before := q.len()
	gone := func(k keyed) bool { return drop(k.task) }
	live := slices.DeleteFunc(q.line[q.head:], gone)
	if q.line = q.line[:q.head+len(live)]; len(live) == 0 {
		q.line, q.head = q.line[:0], 0
	}
	q.heap = slices.DeleteFunc(q.heap, gone)
	for i := range slices.Backward(q.heap) {
		q.sink(i)
	}
	*q.all -= before - q.len()
}

// remove takes one task out and reports whether it was there.
func (q *queue) remove(tid taskID) bool {
	for i := q.head; i < len(q.line); i++ {
		if q.line[i].task == tid {
			*q.all--
			q.line = append(q.line[:i], q.line[i+1:]...)
			if len(q.line) == q.head {
				q.line, q.head = q.line[:0], 0
			}
			return true
		}
	}
	for i := range q.heap {
		if q.heap[i].task == tid {
			*q.all--
			rest := append(q.heap[:i:i], q.heap[i+1:]...)
			q.heap = q.heap[:0]
			for _, k := range rest {
				q.pushHeap(k)
			}
			return true
		}
	}
	return false
}
