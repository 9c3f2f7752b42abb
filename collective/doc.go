// Package collective runs operations in which several devices take part, such as AllReduce. A Group
// is the devices of a runtime that take part; AllReduce and the other functions take a Group and
// the caller's slices, and return when every rank has its result.
//
// An operation is a graph of tasks. NewPlan works it out, and Plan.Add adds it to a graph of the
// caller's own. Nothing is decided at run time: a Plan is a list of steps, each on the device of
// one rank, which read what other ranks have; copies between devices follow from that as in any
// graph, and so does recovery. Plans know no runtime, so that a simulator can run them.
//
// # What the operations do
//
// There are n ranks, each on a device. Count is the number of elements of the whole vector. Where a
// vector is cut among ranks, rank r has block r of Cut, or of Spec.Ends.
//
//	operation       in                        out
//	allreduce       every rank a vector       every rank their fold
//	reduce          every rank a vector       the root their fold
//	reducescatter   every rank a vector       rank r block r of their fold
//	broadcast       the root a vector         every other rank a copy
//	allgather       rank r block r            every rank the vector
//	alltoall        every rank a vector       rank r block r of each, by rank
//	send            the root a vector         the peer a copy
//	barrier         nothing                   nothing; no rank leaves before all came
//
// # How they do it
//
// A vector is cut into slices, and each slice has a route: hops along which it is folded towards
// one rank, and hops along which the result spreads. An algorithm is nothing but a choice of routes
// (see routes.go). Slices are cut further into pieces that follow one another, so that copies and
// folds overlap. Unless Spec.Algorithm names one, the algorithm whose plan is predicted to end
// first is taken (see choose.go and predict.go).
//
// If all ranks are devices that have a library of their own for this, such as NCCL, and Spec.Exact
// is not set, that library takes the operation as one task of a gang (see Native). Operations of up
// to 64 KiB in all on devices that use host memory are done by the calling goroutine (see Inline).
//
// # Order
//
// The order in which numbers are folded is fixed by the plan and not by who is fast, so the same
// plan gives the same bytes every time, on any machine, however it is cut into pieces and whichever
// devices fail. The algorithms direct and chain fold in the order of ranks, ((0 op 1) op 2) and so
// on, and agree with each other bit by bit; they are the ones Spec.Exact allows. The others each
// have their own order, which depends on the number of ranks and, for ring and hierarchical, on the
// topology. Maxima, minima and integers come out the same in any order (Fold.Exact), so for them
// every algorithm is exact.
//
// # Steps
//
// A hop is a task on the receiving rank's device that reads what the sending rank has; the copy
// between them follows from that. Every hop writes data of its own, so that the graph decides which
// link bytes take and a lost value can be made again. Between machines, pieces follow one another
// by several steps, so that rings within a machine go on while pieces are on the network, and
// devices keep to the order of the plan.
//
// Prediction goes through the steps of every candidate with clocks for devices, copy lanes and
// shared resources, on the cost model (predict.go); on the machines that come with weft it agrees
// with the simulator mostly to the nanosecond (testdata/bandwidth.txt). Plan.Explain tells the
// outcome.
//
// # Groups
//
// A group binds the caller's slices to the graph of an operation and prepares it once for each
// size. When a device that takes part is lost, the group ends the run and works the operation out
// anew for the devices left, or with one of them in the place of the lost one, as Options.OnLoss
// says. The group moves no bytes itself but those of operations so small that telling a device takes
// longer (Inline).
//
// With NCCL the devices have joined a communicator before (weft.Runtime.Join), in workers too. When
// a member fails, is lost or is not waited for any more, all of them leave it, and the group does
// the operation by a graph instead. After three failures in a row the library is not used any more.
//
// # Halo exchange
//
// Halo exchange is smaller (Halo): a block's task names the rows around it as what it reads, and
// the pieces of single-assignment form make exactly these rows travel. workload/automata and
// workload/conv by rows are built on it.
package collective
