// Package siege sends a service predictions at a rate while its worker processes are killed, and
// says what became of the requests. The service is the one of weft serve, over HTTP, on devices
// in workers (see package chaos); the load is open: a service that stalls has the stall in the
// latency of every request that arrived meanwhile.
//
// Files: siege.go (what is done), account.go (what came of it).
package siege

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/serve"
	"github.com/weft-run/weft/serve/load"
)

// Siege is a service under load whose workers are killed.
type Siege struct {
	Options weft.Options // Devices names what is in workers: cpu/2, fake/2 or GPUs
	Models  string       // folder with one model; "" for the reservoir of weft serve
	Rate    float64      // requests a second, at random times
	For     time.Duration
	// Every is the mean time between two kills, of which the times and the workers are drawn
	// from Seed. None comes before the device that was struck last is back, and none in the
	// last second.
	Every       time.Duration
	Seed        uint64
	Connections int           // of the load; 0 for 64
	Timeout     time.Duration // after which an answer is of no use; 0 for 10 s
	// Told, if it is not nil, is called after every kill with their number and the time since
	// the load began.
	Told func(kills int, since time.Duration)
}

// MaxRequests bounds the requests of a siege, each of which is remembered.
const MaxRequests = 50_000_000

// ErrOption is wrapped by errors of Run about what was asked for.
var ErrOption = errors.New("bad siege")

// valid finds mistakes before anything is opened.
func (s *Siege) valid() error {
	p := s.pace()
	switch err := p.Check(); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrOption, err)
	case s.Every < 10*time.Millisecond:
		return fmt.Errorf("%w: a kill every %v; it must be 10ms at least, as devices take a while to come back", ErrOption, s.Every)
	case s.Timeout < 0 || s.Timeout > time.Hour:
		return fmt.Errorf("%w: a timeout of %v; it must be from 1ms to 1h", ErrOption, s.Timeout)
	case s.Rate*s.For.Seconds() > MaxRequests:
		return fmt.Errorf("%w: %v requests a second for %v are more than %d", ErrOption, s.Rate, s.For, MaxRequests)
	}
	return nil
}

func (s *Siege) pace() load.Pace {
	return load.Pace{Rate: s.Rate, Arrivals: load.Poisson, WarmUp: warmUp, Duration: s.For, Seed: s.Seed}
}

// warmUp is the time for which requests arrive before they are measured.
const warmUp = time.Second

// request is one that was sent.
type request struct {
	due, end time.Time
	answered bool
}

// kill is a worker that was killed, and what followed. Times are zero if it did not.
type kill struct {
	at, lost, back time.Time
}

// field is a siege under way.
type field struct {
	*Siege
	rig    *chaos.Rig
	opened time.Time
	server *serve.Server

	mu       sync.Mutex
	requests []request
	kills    []*kill
	checked  int
	wrong    int
	broke    error // of the first request that was to be checked and failed
	failed   error // of what is around the load
}

// Run runs a siege. When ctx ends, the account is of what was done until then, with the cause.
func (s *Siege) Run(ctx context.Context) (a *Account, err error) {
	if err := s.valid(); err != nil {
		return nil, err
	}
	f := &field{Siege: s}
	config := serve.DefaultConfig()
	config.Models = s.Models
	config.Batch.Deadline = cmp.Or(serve.Duration(s.Timeout), config.Batch.Deadline)
	o, usual := s.Options, weft.Options{}
	if usual, err = config.Options(); err != nil {
		return nil, err
	}
	o.Ladder, o.HangTimeout = cmp.Or(o.Ladder, usual.Ladder), cmp.Or(o.HangTimeout, usual.HangTimeout)
	if f.rig, err = chaos.Open(ctx, o, chaos.Workers{}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.rig.Close()) }()
	f.opened = f.rig.Opened()
	config.Listen, config.GRPC = "127.0.0.1:0", "none"
	if f.server, err = serve.Open(f.rig.Runtime, config, serve.Options{}); err != nil {
		return nil, err
	}
	go f.server.Serve(context.WithoutCancel(ctx)) // Close returns its error
	defer func() { err = errors.Join(err, f.server.Close()) }()
	if err := f.server.Loaded(ctx); err != nil {
		return nil, err
	}
	return f.run(ctx)
}

// run loads the service, strikes and checks meanwhile.
func (f *field) run(ctx context.Context) (*Account, error) {
	target, err := load.ParseTarget(f.server.URL())
	if err != nil {
		return nil, err
	}
	client, err := load.Open(ctx, load.Options{Target: target, Binary: true, Connections: f.Connections, Timeout: f.Timeout, Seed: f.Seed, Each: f.ended})
	if err != nil {
		return nil, err
	}
	around, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer func() {
		stop()
		all.Wait()
	}()
	checker, err := f.checker(ctx)
	if err != nil {
		return nil, err
	}
	defer checker.Close()
	events := f.rig.Events(around, weft.EventDevice)
	all.Go(func() { f.watch(events) })
	all.Go(func() { f.check(around, checker) })
	all.Go(func() { f.strikes(around, time.Now().Add(warmUp)) })
	began := time.Now()
	r, err := client.Run(ctx, f.pace())
	took := time.Since(began)
	stop()
	all.Wait()
	if r == nil {
		return nil, err
	}
	if err == nil {
		err = f.failed
	}
	return f.account(r, took-warmUp), err
}

// ended notes a request of the load.
func (f *field) ended(due, end time.Time, answered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, request{due, end, answered})
}

// watch notes when devices are lost and come back.
func (f *field) watch(events func(func(weft.Event) bool)) {
	lost := make(map[string]*kill) // by device, that which it was lost by
	for e := range events {
		at := f.opened.Add(e.At)
		f.mu.Lock()
		switch i := len(f.kills) - 1; {
		case e.To == "lost" && i >= 0 && f.kills[i].lost.IsZero():
			f.kills[i].lost = at
			lost[e.Device] = f.kills[i]
		case e.To == "healthy" && lost[e.Device] != nil:
			lost[e.Device].back = at
			delete(lost, e.Device)
		}
		f.mu.Unlock()
	}
}

// strikes kills workers from a time on.
func (f *field) strikes(ctx context.Context, from time.Time) {
	rnd := rand.New(rand.NewPCG(f.Seed, 2))
	end := from.Add(f.For - time.Second)
	for at := from; ; {
		at = at.Add(f.Every/2 + time.Duration(rnd.Int64N(int64(f.Every))))
		if !at.Before(end) || !f.whole(ctx, at) {
			return
		}
		if at = time.Now(); !at.Before(end) {
			return
		}
		// The kill is noted before it happens, or its consequences might be seen first.
		k := &kill{at: at}
		f.mu.Lock()
		f.kills = append(f.kills, k)
		n := len(f.kills)
		f.mu.Unlock()
		struck, err := chaos.Any(rnd, chaos.Kill)
		f.mu.Lock()
		if k.at = struck; err != nil {
			f.kills = f.kills[:n-1] // events may have it still
		}
		if err != nil && !errors.Is(err, chaos.ErrNone) {
			f.failed = err
		}
		f.mu.Unlock()
		switch {
		case errors.Is(err, chaos.ErrNone): // the last has just died
			continue
		case err != nil:
			return
		}
		if f.Told != nil {
			f.Told(n, time.Since(from))
		}
	}
}

// whole waits until a time has come and no device is away; false if ctx ended first.
func (f *field) whole(ctx context.Context, at time.Time) bool {
	for {
		away := slices.ContainsFunc(f.rig.Devices(), func(d weft.Device) bool { return d.State != "healthy" && d.State != "spare" })
		if !away && !time.Now().Before(at) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(max(min(time.Until(at), time.Second), time.Millisecond)):
		}
	}
}

// question is a request whose answer is known.
type question struct {
	*api.Client
	request api.InferRequest
	answer  []api.Tensor
}

// checker asks the service something before it is struck.
func (f *field) checker(ctx context.Context) (*question, error) {
	c, err := api.NewClient(f.server.URL(), api.Options{Attempts: -1})
	if err != nil {
		return nil, err
	}
	q := &question{Client: c}
	q.request.Model = f.server.Models()[0].Name
	m, err := c.Model(ctx, q.request.Model, "")
	if err != nil {
		return nil, err
	}
	rnd := rand.New(rand.NewPCG(f.Seed, 3))
	for _, spec := range m.Inputs {
		shape := slices.Clone(spec.Shape)
		for i, n := range shape {
			shape[i] = max(n, 1)
		}
		n, err := api.Elements(shape)
		if err != nil {
			return nil, err
		}
		t := api.Tensor{Name: spec.Name, Datatype: spec.Datatype, Shape: shape, Data: make([]byte, n*api.ElementSize(spec.Datatype))}
		if spec.Datatype == "FP32" {
			values := make([]float32, n)
			for i := range values {
				values[i] = rnd.Float32()
			}
			t = api.NewTensor(spec.Name, values, shape...)
		}
		q.request.Inputs = append(q.request.Inputs, t)
	}
	r, err := c.Infer(ctx, &q.request)
	if err != nil {
		return nil, fmt.Errorf("before any worker is killed: %w", err)
	}
	q.answer = r.Outputs
	return q, nil
}

// checkEvery is the interval at which an answer is compared with the expected one.
const checkEvery = 20 * time.Millisecond

// check asks the same again and again.
func (f *field) check(ctx context.Context, q *question) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(checkEvery):
		}
		r, err := q.Infer(ctx, &q.request)
		if ctx.Err() != nil {
			return
		}
		f.mu.Lock()
		switch {
		case err != nil:
			if f.broke == nil {
				f.broke = err
			}
		case !slices.EqualFunc(r.Outputs, q.answer, func(a, b api.Tensor) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) }):
			f.wrong++
			fallthrough
		default:
			f.checked++
		}
		f.mu.Unlock()
	}
}
