package autodiff

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/text"
)

const (
	// MaxDirections is the most directions along which one pass takes derivatives.
	MaxDirections = 64
	// fewSlots and mostSlots are the numbers of values that the two kernels for GPUs can hold.
	fewSlots, mostSlots = 64, 256
	// maxCode is the most instructions of a pass: software Vulkan runs no more in one invocation.
	maxCode = 1 << 15
)

// words is the number of words of an instruction: the operation and, from bit 8 on, the slot it
// writes; then a, b and c.
const words = 4

// program computes values and derivatives at points, in passes over them. Kernels take it as it
// is: the instructions and the numbers of all passes, one pass after the other.
type program struct {
	code    []uint32
	numbers []float64
	passes  []*pass
	columns int // derivatives of an output
	outputs int
	ops     float64 // operations for a point, roughly
}

// pass is a part of a program, from and to by instructions.
type pass struct {
	from, to, slots int
	source          []instruction // before values had slots

	once      sync.Once
	generated *graph.Kernel
}

// instruction is an instruction before slots are assigned: to, a, b and c are values. Depending on
// the operation it has a number, or the index of the variable, value or derivative that it moves.
type instruction struct {
	op          op
	to, a, b, c value
	number      float64
	index       int
}

// newProgram compiles the values of expressions and their derivatives along directions. A direction
// has a seed for every variable. A pass has at most the given number of directions, and fewer if it
// would otherwise need more slots than there are.
func newProgram(variables int, index map[string]int, exprs []Expr, directions [][]float64, most int) (*program, error) {
	p := &program{columns: len(directions), outputs: len(exprs)}
	for first := 0; first < len(directions); {
		n := min(most, len(directions)-first)
		err := p.pass(index, exprs, directions[first:first+n], first)
		switch {
		case err == nil:
			first += n
		case n == 1:
			return nil, fmt.Errorf("autodiff: %s of %s: %w: %w", text.Count(len(exprs), "expression"), text.Count(variables, "variable"), ErrExpr, err)
		default:
			most = n / 2
		}
	}
	if len(p.numbers) == 0 {
		p.numbers = []float64{0} // kernels take some
	}
	return p, nil
}

// pass adds a pass, with the values too if it is the first one.
func (p *program) pass(index map[string]int, exprs []Expr, directions [][]float64, first int) error {
	g, done := newValues(), make(map[*node]value)
	var outputs []value
	for _, e := range exprs {
		outputs = append(outputs, g.express(e.n, index, done))
	}
	n := len(g.list)
	var stores []instruction
	if first == 0 {
		for i, v := range outputs {
			stores = append(stores, instruction{op: opValue, a: v, index: i})
		}
	}
	sweep := make([][]value, n) // every value, with its derivatives
	for v := range sweep {
		sweep[v] = []value{value(v)}
	}
	for k, seeds := range directions {
		d := g.derive(n, seeds)
		for v, of := range d {
			if of != none {
				sweep[v] = append(sweep[v], of)
			}
		}
		for i, v := range outputs {
			if v = d[v]; v == none {
				v = g.number(0)
			}
			stores = append(stores, instruction{op: opDerivative, a: v, index: i*p.columns + first + k})
		}
		if len(g.list) > 2*maxCode {
			return fmt.Errorf("they take more than %d instructions for each direction", maxCode)
		}
	}
	best, slots := []instruction(nil), math.MaxInt
	for _, way := range []schedule{{}, {depthFirst: true}, {repeat: true}, {depthFirst: true, repeat: true}} {
		if way.repeat && slots <= fewSlots {
			break
		}
		list := fuse(way.order(g, sweep, stores))
		if need := allot(list, nil); need < slots && (slots > fewSlots || len(list) <= len(best)) {
			best, slots = list, need
		}
	}
	if slots > mostSlots || len(best) > maxCode {
		return fmt.Errorf("they take %d instructions and room for %d values at once for each direction: there may be %d and %d", len(best), slots, maxCode, mostSlots)
	}
	p.emit(best, slots)
	return nil
}

// schedule is an order of instructions.
type schedule struct {
	depthFirst bool // complete one output after the other, rather than each value with all its derivatives
	repeat     bool // variables and numbers are loaded for every use, and take no slots in between
}

// order lists the instructions for the stores; a result is stored as soon as it is computed.
func (s schedule) order(g *values, sweep [][]value, stores []instruction) (out []instruction) {
	waiting := make(map[value][]instruction)
	for _, st := range stores {
		waiting[st.a] = append(waiting[st.a], st)
	}
	next := value(len(g.list)) // of repeated loads
	done := make([]bool, len(g.list))
	emit := func(v value) {
		e := g.list[v]
		done[v] = true
		in := instruction{op: e.op, to: v, a: e.a, b: e.b, c: e.c, number: math.Float64frombits(e.number)}
		if e.op == opVariable {
			in.index, in.a = int(e.a), none
		}
		if s.repeat {
			for _, at := range []*value{&in.a, &in.b} {
				if *at != none && leaf(g.list[*at].op) {
					load := g.list[*at]
					out = append(out, instruction{op: load.op, to: next, a: none, b: none, c: none, number: math.Float64frombits(load.number), index: int(load.a)})
					*at = next
					next++
				}
			}
		}
		if !s.repeat || !leaf(e.op) || waiting[v] != nil {
			out = append(out, in)
		}
		for _, st := range waiting[v] {
			st.b, st.c, st.to = none, none, none
			out = append(out, st)
		}
	}
	if s.depthFirst {
		for _, st := range stores {
			g.visit(st.a, done, emit)
		}
		return out
	}
	needed := make([]bool, len(g.list))
	for _, st := range stores {
		g.visit(st.a, needed, func(v value) { needed[v] = true })
	}
	for _, of := range sweep {
		for _, v := range of {
			if needed[v] {
				g.visit(v, done, emit)
			}
		}
	}
	for _, st := range stores { // numbers, which are no value's derivative
		g.visit(st.a, done, emit)
	}
	return out
}

func leaf(o op) bool { return o == opVariable || o == opNumber }

// visit calls do for the operands of a value and then for the value, except for those already done.
// It does not recurse, since sums may be long.
func (g *values) visit(v value, done []bool, do func(value)) {
	stack := []value{v}
	for len(stack) > 0 {
		v := stack[len(stack)-1]
		e := &g.list[v]
		ready := done[v]
		if !ready && e.op != opVariable {
			ready = true
			for _, operand := range []value{e.b, e.a} {
				if operand != none && !done[operand] {
					stack, ready = append(stack, operand), false
				}
			}
			if !ready {
				continue
			}
		}
		stack = stack[:len(stack)-1]
		if !done[v] {
			do(v)
			done[v] = true
		}
	}
}

// fuse joins a product with the sum that alone uses it. Both are still rounded.
func fuse(list []instruction) []instruction {
	uses, made := make([]int, last(list)+1), make([]int, last(list)+1)
	for i, in := range list {
		for _, v := range [...]value{in.a, in.b} {
			if v != none {
				uses[v]++
			}
		}
		if in.to != none {
			made[in.to] = i
		}
	}
	gone := make([]bool, len(list))
	for i := range list {
		in := &list[i]
		if in.op != opAdd {
			continue
		}
		for _, sides := range [][2]value{{in.a, in.b}, {in.b, in.a}} {
			by := list[made[sides[0]]]
			if uses[sides[0]] != 1 || by.op != opMul && by.op != opMulNumber || by.c != none {
				continue
			}
			gone[made[sides[0]]] = true
			o := opMulAdd
			if by.op == opMulNumber {
				o = opMulAddNumber
			}
			*in = instruction{op: o, to: in.to, a: by.a, b: by.b, c: sides[1], number: by.number}
			break
		}
	}
	out := list[:0]
	for i, in := range list {
		if !gone[i] {
			out = append(out, in)
		}
	}
	return out
}

// last is the largest value of instructions.
func last(list []instruction) (v value) {
	for _, in := range list {
		v = max(v, in.to)
	}
	return v
}

// allot assigns slots to values, reuses them after the last use, and returns their number. It calls
// slot with the slots of every instruction, none for an operand that is missing.
func allot(list []instruction, slot func(i int, to, a, b, c value)) (slots int) {
	until, at := make([]int, last(list)+1), make([]value, last(list)+1)
	for i, in := range list {
		for _, v := range [...]value{in.a, in.b, in.c} {
			if v != none {
				until[v] = i
			}
		}
	}
	var free []value
	for i, in := range list {
		var to [4]value
		operands := [4]value{none, in.a, in.b, in.c}
		for k, v := range operands {
			if to[k] = none; v != none {
				to[k] = at[v]
			}
		}
		for k, v := range operands {
			if v != none && until[v] == i && !slices.Contains(operands[:k], v) {
				free = append(free, at[v])
			}
		}
		if in.to != none {
			if len(free) == 0 {
				free = append(free, value(slots))
				slots++
			}
			to[0] = free[len(free)-1]
			at[in.to], free = to[0], free[:len(free)-1]
		}
		if slot != nil {
			slot(i, to[0], to[1], to[2], to[3])
		}
	}
	return slots
}

// emit adds instructions as a pass.
func (p *program) emit(list []instruction, slots int) {
	ps := &pass{from: len(p.code) / words, slots: slots, source: slices.Clone(list)}
	numbers := make(map[uint64]uint32)
	for i, x := range p.numbers {
		numbers[math.Float64bits(x)] = uint32(i)
	}
	number := func(x float64) uint32 {
		bits := math.Float64bits(x)
		i, ok := numbers[bits]
		if !ok {
			i = uint32(len(p.numbers))
			p.numbers, numbers[bits] = append(p.numbers, x), i
		}
		return i
	}
	allot(list, func(i int, to, a, b, c value) {
		in := &list[i]
		w := [words]uint32{uint32(in.op)}
		for k, v := range []value{to, a, b, c} {
			switch {
			case v == none:
			case k == 0:
				w[0] |= uint32(v) << 8
			default:
				w[k] = uint32(v)
			}
		}
		switch in.op {
		case opVariable:
			w[1] = uint32(in.index)
		case opValue, opDerivative:
			w[2] = uint32(in.index)
		case opNumber, opAddNumber, opSubNumber, opMulNumber, opDivNumber, opMulAddNumber:
			w[2] = number(in.number)
		}
		p.code = append(p.code, w[:]...)
		p.ops += price(in.op)
	})
	ps.to = len(p.code) / words
	p.passes = append(p.passes, ps)
}

// price is the approximate cost of an operation, in additions.
func price(o op) float64 {
	switch {
	case o == opMulAdd || o == opMulAddNumber:
		return 2
	case o == opDiv || o == opDivNumber || o == opSqrt:
		return 4
	case o >= opExp && o <= opTanh:
		return 20
	}
	return 1
}
