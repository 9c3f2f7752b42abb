package reservoir

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
)

// Few patterns leave most of a vector idle where its elements are patterns, and what runOnDevices
// takes is the time to look at all weights. fewOnDevices has neurons for elements instead, and
// gathers their states: on a processor that does so for sixteen at once, two patterns take less
// than half the time of eight.

// perFew is the number of patterns in one item of fewOnDevices, and few the most that it takes: with
// more, gathering takes longer.
const (
	perFew = 2
	few    = 4
)

// fewOnDevices takes up to four patterns at once through all steps. Its arguments are weights in
// slices as a predictor makes them, the inputs, the states before the first step and after the
// last, and their means. Its parameters are those of [runOnDevices], but it adds no noise. Its grid
// is the patterns.
var fewOnDevices = graph.GoKernel("reservoir.few", perFew)

// sliceRows is the number of neurons of a slice: the length of a vector.
const sliceRows = 16

// sliced is weights cut into slices of sixteen neurons. A neuron's place is its number in the
// order of slices, and the places of channels follow those of all slices. A slice has as many
// slots as its first neuron has entries, and of a slot the neurons that have so many.
type sliced struct {
	lengths []int32   // entries of the neuron in each place, descending in a slice
	offsets []uint16  // by slot and neuron of it, the place whose state is meant
	values  []float32 // likewise, what it is multiplied by
	order   []int32   // the neuron in each place
	bias    []float32 // of the neuron in each place
}

// slicedNames are the names of the arrays of sliced weights, in the order of arguments.
var slicedNames = [5]string{"slice lengths", "slice places", "slice values", "slice order", "slice bias"}

func sliceCount(size int) int { return (size + sliceRows - 1) / sliceRows }

// fewEntries is up to how many entries weights are held in slices as well: as many as a cache may
// have. Beyond it all kernels wait for memory.
const fewEntries = 1 << 22

// fewer reports whether a predictor on this machine's cores is faster with fewOnDevices.
func (w *Weights) fewer() bool {
	return gathers && w.First == 0 && len(w.Bias) == w.Size && sliceCount(w.Size)*sliceRows+w.Inputs <= math.MaxUint16 &&
		len(w.Recurrent.Value)+len(w.Input.Value) <= fewEntries
}

// slice cuts weights of all neurons into slices.
func (w *Weights) slice() *sliced {
	entries := func(i int32) int32 {
		return w.Recurrent.Start[i+1] - w.Recurrent.Start[i] + w.Input.Start[i+1] - w.Input.Start[i]
	}
	n := sliceCount(w.Size)
	s := &sliced{lengths: make([]int32, n*sliceRows), order: make([]int32, w.Size), bias: make([]float32, n*sliceRows)}
	for i := range s.order {
		s.order[i] = int32(i)
	}
	// Those of a slice have about as many entries, so that few elements of its slots are idle.
	slices.SortStableFunc(s.order, func(a, b int32) int { return cmp.Compare(entries(b), entries(a)) })
	place := make([]uint16, w.Size)
	for at, i := range s.order {
		place[i], s.lengths[at], s.bias[at] = uint16(at), entries(i), w.Bias[i]
	}
	for first := 0; first < len(s.lengths); first += sliceRows {
		at := len(s.offsets)
		slots := int(s.lengths[first]) * sliceRows
		s.offsets, s.values = append(s.offsets, make([]uint16, slots)...), append(s.values, make([]float32, slots)...)
		for k, i := range s.order[first:min(first+sliceRows, w.Size)] {
			slot := at + k
			for e := w.Recurrent.Start[i]; e < w.Recurrent.Start[i+1]; e++ {
				s.offsets[slot], s.values[slot] = place[w.Recurrent.Column[e]], w.Recurrent.Value[e]
				slot += sliceRows
			}
			for e := w.Input.Start[i]; e < w.Input.Start[i+1]; e++ {
				s.offsets[slot], s.values[slot] = uint16(n*sliceRows+int(w.Input.Column[e])), w.Input.Value[e]
				slot += sliceRows
			}
		}
	}
	if len(s.offsets) == 0 { // data needs a size
		s.offsets, s.values = make([]uint16, sliceRows), make([]float32, sliceRows)
	}
	return s
}

// bytes is the memory of each array.
func (s *sliced) bytes() [5]int64 {
	return [5]int64{int64(4 * len(s.lengths)), int64(2 * len(s.offsets)), int64(4 * len(s.values)), int64(4 * len(s.order)), int64(4 * len(s.bias))}
}

// data adds sliced weights to a graph, and returns how a task uses them.
func (s *sliced) data(b *graph.Builder) (uses []graph.Use) {
	for i, n := range s.bytes() {
		uses = append(uses, graph.Use{Data: b.Data(graph.Data{Name: slicedNames[i], Bytes: n, Input: true}), Access: graph.Read})
	}
	return uses
}

// reside makes sliced weights resident, as Weights.reside does.
func (s *sliced) reside(rt *weft.Runtime, bind *[]weft.Binding, release *[]func()) error {
	if err := resident(rt, slicedNames[0], s.lengths, bind, release); err != nil {
		return err
	}
	if err := resident(rt, slicedNames[1], s.offsets, bind, release); err != nil {
		return err
	}
	if err := resident(rt, slicedNames[2], s.values, bind, release); err != nil {
		return err
	}
	if err := resident(rt, slicedNames[3], s.order, bind, release); err != nil {
		return err
	}
	return resident(rt, slicedNames[4], s.bias, bind, release)
}

// fewTask takes the patterns of a call through all steps by fewOnDevices.
func (w *Weights) fewTask(c call) graph.Task {
	return graph.Task{
		Work:  graph.Work{Ops: w.Ops(c.batch, c.steps), Bytes: w.Bytes(c.batch, c.steps)},
		Steps: []graph.Step{graph.Step{Kernel: fewOnDevices, Launch: graph.Grid(int64(c.batch))}.With(c)},
	}
}

var fewSignature = signature.Of(signature.Kernel{
	Name: "reservoir.few", Does: "all steps of up to four patterns", Grid: "batch", Per: []uint32{perFew},
	Args: []signature.Arg{
		signature.In(slicedNames[0], graph.I4), signature.In(slicedNames[1], graph.U2), signature.In(slicedNames[2], graph.F4),
		signature.In(slicedNames[3], graph.I4), signature.In(slicedNames[4], graph.F4), signature.In("inputs", graph.F4),
		signature.In("states before the first step", graph.F4), signature.Out("states after the last", graph.F4), signature.Out("their means", graph.F4),
	},
}, fewNeed, runFew)

func fewNeed(_ *weft.Call, c call) (n signature.Need, err error) {
	err = signature.Positive([]string{"size", "inputs", "neurons", "batch", "block", "steps"}, c.size, c.inputs, c.neurons, c.batch, c.block, c.steps)
	switch {
	case err != nil:
		return n, err
	case c.first != 0 || c.neurons != c.size || c.step != 0:
		return n, fmt.Errorf("neurons %d to %d of %d, step %d: it takes all of them through all steps", c.first, c.first+c.neurons-1, c.size, c.step)
	case c.batch > few || c.block < c.batch:
		return n, fmt.Errorf("%d patterns in blocks of %d: it takes at most %d, side by side", c.batch, c.block, few)
	}
	n.Items = signature.Parts(c.batch, perFew)
	padded := signature.Product(sliceCount(c.size), sliceRows)
	n.Elements = [12]int64{padded, sliceRows, sliceRows, int64(c.size), padded, signature.Product(c.batch, c.inputs, c.steps)}
	for i := 6; i < 9; i++ {
		n.Elements[i] = signature.Product(c.batch, c.size)
	}
	return n, nil
}

// fewStates is the memory of a call: sums and means of the neurons in each place, and states of
// those and of the channels, by place and pattern.
type fewStates struct{ sum, mean, x, next []float32 }

var fewFree = sync.Pool{New: func() any { return new(fewStates) }}

func runFew(c *weft.Call, k call, lo, hi int) {
	w := sliced{
		lengths: weft.View[int32](c.Args[0]), offsets: weft.View[uint16](c.Args[1]), values: weft.View[float32](c.Args[2]),
		order: weft.View[int32](c.Args[3])[:k.size], bias: weft.View[float32](c.Args[4]),
	}
	starts, err := w.starts(k.size)
	if err != nil {
		c.Fail(err)
		return
	}
	s := fewFree.Get().(*fewStates)
	defer fewFree.Put(s)
	for item := lo; item < hi; item++ {
		if err := s.run(c, k, &w, starts, Span{item * perFew, min((item+1)*perFew, k.batch)}); err != nil {
			c.Fail(err)
			return
		}
	}
}

// run takes one or two patterns of a call through all steps.
func (s *fewStates) run(c *weft.Call, k call, w *sliced, starts []int, patterns Span) error {
	n, padded := patterns.Hi-patterns.Lo, len(starts)*sliceRows
	states := padded * n
	s.sum, s.mean = resize(s.sum, states), resize(s.mean, states)
	s.x, s.next = resize(s.x, states+k.inputs*n), resize(s.next, states+k.inputs*n)
	clear(s.x)
	clear(s.next)
	clear(s.mean)
	row := func(arg, i int) []float32 {
		return weft.View[float32](c.Args[arg])[i*k.batch+patterns.Lo : i*k.batch+patterns.Hi]
	}
	for at, i := range w.order {
		copy(s.x[at*n:], row(6, int(i)))
	}
	for step := range k.steps {
		for i := range k.inputs {
			copy(s.x[states+i*n:], row(5, step*k.inputs+i))
		}
		for i, first := range starts {
			if i%slicesAtOnce == 0 && c.Stopped() {
				return nil
			}
			if highest := w.add(s, i*sliceRows, first, n); int(highest) >= padded+k.inputs {
				return fmt.Errorf("a weight of the neurons in places %d to %d is for place %d of %d", i*sliceRows, i*sliceRows+sliceRows-1, highest, padded+k.inputs)
			}
		}
		relax(s.next[:states], s.x[:states], s.sum, k.leak)
		addMean(s.mean, s.next[:states], float32(k.steps))
		s.x, s.next = s.next, s.x
	}
	for at, i := range w.order {
		copy(row(7, int(i)), s.x[at*n:])
		copy(row(8, int(i)), s.mean[at*n:])
	}
	return nil
}

// slicesAtOnce is after how many slices a call looks whether its result is still wanted.
const slicesAtOnce = 16

// starts returns where the slots of each slice begin. What slices say of themselves must lie
// within the arrays.
func (s *sliced) starts(size int) ([]int, error) {
	padded := sliceCount(size) * sliceRows
	out := make([]int, 0, padded/sliceRows)
	at := 0
	for first := 0; first < padded; first += sliceRows {
		out = append(out, at)
		last := s.lengths[first]
		for _, n := range s.lengths[first : first+sliceRows] {
			if n < 0 || n > last {
				return nil, fmt.Errorf("in places %d to %d a neuron has %d weights after one with %d: let those with more be first", first, first+sliceRows-1, n, last)
			}
			last = n
		}
		at += sliceRows * int(s.lengths[first])
		if at > min(len(s.offsets), len(s.values)) {
			return nil, fmt.Errorf("the neurons up to place %d take %d weights with padding, and there are %d", first+sliceRows-1, at, min(len(s.offsets), len(s.values)))
		}
	}
	for at, i := range s.order {
		if uint(i) >= uint(size) {
			return nil, fmt.Errorf("place %d names neuron %d of %d", at, i, size)
		}
	}
	return out, nil
}

// add sets the sums of a slice, whose slots begin at first, and returns the highest place that it
// has a weight for. Places beyond the states are not read.
func (s *sliced) add(st *fewStates, place, first, batch int) (highest uint32) {
	if gathers {
		return s.gather(st, place, first, batch)
	}
	sum := st.sum[place*batch:][:sliceRows*batch]
	places := len(st.x) / batch
	for k := range sliceRows {
		own := sum[k*batch:][:batch]
		for l := range own {
			own[l] = s.bias[place+k]
		}
		for slot := range int(s.lengths[place+k]) {
			e := first + slot*sliceRows + k
			from := int(s.offsets[e])
			highest = max(highest, uint32(from))
			if from >= places {
				continue
			}
			for l := range own {
				own[l] += float32(s.values[e] * st.x[from*batch+l])
			}
		}
	}
	return highest
}
