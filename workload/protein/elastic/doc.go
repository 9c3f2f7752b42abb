// Package elastic finds the slowest motions of a protein by its elastic network: the Gaussian
// network model (GNM) or the anisotropic network model (ANM) of its C-alpha atoms. [Of] does so for
// a caller's structure on the devices of a runtime.
//
// The method is Lanczos's with full reorthogonalisation. In every step a device multiplies its rows
// of the sparse matrix with the last vector, and takes from its rows of the product what is along
// the vectors before, twice. Sums over all rows are made of sums over blocks of rows, in the order
// of blocks, by every device for itself. Blocks do not depend on the devices: so the result is the
// same bits on any number of them, class R.
//
// Files: config.go (what to compute), job.go (the graph), kernel.go (its kernels), modes.go (modes
// from its result), check.go, of.go (the call).
//
// The rows of the matrix are in blocks of 16, or 64 where there are more than 4096 rows, whatever
// the devices are. The basis is stored block by block, so that what a task has of it is contiguous.
// A step is three tasks for each device:
//
//	multiply   v = x/|x|, w = A v for its rows; for each block the sums v·w of all vectors v
//	project    h = the sums of all blocks, in their order; w -= V h; the sums again
//	rest       h = the sums of all blocks; x = w - V h; for each block the sum of x²
//
// Where the new vector is zero within rounding, the basis holds all that the first vector leads to.
// The next vector is then drawn at random, so that modes of equal eigenvalues are found too. Modes
// come from the tridiagonal matrix on the host (network.Tridiagonal). Check multiplies every vector
// with the matrix again, or, where that would take longer than some ten seconds, four sums of all
// vectors with random factors; up to 1500 rows it counts by elimination that no slower mode is
// missing. A cutoff at which the products would take minutes is refused with the time, unless the
// number of steps is given.
package elastic
