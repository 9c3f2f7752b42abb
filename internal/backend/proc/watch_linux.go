package proc

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// The parent's watch over a worker: completions while it runs, and what its operations end
// with when it is gone.

// mind starts the goroutines that follow a worker's life.
func (d *device) mind(w *child) {
	close(w.serves)
	watched := make(chan struct{})
	go d.watch(w, watched)
	d.background.Go(func() { d.awaitEnd(w, watched) })
}

// watchTick is the time between looks at a worker's beats, and stoppedTicks how many of these a sleep
// takes at least if this process was stopped meanwhile. A worker that hangs is found within a
// tick after its time is up: the last beat may be seen that late.
const (
	watchTick    = 50 * time.Millisecond
	stoppedTicks = 20
)

// watch tells the executor of completions, and kills the worker if it falls
// silent. It returns when the worker has ended or is about to.
func (d *device) watch(w *child, ended chan<- struct{}) {
	defer close(ended)
	h := w.completions.h
	defer func() {
		if e, ok := d.harmless(w); ok {
			d.lose(w, e)
		}
	}()
	// A worker may have completed something before this goroutine first runs: the
	// executor hears of everything since the ring was empty.
	p, rung := newBeats(w, time.Now()), uint32(0)
	quiet := 0
	for w.alive() && !w.completions.deserted() {
		if t := h.tail.Load(); t != rung {
			rung, quiet = t, 0
			d.wake()
			continue
		}
		// Where it looks for long it does so between operations too: the next one
		// comes when the caller has heard of this one.
		if quiet < watchSpins && (watchYield > 1 || d.flying.Load() > 0) {
			if quiet++; quiet%watchYield == 0 {
				runtime.Gosched()
			}
			continue
		}
		// Having slept in vain it sleeps again: only a completion has it look for long.
		slept := time.Now()
		tick := watchTick
		if left := d.drv.o.HangTimeout - slept.Sub(p.seen); left > 0 {
			tick = min(tick, left+time.Millisecond) // so that it is not found a tick later
		}
		w.completions.sleep(tick, func() bool { return h.tail.Load() != rung })
		if silent := p.silent(slept, time.Now(), d.drv.o.HangTimeout, 10*d.drv.o.HangTimeout); silent > 0 {
			w.kill(hungFor(silent))
		}
		// Who has the lock for long waits for an answer of this worker perhaps, and must
		// not keep the watcher from finding that it hangs.
		if d.lockSoon() {
			if d.w == w && len(d.backlog) > 0 {
				d.flush()
			}
			d.mu.Unlock()
		}
	}
}

// beats tells whether a worker is silent, by its beats (ringHead.beat).
type beats struct {
	h       *ringHead
	stopped func() bool // whether the process is stopped (SIGSTOP)
	beat    uint32      // the last one
	seen    time.Time   // when it came
	ran     time.Time   // when it came, or the process was last found not to be stopped
}

func newBeats(w *child, now time.Time) *beats {
	return &beats{h: w.commands.h, stopped: func() bool { return isStopped(w.pid()) }, beat: w.commands.h.beat.Load(), seen: now, ran: now}
}

// silent takes in the beats until now, after a sleep from slept on. It returns for how long the worker has
// been silent, or 0 if that is no longer than it may: hang, or busy where it is being started or works on
// something long (opens its device, page-locks memory, ends). A worker that is stopped may be silent for no
// longer than hang, whatever it works on.
func (p *beats) silent(slept, now time.Time, hang, busy time.Duration) time.Duration {
	if b := p.h.beat.Load(); b != p.beat {
		p.beat, p.seen, p.ran = b, now, now
	} else if gone := now.Sub(slept); gone > stoppedTicks*watchTick {
		p.seen, p.ran = p.seen.Add(gone), p.ran.Add(gone) // this process was stopped, and the worker with it perhaps
	}
	silence, limit := now.Sub(p.seen), hang
	if p.beat == 0 || p.h.busy.Load() != 0 {
		if !p.stopped() {
			p.ran = now
		}
		if stopped := now.Sub(p.ran); stopped > hang {
			return stopped
		}
		limit = busy
	}
	if silence > limit {
		return silence
	}
	return 0
}

func hungFor(silent time.Duration) error {
	return fmt.Errorf("%w for %v", errHung, silent.Round(time.Millisecond))
}

// watchBeats kills a worker that falls silent before it serves: while it opens the device, is asked
// something, or stands by. How long it may work on a request is bounded by who made it (Options.Answer). It
// ends when the worker serves, which watch follows, or with the worker.
func (d *device) watchBeats(w *child) {
	defer close(w.unwatched)
	p := newBeats(w, time.Now())
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	for slept := time.Now(); ; slept = time.Now() {
		select {
		case <-tick.C:
		case <-w.serves:
			return
		case <-w.exited:
			return
		}
		if silent := p.silent(slept, time.Now(), d.drv.o.HangTimeout, math.MaxInt64); silent > 0 {
			w.kill(hungFor(silent))
		}
	}
}

// watchSpins is the number of times a watcher looks before it sleeps, watchYield the number of
// looks between yields; workSpins and workYield are the same for a worker, which does more at each
// look. On machines with cores to spare both look for about a millisecond, longer than a small
// kernel takes, and yield seldom, since there a yield moves to another thread.
var watchSpins, watchYield, workSpins, workYield = func() (int, int, int, int) {
	if driver.Spare() {
		return 1 << 17, 1 << 12, 1 << 13, 1 << 9
	}
	return spins, 1, spins, 1
}()

// reapWait is the time a killed worker has to vanish before its operations are ended without it:
// one that hangs in the kernel may never vanish. A device that has reported itself lost runs
// nothing any more; its worker may take long only to give page-locked memory back.
const (
	reapWait = time.Second
	lostWait = 50 * time.Millisecond
)

// awaitEnd waits for the end of a worker's process and then ends the operations that were
// in flight on it: until then the process may write to host memory.
func (d *device) awaitEnd(w *child, watched <-chan struct{}) {
	select {
	case <-w.exited:
	case <-watched:
		w.kill(errStopped) // it is about to end, or says so wrongly
	case <-w.doom:
	}
	if w.alive() {
		d.mu.Lock()
		wait := w.reap
		if d.w == w && d.fault != nil {
			wait = lostWait
		}
		d.mu.Unlock()
		select {
		case <-w.exited:
		case <-time.After(wait):
			d.log.Info("a killed worker has not ended; going on without it", "pid", w.pid(), "after", wait)
			d.lose(w, w.ending())
			<-w.exited
		}
	}
	w.completions.wake() // so that the watcher looks up
	<-watched
	d.lose(w, w.ending())
	d.mu.Lock()
	d.quit(w)
	d.mu.Unlock()
	w.unmap()
}

// lose ends the operations in flight on a worker that ends as it is told. While its process has
// not ended, the memory it may write to is not used again.
func (d *device) lose(w *child, e ending) {
	d.mu.Lock()
	if d.w != w {
		d.mu.Unlock()
		return
	}
	for range maxReads {
		c, report, ok, err := d.read()
		if err != nil || !ok {
			break
		}
		if report {
			d.done = append(d.done, c)
		}
	}
	wasUp := d.state == up
	for _, l := range d.lanes {
		d.finish(l)
	}
	err := d.verdict(w, e)
	for _, l := range d.lanes {
		d.abort(l, err, !e.over, w)
	}
	d.board.Abandon(d.homeLane, d.homes)
	for _, l := range d.lanes {
		d.board.Reclaim(l.id)
	}
	d.serving.Store(nil)
	d.w, d.fault, d.alone = nil, nil, driver.Wait{Lane: driver.NoLane}
	d.backlog, d.segs = nil, 0
	d.kernels.forget()
	clear(d.aliases)
	d.unnamed = nil
	clear(d.foreign)
	d.epoch.Add(1)
	d.in.rest()
	d.out.rest()
	if !d.heap.slabbed {
		d.heap.clear()
	}
	if wasUp {
		d.state = down
		now := d.board.Now()
		d.done = append(d.done, driver.Completion{Lane: driver.NoLane, Start: now, End: now, Err: err})
		d.log.Warn("worker lost", "err", err)
	}
	close(w.lost)
	d.mu.Unlock()
	d.board.Stir()
	d.wake()
}

// lostWorker is why a device is lost whose worker has ended. Its text is the cause alone: who reports a loss
// names the device, and says that it is lost.
type lostWorker struct{ cause error }

func (l *lostWorker) Error() string   { return l.cause.Error() }
func (l *lostWorker) Unwrap() []error { return []error{driver.ErrDeviceLost, l.cause} }

// verdict says why a worker is gone, and ends the launch that did it if that is
// known: the one the inner device blamed, or the only one that was running.
func (d *device) verdict(w *child, e ending) error {
	if d.state != up {
		return fmt.Errorf("proc: %s: %w", d.info.Name, driver.ErrClosed)
	}
	if d.fault == nil {
		cause := errHung
		if e.known || e.over {
			cause = w.because(e.String())
			if running := d.running(); d.origin.found.Info.HostMemory && w.fell(e) && len(running) > 1 {
				d.suspect(running)
			}
		}
		return &lostWorker{cause}
	}
	running := d.running()
	blamed := errors.Is(d.fault, driver.ErrKernel) || slices.ContainsFunc(d.lanes, func(l *lane) bool { return l.kind == computes && (l.last == brokenKernel || l.last == faulted) })
	if !blamed && len(running) == 1 {
		l := running[0]
		f := l.oldest()
		err := &remoteError{fmt.Sprintf("proc: %s: %v: %s: %s", d.info.Name, driver.ErrFaulted, kernelNames(f.task), d.fault), classes[faulted]}
		d.board.Abandon(l.id, f.seq)
		now := d.board.Now()
		if c, report := d.settle(l, now, now, err); report {
			d.done = append(d.done, c)
		}
		blamed = true
	}
	if !blamed {
		d.suspect(running)
	}
	if blamed {
		return &remoteError{fmt.Sprintf("proc: %s: device lost to a kernel: %v", d.info.Name, d.fault), classes[lostByKernel]}
	}
	return &remoteError{fmt.Sprintf("proc: %s: %v", d.info.Name, d.fault), classes[lost]}
}

// running returns the lanes with a launch that was running.
func (d *device) running() (out []*lane) {
	for _, l := range d.lanes {
		if f := l.oldest(); l.kind == computes && f != nil && f.kind == driver.Launch && !f.late && d.begun(f) {
			out = append(out, l)
		}
	}
	return out
}

// suspect has the launches of some lanes run alone next time: any of them may have ended
// the worker.
func (d *device) suspect(running []*lane) {
	for _, l := range running {
		d.suspects[l.oldest().task] = true
	}
}

// begun reports whether everything an operation waits for succeeded.
func (d *device) begun(f *flight) bool {
	for _, w := range f.waits {
		if done, ok := d.board.State(w); !done || !ok {
			return false
		}
	}
	return true
}

// kernelNames names the kernels of a task, each once.
func kernelNames(t *graph.Task) string {
	if t == nil || len(t.Steps) == 0 {
		return "a task without kernels"
	}
	var names []string
	for i := range t.Steps {
		if n := fmt.Sprintf("kernel %q", t.Steps[i].Kernel.Name); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// finish settles what completed without the worker living to say so: the board
// knows, and others may have gone on from there.
func (d *device) finish(l *lane) {
	now := d.board.Now()
	for f := l.oldest(); f != nil; f = l.oldest() {
		if done, ok := d.board.State(driver.Wait{Lane: l.id, Seq: f.seq}); !done || !ok {
			return
		}
		if c, report := d.settle(l, now, now, nil); report {
			d.done = append(d.done, c)
		}
	}
}

// abort ends a lane's operations from the first that did not complete on: what
// comes after a lost one on its lane is lost too.
func (d *device) abort(l *lane, err error, mayStillRun bool, w *child) {
	now := d.board.Now()
	for f := l.oldest(); f != nil; f = l.oldest() {
		d.board.Abandon(l.id, f.seq)
		if mayStillRun {
			for _, mem := range [][]byte{f.temp, f.host} {
				if mem != nil {
					release := d.drv.o.Memory.Hold(mem)
					d.background.Go(func() { <-w.exited; release() })
				}
			}
		}
		if c, report := d.settle(l, now, now, err); report {
			d.done = append(d.done, c)
		}
	}
	// Parts that were promised and never given.
	d.board.Abandon(l.id, l.given)
	l.broken, l.passed, l.last = false, 0, fine
}
