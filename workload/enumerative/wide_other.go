//go:build !amd64

package enumerative

// wide says whether degrees are added up modulo eight primes at a time: not here.
var wide = false

func levelAVX2(l *lanes, m, k int, root, weight *[width]uint32) {}
func degreeAVX2(l *lanes, exponent int)                         {}
