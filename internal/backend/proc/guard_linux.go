package proc

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/arena"
)

// guard watches how much memory is left, and ends the worker with the newest large task
// before the kernel's OOM killer ends a process of its own choice. It looks at workers whose
// kernels are functions of the worker itself. Where those that run have too little to help it
// ends nothing, and says so.
type guard struct {
	o     *Options
	log   *slog.Logger
	devs  []*device
	began map[*device]map[driver.Wait]time.Time // launches that ran at the last look at a device, since when
	stop  chan struct{}
	ended chan struct{}
}

// guardSeldom and guardOften are the intervals at which the guard reads free memory: the first with
// plenty left, the second near the reserve. A process touches about 2 GB/s of fresh memory on a
// core: 20 MB in 10 ms.
const (
	guardSeldom = 100 * time.Millisecond
	guardOften  = 10 * time.Millisecond
)

// Memory that is short is reported once it has been so for shortFor, since a task that ends may
// relieve it, and again after shortAgain.
const (
	shortFor   = time.Second
	shortAgain = time.Minute
)

// watchMemory starts the guard of a driver's devices; nil if none is wanted.
func watchMemory(o *Options, all []*device, log *slog.Logger) *guard {
	if o.MemoryReserve <= 0 {
		return nil
	}
	g := &guard{o: o, log: log, began: make(map[*device]map[driver.Wait]time.Time), stop: make(chan struct{}), ended: make(chan struct{})}
	for _, d := range all {
		if d.origin.found.Info.HostMemory {
			g.devs = append(g.devs, d)
		}
	}
	go g.run()
	return g
}

func (g *guard) end() {
	close(g.stop)
	<-g.ended
}

func (g *guard) run() {
	defer close(g.ended)
	left := g.o.Available
	if left == nil {
		left = arena.Available
	}
	short := shortage{}
	for {
		n := left()
		every := guardSeldom
		if n/4 < g.o.MemoryReserve {
			every = guardOften
		}
		now := time.Now()
		all, of := g.look(now)
		i, reason := victim(n, g.o.MemoryReserve, all)
		if short.due(now, reason != "") {
			g.log.Warn("memory is short, and no worker is ended for it",
				"left_mib", n>>20, "reserve_mib", g.o.MemoryReserve>>20, "reason", reason)
		}
		if i >= 0 {
			w := of[i]
			w.kill(fmt.Errorf("ended to keep memory free: %d MiB were left, less than the %d MiB to keep; it had %d MiB and the newest large task",
				n>>20, g.o.MemoryReserve>>20, all[i].bytes>>20))
			select { // what it had is free after that, unless it hangs in the kernel
			case <-w.exited:
			case <-time.After(w.reap):
			case <-g.stop:
				return
			}
		}
		select {
		case <-time.After(every):
		case <-g.stop:
			return
		}
	}
}

// shortage says when to report that memory is short.
type shortage struct {
	since, told time.Time // since when it is, and when that was last reported
}

// due takes in whether memory is short and no worker can relieve it, and reports whether that is
// to be reported.
func (s *shortage) due(now time.Time, short bool) bool {
	switch {
	case !short:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = now
	case now.Sub(s.since) >= shortFor && (s.told.IsZero() || now.Sub(s.told) >= shortAgain):
		s.told = now
		return true
	}
	return false
}

// holder is a worker that runs a task.
type holder struct {
	bytes int64     // of private memory that it has
	began time.Time // when the newest of its tasks did
}

// heldShare is the part of the reserve that running workers must have together to be why memory runs
// out: one fourth. The reserve is 5 % of the machine by default, so that those which have less hold
// at most 1/80 of the memory.
const heldShare = 4

// victim returns the worker to end when left bytes of memory are free. It returns -1, with the
// reason, if less than the reserve is left and ending a worker would not help.
//
// If all workers that run a task hold together the bytes missing from the reserve, and at least a
// fourth of the reserve, one of the large ones is ended, which hold at least half as much as the
// largest. Of these the one with the newest task is chosen, and of equal ones the largest: an old
// task has done more work that would be lost. If they hold less, the system would run out of memory
// all the same.
func victim(left, reserve int64, all []holder) (best int, reason string) {
	if left >= reserve {
		return -1, ""
	}
	most, sum := int64(0), int64(0)
	for _, h := range all {
		most, sum = max(most, h.bytes), sum+max(h.bytes, 0)
	}
	if short := reserve - left; sum < max(short, reserve/heldShare, 1) {
		return -1, fmt.Sprintf("no running worker has it: %d have %d MiB in all, and %d MiB are missing", len(all), sum>>20, short>>20)
	}
	best = -1
	for i, h := range all {
		if h.bytes <= 0 || h.bytes < most/2 {
			continue
		}
		if best < 0 || h.began.After(all[best].began) || h.began.Equal(all[best].began) && h.bytes > all[best].bytes {
			best = i
		}
	}
	return best, ""
}

// look returns the workers that run something. A launch counts as begun when it is first seen. A
// device that is busy is left out, and looked at the next time.
func (g *guard) look(now time.Time) (all []holder, of []*child) {
	for _, d := range g.devs {
		w := d.serving.Load()
		if w == nil {
			delete(g.began, d)
			continue
		}
		if !d.lockSoon() {
			continue
		}
		newest, seen := time.Time{}, make(map[driver.Wait]time.Time)
		if d.w == w && d.state == up {
			for _, l := range d.running() {
				at := driver.Wait{Lane: l.id, Seq: l.oldest().seq}
				began, known := g.began[d][at]
				if !known {
					began = now
				}
				seen[at] = began
				if began.After(newest) {
					newest = began
				}
			}
		}
		d.mu.Unlock()
		g.began[d] = seen
		if !newest.IsZero() {
			all, of = append(all, holder{private(w.pid()), newest}), append(of, w)
		}
	}
	return all, of
}

// private returns how much memory a process has that it does not share, in bytes; 0 if it has
// ended.
func private(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text)) // size, resident, shared, …
	if len(f) < 3 {
		return 0
	}
	resident, _ := strconv.ParseInt(f[1], 10, 64)
	shared, _ := strconv.ParseInt(f[2], 10, 64)
	return (resident - shared) * int64(os.Getpagesize())
}
