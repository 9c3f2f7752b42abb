package enumerative

import "golang.org/x/sys/cpu"

// wide says whether degrees are added up modulo eight primes at a time. Tests set it to run the
// Go code.
var wide = cpu.X86.HasAVX2

// levelAVX2 does the work of [lanes.level].
//
//go:noescape
func levelAVX2(l *lanes, m, k int, root, weight *[width]uint32)

// degreeAVX2 does the work of [lanes.degree].
//
//go:noescape
func degreeAVX2(l *lanes, exponent int)
