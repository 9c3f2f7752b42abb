// Package replica keeps one logical state on several devices. Each has a replica that it updates by
// itself; from time to time, by a [Strategy], the replicas are merged into one state, which all
// then have.
//
// Replicas are resident data, which runs bind; the package runs nothing on them but what merging
// takes, where the merge is the average an all-reduce by package collective or by the devices' own
// library. It does not know what an update is: its user says when there was one.
//
// A merge is an all-reduce in the order of ranks that writes a second set of buffers: one that
// fails changes nothing, and the same updates give the same bits wherever the replicas are. Where
// each replica has a GPU of its own and Exact is not asked for, NCCL averages instead. The distance
// between replicas is measured on a sample of elements: to know it exactly, they would have to be
// merged.
package replica
