package main

import (
	"fmt"
	"strings"
)

// chain is PTX under construction. Registers %0 to %7 hold the words of the result, %8 to %15
// the words of a, and %16 to %23 the words of b.
type chain struct {
	b strings.Builder
}

func (c *chain) op(format string, args ...any) {
	fmt.Fprintf(&c.b, "\t\t\""+format+";\\n\\t\"\n", args...)
}

func result(i int) string { return fmt.Sprintf("%%%d", i) }
func a(i int) string      { return fmt.Sprintf("%%%d", Words+i) }
func b(i int) string      { return fmt.Sprintf("%%%d", 2*Words+i) }

// immediate is a word as PTX writes it.
func immediate(word string) string { return strings.TrimSuffix(word, "u") }

// carries returns an operation's name with its suffix, for operation i of n: the first takes no carry,
// and the last leaves none.
func carries(name string, i, n int) string {
	switch {
	case i == 0:
		return name + ".cc.u32"
	case i < n-1:
		return name + "c.cc.u32"
	}
	return name + "c.u32"
}

// row adds x, two words apart, times y to the registers of an accumulator, and leaves a carry.
func (c *chain) row(to [Words]string, x [Words / 2]string, y string) {
	for i, w := range x {
		lo := "madc"
		if i == 0 {
			lo = "mad"
		}
		c.op("%s.lo.cc.u32 %s, %s, %s, %s", lo, to[2*i], w, y, to[2*i])
		c.op("madc.hi.cc.u32 %s, %s, %s, %s", to[2*i+1], w, y, to[2*i+1])
	}
}

// everySecond are the words of x from one on.
func everySecond(x [Words]string, from int) (out [Words / 2]string) {
	for i := range out {
		out[i] = x[2*i+from]
	}
	return out
}

// step adds a·y to the sum of two accumulators, where odd stands one word higher than even, and then
// the multiple of the prime that makes the lowest word zero. Except in the first step, odd still has
// its place of the step before, two words too low.
func (c *chain) step(f Field, even, odd [Words]string, y string, first bool) {
	var x, p [Words]string
	for i := range Words {
		x[i], p[i] = a(i), immediate(f.Modulus()[i])
	}
	if first {
		for i := range Words {
			to := even
			if i%2 == 1 {
				to = odd
			}
			c.op("mul.lo.u32 %s, %s, %s", to[i/2*2], x[i], y)
			c.op("mul.hi.u32 %s, %s, %s", to[i/2*2+1], x[i], y)
		}
	} else {
		c.op("add.cc.u32 %s, %s, %s", even[0], even[0], odd[1])
		for i := 0; i < Words-2; i += 2 {
			c.op("madc.lo.cc.u32 %s, %s, %s, %s", odd[i], x[i+1], y, odd[i+2])
			c.op("madc.hi.cc.u32 %s, %s, %s, %s", odd[i+1], x[i+1], y, odd[i+3])
		}
		c.op("madc.lo.cc.u32 %s, %s, %s, 0", odd[Words-2], x[Words-1], y)
		c.op("madc.hi.u32 %s, %s, %s, 0", odd[Words-1], x[Words-1], y)
		c.row(even, everySecond(x, 0), y)
		c.op("addc.u32 %s, %s, 0", odd[Words-1], odd[Words-1])
	}
	c.op("mul.lo.u32 m, %s, %s", even[0], immediate(f.Neg()))
	c.row(odd, everySecond(p, 1), "m")
	c.row(even, everySecond(p, 0), "m")
	c.op("addc.u32 %s, %s, 0", odd[Words-1], odd[Words-1])
}

// reduce moves e to the result, less the prime where it is not below that.
func (c *chain) reduce(f Field) {
	for i, p := range f.Modulus() {
		name := "sub"
		if i > 0 {
			name = "subc"
		}
		c.op("%s.cc.u32 %s, e%d, %s", name, result(i), i, immediate(p))
	}
	c.op("subc.u32 m, 0, 0")
	c.op("setp.ne.u32 below, m, 0")
	for i := range Words {
		c.op("selp.b32 %s, e%d, %s, below", result(i), i, result(i))
	}
}

// text is the chain as the template of an asm statement. Results are written before all
// arguments are read.
func (c *chain) text() string {
	return "\t\t\"{\\n\\t.reg .u32 e<8>, o<8>, m;\\n\\t.reg .pred below;\\n\\t\"\n" + c.b.String() + "\t\t\"}\""
}

// Product is PTX for the product of a and b: rows of words with even and with odd numbers are
// added up apart, so that no carry of one product of words waits for another's.
func (f Field) Product() string {
	var c chain
	var even, odd [Words]string
	for i := range Words {
		even[i], odd[i] = fmt.Sprintf("e%d", i), fmt.Sprintf("o%d", i)
	}
	for i := 0; i < Words; i += 2 {
		c.step(f, even, odd, b(i), i == 0)
		c.step(f, odd, even, b(i+1), false)
	}
	for i := range Words - 1 {
		c.op("%s e%d, e%d, o%d", carries("add", i, Words), i, i, i+1)
	}
	c.op("addc.u32 e%d, e%d, 0", Words-1, Words-1)
	c.reduce(f)
	return c.text()
}

// Sum is PTX for the sum of a and b.
func (f Field) Sum() string {
	var c chain
	for i := range Words {
		c.op("%s e%d, %s, %s", carries("add", i, Words), i, a(i), b(i))
	}
	c.reduce(f)
	return c.text()
}

// Difference is PTX for a less b.
func (f Field) Difference() string {
	var c chain
	for i := range Words {
		name := "sub"
		if i > 0 {
			name = "subc"
		}
		c.op("%s.cc.u32 e%d, %s, %s", name, i, a(i), b(i))
	}
	c.op("subc.u32 m, 0, 0")
	for i, p := range f.Modulus() {
		c.op("and.b32 o%d, m, %s", i, immediate(p))
	}
	for i := range Words {
		c.op("%s %s, e%d, o%d", carries("add", i, Words), result(i), i, i)
	}
	return c.text()
}
