package fake

import (
	"context"
	"fmt"
	"sync"

	"github.com/weft-run/weft/experimental/driver"
)

// Native collectives: devices of one driver meet under a name, and a launch that
// names their communicator waits for the other members as a real library's does,
// with no end of its own.

// meeting is a communicator.
type meeting struct {
	ranks int
	mu    sync.Mutex
	in    int           // ranks that have joined
	all   chan struct{} // closed when all have
	round *round        // that members are coming to
}

// round is one operation.
type round struct {
	args [][][]byte // by rank
	came int
	over chan struct{} // closed when the last member has run it
	err  error
}

// rank is a device's place in a meeting.
type rank struct {
	of   *meeting
	n    int
	once sync.Once
	left chan struct{}
}

func (r *rank) leave() { r.once.Do(func() { close(r.left) }) }

// CollectiveID makes a name for Join.
func (d *device) CollectiveID() ([]byte, error) {
	d.driver.mu.Lock()
	defer d.driver.mu.Unlock()
	if d.driver.o.Joins == "" {
		return nil, fmt.Errorf("fake: collective on %s: %w: the script does not say that devices join", d.info.Name, driver.ErrUnavailable)
	}
	d.driver.names++
	return fmt.Appendf(nil, "meeting %d", d.driver.names), nil
}

// Join waits for the other ranks.
func (d *device) Join(ctx context.Context, number uint64, id []byte, ranks, n int) error {
	d.driver.mu.Lock()
	m := d.driver.meetings[string(id)]
	if m == nil {
		m = &meeting{ranks: ranks, all: make(chan struct{})}
		if d.driver.meetings == nil {
			d.driver.meetings = make(map[string]*meeting)
		}
		d.driver.meetings[string(id)] = m
	}
	d.driver.mu.Unlock()
	r := &rank{of: m, n: n, left: make(chan struct{})}
	d.mu.Lock()
	bad := d.gone || d.isClosed() || d.ranks[number] != nil || n < 0 || n >= ranks || ranks != m.ranks
	lost := d.lost
	if !bad {
		if d.ranks == nil {
			d.ranks = make(map[uint64]*rank)
		}
		d.ranks[number] = r
	}
	d.mu.Unlock()
	if bad {
		return fmt.Errorf("fake: join on %s as rank %d of %d: %w", d.info.Name, n, ranks, driver.ErrUnavailable)
	}
	m.mu.Lock()
	if m.in++; m.in == m.ranks {
		close(m.all)
	}
	m.mu.Unlock()
	err := error(nil)
	select {
	case <-m.all:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-r.left:
		err = driver.ErrDependency
	case <-lost:
		err = driver.ErrDeviceLost
	}
	d.Leave(number)
	return fmt.Errorf("fake: join on %s as rank %d of %d: %w", d.info.Name, n, ranks, err)
}

// Leave ends what the device waits for in a communicator.
func (d *device) Leave(number uint64) {
	d.mu.Lock()
	r := d.ranks[number]
	delete(d.ranks, number)
	d.mu.Unlock()
	if r != nil {
		r.leave()
	}
}

// meet runs a native collective with the other members of its gang: the last to
// come runs it for all.
func (d *device) meet(o *op, number uint64, args [][]byte) error {
	d.mu.Lock()
	r := d.ranks[number]
	d.mu.Unlock()
	step := &o.Task.Steps[0]
	fn := d.driver.o.Natives[step.Kernel.Impls[0].Entry]
	if r == nil || fn == nil {
		return fmt.Errorf("fake: kernel %q on %s: %w: no native routine, or no rank of communicator %d", step.Kernel.Name, d.info.Name, driver.ErrKernel, number)
	}
	m := r.of
	m.mu.Lock()
	if m.round == nil {
		m.round = &round{args: make([][][]byte, m.ranks), over: make(chan struct{})}
	}
	w := m.round
	w.args[r.n] = args
	if w.came++; w.came == o.Task.Gang {
		m.round = nil
		w.err = fn(w.args, step.Params)
		close(w.over)
	}
	m.mu.Unlock()
	err := error(nil)
	select {
	case <-w.over:
		return w.err
	case <-r.left:
		err = fmt.Errorf("fake: %s left communicator %d: %w", d.info.Name, number, driver.ErrDependency)
	case <-o.lost: // the lane says so
	case <-d.closed:
		err = fmt.Errorf("fake: %s: %w", d.info.Name, driver.ErrClosed)
	}
	// No member may run it any more: its memory is given back after this.
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.came == o.Task.Gang {
		return w.err
	}
	if m.round == w {
		m.round = nil
	}
	return err
}
