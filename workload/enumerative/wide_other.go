//go:build !amd64

package enumerative

// wide says whether degrees are added up modulo eight primes at a time: not here.
var wide = false

// They are called only where wide is true.
func levelAVX2(l *lanes, m, k int, weight *[width]uint32) {}
func degreeAVX2(l *lanes, exponent int)                   {}
