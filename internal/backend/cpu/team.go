package cpu

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weft-run/weft/driver"
)

// team is the cores of a device working on launches together. The lane's own
// goroutine takes part, so a team of n cores has n-1 helpers. A launch waits for no helper
// that is busy: that one may be in a call of another lane that does not return.
type team struct {
	dev   *device
	mu    sync.Mutex
	cond  sync.Cond
	jobs  []*job // that have room for a helper, oldest first
	over  bool   // helpers end when they find nothing to do
	ended sync.WaitGroup
}

// job is one launch cut into chunks that the team takes one after another.
type job struct {
	device string
	fn     driver.Func
	call   *driver.Call
	items  int
	chunk  int
	room   int // for helpers; guarded by the team's lock
	next   atomic.Int64
	left   sync.WaitGroup
	panic  atomic.Pointer[error]
}

// chunksPerCore is how finely a launch is cut: enough that cores end together
// when one is slower, few enough that taking them costs nothing.
const chunksPerCore = 8

func newTeam(d *device) *team {
	t := &team{dev: d}
	t.cond.L = &t.mu
	for range d.hi - d.lo - 1 {
		t.ended.Add(1)
		go t.help()
	}
	return t
}

// help takes part in jobs until the team is closed.
func (t *team) help() {
	over := false
	defer func() {
		if over {
			t.ended.Done()
		} else {
			go t.help() // as in lane.run
		}
	}()
	if t.dev.o.Pin {
		runtime.LockOSThread() // for good: a pinned thread must not serve others
		pin(t.dev.lo, t.dev.hi)
	}
	for j := t.join(); j != nil; j = t.join() {
		j.help()
	}
	over = true
}

// join waits for a job and takes part in it from then on; nil if the team is over.
func (t *team) join() *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.jobs) == 0 {
		if t.over {
			return nil
		}
		t.cond.Wait()
	}
	j := t.jobs[0]
	j.left.Add(1)
	if j.room--; j.room == 0 {
		t.jobs = slices.Delete(t.jobs, 0, 1)
	}
	return j
}

// offer lets helpers take part in a job.
func (t *team) offer(j *job) {
	n := j.room
	t.mu.Lock()
	t.jobs = append(t.jobs, j)
	t.mu.Unlock()
	for range n {
		t.cond.Signal()
	}
}

// withdraw lets no other helper take part in a job, and waits for those that do.
func (t *team) withdraw(j *job) {
	t.mu.Lock()
	if i := slices.Index(t.jobs, j); i >= 0 {
		t.jobs = slices.Delete(t.jobs, i, i+1)
	}
	t.mu.Unlock()
	j.left.Wait()
}

// close ends the helpers. Launches may still use the team, which then have fewer of them
// or none.
func (t *team) close() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.cond.Broadcast()
	t.ended.Wait()
}

func (t *team) run(fn driver.Func, c *driver.Call, items int) error {
	cores := min(t.dev.hi-t.dev.lo, items)
	j := &job{device: t.dev.info.Name, fn: fn, call: c, items: items, chunk: max(items/(cores*chunksPerCore), 1), room: cores - 1}
	t.offer(j)
	func() {
		defer t.withdraw(j) // also when the kernel ends this goroutine: others use the call
		j.work()
	}()
	if err := j.panic.Load(); err != nil {
		return *err
	}
	return nil
}

func (j *job) help() {
	defer j.left.Done()
	j.work()
}

func (j *job) work() {
	ended := false
	defer func() {
		p := recover()
		if p == nil && !ended {
			p = exited
		}
		if p != nil {
			err := panicked(j.device, p)
			j.panic.CompareAndSwap(nil, &err)
		}
	}()
	for {
		lo := int(j.next.Add(int64(j.chunk))) - j.chunk
		if lo >= j.items || j.call.Stopped() {
			ended = true
			return
		}
		j.fn(j.call, lo, min(lo+j.chunk, j.items))
	}
}
