package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// sampleEvery is the time between two frames.
	sampleEvery = time.Second
	// maxReaders is the greatest number of streams at a time: each is a connection that stays.
	maxReaders = 64
	// writeWait is how long a reader may take to accept a frame before it is taken for gone.
	writeWait = 15 * time.Second
)

// sampler looks at the runtime once for all readers of streams, while there are any.
type sampler struct {
	d     *dashboard
	every time.Duration // between two frames
	wait  time.Duration // for a reader to accept a frame

	mu      sync.Mutex
	readers int
	cancel  context.CancelFunc // of the goroutine that samples; nil without readers
	ended   chan struct{}      // closed when that goroutine has ended
	latest  *frame
	newer   chan struct{} // closed when latest is replaced
}

func (s *sampler) init(d *dashboard) {
	s.d, s.every, s.wait, s.newer = d, sampleEvery, writeWait, make(chan struct{})
	s.ended = make(chan struct{})
	close(s.ended)
}

// join adds a reader; false if there are too many. With the first one sampling begins.
func (s *sampler) join() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers == maxReaders {
		return false
	}
	if s.readers++; s.readers == 1 {
		ctx, cancel := context.WithCancel(context.Background())
		before, ended := s.ended, make(chan struct{})
		s.cancel, s.ended = cancel, ended
		go func() {
			defer close(ended)
			<-before
			s.run(ctx)
		}()
	}
	return true
}

// leave removes a reader. With the last one sampling ends, and has ended when leave returns.
func (s *sampler) leave() {
	s.mu.Lock()
	s.readers--
	ended := s.ended
	last := s.readers == 0
	if last {
		s.cancel()
		s.latest = nil // a later reader gets no old frame
	}
	s.mu.Unlock()
	if last {
		<-ended
	}
}

// run makes frames until the context ends.
func (s *sampler) run(ctx context.Context) {
	var collected sync.WaitGroup
	collected.Go(func() { s.d.collect(ctx) })
	defer collected.Wait()
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for last := (*frame)(nil); ctx.Err() == nil; {
		last = newFrame(s.d.look(), last)
		s.mu.Lock()
		if ctx.Err() == nil {
			s.latest = last
			close(s.newer)
			s.newer = make(chan struct{})
		}
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// next waits for a frame after a given one; nil if the context ends or the runtime is closed.
func (s *sampler) next(ctx context.Context, after *frame) *frame {
	for {
		s.mu.Lock()
		f, newer := s.latest, s.newer
		s.mu.Unlock()
		if f != nil && f != after {
			return f
		}
		var closed <-chan struct{}
		if s.d.rt != nil {
			closed = s.d.rt.Done()
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return nil
		case <-closed:
			return nil
		}
	}
}

// serve sends frames until the reader goes. A slow one gets fewer of them.
func (s *sampler) serve(w http.ResponseWriter, r *http.Request) {
	if !s.join() {
		w.Header().Set("Retry-After", "10")
		refuse(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d pages are watching already; close one of them", maxReaders))
		return
	}
	defer s.leave()
	c := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies pass frames on at once
	var last *frame
	for {
		f := s.next(r.Context(), last)
		if f == nil {
			return
		}
		_ = c.SetWriteDeadline(time.Now().Add(s.wait)) // where it cannot be set, the server's own holds
		if _, err := w.Write(f.event(last)); err != nil || c.Flush() != nil {
			return
		}
		last = f
	}
}

// frame is a state as streams send it: whole, or as what changed since the frame before.
type frame struct {
	state  *pageState
	before *pageState // nil where only the whole will do
	jobs   map[string]pageJob

	delta []byte
	whole sync.Once
	full  []byte
}

// newFrame makes the frame after another, nil for none. It keeps nothing of that one but
// its state, which goes with the next.
func newFrame(state *pageState, before *frame) *frame {
	f := &frame{state: state, jobs: make(map[string]pageJob, len(state.Jobs))}
	for _, j := range state.Jobs {
		f.jobs[j.ID] = j
	}
	if before == nil || before.state.Started != state.Started {
		return f
	}
	for id := range before.jobs {
		if _, ok := f.jobs[id]; !ok {
			return f // a delta cannot say that a job is gone
		}
	}
	part := *state
	part.Machine, part.History, part.Jobs, part.Events = nil, nil, nil, nil
	for _, j := range state.Jobs {
		if j != before.jobs[j.ID] {
			part.Jobs = append(part.Jobs, j)
		}
	}
	seen := uint64(0)
	if n := len(before.state.Events); n > 0 {
		seen = before.state.Events[n-1].N
	}
	for _, e := range state.Events {
		if e.N > seen {
			part.Events = append(part.Events, e)
		}
	}
	f.before, f.delta = before.state, encode("delta", &part)
	return f
}

// event returns what a reader is sent that had the given frame last.
func (f *frame) event(had *frame) []byte {
	if had != nil && f.before == had.state {
		return f.delta
	}
	f.whole.Do(func() { f.full = encode("full", f.state) })
	return f.full
}

// encode writes a server-sent event.
func encode(kind string, s *pageState) []byte {
	body, err := json.Marshal(s)
	if err != nil { // a number that JSON does not have: finite lets none through
		body = []byte("null")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, body)
	return b.Bytes()
}
