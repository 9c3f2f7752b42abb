// Package panel multiplies dense float32 matrices block by block over a
// semiring: sums of products, or maxima of sums. It is the machinery below the
// workloads gemm, tropical and conv, which say what the numbers mean.
//
// The inner loop is a tile of the result that lives in registers. It exists in
// AVX-512, AVX2, NEON and Go; what surrounds it (cutting, packing, edges) is the
// same Go code for all. Everything is single-threaded, allocates nothing and
// may be called from several goroutines with scratch of their own.
//
// # Order of operations
//
// A tile starts from what the result holds and takes the terms in rising order
// of the inner index, so every element is one chain
//
//	c = c0; for p := 0; p < k; p++ { c = c ⊕ a[p] ⊗ b[p] }
//
// however the matrices are cut: neither the blocking constants below, nor the
// range of rows a call was given, nor the width of the vectors can be seen in
// the result. What can be seen is whether ⊕ and ⊗ round once or twice: the
// vector kernels for sums of products use fused multiply-add, the Go kernel
// rounds the product first. The kernels for maxima of sums agree in every bit.
package panel

import (
	"fmt"
	"math"
)

// Blocking. A panel of b (depth × Columns floats, 32 KiB) stays in the L1 cache
// while panels of a pass over it from L2. Depth is also what bounds the time
// inside one call of assembly, during which the garbage collector has to wait:
// 12 × 32 × 256 multiply-adds take some 2 µs.
const (
	depth   = 256  // inner indices in a block
	height  = 240  // rows of a in a block, a multiple of every MR
	width   = 1024 // columns of b in a block, a multiple of Columns
	strideA = depth + 16
	blockA  = height * strideA
	blockB  = width * depth
)

// BlockRows is how many rows of a are packed at a time; for each such block b is read.
const BlockRows = height

// Columns is how many columns of b a panel has: those of the widest tile, and a
// multiple of those of every other, so that one layout serves all kernels.
const Columns = MaxNR

// Scratch is how many floats of scratch memory [Kernel.Rows] needs, whatever
// the shape of the matrices.
const Scratch = PackedScratch + blockB

// PackedScratch is how many [Kernel.PackedRows] needs.
const PackedScratch = blockA + MaxMR*MaxNR

// MaxMR and MaxNR are the rows and columns of the largest tile of any kernel, so
// that scratch can be sized for a machine other than this one.
const (
	MaxMR = 12
	MaxNR = 32
)

// MaxDepth is the most terms one call of [Kernel.Tile] takes, so that no call
// keeps the garbage collector waiting for long.
const MaxDepth = 4096

// Kernel is one implementation of the inner loop.
type Kernel struct {
	// Name is the instruction set: avx512, avx2, neon or go.
	Name string
	// MR and NR are the rows and columns of a full tile.
	MR, NR int
	// Fused says that a product is not rounded before it is added.
	Fused bool

	zero  float32 // what adds nothing: 0, or -Inf for maxima
	tiles []tile  // by falling number of rows, the first has MR
}

// linear says where in a panel its rows begin.
var linear = func() (off [depth]int32) {
	for p := range off {
		off[p] = int32(p * Columns)
	}
	return off
}()

// tile accumulates into a block of rows × NR of c.
type tile struct {
	rows int
	run  func(c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int)
}

// SumProduct returns the kernels for c = Σ a·b that this machine can run, the
// fastest first. The last is written in Go and runs everywhere.
func SumProduct() []*Kernel {
	return append(sumProductSIMD(), newKernel("go", 4, false, 0, tile{4, sumProductGo}))
}

// MaxPlus returns the kernels for c = max(a+b) that this machine can run, the
// fastest first. The last is written in Go and runs everywhere.
func MaxPlus() []*Kernel {
	return append(maxPlusSIMD(), newKernel("go", 4, false, float32(math.Inf(-1)), tile{4, maxPlusGo}))
}

func newKernel(name string, nr int, fused bool, zero float32, tiles ...tile) *Kernel {
	return &Kernel{Name: name, MR: tiles[0].rows, NR: nr, Fused: fused, zero: zero, tiles: tiles}
}

// Rows sets rows lo to hi of c to the product of a (k columns, row-major) and b
// (k × n, row-major). All rows are counted from the beginning of c and a. The
// slices must not overlap; scratch has at least [Scratch] floats, whose
// contents do not matter. Rows panics when a slice is too short.
//
// b is packed once for every call, so a call for few rows is slow: who has many
// calls for one b packs it with [Pack] and calls [Kernel.PackedRows].
func (kn *Kernel) Rows(c, a, b []float32, k, n, lo, hi int, scratch []float32) {
	shape(c, a, k, n, lo, hi)
	need("b", b, k, n)
	need("scratch", scratch, 1, Scratch)
	if kn.nothing(c, k, n, lo, hi) {
		return
	}
	packedB, scratch := scratch[:blockB], scratch[blockB:]
	for j := 0; j < n; j += width {
		jn := min(width, n-j)
		for p := 0; p < k; p += depth {
			pn := min(depth, k-p)
			pack(packedB, b[p*n:], depth, n, pn, j, j+jn)
			kn.blocks(c[j:], a[p:], packedB, depth, k, n, jn, pn, lo, hi, p == 0, scratch)
		}
	}
}

// PackedRows is [Kernel.Rows] for a b that [Pack] has packed. scratch has at
// least [PackedScratch] floats. Calls should have some dozens of rows each.
func (kn *Kernel) PackedRows(c, a, packed []float32, k, n, lo, hi int, scratch []float32) {
	shape(c, a, k, n, lo, hi)
	need("packed b", packed, 1, Start(k, n, Count(k, n)))
	need("scratch", scratch, 1, PackedScratch)
	if kn.nothing(c, k, n, lo, hi) {
		return
	}
	for p := 0; p < k; p += depth {
		pn := min(depth, k-p)
		kn.blocks(c, a[p:], packed[p*columns(n):], pn, k, n, n, pn, lo, hi, p == 0, scratch)
	}
}

// nothing reports whether there is nothing to multiply, and if that is because
// there is no term sets the rows to what adds nothing.
func (kn *Kernel) nothing(c []float32, k, n, lo, hi int) bool {
	if k == 0 {
		for i := range c[lo*n : hi*n] {
			c[lo*n+i] = kn.zero
		}
	}
	return k == 0 || lo == hi
}

// columns returns n rounded up to whole panels.
func columns(n int) int { return (n + Columns - 1) / Columns * Columns }

// Count returns how many panels a packed b of k × n has. Those of its first rows
// come first, from left to right, as they are read.
func Count(k, n int) int { return (k + depth - 1) / depth * (columns(n) / Columns) }

// Start returns at which float of a packed b a panel begins; where one behind the
// last would begin is the size of it all.
func Start(k, n, panel int) int {
	across := max(columns(n)/Columns, 1)
	p := panel / across * depth
	if p >= k {
		return k * columns(n)
	}
	return p*columns(n) + panel%across*Columns*min(depth, k-p)
}

// Pack copies panels lo to hi of b (k × n, row-major) to the beginning of to,
// one behind the other. What is missing of a last panel's columns is zero. Pack
// panics when a slice is too short.
func Pack(to, b []float32, k, n, lo, hi int) {
	if k < 0 || n < 0 || lo < 0 || hi < lo || hi > Count(k, n) {
		panic(fmt.Sprintf("panel: bad shape k=%d n=%d panels=[%d,%d)", k, n, lo, hi))
	}
	need("b", b, k, n)
	need("packed b", to, 1, Start(k, n, hi)-Start(k, n, lo))
	across := columns(n) / Columns
	for lo < hi {
		p, first := lo/across*depth, lo%across
		pn, end := min(depth, k-p), min(across, first+hi-lo)
		pack(to, b[p*n:], pn, n, pn, first*Columns, min(end*Columns, n))
		to = to[(end-first)*Columns*pn:]
		lo += end - first
	}
}

// pack copies pn rows of columns lo to hi of b into panels that have room for so
// many rows. It goes along the rows of b, four at a time, which is how memory
// likes to be read, and still writes whole lines.
func pack(to, b []float32, rows, n, pn, lo, hi int) {
	const strip = 4
	for q := 0; q < pn; q += strip {
		for j := lo; j < hi; j += Columns {
			cols := min(Columns, hi-j)
			panel := to[(j-lo)*rows+q*Columns:]
			for r := range min(strip, pn-q) {
				line := panel[r*Columns:][:Columns]
				from := b[(q+r)*n+j:][:cols]
				if cols == Columns {
					*(*[Columns]float32)(line) = [Columns]float32(from)
					continue
				}
				clear(line[copy(line, from):]) // columns computed and thrown away
			}
		}
	}
}

// blocks accumulates into rows lo to hi and jn columns of c, n floats apart, the
// product of pn columns of a, k floats apart, and panels of b that have room
// rows, or sets c to it.
func (kn *Kernel) blocks(c, a, b []float32, room, k, n, jn, pn, lo, hi int, fresh bool, scratch []float32) {
	packedA, edge := scratch[:blockA], scratch[blockA:PackedScratch]
	for i := lo; i < hi; i += height {
		in := min(height, hi-i)
		kn.packA(packedA, a, k, i, in, pn)
		kn.block(c[i*n:], n, packedA, b, room, edge, in, jn, pn, fresh)
	}
}

// block does that for the rows of one packed block of a.
func (kn *Kernel) block(c []float32, n int, a, b []float32, room int, edge []float32, in, jn, pn int, fresh bool) {
	off := linear[:pn]
	tiles := (in + kn.MR - 1) / kn.MR
	size := kn.NR * pn // floats of b that a column of tiles reads
	for j := 0; j < jn; j += kn.NR {
		cols := min(kn.NR, jn-j)
		from := b[j/Columns*Columns*room+j%Columns:]
		next := from[min(Columns*room, len(from)-size):]
		for i := 0; i < in; i += kn.MR {
			rows := min(kn.MR, in-i)
			at := c[i*n+j:]
			if rows == kn.MR && cols == kn.NR {
				if fresh {
					kn.clear(at, n, rows)
				}
				kn.tile(rows, at, n, a[i*strideA:], strideA, from, off, &next[i/kn.MR*size/tiles], 4*kn.NR/tiles)
				continue
			}
			// A tile that sticks out of c is computed aside.
			kn.clear(edge, kn.NR, kn.MR)
			if !fresh {
				for r := range rows {
					copy(edge[r*kn.NR:][:cols], at[r*n:])
				}
			}
			kn.tile(rows, edge, kn.NR, a[i*strideA:], strideA, from, off, &next[i/kn.MR*size/tiles], 4*kn.NR/tiles)
			for r := range rows {
				copy(at[r*n:][:cols], edge[r*kn.NR:])
			}
		}
	}
}

// Tile accumulates rows × NR elements of c: element (i, j) takes the terms
// a[i*lda+p] ⊗ b[off[p]+j] in the order of p. It is for callers that lay out
// their own blocks; off lets b's rows lie anywhere, as those of an image's
// patches do.
//
// The rows are rounded up to a tile there is, at most MR: that many rows of a and
// c must exist, and the surplus ones of c are overwritten. Tile panics when they
// do not. That b has NR floats at every offset, and that off is no longer than
// [MaxDepth], is the caller's duty.
func (kn *Kernel) Tile(rows int, c []float32, ldc int, a []float32, lda int, b []float32, off []int32) {
	kn.tile(rows, c, ldc, a, lda, b, off, &a[0], 0)
}

// tile is Tile that also fetches memory into the cache: from next on, going on by
// step bytes for every offset.
func (kn *Kernel) tile(rows int, c []float32, ldc int, a []float32, lda int, b []float32, off []int32, next *float32, step int) {
	t := 0
	for t+1 < len(kn.tiles) && kn.tiles[t+1].rows >= rows {
		t++
	}
	if len(off) == 0 {
		return
	}
	last := kn.tiles[t].rows - 1
	_, _ = c[last*ldc+kn.NR-1], a[last*lda+len(off)-1] // assembly checks nothing
	kn.tiles[t].run(c, ldc, a, lda, b, off, next, step)
}

// clear sets a tile to what adds nothing.
func (kn *Kernel) clear(c []float32, ldc, rows int) {
	for r := range rows {
		row := c[r*ldc:][:kn.NR]
		for j := range row {
			row[j] = kn.zero
		}
	}
}

// packA copies the first pn columns of in rows of a from row i on, so that rows
// are strideA apart: a stride that is not a power of two, lest all rows compete
// for the same lines of the cache.
func (kn *Kernel) packA(to, a []float32, k, i, in, pn int) {
	for r := range in {
		copy(to[r*strideA:][:pn], a[(i+r)*k:])
	}
	for r := in; r%kn.MR != 0; r++ { // rows computed and thrown away
		clear(to[r*strideA:][:pn])
	}
}

// shape panics unless the sizes make sense and a and c have the rows asked for.
func shape(c, a []float32, k, n, lo, hi int) {
	if k < 0 || n < 0 || lo < 0 || hi < lo {
		panic(fmt.Sprintf("panel: bad shape k=%d n=%d rows=[%d,%d)", k, n, lo, hi))
	}
	need("a", a, hi, k)
	need("c", c, hi, n)
}

// need panics unless xs holds rows × cols floats. It divides because the
// product of two sizes from outside could overflow.
func need(name string, xs []float32, rows, cols int) {
	if cols > 0 && rows > len(xs)/cols {
		panic(fmt.Sprintf("panel: %s has %d floats, needs %d × %d", name, len(xs), rows, cols))
	}
}
