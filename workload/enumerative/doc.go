// Package enumerative counts solutions of problems of enumerative geometry: the degree of a
// Grassmannian, linear spaces on a hypersurface and intersections of Schubert classes. Each is an
// integral over Gr(k,n), the k-dimensional subspaces of an n-dimensional space, and by Atiyah and
// Bott such an integral is a sum over the fixed points of a torus, which are the subsets I of k of
// n coordinates:
//
//	∫ f = Σ_I f(x_i, i ∈ I) ÷ Π_{i ∈ I, j ∉ I} (t_j − t_i)    with x = −t and t_i = i + 1
//
// The sum is computed modulo primes below 2³¹, enough of them that the Chinese remainder theorem
// gives the integer. Subsets are numbered by the combinatorial number system, so that a device
// takes a range of numbers. All of it is integer arithmetic: class X.
//
// [Of] computes an integral on the devices of a runtime. [CurvesOf] counts rational plane curves
// there, by Kontsevich's recursion modulo primes, and [Kontsevich] on the host, in long integers.
//
// Files: space.go (problems), field.go (arithmetic), rank.go (subsets), kernel.go (the Go kernel),
// wide.go and wide_amd64.s (degrees modulo eight primes at a time), job.go (the work), check.go
// (references), curves.go and kontsevich.go (curves).
//
// With AVX2 a core adds up degrees modulo eight primes at a time: their fixed points are the same,
// and only the numbers differ. Hypersurfaces and Schubert classes are added up one prime after
// another. In Kontsevich's recursion primes are the items, and numbers are divided by (3d−1)!, so
// that kernels need no binomials. The steps of a degree wait for those before, so that a task has a
// launch for as many degrees as one launch of a shader may take.
package enumerative
