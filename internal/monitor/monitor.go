// Package monitor shows what a runtime does to another process of the same user: a Unix
// socket, and lines of JSON over it.
//
//	client: {"weft":1,"every_ms":500}                 once, within 5 s
//	server: {"weft":1,"pid":42,"program":"…", …}      a Frame, every so often
//	server: {"weft":1,"error":"…"}                    in place of a frame: it is the last line
//
// Each side gives the version it speaks in "weft", and refuses others. Fields that a reader
// does not know it skips, so that fields can be added without a new version. A line has at
// most 4 KiB from the client and 1 MiB from the server, lists have at most 1000 elements
// and texts at most 512 bytes; whoever is sent more ends the connection. The server reads
// nothing after the first line.
//
// The socket has mode 0600 in a folder that only its user can enter, and the server asks
// the system whose process connects: it serves its own user alone. A client that does not
// read for 2 s is dropped. The socket is removed when the runtime is closed; what processes
// that were killed left behind is removed by the next one that listens there, but nothing that
// somebody listens at.
//
// Files: monitor.go (the protocol), socket.go (where sockets are), server.go, client.go,
// peer_*.go (who is at the other end).
package monitor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Version is the protocol's.
const Version = 1

const (
	maxRequest = 4 << 10 // bytes of the client's line
	maxFrame   = 1 << 20 // bytes of a line of the server
	maxList    = 1000    // elements of a list in a frame
	maxText    = 512     // bytes of a text in a frame
)

// ErrProtocol is wrapped by every error about what the other side sent.
var ErrProtocol = errors.New("not what weft sends")

// Request is the request of a client.
type Request struct {
	Weft    int `json:"weft"`     // Version
	EveryMS int `json:"every_ms"` // milliseconds from one frame to the next
}

// Frame is the activity of a runtime at one time. Durations are in seconds.
type Frame struct {
	Weft    int      `json:"weft"` // Version
	Error   string   `json:"error,omitempty"`
	PID     int      `json:"pid,omitempty"`
	Program string   `json:"program,omitempty"`
	Uptime  float64  `json:"uptime_seconds,omitempty"`
	Totals  []Value  `json:"totals,omitempty"` // since the runtime was opened
	Devices []Device `json:"devices,omitempty"`
	Runs    []Run    `json:"runs,omitempty"` // in progress, the oldest first
	MoreRun int64    `json:"more_runs,omitempty"`
	Tasks   []Task   `json:"running,omitempty"` // that devices run
	Events  []Event  `json:"events,omitempty"`  // since the frame before
	Missed  uint64   `json:"missed,omitempty"`  // events before these that were dropped
}

// Value is a figure with its name. What shows it goes by the unit alone, so that a new
// figure is one more element of a list and nothing else.
type Value struct {
	Name string  `json:"name"`
	Unit string  `json:"unit,omitempty"` // "%", "B", "s", "°C", "W"; "" for a count
	V    float64 `json:"value"`          // negative if it is not known
	Of   float64 `json:"of,omitempty"`   // the most that V can be; 0 if that is not known
}

// Device is a device and its figures.
type Device struct {
	Name   string  `json:"name"`
	State  string  `json:"state"`
	Values []Value `json:"values"`
}

// Run is a run in progress.
type Run struct {
	Run     int64   `json:"run"`
	Tasks   int     `json:"tasks"`
	Done    int     `json:"done"`
	Running int     `json:"running"`
	Bytes   int64   `json:"bytes_moved"`
	Elapsed float64 `json:"elapsed_seconds"`
	Part    float64 `json:"part"`         // of the predicted work, 0 to 1
	Left    float64 `json:"left_seconds"` // an estimate; negative if there is none
}

// Task is a task that a device runs.
type Task struct {
	Device    string  `json:"device"`
	Run       int64   `json:"run"`
	Task      string  `json:"task"`
	For       float64 `json:"for_seconds"`
	Predicted float64 `json:"predicted_seconds"`
}

// Event is something that happened.
type Event struct {
	At   float64 `json:"at_seconds"` // since the runtime was opened
	Kind string  `json:"kind"`
	Text string  `json:"text"`
}

// reader reads lines of a bounded length.
type reader struct {
	b   *bufio.Reader
	max int
}

func newReader(r io.Reader, max int) *reader { return &reader{bufio.NewReader(r), max} }

// line returns the next line, without its end.
func (r *reader) line() ([]byte, error) {
	var out []byte
	for {
		part, err := r.b.ReadSlice('\n')
		if len(out)+len(part) > r.max {
			return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, r.max)
		}
		out = append(out, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(out, []byte("\n")), nil
		case errors.Is(err, io.EOF) && len(out) > 0:
			return nil, fmt.Errorf("%w: %w", ErrProtocol, io.ErrUnexpectedEOF)
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// readRequest reads the client's line.
func readRequest(r io.Reader) (q Request, err error) {
	line, err := newReader(r, maxRequest).line()
	if err != nil {
		return q, err
	}
	if err := json.Unmarshal(line, &q); err != nil {
		return q, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return q, checkVersion(q.Weft)
}

func checkVersion(v int) error {
	if v != Version {
		return fmt.Errorf("%w: version %d of the protocol, this is %d; use the same weft on both sides", ErrProtocol, v, Version)
	}
	return nil
}

// frame reads a line of the server.
func (r *reader) frame() (*Frame, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	f := new(Frame)
	if err := json.Unmarshal(line, f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err := checkVersion(f.Weft); err != nil {
		return nil, err
	}
	return f, f.visit(func(s *string) error {
		if len(*s) > maxText {
			return fmt.Errorf("%w: a text of %d bytes", ErrProtocol, len(*s))
		}
		*s = printable(*s)
		return nil
	})
}

// visit calls fn with every text of a frame, and errs if a list is too long.
func (f *Frame) visit(fn func(*string) error) error {
	lists := []int{len(f.Totals), len(f.Devices), len(f.Runs), len(f.Tasks), len(f.Events)}
	texts := []*string{&f.Error, &f.Program}
	values := func(vs []Value) {
		for i := range vs {
			texts = append(texts, &vs[i].Name, &vs[i].Unit)
		}
	}
	values(f.Totals)
	for i := range f.Devices {
		d := &f.Devices[i]
		texts = append(texts, &d.Name, &d.State)
		values(d.Values)
		lists = append(lists, len(d.Values))
	}
	for i := range f.Tasks {
		texts = append(texts, &f.Tasks[i].Device, &f.Tasks[i].Task)
	}
	for i := range f.Events {
		texts = append(texts, &f.Events[i].Kind, &f.Events[i].Text)
	}
	for _, n := range lists {
		if n > maxList {
			return fmt.Errorf("%w: a list of %d elements", ErrProtocol, n)
		}
	}
	for _, s := range texts {
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

// printable replaces what would not show, or would command a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsGraphic(r) {
			return '.'
		}
		return r
	}, s)
}

// encode makes the line of a frame, within what readers take: texts are cut, and the ends
// of lists left out.
func encode(f *Frame) ([]byte, error) {
	f.Weft = Version
	f.Totals, f.Devices, f.Runs = short(f.Totals), short(f.Devices), short(f.Runs)
	f.Tasks, f.Events = short(f.Tasks), short(f.Events)
	for i := range f.Devices {
		f.Devices[i].Values = short(f.Devices[i].Values)
	}
	err := f.visit(func(s *string) error {
		if *s = printable(*s); len(*s) > maxText {
			*s = strings.ToValidUTF8((*s)[:maxText-len("…")], "") + "…"
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(f)
	if err == nil && len(line) >= maxFrame { // more than a thousand devices with long names
		f.Devices, f.Runs, f.Tasks, f.Events = nil, nil, nil, nil
		f.Error = "there is too much to show"
		line, err = json.Marshal(f)
	}
	return append(line, '\n'), err
}

func short[T any](list []T) []T { return list[:min(len(list), maxList)] }
