package pipeline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/trace"
)

// Report is the account of a run.
type Report struct {
	Items   int // handed over, those that failed included
	Failed  int
	Elapsed time.Duration
	Stages  []StageReport
	Spans   []Span // by start, the first Options.Spans of them
	// Bubble is the part of the workers' time that was idle between the first
	// start of any and the last end: of S equal stages with a worker each and m
	// items it is (S-1)/(S-1+m) at least, since the last stage must wait for the
	// first item and the first for the last.
	Bubble float64

	first, last time.Duration // start and end of any work
	worked      bool
}

// StageReport describes the work of a stage. Times are sums over its workers.
type StageReport struct {
	Name    string
	Workers int
	Items   int // it worked on
	Failed  int
	Busy    time.Duration // in Do
	Starved time.Duration // waiting for items
	Blocked time.Duration // waiting for room in the next queue
	// Devices are those a stage of OnDevices ran on, and DeviceBubble the part
	// of their time that was idle between the first start and the last end.
	Devices      []DeviceUse
	DeviceBubble float64
}

// DeviceUse describes the work of a stage on one device.
type DeviceUse struct {
	Name  string
	Tasks int
	Busy  time.Duration
}

// Span is a stage's work on an item, in time since the run began.
type Span struct {
	Stage, Worker, Item int
	Start, End          time.Duration
}

func (s *StageReport) add(o *StageReport) {
	s.Items += o.Items
	s.Failed += o.Failed
	s.Busy += o.Busy
	s.Starved += o.Starved
	s.Blocked += o.Blocked
}

// seen widens the time between the first start and the last end.
func (r *Report) seen(s Span) {
	if !r.worked || s.Start < r.first {
		r.first = s.Start
	}
	r.last, r.worked = max(r.last, s.End), true
}

// finish completes the report of a run that has ended.
func (r *Report) finish(elapsed time.Duration, uses []*use) *Report {
	r.Elapsed = elapsed
	var busy, there time.Duration
	for i := range r.Stages {
		s := &r.Stages[i]
		busy += s.Busy
		there += time.Duration(s.Workers) * (r.last - r.first)
		if uses[i] != nil {
			s.Devices, s.DeviceBubble = uses[i].end()
		}
	}
	if there > 0 {
		r.Bubble = 1 - float64(busy)/float64(there)
	}
	slices.SortFunc(r.Spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Stage, b.Stage))
	})
	return r
}

// Slowest is the stage that bounds the rate of the stream: the one whose workers
// need most time for an item.
func (r *Report) Slowest() *StageReport {
	return &r.Stages[slices.IndexFunc(r.Stages, func(s StageReport) bool { return s.each() == r.slowest() })]
}

func (s *StageReport) each() time.Duration {
	return s.Busy / time.Duration(max(s.Items*s.Workers, 1))
}

func (r *Report) slowest() (most time.Duration) {
	for i := range r.Stages {
		most = max(most, r.Stages[i].each())
	}
	return most
}

// WriteTrace writes the spans kept as a trace for ui.perfetto.dev and weft trace,
// in which every stage is a device and its workers are its lanes: what overlaps
// stands above one another, and arrows lead from an item's stage to its next.
func (r *Report) WriteTrace(w io.Writer) error {
	m := &machine.Machine{Name: "pipeline"}
	for _, s := range r.Stages {
		m.Devices = append(m.Devices, machine.Device{Name: s.Name, Kind: machine.CPU, Lanes: s.Workers, HostMemory: true})
	}
	type key struct{ stage, item int }
	ended := make(map[key]time.Duration)
	for _, s := range r.Spans {
		ended[key{s.Stage, s.Item}] = s.End
	}
	var evs []trace.Event
	for _, s := range r.Spans {
		ready, ok := ended[key{s.Stage - 1, s.Item}]
		if !ok {
			ready = s.Start
		}
		evs = append(evs, trace.Event{
			Kind: trace.Exec, Device: machine.DeviceID(s.Stage), Lane: uint8(s.Worker),
			Run: int32(s.Stage) + 1, Task: graph.TaskID(s.Item),
			Ready: ready, Issued: ready, InputsAt: ready, Start: s.Start, End: s.End,
		})
	}
	return trace.WriteChrome(w, m, evs, trace.Names{
		Task:   func(_ int32, t graph.TaskID) string { return fmt.Sprintf("item %d", t) },
		Kernel: func(run int32, _ graph.TaskID) string { return r.Stages[run-1].Name },
	})
}
