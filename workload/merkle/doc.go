// Package merkle hashes lists of leaves into SHA-256 Merkle trees.
//
// [RootOf] and [TreeOf] compute the tree of RFC 6962, of Certificate Transparency, over a
// caller's leaves on the devices of a runtime; a [Tree] makes proofs, which
// [VerifyInclusion] and [VerifyConsistency] check. Devices hash leaves of 32
// bytes; leaves of other lengths are hashed on the cores first.
//
// A tree is built level by level from the leaves up, and every node is computed
// from two neighbours of the level below, so any range of nodes of a level is
// work for one device. To need few exchanges the leaves are cut into chunks of
// 2^h at multiples of 2^h; a device reduces its chunks by h levels
// and returns one node for each, and one device reduces those to the
// root. The result is bitwise the same for every such cut and every number of
// devices: class X.
//
// The kernels run on the calling goroutine, allocate nothing and keep to Go
// code that can be preempted, or to assembly that returns within microseconds.
package merkle
