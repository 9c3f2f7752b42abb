package ntt

import (
	"fmt"
	"math/bits"

	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// Pass computes short transforms of columns. Its arguments are the elements before and after,
// and the tables; its grid is groups of 512 elements, and rows.
var Pass = workload.With(graph.GoKernel("ntt.pass", 1, graph.All),
	workload.PTX(ptx, "ntt_pass", 256), workload.SPIRV(spirv, "ntt_pass", 128))

// Move copies rows of elements. Its grid is the elements.
var Move = workload.With(graph.GoKernel("ntt.move", moved),
	workload.PTX(ptx, "ntt_move", 256, 256), workload.SPIRV(spirv, "ntt_move", 128, 128))

// moved is the number of elements that an item of the Go code moves.
const moved = 1 << 10

// Size is the bytes of an element.
const Size = fr.Bytes

// passParams are the parameters of Pass. A row is one transform of 2^size elements. A pass of
// transforms of 2^span elements divides it into 2^(size-span) columns.
type passParams struct {
	size, span   int // logs
	before       int // log of the product of the lengths of passes before
	shift        int // log of the number of such rows in the whole transform
	first, count int // the columns: the first, and their number
	from         int // the first column of the source
	stride       int // distance in elements from one element of a column to the next
	rows, row    int // rows, and the number of the first
	backward     int // 1 for an inverse transform
	scale        int // scaling: one of those below
	order        int // of the elements after: one of those below
}

// The factors of elements apart from roots.
const (
	scaleNone  = iota
	scaleFirst // powers of the factor, before
	scaleBy    // the first of its second powers, after
	scaleLast  // powers of the factor, after
)

// The order in which elements are written: as the next pass or the result needs them, row by
// row; with the elements of all rows at one place together; or with the elements of all
// columns at one place together.
const (
	orderRows = iota
	orderMixed
	orderColumns
)

// moveParams are the parameters of Move: rows of cols elements. from and to are the elements with which
// the first row begins, and the strides are the distances from one row to the next.
type moveParams struct {
	rows, cols       int
	from, fromStride int
	to, toStride     int
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: "ntt.pass", Does: "short transforms of columns of elements of BN254's scalars, 4 words each", Grid: "groups of 512 elements, rows", Per: []uint32{1, graph.All},
		Args: []signature.Arg{signature.In("before", graph.U8), signature.Out("after", graph.U8), signature.In("tables", graph.U8)},
	}, needPass, pass),
	signature.Of(signature.Kernel{
		Name: "ntt.move", Does: "copies rows of elements of 4 words", Grid: "elements", Per: []uint32{moved},
		Args: []signature.Arg{signature.In("from", graph.U8), signature.InOut("to", graph.U8)},
	}, needMove, move),
}

// words is the number of words of an element.
const words = Size / 8

// per returns the number of columns of a group of Pass.
func (p *passParams) per() int { return 1 << (logLocal - p.span) }

// groups is the number of groups of a row.
func (p *passParams) groups() int { return (p.count + p.per() - 1) / p.per() }

// needPass refuses what would lead outside of the arguments.
func needPass(_ *weft.Call, p passParams) (n signature.Need, err error) {
	if err := signature.Positive([]string{"count", "stride", "rows"}, p.count, p.stride, p.rows); err != nil {
		return n, err
	}
	if p.size+p.shift > MaxLog || p.span > min(p.size, logLocal) || p.before > p.size-p.span {
		return n, fmt.Errorf("a pass over 2^%d of 2^%d elements behind 2^%d in 2^%d rows: there are at most 2^%d and 2^%d elements, and no more passes than a row has", p.span, p.size, p.before, p.shift, logLocal, MaxLog)
	}
	columns := 1 << (p.size - p.span)
	if p.from > p.first || p.first+p.count > columns || p.row+p.rows > 1<<p.shift {
		return n, fmt.Errorf("columns %d to %d from %d and rows %d to %d: there are %d and %d", p.first, p.first+p.count, p.from, p.row, p.row+p.rows, columns, 1<<p.shift)
	}
	if p.backward > 1 || p.scale > scaleLast || p.order > orderColumns || p.order == orderColumns && (p.rows > 1 || p.before > 0) {
		return n, fmt.Errorf("backward %d, scale %d and order %d: at most 1, %d and %d, and order %d is for one row's first pass", p.backward, p.scale, p.order, scaleLast, orderColumns, orderColumns)
	}
	n.Items = int64(p.groups())
	n.Elements[0] = words * (int64(p.rows-1)<<p.size + int64(1<<p.span-1)*int64(p.stride) + int64(p.first+p.count-p.from))
	n.Elements[1] = words * int64(p.rows) << p.size
	if p.order == orderColumns {
		n.Elements[1] = words * int64(p.count) << p.span
	}
	n.Elements[2] = words * int64(tableLen(p.size+p.shift))
	return n, nil
}

func needMove(_ *weft.Call, p moveParams) (n signature.Need, err error) {
	if err := signature.Positive([]string{"rows", "cols"}, p.rows, p.cols); err != nil {
		return n, err
	}
	for _, x := range []int{p.rows, p.cols, p.from, p.fromStride, p.to, p.toStride} {
		if x > 1<<MaxLog {
			return n, fmt.Errorf("%d elements, to move or to be apart: at most 2^%d are taken", x, MaxLog)
		}
	}
	if p.toStride < p.cols && p.rows > 1 {
		return n, fmt.Errorf("rows of %d elements that begin %d after one another: they would be written over", p.cols, p.toStride)
	}
	n.Items = (signature.Product(p.rows, p.cols) + moved - 1) / moved
	n.Elements[0] = signature.Product(words, p.from+(p.rows-1)*p.fromStride+p.cols)
	n.Elements[1] = signature.Product(words, p.to+(p.rows-1)*p.toStride+p.cols)
	return n, nil
}

func move(c *weft.Call, p moveParams, lo, hi int) {
	from, to := weft.View[fr.Element](c.Args[0]), weft.View[fr.Element](c.Args[1])
	for at, end := lo*moved, min(hi*moved, p.rows*p.cols); at < end; {
		row, col := at/p.cols, at%p.cols
		n := min(p.cols-col, end-at)
		copy(to[p.to+row*p.toStride+col:][:n], from[p.from+row*p.fromStride+col:])
		at += n
	}
}

// passer does a pass on one core.
type passer struct {
	*passParams
	src, dst []fr.Element
	roots    exponents
	factor   exponents
	domain   *fft.Domain
	order    []int        // the place at which gnark-crypto leaves element k
	column   []fr.Element // the elements of some columns
	twiddles []fr.Element // factors of the elements of one column, in their places
	have     int          // the column number (without its low bits) whose factors twiddles holds; -1 for none
}

// together is the number of columns that are read at a time: 8 elements of 32 bytes fill cache lines.
const together = 8

var scratch workload.Scratch[fr.Element]

func pass(c *weft.Call, p passParams, lo, hi int) {
	length := 1 << p.span
	memory := scratch.Get((together + 1) * length)
	defer scratch.Put(memory)
	tables := weft.View[fr.Element](c.Args[2])
	w := passer{
		passParams: &p, src: weft.View[fr.Element](c.Args[0]), dst: weft.View[fr.Element](c.Args[1]),
		roots: pair(tables, p.size+p.shift, false), factor: pair(tables, p.size+p.shift, true),
		column: (*memory)[:together*length], twiddles: (*memory)[together*length:][:length], order: make([]int, length), have: -1,
	}
	if p.span > 0 {
		w.domain = domainOf(p.span)
	}
	for k := range w.order {
		// The inverse of a transform is the transform with its elements, but for the first, in
		// the other order.
		from := k
		if p.backward == 1 {
			from = (length - k) % length
		}
		w.order[k] = int(bits.Reverse64(uint64(from)) >> 1 >> (63 - p.span))
	}
	for row := range p.rows {
		for at, end := p.first+lo*p.per(), p.first+min(hi*p.per(), p.count); at < end && !c.Stopped(); at += together {
			w.columns(row, at, min(at+together, end))
		}
	}
}

// columns transforms columns lo to hi-1 of a row.
func (w *passer) columns(row, lo, hi int) {
	length := 1 << w.span
	for n := range length {
		from := w.src[row<<w.size+n*w.stride+lo-w.from:]
		for i := range hi - lo {
			w.column[i*length+n] = from[i]
		}
	}
	for c := lo; c < hi; c++ {
		x := w.column[(c-lo)*length:][:length]
		if w.scale == scaleFirst {
			for n := range x {
				f := w.factor.at(n<<(w.size-w.span) + c)
				x[n].Mul(&x[n], &f)
			}
		}
		if w.span > 0 {
			w.domain.FFT(x, fft.DIF, fft.WithNbTasks(1))
		}
		if rest := c >> w.before; rest > 0 {
			w.multiply(x, rest)
		}
	}
	for k := range length {
		for c := lo; c < hi; c++ {
			x := &w.column[(c-lo)*length+w.order[k]]
			place := c>>w.before<<(w.before+w.span) + c&(1<<w.before-1) + k<<w.before
			switch w.scale {
			case scaleBy:
				x.Mul(x, &w.factor.high[0])
			case scaleLast:
				f := w.factor.at(place<<w.shift + w.row + row)
				x.Mul(x, &f)
			}
			switch w.passParams.order {
			case orderRows:
				place += row << w.size
			case orderMixed:
				place = place*w.rows + row
			case orderColumns:
				place = k*w.count + c - w.first
			}
			w.dst[place] = *x
		}
	}
}

// multiply multiplies the elements of a column by the powers of its root. rest is the column's number
// without its low bits; columns with the same rest have the same root.
func (w *passer) multiply(x []fr.Element, rest int) {
	if w.have != rest {
		base := w.roots.at(rest << (w.before + w.shift))
		power := fr.One()
		for _, at := range w.order {
			w.twiddles[at] = power
			power.Mul(&power, &base)
		}
		w.have = rest
	}
	v := fr.Vector(x)
	v.Mul(v, w.twiddles)
}
