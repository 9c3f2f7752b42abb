// Package elastic finds the slowest motions of a protein by its elastic network: the Gaussian
// network model (GNM) or the anisotropic network model (ANM) of its C-alpha atoms. [Of] does so
// for a caller's structure on the devices of a runtime.
//
// The method is Lanczos's with full reorthogonalisation. In every step a device multiplies its
// rows of the sparse matrix with the last vector, and takes from its rows of the product what is
// along the vectors before, twice. Sums over all rows are made of sums over blocks of rows, in
// the order of blocks, by every device for itself. Blocks do not depend on the devices: so the
// result is the same bits on any number of them, class R.
//
// Files: config.go (what to compute), job.go (the graph), kernel.go (its kernels), modes.go (modes
// from its result), check.go, of.go (the call).
package elastic
