package machine

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weft-run/weft/graph"
)

const (
	// enough is the number of samples from which history answers instead of the
	// model underneath.
	enough = 3
	// maxShapes is the most shapes of a History. Beyond it, the quarter that was
	// not observed for longest is dropped.
	maxShapes = 4096
	// settled is the number of runs of a shape from which a lasting deviation
	// means that the device has changed.
	settled = 8
	// maxRecent is the number of last runs of a shape that its mean is over. wild
	// is the distance from their median, as a logarithm, beyond which a run is
	// left out of it: a factor of four.
	maxRecent = 15
	wild      = math.Ln2 * 2
	// nearReach is the distance from a size, as a logarithm, within which shapes
	// count for it: a factor of two. maxNear is the most that count on either side.
	nearReach = math.Ln2
	maxNear   = 16
	// copyReach is the distance of two copy sizes, as a logarithm, at which the weight of one
	// for predicting the other is 1/e: a factor of four. maxAlike is the number of the last
	// copies within copyReach that count, maxLast the number of all copies kept of a path.
	copyReach = math.Ln2 * 2
	maxAlike  = 24
	maxLast   = 4 * maxAlike
	// graphPrior is the weight of the simulated time of a graph, as a number of
	// runs that took exactly that.
	graphPrior = 0.3
	// epochShift is the relative change of an answer beyond which Epoch grows.
	epochShift = 0.05
)

// History predicts from measurements, and asks another model where there are none. For every
// sequence of kernels, kind of device, unit and gang size it keeps a line through log time
// over log size. A task's size is its operations plus its bytes plus one: only that the size
// grows with the work matters, since the exponent is fitted. A size seen at least three times
// is predicted by the mean of its last runs instead of the line, without the very first,
// which touches fresh memory and cold code. A size close to such sizes is predicted by them,
// since no kernel follows a line exactly. A size outside the range seen is predicted by the
// closest size and the model underneath together.
//
// Devices that are alike (equal kind, backend, model, architecture, memory and cores) share
// what is learned, so devices of one class keep costing the same. Copies learn a correction
// to the model underneath for each path: the usual one of the last copies of about their
// size. Whole graphs learn a correction to their simulated time, by the kernels they are made
// of: it covers handing over work, waking threads and disturbances. The durations of the last
// runs of a piece of work on a set of devices are kept unchanged, to choose between devices.
//
// A History is bounded: shapes not seen for longest are dropped.
type History struct {
	base   Cost
	routes *routes
	// kinds numbers identities, 0 being the host's; kind has the number of
	// each device.
	kinds  map[string]int32
	kind   []int32
	idents []string // of each kind
	// sequences numbers sequences of kernels as paths in a tree: a sequence is
	// its beginning, by number, and a run of one kernel. 0 is the empty one.
	// The last run is part of the task's key instead, so that a task of one
	// kernel is found in one step.
	sequences map[sequence]int32
	tasks     map[taskKey]*keyModel
	copies    map[copyKey]*keyModel
	graphs    map[string]*keyModel
	models    []*keyModel // all of them, in order of appearance
	trials    []trial     // of works on devices, in order of appearance
	shapes    int         // in all models
	clock     uint64      // counts observations
	epoch     uint64
	changed   bool
}

// anyDevice is the device of a graph, which has many.
const anyDevice = "any"

// sequence is a run of one kernel after another sequence.
type sequence struct {
	after int32
	times int32
	name  string
}

type taskKey struct {
	sequence
	kind       int32
	unit, gang int16
}

type copyKey struct {
	from, to       int32
	bps, latencyNS float64
}

// NewHistory returns an empty history over a model of m that answers where
// nothing was measured.
func NewHistory(base Cost, m *Machine) *History {
	h := &History{base: base, routes: newRoutes(m), kinds: make(map[string]int32)}
	h.reset()
	h.kindOf(hostName)
	for i := range m.Devices {
		h.kind = append(h.kind, h.kindOf(m.Devices[i].Identity()))
	}
	return h
}

func (h *History) reset() {
	h.sequences = make(map[sequence]int32)
	h.tasks = make(map[taskKey]*keyModel)
	h.copies = make(map[copyKey]*keyModel)
	h.graphs = make(map[string]*keyModel)
	h.models, h.shapes = nil, 0
}

// Identity returns a name that all devices of one kind share, across runs.
func (d *Device) Identity() string {
	return fmt.Sprintf("%s|%s|%s|%s|%d|%d|%d", d.Kind, d.Backend, d.Model, d.Arch, d.MemBytes, d.ComputeUnits, d.SIMDLanes)
}

func (h *History) kindOf(identity string) int32 {
	k, ok := h.kinds[identity]
	if !ok {
		k = int32(len(h.kinds))
		h.kinds[identity] = k
		h.idents = append(h.idents, identity)
	}
	return k
}

// Task implements Cost.
func (h *History) Task(t *graph.Task, on DeviceID) Estimate {
	if m := h.taskModel(t, on); m != nil {
		if i, ok := m.find(t.Work.Ops, t.Work.Bytes); ok && m.shapes[i].fit.Seen >= enough {
			return m.shapes[i].answer
		}
		if m.fit.Seen >= enough {
			x := taskSize(t.Work.Ops, t.Work.Bytes)
			if x < m.line.lo || x > m.line.hi {
				return h.beyond(m, t, on)
			}
			l := m.near(x, t.Work.Ops, t.Work.Bytes)
			return l.estimate(x, 0)
		}
	}
	return h.base.Task(t, on)
}

// beyond predicts a size outside the range seen, from the closest size seen. The ratio of the
// two comes from the line as far as samples of different sizes support its slope, and from
// the model underneath for the rest. That model also bounds the prediction from below, since
// another limit takes over sooner or later.
func (h *History) beyond(m *keyModel, t *graph.Task, on DeviceID) Estimate {
	x := taskSize(t.Work.Ops, t.Work.Bytes)
	at, _ := m.find(t.Work.Ops, t.Work.Bytes)
	s := &m.shapes[min(at, len(m.shapes)-1)]
	if at > 0 {
		before := &m.shapes[at-1]
		if math.Abs(taskSize(before.ops, before.bytes)-x) < math.Abs(taskSize(s.ops, s.bytes)-x) {
			s = before
		}
	}
	sx := taskSize(s.ops, s.bytes)
	l := m.near(sx, s.ops, s.bytes)
	seen := *t
	seen.Work.Ops, seen.Work.Bytes = s.ops, s.bytes
	here, there := h.base.Task(t, on).Median, h.base.Task(&seen, on).Median
	switch {
	case here <= 0 || there <= 0:
		return l.estimate(x, 0)
	case s.ops == 0 && s.bytes == 0: // its work was not stated
		return h.base.Task(t, on)
	}
	model, ratio := math.Log(float64(here)), l.at(sx)-math.Log(float64(there))
	y := l.evidence*l.at(x) + (1-l.evidence)*(model+ratio)
	y = max(y, model+min(ratio, math.Log(rooflineLow)))
	return l.estimate(x, y-l.at(x))
}

// Copy implements Cost.
func (h *History) Copy(bytes int64, from, to DeviceID) Estimate {
	base := h.base.Copy(bytes, from, to)
	if base.Median <= 0 {
		return base
	}
	m := h.copies[h.copyKey(from, to)]
	if m == nil || len(m.last) < enough {
		return base
	}
	x := taskSize(0, float64(bytes))
	est := m.line.estimate(x, math.Log(float64(base.Median))+m.usualCopy(float64(bytes))-m.line.at(x))
	est.Via = base.Via
	return est
}

// Epoch implements Cost. It grows when an answer has moved by more than 5 %
// since callers were last told, or when the model underneath says so.
func (h *History) Epoch() uint64 { return h.epoch + h.base.Epoch() }

// Observe learns that t ran on a device and took so long. Only runs that
// succeeded may be reported; a duration of zero or less is ignored.
func (h *History) Observe(t *graph.Task, on DeviceID, took time.Duration) {
	if took <= 0 {
		return
	}
	before := h.Task(t, on).Median
	m := h.taskModel(t, on)
	if m == nil {
		m = newKeyModel(modelID{
			Kernels: runs(t.Steps), Unit: t.Work.Unit.String(), Gang: int32(gangOf(t)), Device: h.idents[h.kind[on]],
		})
		h.keep(m)
	}
	h.learn(m, t.Work.Ops, t.Work.Bytes, math.Log(float64(took)), math.Log(float64(before)))
}

// ObserveCopy learns that a copy took so long. It ignores what Observe would,
// copies the model underneath takes for free or impossible, and those within one
// memory, which no link tells apart.
func (h *History) ObserveCopy(bytes int64, from, to DeviceID, took time.Duration) {
	base := h.base.Copy(bytes, from, to).Median
	if took <= 0 || base <= 0 {
		return
	}
	key := h.copyKey(from, to)
	if math.IsInf(key.bps, 0) {
		return
	}
	before := h.Copy(bytes, from, to).Median
	m := h.copies[key]
	if m == nil {
		m = newKeyModel(modelID{Device: h.idents[key.from], To: h.idents[key.to], BPS: key.bps, LatencyNS: key.latencyNS})
		h.keep(m)
	}
	h.learnCopy(m, float64(bytes), math.Log(float64(took)/float64(base)), math.Log(float64(before)/float64(base)))
}

// Graph returns how many times longer than simulated the graphs of a make take, as learned
// from those of about this size, and the number of such graphs. While there are few, the
// factor is held back towards 1.
func (h *History) Graph(made string, size float64) (factor float64, samples int) {
	m := h.graphs[made]
	if m == nil {
		return 1, 0
	}
	x := taskSize(size, 0)
	at, _ := m.find(size, 0)
	weight, sum := 0.0, 0.0
	for i := max(at-maxNear, 0); i < min(at+maxNear, len(m.shapes)); i++ {
		s := &m.shapes[i]
		d := (taskSize(s.ops, 0) - x) / (nearReach / 2)
		w := math.Exp(-d*d) * float64(len(s.recent))
		weight, sum = weight+w, sum+w*s.usual
		samples += len(s.recent)
	}
	return math.Exp(sum / (weight + graphPrior)), samples
}

// ObserveGraph learns that a graph was simulated to take so long, without any
// correction, and took so long. It ignores what Observe would.
func (h *History) ObserveGraph(made string, size float64, simulated, took time.Duration) {
	if took <= 0 || simulated <= 0 {
		return
	}
	m := h.graphs[made]
	if m == nil {
		m = newKeyModel(modelID{Graph: made, Device: anyDevice})
		h.keep(m)
	}
	h.learn(m, size, 0, math.Log(float64(took)/float64(simulated)), 0)
}

// Clone returns a history that knows the same and learns by itself.
func (h *History) Clone() *History {
	c := *h
	c.kinds, c.idents = maps.Clone(h.kinds), slices.Clone(h.idents)
	c.reset()
	for _, m := range h.models {
		n := *m
		n.shapes = slices.Clone(m.shapes)
		for i := range n.shapes {
			n.shapes[i].recent = slices.Clone(n.shapes[i].recent)
		}
		n.last = slices.Clone(m.last)
		c.keep(&n)
	}
	c.trials = slices.Clone(h.trials)
	for i := range c.trials {
		c.trials[i].took = slices.Clone(c.trials[i].took)
	}
	return &c
}

// Observed returns the number of measurements that the history has taken in, those before
// Load included.
func (h *History) Observed() uint64 { return h.clock }

// Changed reports whether something well known has come to take twice or half as
// long, and stayed so: a sign that the device should be measured again.
func (h *History) Changed() bool { return h.changed }

// learn takes a sample y at some work into a model; before is what callers were
// told about that work, in the same terms.
func (h *History) learn(m *keyModel, ops, bytes, y, before float64) {
	h.clock++
	x := taskSize(ops, bytes)
	i, known := m.find(ops, bytes)
	if known && m.shapes[i].fit.Seen >= enough {
		// The shape's own runs judge better than the line, which no kernel
		// follows exactly.
		s := &m.shapes[i]
		usual, firm := s.usual, s.fit.Seen >= settled
		switch s.fit.observe(x, y, m.prior) {
		case shifted:
			s.recent = s.recent[max(len(s.recent)-1, 0):] // what was held
			h.changed = h.changed || firm && math.Abs(y-usual) > math.Ln2
			m.fit.add(x, y)
		case accepted:
			m.fit.add(x, y)
		}
	} else {
		v := m.fit.observe(x, y, m.prior)
		if v == held {
			return
		}
		if !known {
			m.shapes = slices.Insert(m.shapes, i, shape{ops: ops, bytes: bytes, told: before})
			h.shapes++
		}
		if v == shifted { // what it saw before no longer holds
			m.shapes[i].fit, m.shapes[i].recent = fit{}, nil
		}
		m.shapes[i].fit.add(x, y)
	}
	h.noted(m, i, y)
}

// learnCopy takes a sample of a copy into the model of its path. Some copies take many times
// longer than others, several in a row, and say nothing about the next ones. So no two of
// them make the model begin anew, and each moves its line by no more than wild.
func (h *History) learnCopy(m *keyModel, bytes, y, before float64) {
	h.clock++
	x := taskSize(0, bytes)
	near := y
	if len(m.last) >= enough {
		usual := m.usualCopy(bytes)
		near = min(max(y, usual-wild), usual+wild)
	}
	m.keepCopy(copyTime{x, y})
	i, known := m.find(0, bytes)
	if !known {
		m.shapes = slices.Insert(m.shapes, i, shape{bytes: bytes, told: before})
		h.shapes++
	}
	m.fit.add(x, near)
	m.shapes[i].fit.add(x, near)
	h.noted(m, i, y)
}

// noted takes note of a sample y of shape i, of which the fits know.
func (h *History) noted(m *keyModel, i int, y float64) {
	s := &m.shapes[i]
	s.last = h.clock
	s.note(y)
	m.refresh(s)
	h.tell(m, i)
	if h.shapes > maxShapes {
		h.drop()
	}
}

// tell moves the epoch when the answer for shape i, or the line anywhere in the
// range it has seen, is not what callers were told.
func (h *History) tell(m *keyModel, i int) {
	moved := false
	s := &m.shapes[i]
	if y, ok := m.says(s); ok && farFrom(y, s.told) {
		s.told, moved = y, true
	}
	if m.fit.Seen >= enough {
		// Lines that are close at both ends are close in between.
		off := func(x float64) bool { return farFrom(m.line.at(x), m.told.at(x)) }
		if m.told.samples == 0 || off(m.fit.Lo) || off(m.fit.Hi) {
			m.told, moved = m.line, true
		}
	}
	if moved {
		h.epoch++
	}
}

// farFrom compares logarithms.
func farFrom(now, told float64) bool { return !(math.Abs(now-told) <= math.Log1p(epochShift)) }

// drop forgets the quarter of all shapes that was not seen for longest, and
// models left without any.
func (h *History) drop() {
	ages := make([]uint64, 0, h.shapes)
	for _, m := range h.models {
		for i := range m.shapes {
			ages = append(ages, m.shapes[i].last)
		}
	}
	slices.Sort(ages)
	oldest := ages[len(ages)/4] // every observation has a time of its own
	models := h.models
	h.reset()
	for _, m := range models {
		m.shapes = slices.DeleteFunc(m.shapes, func(s shape) bool { return s.last < oldest })
		if len(m.shapes) > 0 {
			h.keep(m)
		}
	}
	h.epoch++
}

// keep enters a model under the key its words stand for. It reports false when
// there is one already.
func (h *History) keep(m *keyModel) bool {
	id := &m.id
	if id.Graph != "" {
		if h.graphs[id.Graph] != nil {
			return false
		}
		h.graphs[id.Graph] = m
	} else if id.To != "" {
		key := copyKey{h.kindOf(id.Device), h.kindOf(id.To), id.BPS, id.LatencyNS}
		if h.copies[key] != nil {
			return false
		}
		h.copies[key] = m
	} else {
		unit, _ := unitOf(id.Unit)
		key := taskKey{h.sequence(id.Kernels), h.kindOf(id.Device), int16(unit), int16(id.Gang)}
		if h.tasks[key] != nil {
			return false
		}
		h.tasks[key] = m
	}
	h.models = append(h.models, m)
	h.shapes += len(m.shapes)
	return true
}

func unitOf(name string) (graph.Unit, bool) {
	for u := range graph.Unit(graph.NumUnits) {
		if u.String() == name {
			return u, true
		}
	}
	return 0, false
}

// gangOf returns the number of devices that run a task; the graph package allows no more
// than an int16 holds.
func gangOf(t *graph.Task) int16 { return int16(max(t.Gang, 1)) }

// taskModel returns the model for a task on a device, nil when there is none.
func (h *History) taskModel(t *graph.Task, on DeviceID) *keyModel {
	var last sequence
	for i := 0; i < len(t.Steps); {
		if i > 0 {
			n, ok := h.sequences[last]
			if !ok {
				return nil
			}
			last.after = n
		}
		name, from := t.Steps[i].Kernel.Name, i
		for i++; i < len(t.Steps) && t.Steps[i].Kernel.Name == name; i++ {
		}
		last.name, last.times = name, int32(i-from)
	}
	return h.tasks[taskKey{last, h.kind[on], int16(t.Work.Unit), gangOf(t)}]
}

func (h *History) copyKey(from, to DeviceID) copyKey {
	p := h.routes.path(from, to)
	return copyKey{h.memoryKind(from), h.memoryKind(to), p.bps, p.latencyNS}
}

func (h *History) memoryKind(d DeviceID) int32 {
	if h.routes.space(d) == Host {
		return 0
	}
	return h.kind[d]
}

// sequence returns the key of a sequence of kernels, numbering what leads to it.
func (h *History) sequence(kernels []kernelRun) (last sequence) {
	for i, k := range kernels {
		if i > 0 {
			n, ok := h.sequences[last]
			if !ok {
				n = int32(len(h.sequences)) + 1
				h.sequences[last] = n
			}
			last.after = n
		}
		last.name, last.times = k.Name, k.Times
	}
	return last
}
