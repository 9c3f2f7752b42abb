package elastic

import (
	"fmt"
	"math"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/internal/signature"
	"github.com/weft-run/weft/internal/simd"
	"github.com/weft-run/weft/workload"
)

// The vectors of the basis are stored by blocks of rows: a block has the entries of all
// vectors in its rows, vector by vector. What a task has of the basis is therefore contiguous.
//
// params are the parameters of all kernels.
type params struct {
	block  int     // rows of a block
	blocks int     // of this task
	all    int     // blocks of the matrix
	first  int     // block of this task
	width  int     // vectors that a block has room for
	count  int     // vectors that there are, the new one included
	seed   uint32  // of random numbers: the step
	least  float64 // a vector whose sum of squares is no more is zero but for rounding
}

var (
	// multiplyOnDevices makes the next vector of the basis and its product with the matrix, and
	// sums over blocks: of the product with every vector. After a vector that is zero, with
	// which the basis holds all that there is to find from the first, the vector stays zero
	// and random numbers stand for the product. Its arguments are rows of the
	// matrix, the vector, sums of its squares, rows of the basis, the product, sums of the
	// product with the new vector and with all.
	multiplyOnDevices = kernel("elastic.multiply", "elastic_multiply")
	// projectOnDevices subtracts from a product its components along the basis, and sums over
	// blocks the products with every vector anew. Its arguments are sums of all blocks, rows
	// of the basis, the product, and sums.
	projectOnDevices = kernel("elastic.project", "elastic_project")
	// restOnDevices subtracts from a product its components along the basis, which leaves the
	// next vector, and sums over blocks the squares of that. Its arguments are sums of all
	// blocks, rows of the basis, the product, the vector, and sums of its squares.
	restOnDevices = kernel("elastic.rest", "elastic_rest")
)

func kernel(name, entry string) *graph.Kernel {
	return workload.With(graph.GoKernel(name, 1), workload.PTX(ptx, entry, 64), workload.SPIRV(spirv, entry, 64))
}

// Funcs are the Go kernels of this workload.
func Funcs() map[string]weft.Func { return signature.Funcs(kernels) }

var kernels = []signature.Kernel{
	signature.Of(signature.Kernel{
		Name: multiplyOnDevices.Name, Does: "a vector scaled, its product with a sparse matrix, and sums over blocks", Grid: "blocks", Per: []uint32{1},
		Args: []signature.Arg{
			signature.In("starts", graph.U4), signature.In("columns", graph.U4), signature.In("values", graph.F8),
			signature.In("vector", graph.F8), signature.In("squares", graph.F8), signature.InOut("basis", graph.F8),
			signature.Out("product", graph.F8), signature.Out("diagonal", graph.F8), signature.Out("sums", graph.F8),
		},
	}, func(_ *weft.Call, p params) (n signature.Need, err error) {
		n, err = need(p)
		rows := signature.Product(p.blocks, p.block)
		n.Elements = [12]int64{
			rows + 1, 0, 0, signature.Product(p.all, p.block), int64(p.all), signature.Product(p.blocks, p.block, p.width),
			rows, int64(p.blocks), signature.Product(p.blocks, p.width),
		}
		return n, err
	}, multiply),
	signature.Of(signature.Kernel{
		Name: projectOnDevices.Name, Does: "a vector less its part along others, and sums over blocks", Grid: "blocks", Per: []uint32{1},
		Args: []signature.Arg{
			signature.In("sums", graph.F8), signature.In("basis", graph.F8), signature.InOut("product", graph.F8), signature.Out("again", graph.F8),
		},
	}, func(_ *weft.Call, p params) (n signature.Need, err error) {
		n, err = need(p)
		n.Elements = [12]int64{
			signature.Product(p.all, p.width), signature.Product(p.blocks, p.block, p.width), signature.Product(p.blocks, p.block), signature.Product(p.blocks, p.width),
		}
		return n, err
	}, project),
	signature.Of(signature.Kernel{
		Name: restOnDevices.Name, Does: "a vector less its part along others, and sums of its squares over blocks", Grid: "blocks", Per: []uint32{1},
		Args: []signature.Arg{
			signature.In("sums", graph.F8), signature.In("basis", graph.F8), signature.In("product", graph.F8),
			signature.Out("vector", graph.F8), signature.Out("squares", graph.F8),
		},
	}, func(_ *weft.Call, p params) (n signature.Need, err error) {
		n, err = need(p)
		rows := signature.Product(p.blocks, p.block)
		n.Elements = [12]int64{signature.Product(p.all, p.width), signature.Product(p.blocks, p.block, p.width), rows, rows, int64(p.blocks)}
		return n, err
	}, rest),
}

// need returns the number of items, or an error about the parameters.
func need(p params) (n signature.Need, err error) {
	if err := signature.Positive([]string{"block", "blocks", "all", "width", "count"}, p.block, p.blocks, p.all, p.width, p.count); err != nil {
		return n, err
	}
	switch {
	case p.block%lanes != 0 || p.block > maxBlock:
		return n, fmt.Errorf("blocks of %d rows: it must be a multiple of %d, at most %d", p.block, lanes, maxBlock)
	case p.count > p.width:
		return n, fmt.Errorf("%d vectors where there is room for %d", p.count, p.width)
	case p.first+p.blocks > p.all:
		return n, fmt.Errorf("blocks %d to %d of %d", p.first, p.first+p.blocks-1, p.all)
	}
	n.Items = int64(p.blocks)
	return n, nil
}

func outside(row int) error {
	return fmt.Errorf("row %d of the matrix has an entry outside of it", row)
}

func multiply(c *weft.Call, p params, lo, hi int) {
	starts, columns, values := weft.View[uint32](c.Args[0]), weft.View[uint32](c.Args[1]), weft.View[float64](c.Args[2])
	vector, squares := weft.View[float64](c.Args[3])[:p.all*p.block], weft.View[float64](c.Args[4])[:p.all]
	basis, product := weft.View[float64](c.Args[5]), weft.View[float64](c.Args[6])
	diagonal, sums := weft.View[float64](c.Args[7]), weft.View[float64](c.Args[8])
	scale := inverse(squares, p.least)
	for b := lo; b < hi && !c.Stopped(); b++ {
		own := basis[b*p.block*p.width:][:p.block*p.width]
		to := product[b*p.block:][:p.block]
		for i, v := range vector[(p.first+b)*p.block:][:p.block] {
			own[(p.count-1)*p.block+i] = v * scale
		}
		for i := range to {
			row := b*p.block + i
			from, end := starts[row]-starts[0], starts[row+1]-starts[0]
			if from > end || int(end) > min(len(columns), len(values)) {
				c.Fail(outside(row))
				return
			}
			if scale == 0 {
				to[i] = 0
				if from < end { // and not to fill up the last block
					to[i] = noise(uint32(p.first*p.block+row), p.seed)
				}
				continue
			}
			sum, ok := along(columns[from:end], values[from:end], vector)
			if !ok {
				c.Fail(outside(row))
				return
			}
			to[i] = sum * scale
		}
		out := sums[b*p.width:][:p.count]
		dots(out, own, to)
		diagonal[b] = out[p.count-1]
	}
}

// along returns the product of a row with a vector, unless the row has an entry outside.
func along(columns []uint32, values, vector []float64) (sum float64, ok bool) {
	values = values[:len(columns)]
	for k, col := range columns {
		if int(col) >= len(vector) {
			return 0, false
		}
		sum += float64(values[k] * vector[col])
	}
	return sum, true
}

// inverse returns one over the length of a vector by the sums of its squares, and zero for a
// vector that is zero.
func inverse(squares []float64, least float64) float64 {
	sum := 0.0
	for _, s := range squares {
		sum += s
	}
	if sum <= least {
		return 0
	}
	return 1 / math.Sqrt(sum)
}

// noise is a number in [-1, 1) by its row and a seed: murmur3's mixing of both.
func noise(row, seed uint32) float64 {
	x := row*0x9e3779b9 ^ seed*0x85ebca6b
	x = (x ^ x>>16) * 0x85ebca6b
	x = (x ^ x>>13) * 0xc2b2ae35
	x ^= x >> 16
	return float64(x)/(1<<31) - 1
}

func project(c *weft.Call, p params, lo, hi int) {
	sums, basis := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1])
	product, again := weft.View[float64](c.Args[2]), weft.View[float64](c.Args[3])
	h := scratch.Get(p.count)
	defer scratch.Put(h)
	total((*h)[:p.count], sums, p)
	for b := lo; b < hi && !c.Stopped(); b++ {
		own := basis[b*p.block*p.width:][:p.block*p.width]
		w := product[b*p.block:][:p.block]
		subtract(w, own, (*h)[:p.count])
		dots(again[b*p.width:][:p.count], own, w)
	}
}

func rest(c *weft.Call, p params, lo, hi int) {
	sums, basis := weft.View[float64](c.Args[0]), weft.View[float64](c.Args[1])
	product, vector, squares := weft.View[float64](c.Args[2]), weft.View[float64](c.Args[3]), weft.View[float64](c.Args[4])
	h := scratch.Get(p.count)
	defer scratch.Put(h)
	total((*h)[:p.count], sums, p)
	for b := lo; b < hi && !c.Stopped(); b++ {
		own := basis[b*p.block*p.width:][:p.block*p.width]
		to := vector[b*p.block:][:p.block]
		copy(to, product[b*p.block:])
		subtract(to, own, (*h)[:p.count])
		dots(squares[b:b+1], to, to)
	}
}

var scratch workload.Scratch[float64]

// total adds up the sums of all blocks, in their order.
func total(h, sums []float64, p params) {
	clear(h)
	for b := range p.all {
		for i, s := range sums[b*p.width:][:len(h)] {
			h[i] += s
		}
	}
}

// maxBlock is the largest number of rows of a block: kernels for GPUs have a thread for each.
const maxBlock = 64

// lanes is the number of sums that a dot product is made of, in any kernel.
const lanes = simd.Lanes

// use is the set of kernels in use. Tests set it to run the others.
var use = simd.Best

// dots sets out to the products of vectors, one after the other in v, with w.
func dots(out, v, w []float64) {
	if dotsWide(out, v, w) {
		return
	}
	for i := range out {
		row := v[i*len(w):][:len(w)]
		var s [lanes]float64
		for r := 0; r < len(w); r += lanes {
			for k := range s {
				s[k] += float64(row[r+k] * w[r+k])
			}
		}
		out[i] = simd.Sum(&s)
	}
}

// subtract takes h times the vectors in v from w, one after the other.
func subtract(w, v, h []float64) {
	if subtractWide(w, v, h) {
		return
	}
	for i, f := range h {
		for r, x := range v[i*len(w):][:len(w)] {
			w[r] -= float64(f * x)
		}
	}
}
