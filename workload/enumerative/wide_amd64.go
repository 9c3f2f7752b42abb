package enumerative

import "golang.org/x/sys/cpu"

// wide says whether degrees are added up modulo eight primes at a time. Tests set it to run the
// Go code.
var wide = cpu.X86.HasAVX2

// levelAVX2 sets product and total of coordinate m of k, whose weight is given, from product and
// total of the next coordinate.
//
//go:noescape
func levelAVX2(l *lanes, m, k int, weight *[width]uint32)

// degreeAVX2 adds the term of the subset to the sum: the product times a power of the total.
//
//go:noescape
func degreeAVX2(l *lanes, exponent int)
