// Package merkle hashes lists of 32-byte leaves into SHA-256 Merkle trees.
//
// A tree is built level by level from the leaves up, and every node is computed
// from two neighbours of the level below, so any range of nodes of a level is
// work for one device. To need few exchanges the leaves are cut into chunks of
// 2^h at multiples of 2^h ([Chunks]); a device reduces its chunks by h levels
// ([Reduce]) and returns one node for each, and one device reduces those to the
// root. The result is bitwise the same for every such cut and every number of
// devices: class X.
//
// The kernels run on the calling goroutine, allocate nothing and keep to Go
// code that can be preempted, or to assembly that returns within microseconds.
package merkle
