package pool

import (
	"sync"
	"sync/atomic"
)

// deque is a queue of tasks with two ends. Tasks are pushed at the back; who pushed them
// takes them from there, the newest first, and others from the front, the oldest first.
// It may hold tasks that were claimed by someone else meanwhile.
type deque struct {
	mu   sync.Mutex
	buf  []*Task // a ring; its length is a power of two
	head int     // index of the front
	n    int
	size atomic.Int64 // n, for a look without the lock
	_    [40]byte     // two deques share no cache line
}

// least is the length of the first ring.
const least = 64

func (d *deque) push(t *Task) {
	d.mu.Lock()
	if d.n == len(d.buf) {
		d.grow()
	}
	d.buf[(d.head+d.n)&(len(d.buf)-1)] = t
	d.n++
	d.size.Store(int64(d.n))
	d.mu.Unlock()
}

func (d *deque) grow() {
	buf := make([]*Task, max(least, 2*len(d.buf)))
	k := copy(buf, d.buf[d.head:])
	copy(buf[k:], d.buf[:d.head])
	d.buf, d.head = buf, 0
}

// pop takes the newest task, nil if there is none.
func (d *deque) pop() *Task {
	if d.size.Load() == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n == 0 {
		return nil
	}
	d.n--
	d.size.Store(int64(d.n))
	i := (d.head + d.n) & (len(d.buf) - 1)
	t := d.buf[i]
	d.buf[i] = nil
	d.trim()
	return t
}

// drop takes the newest task if it is t.
func (d *deque) drop(t *Task) {
	d.mu.Lock()
	if d.n > 0 {
		if i := (d.head + d.n - 1) & (len(d.buf) - 1); d.buf[i] == t {
			d.n--
			d.size.Store(int64(d.n))
			d.buf[i] = nil
		}
	}
	d.mu.Unlock()
}

// take moves the oldest tasks, at most half of them rounded up and as many as fit, to out.
func (d *deque) take(out []*Task) int {
	if d.size.Load() == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k := min((d.n+1)/2, len(out))
	for i := range k {
		out[i] = d.buf[d.head]
		d.buf[d.head] = nil
		d.head = (d.head + 1) & (len(d.buf) - 1)
	}
	d.n -= k
	d.size.Store(int64(d.n))
	d.trim()
	return k
}

// oldest claims the oldest task that nobody has claimed, nil if there is none.
func (d *deque) oldest() *Task {
	var one [1]*Task
	for d.take(one[:]) == 1 {
		if one[0].claim() {
			return one[0]
		}
	}
	return nil
}

// trim lets a large ring go once it is empty.
func (d *deque) trim() {
	if d.n == 0 && len(d.buf) > 1024 {
		d.buf, d.head = nil, 0
	}
}
