package cpu

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
)

// team is the cores of a device working on launches together. The lane's own
// goroutine takes part, so a team of n cores has n-1 helpers. A launch waits for no helper
// that is busy: that one may be in a call of another lane that does not return. Helpers
// use the cores that lanes leave free: each launch has a core of its own, and a helper ends
// its part in a launch when a lane begins a launch and no core is left for both.
type team struct {
	dev      *device
	cores    int32
	mu       sync.Mutex
	cond     sync.Cond
	launches []*teamLaunch // that have room for a helper, oldest first
	over     bool          // helpers end when they find nothing to do
	// busy is the number of launches that lanes run, except single items of short kernels,
	// and of helpers at work. It changes with the lock held.
	busy  atomic.Int32
	ended sync.WaitGroup
}

// teamLaunch is one launch cut into chunks that the team takes one after another.
type teamLaunch struct {
	fn     driver.Func
	call   *driver.Call
	items  int
	chunk  int
	room   int  // for helpers; guarded by the team's lock
	closed bool // it takes no helper any more; likewise
	next   atomic.Int64
	left   sync.WaitGroup
	panic  atomic.Pointer[error]
}

// chunksPerCore is the number of pieces of a launch per core: enough that cores end together
// when one is slower, few enough that taking them costs little.
const chunksPerCore = 8

func newTeam(d *device) *team {
	t := &team{dev: d, cores: int32(d.info.ComputeUnits)}
	t.cond.L = &t.mu
	for range d.info.ComputeUnits - 1 {
		t.ended.Add(1)
		go t.help()
	}
	return t
}

// help takes part in launches until the team is closed.
func (t *team) help() {
	over := false
	defer func() {
		if over {
			t.ended.Done()
		} else {
			go t.help() // as in lane.run
		}
	}()
	t.dev.tie()
	for j := t.join(); j != nil; j = t.join() {
		t.helpWith(j)
	}
	over = true
}

// join waits for a launch and a core and takes part in the launch from then on; nil if the team
// is over.
func (t *team) join() *teamLaunch {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.launches) == 0 || t.busy.Load() >= t.cores {
		if t.over {
			return nil
		}
		t.cond.Wait()
	}
	t.busy.Add(1)
	j := t.launches[0]
	j.left.Add(1)
	if j.room--; j.room == 0 {
		t.launches = slices.Delete(t.launches, 0, 1)
	}
	return j
}

// helpWith works on a launch until nothing is left of it, or until lanes need the core.
func (t *team) helpWith(j *teamLaunch) {
	defer j.left.Done()
	leaves := false
	defer func() {
		t.mu.Lock()
		t.busy.Add(-1)
		if leaves && !j.closed { // another helper goes on once there is a core for it
			if j.room++; j.room == 1 {
				t.launches = slices.Insert(t.launches, 0, j)
			}
		}
		t.mu.Unlock()
	}()
	leaves = j.work(t)
}

// enter notes that a lane begins a launch, leave that it has ended.
func (t *team) enter() {
	t.mu.Lock()
	t.busy.Add(1)
	t.mu.Unlock()
}

func (t *team) leave() {
	t.mu.Lock()
	t.busy.Add(-1)
	wake := len(t.launches) > 0
	t.mu.Unlock()
	if wake {
		t.cond.Signal()
	}
}

// offer notes that a lane begins a launch and lets helpers take part in it.
func (t *team) offer(j *teamLaunch) {
	n := j.room
	t.mu.Lock()
	t.busy.Add(1)
	t.launches = append(t.launches, j)
	t.mu.Unlock()
	for range n {
		t.cond.Signal()
	}
}

// withdraw lets no other helper take part in a launch, waits for those that do, and notes
// that the launch has ended.
func (t *team) withdraw(j *teamLaunch) {
	t.mu.Lock()
	j.closed = true
	if i := slices.Index(t.launches, j); i >= 0 {
		t.launches = slices.Delete(t.launches, i, i+1)
	}
	t.mu.Unlock()
	j.left.Wait()
	t.leave()
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
	cores := min(t.dev.info.ComputeUnits, items)
	j := &teamLaunch{fn: fn, call: c, items: items, chunk: max(items/(cores*chunksPerCore), 1), room: cores - 1}
	t.offer(j)
	func() {
		defer t.withdraw(j) // also when the kernel ends this goroutine: others use the call
		j.work(nil)
	}()
	if err := j.panic.Load(); err != nil {
		return *err
	}
	return nil
}

// yieldEvery is the time after which a helper yields between two chunks. While all
// processors compute, the executor's loop would otherwise get one when Go's scheduler
// preempts a chunk, after 10 ms, and other devices would wait for it that long.
const yieldEvery = 100 * time.Microsecond

// work does chunks of a launch until none is left. A helper gives its team, and leaves
// earlier when lanes need its core.
func (j *teamLaunch) work(t *team) (leaves bool) {
	ended := false
	since := time.Now()
	defer func() {
		p := recover()
		if p == nil && !ended {
			p = exited
		}
		if p != nil {
			err := panicked(p)
			j.panic.CompareAndSwap(nil, &err)
		}
	}()
	for {
		lo := int(j.next.Add(int64(j.chunk))) - j.chunk
		if lo >= j.items || j.call.Stopped() {
			ended = true
			return false
		}
		j.fn(j.call, lo, min(lo+j.chunk, j.items))
		if t != nil && t.busy.Load() > t.cores {
			ended = true
			return true
		}
		if now := time.Now(); now.Sub(since) >= yieldEvery {
			runtime.Gosched()
			since = now
		}
	}
}
