package reservoir

import "golang.org/x/sys/cpu"

// gathers selects the kernels that have sixteen neurons for elements. Tests clear it to run the
// others.
var gathers = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL

// slot holds the arguments of the sums of a slice: places and values by slot and neuron, states
// by place and pattern, the sums, the number of weights of each neuron and its bias, and the last
// valid place.
type slot struct {
	offsets        *uint16
	values, x, sum *float32
	lengths        *int32
	bias           *float32
	last           uint32
}

// gather1 and gather2 set the sums of a slice for one and two patterns, and return the highest of
// the places. Of places beyond the last they take that one.
//
//go:noescape
func gather1(s *slot) (highest uint32)

//go:noescape
func gather2(s *slot) (highest uint32)

// gather does the work of add.
func (s *sliced) gather(st *fewStates, place, first, batch int) (highest uint32) {
	lengths := s.lengths[place : place+sliceRows]
	n := max(int(lengths[0])*sliceRows, 1)
	offsets, values := s.offsets[first:], s.values[first:]
	if lengths[0] == 0 { // no slot: what is not read may lie outside
		offsets, values = s.offsets, s.values
	}
	offsets, values = offsets[:n], values[:n]
	g := slot{
		offsets: &offsets[0], values: &values[0], x: &st.x[0], sum: &st.sum[place*batch:][:sliceRows*batch][0],
		lengths: &lengths[0], bias: &s.bias[place : place+sliceRows][0], last: uint32(len(st.x)/batch - 1),
	}
	if batch == 1 {
		return gather1(&g)
	}
	return gather2(&g)
}
