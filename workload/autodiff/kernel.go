package autodiff

import (
	"fmt"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// perItem is the number of points of an item of the Go kernel.
const perItem = 256

var (
	// kernel runs a program at points, with room for 64 values at once on GPUs. Its arguments
	// are points, instructions, numbers of the program, values and derivatives.
	kernel = workload.With(graph.GoKernel("autodiff.program", perItem),
		workload.PTX(ptx, "autodiff_program", 128, 128), workload.SPIRV(spirv, "autodiff_program", 64, 64))
	// largeKernel is Kernel with room for 256.
	largeKernel = workload.With(graph.GoKernel("autodiff.program", perItem),
		workload.PTX(ptx, "autodiff_large", 128, 128), workload.SPIRV(spirv, "autodiff_large", 64, 64))
)

// params are the parameters of the kernels.
type params struct {
	n         int // points
	variables int // numbers of a point
	outputs   int // values at a point
	columns   int // derivatives of a value
	from, to  int // the instructions
	slots     int // values that are kept at once
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = []signature.Kernel{signature.Of(signature.Kernel{
	Name: "autodiff.program", Does: "values and derivatives at n points", Grid: "n", Per: []uint32{perItem},
	Args: []signature.Arg{signature.In("points", graph.F8), signature.In("instructions", graph.U4), signature.In("numbers", graph.F8),
		signature.Out("values", graph.F8), signature.Out("derivatives", graph.F8)},
}, func(_ *weft.Call, p params) (n signature.Need, err error) {
	n.Items = signature.Parts(p.n, perItem)
	n.Elements = [12]int64{signature.Product(p.n, p.variables), signature.Product(p.to, words), 0, signature.Product(p.n, p.outputs), signature.Product(p.n, p.outputs, p.columns)}
	if p.from > p.to || p.slots > mostSlots {
		return n, fmt.Errorf("instructions from %d to %d with %d slots: the first must not be behind the last, and there may be %d slots", p.from, p.to, p.slots, mostSlots)
	}
	return n, signature.Positive([]string{"n", "variables", "outputs", "columns", "slots"}, p.n, p.variables, p.outputs, p.columns, p.slots)
}, run)}

// verify errs for an instruction that would read or write beyond its slots, numbers or results.
func (p *params) verify(code []uint32, numbers int) error {
	for at := 0; at < len(code); at += words {
		in := code[at : at+words]
		o, to := op(in[0]&0xff), in[0]>>8
		ok := int(to) < p.slots
		slot := func(at uint32) { ok = ok && int64(at) < int64(p.slots) }
		number := func(at uint32) { ok = ok && int64(at) < int64(numbers) }
		switch {
		case o == opNumber:
			number(in[2])
		case o == opVariable:
			ok = ok && int64(in[1]) < int64(p.variables)
		case o == opValue:
			slot(in[1])
			ok = ok && int64(in[2]) < int64(p.outputs)
		case o == opDerivative:
			slot(in[1])
			ok = ok && int64(in[2]) < int64(p.outputs)*int64(p.columns)
		case o == opMulAdd:
			slot(in[1])
			slot(in[2])
			slot(in[3])
		case o == opMulAddNumber:
			slot(in[1])
			number(in[2])
			slot(in[3])
		case o >= opAddNumber && o <= opDivNumber:
			slot(in[1])
			number(in[2])
		case o >= opAdd && o <= opDiv:
			slot(in[1])
			slot(in[2])
		case o <= opTanh:
			slot(in[1])
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf("instruction %d, %v, is none, or reaches beyond %d slots, %d variables, %d numbers or what it writes", p.from+at/words, in, p.slots, p.variables, numbers)
		}
	}
	return nil
}

// room lends memory for the values of a block of points.
var room workload.Scratch[float64]

// The number of points in a block: enough that dispatching an instruction costs little in
// comparison, and few enough that the values of all slots stay in a core's cache.
const (
	mostBlock   = 256
	leastBlock  = 32
	cacheValues = 1 << 14
)

// run is the kernel: every instruction for a block of points, then the next.
func run(c *weft.Call, p params, lo, hi int) {
	m := machine{params: p, points: weft.View[float64](c.Args[0]), numbers: weft.View[float64](c.Args[2]),
		values: weft.View[float64](c.Args[3]), derivatives: weft.View[float64](c.Args[4])}
	m.code = weft.View[uint32](c.Args[1])[words*p.from : words*p.to]
	if err := p.verify(m.code, len(m.numbers)); err != nil {
		c.Fail(err)
		return
	}
	m.block = min(max(cacheValues/p.slots/leastBlock*leastBlock, leastBlock), mostBlock)
	got := room.Get(p.slots * m.block)
	defer room.Put(got)
	m.slots = *got
	for first, end := lo*perItem, min(hi*perItem, p.n); first < end; first += m.block {
		m.at(first, min(m.block, end-first))
	}
}

// machine is the state of the kernel.
type machine struct {
	params
	points, numbers, values, derivatives []float64
	code                                 []uint32
	slots                                []float64 // block numbers for each
	block                                int
}

// at runs the program at points from first on.
func (m *machine) at(first, count int) {
	code, slots := m.code, m.slots
	// Vectors are whole: numbers beyond the last point are computed and not stored.
	n := (count + vector - 1) / vector * vector
	for ; len(code) >= words; code = code[words:] {
		o, to := op(code[0]&0xff), int(code[0]>>8)*m.block
		a, b, c := int(code[1]), int(code[2]), int(code[3])
		out := slots[to : to+n : to+n]
		slot := func(i int) []float64 { return slots[i*m.block : i*m.block+n] }
		switch o {
		case opNumber:
			fill(out, m.numbers[b])
		case opVariable:
			from := m.points[first*m.variables+a:]
			for i := range count {
				out[i] = from[i*m.variables]
			}
			fill(out[count:], 1)
		case opValue:
			store(m.values[first*m.outputs+b:], slot(a)[:count], m.outputs)
		case opDerivative:
			step := m.outputs * m.columns
			store(m.derivatives[first*step+b:], slot(a)[:count], step)
		case opAdd:
			add(out, slot(a), slot(b))
		case opSub:
			sub(out, slot(a), slot(b))
		case opMul:
			mul(out, slot(a), slot(b))
		case opDiv:
			div(out, slot(a), slot(b))
		case opAddNumber:
			addNumber(out, slot(a), m.numbers[b])
		case opSubNumber:
			subNumber(out, slot(a), m.numbers[b])
		case opMulNumber:
			mulNumber(out, slot(a), m.numbers[b])
		case opDivNumber:
			divNumber(out, slot(a), m.numbers[b])
		case opMulAdd:
			mulAdd(out, slot(a), slot(b), slot(c))
		case opMulAddNumber:
			mulAddNumber(out, slot(a), m.numbers[b], slot(c))
		case opNeg:
			mulNumber(out, slot(a), -1)
		case opSqrt:
			sqrt(out, slot(a))
		default:
			apply(o, out[:count], slot(a))
		}
	}
}

func fill(out []float64, x float64) {
	for i := range out {
		out[i] = x
	}
}

// store writes numbers with a stride of step.
func store(to, from []float64, step int) {
	for i, x := range from {
		to[i*step] = x
	}
}

// apply computes a function for a block. The loops of those that are used most do not call
// through the switch of compute.
func apply(o op, out, a []float64) {
	a = a[:len(out)]
	switch o {
	case opExp:
		for i, x := range a {
			out[i] = math.Exp(x)
		}
	case opLog:
		for i, x := range a {
			out[i] = logarithm(x)
		}
	case opSin:
		for i, x := range a {
			out[i] = math.Sin(x)
		}
	case opCos:
		for i, x := range a {
			out[i] = math.Cos(x)
		}
	default:
		for i, x := range a {
			out[i] = compute(o, x)
		}
	}
}

// The Go loops, for cores without kernels of their own. A product is rounded before it is added
// to anything.

func addGo(out, a, b []float64) {
	for i, x := range a[:len(out)] {
		out[i] = x + b[i]
	}
}

func subGo(out, a, b []float64) {
	for i, x := range a[:len(out)] {
		out[i] = x - b[i]
	}
}

func mulGo(out, a, b []float64) {
	for i, x := range a[:len(out)] {
		out[i] = x * b[i]
	}
}

func divGo(out, a, b []float64) {
	for i, x := range a[:len(out)] {
		out[i] = x / b[i]
	}
}

func addNumberGo(out, a []float64, b float64) {
	for i, x := range a[:len(out)] {
		out[i] = x + b
	}
}

func subNumberGo(out, a []float64, b float64) {
	for i, x := range a[:len(out)] {
		out[i] = b - x
	}
}

func mulNumberGo(out, a []float64, b float64) {
	for i, x := range a[:len(out)] {
		out[i] = x * b
	}
}

func divNumberGo(out, a []float64, b float64) {
	for i, x := range a[:len(out)] {
		out[i] = b / x
	}
}

func mulAddGo(out, a, b, c []float64) {
	for i, x := range a[:len(out)] {
		out[i] = float64(x*b[i]) + c[i]
	}
}

func mulAddNumberGo(out, a []float64, b float64, c []float64) {
	for i, x := range a[:len(out)] {
		out[i] = float64(x*b) + c[i]
	}
}

func sqrtGo(out, a []float64) {
	for i, x := range a[:len(out)] {
		out[i] = math.Sqrt(x)
	}
}
