package prove

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weft-run/weft/serve"
)

// turn is a proof that waits.
type turn struct {
	deadline time.Time
	come     chan struct{}
}

// enter counts a proof of a client in, if there is room: in the queue, of which one client has no more
// than half.
func (s *Service) enter(client string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := 0
	for _, n := range s.of {
		all += n
	}
	room := s.limits.Concurrent + s.limits.Queue
	switch {
	case s.closed:
		return serve.ErrClosed
	case client == "":
	case all >= room:
		return fmt.Errorf("%w: %d are the most", serve.ErrBusy, room)
	case s.of[client] >= max(1, (room+1)/2):
		return fmt.Errorf("%w: %d of them are yours, and no client may have more", serve.ErrBusy, s.of[client])
	}
	if client != "" {
		s.of[client]++
	}
	s.under.Add(1)
	return nil
}

// leave counts a proof of a client out.
func (s *Service) leave(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if client != "" {
		if s.of[client]--; s.of[client] == 0 {
			delete(s.of, client)
		}
	}
	s.under.Done()
}

// turn waits until a proof may begin. If it returns no error, the caller calls next in the end. One without
// a deadline, as those of jobs are, is placed as if it had the latest that a client could have now: those
// who come later and have as much time are behind it, and after the time of the limits all are.
func (s *Service) turn(ctx context.Context, c *circuit) error {
	s.mu.Lock()
	if s.running < s.limits.Concurrent {
		s.running++
		c.stats.Running++
		s.mu.Unlock()
		return nil
	}
	t := &turn{come: make(chan struct{})}
	if until, ok := ctx.Deadline(); ok {
		t.deadline = until
	} else {
		t.deadline = time.Now().Add(time.Duration(s.limits.Time))
	}
	at := len(s.waiting)
	for at > 0 && t.deadline.Before(s.waiting[at-1].deadline) {
		at--
	}
	s.waiting = slices.Insert(s.waiting, at, t)
	c.stats.Waiting++
	s.mu.Unlock()
	err := error(nil)
	select {
	case <-t.come:
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.ctx.Done():
		err = serve.ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.stats.Waiting--
	if err == nil {
		c.stats.Running++
		return nil
	}
	if i := slices.Index(s.waiting, t); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	} else { // its turn came meanwhile
		s.pass()
	}
	return err
}

// next ends the turn of a proof.
func (s *Service) next(c *circuit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.stats.Running--
	s.pass()
}

// pass gives a turn to the next that waits, with the lock held.
func (s *Service) pass() {
	if len(s.waiting) == 0 {
		s.running--
		return
	}
	close(s.waiting[0].come)
	s.waiting = slices.Delete(s.waiting, 0, 1)
}
