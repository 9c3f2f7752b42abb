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
// for. Twice in a row, since once may be chance. It runs while the pool does.
func (p *Pool) watchdog() {
	slots := int32(len(p.slots))
	for idle := 0; ; {
		time.Sleep(watchTick)
		if p.running.Load() == 0 && !p.work() {
			p.want.Store(slots)
			p.guarded.Store(false)
			if p.running.Load() == 0 || !p.guarded.CompareAndSwap(false, true) {
				return
			}
		}
		switch {
		case !p.work():
			idle = 0
		case processorsBusy():
			idle = 0
			p.want.Store(max(slots, p.want.Load()/2))
		default:
			idle++
		}
		if idle < 2 {
			continue
		}
		more := min(2*p.want.Load(), maxRunning)
		for p.want.Store(more); p.running.Load() < more && p.work(); {
			p.wake()
		}
	}
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
