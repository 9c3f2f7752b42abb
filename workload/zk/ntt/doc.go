// Package ntt computes number-theoretic transforms: those of Fourier in the field of scalars
// of the curve BN254,
//
//	X[k] = Σ x[n] w^(nk),  w^N = 1,  N a power of two up to 2²⁶,
//
// and their inverses, over the N-th roots of unity or over a coset of them. Elements, roots and
// the shift of the coset are those of gnark-crypto's fft.Domain, in their natural order before
// and after.
//
// One device does a transform in passes: each computes short transforms of up to 2⁹ elements,
// in shared memory on GPUs and by gnark-crypto on cores, and multiplies by roots (Stockham's
// order, so that nothing is permuted in between). Several devices do it in four steps: with
// N = R·S, a device transforms some of S columns of R elements and multiplies by roots; every
// device then gets the parts of all others that belong to its rows, of S elements, transforms
// these, and what it has of every stretch of the result goes to the one that puts it together.
//
// Files: job.go (the job), graph.go (its tasks), tables.go (roots), kernel.go (the kernels and
// the Go code), check.go (the reference).
package ntt
