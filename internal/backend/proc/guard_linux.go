package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/driver"
	"github.com/weft-run/weft/internal/arena"
)

// guard watches how much memory is left, and ends the worker with the newest large task
// before the kernel's OOM killer ends a process of its own choice. It looks at workers whose
// kernels are functions of the worker itself.
type guard struct {
	o     *Options
	devs  []*device
	began map[driver.Wait]time.Time // launches that were running at the last look, since when
	stop  chan struct{}
	ended chan struct{}
}

// How often the guard looks: seldom while there is plenty, and often when what is left nears
// the reserve. A process touches about 2 GB/s of fresh memory on a core: 20 MB in between.
const (
	guardSeldom = 100 * time.Millisecond
	guardOften  = 10 * time.Millisecond
)

// watchMemory starts the guard of a driver's devices; nil if none is wanted.
func watchMemory(o *Options, all []*device) *guard {
	if o.Reserve <= 0 {
		return nil
	}
	g := &guard{o: o, began: make(map[driver.Wait]time.Time), stop: make(chan struct{}), ended: make(chan struct{})}
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
	for {
		n := left()
		every := guardSeldom
		if n/4 < g.o.Reserve {
			every = guardOften
		}
		all, of := g.look(time.Now())
		if i := victim(n, g.o.Reserve, all); i >= 0 {
			w := of[i]
			w.kill(fmt.Errorf("ended to keep memory free: %d MiB were left, less than the %d MiB to keep; it had %d MiB and the newest large task",
				n>>20, g.o.Reserve>>20, all[i].bytes>>20))
			select { // what it had is free after that
			case <-w.exited:
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

// holder is a worker that runs a task.
type holder struct {
	bytes int64     // of private memory that it has
	began time.Time // when the newest of its tasks did
}

// victim returns the worker to end when left bytes of memory are free, -1 for none: of
// those that have at least half as much as the largest, the one whose task is the newest,
// and of equal ones the largest. An old task has done more that would be lost, and to end a
// small one would free little.
func victim(left, reserve int64, all []holder) int {
	if left >= reserve {
		return -1
	}
	most := int64(0)
	for _, h := range all {
		most = max(most, h.bytes)
	}
	best := -1
	for i, h := range all {
		if h.bytes <= 0 || h.bytes < most/2 {
			continue
		}
		if best < 0 || h.began.After(all[best].began) || h.began.Equal(all[best].began) && h.bytes > all[best].bytes {
			best = i
		}
	}
	return best
}

// look returns the workers that run something. A launch counts as begun when it is first seen.
func (g *guard) look(now time.Time) (all []holder, of []*child) {
	seen := make(map[driver.Wait]time.Time)
	for _, d := range g.devs {
		w := d.serving.Load()
		if w == nil || !d.lockSoon() {
			continue
		}
		newest := time.Time{}
		if d.w == w && d.state == up {
			for _, l := range d.running() {
				at := driver.Wait{Lane: l.id, Seq: l.oldest().seq}
				began, known := g.began[at]
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
		if !newest.IsZero() {
			all, of = append(all, holder{private(w.pid()), newest}), append(of, w)
		}
	}
	g.began = seen
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
