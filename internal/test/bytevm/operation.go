package bytevm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// operation is a copy or launch from when it is issued until the engine has heard
// how it ended.
type operation struct {
	act     engine.Action
	bufs    []*buffer // of a launch by argument, of a copy source and destination
	attempt *attempt  // nil for a copy
	gang    *gang     // nil unless a member of one
	started bool
	hangs   bool
	stopped bool // its result is not needed
	doomed  bool // a memory it needs is gone
	begin   time.Duration
	end     time.Duration
	reads   [][]byte // what it found where it only reads, by argument
	writes  [][]byte // what it will have written, by argument
	status  engine.Status
	err     error
}

// attempt is one execution of a task, by one device or a gang.
type attempt struct {
	job     *job
	task    int
	left    int  // members the engine has not heard the end of
	faulted bool // it counts as a failure of the task
}

// gang is the launches of one attempt that start together.
type gang struct {
	run     engine.RunID
	task    graph.TaskID
	size    int
	members []*operation
	aborted bool // one of them cannot take part
}

// lane is an in-order queue of operations.
type lane struct {
	info    engine.LaneInfo
	issued  uint32
	done    uint32
	failed  map[uint32]bool
	queue   []*operation // given and not ended
	reports []*operation // ended and not told
	gone    []*operation // lost with their device, which the engine has not heard of
}

// beyond reports whether sequence number a is beyond b. Numbers pass 2³².
func beyond(a, b uint32) bool { return int32(a-b) > 0 }

// describe names an operation in an error.
func (o *operation) describe() string {
	a := &o.act
	if a.Kind == engine.Copy {
		return fmt.Sprintf("copy %d.%d of %d bytes from device %d to %d", a.Op.Lane, a.Op.Seq, a.Bytes, a.From, a.Device)
	}
	return fmt.Sprintf("launch %d.%d of %s of run %d on device %d", a.Op.Lane, a.Op.Seq, a.Graph.TaskName(a.Task), a.Run, a.Device)
}

// issue takes an operation at the end of its lane.
func (x *executor) issue(a engine.Action) {
	o := &operation{act: a}
	ln := &x.lanes[a.Op.Lane]
	if a.Op.Seq != ln.issued+1 {
		x.bad("%s: not the next on its lane, after %d", o.describe(), ln.issued)
	}
	ln.issued++
	for _, w := range a.Waits {
		if beyond(w.Seq, x.lanes[w.Lane].issued) {
			x.bad("%s waits for %v, which was not issued", o.describe(), w)
		}
	}
	if a.Kind == engine.Launch {
		x.issueLaunch(o, ln)
	} else {
		x.issueCopy(o, ln)
	}
	for _, b := range o.bufs {
		if b.home && b.run > 0 && x.jobs[b.run].done {
			x.bad("%s: the memory of run %d is the caller's again", o.describe(), b.run)
		}
	}
	on := ln.info.Device
	if on >= 0 && x.devices[on].down {
		if x.devices[on].known {
			x.bad("%s: its device is down", o.describe())
		}
		x.vanish(ln, o)
		x.abandon(a.Op.Lane)
		if x.devices[on].told { // issued before the loss, in the step that hears of it
			x.lossTold(on)
		}
		return
	}
	for _, b := range o.bufs {
		b.users++
	}
	ln.queue = append(ln.queue, o)
}

func (x *executor) issueLaunch(o *operation, ln *lane) {
	a := &o.act
	if ln.info.Kind != engine.Compute || ln.info.Device != a.Device {
		x.bad("%s: not a compute lane of its device", o.describe())
	}
	t := a.Graph.Task(a.Task)
	if !slices.Contains(t.On.Only, x.machine.Devices[a.Device].Backend) && len(t.On.Only) > 0 {
		x.bad("%s: it must not run there", o.describe())
	}
	j := x.jobs[a.Run]
	if j == nil || a.Graph != j.program.graph {
		x.bad("%s: the run is unknown", o.describe())
	}
	j.touched[a.Device] = true
	for _, g := range a.Args {
		b := x.buffer(g.Inst)
		if b.at != x.memory(a.Device) {
			x.bad("%s: instance %d is in memory %d", o.describe(), g.Inst, b.at)
		}
		o.bufs = append(o.bufs, b)
	}
	x.keepSecrets(o, t)
	if t.Gang < 2 {
		o.attempt = &attempt{job: j, task: int(a.Task), left: 1}
		x.inFlight(j, 1)
		return
	}
	if !a.Gang {
		x.bad("%s: not marked as a member of a gang", o.describe())
	}
	g := x.forming // members are issued one after another
	if g == nil || g.run != a.Run || g.task != a.Task {
		g = &gang{run: a.Run, task: a.Task, size: t.Gang}
		o.attempt = &attempt{job: j, task: int(a.Task), left: t.Gang}
		x.inFlight(j, 1)
		x.sum.Gangs++
	} else {
		o.attempt = g.members[0].attempt
	}
	for _, m := range g.members {
		if m.act.Rank == a.Rank || m.act.Device == a.Device {
			x.bad("%s: its rank or device is there twice", o.describe())
		}
	}
	g.members = append(g.members, o)
	o.gang, x.forming = g, g
	if len(g.members) == g.size {
		x.forming = nil
	}
}

// keepSecrets notes which buffers of a launch hold secret data.
func (x *executor) keepSecrets(o *operation, t *graph.Task) {
	k, any := 0, false
	for _, u := range t.Uses {
		if t.Gang > 1 && u.Rank != o.act.Rank {
			continue
		}
		if o.act.Graph.Data(u.Data).Secret {
			o.bufs[k].secret, any = true, true
		}
		k++
	}
	if !any {
		return
	}
	if !o.act.Secret {
		x.bad("%s: it uses secret data and does not say so", o.describe())
	}
	for _, b := range o.bufs[k:] {
		b.secret = true // the workspace
	}
}

func (x *executor) issueCopy(o *operation, ln *lane) {
	a := &o.act
	on := ln.info.Device
	if ln.info.Kind == engine.Compute || on >= 0 && on != a.Device && on != a.From {
		x.bad("%s: not on a lane that carries it", o.describe())
	}
	src, dst := x.buffer(a.Src), x.buffer(a.Dst)
	if src.at != x.memory(a.From) || dst.at != x.memory(a.Device) {
		x.bad("%s: its ends are in memories %d and %d", o.describe(), src.at, dst.at)
	}
	o.bufs = []*buffer{src, dst}
	if src.secret && !a.Secret {
		x.bad("%s: it copies secret data and does not say so", o.describe())
	}
	dst.secret = dst.secret || src.secret
	for _, b := range o.bufs {
		if b.at < 0 || !x.devices[b.at].down {
			continue
		}
		if d := &x.devices[b.at]; d.known {
			x.bad("%s: the memory of device %d is gone", o.describe(), b.at)
		} else if !d.kept || x.r.IntN(2) == 0 {
			o.doomed = true
		}
	}
	x.sum.Copies++
}

// inFlight counts tasks as the engine does.
func (x *executor) inFlight(j *job, by int) {
	j.flight += by
	x.flight += by
}

// vanish takes an operation whose device is gone out of its lane. The engine has
// not heard of that.
func (x *executor) vanish(ln *lane, o *operation) {
	ln.done = o.act.Op.Seq
	ln.failed[o.act.Op.Seq] = true
	ln.gone = append(ln.gone, o)
	x.leaveGang(o)
}

// abandon lets those go on who wait for what a lane was given.
func (x *executor) abandon(l engine.Lane) {
	x.board.Abandon(driver.Lane(l), x.lanes[l].issued)
}

// leaveGang ends the gang of a member that cannot take part. Those that run are
// told so or end as if nothing had happened.
func (x *executor) leaveGang(o *operation) {
	g := o.gang
	if g == nil {
		return
	}
	g.aborted = true
	for _, m := range g.members {
		if m != o && m.started && m.status == engine.OK && x.r.IntN(2) == 0 {
			m.status = engine.DepFailed
		}
	}
}

// state reports how an operation waited for stands, having checked that the board
// says the same as the executor's own account.
func (x *executor) state(w engine.Op) (done, ok bool) {
	ln := &x.lanes[w.Lane]
	if done = !beyond(w.Seq, ln.done); done {
		ok = !ln.failed[w.Seq]
	}
	if d, k := x.board.State(driver.Wait{Lane: driver.Lane(w.Lane), Seq: w.Seq}); d != done || done && k != ok {
		x.bad("operation %v is done: %v, well: %v; the board says %v, %v", w, done, ok, d, k)
	}
	return done, ok
}

// forget has the board forget the failures that no operation asks for any more: the engine
// has heard of them, so that nothing it issues later waits for them, and nothing does
// that was issued.
func (x *executor) forget() {
	past := make([]uint32, len(x.lanes))
	for l := range past {
		past[l] = x.engine.Ended(engine.Lane(l))
	}
	for l := range x.lanes {
		for _, o := range x.lanes[l].queue {
			for _, w := range o.act.Waits {
				if !beyond(w.Seq, past[w.Lane]) {
					past[w.Lane] = w.Seq - 1
				}
			}
		}
	}
	for l, seq := range past {
		x.board.Forget(driver.Lane(l), seq)
	}
}

// pump starts and ends whatever can, until nothing moves.
func (x *executor) pump() {
	for moved := true; moved; {
		moved = false
		for l := range x.lanes {
			if ln := &x.lanes[l]; len(ln.queue) > 0 {
				moved = x.move(ln, ln.queue[0]) || moved
			}
		}
	}
}

// move starts or ends the operation at the head of a lane if its time has come.
func (x *executor) move(ln *lane, o *operation) bool {
	if !o.started {
		ready, well := x.ready(o)
		switch {
		case !ready:
			return false
		case !well:
			x.leaveGang(o)
			x.complete(ln, o, engine.DepFailed, nil)
			return true
		case o.gang != nil:
			return x.assemble(o.gang)
		}
		x.start(o)
		return true
	}
	cpu := o.act.Kind == engine.Launch && x.machine.Devices[o.act.Device].Kind == machine.CPU
	switch {
	case o.hangs:
		return false
	case o.stopped && cpu:
		x.complete(ln, o, engine.DepFailed, nil)
	case o.end <= x.now:
		x.complete(ln, o, o.status, o.err)
	default:
		return false
	}
	return true
}

// ready reports whether an operation at the head of its lane waits for nothing
// more, and whether all it waited for ended well.
func (x *executor) ready(o *operation) (ready, well bool) {
	well = !o.stopped && (o.gang == nil || !o.gang.aborted)
	for _, w := range o.act.Waits {
		done, ok := x.state(w)
		if !done {
			return false, false
		}
		well = well && ok
	}
	return true, well
}

// assemble starts a gang when every member is at the head of its lane and ready.
func (x *executor) assemble(g *gang) bool {
	if len(g.members) < g.size {
		return false
	}
	for _, m := range g.members {
		if ln := &x.lanes[m.act.Op.Lane]; len(ln.queue) == 0 || ln.queue[0] != m {
			return false
		}
		if ready, well := x.ready(m); !ready || !well {
			return false // its own turn ends the gang
		}
	}
	for _, m := range g.members {
		x.start(m)
	}
	return true
}

// start begins an operation: it takes what it reads and tears what it writes.
func (x *executor) start(o *operation) {
	o.started, o.begin = true, x.now
	o.end = x.now + time.Duration(1+x.r.IntN(1_000_000))
	if x.r.IntN(4) == 0 {
		o.end = x.now + time.Duration(x.r.IntN(1000))
	}
	x.drawFate(o)
	if o.act.Kind == engine.Copy {
		x.startCopy(o)
	} else {
		x.startLaunch(o)
	}
}

// drawFate decides how an operation that starts will end.
func (x *executor) drawFate(o *operation) {
	a := &o.act
	if a.Kind == engine.Copy {
		switch into := a.Device; {
		case o.doomed:
			o.status, o.err = engine.Failed, errCut
			x.cuts++
		case x.traits.has(Exhaustion) && x.memory(into) >= 0 && !x.devices[into].safe && x.r.IntN(80) == 0:
			o.status, o.err = engine.OutOfMemory, errExhausted
			x.sum.Exhausted++
			x.cuts++
		case x.traits.has(Cuts) && x.r.IntN(20) == 0:
			o.status, o.err = engine.Failed, errCopy
			x.sum.FailedCopies++
			x.cuts++
		}
		return
	}
	d := &x.devices[a.Device]
	switch {
	case x.jobs[a.Run].program.poison == a.Graph.TaskName(a.Task):
		o.status, o.err = engine.Refused, errKernel
	case x.traits.has(Failures) && x.r.IntN(30) == 0 && (!d.safe || d.failures < maxSafeFailures):
		d.failures++
		x.sum.FailedOps++
		o.status, o.err = engine.Failed, errKernel
		if x.r.IntN(4) == 0 {
			o.status = engine.Refused
		}
	case x.traits.has(Exhaustion) && x.memory(a.Device) >= 0 && !d.safe && x.r.IntN(80) == 0:
		x.sum.Exhausted++
		o.status, o.err = engine.OutOfMemory, errExhausted
	case x.traits.has(Hangs) && !d.safe && x.r.IntN(80) == 0 && (x.memory(a.Device) >= 0 || x.options.TaskTimeout > 0):
		o.hangs = true
	}
}

// maxSafeFailures is how many launches may fail on a device nothing bad happens
// to: no more than the engine takes in a row before it drops a device.
const maxSafeFailures = 3

func (x *executor) startCopy(o *operation) {
	a := &o.act
	if o.doomed {
		return
	}
	src, dst := o.bufs[0].mem, o.bufs[1].mem
	o.reads = [][]byte{slices.Clone(src[a.SrcOff : a.SrcOff+a.Bytes])}
	paint(dst[a.DstOff:a.DstOff+a.Bytes], patternTorn)
}

func (x *executor) startLaunch(o *operation) {
	a := &o.act
	t := a.Graph.Task(a.Task)
	uses, args := usesOf(t, a.Rank), x.args(o)
	want := len(uses)
	if t.Workspace > 0 {
		want++
	}
	if len(args) != want {
		x.bad("%s: %d arguments instead of %d", o.describe(), len(args), want)
	}
	for i, u := range uses {
		if int64(len(args[i])) != u.Bytes {
			x.bad("%s: argument %d has %d bytes instead of %d", o.describe(), i, len(args[i]), u.Bytes)
		}
	}
	if t.Workspace > 0 {
		if int64(len(args[want-1])) < t.Workspace {
			x.bad("%s: its workspace is too small", o.describe())
		}
		paint(args[want-1], patternTorn)
	}
	switch w := x.jobs[a.Run].program.work; {
	case w != nil:
		o.writes = w.compute(t, args)
	case t.Steps[0].Kernel == combining:
		o.writes = combine(args[:len(uses)])
	default:
		o.writes = mix(binary.LittleEndian.Uint64(t.Steps[0].Params), uses, args)
	}
	o.reads = make([][]byte, len(uses))
	for i := range uses {
		if o.writes[i] == nil {
			o.reads[i] = slices.Clone(args[i])
		}
	}
	for i := range uses {
		if o.writes[i] != nil {
			paint(args[i], patternTorn)
		}
	}
}

// args returns the bytes a launch was given.
func (x *executor) args(o *operation) [][]byte {
	args := make([][]byte, len(o.act.Args))
	for i, g := range o.act.Args {
		if g.Offset < 0 || g.Offset+g.Bytes > int64(len(o.bufs[i].mem)) {
			x.bad("%s: bytes %d to %d of instance %d, which has %d", o.describe(), g.Offset, g.Offset+g.Bytes, g.Inst, len(o.bufs[i].mem))
		}
		args[i] = o.bufs[i].mem[g.Offset : g.Offset+g.Bytes]
	}
	return args
}

// complete ends the operation at the head of a lane.
func (x *executor) complete(ln *lane, o *operation, st engine.Status, err error) {
	o.status, o.err = st, err
	ln.queue = ln.queue[1:]
	ln.done = o.act.Op.Seq
	if st != engine.OK {
		ln.failed[o.act.Op.Seq] = true
	} else if o.act.Kind == engine.Copy {
		x.finishCopy(o)
	} else {
		x.finishLaunch(o)
	}
	for _, b := range o.bufs {
		b.users--
	}
	if !o.started {
		o.begin = x.now
	}
	o.end = x.now
	x.board.Done(driver.Lane(o.act.Op.Lane), o.act.Op.Seq, st != engine.OK)
	ln.reports = append(ln.reports, o)
}

// finishCopy writes what a copy carries, if neither end was touched meanwhile.
func (x *executor) finishCopy(o *operation) {
	a := &o.act
	dst := o.bufs[1].mem[a.DstOff : a.DstOff+a.Bytes]
	if !bytes.Equal(o.bufs[0].mem[a.SrcOff:a.SrcOff+a.Bytes], o.reads[0]) {
		x.bad("%s: its source changed under it", o.describe())
	}
	x.mustBeTorn(o, dst)
	copy(dst, o.reads[0])
}

// finishLaunch writes what a launch computed, if its arguments were not
// touched meanwhile.
func (x *executor) finishLaunch(o *operation) {
	args := x.args(o)
	for i := range o.reads {
		switch {
		case o.writes[i] != nil:
			x.mustBeTorn(o, args[i])
			copy(args[i], o.writes[i])
		case !bytes.Equal(args[i], o.reads[i]):
			x.bad("%s: argument %d changed under it", o.describe(), i)
		}
	}
}

func (x *executor) mustBeTorn(o *operation, b []byte) {
	for _, c := range b {
		if c != patternTorn {
			x.bad("%s: what it writes changed under it", o.describe())
		}
	}
}

// report takes the first n completions of a lane for the engine to hear.
func (x *executor) report(l, n int) (evs []engine.Event) {
	ln := &x.lanes[l]
	for _, o := range ln.reports[:n] {
		evs = append(evs, x.outcome(o))
	}
	ln.reports = slices.Clone(ln.reports[n:])
	return evs
}

// outcome returns the event of an operation's end, and counts it.
func (x *executor) outcome(o *operation) engine.Event {
	if at := o.attempt; at != nil {
		if o.status != engine.OK && o.status != engine.DepFailed && !at.faulted {
			at.faulted = true
			at.job.faults[at.task]++
		}
		x.heard(at)
	}
	return engine.Event{
		Kind: engine.OpDone, Op: o.act.Op, Device: x.lanes[o.act.Op.Lane].info.Device, Status: o.status, Err: o.err, Start: o.begin, End: o.end,
	}
}

// heard counts a member of a task the engine knows the end of.
func (x *executor) heard(at *attempt) {
	if at.left--; at.left == 0 {
		x.inFlight(at.job, -1)
	}
}

// stop ends a launch whose result is not needed early, in some trials.
func (x *executor) stop(op engine.Op) {
	for _, o := range append(slices.Clone(x.detached), x.lanes[op.Lane].queue...) {
		if o.act.Op != op {
			continue
		}
		if o.gang != nil {
			x.bad("%s: a member of a gang is to stop", o.describe())
		}
		o.stopped = x.r.IntN(2) == 0
	}
}
