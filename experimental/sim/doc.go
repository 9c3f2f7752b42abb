// Package sim runs the engine in virtual time: the same state machine that drives real devices, on
// a machine read from a file.
//
//	Scenario ─► Run ─► engine.Step ─► actions ─► hardware
//	                       ▲                        │
//	                       └── events, in virtual time ◄── faults, cost model
//
// The hardware is virtual: lanes, memories, links that are shared, and devices that get lost, hang,
// slow down or fail by script. It also checks: an oracle follows what every buffer holds and
// reports the first moment at which an engine reads what is not there, overfills a memory or frees
// what is in use. So a simulation answers two questions, how long it would take and whether it
// would be right.
//
// Everything is a pure function of its configuration: no clock, no files, no goroutines, and the
// same seed gives the same run to the nanosecond.
//
// hardware.go and operate.go perform actions: lanes run in order, copies divide links and shared
// resources fairly (flow.go), noise and faults come from a seed and a script. The oracle compares
// each read and each result with the sequential run of the same graph, and stops at the first read
// of something that is not there, at overfull memory and at the free of what is in use. When all
// runs have ended and resident data was given back, the engine must keep nothing of them
// (Engine.Left). internal/test/bytevm is a second oracle that shares no code with this one.
//
// With Config.Corrupt results are corrupted by a seed and found by the decisions of
// internal/verify.
package sim
