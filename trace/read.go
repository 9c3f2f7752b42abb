package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// ErrFormat says that what ReadChrome was given is not a trace weft wrote.
var ErrFormat = errors.New("not a trace written by weft")

// maxTime bounds times read from a file, about two years, so that adding them
// up does not overflow.
const maxTime = time.Duration(1) << 56

// Saved is a trace read back from a file.
type Saved struct {
	// Machine holds the devices' names, kinds, lanes, launch costs and
	// arithmetic rates; the file has nothing else of it.
	Machine *machine.Machine
	Events  []Event
	Names   Names
}

// chromeEvent is a trace event as ReadChrome needs it.
type chromeEvent struct {
	Name string      `json:"name"`
	Cat  string      `json:"cat"`
	Ph   string      `json:"ph"`
	Ts   json.Number `json:"ts"`
	Dur  json.Number `json:"dur"`
	Args *struct {
		Run       int32            `json:"run"`
		Task      graph.TaskID     `json:"task"`
		Device    machine.DeviceID `json:"device"`
		From      machine.DeviceID `json:"from"`
		Lane      uint8            `json:"lane"`
		Width     uint8            `json:"width"`
		Ready     time.Duration    `json:"ready_ns"`
		Issued    time.Duration    `json:"issued_ns"`
		InputsAt  time.Duration    `json:"inputs_ns"`
		Predicted time.Duration    `json:"predicted_ns"`
		End       time.Duration    `json:"end_ns"`
		Bytes     int64            `json:"bytes"`
		Failed    bool             `json:"failed"`
		Kernel    string           `json:"kernel"`
	} `json:"args"`
}

// ReadChrome reads a file written by WriteChrome. Anything else is an error
// that wraps ErrFormat and fits on a line.
func ReadChrome(r io.Reader) (*Saved, error) {
	s, err := readChrome(json.NewDecoder(r))
	if err != nil {
		return nil, fmt.Errorf("trace: %w: %w", ErrFormat, err)
	}
	return s, nil
}

func readChrome(dec *json.Decoder) (*Saved, error) {
	var header chromeHeader
	s := &Saved{}
	tasks, kernels := make(map[taskKey]string), make(map[taskKey]string)
	if err := expect(dec, '{'); err != nil {
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		switch key {
		case "otherData":
			err = dec.Decode(&header)
		case "traceEvents":
			err = s.readEvents(dec, tasks, kernels)
		default:
			err = dec.Decode(&json.RawMessage{})
		}
		if err != nil {
			return nil, err
		}
	}
	if err := expect(dec, '}'); err != nil {
		return nil, err
	}
	if header.Weft != formatVersion {
		return nil, fmt.Errorf("otherData.weft is %d, want %d", header.Weft, formatVersion)
	}
	s.Machine = &machine.Machine{Name: header.Machine, Devices: make([]machine.Device, len(header.Devices))}
	for d, dev := range header.Devices {
		s.Machine.Devices[d] = machine.Device{Name: dev.Name, Model: dev.Model, Backend: dev.Backend, Kind: dev.Kind, Lanes: dev.Lanes}
		s.Machine.Devices[d].Rates.LaunchNS = dev.LaunchNS
		s.Machine.Devices[d].Rates.Ops[graph.FP32] = dev.FP32
	}
	for i, e := range s.Events {
		if n := machine.DeviceID(len(header.Devices)); e.Device >= n || e.From >= n {
			return nil, fmt.Errorf("event %d names device %d of %d", i, max(e.Device, e.From), n)
		}
	}
	s.Names = Names{
		Task:   func(run int32, t graph.TaskID) string { return tasks[taskKey{run, t}] },
		Kernel: func(run int32, t graph.TaskID) string { return kernels[taskKey{run, t}] },
	}
	return s, nil
}

// readEvents reads the array of trace events and keeps those that are weft's
// own events; names, arrows and counters follow from them.
func (s *Saved) readEvents(dec *json.Decoder, tasks, kernels map[taskKey]string) error {
	if err := expect(dec, '['); err != nil {
		return err
	}
	for n := 0; dec.More(); n++ {
		var c chromeEvent
		if err := dec.Decode(&c); err != nil {
			return err
		}
		if c.Ph != "X" && c.Ph != "i" {
			continue
		}
		e, err := c.event()
		if err != nil {
			return fmt.Errorf("trace event %d: %w", n, err)
		}
		s.Events = append(s.Events, e)
		if e.Kind == Exec {
			tasks[taskKey{e.Run, e.Task}] = c.Name
			if c.Args.Kernel != "" {
				kernels[taskKey{e.Run, e.Task}] = c.Args.Kernel
			}
		}
	}
	return expect(dec, ']')
}

func (c *chromeEvent) event() (Event, error) {
	kind := slices.Index(kindNames[:], c.Cat)
	if kind < 0 {
		return Event{}, fmt.Errorf("unknown cat %q", c.Cat)
	}
	if c.Args == nil {
		return Event{}, errors.New("no args")
	}
	a := c.Args
	e := Event{Kind: Kind(kind), Failed: a.Failed, Lane: a.Lane, Width: a.Width, Device: a.Device, From: a.From,
		Run: a.Run, Task: a.Task, Ready: a.Ready, Issued: a.Issued, InputsAt: a.InputsAt,
		Predicted: a.Predicted, Bytes: a.Bytes, End: a.End}
	if e.Kind.lasts() != (c.Ph == "X") {
		return Event{}, fmt.Errorf("%v with ph %q", e.Kind, c.Ph)
	}
	if e.Device < machine.Host || e.From < machine.Host {
		return Event{}, fmt.Errorf("no device %d", min(e.Device, e.From))
	}
	var err error
	if e.Start, err = parseMicros(c.Ts.String()); err != nil {
		return Event{}, fmt.Errorf("ts: %w", err)
	}
	if e.Kind.lasts() {
		took, err := parseMicros(c.Dur.String())
		if err != nil || took < 0 {
			return Event{}, fmt.Errorf("dur %q is not a duration", c.Dur)
		}
		e.End = e.Start + took
	}
	for _, t := range [...]time.Duration{e.Ready, e.Issued, e.InputsAt, e.Predicted, e.Start, e.End} {
		if t > maxTime || t < -maxTime {
			return Event{}, fmt.Errorf("time %d ns is out of range", t)
		}
	}
	return e, nil
}

// parseMicros reads a time as appendMicros writes it.
func parseMicros(s string) (time.Duration, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, part, _ := strings.Cut(digits, ".")
	us, err := strconv.ParseUint(whole, 10, 63)
	ns, err2 := strconv.ParseUint((part + "000")[:max(3, len(part))], 10, 63)
	if err != nil || err2 != nil || len(part) > 3 || us > uint64(maxTime)/1000 {
		return 0, fmt.Errorf("%q is not a time in microseconds with up to three decimals", s)
	}
	t := time.Duration(us*1000 + ns)
	if negative {
		t = -t
	}
	return t, nil
}

func expect(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%q where %q should be", fmt.Sprint(got), want.String())
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
