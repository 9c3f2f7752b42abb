package weft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/backend/cpu"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/internal/exec"
	"github.com/weft-run/weft/internal/verify"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Results that are checked. A task that verify.Pick picks runs on a device of its own in this
// process, "verify", with what it uses in host memory. There it is executed as a run of one task
// on one device and then on another, each with results of its own, and verify.Case says which
// result is right. That one is copied to where the task's readers find it.

// WrongResult is a result of a task that differs from what other devices computed from the same
// inputs. It is the error a device is drained for, and of a run in which no two devices agree.
type WrongResult = trace.WrongResult

// verifier checks results, for a runtime. A nil one checks none.
type verifier struct {
	r     *Runtime
	every int
	runs  atomic.Int64
	mu    sync.Mutex
	of    map[uint64]*checks // of runs in progress
	next  uint64
	tasks map[int64]graph.TaskID // by run of an execution, if there is a trace: the task of the graph
	// What was found since the runtime was opened.
	verified, unverified, wrong atomic.Int64
}

// checks are the verified tasks of one run.
type checks struct {
	key        uint64
	g          *graph.Graph // before tasks were rewritten
	o          RunOptions   // of the run, which its executions have too
	job        *exec.Job
	mu         sync.Mutex
	verified   int
	unverified int
	retries    int // of executions
	wrong      []WrongResult
	errs       []string             // of executions after the first
	devices    []trace.DeviceReport // of the executions
}

// verifyLanes is the number of tasks that are checked at a time. Each has its results in host memory once
// for every execution; 16 keep as many devices busy.
const verifyLanes = 16

// maxVerifyErrors is the number of errors of executions that a report has: enough to see what
// is wrong, however many tasks are checked.
const maxVerifyErrors = 8

// driver returns the driver of the device on which tasks are checked.
func (v *verifier) driver() driver.Driver {
	return cpu.New(cpu.Options{
		Cores: 1, Apart: verify.Dialect, Streams: verifyLanes,
		Funcs: map[string]driver.Func{verify.Kernel.Impls[0].Entry: v.check},
	})
}

// enough errs where there is nothing that results could be compared with: by the options, or because
// devices did not open.
func (v *verifier) enough() error {
	if v == nil || len(v.r.names)-len(listed(v.r.o.Spares)) > 1 {
		return nil
	}
	const why = "verify: a result is compared with another device's"
	if out := v.r.x.LeftOut; len(out) > 0 {
		err := fmt.Errorf("%s, and only %s opened; left out: %w", why, strings.Join(v.r.names, ", "), out[0])
		for _, other := range out[1:] {
			err = fmt.Errorf("%w; %w", err, other)
		}
		return err
	}
	there := "there is only " + strings.Join(v.r.names, ", ")
	if len(v.r.names) > 1 {
		there = "all but one of " + strings.Join(v.r.names, ", ") + " are spares"
	}
	return fmt.Errorf("%w: %s, and %s; use several, as cpu/2, or leave verify off", ErrOptions, why, there)
}

// begin picks tasks of a run. It returns the graph to run, and nil where none was picked.
func (v *verifier) begin(g *graph.Graph, o RunOptions) (*graph.Graph, *checks) {
	if v == nil {
		return g, nil
	}
	run := v.runs.Add(1)
	var picked []graph.TaskID
	for i := range g.NumTasks() {
		if id := graph.TaskID(i); verify.Pick(0, run, id, v.every) && verify.Checkable(g.Task(id)) {
			picked = append(picked, id)
		}
	}
	if len(picked) == 0 {
		return g, nil
	}
	o.Concurrent = 0 // which bounds the tasks of the run, and each execution has one
	c := &checks{g: g, o: o, devices: make([]trace.DeviceReport, len(v.r.names))}
	v.mu.Lock()
	v.next++
	c.key = v.next
	v.of[c.key] = c
	v.mu.Unlock()
	return verify.Rewrite(g, picked, func(id graph.TaskID) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, c.key), uint32(id))
	}), c
}

// end puts what was checked of a run into its report, and returns the run's error as that of the executions.
func (v *verifier) end(c *checks, rep *Report, err error) error {
	if v == nil {
		return err
	}
	if rep != nil {
		rep.Devices = rep.Devices[:len(v.r.names)]
	}
	if c == nil {
		return err
	}
	err = executionErrors(err)
	v.mu.Lock()
	delete(v.of, c.key)
	v.mu.Unlock()
	if rep == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	rep.Retries += c.retries
	rep.Verified, rep.Unverified, rep.Wrong, rep.VerifyErrors = c.verified, c.unverified, slices.Clone(c.wrong), slices.Clone(c.errs)
	for i := range c.devices {
		addDevice(&rep.Devices[i], &c.devices[i])
	}
	return err
}

// checkFailure is the error of a verified task: that of an execution, or that results differ.
type checkFailure struct{ err error }

func (u *checkFailure) Error() string { return u.err.Error() }
func (u *checkFailure) Unwrap() error { return u.err }

// executionErrors returns the error of a run in which tasks of the device "verify" failed, with those as the executions
// had them: on their own devices, by their own kernels, and without a second list of what did not finish.
func executionErrors(err error) error {
	run, ok := err.(*RunError)
	if !ok {
		return err
	}
	causes := []error{run.Err}
	all, several := run.Err.(interface{ Unwrap() []error })
	if several {
		causes = slices.Clone(all.Unwrap())
	}
	for i, cause := range causes {
		te, ok := cause.(*TaskError)
		why := (*checkFailure)(nil)
		if !ok || te.Device != string(verify.Dialect) || !errors.As(te.Err, &why) {
			continue
		}
		if execution := (*TaskError)(nil); errors.As(why, &execution) {
			causes[i] = execution
		} else {
			causes[i] = &TaskError{Task: te.Task, Err: why.err}
		}
	}
	if several {
		return &RunError{Err: errors.Join(causes...), Names: run.Names}
	}
	return &RunError{Err: causes[0], Names: run.Names}
}

// addDevice adds what a device did for another run.
func addDevice(to, from *trace.DeviceReport) {
	to.Tasks += from.Tasks
	to.Failed += from.Failed
	to.Busy += from.Busy
	to.Predicted += from.Predicted
	to.EnergyJ += from.EnergyJ
}

// ran notes which task a run executed.
func (v *verifier) ran(run int64, id graph.TaskID) {
	if v.r.trace == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.tasks) >= v.r.o.Trace { // the trace has forgotten about most of them
		clear(v.tasks)
	}
	v.tasks[run] = id
}

// traced returns events with executions as those of the tasks they are of, and without the device
// that checks.
func (v *verifier) traced(evs []trace.Event) []trace.Event {
	if v == nil {
		return evs
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	n := machine.DeviceID(len(v.r.names))
	evs = slices.DeleteFunc(evs, func(e trace.Event) bool { return e.Device >= n || e.From >= n })
	for i := range evs {
		if id, ok := v.tasks[int64(evs[i].Run)]; ok && evs[i].Task >= 0 {
			evs[i].Task = id
		}
	}
	return evs
}

// check is the kernel of a task that is checked.
func (v *verifier) check(c *Call, _, _ int) {
	v.mu.Lock()
	of := v.of[binary.LittleEndian.Uint64(c.Params)]
	v.mu.Unlock()
	if of == nil {
		c.Fail(ErrCancelled) // its run has ended without it
		return
	}
	k := &checked{v: v, call: c, of: of, id: graph.TaskID(binary.LittleEndian.Uint32(c.Params[8:]))}
	if err := k.settle(); err != nil {
		c.Fail(driver.OfLaunch(&checkFailure{err}, ErrChecksum, driver.ErrOutOfMemory, driver.ErrKernel, driver.ErrUnfit, ErrNoFunc))
	}
}

// checked is a task that is being checked.
type checked struct {
	v    *verifier
	call *Call
	of   *checks
	id   graph.TaskID
	// Of each execution: where it was, and its results by use, nil where the task only reads.
	devices []machine.DeviceID
	results [][][]byte
	secrets [][]byte // memory to clear: results that are secret, and workspace, which may hold some
}

// forget clears what may be secret.
func (k *checked) forget() {
	for _, b := range k.secrets {
		clear(b)
	}
}

// errNoneLeft says that none of the devices listed for an execution takes work any more.
var errNoneLeft = errors.New("none of the devices takes work")

// settle executes the task until verify.Case says what its result is, and puts that where its
// readers find it.
func (k *checked) settle() error {
	defer k.forget()
	inputs := k.sums(k.call.Args)
	var at verify.Case
	for {
		next := at.Next(k.world())
		if len(k.devices) > 1 && (len(next.Wrong) > 0 || next.Do == verify.GiveUp) && !slices.Equal(k.sums(k.call.Args), inputs) {
			// Another task may have written what this one reads: no device is to blame.
			return fmt.Errorf("verify: executions differ: %w", ErrChecksum)
		}
		switch next.Do {
		case verify.Execute:
			on, result, err := k.execute(next.Only)
			switch {
			case err == errNoneLeft:
			case err == nil:
				at.Ran(on, k.add(on, result))
			case len(k.devices) == 0 || errors.Is(err, ErrCancelled) || errors.Is(err, ErrClosed) || errors.Is(err, ErrChecksum):
				return err
			default:
				at.Failed(k.failed(next.Only, err)...)
			}
		case verify.Reference:
			result, err := k.reference()
			switch {
			case err == nil:
				at.Ran(machine.Host, k.add(machine.Host, result))
			case k.call.Stopped() || errors.Is(err, ErrChecksum):
				return err
			default:
				at.Failed(machine.Host)
				k.unable("the host", err)
			}
		case verify.Await:
			time.Sleep(patience)
			if k.call.Stopped() {
				return ErrCancelled
			}
		case verify.Pass:
			k.v.unverified.Add(1)
			k.of.note(func(c *checks) { c.unverified++ })
			k.deliver(next.Right)
			return nil
		case verify.Settle:
			for _, i := range next.Wrong {
				k.blame(i, next)
			}
			k.v.verified.Add(1)
			k.of.note(func(c *checks) { c.verified++ })
			k.deliver(next.Right)
			return nil
		default:
			w := k.difference(len(k.devices)-1, []int{0})
			w.Undecided = true
			return w
		}
	}
}

func (c *checks) note(fn func(*checks)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(c)
}

// failed notes that an execution after the first failed, and returns the devices that tried.
func (k *checked) failed(only []machine.DeviceID, err error) (on []machine.DeviceID) {
	var te *trace.TaskError
	if errors.As(err, &te) {
		for _, a := range te.Attempts {
			if d := machine.DeviceID(slices.Index(k.v.r.names, a.Device)); slices.Contains(only, d) && !slices.Contains(on, d) {
				on = append(on, d)
			}
		}
	}
	if len(on) == 0 { // none had it
		on = only
	}
	var names []string
	for _, d := range on {
		names = append(names, k.v.r.names[d])
	}
	k.unable(strings.Join(names, ", "), err)
	return on
}

// unable reports that a result could not be checked by a device.
func (k *checked) unable(device string, err error) {
	k.v.r.o.Log.Warn("a result was not checked: the second execution failed", "task", k.of.g.TaskName(k.id), "device", device, "err", err)
	k.of.note(func(c *checks) {
		if len(c.errs) < maxVerifyErrors {
			c.errs = append(c.errs, fmt.Sprintf("second execution on %s: %v", device, err))
		}
	})
}

// world returns the state that the case depends on. It reads the states of all devices at one moment: with two readings, a
// device that comes back between them would be neither able nor coming, and its result would not be waited for.
func (k *checked) world() verify.World {
	g, r := k.of.g, k.v.r
	states, _ := r.status()
	return verify.World{
		Able:   k.devicesIn(states, engine.Healthy),
		Coming: k.devicesIn(states, engine.Lost, engine.Suspect),
		Comparable: func(a, b machine.DeviceID) bool {
			return verify.Comparable(g, k.id, k.device(a), k.device(b))
		},
		Alike: func(a, b machine.DeviceID) bool { return verify.Alike(g.Task(k.id), k.device(a), k.device(b)) },
		// A kernel that may only run in a worker does not run here.
		Reference: !r.o.Isolate && !slices.ContainsFunc(g.Task(k.id).Steps, func(s graph.Step) bool { _, fn := r.goForm(s.Kernel); return fn == nil }),
	}
}

// devicesIn returns the devices in some states that can execute the task.
func (k *checked) devicesIn(st []engine.DeviceStatus, states ...engine.DeviceState) []machine.DeviceID {
	t := k.of.g.Task(k.id)
	var out []machine.DeviceID
	for i := range st {
		d := &k.v.r.machine.Devices[i]
		if slices.Contains(states, st[i].State) && engine.Allows(t, d) &&
			!slices.ContainsFunc(t.Steps, func(s graph.Step) bool { return !d.CanRun(s.Kernel) }) {
			out = append(out, machine.DeviceID(i))
		}
	}
	return out
}

// device describes a device; machine.Host is this process, which computes as CPU devices do.
func (k *checked) device(id machine.DeviceID) *machine.Device {
	if id == machine.Host {
		return &machine.Device{Backend: cpu.Whole().Backend, Arch: runtime.GOARCH}
	}
	return &k.v.r.machine.Devices[id]
}

func (k *checked) name(i int) string {
	if k.devices[i] == machine.Host {
		return "the host"
	}
	return k.v.r.names[k.devices[i]]
}

// room returns memory for the results of an execution, with what it updates, and the arguments.
func (k *checked) room() (results, args [][]byte) {
	uses := k.of.g.Task(k.id).Uses
	results, args = make([][]byte, len(uses)), slices.Clone(k.call.Args)
	for i, u := range uses {
		if !u.Access.Writes() {
			continue
		}
		results[i] = make([]byte, u.Bytes)
		if k.of.g.Data(u.Data).Secret {
			k.secrets = append(k.secrets, results[i])
		}
		if u.Access.Reads() {
			copy(results[i], args[i])
		}
		args[i] = results[i]
	}
	return results, args
}

// patience is the time between looks at an execution that takes long, or at devices that are
// coming back.
const patience = 50 * time.Millisecond

// execute runs the task once on one of some devices, or where its own constraint lets it if there
// are none, and returns where it was and what came out.
func (k *checked) execute(only []machine.DeviceID) (machine.DeviceID, [][]byte, error) {
	var names []string
	for _, d := range only {
		names = append(names, k.v.r.names[d])
	}
	g, err := verify.Alone(k.of.g, k.id, names)
	if err != nil {
		return 0, nil, err
	}
	for {
		results, args := k.room()
		bs := make([]Binding, len(args))
		for i := range args {
			bs[i] = Bind(verify.Port(i), args[i])
		}
		p, err := k.v.r.resolve(g, bs)
		if err != nil {
			return 0, nil, err
		}
		p.of, p.o = k, k.of.o
		rep, err := k.wait(p.Submit(nil), only)
		if rep != nil {
			k.v.ran(rep.Run, k.id)
			k.of.note(func(c *checks) {
				c.retries += rep.Retries
				for i := range c.devices {
					addDevice(&c.devices[i], &rep.Devices[i])
				}
			})
		}
		if err != nil {
			return 0, nil, err
		}
		ran := machine.DeviceID(-1)
		for i := range rep.Devices {
			if rep.Devices[i].Tasks > 0 && ran >= 0 {
				ran = -1 // a device was lost with some results: they may be of two devices
				break
			} else if rep.Devices[i].Tasks > 0 {
				ran = machine.DeviceID(i)
			}
		}
		if ran >= 0 {
			return ran, results, nil
		}
	}
}

// wait waits for an execution. It ends it if the task's run has ended, or if the task is not in
// flight and none of the devices listed for it takes work: a device that is drained or suspect
// finishes what it has. The error is errNoneLeft then, and also where the engine was first to
// find that the devices listed are out of service.
func (k *checked) wait(h *Handle, only []machine.DeviceID) (*Report, error) {
	look := time.NewTicker(patience)
	defer look.Stop()
	for {
		select {
		case <-h.Done():
			rep, err := h.Wait()
			if errors.Is(err, ErrNoDevice) && k.noneOf(only) {
				err = errNoneLeft
			}
			return rep, err
		case <-look.C:
		}
		none := k.noneOf(only)
		if none {
			now, going := h.Progress()
			none = going && now.Running == 0 && now.Done == 0
		}
		if !none && !k.call.Stopped() {
			continue
		}
		h.Cancel()
		rep, err := h.Wait()
		if none && errors.Is(err, ErrCancelled) {
			err = errNoneLeft
		}
		return rep, err
	}
}

// noneOf reports whether devices were listed and none of them takes work.
func (k *checked) noneOf(only []machine.DeviceID) bool {
	st, _ := k.v.r.status()
	able := k.devicesIn(st, engine.Healthy)
	return len(only) > 0 && !slices.ContainsFunc(only, func(d machine.DeviceID) bool { return slices.Contains(able, d) })
}

// reference executes the task by its Go functions, in this process.
func (k *checked) reference() (results [][]byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the reference panicked: %v\n%s", p, debug.Stack())
		}
	}()
	t := k.of.g.Task(k.id)
	results, args := k.room()
	if t.Workspace > 0 {
		space := make([]byte, t.Workspace)
		k.secrets = append(k.secrets, space)
		args = append(args, space)
	}
	before := k.sums(args)
	for i := range t.Steps {
		s := &t.Steps[i]
		mine, err := driver.StepArgs(s, args, nil)
		if err != nil {
			return nil, err
		}
		impl, fn := k.v.r.goForm(s.Kernel)
		items := impl.Shape(s.Launch).Grid
		c := driver.NewCall(k.call.Stopped, k.call.Context)
		c.Args, c.Params, c.Launch = mine, s.Params, s.Launch
		fn(c, 0, int(items[0])*int(items[1])*int(items[2]))
		if err := c.Err(); err != nil {
			return nil, err
		}
	}
	if !slices.Equal(k.sums(args), before) {
		return nil, fmt.Errorf("reference: %w", ErrChecksum)
	}
	return results, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sums returns checksums of what the task only reads.
func (k *checked) sums(args [][]byte) (sums []uint32) {
	for i, u := range k.of.g.Task(k.id).Uses {
		if u.Access == graph.Read {
			sums = append(sums, crc32.Checksum(args[i], castagnoli))
		}
	}
	return sums
}

// goForm returns the Go function of a kernel, nil for none.
func (r *Runtime) goForm(kernel *graph.Kernel) (*graph.Impl, Func) {
	for i := range kernel.Impls {
		impl := &kernel.Impls[i]
		if impl.Dialect != graph.Go || impl.Entry == "" {
			continue
		}
		if fn := r.registered[impl.Entry]; fn != nil {
			return impl, fn
		}
		if fn := r.applied.find(impl.Entry); fn != nil {
			return impl, fn
		}
	}
	return nil, nil
}

// add notes an execution and says with which of those before it agrees.
func (k *checked) add(on machine.DeviceID, result [][]byte) []bool {
	agrees := make([]bool, len(k.devices))
	k.devices, k.results = append(k.devices, on), append(k.results, result)
	for i := range agrees {
		agrees[i] = verify.Comparable(k.of.g, k.id, k.device(k.devices[i]), k.device(on)) && k.difference(len(agrees), []int{i}) == nil
	}
	return agrees
}

// difference describes the first difference between the results of an execution and of the first
// of others; nil if there is none.
func (k *checked) difference(i int, others []int) *WrongResult {
	g := k.of.g
	alike := verify.Alike(g.Task(k.id), k.device(k.devices[i]), k.device(k.devices[others[0]]))
	for n, u := range g.Task(k.id).Uses {
		if !u.Access.Writes() {
			continue
		}
		d := verify.Compare(g.Data(u.Data), alike, k.results[i][n], k.results[others[0]][n])
		if d == nil {
			continue
		}
		w := &WrongResult{Task: g.TaskName(k.id), Device: k.name(i), Data: g.Data(u.Data).Name, Byte: u.Offset + d.Byte, Got: d.A, Want: d.B}
		if g.Data(u.Data).Secret {
			w.Got, w.Want = "a secret", "another"
		}
		for _, o := range others {
			w.Against = append(w.Against, k.name(o))
		}
		return w
	}
	return nil
}

// deliver puts the results of an execution where the task's readers find them.
func (k *checked) deliver(i int) {
	for n, b := range k.results[i] {
		if b != nil {
			copy(k.call.Args[n], b)
		}
	}
}

// blame reports that an execution had a wrong result, and has its device drained.
func (k *checked) blame(i int, next verify.Next) {
	others := []int{next.Right}
	for n := range k.devices {
		if n != next.Right && !slices.Contains(next.Wrong, n) {
			others = append(others, n)
		}
	}
	w := k.difference(i, others)
	if w == nil { // it was not compared with this one
		return
	}
	r := k.v.r
	r.o.Log.Warn("wrong result: the device is drained", "device", w.Device, "task", w.Task, "err", w)
	k.v.wrong.Add(1)
	k.of.note(func(c *checks) { c.wrong = append(c.wrong, *w) })
	if k.devices[i] == machine.Host {
		return
	}
	r.x.Accuse(k.devices[i], w, func(err error) {
		if err != nil {
			r.o.Log.Warn("a device with wrong results is not drained", "device", w.Device, "err", err)
		}
	})
}
