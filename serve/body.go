package serve

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// orderBytes is the most bytes of a body that orders something and has no tensors. What is
// ordered is remembered.
const orderBytes = 1 << 20

// firstBytes is the memory that is reserved for a body before any of it has arrived. From then on a
// body has at most twice as much as has arrived, so that clients that announce much
// and send little take little from others.
const firstBytes = 16 << 10

// buffers are those of bodies that fit into what is reserved first, with room for a byte
// more. The service has no use for inputs once it has answered.
var buffers = sync.Pool{New: func() any { return new([firstBytes + 1]byte) }}

// hold is the memory that a body has, with the tensors that are made of it and the answer, of that for the
// bodies of all requests under way.
type hold struct {
	s     *Server
	who   *client // nil for a probe, which has no share
	bytes int64
	first *[firstBytes + 1]byte // of buffers; nil if there is none
	// secret says that memory of the body is cleared when it is released.
	secret bool
	body   []byte
}

// hold returns one for a request, without memory yet.
func (s *Server) hold(ctx context.Context) *hold {
	h := &hold{s: s}
	if a, ok := ctx.Value(askedKey{}).(*asked); ok {
		h.who = a.who
	}
	return h
}

// take reserves more memory, or none.
func (h *hold) take(n int64) error {
	all, mine := h.reserve(n)
	var err error
	switch {
	case h.bytes > h.s.mostOfOne():
		err = failf(http.StatusRequestEntityTooLarge, "the request takes more than %d bytes of memory with its tensors and its answer: send binary data and ask for it, or for less in one request, or raise limits.bodies", h.s.mostOfOne())
	case all > int64(h.s.limits.Bodies):
		err = busyf(http.StatusServiceUnavailable, time.Second, "the bodies of requests and answers under way take all of the memory for them: try again, or raise limits.bodies")
	case mine > h.s.mostOfOne():
		err = busyf(http.StatusServiceUnavailable, time.Second, "the bodies of your requests and their answers under way take more than %d bytes: send fewer at a time and read the answers, or raise limits.bodies", h.s.mostOfOne())
	}
	if err != nil {
		h.reserve(-n) // nothing was made that would have to be collected
		return err
	}
	h.s.garbage.collect(n)
	return nil
}

// reserve counts memory, and returns what all requests and those of the client have then.
func (h *hold) reserve(n int64) (all, mine int64) {
	h.bytes += n
	if h.who != nil {
		mine = h.who.held.Add(n)
	}
	return h.s.bodies.Add(n), mine
}

// release gives it all back, once.
func (h *hold) release() { h.keep(0) }

// keep gives back the body, and all memory but some bytes, which may also be more than were taken.
func (h *hold) keep(bytes int64) {
	if h.secret {
		clear(h.body[:cap(h.body)])
		if h.first != nil {
			clear(h.first[:])
		}
	}
	if h.first != nil {
		buffers.Put(h.first)
	}
	h.first, h.body = nil, nil
	back := h.bytes - bytes
	h.reserve(-back)
	h.s.garbage.add(back)
}

// mostOfOne is the most memory that bodies of one client have: half of what all have, and at least
// one body of the longest.
func (s *Server) mostOfOne() int64 { return max(int64(s.limits.Bodies)/2, int64(s.limits.Body)) }

// body reads the body of a request, of one of some types, within limits of size and time.
// The caller calls done when it needs the bytes no more.
func (s *Server) body(w http.ResponseWriter, r *http.Request, limit int64, types ...string) (b []byte, done func(), err error) {
	b, h, err := s.heldBody(w, r, limit, types)
	if err != nil {
		return nil, nil, err
	}
	return b, h.release, nil
}

// heldBody is body with what it holds, for what is made of it. The caller releases that.
func (s *Server) heldBody(w http.ResponseWriter, r *http.Request, limit int64, types []string) ([]byte, *hold, error) {
	h := s.hold(r.Context())
	b, err := s.bodyInto(h, w, r, limit, types)
	if err != nil {
		h.release()
		return nil, nil, err
	}
	return b, h, nil
}

// bodyInto is heldBody with a hold that is there already, which the caller releases, also after an
// error.
func (s *Server) bodyInto(h *hold, w http.ResponseWriter, r *http.Request, limit int64, types []string) ([]byte, error) {
	limit = min(limit, int64(s.limits.Body))
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	// Without a type it is taken: a page that sends none still has an Origin.
	if kind := r.Header.Get("Content-Type"); kind != "" && !slices.Contains(types, kind) {
		kind, _, err := mime.ParseMediaType(kind)
		if err != nil || !slices.Contains(types, kind) {
			return nil, failf(http.StatusUnsupportedMediaType, "Content-Type %s: send %s", quoted(r.Header.Get("Content-Type")), strings.Join(types, " or "))
		}
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, failf(http.StatusUnsupportedMediaType, "Content-Encoding %s: send the body as it is", quoted(enc))
	}
	b, err := h.read(http.MaxBytesReader(direct(w), r.Body, limit), r.ContentLength, limit)
	if err != nil {
		return nil, s.unread(err, limit)
	}
	// The guard has set it. Writers of tests have none.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return b, nil
}

// read reads a body of a length, -1 if that is not known, and reserves memory as it comes.
func (h *hold) read(from io.Reader, length, limit int64) ([]byte, error) {
	if length < 0 {
		length = limit // at most
	}
	room := min(length, firstBytes)
	if err := h.take(room); err != nil {
		return nil, err
	}
	h.first = buffers.Get().(*[firstBytes + 1]byte)
	b := h.first[: 0 : room+1] // a byte more, for its end to be seen
	h.body = b
	for {
		if len(b) == cap(b) {
			more := min(2*room, length)
			if err := h.take(more - room); err != nil {
				return nil, err
			}
			old := b
			had := room
			room, b = more, append(make([]byte, 0, more+1), b...)
			if h.secret {
				clear(old)
			}
			if h.body = b; had > firstBytes { // it is not of buffers
				h.s.garbage.add(had)
			}
		}
		n, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// unread says why a body was not read.
func (s *Server) unread(err error, limit int64) error {
	var f failure
	timeout := net.Error(nil)
	switch large := (*http.MaxBytesError)(nil); {
	case errors.As(err, &f):
		return f
	case errors.As(err, &large):
		return tooLarge(limit)
	case errors.As(err, &timeout) && timeout.Timeout():
		return failf(http.StatusRequestTimeout, "the body did not arrive within %v: send it faster, or raise limits.read_time", time.Duration(s.limits.ReadTime))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badf("the body ended early: send as many bytes as Content-Length says, or a last chunk")
	}
	return badf("the body could not be read: %w", err)
}

func tooLarge(limit int64) error {
	return failf(http.StatusRequestEntityTooLarge, "the body has more than %d bytes: send less in one request, or raise limits.body", limit)
}
