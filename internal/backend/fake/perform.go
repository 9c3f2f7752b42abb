package fake

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
)

// errScripted is the error of an operation that a rule of the script fails.
var errScripted = errors.New("failed by the script")

// errPanic wraps what a kernel panicked with.
var errPanic = errors.New("kernel panicked")

// run serves a lane until the device is closed.
func (d *device) run(l *lane) {
	defer d.ended.Done()
	for {
		d.mu.Lock()
		for len(l.queue) == 0 && !d.isClosed() {
			d.cond.Wait()
		}
		if len(l.queue) == 0 {
			d.mu.Unlock()
			return
		}
		o := l.queue[0]
		l.queue = l.queue[1:]
		d.mu.Unlock()

		err := d.await(o)
		start := d.board.Now()
		if err == nil {
			err = d.perform(o)
		}
		if o.isLost() { // whatever it did is gone with the device
			err = fmt.Errorf("fake: %s: %w", d.info.Name, driver.ErrDeviceLost)
		}
		end := d.board.Now()
		// Who collects the completion finds it on the board.
		d.board.Done(o.Lane, o.Seq, err != nil)
		d.mu.Lock()
		d.done = append(d.done, driver.Completion{Lane: o.Lane, Seq: o.Seq, Start: start, End: end, Err: err})
		d.flight--
		d.cond.Broadcast()
		d.mu.Unlock()
		d.wake()
	}
}

// isLost reports whether the device was lost since the operation was given.
func (o *op) isLost() bool {
	select {
	case <-o.lost:
		return true
	default:
		return false
	}
}

// await blocks until all that the operation waits for is complete, or the
// device is not there any more.
func (d *device) await(o *op) error {
	failed := false
	for _, w := range o.Waits {
		d.board.Sleep(func() bool {
			done, _ := d.board.State(w)
			return done || d.isClosed() || o.isLost()
		})
		done, ok := d.board.State(w)
		if !done {
			return fmt.Errorf("fake: %s: %w", d.info.Name, driver.ErrClosed)
		}
		failed = failed || !ok
	}
	if failed {
		return fmt.Errorf("fake: %s: %w", d.info.Name, driver.ErrDependency)
	}
	if d.isClosed() {
		return fmt.Errorf("fake: %s: %w", d.info.Name, driver.ErrClosed)
	}
	return nil
}

// fate is the effect of the script's rules on an operation.
type fate struct {
	take             time.Duration
	fail, hang, lose bool
	corrupt          bool
	released         chan struct{}
}

// fate finds the rules an operation matches and uses them up.
func (d *device) fate(o *op) fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := fate{released: d.released}
	for i := 0; i < len(d.rules); i++ {
		r := &d.rules[i]
		if r.Do == Revive || !r.At.of(o) {
			continue
		}
		switch r.Do {
		case Take:
			f.take = max(f.take, r.For)
		case Fail:
			f.fail = true
		case Hang:
			f.hang = true
		case Lose:
			f.lose = true
		case Corrupt:
			f.corrupt = true
		}
		if d.spend(i) {
			i--
		}
	}
	if f.lose {
		d.lose()
	}
	return f
}

// spend counts one application of rule i and reports whether it was the last,
// and the rule is gone.
func (d *device) spend(i int) bool {
	r := &d.rules[i]
	if r.Times == 0 {
		return false
	}
	if r.Times--; r.Times > 0 {
		return false
	}
	d.rules = slices.Delete(d.rules, i, i+1)
	return true
}

// of reports whether an operation is one of those chosen.
func (m *Match) of(o *op) bool {
	switch m.Kind {
	case NthOp:
		return o.n == m.N
	case OfKernel:
		return o.Kind == driver.Launch && slices.ContainsFunc(o.Task.Steps, func(s graph.Step) bool { return s.Kernel.Name == m.Kernel })
	case Copies:
		return o.Kind == driver.Copy
	case Launches:
		return o.Kind == driver.Launch
	}
	return false
}

// perform does what the script says of an operation, then the operation itself.
func (d *device) perform(o *op) error {
	if o.isLost() {
		return nil // the lane says so
	}
	f := d.fate(o)
	if f.lose {
		return nil
	}
	if f.hang {
		select {
		case <-f.released:
		case <-o.lost:
			return nil
		case <-d.closed:
			return fmt.Errorf("fake: %s hung: %w", d.info.Name, driver.ErrClosed)
		}
	}
	if f.take > 0 {
		timer := time.NewTimer(f.take)
		select {
		case <-timer.C:
		case <-o.lost:
		case <-d.closed:
		}
		timer.Stop()
		if o.isLost() {
			return nil
		}
	}
	if f.fail {
		return fmt.Errorf("fake: operation %d on %s: %w", o.n, d.info.Name, errScripted)
	}
	do := d.launch
	if o.Kind == driver.Copy {
		do = d.copy
	}
	err := do(o)
	if err == nil && f.corrupt {
		err = d.corrupt(o)
	}
	return err
}

// corrupt changes the last byte of what an operation has written: of the last argument where the
// device is in a worker, which is not told what a task writes.
func (d *device) corrupt(o *op) error {
	var written []byte
	var err error
	if o.Kind == driver.Copy {
		written, err = d.bytes(o.Dst, o.HostDst, o.DstOff, o.Bytes)
	} else {
		for i := range o.Args {
			a := &o.Args[i]
			if (len(o.Task.Uses) == 0 || i < len(o.Task.Uses) && o.Task.Uses[i].Access.Writes()) && err == nil {
				written, err = d.bytes(a.Buf, a.Host, a.Off, a.Bytes)
			}
		}
	}
	if n := len(written); n > 0 {
		written[n-1]++
	}
	return err
}

func (d *device) isGone() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone
}

// bytes resolves one end of a copy or an argument.
func (d *device) bytes(b driver.Buffer, host []byte, off, n int64) ([]byte, error) {
	mem := host
	if b != driver.NoBuffer {
		d.mu.Lock()
		buf, ok := d.buffers[b]
		d.mu.Unlock()
		mem = buf.mem
		if !ok {
			return nil, fmt.Errorf("fake: buffer %d on %s: %w", b, d.info.Name, driver.ErrOutOfMemory)
		}
	} else {
		off = 0 // host memory is given from its first byte
	}
	if !inside(off, n, mem) {
		return nil, fmt.Errorf("fake: %d bytes from %d on of a buffer of %d on %s", n, off, len(mem), d.info.Name)
	}
	return mem[off : off+n : off+n], nil
}

func (d *device) copy(o *op) error {
	from := d
	if o.From != nil {
		peer, ok := o.From.(*device)
		if !ok || !d.CanCopyFrom(peer) {
			return fmt.Errorf("fake: %s cannot copy from %s", d.info.Name, o.From.Info().Name)
		}
		if peer.isGone() { // which is no loss of this one
			return fmt.Errorf("fake: copy from %s to %s: the source is lost", peer.info.Name, d.info.Name)
		}
		from = peer
	}
	dst, err := d.bytes(o.Dst, o.HostDst, o.DstOff, o.Bytes)
	if err != nil {
		return err
	}
	src, err := from.bytes(o.Src, o.HostSrc, o.SrcOff, o.Bytes)
	if err != nil {
		return err
	}
	copy(dst, src)
	return nil
}

// launch runs the steps of a task.
func (d *device) launch(o *op) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("fake: %s: %w: %v", d.info.Name, errPanic, p)
		}
	}()
	var args [][]byte
	for i := range o.Args {
		a := &o.Args[i]
		mem, err := d.bytes(a.Buf, a.Host, a.Off, a.Bytes)
		if err != nil {
			return err
		}
		args = append(args, mem)
	}
	if number, ok := driver.Communicator(o.Task); ok {
		return d.meet(o, number, args)
	}
	for i := range o.Task.Steps {
		s := &o.Task.Steps[i]
		impl, fn, err := d.find(s.Kernel)
		if err != nil {
			return err
		}
		if fn == nil {
			continue
		}
		mine, err := driver.StepArgs(s, args, nil)
		if err != nil {
			return fmt.Errorf("fake: kernel %q on %s: %w", s.Kernel.Name, d.info.Name, err)
		}
		c := &driver.Call{Args: mine, Params: s.Params, Launch: s.Launch}
		g := impl.Shape(s.Launch).Grid
		fn(c, 0, int(g[0])*int(g[1])*int(g[2]))
		if err := c.Err(); err != nil {
			return fmt.Errorf("fake: kernel %q on %s: %w", s.Kernel.Name, d.info.Name, err)
		}
	}
	return nil
}

// find returns the function of a kernel and the implementation that names it;
// no function means nothing to do.
func (d *device) find(k *graph.Kernel) (*graph.Impl, driver.Func, error) {
	for i := range k.Impls {
		impl := &k.Impls[i]
		if !d.info.CanRun(&graph.Kernel{Impls: k.Impls[i : i+1]}) {
			continue
		}
		if fn := d.driver.o.Funcs[impl.Entry]; fn != nil || impl.Entry == "" {
			return impl, fn, nil
		}
	}
	return nil, nil, fmt.Errorf("fake: kernel %q on %s: %w: %w", k.Name, d.info.Name, driver.ErrUnfit, driver.ErrNoFunc)
}
