package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/arena"
	"github.com/weft-run/weft/internal/numa"
)

// worker is a child that runs one device. One goroutine serves the rings and is
// the only one to call the device; another reads the socket and hands over what
// it is asked.
type worker struct {
	makers map[string]Maker
	conn   *conn
	log    *slog.Logger
	dev    driver.Device
	mem    []byte // the arena
	board  *driver.Board
	warm   bool            // page-lock memory before it is used
	shown  <-chan struct{} // see showEnd

	commands, completions *ring
	asks                  chan func()
	hush                  bool            // the device is closed
	spans                 []arena.Segment // of the arena's segments, by offset
	pinned                []bool          // whether each is page-locked
	warmed                int             // spans before this one are
	given                 time.Time       // when commands came last
	kernels               map[uint32]*graph.Kernel
	part                  []byte                 // of a definition, so far
	tasks                 map[string]*graph.Task // by their steps as sent
	taskBytes             int                    // of these steps
	batch                 []driver.Op
	waits                 []driver.Wait
	args                  []driver.Arg
	got                   []driver.Completion
	outbox                []driver.Completion // not in the ring yet
	loss                  error               // what an operation ended with when the device was lost
	told                  bool                // the outbox has had the word of it
	rec                   writer
	joins                 map[uint64]context.CancelFunc // communicators joined, or being joined
}

const (
	maxBatch = 256
	// maxTasks and maxTaskBytes bound the memory for tasks of earlier launches: a task made of
	// many has kilobytes of steps.
	maxTasks     = 1 << 16
	maxTaskBytes = 64 << 20
	// pulse is the interval at which an idle worker shows that it lives.
	pulse = 50 * time.Millisecond
	// spanBytes is the part of the arena that is page-locked at a time: a few milliseconds' worth,
	// so that a worker that has just taken another's place serves before it has locked everything.
	spanBytes = 32 << 20
)

// work is a worker's life.
func work(makers map[string]Maker) error {
	c, err := connOn(controlFD)
	if err != nil {
		return err
	}
	_, commands, completions, err := mapRings(ringFD, false)
	if err != nil {
		return err
	}
	w := &worker{
		shown:  completions.showEnd(),
		makers: makers, conn: c, log: slog.New(&sender{c: c}), commands: commands, completions: completions,
		asks: make(chan func(), 16), kernels: make(map[uint32]*graph.Kernel), tasks: make(map[string]*graph.Task),
		got: make([]driver.Completion, 256),
	}
	go w.listen()
	return w.serve()
}

// listen reads the socket. The worker ends with it, because the parent has ended.
func (w *worker) listen() {
	buf := make([]byte, maxMessage)
	for {
		m, fd, err := w.conn.receive(buf)
		if err != nil {
			os.Exit(0)
		}
		if m.Kind == askTele {
			w.answer(m, w.telemetry(m))
			continue
		}
		switch m.Kind {
		case askName, askJoin, tellLeave:
			w.asks <- func() { w.rank(m) }
		default:
			w.asks <- func() { w.answer(m, w.ask(m, fd)) }
		}
		w.commands.wake()
	}
}

func (w *worker) answer(m *message, err error) {
	out := &message{Kind: answer, ID: m.ID, Found: m.Found, Tele: m.Tele}
	switch m.Kind {
	case askName:
		out.Name = m.Name
	case askTuning:
		out.Tuned, out.From = m.Tuned, m.From
	}
	out.fail(err)
	if err := w.conn.send(out, -1); err != nil {
		os.Exit(0) // likewise
	}
}

func (w *worker) telemetry(m *message) error {
	t, ok := w.dev.(driver.Telemeter)
	if !ok {
		return errors.New("the device tells nothing of its condition")
	}
	s, err := t.Telemetry()
	m.Tele = &s
	return err
}

// ask does what the parent asked for. Answers are put into the message.
func (w *worker) ask(m *message, fd int) (err error) {
	if fd >= 0 {
		defer func() { _ = unix.Close(fd) }()
	}
	switch m.Kind {
	case askOpen:
		stayNear(m.NUMA)
		if w.mem, err = arena.Map(arenaFD, m.Arena); err != nil {
			return fmt.Errorf("map the arena: %w", err)
		}
		_ = unix.Close(arenaFD) // a kernel that writes to any descriptor is not to reach it
		devs, err := openInner(w.makers, m, w.log)
		if err != nil {
			return err
		}
		w.dev = devs[0]
		m.Found = []found{describe(w.dev)}
		return nil
	case askExact:
		if e, ok := w.dev.(driver.Exacter); ok {
			e.SetExact()
		}
		return nil
	case askAttach:
		// The kernel registers a process when each core has switched threads, up to 30 ms after it
		// was asked, and a process that is killed before cannot end until then.
		<-w.shown
		if w.board, err = arena.JoinBoard(w.mem, m.Board, fd, m.Member); err != nil {
			return err
		}
		for _, l := range m.Lanes {
			if l < 0 || int(l) >= w.board.Lanes() {
				return fmt.Errorf("%w: lane %d of %d", errGarbage, l, w.board.Lanes())
			}
		}
		// All that is shared is mapped, and no kernel has run.
		if err := m.shed([]driver.Device{w.dev}, w.log); err != nil {
			return err
		}
		w.warm = m.Warm
		w.dev.Attach(w.board, m.Lanes, w.commands.wake)
		return nil
	case askTuning, askTune:
		return w.tune(m)
	case tellSlab:
		s, ok := w.dev.(driver.SlabMaker)
		if !ok || fd < 0 {
			return fmt.Errorf("%w: a slab", errGarbage)
		}
		return s.MapSlab(m.Slab, fd, m.Bytes)
	}
	return fmt.Errorf("%w: a worker does not know %q", errGarbage, m.Kind)
}

// serve moves commands to the device and completions back until it is told to
// close.
func (w *worker) serve() error {
	quiet := 0
	for {
		w.commands.h.beat.Add(1)
		moved := false
		select {
		case fn := <-w.asks:
			w.commands.h.busy.Store(1)
			fn()
			w.commands.h.busy.Store(0)
			moved = true
		default:
		}
		n, err := w.take()
		if err != nil {
			return fmt.Errorf("proc: worker: %w", err)
		}
		sent, err := w.report()
		if err != nil {
			return fmt.Errorf("proc: worker: %w", err)
		}
		if w.hush && len(w.outbox) == 0 && !sent {
			return nil
		}
		if n > 0 && w.warm {
			w.given = time.Now()
		}
		if moved || n > 0 || sent {
			quiet = 0
			continue
		}
		if quiet < workSpins {
			if quiet++; quiet%workYield == 0 {
				runtime.Gosched()
			}
			continue
		}
		if !w.warmUp() {
			w.sleep()
		}
	}
}

// sleep waits for commands, requests or completions.
func (w *worker) sleep() {
	if len(w.outbox) > 0 {
		time.Sleep(time.Millisecond) // the parent is behind: it does not ring
		return
	}
	w.commands.sleep(pulse, func() bool {
		if !w.commands.empty() || len(w.asks) > 0 {
			return true
		}
		// What completed since report is not to wait for the pulse.
		if w.board != nil && !w.hush {
			w.collect()
		}
		return len(w.outbox) > 0
	})
}

// collect moves completions into the outbox and reports whether there may be more.
// The last word of a device that is lost is that it is, whether it says so itself
// or not.
func (w *worker) collect() (more bool) {
	n := w.dev.Completions(w.got)
	for i := range w.got[:n] {
		if c := &w.got[i]; c.Err != nil && errors.Is(c.Err, driver.ErrDeviceLost) {
			w.loss, w.told = c.Err, w.told || c.Lane == driver.NoLane
		}
	}
	w.outbox = append(w.outbox, w.got[:n]...)
	if n == 0 && w.loss != nil && !w.told {
		w.told = true
		w.outbox = append(w.outbox, driver.Completion{Lane: driver.NoLane, Err: w.loss})
	}
	return n == len(w.got)
}

// take reads commands and submits them; it returns how many.
func (w *worker) take() (int, error) {
	n := 0
	w.batch, w.waits, w.args = w.batch[:0], w.waits[:0], w.args[:0]
	for n < maxBatch && !w.hush {
		rec, err := w.commands.get()
		if err != nil {
			return n, err
		}
		if rec == nil {
			break
		}
		if w.board == nil {
			return n, fmt.Errorf("%w: a command before lanes", errGarbage)
		}
		if err := w.command(rec); err != nil {
			return n, err
		}
		w.commands.next(uint32(len(rec)))
		n++
	}
	w.submit()
	return n, nil
}

// submit gives the batch to the device.
func (w *worker) submit() {
	if len(w.batch) == 0 {
		return
	}
	if err := w.dev.Submit(w.batch); err != nil {
		// It takes nothing any more: the parent ends what this worker was given,
		// and hears what completed first, which may say why.
		for w.collect() {
		}
		w.outbox = append(w.outbox, driver.Completion{Lane: driver.NoLane, Err: err})
	}
	w.batch, w.waits, w.args = w.batch[:0], w.waits[:0], w.args[:0]
}

// command turns a record into an operation of the batch, or does what it says.
func (w *worker) command(rec []byte) error {
	r := reader{b: rec}
	v := verb(r.u8())
	op := driver.Op{Src: driver.NoBuffer, Dst: driver.NoBuffer}
	switch v {
	case doAlloc:
		op.Kind, op.Buf, op.Bytes = driver.Alloc, driver.Buffer(r.u32()), r.i64()
		op.Slab, op.SlabOff = int32(r.u32()), r.i64()
	case doFree:
		op.Kind, op.Buf, op.Secret = driver.Free, driver.Buffer(r.u32()), r.flag()
	case doCopy:
		op.Kind = driver.Copy
		w.place(&r, &op)
		op.Bytes = r.i64()
		op.Src, op.Dst = driver.Buffer(r.u32()), driver.Buffer(r.u32())
		op.SrcOff, op.DstOff = r.i64(), r.i64()
		src, srcLen, dst, dstLen := r.i64(), r.i64(), r.i64(), r.i64()
		op.Secret = r.flag()
		var err error
		if op.HostSrc, err = w.host(op.Src, src, srcLen); err != nil {
			return err
		}
		if op.HostDst, err = w.host(op.Dst, dst, dstLen); err != nil {
			return err
		}
	case doLaunch:
		op.Kind = driver.Launch
		w.place(&r, &op)
		at := len(w.args)
		for range r.count(20) {
			w.args = append(w.args, driver.Arg{Buf: driver.Buffer(r.u32()), Off: r.i64(), Bytes: r.i64()})
		}
		op.Args = w.args[at:len(w.args):len(w.args)]
		op.Secret, op.Compare = r.flag(), r.flag()
		if op.Task = w.task(r.bytes()); op.Task == nil || op.Task.Gang <= 1 && len(op.Task.Uses) > len(op.Args) {
			return fmt.Errorf("%w: steps of a launch", errGarbage)
		}
	case doKernel:
		return w.define(&r)
	case doSegment:
		return w.addSegment(&r)
	case doUnslab:
		return w.unmapSlab(&r)
	case doStop:
		op := driver.Wait{Lane: driver.Lane(r.u32()), Seq: r.u32()}
		s, ok := w.dev.(driver.Stopper)
		if !r.end() || !ok {
			return fmt.Errorf("%w: stopping an operation", errGarbage)
		}
		w.submit()
		s.Stop(op)
		return nil
	case doClose:
		w.submit()
		w.commands.h.busy.Store(1)
		if err := w.dev.Close(); err != nil {
			w.log.Warn("closing the device", "err", err)
		}
		w.hush = true
		return nil
	default:
		return fmt.Errorf("%w: record %d", errGarbage, v)
	}
	if !r.end() {
		return fmt.Errorf("%w: record %d of %d bytes", errGarbage, v, len(rec))
	}
	if op.Kind >= driver.Copy && (op.Lane < 0 || int(op.Lane) >= w.board.Lanes()) {
		return fmt.Errorf("%w: lane %d", errGarbage, op.Lane)
	}
	w.batch = append(w.batch, op)
	return nil
}

// place reads an operation's lane, number and waits.
func (w *worker) place(r *reader, op *driver.Op) {
	op.Lane, op.Seq = driver.Lane(r.u32()), r.u32()
	at := len(w.waits)
	for range r.count(8) {
		x := driver.Wait{Lane: driver.Lane(r.u32()), Seq: r.u32()}
		if x.Lane < 0 || int(x.Lane) >= w.board.Lanes() {
			r.bad = true
			return
		}
		w.waits = append(w.waits, x)
	}
	op.Waits = w.waits[at:len(w.waits):len(w.waits)]
}

// host returns memory of the arena, page-locked the first time it is used.
func (w *worker) host(b driver.Buffer, off, n int64) ([]byte, error) {
	if b != driver.NoBuffer || n == 0 {
		return nil, nil
	}
	if off < 0 || n < 0 || off > int64(len(w.mem)) || n > int64(len(w.mem))-off {
		return nil, fmt.Errorf("%w: host memory at %d", errGarbage, off)
	}
	for k := arena.SegmentOf(w.spans, off); k >= 0 && k < len(w.spans) && w.spans[k].Off < off+n; k++ {
		if !w.pinned[k] {
			w.pin(k)
		}
	}
	return w.mem[off : off+n : off+n], nil
}

func (w *worker) pin(k int) {
	w.pinned[k] = true
	m, ok := w.dev.(driver.HostMapper)
	if !ok {
		return
	}
	s := w.spans[k]
	w.commands.h.busy.Store(1)
	if err := m.MapHost(w.mem[s.Off : s.Off+s.Len : s.Off+s.Len]); err != nil {
		w.log.Warn("host memory is not page-locked: copies are slower", "bytes", s.Len, "err", err)
	} else {
		w.log.Debug("page-locked", "bytes", s.Len)
	}
	w.commands.h.busy.Store(0)
}

// calm is the idle time after which a worker page-locks memory in advance. Without it, a
// worker that has just taken another's place would page-lock while the driver is still
// ending the other, and its first tasks would wait for both.
const calm = 250 * time.Millisecond

// warmUp page-locks one more span, where the worker is to have all of them; it
// reports whether there was one.
func (w *worker) warmUp() bool {
	if !w.warm || w.warmed == len(w.spans) || time.Since(w.given) < calm {
		return false
	}
	for ; w.warmed < len(w.spans); w.warmed++ {
		if !w.pinned[w.warmed] {
			w.pin(w.warmed)
			return true
		}
	}
	w.log.Debug("all host memory is page-locked", "spans", len(w.spans))
	return false
}

// task finds the task of a launch by its steps, so that the device sees the same
// one each time it runs.
func (w *worker) task(blob []byte) *graph.Task {
	if t := w.tasks[string(blob)]; t != nil {
		return t
	}
	t, ok := readSteps(blob, func(n uint32) *graph.Kernel { return w.kernels[n] })
	if !ok {
		return nil
	}
	if len(w.tasks) >= maxTasks || w.taskBytes+len(blob) > maxTaskBytes {
		clear(w.tasks)
		w.taskBytes = 0
	}
	w.tasks[string(blob)] = t
	w.taskBytes += len(blob)
	return t
}

// define takes a part of a kernel's definition.
func (w *worker) define(r *reader) error {
	n, left := r.u32(), r.u32()
	w.part = append(w.part, r.bytes()...)
	if !r.end() {
		return fmt.Errorf("%w: a kernel", errGarbage)
	}
	if left > 0 {
		return nil
	}
	k := new(graph.Kernel)
	if err := json.Unmarshal(w.part, k); err != nil {
		return fmt.Errorf("%w: a kernel: %w", errGarbage, err)
	}
	w.part = w.part[:0]
	w.kernels[n] = k
	return nil
}

// addSegment learns of a segment of the arena.
func (w *worker) addSegment(r *reader) error {
	s := arena.Segment{Off: r.i64(), Len: r.i64()}
	if !r.end() || s.Off < 0 || s.Len <= 0 || s.Off > int64(len(w.mem)) || s.Len > int64(len(w.mem))-s.Off {
		return fmt.Errorf("%w: a segment of the arena", errGarbage)
	}
	for end := s.Off + s.Len; s.Off < end; s.Off += s.Len {
		s.Len = min(spanBytes, end-s.Off)
		w.spans, w.pinned = append(w.spans, s), append(w.pinned, false)
	}
	return nil
}

// unmapSlab gives up a slab, after what frees its buffers.
func (w *worker) unmapSlab(r *reader) error {
	n := int32(r.u32())
	s, ok := w.dev.(driver.SlabMaker)
	if !r.end() || !ok {
		return fmt.Errorf("%w: giving up a slab", errGarbage)
	}
	w.submit()
	if err := s.UnmapSlab(n); err != nil {
		w.log.Warn("device memory was not given back", "err", err)
	}
	return nil
}

// report moves completions into the ring, as far as there is room.
func (w *worker) report() (bool, error) {
	if w.board == nil {
		return false, nil
	}
	sent := false
	for {
		if len(w.outbox) == 0 {
			w.collect()
		}
		n := 0
		for ; n < len(w.outbox); n++ {
			w.rec.completion(&w.outbox[n])
			ok, err := w.completions.put(w.rec.b)
			if err != nil {
				return sent, err
			}
			if !ok {
				break
			}
		}
		if n == 0 {
			break
		}
		sent = true
		w.outbox = w.outbox[:copy(w.outbox, w.outbox[n:])]
		w.completions.ring()
	}
	return sent, nil
}

// stayNear binds the process to the cores of a memory node, where the machine has
// several. Threads made later inherit it.
func stayNear(node int) {
	nodes := numa.Nodes()
	at := slices.IndexFunc(nodes, func(n numa.Node) bool { return n.ID == node })
	if len(nodes) < 2 || at < 0 {
		return
	}
	var set unix.CPUSet
	for _, c := range nodes[at].Cores {
		set.Set(c)
	}
	var may unix.CPUSet
	if unix.SchedGetaffinity(0, &may) != nil {
		return
	}
	for i := range set {
		set[i] &= may[i] // the user's limits, as by taskset, hold
	}
	if set.Count() == 0 {
		return
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.SchedSetaffinity(tid, &set) // a thread may have ended
		}
	}
}
