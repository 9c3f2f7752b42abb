package reservoir

import (
	"fmt"
	"math"
	"sync"

	"github.com/weft-run/weft/internal/philox"
)

// Span is a range of neurons or patterns, from Lo to Hi-1.
type Span struct{ Lo, Hi int }

// Tick says which step of which patterns an update is.
type Tick struct {
	Batch int    // patterns side by side in a state
	First uint64 // number of the first of them, by which noise is drawn
	Step  uint32
}

// tile is the number of patterns that are summed up at once.
const tile = 64

// scratch holds the intermediate results of an update, for four neurons at a time.
type scratch struct {
	sum, noise [4][tile]float32
	offsets    []uint32 // of entries, see addWide
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Update computes the next state of some neurons for some patterns:
//
//	next = (1-leak)·x + leak·tanh(Win·u + W·x + bias + noise)
//
// x, next and u hold a row of t.Batch values for each neuron or channel, next
// from neuron w.First on; next must not overlap x, and is changed only where both
// spans say so. The neurons must be some whose weights w holds. The terms of
// a sum are added in the order of the formula with the bias first, recurrent
// before input weights, in the order of columns, each product rounded. It panics
// if a row of the weights has entries outside of it.
func (w *Weights) Update(next, x, u []float32, t Tick, neurons, patterns Span) {
	if err := w.update(next, x, u, t, neurons, patterns); err != nil {
		panic(err)
	}
}

// update is Update with an error for entries that lie outside.
func (w *Weights) update(next, x, u []float32, t Tick, neurons, patterns Span) error {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	for i := neurons.Lo; i < neurons.Hi; {
		// A block of random words serves four neurons.
		group := min(i/4*4+4, neurons.Hi)
		for b := patterns.Lo; b < patterns.Hi; b += tile {
			n := min(tile, patterns.Hi-b)
			if w.Noise > 0 {
				w.drawNoise(&s.noise, t, i/4, b, n)
			}
			own, sum := i-w.First, s.sum[:group-i]
			for r := range sum {
				bias := w.Bias[own+r]
				for l := range sum[r][:n] {
					sum[r][l] = bias
				}
			}
			if err := w.Recurrent.addRows(s, len(sum), own, x[b:], n, t.Batch, w.Size); err != nil {
				return err
			}
			if err := w.Input.addRows(s, len(sum), own, u[b:], n, t.Batch, w.Inputs); err != nil {
				return err
			}
			if w.Noise > 0 {
				for r := i; r < group; r++ {
					for l, v := range s.noise[r%4][:n] {
						sum[r-i][l] += v
					}
				}
			}
			from, to := i*t.Batch+b, own*t.Batch+b
			w.relaxRows(next[to:], x[from:], sum, n, t.Batch)
		}
		i = group
	}
	return nil
}

// drawNoise fills in the noise of a group of four neurons for n patterns from b
// on.
func (w *Weights) drawNoise(noise *[4][tile]float32, t Tick, group, b, n int) {
	source := philox.Source{Seed: w.Seed, Stream: streamNoise}
	amplitude := float32(w.Noise)
	done := drawNoiseWide(noise, source, t.First+uint64(b), n, t.Step, uint32(group), amplitude)
	for l := done; l < n; l++ {
		for k, word := range source.Block(t.First+uint64(b+l), t.Step, uint32(group)) {
			noise[k][l] = amplitude * philox.Symmetric32(word)
		}
	}
}

// addRows adds the products of up to four rows of the matrix, which has a number of columns,
// with n patterns of x, whose rows are stride apart, to as many rows of sums. A row with an
// entry beyond the columns is an error.
func (m *Matrix) addRows(s *scratch, rows, row int, x []float32, n, stride, columns int) error {
	lo, hi, err := m.entries(row, row+rows)
	if err != nil || lo == hi {
		return err
	}
	if (wide || half) && int64(columns)*int64(stride) <= math.MaxUint32 {
		if highest := m.addWide(s, rows, row, x, n, stride, columns); int(highest) >= columns {
			return m.outside(highest, columns)
		}
		return nil
	}
	for _, c := range m.Column[lo:hi] {
		if uint(c) >= uint(columns) {
			return m.outside(uint32(c), columns)
		}
	}
	if rows == 4 && n < 8 {
		for l := range n {
			m.addFour(&s.sum, l, row, x[l:], stride)
		}
		return nil
	}
	for r := range rows {
		m.addRow(s.sum[r][:n], row+r, x, stride)
	}
	return nil
}

// entries returns which entries rows lo to hi have. They must lie in order.
func (m *Matrix) entries(lo, hi int) (from, to int, err error) {
	base := int(m.Start[0])
	from, to = int(m.Start[lo])-base, int(m.Start[hi])-base
	last := from
	for _, start := range m.Start[lo+1 : hi+1] {
		if int(start)-base < last {
			to = -1
		}
		last = int(start) - base
	}
	if from < 0 || to < from || to > min(len(m.Column), len(m.Value)) {
		return 0, 0, fmt.Errorf("a row of %d to %d of a matrix has the entries from one of %v to before the next, of %d", lo, hi-1, m.Start[lo:hi+1], len(m.Column))
	}
	return from, to, nil
}

// outside is the error of an entry.
func (m *Matrix) outside(column uint32, columns int) error {
	return fmt.Errorf("a matrix has an entry in column %d, outside of its %d columns", int32(column), columns)
}

// addFour adds the products of four rows of the matrix with a pattern. One sum would
// wait for each of its additions; four at a time do not.
func (m *Matrix) addFour(sum *[4][tile]float32, l, row int, x []float32, stride int) {
	var columns [4][]int32
	var values [4][]float32
	both := math.MaxInt
	for r := range 4 {
		lo, hi := m.Start[row+r]-m.Start[0], m.Start[row+r+1]-m.Start[0]
		columns[r], values[r] = m.Column[lo:hi], m.Value[lo:hi]
		both = min(both, len(columns[r]))
	}
	c0, c1, c2, c3 := columns[0][:both], columns[1][:both], columns[2][:both], columns[3][:both]
	v0, v1, v2, v3 := values[0][:both], values[1][:both], values[2][:both], values[3][:both]
	s0, s1, s2, s3 := sum[0][l], sum[1][l], sum[2][l], sum[3][l]
	for e := range c0 {
		s0 += float32(v0[e] * x[int(c0[e])*stride])
		s1 += float32(v1[e] * x[int(c1[e])*stride])
		s2 += float32(v2[e] * x[int(c2[e])*stride])
		s3 += float32(v3[e] * x[int(c3[e])*stride])
	}
	sum[0][l], sum[1][l], sum[2][l], sum[3][l] = s0, s1, s2, s3
	for r := range 4 {
		s := sum[r][l]
		for e := both; e < len(columns[r]); e++ {
			s += float32(values[r][e] * x[int(columns[r][e])*stride])
		}
		sum[r][l] = s
	}
}

// addRow adds the product of a row of the matrix with len(sum) patterns of x,
// whose rows are stride apart.
func (m *Matrix) addRow(sum []float32, row int, x []float32, stride int) {
	lo, hi := m.Start[row]-m.Start[0], m.Start[row+1]-m.Start[0]
	columns, values := m.Column[lo:hi], m.Value[lo:hi]
	if len(sum) < 8 { // few enough to wait for one sum after the other
		for l, s := range sum {
			for e, c := range columns {
				s += float32(values[e] * x[int(c)*stride+l])
			}
			sum[l] = s
		}
		return
	}
	for e, c := range columns {
		v := values[e]
		from := int(c) * stride
		for l, s := range x[from : from+len(sum)] {
			sum[l] += float32(v * s)
		}
	}
}

// relaxRows moves n patterns of up to four neurons, whose rows are stride apart.
func (w *Weights) relaxRows(next, x []float32, sum [][tile]float32, n, stride int) {
	leak := float32(w.Leak)
	if n != stride || len(sum)*n > tile {
		for r := range sum {
			relax(next[r*stride:r*stride+n], x[r*stride:r*stride+n], sum[r][:n], leak)
		}
		return
	}
	// The rows of few patterns lie together, and fill a vector together.
	var all [tile]float32
	for r := range sum {
		copy(all[r*n:], sum[r][:n])
	}
	n *= len(sum)
	relax(next[:n], x[:n], all[:n], leak)
}

// relax moves the states x towards the tanh of their sums.
func relax(next, x, sum []float32, leak float32) {
	done := relaxWide(next, x, sum, leak)
	keep := 1 - leak
	for l := done; l < len(sum); l++ {
		next[l] = float32(keep*x[l]) + float32(leak*tanh(sum[l]))
	}
}

// addMean adds a part of each of some states to their means.
func addMean(mean, x []float32, parts float32) {
	for l := addMeanWide(mean, x, parts); l < len(x); l++ {
		mean[l] += x[l] / parts
	}
}

// tanh returns the hyperbolic tangent to within 3e-7 of its value. It is
// expm1(2x)/(expm1(2x)+2), with 2x = n·ln 2 + r and a Taylor polynomial in r,
// and uses nothing but additions, multiplications and one division, so that a
// vector kernel gives the same bits.
func tanh(x float32) float32 {
	// Beyond this it is one in float32.
	y := 2 * min(max(x, -9.02), 9.02)
	// Adding and subtracting 1.5·2²³ rounds to an integer, which the sum holds in
	// its lowest bits.
	const shift = 3 << 22
	m := float32(y*math.Log2E) + shift
	n := m - shift
	const high, low = 0x1.62ep-1, math.Ln2 - 0x1.62ep-1 // n times high is exact
	r := y - float32(n*high) - float32(n*low)
	p := float32(r*(1.0/5040)) + 1.0/720
	p = float32(r*p) + 1.0/120
	p = float32(r*p) + 1.0/24
	p = float32(r*p) + 1.0/6
	p = float32(r*p) + 0.5
	p = float32(float32(r*r)*p) + r
	s := math.Float32frombits(math.Float32bits(m)<<23 + 0x3f800000) // 2ⁿ
	e := float32(s*p) + (s - 1)
	return e / (e + 2)
}

// State is the states of a batch of patterns while they run.
type State struct {
	Tick
	X    []float32 // states, Size rows of Batch values
	Mean []float32 // their means over the steps of the last Run, likewise
	Last []float32 // states before the last step, likewise
}

// NewState returns the states of a batch of patterns, all zero, the first of
// which has a number.
func (w *Weights) NewState(batch int, first uint64) *State {
	n := w.Size * batch
	return &State{Tick: Tick{Batch: batch, First: first}, X: make([]float32, n), Mean: make([]float32, n), Last: make([]float32, n)}
}

// Run takes all patterns of a state through steps of input: u holds Inputs rows
// of Batch values for each step, as [Pattern.Bins] or [Pattern.Histogram] fill
// it in.
func (w *Weights) Run(s *State, u []float32, steps int) {
	clear(s.Mean)
	input := w.Inputs * s.Batch
	for k := range steps {
		s.X, s.Last = s.Last, s.X
		w.Update(s.X, s.Last, u[k*input:(k+1)*input], s.Tick, Span{0, w.Size}, Span{0, s.Batch})
		addMean(s.Mean, s.X, float32(steps))
		s.Step++
	}
}

// cutRows divides n neurons or patterns into parts spans whose lengths differ by
// one at most.
func cutRows(n, parts int) []Span {
	spans := make([]Span, parts)
	for p := range spans {
		spans[p] = Span{p * n / parts, (p + 1) * n / parts}
	}
	return spans
}

// Ops returns the number of floating-point operations of some steps of a batch.
func (w *Weights) Ops(batch, steps int) float64 {
	weights := len(w.Recurrent.Value) + len(w.Input.Value)
	return float64(batch) * float64(steps) * (2*float64(weights) + 12*float64(w.Size))
}

// Bytes returns the memory traffic of some steps of a batch, in bytes. Weights with
// their columns are read again in every step; states are read twice, written
// once.
func (w *Weights) Bytes(batch, steps int) float64 {
	weights := len(w.Recurrent.Value) + len(w.Input.Value)
	return float64(steps) * (8*float64(weights) + 4*float64(batch)*float64(3*w.Size+w.Inputs))
}
