package machine

import (
	"math"
	"slices"

	"github.com/weft-run/weft/graph"
)

// keyModel is the cost model of one key: of tasks with the same sequence of kernels on a kind
// of device, of copies on a path, or of graphs of the same make.
type keyModel struct {
	id     modelID
	prior  float64 // slope before evidence
	fit    fit
	line   fittedLine // of fit
	shapes []shape    // ascending by work
	last   []copyTime // on a path, oldest first
	// told is the line as callers last knew it; its samples are 0 before that.
	told fittedLine
}

// modelID says in words what a keyModel is about. Files of the history hold it.
type modelID struct {
	Kernels []kernelRun `json:"kernels,omitempty"` // tasks
	Unit    string      `json:"unit,omitempty"`
	Gang    int32       `json:"gang,omitempty"`
	Device  string      `json:"device"`          // of a task, or where a copy comes from
	Graph   string      `json:"graph,omitempty"` // what a graph is made of
	// To, BPS and LatencyNS are where a copy goes and by what path; 0 for others.
	To        string  `json:"to,omitempty"`
	BPS       float64 `json:"bps,omitempty"`
	LatencyNS float64 `json:"latency_ns,omitempty"`
}

// copyTime is one measured copy: the logarithm of its size, and the logarithm of its duration
// over that predicted by the model underneath.
type copyTime struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// kernelRun is a kernel and the number of consecutive steps that start it.
type kernelRun struct {
	Name  string `json:"name"`
	Times int32  `json:"times"`
}

// shape is one exact amount of work.
type shape struct {
	ops, bytes float64
	last       uint64 // when it was last observed, by the history's clock
	fit        fit
	recent     []float64 // the last y observed, oldest first
	usual      float64   // and the logarithm of what they took in the mean
	answer     Estimate  // of the fit, for tasks
	told       float64   // log time (ratio, for copies) callers were last told
}

// refresh recomputes what follows from the fits of a keyModel and one of its shapes.
func (m *keyModel) refresh(s *shape) {
	m.line = m.fit.line(m.prior)
	own := m.own(s)
	s.answer = own.estimate(taskSize(s.ops, s.bytes), 0)
	s.answer.Own = int(s.fit.Seen)
}

// own returns the line of a shape's runs, moved so that it goes through their usual time.
func (m *keyModel) own(s *shape) fittedLine {
	l := s.fit.line(m.prior)
	l.my = s.usual
	return l
}

// near is the line moved to pass by the shapes around a size, the closer the more.
func (m *keyModel) near(x, ops, bytes float64) fittedLine {
	l := m.line
	at, _ := m.find(ops, bytes)
	weight, off := 0.0, 0.0
	take := func(s *shape) bool {
		sx := taskSize(s.ops, s.bytes)
		if math.Abs(sx-x) > nearReach {
			return false
		}
		d := (sx - x) / (nearReach / 2)
		w := math.Exp(-d*d) * float64(min(s.fit.Seen, enough))
		weight += w
		off += w * (s.usual - l.at(sx))
		return true
	}
	for i := at; i < min(at+maxNear, len(m.shapes)) && take(&m.shapes[i]); i++ {
	}
	for i := at - 1; i >= max(at-maxNear, 0) && take(&m.shapes[i]); i-- {
	}
	if weight > 0 {
		// What little is known nearby counts little.
		l.my += off / max(weight, 1)
	}
	return l
}

// keepCopy keeps a copy among the last ones. The oldest copy of about its size makes room, so
// copies of other sizes stay.
func (m *keyModel) keepCopy(c copyTime) {
	alike, oldest := 0, 0
	for i := len(m.last) - 1; i >= 0; i-- {
		if math.Abs(m.last[i].X-c.X) <= copyReach {
			alike, oldest = alike+1, i
		}
	}
	switch {
	case alike >= maxAlike:
		m.last = slices.Delete(m.last, oldest, oldest+1)
	case len(m.last) == maxLast:
		m.last = slices.Delete(m.last, 0, 1)
	}
	m.last = append(m.last, c)
}

// usualCopy returns the logarithm of the usual factor by which copies of a size on a path take
// longer than the model underneath predicts: the median of its last copies, weighted by how
// close their size is, since the rate of a path hardly depends on size. Because it is a median
// over many sizes, a copy that touches memory for the first time, which takes many times longer
// than the next, does not count even where it is the only one of its size.
func (m *keyModel) usualCopy(bytes float64) float64 {
	x := taskSize(0, bytes)
	closest := math.Inf(1)
	for _, c := range m.last {
		closest = min(closest, math.Abs(c.X-x))
	}
	var near [maxLast]struct{ y, weight float64 } // ascending
	n, sum := 0, 0.0
	for _, c := range m.last {
		// The closest count even where all are far away.
		d := (math.Abs(c.X-x) - closest) / copyReach
		if d > 2 {
			continue
		}
		w := math.Exp(-d * d)
		k := n
		for ; k > 0 && near[k-1].y > c.Y; k-- {
			near[k] = near[k-1]
		}
		near[k].y, near[k].weight = c.Y, w
		n, sum = n+1, sum+w
	}
	k := 0
	for sum -= 2 * near[0].weight; sum > 0 && k+1 < n; sum -= 2 * near[k].weight {
		k++
	}
	return near[k].y
}

// note keeps a sample among the last. The very first goes when there are two
// others.
func (s *shape) note(y float64) {
	if len(s.recent) == maxRecent || s.fit.Seen == enough && len(s.recent) == enough-1 {
		s.recent = s.recent[:copy(s.recent, s.recent[1:])]
	}
	s.recent = append(s.recent, y)
	s.settle()
}

// settle computes the usual time of a shape: the mean of the last samples without those far
// from their median. Delays that recur are part of it; a single wild sample is not.
func (s *shape) settle() {
	var sorted [maxRecent]float64
	n := copy(sorted[:], s.recent)
	slices.Sort(sorted[:n])
	mid := (sorted[n/2] + sorted[(n-1)/2]) / 2
	sum, count := 0.0, 0.0
	for _, y := range sorted[:n] {
		if math.Abs(y-mid) <= wild {
			sum += math.Exp(y - mid)
			count++
		}
	}
	if count == 0 { // two camps far apart, and no telling which is the wild one
		s.usual = mid
		return
	}
	s.usual = mid + math.Log(sum/count)
}

// says returns the prediction for a shape in log time (log ratio for copies),
// or false while the model underneath answers.
func (m *keyModel) says(s *shape) (y float64, ok bool) {
	if m.id.To != "" {
		return m.usualCopy(s.bytes), len(m.last) >= enough
	}
	l := &m.line
	if s.fit.Seen >= enough {
		own := m.own(s)
		l = &own
	}
	return l.at(taskSize(s.ops, s.bytes)), l.samples >= enough
}

func newKeyModel(id modelID) *keyModel {
	m := &keyModel{id: id}
	if id.To == "" && id.Graph == "" {
		m.prior = 1 // twice the work takes twice the time
	}
	return m
}

// runs describes steps as kernels with repetition.
func runs(steps []graph.Step) []kernelRun {
	var out []kernelRun
	for _, s := range steps {
		if n := len(out); n > 0 && out[n-1].Name == s.Kernel.Name {
			out[n-1].Times++
		} else {
			out = append(out, kernelRun{s.Kernel.Name, 1})
		}
	}
	return out
}

// find returns where the shape with this work is, or would be.
func (m *keyModel) find(ops, bytes float64) (int, bool) {
	lo, hi := 0, len(m.shapes)
	for lo < hi { // written out: the comparison through a function costs 20 ns
		mid := (lo + hi) / 2
		s := &m.shapes[mid]
		if s.ops < ops || (s.ops == ops && s.bytes < bytes) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(m.shapes) && m.shapes[lo].ops == ops && m.shapes[lo].bytes == bytes
}

// taskSize is the x of every fit: the logarithm of the size of a piece of work.
func taskSize(ops, bytes float64) float64 { return math.Log(min(ops+bytes+1, math.MaxFloat64)) }
