package api

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// idempotencyKey is the header by which the server knows a submission it has seen.
const idempotencyKey = "Idempotency-Key"

// Submit starts a job and returns it, queued or running. It may be sent more than once if
// connections fail, and starts one job all the same.
func (c *Client) Submit(ctx context.Context, r JobRequest) (out Job, err error) {
	h := http.Header{}
	h.Set(idempotencyKey, rand.Text())
	return out, c.json(ctx, http.MethodPost, "/v1/jobs", h, r, &out)
}

// Jobs lists the jobs that the server remembers, the newest first.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	var out struct {
		Jobs []Job `json:"jobs"`
	}
	err := c.json(ctx, http.MethodGet, "/v1/jobs", nil, nil, &out)
	return out.Jobs, err
}

// Job returns a job as it is now.
func (c *Client) Job(ctx context.Context, id string) (out Job, err error) {
	return out, c.json(ctx, http.MethodGet, jobPath(id), nil, nil, &out)
}

// Cancel ends a job that is queued or running, and returns it. One that has ended stays as
// it is.
func (c *Client) Cancel(ctx context.Context, id string) (out Job, err error) {
	return out, c.json(ctx, http.MethodDelete, jobPath(id), nil, nil, &out)
}

// Result returns what came out of a job that has succeeded; of others it is an [Error] with
// status 409.
func (c *Client) Result(ctx context.Context, id string) (out JobResult, err error) {
	return out, c.json(ctx, http.MethodGet, jobPath(id)+"/result", nil, nil, &out)
}

func jobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }

// Watch returns what happens to a job, beginning with how it is now, until it has ended or
// ctx has. It connects again where a connection breaks. An error is the last of the
// sequence.
func (c *Client) Watch(ctx context.Context, id string) iter.Seq2[Event, error] {
	return c.events(ctx, jobPath(id)+"/events", func(e Event) bool { return e.Job != nil && e.Job.Over() })
}

// Events returns what happens at the server, to its devices and to all jobs, until ctx has
// ended.
func (c *Client) Events(ctx context.Context) iter.Seq2[Event, error] {
	return c.events(ctx, "/v1/events", func(Event) bool { return false })
}

// events reads a stream of events up to the last one, over as many connections as it takes.
func (c *Client) events(ctx context.Context, path string, last func(Event) bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		at, failed := "", 0
		for {
			h := http.Header{}
			h.Set("Accept", "text/event-stream")
			if at != "" {
				h.Set("Last-Event-ID", at)
			}
			resp, err := c.do(ctx, call{method: http.MethodGet, path: path, header: h, repeatable: true})
			if err != nil {
				yield(Event{}, err)
				return
			}
			over := false
			err = readEvents(resp.Body, func(e Event) bool {
				failed = 0
				if e.ID != "" {
					at = e.ID
				}
				over = !yield(e, nil) || last(e)
				return !over
			})
			resp.Body.Close()
			if over {
				return
			}
			failed++
			if bad := (*json.SyntaxError)(nil); errors.As(err, &bad) || failed > c.attempts || !pause(ctx, failed, nil) {
				if err == nil || ctx.Err() != nil {
					err = errors.Join(ctx.Err(), errStream)
				}
				yield(Event{}, err)
				return
			}
		}
	}
}

var errStream = errors.New("api: the stream of events ended")

// maxEvent is the longest line of a stream that is read, in bytes.
const maxEvent = 1 << 20

// readEvents reads server-sent events until the stream ends or fn returns false.
func readEvents(r io.Reader, fn func(Event) bool) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxEvent)
	id, data := "", ""
	for s.Scan() {
		name, value, _ := strings.Cut(s.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case s.Text() == "" && data != "":
			e := Event{ID: id}
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return fmt.Errorf("api: event %s: %w", strconv.Quote(id), err)
			}
			if data = ""; !fn(e) {
				return nil
			}
		case name == "id":
			id = value
		case name == "data":
			data += value
		}
	}
	return s.Err()
}
