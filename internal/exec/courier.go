package exec

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weft-run/weft/experimental/driver"
)

// Some operations on a device in another process need an answer from there before
// the next can be given: memory that has to be made first, or mapped. The other
// process may be stopped, so the loop does not wait for it: a courier hands over such
// operations, and all later ones for that device until it has delivered them.

// courier hands operations to a device in the order they were posted. Its goroutine ends
// when none are left.
type courier struct {
	x   *Executor
	dev *dev

	busy      atomic.Bool // something is posted and not delivered; the loop sets it
	mu        sync.Mutex
	moved     sync.Cond
	queue     []parcel
	posted    uint64
	delivered uint64
}

// parcel is operations of one batch.
type parcel struct {
	ops   []driver.Op
	after *courier // a courier to wait for until it has delivered its first upto parcels; nil for none
	upto  uint64
}

func newCourier(x *Executor, d *dev) *courier {
	c := &courier{x: x, dev: d}
	c.moved.L = &c.mu
	return c
}

// post takes operations over. Those of after that are posted by now are delivered
// first.
func (c *courier) post(ops []driver.Op, after *courier) {
	p := parcel{ops: slices.Clone(ops)}
	for i := range p.ops {
		op := &p.ops[i]
		op.Waits, op.Args = slices.Clone(op.Waits), slices.Clone(op.Args)
	}
	if after != nil && after.busy.Load() {
		after.mu.Lock()
		p.after, p.upto = after, after.posted
		after.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posted++
	c.queue = append(c.queue, p)
	if !c.busy.Swap(true) {
		go c.run()
	}
}

func (c *courier) run() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.busy.Store(false)
			c.moved.Broadcast()
			c.mu.Unlock()
			return
		}
		p := c.queue[0]
		c.queue = slices.Delete(c.queue, 0, 1)
		c.mu.Unlock()
		if p.after != nil {
			p.after.await(p.upto)
		}
		if err := c.dev.Submit(p.ops); err != nil {
			c.x.do(func(l *loop) { l.refused(c.dev, p.ops, err) })
		}
		c.mu.Lock()
		c.delivered++
		c.moved.Broadcast()
		c.mu.Unlock()
	}
}

// await waits until upto parcels are delivered.
func (c *courier) await(upto uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.delivered < upto {
		c.moved.Wait()
	}
}

// settle waits until nothing is under way.
func (c *courier) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.busy.Load() {
		c.moved.Wait()
	}
}
