package fold

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Of the XTC format of GROMACS: lengths are in nanometres, of which it keeps thousandths.
const (
	xtcMagic     = 1995
	xtcPrecision = 1000
	xtcPlain     = 9       // atoms up to which coordinates are written as they are
	xtcSmall     = 9       // the least index of a size of differences, of which none are written
	xtcTogether  = 1 << 24 // sizes below which the three numbers of an atom are written as one
	xtcMost      = math.MaxInt32 / 4
)

// bitWriter writes numbers of any number of bits, the first bit highest.
type bitWriter struct {
	to   []byte
	free int // bits of the last byte
}

func (w *bitWriter) write(n int, v uint64) {
	for n > 0 {
		if w.free == 0 {
			w.to, w.free = append(w.to, 0), 8
		}
		k := min(n, w.free)
		w.to[len(w.to)-1] |= byte(v>>(n-k)&(1<<k-1)) << (w.free - k)
		n, w.free = n-k, w.free-k
	}
}

// xtc makes frames of big-endian words. Coordinates are whole numbers, packed into as many
// bits as their range needs, and each atom is written by itself.
type xtc struct{ *Run }

func (xtc) header(int) []byte { return nil }
func (xtc) end() []byte       { return nil }

// words appends numbers of a fixed size.
func words(b []byte, vs ...any) []byte {
	for _, v := range vs {
		b, _ = binary.Append(b, binary.BigEndian, v) // it errs for types of no fixed size alone
	}
	return b
}

func (r xtc) frame(i int) ([]byte, error) {
	x, step := r.coordinates(i), min((i+1)*r.c.Every, r.c.Steps)
	n := int32(len(x) / 3)
	b := words(nil, int32(xtcMagic), n, int32(min(step, math.MaxInt32)), float32(float64(step)*r.c.TimeStep), [9]float32{}, n)
	if n <= xtcPlain {
		for _, v := range x {
			b = words(b, float32(v/10))
		}
		return b, nil
	}
	b, err := packXTC(b, x)
	if err != nil {
		return nil, fmt.Errorf("fold: frame %d: %w", i+1, err)
	}
	return b, nil
}

// packXTC appends the coordinates of a frame.
func packXTC(to []byte, x []float64) ([]byte, error) {
	whole := make([]int32, len(x))
	low, high := [3]int32{math.MaxInt32, math.MaxInt32, math.MaxInt32}, [3]int32{math.MinInt32, math.MinInt32, math.MinInt32}
	for k, v := range x {
		v = math.Round(v / 10 * xtcPrecision)
		if !(math.Abs(v) <= xtcMost) {
			return nil, fmt.Errorf("a coordinate of %.0f angstrom has no place in the XTC format: %w: name a file that ends in .dcd", x[k], ErrFormat)
		}
		whole[k] = int32(v)
		low[k%3], high[k%3] = min(low[k%3], whole[k]), max(high[k%3], whole[k])
	}
	var size [3]uint64
	together := true
	for c := range size {
		size[c] = uint64(high[c]-low[c]) + 1
		together = together && size[c] < xtcTogether
	}
	all, more := product(size[0]*size[1], size[2], 0)
	width := bits.Len64(all)
	if more > 0 {
		width = 64 + bits.Len64(more)
	}
	var b bitWriter
	for k := 0; k < len(whole); k += 3 {
		var v [3]uint64
		for c := range v {
			v[c] = uint64(whole[k+c] - low[c])
		}
		if together {
			number, above := product(v[0]*size[1]+v[1], size[2], v[2])
			for left := width; left > 0; left -= 8 { // the lowest byte first
				b.write(min(left, 8), number&0xff)
				number, above = number>>8|above<<56, above>>8
			}
		} else {
			for c := range v {
				b.write(bits.Len64(size[c]), v[c])
			}
		}
		b.write(1, 0) // no small differences follow
	}
	return words(to, float32(xtcPrecision), low, high, int32(xtcSmall), int32(len(b.to)), b.to, make([]byte, -len(b.to)&3)), nil
}

// product is a × b + c in 128 bits.
func product(a, b, c uint64) (low, high uint64) {
	high, low = bits.Mul64(a, b)
	low, carry := bits.Add64(low, c, 0)
	return low, high + carry
}
