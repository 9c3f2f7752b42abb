package infer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Models that fail: readiness says so of a model that computes nothing any more on any of its
// devices. Failed batches and requests that expire raise the doubt, since they may be the fault of
// what was asked or of too many requests; a batch of zeros on each device decides, which must end
// within the deadline of requests, and is tried again until one computes it.

const (
	// doubtAfter is the number of failed batches and expired requests, without an answer
	// between them, after which a model is tried.
	doubtAfter = 3
	// triedFirst is the pause before a model that failed on every device is tried again, doubled
	// each time up to triedMost: each attempt may cost a worker process.
	triedFirst = time.Second
	triedMost  = time.Minute
)

// batchEnded takes in how a batch of a version ended; ctx was its own. s.mu is held.
func (s *Service) batchEnded(ctx context.Context, v *version, err error) {
	switch {
	case err == nil:
		v.fails, v.failing = 0, ""
	case ctx.Err() == context.Canceled: // its device went, or the service ends
	default:
		s.doubt(v)
	}
}

// doubt counts a batch or a request against a version, and has it tried after too many. s.mu is
// held.
func (s *Service) doubt(v *version) {
	v.fails++
	if v.fails < doubtAfter || v.stopTrying != nil || v.retired || s.closed {
		return
	}
	ctx, cancel := context.WithCancel(s.open)
	v.stopTrying = cancel
	v.pending++ // so that it stays
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer cancel()
		s.tryUntilGood(ctx, v)
		s.mu.Lock()
		defer s.mu.Unlock()
		v.stopTrying = nil
		s.release(v)
	}()
}

// tryUntilGood tries a version on its devices until one computes it, a request is answered, or
// ctx ends, as it does when the version is retired or the service closes. While it fails on all of
// them, it is failing.
func (s *Service) tryUntilGood(ctx context.Context, v *version) {
	for pause := s.triedAgain; ; pause = min(2*pause, triedMost) {
		s.mu.Lock()
		devices := slices.DeleteFunc(slices.Clone(v.devices), func(d *device) bool { return !d.up })
		names := make([]string, len(devices))
		for i, d := range devices {
			names[i] = d.name
		}
		s.mu.Unlock()
		var errs []error
		for i, d := range devices {
			within, cancel := context.WithTimeout(ctx, v.config.Deadline)
			err := s.runZeros(within, v, d, 1)
			cancel()
			if err == nil {
				s.mu.Lock()
				v.fails, v.failing = 0, ""
				s.mu.Unlock()
				return
			}
			errs = append(errs, fmt.Errorf("%s: %w", names[i], err))
		}
		s.mu.Lock()
		over := v.fails == 0 || ctx.Err() != nil
		if !over && len(errs) > 0 {
			if v.failing == "" {
				s.o.Log.Error("a model computes nothing on any of its devices", "model", v.name, "version", v.number, "err", inOneLine(errs))
			}
			v.failing = fmt.Sprintf("it fails on every device: %v", inOneLine(errs))
		}
		s.mu.Unlock()
		if over {
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// shown returns how far a version is, as those are told who ask whether it answers: one that
// fails on every device is failing, although requests are tried. s.mu is held.
func (v *version) shown() (State, string) {
	state, reason := v.now()
	if state == Ready && v.failing != "" {
		return Failing, v.failing
	}
	return state, reason
}

// whereabouts says what became of the devices that take no work, "" if all do. s.mu is held.
func (s *Service) whereabouts() string {
	var list []string
	for _, d := range s.devices {
		if !d.up {
			list = append(list, d.name+" is "+d.state)
		}
	}
	return strings.Join(list, ", ")
}
