// Package landscape samples the energy of a protein model over rotations of its
// chain.
//
// The model is the structure-based C-alpha model of Clementi, Nymeyer and
// Onuchic (J. Mol. Biol. 298, 937, 2000): one bead for each residue, and a
// potential whose minimum is a given native structure ([protein.Model]). It predicts no
// structure. Lengths are in angstrom, energies in units of the contact energy.
// Coordinates are slices of x, y, z, one bead after the other. [Of] samples the landscape of
// a caller's structure on the devices of a runtime.
//
// Row i of the landscape turns the chain behind bead i+1 about the axis through
// beads i and i+1, in [Angles] steps. Each entry is added up by one device in one
// order, so any cut into rows, or into parts of them, gives the same bits on the
// same kernel: class R, and the kernels of this package agree with each other on
// amd64. What a row costs is not uniform, and rows are dealt out by it.
//
// The kernels run on the calling goroutine, allocate nothing, and keep to Go
// code that can be preempted, or to assembly that returns within microseconds.
package landscape
