package clifford

import "golang.org/x/sys/cpu"

// wide says whether products are computed eight numbers at a time. Tests set it to run the
// plain loop.
var wide = cpu.X86.HasAVX2

// wideTables are an algebra's tables for AVX2.
type wideTables struct {
	size int
	// eight has, for multivectors of eight numbers, for each blade on the left the right
	// numbers of the eight blades of the product, and then the signs.
	eight [16][8]uint32
	more  *blockTables // for larger ones
}

// blockTables are tables for multivectors of several vectors of eight numbers. These are put
// into the order of blades as sets of vectors, where a factor on the left exchanges lanes by
// an exclusive or, in advance: wide_amd64.s reads the fields in this order.
type blockTables struct {
	size     int
	toSets   *uint32 // by order
	terms    *uint32
	fromSets *uint32
	lanes    [8][8]uint32
}

// order returns the table that puts numbers into the order of some positions: for each vector
// of eight of them, the lanes they are in, and for each vector they may be in, which are.
func order(positions []uint32) (out []uint32) {
	for to := 0; to < len(positions); to += 8 {
		for _, at := range positions[to : to+8] {
			out = append(out, at%8)
		}
		for from := range uint32(len(positions) / 8) {
			for _, at := range positions[to : to+8] {
				mask := uint32(0)
				if at/8 == from {
					mask = ^mask
				}
				out = append(out, mask)
			}
		}
	}
	return out
}

// terms returns what each blade on the left brings to vectors of the product, of which up to
// four are added up at a time: their signs, and the bytes in scratch memory where the right
// numbers are, in 64 bits each.
func terms(a *Algebra, entries []uint32) (out []uint32) {
	n := a.Size()
	group := min(4, n/8)
	for first := 0; first < n/8; first += group {
		for i, set := range a.blades {
			for block := first; block < first+group; block++ {
				for lane := range 8 {
					out = append(out, entries[i*n+a.at[block*8+lane]]&negative)
				}
			}
			for block := first; block < first+group; block++ {
				out = append(out, uint32(((int(set>>3)^block)*8+int(set&7))*32), 0)
			}
		}
	}
	return out
}

func newWideTables(a *Algebra, entries []uint32) wideTables {
	n := a.Size()
	w := wideTables{size: n}
	if n == 8 {
		for i := range n {
			for k, e := range entries[i*n : (i+1)*n] {
				w.eight[i][k], w.eight[8+i][k] = e&^negative, e&negative
			}
		}
	}
	if n <= 8 {
		return w
	}
	b := &blockTables{size: n}
	positions := make([]uint32, n)
	for set, at := range a.at {
		positions[set] = uint32(at)
	}
	b.toSets, b.terms, b.fromSets = &order(positions)[0], &terms(a, entries)[0], &order(a.blades)[0]
	for m := range b.lanes {
		for lane := range b.lanes[m] {
			b.lanes[m][lane] = uint32(lane ^ m)
		}
	}
	w.more = b
	return w
}

// productsEight multiplies n multivectors of eight numbers; steps are in bytes.
//
//go:noescape
func productsEight(out, x, y *float32, n, xStep, yStep int, tables *[16][8]uint32)

// productsMore multiplies n multivectors of more numbers. It overwrites scratch.
//
//go:noescape
func productsMore(out, x, y *float32, n, xStep, yStep int, tables *blockTables, scratch *[maxSize * 9]float32)

// products does the work of [Algebra.products] if there is a kernel for it. Both add the terms
// in the same order and do not fuse, so that they agree to the last bit.
func (w *wideTables) products(out, x, y []float32, xStep, yStep int) bool {
	n := len(out) / w.size
	switch {
	case !wide || n == 0 || w.size < 8:
		return false
	case w.size == 8:
		productsEight(&out[0], &x[0], &y[0], n, 4*xStep, 4*yStep, &w.eight)
	default:
		var scratch [maxSize * 9]float32
		productsMore(&out[0], &x[0], &y[0], n, 4*xStep, 4*yStep, w.more, &scratch)
	}
	return true
}
