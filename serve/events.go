package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
)

const (
	keptEvents  = 1024    // events that a reader who comes back can still get
	waitingPer  = 256     // events that wait for one reader; a slower one is dropped
	eventBytes  = 4 << 20 // of events that are kept, and of those that wait for one reader: an event has all of its job
	heartbeat   = 15 * time.Second
	eventsPath  = "text/event-stream"
	lastEventID = "Last-Event-ID"
)

// hub hands events to those who watch. It keeps the latest, so that a reader that lost its
// connection can go on, and drops readers that are too slow: nothing waits for them.
type hub struct {
	epoch string // of this process, so that numbers of an earlier one are not taken for its own

	mu     sync.Mutex
	last   uint64   // number of the latest event
	kept   []notice // the latest, oldest first
	bytes  int      // of these
	subs   map[*watcher]struct{}
	closed bool
}

// notice is an event as it is sent.
type notice struct {
	number uint64
	kind   string
	job    string // its id; "" for none
	over   bool   // the job has ended
	data   []byte
}

// watcher is a reader. Its channel is closed when it is dropped and when the hub closes.
type watcher struct {
	job string // the only one it is told of; "" for everything
	ch  chan notice
	// waiting are the bytes of events that wait.
	waiting atomic.Int64
}

func newHub() *hub {
	return &hub{epoch: strconv.FormatInt(time.Now().UnixNano(), 36), subs: make(map[*watcher]struct{})}
}

// tell hands out an event.
func (h *hub) tell(e api.Event) {
	e.Time = time.Now().UTC()
	data, err := json.Marshal(e)
	if err != nil {
		panic("serve: " + err.Error()) // it has texts and numbers alone
	}
	n := notice{kind: e.Kind, data: data}
	if e.Job != nil {
		n.job, n.over = e.Job.ID, e.Job.Over()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.last++
	n.number = h.last
	h.kept, h.bytes = append(h.kept, n), h.bytes+len(n.data)
	for len(h.kept) > keptEvents || h.bytes > eventBytes && len(h.kept) > 1 {
		h.bytes -= len(h.kept[0].data)
		h.kept = slices.Delete(h.kept, 0, 1)
	}
	for w := range h.subs {
		if w.job != "" && w.job != n.job {
			continue
		}
		if more := int64(len(n.data)); w.waiting.Add(more) > eventBytes && w.waiting.Load() > more {
			h.drop(w)
			continue
		}
		select {
		case w.ch <- n:
		default:
			h.drop(w)
		}
	}
}

// watch adds a reader that has seen events up to an id of this hub, or nothing. missed is
// how many events after that are not kept any more.
func (h *hub) watch(job, seen string) (w *watcher, before []notice, missed uint64, at uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w = &watcher{job: job, ch: make(chan notice, waitingPer)}
	if h.closed {
		close(w.ch)
		return w, nil, 0, h.last
	}
	h.subs[w] = struct{}{}
	from, ok := h.number(seen)
	if !ok {
		return w, nil, 0, h.last
	}
	for _, n := range h.kept {
		if n.number > from && (job == "" || n.job == job) {
			before = append(before, n)
		}
	}
	if len(h.kept) > 0 && job == "" && h.kept[0].number > from+1 {
		missed = h.kept[0].number - from - 1
	}
	return w, before, missed, h.last
}

// number reads an id.
func (h *hub) number(id string) (uint64, bool) {
	epoch, n, ok := strings.Cut(id, "-")
	if !ok || epoch != h.epoch {
		return 0, false
	}
	x, err := strconv.ParseUint(n, 10, 64)
	return x, err == nil && x <= h.last
}

func (h *hub) id(number uint64) string { return fmt.Sprintf("%s-%d", h.epoch, number) }

// drop removes a reader, with the lock held.
func (h *hub) drop(w *watcher) {
	if _, ok := h.subs[w]; ok {
		delete(h.subs, w)
		close(w.ch)
	}
}

// leave removes a reader.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(w)
}

// close ends all streams.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for w := range h.subs {
		h.drop(w)
	}
}

// relayed are the events of a runtime that are worth telling: what happens to devices, and
// failures. Those of every task and batch would drown them.
var relayed = []weft.EventKind{weft.EventDevice, weft.EventRule, weft.EventTaskFailed, weft.EventTaskRetried, weft.EventTaskReplayed}

// relay tells what happens in a runtime until ctx ends.
func (h *hub) relay(ctx context.Context, rt *weft.Runtime) {
	for e := range rt.Events(ctx, relayed...) {
		h.tell(api.Event{Kind: api.EventRuntime, Text: e.String(), Device: e.Device})
	}
}

// stream answers with events: all, or those of a job, which begin with how it is now.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, job string) error {
	if s.streams.Add(1) > int64(s.limits.Streams) {
		s.streams.Add(-1)
		return busyf(http.StatusServiceUnavailable, 5*time.Second, "%d streams of events are open, and no more are allowed", s.limits.Streams)
	}
	defer s.streams.Add(-1)
	sub, before, missed, at := s.hub.watch(job, r.Header.Get(lastEventID))
	defer s.hub.leave(sub)
	out := &eventWriter{server: s, w: w, control: http.NewResponseController(w)}
	if job != "" {
		j, err := s.jobs.get(job) // after watch, so that nothing falls between
		if err != nil {
			return err
		}
		data, err := json.Marshal(api.Event{Kind: api.EventJob, Time: time.Now().UTC(), Job: &j})
		if err != nil {
			return err
		}
		before = append([]notice{}, notice{number: at, kind: api.EventJob, job: job, over: j.Over(), data: data})
	}
	h := w.Header()
	h.Set("Content-Type", eventsPath)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // of a proxy
	w.WriteHeader(http.StatusOK)
	if missed > 0 {
		data, err := json.Marshal(api.Event{Kind: api.EventMissed, Time: time.Now().UTC(), Missed: missed})
		if err != nil {
			return err
		}
		out.comment(fmt.Sprintf("event: %s\ndata: %s\n\n", api.EventMissed, data))
	}
	for _, n := range before {
		if !out.send(n) || job != "" && n.over {
			return nil
		}
	}
	out.comment(": here\n\n") // so that the client sees that it is connected
	s.follow(r.Context(), sub, out, job != "")
	return nil
}

// follow sends what comes until the client goes, is too slow, or its job has ended.
func (s *Server) follow(ctx context.Context, sub *watcher, out *eventWriter, single bool) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for !out.failed {
		select {
		case n, ok := <-sub.ch:
			if !ok {
				out.comment(": too slow, or the server ends: come back with Last-Event-ID\n\n")
				return
			}
			sub.waiting.Add(-int64(len(n.data)))
			if out.send(n); single && n.over {
				return
			}
		case <-beat.C:
			out.comment(":\n\n")
		case <-ctx.Done():
			return
		}
	}
}

// eventWriter writes server-sent events, each within the time for an answer.
type eventWriter struct {
	server  *Server
	w       http.ResponseWriter
	control *http.ResponseController
	failed  bool
}

func (o *eventWriter) send(n notice) bool {
	o.comment(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", o.server.hub.id(n.number), n.kind, n.data))
	return !o.failed
}

// comment writes text as it is.
func (o *eventWriter) comment(text string) {
	if o.failed {
		return
	}
	o.server.hurry(o.w)
	_, err := o.w.Write([]byte(text))
	if err == nil {
		err = o.control.Flush()
	}
	o.failed = err != nil
}
