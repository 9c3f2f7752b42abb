package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// ErrRecording is wrapped by errors of DecodeRecording.
var ErrRecording = errors.New("bad recording")

// Recording is runs of workloads at several sizes on the devices of one machine, from which
// a Model predicts others. weft bench predict writes them.
type Recording struct {
	Version int    `json:"version"`
	Label   string `json:"label"`             // the machine and its devices, in a few words
	Commit  string `json:"commit,omitempty"`  // of the weft that ran
	Devices string `json:"devices,omitempty"` // the selection that was opened
	// Machine describes the devices as they were found and measured when they were opened.
	Machine *machine.Machine `json:"machine"`
	Points  []Point          `json:"points"`
}

// RecordingVersion is raised when the meaning of a field changes.
const RecordingVersion = 1

// Point is one workload at one size: what it needed and what it took.
type Point struct {
	Workload string `json:"workload"`
	Job      string `json:"job"`  // the job's own name
	Size     int    `json:"size"` // the value of the flag that the workload grows by
	// What the graph asked for, as Need has it.
	Ops      float64 `json:"ops"`
	Bytes    float64 `json:"bytes"`
	Unit     string  `json:"unit"`
	Launches float64 `json:"launches"`
	Upload   float64 `json:"upload"`
	Download float64 `json:"download"`
	Peak     int64   `json:"peak_bytes"`
	// Seconds has the time of the job in each run: the mean of the middle half of the jobs
	// of the run. A run repeats the job Repeats times, so that it takes LeastRun.
	Seconds []float64 `json:"seconds"`
	Repeats int       `json:"repeats"`
}

// A point counts if it has LeastRuns runs of LeastRun seconds whose spread is below
// MostSpread. The spread is the standard deviation over the mean.
const (
	LeastRuns  = 5
	LeastRun   = 0.05
	MostSpread = 0.05
)

// Median is the time of the job: the middle of its runs.
func (p *Point) Median() float64 {
	s := slices.Sorted(slices.Values(p.Seconds))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Spread is the standard deviation of the runs over their mean.
func (p *Point) Spread() float64 {
	n, sum, squares := float64(len(p.Seconds)), 0.0, 0.0
	for _, s := range p.Seconds {
		sum += s
	}
	for _, s := range p.Seconds {
		squares += (s - sum/n) * (s - sum/n)
	}
	return math.Sqrt(squares/(n-1)) / (sum / n)
}

// Stable reports whether the point counts.
func (p *Point) Stable() bool {
	return len(p.Seconds) >= LeastRuns && p.Spread() < MostSpread && slices.Min(p.Seconds)*float64(p.Repeats) >= LeastRun
}

// Need returns what the job of the point asked of the machine.
func (p *Point) Need() Need {
	unit, _ := parseUnit(p.Unit)
	return Need{
		Name: p.Job, Workload: p.Workload, Flops: p.Ops, Bytes: p.Bytes, Unit: unit, Launches: p.Launches,
		Upload: p.Upload, Download: p.Download, PeakBytes: p.Peak,
	}
}

func parseUnit(name string) (graph.Unit, bool) {
	for u := range graph.Unit(graph.NumUnits) {
		if u.String() == name {
			return u, true
		}
	}
	return 0, false
}

// PointOf makes a point of what a job needed and the seconds of its runs.
func PointOf(n Need, size, repeats int, seconds []float64) Point {
	return Point{
		Workload: n.Workload, Job: n.Name, Size: size, Ops: n.Flops, Bytes: n.Bytes, Unit: n.Unit.String(), Launches: n.Launches,
		Upload: n.Upload, Download: n.Download, Peak: n.PeakBytes, Seconds: seconds, Repeats: repeats,
	}
}

// DecodeRecording reads a recording and checks it. Errors wrap ErrRecording and name the
// point that is wrong.
func DecodeRecording(src []byte) (*Recording, error) {
	var r Recording
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("%w: %w; weft bench predict --record FILE writes one", ErrRecording, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: something follows its end", ErrRecording)
	}
	switch {
	case r.Version != RecordingVersion:
		return nil, fmt.Errorf("%w: version %d, and this weft reads %d; record it again", ErrRecording, r.Version, RecordingVersion)
	case r.Label == "":
		return nil, fmt.Errorf("%w: no label; it says which machine it is of", ErrRecording)
	case r.Machine == nil:
		return nil, fmt.Errorf("%w: no machine", ErrRecording)
	}
	if err := r.Machine.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecording, err)
	}
	for i := range r.Points {
		if err := r.Points[i].check(); err != nil {
			return nil, fmt.Errorf("%w: point %d (%s %d): %w", ErrRecording, i, r.Points[i].Workload, r.Points[i].Size, err)
		}
	}
	return &r, nil
}

// check checks a point.
func (p *Point) check() error {
	if _, ok := parseUnit(p.Unit); !ok {
		return fmt.Errorf("unknown unit %q", p.Unit)
	}
	for _, x := range []float64{p.Ops, p.Bytes, p.Launches, p.Upload, p.Download} {
		if !(x >= 0 && x < 1e30) {
			return fmt.Errorf("bad work %v", x)
		}
	}
	switch {
	case p.Workload == "":
		return errors.New("no workload")
	case p.Repeats < 1 || p.Peak < 0:
		return fmt.Errorf("%d repeats and %d bytes", p.Repeats, p.Peak)
	case len(p.Seconds) < 2:
		return fmt.Errorf("%d runs; there must be two at least", len(p.Seconds))
	}
	for _, s := range p.Seconds {
		if !(s > 1e-12 && s < 1e12) {
			return fmt.Errorf("a run of %v seconds", s)
		}
	}
	return nil
}

// Encode returns the recording as JSON, a point to a line.
func (r *Recording) Encode() ([]byte, error) {
	head := *r
	head.Points = nil
	whole, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	out := bytes.NewBuffer(bytes.TrimSuffix(whole, []byte("null}")))
	out.WriteByte('[')
	for i := range r.Points {
		p, err := json.Marshal(r.Points[i])
		if err != nil {
			return nil, fmt.Errorf("recording: %w", err)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n")
		out.Write(p)
	}
	out.WriteString("\n]}\n")
	return out.Bytes(), nil
}
