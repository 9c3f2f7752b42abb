package ntt

import (
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"

	"github.com/weft-run/weft/graph"
)

// Passes returns the number of passes of a transform of 2^log elements on one device.
func Passes(log int) int { return len((&job{most: logLocal}).lengths(log)) }

// Steps returns the steps of a transform of 2^log elements within a task of the caller's. kernel has
// those implementations of [Pass] that the caller wants. The buffers are given by their numbers among
// the task's uses: source has the elements, target gets their transform, tables holds the result of
// [Tables], and workspace is another buffer of as many elements. source may be the same as target if
// the number of [Passes] is even, and the same as workspace if it is odd.
func Steps(kernel *graph.Kernel, log int, t Transform, source, target, tables, workspace int) []graph.Step {
	j := &job{c: Config{Transform: t, Log: log}, log: log, most: logLocal}
	first, last := j.scales()
	steps := j.passes(passParams{size: log, rows: 1}, first, last, orderRows, source, target, tables, workspace)
	for i := range steps {
		steps[i].Kernel = kernel
	}
	return steps
}

// Tables are the powers that a transform of 2^log elements needs. The result of one that is both
// inverse and on a coset is multiplied by a factor.
func Tables(log int, t Transform, factor fr.Element) []fr.Element {
	out := tables(log, t)
	if t.Inverse && t.Coset {
		second := out[len(out)-1<<(log-lowBits(log)):]
		for i := range second {
			second[i].Mul(&second[i], &factor)
		}
	}
	return out
}
