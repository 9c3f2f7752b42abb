package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
)

// counts are what the trials went through.
type counts struct {
	mu                           sync.Mutex
	Right                        int    // runs with the right bytes
	By                           [4]int // these by Options.Verify
	Shared                       int    // these with residents
	Cancelled, Excused           int    // runs that failed for a reason
	Retries, Replays, Evictions  int
	Verified, Unverified, Blamed int // tasks
	Losses, Kernels              int64
	Lives, Resumed               int // of computations that are kept
}

func (c *counts) String() string {
	return fmt.Sprintf("%d runs right (with Verify 0 to 3 %v, with residents %d), %d cancelled, %d failed for a reason; "+
		"%d retries, %d replays, %d evictions, %d tasks verified, %d not, %d results blamed; devices lost %d times, kernels failed %d times; %d lives, %d resumed",
		c.Right, c.By, c.Shared, c.Cancelled, c.Excused, c.Retries, c.Replays, c.Evictions, c.Verified, c.Unverified, c.Blamed, c.Losses, c.Kernels, c.Lives, c.Resumed)
}

func (c *counts) right() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Right
}

func (c *counts) add(fn func(c *counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn(c)
}

// trial is a seed: people submit runs to a rig that is in trouble, and every result is compared.
type trial struct {
	*rig
	ctx    context.Context
	sum    *counts
	mu     sync.Mutex // guards the fields below
	bad    []string
	shared []*resident
	order  []*run // those that use residents, as they were submitted
}

// resident is data that runs share.
type resident struct {
	data *weft.Data[byte]
	mem  []byte // what it holds, once all runs of it that were looked at ended
}

func (t *trial) fail(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.bad) < 5 {
		t.bad = append(t.bad, fmt.Sprintf(format, args...))
	}
}

// run is one run of a program.
type run struct {
	p          *program
	mem, start [][]byte // by data
	early      bool     // it may be cancelled
	few        bool     // it may use up its retries
	inFlight   int      // how many of its tasks may be in flight, 0 for any number
	rep        *weft.Report
	err        error
}

// memory makes memory of a run, of random bytes where the program reads them.
func (p *program) memory(r *rand.Rand) (mem, start [][]byte) {
	for _, d := range p.data {
		m := make([]byte, d.Bytes)
		for k := range m {
			if d.Input {
				m[k] = byte(r.Uint32())
			} else {
				m[k] = 0xee
			}
		}
		mem, start = append(mem, m), append(start, slices.Clone(m))
	}
	return mem, start
}

// bindings are what a run binds: its memory, and residents.
func (t *trial) bindings(u *run) (out []weft.Binding) {
	for i, d := range u.p.data {
		switch {
		case u.p.bound[i] >= 0:
			out = append(out, t.shared[u.p.bound[i]].data.As(d.Name))
		case d.Input || d.Output:
			out = append(out, weft.Bind(d.Name, u.mem[i]))
		}
	}
	return out
}

// person is one caller: it draws programs and runs each in some way, several times at once.
func (t *trial) person(r *rand.Rand) {
	for range 6 {
		if one(r, 4) && len(t.shared) > 0 {
			t.runShared(r)
			continue
		}
		p := t.drawProgram(r, nil)
		prepared, err := t.Prepare(p.g)
		if err != nil {
			t.fail("prepare: %v", err)
			return
		}
		few, inFlight := t.few, 0
		if one(r, 2) {
			o := weft.RunOptions{Priority: r.IntN(5) - 2, Concurrent: r.IntN(4), Weight: pick(r, 0, 0.1, 1, 5)}
			if !t.calm && one(r, 8) {
				o.Retries, few = 1+r.IntN(2), true
			}
			inFlight = o.Concurrent
			if prepared, err = prepared.With(o); err != nil {
				t.fail("with: %v", err)
				return
			}
		}
		var each sync.WaitGroup
		for range 1 + r.IntN(4) {
			u := &run{p: p, few: few, inFlight: inFlight, early: t.cancels && one(r, 4)}
			u.mem, u.start = p.memory(r)
			way, limit := r.IntN(5), time.Duration(r.IntN(4000))*time.Microsecond
			each.Go(func() {
				t.start(u, prepared, way, limit)
				t.judge(u)
				if u.err == nil {
					want := u.start // not needed any more
					p.interpret(want)
					t.compare(u, want)
				}
			})
		}
		each.Wait()
	}
}

// start runs a program in one of the ways that there are, and waits.
func (t *trial) start(u *run, p *weft.Prepared, way int, limit time.Duration) {
	ctx := t.ctx
	if u.early {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	bs := t.bindings(u)
	switch way {
	case 0:
		u.rep, u.err = t.Run(ctx, u.p.g, bs...)
	case 1:
		u.rep, u.err = p.Run(weft.WithProgress(ctx, func(now weft.Progress) {
			if u.inFlight > 0 && t.o.Verify == 0 && now.Running > u.inFlight {
				t.fail("a run has %d tasks in flight, and %d are allowed", now.Running, u.inFlight)
			}
		}), bs...)
	case 2, 3:
		told := make(chan error, 1)
		h := t.Submit(u.p.g, func(_ *weft.Report, err error) { told <- err }, bs...)
		if u.early {
			time.Sleep(limit)
			h.Cancel()
		}
		u.rep, u.err = h.Wait()
		if err := <-told; (err == nil) != (u.err == nil) {
			t.fail("the callback is told %v, the handle %v", err, u.err)
		}
	default:
		u.rep, u.err = p.Run(ctx, bs...)
	}
}

// runShared submits a program that uses residents. Their order is that of submission.
func (t *trial) runShared(r *rand.Rand) {
	p := t.drawProgram(r, t.shared)
	u := &run{p: p, few: t.few, early: t.cancels && one(r, 4)}
	u.mem, u.start = p.memory(r)
	pause := time.Duration(r.IntN(3000)) * time.Microsecond
	t.mu.Lock()
	h := t.Submit(p.g, nil, t.bindings(u)...)
	t.order = append(t.order, u)
	t.mu.Unlock()
	if u.early {
		time.Sleep(pause)
		h.Cancel()
	}
	u.rep, u.err = h.Wait()
	t.judge(u)
}

// judge says of a run that ended whether it may have ended so, apart from its results.
func (t *trial) judge(u *run) {
	for i, d := range u.p.data {
		if d.Input && !d.Output && u.p.bound[i] < 0 && !bytes.Equal(u.mem[i], u.start[i]) {
			t.fail("WRONG: input %s was changed (the run ended with %v)", d.Name, u.err)
		}
	}
	if u.err == nil {
		t.sum.add(func(c *counts) {
			c.Retries, c.Replays, c.Evictions = c.Retries+u.rep.Retries, c.Replays+u.rep.Replays, c.Evictions+u.rep.Evictions
			c.Verified, c.Unverified, c.Blamed = c.Verified+u.rep.Verified, c.Unverified+u.rep.Unverified, c.Blamed+len(u.rep.Wrong)
		})
		if t.calm && (u.rep.Retries > 0 || u.rep.Replays > 0 || len(u.rep.Wrong) > 0) {
			t.fail("nothing happened, and a run reports %d retries, %d replays, %d wrong", u.rep.Retries, u.rep.Replays, len(u.rep.Wrong))
		}
		return
	}
	if !t.excused(u) {
		t.fail("a run of %d tasks: %.1500v", len(u.p.tasks), u.err)
	}
	t.sum.add(func(c *counts) {
		if u.early {
			c.Cancelled++
		} else {
			c.Excused++
		}
	})
}

// excused reports whether a run may fail with its error.
func (t *trial) excused(u *run) bool {
	is := func(target error) bool { return errors.Is(u.err, target) }
	var wrong *weft.WrongResult
	var task *weft.TaskError
	lossy := t.drv != nil || t.extra&deadly != 0
	switch {
	case u.early && (is(weft.ErrCancelled) || is(context.DeadlineExceeded)):
	case is(weft.ErrOutOfMemory) && !t.memoryFits(u.p):
	case t.calm:
		return false
	case t.copies && strings.Contains(u.err.Error(), "copying") && strings.Contains(u.err.Error(), "failed by the script"):
		// a busy machine copies less often than copies are to fail, so that many fail in a row
	case errors.As(u.err, &wrong):
		return t.corrupt
	case t.extra&fragile != 0 && strings.Contains(u.err.Error(), "what the task reads may have changed"): // gangs are not compared
	case t.volatileIn(u.p) && is(weft.ErrDataLost):
	case (u.few || t.o.NoFaultTolerance && lossy) && errors.As(u.err, &task):
	case t.o.NoFaultTolerance && lossy && (is(engine.ErrDeviceLost) || is(weft.ErrDataLost)):
	case t.gangs > 0 && is(weft.ErrNoDevice):
	default:
		return false
	}
	return true
}

func (t *trial) volatileIn(p *program) bool {
	return slices.ContainsFunc(p.data, func(d graph.Data) bool { return d.Durability == graph.Volatile })
}

// trusted reports whether a run that ended well must be right although results were changed.
func (t *trial) trusted(u *run) bool {
	return !t.corrupt || t.o.Verify == 1 && u.rep.Unverified == 0
}

// compare compares the outputs of a run that ended well with what the data holds after its tasks
// one after another.
func (t *trial) compare(u *run, want [][]byte) {
	if !t.trusted(u) {
		return
	}
	for i, d := range u.p.data {
		if u.p.bound[i] >= 0 {
			continue
		}
		if got := u.mem[i]; d.Output && !bytes.Equal(got, want[i]) {
			n := 0
			for k := range got {
				if got[k] != want[i][k] {
					n++
				}
			}
			t.fail("WRONG: of %s (%d bytes, %+v) %d bytes differ, in a run of %d tasks with %d retries, %d replays, %d evictions, %d verified, %d unverified",
				d.Name, d.Bytes, d, n, len(u.p.tasks), u.rep.Retries, u.rep.Replays, u.rep.Evictions, u.rep.Verified, u.rep.Unverified)
		}
	}
	t.sum.add(func(c *counts) {
		c.Right++
		c.By[t.o.Verify]++
		if slices.ContainsFunc(u.p.bound, func(b int) bool { return b >= 0 }) {
			c.Shared++
		}
	})
}

// settle has the runs that use residents interpreted in their order, and compares their outputs and
// the residents. A run that failed has left them as they were.
func (t *trial) settle() {
	for _, u := range t.order {
		if u.err != nil {
			continue
		}
		want := make([][]byte, len(u.p.data))
		for i, b := range u.p.bound {
			if want[i] = u.start[i]; b >= 0 {
				want[i] = t.shared[b].mem
			}
		}
		if !t.trusted(u) {
			return // what it wrote to residents, others have read
		}
		u.p.interpret(want)
		t.compare(u, want)
	}
	for i, s := range t.shared {
		got, err := s.data.Get(t.ctx)
		switch {
		case err == nil && !bytes.Equal(got, s.mem):
			t.fail("WRONG: resident %d, after %d runs", i, len(t.order))
		case err != nil && !t.o.NoFaultTolerance:
			t.fail("resident %d: %v", i, err)
		}
	}
}
