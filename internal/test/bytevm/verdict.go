package bytevm

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

// prepare draws all a trial consists of.
func (x *executor) prepare(seed uint64) {
	r := x.r
	if x.traits.has(Residents) {
		for range 1 + r.IntN(3) {
			d := &resident{kind: graph.Durability(r.IntN(2)), mem: make([]byte, 1+r.IntN(maxBytes))}
			if x.traits.has(VolatileHeld) && r.IntN(2) == 0 {
				d.kind = graph.Volatile
			}
			randomBytes(r.IntN, d.mem)
			d.want = slices.Clone(d.mem)
			x.residents = append(x.residents, d)
		}
	}
	programs := x.drawPrograms()
	var need, total int64
	for _, p := range programs {
		need = max(need, p.need)
	}
	for range 1 + r.IntN(5) {
		j := x.drawJob(programs[r.IntN(len(programs))])
		total += j.program.total
	}
	slices.SortStableFunc(x.queue, func(a, b *job) int { return int(min(max(a.submit-b.submit, -1), 1)) })
	var spares []machine.DeviceID
	x.machine, spares = drawMachine(r, x.traits, need, total)
	if x.given != nil {
		rates(x.machine)
	}
	x.drawOptions(seed, spares)
	x.engine = engine.New(x.options)
	infos := x.engine.Lanes()
	x.board = driver.NewBoard(len(infos))
	for l, info := range infos {
		ln := lane{info: info, failed: make(map[uint32]bool)}
		if x.options.Begun != nil {
			ln.issued = x.options.Begun[l]
			ln.done = ln.issued
			for k := range uint64(4) { // a number is taken for the nearest count
				x.board.Done(driver.Lane(l), uint32((k+1)*uint64(ln.done)/4), false)
			}
		}
		x.lanes = append(x.lanes, ln)
	}
	seen := make(map[string]int)
	for i := range x.machine.Devices {
		d := &x.machine.Devices[i]
		spare := slices.Contains(spares, machine.DeviceID(i))
		x.devices = append(x.devices, device{safe: seen[d.Backend] < safeEach && !spare, spare: spare, capacity: d.MemBytes})
		seen[d.Backend]++
	}
	for _, d := range x.residents {
		d.ref = x.engine.NewData("resident", int64(len(d.mem)), d.kind)
	}
	for _, j := range x.all {
		for d, k := range j.program.bound {
			if k >= 0 {
				j.options.Bind = append(j.options.Bind, engine.Binding{Data: graph.DataID(d), Ref: x.residents[k].ref})
			}
		}
	}
	x.drawScript()
}

// drawPrograms draws what runs are of, unless that is given.
func (x *executor) drawPrograms() (out []*program) {
	if x.given != nil {
		return []*program{x.given}
	}
	for range 1 + x.r.IntN(3) {
		out = append(out, drawProgram(x.r, x.traits, x.residents))
	}
	return out
}

func randomBytes(intn func(int) int, b []byte) {
	for i := range b {
		b[i] = byte(intn(256))
	}
}

func (x *executor) drawJob(p *program) *job {
	r := x.r
	j := &job{
		program: p, submit: time.Duration(r.IntN(3_000_000)),
		faults: make(map[int]int), losses: make(map[int]int), touched: make(map[machine.DeviceID]bool),
	}
	if x.traits.has(Weights) {
		j.options.Priority, j.options.Weight = r.IntN(5)-2, 0.1+10*r.Float64()
	}
	if x.traits.has(Limits) && r.IntN(2) == 0 {
		j.options.Concurrent = 1 + r.IntN(3)
	}
	if x.traits.has(FewRetries) && r.IntN(2) == 0 {
		j.options.Retries = 1 + r.IntN(4)
	}
	if x.traits.has(ManyRetries) && r.IntN(2) == 0 {
		j.options.Retries = 250 + r.IntN(60)
	}
	if x.traits.has(Hangs) && r.IntN(3) == 0 {
		j.options.Timeout = time.Duration(10+r.IntN(50)) * time.Millisecond
	}
	for i, d := range p.data {
		b := make([]byte, d.Bytes)
		paint(b, patternNew)
		switch {
		case d.Input && p.work != nil:
			copy(b, p.work.Inputs[i])
		case d.Input:
			randomBytes(r.IntN, b)
		}
		j.mem, j.first = append(j.mem, b), append(j.first, slices.Clone(b))
	}
	x.all, x.queue = append(x.all, j), append(x.queue, j)
	return j
}

// need is the memory the largest task takes.
func (x *executor) need() (n int64) {
	for _, j := range x.all {
		n = max(n, j.program.need)
	}
	return n
}

func (x *executor) drawOptions(seed uint64, spares []machine.DeviceID) {
	r := x.r
	x.options = engine.Options{
		Machine: x.machine, Cost: machine.NewRoofline(x.machine), Seed: seed, Spares: spares,
		Retries: 100, TaskTimeout: 20 * time.Millisecond, Depth: 1 << r.IntN(7), ReplayDepth: 1 + r.IntN(20),
		Backoff: time.Duration(1 + r.IntN(1_000_000)), Health: engine.HealthRules{MaxFailures: maxSafeFailures + r.IntN(50), MaxLosses: 100},
		NoFaultTolerance: x.traits.has(NoFaultTolerance),
	}
	x.drawProcesses()
	if r.IntN(2) == 0 {
		names := sched.Names()
		x.options.Policy = sched.Policies()[names[r.IntN(len(names))]]
	}
	if x.traits.has(Limits) && r.IntN(2) == 0 {
		x.options.Concurrent = 1 + r.IntN(5)
	}
	if x.traits.has(FewRetries) && r.IntN(2) == 0 {
		x.options.Retries = 1 + r.IntN(4)
	}
	if x.traits.has(Wrap) || r.IntN(2) == 0 {
		for range engine.LanesOf(x.machine) {
			n := uint32(r.IntN(100))
			if x.traits.has(Wrap) {
				n = -n
			}
			x.options.Begun = append(x.options.Begun, n)
		}
	}
}

// run does the trial: all runs end, resident data is fetched and given back, and
// nothing is left.
func (x *executor) run() {
	x.until("runs have not ended", func() bool {
		return len(x.queue) == 0 && !slices.ContainsFunc(x.all, func(j *job) bool { return !j.done })
	})
	for _, d := range x.residents {
		x.fetch(d)
	}
	x.until("resident data was not fetched", func() bool {
		return !slices.ContainsFunc(x.residents, func(d *resident) bool { return d.fetches > 0 })
	})
	for _, d := range x.residents {
		x.engine.FreeData(d.ref)
	}
	x.until("something is left to happen", func() bool {
		_, more := x.next()
		return !more
	})
	x.leftovers()
	for _, j := range x.all {
		for d := range j.mem {
			if !bytes.Equal(j.mem[d], j.last[d]) {
				x.bad("run %d: memory of d%d was written to after the run ended", j.id, d)
			}
		}
	}
}

// withinLimits checks that no more is in flight than was allowed.
func (x *executor) withinLimits() {
	if n := x.options.Concurrent; n > 0 && x.flight > n {
		x.bad("%d tasks are in flight, the limit is %d", x.flight, n)
	}
	for _, j := range x.all {
		if n := j.options.Concurrent; n > 0 && j.flight > n {
			x.bad("run %d has %d tasks in flight, the limit is %d", j.id, j.flight, n)
		}
	}
}

// ended checks what a run came to.
func (x *executor) ended(a *engine.Action) {
	j := x.jobs[a.Run]
	if j == nil || j.done {
		x.bad("run %d has ended and was unknown or had ended before", a.Run)
	}
	j.done, j.err = true, a.Err
	x.sum.Runs++
	x.sum.Retries += a.Report.Retries
	x.sum.Replays += a.Report.Replays
	x.sum.Evictions += a.Report.Evictions
	x.sum.Commits += a.Report.Commits
	for _, b := range x.buffers {
		if b != nil && b.home && b.run == a.Run && b.users > 0 {
			x.bad("run %d has ended and %d operations use its memory", a.Run, b.users)
		}
	}
	if a.Err != nil {
		x.explain(j)
	} else {
		x.compare(j, a.Report)
	}
	for d := range j.mem {
		// What was only given is as it was, however the run ended.
		if data := j.program.data[d]; data.Input && !data.Output && !bytes.Equal(j.mem[d], j.first[d]) {
			x.bad("run %d: input d%d was changed", j.id, d)
		}
		if x.traits.has(Reuse) {
			paint(j.mem[d], patternReused)
		}
		j.last = append(j.last, slices.Clone(j.mem[d]))
	}
}

// compare checks the outputs of a run that ended well.
func (x *executor) compare(j *job, rep *engine.Report) {
	p := j.program
	if p.poison != "" {
		x.bad("run %d ended well although %s never succeeds", j.id, p.poison)
	}
	if rep.Executed-rep.Replays != rep.Tasks || rep.Tasks != p.graph.NumTasks() {
		x.bad("run %d: %d executions, %d of them repeats, of %d tasks", j.id, rep.Executed, rep.Replays, rep.Tasks)
	}
	want := make([][]byte, len(p.data))
	tainted := false
	for d := range p.data {
		want[d] = slices.Clone(j.first[d])
		if k := p.bound[d]; k >= 0 {
			want[d] = slices.Clone(x.residents[k].want)
			tainted = tainted || x.residents[k].tainted
		}
	}
	p.reference(want)
	for d := range p.data {
		switch k := p.bound[d]; {
		case tainted:
			// It began from what a failed run left in volatile data, which is
			// undefined, so that everything it made is.
			if k >= 0 && p.writes(d) {
				x.residents[k].tainted = true
			}
		case k >= 0:
			x.residents[k].want = want[d]
		case p.data[d].Output && !bytes.Equal(j.mem[d], want[d]):
			x.bad("run %d: output d%d is wrong:\n got %x\nwant %x", j.id, d, j.mem[d], want[d])
		}
	}
}

// writes reports whether a program changes a handle.
func (p *program) writes(d int) bool {
	for i := range p.tasks {
		for _, u := range p.tasks[i].Uses {
			if int(u.Data) == d && u.Access != graph.Read {
				return true
			}
		}
	}
	return false
}

// explain checks that a run which failed had a reason to.
func (x *executor) explain(j *job) {
	x.sum.Failed++
	p := j.program
	for d, k := range p.bound {
		if k >= 0 && x.residents[k].kind == graph.Volatile && p.writes(d) {
			x.residents[k].tainted = true
		}
	}
	var e *engine.RunError
	if !errors.As(j.err, &e) {
		x.bad("run %d: the error does not say what is unfinished: %v", j.id, j.err)
	}
	if errors.Is(j.err, engine.ErrCancelled) {
		x.sum.Cancelled++
		if j.cancels {
			return
		}
	}
	if !x.excused(j) {
		x.bad("run %d failed for no reason the trial has: %v", j.id, j.err)
	}
}

// excused reports whether what the trial met explains the error of a run that
// was not cancelled.
func (x *executor) excused(j *job) bool {
	var te *engine.TaskError
	if errors.As(j.err, &te) {
		if te.Task == j.program.poison {
			return true
		}
		for i := range j.program.graph.NumTasks() { // several may have the name
			// Of the devices lost under a task the first two are no fault of its.
			if j.program.graph.TaskName(graph.TaskID(i)) == te.Task && j.faults[i]+max(0, j.losses[i]-2) > x.retries(j, i) {
				return true
			}
		}
	}
	switch {
	case errors.Is(j.err, engine.ErrDataLost) && x.tainted(j):
		// What a run updated in place that failed or was cancelled need not be there.
		return true
	case errors.Is(j.err, engine.ErrDataLost) && j.program.volatile:
		// Volatile data is lost with its device and with an update that failed or was
		// withdrawn.
		return x.traits.has(Losses | Failures | Hangs | Exhaustion | Cuts | Condition | Poison | Detaches)
	case x.traits.has(NoFaultTolerance) && (errors.Is(j.err, engine.ErrDeviceLost) || errors.Is(j.err, engine.ErrDataLost)):
		return x.sum.Losses+x.sum.Drops > 0
	case errors.Is(j.err, engine.ErrOutOfMemory):
		// Values in host memory have nowhere else to go.
		return x.traits.has(HostScarce)
	case errors.Is(j.err, errCopy) || errors.Is(j.err, errCut) || errors.Is(j.err, errExhausted):
		return x.cuts > maxCuts
	}
	return false
}

// maxCuts is how often the copies for a task may fail in a row before its run does.
const maxCuts = 8

func (x *executor) tainted(j *job) bool {
	return slices.ContainsFunc(j.program.bound, func(k int) bool { return k >= 0 && x.residents[k].tainted })
}

// retries returns how often a task may fail.
func (x *executor) retries(j *job, task int) int {
	if n := j.program.graph.Task(graph.TaskID(task)).Retries; n != 0 {
		return n
	}
	if j.options.Retries != 0 {
		return j.options.Retries
	}
	return x.options.Retries
}

// fetch asks for resident data.
func (x *executor) fetch(d *resident) {
	d.fetches++
	x.engine.Fetch(d.ref)
}

// fetched checks resident data that was asked for, and that it is not written
// while the caller reads.
func (x *executor) fetched(a *engine.Action) {
	d := x.resident(a.Ref)
	if d.err = a.Err; a.Err != nil {
		d.fetches--
		// Values kept for recovery may fill host memory, and have nowhere else to go.
		full := x.traits.has(HostScarce) && errors.Is(a.Err, engine.ErrOutOfMemory)
		if !full && !x.mayLose(d) {
			x.bad("resident data %d cannot be fetched: %v", a.Ref, a.Err)
		}
		return
	}
	if !d.tainted && !bytes.Equal(d.mem, d.want) {
		x.bad("resident data %d is wrong:\n got %x\nwant %x", a.Ref, d.mem, d.want)
	}
	read := slices.Clone(d.mem)
	x.after(time.Duration(x.r.IntN(2)*x.r.IntN(500_000)), func() {
		if !bytes.Equal(d.mem, read) {
			x.bad("resident data %d changed while the caller read it", a.Ref)
		}
		d.fetches--
		x.engine.EndFetch(a.Ref)
	})
}

// mayLose reports whether resident data can be lost for good.
func (x *executor) mayLose(d *resident) bool {
	return d.kind == graph.Volatile || x.traits.has(NoFaultTolerance) && x.sum.Losses+x.sum.Drops > 0
}

// leftovers checks that nothing is left once all has ended.
func (x *executor) leftovers() {
	for i, b := range x.buffers {
		// Buffers in host memory may be kept for the next of their size. The
		// engine does not count those as used.
		if b != nil && (b.home || b.at >= 0) {
			x.bad("instance %d of %d bytes in memory %d is left", i, len(b.mem), b.at)
		}
	}
	for i := range x.devices {
		if n := x.engine.Status(machine.DeviceID(i)).MemUsed; n != 0 {
			x.bad("%d bytes of device %d are in use by no buffer", n, i)
		}
	}
	if left := x.engine.Left(); left != "" {
		x.bad("the engine keeps %s", left)
	}
}

// drawProcesses says which devices run in processes of their own. A launch leaves its lane
// only where nothing bounds it, and then hanging launches must be ended by their process.
func (x *executor) drawProcesses() {
	o := &x.options
	if !x.traits.has(Processes | Detaches) {
		return
	}
	for i := range x.machine.Devices {
		own := !x.machine.Devices[i].HostMemory
		o.Processes = append(o.Processes, engine.Process{Own: own, Keeps: own && x.r.IntN(2) == 0})
	}
	o.Limits = engine.Limits{Least: 20 * time.Millisecond, Times: 2, Unknown: 20 * time.Millisecond}
	if x.traits.has(Detaches) {
		o.TaskTimeout, o.DetachAfter = 0, time.Duration(1+x.r.IntN(500_000))
	}
}
