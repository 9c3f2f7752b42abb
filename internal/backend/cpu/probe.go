package cpu

import (
	"math/bits"
	"unsafe"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/probe"
)

// probeLoop does rounds of arithmetic on registers and writes 16 bytes of the result.
type probeLoop struct {
	run func(out *byte, rounds int)
	ops int // of a round
}

// loops are the arithmetic of the compute probes.
type probeLoops struct{ fp32, fp64, int32 probeLoop }

// plain are the loops in Go, which the compiler does not vectorise: what the Go
// kernels of workloads reach without assembly as well.
var plain = probeLoops{
	fp32:  probeLoop{sumProducts[float32], 16},
	fp64:  probeLoop{sumProducts[float64], 16},
	int32: probeLoop{mixIntegers, 16},
}

// sumProducts keeps eight chains of multiply and add going.
func sumProducts[T float32 | float64](out *byte, rounds int) {
	var a, b, c, d, e, f, g, h T
	for range rounds {
		a, b, c, d = a*0.5+1, b*0.5+1, c*0.5+1, d*0.5+1
		e, f, g, h = e*0.5+1, f*0.5+1, g*0.5+1, h*0.5+1
	}
	*(*T)(unsafe.Pointer(out)) = a + b + c + d + e + f + g + h
}

// mixIntegers keeps eight chains of add and exclusive or going.
func mixIntegers(out *byte, rounds int) {
	const x, y = 0x9e3779b9, 0x7f4a7c15
	var a, b, c, d, e, f, g, h uint32
	for range rounds {
		a, b, c, d = (a+x)^y, (b+x)^y, (c+x)^y, (d+x)^y
		e, f, g, h = (e+x)^y, (f+x)^y, (g+x)^y, (h+x)^y
	}
	*(*uint32)(unsafe.Pointer(out)) = a ^ b ^ c ^ d ^ e ^ f ^ g ^ h
}

var probeFuncs = Probes()

// Probes returns the functions behind the kernels of internal/probe, which every
// device of this backend has in addition to its own. Other devices that run Go
// functions can be given them.
func Probes() map[string]driver.Func {
	l := arithmetic()
	return map[string]driver.Func{
		"weft.probe.empty":  func(*driver.Call, int, int) {},
		"weft.probe.fp32":   driver.WithParams(l.fp32.probe),
		"weft.probe.fp64":   driver.WithParams(l.fp64.probe),
		"weft.probe.int32":  driver.WithParams(l.int32.probe),
		"weft.probe.stream": driver.WithParams(stream),
		"weft.probe.check":  driver.WithParams(check),
	}
}

// probe runs the loop once for each item.
func (l probeLoop) probe(c *driver.Call, _ probe.Params, lo, hi int) {
	for i := lo; i < hi; i++ {
		l.run(&c.Args[0][i*probe.ItemBytes], probe.ItemOps/l.ops)
	}
}

func stream(c *driver.Call, _ probe.Params, lo, hi int) {
	copy(c.Args[1][lo*probe.ItemBytes:hi*probe.ItemBytes], c.Args[0][lo*probe.ItemBytes:hi*probe.ItemBytes])
}

// check is the arithmetic of a check: see probe.Check.
func check(c *driver.Call, _ probe.Params, lo, hi int) {
	words := func(b []byte) []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4) }
	in, out := words(c.Args[0]), words(c.Args[1])
	for i := 4 * lo; i < 4*hi; i += 4 {
		a, b, c, d := in[i], in[i+1], in[i+2], in[i+3]
		for range probe.CheckRounds {
			a += bits.RotateLeft32(b, 7) ^ c
			d ^= a * 0x9e3779b1
			x, y, z := float32(a>>20), float32(d>>20), float32(b>>20)
			more, less := uint32(x*y+z), uint32(int32((x-y)*z))
			a, b, c, d = b^more*0x85ebca6b, bits.RotateLeft32(c, 11)+less, d, a
		}
		out[i], out[i+1], out[i+2], out[i+3] = a, b, c, d
	}
}
