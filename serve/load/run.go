package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

// lateAfter is the delay from which a request counts as late: its connection was not free, or
// this process not awake. A millisecond is forty times what a wait is off by in the median on a
// machine that is overloaded (25 µs), and less than most predictions take.
const lateAfter = time.Millisecond

// run is one load under way.
type run struct {
	c        *Client
	pace     Pace
	schedule *schedule
	begin    time.Time
	// turn is held by the goroutine that waits for the next arrival. It sends the request itself:
	// nothing has to wake up in between. A channel and not a mutex, so that a context can end the wait.
	turn chan struct{}

	mu      sync.Mutex
	result  *Result
	lastEnd time.Time // of a measured request
}

// Run sends requests at a pace and returns what became of them. When ctx ends it returns what
// there is, with the cause. Connections are made before the first request arrives. A server that
// is too slow is given the timeout, after the last request has arrived, to answer those that wait.
func (c *Client) Run(ctx context.Context, p Pace) (*Result, error) {
	if p.Arrivals == "" {
		p.Arrivals = Constant
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	conns, err := c.connect(ctx)
	defer func() {
		for _, cn := range conns {
			cn.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	r := &run{c: c, pace: p, schedule: newSchedule(p), turn: make(chan struct{}, 1), result: newResult(c, p)}
	r.begin = time.Now()
	r.turn <- struct{}{}
	var wg sync.WaitGroup
	for _, cn := range conns {
		wg.Go(func() { r.work(ctx, cn) })
	}
	wg.Wait()
	for _, cn := range conns {
		r.result.Reconnected += cn.remade()
	}
	return r.end(ctx)
}

// connect makes all connections. Each is made for the run: the server may refuse some.
func (c *Client) connect(ctx context.Context) ([]*conn, error) {
	var conns []*conn
	deadline := time.Now().Add(c.o.Timeout)
	for i := range c.o.Connections {
		cn := &conn{client: c}
		if err := cn.open(ctx, deadline); err != nil {
			if ctx.Err() != nil {
				return conns, context.Cause(ctx)
			}
			return conns, fmt.Errorf("connection %d of %d: %w", i+1, c.o.Connections, c.o.Target.failed(err))
		}
		cn.used = true // the server may close it while it waits for its first request
		conns = append(conns, cn)
	}
	return conns, nil
}

// work sends requests by one connection until there are no more.
func (r *run) work(ctx context.Context, cn *conn) {
	freed := r.begin
	for {
		select {
		case <-r.turn:
		case <-ctx.Done():
			return
		}
		at, n, ok := r.schedule.next()
		if !ok {
			r.turn <- struct{}{}
			return
		}
		due, measured := r.begin.Add(at), at >= r.pace.WarmUp
		err := r.c.wait(ctx, due)
		r.turn <- struct{}{}
		if err != nil {
			if !due.After(time.Now()) {
				r.count(measured, func(s *Result) { s.Unfinished++ })
			}
			return
		}
		start := time.Now()
		if start.After(r.begin.Add(r.pace.WarmUp + r.pace.Duration + r.c.o.Timeout)) {
			r.count(measured, func(s *Result) { s.Unsent++ })
			continue
		}
		deadline := start.Add(r.c.o.Timeout)
		a, err := cn.exchange(ctx, r.c.requests[n%uint64(len(r.c.requests))], deadline, false)
		if err != nil && ctx.Err() != nil {
			err = errInterrupted
		}
		end := time.Now()
		r.count(measured, func(s *Result) { s.add(a, err, end.Sub(due), start.Sub(due), start.Sub(later(due, freed))) })
		if measured && ctx.Err() == nil {
			r.ended(end)
			if r.c.o.Each != nil {
				r.c.o.Each(due, end, err == nil && a.good())
			}
		}
		freed = end
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// count changes the result by a request, if it is one that is measured.
func (r *run) count(measured bool, change func(*Result)) {
	if !measured {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Arrived++
	change(r.result)
}

// ended notes when a request ended.
func (r *run) ended(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastEnd = later(r.lastEnd, at)
}

// errInterrupted is the error of a request that the end of the load's context ended.
var errInterrupted = errors.New("interrupted")

// add counts a request that was sent: how it ended, how long after it was due, how long after
// that it was sent, and how much of this was this process's doing.
func (s *Result) add(a answer, err error, latency, late, own time.Duration) {
	s.Sent++
	s.own.Add(own)
	if late > lateAfter {
		s.Late++
	}
	if late-own > lateAfter {
		s.Waited++
	}
	switch {
	case err == nil && a.good():
		s.Answered++
		s.latency.Add(latency)
	case err == nil && (a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable):
		s.Refused++
	case err == nil:
		s.fail(a.name(), a.status, a.reason())
	case err == errInterrupted:
		s.Unfinished++
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		s.TimedOut++
	default:
		s.fail(cause(err), 0, "")
	}
}

// end completes the result.
func (r *run) end(ctx context.Context) (*Result, error) {
	s := r.result
	window := r.begin.Add(r.pace.WarmUp)
	last := later(r.lastEnd, window.Add(r.pace.Duration))
	var err error
	if ctx.Err() != nil {
		err = context.Cause(ctx)
		s.Interrupted = true
		last = later(time.Now(), window)
		for { // those that had arrived and that no connection was free for
			at, _, ok := r.schedule.next()
			if !ok || r.begin.Add(at).After(last) {
				break
			}
			if at >= r.pace.WarmUp {
				s.Arrived++
				s.Unfinished++
			}
		}
	}
	s.finish(last.Sub(window))
	return s, err
}

// waitCoarsely waits for a time by a timer.
func waitCoarsely(ctx context.Context, until time.Time) error {
	left := time.Until(until)
	if left <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
