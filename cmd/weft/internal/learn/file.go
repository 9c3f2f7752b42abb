package learn

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weft-run/weft/workload/reservoir"
)

// Limits of a file.
const (
	maxLine    = 16 << 20
	maxSamples = 1 << 20
	maxSpikes  = 1 << 25 // of all patterns: 800 MB
	maxTarget  = 1e30    // outputs of a prediction are float32
)

// line is a line of a file: a pattern with its label or its target.
type line struct {
	Duration float64     `json:"duration"`
	Spikes   [][]float64 `json:"spikes"` // channel, milliseconds, and amplitude if it is not 0
	Label    *string     `json:"label"`
	Target   []float64   `json:"target"`
}

// Files is the patterns of files, each line of which is a pattern in JSON:
//
//	{"duration": 100, "spikes": [[0, 12.5], [3, 40, 0.5]], "label": "left"}
//
// A spike is its channel, its time in milliseconds, and what its amplitude is above one.
// Instead of a label a line may have a target, a list of numbers; all lines have the
// same. Every fourth pattern is for testing, the others are for training.
type Files struct {
	samples []Sample
	names   []string // label by sample, where there are any
	inputs  int
	spikes  int // of all patterns
}

// Read adds the patterns of a file.
func (f *Files) Read(name string, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := f.add(lines.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w: %w", name, n, ErrTask, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (f *Files) add(text []byte) error {
	var l line
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return fmt.Errorf(`%w; write {"duration": 100, "spikes": [[CHANNEL, MS], …], "label": "NAME"}`, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("there is more than one pattern in the line")
	}
	if f.spikes += len(l.Spikes); len(f.samples) == maxSamples || f.spikes > maxSpikes {
		return fmt.Errorf("there may be %d patterns of %d spikes in all: train on fewer", maxSamples, maxSpikes)
	}
	s := Sample{Pattern: reservoir.Pattern{Duration: l.Duration}, Target: l.Target}
	inputs := f.inputs
	for i, spike := range l.Spikes {
		if len(spike) != 2 && len(spike) != 3 {
			return fmt.Errorf("spike %d is %v: write [CHANNEL, MS] or [CHANNEL, MS, AMPLITUDE]", i, spike)
		}
		const most = 1 << 15
		if !(spike[0] >= 0 && spike[0] < most) || spike[0] != float64(int(spike[0])) {
			return fmt.Errorf("spike %d is on channel %v: channels are 0 to %d", i, spike[0], most-1)
		}
		one := reservoir.Spike{Channel: int(spike[0]), Time: spike[1]}
		if len(spike) == 3 {
			one.Amplitude = spike[2]
		}
		inputs = max(inputs, one.Channel+1)
		s.Pattern.Spikes = append(s.Pattern.Spikes, one)
	}
	if err := s.Pattern.Validate(inputs); err != nil {
		return err
	}
	switch {
	case (l.Label != nil) == (l.Target != nil):
		return errors.New(`a pattern needs "label" or "target", and not both`)
	case len(f.samples) > 0 && (l.Label != nil) != (len(f.names) > 0):
		return errors.New(`some patterns have a "label" and some a "target": use one for all`)
	case l.Label == nil && len(l.Target) == 0:
		return errors.New(`"target" has no number`)
	case slices.ContainsFunc(l.Target, func(v float64) bool { return math.Abs(v) > maxTarget }):
		return fmt.Errorf("a target beyond %v", maxTarget)
	case l.Label == nil && len(f.samples) > 0 && len(l.Target) != len(f.samples[0].Target):
		return fmt.Errorf("a target of %d numbers, and the first has %d", len(l.Target), len(f.samples[0].Target))
	}
	if l.Label != nil {
		f.names = append(f.names, *l.Label)
	}
	f.samples, f.inputs = append(f.samples, s), inputs
	return nil
}

// Task makes a task of what was read.
func (f *Files) Task(size int, seed uint32) (*Task, error) {
	if len(f.samples) < 8 {
		return nil, fmt.Errorf("%d patterns: %w: have at least 8, of which every fourth is for testing", len(f.samples), ErrTask)
	}
	t := &Task{
		Name: "files", About: "patterns of files",
		Params: reservoir.Params{
			Size: size, Inputs: f.inputs, SpectralRadius: 0.95, Connectivity: 0.1, Leak: 0.3, InputScaling: 0.3, Seed: seed,
		},
		Model:  reservoir.Model{Steps: 20, Mode: reservoir.Sequence, Feature: reservoir.Mean},
		Lambda: 0.01,
	}
	if len(f.names) > 0 {
		labels := slices.Clone(f.names)
		slices.Sort(labels)
		t.Model.Labels = slices.Compact(labels)
		if len(t.Model.Labels) < 2 {
			return nil, fmt.Errorf("all patterns have the label %q: %w: have at least two", f.names[0], ErrTask)
		}
	}
	for i, s := range f.samples {
		if len(f.names) > 0 {
			s.Target = make([]float64, len(t.Model.Labels))
			at, _ := slices.BinarySearch(t.Model.Labels, f.names[i])
			s.Target[at] = 1
		}
		if i%4 == 3 {
			t.Test = append(t.Test, s)
		} else {
			t.Train = append(t.Train, s)
		}
	}
	first := t.Test[0].Target[0]
	if len(f.names) == 0 && !slices.ContainsFunc(t.Test, func(s Sample) bool { return s.Target[0] != first }) {
		return nil, fmt.Errorf("the target of every fourth pattern is %v: %w: have others to score with", first, ErrTask)
	}
	return t, nil
}
