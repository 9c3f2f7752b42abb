// Package live runs collective operations on the devices of a runtime, over the caller's slices. A
// Group is the devices that take part; functions such as AllReduce take one and return when every
// rank has its result.
//
// Package collective works out what to do; what this one adds is bindings, plans kept for the next
// call, and what happens when a device is lost. It decides nothing about algorithms, and moves no
// bytes itself but those of operations so small that telling a device takes longer
// (collective.Inline).
//
// A group binds the caller's slices to the graph of an operation and prepares it once for each
// size. When a participant is lost, the group ends the run and works the operation out anew for the
// devices left, or with one of them in the place of the lost one, as the caller chooses.
//
// Where every rank is a GPU of its own and exactness is not asked for, NCCL takes the operation as
// one task of a gang (collective.Native). The devices have joined a communicator before
// (Runtime.Join), in workers too. When a member fails, is lost or is not waited for any more, all
// of them leave it, and the group does the operation by a graph instead; three failures in a row,
// and the library is not used any more.
package live
