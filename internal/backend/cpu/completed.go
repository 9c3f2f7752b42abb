package cpu

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// overdue is the time since its last completion after which a lane's completions are
// collected although it has not handed them over: the kernel it runs may never return. 1 ms
// is longer than a kernel known to be short takes, and much less than any timeout.
const overdue = time.Millisecond

// completed are the completions of a lane that were not collected. The lane gathers them
// and hands them over together, so that neither a lock is taken nor the loop disturbed
// for each.
type completed struct {
	// The lane's goroutine alone writes what is gathered, behind filled, and sets
	// filled back with the lock held. Whoever holds the lock may read what is before it.
	gathered [flushAt]driver.Completion
	filled   atomic.Int32

	mu    sync.Mutex
	list  []driver.Completion // handed over
	n     atomic.Int32        // len(list), readable without the lock
	early int32               // the first of gathered that were collected already
}

// gather adds a completion and reports whether there is no room for another.
func (c *completed) gather(done driver.Completion) (full bool) {
	n := c.filled.Load()
	c.gathered[n] = done
	c.filled.Store(n + 1)
	return n+1 == flushAt
}

// handOver makes what was gathered known, and reports whether there was anything.
func (c *completed) handOver() bool {
	n := c.filled.Load()
	if n == 0 {
		return false
	}
	c.mu.Lock()
	c.list = append(c.list, c.gathered[c.early:n]...)
	c.n.Store(int32(len(c.list)))
	c.early = 0
	c.filled.Store(0)
	c.mu.Unlock()
	return true
}

// take moves completions to dst, oldest first.
func (c *completed) take(dst []driver.Completion, now func() time.Duration) int {
	if c.n.Load() == 0 && c.filled.Load() == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(dst, c.list)
	c.list = c.list[:copy(c.list, c.list[n:])]
	c.n.Store(int32(len(c.list)))
	if filled := c.filled.Load(); n < len(dst) && filled > c.early && now()-c.gathered[filled-1].End >= overdue {
		more := copy(dst[n:], c.gathered[c.early:filled])
		c.early += int32(more)
		n += more
	}
	return n
}
