// Package sched decides: partitioners say how to cut work into ranges, policies say which device a
// ready task goes to, and the rebalancer says which queued tasks should move. All of it is pure:
// the same problem and the same sequence of calls give the same answers, with no clock, lock or map
// order in between.
//
//	ready tasks ──► Situation ──► Policy.Place ──► Placements ──► engine queues
//
// One file per policy and per partitioner; each begins with when to use it.
//
// # Plans
//
// The policy finish rehearses a graph before it begins if the graph has idle devices to itself
// (Planner, plan.go): it goes through the tasks under several rules (rules.go), with lanes, copies
// and shared links as the cost model has them (rehearse.go), and keeps the schedule that ends
// first. Each task then goes to its device of the plan, in the plan's order. A plan is made only
// where it takes a small part of the run, is dropped when a device changes its state, and is kept
// for a graph that comes again.
//
// # Many devices
//
// Tasks with equal kernels, work and constraints share a shape and devices that are alike a class,
// so that a prediction is made once for each shape and class, and anew when the epoch of the cost
// model moves. Where classes are many, those that are nearly alike for a shape are neighbours in an
// order with a tree over it (index.go): of n devices that all differ about √n are looked at, and
// the decision is the same as if each were tried.
//
// # Adding one
//
// A policy is a file and a row of policies in policy.go; a partitioner is a file and a row of
// Partitioners in partition.go. names.go has what other systems call them. Guard keeps the loop
// from harm by a policy of a program.
package sched
