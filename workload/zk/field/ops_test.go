//go:build clang || lavapipe

package main

// ops are the operations of the headers, in the order in which testdata computes them.
var ops = []string{"add", "sub", "mul", "neg", "to_number", "power", "inverse", "doubled", "square", "same", "equal", "is_zero"}

// expected is reference, and what follows from it.
func (f Field) expected(op string, a, b element) (out element) {
	switch op {
	case "doubled":
		return f.reference("add", a, a)
	case "square":
		return f.reference("mul", a, a)
	case "same":
		return a
	case "equal":
		if a == b {
			out[0] = 1
		}
		return out
	case "is_zero":
		if a == out {
			out[0] = 1
		}
		return out
	}
	return f.reference(op, a, b)
}
