package clifford

import (
	"fmt"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/workload"
)

// negative marks an entry of a product with a minus sign.
const negative = 1 << 31

// tables are an algebra's tables for kernels.
type tables struct {
	// entries has for blades i and k, in row i, the blade j whose product with i is k, with
	// negative added if it is −k. Behind them are the signs of squares that Norm2 adds up:
	// negative or 0.
	entries []uint32
	wide    wideTables
}

func newTables(a *Algebra) (t tables) {
	n := a.Size()
	t.entries = make([]uint32, n*n+n)
	for i := range n {
		for j := range n {
			k, sign := a.BladeProduct(i, j)
			t.entries[i*n+k] = uint32(j)
			if sign < 0 {
				t.entries[i*n+k] |= negative
			}
			if j == i && (sign < 0) != reversed(a.blades[i]) {
				t.entries[n*n+i] = negative
			}
		}
	}
	t.wide = newWideTables(a, t.entries)
	return t
}

// perItem is the number of multivectors of an item of the Go kernels.
const perItem = 256

var (
	// productKernel multiplies multivectors. Its arguments are the left and the right ones,
	// the tables and the products.
	productKernel = workload.With(graph.GoKernel("clifford.product", perItem),
		workload.PTX(ptx, "clifford_product", 128, 512), workload.SPIRV(spirv, "clifford_product", 64, 64))
	// normalizeKernel divides multivectors by the root of what Norm2 is without its sign, if
	// that is not zero. Its arguments are multivectors, the tables and the normalized ones.
	normalizeKernel = workload.With(graph.GoKernel("clifford.normalize", perItem),
		workload.PTX(ptx, "clifford_normalize", 128, 128), workload.SPIRV(spirv, "clifford_normalize", 64, 64))
)

// params are the parameters of the kernels.
type params struct {
	p, q int // of the algebra
	n    int // multivectors
	// left and right are 1 if there is a left or right factor for each product, and 0 if there
	// is one for all.
	left, right int
}

// algebra is the algebra of a caller's parameters, nil if there is none.
func (p *params) algebra() *Algebra {
	a, err := NewAlgebra(p.p, p.q)
	if err != nil {
		return nil
	}
	return a
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: "clifford.product", Does: "n products of multivectors of Cl(p,q)", Grid: "n", Per: []uint32{perItem},
		Args: []signature.Arg{signature.In("left factors", graph.F4), signature.In("right factors", graph.F4), signature.In("tables", graph.U4), signature.Out("products", graph.F4)},
	}, func(_ *weft.Call, p params) (n signature.Need, err error) {
		size, err := p.check()
		if err != nil {
			return n, err
		}
		n.Items = signature.Parts(p.n, perItem)
		factors := func(each int) int64 {
			if each == 0 {
				return int64(size)
			}
			return signature.Product(p.n, size)
		}
		n.Elements[0], n.Elements[1], n.Elements[3] = factors(p.left), factors(p.right), signature.Product(p.n, size)
		return n, nil
	}, product),
	signature.Of(signature.Kernel{
		Name: "clifford.normalize", Does: "n multivectors of Cl(p,q) divided by their norms", Grid: "n", Per: []uint32{perItem},
		Args: []signature.Arg{signature.In("multivectors", graph.F4), signature.In("tables", graph.U4), signature.Out("normalized", graph.F4)},
	}, func(_ *weft.Call, p params) (n signature.Need, err error) {
		size, err := p.check()
		n.Items = signature.Parts(p.n, perItem)
		n.Elements[0], n.Elements[2] = signature.Product(p.n, size), signature.Product(p.n, size)
		return n, err
	}, normalize),
}

// check returns the size of a caller's multivectors.
func (p *params) check() (size int, err error) {
	a := p.algebra()
	if a == nil {
		return 0, fmt.Errorf("there is no Cl(%d,%d): p and q must be 1 to %d together", p.p, p.q, MaxDim)
	}
	if p.left > 1 || p.right > 1 {
		return 0, fmt.Errorf("left is %d and right %d: they are 1 for a factor for each product, and 0 for one for all", p.left, p.right)
	}
	return a.Size(), signature.Positive([]string{"n"}, p.n)
}

func product(c *weft.Call, p params, lo, hi int) {
	a := p.algebra()
	n, end := a.Size(), min(hi*perItem, p.n)
	lo *= perItem
	x, y, out := weft.View[float32](c.Args[0])[lo*n*p.left:], weft.View[float32](c.Args[1])[lo*n*p.right:], weft.View[float32](c.Args[3])[lo*n:]
	if count := end - lo; !a.wide.products(out[:count*n], x, y, p.left*n, p.right*n) {
		a.products(out[:count*n], x, y, p.left*n, p.right*n)
	}
}

// products multiplies multivectors that are xStep and yStep numbers apart, with a plain loop
// over the tables.
func (a *Algebra) products(out, x, y []float32, xStep, yStep int) {
	n := a.Size()
	for ; len(out) > 0; out = out[n:] {
		to, left, right := out[:n], x[:n], y[:n]
		clear(to)
		for i, v := range left {
			for k, e := range a.entries[i*n : (i+1)*n] {
				to[k] += math.Float32frombits(math.Float32bits(float32(v*right[e&(maxSize-1)])) ^ e&negative)
			}
		}
		x, y = x[xStep:], y[yStep:]
	}
}

func normalize(c *weft.Call, p params, lo, hi int) {
	a := p.algebra()
	n := a.Size()
	x, out := weft.View[float32](c.Args[0]), weft.View[float32](c.Args[2])
	for i := lo * perItem; i < min(hi*perItem, p.n); i++ {
		a.normalize(out[i*n:(i+1)*n], x[i*n:(i+1)*n])
	}
}

// normalize normalizes a multivector. Numbers are first multiplied by the power of two that
// scales the largest to 1 to 4, so that neither squares nor their sum leave the range of
// float32. That rounds only numbers that are negligible next to the largest.
func (a *Algebra) normalize(out, x []float32) {
	largest := uint32(0)
	for _, v := range x {
		largest = max(largest, math.Float32bits(v)&^negative)
	}
	scale, sum := scaleOf(largest), float32(0)
	for k, e := range a.entries[len(x)*len(x):] {
		v := x[k] * scale
		sum += math.Float32frombits(math.Float32bits(float32(v*v)) ^ e)
	}
	if sum == 0 {
		copy(out, x)
		return
	}
	by := float32(math.Sqrt(math.Abs(float64(sum))))
	for k, v := range x {
		out[k] = float32(v*scale) / by
	}
}

// scaleOf returns the power of two for a multivector whose largest number has these bits, 1 for one that is
// not finite. The largest numbers of float32 have no inverse that is normal.
func scaleOf(largest uint32) float32 {
	switch exponent := largest >> 23; exponent {
	case 255:
		return 1
	case 254:
		return 0x1p-126
	default:
		return math.Float32frombits((254 - exponent) << 23)
	}
}
