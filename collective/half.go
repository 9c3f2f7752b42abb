package collective

import "math"

// Half is a number in IEEE half precision: 1 sign, 5 exponent, 10 fraction bits.
type Half uint16

// BFloat is the upper half of a float32.
type BFloat uint16

// NewHalf rounds to the nearest half, of two the even one.
func NewHalf(x float32) Half {
	bits := math.Float32bits(x)
	sign, rest := Half(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case rest > 0x7f800000:
		return sign | 0x7e00
	case rest >= 0x477ff000: // 65520 and above round to infinity
		return sign | 0x7c00
	case rest < 0x38800000: // below 2⁻¹⁴: in steps of 2⁻²⁴
		// Adding 2⁻¹, whose last bit is such a step, rounds to them.
		return sign | Half(math.Float32bits(math.Float32frombits(rest)+0.5)-math.Float32bits(0.5))
	}
	return sign | Half((rest-(127-15)<<23+0xfff+rest>>13&1)>>13)
}

// Float32 returns the number, exactly.
func (h Half) Float32() float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	switch {
	case rest >= 0x7c00: // infinity, NaN
		return math.Float32frombits(sign | 0x7f800000 | (rest&0x3ff)<<13)
	case rest >= 0x400:
		return math.Float32frombits(sign | (rest<<13 + (127-15)<<23))
	}
	// Subnormal: a number of steps of 2⁻²⁴, which float32 holds exactly.
	return math.Float32frombits(sign | math.Float32bits(float32(rest)*0x1p-24))
}

// NewBFloat rounds to the nearest BFloat, of two the even one.
func NewBFloat(x float32) BFloat {
	bits := math.Float32bits(x)
	if bits&0x7fffffff > 0x7f800000 {
		return BFloat(bits>>16) | 0x40
	}
	return BFloat((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 returns the number, exactly.
func (b BFloat) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }
