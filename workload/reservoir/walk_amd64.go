package reservoir

import (
	"math"
	"sync"
)

// walk holds the arguments of a step of all neurons: entries and rows as pack writes them, rows
// in fours, and states. A state has a row of eight or sixteen patterns for each neuron, then
// for each channel, and an unused one; so has the next state. The means have a row for each
// neuron and the unused one.
type walk struct {
	entries           *uint64
	rows              *packedRow
	fours             int
	x, next, mean     *float32
	leak, keep, parts float32
}

// packedRow says where the entries of a neuron begin and how many there are, where its states
// are, in bytes, and its bias.
type packedRow struct {
	first, entries, at uint32
	bias               float32
}

// step8 and step16 take all neurons of eight and sixteen patterns through a step.
//
//go:noescape
func step8(w *walk)

//go:noescape
func step16(w *walk)

// pack8 sets dst to entries: where in a state, in bytes, the row of a column begins, whose rows
// pack8 sets dst to entries. Each has the value above the byte offset of its column's row in a
// state; rows are stride bytes apart, and first is the offset of column 0. It returns the
// highest column, taken as unsigned, and replaces columns beyond most by most, so that nothing
// outside of a state is read whatever the columns are. It writes up to seven entries more than
// there are.
//
//go:noescape
func pack8(dst *uint64, columns *int32, values *float32, entries int, first, stride, most uint32) (highest uint32)

// packed is the weights of a call as its steps read them, and its states. The weights are the
// call's own copy, so that what was found good stays so.
type packed struct {
	entries       []uint64
	rows          []packedRow
	order, count  []int32
	x, next, mean []float32
	lanes         int
}

var packs = sync.Pool{New: func() any { return new(packed) }}

// runWide does the work of run for some patterns of a block, and reports whether it did.
func (c call) runWide(w *Weights, b *block, patterns Span, stopped func() bool) (bool, error) {
	p := packs.Get().(*packed)
	defer packs.Put(p)
	p.lanes = 8
	if wide && (!half || patterns.Hi-patterns.Lo > 8) {
		p.lanes = 16
	}
	if !wide && !half || w.Noise > 0 || (w.Size+w.Inputs+1)*4*p.lanes > math.MaxUint32 {
		return false, nil
	}
	if err := p.pack(w); err != nil {
		return true, err
	}
	for lo := patterns.Lo; lo < patterns.Hi; lo += p.lanes {
		p.walk(w, b, Span{lo, min(lo+p.lanes, patterns.Hi)}, c.steps, stopped)
	}
	return true, nil
}

// pack puts weights as steps read them: the rows in the order of their length, so that four
// that are added up together end together.
func (p *packed) pack(w *Weights) error {
	r, in := &w.Recurrent, &w.Input
	_, recurrent, err := r.entries(0, w.Size)
	if err != nil {
		return err
	}
	_, input, err := in.entries(0, w.Size)
	if err != nil {
		return err
	}
	p.sort(w)
	p.entries = resize(p.entries, recurrent+input+8)
	p.rows = resize(p.rows, (w.Size+3)/4*4)
	stride, at := uint32(4*p.lanes), 0
	for k := range p.rows {
		p.rows[k] = packedRow{at: uint32(w.Size+w.Inputs) * stride} // for nobody
		if k >= w.Size {
			continue
		}
		i := int(p.order[k])
		first := at
		for _, m := range []struct {
			*Matrix
			first, columns int
		}{{r, 0, w.Size}, {in, w.Size, w.Inputs}} {
			lo, hi := int(m.Start[i]-m.Start[0]), int(m.Start[i+1]-m.Start[0])
			if lo == hi {
				continue
			}
			column, value := m.Column[lo:hi], m.Value[lo:hi]
			highest := pack8(&p.entries[at : at+hi-lo+8][0], &column[0], &value[0], hi-lo, uint32(m.first), stride, uint32(m.columns-1))
			if highest >= uint32(m.columns) {
				return m.outside(highest, m.columns)
			}
			at += hi - lo
		}
		p.rows[k] = packedRow{first: uint32(first), entries: uint32(at - first), at: uint32(i) * stride, bias: w.Bias[i]}
	}
	return nil
}

// sort sets order to the neurons, those with the most entries first.
func (p *packed) sort(w *Weights) {
	entries := func(i int) int32 {
		return w.Recurrent.Start[i+1] - w.Recurrent.Start[i] + w.Input.Start[i+1] - w.Input.Start[i]
	}
	most := int32(0)
	for i := range w.Size {
		most = max(most, entries(i))
	}
	p.count = resize(p.count, int(most)+2)
	clear(p.count)
	for i := range w.Size {
		p.count[most-entries(i)+1]++
	}
	for n := range most {
		p.count[n+1] += p.count[n]
	}
	p.order = resize(p.order, w.Size)
	for i := range w.Size {
		at := &p.count[most-entries(i)]
		p.order[*at] = int32(i)
		*at++
	}
}

// walk takes up to as many patterns as there are lanes through all steps.
func (p *packed) walk(w *Weights, b *block, patterns Span, steps int, stopped func() bool) {
	n, lanes := patterns.Hi-patterns.Lo, p.lanes
	size := (w.Size + w.Inputs + 1) * lanes
	p.x, p.next, p.mean = resize(p.x, size), resize(p.next, size), resize(p.mean, size)
	clear(p.x)
	clear(p.next)
	clear(p.mean)
	for i := range w.Size {
		copy(p.x[i*lanes:][:n], b.start[i*b.width+patterns.Lo:][:n])
	}
	leak := float32(w.Leak)
	a := walk{
		entries: &p.entries[0], mean: &p.mean[0],
		leak: leak, keep: 1 - leak, parts: float32(steps),
	}
	// Assembly cannot be preempted: it returns within some tens of microseconds.
	fours := max(1<<16/(4*max(int(p.rows[0].entries), 1)), 1)
	for k := range steps {
		u := b.u[k*w.Inputs*b.width:]
		for i := range w.Inputs {
			copy(p.x[(w.Size+i)*lanes:][:n], u[i*b.width+patterns.Lo:][:n])
		}
		a.x, a.next = &p.x[0], &p.next[0]
		for rest := p.rows; len(rest) > 0; rest = rest[4*a.fours:] {
			if stopped() {
				return
			}
			a.rows, a.fours = &rest[0], min(fours, len(rest)/4)
			if lanes == 8 {
				step8(&a)
			} else {
				step16(&a)
			}
		}
		p.x, p.next = p.next, p.x
	}
	for i := range w.Size {
		copy(b.end[i*b.width+patterns.Lo:][:n], p.x[i*lanes:])
		copy(b.mean[i*b.width+patterns.Lo:][:n], p.mean[i*lanes:])
	}
}
