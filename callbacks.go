package weft

import (
	"context"
	"sync"
)

// callbacks runs what the caller gave the runtime to call. None of it runs on
// the executor's loop, so that it may use the runtime, and Close waits for it.
type callbacks struct {
	mu      sync.Mutex
	running int             // goroutines
	idle    []chan struct{} // who waits for there to be none
	queue   []func()        // what is to run one after another
	drains  bool            // a goroutine is at it
}

// start runs f in a goroutine of its own.
func (c *callbacks) start(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startLocked(f)
}

func (c *callbacks) startLocked(f func()) {
	c.running++
	go func() {
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.running--; c.running == 0 {
				for _, ch := range c.idle {
					close(ch)
				}
				c.idle = nil
			}
		}()
		f()
	}()
}

// inOrder runs f after everything given before. The queue has no bound: who adds
// to it is the loop, which must not wait for a callback.
func (c *callbacks) inOrder(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue = append(c.queue, f)
	if !c.drains {
		c.drains = true
		c.startLocked(c.drain)
	}
}

func (c *callbacks) drain() {
	for {
		c.mu.Lock()
		fs := c.queue
		c.queue = nil
		c.drains = len(fs) > 0
		c.mu.Unlock()
		if len(fs) == 0 {
			return
		}
		for _, f := range fs {
			f()
		}
	}
}

// wait waits until no callback runs.
func (c *callbacks) wait(ctx context.Context) error {
	c.mu.Lock()
	if c.running == 0 {
		c.mu.Unlock()
		return nil
	}
	ch := make(chan struct{})
	c.idle = append(c.idle, ch)
	c.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
