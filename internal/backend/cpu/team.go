package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/weft-run/weft/driver"
)

// team is the cores of a device working on one launch together. The lane's own
// goroutine takes part, so a team of n cores has n-1 helpers.
type team struct {
	dev   *device
	jobs  chan *job
	ended sync.WaitGroup
}

// job is one launch cut into chunks that the team takes one after another.
type job struct {
	fn    driver.Func
	call  *driver.Call
	items int
	chunk int
	next  atomic.Int64
	left  sync.WaitGroup
	panic atomic.Pointer[any]
}

// chunksPerCore is how finely a launch is cut: enough that cores end together
// when one is slower, few enough that taking them costs nothing.
const chunksPerCore = 8

func newTeam(d *device) *team {
	t := &team{dev: d, jobs: make(chan *job)}
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
	for j := range t.jobs {
		j.help()
	}
	over = true
}

func (t *team) close() {
	close(t.jobs)
	t.ended.Wait()
}

func (t *team) run(fn driver.Func, c *driver.Call, items int) error {
	helpers := min(t.dev.hi-t.dev.lo, items) - 1
	j := &job{fn: fn, call: c, items: items, chunk: max(items/((helpers+1)*chunksPerCore), 1)}
	j.left.Add(helpers)
	for range helpers {
		t.jobs <- j
	}
	func() {
		defer j.left.Wait() // also when the kernel ends this goroutine: others use the call
		j.work()
	}()
	if p := j.panic.Load(); p != nil {
		return fmt.Errorf("cpu: %s: %w: %v", t.dev.info.Name, errPanic, *p)
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
			j.panic.CompareAndSwap(nil, &p)
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
