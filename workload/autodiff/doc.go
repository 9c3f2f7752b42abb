// Package autodiff takes derivatives of expressions at many points, exact but for rounding, by
// forward mode.
//
// A derivative along a direction is computed beside the value, (a + a′ε)(b + b′ε) = ab + (ab′ +
// a′b)ε, and one pass over the points takes up to 64 directions: a whole gradient or the columns
// of a Jacobian. Expressions are parsed ([Parse]) or built in Go ([Compile]) and compiled once
// to a program: the same operation on the same values is done once, also among derivatives; a
// derivative that is zero wherever it is taken costs nothing; products are joined with sums; and
// values have slots, which are used again after their last use. [Gradient], [Jacobian] and
// [Along] run it on a runtime's devices.
//
// All devices compute in float64. CPU cores run every instruction for a block of points, in
// vectors of AVX2 where there are any, and have functions from package math, within 1 ulp or
// so, but for angles beyond 2²⁹, which it knows to 2⁻⁵². GPUs run the program at a point in each thread, with functions of their own (functions.h),
// which are within 2 ulp, tan, asin, acos, sinh, cosh and tanh within 4; a Vulkan device must
// have shaderFloat64. Where there is much to do, CUDA C and GLSL are generated for the program
// as well, which devices with NVRTC or glslc compile and use if it is faster; it has the same
// operations in the same order. No product is fused with a sum without being rounded. Results of
// a point do not depend on other points: class R.
//
// What arithmetic has no number for is IEEE 754's: a division by zero is infinite, the logarithm
// of a negative number is not a number, and neither is an error. [Job.NotFinite] and the summary
// of a run name the first point with such a value. Where a value is not finite its derivatives
// mean nothing, and where a derivative is none, as that of a root at 0, it is not finite. Products of
// roots and powers, and x^y, have the derivative that they have at 0. In other expressions the chain
// rule may meet a root's infinite derivative there and give NaN where there is a derivative, as in x·(1+√x).
//
// Files: expr.go, parse.go (expressions), value.go (a graph of values, each once), derive.go and zero.go
// (forward mode), program.go (instructions and slots), generate.go (sources for GPUs),
// function.go, kernel.go, wide_amd64.s (the kernel), problem.go, job.go, call.go, check.go (the
// complex step).
package autodiff
