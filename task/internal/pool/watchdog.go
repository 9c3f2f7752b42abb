package pool

import (
	"runtime"
	"runtime/metrics"
	"time"
)

// watchTick is how often watchdog looks: seldom beside tasks of the kind that this pool is
// for, often beside what people notice.
const watchTick = 10 * time.Millisecond

// maxRunning bounds how many goroutines watchdog lets run: a million, with some gigabytes of
// stacks, is what Go programs have been seen to bear.
const maxRunning = 1 << 20

// guard starts watchdog unless it runs.
func (p *Pool) guard() {
	if !p.guarded.Load() && p.guarded.CompareAndSwap(false, true) {
		go p.watchdog()
	}
}

// watchdog adds goroutines while tasks are queued and processors are idle: the tasks that run
// block, on the network, a lock or a channel, and one that is queued may be what they wait
// for. It runs while the pool does.
func (p *Pool) watchdog() {
	for idle := 0; ; {
		time.Sleep(watchTick)
		if p.running.Load() == 0 && !p.work() {
			p.want.Store(int32(len(p.slots)))
			p.guarded.Store(false)
			if p.running.Load() == 0 || !p.guarded.CompareAndSwap(false, true) {
				return
			}
		}
		idle = p.look(idle, processorsBusy)
	}
}

// look adds goroutines if tasks are queued and processors idle, as they were when watchdog looked the
// last time: once may be chance. idle is how often in a row they were, and the result how often they
// now were. While processors are busy the goroutines that were added become fewer.
func (p *Pool) look(idle int, busy func() bool) int {
	switch {
	case !p.work():
		return 0
	case busy():
		p.want.Store(max(int32(len(p.slots)), p.want.Load()/2))
		return 0
	case idle == 0:
		return 1
	}
	more := min(2*p.want.Load(), maxRunning)
	for p.want.Store(more); p.running.Load() < more && p.work(); {
		p.wake()
	}
	return idle + 1
}

// processorsBusy reports whether goroutines that could run, without the caller, are as many
// as processors.
func processorsBusy() bool {
	s := []metrics.Sample{{Name: "/sched/goroutines/running:goroutines"}, {Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(s)
	var n uint64
	for i := range s {
		if s[i].Value.Kind() == metrics.KindUint64 {
			n += s[i].Value.Uint64()
		}
	}
	return n > uint64(runtime.GOMAXPROCS(0))
}
