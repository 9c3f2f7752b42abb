package cpu

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/weft-run/weft/experimental/driver"
)

// launchContext is the context of the launch that a lane runs. It is made when a kernel asks
// for it. The lane's lock guards all but made.
type launchContext struct {
	made   atomic.Bool     // ctx is not nil
	ctx    context.Context // nil if no kernel of the launch has asked
	cancel context.CancelCauseFunc
	seq    uint32 // of the launch
}

// launchContext returns the context of the launch that the lane runs. Kernels call it, on any
// goroutine.
func (l *lane) launchContext() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.context
	if c.ctx != nil && c.seq != l.seq { // something that kept the call asked after its launch had ended
		c.cancel(nil)
		c.ctx = nil
	}
	if c.ctx == nil {
		c.ctx, c.cancel = context.WithCancelCause(l.dev.board.Context())
		c.seq = l.seq
		c.made.Store(true)
		switch {
		case l.gone.Load():
			c.cancel(driver.ErrDeviceLost)
		case slices.Contains(l.stopped, l.seq):
			c.cancel(driver.ErrStopped)
		}
	}
	return c.ctx
}

// endContext ends the context of a launch that has ended.
func (l *lane) endContext() {
	c := &l.context
	if !c.made.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.cancel(nil)
	c.ctx, c.cancel = nil, nil
	c.made.Store(false)
}
