package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/engine"
	"github.com/weft-run/weft/machine"
)

// Members of a gang that is a native collective wait for one another inside the
// device's own library, where no timeout of ours reaches. When one of them cannot
// take part, or the run is cancelled, all leave their communicator, which ends what
// runs on it.

// gang is a native collective in flight.
type gang struct {
	run     engine.RunID
	task    graph.TaskID
	number  uint64 // of its communicator
	members []*dev
	over    bool // its members have been told to leave
}

// assemble notes a launch that is a member of a gang.
func (l *loop) assemble(a *engine.Action, t *graph.Task, d *dev) {
	number, ok := driver.Communicator(t)
	if !ok {
		return
	}
	g := l.forming // the launches of a gang are issued one after another
	if g == nil || g.run != a.Run || g.task != a.Task {
		g = &gang{run: a.Run, task: a.Task, number: number}
		l.forming = g
	}
	g.members = append(g.members, d)
	if len(g.members) == t.Gang {
		l.forming = nil
	}
	if d.lost { // and nothing will be heard of this launch
		l.giveUp(g)
		return
	}
	l.gangs[a.Op] = g
}

// memberEnded takes in that a launch completed.
func (l *loop) memberEnded(op engine.Op, err error) {
	g := l.gangs[op]
	if g == nil {
		return
	}
	delete(l.gangs, op)
	if err != nil {
		l.giveUp(g)
	}
}

// memberLost takes in that a device's launches will not complete.
func (l *loop) memberLost(d *dev) {
	for op, g := range l.gangs { // in any order: they are independent
		if l.lanes[op.Lane] == d {
			delete(l.gangs, op)
			l.giveUp(g)
		}
	}
}

// runOver gives up the gangs of a run that was cancelled.
func (l *loop) runOver(id engine.RunID) {
	for _, g := range l.gangs { // likewise
		if g.run == id {
			l.giveUp(g)
		}
	}
}

// giveUp has all members leave. One that is launched after that fails.
func (l *loop) giveUp(g *gang) {
	if g.over {
		return
	}
	g.over = true
	l.log.Warn("native collective given up", "communicator", g.number)
	leave(g.number, l.devs)
}

// leave tells all who may be ranks of a communicator; others do not know it.
func leave(number uint64, devs []*dev) {
	for _, d := range devs {
		j, ok := d.Device.(driver.Joiner)
		if !ok || d.closed {
			continue
		}
		if _, far := d.Device.(driver.Partial); far {
			go j.Leave(number) // its process may be stopped
		} else {
			j.Leave(number)
		}
	}
}

// joinTimeout is the longest that devices may take to form a communicator.
const joinTimeout = 10 * time.Second

// Join makes devices the ranks, in their order, of a new communicator for native
// collectives and returns its number.
func (x *Executor) Join(ctx context.Context, devs []machine.DeviceID) (uint64, error) {
	joiners := make([]driver.Joiner, len(devs))
	for r, d := range devs {
		if d < 0 || int(d) >= len(x.devs) {
			return 0, fmt.Errorf("join: there is no device %d", d)
		}
		j, ok := x.devs[d].(driver.Joiner)
		if !ok || x.Machine.Devices[d].Joins == "" {
			return 0, fmt.Errorf("join: %s: %w: it has no native collectives", x.Machine.Devices[d].Name, driver.ErrUnavailable)
		}
		if slices.Contains(devs[:r], d) {
			return 0, fmt.Errorf("join: %s cannot be two ranks", x.Machine.Devices[d].Name)
		}
		joiners[r] = j
	}
	if len(joiners) == 0 {
		return 0, errors.New("join: no devices")
	}
	id, err := joiners[0].CollectiveID()
	if err != nil {
		return 0, fmt.Errorf("join: %w", err)
	}
	number := x.joined.Add(1)
	inner, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	errs := make(chan error, len(joiners))
	for r, j := range joiners {
		go func() {
			err := j.Join(inner, number, id, len(joiners), r)
			if err != nil {
				cancel() // the others need not wait
			}
			errs <- err
		}()
	}
	for range joiners {
		if e := <-errs; e != nil && (err == nil || errors.Is(err, context.Canceled)) {
			err = e // the first that is more than having been told to stop
		}
	}
	if err != nil {
		x.Leave(number)
		return 0, fmt.Errorf("join: %w", err)
	}
	return number, nil
}

// Leave ends a communicator on all devices. What runs on it fails.
func (x *Executor) Leave(number uint64) {
	x.do(func(l *loop) { leave(number, l.devs) })
}
