package machine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// ErrHistory is wrapped by the errors of Load. The remedy is always the same: leave
// the file out, and the history is learned again.
var ErrHistory = errors.New("bad history file")

// historyVersion is raised when saved numbers change their meaning.
const historyVersion = 2

type savedHistory struct {
	Version int          `json:"version"`
	Models  []savedModel `json:"models"`
	Trials  []savedTrial `json:"trials,omitempty"`
}

type savedModel struct {
	modelID
	Fit    fit          `json:"fit"`
	Shapes []savedShape `json:"shapes"`
	Copies []copyTime   `json:"copies,omitempty"`
}

type savedShape struct {
	Ops    float64   `json:"ops"`
	Bytes  float64   `json:"bytes"`
	Last   uint64    `json:"last"`
	Fit    fit       `json:"fit"`
	Recent []float64 `json:"recent"`
}

// Save returns the history as JSON. Equal histories give equal bytes.
func (h *History) Save() []byte {
	out := savedHistory{Version: historyVersion, Models: []savedModel{}, Trials: h.saveTrials()}
	for _, m := range h.models {
		s := savedModel{modelID: m.id, Fit: m.fit, Copies: m.last}
		for i := range m.shapes {
			x := &m.shapes[i]
			s.Shapes = append(s.Shapes, savedShape{x.ops, x.bytes, x.last, x.fit, x.recent})
		}
		out.Models = append(out.Models, s)
	}
	return compact(out)
}

// Load replaces what the history knows by what Save returned, for this machine
// or another with some equal devices. An error wraps ErrHistory and leaves the
// history as it was.
func (h *History) Load(src []byte) error {
	var in savedHistory
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return fmt.Errorf("%w: %w", ErrHistory, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: something follows its end", ErrHistory)
	}
	if in.Version != historyVersion {
		return fmt.Errorf("%w: version %d, and this weft reads %d", ErrHistory, in.Version, historyVersion)
	}
	loaded := *h
	loaded.reset()
	loaded.kinds, loaded.idents = maps.Clone(h.kinds), slices.Clone(h.idents)
	loaded.clock = 0
	times := make(map[uint64]bool)
	for i := range in.Models {
		s := &in.Models[i]
		m, err := s.model()
		if err != nil {
			return fmt.Errorf("%w: model %d: %w", ErrHistory, i, err)
		}
		for j := range m.shapes {
			last := m.shapes[j].last
			if times[last] {
				return fmt.Errorf("%w: model %d: time %d is there twice", ErrHistory, i, last)
			}
			times[last] = true
			loaded.clock = max(loaded.clock, last)
		}
		if !loaded.keep(m) {
			return fmt.Errorf("%w: model %d is there twice", ErrHistory, i)
		}
		if loaded.shapes > maxShapes {
			return fmt.Errorf("%w: more than %d shapes", ErrHistory, maxShapes)
		}
	}
	if err := loaded.loadTrials(in.Trials); err != nil {
		return fmt.Errorf("%w: %w", ErrHistory, err)
	}
	loaded.epoch++
	*h = loaded
	return nil
}

// model checks a saved model and turns it into a live one.
func (s *savedModel) model() (*keyModel, error) {
	_, isUnit := unitOf(s.Unit)
	isCopy, isGraph := s.To != "", s.Graph != ""
	switch {
	case s.Device == "":
		return nil, errors.New("no device")
	case isCopy && (s.Unit != "" || s.Gang != 0 || len(s.Kernels) > 0):
		return nil, errors.New("a task and a copy at once")
	case isGraph && (isCopy || s.Unit != "" || s.Gang != 0 || len(s.Kernels) > 0 || s.BPS != 0 || s.LatencyNS != 0):
		return nil, errors.New("a graph and something else at once")
	case isCopy && (badRate(s.BPS) || s.BPS == 0 || badRate(s.LatencyNS)):
		return nil, fmt.Errorf("bad path of %v bytes per second and %v ns", s.BPS, s.LatencyNS)
	case !isCopy && !isGraph && (!isUnit || s.Gang < 1 || s.Gang > math.MaxInt16 || s.BPS != 0 || s.LatencyNS != 0):
		return nil, fmt.Errorf("bad unit %q, gang %d or path", s.Unit, s.Gang)
	case len(s.Shapes) == 0:
		return nil, errors.New("no shapes")
	}
	for i, k := range s.Kernels {
		if k.Times < 1 || (i > 0 && k.Name == s.Kernels[i-1].Name) {
			return nil, fmt.Errorf("bad run of kernel %q", k.Name)
		}
	}
	if err := s.Fit.check(); err != nil {
		return nil, err
	}
	outside := func(y float64) bool { return !(math.Abs(y) <= 1e3) }
	if !isCopy && len(s.Copies) > 0 || len(s.Copies) > maxLast ||
		slices.ContainsFunc(s.Copies, func(c copyTime) bool { return outside(c.X) || outside(c.Y) }) {
		return nil, errors.New("bad last copies")
	}
	m := newKeyModel(s.modelID)
	m.fit, m.last = s.Fit, s.Copies
	for i := range s.Shapes {
		x := &s.Shapes[i]
		if badRate(x.Ops) || badRate(x.Bytes) || x.Last == 0 {
			return nil, fmt.Errorf("shape %d: bad work or time", i)
		}
		if err := x.Fit.check(); err != nil {
			return nil, fmt.Errorf("shape %d: %w", i, err)
		}
		if n := len(x.Recent); n == 0 || n > maxRecent || slices.ContainsFunc(x.Recent, outside) {
			return nil, fmt.Errorf("shape %d: bad samples", i)
		}
		at, twice := m.find(x.Ops, x.Bytes)
		if twice || at != i {
			return nil, fmt.Errorf("shape %d is out of order", i)
		}
		live := shape{ops: x.Ops, bytes: x.Bytes, last: x.Last, fit: x.Fit, recent: x.Recent}
		live.settle()
		m.refresh(&live)
		// Load moves the epoch, so callers already know this answer.
		if y, ok := m.says(&live); ok {
			live.told = y
		}
		m.shapes = append(m.shapes, live)
	}
	if m.fit.Seen >= enough {
		m.told = m.line
	}
	return m, nil
}
