package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/serve/internal/batch"
)

// Options configure a Service. The zero value serves one reservoir of default parameters.
type Options struct {
	// Folder has a folder for each model, with a model.yaml, or with folders for versions
	// that are numbers and have one each. Empty means a reservoir that is made at the start.
	Folder string
	// Deadline is that of requests that have none, of models that state none (10 s).
	Deadline time.Duration
	// MaxWaiting is the number of requests that may wait for a batch in all (10,000).
	MaxWaiting int
	// MaxBatch bounds the examples of a batch of any model beside what the model says, and
	// MaxWait how long requests wait for others while a device is idle, of models that say
	// nothing of it. 0 is no bound.
	MaxBatch int
	MaxWait  time.Duration
	// Depth is the number of batches that a device has at a time: more keep it busy while results
	// are handed out, and are computed side by side where a batch does not need all cores. 0
	// is one, and where there are only processor cores one for each but one, which requests
	// and answers need, up to four.
	Depth int
	// Log receives what is loaded and what fails; nil discards it.
	Log *slog.Logger
}

// Service answers requests for predictions. It is safe for concurrent use.
//
// Every request waits in its caller's goroutine. Events (a request, a batch that ended, a
// time that has come) go to a [batch.Machine] under one lock, and each batch that it starts
// has a goroutine until it ends.
type Service struct {
	rt    *weft.Runtime
	o     Options
	start time.Time
	ctx   context.Context // of batches: ends when Close does not wait any longer
	stop  context.CancelFunc
	open  context.Context // of loads and of the watch on devices: ends when Close begins
	shut  context.CancelFunc
	ended chan struct{}  // closed when Close has ended all
	work  sync.WaitGroup // goroutines of the service
	loads chan struct{}  // has one token, which a load takes
	// triedAgain is the first pause before a model that fails is tried again. Tests change it.
	triedAgain time.Duration

	mu      sync.Mutex
	m       *batch.Machine
	devices []*device
	any     *device // where the runtime chooses; the only device if there is but one
	models  map[string]map[string]*version
	old     map[*version]bool // retired, with requests or batches under way
	making  *version          // that is put on devices and is not served yet; nil for none
	flights map[*batch.Batch]*flight
	timer   *time.Timer
	armed   time.Duration // when the timer fires; -1 for never
	opening int           // models of the folder that have not been tried yet
	changed chan struct{} // has a token when models may have to be put on devices
	out     []batch.Decision
	closed  bool
}

// flight is a batch under way.
type flight struct {
	cancel  context.CancelFunc
	device  string
	started time.Time
	took    time.Duration
	outputs [][]Tensor // by item
	err     error
}

// New returns a service for a folder of models on a runtime, which must stay open until
// Close has returned. Models are loaded in the background: Ready says when they are.
func New(rt *weft.Runtime, o Options) (*Service, error) {
	o.Deadline = cmp.Or(o.Deadline, defaultDeadline)
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 10000)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxBatch < 0 || o.MaxWait < 0 || o.Depth < 0 {
		return nil, fmt.Errorf("infer: batches of %d, a wait of %v and a depth of %d: have none below zero", o.MaxBatch, o.MaxWait, o.Depth)
	}
	if o.Deadline < 0 || o.MaxWaiting < 0 {
		return nil, fmt.Errorf("infer: a deadline of %v and %d waiting requests: have neither below zero", o.Deadline, o.MaxWaiting)
	}
	s := &Service{
		rt: rt, o: o, start: time.Now(), triedAgain: triedFirst, m: batch.New(), armed: -1, loads: make(chan struct{}, 1), ended: make(chan struct{}), changed: make(chan struct{}, 1),
		models: make(map[string]map[string]*version), old: make(map[*version]bool), flights: make(map[*batch.Batch]*flight),
	}
	names, err := Names(o.Folder)
	if err != nil {
		return nil, err
	}
	s.m.MaxWaiting = o.MaxWaiting
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.open, s.shut = context.WithCancel(s.ctx)
	s.timer = time.AfterFunc(time.Hour, s.tick)
	s.timer.Stop()
	var all []string
	for _, d := range rt.Devices() {
		s.devices = append(s.devices, s.addDevice(d.Name, 1))
		all = append(all, d.Name)
	}
	s.any = s.devices[0]
	if len(s.devices) > 1 {
		s.any = s.addDevice(strings.Join(all, ","), len(s.devices))
	}
	s.follow()
	s.work.Add(1)
	s.opening = len(names)
	go func() {
		defer s.work.Done()
		for _, name := range names {
			if err := s.Load(s.open, name); err != nil && s.open.Err() == nil {
				o.Log.Error("a model is not served", "model", name, "err", err)
			}
			s.mu.Lock()
			s.opening--
			s.mu.Unlock()
		}
	}()
	return s, nil
}

func (s *Service) now() time.Duration { return time.Since(s.start) }

// tick is called by the timer.
func (s *Service) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = -1
	s.perform(s.m.Tick(s.now(), s.decided()))
}

// decided is room for decisions of the machine, until they are performed. s.mu is held.
func (s *Service) decided() []batch.Decision {
	out := s.out[:0]
	s.out = nil
	return out
}

// perform does what the machine decided, and has the timer fire when it wants to be asked
// again. s.mu is held.
func (s *Service) perform(decisions []batch.Decision) {
	for _, d := range decisions {
		if d.Kind == batch.Start {
			s.begin(d.Batch)
			continue
		}
		c := d.Item.Owner.(*call)
		n := c.v.counts
		switch d.Kind {
		case batch.Done:
			f := s.flights[d.Batch]
			c.outputs, c.batch, c.device, c.started, c.took = f.outputs[c.at], len(d.Batch.Items), f.device, f.started, f.took
			n.Succeeded++
			n.Queue.add(f.started.Sub(c.begun).Seconds())
			n.Compute.add(f.took.Seconds())
			n.Total.add(time.Since(c.begun).Seconds())
		case batch.Fail:
			c.err = fmt.Errorf("%w: model %s is being unloaded", ErrUnavailable, c.v.name)
			if f := s.flights[d.Batch]; f != nil && f.err != nil {
				c.err = fmt.Errorf("model %s: %w", c.v.name, f.err)
			}
			n.Failed++
		case batch.Expire:
			c.err = fmt.Errorf("model %s: %w", c.v.name, ErrExpired)
			n.Expired++
			s.doubt(c.v)
		case batch.Refuse:
			c.err = &BusyError{Model: c.v.name, RetryAfter: d.After}
			n.Refused++
		}
		close(c.done)
		s.release(c.v)
	}
	clear(decisions)
	s.out = decisions
	at, ok := s.m.Next()
	switch {
	case !ok:
		s.armed = -1
		s.timer.Stop()
	case at != s.armed:
		s.armed = at
		s.timer.Reset(max(at-s.now(), 0))
	}
}

// begin starts a batch. s.mu is held.
func (s *Service) begin(b *batch.Batch) {
	v := b.Model.Owner.(*version)
	v.pending++
	ctx, cancel := context.WithTimeout(s.ctx, v.config.Timeout)
	on := b.Device.Owner.(*device)
	f := &flight{cancel: cancel, device: on.name, started: time.Now()}
	s.flights[b] = f
	calls := make([]*call, len(b.Items))
	for i, it := range b.Items {
		calls[i] = it.Owner.(*call)
		calls[i].at = i
	}
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		defer cancel()
		outputs, err := v.run(ctx, on, calls)
		if err != nil {
			s.o.Log.Debug("a batch failed", "model", v.name, "version", v.number, "device", f.device, "requests", len(calls), "err", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		f.outputs, f.err, f.took = outputs, err, time.Since(f.started)
		if err == nil {
			v.counts.Batches++
			v.counts.Items += uint64(b.Examples())
		}
		s.batchEnded(ctx, v, err)
		s.perform(s.m.Ended(s.now(), b, err != nil, s.decided()))
		delete(s.flights, b)
		s.release(v)
	}()
}

// release counts a request or batch of a version that has ended. s.mu is held.
func (s *Service) release(v *version) {
	v.pending--
	if v.retired && v.pending == 0 {
		close(v.idle)
	}
}

// Infer answers a request, or says why it cannot: errors wrap ErrNotFound, ErrInvalid,
// ErrExpired or ErrUnavailable, are a [*BusyError], the cause of ctx, or what the batch
// failed with.
func (s *Service) Infer(ctx context.Context, r *Request) (*Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	begun := time.Now()
	s.mu.Lock()
	v, err := s.find(r.Model, r.Version)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	v.counts.Requests++
	v.pending++ // so that it stays until the request is over
	s.mu.Unlock()

	c := &call{v: v, begun: begun, done: make(chan struct{})}
	c.inputs, c.examples, err = v.arrange(r, c.first[:])
	deadline := r.Deadline
	if deadline.IsZero() {
		deadline = begun.Add(v.config.Deadline)
	}
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	c.item = batch.Item{Owner: c, Client: r.Client, Priority: r.Priority, Examples: c.examples, Deadline: deadline.Sub(s.start)}
	late, room := !deadline.After(time.Now()), true
	if err == nil && !late && r.Room != nil {
		err = r.Room.Take(v.outputs, c.examples)
		room = err == nil
	}
	s.mu.Lock()
	if err == nil && late {
		err = fmt.Errorf("model %s: %w", v.name, ErrExpired)
	}
	if err != nil {
		switch {
		case !room:
			v.counts.Refused++
		case errors.Is(err, ErrExpired):
			v.counts.Expired++
		default:
			v.counts.Invalid++
		}
		s.release(v)
		s.mu.Unlock()
		return nil, err
	}
	s.perform(s.m.Add(s.now(), v.mod, &c.item, s.decided()))
	s.mu.Unlock()

	defer c.leave()
	select {
	case <-c.done:
	case <-ctx.Done():
		if s.cancel(c, ctx) {
			return nil, c.err
		}
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.respond(r), nil
}

// cancel gives up the place of a call; false if it has its answer already.
func (s *Service) cancel(c *call, ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Its deadline may have passed as well, which the machine finds out by itself.
	now := s.now()
	s.perform(s.m.Tick(now, s.decided()))
	if c.item.Over() {
		return false
	}
	c.err = context.Cause(ctx)
	if errors.Is(c.err, context.DeadlineExceeded) {
		c.err = fmt.Errorf("model %s: %w", c.v.name, ErrExpired)
		c.v.counts.Expired++
	} else {
		c.v.counts.Cancelled++
	}
	s.perform(s.m.Cancel(now, &c.item, s.decided()))
	s.release(c.v)
	return true
}

// find returns the version of a model that a request means. s.mu is held.
func (s *Service) find(name, number string) (*version, error) {
	if s.closed {
		return nil, fmt.Errorf("%w: the service is closing", ErrUnavailable)
	}
	v := s.pick(name, number)
	if v == nil {
		return nil, missing(name, number)
	}
	if v.expected {
		return v, nil // the request waits for the device
	}
	return v, v.missing()
}

// missing says why a version does not take requests, nil if it does. s.mu is held.
func (v *version) missing() error {
	switch state, reason := v.now(); {
	case state == Failed:
		return fmt.Errorf("%w: %s", ErrUnavailable, reason)
	case reason != "":
		return fmt.Errorf("%w: model %s is %s: %s", ErrUnavailable, v.name, state, reason)
	case state != Ready:
		return fmt.Errorf("%w: model %s is %s", ErrUnavailable, v.name, state)
	}
	return nil
}

// now returns how far a version is: one whose devices all take no work is loading again. s.mu
// is held.
func (v *version) now() (State, string) {
	if v.state == Ready && !slices.ContainsFunc(v.devices, func(d *device) bool { return d.up }) {
		return Loading, errNoPlace.Error()
	}
	return v.state, v.reason
}

// pick returns a version of a model: without a number the newest that is ready, or will be as
// soon as it is on another device, or the newest if none is. It is nil if there is none. s.mu
// is held.
func (s *Service) pick(name, number string) (v *version) {
	versions := s.models[name]
	if number != "" {
		return versions[number]
	}
	ready := false
	for _, w := range versions {
		state, _ := w.now()
		if is := state == Ready || w.expected; v == nil || is && !ready || is == ready && byNumber(w.number, v.number) > 0 {
			v, ready = w, is
		}
	}
	return v
}

func missing(name, number string) error {
	if number != "" {
		return fmt.Errorf("%w: version %q of %q", ErrNotFound, number, name)
	}
	return fmt.Errorf("%w: %q", ErrNotFound, name)
}
