package exec

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// spins is the number of times the loop looks for completions before it sleeps, yielding
// after each. farSpins replaces it if devices are in other processes, where a round trip
// takes tens of microseconds, and cores are idle: it makes about 1 ms. There the loop yields
// once in farYield looks, because on a machine with idle processors a yield moves the loop
// to another thread, which takes longer than a kernel.
const (
	spins    = 200
	farSpins = 1 << 19
	farYield = 1 << 14
	// waitSpins is the number of times a caller looks for the end of its run, likewise.
	waitSpins = 1 << 19
	// soon is longer than the loop looks for completions, which is some milliseconds at
	// most. Nothing that is due later needs the clock before the loop sleeps: automatic
	// timeouts are set all the time, and reading the clock costs about 50 ns.
	soon = 100 * time.Millisecond
)

// loop is the goroutine that owns the engine.
type loop struct {
	x      *Executor
	log    *slog.Logger
	engine *engine.Engine
	board  *driver.Board
	devs   []*dev
	host   *dev // copies within host memory
	lanes  []*dev

	// rung says that a device may have completions. Reading it takes no lock, so that
	// a loop that spins delays no device; wakeup is for one that is asleep.
	rung, asleep atomic.Bool
	wakeup       chan struct{}

	runs    map[engine.RunID]*Job
	overdue []*Job // cancelled, and to be told that they have ended
	homes   map[engine.DataRef][]byte
	fetches map[engine.DataRef][]*fetch
	mem     []hostMem // host instances by number
	pool    hostPool
	evs     []engine.Event
	acts    []engine.Action
	stops   []stop // launches to end early
	looks   []*dev // devices whose calls are to be looked after
	got     []driver.Completion
	counts  Counts
	sums    *sums // nil unless asked for
	forgets forgetting
	feeds   feeds
	notices []engine.Notice // for the feeds, in this step
	stepped time.Duration   // when the engine last stepped
	spins   int
	yield   int  // looks for each time it yields
	stirred bool // something began or ended since it last slept
	closing bool

	ladder  []engine.TimedRung // as the engine climbs it; nil for its default
	rungs   map[string]func(ctx context.Context, device string) error
	probing int    // probes under way
	seed    uint64 // of the next probe

	gangs   map[engine.Op]*gang // native collectives in flight, by the launches of their members
	forming *gang               // whose members are being launched

	longAfter time.Duration
	hang      time.Duration             // see Config.HangAfter
	expected  map[*graph.Graph]Expected // what was predicted and not run yet
	watchers  sync.WaitGroup            // goroutines that sample devices
	unwatched chan struct{}             // closed when they are to end

	timer *time.Timer
}

// dev is a device and the batch being put together for it.
type dev struct {
	driver.Device
	id    machine.DeviceID
	lanes []driver.Lane // compute lanes, copies in, copies out
	host  bool          // uses host memory directly
	far   bool          // computes in a worker process
	batch []driver.Op
	waits []driver.Wait // arena behind the batch's waits
	args  []driver.Arg  // and behind its arguments
	lost  bool
	// closed says that it is being closed because it cannot be brought back;
	// revived is closed when an attempt to do so has ended, which calloff asks for.
	closed  bool
	revived chan struct{}
	calloff func()
	// sampled, busy and tasks are the time of the last sample, and how long the
	// device had computed and how many tasks it had ended by then.
	sampled time.Duration
	busy    time.Duration
	tasks   int64
	own     float64         // what it was used by tasks of ours, of late
	memory  int64           // bytes that may be used, as last seen
	said    engine.Op       // the last call that was said to take long
	nudge   chan struct{}   // has the device's sampler sample it now; nil for a device that reports nothing
	probes  []chan struct{} // closed when it is sampled next
	away    atomic.Bool     // the sampler must not ask it: it is lost
	idle    atomic.Int64    // for the sampler: when it last had nothing to do
	flight  int             // operations given and not completed
	check   *graph.Graph    // of its probes; nil before the first
	mute    bool            // it has no kernel for them
	passed  bool            // it has passed one
	courier *courier        // of a device that is a driver.Partial
}

// hostMem is the memory behind a host instance.
type hostMem struct {
	b      []byte
	pooled bool // it goes back to the pool
	lent   bool // it is the caller's
}

func newLoop(x *Executor, devs []driver.Device, c Config) (*loop, error) {
	l := &loop{
		x: x, log: c.Log, wakeup: make(chan struct{}, 1),
		runs: make(map[engine.RunID]*Job), homes: make(map[engine.DataRef][]byte), fetches: make(map[engine.DataRef][]*fetch),
		got: make([]driver.Completion, 1024), timer: time.NewTimer(time.Hour), pool: hostPool{limit: c.PoolBytes},
	}
	if c.Checksums { // which are of host memory
		x.Machine.Links = slices.DeleteFunc(x.Machine.Links, func(k machine.Link) bool { return k.A != machine.Host && k.B != machine.Host })
	}
	infos := engine.LanesOf(x.Machine)
	l.expected = make(map[*graph.Graph]Expected)
	l.gangs = make(map[engine.Op]*gang)
	if c.Checksums {
		l.sums = newSums()
	}
	board, mem, own, err := share(devs, len(infos))
	if err != nil {
		return nil, err
	}
	l.board, x.board, l.pool.shared, x.shared = board, board, mem, mem
	if l.spins, l.yield = spins, 1; mem != nil && driver.Spare() {
		l.spins, l.yield, x.spins = farSpins, farYield, waitSpins
	}
	l.unwatched = make(chan struct{})
	l.lanes = make([]*dev, len(infos))
	// Lane 0 copies within host memory.
	l.host = &dev{Device: c.Copier, id: machine.Host, host: true, lanes: []driver.Lane{0}}
	l.lanes[0] = l.host
	l.host.Attach(l.board, l.host.lanes, l.wake)
	for i, d := range devs {
		l.devs = append(l.devs, &dev{Device: d, id: machine.DeviceID(i), host: d.Info().HostMemory, far: d.Traits().Shared != nil})
		l.devs[i].courier = newCourier(x, l.devs[i])
	}
	for n, info := range infos[1:] {
		d := l.devs[info.Device]
		d.lanes = append(d.lanes, driver.Lane(n+1))
		l.lanes[n+1] = d
	}
	for i, d := range l.devs {
		d.Attach(l.board, append(d.lanes[:len(d.lanes):len(d.lanes)], own[i]...), l.wake)
	}
	return l, nil
}

// wake is called by devices, from any goroutine, when there are completions.
func (l *loop) wake() {
	l.rung.Store(true)
	if l.asleep.Load() && l.asleep.Swap(false) {
		l.wakeup <- struct{}{} // there is room: the loop empties it each time
	}
}

// run is the loop.
func (l *loop) run() {
	defer close(l.x.ended)
	for {
		l.collect()
		l.requests()
		if l.closing && len(l.runs) == 0 {
			l.shut()
			l.refuse()
			l.x.last, l.x.counts = l.status()
			l.endFeeds()
			return
		}
		l.stepped = l.now()
		l.acts = l.engine.Step(l.stepped, l.evs, l.acts[:0])
		l.evs = l.evs[:0]
		if len(l.notices) > 0 {
			l.publish() // before the callers that wait for runs are told of their ends
		}
		if l.forgets.due || l.forgets.open {
			l.forgets.forget(l.board, l.engine, len(l.lanes))
		}
		l.stirred = l.stirred || len(l.acts) > 0
		l.perform()
		if len(l.overdue) > 0 {
			l.leaveBehind()
		}
		if len(l.looks) > 0 {
			l.lookAfter()
		}
		if !l.closing || len(l.runs) > 0 {
			l.wait()
		}
	}
}

// refuse ends the taking of calls: those being handed over still run, and find
// the loop closing.
func (l *loop) refuse() {
	for !l.x.mu.TryLock() {
		l.requests()
	}
	l.x.closed = true
	l.x.mu.Unlock()
	l.requests()
}

// collect turns completions into events.
func (l *loop) collect() {
	l.rung.Store(false) // before looking: who rings afterwards is heard next time
	l.collectFrom(l.host)
	for _, d := range l.devs {
		l.collectFrom(d)
	}
}

func (l *loop) collectFrom(d *dev) {
	var lost error
	var over []driver.Lane // where an operation was lost: those after it are too
	for {
		n := d.Completions(l.got)
		l.stirred = l.stirred || n > 0
		for i := range l.got[:n] {
			c := &l.got[i]
			if c.Lane != driver.NoLane {
				d.flight--
				if len(l.gangs) > 0 {
					l.memberEnded(engine.Op{Lane: engine.Lane(c.Lane), Seq: c.Seq}, c.Err)
				}
			}
			if c.Err != nil && errors.Is(c.Err, driver.ErrDeviceLost) {
				if c.Lane == driver.NoLane && d.lost { // one that was dropped is gone now
					l.evs = append(l.evs, engine.Event{Kind: engine.DeviceQuiet, Device: d.id})
				}
				lost = c.Err
				over = append(over, c.Lane)
				continue
			}
			if lost != nil && slices.Contains(over, c.Lane) {
				continue
			}
			if l.sums != nil {
				l.sumEnded(engine.Op{Lane: engine.Lane(c.Lane), Seq: c.Seq}, c.Err == nil)
			}
			l.evs = append(l.evs, engine.Event{})
			ev := &l.evs[len(l.evs)-1] // field by field, as in launch
			ev.Kind, ev.Op.Lane, ev.Op.Seq, ev.Device = engine.OpDone, engine.Lane(c.Lane), c.Seq, d.id
			ev.Start, ev.End = c.Start, c.End
			if c.Err != nil {
				ev.Status, ev.Err = status(c.Err), c.Err
				l.forgets.due = true
			}
		}
		if n < len(l.got) {
			break
		}
	}
	if lost != nil {
		l.lose(d, lost)
	}
}

// status says what became of an operation that failed.
func status(err error) engine.Status {
	switch {
	case errors.Is(err, driver.ErrDependency), errors.Is(err, driver.ErrStopped): // not the device's fault, nor the task's
		return engine.DepFailed
	case errors.Is(err, driver.ErrSpoilt), errors.Is(err, driver.ErrChecksum):
		return engine.Spoilt
	case errors.Is(err, driver.ErrOutOfMemory):
		return engine.OutOfMemory
	case errors.Is(err, driver.ErrUnfit):
		return engine.Unfit
	case errors.Is(err, driver.ErrKernel):
		return engine.Refused
	}
	return engine.Failed
}

// requests runs what callers asked for, without waiting.
func (l *loop) requests() {
	for {
		select {
		case fn := <-l.x.calls:
			fn(l)
		default:
			return
		}
	}
}

// looking returns the number of looks that wait takes before it sleeps, and of those between yields.
// While only devices of this process have work, the loop yields at each look, as it does without
// devices in workers. The goroutine that is to do the work was made ready on the loop's own
// processor (P), and other threads steal it only after some 50 µs, which is longer than a small task.
func (l *loop) looking() (looks, yield int) {
	near := l.host.flight > 0
	for _, d := range l.devs {
		if d.flight > 0 {
			if d.far {
				return l.spins, l.yield
			}
			near = true
		}
	}
	if near && l.yield > 1 {
		return spins, 1
	}
	return l.spins, l.yield
}

// wait blocks until there is something to do.
func (l *loop) wait() {
	if len(l.evs) > 0 {
		return
	}
	at, timed := l.engine.NextWake()
	if timed && at < l.stepped+soon && at <= l.now() {
		return
	}
	// Devices that run short tasks answer within microseconds: look a few times
	// before going to sleep, which costs more than that. Samples of idle devices'
	// condition come all the time, and are no reason to.
	looks, yield := l.looking()
	for i := 1; l.stirred && i <= looks; i++ {
		if l.rung.Load() || len(l.x.calls) > 0 {
			return
		}
		if i%yield == 0 {
			runtime.Gosched()
		}
	}
	l.stirred = false
	d := time.Hour
	if timed {
		d = at - l.now()
	}
	l.asleep.Store(true)
	if !l.rung.Load() {
		l.timer.Reset(d)
		select {
		case <-l.wakeup:
			return
		case fn := <-l.x.calls:
			fn(l)
		case <-l.timer.C:
		}
	}
	if !l.asleep.Swap(false) {
		<-l.wakeup // wake has sent, or is about to
	}
}

// perform does what the engine decided, in order.
func (l *loop) perform() {
	for i := range l.acts {
		a := &l.acts[i]
		switch a.Kind {
		case engine.Launch:
			l.launch(a)
		case engine.Copy:
			l.copy(a)
		case engine.Alloc:
			if a.Device == machine.Host {
				l.setMem(a.Inst, hostMem{b: l.pool.get(a.Bytes), pooled: true})
			} else {
				d := l.devs[a.Device]
				d.batch = append(d.batch, driver.Op{Kind: driver.Alloc, Buf: driver.Buffer(a.Inst), Bytes: a.Bytes})
			}
		case engine.Free:
			if a.Device == machine.Host {
				m := &l.mem[a.Inst]
				if a.Secret && !m.lent {
					clear(m.b)
				}
				if m.pooled {
					l.pool.put(m.b)
				}
				l.mem[a.Inst] = hostMem{}
				if l.sums != nil {
					l.sumFree(a.Inst)
				}
			} else if d := l.devs[a.Device]; !d.closed {
				d.batch = append(d.batch, driver.Op{Kind: driver.Free, Buf: driver.Buffer(a.Inst), Secret: a.Secret})
			}
		case engine.Home:
			l.home(a)
			if l.sums != nil {
				l.sumHome(a)
			}
		case engine.Done:
			l.done(a)
		case engine.Drop:
			l.drop(l.devs[a.Device])
		case engine.Recover:
			l.revive(l.devs[a.Device], a)
		case engine.Probe:
			l.probe(l.devs[a.Device])
		case engine.Stop:
			l.stops = append(l.stops, stop{l.devs[a.Device], driver.Wait{Lane: driver.Lane(a.Op.Lane), Seq: a.Op.Seq}})
		}
	}
	l.send(l.host, nil)
	for _, d := range l.devs {
		l.send(d, nil)
	}
	l.stopAll()
}

// stop is a launch that is to end early, and where it runs.
type stop struct {
	on *dev
	op driver.Wait
}

// stopAll ends the launches in stops early, on devices that can do so.
func (l *loop) stopAll() {
	for _, s := range l.stops {
		if d, ok := s.on.Device.(driver.Stopper); ok && !s.on.lost {
			d.Stop(s.op)
		}
	}
	l.stops = l.stops[:0]
}

// send hands a device its batch. What it takes from another device is to come after
// what that was given before; from is nil for none.
func (l *loop) send(d, from *dev) {
	if len(d.batch) == 0 {
		return
	}
	if n, err := l.give(d, from); err != nil {
		l.refused(d, d.batch[:n], err)
	}
	d.batch, d.waits, d.args = d.batch[:0], d.waits[:0], d.args[:0]
}

// give gives a device its batch without waiting for other processes. The error is
// about the first n of it.
func (l *loop) give(d, from *dev) (n int, err error) {
	p, ok := d.Device.(driver.Partial)
	if !ok {
		return len(d.batch), d.Submit(d.batch)
	}
	var after *courier
	if from != nil {
		after = from.courier
	}
	if !d.courier.busy.Load() && (after == nil || !after.busy.Load()) {
		n, err = p.SubmitSome(d.batch)
	}
	if n < len(d.batch) {
		d.courier.post(d.batch[n:], after)
	}
	return n, err
}

// refused takes in that a device takes nothing any more.
func (l *loop) refused(d *dev, batch []driver.Op, err error) {
	l.log.Warn("device takes nothing", "device", d.Info().Name, "err", err)
	for i := range batch {
		if batch[i].Kind >= driver.Copy {
			d.flight--
		}
	}
	l.abandon(d)     // also what the engine issued in the step it heard of the loss
	l.collectFrom(d) // which says why it was lost, where the device knows
	l.lose(d, err)
}

// next extends a device's batch by one operation.
func (d *dev) next(k driver.Kind, op engine.Op, waits []engine.Op) *driver.Op {
	w := len(d.waits)
	for _, o := range waits {
		d.waits = append(d.waits, driver.Wait{Lane: driver.Lane(o.Lane), Seq: o.Seq})
	}
	n := len(d.batch)
	if n == cap(d.batch) {
		d.batch = slices.Grow(d.batch, 1)
	}
	d.batch = d.batch[:n+1]
	o := &d.batch[n]
	*o = driver.Op{}
	o.Kind, o.Lane, o.Seq, o.Waits = k, driver.Lane(op.Lane), op.Seq, d.waits[w:len(d.waits):len(d.waits)]
	d.flight++
	return o
}

func (l *loop) launch(a *engine.Action) {
	d := l.devs[a.Device]
	op := d.next(driver.Launch, a.Op, a.Waits)
	op.Task, op.Secret, op.Compare = a.Graph.Task(a.Task), a.Secret, a.Compare
	if a.Gang {
		l.assemble(a, op.Task, d)
	}
	from, at := a.Args, len(d.args)
	d.args = slices.Grow(d.args, len(from))[:at+len(from)]
	args := d.args[at:len(d.args):len(d.args)]
	op.Args = args
	mem, host := l.mem, d.host
	if host && l.sums != nil {
		l.sumLaunch(a, op.Task)
	}
	for i := range from {
		// Field by field: a literal is written twice, and the second time waits
		// for the first.
		g, arg := &from[i], &args[i]
		arg.Bytes = g.Bytes
		if !host {
			arg.Buf, arg.Off, arg.Host = driver.Buffer(g.Inst), g.Offset, nil
			continue
		}
		b := mem[g.Inst].b
		if g.Bytes < int64(len(b)) {
			b = b[g.Offset : g.Offset+g.Bytes]
		}
		arg.Buf, arg.Off, arg.Host = driver.NoBuffer, 0, b
	}
}

func (l *loop) copy(a *engine.Action) {
	d := l.lanes[a.Op.Lane]
	l.counts.Copies++
	l.counts.CopyBytes += a.Bytes
	peer := a.From != machine.Host && a.Device != machine.Host && a.From != a.Device
	if peer {
		// Flush the source device first. Its queue then holds every operation this copy depends
		// on, so two devices that copy from each other cannot deadlock.
		l.send(l.devs[a.From], nil)
	}
	if l.sums != nil {
		l.sumCopy(a)
	}
	op := d.next(driver.Copy, a.Op, a.Waits)
	op.Bytes, op.Secret = a.Bytes, a.Secret
	op.Src, op.Dst, op.SrcOff, op.DstOff = driver.Buffer(a.Src), driver.Buffer(a.Dst), a.SrcOff, a.DstOff
	if peer {
		op.From = l.devs[a.From].Device
	}
	if a.From == machine.Host {
		op.Src, op.HostSrc = driver.NoBuffer, l.mem[a.Src].b[a.SrcOff:a.SrcOff+a.Bytes]
	}
	if a.Device == machine.Host {
		op.Dst, op.HostDst = driver.NoBuffer, l.mem[a.Dst].b[a.DstOff:a.DstOff+a.Bytes]
	}
	if peer {
		l.send(d, l.devs[a.From])
	}
}

func (l *loop) done(a *engine.Action) {
	if a.Run == 0 {
		waiting := l.fetches[a.Ref]
		l.fetches[a.Ref] = waiting[1:]
		if len(waiting) == 1 {
			delete(l.fetches, a.Ref)
		}
		err := a.Err
		if err == nil && l.sums != nil {
			err = l.sumFetched(a.Ref)
		}
		if a.Err == nil && (waiting[0].left || err != nil) {
			l.engine.EndFetch(a.Ref)
		}
		if !waiting[0].left || a.Err != nil {
			waiting[0].answer <- err
		}
		return
	}
	if l.sums != nil {
		a.Err = l.sumDone(a.Run, a.Err)
	}
	if l.runs[a.Run] == nil {
		l.caughtUp(a.Run) // it was told of before: see leaveBehind
		return
	}
	switch {
	case l.runs[a.Run].probe:
	case a.Err == nil:
		l.counts.Completed++
	case errors.Is(a.Err, engine.ErrCancelled):
		l.counts.Cancelled++
	default:
		l.counts.Failed++
	}
	l.counts.Retries += int64(a.Report.Retries)
	j := l.runs[a.Run]
	delete(l.runs, a.Run)
	if len(l.expected) > 0 {
		l.compare(j, a.Report, a.Err)
	}
	j.id = 0
	if j.Free != nil {
		j.Free()
	}
	j.Done(a.Report, a.Err)
}

// status is the state of every device and what was done so far.
func (l *loop) status() ([]engine.DeviceStatus, Counts) {
	st := make([]engine.DeviceStatus, len(l.devs))
	for i := range st {
		st[i] = l.engine.Status(machine.DeviceID(i))
	}
	c := l.counts
	c.Uptime = l.now()
	c.Rebalances, c.Rebalanced = l.engine.Rebalances()
	return st, c
}
